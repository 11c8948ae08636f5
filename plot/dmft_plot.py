"""Pictures of what dmft-solve computed, and its files as xarray datasets.

    dmft-plot RUN.h5 [-o OUT.png] [--what loss|kernels|exponents|gates|convergence|coordinate|all]
              [--times T ...] [--kernels NAME ...]

or python -m dmft_plot. With --what all (the default) every picture that the file has data for is
written, OUT_loss.png, OUT_kernels.png and so on; of a file of dmft-compare one of each for every
parameterization, OUT_mup_loss.png, and the coordinate check of all. In a script:

    import dmft_plot, matplotlib.pyplot as plt
    run = dmft_plot.load("regime2.h5")     # {"limit": Dataset, "reference/N0064": Dataset, ...}
    dmft_plot.loss(plt.gca(), run)

The limit is black, widths go from light to dark. Bands and bars are 95 % intervals: the standard
error NAME_se times Student's t for the n(t) independent runs of the group. Where a quantity is
averaged over inputs its interval is the mean of theirs, which errors common to them make an upper
bound. NaN, in files of runs that were stopped, is left out.
"""
import argparse
import os
import re
import sys

import h5py
import matplotlib.pyplot as plt
import numpy as np
import xarray
from matplotlib.ticker import MaxNLocator
from scipy.special import stdtrit

STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "legend.fontsize": 8,
    "legend.title_fontsize": 8, "legend.frameon": False, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "xtick.major.width": 0.7, "ytick.major.width": 0.7,
    "axes.linewidth": 0.7, "lines.linewidth": 1.4, "axes.spines.top": False,
    "axes.spines.right": False, "axes.formatter.limits": (-3, 4), "savefig.dpi": 200}
# Okabe and Ito's colours, told apart by everybody: for times, experts and kernels.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F"]
RUNS = "width (runs)\nmean over inputs,\nbands: 95 %"
GATES = {"gate_participation": r"participation  $\langle\phi\rangle^2 / \langle\phi^2\rangle$",
         "gate_largest": r"largest gate  $\max\phi\,/\,\langle\phi\rangle$",
         "gate_top": "share of the gates of\nthe top 1 % of experts",
         "load2": r"loads  $\langle(\bar m_k - \rho)^2\rangle$",
         "b2": r"variance of biases  $b_k$",
         "qstar": r"selection threshold  $q^*$"}
NAMES = {"mup": "\u03bcP", "mssp": "MSSP", "sp": "SP"}
# Parts of the coordinate check, forward and backward, as docs/output.md lists them; a|b: the one
# that a network has.
COORDINATES = [
    [("router logits", {"Q_init": "initial", "Q_prop": "propagating", "Q_eff": "effective"}),
     ("hidden units", {"W2_init|W_in_init|A_in_init": "initial",
                       "W2_prop|W_in_prop|A_in_prop": "propagating",
                       "W2_eff|W_in_eff|P_in_eff": "effective"}),
     ("output of one expert", {"h3i_init": "initial", "h3i_prop": "propagating",
                               "h3i_eff": "effective"}),
     ("experts aggregated", {"A1": "initial", "A21": "propagating, from $W_1$",
                             "A3": "effective", "A22": "propagating, from $W_2$"}),
     ("output $f$", {"f_init": "initial", "f_prop": "propagating", "f_eff": "effective"})],
    [("gradient at the hidden units", {"b_00": "$W_3(0), W_4(0)$", "b_0d": r"$W_3(0), \Delta W_4$",
                                       "b_dd": r"$\Delta W_3, \Delta W_4$",
                                       "b_d0": r"$\Delta W_3, W_4(0)$"}),
     ("gradient of the gates", {"dphi_init": "$W_3(0)$", "dphi_upd": r"$\Delta W_3$"}),
     ("back through the experts", {"A4": "$W_2(0), W_3(0)$", "A5": r"$W_2(0), \Delta W_3$",
                                   "E": r"$\Delta W_2, \Delta W_3$",
                                   "A6": r"$\Delta W_2, W_3(0)$"}),
     ("back through the router", {"R00": "$Q(0), W_3(0)$", "R0d": r"$Q(0), \Delta W_3$",
                                  "Rdd": r"$\Delta Q, \Delta W_3$",
                                  "Rd0": r"$\Delta Q, W_3(0)$"}),
     ("backward aggregation", {"I6_init": "initial", "I6_prop": "propagating",
                               "I6_eff": "effective"})]]
