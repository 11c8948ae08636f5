"""The figures of studies/, from what dmft-sweep wrote.

    python3 plot/studies.py NAME.h5 [-o NAME.png]        NAME: fig1_regime2, regime3, ...

make study NAME=... runs the sweep and this. In a script, studies.load(path) gives the summary and
the runs of every point of the grid, and these are what dmft_plot.load gives of a single file:

    summary, runs = studies.load("lr_transfer.h5")
    dmft_plot.loss(plt.gca(), runs["mup", 1.0])

Keys that vary together (key, key = 0.1 1 | 0.2 2) are one axis, named "key,key"; each of them is a
coordinate along it, and has its own place in the points.
"""
import argparse
import os
import sys

import h5py
import matplotlib.pyplot as plt
import numpy as np
import xarray
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
from scipy.special import stdtrit

import dmft_plot
from dmft_plot import COLOURS, NAMES, Missing

SYMBOLS = {r"$\Phi_{bar}$": r"$\bar\Phi$", r"$\Phi_{til}$": r"$\tilde\Phi$",
           r"$G_{bar}$": r"$\bar G$", r"$G_{til}$": r"$\tilde G$"}
PARAMETERIZATION = "network.parameterization"


def keys_of(data):
    """[(axis, key)] of all swept keys along the axes of an array of a summary."""
    return [(axis, key) for axis in data.dims if axis != "N" for key in axis.split(",")]


def load(path):
    """The groups sweep and optimum (None without one) of a summary, and {values of the swept keys,
    in their order: a run like those of dmft_plot.load}, read from the folder beside the file."""
    with h5py.File(path, "r") as file:
        if file.attrs.get("program") != "dmft-sweep":
            raise Missing("is not an output of dmft-sweep")
        groups = [name for name in ("sweep", "optimum") if name in file]
    summary = {name: xarray.open_dataset(path, group=name, engine="h5netcdf", decode_cf=False)
               for name in groups}
    summary = {name: data.set_coords(data.attrs.get("coordinates", "").split())
               for name, data in summary.items()}
    sweep = summary["sweep"]
    names = sweep["file"].values.reshape(sweep["loss"].shape)
    folder, runs = path.removesuffix(".h5") + ".d", {}
    axes, keys = sweep["loss"].dims[:-1], keys_of(sweep["loss"])
    values = {key: sweep[key].values.tolist() for _, key in keys}
    for index in np.ndindex(names.shape[:-1]):
        run = {}
        for name, failed in zip(names[index], sweep["failed"].values[index]):
            if not failed:
                run.update(dmft_plot.load(os.path.join(folder, name)))
        point = [values[key][index[axes.index(axis)]] for axis, key in keys]
        runs[point[0] if len(point) == 1 else tuple(point)] = run
    return summary, runs


def log_axis(axis, values):
    """Ticks at these values and nowhere else."""
    axis.set_major_locator(plt.FixedLocator(values))
    axis.set_major_formatter(plt.FixedFormatter([f"{value:g}" for value in values]))
    axis.set_minor_locator(NullLocator())


def widths_legend(figure, ax, title):
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center", title=title,
                  alignment="left")


