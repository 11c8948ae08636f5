"""Do rates of Muon transfer over the width, in muP with a zero read-out, too?

    python/with studies/findings/muon_rates.py SWEEP.h5 [OUT.csv [OUT.png]]

Reads the sweep of muon_rates.ini, muon_regime1.ini or muon_transformer.ini, prints what is shown
(studies/verdict.py), and writes the numbers behind it.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.layout import legend  # noqa: E402
from dmft.plot.style import BARS, NAMES  # noqa: E402
from dmft.plot.sweeps import losses, scale  # noqa: E402
from tables import write_table  # noqa: E402
from verdict import WORDS, drift, interval, judge, of_optimum, within_factor  # noqa: E402

SIDE, OUT, RATE = "network.parameterization", "network.read_out", "training.eta0"
FACTOR = 1.5


def with_read_out(data):
    """Where one read-out alone was swept over, the axis of it."""
    return data if OUT in data.dims else data.expand_dims({OUT: ["zero"]})


def draw(run, path):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter
    sweep = with_read_out(run.sweep)
    panels = [(out, side) for out in sweep[OUT].values for side in sweep[SIDE].values]
    rows = -(-len(panels) // 2)
    figure, grid = plt.subplots(rows, 2, squeeze=False, sharey=True, figsize=(7, 2.7 * rows),
                                layout="constrained")
    for ax, (out, side) in zip(grid.flat, panels):
        losses(ax, sweep.sel({SIDE: side, OUT: out}), RATE)
        ax.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta_0$ of Muon",
               title=f"{NAMES[side]}, read-out " +
               ("zero" if out == "zero" else "of 1/N"))
        rates = sweep[RATE].values[::2]
        ax.set_xticks(rates, [f"{rate:.2g}" for rate in rates])
        ax.xaxis.set_minor_formatter(NullFormatter())
    for ax in grid[:, 0]:
        ax.set_ylabel("test loss" if "test_loss" in sweep else "loss after the last step")
    scale(grid[0, 0].yaxis, sweep["objective"].values)
    legend(figure, grid[0, 1], "means; crosses:\nmedians\n" + BARS)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def told(samples):
    low, high = interval(samples)
    return f"{np.median(samples):.3f} [{low:.3f}, {high:.3f}]"


def main(path, out=None, picture=None):
    run = dmft.load(path)
    sweep, optimum, rows = with_read_out(run.sweep), with_read_out(run.optimum), []
    widths = [N for N in sweep["N"].values if np.isfinite(N)]
    for read_out in sweep[OUT].values:
        for side in sweep[SIDE].values:
            best = optimum.sel({SIDE: side, OUT: read_out})
            for N in widths:
                one = best.sel(N=N)
                numbers = [float(one[name]) for name in ("at", "low", "high", "objective",
                                                         "objective_low", "objective_high")]
                rows.append((read_out, side, f"{N:g}", f"{int(one['reason'])}",
                             f"{float(one['least_at']):.3g}",
                             *(f"{number:.4g}" for number in numbers)))
                print(*rows[-1])
            for name, words in (("at", "best rate"), ("objective", "loss there")):
                moved = drift(np.array(widths), of_optimum(best.sel(N=widths), name))
                print(f"{read_out}, {side}: {words}, at N = {widths[-1]:g} over that at "
                      f"{widths[0]:g}: {told(np.exp(moved))}, within a factor of {FACTOR}: "
                      f"{WORDS[judge(moved, within_factor(FACTOR))]}")
        last = [of_optimum(optimum.sel({SIDE: side, OUT: read_out}).sel(N=widths[-1:]),
                           "objective")[0] for side in ("mup", "mssp")]
        print(f"{read_out}: loss of muP over that of MSSP, N = {widths[-1]:g}: "
              f"{told(np.exp(last[0] - last[1]))}, within a factor of {FACTOR}: "
              f"{WORDS[judge(last[0] - last[1], within_factor(FACTOR))]}")
    if out:
        write_table(out, ("read-out", "parameterization", "N", "why not known", "best of the grid",
                          "best rate", "low", "high", "loss", "low", "high"), rows)
    if picture:
        draw(run, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
