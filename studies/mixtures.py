"""Pictures of Hyperparameter Transfer with Mixture-of-Experts Layers; see scaling.py."""
from __future__ import annotations

import numpy as np

from common import (best_below, factor, fit_y, grid, pm, runs_of, samples_over, told,
                    widths_axis)
from dmft.plot import axes as draw
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import quantity, student
from dmft.plot.style import BANDS, BARS, COLOURS
from verdict import (EXPONENT, SEEN, above, all_of, below, judge, near, of_interval, of_optimum,
                     of_runs, of_scatter, of_taking, opposite, within_factor)

SHAPE = "network.depth,network.experts,network.alpha"
SHAPES = ["base", "depth x 4", "experts x 4", "$N_e$ x 4"]


def curve(ax, x, part, k, label):
    """The objective with 95 % bars."""
    ax.errorbar(x, part["objective"].values, sweeps.half_bars(part), lw=1.1, color=COLOURS[k],
                marker="osD^v"[k], ms=3.5, capsize=2, label=label)


def jiang_transfer(rates, init, decay):
    figure, axes = grid(1, 3, 2.6)
    axes, seen = axes[0], []
    small, large = rates.sweep["N"].values[[0, -1]]
    shapes = [(label, {SHAPE: value, "N": small})
              for label, value in zip(SHAPES, rates.sweep[SHAPE].values)]
    shapes.insert(1, ("$N$ x 2", {SHAPE: rates.sweep[SHAPE].values[0],
                                   "N": large}))
    scales = "init.W0,init.W1,init.W2,init.w"
    factors = np.array([float(str(text).split()[0]) for text in init.sweep[scales].values])
    for k, (label, where) in enumerate(shapes):
        curve(axes[0], rates.sweep["training.eta0"].values, rates.sweep.sel(where), k, label)
        curve(axes[1], factors, init.sweep.sel(where), k, label)
    best = [rates["optimum"].sel(where) for _, where in shapes]
    at = [of_optimum(one) for one in best]
    words = ", ".join(f"{label.replace('$', '')}: {told(one)} ({factor(samples - at[0])})"
                      for (label, _), one, samples in zip(shapes, best, at))
    seen.append((all_of(judge(one - at[0], within_factor(1.25), len(at) - 1) for one in at[1:]),
                 f"best rate, and its ratio to that of the base: {words}"))
    seen.append(initial_scales(init, shapes, scales, factors))
    omega = decay.sweep["training.weight_decay"].values
    N = decay.sweep["N"].values
    for k, n in enumerate(N):
        curve(axes[2], omega, decay.sweep.sel(N=n), k, f"$N = {n:.0f}$")
    runs = [[of_runs(runs_of(decay, {"training.weight_decay": w, "N": n}), n) for n in N]
            for w in omega]
    place = int(np.argmin(decay.sweep["objective"].sel(N=N[-1]).values))
    gains = [one - first for one, first in zip(runs[place], runs[0])]
    seen.append((all_of(judge(gain, above(np.log(0.9)), len(N)) for gain in gains),
                 f"""weight decay is of little use: the loss with {omega[place]:g}, which is best at
                 N = {N[-1]:g}, over that with {omega[0]:g} is {", ".join(map(factor, gains))} at
                 N = {", ".join(f"{n:g}" for n in N)}"""))
    seen.append((all_of(judge(row - first, above(0), len(N))
                        for row, first in zip(runs[-1], runs[0])),
                 """much of it harms: """ + ", ".join(
                     f"{w:g}: {' '.join(f'{x:.2g}' for x in row)}" for w, row in zip(
                         omega, decay.sweep["objective"].values))
                 + f" ({sweeps.compared(decay.sweep)[1]}, N = {', '.join(f'{n:g}' for n in N)})"))
    for ax, words in zip(axes, (r"learning rate $\eta_0$", "factor of initial scales",
                                r"weight decay $\omega$")):
        ax.set(yscale="log", xlabel=words, xscale="log", title=words.split("$")[0].strip())
    widths_axis(axes[1], factors, "factor of initial scales")
    sweeps.scale(axes[0].xaxis, rates.sweep["training.eta0"].values)
    for ax, one in zip(axes, (rates, init, decay)):
        sweeps.scale(ax.yaxis, one.sweep["objective"].values)
        ax.set_ylabel(sweeps.compared(one.sweep)[1])
    best_below(axes[0], best, axes[0].get_ylim())
    axes[2].legend(fontsize=7, title="base with", title_fontsize=7)
    return legend(figure, axes[0], f"base: $N = {small:.0f}$\n" + BARS), seen


def initial_scales(init, shapes, key, factors):
    """Whether the initial scales that are best for the base cost no shape a quarter of its loss.
    Which are best, is drawn anew in each sample."""
    best = [int(np.nanargmin(init.sweep["objective"].sel(where).values)) for _, where in shapes]
    losses = [samples_over(init, where, key, init.sweep[key].values) for _, where in shapes]
    costs = [of_taking(own, losses[0]) for own in losses[1:]]
    verdicts = [judge(one, below(np.log(1.25)), len(costs)) for one in costs]
    words = [f"base: {factors[best[0]]:g}"]
    words += [f"{label.replace('$', '')}: {factors[place]:g} (that of the base: {factor(cost)})"
              for (label, _), place, cost in zip(shapes[1:], best[1:], costs)]
    return all_of(verdicts), f"""best multiplier of the initial scales, of
        {' '.join(f'{one:g}' for one in factors)}: {", ".join(words)}"""


