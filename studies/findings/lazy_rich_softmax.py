"""What does one of many experts behind a softmax come to hold, and does it depend on their number?

    python/with studies/findings/lazy_rich_softmax.py lazy_rich_softmax.h5 [OUT.csv [OUT.png]]
    python/with studies/findings/lazy_rich_softmax.py --picture lazy_rich_softmax.csv OUT.png

Reads the sweep of lazy_rich_softmax.ini, prints what is seen, and writes the numbers behind it; or
makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, mean_and_half  # noqa: E402
from verdict import WORDS, below, interval, judge, near, of_runs  # noqa: E402

KEY, KAPPA, WIDEST = "training.gamma0", 0.5, 512.0
SERIES = ("test_loss", "loss", "gate_participation", "expert_share_of_input")


def last(run, name):
    """[gamma0, N, run] of a series at the last time, mean over inputs; NaN where there is none. Of
    losses of the limit, which are those of the mean output, the pseudo-values."""
    series = run.series(name).isel(t=-1)
    data = series[name + "_runs"]
    if name + "_pseudo" in series:
        data = data.where(np.isfinite(data["N"]), series[name + "_pseudo"])
    inputs = [dim for dim in data.dims if dim not in (KEY, "N", "run")]
    return data.mean(inputs) if inputs else data


def mean_of(runs):
    """Mean of the runs that there are, half of its 95 % interval, and their number."""
    runs = runs.values[np.isfinite(runs.values)]
    if len(runs) > 1:
        return *mean_and_half(runs), len(runs)
    return (runs.mean() if len(runs) else np.nan), np.nan, len(runs)


def power_in_experts(data, gamma0):
    """Samples of the power of the number of experts, by a line through all widths in logarithms."""
    widths = data["N"].values[np.isfinite(data["N"].values)]
    logs = []
    for N in widths:
        runs = data.sel({KEY: gamma0, "N": N}).values
        logs.append(of_runs(runs[np.isfinite(runs)], N))
    x = np.log(widths) - np.log(widths).mean()
    return x @ np.array(logs) / (x @ x)


def tell(found):
    cases = (("expert_share_of_input", "the largest share of an expert", near(0, 0.25),
              "no power of M"),
             ("gate_participation", "the participation of the gates", below(0), "falls with M"))
    gammas = found["loss"][KEY].values
    for name, words, claim, claimed in cases:
        for gamma0 in gammas:
            samples = power_in_experts(found[name], gamma0)
            low, high = interval(samples)
            values = [mean_of(found[name].sel({KEY: gamma0, "N": N}))
                      for N in found[name]["N"].values]
            print(f"gamma0 = {gamma0:g}: {words} at the end as M to the {np.median(samples):.2f} "
                  f"[{low:.2f}, {high:.2f}], {claimed}: "
                  f"{WORDS[judge(samples, claim, among=len(gammas))]}; "
                  + ", ".join(f"{mean:.3f} +- {half:.3f}" for mean, half, _ in values))
    for gamma0 in gammas:
        (limit, half, n), (networks, other, _) = (mean_of(found["test_loss"].sel(
            {KEY: gamma0, "N": N})) for N in (np.inf, WIDEST))
        print(f"gamma0 = {gamma0:g}: test loss of N = {WIDEST:g} {networks:.3f} +- {other:.3f}, of "
              f"the limit {limit:.3f} +- {half:.3f} ({n} replicates)")


def rows_of(found):
    for name, data in found.items():
        for N in data["N"].values:
            for gamma0 in data[KEY].values:
                mean, half, n = mean_of(data.sel({KEY: gamma0, "N": N}))
                yield name, "limit" if np.isinf(N) else f"{N:g}", gamma0, f"{mean:.5g}", \
                    f"{half:.2g}", n


def draw(rows, path):
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    widths = list(dict.fromkeys(row[1] for row in rows))
    gammas = list(dict.fromkeys(row[2] for row in rows))

    def points(name, **one):
        """gamma0, N, mean and half of the interval of the rows of one width, or of one gamma0."""
        return np.array([(row[2], "inf" if row[1] == "limit" else row[1], *row[3:5])
                         for row in rows if row[0] == name and row[1] == one.get("N", row[1])
                         and row[2] == one.get("gamma0", row[2])], float).T

    colours = shades(len(widths))   # narrowest first; that of the limit is black
    for ax, (name, words) in zip(axes, (("test_loss", "test loss"), (
            "gate_participation", "participation ratio of the gates"))):
        for N, shade in zip(widths, colours):
            gamma0, _, mean, half = points(name, N=N)
            ax.errorbar(gamma0, mean, half, capsize=2, marker=".", lw=1,
                        color="k" if N == "limit" else shade,
                        label="limit of 512 sites" if N == "limit" else f"$N = {N}$")
        ax.set(xscale="log", xlabel=r"$\gamma_0$", ylabel=words)
    axes[1].legend(fontsize=7, loc="lower left")
    for k, gamma0 in enumerate(gammas):
        _, N, mean, half = points("expert_share_of_input", gamma0=gamma0)
        finite = np.isfinite(N)
        axes[2].errorbar(KAPPA * N[finite], mean[finite], half[finite], capsize=2, marker=".",
                         lw=1, color=plt.cm.viridis(k / len(gammas)),
                         label=rf"$\gamma_0 = {gamma0}$")
    M = KAPPA * np.sort(N[finite])
    axes[2].plot(M, 1 / M, ":", color="0.5", label="$1/M$")
    axes[2].set(xscale="log", yscale="log", xlabel="number $M$ of experts",
                ylabel="largest share of an expert")
    axes[2].set_xticks(M, [f"{one:g}" for one in M])
    axes[2].minorticks_off()
    axes[2].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    found = {name: last(run, name) for name in SERIES}
    tell(found)
    rows = list(rows_of(found))
    keep(rows, ("series", "N", "gamma0", "mean", "half of the 95 % interval", "runs"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
