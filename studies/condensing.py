"""Pictures about softmax over many experts, docs/findings.md; see scaling.py."""
from __future__ import annotations

import numpy as np

from common import fit_y, grid, span, widths_axis
from dmft.plot.layout import legend
from dmft.plot.style import BANDS, BARS, COLOURS
from verdict import (EXPONENT, all_of, below, drift, interval, judge, near, of_runs,
                     within_factor)


def shares(data, N: float):
    """Samples [sample, t] of the logarithm of the share that the largest expert of an input has,
    mean over inputs and runs."""
    return of_runs(data["expert_share_of_input_runs"].mean("mu").values, N)


def doubled(samples, dt: float):
    """[sample] of the logarithm of the time at which a share is twice that of the start, by lines
    between measured times; NaN where it never is."""
    found = np.full(len(samples), np.nan)
    for k, curve in enumerate(samples - samples[:, :1] - np.log(2)):
        above = np.flatnonzero(curve >= 0)
        if len(above) and above[0]:
            t = above[0]
            found[k] = np.log(dt * (t - curve[t] / (curve[t] - curve[t - 1])))
    return found


def middle(samples):
    """The middle and the ends of the 95 % interval of exp(samples)."""
    return np.exp([np.median(samples), *interval(samples)])


def told(samples) -> str:
    return span(*middle(samples)) if np.isfinite(samples).all() else "not known"


def power(x, samples):
    """Samples of the slope of logarithms [x, sample] against ln x."""
    return drift(np.asarray(x), samples) / np.log(x[-1] / x[0])


def spread(samples) -> str:
    """-0.52 [-0.61, -0.43]: of the samples as they are."""
    return span(np.median(samples), *interval(samples)) if np.isfinite(samples).all() \
        else "not known"


def bars(ax, x, samples, k: int, **more):
    """Points with their 95 % intervals, of those that are known."""
    known = np.isfinite(samples).all(1)
    if known.any():
        at, low, high = np.array([middle(one) for one in samples[known]]).T
        ax.errorbar(np.asarray(x)[known], at, (at - low, high - at), capsize=2, ms=4, lw=1.1,
                    color=COLOURS[k], marker="osD^v"[k], **more)


def condensation(networks, sites):
    """The share of the largest expert over time, when it has doubled, and how much it comes to."""
    points, found = networks.points, {}
    dt = float(next(iter(points.values())).parameters["training.eta0"])
    for key, point in points.items():
        curves = {N: shares(data, N) for N, data in point.reference.items()}
        start = [data.isel(t=0) for data in point.reference.values()]
        found[key] = {
            "M": np.array(list(curves), dtype=float),
            "times": np.array([doubled(one, dt) for one in curves.values()]),
            "ends": np.array([one[:, -1] for one in curves.values()]),
            "logit": np.array([one["expert_logits"].isel(place_2=0).mean() for one in start]),
            "gradient": np.log([one["expert_gradient_Q"].isel(probability=-1) for one in start])}
    of_sites = {(float(gamma0), float(S)): shares(point.limit, S)
                for (S, gamma0), point in sites.points.items() if "limit" in point}
    lost = [(float(gamma0), float(S)) for S, gamma0 in sites.points
            if (float(gamma0), float(S)) not in of_sites]
    figure, axes = grid(1, 3, 2.8)
    draw(axes[0], points, found, of_sites, dt)
    return legend(figure, axes[0][2], "$\\gamma_0$, gates\nhollow: limit of\n$M$ sites\n" + BARS), \
        [*seen(found), limits(found, of_sites, lost)]


def draw(axes, points, found, of_sites, dt):
    most = [key for key in found if key[0] == "softmax"][-1]
    steps = len(points[most].reference[int(found[most]["M"][0])]["t"]) - 1
    for k, (N, data) in enumerate(points[most].reference.items()):
        at, low, high = np.array([middle(one) for one in shares(data, N).T]).T
        tau = dt * np.arange(len(at))
        axes[0].plot(tau, at, color=COLOURS[k], label=f"$M = {N:g}$")
        axes[0].fill_between(tau, low, high, color=COLOURS[k], alpha=0.18, lw=0)
    axes[0].set(xlabel=r"time $\tau = \eta_0 t$",
                ylabel="share of the largest expert", title=rf"softmax, $\gamma_0 = {most[1]:g}$")
    axes[0].legend(fontsize=7, title=BANDS, title_fontsize=7)
    for k, ((gate, gamma0), part) in enumerate(found.items()):
        softmax = gate == "softmax"
        rows = (np.log(gamma0) + part["times"], part["ends"])
        S = [one for g, one in of_sites if g == gamma0 and softmax]
        limit = [of_sites[gamma0, one] for one in S]
        some = ([np.log(gamma0) + doubled(one, dt) for one in limit], [one[:, -1] for one in limit])
        first = 0 if softmax else 1
        for ax, own, of_limit in list(zip(axes[1:], rows, some))[first:]:
            bars(ax, part["M"], own, k, label=rf"{gamma0:g}, {gate}")
            if S:
                bars(ax, 1.12 * np.array(S), np.array(of_limit), k, mfc="white", ls="none")
        if softmax:
            not_before(axes[1], part["M"] / 1.06, rows[0], k, np.log(gamma0 * dt * steps))
    M = found[most]["M"][known(found[most])]
    guide = np.exp(np.median(found[most]["times"][known(found[most])], 1).mean())
    axes[1].legend(handles=axes[1].plot(
        M, most[1] * guide * (M / np.exp(np.log(M).mean())) ** -0.5, color="black", ls=":", lw=1,
        zorder=0, label="as $M^{-1/2}$"), fontsize=7)
    axes[1].set(title="when it has doubled\n(arrows: not before)",
                ylabel=r"$\gamma_0$ times time $\tau$")
    axes[2].set(title="at the end", ylabel="share of the largest expert")
    M = sorted({one for part in found.values() for one in part["M"]} | {S for _, S in of_sites})
    for ax in axes:
        fit_y(ax)
    for ax in axes[1:]:
        widths_axis(ax, M, "number of experts $M$")
        ax.tick_params(axis="x", labelrotation=90)
    axes[1].set_xlim(axes[2].get_xlim())


