"""Does the limit of a softmax over infinitely many experts exist, and what would make it exist?

    python/with studies/findings/softmax_limit.py softmax_limit.h5 [OUT.csv [OUT.png \\
        [softmax_sizes.h5 softmax_cures.h5 softmax_selected.h5 softmax_fixed.h5 softmax_draws.h5]]]
    python/with studies/findings/softmax_limit.py --more softmax_limit.csv MORE.h5 ...
    python/with studies/findings/softmax_limit.py --picture softmax_limit.csv OUT.png

Reads the sweeps of the inis of these names, says what is seen, and writes the numbers behind it;
or makes the picture of these. --more puts sweeps into a table that is there, and says what they
alone tell.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from condensing import doubled, shares  # noqa: E402
from tables import command, keep, numbers, read_table, write_table  # noqa: E402
from verdict import (EXPONENT, WORDS, below, interval, jointly, near, of_runs,  # noqa: E402
                     within_factor)

from dmft.judgement import line  # noqa: E402

HEAD = ("case", "gamma0", "M over N", "N", "of", "value", "low", "high")
EARLY = 10  # the time at which losses are compared, tau = 2/gamma0
CURES = {"1 1 1 1": "logits below 1", "2 1 1 1": "logits below 2",
         "0 1 N^-1 1": "rate of the router over M", "0 1 0 1": "frozen router",
         "0 1 1 0": "frozen first layer", "0 1 0 0": "both frozen", "0 1 1 1": "no cure"}


def case_of(path: str, point) -> str:
    keys = dict(part.split(" = ", 1) for part in point.parameters["ini"].splitlines()
                if " = " in part)
    if "heun" in keys.get("integrator", ""):
        return "softmax over a quarter"
    if "cap" in keys:
        return CURES[" ".join(keys.get(key, "1") for key in ("cap", "rho", "Q", "W1"))]
    return "flow" if keys["integrator"] == "bs32" else "descent"


def units(run):
    """(key of a case, N, data) of every width of every point that trained."""
    for path in sorted(set(run.units().values.ravel())):
        if path.endswith(".partial"):
            continue
        unit = dmft.load(path)
        gamma0 = float(unit.parameters["training.gamma0"])
        kappa = float(unit.parameters["program.kappa"])
        (N, data), = unit.reference.items()
        draw = int(unit.parameters["data.seed"])
        yield (case_of(path, unit) + f", draw {draw}" * (draw > 1), gamma0, kappa), float(N), data


def found_in(runs):
    """{(case, gamma0, kappa): {"N": widths, of: samples [width, sample] of a logarithm}}."""
    found = {}
    for run in runs:
        for key, N, data in units(run):
            if data["n"].values[-1] < data.sizes["run"]:  # some failed
                continue
            share = shares(data, N)
            part = data["gate_participation_runs"]
            part = part.mean([one for one in part.dims if one not in ("run", "t")])
            found.setdefault(key, {}).setdefault(N, {
                "share at the start": share[:, 0], "share at the end": share[:, -1],
                "time of doubling": doubled(share, 0.2 / key[1]),
                "participation at the end": of_runs(part.transpose("run", "t").values[:, -1], N),
                "participation at the start": of_runs(part.transpose("run", "t").values[:, 0], N),
                "loss early": of_runs(data["loss_runs"].values[:, EARLY], N)})
    out = {}
    for key, by in found.items():
        N = np.array(sorted(by))
        out[key] = {"N": N} | {of: np.array([by[n][of] for n in N]) for of in by[N[0]]}
    return out


def power(part, of: str):
    """Samples of the power of the number of experts, over widths where the quantity is known; NaN
    where these are fewer than two."""
    known = np.isfinite(part[of]).all(1)
    return line(np.log(part["N"][known]), part[of][known])[2]


def doubles(part) -> bool:
    """At three widths or more."""
    return np.isfinite(part["time of doubling"]).all(1).sum() > 2


def told(samples, among: int = 1) -> str:
    low, high = interval(samples, among)
    return f"{np.median(samples):.2f} [{low:.2f}, {high:.2f}]"


def ratio(samples, among: int) -> str:
    low, high = np.exp(interval(samples, among))
    return f"{np.exp(np.median(samples)):.2f} [{low:.2f}, {high:.2f}]"


def say(words, keys, samples, claim):
    several = len(samples)
    print(f"{words}: {WORDS[jointly(samples, claim)]}: " + "; ".join(
        f"{key} {told(one, several)}" for key, one in zip(keys, samples)))


def tell(found):
    flow = {key[1]: part for key, part in found.items() if key[0] == "flow" and key[2] == 1}
    if flow:
        tell_flow(found, flow)
    of_draws(found)
    of_cures(found)


def tell_flow(found, flow):
    gammas = sorted(flow)
    ends = [power(flow[g], "share at the end") for g in gammas]
    starts = [power(flow[g], "share at the start") for g in gammas]
    say("the share of the largest falls more slowly with M at the end than at the start (powers, "
        "less those at the start)", gammas, [a - b for a, b in zip(ends, starts)],
        near(0.6, 0.6 - 1e-9))
    strong = [g for g in gammas if g >= 4]
    say("it does not fall with M", strong, [ends[gammas.index(g)] for g in strong],
        near(0, EXPONENT))
    print("powers of M of the share at the end: " + "; ".join(
        f"{g} {told(one, len(gammas))}" for g, one in zip(gammas, ends)))
    say("participation falls with M", gammas,
        [power(flow[g], "participation at the end") for g in gammas], below(0))
    fall = [flow[g]["participation at the end"] - flow[g]["participation at the start"]
            for g in gammas]
    say("so it does less its power at the start", gammas,
        [line(np.log(flow[g]["N"]), one)[2] for g, one in zip(gammas, fall)], below(0))
    if all(len(one) > 2 for one in fall):
        say("so it does over the last two doublings alone, in ln", gammas,
            [one[-1] - one[-3] for one in fall], below(0))
    say("the loss at gamma0 tau = 2 falls with M", gammas,
        [power(flow[g], "loss early") for g in gammas], below(0))
    of_times(flow, [g for g in gammas if doubles(flow[g])])
    of_descent(found, flow)
    of_sizes(found)


def of_draws(found):
    """Whether other draws of the data condense as well, all of them together."""
    draws = {key: part for key, part in found.items() if "draw" in key[0]}
    if not draws:
        return
    names = [f"{key[0]}, gamma0 = {key[1]:g}" for key in draws]
    say("the share of the largest falls more slowly with M at the end than at the start (powers, "
        "less those at the start)", names,
        [power(part, "share at the end") - power(part, "share at the start")
         for part in draws.values()], near(0.6, 0.6 - 1e-9))
    say("participation falls with M", names,
        [power(part, "participation at the end") for part in draws.values()], below(0))
    known = {name: part for name, part in zip(names, draws.values()) if doubles(part)}
    say("condensation comes sooner with more experts", list(known),
        [power(part, "time of doubling") for part in known.values()], below(0))
    strong = [name for name, key in zip(names, draws) if key[1] >= 4]
    say("it does not fall with M", strong, [power(part, "share at the end") for key, part in
                                            draws.items() if key[1] >= 4], near(0, EXPONENT))


def of_times(flow, gammas):
    say("condensation comes sooner with more experts (powers of M of the time of doubling)", gammas,
        [power(flow[g], "time of doubling") for g in gammas], below(0))
    widest = [flow[g]["time of doubling"][-1] for g in sorted(flow)]
    for low in (min(flow, default=0), 2):
        some = [k for k, g in enumerate(sorted(flow)) if g >= low]
        if len(some) > 2:
            slope = line(np.log(np.array(sorted(flow))[some]), np.array(widest)[some])[2]
            say(f"the time of doubling of the widest goes as 1/gamma0 from {low} on", ["power"],
                [slope], near(-1, EXPONENT))


def of_descent(found, flow):
    ratios, names = [], []
    for g, part in flow.items():
        other = found.get(("descent", g, 1.0))
        for k, N in enumerate(other["N"] if other else ()):
            if N in part["N"] and N < 512:
                at = list(part["N"]).index(N)
                ratios.append(part["share at the end"][at] - other["share at the end"][k])
                names.append((g, N))
    if ratios:
        worst = max(np.exp(np.abs(interval(one, len(ratios))).max()) for one in ratios)
        print(f"flow and descent end with one share, within a factor of 1.5, at {len(ratios)} "
              f"places below N = 512: {WORDS[jointly(ratios, within_factor(1.5))]}; the interval "
              f"that reaches farthest ends at {worst:.2f}")
    failed = [g for g in flow if ("descent", g, 1.0) in found
              and 512 not in found["descent", g, 1.0]["N"]]
    print(f"descent diverges at N = 512 for gamma0 = {', '.join(map(str, sorted(failed)))}")


def of_sizes(found):
    """Powers of M and of N by a plane through logarithms at gamma0 = 2."""
    parts = {key[2]: part for key, part in found.items() if key[0] == "flow" and key[1] == 2}
    if len(parts) < 3:
        return
    for of in ("share at the end", "time of doubling", "participation at the end"):
        rows, samples = [], []
        for kappa, part in parts.items():
            for N, one in zip(part["N"], part[of]):
                if np.isfinite(one).all():
                    rows.append((1, np.log(kappa * N), np.log(N)))
                    samples.append(one)
        plane = np.linalg.lstsq(np.array(rows), np.array(samples), rcond=None)[0]
        rest = np.median(np.array(samples) - np.array(rows) @ plane, 1).std()
        print(f"gamma0 = 2, {of}: M to the {told(plane[1], 2)}, N to the {told(plane[2], 2)}; "
              f"what lies beside the plane is {rest:.2f} in ln")


def of_cures(found):
    for (case, gamma0, kappa), part in sorted(found.items()):
        if case.startswith("flow") or case == "descent":
            continue
        gain = part["share at the end"] - part["share at the start"]
        change = [power(part, "share at the end") - power(part, "share at the start"),
                  power(part, "participation at the end")]
        print(f"{case}, gamma0 = {gamma0:g}: share over that of the start "
              + ", ".join(ratio(one, len(gain)) for one in gain)
              + "; less than 1.5 at all M: "
              + WORDS[jointly(list(gain), below(np.log(1.5)))] + "; the power "
              f"of M of the share rises by {told(change[0], 2)}, that of the participation is "
              f"{told(change[1], 2)}; both within .1 of 0: {WORDS[jointly(change, near(0, 0.1))]}")


def rows_of(found):
    for (case, gamma0, kappa), part in found.items():
        for of in part:
            for N, one in zip(part["N"], part[of] if of != "N" else ()):
                yield case, gamma0, kappa, f"{N:g}", of, *numbers(one)


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.1), layout="constrained")

    def bars(ax, case, of, kappa="1.0", gamma0=None, scale=1.0, **more):
        some = [row for row in rows if (row[0], row[4]) == (case, of) and row[5] != "nan"
                and (gamma0 is None or float(row[1]) == gamma0) and float(row[2]) == float(kappa)]
        if some:
            N, value, low, high = np.array([(row[3], *row[5:]) for row in some], float).T
            order = np.argsort(N)
            ax.errorbar(float(kappa) * N[order], scale * value[order],
                        scale * np.array([value - low, high - value])[:, order], capsize=2,
                        ms=3.5, lw=1, **more)

    gammas = sorted({float(row[1]) for row in rows if row[0] == "flow"})
    for k, g in enumerate(gammas):
        for ax, of, scale in zip(axes, ("share at the end", "time of doubling"), (1, g)):
            bars(ax, "flow", of, gamma0=g, scale=scale, color=f"C{k}", marker="o",
                 label=rf"$\gamma_0 = {g:g}$")
            bars(ax, "descent", of, gamma0=g, scale=scale, color=f"C{k}", marker="s", ls=":",
                 mfc="white")
    bars(axes[0], "flow", "share at the start", gamma0=gammas[0], color="0.5", marker="",
         label="at the start")
    for k, kappa in enumerate(sorted({row[2] for row in rows if row[0] == "flow"}, key=float)):
        bars(axes[2], "flow", "share at the end", kappa=kappa, gamma0=2, color=f"C{k}", marker="o",
             label=rf"$M = {float(kappa):g}\,N$")
    cases = dict.fromkeys(row[0] for row in rows if row[0] != "descent" and "flow" not in row[0])
    for k, case in enumerate(cases):
        bars(axes[3], case, "share at the end", gamma0=4, color=f"C{k}" if k < 7 else "0.3",
             marker="osD^v<>P"[k],
             label=case)
    for ax, title in zip(axes, ("largest share at the end", r"$\gamma_0\tau$ of doubling",
                                r"largest share at the end, $\gamma_0 = 2$",
                                r"cures, $\gamma_0 = 4$")):
        ax.set(xscale="log", yscale="log", xlabel="number $M$ of experts", title=title)
        for axis, ticks in ((ax.xaxis, (16, 64, 256, 1024)),
                            (ax.yaxis, (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4))):
            low, high = axis.get_view_interval()
            axis.set_ticks([one for one in ticks if low < one < high])
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(plt.NullLocator())
        ax.legend(fontsize=5.5)
    figure.savefig(path, dpi=100)


def main(path, out=None, picture=None, *more):
    found = found_in([dmft.load(one) for one in (path, *more)])
    tell(found)
    keep(list(rows_of(found)), HEAD, draw, out, picture)


if __name__ == "__main__":
    if sys.argv[1] == "--more":
        more = found_in([dmft.load(one) for one in sys.argv[3:]])
        tell(more)
        rows = {row[:5]: row for row in read_table(sys.argv[2])}
        rows |= {tuple(map(str, row[:5])): row for row in rows_of(more)}
        write_table(sys.argv[2], HEAD, rows.values())
    else:
        command(main, draw)
