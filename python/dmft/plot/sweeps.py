"""Pictures of sweeps: the objective over the grid, and where it is smallest at every width."""
from __future__ import annotations

import os

import matplotlib.pyplot as plt
import numpy as np
import xarray
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from dmft.errors import InputError
from dmft.files import Result, load
from dmft.folder import COUNTS
from dmft.plot.layout import legend
from dmft.plot.select import MOST, number, shades, student
from dmft.plot.style import BARS, COLOURS, NAMES, Missing, NotThere, short

MARKERS = "osD^v<>p"  # hollow ones can be told from filled ones
SYMBOLS = {"training.eta0": r"learning rate $\eta_0$", "training.gamma0": r"$\gamma_0$",
           "network.kappa": r"$\kappa$", "network.parameterization": "parameterization"}


WORDS = {"loss": "training loss at the end", "test_loss": "test loss at the end",
         "smooth_loss": "training loss, last pass"}


def compared(sweep) -> tuple[str, str]:
    """What the points of a sweep are compared by: the name of its dataset and words for an axis. It
    is the objective of the sweep; of one in progress, which has none yet, the loss."""
    if "objective" not in sweep:
        return "loss", WORDS["loss"]
    name = str(sweep.attrs.get("objective", "objective"))
    return "objective", WORDS.get(name, name)


def along(sweep, optimum=None) -> str | None:
    """The key on the x axis: that of the optimum, else the first with two numbers or more."""
    keys = [dim for dim in sweep["loss"].dims if dim != "N" and sweep.sizes[dim] > 1
            and sweep[dim].dtype.kind in "if"]
    if optimum is not None and optimum.attrs.get("key") in sweep["loss"].dims:
        return optimum.attrs["key"]
    return keys[0] if keys else None


def taken(sweep, optimum=None):
    """(sweep, optimum) of what a picture is asked for: Datasets, or a Result that has them, or the
    path of its file."""
    if isinstance(sweep, (str, os.PathLike)):
        sweep = load(sweep)
    if isinstance(sweep, Result):
        optimum = sweep.optimum if optimum is None and "optimum" in sweep else optimum
        sweep = sweep.sweep
    if not isinstance(sweep, xarray.Dataset) or "N" not in sweep.get("loss", sweep).dims:
        raise InputError("a picture of a sweep takes its result, the path of its file, or its "
                         f"Dataset rates.sweep, and no other {type(sweep).__name__}")
    return sweep, optimum


def cells(sweep, key: str | None) -> list[dict]:
    """{axis: value} of every combination of the other keys, in the order of the grid."""
    others = [dim for dim in sweep["loss"].dims if dim not in ("N", key)]
    return [{dim: sweep[dim].values.tolist()[k] for dim, k in zip(others, index)}
            for index in np.ndindex(*(sweep.sizes[dim] for dim in others))]


def words_of(cell: dict, varying=None) -> str:
    """\u03bcP, gamma0 = 0.5: the keys of a point that vary."""
    words = []
    for axis, value in cell.items():
        if varying is None or axis in varying:
            keys = ", ".join(map(short, axis.split(",")))
            words.append(NAMES.get(value, value) if axis == "network.parameterization" else
                         f"{keys} = {number(value)}" if isinstance(value, (int, float)) else
                         f"{keys} = {value}")
    return ", ".join(words)


def name_of_axis(key: str) -> str:
    """What stands beside an axis of this key."""
    return SYMBOLS.get(key, short(key))


