"""Pictures of Why Routers Freeze and mu-Parametrization for Mixture of Experts; see scaling.py."""
from __future__ import annotations

import numpy as np

from common import (at_widths, best_below, exponent, factor, grid, name, of_exponent, pm, rates,
                    told, widths_axis)
from dmft.plot import axes as draw
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import slope
from dmft.plot.style import BANDS, BARS, COLOURS
from scaling import rates_seen, scaled
from verdict import (EXPONENT, above, below, judge, near, of_interval, of_optimum,
                     opposite, within_factor)


def routers_freeze(run):
    """The entropy of the router over steps (SP), and at the end against the width."""
    figure, axes = grid(1, 3, 2.8)
    axes = axes[0]
    runs = run.points
    M = len(next(iter(next(iter(runs.values())).reference.values()))["i"])
    draw.curves(axes[0], runs["sp", 1.0], "router_entropy")
    axes[0].set(ylabel=r"entropy of the router $/\,\ln M$", title="SP, soft routing",
                ylim=(0, 1.02))
    axes[0].legend(loc="center right", bbox_to_anchor=(1.02, 0.51), title="width (runs)\n" + BANDS,
                   fontsize=7, title_fontsize=7)
    seen = []
    for (side, rho), part in runs.items():
        colour = COLOURS[side == "sp"]
        style = {"ls": "-" if rho == 1 else "--", "color": colour, "mfc": colour if rho == 1 else
                 "white", "marker": "o", "ms": 4, "capsize": 2}
        routing = "soft" if rho == 1 else f"top-{rho * M:.0f}"
        label = f"{name(side)}, {routing}"
        N, mean, half = at_widths(part, "router_entropy")
        axes[1].errorbar(N, mean, half, label=label, **style)
        equal = np.log(rho * M) / np.log(M)  # the entropy of equal gates
        gap = equal - mean
        axes[2].errorbar(N, gap, np.minimum(half, 0.9 * gap), label=label, **style)
        power, error = scaled(slope(N, gap, half))
        if side == "sp":  # the entropy at the largest width over that at the smallest
            lost = np.log(mean[-1] / mean[0]), np.hypot(half[0] / mean[0], half[-1] / mean[-1])
            good = judge(of_interval(*lost), below(np.log(0.75)))
        else:
            good = judge(of_interval(power, 2 * error), near(-1, EXPONENT))
            good = good if rho == 1 else opposite(good)
        seen.append((good, f"""{label}: the entropy of the gates over ln M is
            {", ".join(f"{one:.3f}" for one in mean)} at N = {", ".join(f"{n:g}" for n in N)}; its
            distance from {equal:g}, which equal gates have, goes as
            N^{pm(power, error)}"""))
    guide = 0.4 * (1 - at_widths(runs["mup", 1.0], "router_entropy")[1][0]) * N[0] / N
    axes[2].plot(N, guide, color="grey", ls=":", lw=1.2)
    axes[2].annotate("$1/N$", (N[len(N) // 2], guide[len(N) // 2]), (-4, -4), color="grey",
                     textcoords="offset points", ha="right", va="top", fontsize=8)
    axes[1].set(ylabel=r"entropy $/\,\ln M$", title="at the last step", ylim=(0, 1.02))
    for level in (1, np.log(2) / np.log(M)):
        axes[1].axhline(level, color="black", lw=0.6, ls=":")
    axes[1].legend(loc="lower left", fontsize=7, title=BARS, title_fontsize=7)
    axes[2].set(ylabel=r"$(\ln K\, -$ entropy$)\,/\,\ln M$", yscale="log",
                title="distance from equal gates")
    for ax in axes[1:]:
        widths_axis(ax, N)
        ax.tick_params(axis="x", labelrotation=90)
    return figure, seen


# What moves, as the parts of the coordinate check.
MOVES = {"rms_W1_eff": "first layer, $\\Delta W_1$", "rms_Q_eff": "router, $\\Delta Q$",
         "rms_W2_eff": "experts, $\\Delta W_2$", "rms_f_delta": "output $f$"}


def router_updates(run):
    """Sizes of what each matrix has learned at the end, against the width."""
    figure, axes = grid(2, 2, 2.3, sharex=True, sharey=True)
    seen = []
    for ax, (gate, rho) in zip(axes.flat, [("softmax", 1.0), ("sigmoid", 1.0), ("softmax", 0.5),
                                           ("sigmoid", 0.5)]):
        part, words = run.points[gate, rho], []
        for k, (term, label) in enumerate(MOVES.items()):
            N, mean, half = at_widths(part, term)
            ax.errorbar(N, mean, np.minimum(half, 0.9 * mean), color=COLOURS[k], marker="osD^"[k],
                        ms=4, lw=1.1, capsize=2, label=label)
            words.append(f"{term[4:].replace('_eff', '').replace('_delta', '')} "
                         f"{pm(*scaled(exponent(part, term, -1)))}")
        frozen = gate == "softmax" and rho == 1
        last = scaled(slope(*(one[-3:] for one in at_widths(part, "rms_Q_eff"))))
        # Narrower than EXPONENT, so that neither 0 nor -1/4 lies near -1/2.
        good = judge(of_exponent(part, "rms_Q_eff", -1), near(-0.5, 0.15)) if frozen else \
            judge(of_interval(last[0], 2 * last[1]), near(0, EXPONENT))
        title = f"{gate}, {'soft' if rho == 1 else 'top-2 of 4'}"
        ax.set(yscale="log", title=title)
        widths_axis(ax, N)
        seen.append((good, f"{title}: exponents in N of what is learned, at the last step: "
                     + ", ".join(words) + f"; of Q through the three largest widths {pm(*last)}"))
    guide = axes[0, 0].get_ylim()[0] * 2.5 * (N / N[0]) ** -0.5
    for ax in axes.flat:
        ax.plot(N, guide, color="grey", ls=":", lw=1.2, label="$N^{-1/2}$")
    for ax in axes[:, 0]:
        ax.set_ylabel("rms of what is learned")
    for ax in axes[0]:
        ax.set_xlabel("")
    return legend(figure, axes[0, 0], BARS), seen


def router_bias(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = ["without a bias", "with a schedule of biases"]
    return rates(run, cells, titles), rates_seen(run, cells, titles, [("stays", "any")] * 2)


def simp(mixture, dense):
    cells = [{"network.parameterization": side} for side in ("sp", "simp", "mup")]
    titles = ["SP", "simP", "\u03bcP"]
    figure = rates(mixture, cells, titles)
    seen = rates_seen(mixture, cells, titles, [("falls", "any")] + [("stays", "any")] * 2)
    without = [{"network.parameterization": side} for side in ("sp", "mup")]
    axes = figure.axes
    axes[3].legend(loc="center right", fontsize=7)
    for ax, cell, title in zip(axes[4:6], without, ("dense, SP", "dense, \u03bcP")):
        ax.set_visible(True)
        sweeps.losses(ax, dense.sweep.sel(cell), "training.eta0")
        ax.set(title=title, yscale="log", ylim=axes[0].get_ylim())
    return figure, seen + rates_seen(dense, without, ["dense SP", "dense \u03bcP"],
                                     [("falls", "any"), ("stays", "any")])


def granularity(run):
    sweep, key = run["sweep"], "network.experts,network.iota,network.rho"
    figure, axes = grid(1, 2, 2.5, sharey=True)
    axes = axes[0]
    cells = [dict(zip(("E", "iota", "rho"), map(float, text.split())))
             for text in sweep[key].values]
    groups = [("number of experts", [0, 1, 2]), ("granularity", [1, 3, 4])]
    best = run["optimum"]
    seen = []
    for ax, (title, places) in zip(axes, groups):
        for k, place in enumerate(places):
            one, cell = sweep.isel({key: place, "N": 0}), cells[place]
            words = f"{cell['E']:.0f} experts, top-{cell['E'] * cell['rho']:.0f}, " \
                rf"$N_e/N = {cell['iota']:g}$"
            ax.errorbar(one["training.eta0"].values, one["objective"].values,
                        sweeps.half_bars(one), color=COLOURS[k], marker="osD"[k], ms=3.5, lw=1.2,
                        capsize=2, label=words)
        ax.set(title=title, xlabel=r"learning rate $\eta_0$", yscale="log")
        sweeps.scale(ax.xaxis, sweep["training.eta0"].values)
        ax.legend(fontsize=7, title=BARS, title_fontsize=7, loc="upper center")
        for kind in ("", "median_"):
            part = best.isel({key: places, "N": 0})
            at = of_optimum(part, "at", kind)
            moved = at[-1] - at[0]
            good = judge(moved, within_factor(1.25)) if title == "number of experts" else \
                judge(moved, above(np.log(1.1)))
            words = told(part, "at", kind), told(part, "objective", kind)
            seen.append((good, f"""{title}, {"medians" if kind else "means"}: best \u03b7\u2080
                {words[0]} (change from the first to the last: {factor(moved)}), loss at this rate
                {words[1]}"""))
    axes[0].set_ylabel(sweeps.compared(sweep)[1])
    low, high = axes[0].get_ylim()
    limits = low, 4 * high  # room for the legends
    for ax, (_, places) in zip(axes, groups):
        best_below(ax, [best.isel({key: place, "N": 0}) for place in places], limits)
    return figure, seen
