"""Does a best rate transfer, and does the test loss there fall with the width? What image_rates.py
and text_rates.py of studies/findings say of a sweep over parameterizations and rates."""
import numpy as np

from dmft.statistics import student
from tables import numbers, sentence
from verdict import WORDS, below, judge, of_optimum, of_ratio, within_factor

SIDE, RATE, FACTOR = "network.parameterization", "training.eta0", 1.5
HEAD = ("sweep", "parameterization", "N", "of", "value", "low", "high")


def rows_of(run, name, sides):
    """Test losses at every rate, the optimum of every width, and how the last width's is to the
    first's; and how this is in MSSP to how it is in muP. sides: {parameterization: where it stands
    in the sweep}."""
    gains = {}
    for side, where in sides.items():
        part, best = (one.sel(where).squeeze() for one in (run.sweep, run.optimum))
        rate, loss = of_optimum(best), of_optimum(best, "objective")
        for k, N in enumerate(best["N"].values):
            one = part.sel(N=N)
            half = student(one["n"].values - 1) * one["test_loss_se"].values
            for eta0, mean, error in zip(one[RATE].values, one["test_loss"].values, half):
                yield (name, side, f"{N:g}", f"{eta0:.4g}", f"{mean:.4g}", f"{mean - error:.4g}",
                       f"{mean + error:.4g}")
            yield name, side, f"{N:g}", "best rate", *numbers(rate[k])
            yield name, side, f"{N:g}", "test loss there", *numbers(loss[k])
        yield from changes(name, side, rate, loss)
        yield name, side, "all", *lowest_rate(name, side, part)
        gains[side] = loss[-1] - loss[0], loss[-1]
    if {"mup", "mssp"} <= set(gains):
        yield from beside_mup(name, gains)


def changes(name, side, rate, loss):
    """How the best rate of the last width, and the loss there, are to those of the first."""
    meant, claim = ("falls by more than a tenth", below(-np.log(1.1))) if side == "sp" else \
        (f"transfers within a factor of {FACTOR}", within_factor(FACTOR))
    for what, samples, words, asked in (
            ("rate", rate, f"the best rate {meant}", claim),
            ("loss", loss, "the test loss at the best rate falls with the width", below(0))):
        change, verdict = samples[-1] - samples[0], WORDS[judge(samples[-1] - samples[0], asked)]
        all_widths = ", ".join(sentence(numbers(one)) for one in samples)
        print(f"{name}, {side}: {words}: {verdict}: {all_widths}"
              f"; the last over the first {sentence(numbers(change))}")
        yield name, side, "all", f"{what}, last over first: {verdict}", *numbers(change)


def beside_mup(name, gains):
    """How much the loss gains by the width, and what it is at the last, in MSSP over muP."""
    for k, what in enumerate(("gain of the loss", "loss of the last width")):
        samples = gains["mssp"][k] - gains["mup"][k]
        words = WORDS[judge(samples, below(0))]
        print(f"{name}: {what}, MSSP over muP, below one: {words}: {sentence(numbers(samples))}")
        yield name, "mssp", "all", f"{what}, over that of muP: {words}", *numbers(samples)


def lowest_rate(name, side, part):
    """How the test loss of the last width is to that of the first at the lowest rate."""
    ends = part.isel({"N": [0, -1], RATE: 0})
    mean = ends["test_loss"].values
    half = student(ends["n"].values - 1) * ends["test_loss_se"].values
    samples = of_ratio(mean[::-1], half[::-1])
    eta0, change = float(ends[RATE]), numbers(samples)
    words = WORDS[judge(samples, below(0))]
    print(f"{name}, {side}, eta0 = {eta0:.4g}: the test loss falls with the width: {words}; the "
          f"last over the first {sentence(change)}")
    return f"loss at eta0 = {eta0:.4g}, last over first: {words}", *change
