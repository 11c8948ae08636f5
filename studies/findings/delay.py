"""Is the delay of muP in wide networks a matter of its read-out, and of what sees small gradients?

    python/with studies/findings/delay.py delay.h5 [OUT.csv [OUT.png \\
        [delay_limit.h5 delay_muon.h5 delay_pass.h5 delay_far.h5 delay_between.h5]]]
    python/with studies/findings/delay.py --picture delay.csv OUT.png
    python/with studies/findings/delay.py --table delay.csv

Reads the sweeps of delay.ini and, for the whole table, of the other inis of this name. The table
has, of every network, the time at which its loss has halved, and of gradient descent the growth of
the output while the network rests, and its size at t = 2. --table judges once more from it.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from common import span  # noqa: E402
from tables import command, keep, read_table, units_of  # noqa: E402
from verdict import (EXPONENT, WORDS, above, below, interval, jointly, near,  # noqa: E402
                     of_runs, weights_of, within_factor)

from dmft.judgement import line  # noqa: E402

HEAD = ("data", "case", "optimizer", "N", "run", "half", "growth", "size")
BATCHES, FACTOR, CLOSE, EARLY = 10, 1.25, 1.1, 2
PREDICTED = "predicted"
OPTIMIZERS = ("gd", "Adam", "Adam, eps 1e-8", "Muon")


def half_time(loss, over: int = 1) -> float:
    """The time at which the mean of so many losses in turn is half of the first, by a line between
    two times; NaN where it never is."""
    curve = np.convolve(loss, np.ones(over) / over, "valid")
    below = np.flatnonzero(curve <= loss[0] / 2)
    if not len(below) or not below[0]:
        return np.nan
    t = below[0]
    return t - 1 + (curve[t - 1] - loss[0] / 2) / (curve[t - 1] - curve[t]) + (over - 1) / 2


def resting(loss, f):
    """(the smallest growth of ln rms f in a step, rms f at t = EARLY) while the loss is within a
    hundredth of that at the start; NaN where that is shorter than eight steps."""
    size = np.sqrt((f ** 2).mean(-1))
    last = np.flatnonzero(loss > 0.99 * loss[0])[-1]
    growth = np.diff(np.log(size[EARLY:last + 1]))
    return (growth.min() if len(growth) >= 8 else np.nan), size[EARLY]


def predicted(limit, y, eta0: float):
    """[replicate] growth of ln f in a step, 2 ln(1 + lambda), by Phib at the start."""
    kernel = limit["Phib_equal_runs"].values[:, 0]
    return 2 * np.log1p(eta0 / len(y) * np.sqrt(np.einsum("i,rij,j->r", y, kernel, y)))


def name_of(keys) -> tuple[str, str, str]:
    """(data, case, optimizer) of a unit."""
    read_out = "zero" if keys["read_out"] == "zero" else \
        "1/N" if "w" not in keys else f"{keys['w']} of 1/N"
    if keys.get("source") != "gaussian":
        fresh = "new images" if "images_6000" in keys["file"] else "the same images"
        tuned = "W_out as tuned" if keys["W_out"] == ("0.25", "2") else "W_out as it is"
        return fresh, f"{tuned}, {read_out}", "gd"
    optimizer = {"gd": "gd", "muon": "Muon"}.get(keys["optimizer"]) or (
        "Adam" if float(keys["eps"]) > 1e-3 else "Adam, eps 1e-8")
    return f"draw {keys['seed']}", f"{keys['parameterization']}, {read_out}", optimizer


def keys_of(run) -> dict:
    """The keys of its ini that tell cases apart; W_out: its factors of rate and initial scale."""
    found, section = {}, ""
    for text in run.parameters["ini"].splitlines():
        key, _, value = (part.strip() for part in text.partition("="))
        section = text.strip("[] ") if text.startswith("[") else section
        if section in ("rates", "init") and key == "W_out":
            found["W_out"] = (*found.get("W_out", ()), value)
        elif section == "init" and key == "w":
            found["w"] = value
        elif section in ("network", "training") or (section == "data" and key != "inputs"):
            found.setdefault(key, value)
    return found


def rows_of(run):
    for unit in units_of(run):
        data, case, optimizer = name_of(keys_of(unit))
        if "limit" in unit:
            y = np.ravel(unit.data["y"].values)
            for k, growth in enumerate(predicted(unit.limit, y, 1.0)):
                yield data, PREDICTED, optimizer, 0, k, f"{1 / growth:.4g}", f"{growth:.4g}", "nan"
            continue
        one, = unit.reference.values()
        N, images = int(next(iter(unit.reference))), "images" in data
        for k, loss in enumerate(one["loss_runs"].values):
            t = half_time(loss, BATCHES if images else 1)
            rest = resting(loss, one["f_runs"].values[k]) \
                if optimizer == "gd" and "f_runs" in one else (np.nan, np.nan)
            yield data, case, optimizer, N, k, *(f"{value:.4g}" for value in (t, *rest))


def means(rows, column: int):
    """{(data, case, optimizer): (N, samples [width, sample] of the mean over networks)}."""
    found = {}
    for row in rows:
        found.setdefault(tuple(row[:3]), {}).setdefault(int(row[3]), []).append(float(row[column]))
    out = {}
    for key, by in found.items():
        N = np.array(sorted(by))
        samples = [np.mean(by[n]) + weights_of(len(by[n]), n) @ (np.array(by[n]) - np.mean(by[n]))
                   for n in N]
        out[key] = N, np.array(samples)
    return out


def told(samples, among: int = 1) -> str:
    return span(np.median(samples), *interval(samples, among))


def of_stays(half, optimizer: str, case: str, data: list[str]):
    """Whether a time is the same at all widths, in all draws: the widest over the narrowest along a
    line in ln N through its logarithm."""
    drifts = []
    for one in data:
        N, samples = half[one, case, optimizer]
        drifts.append(line(np.log(N), np.log(samples))[2] * np.log(N[-1] / N[0]))
    verdict = jointly(drifts, within_factor(FACTOR))
    later = jointly(drifts, above(np.log(FACTOR)))
    words = f"within {FACTOR}: {WORDS[verdict]}" + \
        (f"; later by more than {FACTOR}: {WORDS[later]}" if verdict is not True else "")
    return words, ", ".join(told(np.exp(one), len(drifts)) for one in drifts)


def tell(rows):
    half, growth = means(rows, 5), means(rows, 6)
    draws = sorted({key[0] for key in half if key[0].startswith("draw")})
    if draws:
        tell_law(half, growth, rows, draws)
        tell_between(half, draws)
    for optimizer in OPTIMIZERS:
        for case in ("mup, zero", "mup, 1/N", "mssp, zero"):
            if all((one, case, optimizer) in half for one in draws):
                words, numbers = of_stays(half, optimizer, case, draws)
                print(f"{optimizer}, {case}: the widest over the narrowest {numbers}: {words}; "
                      f"times {times(half, optimizer, case, draws[0])}")
    for key in sorted(key for key in half if "images" in key[0]):
        words, numbers = of_stays(half, key[2], key[1], [key[0]])
        print(f"{key[0]}, {key[1]}: the widest over the narrowest {numbers}: {words}; "
              f"times {times(half, key[2], key[1], key[0])}")
        N, samples = half[key]
        if N[-1] > 4096:
            last = [np.log(samples[-1] / samples[-2])]
            print(f"the last doubling, to N = {N[-1]}, makes it later by less than a twentieth: "
                  f"{WORDS[jointly(last, below(np.log(1.05)))]}: {told(np.exp(last[0]))}; the "
                  f"first ones {', '.join(told(b / a) for a, b in zip(samples, samples[1:-1]))}")


def times(half, optimizer, case, data) -> str:
    return ", ".join(told(one) for one in half[data, case, optimizer][1])


def tell_law(half, growth, rows, draws):
    """t = a + b ln N of gradient descent, the growth that it follows from, and from which size;
    then both with what is left at a finite width, in proportion to N^-1/2."""
    slopes, ratios, growths, powers = [], [], [], []
    wide, settled, left = [], [], []
    for one in draws:
        N, samples = half[one, "mup, zero", "gd"]
        slopes.append(line(np.log(N), samples)[2])
        powers.append(power_of_size(rows, one))
        widths, seen = growth[one, "mup, zero", "gd"]
        known = np.isfinite(seen).all(1)
        widths, known, seen = widths[known], seen[known], seen[-1]
        said = ""
        if (one, PREDICTED, "gd") in half:
            (law,), (rate,) = (by[one, PREDICTED, "gd"][1] for by in (half, growth))
            ratios.append(np.log(slopes[-1] / law))
            growths.append(np.log(seen / rate))
            if len(N) > 3 and len(widths) > 2:
                wide.append(np.log(least_squares((np.log(N), N**-0.5), samples)[0][1] / law))
                settled.append(np.log(least_squares((widths**-0.5,), known)[0][0] / rate))
                left.append(line(np.log(widths), np.log(np.log(known / rate)))[2])
            said = f"; predicted are {told(law, len(draws))} and {told(rate, len(draws))}"
        print(f"{one}: the loss halves later by {told(slopes[-1], len(draws))} steps for each "
              f"factor e of N, and ln f of the widest grows by {told(seen, len(draws))} a step, "
              f"where it grows least{said}")
    for words, found, claim in (
            ("later with the width", slopes, above(0)),
            (f"the power of N of what it grows from is -1 within {EXPONENT}", powers,
             near(-1, EXPONENT)),
            (f"the slope is as predicted within {FACTOR}", ratios, within_factor(FACTOR)),
            (f"the growth is as predicted within {FACTOR}", growths, within_factor(FACTOR)),
            (f"the power of N of ln(growth over predicted) is -1/2 within {EXPONENT}", left,
             near(-0.5, EXPONENT)),
            (f"with N^-1/2 the slope is as predicted within {FACTOR}", wide,
             within_factor(FACTOR)),
            (f"with N^-1/2 the growth at infinite width is as predicted within {CLOSE}", settled,
             within_factor(CLOSE))):
        if found:
            tale = np.exp(found) if "as predicted" in words else found
            print(f"{words}: {WORDS[jointly(found, claim)]}: "
                  + ", ".join(told(one, len(found)) for one in tale))


def least_squares(terms, samples):
    """Of samples [place, sample] the coefficients [term, sample] of 1 and of each of these terms
    [place], by least squares with the errors of the places, and what they give [place, sample]."""
    error = samples.std(1)[:, None]
    columns = np.stack([np.ones(len(samples)), *terms], 1)
    solution = np.linalg.lstsq(columns / error, samples / error, rcond=None)[0]
    return solution, columns @ solution


def formula(N, c, samples):
    """Of times samples [place, sample] the formula t0 - slope ln(c^2 + k/N)/2 of least squares:
    (samples of the slope, of k, and of what the formula gives [place, sample])."""
    error = samples.std(1)[:, None]
    cost, found = [], []
    k = np.geomspace(0.05, 20, 121)
    for one in k:
        solution, fitted = least_squares((-0.5 * np.log(c**2 + one / N),), samples)
        cost.append((((samples - fitted) / error) ** 2).sum(0))
        found.append((solution[1], fitted))
    best, sample = np.argmin(cost, 0), np.arange(samples.shape[1])
    return (np.array([one[0] for one in found])[best, sample], k[best],
            np.array([one[1] for one in found])[best, :, sample].T)


def between(half, data: str):
    """(N, c, samples of times [place, sample]) of one draw with read-outs of c/N below 1/N."""
    places = [(N, float(key[1].split()[1]), by[k]) for key, (widths, by) in half.items()
              if key[0] == data and key[1].endswith(" of 1/N") and key[1] != "mup, 1 of 1/N"
              for k, N in enumerate(widths)]
    return tuple(np.array(column) for column in zip(*places)) if places else None


def tell_between(half, draws):
    """Whether times with a read-out of c/N below 1/N, at all widths, are one function of c^2 + k/N,
    as they are where what is random in a network of finite width stands beside the read-out."""
    ratios, apart, words = [], [], []
    for one in draws:
        if not (places := between(half, one)):
            return
        slope, k, fitted = formula(*places)
        (law,) = half[one, PREDICTED, "gd"][1]
        ratios.append(np.log(slope / (2 * law)))
        apart += list(np.log(places[2] / fitted))
        words.append(f"{one}: slope {told(slope, len(draws))}, predicted {told(2 * law)}, k "
                     f"{told(k, len(draws))}")
    worst = max(np.exp(np.abs(interval(one, len(apart))).max()) for one in apart)
    print(f"read-outs of c/N, t = t0 - slope ln(c^2 + k/N)/2: {'; '.join(words)}")
    print(f"the slope is as predicted within {FACTOR}: "
          f"{WORDS[jointly(ratios, within_factor(FACTOR))]}: "
          + ", ".join(told(np.exp(one), len(ratios)) for one in ratios))
    print(f"all {len(apart)} times are those of the formula within {FACTOR}: "
          f"{WORDS[jointly(apart, within_factor(FACTOR))]}; the interval that reaches farthest "
          f"ends at {worst:.3f}")


def power_of_size(rows, data: str):
    """Samples of the power of N of the size of f at t = EARLY."""
    by = {}
    for row in rows:
        if tuple(row[:3]) == (data, "mup, zero", "gd"):
            by.setdefault(int(row[3]), []).append(float(row[7]))
    N = sorted(by)
    return line(np.log(N), np.array([of_runs(by[n], n) for n in N]))[2]


def draw(rows, path):
    import matplotlib.pyplot as plt
    half = means(rows, 5)
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.2), layout="constrained")
    panels = (("draw 1", {"gd": "gradient descent", "Adam": "Adam, eps = .05"}),
              ("draw 1", {"Adam, eps 1e-8": "Adam, eps = 1e-8", "Muon": "Muon"}))
    for ax, (data, optimizers) in zip(axes, panels):
        for k, (optimizer, words) in enumerate(optimizers.items()):
            for j, case in enumerate(("mup, zero", "mup, 1/N", "mssp, zero")):
                if (data, case, optimizer) in half:
                    bars(ax, *half[data, case, optimizer], f"C{j}", "os"[k], "-:"[k],
                         f"{words}: {case.replace('mup', 'muP').replace('mssp', 'MSSP')}")
        ax.legend(fontsize=6)
    for j, fresh in enumerate(("new images", "the same images")):
        for k, case in enumerate(("W_out as tuned, zero", "W_out as it is, zero",
                                  "W_out as tuned, 1/N", "W_out as it is, 1/N")):
            if (fresh, case, "gd") in half:
                bars(axes[2], *half[fresh, case, "gd"], f"C{k}", "os"[j], "-:"[j],
                     f"{fresh}: {case}")
    axes[2].legend(fontsize=5.5)
    for ax, title in zip(axes[:3], ("four inputs that stay", "optimizers that see no size",
                                "images, gradient descent")):
        ax.set(xscale="log", xlabel="width $N$", title=title)
        ax.set_ylim(0, 1.6 * ax.get_ylim()[1])
        ticks = [128, 512, 2048, 8192] if ax is axes[2] else [64, 128, 256, 512, 1024, 2048]
        ax.set_xticks(ticks, list(map(str, ticks)))
        ax.minorticks_off()
    axes[0].set_ylabel("step at which the loss has halved")
    draw_between(axes[3], half)
    figure.savefig(path, dpi=110)


def draw_between(ax, half, data: str = "draw 1"):
    """Times with read-outs of c/N over c^2 + k/N, with the k of the formula, and the formula."""
    if not (places := between(half, data)):
        ax.set_axis_off()
        return
    N, c, samples = places
    slope, k, fitted = formula(N, c, samples)
    k = np.median(k)
    for j, one in enumerate(sorted(set(c), reverse=True)):
        at = c == one
        order = np.argsort(N[at])
        bars(ax, (c[at]**2 + k / N[at])[order], samples[at][order], f"C{j}", "osD^"[j], "",
             f"$c = {one:.2g}$")
    x = np.sort(c**2 + k / N)
    ax.plot(x, np.median(fitted, 1)[np.argsort(c**2 + k / N)], color="0.6", lw=1, zorder=0,
            label=rf"$t_0 - {np.median(slope):.1f}\,\ln(c^2 + {k:.1f}/N)/2$")
    ax.set(xscale="log", xlabel=f"$c^2 + {k:.1f}/N$", ylim=(0, None),
           title="muP, read-out $c/N$, four inputs")
    ax.legend(fontsize=6)


def bars(ax, N, samples, colour, marker, style, label):
    low, high = np.array([interval(one) for one in samples]).T
    middle = np.median(samples, 1)
    ax.errorbar(N, middle, (middle - low, high - middle), color=colour, marker=marker, ls=style,
                ms=3.5, capsize=2, lw=1, label=label)


def main(path, out=None, picture=None, *more):
    rows = [row for one in (path, *more) for row in rows_of(dmft.load(one))]
    tell(rows)
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        tell(read_table(sys.argv[2]))
    else:
        command(main, draw)
