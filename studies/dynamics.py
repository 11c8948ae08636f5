"""Pictures of Bordelon's slides: lazy and rich, widths, depths; see scaling.py."""
from __future__ import annotations

import numpy as np
import xarray
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

import dmft
from common import at_widths, fit_y, grid, name, pm, widths_axis
from dmft.plot import axes as draw
from dmft.plot.layout import legend
from dmft.plot.select import quantity, shades, slope, student
from dmft.plot.style import BANDS, BARS, COLOURS
from scaling import scaled
from verdict import EXPONENT, above, all_of, below, judge, near, of_interval, of_scatter, opposite


def quantiles(data, field: str, every: int):
    """Shares, values and errors of each so many of the quantiles over the sites of the first input
    at the last time, without the outermost."""
    q, se = (data[field + end].isel({"at": -1, "mu": 0}) for end in ("_quantile", "_quantile_se"))
    return (one[1:-1:every] for one in (q["probability"].values, q.values, se.values))


def density(ax, data, field: str, colour, **line):
    """A density from its quantiles: they are interpolated over those of a normal number, by cubics
    that rise where they do, and the density of x(z) is that of z over x'(z)."""
    share, value, _ = quantiles(data, field, 2)
    z = ndtri(share)
    x, fine = PchipInterpolator(z, value), np.linspace(z[0], z[-1], 200)
    ax.plot(x(fine), np.exp(-fine ** 2 / 2) / np.sqrt(2 * np.pi) / x(fine, 1), color=colour, **line)


def cells(ax, data, field: str, colour, **line):
    """The same as differences of probability over differences of value, at the middle of each.
    Bars of 95 % take the errors of neighbours as independent, which makes them an upper bound."""
    share, value, error = quantiles(data, field, 2)
    mean, width = np.diff(share) / np.diff(value), np.diff(value)
    half = mean / width * np.hypot(error[1:], error[:-1]) * student(data["n"].values[-1] - 1)
    ax.errorbar((value[1:] + value[:-1]) / 2, mean, np.minimum(half, mean), color=colour,
                marker="o", ls="none", capsize=0, elinewidth=0.8, **line)


def tail(data, field: str) -> float:
    """The 95 per cent quantile over the 75 per cent one, of the first input at the last time."""
    q = data[field + "_quantile"].isel(at=-1, mu=0)
    high, low = (float(q.sel(probability=share, method="nearest")) for share in (0.95, 0.75))
    return high / low


def of_change(data, stored: str):
    """Samples of the relative change of a kernel from the start to the end; the errors of both are
    added as if they were independent, an upper bound where what is drawn is the same."""
    mean, half = (one.values for one in quantity(data, stored))
    ratio = mean[-1] / mean[0]
    return of_interval(ratio - 1, ratio * np.hypot(half[0] / mean[0], half[-1] / mean[-1]))


def lazy_rich(run):
    figure, axes = grid(2, 2, 2.3)
    seen = []
    for k, (point, part) in enumerate(run.points.items()):
        gamma0, label = point[0], rf"$\gamma_0 = {point[0]:g}$"
        widest = part.reference[max(part.reference)]
        for ax, stored in zip(axes[0], ("loss", "Phi3_diag")):
            mean, half = quantity(part.limit, stored)
            draw.band(ax, mean, half, COLOURS[k], lw=2.6, zorder=2,
                      label=r"$N \to \infty$, " + label)
            mean, half = quantity(widest, stored)
            draw.band(ax, mean, half, "black", lw=0.9, ls="--", zorder=3)
        for ax, field in zip(axes[1], ("h3", "g_h3")):
            density(ax, part.limit, field, COLOURS[k], lw=2)
            cells(ax, widest, field, COLOURS[k], ms=3.5, mec="black", mew=0.6, zorder=3)
        Phi = quantity(part.limit, "Phi3_diag")[0].values
        moved = of_change(part.limit, "Phi3_diag")
        ends = [[one.values[-1] for one in quantity(data, "loss")] for data in (part.limit, widest)]
        apart = ends[1][0] / ends[0][0] - 1, np.hypot(ends[0][1], ends[1][1]) / ends[0][0]
        good = all_of([judge(moved, near(0, 0.05) if gamma0 < 0.2 else above(0.2)),
                       judge(of_interval(*apart), near(0, 0.1))])
        seen.append((good, f"""\u03b3\u2080 = {gamma0:g}: the last feature kernel grows by
            {100 * (Phi[-1] / Phi[0] - 1):.1f} per cent; loss at the end {ends[0][0]:.4f} in the
            limit, {ends[1][0]:.4f} at N = {max(part.reference)}; the 95 per cent quantile of h3 is
            {tail(part.limit, "h3"):.2f} times its 75 per cent quantile, that of g3
            {tail(part.limit, "g_h3"):.2f} times (2.44 for a Gaussian)"""))
    least = min(quantity(part.limit, "loss")[0].values.min() for part in run.points.values())
    fit_y(axes[0, 0])
    axes[0, 0].set(ylabel="loss", ylim=(0.8 * least, None))
    axes[0, 1].set(ylabel=r"$\Phi_3$, mean over inputs", title="last feature kernel")
    axes[1, 0].set(xlabel="$h_3$ of the first input, last step", ylabel="density")
    axes[1, 1].set(xlabel="$g_3$ of the first input, last step", ylabel="density")
    axes[0, 0].plot([], [], color="black", lw=0.9, ls="--", marker="o", ms=3.5,
                    label=f"$N = {max(part.reference)}$")
    return legend(figure, axes[0, 0], "bands, bars:\n95 %"), seen


