"""What the scripts of studies/findings share: units of a sweep, numbers with their intervals, the
small tables behind a finding, how pictures look, and the picture of a transformer's losses over its
rates."""
import contextlib
import csv
import os
import sys

import numpy as np

import dmft
from dmft.statistics import student
from dmft.study.curves import Samples
from dmft.study.optimum import Point
from verdict import interval


def units_of(run):
    """The results of all units of a sweep, without those of which networks failed, which are
    named."""
    for path in sorted(set(run.units().values.ravel())):
        if path.endswith(".partial"):
            print(f"{os.path.basename(path)}: networks failed, and are left out")
        else:
            yield dmft.load(path)


def mean_and_half(values):
    """Mean over the runs of [run, ...], and half of its 95 % interval."""
    n = len(values)
    return values.mean(0), student(n - 1) * values.std(0, ddof=1) / n**0.5


def numbers(samples) -> tuple[str, str, str]:
    """(middle, low, high) of samples of a logarithm, for a table."""
    return tuple(f"{value:.4g}" for value in np.exp([np.median(samples), *interval(samples)]))


def samples_of(curve, N: int) -> Samples:
    """The curve of {rate: what the networks of width N end with, NaN where some failed}, to be laid
    on others (dmft/study/curves.py)."""
    points = []
    for rate in sorted(curve):
        runs = np.atleast_1d(curve[rate])
        failed = not np.isfinite(runs).all()
        points.append(Point(np.log(rate), runs.mean(), runs.std(ddof=1) / len(runs) ** 0.5
                            if not failed else np.nan, len(runs), runs, failed))
    return Samples(points, N)


def sentence(one) -> str:
    """1.394 [1.271, 1.583], of such numbers."""
    return "not known" if one[0] == "nan" else f"{one[0]} [{one[1]}, {one[2]}]"


def told(samples) -> str:
    """1.39 [1.27, 1.58], of samples of a logarithm."""
    low, high = np.exp(interval(samples))
    known = 0 < low <= high < np.inf
    return f"{np.exp(np.median(samples)):.3g} [{low:.3g}, {high:.3g}]" if known else "not known"


def write_table(path, head, rows):
    """A table as csv, with one line of names above its rows."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def read_table(path) -> list[tuple[str, ...]]:
    """The rows of a table below their names, as text."""
    with open(path, encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def as_text(rows) -> list[tuple[str, ...]]:
    """Rows as a table that was written has them."""
    return [tuple(map(str, row)) for row in rows]


@contextlib.contextmanager
def house():
    """Pictures look as those of the gallery: colours tell kinds apart, and widths are shades."""
    import matplotlib.pyplot as plt
    from dmft.plot.style import COLOURS, STYLE
    with plt.style.context(STYLE | {"axes.prop_cycle": plt.cycler(color=COLOURS)}):
        yield


def keep(rows, head, draw, out=None, picture=None):
    """Writes rows to a table and draws them as the table has them, each where a path is given."""
    if out:
        write_table(out, head, rows)
    if picture:
        with house():
            draw(as_text(rows), picture)


def command(main, draw):
    """A script of the command line: SCRIPT RESULT.h5 [TABLE.csv [PICTURE.png ...]] calls main, and
    SCRIPT --picture TABLE.csv PICTURE.png draws the rows of a table."""
    words = sys.argv[1:]
    if words[0] == "--picture":
        with house():
            draw(read_table(words[1]), words[2])
    else:
        main(*words)


@house()
def best_on_tests(run) -> float:
    """What the predictor that knows the chain loses on the test inputs of a sweep: it is below the
    average over all inputs that might be drawn, or above it."""
    data = dmft.load(str(run.units().values.flat[0])).data
    chance = data["chain"].values[0][data["tokens_test"].values]
    return float(-(data["y_test"].values * np.log(chance)).sum(-1).mean())


def draw_sides(run, side, rate, path):
    """Test losses of a sweep over the rate, a panel for each parameterization, and what the best
    predictor loses on the same inputs. side, rate: keys."""
    import matplotlib.pyplot as plt
    from dmft.plot.style import NAMES
    from dmft.plot.sweeps import losses
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8, 3.2), layout="constrained")
    best = best_on_tests(run)
    for ax, name in zip(axes, run.sweep[side].values):
        losses(ax, run.sweep.drop_vars("floor").sel({side: name}), rate)
        ax.axhline(best, color="0.4", ls=":", lw=1.2, zorder=1,
                   label="best predictor,\non these inputs")
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$", title=NAMES.get(name, str(name)))
    axes[0].set_ylabel("test loss")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)
