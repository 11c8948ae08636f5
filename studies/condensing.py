"""Pictures about softmax over many experts, docs/findings.md; see scaling.py."""
from __future__ import annotations

import numpy as np

from common import grid, span
from dmft.plot.layout import legend
from dmft.plot.style import BARS, COLOURS
from verdict import (EXPONENT, all_of, below, drift, interval, judge, near, of_runs,
                     within_factor)

KEYS = "network.gate", "training.gamma0"


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
    dt = float(networks.attrs["training.eta0"])
    points = {key: point for key, point in networks.points.items()}
    softmax = [gamma0 for gate, gamma0 in points if gate == "softmax"]
    times, ends, starts = {}, {}, {}
    for key, point in points.items():
        part = {N: shares(data, N) for N, data in point.reference.items()}
        M = np.array(list(part), dtype=float)
        times[key] = np.array([doubled(one, dt) for one in part.values()])
        ends[key] = np.array([one[:, -1] for one in part.values()])
        starts[key] = np.array([data["expert_logits"].isel(t=0, place_2=0).mean("mu").item()
                                for data in point.reference.values()])
    of_sites = {}
    for (S, gamma0), point in sites.points.items():
        of_sites[float(gamma0), float(S)] = shares(point.limit, S)
    figure, axes = grid(1, 3, 2.8)
    draw(axes[0], points, M, softmax, times, ends, of_sites, dt)
    return legend(figure, axes[0][1], "$\\gamma_0$, gates\nhollow: limit of\n$M$ sites\n" + BARS), \
        seen(M, softmax, times, ends, starts, of_sites, dt)


def draw(axes, points, M, softmax, times, ends, of_sites, dt):
    strong = points["softmax", softmax[-1]].reference
    for k, (N, data) in enumerate(list(strong.items())[::2]):
        mean = data["expert_share_of_input"].mean("mu").values
        axes[0].plot(dt * np.arange(len(mean)), mean, color=COLOURS[k], label=f"$M = {N:g}$")
    axes[0].set(yscale="log", xlabel=r"time $\tau = \eta_0 t$", ylabel="share of the largest expert",
                title=rf"softmax, $\gamma_0 = {softmax[-1]:g}$")
    axes[0].legend(fontsize=7)
    for k, (gate, gamma0) in enumerate(points):
        label = rf"{gamma0:g}, {gate}"
        bars(axes[1], M, times[gate, gamma0], k, label=label)
        bars(axes[2], M, ends[gate, gamma0], k, label=label)
        S = [one for g, one in of_sites if g == gamma0 and gate == "softmax"]
        if S:
            limit = [of_sites[gamma0, one] for one in S]
            more = {"mfc": "white", "ls": "none"}
            bars(axes[1], S, np.array([doubled(one, dt) for one in limit]), k, **more)
            bars(axes[2], S, np.array([one[:, -1] for one in limit]), k, **more)
    axes[1].set(title="when it has doubled", ylabel=r"time $\tau$")
    axes[2].set(title="at the end", ylabel="share of the largest expert")
    for ax in axes[1:]:
        ax.set(xscale="log", yscale="log", xlabel="number of experts $M$")


def seen(M, softmax, times, ends, starts, of_sites, dt):
    strong = [gamma0 for gamma0 in softmax if np.isfinite(times["softmax", gamma0]).all()]
    words, good = [], []
    for gamma0 in strong:
        slope = power(M, times["softmax", gamma0])
        good.append(judge(slope, below(0), len(strong)))
        words.append(f"gamma_0 = {gamma0:g}: "
                     f"{' '.join(told(one) for one in times['softmax', gamma0])}, M to the "
                     f"{spread(slope)}")
    found = [(all_of(good) if good else None, f"""softmax condenses the sooner the more experts:
        the share of the largest has doubled at the time {"; ".join(words)} (M =
        {", ".join(f"{one:g}" for one in M)})""")]
    logits, slopes = starts["softmax", strong[-1]], []
    for gamma0 in strong:
        slopes.append(drift(np.exp(logits), times["softmax", gamma0]) / np.ptp(logits))
    found.append((all_of(judge(one, near(-1, EXPONENT), len(strong)) for one in slopes), f"""this
        time is as the inverse of the largest gate at the start, exp(max psi): against max psi its
        logarithm has the slope {"; ".join(spread(one) for one in slopes)} at gamma_0 =
        {", ".join(f"{one:g}" for one in strong)} (-1 by the equation of a single logit)"""))
    wide = np.array([times["softmax", gamma0][-1] for gamma0 in strong])
    found.append((judge(power(strong, wide), near(-1, EXPONENT)), f"""it goes as gamma_0 to the
        {spread(power(strong, wide))} at M = {M[-1]:g} (-1 by that equation)"""))
    last = {key: power(M, one) for key, one in ends.items()}
    most = "softmax", softmax[-1]
    found.append((judge(last[most], near(0, EXPONENT)), f"""at gamma_0 = {softmax[-1]:g} one expert
        ends with a finite share at every M: {" ".join(told(one) for one in ends[most])}, M to the
        {spread(last[most])}"""))
    for gate, gamma0 in ends:
        if gate != "softmax":
            found.append((judge(last[gate, gamma0], near(-1, EXPONENT)), f"""{gate} gates, which are
                bounded, do not: {" ".join(told(one) for one in ends[gate, gamma0])}, M to the
                {spread(last[gate, gamma0])}"""))
    found.append(limits(M, times, of_sites, dt))
    return found


def limits(M, times, of_sites, dt):
    """Whether a limit of as many sites condenses when networks of so many experts do."""
    verdicts, words = [], []
    for (gamma0, S), samples in of_sites.items():
        if S in M:
            own = doubled(samples, dt)
            other = times["softmax", gamma0][list(M).index(S)]
            verdicts.append(judge(own - other, within_factor(1.25)))
            words.append(f"{told(own)} and {told(other)} (M = {S:g}, gamma_0 = {gamma0:g})")
    return all_of(verdicts) if verdicts else None, f"""the limit is not one: it condenses when
        networks with as many experts as it has sites do, at {"; ".join(words)}"""