EXPERTS = {"p": "gate  $p_i$", "psi": r"logit  $\psi_i$"}


class Missing(Exception):
    """The file has no data for a picture; the text is a sentence."""


def load(path):
    """{group: Dataset} of every group of a file, values read when they are used; attrs of
    "parameters" are the keys of the ini, attrs of "/" say program and complete."""
    names = ["/"]
    if not h5py.is_hdf5(os.fspath(path)):
        open(path, "rb").close()  # or what the system says
        raise Missing("is not a whole HDF5 file")
    with h5py.File(path, "r") as file:
        if file.attrs.get("program") != "dmft-solve":
            raise Missing("is not an output of dmft-solve")
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "keys") else None)
    return {name: xarray.open_dataset(path, group=name, engine="h5netcdf", decode_cf=False)
            for name in names}


def sides(run):
    """{parameterization: run} of what dmft-compare wrote, else {"": run}."""
    names = [name for name in NAMES if name + "/compare" in run]
    return {side: {"/": run["/"]} | {name.removeprefix(side + "/"): data for name, data in
                                     run.items() if name.startswith(side + "/")}
            for side in names} or {"": run}


def ensembles(run):
    """[(label, colour, Dataset)]: the networks by width, then the limit; those that there are."""
    widths = sorted((data for data in run.values() if "N" in data.attrs and "loss" in data),
                    key=lambda data: data.attrs["N"])
    shades = plt.get_cmap("viridis_r")(np.linspace(0.2, 0.8, max(len(widths), 2)))
    found = [(f"$N = {data.attrs['N']:.0f}$", shade, data) for data, shade in zip(widths, shades)]
    if "limit" in run and "loss" in run["limit"]:
        found.append((r"$N \to \infty$", "black", run["limit"]))
    if not found:
        raise Missing("has no trajectories yet")
    return found


def widths_of(run, least):
    """[(N, Dataset)] of the networks, at least so many."""
    found = [(data.attrs["N"], data) for _, _, data in ensembles(run) if "N" in data.attrs]
    if len(found) < least:
        raise Missing(f"networks of {len(found)} widths, and it needs {least} ([reference] widths)")
    return found


def quantity(data, name):
    """Mean and half of the 95 % interval over t (and l, i): equal times, averaged over inputs."""
    parts = []
    for part in (data[name], data[name + "_se"]):
        if part.dims == ("t", "mu", "s", "nu"):
            part = xarray.DataArray(np.einsum("tmtm->tm", part.values), dims=("t", "mu"))
        elif part.dims == ("t", "s"):
            part = xarray.DataArray(np.diagonal(part.values), dims="t")
        parts.append(part.mean("mu", skipna=False) if "mu" in part.dims else part)
    student = xarray.DataArray(stdtrit(np.maximum(data["n"].values - 1.0, 0), 0.975), dims="t")
    return parts[0], parts[1] * student


def kernels_of(run, only=None):
    """{NAME: name of the dataset, NAME or NAME_diag} of all kernels or of some."""
    known = {name.removesuffix("_diag"): name for name, value in ensembles(run)[-1][2].items()
             if "kernel" in value.attrs.get("about", "") and not name.endswith("_se")}
    if not known:
        raise Missing("the run had [output] kernels = none")
    for name in set(only or []) - set(known):
        raise Missing(f"no kernel {name}; there are {' '.join(known)}")
    return {name: known[name] for name in only or known}


def moments(groups, given, count):
    """The times asked for, else so many, evenly spread up to the last that all groups reached."""
    reached = min(int(np.count_nonzero(data["n"].values)) for data in groups)
    times = given or [round((reached - 1) * k / count) for k in range(count + 1)]
    if reached == 0 or min(times) < 0 or max(times) >= reached:
        raise Missing(f"no step {max(times)}; there are {reached}, counted from 0")
    return sorted(set(times))


