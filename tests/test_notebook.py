"""What notebooks show of results, and Result.plot. Run by tests/python.sh."""
import html.parser
import math
import os
import re

import matplotlib.pyplot as plt
import pytest
from refusing import refuses

import dmft
from dmft.notebook import _number

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = {"solver.sites": 64, "training.steps": 6, "reference.widths": [16, 32],
         "reference.seeds": 3}
VOID = {"img", "br"}


class Page(html.parser.HTMLParser):
    """The cells of tables, row by row; fails on a tag that is not closed in its place."""

    def __init__(self, text: str):
        super().__init__()
        self.rows, self._open = [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, _):
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def run():
    return dmft.solve(os.path.join(HERE, "..", "data", "dense.ini"), progress=False, **SMALL)


def test_a_run_shows_its_losses(run):
    head, *rows = Page(run._repr_html_()).rows
    assert head == ["t", "limit", "N = 16", "N = 32"] and [row[0] for row in rows] == list("012345")
    for row in rows[1:]:
        for cell, data in zip(row[1:], [run.limit, run.reference[16], run.reference[32]]):
            mean, error = re.fullmatch(r"([\d.]+)\((\d+)\)", cell).groups()
            unit = 10.0 ** -len(mean.partition(".")[2])
            at = data.sel(t=int(row[0]))
            assert math.isclose(float(mean), at["loss"], abs_tol=0.51 * unit)
            assert math.isclose(int(error) * unit, at["loss_se"], abs_tol=0.51 * unit)


def test_numbers_with_their_errors():
    assert _number(0.25083, 0.0012) == "0.2508(12)" and _number(3, 0) == "3"
    assert _number(1.5, math.nan) == "1.5" and _number(math.nan, 1) == "&ndash;"
    assert _number(12.3, 2.4) == "12.3(24)" and _number(5e-12, 2e-13) == "5e-12 &plusmn; 2e-13"


def test_notes_are_shown_and_mark_what_does_not_hold(run):
    limit = run.limit.assign_attrs(valid_until=3.0)
    note = dmft.Note("x", "warning", "a < b & c", "limit", 3)

    class Doubtful(dmft.Result):
        notes = [note]
    shown = Doubtful("a<b>.h5", {**run, "limit": limit})._repr_html_()
    rows = Page(shown).rows
    assert [row[1].endswith("*") for row in rows[1:]] == [False] * 3 + [True] * 3
    assert not any(row[2].endswith("*") for row in rows[1:])
    assert "warning: limit: a &lt; b &amp; c" in shown and "a&lt;b&gt;.h5" in shown


def test_comparisons_and_sweeps_are_shown(tmp_path):
    both = dmft.compare(os.path.join(HERE, "..", "data", "regime2_compare.ini"), progress=False,
                        **SMALL, **{"solver.expert_sites": 64})
    shown = both._repr_html_()
    Page(shown)
    assert "<h4>mup</h4>" in shown and "<h4>mssp</h4>" in shown
    rates = dmft.sweep({"sweep": {"training.eta0": [0.2, 0.4, 0.8]}, "network.model": "dense",
                        **SMALL}, output=str(tmp_path / "rates.h5"), progress=False)
    head, *rows = Page(rates._repr_html_()).rows
    assert head == ["N", "best", "there"] and [row[0] for row in rows] == ["16", "32", "limit"]
    known = rates.optimum.assign(at=rates.optimum["at"] * 0 + 0.25)
    known["at"].values[0], known["low"].values[0], known["high"].values[0] = 0.4, 0.3, 0.5
    shown = dmft.Result("x.h5", {**rates, "optimum": known})._repr_html_()
    assert "0.4 [0.3, 0.5]" in shown
    reason = rates.optimum.attrs["reasons"].split("; ")[int(rates.optimum["reason"][1])]
    assert Page(shown).rows[2][1] == reason.partition(": ")[2]


def test_pictures(run):
    figure = run.plot()
    assert figure.axes and figure.axes[0].get_ylabel().startswith("loss")
    assert run.plot("kernels", kernels=["Phi1"]).axes
    refuses("what = 'colours': allowed are loss kernels", run.plot, "colours")
    refuses("the network has no router", run.plot, "gates")
    refuses("x = 'parameters' is of a sweep", run.plot, x="parameters")
    plt.close("all")
