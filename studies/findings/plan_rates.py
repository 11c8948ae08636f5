"""Does the best learning rate of a PyTorch script transfer where it uses a plan, and where not?

    PYTHONPATH=python python3 studies/findings/plan_rates.py run [SEEDS [WIDTHS ...]]
    PYTHONPATH=python python3 studies/findings/plan_rates.py coordinates
    PYTHONPATH=python python3 studies/findings/plan_rates.py judge

`run` trains the model of examples/torch/language_model.py at every rate, width and seed, in SP,
muP and MSSP by dmft.torch.plan, and adds a line to plan_rates.csv for each run; those that the
table has are not done again, so that it may be stopped. It needs a PyTorch that dmft.torch.plan
knows. At the base, width 64, all three are the same model and are trained once. `judge` says what
is seen: the best rate of a width is the minimum of a parabola through the mean losses of the best
rate and its neighbours, for each of many draws of the losses with their errors over seeds.
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
    read, _ = lm.windows()
    text = read[:lm.BATCH]
    with open(MOVED, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("parameterization", "module", "part", "power", *widths))
        for word in WORDS:
            plan = made_plan(word)
            found = dmft.torch.coordinate_check(
                lambda N: model_of(plan, N, 0), list(widths), (text[:, :-1], text[:, 1:]),
                optimizers={"adamw": lambda model: optimizer_of(plan, model, rate)}, steps=steps,
                loss=lambda f, y: __import__("torch").nn.functional.cross_entropy(
                    f.flatten(0, 1), y.flatten()))
            print(word, found, sep="\n")


def optimum(means, errors, draws=4000):
    """Draws of (log2 of the best rate, loss there) from means and errors at rates: {rate: ..}."""
    rates = sorted(means)
    rng = np.random.default_rng(0)
    sample = np.array([means[k] for k in rates]) \
        + rng.standard_normal((draws, len(rates))) * [errors[k] for k in rates]
    at = sample.argmin(1)
    inside = (at > 0) & (at < len(rates) - 1)
    at = at.clip(1, len(rates) - 2)
    left, middle, right = (sample[np.arange(draws), at + d] for d in (-1, 0, 1))
    shift = np.where(inside, (left - right) / (2 * (left - 2 * middle + right)), np.nan)
    return np.array(rates)[at] + shift, middle - (left - right) * shift / 4


def losses(word, N, table):
    """{rate: mean}, {rate: its standard error} over seeds."""
    means, errors = {}, {}
    for k in rates_of(word, N):
        values = np.array([bits for (one, n, rate, _), bits in table.items()
                           if (one, n, rate) == (of_width(word, N), N, -k)])
        values = values[np.isfinite(values)]
        if len(values) > 1:
            means[-k], errors[-k] = values.mean(), values.std(ddof=1) / len(values) ** 0.5
    return means, errors


def judge_all():
    """Says what is seen."""
    from dmft.judgement import WORDS as SAID, above, below, interval, judge, within_factor
    table, best = lines(), {}
    for word in WORDS:
        for N in WIDTHS:
            means, errors = losses(word, N, table)
            if len(means) < 3:
                continue
            best[word, N] = rate, loss = optimum(means, errors)
            low, high = interval(rate)
            print(f"{word}, N = {N}: best rate 2^{np.nanmedian(rate):.2f} [{low:.2f}, {high:.2f}], "
                  f"held-out bits there {np.median(loss):.3f} [{interval(loss)[0]:.3f}, "
                  f"{interval(loss)[1]:.3f}], {len(means)} rates")
    for word in WORDS:
        widths = [N for N in WIDTHS if (word, N) in best]
        first, last = best[word, widths[0]], best[word, widths[-1]]
        change = (last[0] - first[0]) * np.log(2)
        claim, said = (below(-np.log(1.5)), "falls by more than 1.5") if word == "sp" else \
            (within_factor(1.5), "is the same within a factor of 1.5")
        low, high = np.exp(interval(change))
        print(f"{word}: the best rate at N = {widths[-1]} over that at {widths[0]} is "
              f"{np.exp(np.median(change)):.2f} [{low:.2f}, {high:.2f}]; that it {said}: "
              f"{SAID[judge(change, claim)]}")
        gain = first[1] - last[1]
        print(f"{word}: the loss falls with the width by {np.median(gain):.3f} "
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
