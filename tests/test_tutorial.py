"""The page docs/tutorial.md: the tables that it prints are those of its commands. The sweep of
section 4 takes half a minute of two cores and is run by `make tables-check`."""
import json
import math
import os
import pathlib
import re
import subprocess

import h5py
import pytest
from test_first_hour import ROOT, run, same, words

import dmft
import dmft.plot
from dmft.plot import command

PAGE = (ROOT / "docs/tutorial.md").read_text()
NUMBER = r"\d[\d.]*(?:e[-+]\d+)?"


def table(head: str) -> list[str]:
    """The indented lines of the page from the one that begins so on."""
    lines = PAGE[PAGE.index("    " + head):].splitlines()
    end = next(k for k, line in enumerate(lines) if not line.startswith("    "))
    return [line.strip() for line in lines[:end]]


def near(quoted: str, printed: str) -> bool:
    """Whether a row of optima is the one that the page quotes: the same words, optima and losses to
    a per cent, and the ends of their intervals, which hang on draws, to ten."""
    if words(quoted) != words(printed):
        return False
    if quoted.split()[0] != printed.split()[0]:
        return False
    pairs = zip(re.findall(rf"(\[?)({NUMBER}),? *(\]?)", quoted),
                re.findall(rf"(\[?)({NUMBER}),? *(\]?)", printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.1 if low or high else 0.01)
               for (low, a, high), (_, b, _) in pairs)


@pytest.fixture(name="first", scope="module")
def run_of_section_1(tmp_path_factory):
    """A folder with regime2.h5, and what the run printed."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "data").symlink_to(ROOT / "data")
    return folder, run(["./dmft-solve", "data/regime2.ini"], folder)


def test_the_first_table_is_what_is_printed(first):
    quotes = table("loss, mean with 95 % interval")
    assert len(quotes) == 4
    for quote in quotes:
        assert any(same(quote, line) for line in first[1]), f"{quote}\n" + "\n".join(first[1])
    rows = [quote.split() for quote in quotes[2:]]
    assert f"is between {rows[0][-1]} and {rows[1][-1]}, so the two agree" in PAGE
    assert "the mean losses of 48\nfinite networks of each width" in PAGE
    with h5py.File(first[0] / "regime2.h5") as file:
        assert (file["reference/N0064/n"][:] == 48).all()


def test_the_first_pictures_are_those_that_the_page_names(first, monkeypatch, capsys, sketched):
    monkeypatch.chdir(first[0])
    said = re.search(r"`dmft-plot` writes `(\S+)`, `(\S+)` and three more pictures", PAGE)
    assert command.main(["regime2.h5"]) == 0
    drawn = capsys.readouterr().out.split()
    assert set(said.groups()) < set(drawn) and len(drawn) == 5


def test_scripts_of_the_page_run(first, monkeypatch, capsys):
    """The first draws the run of section 1; the second reads a sweep, here of two rates."""
    scripts = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(scripts) == 2
    monkeypatch.chdir(first[0])
    exec(scripts[0], {})
    assert "loss" in capsys.readouterr().out and (first[0] / "mine.png").exists()
    inis = re.findall(r"```ini\n(.*?)```", PAGE, re.S)
    (first[0] / "rates.ini").write_text(inis[0])
    dmft.sweep("rates.ini", output="rates.h5", progress=False, **SMALL | {
        "sweep.training.eta0": [0.5, 1]})
    exec(scripts[1], {})
    assert "training.eta0" in capsys.readouterr().out


SMALL = {"training.steps": 3, "solver.sites": 64, "solver.expert_sites": 64,
         "solver.replicates": 2, "reference.widths": [64], "reference.seeds": 2}


def test_other_inis_of_the_page_are_taken(tmp_path):
    """The grid of three lines has as many points as the page says, and single matrices vary."""
    inis = re.findall(r"```ini\n(.*?)```", PAGE, re.S)
    assert len(inis) == 4
    (tmp_path / "grid.ini").write_text(inis[0] + inis[2])
    home = pathlib.Path(os.environ.get("DMFT_HOME", ROOT)).resolve()
    done = subprocess.run([home / "dmft-sweep", "--points", "grid.ini"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, check=True)
    axes = [len(axis["values"]) for axis in json.loads(done.stdout)["axes"]]
    assert f"These lines make {' x '.join(map(str, axes))} points" in PAGE
    (tmp_path / "rates.ini").write_text(inis[0] + inis[3])
    found = dmft.sweep(tmp_path / "rates.ini", output=str(tmp_path / "one.h5"), progress=False,
                       **SMALL)
    assert found.sweep.sizes["rates.W_in"] == 3
    (tmp_path / "first.ini").write_text(inis[0])
    dmft.solve(tmp_path / "first.ini", progress=False, **SMALL | {"rates.W_in": "N^-0.5"})
    with pytest.raises(dmft.InputError, match=r"N\^0.5"):
        dmft.solve(tmp_path / "first.ini", progress=False, **SMALL | {"rates.W_in": "N^0.5"})


def test_the_page_says_of_the_intervals_what_stands_in_its_table():
    rows = [re.findall(r"\[([^,]+), ([^\]]+)\]", row)[0]
            for row in table("optimum of training.eta0 by loss")[3:]]
    low, high = min(float(low) for low, _ in rows), max(float(high) for _, high in rows)
    assert f"reach from {low:.2f} to {high:.2f} because" in PAGE


def test_rows_of_optima_are_told_apart():
    """What stood here before is no row of what is printed now."""
    now = [row for row in table("optimum of training.eta0 by loss") if row.startswith("limit")][0]
    before = ("limit  2.517 [2.484, 3.155]  0.0003057 [0.0002351, 0.0003313]  "
              "2.517 [2.492, 3.153]  0.0003047 [0.0002306, 0.000346]")
    assert near(now, now) and not near(before, now) and not near(now.replace("limit", "256"), now)


@pytest.mark.skipif(not os.environ.get("TABLES"), reason="make tables-check: half a minute")
def test_the_table_of_optima_is_what_is_printed(tmp_path):
    inis = re.findall(r"```ini\n(.*?)```", PAGE, re.S)
    (tmp_path / "rates.ini").write_text(inis[0] + inis[1])
    home = pathlib.Path(os.environ.get("DMFT_HOME", ROOT)).resolve()
    done = subprocess.run([home / "dmft-sweep", "rates.ini"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    quotes = table("optimum of training.eta0 by loss") + table("whole curves over training.eta0")
    assert len(quotes) == 7 + 6
    for quote in quotes:
        assert any(near(quote, line) for line in done.stdout.splitlines()), \
            f"{quote}\n" + done.stdout[-2000:]