def not_before(ax, x, samples, k: int, end: float):
    """Arrows up from the time before which a share has not doubled, where it has not in some
    samples: the lower end of its interval, or the end of the run."""
    for M, one in zip(x, samples):
        if np.isfinite(one).all():
            continue
        at = np.exp(np.quantile(np.where(np.isnan(one), end, one), 0.025))
        ax.errorbar(M, at, 0.12 * at, lolims=True, capsize=2, ms=7, lw=1.1, color=COLOURS[k],
                    marker="_", zorder=1)


def known(part) -> np.ndarray:
    """The widths at which the share has doubled in every sample."""
    return np.isfinite(part["times"]).all(1)


def seen(found):
    strong = {key[1]: part for key, part in found.items()
              if key[0] == "softmax" and known(part).sum() >= 3}
    M = {gamma0: part["M"][known(part)] for gamma0, part in strong.items()}
    times = {gamma0: part["times"][known(part)] for gamma0, part in strong.items()}
    slopes = {gamma0: power(M[gamma0], times[gamma0]) for gamma0 in strong}
    told_all = "; ".join(f"gamma_0 = {gamma0:g}: {', '.join(told(one) for one in times[gamma0])} "
                         f"at M = {', '.join(f'{one:g}' for one in M[gamma0])}, as "
                         f"M^{spread(slopes[gamma0])}" for gamma0 in strong)
    yield verdict_of(judge(one, below(0), len(strong)) for one in slopes.values()), f"""with
        more experts softmax condenses sooner: the share of the largest expert has doubled at the
        time {told_all}"""
    for what, words in (("logit", "the largest gate at the start, exp(max psi)"),
                        ("gradient", "the largest gradient of a router's row at the start")):
        against = {gamma0: part[what][known(part)] for gamma0, part in strong.items()}
        lines = [power(np.exp(against[gamma0]), times[gamma0]) for gamma0 in strong]
        yield verdict_of(judge(one, near(-1, EXPONENT), len(lines)) for one in lines), f"""this time
            goes as the inverse of {words}: it goes as the power
            {"; ".join(spread(one) for one in lines)} of it at
            gamma_0 = {", ".join(f"{one:g}" for one in strong)} (a single logit in a fixed
            direction: -1)"""
    yield of_gamma(strong, M, times)
    last = {key: power(part["M"], part["ends"]) for key, part in found.items()}
    ends = {key: ", ".join(told(one) for one in part["ends"]) for key, part in found.items()}
    most = [key for key in found if key[0] == "softmax"][-1]
    yield judge(last[most], near(0, EXPONENT)), f"""at gamma_0 = {most[1]:g} one expert ends with a
        finite share at every M where training does not diverge: {ends[most]}, as
        M^{spread(last[most])}"""
    for key in found:
        if key[0] != "softmax":
            yield judge(last[key], near(-1, EXPONENT)), f"""{key[0]} gates, which are bounded, do
                not condense at gamma_0 = {key[1]:g}: {ends[key]}, as M^{spread(last[key])}"""


def of_gamma(strong, M, times):
    """The power of gamma_0, at the largest M at which the share doubles for all of them."""
    common = sorted(set.intersection(*map(set, M.values()))) if len(strong) > 1 else []
    if not common:
        return None, "a power of gamma_0 is not known: the share doubles at too few of them"
    rows = [times[one][list(M[one]).index(common[-1])] for one in strong]
    line = power(list(strong), np.array(rows))
    return judge(line, near(-1, EXPONENT)), f"""this time goes as gamma_0^{spread(line)} at M =
        {common[-1]:g} (gamma_0 = {", ".join(f"{one:g}" for one in strong)}; a single logit: -1)"""


def verdict_of(verdicts) -> bool | None:
    """None where there is nothing to judge."""
    verdicts = list(verdicts)
    return all_of(verdicts) if verdicts else None


def limits(found, of_sites, lost):
    """Whether a limit of as many sites condenses as networks of so many experts do."""
    verdicts, words = [], []
    for (gamma0, S), samples in of_sites.items():
        part = found["softmax", gamma0]
        own = samples[:, -1]
        other = part["ends"][list(part["M"]).index(S)] if S in part["M"] else own * np.nan
        if np.isfinite(other).all():
            verdicts.append(judge(own - other, within_factor(1.25)))
            words.append(f"{told(own)} and {told(other)} (M = {S:g}, gamma_0 = {gamma0:g})")
    every = max(len(part["M"]) for part in found.values())
    fell = "; ".join(f"gamma_0 = {key[1]:g}" for key, part in found.items()
                     if len(part["M"]) < every)
    gone = "; ".join(f"{S:g} at gamma_0 = {gamma0:g}" for gamma0, S in sorted(lost))
    return verdict_of(verdicts), f"""the limit does not stand for wide networks: its largest
        expert ends with the share that it has in networks of as many experts as the limit has
        sites, {"; ".join(words)}""" + \
        f"; with more sites its training diverges ({gone})" * bool(gone) + \
        f", as does that of the widest networks ({fell})" * bool(fell)
