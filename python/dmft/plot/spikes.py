"""Singular values of matrices over time: spikes of the limit and of the widest networks above the
bulk, and where spikes that are independent of the start would stand ([output] singular,
docs/theory/spikes.md)."""
from __future__ import annotations

import numpy as np

from dmft.plot.axes import band
from dmft.plot.layout import legend, panels
from dmft.plot.select import ensembles, label, networks, of_run, student
from dmft.plot.style import BANDS, COLOURS, Missing

MOST = 8  # matrices of one picture


def matrices(run) -> list[str]:
    """Those that the limit or networks have singular values of."""
    return list({name.removeprefix("singular_").removesuffix("_edge"): None
                 for _, _, data in ensembles(run) for name in data
                 if name.startswith("singular_") and name.endswith("_edge")})


def _curves(ax, data, stem: str, part: str, colour, words: str, **line) -> None:
    """Each value of [t][k] that is there at some time, over the times at which any was looked for,
    with a dot at each, since a spike may be there at one time alone; words stand in the legend
    once."""
    t = np.flatnonzero(np.isfinite(data[stem + "_edge"].values))
    mean, se = (data[stem + part + end].values[t] for end in ("", "_se"))
    half = student(data["n"].values[t] - 1)[:, None] * se
    for k in np.flatnonzero(np.isfinite(mean).any(0)):
        band(ax, mean[:, k], half[:, k], colour, t, label=words if k == 0 else None, marker=".",
             **line)


@of_run
def singular(ax, run, name: str) -> None:
    """Of one matrix, over time.

    >>> singular(plt.gca(), run, "W2")                                          # doctest: +SKIP
    """
    stem, widest = "singular_" + name, networks(run)[-1:]
    limit = [data for _, _, data in ensembles(run)[-1:]
             if "N" not in data.attrs and stem in data]
    for data in [one for one in widest if stem in one]:
        _curves(ax, data, stem, "", COLOURS[1], label(data), lw=0.9, zorder=4)
    for data in limit:
        _curves(ax, data, stem, "", "black", label(data), lw=2.6, zorder=3)
    data = (limit or [one for one in widest if stem in one] or [None])[0]
    if data is None:
        raise Missing(f"no singular values of {name} are in it")
    _curves(ax, data, stem, "_independent", COLOURS[0], "if independent\nof the start", lw=1.6,
            ls=(0, (4, 1.5)), zorder=3)
    edge = data[stem + "_edge"].values
    known = np.isfinite(edge)
    t = np.arange(len(edge))[known]
    below = data[stem + "_lower"].values[known] if stem + "_lower" in data else 0
    ax.fill_between(t, below, edge[known], color="0.9", lw=0, zorder=0, label="bulk")
    ax.set(ylabel=r"singular values over $\sqrt{n/m}$", title=name)


def figure_singular(run, _):
    """A panel for each matrix, of the first MOST, as a title says then; the part of the bulk that
    networks' largest values do not reach is left out."""
    every = matrices(run)
    if not every:
        raise Missing("the run had no [output] singular")
    names = every[:MOST]
    columns = min(len(names), 4)
    figure, axes = panels(run, -(-len(names) // columns), columns, 2.6, 2.6)
    for ax, name in zip(axes.flat, names):
        singular(ax, run, name)
        finish(ax)
    for ax in axes.flat[len(names):]:
        ax.set_visible(False)
    if len(names) < len(every):
        figure.suptitle(f"the first {MOST} of {len(every)} matrices; singular = NAME chooses")
    return legend(figure, axes[0, 0], BANDS)


def finish(ax) -> None:
    """From a little below the lowest curve on, where there are any."""
    if not ax.lines:
        return
    drawn = np.concatenate([line.get_ydata() for line in ax.lines])
    low, high = np.nanmin(drawn), np.nanmax(drawn)
    ax.set_ylim(max(0, low - 0.1 * (high - low)), high + 0.05 * (high - low))


FIGURES = {"singular": figure_singular}
