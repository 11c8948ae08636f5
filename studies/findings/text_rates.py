"""Do the best rates of a transformer that reads a text transfer, and do wider ones read better?

    python/with studies/findings/text_rates.py SWEEP.h5 [OUT.csv [OUT.png [SWEEP.h5 ...]]]
    python/with studies/findings/text_rates.py --picture text_rates.csv OUT.png
    python/with studies/findings/text_rates.py --counts [data/kjv.txt]

Reads sweeps of text_rates_few.ini, text_rates_sp.ini and text_rates_mup.ini (four experts: muP,
simP and SP, and muP with more networks), of text_rates.ini and text_rates_regime3.ini (many: muP
and MSSP). Says what is seen of each, and writes the numbers behind it; or makes the picture of
these; or says what losses counts of letters, pairs and threes of letters have.
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.style import NAMES  # noqa: E402
from tables import command, keep, numbers, sentence  # noqa: E402
from transfer import HEAD, RATE, SIDE, rows_of  # noqa: E402
from verdict import (WORDS, below, judge, of_optimum, of_runs, of_taking,  # noqa: E402
                     within_factor)

FEW = {"1": "mup", "0.125N^0.5": "simp"}  # init.R of text_rates_few.ini
MANY = {"regime2": "Regime II", "regime3": "Regime III"}
MORE = "Four experts, more networks"  # which has no panel of its own
COST = 1.01  # times the loss, at most, by the best rate of narrow networks
PSEUDO = 0.01
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "kjv.txt")


def sides_of(run):
    """What a sweep is called, and where each parameterization stands in it."""
    if "init.R" in run.sweep.dims:
        return "Four experts", {FEW[text]: {"init.R": text} for text in run.sweep["init.R"].values}
    if SIDE not in run.sweep.coords:
        sp = re.search(r"(?m)^W_Q = .*N$", run.parameters["ini"])
        return ("Four experts", {"sp": {}}) if sp else (MORE, {"mup": {}})
    axis = run.sweep[SIDE].dims[0]
    regime = re.search(r"(?m)^many_experts = (.*)$", run.parameters["ini"])[1]
    return MANY[regime], {text.split()[0]: {axis: text} for text in run.sweep[axis].values}


def costs(run, name, sides):
    """What the rate that is best for the narrowest networks costs the widest ones, beside the best
    of the grid. Which they are, is drawn anew in each sample."""
    losses = run.series("test_loss")["test_loss_runs"].isel(t=-1)
    for side, where in sides.items():
        one = losses.sel(where).transpose("N", "run", RATE)
        narrow, wide = (of_runs(one.values[k], float(one["N"][k])) for k in (0, -1))
        cost = of_taking(wide, narrow)
        verdict = WORDS[judge(cost, below(np.log(COST)))]
        print(f"{name}, {side}: the best rate of the narrowest costs the widest less than "
              f"{COST - 1:.0%} of the loss: {verdict}: {sentence(numbers(cost))}")
        yield (name, side, "all", "loss at the first's best rate, over that at its own: " + verdict,
               *numbers(cost))


def widest(run, sides):
    """{parameterization: samples of the logarithm of the loss of the widest at their best rate}."""
    return {side: of_optimum(run.optimum.sel(where).squeeze(), "objective")[-1]
            for side, where in sides.items()}


def loss_beside_mup(name, least):
    """How the loss of the widest networks is to that in muP, of what is not MSSP."""
    for side in sorted(set(least) - {"mup", "mssp"}) if "mup" in least else ():
        ratio = least[side] - least["mup"]
        verdict = WORDS[judge(ratio, within_factor(COST))]
        print(f"{name}, {side}: the loss of the widest is that in muP within {COST - 1:.0%}: "
              f"{verdict}: {sentence(numbers(ratio))}")
        yield name, side, "all", f"loss of the widest, over that in muP: {verdict}", *numbers(ratio)


def draw(rows, path):
    """A panel for each kind of network, of SP, whose losses are the largest, one of its own; a
    color for each parameterization; the narrowest networks are dots and squares, the widest whole
    lines and disks, those between dashes and triangles. Losses have a scale of their own in each
    panel."""
    import matplotlib.pyplot as plt
    panels = {}
    for kind, side in dict.fromkeys(row[:2] for row in rows if row[0] != MORE):
        panels.setdefault(f"{kind}, SP" if side == "sp" else kind, []).append((kind, side))
    sides = list(dict.fromkeys(row[1] for row in rows))
    figure, axes = plt.subplots(-(-len(panels) // 2), 2, squeeze=False, layout="constrained",
                                figsize=(8, 2.7 * -(-len(panels) // 2)))
    for (title, parts), ax in zip(panels.items(), axes.flat):
        ticks = set()
        for k, (kind, side) in enumerate(parts):
            apart = 1.02 ** (k - (len(parts) - 1) / 2)  # so that bars stand side by side
            widths = list(dict.fromkeys(row[2] for row in rows
                                        if row[:2] == (kind, side) and row[2] != "all"))
            for N in widths:
                grid = np.array([row[3:] for row in rows if row[:3] == (kind, side, N)
                                 and row[3][0].isdigit()], float).reshape(-1, 4)
                eta0, mean, low, high = grid[np.isfinite(grid).all(1)].T
                line, marker = ("-", "o") if N == widths[-1] else \
                    (":", "s") if N == widths[0] else ("--", "^")
                ticks |= set(eta0)
                ax.errorbar(apart * eta0, mean, [mean - low, high - mean],
                            color=f"C{sides.index(side)}", lw=1.2, ls=line, capsize=2, ms=3.5,
                            marker=marker, mfc=None if marker == "o" else "w",
                            label=f"{NAMES[side]}, $N = {N}$" if len(eta0) else None)
        ax.set(xscale="log", title=title, xlabel=r"learning rate $\eta_0$")
        ax.set_xticks(sorted(ticks), [f"{x:.2g}" for x in sorted(ticks)])
        ax.minorticks_off()
    named = dict(pair[::-1] for ax in axes.flat for pair in zip(*ax.get_legend_handles_labels()))
    axes[0, -1].legend(named.values(), named.keys(), fontsize=8, loc="upper left",
                       title="bars: 95 %", bbox_to_anchor=(1.02, 1), borderaxespad=0)
    for ax in axes[:, 0]:
        ax.set_ylabel("loss of a letter that was not read")
    for ax in axes.flat[len(panels):]:
        ax.set_axis_off()
    figure.savefig(path, dpi=110)


def loss_of_counts(text: bytes, order: int) -> float:
    """Of the law of a letter given the order - 1 letters before it, for a letter of the last tenth
    of a text by counts of the rest. What was not seen counts as PSEUDO times."""
    kinds, letters = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    first = 9 * len(letters) // 10
    words = sum(letters[k:len(letters) - order + 1 + k] * len(kinds) ** (order - 1 - k)
                for k in range(order))
    counts = np.full(len(kinds) ** order, PSEUDO)
    np.add.at(counts, words[:first], 1)
    law = counts.reshape(-1, len(kinds))
    law /= law.sum(1, keepdims=True)
    return float(-np.log(law.ravel()[words[first:]]).mean())


def count(path=TEXT):
    with open(path, "rb") as file:
        text = file.read()
    for order, name in ((1, "letters"), (2, "pairs"), (3, "threes")):
        print(f"{name}: {loss_of_counts(text, order):.3f}")


def main(path, out=None, picture=None, *more):
    rows, least = [], {}
    for run in map(dmft.load, (path, *more)):
        name, sides = sides_of(run)
        rows += rows_of(run, name, sides)
        rows += costs(run, name, sides)
        least.setdefault(name, {}).update(widest(run, sides))
    for name, sides in least.items():
        rows += loss_beside_mup(name, sides)
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--counts"]:
        count(*sys.argv[2:])
    else:
        command(main, draw)
