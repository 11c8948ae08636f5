"""The pictures of a run: whole figures, each (run, options) -> Figure."""
from __future__ import annotations

import re

import numpy as np

from dmft.plot import axes as draw
from dmft.plot import maps, specialisation, spikes
from dmft.plot.layout import legend, panels
from dmft.plot.select import ensembles, heading, kernels_of, moments, widths_of
from dmft.plot.style import BANDS, BARS, NAMES, Missing, symbol

RUNS = "width (runs)\nmean over inputs,\n" + BANDS
GATES = {"gate_participation": r"participation  $\langle\phi\rangle^2 / \langle\phi^2\rangle$",
         "gate_largest": r"largest gate  $\max\phi\,/\,\langle\phi\rangle$",
         "gate_top": "share of the gates of\nthe top 1 % of experts",
         "load2": r"loads  $\langle(\bar m_k - \rho)^2\rangle$",
         "b2": r"variance of biases  $b_k$",
         "qstar": r"selection threshold  $q^*$"}
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


def figure_loss(run, _):
    figure, axes = panels(run, 1, 1, 4.2, 3)
    draw.loss(axes[0, 0], run)
    return legend(figure, axes[0, 0], RUNS)


def figure_kernels(run, options):
    data, kernels = ensembles(run)[-1][2], kernels_of(run, options.kernels)
    full = any("s" in data[stored].dims for stored in kernels.values())
    figure, axes = panels(run, len(kernels), 4, 2.35, width_ratios=[1.2, 0.89, 1, 1]) if full else \
        panels(run, -(-len(kernels) // 3), min(len(kernels), 3))
    shown = axes[:, 0] if full else axes.ravel()
    for ax, (name, stored) in zip(shown, kernels.items()):
        draw.curves(ax, run, stored)
        ax.set_title(heading(run, name, stored), fontsize=8)
        ax.set_ylabel(symbol(name))
    for ax in shown[len(kernels):]:
        ax.set_visible(False)
    for row, (name, stored) in zip(axes[:, 1:], kernels.items() if full else []):
        kernel, times = data[stored], moments([data], options.times, 1)
        maps = row[:0]
        if "s" in kernel.dims:
            image = draw.time_heat(row[2], run, stored)
            figure.colorbar(image, ax=row[2], shrink=0.9).ax.set_title(symbol(name))
            maps = row if "nu" in kernel.dims else row[2:]
        if len(maps) == 3:
            both = [draw.inputs_at(kernel, t).values for t in (times[0], times[-1])]
            limits = np.nanmin(both), np.nanmax(both)
            draw.input_heat(row[0], run, stored, times[0], limits)
            image = draw.input_heat(row[1], run, stored, times[-1], limits)
            figure.colorbar(image, ax=row[1], shrink=0.9).ax.set_title(symbol(name))
        for ax in row[:3 - len(maps)]:
            ax.set_visible(False)
    return legend(figure, axes[0, 0], RUNS)


def figure_exponents(run, options):
    kernels, data = kernels_of(run, options.kernels), widths_of(run, 2)[0][1]
    parts = [(kind, {name: stored for name, stored in kernels.items()
                     if kind in data[stored].attrs["about"]}) for kind in ("feature", "gradient")]
    parts = [part for part in parts if part[1]]
    if not parts:
        raise Missing("none of them is a feature or a gradient kernel")
    figure, axes = panels(run, 1, len(parts), 4.0, 3, sharey=True)
    for ax, (kind, some) in zip(axes[0], parts):
        draw.exponents(ax, run, some)
        ax.set(title=f"{kind} kernels", ylabel=ax.get_ylabel() if ax is axes[0, 0] else "")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), title=BANDS)
    return figure


def figure_experts(run, names):
    """Of a few experts: gates and logits, whichever the network shows, a row for each block."""
    blocks = list(dict.fromkeys(name.partition("_")[2] for name in names))
    data = ensembles(run)[-1][2]
    stored = [[f"{name}_{block}" if block else name for name in EXPERTS] for block in blocks]
    shown = [k for k in range(len(EXPERTS)) if any(row[k] in data for row in stored)]
    figure, axes = panels(run, len(blocks), len(shown))
    for block, mine, row in zip(blocks, stored, axes):
        for k, ax in zip(shown, row):
            if mine[k] not in data:
                ax.set_visible(False)
                continue
            draw.experts(ax, run, mine[k])
            ax.set_ylabel(list(EXPERTS.values())[k])
            if len(blocks) > 1:
                ax.set_title(rf"block $\ell = {block}$")
    return legend(figure, axes[0, 0], "mean over inputs,\n" + BANDS)


