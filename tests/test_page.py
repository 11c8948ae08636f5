"""The page of dmft-plot --html: its numbers are those of the files, and in a headless browser its
sliders move what is drawn."""
import json
import os
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

import dmft
from dmft.plot import command, page, select
from dmft.plot.style import Missing
from texts import text_of

KEYS = {"network.model": "regime2", "solver.sites": 64, "solver.expert_sites": 64,
        "solver.replicates": 3, "training.steps": 5, "reference.widths": [8, 16],
        "reference.seeds": 3}
RATES = ["0.1", "0.2", "0.4"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run, a comparison and a sweep."""
    folder = tmp_path_factory.mktemp("pages")
    out = {name: str(folder / f"{name}.h5") for name in ("run", "both", "rates")}
    dmft.solve(KEYS, output=out["run"], progress=False)
    dmft.compare(KEYS | {"network.parameterization": "mup mssp"}, output=out["both"],
                 progress=False)
    dmft.sweep(KEYS | {"sweep": {"training.eta0": RATES, "network.parameterization": "mup mssp"}},
               output=out["rates"], progress=False)
    return out


def number(values):
    return np.array([np.nan if value is None else value for value in values])


def test_numbers_of_a_page_are_those_of_the_files(files):
    """To the six digits that it has."""
    rates, both = dmft.load(files["rates"]), dmft.load(files["both"])
    found = page.content([rates])
    assert found["axes"] == [["training.eta0", RATES],
                             ["network.parameterization", ["mup", "mssp"]]]
    assert len(found["points"]) == 6
    best = rates.optimum["least_at"].sel({"network.parameterization": "mup", "N": np.inf})
    assert found["first"] == {"against": "training.eta0", "training.eta0": f"{float(best):g}"}
    run = rates.points[0.2, "mssp"]
    for width, data in [("limit", run.limit), ("16", run.reference[16])]:
        mean, half = select.quantity(data, "loss")
        there = found["points"]["0.2|mssp"][width]["loss"]
        assert np.allclose(number(there[0]), mean, rtol=5e-6, atol=0, equal_nan=True)
        assert np.allclose(number(there[1]), half, rtol=5e-6, atol=0, equal_nan=True)
    assert page.content([both])["axes"] == [["parameterization", list(both.sides)]]
    several = page.content([dmft.load(files["run"]), rates.points[0.1, "mup"]])
    assert several["axes"][0][0] == "file" and len(several["points"]) == 2


def test_values_whose_runs_failed_are_named():
    """They have no curves, and no notes of their own."""
    found = page.content([dmft.sweep(KEYS | {"solver.replicates": 0, "training.steps": 9, "sweep": {
        "training.eta0": ["0.1", "1e5"]}}, progress=False)])
    assert found["points"]["100000"] == {} and set(found["points"]["0.1"]) == {"8", "16"}
    assert found["notes"] == [f"100000 N = {N}: every run failed" for N in (8, 16)]


def test_values_that_differ_late_are_two():
    """Seeds of many digits."""
    found = page.content([dmft.sweep(KEYS | {"solver.replicates": 0, "training.steps": 2, "sweep": {
        "data.seed": [20261125, 20261126]}}, progress=False)])
    assert list(found["points"]) == found["axes"][0][1] == ["20261125", "20261126"]


def test_words_of_a_file_end_no_script(files, tmp_path, monkeypatch):
    """An ini and a name of a file may have what HTML and the page's own places are written with."""
    offline = types.ModuleType("plotly.offline")
    offline.get_plotlyjs = lambda: "plotly's own script"
    monkeypatch.setitem(sys.modules, "plotly", types.ModuleType("plotly"))
    monkeypatch.setitem(sys.modules, "plotly.offline", offline)
    ini = "</script> <!-- <script>\n@PLOTLY@ @TITLE@"
    monkeypatch.setattr(dmft.files.Result, "parameters", {"ini": ini})
    words = page.text([dmft.load(files["run"])], "@DATA@ <b>")
    inside = re.search(r'(?s)id="data" type="application/json">(.*?)</script>', words)[1]
    assert "<" not in inside and json.loads(inside)["settings"][0][1] == ini
    assert words.count("@DATA@ &lt;b&gt;") == 2 and words.count("plotly's own script") == 1


def test_files_of_one_name_and_a_sweep_whose_first_point_is_not_there(files, tmp_path):
    copies = [tmp_path / side / "run.h5" for side in ("one", "other")]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy(files["run"], copy)
    found = page.content([dmft.load(str(copy)) for copy in copies])
    assert list(found["points"]) == found["axes"][0][1] == list(map(str, copies))
    folder = str(tmp_path / "rates.d")
    shutil.copytree(files["rates"].removesuffix(".h5") + ".d", folder)
    for path in dmft.load(folder).units().values[0].flat:
        os.remove(path)
    found = page.content([dmft.load(folder)])
    assert found["points"]["0.1|mup"] == {} and "[training]" in found["settings"][0][1]


def test_what_has_no_page_is_refused(files, tmp_path, capsys):
    run, both = dmft.load(files["run"]), dmft.load(files["both"])
    with pytest.raises(Missing, match="run.h5 varies no key and both.h5 varies parameteriz"):
        page.content([run, both])
    out = str(tmp_path / "x.html")
    for more in (["--what", "loss"], ["--times", "1"], ["--kernels", "Phi1"]):
        assert command.main(["--html", out, files["run"], *more]) == 2
        assert "takes files alone" in capsys.readouterr().err
    assert command.main(["--html", str(tmp_path / "no" / "x.html"), files["run"]]) == 2
    assert not os.path.exists(out)
    with open(files["run"], "rb") as file:
        before = file.read()
    assert command.main(["--html", files["run"], files["both"]]) == 2  # the page was forgotten
    assert "a file that ends in .html" in capsys.readouterr().err
    with open(files["run"], "rb") as file:
        assert file.read() == before


def browse(path, choice, script=""):
    """What a browser makes of the page, after a script has run in it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("no chromium here")
    if script:
        text = text_of(path)
        path = path.replace(".html", "_moved.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", f"<script>{script}</script></body>"))
    ended = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
         f"--user-data-dir={path}.profile", "--dump-dom", f"file://{path}#{choice}"],
        capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stderr
    return re.sub(r"(?s)<script\b.*?</script>", "", ended.stdout)


def curves(dom, panel):
    """Numbers of curves that a panel draws."""
    part = dom[dom.index(f'id="{panel}"'):]
    part = part[:part.index('id="across"')] if panel == "over_time" else part
    return len(re.findall(r'class="trace scatter', part))


def test_a_browser_draws_it_and_its_sliders_move(files, tmp_path):
    pytest.importorskip("plotly")
    out = str(tmp_path / "rates.html")
    assert command.main(["--html", out, files["rates"]]) == 0
    text = text_of(out)
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="http', text)
    assert json.loads(re.search(r'(?s)id="data" type="application/json">(.*?)</script>',
                                text)[1])["about"]["loss"]
    dom = browse(out, "t=2&widths=16")
    assert curves(dom, "over_time") == 6 and curves(dom, "across") == 3  # bands and lines
    assert "loss at t = 2" in dom and ">eta0</text>" in dom
    laid = browse(out, "over=parameterization+%3D+mssp")
    assert curves(laid, "over_time") == 12 and curves(laid, "across") == 6
    assert "N = 16, parameterization = mssp" in laid
    assert "network.param" not in laid.split("<pre")[0]
    places = re.findall(r'class="legend"[^>]*translate\([\d.]+, ?([\d.]+)\)', dom)
    assert len(places) == 2 and all(float(y) > 300 for y in places)  # clear of plotly's tools
    moved = browse(out, "t=2&widths=16", """
        for (const [words, place] of [["time t", 3], ["networks up to", 0], ["eta0 =", 1]]) {
          const label = [...document.querySelectorAll("label")].find(
            one => one.textContent.includes(words) && one.querySelector("input[type=range]"));
          label.querySelector("input").value = place;
          label.querySelector("input").dispatchEvent(new Event("input"));
        }""")
    assert "loss at t = 3" in moved and "loss at t = 2" not in moved
    assert curves(moved, "over_time") == 4 and curves(moved, "across") == 2
    first = json.loads(re.search(r'(?s)id="data" type="application/json">(.*?)</script>',
                                 text)[1])["first"]
    assert re.search(rf"eta0 = <b>{first['training.eta0']}</b>", dom)
    assert re.search(r"eta0 = <b>0.2</b>", moved)