def widths(run, rich):
    figure, axes = grid(2, 2, 2.3)
    seen = []
    for ax, (point, part) in zip(axes[0], run.points.items()):
        draw.curves(ax, part, "loss")
        ax.set(title=name(point[0]), ylabel="loss", yscale="log")
    low = min(ax.get_ylim()[0] for ax in axes[0])
    for ax in axes[0]:
        ax.set_ylim(low)
    kernel = next(one for one in ("PhiL_diag", "Phi3_diag") if one in next(iter(
        part.reference.values())))
    for k, (point, part) in enumerate(run.points.items()):
        N, end, _ = at_widths(part, kernel)
        start = at_widths(part, kernel, 0)[1]
        moved = np.abs(end / start - 1)
        axes[1, 0].plot(N, moved, color=COLOURS[k], marker="os"[k], ms=4, label=name(point[0]))
        power, half = of_scatter(np.log(N), np.log(moved))
        loss = at_widths(part, "loss")[1]
        claim = near(-1, EXPONENT) if point[0] == "ntp" else near(0, EXPONENT)
        seen.append((judge(of_interval(power, half), claim), f"""{name(point[0])}: the last kernel
            moves by {", ".join(f"{100 * one:.2g}" for one in moved)} per cent at N =
            {", ".join(f"{n:g}" for n in N)} (as N^{pm(power, half / student(len(N) - 2))}); loss at
            the last step {", ".join(f"{one:.3g}" for one in loss)}"""))
    axes[1, 0].set(yscale="log", ylabel=r"relative change of $\Phi_L$",
                   title="start to end, without errors")
    widths_axis(axes[1, 0], N)
    axes[1, 0].legend(fontsize=8)
    part = rich.points[max(rich.points)]
    for (N, data), shade in zip(part.reference.items(), shades(len(part.reference))):
        cells(axes[1, 1], data, "h3", shade, ms=3, label=f"$N = {N}$")
    density(axes[1, 1], part.limit, "h3", "black", lw=2, zorder=1, label=r"$N \to \infty$")
    axes[1, 1].set(xlabel=r"$h_3$, last step, \u03bcP, $\gamma_0 = 2$".replace(r"\u03bc", "\u03bc"),
                   ylabel="density")
    axes[1, 1].legend(fontsize=7)
    ends = [data.isel(t=-1, at=-1, mu=0) for data in [*part.reference.values(), part.limit]]
    quantiles = np.array([one["h3_quantile"].values for one in ends])
    halves = [one["h3_quantile_se"].values * student(one["n"].values - 1) for one in ends]
    apart = np.abs(quantiles - quantiles[-1])[:-1, 3:-3] / quantiles[-1].std()
    away, where = apart.max(1), 3 + apart[-1].argmax()
    half = np.hypot(halves[-2], halves[-1])[where] / quantiles[-1].std()
    seen.append((judge(of_interval(away[-1], half), below(0.25)), f"""quantiles of h3 at the end,
        \u03b3\u2080 = 2: they differ from those of the limit by at most
        {", ".join(f"{one:.2f}" for one in away)} of their spread at N =
        {", ".join(map(str, part.reference))}"""))
    return legend(figure, axes[0, 0], "width (runs)\n" + BANDS), seen


