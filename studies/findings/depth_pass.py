"""Two ways to infinite depth, in one pass: where a network's weights are better spent, and whether
the curve of the loss over the rate is the same at every depth.

    python/with studies/findings/depth_pass.py depth_pass.h5 OUT.csv OUT.png \\
        [depth_pass_cost.h5 depth_pass_far.h5]
    python/with studies/findings/depth_pass.py --picture depth_pass.csv OUT.png

Reads the sweeps of the inis of these names, says what is seen, and writes the numbers behind it; or
makes the picture of these. A curve is laid on that of the least depth as dmft-sweep lays those of
widths on each other (dmft/study/curves.py).
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, numbers, samples_of  # noqa: E402
from verdict import WORDS, above, below, interval, jointly, of_runs, within_factor  # noqa: E402

from dmft.judgement import line  # noqa: E402
from dmft.study.curves import compare  # noqa: E402

HEAD = ("path", "depth", "N", "of", "value", "low", "high")
PATHS, FACTOR, RATE = ("SDE", "to the ODE"), 1.25, "0.707"


def losses_of(paths):
    """{(path, depth, N): {rate: test losses of the networks, NaN where some failed}}"""
    found = {}
    for one in paths:
        for path in sorted(set(dmft.load(one).units().values.ravel())):
            unit = dmft.load(path)
            depth = int(unit.parameters["network.depth"])
            way = PATHS[float(unit.parameters["network.alpha"]) != depth / 2]
            for N, data in unit.reference.items():
                losses = data["test_loss_runs"].isel(t=-1).values
                found.setdefault((way, depth, int(N)), {})[
                    float(unit.parameters["training.eta0"])] = \
                    np.nan if path.endswith(".partial") else losses
    return found


def weights(way: str, depth: int, N: int) -> float:
    """Of all blocks: two experts of N/depth units, or of 2 N."""
    return 4 * depth * N * (N / depth if way == "SDE" else 2 * N)


def rows_of(found):
    """Losses, and shift and factor of curves, with their intervals of 95 %; samples of losses."""
    rows, samples = [], {}
    for (way, depth, N), curve in sorted(found.items()):
        for rate, runs in sorted(curve.items()):
            if np.isfinite(runs).all():
                key = (way, depth, N, f"{rate:.3g}")
                samples[key] = of_runs(runs, N)
                rows.append((*key, *numbers(samples[key])))
        least = min(one[1] for one in found if one[0] == way and one[2] == N)
        if depth > least and len(curve) > 4:
            both = compare(samples_of(found[way, least, N], N), samples_of(curve, N))
            for of, three in (("shift", both[:3]), ("factor", both[3:])):
                rows.append((way, depth, N, of, *(f"{one:.4g}" for one in three)))
    return rows, samples


def told(some) -> str:
    return ", ".join(f"{np.exp(np.median(one)):.3g} [{np.exp(low):.3g}, {np.exp(high):.3g}]"
                     for one in some for low, high in [interval(one, len(some))])


def say(words, some, claim):
    print(f"{words}: {WORDS[jointly(some, claim)]}: {told(some)}")


def of_cost(samples):
    """At one rate: the loss over the number of weights, as a line of logarithms on each path, at
    the largest number that both have."""
    depths = sorted({key[1] for key in samples if key[2] > 64})
    gains = []
    for depth in depths:
        lines, most = [], []
        for way in PATHS:
            widths = sorted(key[2] for key in samples if key[:2] == (way, depth) and key[3] == RATE)
            sizes = np.log([weights(way, depth, N) for N in widths])
            lines.append(line(sizes, np.array([samples[way, depth, N, RATE] for N in widths])))
            most.append(sizes[-1])
        first, second = (height + slope * (min(most) - centre) for centre, height, slope in lines)
        gains.append(first - second)
    if gains:
        say(f"at the most weights that both paths have, depths {depths}, the loss of the first is "
            "lower", gains, below(0))


def tell(rows, samples):
    for row in rows:
        if row[3] in ("shift", "factor"):
            print(f"{row[0]}, depth {row[1]}, N = {row[2]}: {row[3]} {row[4]} [{row[5]}, {row[6]}]")
    for way in PATHS:
        rates = sorted({key[3] for key in samples if key[0] == way and key[2] == 64}, key=float)
        depths = sorted({key[1] for key in samples if key[0] == way and key[2] == 64})
        every = [rate for rate in rates if all((way, L, 64, rate) in samples for L in depths)]
        ratios = [samples[way, depths[-1], 64, rate] - samples[way, depths[0], 64, rate]
                  for rate in every]
        say(f"{way}: at depth {depths[-1]} and rates {' '.join(every)} the loss is that of depth "
            f"{depths[0]} within {FACTOR}", ratios, within_factor(FACTOR))
        last = [samples[way, depths[-1], 64, rate] - samples[way, depths[-2], 64, rate]
                for rate in every]
        say(f"{way}: depth {depths[-1]} over depth {depths[-2]} within {FACTOR}", last,
            within_factor(FACTOR))
    both = [samples["to the ODE", L, 64, RATE] - samples["SDE", L, 64, RATE]
            for L in sorted({key[1] for key in samples})]
    say(f"at N = 64 and eta0 = {RATE} the loss of the second path is larger", both, above(0))
    of_cost(samples)


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.2), layout="constrained")
    for way in PATHS:
        for k, depth in enumerate(("2", "4", "8", "16")):
            style = {"color": f"C{k}", "marker": "os"[way != "SDE"], "ls": "-:"[way != "SDE"],
                     "ms": 3, "lw": 1, "capsize": 2, "label": f"{way}, $L = {depth}$"}
            of_rate = [row for row in rows if tuple(map(str, row[:3])) == (way, depth, "64")
                       and row[3] not in ("shift", "factor")]
            of_size = [row for row in rows if (row[0], str(row[1]), row[3]) == (way, depth, RATE)]
            for ax, some, x in ((axes[0], of_rate, [float(row[3]) for row in of_rate]),
                                (axes[1], of_size, [weights(way, int(depth), int(row[2]))
                                                    for row in of_size])):
                if len(some) > 1:
                    x, value, low, high = np.array(
                        [(at, *map(float, row[4:])) for at, row in sorted(zip(x, some))]).T
                    ax.errorbar(x, value, (value - low, high - value), **style)
    axes[0].set(xscale="log", yscale="log", xlabel=r"learning rate $\eta_0$", ylabel="test loss")
    axes[0].set_xticks([0.125, 0.25, 0.5, 1], ["0.125", "0.25", "0.5", "1"])
    axes[1].set(xscale="log", yscale="log", xlabel="weights of all blocks", ylabel="test loss")
    for ax in axes:
        ax.set_yticks([0.05, 0.1, 0.2], ["0.05", "0.1", "0.2"])
        ax.yaxis.set_minor_locator(plt.NullLocator())
    axes[0].xaxis.set_minor_locator(plt.NullLocator())
    axes[0].legend(fontsize=6)
    figure.savefig(path, dpi=100)


def main(path, out=None, picture=None, *more):
    rows, samples = rows_of(losses_of([path, *more]))
    tell(rows, samples)
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
