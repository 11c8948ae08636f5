"""Several runs on one axis: files, or the parameterizations of a comparison. A colour for each run;
the limit is drawn through, the widest networks dashed."""
from __future__ import annotations

import os

from dmft.files import Result
from dmft.plot import axes as draw
from dmft.plot.layout import legend, panels
from dmft.plot.select import (ensembles, heading, kernels_of, label, name_of, networks, quantity,
                              run_of)
from dmft.plot.style import BANDS, COLOURS, NAMES, Missing, NotThere, short, symbol

# What no picture needs to be told.
QUIET = ("solver.", "output.", "reference.")


def names(runs) -> list[str]:
    """What tells the runs apart: the keys that differ, or else the names of the files.

    >>> names([dmft.load("mup.h5"), dmft.load("mssp.h5")])      # doctest: +SKIP
    ['\u03bcP', 'MSSP']
    """
    keys = [{key: str(value) for key, value in run["parameters"].attrs.items()
             if "." in key and not key.startswith(QUIET)} for run in runs]
    differ = [key for key in dict.fromkeys(key for one in keys for key in one)
              if len({one.get(key) for one in keys}) > 1]
    words = [", ".join(_word(key, one[key]) for key in differ if key in one) for one in keys]
    if 0 < len(differ) <= 3 and len(set(words)) == len(words) and all(words):
        return words
    return [os.path.basename(run.path).split(".h5")[0] for run in runs]


def _word(key: str, value: str) -> str:
    if key == "network.parameterization":
        return NAMES.get(value, value)
    return value if key == "network.model" else f"{short(key)} = {value}"


def overlay(ax, runs, stored: str) -> None:
    """One quantity of all runs that have it: of a list of them, or of the sides of a comparison.

    >>> overlay(plt.gca(), [dmft.load("a.h5"), dmft.load("b.h5")], "loss")      # doctest: +SKIP
    """
    runs = list(runs.sides.values()) if isinstance(runs, Result) and runs.sides else \
        [run_of(run) for run in ([runs] if isinstance(runs, (str, os.PathLike, Result)) else runs)]
    if not any(stored in data for run in runs for _, _, data in ensembles(run)):
        raise NotThere(f"no series {stored} in any of them")
    for run, words, colour in zip(runs, names(runs), COLOURS * len(runs)):
        ax.plot([], [], color=colour, label=words)
        shown = [(data, "-") for _, _, data in ensembles(run)[-1:] if "N" not in data.attrs]
        shown += [(data, (0, (4, 1.5))) for data in networks(run)[-1:]]
        for data, style in shown:
            if stored in data:
                band_of(ax, data, stored, colour, style)
    widest = {label(networks(run)[-1]) for run in runs if networks(run)}
    limit = any("N" not in ensembles(run)[-1][2].attrs for run in runs)
    if limit:
        ax.plot([], [], color="0.4", label=r"$N \to \infty$")
    if widest:
        ax.plot([], [], color="0.4", ls=(0, (4, 1.5)),
                label=widest.pop() if len(widest) == 1 else "widest networks")


def band_of(ax, data, stored, colour, style) -> None:
    mean, half = quantity(data, stored)
    draw.series_band(ax, data, mean, half, colour, ls=style)


def _figure(runs, rows: int, columns: int, *size):
    figure, axes = panels(runs[0], rows, columns, *size)
    common = {name_of(run) for run in runs}
    models = {run["parameters"].attrs["network.model"] for run in runs}
    words = common.pop() if len(common) == 1 else ", ".join(sorted(models))
    late = "" if all(run["/"].attrs["complete"] for run in runs) else "  (incomplete)"
    figure.suptitle(words + late, fontsize=9, x=0.01, ha="left", color="0.35")
    return figure, axes


def figure_loss(runs, _):
    """The losses of all runs on one axis."""
    figure, axes = _figure(runs, 1, 1, 4.2, 3)
    draw.loss_axis(axes[0, 0], runs)
    overlay(axes[0, 0], runs, "loss")
    return legend(figure, axes[0, 0], BANDS)


def figure_kernels(runs, options):
    """An axis for every kernel that all runs have, at equal times, mean over inputs."""
    known = [kernels_of(run) for run in runs]
    common = {name: stored for name, stored in known[0].items()
              if all(one.get(name) == stored for one in known)}
    for name in set(options.kernels or []) - set(common):
        raise NotThere(f"no kernel {name} in all of them; there are {' '.join(common)}")
    shown = {name: common[name] for name in options.kernels or common}
    if not shown:
        raise Missing("no kernel that all of them have")
    figure, axes = _figure(runs, -(-len(shown) // 3), min(len(shown), 3))
    for ax, (name, stored) in zip(axes.ravel(), shown.items()):
        overlay(ax, runs, stored)
        ax.set_title(heading(runs[0], name, stored), fontsize=8)
        ax.set_ylabel(symbol(name))
    for ax in axes.ravel()[len(shown):]:
        ax.set_visible(False)
    return legend(figure, axes[0, 0], "mean over inputs,\n" + BANDS)


FIGURES = {"loss": figure_loss, "kernels": figure_kernels}
