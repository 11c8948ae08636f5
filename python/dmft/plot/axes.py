"""Quantities of a run drawn onto one axis: curves over time, exponents and gaps against the width,
heat maps.

    run = dmft.load("regime2.h5")
    dmft.plot.loss(plt.gca(), run)

The limit is a broad black line below, widths go from light to dark above it. Bands and bars are
95 % intervals: the standard error NAME_se times Student's t for the n(t) independent runs of the
group. Where a quantity is averaged over inputs its interval is the mean of theirs, which errors
common to them make an upper bound. NaN, in files of runs that were stopped, is left out.
"""
from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from dmft.plot.select import (check_there, ensembles, equal, moments, networks, of_run, quantity,
                              slope, step_of, student, widths_of)
from dmft.plot.style import COLOURS, Missing, NotThere, symbol
from dmft.plot.sweeps import scale


def band(ax, mean, half, colour, t=None, **line) -> None:
    """A curve over t (default: all times) and its interval, which is hatched, not filled, where it
    reaches down to 0 on an axis that is logarithmic already."""
    t = np.arange(len(mean)) if t is None else t
    line = {"zorder": 3, "marker": "." if len(t) == 1 else None} | line
    ax.plot(t, mean, color=colour, **line)
    low, high, below = mean - half, mean + half, {"zorder": line["zorder"] - 0.5}
    open_end = np.asarray(low <= 0) & (ax.get_yscale() == "log")
    ax.fill_between(t, low, high, where=~open_end, color=colour, alpha=0.18, lw=0, **below)
    if open_end.any():
        beside = np.convolve(open_end, np.ones(3))[1:-1] > 0
        ax.fill_between(t, low, high, where=beside, facecolor="none", edgecolor=colour,
                        alpha=0.35, lw=0, hatch="////", **below)
    ax.set_xlabel("step $t$")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def series_band(ax, data, mean, half, colour, **line) -> None:
    """The curve of networks or of a limit over the times at which it was measured, which of tests
    are some of all ([output] test_every). That of a limit is dotted and without its interval from
    the time on at which a warning of the run says that it is none (valid_until), and not drawn
    where it never was."""
    t = np.flatnonzero(np.isfinite(mean))
    until = len(mean) if "N" in data.attrs else int(data.attrs.get("valid_until", len(mean)))
    if until <= 0:
        return
    good = t[t < until]
    band(ax, mean[good], half[good], colour, good, **line)
    if len(good) < len(t):
        t = t[max(0, len(good) - 1):]
        ax.plot(t, mean[t], color=colour, **line | {"ls": ":", "label": None})


@of_run
def curves(ax, run, name: str, **select) -> None:
    """A quantity over time, of limit and networks; select picks along other axes (l=0).

    >>> curves(plt.gca(), run, "Phi3_diag")         # doctest: +SKIP
    """
    check_there(run, name)
    for words, colour, data in ensembles(run):
        if name in data:
            mean, half = (part.isel(select) for part in quantity(data, name))
            words = f"{words}  ({data['n'].values.max()})"
            line = {} if "N" in data.attrs else {"lw": 2.6, "zorder": 2}
            series_band(ax, data, mean, half, colour, label=words, **line)


@of_run
def distribution(ax, run, name: str, place: int = -1) -> None:
    """The distribution over sites of rows NAME (an [output] field) of the first input, at time
    number `place` of fields_at, by its quantiles; bands are along the values.

    >>> distribution(plt.gca(), run, "h1")          # doctest: +SKIP
    """
    fields = {str(one).removesuffix("_quantile") for _, _, data in ensembles(run) for one in data
              if str(one).endswith("_quantile")}
    if name not in fields:
        raise NotThere(f"no field {name}; there is {' '.join(sorted(fields)) or 'none'} ([output] "
                       "fields)")
    for words, colour, data in ensembles(run):
        if name + "_quantile" not in data:
            continue
        if not -data.sizes["at"] <= place < data.sizes["at"]:
            raise NotThere(f"no time number {place} of fields_at, which has {data.sizes['at']}")
        first = {dim: 0 for dim in ("mu", "token", "c") if dim in data[name + "_quantile"].dims}
        mean, se = (data[name + part].isel(first | {"at": place}) for part in
                    ("_quantile", "_quantile_se"))
        time = int(mean["at"])
        runs = int(data["n"].values[time])
        half = student(runs - 1) * se.values
        line = {"lw": 1.4, "zorder": 3} if "N" in data.attrs else {"lw": 2.6, "zorder": 2}
        share = mean["probability"].values
        ax.plot(mean.values, share, color=colour, label=f"{words}  ({runs})", **line)
        ax.fill_betweenx(share, mean.values - half, mean.values + half, color=colour, alpha=0.18,
                         lw=0, zorder=line["zorder"] - 0.5)
        ax.set(title=f"{name},  $t = {time}$", xlabel=name)