def symbol(name):
    """Phi2_0 -> $\\Phi_{2,0}$."""
    match = re.fullmatch(r"(Phi|G|Ch|Cg|Mphi|Mg|MAA)_?(.*)", name)
    if not match:
        return name
    head = {"Phi": r"\Phi", "Ch": "C^h", "Cg": "C^g", "Mphi": r"M^\phi", "Mg": "M^g",
            "MAA": "M^A"}.get(match[1], match[1])
    return "$%s_{%s}$" % (head, match[2].replace("_", ",").replace("phi", r"\phi"))


def heading(run, name, stored):
    """Symbol, meaning and definition of a kernel."""
    about = ensembles(run)[-1][2][stored].attrs
    formula = re.sub(r"([a-z])(\d)", r"\1_\2", about["equation"].split(",")[0])
    formula = re.sub(r"(?<![a-z])(sigma|phi|kappa|psi)", r"\\\1", formula)
    formula = re.sub(r"_(\w+)", lambda sub: "_{%s}" % sub[1].replace("_", ","), formula)
    formula = formula.replace(" ", r"\,").replace("<", r"\langle\,").replace(">", r"\,\rangle")
    return f"{symbol(name)}: {about['about'].split(';')[0]}\n${formula}$"


def title(run):
    """Model and parameterization, main parameters, whether the run came to its end."""
    keys = run["parameters"].attrs
    words = [keys["network.model"]]
    words += [NAMES[keys["network.parameterization"]]] if words[0].startswith("regime") else []
    words += [rf"$\{name}_0 = {keys[f'training.{name}0']:g}$" for name in ("eta", "gamma")]
    return ", ".join(words) + ("" if run["/"].attrs["complete"] else "  (incomplete)")


def band(ax, mean, half, colour, **line):
    """A curve over t and its interval."""
    t = np.arange(len(mean))
    ax.plot(t, mean, color=colour, zorder=3, marker="." if len(t) == 1 else None, **line)
    ax.fill_between(t, mean - half, mean + half, color=colour, alpha=0.18, lw=0)
    ax.set_xlabel("step $t$")
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def curves(ax, run, name, **select):
    """A quantity over time, of limit and networks; select picks along other axes (l=0)."""
    for label, colour, data in ensembles(run):
        if name in data:
            mean, half = (part.isel(select) for part in quantity(data, name))
            band(ax, mean, half, colour, label=f"{label}  ({data['n'].values.max()})")


def loss(ax, run):
    """Loss over time, logarithmic where it falls tenfold."""
    curves(ax, run, "loss")
    mean = np.concatenate([data["loss"].values for _, _, data in ensembles(run)])
    if 0 < 10 * np.nanmin(mean) < np.nanmax(mean):
        ax.set(yscale="log", ylim=(0.5 * np.nanmin(mean), 1.6 * np.nanmax(mean)))
    logistic = run["parameters"].attrs["training.loss"] == "logistic"
    form = r"\log(1 + e^{-y f\,})" if logistic else r"(y - f\,)^2 / 2"
    ax.set_ylabel(rf"loss  $\langle\, {form} \,\rangle_\mu$")


def heat(ax, values, limits=None):
    """A matrix in colours: viridis, or blue, white, red about 0 where it has both signs."""
    low, high = limits or (np.nanmin(values), np.nanmax(values))
    most = max(-low, high)
    image = ax.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most) if low < 0 < high else \
        ax.imshow(values, cmap="viridis", vmin=low, vmax=high)
    ax.spines[:].set_visible(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, integer=True))
    return image


def input_heat(ax, run, name, t, limits=None):
    """K[t][mu][t][nu] of the limit (else the widest network), inputs in the order of decreasing
    target, a line between targets of different sign."""
    y = run["data"]["y"].values
    if "batch" in run["data"]:
        y = y[run["data"]["batch"].values[t]]
    order, border = np.argsort(-y, kind="stable"), np.count_nonzero(y > 0) - 0.5
    values = ensembles(run)[-1][2][name].isel(t=t, s=t).values
    image = heat(ax, values[np.ix_(order, order)], limits)
    for line in (ax.axhline, ax.axvline) if 0 < border < len(y) - 1 else ():
        line(border, color="black", lw=0.6)
    ax.set(xlabel=r"input $\nu$, by $y$", ylabel=r"input $\mu$, by $y$", title=f"$t = s = {t}$")
    return image


