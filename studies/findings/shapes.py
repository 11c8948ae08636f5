"""Do the best rate and the best initial scale transfer over the shape of a network of experts?

    python/with studies/findings/shapes.py SWEEP.h5 [TABLE.csv [PICTURE.png [SWEEP.h5 ...]]]
    python/with studies/findings/shapes.py --picture TABLE.csv PICTURE.png

Reads sweeps of shapes.ini, over rates and over initial scales, says what is seen of each shape
beside the base, and writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, mean_and_half, numbers, sentence, units_of  # noqa: E402
from verdict import WORDS, below, judge, of_optimum, of_runs, within_factor  # noqa: E402

RATE, INIT = "training.eta0", "init.W0"  # of the initial scales, the first
FACTOR = 1.5  # within which a best rate transfers
COST = 1.1  # times the loss, at most, by the best value of the base
AFTER = 2500  # where a picture has the test losses at the end, right of the last step
EARLY, WINDOW = 250, 10  # steps until which curves are one, and over which a loss is averaged
HEAD = ("of", "shape", "at", "value", "low", "high")
BASE = {"N": 64.0, "L": 4.0, "E": 8.0, "N_e": 64.0}
MARKS = {"N": "o", "L": "s", "E": "D", "N_e": "^", "base": "o"}


def shape_of(parameters, N) -> str:
    """base, N x 2, L x 4, ...; where N is larger, N_e is by the same factor."""
    L, E, alpha = (float(parameters["network." + key]) for key in ("depth", "experts", "alpha"))
    factors = {"N": N / BASE["N"], "L": L / BASE["L"], "E": E / BASE["E"],
               "N_e": 1 / (alpha * E)}
    changed = [f"{name} x {factor:g}" for name, factor in factors.items() if factor != 1]
    return ", ".join(changed) or "base"


def in_order(shapes) -> list[str]:
    """The base, then by what is larger, and by how much."""
    names = ["base", *BASE]
    return sorted(shapes, key=lambda shape: (names.index(shape.split(" ")[0]), shape))


def losses_of(paths):
    """{(what varies, shape): {its value: (N, test losses at the end [network], losses of batches
    [network, step])}}, and samples of the logarithm of the best rate, {shape: ...}."""
    found, best = {}, {}
    for path in paths:
        run = dmft.load(path)
        over = INIT if any(INIT in name for name in run.sweep.dims) else RATE
        for unit in units_of(run):
            for N, data in unit.reference.items():
                point = found.setdefault((over, shape_of(unit.parameters, N)), {})
                point[float(unit.parameters[over])] = (
                    N, data["test_loss_runs"].values[:, -1], data["loss_runs"].values)
        if over == RATE:
            best |= dict(optima_of(run))
    return found, best


def optima_of(run):
    """(shape, samples of the logarithm of the best rate) of a sweep over rates."""
    dim = next(name for name in run.optimum["reason"].dims if "depth" in name)
    for text in run.optimum[dim].values:
        one = run.optimum.sel({dim: text}).squeeze()
        keys = dict(zip(("network.depth", "network.experts", "network.alpha"), text.split()))
        for N, samples in zip(np.atleast_1d(one["N"].values), np.atleast_2d(of_optimum(one))):
            yield shape_of(keys, N), samples


def averaged(losses, t):
    """Mean of the WINDOW steps that end with t."""
    return losses[:, t - WINDOW + 1:t + 1].mean(1)


def rows_of(found, best):
    """Rows of the table; prints what is seen."""
    for over, words in ((RATE, "rate"), (INIT, "initial scale")):
        shapes = in_order(shape for key, shape in found if key == over)
        least = {shape: min(found[over, shape].items(), key=lambda one: one[1][1].mean())[0]
                 for shape in shapes}
        for shape in shapes:
            for at, (N, test, _) in sorted(found[over, shape].items()):
                mean, half = mean_and_half(test)
                yield words, shape, f"{at:.4g}", *(
                    f"{mean + sign * half:.4g}" for sign in (0, -1, 1))
            yield from beside_base(words, shape, found[over, shape], least)
    for shape in in_order(best):
        ratio = best[shape] - best["base"]
        yield "best rate", shape, "", *numbers(best[shape])
        if shape != "base":
            verdict = WORDS[judge(ratio, within_factor(FACTOR))]
            print(f"{shape}: the best rate is within a factor of {FACTOR} of that of the base: "
                  f"{verdict}: {sentence(numbers(best[shape]))}, times {sentence(numbers(ratio))}")
            yield f"best rate, over that of the base: {verdict}", shape, "", *numbers(ratio)
    yield from curves(found)


def beside_base(words, shape, points, least):
    """What the best value of the base costs a shape, and whether the shape learns better by it."""
    at = least["base"]
    if shape == "base" or at not in points:
        return
    N, here, _ = points[at]
    own = points[least[shape]][1]
    cost = of_runs(here, N) - of_runs(own, N)
    verdict = WORDS[judge(cost, below(np.log(COST)))]
    print(f"{shape}: the best {words} of the base, {at:.3g}, costs less than {COST - 1:.0%} of the "
          f"loss: {verdict}: times {sentence(numbers(cost))} of that at its own, "
          f"{least[shape]:.3g}")
    yield (f"loss at the base's best {words}, over that at its own: {verdict}", shape,
           f"{least[shape]:.4g}", *numbers(cost))


def curves(found):
    """Losses of batches over steps at the best rate of the base, and how they are to the base's."""
    base = found[RATE, "base"]
    rate = min(base, key=lambda at: base[at][1].mean())
    logs = {}
    for shape in in_order(shape for key, shape in found if key == RATE):
        N, test, losses = found[RATE, shape][rate]
        for t in np.unique(np.geomspace(WINDOW, losses.shape[1] - 1, 30).astype(int)):
            yield "curve", shape, str(t), f"{averaged(losses, t).mean():.4g}", "", ""
        early = min(EARLY, losses.shape[1] - 1)
        logs[shape] = of_runs(averaged(losses, early), N), of_runs(test, N)
        if shape == "base":
            continue
        apart, end = (one - other for one, other in zip(logs[shape], logs["base"]))
        verdict = WORDS[judge(apart, within_factor(COST))]
        print(f"{shape}: the loss at step {early} is that of the base within {COST - 1:.0%}: "
              f"{verdict}: times {sentence(numbers(apart))}")
        yield f"loss, over that of the base: {verdict}", shape, str(early), *numbers(apart)
        verdict = WORDS[judge(end, below(0))]
        print(f"{shape}: at the base's best rate, {rate:.3g}, the test loss at the end is below "
              f"that of the base: {verdict}: times {sentence(numbers(end))}")
        yield f"test loss, over that of the base: {verdict}", shape, "", *numbers(end)