def figure_gates(run, _):
    data = ensembles(run)[-1][2]
    few = [name for name in data
           if re.fullmatch(r"p(_\d+)?", name) and "i" in data[name].dims]
    if few:
        return figure_experts(run, few)
    shown = [name for name in GATES if name in data]
    if not shown:
        raise Missing("the network has no router, or constant gates")
    blocks = max(1, *(data[name].sizes.get("l", 1) for name in shown))
    figure, axes = panels(run, len(shown), blocks, sharey="row") if blocks > 1 else \
        panels(run, 1, len(shown))
    for name, row in zip(shown, axes if blocks > 1 else axes.T):
        by_block = "l" in data[name].dims  # what is not is of the last
        for l, ax in enumerate(row):
            if by_block or l == blocks - 1:
                draw.curves(ax, run, name, **({"l": l} if by_block else {}))
                ax.set_ylabel(GATES[name] if l == 0 or not by_block else "")
            else:
                ax.set_visible(False)
            if blocks > 1 and (name == shown[0] or not by_block):
                ax.set_title(rf"block $\ell = {l}$")
    return legend(figure, axes[0, -1], RUNS)


def figure_convergence(run, options):
    times = moments([data for _, _, data in ensembles(run)], options.times, 4)
    figure, axes = panels(run, 1, 1, 4.6, 3)
    draw.convergence(axes[0, 0], run, options.times or times[1:] or times)
    return legend(figure, axes[0, 0], BARS + "\nhollow: upper limits")


def figure_fields(run, _):
    data = ensembles(run)[-1][2]
    names = [name.removesuffix("_quantile") for name in data if name.endswith("_quantile")]
    if not names:
        raise Missing("the run had no [output] fields")
    places = sorted({0, data.sizes["at"] - 1})
    figure, axes = panels(run, len(names), len(places), sharex="row", sharey=True)
    for name, row in zip(names, axes):
        for ax, place in zip(row, places):
            draw.distribution(ax, run, name, place)
        row[0].set_ylabel("share of sites below")
    return legend(figure, axes[0, 0], "width (runs)\nfirst input,\n" + BANDS)


def figure_coordinate(sides, _):
    """Of a comparison {parameterization: run}."""
    parts = {side: part for side, part in sides.items()
             if "compare" in part and "rms_A1_exponent" in part["compare"]}
    if not parts:
        raise Missing("not made by dmft-compare with [reference] coordinate_check = yes, of a "
                      "network with experts of one hidden layer")
    figure, axes = panels(next(iter(parts.values())), 2 * len(parts), 5, 2.15, 1.9, sharex=True,
                          sharey=True)
    figure.suptitle("exponent in $N$ of the parts of every signal", fontsize=9, x=0.01, ha="left",
                    color="0.35")
    rows = [(side, part, terms) for side, part in parts.items() for terms in COORDINATES]
    common, told = ["initial", "propagating", "effective"], set()
    for row, (side, part, terms) in zip(axes, rows):
        for ax, (words, some) in zip(row, terms):
            draw.coordinates(ax, part, some)
            ax.set_title(words)
            lines, labels = ax.get_legend_handles_labels()
            if lines and not set(labels) <= set(common) and words not in told:
                ax.legend(fontsize=6.5, loc="lower right", labelspacing=0.2, handlelength=1.2)
                told.add(words)
            ax.label_outer()
        way = "backward" if terms is COORDINATES[1] else "forward"
        row[0].set_ylabel(f"{NAMES.get(side, side)}, {way}\nexponent in $N$")
    full = next((ax for ax in axes.flat if ax.get_legend_handles_labels()[1] == common), axes[0, 0])
    return legend(figure, full, BANDS + "\na panel's legend holds\nunder the same title;\n"
                  "all other panels:")


FIGURES = {"loss": figure_loss, "kernels": figure_kernels, "exponents": figure_exponents,
           "gates": figure_gates, "fields": figure_fields, "convergence": figure_convergence,
           **specialisation.FIGURES, **maps.FIGURES, **spikes.FIGURES}