def time_heat(ax, run, name):
    """K[t][mu][s][mu], mean over inputs, of the limit (else the widest network)."""
    values = ensembles(run)[-1][2][name].values
    if values.ndim == 4:
        values = np.einsum("tmsm->ts", values) / values.shape[1]
        ax.set_title(r"$\mu = \nu$, mean over inputs")
    image = heat(ax, values)
    ax.invert_yaxis()
    ax.set(xlabel="step $s$", ylabel="step $t$")
    return image


def exponents(ax, run, kernels):
    """d log K / d log N over time for {NAME: dataset} at equal times and inputs: weighted least
    squares through the widths, with the errors of the means as weights and no term for a
    curvature in log N. 0: independent of the width. Kernels that are 0 are left out."""
    x, count = np.log([N for N, _ in widths_of(run, 2)])[:, None], 0
    for name, stored in kernels.items():
        mean, half = (np.array(part) for part in
                      zip(*(quantity(data, stored) for _, data in widths_of(run, 2))))
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = (mean / half) ** 2
            away = x - (weight * x).sum(0) / weight.sum(0)
            spread = (weight * away**2).sum(0)
            slope = (weight * away * np.log(mean)).sum(0) / spread
        if np.isfinite(slope).any():
            band(ax, slope, 1 / np.sqrt(spread), COLOURS[count % 7], label=symbol(name),
                 ls="-" if count < 7 else "--")
            count += 1
    if not count:
        raise Missing("no kernel has error bars at two widths")
    ax.axhline(0, color="black", lw=0.7)
    ax.set_ylabel(r"exponent  $d\,\log K\,/\,d\,\log N$")


def convergence(ax, run, times):
    """|loss of networks - loss of the limit| against N at some times; hollow where the interval of
    the difference (Welch) has 0 inside."""
    found, limit = widths_of(run, 1), ensembles(run)[-1][2]
    if "N" in limit.attrs:
        raise Missing("no limit to converge to ([solver] replicates = 0)")
    N, top = np.array([N for N, _ in found]), 0
    of = {key: np.array([[data[key].values[t] for _, data in [*found, (0, limit)]]
                         for t in times]) for key in ("loss", "loss_se", "n")}
    for k, t in enumerate(times):
        square, gap = of["loss_se"][k] ** 2, np.abs(of["loss"][k, :-1] - of["loss"][k, -1])
        part = square**2 / np.maximum(of["n"][k] - 1, 1)
        square, part = square[:-1] + square[-1], part[:-1] + part[-1]
        with np.errstate(invalid="ignore"):  # 0/0 at t = 0, where f is centred
            half = stdtrit(square**2 / part, 0.975) * np.sqrt(square)
        where, colour, known = N * 1.04 ** (k - len(times) / 2 + 0.5), COLOURS[k % 7], gap > half
        ax.errorbar(where, gap, [np.minimum(half, 0.9 * gap), half], fmt="none", ecolor=colour)
        ax.scatter(where, gap, 25, np.where(known, colour, "white"), edgecolors=colour, zorder=3)
        ax.plot([], [], "o", ms=5, color=colour, label=f"$t = {t}$")
        top = max(top, np.nanmax(gap * N))
    if not top > 0:
        raise Missing("no difference at these times")
    ax.plot(N, top / N, color="grey", ls="--", lw=1, label="$1/N$", zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="width $N$",
           ylabel=r"$|\,\mathrm{loss}_N - \mathrm{loss}_\infty\,|$")
    ax.set_xticks(N, [f"{n:.0f}" for n in N])
    ax.set_xticks([], minor=True)


