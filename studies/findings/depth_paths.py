"""Two ways to infinite depth, an SDE or an ODE: which one are networks of equal cost closer to?

    python/with studies/findings/depth_paths.py depth_paths.h5 [OUT.csv [OUT.png \\
        [depth_paths_limit.h5 depth_paths_rates.h5]]]
    python/with studies/findings/depth_paths.py --picture depth_paths.csv OUT.png

Reads the sweeps of the inis of these names, says what is seen, and writes the numbers behind it; or
makes the picture of these. The limits have to be given for distances.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, numbers  # noqa: E402
from verdict import (EXPONENT, WORDS, above, below, interval, jointly, near,  # noqa: E402
                     of_runs, within_factor)

from dmft.judgement import line  # noqa: E402

HEAD = ("path", "depth", "N", "of", "value", "low", "high")
FACTOR = 1.25


def path_of(depth: int, alpha: float) -> str:
    return "ODE" if alpha == 0 else "SDE" if alpha == depth / 2 else "to the ODE"


def units(paths):
    for one in paths:
        run = dmft.load(one)
        for path in sorted(set(run.units().values.ravel())):
            if not path.endswith(".partial"):
                unit = dmft.load(path)
                depth = int(unit.parameters["network.depth"])
                yield unit, path_of(depth, float(unit.parameters["network.alpha"])), depth


def found_in(paths):
    """{(path, depth, N, of): samples of a logarithm}; "loss at RATE" of sweeps over rates."""
    limits, networks, found = {}, [], {}
    for unit, path, depth in units(paths):
        if "limit" in unit:
            limits[path, depth] = unit.limit["f"].isel(t=-1).values
        else:
            networks.append((unit, path, depth))
    for unit, path, depth in networks:
        (N, data), = unit.reference.items()
        rate = float(unit.parameters["training.eta0"])
        loss = data["loss_runs"].isel(t=-1).values
        found[path, depth, int(N), f"loss at {rate:.3g}"] = of_runs(loss, N)
        size = 2 * depth * N * N / float(unit.parameters["network.alpha"])
        found[path, depth, int(N), "weights of blocks"] = np.full(1000, np.log(size))
        f = data["f_runs"].isel(t=-1).values
        for of, key in (("own limit", (path, depth)), ("ODE", ("ODE", depth)),
                        ("SDE", ("SDE", depth))):
            if key in limits and abs(rate - 0.5) < 1e-9 and data.sizes["run"] > 24:
                square = ((f - limits[key]) ** 2).mean(1)
                found[path, depth, int(N), f"distance to {of}"] = of_runs(square, N) / 2
    return found


def told(samples, among: int = 1) -> str:
    low, high = interval(samples, among)
    return f"{np.exp(np.median(samples)):.3g} [{np.exp(low):.3g}, {np.exp(high):.3g}]"


def say(words, samples, claim):
    if samples:
        print(f"{words}: {WORDS[jointly(samples, claim)]}: "
              + ", ".join(told(one, len(samples)) for one in samples))


def tell(found):
    cells = sorted({key[:2] for key in found if key[3] == "distance to own limit"})
    widths = sorted({key[2] for key in found if key[3] == "distance to own limit"})
    if cells:
        of_distances(found, cells, widths)
    for path in ("SDE", "to the ODE"):
        rates = sorted({float(key[3].split()[-1]) for key in found if key[3].startswith("loss at")})
        depths = sorted({key[1] for key in found if key[0] == path and key[2] == 64})
        kept = [rate for rate in rates if rate < 0.8 and len(depths) > 1]
        ratios = [found[path, depths[-1], 64, f"loss at {rate:.3g}"]
                  - found[path, depths[0], 64, f"loss at {rate:.3g}"] for rate in kept
                  if (path, depths[0], 64, f"loss at {rate:.3g}") in found
                  and (path, depths[-1], 64, f"loss at {rate:.3g}") in found]
        if len(ratios) > 1:
            say(f"path {path}: at depth {depths[-1]} the loss is that of depth {depths[0]} within "
                f"{FACTOR} at rates below .8", ratios, within_factor(FACTOR))


def of_distances(found, cells, widths):
    widest = widths[-1]
    base = found[(*cells[0], widest, "distance to own limit")]
    say(f"at N = {widest} the distance to the own limit is one within {FACTOR} for all of "
        + ", ".join(f"{path} L = {L}" for path, L in cells[1:]) + f", over {cells[0]}",
        [found[(*one, widest, "distance to own limit")] - base for one in cells[1:]],
        within_factor(FACTOR))
    powers = [line(np.log(widths), np.array([found[(*one, N, "distance to own limit")]
                                             for N in widths]))[2] for one in cells]
    print(f"distance as N to the power -1/2 within {EXPONENT}: "
          f"{WORDS[jointly(powers, near(-0.5, EXPONENT))]}: "
          + ", ".join(f"{np.median(one):.2f} [{interval(one, len(powers))[0]:.2f}, "
                      f"{interval(one, len(powers))[1]:.2f}]" for one in powers))
    say(f"networks of the SDE path are farther from the ODE than from their own limit at N = "
        f"{widest}", [found[path, L, widest, "distance to ODE"]
                      - found[path, L, widest, "distance to own limit"]
                      for path, L in cells if path == "SDE"], above(0))
    for L in sorted({one[1] for one in cells}):
        rows = {path: [(found[path, L, N, "weights of blocks"][0],
                        found[path, L, N, "distance to own limit" if path == "SDE"
                              else "distance to ODE"]) for N in widths]
                for path in ("SDE", "to the ODE") if (path, L) in cells}
        if len(rows) == 2:
            of_cost(L, rows)


def of_cost(L, rows):
    """The distances at one number of weights, that of the widest of the SDE path, by a line of the
    other one's logarithms."""
    at, own = rows["SDE"][-1]
    x = np.array([one for one, _ in rows["to the ODE"]])
    y = np.array([one for _, one in rows["to the ODE"]])
    centre, height, slope = line(x, y)
    other = height + slope * (at - centre)
    print(f"L = {L}: at {np.exp(at):.3g} weights of blocks the distance to the SDE over that to "
          f"the ODE is {told(own - other)}, below one: "
          f"{WORDS[jointly([own - other], below(0))]}")


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.1), layout="constrained")
    cells = list(dict.fromkeys(row[:2] for row in rows if row[3].startswith("distance")))
    for k, (way, L) in enumerate(cells):
        of = "distance to own limit" if way == "SDE" else "distance to ODE"
        some = {row[2]: row for row in rows if row[:2] == (way, L) and row[3] == of}
        cost = {row[2]: float(row[4]) for row in rows if row[:2] == (way, L)
                and row[3] == "weights of blocks"}
        N = sorted(some, key=int)
        value, low, high = np.array([some[n][4:] for n in N], float).T
        for ax, x in zip(axes, ([float(n) for n in N], [cost[n] for n in N])):
            ax.errorbar(x, value, (value - low, high - value), capsize=2, ms=3.5, lw=1,
                        color=f"C{('4', '8', '16').index(L) if L in ('4', '8', '16') else 3}",
                        marker="os"[way != "SDE"], ls="-:"[way != "SDE"],
                        label=f"{way}, $L = {L}$")
    for ax, words in zip(axes, ("width $N$", "weights of all blocks")):
        ax.set(xscale="log", yscale="log", xlabel=words, ylabel="rms distance of outputs")
        ax.set_yticks([0.02, 0.04, 0.08], ["0.02", "0.04", "0.08"])
        ax.yaxis.set_minor_locator(plt.NullLocator())
    axes[0].set_xticks([16, 32, 64, 128], ["16", "32", "64", "128"])
    axes[0].xaxis.set_minor_locator(plt.NullLocator())
    axes[0].legend(fontsize=6)
    for way in ("SDE", "to the ODE"):
        for k, L in enumerate(("2", "4", "8", "16")):
            some = np.array([(row[3].split()[-1], *row[4:]) for row in rows
                             if row[:3] == (way, L, "64") and row[3].startswith("loss at")], float)
            if len(some) > 3:
                rate, value, low, high = some[some[:, 0].argsort()].T
                axes[2].errorbar(rate, value, (value - low, high - value), capsize=2, ms=3, lw=1,
                                 color=f"C{k}", marker="os"[way != "SDE"], ls="-:"[way != "SDE"],
                                 label=f"{way}, $L = {L}$")
    axes[2].set(xscale="log", yscale="log", xlabel=r"learning rate $\eta_0$",
                ylabel="loss after 12 steps")
    axes[2].set_xticks([0.125, 0.25, 0.5, 1, 2], ["0.125", "0.25", "0.5", "1", "2"])
    axes[2].xaxis.set_minor_locator(plt.NullLocator())
    axes[2].legend(fontsize=5.5)
    figure.savefig(path, dpi=100)


def main(path, out=None, picture=None, *more):
    found = found_in([path, *more])
    tell(found)
    rows = [(*key, *numbers(samples)) for key, samples in sorted(found.items())]
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
