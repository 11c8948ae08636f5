"""Does the best learning rate of a PyTorch script transfer where it uses a plan, and where not?

    PYTHONPATH=python python3 studies/findings/plan_rates.py run [SEEDS [WIDTHS ...]]
    PYTHONPATH=python python3 studies/findings/plan_rates.py coordinates
    PYTHONPATH=python python3 studies/findings/plan_rates.py judge

`run` trains the model of examples/torch/language_model.py at every rate, width and seed, in SP,
muP and MSSP by dmft.torch.plan, and adds a line to plan_rates.csv for each run; those that the
table has are not done again, so that it may be stopped. It needs a PyTorch that dmft.torch.plan
knows. At the base, width 64, all three are the same model and are trained once. `judge` says what
is seen: the best rate of a width is the minimum of a parabola through the losses of the best rate
and its neighbours, for each of many draws of the losses with their errors over seeds.
`coordinates` measures how far each part has moved after ten steps, and writes
plan_coordinates.csv.
"""
import csv
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(HERE, "..", "..", "examples", "torch")]
TABLE, MOVED = (os.path.join(HERE, name) for name in ("plan_rates.csv", "plan_coordinates.csv"))
WORDS, WIDTHS, STEPS = ("sp", "mup", "mssp"), (64, 128, 256, 512), 200
RATES = {"base": range(3, 11), "mup": range(4, 9), "mssp": range(4, 9)}     # 2^-k
HEAD = ("parameterization", "N", "log2_rate", "seed", "bits")


def rates_of(word, N):
    """The grid, which in SP goes down with the width: twice at each doubling of it."""
    middle = 6 + N.bit_length() - WIDTHS[0].bit_length()
    return RATES.get(of_width(word, N), range(middle - 2, middle + 3))


def of_width(word, N):
    """What the runs of this width are called: the base belongs to all."""
    return "base" if N == WIDTHS[0] else word