def draw(rows, path):
    """Losses against the rate, against the initial scale, and, over those of the base, over
    steps: means, and with intervals the two ratios that are judged, of the loss at an early step
    and, right of the curves, of the test loss at the end."""
    import matplotlib.pyplot as plt
    from dmft.plot.sweeps import scale
    figure, grid = plt.subplots(2, 2, figsize=(7.4, 6), layout="constrained")
    axes, free = grid.flat[:3], grid.flat[3]
    shapes = list(dict.fromkeys(row[1] for row in rows))
    for k, shape in enumerate(shapes):
        what = shape.split(" ")[0]
        style = {"color": "black" if shape == "base" else f"C{list(BASE).index(what)}",
                 "ls": "--" if shape.endswith("4") else "-", "lw": 1.1}
        for ax, of in zip(axes, ("rate", "initial scale")):
            x, mean, low, high = table(rows, of, shape)
            if len(x):
                apart = 1.01 ** (k - len(shapes) / 2)  # so that bars stand side by side
                ax.errorbar(apart * x, mean, [mean - low, high - mean], marker=MARKS[what], ms=3.5,
                            capsize=2, label=shape.replace("N_e", "$N_e$"), **style)
        t, mean = table(rows, "curve", shape)[:2]
        axes[2].plot(t, mean / table(rows, "curve", "base")[1], **style)
        for of, at, room in (("loss", EARLY, 1.03), ("test loss", AFTER, 1.1)):
            row = next((row[3:] for row in rows if row[1] == shape
                        and row[0].startswith(of + ", over that of the base")), None)
            if row:
                middle, low, high = map(float, row)
                axes[2].errorbar([at * room ** (k - len(shapes) / 2)], [middle],
                                 [[middle - low], [high - middle]], marker=MARKS[what], ms=3.5,
                                 capsize=2, zorder=3, **style)
    for ax, words in zip(axes, (r"learning rate $\eta_0$", "factor of initial scales", "step")):
        ax.set(xscale="log", xlabel=words)
    for ax in axes[:2]:
        ax.set(yscale="log", ylabel="test loss after 1000 steps")
        scale(ax.yaxis, [value for line in ax.lines for value in line.get_ydata()])
        scale(ax.xaxis, [value for line in ax.lines for value in line.get_xdata()])
    axes[2].set(ylabel="loss of ten steps, over that of the base")
    axes[2].set_xticks((10, 100, 1000, AFTER), ("10", "100", "1000", "test"))
    axes[2].minorticks_off()
    free.set_axis_off()
    free.legend(*axes[0].get_legend_handles_labels(), loc="center", title="bars: 95 %", ncol=2)
    figure.savefig(path, dpi=110)


def table(rows, of, shape):
    """Columns at, value, low, high of the rows of one kind and shape."""
    numbers = [[float(one) if one else np.nan for one in row[2:]] for row in rows
               if row[0] == of and row[1] == shape]
    return np.array(numbers).reshape(-1, 4).T


def main(path, out=None, picture=None, *more):
    keep(list(rows_of(*losses_of((path, *more)))), HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
