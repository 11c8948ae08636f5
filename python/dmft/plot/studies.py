"""The figures of studies/, from what dmft-sweep wrote.

    python3 -m dmft.plot.studies NAME.h5 [-o NAME.png]      NAME: fig1_regime2, regime3, ...

make study NAME=... runs the sweep and this. In a script the runs of every point are there too:

    rates = dmft.load("lr_transfer.h5")
    dmft.plot.loss(plt.gca(), rates.points["mup", 1.0])
"""
from __future__ import annotations

import argparse
import os
import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator

from dmft.errors import DmftError
from dmft.files import load
from dmft.plot import axes as draw
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import quantity, widths_of
from dmft.plot.style import BANDS, BARS, COLOURS, NAMES, STYLE, Missing

# Of the coordinate check (docs/output.md), as the pictures of dmft-compare have them.
TERMS = {"experts aggregated":
         {"A1": "$A_1$: $W_3(0)$, initial", "A21": "$A_{21}$: $W_3(0)$, from $W_1$",
          "A22": "$A_{22}$: $W_3(0)$, from $W_2$", "A3": r"$A_3$: $\Delta W_3$"},
         "back through the experts":
         {"A4": "$A_4$: $W_2(0), W_3(0)$", "A5": r"$A_5$: $W_2(0), \Delta W_3$",
          "E": r"$E$: $\Delta W_2, \Delta W_3$", "A6": r"$A_6$: $\Delta W_2, W_3(0)$"}}


def log_axis(axis, values):
    """Ticks at these values and nowhere else."""
    axis.set_major_locator(plt.FixedLocator(values))
    axis.set_major_formatter(plt.FixedFormatter([f"{value:g}" for value in values]))
    axis.set_minor_locator(NullLocator())


def stability(run):
    """muP above MSSP: the loss, and how the parts of two signals depend on the width."""
    figure, axes = plt.subplots(2, 3, figsize=(9.6, 5.2), sharex=True, sharey="col",
                                width_ratios=[1.05, 1, 1])
    parts = {point[0]: part for point, part in run.points.items()}
    for row, (name, part) in zip(axes, parts.items()):
        draw.curves(row[0], part, "loss")
        row[0].set_ylabel(f"{NAMES[name]}\n" + r"loss  $\langle (y - f\,)^2 / 2 \rangle_\mu$")
        for ax, terms in zip(row[1:], TERMS.values()):
            draw.exponents(ax, part, {words: f"rms_{term}" for term, words in terms.items()})
            for level in (-0.5, -1, -1.5, -2):
                ax.axhline(level, color="0.88", lw=0.7, zorder=0)
            if ax.get_subplotspec().is_last_row():  # no line is in the way there
                ax.legend(loc="lower right", handlelength=1.4)
            ax.set_ylabel(r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
    for ax, title in zip(axes[0], ("loss", *TERMS)):
        ax.set_title(title)
        ax.set_xlabel("")
    axes[0, 0].set_ylim(bottom=0)
    for ax in axes[0, 1:]:
        ax.set_ylim(-2.6, 0.8)
    return legend(figure, axes[0, 0], "width (runs)\n" + BANDS)


def entropies(run, t):
    """Widths, mean normalised entropy of the router at time t and half of its 95 % interval. The
    mean over inputs is taken with the mean of their errors, an upper bound."""
    rows = []
    for N, data in widths_of(run, 1):
        mean, half = quantity(data, "router_entropy")
        rows.append((N, mean.values[t], half.values[t]))
    return np.array(rows).T


def freeze(run):
    """The entropy of the router over steps (SP), and at the end against the width."""
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.0))
    sweep, runs = run.sweep, run.points
    M = len(next(iter(runs.values()))[f"reference/N{int(sweep['N'].values[0]):04d}"]["i"])
    draw.curves(axes[0], runs["sp", 1.0], "router_entropy")
    axes[0].set(ylabel="entropy of the router $/\\,\\ln M$", title="SP, soft routing",
                ylim=(0, 1.02))
    axes[0].legend(loc="lower left", title="width (runs)\n" + BANDS)
    for (name, rho), part in runs.items():
        colour = COLOURS[1] if name == "sp" else COLOURS[0]
        style = {"ls": "-" if rho == 1 else "--", "color": colour, "mfc": colour if rho == 1 else
                 "white", "marker": "o", "ms": 4.5, "capsize": 2}
        routing = "soft" if rho == 1 else f"top-{rho * M:.0f}"
        label = f"{NAMES[name]}, {routing}"
        N, mean, half = entropies(part, -1)
        axes[1].errorbar(N, mean, half, label=label, **style)
        gap = np.log(rho * M) / np.log(M) - mean
        axes[2].errorbar(N, gap, np.minimum(half, 0.9 * gap), label=label, **style)
    guide = 0.4 * (1 - entropies(runs["mup", 1.0], -1)[1][0]) * N[0] / N
    axes[2].plot(N, guide, color="grey", ls=":", lw=1.2)
    axes[2].annotate("$1/N$", (N[len(N) // 2], guide[len(N) // 2]), (-4, -4), color="grey",
                     textcoords="offset points", ha="right", va="top", fontsize=8)
    axes[1].set(ylabel="entropy $/\\,\\ln M$", title="at the last step", ylim=(0, 1.02))
    axes[1].axhline(1, color="black", lw=0.6, ls=":")
    axes[1].axhline(np.log(2) / np.log(M), color="black", lw=0.6, ls=":")
    axes[2].set(ylabel=r"$(\ln K\, -$ entropy$)\,/\,\ln M$", yscale="log",
                title="distance from equal gates")
    for ax in axes[1:]:
        ax.set(xscale="log", xlabel="width $N$")
        log_axis(ax.xaxis, N)
    return legend(figure, axes[1], "last step\n" + BARS)


FIGURES = {"fig1_regime2": stability, "regime3": stability, "routers_freeze": freeze,
           "lr_transfer": sweeps.figure}


def main(arguments=None):
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="studies.py", description="The figure of a study.")
    parser.add_argument("file", help="NAME.h5, NAME one of " + ", ".join(FIGURES))
    parser.add_argument("-o", metavar="OUT.png", help="default: NAME.png in the current folder")
    options = parser.parse_args(arguments)
    name = os.path.basename(options.file).removesuffix(".h5")
    plt.switch_backend("Agg")
    try:
        if name not in FIGURES:
            raise Missing(f"no study of this name; there are {' '.join(FIGURES)}")
        with plt.rc_context(STYLE):
            out = options.o or name + ".png"
            FIGURES[name](load(options.file)).savefig(out)
            print(out)
    except (Missing, DmftError, OSError) as error:
        print(f"studies.py: {options.file}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