def stability(summary, runs):
    """muP above MSSP: the loss, and how every kernel depends on the width."""
    figure, axes = plt.subplots(2, 3, figsize=(9.6, 5.2), layout="constrained", sharex=True,
                                sharey="col", width_ratios=[1.05, 1, 1])
    common = set.intersection(*(set(dmft_plot.kernels_of(run)) for run in runs.values()))
    for row, (name, run) in zip(axes, runs.items()):
        dmft_plot.curves(row[0], run, "loss")
        row[0].set_ylabel(f"{NAMES[name]}\n" + r"loss  $\langle (y - f\,)^2 / 2 \rangle_\mu$")
        kernels, data = dmft_plot.kernels_of(run), dmft_plot.widths_of(run, 2)[0][1]
        kernels = dict(sorted(kernels.items(), key=lambda item: item[0] not in common))
        for ax, kind in zip(row[1:], ("feature", "gradient")):
            dmft_plot.exponents(ax, run, {key: stored for key, stored in kernels.items()
                                          if kind in data[stored].attrs["about"]})
            lines, labels = ax.get_legend_handles_labels()
            ax.legend(lines, [SYMBOLS.get(label, label) for label in labels], loc="lower right",
                      ncols=2, columnspacing=1, handlelength=1.4)
            ax.set_ylabel("")
    for ax, title in zip(axes[0], ("loss", "feature kernels:  $d\\,\\log K / d\\,\\log N$",
                                   "gradient kernels:  $d\\,\\log K / d\\,\\log N$")):
        ax.set_title(title)
    for ax in axes[0]:
        ax.set_xlabel("")
    axes[0, 0].set_ylim(bottom=0)
    widths_legend(figure, axes[0, 0], "width (runs)\nbands: 95 %")
    return figure


def entropies(run, t):
    """Widths, mean normalised entropy of the router at time t and half of its 95 % interval. The
    mean over inputs is taken with the mean of their errors, an upper bound."""
    rows = []
    for N, data in dmft_plot.widths_of(run, 1):
        mean, half = dmft_plot.quantity(data, "router_entropy")
        rows.append((N, mean.values[t], half.values[t]))
    return np.array(rows).T


