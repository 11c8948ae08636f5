"""Does the best learning rate of a PyTorch script transfer where it uses a plan, and where not?

    PYTHONPATH=python python3 studies/findings/plan_rates.py run MODEL [SEEDS [WIDTHS ...]]
    PYTHONPATH=python python3 studies/findings/plan_rates.py coordinates MODEL
    PYTHONPATH=python python3 studies/findings/plan_rates.py judge MODEL
    PYTHONPATH=python python3 studies/findings/plan_rates.py draw PICTURE

MODEL is `plain`, that of examples/torch/language_model.py, or `mixtral`, MixtralForCausalLM of the
package transformers at the same sizes. `run` trains it at every rate, width and seed, in SP, muP
and MSSP by dmft.torch.plan, and adds a line to its table for each run; those that the table has are
not done again, so that it may be stopped. It needs a PyTorch that dmft.torch.plan knows, and git:
the text is that of the documents at one commit, since documents change. At the base, width 64, all
three are the same model and are trained once. `judge` says what is seen, by what dmft-sweep takes
for its optima: the lowest place of a smooth curve through the means over seeds (dmft.study.optimum)
and the factor in the rate that lays the whole curve on that of the base (dmft.study.curves).
`coordinates` measures how far each part has moved after ten steps, and writes a table of its own.
`draw` makes the picture of both models.
"""
import collections
import csv
import itertools
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, "..", "..", "examples", "torch")]
TABLES = {"plain": ("plan_rates.csv", "plan_coordinates.csv"),
          "mixtral": ("plan_rates_mixtral.csv", "plan_coordinates_mixtral.csv")}
WORDS, WIDTHS, STEPS, TEXT = ("sp", "mup", "mssp"), (64, 128, 256, 512), 200, "fc436c6b"
HEAD = ("parameterization", "N", "log2_rate", "seed", "bits")
# Log2 of the rates at the base: their middle, and how far they go to either side; by how much the
# middle falls in SP at each doubling of the width.
MIDDLE, EITHER, FALL = {"plain": -5.5, "mixtral": -8}, 1.5, {"plain": 1, "mixtral": 0.75}


def rates_of(model, word, N):
    """Log2 of the rates, which in SP go down with the width, from the middle outwards."""
    falls = FALL[model] if of_width(word, N) == "sp" else 0
    middle = round(2 * (MIDDLE[model] - falls * np.log2(N / WIDTHS[0]))) / 2
    away = np.arange(0, EITHER + .1, .5).tolist()
    return [middle] + [middle + one for far in away[1:] for one in (-far, far)]


def of_width(word, N):
    """What the runs of this width are called: the base belongs to all."""
    return "base" if N == WIDTHS[0] else word


def mixtral(N, M):
    """As transformers writes it: of one block, two heads and M experts, the quarter of them for
    each token, each of the units that the plain model's have."""
    import language_model as lm
    import transformers
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(
        vocab_size=64, hidden_size=N, intermediate_size=lm.UNITS, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=lm.WINDOW,
        num_local_experts=M, num_experts_per_tok=M // 4))


def build_of(model):
    """Its function of the sizes."""
    import language_model as lm
    return {"plain": lm.build, "mixtral": mixtral}[model]


def windows():
    """The text at the commit, to learn from and held out."""
    import language_model as lm
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", TEXT, "docs"], check=True, capture_output=True,
                                cwd=os.path.join(HERE, "..", "..")).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=packed)
        lm.DOCUMENTS = os.path.join(folder, "docs")
        return lm.windows()


