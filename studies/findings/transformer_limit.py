"""Is the best rate of a transformer with many experts that of its limit?

    python/with studies/findings/transformer_limit.py transformer_limit.h5 [OUT.csv [OUT.png
        [FEW.h5]]]
    python/with studies/findings/transformer_limit.py --picture transformer_limit.csv OUT.png

Reads the sweep of transformer_limit.ini, and FEW.h5, that of the limit with fewer sites of experts;
prints what is seen, and writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.style import NAMES  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import command, keep  # noqa: E402
from verdict import WORDS, all_of, below, interval, judge, of_interval, within_factor  # noqa: E402

SIDE, RATE = "network.parameterization", "training.eta0"
STEP, SHARE, CLOSE = 2, 1.05, 1.01  # of the grid of rates; of losses of networks, of limits
FEW = "limit, 512 sites of experts"


def half_of(one):
    """Half of the interval of a test loss."""
    return float(one["test_loss_se"]) * student(int(one["n"]) - 1)


def tell_losses(sweep):
    """The limit beside the widest networks, at every rate: of all, and of those at which the
    networks are not at the edge of stability, where no limit says what a network does."""
    widest = float(np.max(sweep["N"].values[np.isfinite(sweep["N"].values)]))
    verdicts = []
    for side in sweep[SIDE].values:
        for rate in sweep[RATE].values:
            at = sweep.sel({SIDE: side, RATE: rate})
            networks, limit = at.sel(N=widest), at.sel(N=np.inf)
            loss, of_limit = float(networks["test_loss"]), float(limit["test_loss"])
            half = np.hypot(half_of(networks) / loss, half_of(limit) / of_limit)
            seen = judge(of_interval(np.log(loss / of_limit), half), within_factor(SHARE),
                         among=sweep[RATE].size * 2)
            edge = bool((at["edge_of_stability"] == 1).any())
            verdicts.append((edge, seen))
            print(f"{side}, eta0 = {rate:.3g}: test loss of N = {widest:g} over that of the limit "
                  f"{loss / of_limit:.3f} +- {half:.3f}, within a factor of {SHARE}: {WORDS[seen]}"
                  + ", at the edge of stability" * edge)
    inside = [seen for edge, seen in verdicts if not edge]
    print(f"at all {len(verdicts)} points: {WORDS[all_of(seen for _, seen in verdicts)]}; at the "
          f"{len(inside)} that are not at the edge of stability: {WORDS[all_of(inside)]}")


def few_points(sweep, few):
    """(parameterization, rate, test loss of the limit with fewer sites of experts, half of its
    interval, the point of the other limit), NaN where it ran out of them. One replicate has no
    error of its own, and is given the spread of those of the other limit."""
    for side in sweep[SIDE].values:
        for rate in sweep[RATE].values:
            other = sweep.sel({SIDE: side, RATE: rate, "N": np.inf})
            one = few.sel({SIDE: side, "N": np.inf}).sel({RATE: rate}, method="nearest")
            n = int(one["n"])
            half = half_of(one) if n > 1 else half_of(other) * float(other["n"]) ** 0.5
            yield side, rate, float(one["test_loss"]), half if n else np.nan, other


def tell_sites(sweep, few):
    verdicts = []
    for side, rate, loss, half, other in few_points(sweep, few):
        if not np.isfinite(loss):
            print(f"{side}, eta0 = {rate:.3g}: no limit with fewer sites of experts")
            continue
        of_other = float(other["test_loss"])
        both = np.hypot(half / loss, half_of(other) / of_other)
        verdicts.append(judge(of_interval(np.log(loss / of_other), both), within_factor(CLOSE)))
        print(f"{side}, eta0 = {rate:.3g}: test loss of the limit with fewer sites of experts over "
              f"that with more {loss / of_other:.4f} +- {both:.4f}, within a factor of {CLOSE}: "
              f"{WORDS[verdicts[-1]]}")


def tell_sides(sweep):
    """MSSP less muP, in the limit."""
    for rate in sweep[RATE].values:
        mup, mssp = (sweep.sel({SIDE: side, RATE: rate, "N": np.inf}) for side in ("mup", "mssp"))
        less = float(mssp["test_loss"] - mup["test_loss"])
        half = np.hypot(half_of(mup), half_of(mssp))
        print(f"eta0 = {rate:.3g}: test loss of the limit of MSSP less that of muP {less:.4f} +- "
              f"{half:.4f}, lower: {WORDS[judge(of_interval(less, half), below(0))]}")


def tell_best(run):
    for side in run.optimum[SIDE].values:
        best = run.optimum.sel({SIDE: side})
        for N in best["N"].values:
            at, low, high, loss = (float(best.sel(N=N)[name])
                                   for name in ("at", "low", "high", "objective"))
            print(f"{side}, N = {N:g}: best rate {at:.3f} [{low:.3f}, {high:.3f}], test loss there "
                  f"{loss:.4f}")
        widths = [N for N in best["N"].values if np.isfinite(N)]
        limit = best["at_samples"].sel(N=np.inf).values
        for N in (widths[0], widths[-1]):
            samples = np.log(best["at_samples"].sel(N=N).values / limit)
            low, high = np.exp(interval(samples))
            print(f"{side}: best rate at N = {N:g} over that of the limit [{low:.2f}, {high:.2f}], "
                  f"within a factor of {STEP}: {WORDS[judge(samples, within_factor(STEP))]}")


def rows_of(sweep):
    """(parameterization, N, eta0, test loss, half of its interval, whether at the edge)."""
    for side in sweep[SIDE].values:
        for N in sweep["N"].values:
            for rate in sweep[RATE].values:
                one = sweep.sel({SIDE: side, RATE: rate, "N": N})
                yield (side, "limit" if np.isinf(N) else f"{N:g}", f"{rate:.3g}",
                       f"{float(one['test_loss']):.5g}", f"{half_of(one):.2g}",
                       f"{float(one['edge_of_stability']):g}")


def draw(rows, path):
    """Hollow and dotted: at the edge of stability. Crosses: the limit with fewer sites."""
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8, 3.2), layout="constrained")
    widths = list(dict.fromkeys(row[1] for row in rows if row[1] != FEW))
    for ax, side in zip(axes, dict.fromkeys(row[0] for row in rows)):
        for N, shade in zip(widths, shades(len(widths))):
            x, y, half, edge = np.array([row[2:] for row in rows if row[:2] == (side, N)], float).T
            stands = edge != 1
            style = {"color": "k" if N == "limit" else shade, "capsize": 2, "marker": "."}
            ax.errorbar(x[stands], y[stands], half[stands], lw=1, **style,
                        label=r"$N \to \infty$" if N == "limit" else f"$N = {N}$")
            ax.errorbar(x[~stands], y[~stands], half[~stands], ls="none", mfc="none", **style)
            ax.plot(x, y, lw=1, ls=":", color=style["color"])
        few = np.array([row[2:4] for row in rows if row[:2] == (side, FEW)], float).T
        if len(few):
            ax.plot(*few, "kx", ms=8, label="the same with 512\nsites of experts")
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$", title=NAMES[side])
    axes[0].set_ylabel("test loss")
    axes[1].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None, few=None):
    run = dmft.load(path)
    tell_best(run)
    tell_losses(run.sweep)
    tell_sides(run.sweep)
    valid = run.sweep.sel(N=np.inf)
    print(f"share of normals of the limit that are not matched: {float(valid['unmatched'].max()):g}"
          f"; replicates that failed: {int(valid['failed'].sum())}")
    rows = list(rows_of(run.sweep))
    if few:
        few = dmft.load(few).sweep
        tell_sites(run.sweep, few)
        rows += [(side, FEW, f"{rate:.3g}", f"{loss:.5g}", f"{half:.2g}",
                  f"{float(other['edge_of_stability']):g}")
                 for side, rate, loss, half, other in few_points(run.sweep, few)
                 if np.isfinite(loss)]
    keep(rows, ("parameterization", "N", "eta0", "test loss",
                "half of the 95 % interval", "at the edge of stability"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