def freeze(summary, runs):
    """The entropy of the router over steps (SP), and at the end against the width."""
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.0), layout="constrained")
    sweep = summary["sweep"]
    M = len(next(iter(runs.values()))[f"reference/N{int(sweep['N'].values[0]):04d}"]["i"])
    dmft_plot.curves(axes[0], runs["sp", 1.0], "router_entropy")
    axes[0].set(ylabel="entropy of the router $/\\,\\ln M$", title="SP, soft routing",
                ylim=(0, 1.02))
    for line, above in zip(axes[0].get_lines()[::len(sweep["N"]) - 1], (True, False)):
        t, y = (values[-1] for values in line.get_data())
        axes[0].annotate(line.get_label().split("  ")[0], (t, y), (0, 9 if above else -9),
                         textcoords="offset points", ha="right", va="center", fontsize=8,
                         color=line.get_color())
    for (name, rho), run in runs.items():
        colour = COLOURS[1] if name == "sp" else COLOURS[0]
        style = {"ls": "-" if rho == 1 else "--", "color": colour, "mfc": colour if rho == 1 else
                 "white", "marker": "o", "ms": 4.5, "capsize": 2}
        routing = "soft" if rho == 1 else f"top-{rho * M:.0f}"
        label = f"{NAMES[name]}, {routing}"
        N, mean, half = entropies(run, -1)
        axes[1].errorbar(N, mean, half, label=label, **style)
        gap = np.log(rho * M) / np.log(M) - mean
        axes[2].errorbar(N, gap, np.minimum(half, 0.9 * gap), label=label, **style)
    guide = 0.4 * (1 - entropies(runs["mup", 1.0], -1)[1][0]) * N[0] / N
    axes[2].plot(N, guide, color="grey", ls=":", lw=1.2)
    axes[2].annotate("$1/N$", (N[len(N) // 2], guide[len(N) // 2]), (-4, -4), color="grey",
                     textcoords="offset points", ha="right", va="top", fontsize=8)
    axes[1].set(ylabel="entropy $/\\,\\ln M$", title="at the last step", ylim=(0, 1.02))
    axes[1].axhline(1, color="black", lw=0.6, ls=":")
    axes[1].axhline(np.log(2) / np.log(M), color="black", lw=0.6, ls=":")
    axes[2].set(ylabel=r"$(\ln K\, -$ entropy$)\,/\,\ln M$", yscale="log",
                title="distance from equal gates")
    for ax in axes[1:]:
        ax.set(xscale="log", xlabel="width $N$")
        log_axis(ax.xaxis, N)
    widths_legend(figure, axes[1], "last step\nbars: 95 %")
    return figure


def part_of(sweep, name):
    """One parameterization, its other axes: the key and N."""
    return sweep.sel({PARAMETERIZATION: name}).transpose(..., "N")


def transfer(summary, runs):
    """The final loss against the learning rate at every width, and where it is smallest."""
    sweep, optimum = summary["sweep"], summary["optimum"]
    key = optimum.attrs["key"]
    names = sweep[PARAMETERIZATION].values
    figure, axes = plt.subplots(1, len(names) + 1, figsize=(3.1 * len(names) + 3.4, 3.0),
                                layout="constrained")
    shades = plt.get_cmap("viridis_r")(np.linspace(0.2, 0.8, np.isfinite(sweep["N"].values).sum()))
    places = list(sweep["N"].values)
    finite = [N for N in places if np.isfinite(N)]
    x = [N if np.isfinite(N) else 2 * finite[-1] for N in places]
    for k, (ax, name) in enumerate(zip(axes, names)):
        for c, N in enumerate(places):
            part = part_of(sweep, name).isel(N=c)
            half = part["loss_se"] * stdtrit(np.maximum(part["n"].values - 1, 1), 0.975)
            limit = not np.isfinite(N)
            label = r"$N \to \infty$" if limit else f"$N = {N:.0f}$"
            ax.errorbar(part[key], part["loss"], np.minimum(half, 0.9 * part["loss"]), label=label,
                        color="black" if limit else shades[c], marker="o", ms=2.5, lw=1.1)
        ax.set(xscale="log", yscale="log", xlabel=r"learning rate $\eta_0$", title=NAMES[name])
        best = optimum.sel({PARAMETERIZATION: name})
        freedom = np.nanmax(part_of(sweep, name)["n"].values, axis=0) - 1
        half = best["at_se"] * stdtrit(np.maximum(freedom, 1), 0.975)
        axes[-1].errorbar(x, best["at"], np.nan_to_num(half), color=COLOURS[k], marker="os"[k % 2],
                          ms=4.5, capsize=2, lw=1.1, label=NAMES[name])
        ax.xaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
    least = np.nanmin(sweep["loss"].values), np.nanmax(sweep["loss"].values)
    for ax in axes[:-1]:
        ax.set_ylim(0.6 * least[0], 1.6 * least[1])
    axes[0].set_ylabel("training loss at the end")
    ends = sweep[key].values[[0, -1]]
    axes[-1].set(xscale="log", yscale="log", xlabel="width $N$", ylim=ends,
                 ylabel=r"optimal $\eta_0$", title="optimum")
    log_axis(axes[-1].xaxis, x)
    axes[-1].xaxis.set_major_formatter(
        plt.FixedFormatter([f"{N:.0f}" if np.isfinite(N) else r"$\infty$" for N in places]))
    log_axis(axes[-1].yaxis, [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10)
                              if ends[0] <= value <= ends[1]])
    axes[-1].legend(loc="lower left")
    widths_legend(figure, axes[0], "bars: 95 %")
    return figure


FIGURES = {"fig1_regime2": stability, "regime3": stability, "routers_freeze": freeze,
           "lr_transfer": transfer}


def main(arguments=None):
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="studies.py", description="The figure of a study.")
    parser.add_argument("file", help="NAME.h5, NAME one of " + ", ".join(FIGURES))
    parser.add_argument("-o", metavar="OUT.png", help="default: NAME.png in the current folder")
    options = parser.parse_args(arguments)
    name = os.path.basename(options.file).removesuffix(".h5")
    plt.switch_backend("Agg")
    try:
        if name not in FIGURES:
            raise Missing(f"no study of this name; there are {' '.join(FIGURES)}")
        with plt.rc_context(dmft_plot.STYLE):
            out = options.o or name + ".png"
            FIGURES[name](*load(options.file)).savefig(out)
            print(out)
    except (Missing, OSError, ValueError) as error:
        print(f"studies.py: {options.file}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
