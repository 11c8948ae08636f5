"""Lines that tests/run.sh counts; and pictures that are drawn fast: coarse, of files that are read
once, and but for a few tests without laying out their panels, which takes half of the time."""
import functools
import gc
import importlib.util
import os
import re
import signal
import sys

import dmft.diff
import pytest
from dmft.files import load
from matplotlib import axis, rcParams
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from dmft.plot import STYLE, command, select, sweeps

# Tests that nohup has started ignore it, and so would the programs that they start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# What is imported stays, and hundreds of thousands of objects come and go before garbage is
# looked for: that took a tenth of the time of pictures.
gc.freeze()
gc.set_threshold(200_000, 20, 20)

# Of texts with formulas matplotlib keeps the last fifty; pictures have some hundreds.
MathTextParser._parse_cached = functools.lru_cache(4096)(MathTextParser._parse_cached.__wrapped__)

STYLE |= {"savefig.dpi": 50, "figure.constrained_layout.use": False}
# xarray looks for these thousands of times; that one is not here is found out once.
for module in ("dask", "pint", "cupy", "sparse"):
    if importlib.util.find_spec(module) is None:
        sys.modules[module] = None


@functools.lru_cache(maxsize=16)
def _known(path, *_):
    return load(path)


def read_once(path):
    """What was read before of a file that is the same since: reading takes a third of the time of
    a picture."""
    if not os.path.isfile(path):
        return load(path)
    status = os.stat(path)
    return _known(os.fspath(path), status.st_ino, status.st_mtime_ns, status.st_size)


command.load = select.load = sweeps.load = sys.modules["dmft.diff"].load = read_once


@pytest.fixture
def coarse(monkeypatch):
    """Pictures of which only that they are drawn is judged: without ticks, and with titles at a
    fixed place, which take most of the rest of the time."""
    for ticks in ("get_majorticklocs", "get_minorticklocs"):
        monkeypatch.setattr(Axis, ticks, lambda _: [])
    monkeypatch.setitem(rcParams, "axes.titley", 1.0)


@pytest.fixture
def sketched(monkeypatch, coarse):
    """To lay out panels takes half of the time of a picture; most of the rest are its pixels,
    and the two ticks of each axis that style is kept in, which all of a picture share here."""
    known = {}

    def ticks_of(ticks, one, _):
        what = one.figure, type(one), ticks._major
        known[what] = known.get(what) or [one._get_tick(major=ticks._major)]
        return known[what]
    monkeypatch.setattr(axis._LazyTickList, "__get__", ticks_of)
    save = Figure.savefig
    monkeypatch.setattr(Figure, "set_layout_engine", lambda *_, **__: None)
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: save(figure, path, dpi=20))


KEYS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "ref", "keys.ini")


@pytest.fixture
def choices():
    """choices(key): what a key may be, of data/ref/keys.ini, which test_keys compares with the
    program."""
    def of(key: str) -> set:
        with open(KEYS, encoding="utf-8") as file:
            return set(re.search(rf"\n# Allowed: one of ([\w ]+).*\n(?:# .*\n)*{key} = ",
                                 file.read())[1].split())
    return of


def pytest_report_teststatus(report):
    if report.passed or report.skipped:
        return report.outcome if report.when == "call" or report.skipped else "", "", ""
    return None


def pytest_runtest_logreport(report):
    name = re.sub("[^a-z0-9_]+", "_", report.nodeid.split("::")[-1].lower()).strip("_")
    if report.failed:
        print(f"\n[  FAILED  ] {name}")
    elif report.skipped:
        print(f"[  SKIPPED ] {name}: {report.longrepr[-1]}")
    elif report.when == "call":
        print(f"[       OK ] {name}")
