"""What experts do ([output] experts = yes): what they tell of the inputs, how much of the gates the
largest has, which inputs use the same experts, and how much each of them learns.

    run = dmft.load("regime2.h5")
    dmft.plot.information(plt.gca(), run)
    dmft.plot.overlap(plt.gca(), run)
    dmft.plot.norms(plt.gca(), run, "gradient")

block: of a network with several routers the ending of their names ("_0", or "_NAME" in Lua).
"""
from __future__ import annotations

import re

import numpy as np
import xarray

from dmft.plot import axes as draw
from dmft.plot.layout import legend, panels
from dmft.plot.select import check_there, ensembles, is_series, of_run, step_of
from dmft.plot.style import BANDS, COLOURS, Missing, NotThere

RUNS = "width (runs)\n" + BANDS
KINDS = {"": "input", "_class": "class", "_token": "kind of token"}


def blocks(run) -> list[str]:
    """The endings of all routers of a run."""
    found = [match[1] for name in ensembles(run)[-1][2]
             if is_series(name) and (match := re.fullmatch(r"expert_overlap(|_.*)", name))]
    if not found:
        raise Missing("the run had no [output] experts = yes, or its network no gates")
    return found


def _checked(run, name: str) -> str:
    """A series of experts, which is there, or why it is not."""
    blocks(run)
    check_there(run, name)
    return name


@of_run
def information(ax, run, block: str = "", of: str = "") -> None:
    """The mutual information of expert and input over time, in nats; of="_class", "_token": of
    expert and class, or kind of token.

    >>> information(plt.gca(), run)                 # doctest: +SKIP
    """
    draw.curves(ax, run, _checked(run, f"expert_information{of}{block}"))
    ax.set_ylabel(f"information of expert and\n{KINDS[of]}  (nats)")


@of_run
def share(ax, run, block: str = "") -> None:
    """The share of the largest expert over time.

    >>> share(plt.gca(), run)                       # doctest: +SKIP
    """
    draw.curves(ax, run, _checked(run, f"expert_share{block}"))
    ax.set_ylabel("share of the\nlargest expert")


@of_run
def overlap(ax, run, t: int = -1, block: str = "", of: str = "overlap"):
    """The cosine of the gates of two inputs at time t, of the limit, else of the widest networks;
    of="coselection": the share of their experts that both are routed to. The image.

    >>> overlap(plt.gca(), run)                     # doctest: +SKIP
    """
    words, _, data = ensembles(run)[-1]
    series = data[_checked(run, f"expert_{of}{block}")]
    image = draw.heat(ax, series.isel(t=step_of(data, t)).values, (0, 1))
    ax.set(xlabel=r"input $\nu$", ylabel=r"input $\mu$", title=words)
    return image


def matrices(run, what: str, block: str = "") -> list[str]:
    """Matrices of the experts of a router with a norm of this name."""
    data = ensembles(run)[-1][2]
    lead = f"expert_{what}_"
    found = [name for name in data if name.startswith(lead) and is_series(name)]
    mine = [name for name in found if _block_of(data, name, blocks(run)) == block]
    return [name.removeprefix(lead) for name in mine]


def _block_of(data, name: str, known: list[str]) -> str:
    """Of a fixed number the axis of experts says it; of many experts the name of the matrix."""
    for dim in data[name].dims:
        if dim.startswith("expert"):
            return dim.removeprefix("expert")
    return next((block for block in known if block and name.endswith(block)), known[0]
                if len(known) == 1 else "")


@of_run
def norms(ax, run, what: str = "gradient", block: str = "") -> None:
    """The norm of what="gradient" or "change" of each expert over time, matrix by matrix: of many
    experts the median and, as a band, the middle 90 % of them; of a few a line for each. The limit
    solid, the widest networks dashed.

    >>> norms(plt.gca(), run, "change")             # doctest: +SKIP
    """
    shown, names = list(zip(ensembles(run)[:-3:-1], ["-", "--"])), matrices(run, what, block)
    if not names:
        blocks(run)
        raise NotThere(f"no norms of the {what} of each expert of the router \"{block}\"")
    every = list(dict.fromkeys(one for kind in ("gradient", "change")
                               for one in matrices(run, kind, block)))
    for matrix in names:
        colour = COLOURS[every.index(matrix) % len(COLOURS)]
        for (_, _, data), style in shown:
            _norm(ax, data[f"expert_{what}_{matrix}"], colour, style, matrix.replace("_", " "))
    for (words, _, _), style in shown:
        ax.plot([], [], color="grey", ls=style, label=words)
    ax.set(xlabel="step $t$", ylabel=f"norm of the {what}\nof each expert")


def _norm(ax, values: xarray.DataArray, colour, style: str, words: str) -> None:
    t = np.arange(values.sizes["t"])
    label = words if style == "-" else None
    if "probability" not in values.dims:
        for i in range(values.shape[1]):
            ax.plot(t, values[:, i], color=colour, ls=style, lw=1, label=label if i == 0 else None)
        return
    low, middle, high = (values.sel(probability=p, method="nearest") for p in (0.05, 0.5, 0.95))
    ax.plot(t, middle, color=colour, ls=style, label=label)
    if style == "-":
        ax.fill_between(t, low, high, color=colour, alpha=0.15, lw=0)


def figure(run, _):
    """A row for each router: information, share of the largest, overlap, norms of the gradient."""
    found = blocks(run)
    grid, axes = panels(run, len(found), 5, 2.5, 2.1)
    for block, row in zip(found, axes):
        information(row[0], run, block)
        share(row[1], run, block)
        grid.colorbar(overlap(row[2], run, -1, block), ax=row[2], shrink=0.9)
        told = set()
        for ax, what in zip(row[3:], ("gradient", "change")):
            if there := set(matrices(run, what, block)):
                norms(ax, run, what, block)
            else:
                ax.set_visible(False)
            if not there <= told:  # of both panels, where the first has all of the second
                ax.legend(fontsize=6.5)
                told |= there
        if block:
            row[0].set_title(block.removeprefix("_"))
    return legend(grid, axes[0, 0], RUNS)


FIGURES = {"experts": figure}
