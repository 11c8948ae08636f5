"""Do whole curves of the loss over the rate fall on one another, over widths, depths and experts?

    python/with studies/findings/collapse.py collapse.h5 [OUT.csv [OUT.png [collapse_shapes.h5]]]
    python/with studies/findings/collapse.py --picture collapse.csv OUT.png
    python/with studies/findings/collapse.py --table collapse.csv

Reads the sweeps of the inis of these names, says what is seen, and writes losses, shifts and
distances of curves; or makes the picture of these, or says once more what the table tells of
distances. Shifts and distances are those of dmft-sweep (dmft/study/curves.py), here beside any
curve.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import (as_text, command, keep, mean_and_half, read_table,  # noqa: E402
                    samples_of)
from verdict import WORDS, above, below, interval, jointly  # noqa: E402

from dmft.judgement import COUNT, beyond_chance  # noqa: E402
from dmft.statistics import student  # noqa: E402
from dmft.study.curves import compare  # noqa: E402

HEAD = ("parameterization", "read-out", "depth", "M over N", "N", "of", "value", "low", "high")
RATE, NEAR, NO_LIMIT = "training.eta0", 1.25, ("mup", "zero")
CORRECTED = (0.1414, 0.2, 0.2828)  # rates at which losses are fitted
KEPT = 10  # networks of which the intervals of the tables that are kept are


def key_of(unit) -> tuple:
    keys = dict(part.split(" = ", 1) for part in unit.parameters["ini"].splitlines()
                if " = " in part)
    blocks = " blocks" if keys["model"] == "stack" else ""
    return (keys["parameterization"] + blocks, "zero" if keys.get("read_out") == "zero" else "1/N",
            int(keys.get("depth", 1)), float(keys["kappa"]))


def curves_of(run):
    """{(parameterization, read-out, depth, M/N, N): {rate: losses of the networks, NaN: failed}}"""
    found = {}
    for path in sorted(set(run.units().values.ravel())):
        unit = dmft.load(path)
        (N, data), = unit.reference.items()
        name = "test_loss_runs" if "test_loss_runs" in data else "test_loss"
        runs = np.atleast_1d(data[name].isel(t=-1).values)
        found.setdefault((*key_of(unit), int(N)), {})[float(unit.parameters[RATE])] = \
            np.nan if path.endswith(".partial") else runs
    return found


def base_of(key, curves):
    """The curve beside which this one stands: that of the smallest width, or of the first shape."""
    same = [one for one in curves if one[:2] == key[:2] and one[3:] == key[3:] and one[2] == 1] \
        if key[2] > 1 else [one for one in curves if one[:3] == key[:3]]
    return min(same, key=lambda one: (one[4], one[3]))


def within(low: float, high: float, factor: float):
    """Whether an interval of a positive number says that it is within a factor."""
    if not np.isfinite(low + high):
        return None
    if 1 / factor < low and high < factor:
        return True
    return False if low > factor or high < 1 / factor else None


def rows_of(curves):
    made = {key: samples_of(curve, key[-1]) for key, curve in curves.items()}
    for key, curve in sorted(curves.items()):
        for rate, runs in sorted(curve.items()):
            if np.isfinite(runs).all():
                mean, half = mean_and_half(np.atleast_1d(runs))
                yield *key, f"{rate:.4g}", f"{mean:.4g}", f"{mean - half:.4g}", f"{mean + half:.4g}"
        base = base_of(key, curves)
        if base != key:
            numbers = compare(made[base], made[key])
            for of, three in zip(("shift", "factor"), (numbers[:3], numbers[3:])):
                yield *key, of, *(f"{one:.4g}" for one in three)


def tell(rows):
    for row in rows:
        if row[5] in ("shift", "factor"):
            value, low, high = map(float, row[6:])
            names = f"{row[0]}, {row[1]}, depth {row[2]}, M = {row[3]:g} N, N = {row[4]}"
            claims = "; ".join(f"within {factor}: {WORDS[within(low, high, factor)]}"
                               for factor in (1.1, NEAR))
            if row[5] == "shift" and low > NEAR:
                claims += f"; moved by more than {NEAR}: shown"
            print(f"{names}: {row[5]} {value:.3g} [{low:.3g}, {high:.3g}]: {claims}")


def tell_corrections(rows, networks):
    """Whether losses at one rate are a + b/N: chi squared of the fit to all widths, beside what it
    exceeds in one good fit of twenty, and what is left of b/N at the largest width."""
    by = {}
    for row in rows:
        if row[5] not in ("shift", "factor"):
            by.setdefault((*row[:4], float(row[5])), {})[int(row[4])] = tuple(map(float, row[6:]))
    for key, curve in by.items():
        N = np.array(sorted(curve), float)
        if len(N) < 4 or key[4] not in CORRECTED:
            continue
        mean, low, _ = np.array([curve[int(n)] for n in N]).T
        error = (mean - low) / float(student(networks - 1))
        if not (error > 0).all():
            continue
        fit = np.stack([np.ones_like(N), 1 / N], 1) / error[:, None]
        ab, *_ = np.linalg.lstsq(fit, mean / error, rcond=None)
        se = np.sqrt(np.linalg.inv(fit.T @ fit)[1, 1])
        chi = np.sum((mean / error - fit @ ab) ** 2)
        limit = beyond_chance(len(N) - 2) * (len(N) - 2)
        print(f"{key[0]}, {key[1]}, eta0 = {key[4]:g}: losses {', '.join(f'{m:.4g}' for m in mean)}"
              f"; a + b/N with b/a = {ab[1] / ab[0]:.3g} +- {2 * se / ab[0]:.2g}: chi squared "
              f"{chi:.2g}, of which {limit:.2g} is exceeded in one good fit of twenty")


def losses_of(rows, networks):
    """{(parameterization, read-out): {N: {rate: (ln loss, its standard error)}}}, of intervals of
    so many networks."""
    found = {}
    for row in rows:
        if row[5] not in ("shift", "factor") and row[2:4] == ("1", "0.25") \
                and "blocks" not in row[0]:
            mean, low, high = map(float, row[6:])
            error = max((high - low) / 2 / float(student(networks - 1)) / mean, 1e-4)  # of digits
            found.setdefault(row[:2], {}).setdefault(int(row[4]), {})[row[5]] = \
                np.log(mean), error
    return found


def apart(one, other):
    """(samples of the root mean square of ln of the quotient of two curves at the same rates, less
    the part of its errors; chi squared of all rates together; their number)."""
    same = [rate for rate in one if rate in other]
    (a, da), (b, db) = (np.array([curve[rate] for rate in same]).T for curve in (one, other))
    ratio, error = b - a, np.hypot(da, db)
    drawn = ratio + error * np.random.default_rng(len(same)).standard_normal((COUNT, len(same)))
    square = (drawn**2 - 2 * error**2).mean(1)
    return np.sqrt(np.maximum(square, 0)), np.sum((ratio / error) ** 2), len(same)


def tell_doublings(rows, networks=KEPT):
    """How far curves are apart from each width to the next; whether those of the two largest are
    within a factor where there is a limit; and whether muP with zero is farther from its smallest
    width than each of the others."""
    found = losses_of(rows, networks)
    still, far, words = [], {}, []
    for side, by in found.items():
        widths = sorted(by)
        for pair in (*zip(widths, widths[1:]), (widths[0], widths[-1])):
            samples, chi, count = apart(by[pair[0]], by[pair[1]])
            low, high = np.exp(interval(samples, 4 * len(found)))
            print(f"{side[0]}, {side[1]}, N = {pair[0]} to {pair[1]}: apart by "
                  f"{np.exp(np.median(samples)):.3f} [{low:.3f}, {high:.3f}] at {count} rates; chi "
                  f"squared {chi:.1f}, of which {count * beyond_chance(count):.1f} is exceeded by "
                  "chance in one of twenty")
            if pair == tuple(widths[-2:]) and side != NO_LIMIT:
                still.append(samples)
        far[side] = samples
    print(f"where there is a limit, the two largest widths are apart by less than {NEAR} in all "
          f"{len(still)} cases: {WORDS[jointly(still, below(np.log(NEAR)))]}")
    others = [side for side in far if side != NO_LIMIT]
    more = [far[NO_LIMIT] - far[side] for side in others]
    for side, samples in zip(others, more):
        low, high = interval(samples, len(more))
        words.append(f"{', '.join(side)} {np.median(samples):.3f} [{low:.3f}, {high:.3f}]")
    print(f"muP with zero is farther from its smallest width than each of the others (in ln): "
          f"{WORDS[jointly(more, above(0))]}: {'; '.join(words)}")


def draw(rows, path):
    import matplotlib.pyplot as plt
    sides = list(dict.fromkeys(row[:2] for row in rows if row[2] == "1" and row[3] == "0.25"))
    rows_of_panels = -(-(len(sides) + 1) // 4)
    figure, axes = plt.subplots(rows_of_panels, min(4, len(sides) + 1), squeeze=False,
                                figsize=(12, 3 * rows_of_panels), layout="constrained")
    axes = list(axes.flat)
    least = min(float(row[7]) for row in rows if row[5] not in ("shift", "factor"))
    floor = 0.03 if least < 0.045 else 0.05
    for ax in axes[len(sides):-1]:
        ax.set_axis_off()
    for ax, side in zip(axes, sides):
        curves = list(dict.fromkeys(row[:5] for row in rows if row[:2] == side))
        for k, key in enumerate(curves):
            grid = np.array([row[5:] for row in rows if row[:5] == key
                             and row[5] not in ("shift", "factor")], float)
            if not len(grid):
                continue
            eta0, mean, low, high = grid.T
            label = f"$L = {key[2]}$, $M = {float(key[3]):g}N$" if "blocks" in key[0] else \
                f"$N = {key[4]}$"
            ax.errorbar(eta0, mean, (mean - low, high - mean), color=f"C{k % 10}", lw=1,
                        marker="osD^v<>"[k % 7], ms=3, capsize=2, label=label)
        ax.set(xscale="log", yscale="log", ylim=(floor, 0.6), xlabel=r"learning rate $\eta_0$",
               title=f"{side[0].replace('mup', 'muP').replace('mssp', 'MSSP')}, {side[1]}")
        ax.set_xticks([0.05, 0.1, 0.2, 0.4, 0.8], ["0.05", "0.1", "0.2", "0.4", "0.8"])
        ticks = [tick for tick in ("0.03", "0.05", "0.1", "0.2", "0.4") if float(tick) >= floor]
        ax.set_yticks([float(tick) for tick in ticks], ticks)
        ax.minorticks_off()
        ax.legend(fontsize=5.5)
    axes[0].set_ylabel("test loss after one pass")
    for k, side in enumerate(sides):
        some = np.array([(row[4], *row[6:]) for row in rows if row[:4] == (*side, "1", "0.25")
                         and row[5] == "shift" and row[6] != "nan"], float)
        if len(some):
            N, value, low, high = some.T
            axes[-1].errorbar(N * 1.04 ** k, value, (value - low, high - value), capsize=2, ms=4,
                              marker="osD^"[k % 4], lw=1,
                              label=f"{side[0].replace('mup', 'muP')}, {side[1]}")
    axes[-1].axhline(1, color="0.6", lw=0.8)
    axes[-1].set(xscale="log", xlabel="width $N$", title="shift of the curve")
    axes[-1].set_xticks([128, 256, 512], ["128", "256", "512"])
    axes[-1].minorticks_off()
    axes[-1].legend(fontsize=6)
    figure.savefig(path, dpi=100)


def tell_together(curves):
    """Shifts and factors of the widest networks that have a limit, with intervals that hold for all
    of them together."""
    settled = [key for key in curves if key[:2] != NO_LIMIT and "blocks" not in key[0]]
    widest = [key for key in settled if key[4] == max(one[4] for one in settled)]
    for key in widest:
        one, other = (samples_of(curves[one], one[-1]) for one in (base_of(key, curves), key))
        numbers = compare(one, other, len(widest))
        print(f"{key[0]}, {key[1]}, N = {key[4]}, {len(widest)} together: " + "; ".join(
            f"{of} {value:.3g} [{low:.3g}, {high:.3g}], within {NEAR}: "
            f"{WORDS[within(low, high, NEAR)]}"
            for of, (value, low, high) in zip(("shift", "factor"), (numbers[:3], numbers[3:]))))


def main(path, out=None, picture=None, *more):
    rows, networks = [], set()
    for one in (path, *more):
        curves = curves_of(dmft.load(one))
        networks |= {np.size(runs) for curve in curves.values() for runs in curve.values()
                     if np.isfinite(runs).all()}
        rows += rows_of(curves)
        tell_together(curves)
    tell(rows)
    tell_corrections(rows, min(networks))
    tell_doublings(as_text(rows), min(networks))
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        tell_doublings(read_table(sys.argv[2]))
    else:
        command(main, draw)
