"""What the pictures of the studies share: sizes, series of a run, exponents, optima, sentences;
whether a sentence is shown is judged by verdict.py."""
from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex

import dmft
import verdict
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import quantity, slope
from dmft.plot.style import BARS, COLOURS, NAMES
from dmft.plot.sweeps import places, widths_axis

WIDE = 7.2  # inches of a picture, so that its letters can be read at 700 pixels


def grid(rows: int, columns: int, height: float = 2.3, **more):
    """A figure and its axes [rows][columns]; inches of one row."""
    return plt.subplots(rows, columns, squeeze=False, figsize=(WIDE, height * rows + 0.2), **more)


def at_widths(run, name: str, t: int = -1):
    """(N, mean, half of the 95 % interval) of a series at time t, at every width; means over
    inputs, with the mean of their errors, an upper bound."""
    rows = []
    for N, data in run.reference.items():
        mean, half = quantity(data, name)
        rows.append((N, mean.values[t], half.values[t]))
    return np.array(rows).T


def of_limit(run, name: str, t: int = -1):
    """(mean, half of the 95 % interval) of the limit at time t."""
    mean, half = quantity(run.limit, name)
    return mean.values[t], half.values[t]


def exponent(run, name: str, t: int):
    """Slope of the logarithm of a series in ln N at time t, and half of its 95 % interval."""
    N, mean, half = at_widths(run, name, t)
    return slope(N, mean, half)


def runs_of(run, where: dict):
    """[run] the objective of every run of one point and width of a sweep, at the last time."""
    unit = dmft.load(run.units().sel(where).item())
    data = next(iter(unit.reference.values()))
    return data[str(run.sweep.attrs["objective"]) + "_runs"].isel(t=-1).values


def samples_over(run, where: dict, key: str, values):
    """Samples [sample, value] of the logarithm of the objective of one width, where["N"], at values
    of a key (verdict.of_runs)."""
    return np.transpose([verdict.of_runs(runs_of(run, where | {key: one}), where["N"])
                         for one in values])


def of_exponent(run, name: str, t: int):
    """Samples of the exponent of a series in N at time t."""
    return verdict.of_interval(*exponent(run, name, t))


def optimum(run, cell: dict):
    """Of /optimum one combination of the other keys, at every width and in the limit, without those
    of which nothing can be used."""
    best = run["optimum"].sel(cell)
    return best.isel(N=np.flatnonzero(np.isfinite(best["least_at"].values)))


def told(best, name: str = "at", kind: str = "") -> str:
    """1.39 [1.27, 1.58], 1.45*, ...: optima, or the objective there, with their intervals of 95 %;
    a star, and the best value of the grid, where none is known."""
    grid_ = {"at": "least_at", "objective": "least"}[name]
    ends = ("low", "high") if name == "at" else ("objective_low", "objective_high")
    rows = zip(*(np.ravel(best[kind + one].values) for one in ("reason", name, *ends, grid_)))
    return ", ".join(span(*entry) if reason == 0 else f"{least:.3g}*"
                     for reason, *entry, least in rows)


def end_of_limit(ax) -> None:
    """A word where the broad black curve of a limit ends before those of networks."""
    ends = {True: [], False: []}
    for line in ax.lines:
        x, y = np.array(line.get_data(), float)
        if np.isfinite(y).any():
            last = np.flatnonzero(np.isfinite(y))[-1]
            black = to_hex(line.get_color()) == "#000000" and line.get_lw() > 2
            ends[black].append((x[last], y[last]))
    if ends[True] and max(ends[True])[0] < 0.9 * max(ends[False])[0]:
        words = f"$N \\to \\infty$: not known\nbeyond {max(ends[True])[0]:.2g}"  # points are dodged
        ax.text(0.97, 0.97, words, fontsize=7, transform=ax.transAxes, ha="right", va="top")


