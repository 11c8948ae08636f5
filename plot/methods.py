"""The figure of docs/methods.md: error of one run against its cost (CSV of tests/bench_methods.c)."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLE = {
    "march": ("black", "o", "march, $S$ sites"),
    "fixed point": ("#0072B2", "s", "fixed point, $S$ sites"),
    "network": ("#D55E00", "^", "one network, width $N$"),
}


def main(source, target):
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    figure, axis = plt.subplots(figsize=(4.8, 3.4), constrained_layout=True)
    for method, (colour, marker, label) in STYLE.items():
        mine = [row for row in rows if row["method"] == method]
        seconds = [float(row["seconds"]) for row in mine]
        error = [float(row["error"]) for row in mine]
        axis.loglog(seconds, error, marker=marker, color=colour, label=label, ms=5, lw=1.2)
        for row in (mine[0], mine[-1]):
            axis.annotate(row["size"], (float(row["seconds"]), float(row["error"])), color=colour,
                          textcoords="offset points", xytext=(5, 5), fontsize=7)
    axis.set_xlabel("CPU seconds of one run")
    axis.set_ylabel("rms error of $f$")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=200)


if __name__ == "__main__":
    main(*sys.argv[1:3])