def experts(ax, run, name):
    """A quantity of each of a few experts over time: limit solid, the widest network dashed."""
    for (label, _, data), style in zip(ensembles(run)[:-3:-1], ["-", "--"]):
        mean, half = quantity(data, name)
        for i in range(mean.sizes["i"]):
            band(ax, mean.isel(i=i), half.isel(i=i), COLOURS[i % 7], ls=style,
                 label=f"expert {i}" if style == "-" else None)
        ax.plot([], [], color="grey", ls=style, label=label)


def coordinates(ax, run, terms):
    """Exponents in N of the parts {name: label} of a signal over time; bands: 2 standard errors.
    Parts that are exactly zero are left out."""
    for level in (0, -0.5, -1):
        ax.axhline(level, color="black" if level == 0 else "0.8", lw=0.7, zorder=0)
    for colour, (names, label) in zip(COLOURS, terms.items()):
        there = [name for name in names.split("|") if f"rms_{name}_exponent" in run["compare"]]
        exponent = run["compare"][f"rms_{there[0]}_exponent"] if there else None
        if exponent is not None and np.isfinite(exponent).any():
            band(ax, exponent.values, 2 * run["compare"][exponent.name + "_se"].values, colour,
                 label=label)
    ax.set_ylim(-2.3, 0.8)


def panels(run, rows, columns, width=3.0, height=2.3, **more):
    """A figure and its axes [rows][columns]; inches of one panel."""
    figure, axes = plt.subplots(rows, columns, squeeze=False, layout="constrained",
                                figsize=(width * columns + 1.3, height * rows + 0.3), **more)
    figure.suptitle(title(run), fontsize=9, x=0.01, ha="left", color="0.35")
    return figure, axes


