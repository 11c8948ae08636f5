"""Is the best rate of a transformer with many experts that of its limit?

    python/with studies/findings/transformer_limit.py transformer_limit.h5 [OUT.csv [OUT.png]]

Reads the sweep of transformer_limit.ini, prints what is seen, and writes the numbers behind it.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import draw_sides, write_table  # noqa: E402
from verdict import WORDS, all_of, below, interval, judge, of_interval, within_factor  # noqa: E402

SIDE, RATE = "network.parameterization", "training.eta0"
STEP, SHARE = 2, 1.05  # of the grid of rates; of losses


def half_of(one):
    """Half of the interval of a test loss."""
    return float(one["test_loss_se"]) * student(int(one["n"]) - 1)


def tell_losses(sweep, rows):
    """The limit beside the widest networks, at every rate."""
    widest = float(np.max(sweep["N"].values[np.isfinite(sweep["N"].values)]))
    verdicts = []
    for side in sweep[SIDE].values:
        for rate in sweep[RATE].values:
            at = sweep.sel({SIDE: side, RATE: rate})
            networks, limit = at.sel(N=widest), at.sel(N=np.inf)
            loss, of_limit = float(networks["test_loss"]), float(limit["test_loss"])
            half = np.hypot(half_of(networks) / loss, half_of(limit) / of_limit)
            verdicts.append(judge(of_interval(np.log(loss / of_limit), half),
                                  within_factor(SHARE), among=sweep[RATE].size * 2))
            rows.append((side, f"{rate:.3g}", f"{loss:.5g}", f"{half_of(networks):.2g}",
                         f"{of_limit:.5g}", f"{half_of(limit):.2g}"))
    print(f"test loss of N = {widest:g} within a factor of {SHARE} of that of the limit at all "
          f"{len(verdicts)} points: {WORDS[all_of(verdicts)]}")


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


def main(path, out=None, picture=None):
    run, rows = dmft.load(path), []
    tell_best(run)
    tell_losses(run.sweep, rows)
    tell_sides(run.sweep)
    valid = run.sweep.sel(N=np.inf)
    print(f"share of normals of the limit that are not matched: {float(valid['unmatched'].max()):g}"
          f"; replicates that failed: {int(valid['failed'].sum())}")
    if out:
        write_table(out, ("parameterization", "eta0", "test loss of the widest", "+-",
                          "of the limit", "+-"), rows)
    if picture:
        draw_sides(run, SIDE, RATE, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