def scale(axis, values) -> None:
    """Logarithmic where the values are positive and spread tenfold or so, with few ticks."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    if len(values) == 0 or values.min() <= 0 or values.max() < 4 * values.min():
        axis.set_major_locator(MaxNLocator(5))
        if axis.get_scale() == "log":
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    wide = values.max() > 100 * values.min()
    axis.set_major_locator(LogLocator(subs=[1] if wide else [1, 2, 5], numticks=9))
    if not wide:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def key_axis(axis, values) -> None:
    """An axis of the values of a key: ticks at these where they are few, short and apart, so that
    the first and the last are among them."""
    values = np.unique(np.asarray(values, dtype=float))
    scale(axis, values)
    words = [f"{value:g}" for value in values]
    places = np.log(values) if axis.get_scale() == "log" else values
    if len(words) > 1 and max(map(len, words)) <= 4 and \
            np.diff(places).min() > 0.11 * np.ptp(places):
        axis.set_ticks(values, words)
        axis.set_ticks([], minor=True)


def around(ax, low: float, high: float) -> tuple[float, float]:
    """Limits of the y axis, in which points at both ends are whole."""
    if ax.get_yscale() == "log":
        room = (high / low) ** 0.05
        return low / room, high * room
    room = 0.05 * (high - low)
    return low - room, high + room


def widths_axis(ax, N, label: str = "width $N$") -> list:
    """Places of widths, or of other numbers, on a logarithmic axis that has ticks there and nowhere
    else; the limit stands right of the largest."""
    finite = [n for n in N if np.isfinite(n)]
    last = max(finite, default=1)
    places = [n if np.isfinite(n) else 2 * last for n in N]
    ax.set(xscale="log", xlabel=label)
    ax.xaxis.set_major_locator(plt.FixedLocator(places))
    ax.xaxis.set_major_formatter(plt.FixedFormatter(
        [f"{n:g}" if np.isfinite(n) else r"$\infty$" for n in N]))
    ax.xaxis.set_minor_locator(NullLocator())
    return places


def half_bars(part):
    """95 % of the objective, down and up; on a logarithmic axis, down to a tenth at most."""
    name, _ = compared(part)
    half = np.nan_to_num(part[name + "_se"].values * student(np.maximum(part["n"].values - 1, 1)))
    return np.array([np.minimum(half, 0.9 * np.abs(part[name].values)), half])


def extent(sweep) -> tuple[float, float]:
    """From the lowest end of a bar, median or floor to the highest end."""
    name, _ = compared(sweep)
    down, up = half_bars(sweep)
    values = sweep[name].values
    medians = sweep[name + "_median"].values if name + "_median" in sweep else values
    medians = np.where(np.isfinite(sweep["N"].values), medians, np.nan)  # of networks alone
    drawn = [values - down, values + up, medians, [floor_of(sweep)]]
    drawn = np.concatenate([np.ravel(part) for part in drawn])
    return float(np.nanmin(drawn)), float(np.nanmax(drawn))


def doubtful(one) -> np.ndarray:
    """Where no point is to be trusted: a limit that the table marks by c (not self-averaging), e
    (at the edge of stability) or u (random vectors not orthogonal), of these where they are more
    than one for each site, since biases of fewer are small; and any mean whose interval reaches
    down to an eighth of it, as it does where one of three runs or more is more than half of it (*):
    of n runs the standard error is then at least (n/2 - 1)/(n (n - 1))^(1/2) of the mean."""
    name, _ = compared(one)
    marks = {"self_averaging": lambda x: x == 0, "edge_of_stability": lambda x: x > 0,
             "unmatched": lambda x: x > 1}
    bad = [is_bad(one[mark].values) for mark, is_bad in marks.items() if mark in one]
    bad = np.any(bad, axis=0) if bad else np.zeros(one["loss"].shape, bool)
    limit = np.broadcast_to(np.isinf(one["N"].values), bad.shape)
    value = one[name].values
    return np.isfinite(value) & ((bad & limit) | (half_bars(one)[1] >= 0.875 * np.abs(value)))


def dodged(x, k: int, count: int):
    """Places of the k-th of several curves over the same values of a key, a little apart."""
    x = np.asarray(x, dtype=float)
    shift = (k - (count - 1) / 2) * min(0.06, 0.24 / max(count, 1))
    apart = x[x > 0] if (x > 0).all() else x
    if len(x) < 2:
        return x
    if (x > 0).all():
        return x * np.exp(shift * np.diff(np.log(np.sort(apart))).min())
    return x + shift * np.diff(np.sort(apart)).min()


def floor_of(sweep) -> float:
    """The loss of the best predictor, where the law of the data is known, the same at all points,
    and the objective is a loss of theirs; else NaN."""
    values = sweep["floor"].values if "floor" in sweep else np.array([np.nan])
    known = values[np.isfinite(values)]
    a_loss = "objective" not in sweep or sweep.attrs.get("objective") in WORDS
    return float(known[0]) if a_loss and len(known) and np.ptp(known) == 0 else np.nan


def floor(ax, sweep) -> None:
    """A line at the loss of the best predictor, where there is one."""
    if np.isfinite(level := floor_of(sweep)):
        ax.axhline(level, color="0.4", ls=":", lw=1.2, zorder=1,
                   label="best predictor,\non average")


def losses(ax, sweep, key: str | None = None) -> None:
    """The objective of a sweep, its Result or a part of its Dataset, against a key (by default that
    of the optimum) at every width (at most three of them, and the limit), of one combination of the
    other keys: means with bars, medians as dashed lines with small crosses. A limit that rests is
    left out; hollow points, at which the curve is broken, are not to be trusted (doubtful).

    >>> losses(plt.gca(), dmft.load("rates.h5"))                                # doctest: +SKIP
    >>> losses(plt.gca(), rates.sweep.sel({"network.depth": 2}), "training.eta0")
    ...                                                                         # doctest: +SKIP
    """
    part, optimum = taken(sweep)
    key = key or along(part, optimum)
    dims = [dim for dim in part["loss"].dims if dim != "N"]
    numbers = [dim for dim in dims if part[dim].dtype.kind in "iuf"]
    if key is not None and key not in numbers:
        raise NotThere(f"losses are drawn against a key of numbers that is swept, and {key} is none"
                       + (f"; this sweep has {', '.join(numbers)}" if numbers else ""))
    others = [dim for dim in dims if dim != key]
    if key is None or others:
        raise NotThere("losses are drawn against a key of numbers; the sweep has none" if not key
                       else f"losses are of one value of {', '.join(others)}: take "
                       "rates.sweep.sel({key: value})")
    N, (name, _) = part["N"].values, compared(part)
    finite = np.flatnonzero(np.isfinite(N))
    some = [finite[round(k)] for k in np.linspace(0, len(finite) - 1, min(MOST, len(finite)))]
    styles = {c: {"color": colour, "lw": 1.2, "ms": 3, "zorder": 3, "label": f"$N = {N[c]:.0f}$"}
              for c, colour in zip(some, shades(len(some)))}
    styles |= {c: {"color": "black", "lw": 2.4, "ms": 5, "zorder": 2, "label": r"$N \to \infty$"}
               for c in np.flatnonzero(np.isinf(N))}
    for k, (c, style) in enumerate(styles.items()):
        one = part.isel(N=c)
        if "rests" in one and (one["rests"] == 1).all():
            ax.text(0.97, 0.97, r"$N \to \infty$ rests", transform=ax.transAxes, ha="right",
                    va="top", fontsize=8)
            continue
        x, bad, bars = dodged(one[key].values, k, len(styles)), doubtful(one), half_bars(one)
        good = np.where(bad, np.nan, one[name].values)
        if np.isfinite(good).any():
            ax.errorbar(x, good, bars, marker="o", **style)
        else:  # of no point matplotlib warns; the legend has its curve
            ax.plot([], [], marker="o", **style)
        if bad.any():
            y, noise = one[name].values[bad], style | {"label": None, "lw": 0.8, "zorder": 5}
            ax.vlines(x[bad], y - bars[0, bad], y + bars[1, bad], color=style["color"], lw=0.8,
                      zorder=4.5)
            ax.plot(x[bad], y, "o", mfc="white", **noise)
        if name + "_median" in one and np.isfinite(one["N"]):
            ax.plot(x, one[name + "_median"].values, marker="x", **style | {
                "ls": "--", "lw": 0.9, "ms": 3.5, "mew": 0.8, "label": None, "zorder": 4})
    floor(ax, part)
    ax.set(xlabel=name_of_axis(key))
    key_axis(ax.xaxis, part[key].values)


def places(best):
    """Where the optima are, with bars of 95 % down and up, of every entry; where none is known the
    best value of the grid, and no bars; and whether it is known."""
    known = best["reason"].values == 0
    at = np.where(known, best["at"], best["least_at"])
    bars = [at - best["low"].values, best["high"].values - at]
    return at, np.where(known, bars, 0), known


def optima(ax, sweep, optimum=None) -> None:
    """Where the mean of the objective of a sweep is smallest, of its Result or of its Dataset and
    its optimum, against the width, with intervals of 95 %, for every combination of other keys, and
    where its median is, dashed; hollow, and without a bar, the best value of the grid where no
    optimum is known."""
    sweep, optimum = taken(sweep, optimum)
    if optimum is None:
        raise NotThere("the sweep has no optimum")
    key = optimum.attrs["key"]
    widths, points = widths_axis(ax, optimum["N"].values), cells(sweep, key)
    ends = []
    for k, cell in enumerate(points):
        best, x = optimum.sel(cell), dodged(widths, k, len(points))
        colour, (at, bars, inside) = COLOURS[k % 7], places(best)
        ax.errorbar(x, at, bars, color=colour, lw=1.1, capsize=2,
                    marker=MARKERS[k % 8], ms=4.5, label=words_of(cell) or None)
        ax.plot(np.array(x)[~inside], at[~inside], MARKERS[k % 8], color=colour, ms=4.5,
                mfc="white", zorder=4)
        ends += [*(at - bars[0]), *(at + bars[1])]
        if "median_at" in best:
            ax.plot(x, best["median_at"].values, color=colour, lw=0.9, ls="--")
            ends += [*best["median_at"].values]
    grid = np.sort(sweep[key].values)
    key_axis(ax.yaxis, grid)
    # from the value of the grid below all of them to that above
    first = max(np.searchsorted(grid, np.nanmin(ends)) - 1, 0)
    last = min(np.searchsorted(grid, np.nanmax(ends), "right"), len(grid) - 1)
    ax.set(ylim=around(ax, grid[first], grid[last]), title="optimum" + (
        "" if np.isin(optimum["reason"].values, (0, 8)).all() else "  (hollow: not known)"))
    ax.set_ylabel("optimal " + name_of_axis(key))


def against_width(ax, sweep) -> None:
    """The objective against the width, of sweeps without a key of numbers."""
    sweep, _ = taken(sweep)
    name, words = compared(sweep)
    x = widths_axis(ax, sweep["N"].values)
    for k, cell in enumerate(cells(sweep, None)):
        part = sweep.sel(cell)
        half = part[name + "_se"].values * student(np.maximum(part["n"].values - 1, 1))
        ax.errorbar(x, part[name].values, np.nan_to_num(half), color=COLOURS[k % 7], capsize=2,
                    marker=MARKERS[k % 8], ms=4.5, lw=1.1, label=words_of(cell) or None)
    floor(ax, sweep)
    ax.set_ylabel(words)
    scale(ax.yaxis, sweep[name].values)


def against(ax, sweep, size: str, optimum=None) -> None:
    """The objective against how large networks are or what they cost (size: parameters,
    active_parameters, flops_per_token, flops_per_step), a line through the widths for every
    combination of keys. With an optimum, and where its key changes no size, the objective is that
    at the best value of the key: hollow and without a bar at the best of the grid, where no optimum
    is known. Dotted: the limit, which has no size.

    >>> against(plt.gca(), rates, "active_parameters")                          # doctest: +SKIP
    """
    sweep, optimum = taken(sweep, optimum)
    if size not in COUNTS or size not in sweep:
        raise NotThere(f"no {size}; sizes of networks are {' '.join(COUNTS)}")
    key, (name, words) = None, compared(sweep)
    finite = np.isfinite(sweep["N"].values)
    if optimum is not None:
        first = sweep[size].isel({optimum.attrs["key"]: 0})
        if (sweep[size] == first).isel(N=finite).all():
            key = optimum.attrs["key"]
    for k, cell in enumerate(cells(sweep, key)):
        part = sweep.sel(cell)
        x = part[size].values if key is None else part[size].isel({key: 0}).values
        if key is None:
            y, bars = part[name].values, np.nan_to_num(half_bars(part))
            known = np.isfinite(y)
        else:
            best = optimum.sel(cell)
            known = best["reason"].values == 0
            y = np.where(known, best["objective"], best["least"])
            bars = np.where(known, [y - best["objective_low"], best["objective_high"] - y], 0)
        style = {"color": COLOURS[k % 7], "lw": 1.1}
        ax.errorbar(x[finite], y[finite], bars[:, finite], capsize=2, marker=MARKERS[k % 8],
                    ms=4.5, mfc="none", label=words_of(cell) or None, **style)
        ax.plot(x[known & finite], y[known & finite], MARKERS[k % 8], ms=4.5, color=COLOURS[k % 7])
        for level in y[~finite & np.isfinite(y)]:
            ax.axhline(level, ls=":", zorder=1, **style)
    floor(ax, sweep)
    ax.set(xscale="log", xlabel=size.replace("_", " "),
           ylabel=words + (f"\nat the best {name_of_axis(key)}" if key else ""))
    scale(ax.xaxis, sweep[size].values)
    scale(ax.yaxis, sweep[name].values)


def figure(run, options=None):
    """A panel for every combination of other keys, and the optimum of all of them; against a size
    of the networks, where one is asked for, one panel."""
    sweep, optimum = run["sweep"], run["optimum"] if "optimum" in run else None
    size = getattr(options, "x", None)
    if size:
        picture, ax = plt.subplots(figsize=(6, 3.4))
        against(ax, sweep, size, optimum)
        return legend(picture, ax, "dotted: $N \\to \\infty$\nhollow: optimum not known\n" + BARS)
    key, (name, words) = along(sweep, optimum), compared(sweep)
    if not np.isfinite(sweep[name].values).any():
        raise Missing("every run failed")
    if not key:
        picture, ax = plt.subplots(figsize=(5.5, 3.2))
        against_width(ax, sweep)
        return legend(picture, ax, BARS)
    points = cells(sweep, key)
    if len(points) > 12:
        raise Missing(f"{len(points)} combinations of the other keys are too many for one picture; "
                      "take some of them by dmft.load and draw them with dmft.plot.sweeps.losses")
    count = len(points) + (optimum is not None)
    columns = count if count <= 4 else min(-(-count // 2), 4)
    rows = -(-count // columns)
    picture, grid = plt.subplots(rows, columns, figsize=(2.9 * columns + 1.2, 2.7 * rows + 0.3),
                                 squeeze=False)
    low, high = extent(sweep)
    for ax, cell in zip(grid.flat, points):
        losses(ax, sweep.sel(cell), key)
        ax.set_title(words_of(cell))
        scale(ax.yaxis, sweep[name].values)
        if 0 < low < high:
            ax.set_ylim(around(ax, low, high))
    for ax in grid[:, 0]:
        ax.set_ylabel(words)
    if optimum is not None:
        optima(grid.flat[len(points)], sweep, optimum)
        if len(points) > 1:
            free = count < grid.size  # the place of a panel beside it
            beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1)} if free else {"loc": "best"}
            grid.flat[len(points)].legend(**beside).set_in_layout(False)
    for ax in list(grid.flat)[count:]:
        ax.set_visible(False)
    if not run["/"].attrs["complete"]:
        picture.suptitle("(incomplete)", fontsize=9, x=0.01, ha="left", color="0.35")
    # an axis with all ensembles: of the limits some may rest
    full = max(grid.flat[:len(points)], key=lambda ax: len(ax.get_legend_handles_labels()[0]))
    hollow = "hollow: do not trust\n" if doubtful(sweep).any() else ""
    return legend(picture, full, "crosses: medians\n" + hollow + BARS)


def figure_together(runs, _=None):
    """The limits (without one, the widest networks) of several sweeps over the same key, all
    combinations of their other keys, on one axis."""
    keys = {along(run["sweep"], run["optimum"] if "optimum" in run else None) for run in runs}
    key = keys.pop()
    if keys or not key:
        raise Missing("the sweeps have no key of numbers in common to be drawn along")
    if len({compared(run["sweep"]) for run in runs}) > 1:
        raise Missing("the sweeps have different objectives")
    name, objective = compared(runs[0]["sweep"])
    picture, ax = plt.subplots(figsize=(5.8, 3.3))
    k = 0
    for run in runs:
        sweep = run["sweep"]
        place = int(np.argmax(sweep["N"].values))
        which = sweep["N"].values[place]
        for cell in cells(sweep, key):
            one = sweep.sel(cell).isel(N=place)
            words = [os.path.basename(run.path).removesuffix(".h5"), words_of(cell)]
            words += [] if np.isinf(which) else [f"N = {which:.0f}"]
            ax.errorbar(one[key].values, one[name].values, half_bars(one), ms=3.5, lw=1.2,
                        marker=MARKERS[k % 8], color=COLOURS[k % 7],
                        label=", ".join(filter(None, words)))
            k += 1
    if all("floor" in run["sweep"] for run in runs):
        floors = np.concatenate([run["sweep"]["floor"].values.ravel() for run in runs])
        floor(ax, runs[0]["sweep"].assign(floor=("runs", floors)))
    ax.set(xlabel=name_of_axis(key), ylabel=objective)
    key_axis(ax.xaxis, np.concatenate([run["sweep"][key].values for run in runs]))
    scale(ax.yaxis, np.concatenate([run["sweep"][name].values.ravel() for run in runs]))
    limits = all(np.isinf(run["sweep"]["N"].values).any() for run in runs)
    return legend(picture, ax, ("$N \\to \\infty$\n" if limits else "") + BARS)