def legend(figure, ax, words):
    """The whole figure's, at its right side."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center", title=words,
                  alignment="left")
    return figure


def figure_loss(run, _):
    figure, axes = panels(run, 1, 1, 4.2, 3)
    loss(axes[0, 0], run)
    return legend(figure, axes[0, 0], RUNS)


def figure_kernels(run, options):
    data, kernels = ensembles(run)[-1][2], kernels_of(run, options.kernels)
    full = next(iter(kernels)) in kernels.values()
    figure, axes = panels(run, len(kernels), 4, 2.35, width_ratios=[1.2, 0.89, 1, 1]) if full else \
        panels(run, -(-len(kernels) // 3), min(len(kernels), 3))
    shown = axes[:, 0] if full else axes.ravel()
    for ax, (name, stored) in zip(shown, kernels.items()):
        curves(ax, run, stored)
        ax.set_title(heading(run, name, stored), fontsize=8)
    for ax in shown[len(kernels):]:
        ax.set_visible(False)
    for row, name in zip(axes[:, 1:], kernels if full else []):
        kernel, times = data[name], moments([data], options.times, 1)
        figure.colorbar(time_heat(row[2], run, name), ax=row[2], shrink=0.9)
        if "mu" in kernel.dims:
            both = [kernel.isel(t=t, s=t).values for t in (times[0], times[-1])]
            limits = np.nanmin(both), np.nanmax(both)
            input_heat(row[0], run, name, times[0], limits)
            image = input_heat(row[1], run, name, times[-1], limits)
            figure.colorbar(image, ax=row[1], shrink=0.9)
        for ax in [] if "mu" in kernel.dims else row[:2]:
            ax.set_visible(False)
    return legend(figure, axes[0, 0], RUNS)


def figure_exponents(run, options):
    kernels, data = kernels_of(run, options.kernels), widths_of(run, 2)[0][1]
    parts = [(kind, {name: stored for name, stored in kernels.items()
                     if kind in data[stored].attrs["about"]}) for kind in ("feature", "gradient")]
    parts = [part for part in parts if part[1]]
    figure, axes = panels(run, 1, len(parts), 4.0, 3, sharey=True)
    for ax, (kind, some) in zip(axes[0], parts):
        exponents(ax, run, some)
        ax.set(title=f"{kind} kernels", ylabel=ax.get_ylabel() if ax is axes[0, 0] else "")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="bands: 95 %")
    return figure


def figure_gates(run, _):
    data = ensembles(run)[-1][2]
    few = "i" in data.dims
    draw, known = (experts, EXPERTS) if few else (curves, GATES)
    shown = [name for name in known if name in data]
    if not shown:
        raise Missing("the network has no router, or constant gates")
    blocks = [{"l": l} for l in range(data.sizes.get("l", 0))]
    figure, axes = panels(run, len(shown), len(blocks), sharey="row") if blocks else \
        panels(run, 1, len(shown))
    for name, row in zip(shown, axes if blocks else axes.T):
        for ax, select in zip(row, blocks or [{}]):
            draw(ax, run, name, **select)
            if name == shown[0] and blocks:
                ax.set_title(rf"block $\ell = {select['l']}$")
        row[0].set_ylabel(known[name])
    return legend(figure, axes[0, 0], "mean over inputs,\nbands: 95 %" if few else RUNS)


def figure_convergence(run, options):
    times = moments([data for _, _, data in ensembles(run)], options.times, 4)
    figure, axes = panels(run, 1, 1, 3.8, 3)
    convergence(axes[0, 0], run, times if options.times else times[1:])
    return legend(figure, axes[0, 0], "bars: 95 %\nhollow: 0 inside")


def figure_coordinate(run, _):
    parts = sides(run)
    if not any("rms_A1_exponent" in part.get("compare", {}) for part in parts.values()):
        raise Missing("not made by dmft-compare with [reference] coordinate_check = yes")
    figure, axes = panels(next(iter(parts.values())), 2 * len(parts), 5, 2.15, 1.9, sharex=True,
                          sharey=True)
    figure.suptitle("exponent in $N$ of the parts of every signal;  bands: 2 standard errors",
                    fontsize=9, x=0.01, ha="left", color="0.35")
    rows = [(side, part, terms) for side, part in parts.items() for terms in COORDINATES]
    for row, (side, part, terms) in zip(axes, rows):
        for ax, (words, some) in zip(row, terms):
            coordinates(ax, part, some)
            ax.set_title(words)
            ax.legend(fontsize=6.5, loc="lower right", labelspacing=0.2, handlelength=1.2)
            ax.label_outer()
        row[0].set_ylabel(f"{NAMES[side]}, {'backward' if terms is COORDINATES[1] else 'forward'}")
    return figure


FIGURES = {"loss": figure_loss, "kernels": figure_kernels, "exponents": figure_exponents,
           "gates": figure_gates, "convergence": figure_convergence}


def main(arguments=None):
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="dmft-plot", description="Pictures of a dmft-solve run.")
    parser.add_argument("file")
    parser.add_argument("-o", metavar="OUT.png", help="default: FILE.png in the current folder")
    parser.add_argument("--what", choices=[*FIGURES, "coordinate", "all"], default="all",
                        help="all: OUT_loss.png, OUT_kernels.png, ... as far as there are data")
    parser.add_argument("--times", type=int, nargs="+", metavar="T", help="of heat maps (two) "
                        "and of convergence")
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="only these")
    options = parser.parse_args(arguments)
    base = os.path.basename(options.file).split(".h5")[0] + ".png"
    (stem, suffix), drawn = os.path.splitext(options.o or base), 0
    plt.switch_backend("Agg")
    try:
        run = load(options.file)
        chosen = [*FIGURES, "coordinate"] if options.what == "all" else [options.what]
        pictures = [(side, what, part, FIGURES[what]) for side, part in sides(run).items()
                    for what in chosen if what in FIGURES]
        if "coordinate" in chosen and (options.what != "all" or "" not in sides(run)):
            pictures.append(("", "coordinate", run, figure_coordinate))
        for part in sides(run).values():
            ensembles(part)
        for side, what, part, figure in pictures:
            words = [stem] + [side] * (side != "") + [what] * (options.what == "all")
            out = "_".join(words) + (suffix or ".png")
            try:
                with plt.rc_context(STYLE):
                    figure(part, options).savefig(out)
                print(out)
                drawn += 1
            except Missing as missing:
                print(f"dmft-plot: {options.file}: no {what}: {missing}", file=sys.stderr)
            plt.close("all")
    except (Missing, OSError, ValueError) as error:
        print(f"dmft-plot: {options.file}: {error}", file=sys.stderr)
    return 0 if drawn else 2


if __name__ == "__main__":
    sys.exit(main())
