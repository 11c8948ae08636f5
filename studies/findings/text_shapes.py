"""What more heads, more experts, finer experts, decay and size do to a transformer on a text.

    python/with studies/findings/text_shapes.py SWEEP.h5 [TABLE.csv [PICTURE.png [SWEEP.h5 ...]]]
    python/with studies/findings/text_shapes.py --picture TABLE.csv PICTURE.png

Reads sweeps of text_heads.ini, text_experts.ini, text_decay.ini and text_sizes.ini, says what is
seen of each, and writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import command, keep, numbers, sentence, units_of  # noqa: E402
from verdict import (WORDS, above, all_of, below, interval, judge, of_optimum,  # noqa: E402
                     of_runs, within_factor)

HEADS, EXPERTS, DECAY, SIZES = "heads", "experts", "decay", "sizes"
RATE, FACTOR, COST = "training.eta0", 1.5, 1.01
HEAD = ("of", "value", "at", "number", "low", "high")
# The values of a sweep that are compared, from the first on: what is varied, and its words.
CHAINS = {HEADS: {"heads": ("1 0.125", "2 0.25", "4 0.5", "8 1")},
          EXPERTS: {"more experts": ("4 0.5 0.25", "8 0.5 0.125", "16 0.5 0.0625"),
                    "finer experts": ("4 0.5 0.25", "8 0.25 0.25", "16 0.125 0.25")}}

COUNTS = ("all weights", "those of the blocks", "all active weights", "active ones of the blocks")
LINE = 0.8  # the share of the variance that a line is to explain at least
LABELS = {HEADS: {"1 0.125": "1 head of 8 units", "2 0.25": "2 heads", "4 0.5": "4 heads",
                  "8 1": "8 heads"},
          EXPERTS: {"4 0.5 0.25": "1 of 4 experts of N/2 units", "8 0.5 0.125": "1 of 8",
                    "16 0.5 0.0625": "1 of 16", "8 0.25 0.25": "2 of 8 of N/4 units",
                    "16 0.125 0.25": "4 of 16 of N/8 units"}}


def kind_of(run):
    """Which of the inis a result is of."""
    dims = " ".join(run.sweep.dims)
    return next(kind for kind, key in ((DECAY, "weight_decay"), (HEADS, "network.heads"),
                                       (SIZES, "network.depth"), (EXPERTS, "network.experts"))
                if key in dims)


def bars(runs):
    """Mean and 95 % interval of the losses of networks, as text."""
    half = student(len(runs) - 1) * runs.std(ddof=1) / len(runs) ** 0.5
    return tuple(f"{runs.mean() + sign * half:.5g}" for sign in (0, -1, 1))


def of_rates(run, kind):
    """Losses at all rates; the best rate and the loss there, of all values of a chain; and whether
    losses fall along it and the rate stays."""
    dim = next(name for name in run.sweep.dims if name.startswith("network."))
    all_runs = run.series("test_loss")["test_loss_runs"].isel(t=-1)
    best = {}
    for text in run.sweep[dim].values:
        one = all_runs.sel({dim: text}).squeeze()
        for eta0 in one[RATE].values:
            yield kind, str(text), f"{eta0:.4g}", *bars(one.sel({RATE: eta0}).values)
        optimum = run.optimum.sel({dim: text}).squeeze()
        best[text] = {name: np.atleast_2d(of_optimum(optimum, name))[0]
                      for name in ("at", "objective")}
        for name, words in (("at", "best rate"), ("objective", "loss at the best rate")):
            yield kind, str(text), words, *numbers(best[text][name])
    for words, chain in CHAINS[kind].items():
        steps = [best[b]["objective"] - best[a]["objective"] for a, b in zip(chain, chain[1:])]
        verdict = WORDS[all_of(judge(step, below(0)) for step in steps)]
        print(f"{words}: the loss at the best rate falls at every step: {verdict}: "
              + ", ".join(sentence(numbers(best[one]["objective"])) for one in chain)
              + "; each over the one before " + ", ".join(sentence(numbers(s)) for s in steps))
        for text, step in zip(chain[1:], steps):
            yield f"{words}: loss, over that before: {verdict}", text, "", *numbers(step)
        for first, what, name, claim, asked in (
                (0, "loss", "objective", "falls from the first to the last", below(0)),
                (1, "loss", "objective", "falls from the second to the last", below(0)),
                (0, "best rate", "at", f"stays within a factor of {FACTOR}", within_factor(FACTOR))):
            change = best[chain[-1]][name] - best[chain[first]][name]
            verdict = WORDS[judge(change, asked)]
            print(f"{words}: the {what} {claim}: {verdict}: "
                  + ", ".join(sentence(numbers(best[one][name])) for one in chain)
                  + f"; times {sentence(numbers(change))}")
            yield f"{words}: {what} {claim}: {verdict}", "", "", *numbers(change)


def of_decay(run):
    """Whether any decay of the grid gains more than a hundredth of the loss over none."""
    runs = run.series("test_loss")["test_loss_runs"].isel(t=-1).squeeze()
    dim = next(name for name in runs.dims if name != "run")
    runs, values = runs.transpose("run", dim), [float(one) for one in runs[dim].values]
    samples = of_runs(runs.values, 0)
    verdicts = []
    for k, decay in enumerate(values):
        yield DECAY, f"{decay:g}", "", *bars(runs.values[:, k])
        if k:
            ratio = samples[:, k] - samples[:, 0]
            verdicts.append(judge(ratio, above(-np.log(COST))))
            print(f"decay {decay:g}: it gains less than {COST - 1:.0%} of the loss over none: "
                  f"{WORDS[verdicts[-1]]}: times {sentence(numbers(ratio))}")
            yield (f"loss, over that without decay: {WORDS[verdicts[-1]]}", f"{decay:g}", "",
                   *numbers(ratio))
    print(f"no decay gains more than {COST - 1:.0%}: {WORDS[all_of(verdicts)]}")


def weights_in(depth, experts, iota, rho, N, letters, tokens):
    """Numbers that a network has, by COUNTS."""
    around = (2 * letters + tokens) * N
    attention, expert = 4 * N**2, 2 * iota * N**2 + N  # N: its row of the router
    blocks, active = (depth * (attention + one * expert) for one in (experts, rho * experts))
    return blocks + around, blocks, active + around, active


def explained(size, losses):
    """The share of the variance of losses [sample, shape] that a line over ln size explains."""
    x, y = np.log(size), losses - losses.mean(1, keepdims=True)
    x = x - x.mean()
    return (y @ x) ** 2 / (x @ x) / (y**2).sum(1)


def of_sizes(run):
    """Losses of all shapes over their sizes, and over which of these they lie nearest to a line."""
    points = []
    for unit in units_of(run):
        letters, tokens = (unit.data.sizes[name] for name in ("letter", "token"))
        shape = [float(unit.parameters["network." + key])
                 for key in ("depth", "experts", "iota", "rho")]
        for N, data in unit.reference.items():
            points.append(((*shape, N), data["test_loss_runs"].values[:, -1]))
    points.sort(key=lambda point: point[0])
    sizes = np.array([weights_in(*shape, letters, tokens) for shape, _ in points]).T
    for k, (shape, runs) in enumerate(points):
        yield (SIZES, " ".join(f"{one:g}" for one in shape),
               " ".join(f"{one:.0f}" for one in sizes[:, k]), *bars(runs))
    losses = np.exp(np.stack([of_runs(runs, 1000 * k) for k, (_, runs) in enumerate(points)], 1))
    shares = [explained(size, losses) for size in sizes]
    for words, share in zip(COUNTS, shares):
        ends = tuple(f"{one:.3f}" for one in (np.median(share), *interval(share)))
        verdict = WORDS[judge(share, above(LINE))]
        print(f"a line over the logarithm of {words} explains more than {LINE:g} of the variance "
              f"of the loss: {verdict}: {sentence(ends)}")
        yield f"explained by a line: {verdict}", words, "", *ends
    for k in (1, 3):
        more = shares[k] - shares[k - 1]
        ends = tuple(f"{one:.3f}" for one in (np.median(more), *interval(more)))
        verdict = WORDS[judge(more, above(0))]
        print(f"{COUNTS[k]} explain more than {COUNTS[k - 1]}: {verdict}: by {sentence(ends)}")
        yield f"explained, beside what {COUNTS[k - 1]} do: {verdict}", COUNTS[k], "", *ends


def rows_of(run):
    kind = kind_of(run)
    of = {DECAY: of_decay, SIZES: of_sizes}
    return of[kind](run) if kind in of else of_rates(run, kind)


def main(path, out=None, picture=None, *more):
    keep([row for run in map(dmft.load, (path, *more)) for row in rows_of(run)], HEAD, draw, out,
         picture)


def draw(rows, path):
    """Losses over rates, of heads and of experts; over the decay; and over the number of weights,
    all and those of the blocks alone."""
    import matplotlib.pyplot as plt
    from dmft.plot.sweeps import scale
    figure, axes = plt.subplots(2, 2, sharey=True, figsize=(8.5, 6.4), layout="constrained")
    for ax, kind in zip(axes[0], CHAINS):
        for k, (text, label) in enumerate(LABELS[kind].items()):
            draw_bars(ax, [row for row in rows if row[:2] == (kind, text)], label, color=f"C{k}")
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$")
        ax.legend(fontsize=7)
    decays = [(DECAY, "", row[1], *row[3:]) for row in rows if row[0] == DECAY]
    draw_bars(axes[1, 0], decays, "")
    axes[1, 0].set(xscale="symlog", xlabel="decay of a step")
    axes[1, 0].set_xscale("symlog", linthresh=1e-4)
    for k, words in enumerate(COUNTS[:2]):
        sizes = [(SIZES, "", row[2].split()[k], *row[3:]) for row in rows if row[0] == SIZES]
        draw_bars(axes[1, 1], sizes, words, color=f"C{k}", ls="none", mfc="w" if k else None)
    axes[1, 1].set(xscale="log", xlabel="number of weights")
    axes[1, 1].legend(fontsize=7)
    for ax in axes[:, 0]:
        ax.set_ylabel("loss of a letter that was not read")
    for ax in (*axes[0], axes[1, 1]):
        scale(ax.xaxis, [value for line in ax.lines for value in line.get_xdata()])
    figure.savefig(path, dpi=110)


def draw_bars(ax, rows, label, **style):
    """Losses with their intervals over the third column, where it is a number."""
    rows = [row[2:] for row in rows if row[2][:1].isdigit()]
    at, mean, low, high = np.array(rows, float).reshape(-1, 4).T
    ax.errorbar(at, mean, [mean - low, high - mean], label=label, marker="o", ms=3.5, capsize=2,
                **{"lw": 1.1, **style})


if __name__ == "__main__":
    command(main, draw)
