"""The figure of docs/performance.md: error of the loss and of a kernel against cost, for a network
of every kind (CSV of tests/bench/bench_methods.c)."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

# Colour, marker, label, and where sizes are written (points).
STYLE = {
    "march": ("black", "o", "march, $S$ sites", (-3, -9)),
    "fixed point": ("#0072B2", "s", "fixed point, $S$ sites", (4, 2)),
    "network": ("#D55E00", "^", "one network, width $N$", (3, 4)),
    "16 networks": ("#E69F00", "v", "mean of 16 networks", (-4, -10)),
}


def curve(axis, rows, method):
    """One method: error against seconds, its smallest and largest size written beside it."""
    colour, marker, label, place = STYLE[method]
    mine = [row for row in rows if row["method"] == method]
    seconds = [float(row["seconds"]) for row in mine]
    error = [float(row["error"]) for row in mine]
    axis.loglog(seconds, error, marker=marker, color=colour, label=label, ms=4, lw=1.2)
    for row in (mine[0], mine[-1]):
        axis.annotate(row["size"], (float(row["seconds"]), float(row["error"])), color=colour,
                      textcoords="offset points", xytext=place, fontsize=6,
                      ha="right" if place[0] < 0 else "left")


def main(source, target):
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = plt.subplots(2, len(networks), figsize=(2.3 * len(networks), 4.6), sharex="col",
                                layout="constrained", squeeze=False)
    for column, network in zip(axes.T, networks):
        part = [row for row in rows if row["network"] == network]
        quantities = list(dict.fromkeys(row["quantity"] for row in part))
        for axis, quantity in zip(column, quantities):
            for method in STYLE:
                curve(axis, [row for row in part if row["quantity"] == quantity], method)
            axis.set_title(f"{network}: {quantity.removesuffix('_diag')}", fontsize=9)
            axis.tick_params(labelsize=7)
            axis.xaxis.set_major_locator(LogLocator(numticks=6))
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            for ticks in (axis.xaxis, axis.yaxis):
                ticks.set_minor_formatter(NullFormatter())
            axis.margins(0.12)
            axis.spines[["top", "right"]].set_visible(False)
        column[1].set_xlabel("CPU seconds", fontsize=8)
    for row in axes:
        row[0].set_ylabel("relative rms error", fontsize=8)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=8)
    figure.savefig(target, dpi=200)


if __name__ == "__main__":
    main(*sys.argv[1:3])