def ode_sde(blocks, limits):
    figure, axes = grid(2, 2, 2.3)
    seen = []
    depths = sorted({int(point[1]) for point in blocks.points})
    for k, power in enumerate((0.5, 1.0)):
        rows, halves = {"stream": [], "weights": []}, {"stream": [], "weights": []}
        for L in depths:
            data = next(iter(blocks.points[power, L].reference.values()))
            b = L ** -power
            wide = float(student(data["n"].values[-1] - 1))
            added = [(float(data[f"rms_W_out_{l}_init"].values[0]),
                      float(data[f"rms_W_out_{l}_init_se"].values[0])) for l in range(L)]
            rows["stream"].append(b * np.sqrt(sum(one ** 2 for one, _ in added)))
            halves["stream"].append(wide * b * b * np.sqrt(sum((a * c) ** 2 for a, c in added))
                                    / rows["stream"][-1])
            learned = f"rms_W_in_{L // 2}_eff"
            rows["weights"].append(float(data[learned].values[-1]))
            halves["weights"].append(wide * float(data[learned + "_se"].values[-1]))
        words = rf"$L^{{-{power:g}}}$"
        for ax, key in zip((axes[0, 0], axes[0, 1]), ("stream", "weights")):
            ax.errorbar(depths, rows[key], halves[key], color=COLOURS[k], marker="os"[k], ms=4,
                        capsize=2, label=words)
        slopes = {key: slope(depths[1:], np.array(rows[key][1:]), np.array(halves[key][1:]))
                  for key in rows}
        good = all_of([judge(of_interval(*slopes["stream"]), near(0.5 - power, EXPONENT)),
                       judge(of_interval(*slopes["weights"]), near(power - 1, EXPONENT))])
        seen.append((good, f"""branches times L^-{power:g}: what the initial weights add to the
            stream
            goes as L^{pm(*scaled(slopes["stream"]))}, and what W_in of one block learns as
            L^{pm(*scaled(slopes["weights"]))}"""))
        ends = [quantity(next(iter(blocks.points[power, L].reference.values())), "loss")
                for L in depths]
        losses = [float(mean.values[-1]) for mean, _ in ends]
        axes[1, 0].errorbar(depths, losses, [float(half.values[-1]) for _, half in ends],
                            color=COLOURS[k], marker="os"[k], ms=4, capsize=2, label=words)
    axes[0, 0].set(ylabel="rms of what they add", title="initial weights, all blocks")
    axes[0, 1].set(ylabel=r"rms of $\Delta W_{in}\, x$, middle block",
                   title="learned inside of a block")
    axes[1, 0].set(ylabel="loss at the last step", title="networks")
    by, deepest = {}, {}
    for (L, alpha), part in limits.points.items():
        by.setdefault(alpha / L, []).append((L, float(part.limit["loss"].values[-1]),
                                             float(part.limit["loss_se"].values[-1]),
                                             float(student(part.limit["n"].values[-1] - 1))))
    for k, (star, rows) in enumerate(sorted(by.items())):
        L, loss, se, wide = np.array(sorted(rows)).T
        axes[1, 1].errorbar(L, loss, wide * se, color=COLOURS[k + 2], marker="osD"[k], ms=4,
                            capsize=2, label=rf"$\alpha_\star = {star:g}$")
        table = xarray.Dataset({"loss": ("L", loss), "loss_se": ("L", se)}, {"L": L})
        deep, error = (float(one) for one in dmft.richardson(table, "loss", "L"))
        deepest[star] = deep, error
        rest = loss[-1] - deep
        settled = judge(of_interval(rest / deep, wide[-1] * error / deep), near(0, 0.02))
        axes[1, 1].errorbar([2 * L[-1]], [deep], [wide[-1] * error], color=COLOURS[k + 2],
                            marker="osD"[k], ms=4, capsize=2, mfc="white", ls="")
        seen.append((settled, f"""limit N \u2192
            \u221e of residual experts, N/(N_e E L) = {star:g}: loss
            {", ".join(f"{one:.4f}" for one in loss)} at L = {", ".join(f"{one:g}" for one in L)},
            and {pm(deep, error)} at infinite depth by Richardson's formula in 1/L, within 2 per
            cent of the last"""))
    ends = deepest[min(by)], deepest[max(by)]
    apart, error = ends[0][0] - ends[1][0], np.hypot(ends[0][1], ends[1][1])
    same = judge(of_interval(apart, wide[-1] * error), near(0, 0.01 * ends[0][0]))
    seen.append((opposite(same), f"""the limits of infinite depth with N/(N_e E L) = {min(by):g}
        and {max(by):g} differ by {pm(apart, error)}, by more than a hundredth"""))
    axes[1, 1].set(ylabel="loss at the last step",
                   title=r"$N \to \infty$, $\alpha_\star = N/(N_e E L)$")
    for ax in axes.flat:
        widths_axis(ax, depths if ax is not axes[1, 1] else [*L, np.inf], "depth $L$")
        ax.legend(fontsize=7)
    for ax in axes[0]:
        fit_y(ax)
    axes[0, 0].get_legend().set(title="branches times\n" + BARS)
    return figure, seen