def jiang_collapse(run, law):
    figure, axes = grid(2, 2, 2.3)
    seen, key = [], "network.experts,network.alpha"
    parts = {tuple(map(float, str(text).split())): run.points[tuple(map(float, str(text).split()))]
             for text in run.sweep[key].values}

    def of(shape, N):
        return parts[shape].reference[N]

    rows = [(r"$N/(N_e E) = 1$: width and experts", (16, 1.0), [
                (of((4, 1.0), 32), "$N = 32$, 4 experts"), (of((4, 1.0), 128), "$N = 128$, 4"),
                (of((16, 1.0), 128), "$N = 128$, 16")]),
            (r"16 experts, $N = 64$: units per expert", (16, 0.0625), [
                (of((16, a), 64), rf"$N_e/N = {1 / (16 * a):g}$") for a in (1.0, 0.25, 0.0625)])]
    for ax, (title, shape, some) in zip(axes[0], rows):
        mean, half = quantity(parts[shape].limit, "loss")
        draw.band(ax, mean, half, "black", lw=2.6, zorder=2, label=r"$N \to \infty$")
        for k, (data, label) in enumerate(some):
            draw.band(ax, *quantity(data, "loss"), COLOURS[k], label=label)
        ax.set(title=title, ylabel="loss")
        ax.legend(fontsize=7, title=BANDS, title_fontsize=7)
        t = len(mean) // 2
        ends = [float(data["loss"].values[t]) for data, _ in some]
        errors = [float(data["loss_se"].values[t]) for data, _ in some]
        runs = [(float(data.attrs["N"]), data["loss_runs"].isel(t=t).values) for data, _ in some]
        curves = [of_runs(values, N) for N, values in runs]
        apart = [np.exp(one) - np.exp(curves[0]) for one in curves[1:]]
        good = all_of(judge(one, near(0, 0.1 * float(mean[0])), len(apart)) for one in apart)
        seen.append((good, f"""{title.replace("$", "")}: loss at t =
            {t}
            {", ".join(f"{pm(a, b)}" for a, b in zip(ends, errors))}, in the limit
            {float(mean[t]):.4f}; it begins at {float(mean[0]):.3f}"""))
    for ax, (point, part) in zip(axes[1], law.points.items()):
        draw.distribution(ax, part, "p_1", 2)
        spread = {}
        for data, label in ((part.limit, "limit"), (part.reference[32], "least"),
                            (part.reference[max(part.reference)], "most")):
            q, error = (data["p_1_quantile" + end].isel(at=2, mu=0) for end in ("", "_se"))
            high, low = ([float(one.sel(probability=share, method="nearest")) for one in (q, error)]
                         for share in (0.9, 0.1))
            spread[label] = high[0] - low[0], np.hypot(high[1], low[1])
        ax.set(xlabel="router logit $p_k$, second block", ylabel="share of experts below",
               title=f"experts of {point[0]:g} units, $t = {int(q['at'])}$")
        ax.legend(fontsize=6.5, title="width (runs)\n" + BANDS, title_fontsize=6.5)
        limit, *others = spread.values()
        away = others[-1][0] / limit[0] - 1, 2 * np.hypot(others[-1][1], limit[1]) / limit[0]
        seen.append((judge(of_interval(*away), near(0, 0.1)), f"""law of the logits at the last
            step, experts of {point[0]:g}
            units:
            its quantiles at 10 and 90 per cent are apart by {pm(*limit)} in the limit,
            {pm(*others[0])} at N = 32, {pm(*others[-1])} at N = {max(part.reference)}"""))
    return figure, seen