def made_plan(model, word):
    """The plan of the model, which is traced at small sizes."""
    import dmft.torch
    import language_model as lm
    import torch
    return dmft.torch.plan(build_of(model), torch.randint(64, (24, lm.WINDOW)),
                           {"N": lm.BASE, "M": lm.BASE // 8}, word)


def model_of(model, plan, N, seed):
    """A model of this width with the plan's start, which returns logits."""
    import torch
    torch.manual_seed(seed)
    made = plan.initialize(build_of(model)(N, N // 8))
    made.register_forward_hook(lambda _, given, out: getattr(out, "logits", out))
    return made


def optimizer_of(plan, model, rate):
    """AdamW with the plan's rates."""
    import torch
    return torch.optim.AdamW(plan.groups(model, lr=rate, weight_decay=0.01), betas=(0.9, 0.95))


def lines(table):
    """Those of a table, {(parameterization, N, log2 of the rate, seed): bits}."""
    if not os.path.exists(table):
        return {}
    with open(table, encoding="utf-8") as file:
        return {(one["parameterization"], int(one["N"]), float(one["log2_rate"]),
                 int(one["seed"])): float(one["bits"]) for one in csv.DictReader(file)}


def run(model, table, seeds, widths):
    """Trains what the table lacks."""
    import language_model as lm
    done, plans = lines(table), {word: made_plan(model, word) for word in WORDS}
    read, rest = windows()
    with open(table, "a", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if not done:
            out.writerow(HEAD)
        keys = [(far, seed, word, N, rate) for N in widths for word in WORDS
                for seed in range(seeds) for far, rate in enumerate(rates_of(model, word, N))]
        for _, seed, word, N, rate in sorted(keys, key=lambda one: (one[0] > 4, one[1])):
            key = of_width(word, N), N, rate, seed
            if key in done:
                continue
            word, N, rate, seed = key
            plan = plans["sp" if word == "base" else word]
            made = model_of(model, plan, N, seed)
            lm.train(made, optimizer_of(plan, made, 2.0 ** rate), read, STEPS, seed)
            done[key] = lm.held_out(made, rest)
            out.writerow((*key, f"{done[key]:.5f}"))
            file.flush()


def coordinates(model, table, steps=10, rate=2.0 ** -6, widths=WIDTHS):
    """How far the parts of the model have moved after some steps, and its power of the width."""
    import dmft.torch
    import language_model as lm
    import torch
    from torch.nn import functional as F
    read, _ = windows()
    text = read[:lm.BATCH]
    with open(table, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("parameterization", "module", "part", "power", *widths))
        for word in WORDS:
            plan = made_plan(model, word)
            torch.manual_seed(0)
            found = dmft.torch.coordinate_check(
                lambda N: model_of(model, plan, N, torch.initial_seed()), list(widths),
                (text[:, :-1], text[:, 1:]), steps=steps, seeds=4,
                optimizers={"adamw": lambda made: optimizer_of(plan, made, rate)},
                loss=lambda f, y: F.cross_entropy(f.flatten(0, 1), y.flatten()))
            print(word, found, sep="\n")
            for name, parts in found.rms["adamw"].items():
                for part, values in parts.items():
                    power = found.exponent("adamw", name, part)
                    out.writerow((word, name, part, "" if power is None else f"{power:.3f}",
                                  *(f"{one:.4g}" for one in values)))


def points_of(word, N, table):
    """The estimates of a width, at the rates that most seeds have, by the seeds of all these."""
    from dmft.study.optimum import Point
    name = of_width(word, N)
    many = collections.Counter(rate for one, at, rate, _ in table if (one, at) == (name, N))
    grid = sorted(rate for rate, runs in many.items() if runs == max(many.values()))
    seeds = [seed for seed in range(99) if all((name, N, rate, seed) in table for rate in grid)]
    values = np.array([[table[name, N, rate, seed] for seed in seeds] for rate in grid])
    if len(seeds) < 2:
        return []
    return [Point(rate * np.log(2), one.mean(), one.std(ddof=1) / len(seeds) ** .5, len(seeds),
                  one, not np.isfinite(one).all()) for rate, one in zip(grid, values)]


def judge_all(table):
    """Says what is seen."""
    from dmft.judgement import WORDS as SAID, above, below, interval, judge, within_factor
    from dmft.study import curves, optimum
    table, widest = lines(table), {}
    for word in WORDS:
        found = {N: points for N in WIDTHS if (points := points_of(word, N, table))}
        best = {N: optimum.find(points, True, N) for N, points in found.items()}
        whole = {N: curves.Samples(points, N) for N, points in found.items()}
        for N, one in best.items():
            at, low, high = np.log2(np.exp([one.at, one.low, one.high]))
            with np.errstate(invalid="ignore"):     # of curves that do not meet
                shift, left, right, *_ = curves.compare(whole[WIDTHS[0]], whole[N])
            print(f"{word}, N = {N}: best rate 2^{at:.2f} [{low:.2f}, {high:.2f}] "
                  f"{optimum.REASONS[one.reason]}, held-out bits there {one.value:.3f} "
                  f"[{one.value_low:.3f}, {one.value_high:.3f}], {found[N][0].runs} seeds; whole "
                  f"curve on that of the base by {shift:.3f} [{left:.3f}, {right:.3f}]")
        N = max(N for N, one in best.items() if one.reason == optimum.KNOWN)
        first, last = best[WIDTHS[0]], best[N]
        widest[word, N] = last
        change, gain = last.sample - first.sample, first.sample_value - last.sample_value
        claim, said = (below(-np.log(1.5)), "falls by more than 1.5") if word == "sp" else \
            (within_factor(1.5), "is the same within a factor of 1.5")
        low, high = np.exp(interval(change))
        print(f"{word}: the best rate at N = {N} over that at {WIDTHS[0]} is "
              f"{np.exp(last.at - first.at):.2f} [{low:.2f}, {high:.2f}]; that it {said}: "
              f"{SAID[judge(change, claim)]}")
        low, high = interval(gain)
        print(f"{word}: the loss falls with the width by {first.value - last.value:.3f} "
              f"[{low:.3f}, {high:.3f}]: {SAID[judge(gain, above(0))]}")
    for (one, N), (two, M) in itertools.combinations(widest, 2):
        if N == M:                      # the same seeds of both
            first, last = widest[one, N], widest[two, N]
            with np.errstate(invalid="ignore"):     # of samples that lie beyond all rates
                ends = np.exp(interval(last.sample - first.sample))
            gain = first.sample_value - last.sample_value
            low, high = interval(gain)
            times = np.exp(last.at - first.at)
            print(f"{two} beside {one} at N = {N}: best rate times {times:.2f} "
                  f"[{ends[0]:.2f}, {ends[1]:.2f}], loss lower by {first.value - last.value:.3f} "
                  f"[{low:.3f}, {high:.3f}]: {SAID[judge(gain, above(0))]}")


def draw(tables, path):
    """Held-out bits over the rate, and the best rate of each width, for both models."""
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    from dmft.study import optimum
    titles = {"sp": "without a plan", "mup": "muP", "mssp": "MSSP"}
    figure, axes = plt.subplots(2, 3, sharey="row", figsize=(9, 5.6), layout="constrained")
    for row, (model, table) in zip(axes, tables.items()):
        for ax, word in zip(row, WORDS):
            for N, shade in zip(WIDTHS, shades(len(WIDTHS))):
                points = points_of(word, N, table)
                best = optimum.find(points, True, N)
                rates = np.exp([one.x for one in points])
                ax.errorbar(rates, [one.value for one in points],
                            [2 * one.error for one in points], color=shade, lw=1.0, capsize=2,
                            label=f"$N = {N}$")
                if best.reason == optimum.KNOWN:
                    at, low, high = np.exp([best.at, best.low, best.high])
                    ax.errorbar([at], [best.value], xerr=[[at - low], [high - at]], color=shade,
                                marker="o", ms=5, lw=2.2, capsize=0)
            ax.set_xscale("log", base=2)
            ax.set(title=titles[word] + (", Mixtral" if model == "mixtral" else ""),
                   xlabel="learning rate at $N = 64$" if word != "sp" else "learning rate")
        lowest = min(one.value - 2 * one.error for word in WORDS for N in WIDTHS
                     for one in points_of(word, N, table))
        row[0].set(ylabel="bits of a held-out letter", ylim=(lowest - 0.02, lowest + 0.45))
    axes[0, 0].legend(fontsize=8)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    what, model, *more = sys.argv[1:] + [""] * (3 - len(sys.argv))
    if what == "draw" and model:
        sys.exit(draw({one: lines(os.path.join(HERE, name)) for one, (name, _) in TABLES.items()},
                      model))
    if what not in ("run", "coordinates", "judge") or model not in TABLES:
        sys.exit(__doc__)
    rates, moved = (os.path.join(HERE, name) for name in TABLES[model])
    if what == "run":
        run(model, rates, int(more[0]) if more else 6, [int(one) for one in more[1:]] or WIDTHS)
    elif what == "coordinates":
        coordinates(model, moved)
    else:
        judge_all(rates)
