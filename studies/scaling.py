"""Pictures of How to Scale Mixture-of-Experts. Each function takes the sweeps of its study and
gives a figure and what is seen: (whether it is as the paper says, a sentence)."""
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import dmft
from common import (at_widths, end_of_limit, exponent, factor, grid, name, of_exponent, of_limit,
                    optimum, pm, rates, runs_of, span, told, widths_axis)
from dmft.plot import axes as draw
from dmft.plot import sweeps
from dmft.plot.layout import legend
from dmft.plot.select import quantity
from dmft.plot.style import BANDS, BARS, COLOURS
from dmft.study.curves import compare
from tables import samples_of
from verdict import (EXPONENT, SEEN, above, all_of, below, by_intervals, drift, interval, judge,
                     near, of_optimum, of_runs, within_factor)

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
        ax.set(title=name(point[0]), yscale="linear", ylim=(0, 0.55))
    axes[1].set_ylabel("")
    return legend(figure, axes[0], "width (runs)\n" + BANDS), delays(run)


def half_times(losses):
    """Interpolated times [curve] at which losses [curve, t] have fallen to half; NaN: never."""
    below_half = losses < losses[:, :1] / 2
    t, row = np.maximum(below_half.argmax(1), 1), np.arange(len(losses))
    here, before = losses[row, t], losses[row, t - 1]
    return np.where(below_half.any(1), t - (losses[:, 0] / 2 - here) / (before - here), np.nan)


def delays(run):
    """What widths do to the loss, in muP and MSSP."""
    parts = {point[0]: part for point, part in run.points.items()}
    seen = []
    for side, part in parts.items():
        N = np.array(list(part.reference))
        loss = at_widths(part, "loss")[1]
        t = [half_times(data["loss"].values[None])[0] for data in part.reference.values()]
        samples = [half_times(np.exp(of_runs(data["loss_runs"].values, n)))
                   for n, data in part.reference.items()]
        x = np.log(N) - np.log(N).mean()
        later = x @ np.array(samples) / (x @ x)
        seen.append((judge(later, above(1) if side == "mup" else near(0, 1)), f"""{name(side)}: the
            loss has halved at
            t = {", ".join(f"{one:.1f}" for one in t)} for N = {", ".join(f"{n:g}" for n in N)},
            later by {span(float(x @ t / (x @ x)), *interval(later))} steps for each factor e of N;
            at the last step it is {", ".join(f"{one:.2g}" for one in loss)}"""))
    still = of_limit(parts["mup"], "loss")[0] / parts["mup"].limit["loss"].values[0]
    seen.append((abs(still - 1) < 1e-6, "the limit of \u03bcP does not train: its "
                 f"final loss over its initial loss is {still:.3f}"))
    return seen


def trusted(part):
    """A run whose limit ends where its loss, a jackknife estimate, is not known to be above 0, or
    is known to rise: at the edge of stability each replicate oscillates in its own time, and their
    mean is no curve any more."""
    mean, half = (one.values for one in quantity(part.limit, "loss"))
    rises = mean[1:] - half[1:] > mean[:-1] + half[:-1]
    doubtful = (mean < half) | np.append(False, rises)
    first = int(doubtful.argmax()) if doubtful.any() else len(doubtful)
    loss = part.limit["loss"].where(np.arange(len(doubtful)) < first)
    return dmft.Result(part.path, {**part, "limit": part.limit.assign(loss=loss)})