def jiang_experts(run, top):
    key = "network.experts,network.alpha,network.rho"
    figure, axes = grid(1, 2, 2.6)
    axes, seen = axes[0], []
    losses, sizes = [], []
    for k, alpha in enumerate(run.sweep["network.alpha"].values):
        where = {"network.alpha": alpha, "N": run.sweep["N"].values[0]}
        one = run["optimum"].sel(where)
        E = one["network.experts"].values
        value, low, high = (one[name].values for name in ("objective", "objective_low",
                                                          "objective_high"))
        sizes.append(run.sweep["parameters"].sel(where).isel({"training.eta0": 0}).values)
        losses.append(of_optimum(one, "objective"))
        axes[0].errorbar(E * 1.03 ** k, value, [value - low, high - value], color=COLOURS[k],
                         marker="os"[k], ms=4, capsize=2, label=f"{sizes[k][0]:.0f} (of 4)")
        gain = losses[k][-1] - losses[k][0]
        seen.append((judge(gain, below(0)), f"""experts of one size in all: test loss at the best
            rate {told(one, "objective")} with {", ".join(f"{n:g}" for n in E)} experts
            ({factor(gain)}), {", ".join(f"{n:.0f}" for n in sizes[k])} parameters with the rows of
            the router; best \u03b7\u2080 {told(one)}"""))
    gain = losses[0][-1] - losses[1][0]
    seen.append((judge(gain, below(0)), f"""{E[-1]:g} experts with {sizes[0][-1]:.0f} parameters are
        better than {E[0]:g} with {sizes[1][0]:.0f}: the router's rows are not the reason
        ({factor(gain)})"""))
    best, labels = [], []
    for k, text in enumerate(top.sweep[key].values):
        where = {key: text, "N": top.sweep["N"].values[0]}
        labels.append(f"{float(str(text).split()[0]):.0f}")
        curve(axes[1], top.sweep["training.eta0"].values, top.sweep.sel(where), k, labels[-1])
        best.append(top["optimum"].sel(where))
    moved = [of_optimum(one) - of_optimum(best[0]) for one in best[1:]]
    same = all_of(judge(one, within_factor(1.25), len(moved)) for one in moved)
    at, there = (", ".join(told(one, name) for one in best) for name in ("at", "objective"))
    seen.append((opposite(same), f"""top-1: best \u03b7\u2080 {at} with {", ".join(labels)}
        experts of N_e = N = 32 units, loss there {there}; the last over the first
        {factor(moved[-1])}"""))
    axes[0].set(title="a quarter of the experts selected", ylabel="test loss at the best rate",
                ymargin=0.25)
    widths_axis(axes[0], [4, 8, 16, 32], "number of experts $E$")
    axes[0].legend(title="parameters\n" + BARS, fontsize=7, title_fontsize=7)
    axes[1].set(title="one expert selected", ylabel=sweeps.compared(top.sweep)[1],
                xlabel=r"learning rate $\eta_0$")
    fit_y(axes[1])
    sweeps.scale(axes[1].xaxis, top.sweep["training.eta0"].values)
    axes[1].legend(title="experts\n" + BARS, fontsize=7, title_fontsize=7)
    return figure, seen


def over_blocks(data, name: str):
    """Mean and half of the 95 % interval over t of a series of blocks, their mean over blocks."""
    return [part.values.reshape(len(part), -1).mean(1) for part in quantity(data, name)]


def widest(part):
    return part.reference[max(part.reference)]


def jiang_balance(run):
    figure, axes = grid(1, 3, 2.6)
    axes, seen = axes[0], []
    for k, (point, part) in enumerate(run.points.items()):
        E, rows, bars = [N // 4 for N in part.reference], [], []
        for data in part.reference.values():
            (flips, half), (load2, wide) = (over_blocks(data, name) for name in ("flips", "load2"))
            late, spread = len(flips) // 2, load2[-1] ** 0.5
            rows.append((np.nanmean(flips[late:]), spread))
            bars.append((np.nanmean(half[late:]), wide[-1] / (2 * spread)))
        rows, bars = np.array(rows), np.array(bars)
        label, style = rf"$\eta_b = {point[0]:g}$", {"marker": "osD^v"[k], "ms": 4, "capsize": 2}
        for ax, value, half in zip(axes[::2], rows.T, bars.T):
            ax.errorbar(E, value, half, color=COLOURS[k], label=label, **style)
        draw.band(axes[1], *over_blocks(widest(part), "load_largest"), COLOURS[k])
        power, half = of_scatter(np.log(E), np.log(rows[:, 0]))
        good = judge(of_interval(power, half), near(0, EXPONENT)) if point[0] > 0 else SEEN
        seen.append((good, f"""\u03b7_b = {point[0]:g}: share of the selected
            experts that change in a step {", ".join(f"{one:.3f}" for one in rows[:, 0])} at E =
            {", ".join(map(str, E))} (as E^{pm(power, half / student(len(E) - 2))});
            loads depart from \u03c1 by {", ".join(
            f"{one:.3f}" for one in rows[:, 1])} at the end (rms)"""))
    ends, errors = np.array([[float(widest(part)[one].values[-1].mean())
                              for one in ("load2", "load2_se")] for part in run.points.values()]).T
    least = 1 + int(np.argmin(ends[1:]))
    apart = ends[least] - 0.5 * ends[0], 2 * np.hypot(errors[least], 0.5 * errors[0])
    seen.append((judge(of_interval(*apart), below(0)), f"""biases at the best of their rates
        make the mean square of what loads depart from \u03c1 less than half, at E = {E[-1]}:
        {", ".join(pm(*pair) for pair in zip(ends, errors))} for \u03b7_b =
        {", ".join(f"{point[0]:g}" for point in run.points)}"""))
    axes[0].set(ylabel="share of selected experts that flip", title="second half of the run")
    axes[1].set(xlabel="step $t$", ylabel=r"largest load $/\,\rho$", title=f"$E = {E[-1]}$")
    axes[2].set(ylabel=r"$\langle (m_k - \rho)^2 \rangle^{1/2}$", title="at the end")
    for ax in (axes[0], axes[2]):
        widths_axis(ax, E, "number of experts $E$")
        ax.set_ylim(0)
    return legend(figure, axes[0], "rate of biases\nbands, bars: 95 %"), seen
