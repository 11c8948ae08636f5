"""The studies behind docs/gallery.md made small, a few or, with LONG=1, all;
the table, the page and README.md in step; the runs of a sweep in their order. Run by
tests/python.sh."""
import configparser
import os
import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dmft
from dmft.plot.select import widths_of
from texts import text_of

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "studies"))
gallery = pytest.importorskip("gallery", reason="studies/ need Python 3.11")
common = pytest.importorskip("common")

PARAMETERIZATION = "network.parameterization"
TABLE = gallery.table()
STUDIES = list(dict.fromkeys(study for entry in TABLE.values() for study in entry["data"]))
SHORT = ("fig1_regime2", "simp", "jiang_balance", "lazy_rich")
KEPT = ("lazy_rich",)  # of networks and a limit
WHOLE = ("cures_regime2", "jiang_collapse")  # read off at widths of their own


def small(study: str, folder) -> str:
    """A copy of an ini with few rates, widths, seeds, steps, sites; a text is README.md."""
    text = re.sub(r"logspace\((.*), \d+\)", r"logspace(\1, 3)", text_of(gallery.ini_of(study)))
    less = {"seeds": "2", "steps": "5", "sites": "32", "expert_sites": "16", "unit_sites": "16",
            "test_every": "4"}
    for key, value in less.items():
        text = re.sub(rf"(?m)^{key} = .*", f"{key} = {value}", text)
    text = re.sub(r"(?m)^replicates = [1-9].*", "replicates = 2", text)
    text = re.sub(r"(?m)^fields_at = .*", "fields_at = 0 3 4", text)
    if study not in WHOLE:
        text = re.sub(r"(?m)^widths = (\d+) .*", "widths = 16 32", text)
    text = text.replace("file = ../data/fashion_32.h5", f"file = {ROOT}/data/fashion_32.h5")
    text = text.replace("file = ../data/kjv.txt\ninputs = 6416\ntest_inputs = 64",
                        f"file = {ROOT}/README.md\ninputs = 80\ntest_inputs = 8")
    path = folder / f"{study}.ini"
    path.write_text(text)
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder with the files of all studies, made when they are asked for."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", TABLE if os.environ.get("LONG") else SHORT)
def test_every_study_gives_a_picture(data, name, monkeypatch, sketched):
    for study in TABLE[name]["data"]:
        if not (data / f"{study}.h5").exists():
            dmft.sweep(small(study, data), output=str(data / f"{study}.h5"), progress=False)
    out = data / f"{name}.png"
    if name in KEPT:
        monkeypatch.setattr(gallery, "KEPT", str(data))
        seen, _ = gallery.draw_and_keep(name, TABLE[name], str(data), str(out))
        again = data / f"{name}_again.png"
        assert gallery.draw_kept(name, TABLE[name], str(again))[0] == seen
        assert again.read_bytes() == out.read_bytes()
        whole = sum(path.stat().st_size for study in TABLE[name]["data"]
                    for path in (data / f"{study}.d").glob("*.h5"))
        assert os.path.getsize(gallery.kept_of(name)) < whole / 8
    else:
        seen, _ = gallery.draw(name, TABLE[name], str(data), str(out), dpi=40)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert seen and all(sentence for _, sentence in seen)
    if name == "fig1_regime2":
        runs_belong_to_their_points(dmft.load(data / "fig1_regime2.h5"))


@pytest.mark.parametrize("name", [name for name in TABLE if os.path.exists(gallery.kept_of(name))
                                  and (os.environ.get("LONG") or name in KEPT)])
def test_the_page_says_what_was_kept(name, tmp_path, sketched):
    seen, rows = gallery.draw_kept(name, TABLE[name], str(tmp_path / "picture.png"))
    page = text_of("docs", "gallery.md")
    for line in gallery.section(name, TABLE[name], seen, rows, 0):
        assert "core-minutes" in line or line in page


def runs_belong_to_their_points(run):
    """The keys in the file of each run, and its loss at the end, are those of the point."""
    loss, points = run.sweep["loss"], run.points
    assert len(points) == 2
    for (name,), point in points.items():
        assert point.parameters[PARAMETERIZATION] == name
        part = loss.sel({PARAMETERIZATION: name})
        for N, data in widths_of(point, 2):
            assert np.isclose(part.sel(N=N), data["loss"][-1], rtol=1e-14)
        assert np.isclose(part.sel(N=np.inf), point.limit["loss"][-1], rtol=1e-14)


def test_table_and_studies():
    """Every ini is drawn somewhere, and is a sweep."""
    inis = {name.removesuffix(".ini") for name in os.listdir(os.path.join(ROOT, "studies"))
            if name.endswith(".ini")}
    assert inis == set(STUDIES)
    for study in STUDIES:
        ini = configparser.RawConfigParser(strict=True, delimiters="=")
        ini.read(gallery.ini_of(study))
        assert ini.has_section("sweep"), study
    for name, entry in TABLE.items():
        assert set(entry) <= {"data", "title", "figures", "claim", "note"}, name
    assert f"has {len(TABLE)} such pictures" in text_of("README.md")