def parts_over_time(run):
    """muP beside MSSP: the loss, and how the parts of two signals depend on the width."""
    figure, axes = grid(3, 2, 1.9, sharex=True, sharey="row")
    for column, (point, part) in zip(axes.T, run.points.items()):
        draw.loss(column[0], trusted(part))
        end_of_limit(column[0])
        column[0].set_title(name(point[0]))
        for ax, (words, terms) in zip(column[1:], TERMS.items()):
            for level in (-0.5, -1, -1.5, -2):
                ax.axhline(level, color="0.9", lw=0.7, zorder=0)
            draw.exponents(ax, part, {label: f"rms_{term}" for term, label in terms.items()})
            least = min(np.nanmin(line.get_ydata()) for line in ax.lines)
            ax.set(ylim=(min(ax.get_ylim()[0], least - 0.2), 0.9),
                   ylabel=words + "\n" + r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
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
        claim = below(-EXPONENT) if point[0] == "mup" else near(0, EXPONENT)
        good = all_of(judge(of_exponent(part, term, early), claim)
                      for term in ("rms_A1", "rms_A21"))
        seen.append((good, f"{name(point[0])}: exponents {'; '.join(words)}"))
    return seen


def scaled(pair):
    """Half of a 95 % interval as a standard error."""
    return pair[0], pair[1] / 2


# What is said of the best rate, and of the loss there, from the smallest width to the largest:
# words, and claims on the logarithms of their ratios; for rates by a line through all widths, for
# losses, which level off, by the two ends.
RATE = {"stays": (" transfers", within_factor(1.25)), "rises": (" rises", above(np.log(1.1))),
        "falls": (" falls", below(-np.log(1.1)))}
LOSS = {"better": (" gets better", below(0)), "worse": (" gets worse", above(0)),
        "no better": (" does not get better", above(np.log(0.9))), "any": ("", None)}


def transfers(best, rate: str, loss: str):
    """(verdict, samples of the logarithm of the factor of change) of what is said of the best rate,
    and of what is said of the objective there."""
    losses = of_optimum(best, "objective")
    moved, gained = drift(best["N"].values, of_optimum(best)), losses[-1] - losses[0]
    claim = LOSS[loss][1]
    return (judge(moved, RATE[rate][1]), moved), \
        (judge(gained, claim) if claim else SEEN, gained)


def curve_of(run, cell, N):
    """The curve of one width over the rate, to be laid on others; rates at which networks failed
    are not used."""
    key, runs = run["optimum"].attrs["key"], {}
    for rate in run.sweep[key].values:
        where = cell | {key: rate, "N": N}
        failed = str(run.units().sel(where).item()).endswith(".partial")
        runs[rate] = np.full(2, np.nan) if failed else runs_of(run, where)
    return samples_of(runs, N)


def whole_curve(run, cell, best, rate: str):
    """Of what is said of the rate: (verdict, a sentence) by the whole curve of the objective over
    the rate, laid on that of the smallest width, and how far the two are apart at the same rates;
    of the two largest widths, too."""
    N = best["N"].values
    first, before, last = (curve_of(run, cell, n) for n in (N[0], N[-2], N[-1]))
    words = []
    for narrow, found in ((N[0], compare(first, last)), (N[-2], compare(before, last))):
        moved = f"is moved by {span(*found[:3])} in the rate from" if np.isfinite(found[0]) else \
            "cannot be laid on"
        words.append(f"that of N = {N[-1]:g} {moved} that of N = {narrow:g}, and is apart from it "
                     f"by {span(*found[3:])} at the same rates")
        if narrow == N[0]:
            ends = np.log(found[1:3])
            verdict = by_intervals([ends], RATE[rate][1]) if np.isfinite(ends).all() else None
    return verdict, "; ".join(words)


def rates_seen(run, cells, titles, said, whole: bool = False):
    """Two sentences for each panel, on the best rate and on the loss there. said[k]: what is said
    of them. whole: the rate is judged by the whole curve instead."""
    seen, objective = [], sweeps.compared(run.sweep)[1]
    for cell, title, (rate, loss) in zip(cells, titles, said):
        every = optimum(run, cell)
        finite = np.isfinite(every["N"].values)
        best, limit = every.isel(N=finite), every.isel(N=~finite)
        (moves, moved), (gains, gained) = transfers(best, rate, loss)
        curve = ""
        if whole:
            moves, curve = whole_curve(run, cell, best, rate)
            curve += "; best \u03b7\u2080 "
        widths = ", ".join(f"{n:g}" for n in best["N"].values)
        ends = [f"; in the limit {told(limit, key)}" * bool(limit.sizes["N"])
                for key in ("at", "objective")]
        subject = "curve" if whole else "best \u03b7\u2080"
        seen += [(moves, f"""{title}: the {subject}{RATE[rate][0]}: {curve}{told(best)} at
                  N = {widths} (change along a line through them: {factor(moved)}){ends[0]}"""),
                 (gains, f"""{title}: the {objective} at the best \u03b7\u2080{LOSS[loss][0]}:
                  {told(best, "objective")} (change from the first to the last:
                  {factor(gained)}){ends[1]}""")]
    return seen


def lr_transfer(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = [f"{name(cell['network.parameterization'])}, w(0) "
              f"{'zero' if cell['network.read_out'] == 'zero' else '1/N'}" for cell in cells]
    said = [("rises", "worse"), ("stays", "better"), ("stays", "better"),
            ("stays", "better")]
    return rates(run, cells, titles), rates_seen(run, cells, titles, said)


def rates_adam(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = [f"{name(cell['network.parameterization'])}, Adam" for cell in cells]
    return rates(run, cells, titles), rates_seen(run, cells, titles, [
        ("rises", "no better"), ("stays", "better")], whole=True)


def rates_regime3(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = ["\u03bcP, gradient descent", "MSSP, gradient descent", "\u03bcP, Adam", "MSSP, Adam",
              "MSSP, Adam, top-K"]
    return rates(run, cells, titles), rates_seen(run, cells, titles, [
        ("rises", "worse"), ("stays", "better"), ("rises", "no better"), ("stays", "better"),
        ("stays", "better")], whole=True)


def rates_regime1(run):
    cells = sweeps.cells(run["sweep"], "training.eta0")
    titles = ["\u03bcP", "MSSP", "\u03bcP, Adam", "MSSP, Adam", "\u03bcP, softmax",
              "SP, softmax"]
    said = [("stays", "any")] * 5 + [("falls", "any")]
    return rates(run, cells, titles), rates_seen(run, cells, titles, said, whole=True)


def fig2(*runs):
    """The objective at the rate that is best at the smallest width, against the width."""
    wanted = [("Regime II, gradient descent", runs[0], {"network.read_out": "zero"}),
              ("Regime II, Adam", runs[1], {}),
              ("Regime III, gradient descent", runs[2], "gd 1"),
              ("Regime III, Adam", runs[2], "adam 1")]
    figure, axes = grid(2, 2, 2.2)
    seen = []
    for ax, (title, run, more) in zip(axes.flat, wanted):
        ends = {}
        for k, side in enumerate(("mup", "mssp")):
            cell = {"network.parameterization": side} | more if isinstance(more, dict) else \
                {"network.parameterization,training.optimizer,network.rho": f"{side} {more}"}
            part = run["sweep"].sel(cell)
            part = part.isel(N=np.flatnonzero(np.isfinite(part["N"].values)))
            least = np.nanargmin(part["objective"].isel(N=0).values)
            eta0 = part["training.eta0"].values[least]
            part = part.sel({"training.eta0": eta0})
            N, loss, se = (part[key].values for key in ("N", "objective", "objective_se"))
            ax.errorbar(N, loss, sweeps.half_bars(part), color=COLOURS[k], capsize=2,
                        marker="os"[k], ms=4, ls=("--", "-")[k],
                        label=f"{name(side)}")
            samples = [of_runs(runs_of(run, cell | {"training.eta0": eta0, "N": n}), n)
                       for n in N[[0, -1]]]
            ends[side] = loss, se, eta0, samples
        widths_axis(ax, N)
        words = sweeps.compared(run["sweep"])[1]
        ax.set(title=title, yscale="log", ylabel=words)
        (mup, mup_se, a, wide), (mssp, mssp_se, b, own) = ends["mup"], ends["mssp"]
        seen += [(judge(own[-1] - wide[-1], below(0)), f"""{title}: MSSP is better than \u03bcP at
                  N = {N[-1]:g}: {words} {pm(mssp[-1], mssp_se[-1])} (\u03b7\u2080 = {b:.3g}) and
                  {pm(mup[-1], mup_se[-1])} (\u03b7\u2080 = {a:.3g}), MSSP over \u03bcP
                  {factor(own[-1] - wide[-1])}"""),
                 (judge(own[-1] - own[0], below(0)), f"""{title}: MSSP gets better from N =
                  {N[0]:g}, where it has {pm(mssp[0], mssp_se[0])} (\u03bcP
                  {pm(mup[0], mup_se[0])}), to N = {N[-1]:g}: {factor(own[-1] - own[0])}""")]
        losses = np.concatenate([one[0] for one in ends.values()])
        ax.set_ylim(0.6 * np.nanmin(losses), 1.6 * np.nanmax(losses))
        sweeps.scale(ax.yaxis, losses)
    return legend(figure, axes[0, 0], BARS), seen
