"""Pictures of How to Scale Mixture-of-Experts. Each function takes the sweeps of its study and
gives a figure and what is seen: (whether it is as the paper says, a sentence)."""
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from common import (at_widths, decided, drift, exponent, grid, name, of_limit, optimum, pm, rates,
                    widths_axis)
from dmft.plot import axes as draw
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.style import BANDS, BARS, COLOURS

# Of the coordinate check (docs/output.md).
TERMS = {"experts aggregated":
         {"A1": "$A_1$: $W_3(0)$, initial", "A21": "$A_{21}$: $W_3(0)$, from $W_1$",
          "A22": "$A_{22}$: $W_3(0)$, from $W_2$", "A3": r"$A_3$: $\Delta W_3$"},
         "back through the experts":
         {"A4": "$A_4$: $W_2(0), W_3(0)$", "A5": r"$A_5$: $W_2(0), \Delta W_3$",
          "E": r"$E$: $\Delta W_2, \Delta W_3$", "A6": r"$A_6$: $\Delta W_2, W_3(0)$"}}


def mup_mssp(run):
    """The picture of README.md."""
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(7.2, 2.6))
    for ax, (point, part) in zip(axes, run.points.items()):
        draw.loss(ax, part)
        ax.set_title(name(point[0]))
    axes[1].set_ylabel("")
    return legend(figure, axes[0], "width (runs)\n" + BANDS), delays(run)


def half_times(run):
    """(N, interpolated time at which the loss has fallen to half) of all widths."""
    rows = []
    for N, data in run.reference.items():
        loss = data["loss"].values
        t = np.argmax(loss < loss[0] / 2) if (loss < loss[0] / 2).any() else np.nan
        if np.isfinite(t):
            t = t - (loss[0] / 2 - loss[t]) / (loss[t - 1] - loss[t])
        rows.append((N, t))
    return np.array(rows).T


def delays(run):
    """What widths do to the loss, in muP and MSSP."""
    parts = {point[0]: part for point, part in run.points.items()}
    seen = []
    for side, part in parts.items():
        N, t = half_times(part)
        loss = at_widths(part, "loss")[1]
        later = np.polyfit(np.log(N), t, 1)[0]
        seen.append(((later > 1) == (side == "mup"), f"""{name(side)}: the loss has fallen to half
            at
            t = {", ".join(f"{one:.1f}" for one in t)} for N = {", ".join(f"{n:g}" for n in N)},
            {later:+.1f} steps for each e-fold of N; at the last step it is
            {", ".join(f"{one:.2g}" for one in loss)}"""))
    still = of_limit(parts["mup"], "loss")[0] / parts["mup"].limit["loss"].values[0]
    seen.append((abs(still - 1) < 1e-6, "the limit of \u03bcP rests: its loss ends at "
                 f"{still:.3f} of what it was"))
    return seen