def test_page():
    """docs/gallery.md has a section for every study, with what the table says of it; pictures are
    there and small, and no others."""
    page = text_of("docs", "gallery.md")
    assert not re.search(r"\bnan\b", page)
    parts = dict(re.findall(r"(?ms)^## (\w+)\n(.*?)(?=^## |\Z)", page))
    assert list(parts) == list(TABLE)
    for name, entry in TABLE.items():
        for word in ("title", "figures", "claim", "note"):
            assert entry.get(word, "") in parts[name], (name, word)
        assert all(f"`studies/{study}.ini`" in parts[name] for study in entry["data"])
        assert re.search(r"(?m)^- (shown|\*\*contradicted\*\*|\*\*cannot tell\*\*): ", parts[name])
    assert not re.search(r"[\d ]\*[,; :]", page), "two stars without a backslash slant a text"
    name = next(iter(TABLE))
    assert gallery.section(name, TABLE[name], [("seen", "best 0.3*, 0.2*")], [], 1)[-1] == \
        r"- seen: best 0.3\*, 0.2\*"
    assert gallery.together([("seen", ""), (True, ""), ("seen", "")]) == "shown"
    assert gallery.together([("seen", ""), (True, ""), (None, "")]) == "1 shown, 1 cannot tell"
    pictures = os.path.join(ROOT, "docs", "gallery")
    assert sorted(os.listdir(pictures)) == sorted(f"{name}.png" for name in TABLE)
    assert all(os.path.getsize(os.path.join(pictures, name)) < gallery.LARGEST
               for name in os.listdir(pictures))


def test_readme(data, tmp_path, monkeypatch, sketched):
    """Its Python makes its picture, its links are there, and the Lua of docs/networks.md runs."""
    readme = text_of("README.md")
    for link in re.findall(r"\]\(([^)#]+)", readme):
        assert "://" in link or os.path.exists(os.path.join(ROOT, link)), link
    python, = [block for block in re.findall(r"(?s)```python\n(.*?)```", readme)
               if "mup_mssp.png" in block]
    assert len(python.splitlines()) == 5
    ini = os.path.abspath(small("fig1_regime2", tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "a `NoteWarning` then says" in readme
    with pytest.warns(dmft.NoteWarning, match="a limit rests"):
        exec(python.replace('"studies/fig1_regime2.ini"', f'{ini!r}, progress=False'), {})
    plt.close("all")
    assert (tmp_path / "mup_mssp.png").exists()
    lua, = re.findall(r"(?s)```lua\n(.*?)```", text_of("docs", "networks.md"))
    (tmp_path / "mine.lua").write_text(lua)
    run = dmft.solve({"network.program": str(tmp_path / "mine.lua"), "training.steps": 3,
                      "solver.sites": 32, "solver.replicates": 2}, progress=False)
    assert {"Phi1_diag", "Phi2_diag", "G_diag"} <= set(run.limit)


def test_numbers_with_errors():
    """1.39(2), and exponents through powers known exactly."""
    assert [common.pm(*pair) for pair in ((1.394, 0.021), (0.0046, 0.0006), (22.31, 0.6), (350, 20),
                                          (0.0999, 0.0096), (2.0, np.nan))] == \
        ["1.39(2)", "0.0046(6)", "22.3(6)", "350(20)", "0.10(1)", "2"]
    N = np.array([32.0, 64, 128])
    power, half = common.slope(N, 3 * N**-0.5, 0.1 * N**-0.5)
    assert np.isclose(power, -0.5, rtol=1e-12)
    assert np.isclose(half, (0.1 / 3) / (np.log(2) * np.sqrt(2)), rtol=1e-12)


def test_refusals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="no study what; there are mup_mssp"):
        gallery.main(["what"])
    with pytest.raises(SystemExit, match="no study"):
        gallery.main([])


def test_what_is_said_of_rates():
    """Optima of three widths with intervals of 5 %: verdicts on how they and the losses change."""
    import verdict
    import xarray
    from scaling import transfers
    N, spread = np.array([64.0, 128.0, 256.0]), np.exp(0.025 * np.linspace(-1, 1, verdict.COUNT))

    def best(at, loss, reason=0):
        rows = {"at_samples": at, "objective_samples": loss}
        return xarray.Dataset({key: (("N", "sample"), np.outer(row, spread)) for key, row in
                               rows.items()} | {"reason": ("N", [0.0, 0.0, reason])}, {"N": N})

    same, grows, falls = [1.0, 1.0, 1.0], [1.0, 1.3, 1.69], [1.0, 0.7, 0.49]
    for at, loss, claim, truth in (
            (same, falls, ("stays", "better"), (True, True)),
            (same, grows, ("stays", "better"), (True, False)),
            (grows, falls, ("stays", "better"), (False, True)),
            (grows, grows, ("rises", "worse"), (True, True)),
            (same, grows, ("rises", "worse"), (False, True)),
            (falls, same, ("falls", "any"), (True, verdict.SEEN)),
            (same, same, ("stays", "better"), (True, None)),
            (same, same, ("rises", "no better"), (False, True))):
        def said(reason=0):
            return tuple(good for good, _ in transfers(best(at, loss, reason), *claim))
        assert said() == truth, claim
        assert said(reason=4) == (None, truth[1] if claim[1] == "any" else None), "not known"
    assert common.told(xarray.Dataset({
        "reason": ("N", [0.0, 4.0]), "at": ("N", [1.394, np.nan]), "low": ("N", [1.271, 0.1]),
        "high": ("N", [1.583, 9]), "least_at": ("N", [1.4, 2.0])})) == "1.39 [1.27, 1.58], 2*"
