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
from tables import read_table, write_table  # noqa: E402
from verdict import WORDS, above, judge, near, of_interval  # noqa: E402

KEY, RHO = "training.gamma0", "network.rho"
SERIES = ("test_loss", "loss", "expert_information", "expert_dead", "router_entropy")


def last(run, name):
    """Mean, standard error and half of the 95 % interval of a series at the last time, mean over
    inputs."""
    data = run.series(name)
    mean = data[[name, name + "_se"]].isel(t=-1)
    inputs = [dim for dim in data[name].dims if dim not in (KEY, RHO, "N", "t")]
    mean = mean.mean(inputs) if inputs else mean
    runs = run.sweep["n"]
    return mean.assign(half=mean[name + "_se"] * runs.copy(data=student(runs.values - 1)))


def slopes(one, name):
    """Of a series as a power of gamma0, between neighbouring values: the exponent, and half of its
    interval."""
    value, relative = one[name].values, one["half"].values / one[name].values
    step = np.diff(np.log(one[KEY].values))
    return np.diff(np.log(value)) / step, np.hypot(relative[1:], relative[:-1]) / step


def tell(found):
    information = found["expert_information"]
    for rho in information[RHO].values:
        for N in (256.0, np.inf):
            one = information.sel({RHO: rho, "N": N})
            powers = list(zip(*slopes(one, "expert_information")))
            print(f"rho = {rho:g}, N = {N:g}: information of expert and input as gamma0 to the "
                  + ", ".join(f"{slope:.2f} +- {half:.2f}" for slope, half in powers)
                  + " between neighbouring values, as its fourth power between the two smallest: "
                  f"{WORDS[judge(of_interval(*powers[0]), near(4, 0.25))]}; at the largest gamma0 "
                  f"{float(one['expert_information'][-1]):.2g} of ln 4 = {np.log(4):.2f}")
        test = found["test_loss"].sel({RHO: rho, "N": np.inf})
        rise = float(test["test_loss"][-1] - test["test_loss"][0])
        half = float(np.hypot(test["half"][-1], test["half"][0]))
        dead = found["expert_dead"].sel({RHO: rho})["expert_dead"].values
        print(f"rho = {rho:g}: test loss of the limit at the largest gamma0 less that at the "
              f"smallest {rise:.3f} +- {half:.3f}, a rise: "
              f"{WORDS[judge(of_interval(rise, half), above(0))]}; experts that are dead: "
              f"{np.nanmin(dead):g} to {np.nanmax(dead):g} of them")


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
    for ax, name in zip(axes, ("test_loss", "loss", "expert_information")):
        for rho, dashes in (("1.0", "-"), ("0.5", "--")):
            for N, colour in colours.items():
                gamma0, value, half = np.array([row[3:6] for row in rows
                                                if row[:3] == (name, rho, N)], float).T
                down = np.minimum(half, 0.9 * value)  # on a logarithmic axis to a tenth at most
                ax.errorbar(gamma0, value, [down, half], color=colour, lw=1.2, ls=dashes,
                            marker=".", capsize=2,
                            label=("limit" if N == "inf" else f"N = {float(N):g}")
                            + (", all experts" if rho == "1.0" else ", top two"))
        ax.set(xscale="log", xlabel="gamma0", ylabel=name.replace("_", " "))
    for ax in axes[1:]:
        ax.set_yscale("log")
    axes[1].legend(fontsize=7, loc="lower left")
    figure.savefig(path, dpi=110)


def draw_table(table, path):
    draw(read_table(table), path)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    found = {name: last(run, name) for name in SERIES}
    tell(found)
    tell_best(run)
    rows = [(name, rho, N, g, f"{float(one[name]):.6g}", f"{float(one['half']):.3g}")
            for name, data in found.items() for rho in data[RHO].values for N in data["N"].values
            for g in data[KEY].values for one in (data.sel({KEY: g, RHO: rho, "N": N}),)]
    if out:
        write_table(out, ("series", "rho", "N", "gamma0", "mean", "half of the 95 % interval"),
                    rows)
    if picture:
        draw([tuple(map(str, row)) for row in rows], picture)


if __name__ == "__main__":
    if sys.argv[1] == "--picture":
        draw_table(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
