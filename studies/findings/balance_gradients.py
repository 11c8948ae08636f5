"""Do selection biases leave the gradient of the task alone, and does an auxiliary loss disturb it?

    python/with studies/findings/balance_gradients.py balance_gradients.h5 [OUT.csv [OUT.png]]

Reads the sweep of balance_gradients.ini, prints what is shown (studies/verdict.py), and writes the
numbers behind it. The picture is made of these numbers alone, so that a table will do, too:

    python/with studies/findings/balance_gradients.py --picture OUT.csv OUT.png
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, mean_and_half  # noqa: E402
from verdict import WORDS, above, below, judge, near, of_interval  # noqa: E402

CASES = {"none": (0, 0), "bias .02": (0.02, 0), "bias .1": (0.1, 0), "aux .1": (0, 0.1),
         "aux 1": (0, 1)}


def series(group, name):
    """[run, t], the mean over inputs."""
    values = group[name + "_runs"].values
    return values.reshape(*values.shape[:2], -1).mean(-1)


def taken(group):
    """What the penalty adds to the descent of the task in a small step, over what the task has by
    itself: (t . p)/|t|^2, the mean over the first 17 times, in which the loss falls to a tenth."""
    p, t = (series(group, f"gradient_norm_{name}") for name in ("balance_loss", "loss"))
    return (series(group, "cosine_loss_balance_loss") * p / t)[:, :17].mean(1)


def turned(group):
    """Cosine between the gradient of the task and that of the whole loss, over the same times."""
    p, t = (series(group, f"gradient_norm_{name}") for name in ("balance_loss", "loss"))
    along = series(group, "cosine_loss_balance_loss") * p
    return ((t + along) / np.sqrt(t ** 2 + 2 * t * along + p ** 2))[:, :17].mean(1)


def log_ratio(group, other, name, t):
    """Of the same seeds with and without balancing."""
    return np.log(series(group, name)[:, t] / series(other, name)[:, t])


def say(words, samples, claim):
    value, half = samples
    print(f"{words}: {value:.4f} +- {half:.4f}, {WORDS[judge(of_interval(value, half), claim)]}")


def draw(rows, path):
    """The widest networks: loss, spread of the loads, and kernels of gradients over time."""
    import matplotlib.pyplot as plt
    from dmft.plot.sweeps import scale
    widest = max((row[1] for row in rows if row[1] != "limit"), key=int)
    names = {"loss": "loss", "load2": r"mean square of load$\,-\,\rho$",
             "Gb_diag": r"gradient kernel of experts, $G^b$",
             "Gphi_diag": r"gradient kernel of gates, $G^\phi$"}
    words = {"none": "no balancing", "bias .02": r"biases, $\eta_b = 0.02$",
             "bias .1": r"biases, $\eta_b = 0.1$", "aux .1": "auxiliary loss, 0.1",
             "aux 1": "auxiliary loss, 1"}
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained")
    for ax, (name, title) in zip(axes, names.items()):
        for k, case in enumerate(CASES):
            points = np.array([row[3:] for row in rows if row[:3] == (case, widest, name)], float)
            t, value, half = points.T
            ax.errorbar(t + 0.12 * (k - 2), value, half, marker=".", capsize=2, lw=1,
                        label=words[case])
        ax.set(yscale="log", xlabel="step $t$", title=title)
        scale(ax.yaxis, [float(row[4]) for row in rows if row[1:3] == (widest, name)])
        ax.title.set_size(9)
    axes[0].legend(fontsize=6.5, title=f"$N = {widest}$, bars: 95 %", title_fontsize=6.5,
                   loc="lower left")
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    points, rows = dmft.load(path).points, []
    groups = {name: {"limit": points[at].limit, **dict(points[at].reference)}
              for name, at in CASES.items()}
    for side in groups["none"]:
        print(f"--- {side if side == 'limit' else f'N = {side}'}")
        none = groups["none"][side]
        for name in ("aux .1", "aux 1"):
            group = groups[name][side]
            say(f"{name}: its gradient opposes the task, share of the descent < 0",
                mean_and_half(taken(group)), below(0))
            say(f"{name}: it turns the gradient, cosine < .95", mean_and_half(turned(group)),
                below(0.95))
        for name in list(CASES)[1:]:
            group = groups[name][side]
            for t in (8, 16):
                say(f"{name}: ln of the loss over that without, t = {t}, within .05",
                    mean_and_half(log_ratio(group, none, "loss", t)), near(0, 0.05))
            for kernel, claim, words in (("Gb_diag", below(0), "< 0"), ("G1_diag", below(0), "< 0"),
                                         ("Gphi_diag", above(0), "> 0")):
                say(f"{name}: ln of {kernel} over that without, t = 24, {words}",
                    mean_and_half(log_ratio(group, none, kernel, 24)), claim)
        for name, group in ((name, groups[name][side]) for name in CASES):
            for what in ("loss", "load2", "G1_diag", "Gb_diag", "Gphi_diag", "gradient_norm_loss",
                         "gradient_norm_balance_loss", "cosine_loss_balance_loss"):
                if what in group:
                    value, half = mean_and_half(series(group, what))
                    rows += [(name, side, what, t, f"{value[t]:.6g}", f"{half[t]:.3g}")
                             for t in (0, 1, 4, 8, 16, 24)]
    keep(rows, ("balancing", "N", "series", "t", "mean", "half of the 95 % interval"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