def parts_over_time(run):
    """muP beside MSSP: the loss, and how the parts of two signals depend on the width."""
    figure, axes = grid(3, 2, 1.9, sharex=True, sharey="row")
    for column, (point, part) in zip(axes.T, run.points.items()):
        draw.loss(column[0], part)
        column[0].set_title(name(point[0]))
        for ax, (words, terms) in zip(column[1:], TERMS.items()):
            for level in (-0.5, -1, -1.5, -2):
                ax.axhline(level, color="0.9", lw=0.7, zorder=0)
            draw.exponents(ax, part, {label: f"rms_{term}" for term, label in terms.items()})
            ax.set(ylim=(-2.6, 0.9), ylabel=words + "\n" + r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
    axes[0, 0].set(yscale="linear", ylim=(0, 0.55))
    for ax in axes[:, 1]:
        ax.set_ylabel("")
    for ax in axes[:2].flat:
        ax.set_xlabel("")
    for row, words in zip(axes, ("width (runs)\n" + BANDS, "forward", "backward")):
        row[1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title=words, alignment="left",
                      handlelength=1.4)
    return figure


def fig1_regime2(run):
    seen = delays(run)
    return parts_over_time(run), seen + powers(run)


def regime3(run):
    seen = delays(run)
    return parts_over_time(run), seen + powers(run)


def powers(run):
    """Exponents of A1 and A21 early on, and of all parts over time."""
    seen = []
    for point, part in run.points.items():
        early, late = 2, len(next(iter(part.reference.values()))["loss"]) - 1
        words = [f"{label} {pm(*scaled(exponent(part, 'rms_' + term, early)))} at t = {early}, "
                 f"{pm(*scaled(exponent(part, 'rms_' + term, late)))} at {late}"
                 for term, label in (("A1", "A1"), ("A21", "A21"), ("A22", "A22"), ("A3", "A3"))]
        first = exponent(part, "rms_A1", early)[0], exponent(part, "rms_A21", early)[0]
        good = max(first) < -0.3 if point[0] == "mup" else min(first) > -0.25
        seen.append((good, f"{name(point[0])}: exponents {'; '.join(words)}"))
    return seen


def scaled(pair):
    """Half of a 95 % interval as a standard error."""
    return pair[0], pair[1] / 2


def transfers(said, moved, error, gain, doubt):
    """Whether the best rate does what is said of it (common.decided): "stays", and the loss there
    gets no worse with the width; "rises", or the loss gets worse; "falls". moved: drift of its
    logarithm. gain: by how much the loss falls, and twice its error."""
    if said == "stays":
        stays = decided(moved, error, -np.log(1.25), np.log(1.25))
        return False if gain < -doubt else stays
    if said == "falls":
        return decided(moved, error, -np.inf, -np.log(1.1))
    rises = decided(moved, error, np.log(1.1), np.inf)
    return True if gain < -doubt else rises


def rates_seen(run, cells, titles, said):
    """A sentence for each panel. said[k]: what is said of the best rate (transfers)."""
    seen, grid_ = [], run["sweep"][run["optimum"].attrs["key"]].values
    for cell, title, claim in zip(cells, titles, said):
        best = optimum(run, cell)
        finite = np.isfinite(best[0])
        moved, error = drift(best, grid_[1] / grid_[0])
        N, at, at_se, loss, loss_se = best[:, finite]
        gain, doubt = loss[0] - loss[-1], 2 * np.hypot(loss_se[0], loss_se[-1])
        words = [pm(a, se) + "*" * bool(np.isnan(se)) for a, se in zip(at, at_se)]
        losses = [pm(a, se) for a, se in zip(loss, loss_se)]
        limit = best[:, ~finite]
        tail = f", limit {pm(limit[1, 0], limit[2, 0])} and {pm(limit[3, 0], limit[4, 0])}" \
            if limit.size else ""
        star = "; *: an end of the grid, or beside a run that failed" * bool(np.isnan(at_se).any())
        seen.append((transfers(claim, moved, error, gain, doubt), f"""{title}: best
            \u03b7\u2080 {" ".join(words)} (a line through them: times
            {pm(np.exp(moved), np.exp(moved) * error)}), loss there {" ".join(losses)} at N =
            {" ".join(f"{n:g}" for n in N)}{tail}{star}"""))
    return seen


def lr_transfer(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = [f"{name(cell['network.parameterization'])}, w(0) "
              f"{'zero' if cell['network.read_out'] == 'zero' else '1/N'}" for cell in cells]
    said = ["rises", "stays", "stays", "stays"]
    return rates(run, cells, titles), rates_seen(run, cells, titles, said)


def rates_adam(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = [f"{name(cell['network.parameterization'])}, Adam" for cell in cells]
    return rates(run, cells, titles), rates_seen(run, cells, titles, ["rises", "stays"])


def rates_regime3(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = ["\u03bcP, gradient descent", "MSSP, gradient descent", "\u03bcP, Adam", "MSSP, Adam",
              "MSSP, Adam, top-K"]
    return rates(run, cells, titles), rates_seen(run, cells, titles,
                                                 ["rises", "stays", "rises", "stays", "stays"])


def rates_regime1(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = ["\u03bcP", "MSSP", "\u03bcP, Adam", "MSSP, Adam", "\u03bcP, softmax",
              "SP, softmax"]
    said = ["stays", "stays", "stays", "stays", "stays", "falls"]
    return rates(run, cells, titles), rates_seen(run, cells, titles, said)


def fig2(*runs):
    """Final losses at the rate that is best at the smallest width, against the width."""
    wanted = [("Regime II, gradient descent", runs[0], {"network.read_out": "zero"}),
              ("Regime II, Adam", runs[1], {}),
              ("Regime III, gradient descent", runs[2], "gd 1"),
              ("Regime III, Adam", runs[2], "adam 1")]
    figure, axes = grid(2, 2, 2.2)
    seen, low, high = [], np.inf, 0
    for ax, (title, run, more) in zip(axes.flat, wanted):
        ends = {}
        for k, side in enumerate(("mup", "mssp")):
            cell = {"network.parameterization": side} | more if isinstance(more, dict) else \
                {"network.parameterization,training.optimizer,network.rho": f"{side} {more}"}
            part = run["sweep"].sel(cell)
            part = part.isel(N=np.flatnonzero(np.isfinite(part["N"].values)))
            eta0 = part["training.eta0"].values[np.nanargmin(part["loss"].isel(N=0).values)]
            part = part.sel({"training.eta0": eta0})
            N, loss, se = (part[key].values for key in ("N", "loss", "loss_se"))
            ax.errorbar(N, loss, sweeps.half_bars(part), color=COLOURS[k], capsize=2,
                        marker="os"[k], ms=4, ls=("--", "-")[k],
                        label=f"{name(side)}")
            ends[side] = loss, se, eta0
            low, high = min(low, np.nanmin(loss)), max(high, np.nanmax(loss))
        widths_axis(ax, N)
        ax.set(title=title, yscale="log", ylabel="loss at the last step")
        (mup, mup_se, a), (mssp, mssp_se, b) = ends["mup"], ends["mssp"]
        pairs = ((mup[-1], mup_se[-1]), (mssp[0], mssp_se[0]))
        better = [decided(one - mssp[-1], np.hypot(se, mssp_se[-1]), 0, np.inf)
                  for one, se in pairs]
        good = False if False in better else None if None in better else True
        seen.append((good, f"""{title}: at N = {N[-1]:g} \u03bcP ends at
            {pm(mup[-1], mup_se[-1])} (\u03b7\u2080 = {a:.3g}), MSSP at
            {pm(mssp[-1], mssp_se[-1])} (\u03b7\u2080 = {b:.3g}); at N = {N[0]:g} at
            {pm(mup[0], mup_se[0])} and {pm(mssp[0], mssp_se[0])}"""))
    for ax in axes.flat:
        ax.set_ylim(0.6 * low, 1.6 * high)
    return legend(figure, axes[0, 0], BARS), seen
