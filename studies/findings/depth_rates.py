"""What becomes of a stack of experts as it gets deeper, with branches scaled by L^-1/2 and by L^-1?

    python/with studies/findings/depth_rates.py depth_rates.h5 [OUT.csv [OUT.png]]

Reads the sweep of depth_rates.ini, prints what is seen, and writes the numbers behind it. The
picture is made of these numbers alone, so that a table will do, too:

    python/with studies/findings/depth_rates.py --picture OUT.csv OUT.png
"""
import os
import sys

import numpy as np
import xarray

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.select import student  # noqa: E402
from tables import command, write_table  # noqa: E402
from verdict import WORDS, above, judge, of_interval, within_factor  # noqa: E402

DEPTH, POWER, RATE, ETA0 = "network.depth", "network.branch_power", "training.eta0", 0.8
HALF = student(3)  # half of a 95 % interval in standard errors, four replicates of the limit


def stream(run, a):
    """Feature kernel of the stream in front of block l of L, mean over inputs, at the end."""
    parts, units = [], run.units()
    for L in run.sweep[DEPTH].values:
        at = {POWER: a, DEPTH: L, RATE: ETA0, "N": np.inf}
        limit = dmft.load(units.sel(at).item()).limit
        wanted = [name for name in limit if name.startswith("Ch_") and "_diag" in name]
        group = dmft.blocks(limit[wanted]).isel(t=-1)
        mean = group.mean("mu")  # errors of inputs are not independent: not smaller than one's
        parts.append(mean.reindex(l=range(9)).expand_dims({DEPTH: [L]}))
    return xarray.concat(parts, DEPTH)


def depths(run, a, N):
    return run.sweep[["loss", "loss_se"]].sel({POWER: a, RATE: ETA0, "N": N})


def draw(rows, path):
    """Losses of the limit against 1/L, and kernels of its stream; rows as in the table."""
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    of = {(float(a), float(L), name): (float(value), HALF * float(se))
          for a, N, L, name, value, se in rows if float(N) == np.inf}
    for a, colour in ((0.5, "C0"), (1.0, "C3")):
        depths_ = sorted(L for power, L, name in of if power == a and name == "loss")
        value, half = np.array([of[a, L, "loss"] for L in depths_]).T
        axes[0].errorbar(1 / np.array(depths_[:-1]), value[:-1], half[:-1], marker="o",
                         color=colour, capsize=2, label=f"branches times $L^{{-{a:g}}}$")
        axes[0].errorbar([0], value[-1:], half[-1:], marker="s", mfc="w", color=colour, capsize=2)
        for L, style in zip((2, 4, 8), (":", "--", "-")):
            kernel = np.array([of[a, L, f"Ch_{block}"] for block in range(L + 1)]).T
            axes[1].errorbar(np.arange(L + 1) / L, *kernel, ls=style, color=colour, marker=".",
                             capsize=2, elinewidth=0.7, label=f"$L = {L}$" if a == 0.5 else None)
    axes[0].set(xlabel="$1/L$   (squares: extrapolated by Richardson)",
                ylabel="loss of the limit, $t = 15$")
    axes[1].set(xlabel=r"$\ell/L$", ylabel=r"feature kernel of the stream at block $\ell$")
    for ax in axes:
        ax.legend(fontsize=8, title="bars: 95 %", title_fontsize=8)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    rows = []
    streams = {a: stream(run, a) for a in (0.5, 1.0)}
    for a in (0.5, 1.0):
        for N in run.sweep["N"].values:
            loss = depths(run, a, N)
            if not np.isfinite(loss["loss"]).all():
                continue
            fit = dmft.extrapolate(loss, "loss", DEPTH)
            deep, error = dmft.richardson(loss, "loss", DEPTH)
            print(f"a = {a:g}, N = {N:g}: loss at infinite depth by Richardson {float(deep):.4f} "
                  f"+- {HALF * float(error):.4f}, by a + b/L {float(fit['loss_inf']):.4f} +- "
                  f"{HALF * float(fit['loss_inf_se']):.4f} with chi^2 {float(fit['chi2']):.1f} of "
                  f"{int(fit['freedom'])}")
            rows += [(a, N, L, "loss", value, se) for L, value, se in
                     zip(loss[DEPTH].values, loss["loss"].values, loss["loss_se"].values)]
            rows.append((a, N, np.inf, "loss", float(deep), float(error)))
        kernels = streams[a]
        rows += [(a, np.inf, L, f"Ch_{l}", float(kernels["Ch_diag"].sel({DEPTH: L, "l": l})),
                  float(kernels["Ch_diag_se"].sel({DEPTH: L, "l": l})))
                 for L in kernels[DEPTH].values for l in range(int(L) + 1)]
        kernels = kernels.sel({DEPTH: [2, 4, 8]})
        print(f"a = {a:g}: kernels of the stream against l/L collapse with quality "
              f"{dmft.collapse(kernels, 'Ch_diag', DEPTH, 'l', power_over=-1):.1f}, against l with "
              f"{dmft.collapse(kernels, 'Ch_diag', DEPTH, 'l'):.1f}")
    one, other = (dmft.richardson(depths(run, a, np.inf), "loss", DEPTH) for a in (0.5, 1.0))
    half = HALF * float(np.hypot(one[1], other[1]))
    verdict = WORDS[judge(of_interval(float(other[0] - one[0]), half), above(0))]
    print(f"a = 1 learns less at infinite depth: {float(other[0] - one[0]):.4f} +- {half:.4f}, "
          f"{verdict}")
    best = run.find_optimum(along=RATE, objective="loss")
    for a in (0.5, 1.0):
        for N in best["N"].values:
            at, low, high = (best[name].sel({POWER: a, "N": N}) for name in ("at", "low", "high"))
            known = np.isfinite(at.values)
            rows += [(a, N, L, "best rate", float(at.sel({DEPTH: L})), np.nan)
                     for L in at[DEPTH].values]
            if not known.all():
                print(f"a = {a:g}, N = {N:g}: the best rate is known at {known.sum()} of 4 depths")
                continue
            ends = np.log([low.values.min(), high.values.max()])
            verdict = WORDS[judge(of_interval(ends.mean() - np.log(at.values[0]), np.ptp(ends) / 2),
                                  within_factor(1.2))]
            print(f"a = {a:g}, N = {N:g}: the best rates of all depths lie in "
                  f"{low.values.min():.2f} to {high.values.max():.2f}; within a factor of 1.2 of "
                  f"that of L = 1: {verdict}")
    if out:
        write_table(out, ("branch power", "N", "L", "series", "mean", "standard error"),
                    [(a, N, L, name, f"{value:.6g}", f"{se:.3g}")
                     for a, N, L, name, value, se in rows])
    if picture:
        draw(rows, picture)


if __name__ == "__main__":
    command(main, draw)
