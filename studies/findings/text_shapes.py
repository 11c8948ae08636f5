"""What more heads, more experts, finer experts, decay and size do to a transformer on a text.

    python/with studies/findings/text_shapes.py SWEEP.h5 [TABLE.csv [PICTURE.png [SWEEP.h5 ...]]]
    python/with studies/findings/text_shapes.py --picture TABLE.csv PICTURE.png

Reads sweeps of text_heads.ini, text_experts.ini, text_decay.ini and text_shapes.ini, says what is
seen of each, and writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, mean_and_half, numbers, sentence, units_of  # noqa: E402
from transfer import FACTOR, RATE  # noqa: E402
from verdict import (WORDS, above, all_of, below, interval, judge, of_optimum,  # noqa: E402
                     of_runs, opposite, within_factor)

HEADS, EXPERTS, DECAY, SIZES = "heads", "experts", "decay", "sizes"
FINER = "finer experts"
COST, MOVED = 1.01, np.log(1.1)
HEAD = ("of", "value", "at", "number", "low", "high")
# The values of a sweep, as pictures name them; and which of them are compared, from the first on.
LABELS = {HEADS: {"1 0.125": "1 head of 8 units", "2 0.25": "2 heads", "4 0.5": "4 heads",
                  "8 1": "8 heads"},
          EXPERTS: {"4 0.5 0.25": "1 of 4 experts of N/2 units", "8 0.5 0.125": "1 of 8",
                    "16 0.5 0.0625": "1 of 16", "8 0.25 0.25": "2 of 8 of N/4 units",
                    "16 0.125 0.25": "4 of 16 of N/8 units"}}
CHAINS = {HEADS: {"heads": (0, 1, 2, 3)}, EXPERTS: {"more experts": (0, 1, 2), FINER: (0, 3, 4)}}
BESIDE_NONE = "loss, over that without decay"
COUNTS = ("all weights", "those of the blocks", "all active weights", "active ones of the blocks")


def kind_of(run):
    """Which of the inis a result is of."""
    dims = " ".join(run.sweep.dims)
    return next(kind for kind, key in ((DECAY, "weight_decay"), (HEADS, "network.heads"),
                                       (SIZES, "network.depth"), (EXPERTS, "network.experts"))
                if key in dims)


def bars(runs):
    """Mean and 95 % interval of the losses of networks, as text."""
    mean, half = mean_and_half(runs)
    return tuple(f"{mean + sign * half:.5g}" for sign in (0, -1, 1))


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
    texts = list(LABELS[kind])
    for words, places in CHAINS[kind].items():
        yield from of_chain(words, [texts[k] for k in places], best)


def of_chain(words, chain, best):
    """Whether losses fall from one value to the next, and from the first ones to the last; and
    whether best rates stay, or, of finer experts, move."""
    losses, rates = ([best[text][name] for text in chain] for name in ("objective", "at"))
    steps = np.diff(losses, axis=0)
    verdict = WORDS[all_of(judge(step, below(0), len(steps)) for step in steps)]
    print(f"{words}: the loss at the best rate falls at every step: {verdict}: "
          + ", ".join(sentence(numbers(one)) for one in losses)
          + "; each over the one before " + ", ".join(sentence(numbers(one)) for one in steps))
    for text, step in zip(chain[1:], steps):
        yield f"{words}: loss, over that before; all fall: {verdict}", text, "", *numbers(step)
    for first in range(len(chain) - 2):
        change = losses[-1] - losses[first]
        yield one_claim(f"{words}: the loss falls from {chain[first]} to the last",
                        WORDS[judge(change, below(0))], change)
    changes = rates[1:] - rates[0]
    if words == FINER:
        neither = all_of(opposite(judge(changes[-1], claim, 2))
                         for claim in (above(MOVED), below(-MOVED)))
        claim, verdict = "moves by more than a tenth", opposite(neither)
    else:
        claim = f"stays within a factor of {FACTOR}"
        verdict = all_of(judge(one, within_factor(FACTOR), len(changes)) for one in changes)
    for text, change in zip(chain[1:], changes):
        yield one_claim(f"{words}: the best rate of {text} over the first; it {claim}",
                        WORDS[verdict], change)


def one_claim(claim, verdict, change):
    """The row of a claim, which is printed."""
    print(f"{claim}: {verdict}: times {sentence(numbers(change))}")
    return f"{claim}: {verdict}", "", "", *numbers(change)


def of_decay(run):
    """Whether any decay of the grid gains more than a hundredth of the loss over none."""
    runs = run.series("test_loss")["test_loss_runs"].isel(t=-1).squeeze()
    dim = next(name for name in runs.dims if name != "run")
    runs, values = runs.transpose("run", dim), [float(one) for one in runs[dim].values]
    samples = of_runs(runs.values, float(runs["N"]))
    verdicts = []
    for k, decay in enumerate(values):
        yield DECAY, f"{decay:g}", "", *bars(runs.values[:, k])
        if k:
            ratio = samples[:, k] - samples[:, 0]
            verdicts.append(judge(ratio, above(-np.log(COST)), len(values) - 1))
            print(f"decay {decay:g}: it gains less than {COST - 1:.0%} of the loss over none: "
                  f"{WORDS[verdicts[-1]]}: times {sentence(numbers(ratio))}")
            yield (f"{BESIDE_NONE}: {WORDS[verdicts[-1]]}", f"{decay:g}", "",
                   *numbers(ratio))
    print(f"no decay gains more than {COST - 1:.0%}: {WORDS[all_of(verdicts)]}")


def weights_in(depth, experts, iota, rho, N, letters, tokens):
    """Numbers that a network has, by COUNTS. A router has a row for each expert, and all of them
    are active."""
    around = (2 * letters + tokens) * N
    attention, expert = 4 * N**2 + experts * N, 2 * iota * N**2
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
    losses = np.exp(np.stack([of_runs(runs, shape[-1]) for shape, runs in points], 1))
    width = explained(np.array([shape[-1] for shape, _ in points]), losses)
    yield "explained by a line", "the width alone", "", *share_of(width)
    shares = [explained(size, losses) for size in sizes]
    for words, share in zip(COUNTS, shares):
        print(f"a line over the logarithm of the number of {words} explains "
              f"{sentence(share_of(share))} of the variance of the loss")
        yield "explained by a line", words, "", *share_of(share)
        yield gain(words, share, "the width alone", width)
    for k in (1, 3):
        yield gain(COUNTS[k], shares[k], COUNTS[k - 1], shares[k - 1])


def gain(words, share, others, less):
    """The row that says whether a line over one size explains more than one over another."""
    verdict = WORDS[judge(share - less, above(0))]
    print(f"{words}: it explains more than {others}: {verdict}: by "
          f"{sentence(share_of(share - less))}")
    return f"explained more than by {others}: {verdict}", words, "", *share_of(share - less)


def share_of(samples):
    return tuple(f"{one:.3f}" for one in (np.median(samples), *interval(samples)))


def rows_of(run):
    kind = kind_of(run)
    of = {DECAY: of_decay, SIZES: of_sizes}
    return of[kind](run) if kind in of else of_rates(run, kind)


def main(path, out=None, picture=None, *more):
    keep([row for run in map(dmft.load, (path, *more)) for row in rows_of(run)], HEAD, draw, out,
         picture)


def draw(rows, path):
    """Losses over rates, of heads and of experts; losses over the decay, beside those without; and
    over the number of weights, all and those of the blocks alone."""
    import matplotlib.pyplot as plt
    from dmft.plot.sweeps import scale
    figure, axes = plt.subplots(2, 2, figsize=(8.5, 6.4), layout="constrained")
    for ax, (kind, labels) in zip(axes[0], LABELS.items()):
        for k, (text, label) in enumerate(labels.items()):
            draw_bars(ax, [row[2:] for row in rows if row[:2] == (kind, text)], label,
                      color=f"C{k}")
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$",
               ylabel="loss of a letter that was not read")
        ax.legend(fontsize=7)
        scale(ax.xaxis, [value for line in ax.lines for value in line.get_xdata()])
    draw_bars(axes[1, 0], [(row[1], *row[3:]) for row in rows if BESIDE_NONE in row[0]], "")
    axes[1, 0].axhline(1, color="black", lw=0.6, ls=":")
    axes[1, 0].set(xscale="log", xlabel="decay of a step", ylabel="loss, over that without decay")
    for k, words in enumerate(COUNTS[:2]):
        sizes = [(row[2].split()[k], *row[3:]) for row in rows if row[0] == SIZES]
        draw_bars(axes[1, 1], sizes, words, color=f"C{k}", ls="none", mfc="w" if k else None)
    axes[1, 1].set(xscale="log", xlabel="number of weights",
                   ylabel="loss of a letter that was not read")
    axes[1, 1].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def draw_bars(ax, rows, label, **style):
    """Losses with their intervals, (at, mean, low, high), where `at` is a number."""
    numbers_alone = [row for row in rows if row[0][:1].isdigit()]
    at, mean, low, high = np.array(numbers_alone, float).reshape(-1, 4).T
    ax.errorbar(at, mean, [mean - low, high - mean], label=label, marker="o", ms=3.5, capsize=2,
                **{"lw": 1.1, **style})


if __name__ == "__main__":
    command(main, draw)