@of_run
def loss(ax, run) -> None:
    """Loss over time, logarithmic where it falls tenfold.

    >>> loss(plt.gca(), dmft.load("regime2.h5"))    # doctest: +SKIP
    """
    loss_axis(ax, [run])
    curves(ax, run, "loss")


def loss_axis(ax, runs) -> None:
    """Scale and name of an axis for the losses of some runs, before they are drawn, and a line at
    the floor of their data (docs/data.md), where they have one and the same."""
    floors = {run["data"].attrs.get("floor") if "data" in run else None for run in runs}
    if len(floors) == 1 and None not in floors:
        ax.axhline(floors.pop(), color="0.4", ls=":", lw=1.2, zorder=1,
                   label="best predictor,\non average")
    mean = np.concatenate([data["loss"].values for run in runs for _, _, data in ensembles(run)])
    if 0 < 10 * np.nanmin(mean) < np.nanmax(mean):
        ax.set(yscale="log", ylim=(0.5 * np.nanmin(mean), 1.6 * np.nanmax(mean)))
    ax.set_ylabel("loss")


def heat(ax, values, limits=None):
    """A matrix in colours: viridis, or blue, white, red about 0 where it has both signs."""
    low, high = limits or (np.nanmin(values), np.nanmax(values))
    most = max(-low, high)
    image = ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most) if low < 0 < high else \
        ax.imshow(values, cmap="viridis", vmin=low, vmax=high)
    ax.spines[:].set_visible(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=True))
    return image


def targets(run, t):
    """The targets of step t, if each input has one number; else None."""
    y = run["data"]["y"].values
    if "batch" in run["data"]:
        y = y[run["data"]["batch"].values[t]]
    return y if y.ndim == 1 else None


def by_target(run, values, t):
    """K[mu][nu], inputs in the order of decreasing target."""
    y = targets(run, t)
    order = np.arange(len(values)) if y is None else np.argsort(-y, kind="stable")
    return values[np.ix_(order, order)]


def by_words(run) -> str:
    """That, in the name of an axis."""
    return "" if targets(run, 0) is None else ", by $y$"


def border(ax, run, t) -> None:
    """A line between targets of different sign, where inputs go by them."""
    y = targets(run, t)
    place = 0 if y is None else np.count_nonzero(y > 0) - 0.5
    for line in (ax.axhline, ax.axvline) if y is not None and 0 < place < len(y) - 1 else ():
        line(place, color="black", lw=0.6)


@of_run
def input_heat(ax, run, name, t, limits=None):
    """K[t][mu][t][nu] of the limit (else the widest network), by target where there is one."""
    check_there(run, name, "t", "s", "mu", "nu")
    data = ensembles(run)[-1][2]
    t = step_of(data, t)
    image = heat(ax, by_target(run, inputs_at(data[name], t).values, t), limits)
    border(ax, run, t)
    by = by_words(run)
    ax.set(xlabel=r"input $\nu$" + by, ylabel=r"input $\mu$" + by, title=f"$t = s = {t}$")
    return image


def inputs_at(kernel, t: int):
    """[mu][nu] at equal times, averaged over other axes."""
    part = kernel.isel(t=t, s=t)
    return part.mean([dim for dim in part.dims if dim not in ("mu", "nu")])


@of_run
def time_heat(ax, run, name):
    """K[t][mu][s][mu], mean over inputs, of the limit (else the widest network)."""
    check_there(run, name, "t", "s")
    part = equal(ensembles(run)[-1][2][name].rename(s="s'"))  # times stay apart
    if "mu" in part.dims:
        ax.set_title(r"$\mu = \nu$, mean over inputs")
    values = part.mean([dim for dim in part.dims if dim not in ("t", "s'")])
    image = heat(ax, values.transpose("t", "s'").values)
    ax.invert_yaxis()
    ax.set(xlabel="step $s$", ylabel="step $t$")
    return image


@of_run
def exponents(ax, run, kernels):
    """d log K / d log N over time for {NAME: dataset} at equal times and inputs (select.slope). 0:
    independent of the width. Kernels that are 0 are left out."""
    N, count = [N for N, _ in widths_of(run, 2)], 0
    for name, stored in kernels.items():
        mean, half = (np.array(part) for part in
                      zip(*(quantity(data, stored) for _, data in widths_of(run, 2))))
        exponent, error = slope(N, mean, half)
        if np.isfinite(exponent).any():
            band(ax, exponent, error, COLOURS[count % 7], label=symbol(name),
                 ls="-" if count < 7 else "--")
            count += 1
    if not count:
        raise Missing("no kernel has error bars at two widths")
    ax.axhline(0, color="black", lw=0.7)
    ax.set_ylabel(r"exponent  $d\,\log K\,/\,d\,\log N$")