def made_plan(word):
    """The plan of the model, which is traced at small sizes."""
    import dmft.torch
    import language_model as lm
    import torch
    return dmft.torch.plan(lm.build, torch.randint(64, (24, lm.WINDOW)),
                           {"N": lm.BASE, "M": lm.BASE // 8}, word)


def model_of(plan, N, seed):
    """A model of this width with the plan's start."""
    import language_model as lm
    import torch
    torch.manual_seed(seed)
    return plan.initialize(lm.build(N, N // 8))


def optimizer_of(plan, model, rate):
    """AdamW with the plan's rates."""
    import torch
    return torch.optim.AdamW(plan.groups(model, lr=rate, weight_decay=0.01), betas=(0.9, 0.95))


def lines():
    """Those of the table, {(parameterization, N, rate, seed): bits}."""
    if not os.path.exists(TABLE):
        return {}
    with open(TABLE, encoding="utf-8") as file:
        return {(one["parameterization"], int(one["N"]), int(one["log2_rate"]), int(one["seed"])):
                float(one["bits"]) for one in csv.DictReader(file)}


def run(seeds, widths):
    """Trains what the table lacks."""
    import language_model as lm
    done, plans = lines(), {word: made_plan(word) for word in WORDS}
    read, rest = lm.windows()
    with open(TABLE, "a", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if not done:
            out.writerow(HEAD)
        for N in widths:
            for seed in range(seeds):
                for word in dict.fromkeys(of_width(word, N) for word in WORDS):
                    for k in rates_of(word, N):
                        if (word, N, -k, seed) in done:
                            continue
                        plan = plans["sp" if word == "base" else word]
                        model = model_of(plan, N, seed)
                        lm.train(model, optimizer_of(plan, model, 2.0 ** -k), read, STEPS, seed)
                        out.writerow((word, N, -k, seed, f"{lm.held_out(model, rest):.5f}"))
                        file.flush()


def coordinates(steps=10, rate=2.0 ** -6, widths=WIDTHS[:3]):
    """How far the parts of the model have moved after some steps, and its power of the width."""
    import dmft.torch
    import language_model as lm
    import torch
    from torch.nn import functional as F
    read, _ = lm.windows()
    text = read[:lm.BATCH]
    with open(MOVED, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("parameterization", "module", "part", "power", *widths))
        for word in WORDS:
            plan = made_plan(word)
            torch.manual_seed(0)
            found = dmft.torch.coordinate_check(
                lambda N: model_of(plan, N, torch.initial_seed()), list(widths),
                (text[:, :-1], text[:, 1:]), steps=steps, seeds=4,
                optimizers={"adamw": lambda model: optimizer_of(plan, model, rate)},
                loss=lambda f, y: F.cross_entropy(f.flatten(0, 1), y.flatten()))
            print(word, found, sep="\n")
            for name, parts in found.rms["adamw"].items():
                for part, values in parts.items():
                    power = found.exponent("adamw", name, part)
                    out.writerow((word, name, part, "" if power is None else f"{power:.3f}",
                                  *(f"{one:.4g}" for one in values)))


def optimum(losses, draws=4000):
    """Draws of (log2 of the best rate, loss there) from losses {rate: of each seed}. What a seed
    adds at all rates is taken apart from the rest; both have errors of Student's t."""
    rates = sorted(losses)
    L = np.array([losses[rate] for rate in rates])
    (R, n), of_seed = L.shape, L.mean(0) - L.mean()
    rest = L - L.mean(1, keepdims=True) - of_seed
    free = (R - 1) * (n - 1)
    rng = np.random.default_rng(0)
    sample = L.mean(1) + rng.standard_t(free, (draws, R)) * np.sqrt((rest ** 2).sum() / free / n) \
        + rng.standard_t(n - 1, (draws, 1)) * of_seed.std(ddof=1) / n ** 0.5
    at = sample.argmin(1)
    inside = (at > 0) & (at < R - 1)
    at = at.clip(1, R - 2)
    left, middle, right = (sample[np.arange(draws), at + d] for d in (-1, 0, 1))
    shift = np.where(inside, (left - right) / (2 * (left - 2 * middle + right)), np.nan)
    return np.array(rates)[at] + shift, middle - (left - right) * shift / 4


def losses(word, N, table):
    """{log2 of a rate: bits of each seed}, of the seeds that all rates have."""
    name, grid = of_width(word, N), rates_of(word, N)
    seeds = [seed for seed in range(99) if all((name, N, -k, seed) in table for k in grid)]
    return {-k: [table[name, N, -k, seed] for seed in seeds] for k in grid} \
        if len(seeds) > 1 else {}


def judge_all():
    """Says what is seen."""
    from dmft.judgement import WORDS as SAID, above, below, interval, judge, within_factor
    table, best = lines(), {}
    for word in WORDS:
        for N in WIDTHS:
            found = losses(word, N, table)
            if not found:
                continue
            best[word, N] = rate, loss = optimum(found)
            low, high = interval(rate)
            print(f"{word}, N = {N}: best rate 2^{np.nanmedian(rate):.2f} [{low:.2f}, {high:.2f}], "
                  f"held-out bits there {np.nanmedian(loss):.3f} [{interval(loss)[0]:.3f}, "
                  f"{interval(loss)[1]:.3f}], {len(found)} rates, "
                  f"{len(next(iter(found.values())))} seeds")
    for word in WORDS:
        widths = [N for N in WIDTHS if (word, N) in best]
        first, last = best[word, widths[0]], best[word, widths[-1]]
        change = (last[0] - first[0]) * np.log(2)
        claim, said = (below(-np.log(1.5)), "falls by more than 1.5") if word == "sp" else \
            (within_factor(1.5), "is the same within a factor of 1.5")
        low, high = np.exp(interval(change))
        print(f"{word}: the best rate at N = {widths[-1]} over that at {widths[0]} is "
              f"{np.exp(np.nanmedian(change)):.2f} [{low:.2f}, {high:.2f}]; that it {said}: "
              f"{SAID[judge(change, claim)]}")
        gain = first[1] - last[1]
        print(f"{word}: the loss falls with the width by {np.nanmedian(gain):.3f} "
              f"{interval(gain)}: {SAID[judge(gain, above(0))]}")


if __name__ == "__main__":
    what, *more = sys.argv[1:] or [""]
    if what == "run":
        run(int(more[0]) if more else 3, [int(one) for one in more[1:]] or WIDTHS)
    elif what == "coordinates":
        coordinates()
    elif what == "judge":
        judge_all()
    else:
        sys.exit(__doc__)