def rates(run, cells, titles, columns: int = 3):
    """A panel of the objective against the rate for each combination of other keys, and one of the
    optima."""
    sweep, key = run["sweep"], run["optimum"].attrs["key"]
    rows = -(-(len(cells) + 1) // columns)
    figure, axes = grid(rows, columns, 2.2)
    drawn = np.isfinite(sweep["N"]) | settled(sweep)
    sweep = sweep.assign(objective=sweep["objective"].where(drawn))
    finite = sweep.isel(N=np.flatnonzero(np.isfinite(sweep["N"].values)))
    objective, down = finite["objective"].values, sweeps.half_bars(finite)[0]
    ends = np.where(down < 0.89 * objective, objective - down, objective)  # others reach zero
    low, high = min(np.nanmin(objective), 1.5 * np.nanmin(ends)), np.nanmax(objective)
    for ax, cell, title in zip(axes.flat, cells, titles):
        sweeps.losses(ax, sweep.sel(cell), key)
        end_of_limit(ax)
        sweeps.scale(ax.yaxis, objective)
        ax.set(title=title, ylim=(0.6 * low, 1.6 * min(high, 10)))
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(sweeps.compared(sweep)[1])
    ax = axes.flat[len(cells)]
    best_rates(ax, [optimum(run, cell) for cell in cells], titles, run["optimum"]["N"].values)
    for other in list(axes.flat)[len(cells) + 1:]:
        other.set_visible(False)
    single = rows == 1  # below the legend of the whole figure, in its column
    ax.legend(fontsize=6.5, handlelength=1.2, loc="lower left" if single else "upper left",
              bbox_to_anchor=(1.02, 0 if single else 1)).set_in_layout(False)
    full = max(axes.flat[:len(cells)], key=lambda ax: len(ax.get_legend_handles_labels()[0]))
    return legend(figure, full, "dots: means\ncrosses: medians\n" + BARS)


def settled(sweep):
    """Where the objective of a limit means something: not at the edge of stability, where each
    replicate oscillates in its own way, and not where it, a jackknife estimate, is not known to be
    above zero."""
    known = sweep["objective"] > sweeps.half_bars(sweep)[1]
    return known & ~sweeps.doubtful(sweep)


def best_rates(ax, optima, titles, N) -> None:
    """Best rates against the width, beside each other, with intervals of 95 %; hollow, and without
    an interval, the best of the grid where none is known."""
    axis = widths_axis(ax, N)
    widths = dict(zip(N, axis))
    apart = min(np.diff(np.log(axis)), default=1) * min(0.12, 0.6 / len(optima))
    rim = np.exp(apart * (len(optima) + 1) / 2)
    shown = []
    for k, (best, title) in enumerate(zip(optima, titles)):
        at, bars, known = places(best)
        style = {"color": COLOURS[k % 7], "marker": sweeps.MARKERS[k], "ms": 4, "ls": ""}
        x = np.array([widths[one] for one in best["N"].values]) * \
            np.exp(apart * (k - (len(optima) - 1) / 2))
        ax.errorbar(x, at, bars, lw=1.1, capsize=2, label=textwrap.fill(title, 14), **style)
        ax.plot(x[~known], at[~known], zorder=4, mfc="white", **style)
        shown += [*(at - bars[0]), *(at + bars[1])]
    ax.set(title="best rate (hollow: not known)", ylabel=r"best $\eta_0$", yscale="log",
           xlim=(axis[0] / rim, axis[-1] * rim),
           ylim=(0.8 * np.nanmin(shown), 1.25 * np.nanmax(shown)))
    sweeps.scale(ax.yaxis, ax.get_ylim())
    ax.title.set_fontsize(8)


def fit_y(ax) -> None:
    """A logarithmic y axis with ticks that suit what is drawn on it."""
    ax.set_yscale("log")
    sweeps.scale(ax.yaxis, np.concatenate([line.get_ydata() for line in ax.lines]))


def best_below(ax, optima, limits) -> None:
    """The best values of curves over a key, with their intervals of 95 %, in rows below the curves;
    hollow, and without an interval, the best of the grid where none is known. limits: of the y axis
    without these rows."""
    low, high = limits
    room = (high / low) ** 0.05
    for k, best in enumerate(optima):
        at, bars, known = (np.ravel(one) for one in places(best))
        ax.errorbar(at, [low / room ** (k + 0.5)], xerr=np.reshape(bars, (2, 1)), lw=1.1,
                    color=COLOURS[k], marker="osD^v"[k], ms=3.5, capsize=2,
                    mfc=COLOURS[k] if known[0] else "white")
    ax.set_ylim(low / room ** (len(optima) + 0.5), high)
    ax.text(0.02, low / room ** (len(optima) / 2), "best", va="center", fontsize=7, color="0.4",
            transform=ax.get_yaxis_transform())


def span(value: float, low: float, high: float) -> str:
    """1.39 [1.27, 1.58]: with two digits of half of the interval.

    >>> span(1.394, 1.271, 1.583), span(0.0046, 0.0031, 0.0068), span(350, 310, 400)
    ('1.39 [1.27, 1.58]', '0.0046 [0.0031, 0.0068]', '350 [310, 400]')
    """
    half = (high - low) / 2
    digits = max(0, 1 - int(np.floor(np.log10(half)))) if 0 < half < np.inf else 3
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def pm(value: float, error: float) -> str:
    """1.39(2): the error in units of the last digit.

    >>> pm(1.394, 0.021), pm(0.0046, 0.0006), pm(22.31, 0.6), pm(350, 20)
    ('1.39(2)', '0.0046(6)', '22.3(6)', '350(20)')
    """
    if not np.isfinite(error) or error <= 0:
        return f"{value:.3g}"
    digits = -int(np.floor(np.log10(error)))
    if round(error * 10.0 ** digits) >= 10:
        digits -= 1
    if digits <= 0:
        unit = 10 ** -digits
        return f"{round(value / unit) * unit:d}({round(error / unit) * unit:d})"
    return f"{value:.{digits}f}({round(error * 10 ** digits):d})"


def factor(samples) -> str:
    """times 1.21 [1.05, 1.40], of samples of its logarithm; not known, where they spread over more
    than a factor of a hundred."""
    low, high = np.exp(verdict.interval(samples))
    if not high < 100 * low:
        return "not known"
    return "times " + span(np.exp(np.nanmedian(samples)), low, high)


def name(parameterization: str) -> str:
    """muP, MSSP, ... as pictures have them."""
    return NAMES.get(parameterization, parameterization)