@of_run
def convergence(ax, run, times):
    """|loss of networks - loss of the limit| against N at some times, with the interval of the
    difference (Welch); where that has 0 inside, its upper end, hollow, with an arrow down. The line
    of 1/N goes through the differences that are seen, at the time with most of them."""
    found, limit = widths_of(run, 1), ensembles(run)[-1][2]
    if "N" in limit.attrs:
        raise Missing("no limit to converge to ([solver] replicates = 0)")
    times = moments([limit, *(data for _, data in found)], times, 4)
    N, seen, top = np.array([N for N, _ in found]), np.zeros((0, 2)), []
    of = {key: np.array([[data[key].values[t] for _, data in [*found, (0, limit)]]
                         for t in times]) for key in ("loss", "loss_se", "n")}
    for k, t in enumerate(times):
        square, gap = of["loss_se"][k] ** 2, np.abs(of["loss"][k, :-1] - of["loss"][k, -1])
        part = square**2 / np.maximum(of["n"][k] - 1, 1)
        square, part = square[:-1] + square[-1], part[:-1] + part[-1]
        with np.errstate(invalid="ignore"):  # 0/0 at t = 0, where f is centred
            half = student(square**2 / part) * np.sqrt(square)
        where, colour = N * 1.04 ** (k - len(times) / 2 + 0.5), COLOURS[k % 7]
        known = ~(gap <= half)
        if np.isfinite(half[known]).any():
            ax.errorbar(where[known], gap[known], half[known], fmt="none", ecolor=colour)
        ax.scatter(where[known], gap[known], 25, colour, zorder=3)
        ax.scatter(where[~known], (gap + half)[~known], 25, "white", edgecolors=colour, zorder=3)
        for x, y in zip(where[~known], (gap + half)[~known]):
            ax.annotate("", (x, y), (0, -14), textcoords="offset points",
                        arrowprops={"arrowstyle": "<-", "color": colour, "shrinkB": 3})
        ax.plot([], [], "o", ms=5, color=colour, mfc=colour if known.any() else "white",
                label=f"$t = {t}$" + ("" if known.any() else ": no difference seen"))
        top += [*np.where(known, gap, gap + half)]
        if known.sum() > len(seen):
            seen = np.stack([N, gap], axis=1)[known]
    if not np.nanmax(top) > 0:
        raise Missing("no difference at these times")
    if len(seen):
        level = np.exp(np.log(seen.prod(axis=1)).mean())
        ax.plot(N, level / N, color="grey", ls="--", lw=1, label="$1/N$", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="width $N$",
           ylabel=r"$|\,\mathrm{loss}_N - \mathrm{loss}_\infty\,|$")
    scale(ax.yaxis, np.array(top)[np.array(top) > 0])
    ax.set_xticks(N, [f"{n:.0f}" for n in N])
    ax.set_xticks([], minor=True)


@of_run
def experts(ax, run, name: str) -> None:
    """A quantity of each of a few experts over time: limit solid, the widest network dashed. The
    first are the broadest, so that equal ones can be told."""
    check_there(run, name, "i")
    for (words, _, data), style in zip(ensembles(run)[:-3:-1], ["-", "--"]):
        mean, half = quantity(data, name)
        for i, lw in enumerate(np.linspace(3.2, 1.2, mean.sizes["i"])):
            band(ax, mean.isel(i=i), half.isel(i=i), COLOURS[i % 7], ls=style, lw=lw,
                 label=f"expert {i}" if style == "-" else None)
        ax.plot([], [], color="grey", ls=style, label=words)


@of_run
def coordinates(ax, run, terms) -> None:
    """Exponents in N of the parts {name: label} of a signal over time. Parts that are exactly zero
    are left out."""
    if "compare" not in run:
        raise Missing("exponents of parts are of dmft-compare with [reference] coordinate_check = "
                      "yes")
    for level in (0, -0.5, -1):
        ax.axhline(level, color="0.5" if level == 0 else "0.85", lw=0.7, zorder=0)
    wide = student(sum(data["n"].values.astype(float) - 1 for data in networks(run)))
    for colour, (names, words) in zip(COLOURS, terms.items()):
        there = [name for name in names.split("|") if f"rms_{name}_exponent" in run["compare"]]
        exponent = run["compare"][f"rms_{there[0]}_exponent"] if there else None
        if exponent is not None and np.isfinite(exponent).any():
            half = wide * run["compare"][exponent.name + "_se"].values
            band(ax, exponent.values, half, colour, label=words)
    ax.set_ylim(-2.9, 1.0)
