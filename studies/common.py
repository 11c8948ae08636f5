"""What the pictures of the studies share: sizes, series of a run, exponents, optima, sentences."""
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import quantity, slope, student
from dmft.plot.style import BARS, COLOURS, NAMES

WIDE = 7.2  # inches of a picture, so that its letters can be read at 700 pixels


def grid(rows: int, columns: int, height: float = 2.3, **more):
    """A figure and its axes [rows][columns]; inches of one row."""
    return plt.subplots(rows, columns, squeeze=False, figsize=(WIDE, height * rows + 0.2), **more)


def widths_axis(ax, N, label: str = "width $N$") -> None:
    """A logarithmic axis with ticks at these values and nowhere else."""
    ax.set(xscale="log", xlabel=label)
    ax.xaxis.set_major_locator(plt.FixedLocator(N))
    ax.xaxis.set_major_formatter(plt.FixedFormatter([f"{n:g}" for n in N]))
    ax.xaxis.set_minor_locator(NullLocator())


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


def optimum(run, cell: dict):
    """Of one combination of the other keys, at every width and in the limit: N, the best value of
    the key, its error, the objective there, its error, of the samples of dmft-sweep; without those
    of which nothing can be used. Where no optimum is known the best value of the grid, and the
    errors are NaN."""
    best = run["optimum"].sel(cell)
    known = best["reason"].values == 0
    rows = [best["N"].values, np.where(known, best["at"], best["least_at"]), error(best),
            np.where(known, best["objective"], best["least"]), error(best, "objective")]
    rows = np.array(rows)
    return rows[:, np.isfinite(rows[1])]


def error(best, name: str = "at", kind: str = ""):
    """The standard error of an optimum: of its samples between the ends of the interval of 95 %,
    which are 3.92 errors apart; NaN where it is not known. kind: "median_" for that of medians."""
    ends = ("low", "high") if name == "at" else (name + "_low", name + "_high")
    low, high = (kind + end for end in ends)
    return np.where(best[kind + "reason"] == 0, (best[high] - best[low]) / 3.92, np.nan)


def rates(run, cells, titles, columns: int = 3):
    """A panel of final losses against the rate for each combination of other keys, and one of the
    optima."""
    sweep, key = run["sweep"], run["optimum"].attrs["key"]
    rows = -(-(len(cells) + 1) // columns)
    figure, axes = grid(rows, columns, 2.2)
    known = np.isfinite(sweep["N"]) | (sweep["loss"] > 2 * sweep["loss_se"])
    sweep = sweep.assign(loss=sweep["loss"].where(known))
    loss = sweep["loss"].values[..., np.isfinite(sweep["N"].values)]
    low, high = np.nanmin(loss), np.nanmax(loss)
    for ax, cell, title in zip(axes.flat, cells, titles):
        sweeps.losses(ax, sweep.sel(cell), key)
        sweeps.scale(ax.yaxis, loss)
        ax.set(title=title, ylim=(0.6 * low, 1.6 * min(high, 10)))
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(r"final loss  $\langle (y - f\,)^2 / 2 \rangle_\mu$")
    ax = axes.flat[len(cells)]
    places = run["optimum"]["N"].values
    places = dict(zip(places, sweeps.widths_axis(ax, places)))
    shown = []
    for k, (cell, title) in enumerate(zip(cells, titles)):
        N, at, se, *_ = optimum(run, cell)
        n = sweep["n"].sel(cell).max(key).values[np.isin(sweep["N"].values, N)]
        half, inside = np.nan_to_num(se * student(np.maximum(n - 1, 1))), np.isfinite(se)
        style = {"color": COLOURS[k % 7], "marker": sweeps.MARKERS[k], "ms": 4}
        x = np.array([places[one] for one in N]) * 1.03 ** (k - len(cells) / 2)
        ax.errorbar(x, at, half, lw=1.1, capsize=2, mfc="white",
                    label=title.replace(", ", ",\n"), **style)
        ax.plot(x[inside], at[inside], ls="", zorder=4, **style)
        shown += list(at)
    sweeps.scale(ax.yaxis, sweep[key].values)
    ax.set(title="best rate (hollow: end of the grid)", ylabel=r"best $\eta_0$",
           ylim=(0.55 * min(shown), 1.8 * max(shown)))
    ax.title.set_fontsize(8)
    for other in list(axes.flat)[len(cells) + 1:]:
        other.set_visible(False)
    single = rows == 1  # below the legend of the whole figure, in its column
    ax.legend(fontsize=6.5, handlelength=1.2, loc="lower left" if single else "upper left",
              bbox_to_anchor=(1.02, 0 if single else 1)).set_in_layout(False)
    full = max(axes.flat[:len(cells)], key=lambda ax: len(ax.get_legend_handles_labels()[0]))
    return legend(figure, full, "means;\ndashed: medians\n" + BARS)


def drift(best, step: float) -> tuple[float, float]:
    """Logarithm of the ratio of the best rate at the largest width to that at the smallest, by a
    line through all widths in the logarithms, and its error. Where the error of a rate is not known
    (an end of the grid) it is a step of the grid, a factor; errors that are too small for the line
    are multiplied by the root of chi squared per degree of freedom, and the error is at least by
    how much the line differs from the ratio of the two ends."""
    N = np.isfinite(best[0])
    x, at, se = np.log(best[0][N]), np.log(best[1][N]), best[2][N] / best[1][N]
    se = np.where(np.isfinite(se), np.maximum(se, 1e-6), np.log(step))
    x = (x - np.average(x, weights=se ** -2)) / np.ptp(x)
    slope = np.sum(x * at / se ** 2) / np.sum((x / se) ** 2)
    rest = at - np.average(at, weights=se ** -2) - slope * x
    scale = np.sqrt(max(1, np.sum((rest / se) ** 2) / max(1, len(x) - 2)))
    return slope, max(scale / np.sqrt(np.sum((x / se) ** 2)), abs(at[-1] - at[0] - slope))


def decided(value: float, error: float, low: float, high: float):
    """True where value is between low and high with two standard errors to spare, False where it is
    outside with as many, otherwise None."""
    if low < value - 2 * error and value + 2 * error < high:
        return True
    return False if value + 2 * error < low or value - 2 * error > high else None


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


def name(parameterization: str) -> str:
    """muP, MSSP, ... as pictures have them."""
    return NAMES.get(parameterization, parameterization)
