"""From lazy to rich with four experts behind a softmax: do they specialise, and what does it help?

    python/with studies/findings/lazy_rich_experts.py lazy_rich_experts.h5 [OUT.csv [OUT.png]]
    python/with studies/findings/lazy_rich_experts.py --picture lazy_rich_experts.csv OUT.png

Reads the sweep of lazy_rich_experts.ini, prints what is seen, and writes the numbers behind it; or
makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import command, keep, mean_and_half  # noqa: E402
from verdict import WORDS, above, judge, near, of_interval  # noqa: E402

KEY, RHO = "training.gamma0", "network.rho"
SERIES = ("test_loss", "loss", "expert_information", "expert_dead", "router_entropy")
DRAWN = {"test_loss": "test loss", "loss": "loss",
         "expert_information": "information of expert and input"}


def last(run, name):
    """Mean, standard error and half of the 95 % interval of a series at the last time, mean over
    inputs."""
    data = run.series(name)
    mean = data[[name, name + "_se"]].isel(t=-1)
    inputs = [dim for dim in data[name].dims if dim not in (KEY, RHO, "N", "t")]
    mean = mean.mean(inputs) if inputs else mean
    runs = run.sweep["n"]
    return mean.assign(half=mean[name + "_se"] * runs.copy(data=student(runs.values - 1)))


def slopes(runs):
    """Of [gamma0, run] as a power of gamma0, between neighbouring values: the exponent and half of
    its 95 % interval. Runs of one number begin alike at every gamma0, so each has its own exponent,
    and the error is that of their mean."""
    values = runs.transpose(KEY, "run").values
    values = values[:, np.isfinite(values).all(0)]
    each = np.diff(np.log(values), axis=0) / np.diff(np.log(runs[KEY].values))[:, None]
    return mean_and_half(each.T)


def tell_powers(run):
    """The information of expert and input begins as one power in the limit, and as another one in
    networks."""
    information = run.series("expert_information")["expert_information_runs"].isel(t=-1)
    for rho in information[RHO].values:
        for N in information["N"].values:
            one = information.sel({RHO: rho, "N": N}).dropna(KEY, how="all")
            powers, power = list(zip(*slopes(one))), 4 if np.isinf(N) else 2
            seen = judge(of_interval(*powers[0]), near(power, 0.25))
            print(f"rho = {rho:g}, N = {N:g}: information of expert and input as gamma0 to the "
                  + ", ".join(f"{slope:.2f} +- {half:.2f}" for slope, half in powers)
                  + " between neighbouring values, as its power "
                  f"{power} between the two smallest: {WORDS[seen]}; at gamma0 = "
                  f"{one[KEY].values[-1]:g} {float(one.isel({KEY: -1}).mean('run')):.2g} of "
                  f"ln 4 = {np.log(4):.2f}")


def tell_widths(run):
    """The information at the smallest gamma0 as a power of the width."""
    information = run.series("expert_information")["expert_information_runs"]
    for rho in information[RHO].values:
        one = information.sel({RHO: rho}).isel({"t": -1, KEY: 0})
        widths = one["N"].values[np.isfinite(one["N"].values)][[0, -1]]
        logs = [np.log(one.sel(N=N).dropna("run").values) for N in widths]
        error = np.hypot(*(values.std(ddof=1) / len(values) ** 0.5 for values in logs))
        step = np.log(widths[1] / widths[0])
        power = (logs[1].mean() - logs[0].mean()) / step
        half = student(min(map(len, logs)) - 1) * error / step
        print(f"rho = {rho:g}: at the smallest gamma0 as N^{power:.2f} +- {half:.2f}, as 1/N: "
              f"{WORDS[judge(of_interval(power, half), near(-1, 0.25))]}")


def tell(found):
    for rho in found["test_loss"][RHO].values:
        for N in (256.0, np.inf):
            test = found["test_loss"].sel({RHO: rho, "N": N})
            for k, (one, half) in enumerate(zip(test["test_loss"].values, test["half"].values)):
                print(f"rho = {rho:g}, N = {N:g}, gamma0 = {test[KEY].values[k]:g}: test loss "
                      f"{one:.4f} +- {half:.4f}")
            rise = test["test_loss"].values - test["test_loss"].values[0]
            half = np.hypot(test["half"].values, test["half"].values[0])
            for k in np.flatnonzero((test[KEY].values > 1) & np.isfinite(rise)):
                print(f"rho = {rho:g}, N = {N:g}: test loss at gamma0 = {test[KEY].values[k]:g} "
                      f"less that at the smallest {rise[k]:.3f} +- {half[k]:.3f}, a rise: "
                      f"{WORDS[judge(of_interval(rise[k], half[k]), above(0))]}")
        dead = found["expert_dead"].sel({RHO: rho})["expert_dead"].values
        print(f"rho = {rho:g}: {np.nanmin(dead):g} to {np.nanmax(dead):g} of the experts are dead")


def tell_best(run):
    for rho in run.optimum[RHO].values:
        for N in run.optimum["N"].values:
            best = run.optimum.sel({RHO: rho, "N": N})
            at, low, high = (float(best[name]) for name in ("at", "low", "high"))
            print(f"rho = {rho:g}, N = {N:g}: best gamma0 " + (
                f"{at:.2f} [{low:.2f}, {high:.2f}]" if np.isfinite(at) else "not known"))


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.9), layout="constrained")
    colours = dict(zip(dict.fromkeys(row[2] for row in rows), ("C1", "C3", "k")))
    for ax, (name, words) in zip(axes, DRAWN.items()):
        for rho, dashes in (("1.0", "-"), ("0.5", "--")):
            for N, colour in colours.items():
                gamma0, value, half = np.array([row[3:6] for row in rows
                                                if row[:3] == (name, rho, N)], float).T
                down = np.minimum(half, 0.9 * value)  # on a logarithmic axis to a tenth at most
                ax.errorbar(gamma0, value, [down, half], color=colour, lw=1.2, ls=dashes,
                            marker=".", capsize=2,
                            label=(r"$N \to \infty$" if N == "inf" else f"$N = {float(N):g}$")
                            + (", all experts" if rho == "1.0" else ", top two"))
        ax.set(xscale="log", xlabel=r"$\gamma_0$", ylabel=words)
    for ax in axes[1:]:
        ax.set_yscale("log")
    axes[1].legend(fontsize=7, loc="lower left")
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    found = {name: last(run, name) for name in SERIES}
    tell(found)
    tell_powers(run)
    tell_widths(run)
    tell_best(run)
    rows = [(name, rho, N, g, f"{float(one[name]):.6g}", f"{float(one['half']):.3g}")
            for name, data in found.items() for rho in data[RHO].values for N in data["N"].values
            for g in data[KEY].values for one in (data.sel({KEY: g, RHO: rho, "N": N}),)]
    keep(rows, ("series", "rho", "N", "gamma0", "mean", "half of the 95 % interval"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
