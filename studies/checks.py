"""More pictures of How to Scale Mixture-of-Experts: coordinate checks, multipliers, eps, cures,
depth; see scaling.py."""
from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np

from common import (at_widths, exponent, factor, fit_y, grid, name, pm, runs_of, samples_over,
                    span, told as optima_told, widths_axis)
from dmft.plot import sweeps
from dmft.plot.axes import band
from dmft.plot.layout import legend
from dmft.plot.select import quantity, shades, slope
from dmft.plot.style import BANDS, BARS, COLOURS
from dmft.study.curves import compare
from scaling import scaled
from tables import samples_of
from verdict import (EXPONENT, SEEN, above, all_of, below, judge, near, of_interval, of_ratio,
                     of_taking, opposite)

EARLY = 2
MUP = "\u03bcP"
AGGREGATED = {"rms_A1": "$A_1$", "rms_A21": "$A_{21}$", "rms_A22": "$A_{22}$", "rms_A3": "$A_3$"}
BACK = {"rms_A4": "$A_4$", "rms_A5": "$A_5$", "rms_E": "$E$", "rms_A6": "$A_6$"}
MEANING = {"rms_Q_init": "initial", "rms_Q_prop": "propagating",
           "rms_Q_eff": "effective", "rms_A1": "A1", "rms_A21": "A21", "rms_A22": "A22",
           "rms_A3": "A3", "rms_A4": "A4", "rms_A5": "A5", "rms_A6": "A6", "rms_E": "E",
           "rms_h3i_prop": "one expert, propagating", "rms_b_00": "b(00)", "rms_W1_eff": "W1"}


PARTS = {"init": "initial", "prop": "propagating", "eff": "effective"}


def of_blocks(ax, run, count: int) -> dict:
    """Exponents in N of the three parts of what W_out of each block adds, a colour for each part:
    hollow at an early step, filled at the last. Gives {block: {words: ((early, se), late)}}."""
    found = {}
    for level in (0, -0.5, -1, -1.5):
        ax.axhline(level, color="0.5" if level == 0 else "0.9", lw=0.7, zorder=0)
    for block in range(count):
        for k, (part, words) in enumerate(PARTS.items()):
            both = [scaled(exponent(run, f"rms_W_out_{block}_{part}", t)) for t in (EARLY, -1)]
            found.setdefault(block + 1, {})[words] = both
            for (value, se), fill, shift in zip(both, ("white", COLOURS[k]), (-0.05, 0.05)):
                ax.errorbar(block + 1 + 0.25 * (k - 1) + shift, value, 1.96 * se, capsize=0, lw=1,
                            color=COLOURS[k], mfc=fill, marker="os^"[k], ms=4)
    ax.set(xlabel="block", xticks=range(1, count + 1), xlim=(0.5, count + 0.5), ylim=(-4.2, 1.2))
    return found


def ladder(ax, parts: dict, terms: dict, early: int = EARLY):
    """Exponents in N of some terms, a colour for each of the parts {label: run}: filled at the last
    step, hollow at an early one. Gives {label: {term: ((early, se), (late, se))}}."""
    found = {}
    for level in (0, -0.5, -1, -1.5):
        ax.axhline(level, color="0.5" if level == 0 else "0.9", lw=0.7, zorder=0)
    for k, (label, run) in enumerate(parts.items()):
        found[label] = {}
        for x, term in enumerate(terms):
            if not all(term in data for data in run.reference.values()):
                continue
            both = [scaled(exponent(run, term, t)) for t in (early, -1)]
            if not np.isfinite(both[1][0]):
                continue
            found[label][term] = both
            for (value, se), fill, shift in zip(both, ("white", COLOURS[k]), (-0.07, 0.07)):
                place = x + 0.3 * (k - (len(parts) - 1) / 2) + shift
                ax.errorbar(place, value, 1.96 * se, color=COLOURS[k], mfc=fill, marker="os^"[k],
                            ms=4, capsize=0, lw=1)
        ax.plot([], [], color=COLOURS[k], marker="os^"[k], ms=4, ls="", label=label)
    times(ax, early)
    ax.set_xticks(range(len(terms)), terms.values())
    ax.set_ylim(-2.4, 1.2)
    return found


def times(ax, early: int) -> None:
    """What hollow and filled points mean, for the legend."""
    ax.plot([], [], color="0.4", marker="o", mfc="white", ms=4, ls="", label=f"$t = {early}$")
    ax.plot([], [], color="0.4", marker="o", ms=4, ls="", label="last step")


def seen_at(pair, claim, among: int = 1):
    """Verdict on an exponent with its standard error, as ladder() gives them."""
    return judge(of_interval(pair[0], 2 * pair[1]), claim, among)


def without_math(label: str) -> str:
    """W_in, eff.: of a label with mathematics."""
    return re.sub(r"[${}]", "", label.replace(r"^\top", "^T"))


def told(found: dict, terms, names=MEANING) -> str:
    """initial -0.50(1) and -0.50(2), ...: early and late. A term without a name has its label."""
    return ", ".join(f"{names.get(term) or without_math(terms[term])} "
                     f"{pm(*found[term][0])} and {pm(*found[term][1])}"
                     for term in terms if term in found)


def coordinate_regime1(run):
    key = "training.optimizer,training.eta0,network.rho"
    figure, axes = grid(2, 2, 2.2, sharex=True, sharey=True)
    terms = {"rms_Q_init": "router,\ninitial", "rms_Q_prop": "router,\nprop.",
             "rms_Q_eff": "router,\neff.", "rms_W1_eff": "$W_1$,\neff.", "rms_W2_prop":
             "$W_2$,\nprop.", "rms_W2_eff": "$W_2$,\neff."}
    seen = []
    for ax, text in zip(axes.flat, run.sweep[key].values):
        optimizer, rho = str(text).split()[0], float(str(text).split()[2])
        parts = {name(side): run.points[side, optimizer, float(str(text).split()[1]), rho]
                 for side in ("mup", "mssp")}
        title = f"{'Adam' if optimizer == 'adam' else 'gradient descent'}, " \
            f"{'soft' if rho == 1 else 'top-2 of 4'}"
        found = ladder(ax, parts, terms)
        ax.set(title=title, ylim=(-1.1, 0.6))
        mup, mssp = found[MUP], found["MSSP"]
        absent = "rms_Q_prop" not in mssp and "rms_Q_init" not in mssp
        good = all_of([absent, seen_at(mup["rms_Q_prop"][1], below(-EXPONENT)),
                       seen_at(mssp["rms_Q_eff"][1], near(0, EXPONENT))])
        seen.append((good, f"""{title}: exponents of the router's parts, at
            t = {EARLY} and at the last step: \u03bcP {told(mup, list(terms)[:3])}; MSSP
            {"has no initial and propagating part, " if absent else ""}
            {told(mssp, list(terms)[2:3])}"""))
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
    return legend(figure, axes[0, 0], "read-out zero\n" + BARS), seen


def coordinate_checks(second, third):
    figure, axes = grid(4, 2, 1.75, sharey=True)
    terms = AGGREGATED | BACK
    settings = [(second, f"Regime II, {a}, $w(0)$ {b}", f"{c} {d}") for a, b, c, d in (
        ("gradient descent", "1/N", "gd 1", "normal"), ("Adam", "zero", "adam 0.2", "zero"),
        ("Adam", "1/N", "adam 0.2", "normal"))]
    settings += [(third, f"Regime III, {a}", b) for a, b in (
        ("gradient descent, $w(0)$ 1/N, top-K", "gd 0.5 normal 0.5"),
        ("Adam, $w(0)$ zero", "adam 0.2 zero 1"), ("Adam, $w(0)$ 1/N", "adam 0.2 normal 1"),
        ("Adam, $w(0)$ 1/N, top-K", "adam 0.2 normal 0.5"))]
    seen = []
    for ax, (run, title, text) in zip(axes.flat, settings):
        point = tuple(float(word) if word[0].isdigit() else word for word in text.split())
        parts = {name(side): run.points[(side, *point)] for side in ("mup", "mssp")}
        found = ladder(ax, parts, terms)
        ax.set_title(title, fontsize=8)
        mup, mssp = found[MUP], found["MSSP"]
        size = {side: max((pair[0] for pair in some.values()), key=lambda pair: abs(pair[0]))
                for side, some in found.items()}
        good = all_of([seen_at(mup["rms_A1"][1], below(-EXPONENT)),
                       seen_at(mup["rms_A21"][0], below(-EXPONENT)),
                       *(seen_at(mssp[term][0], near(0, EXPONENT), len(AGGREGATED))
                         for term in AGGREGATED if term in mssp)])
        seen.append((good, f"""{title.replace("$", "")}: exponents at t = {EARLY}
            and at the last step: \u03bcP {told(mup, ["rms_A1", "rms_A21"])}; MSSP
            {told(mssp, ["rms_A1", "rms_A21"])}; the largest of all parts at t = {EARLY}:
            {pm(*size[MUP])} in \u03bcP, {pm(*size["MSSP"])} in MSSP"""))
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$d\,\log\mathrm{rms}\,/\,d\,\log N$", fontsize=8)
    axes[0, 0].set_ylim(-2.9, 1.2)
    axes.flat[-1].set_visible(False)
    return legend(figure, axes[0, 0], BARS), seen


LAYERS = {"rms_W1_eff": "$W_1$ eff.", "rms_Q_prop": "$Q$ prop.", "rms_Q_eff": "$Q$ eff.",
          "rms_A_in_prop": "$W_{in}$ prop.", "rms_P_in_eff": "$W_{in}$ eff.",
          "rms_A_out_prop": "$W_{out}$ prop.", "rms_P_out_eff": "$W_{out}$ eff.",
          "rms_I6_prop": r"$W_{in}^\top$ prop.", "rms_I6_eff": r"$W_{in}^\top$ eff."}


def coordinate_wide(run):
    """MSSP of Regime III alone, each term at t = 2 and at the last step. A_in and A_out are what
    all experts begin with, which does not learn; P_in and P_out are what each has learned; I6 is
    the sum over experts of what W_in hands back."""
    figure, axes = grid(2, 2, 2.4, sharex=True, sharey=True)
    seen, terms = [], LAYERS | AGGREGATED | BACK
    for ax, (point, part) in zip(axes.flat, run.points.items()):
        _, optimizer, _, rho = point
        title = ("gradient descent", "Adam")[optimizer == "adam"] + ", top-K" * (rho < 1)
        found = ladder(ax, {"MSSP": part}, terms)["MSSP"]
        ax.set(title=title, ylim=(-0.6, 0.6))
        ax.tick_params(axis="x", rotation=90, labelsize=7)
        for words, some in (("parts of each layer", LAYERS),
                            ("parts of the sum over experts", AGGREGATED),
                            ("parts of its gradient", BACK)):
            known = [pair for term in some if term in found for pair in found[term]]
            seen.append((all_of(seen_at(pair, near(0, EXPONENT), len(known)) for pair in known),
                         f"{title}, {words}: exponents at t = {EARLY} and at the last step: "
                         f"{told(found, some, {} if some is LAYERS else MEANING)}"))
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$d\,\log\mathrm{rms}\,/\,d\,\log N$", fontsize=8)
    return legend(figure, axes[0, 0], BARS), seen


def fraction(value: float) -> str:
    """1/4, 1, 4"""
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def multipliers(run, units):
    figure, axes = grid(2, 3, 2.2, width_ratios=[1, 1, 1.1])
    key = run.sweep["loss"].dims[0]
    points = np.array([[float(word) for word in str(text).split()] for text in
                       run.sweep[key].values])
    N = run.sweep["N"].values
    seen, names = [], [("initial scales", r"scale of $W_{in}$", r"scale of $W_{out}$",
                        (0, 1)), ("learning rates", r"rate of $W_{in}$", r"rate of $W_{out}$",
                                  (2, 3))]
    loss = np.log10(run.sweep["objective"].values)
    limits = np.nanmin(loss), min(np.nanmax(loss), 0)
    for row, n in zip(axes, (0, 1)):
        for ax, (title, beneath, beside, (a, b)) in zip(row, names):
            other = [c for c in range(4) if c not in (a, b)]
            here = (points[:, other] == 1).all(1)
            x, y = np.unique(points[here, a]), np.unique(points[here, b])
            values = np.full((len(y), len(x)), np.nan)
            for point, one in zip(points[here], loss[here, n]):
                values[np.searchsorted(y, point[b]), np.searchsorted(x, point[a])] = one
            image = ax.imshow(values, origin="lower", cmap="viridis", vmin=limits[0],
                              vmax=limits[1], aspect="auto")
            low_j, low_i = np.unravel_index(np.nanargmin(values), values.shape)
            ax.plot(low_i, low_j, "o", ms=8, mfc="none", color="red")
            for j, i in zip(*np.nonzero(np.isnan(values))):
                ax.plot(i, j, "x", ms=5, color="0.5")
            ax.set_xticks(range(len(x)), [fraction(one) for one in x])
            ax.set_yticks(range(len(y)), [fraction(one) for one in y])
            ax.set(title=f"{title}, $N = {N[n]:.0f}$", xlabel=beneath, ylabel=beside)
            best = np.nanargmin(np.where(here, loss[:, n], np.inf))
            ones = int(np.flatnonzero((points == 1).all(1))[0])
            drawn = np.flatnonzero(here)
            narrow, wide = (samples_over(run, {"N": width}, key, run.sweep[key].values[drawn])
                            for width in N[[0, n]])
            own, plain = wide[:, drawn == best][:, 0], wide[:, drawn == ones][:, 0]
            cost = of_taking(wide, narrow)
            seen.append((judge(plain - own, above(np.log(3))), f"""{title}, N = {N[n]:g}: the best
                multipliers of W_in and W_out are {x[low_i]:g} and {y[low_j]:g}, with loss
                {10 ** values[low_j, low_i]:.2g}; with both 1 it is {10 ** loss[ones, n]:.2g}, more
                than three times as large ({factor(plain - own)})"""))
            if n:
                seen.append((judge(cost, below(np.log(2))), f"""{title}, N = {N[n]:g}: with
                    the multipliers that are best at N = {N[0]:g} the loss is less than twice that
                    with the best, both of each sample ({factor(cost)})"""))
    figure.colorbar(image, ax=axes[:, 1], shrink=0.6,
                    label="log$_{10}$ of the " + sweeps.compared(run.sweep)[1])
    plain = run.points[1.0, 1.0, 1.0, 1.0]
    for ax, (top, bottom, words) in zip(axes[:, 2], (
            ("rms_A21", "rms_A3", "forward"), ("rms_A4", "rms_E", "backward"))):
        ax.set_yscale("log")  # bands that reach 0 are hatched then
        for k, (n, data) in enumerate(plain.reference.items()):
            for term, style in ((top, "-"), (bottom, "--")):
                mean, half = (one.values for one in quantity(data, term))
                band(ax, mean, half, COLOURS[k], ls=style, label=f"$N = {n}$, {draw_name(term)}")
        ax.set(xlabel="step $t$", ylabel="rms", title=f"multipliers 1, {words}")
        least = min(line.get_ydata()[line.get_ydata() > 0].min() for line in ax.lines)
        hatched = any(one.get_hatch() for one in ax.collections)
        ax.set_ylim(bottom=least / 2)
        ax.legend(fontsize=6.5, handlelength=1.6, title_fontsize=6.5,
                  loc="lower right", title=BANDS + "\nhatched: down to 0" * hatched)
    widths = "N = " + ", ".join(f"{n:g}" for n in plain.reference)
    for top, bottom, words in (("A21", "A3", "forward"), ("A4", "E", "backward, finer"),
                               ("I6_prop", "I6_eff", "backward, by (I.6)")):
        early, late, other = ([ratio(data, top, bottom, t) for data in part.reference.values()]
                              for part, t in ((plain, EARLY), (plain, -1),
                                              (units.points[0.001, 12288.0], EARLY)))
        seen.append((SEEN, f"""multipliers of 1, {words}: {top} over {bottom} is {listed(early)}
            at t = {EARLY} and {listed(late)} at the end, {widths}"""))
        here, there = (all_of(judge(one, above(np.log(1e6)), len(two)) for _, one in two)
                       for two in (early, other))
        if bottom != "E":  # of second order in what is learned, which the paper does not name
            seen.append((here if here == there else None, f"""multipliers of 1, {words}: it is
                more than 10^6 at t = {EARLY}: {listed(early)}, {widths}, and with the paper's rate
                of W1, without 1/D, D = 12288 and \u03b7\u2080 = 0.001 {listed(other)}"""))
    return figure, seen


def ratio(data, top: str, bottom: str, t: int):
    """The ratio of two series at time t, and samples of its logarithm, as if their errors were
    independent."""
    mean, half = np.transpose([[one.values[t] for one in quantity(data, "rms_" + term)]
                               for term in (top, bottom)])
    return mean[0] / mean[1], of_ratio(mean, half)


def listed(ratios) -> str:
    """5.2e+04, 7.1e+04"""
    return ", ".join(f"{value:.2g}" for value, _ in ratios)


def draw_name(term: str) -> str:
    return AGGREGATED.get(term) or BACK[term]


def adam_eps(run):
    figure, axes = grid(1, 3, 2.6)
    axes = axes[0]
    seen = []
    for k, (label, point) in enumerate(zip(("eps of each matrix", "one eps"),
                                           run.points.values(), strict=True)):
        found, widths, losses = point.reference, list(point.reference), []
        for N, shade in zip(widths, shades(len(widths))):
            mean, half = quantity(found[N], "loss")
            band(axes[k], mean.values, half.values, shade, label=f"$N = {N}$")
            losses.append(float(found[N]["loss"].values[-1]))
        axes[k].set(title=label, xlabel="step $t$", ylabel="loss")
        for c, (term, words) in enumerate((("rms_W1_eff", r"$\Delta W_1$"), ("rms_Q_eff",
                                          r"router, $\Delta Q$"), ("rms_P_in_eff", "experts in"),
                                          ("rms_P_out_eff", "experts out"))):
            N, mean, half = at_widths(point, term)
            axes[2].errorbar(N, mean, half, color=COLOURS[c], ls="-" if k == 0 else "--",
                             marker="osD^"[c], mfc=COLOURS[c] if k == 0 else "white", ms=4,
                             capsize=2, label=words if k == 0 else None)
            power, error = scaled(slope(N, mean, half))
            claim = near(0, EXPONENT) if k == 0 else below(-EXPONENT)
            good = judge(of_interval(power, 2 * error), claim) if k == 0 or term != "rms_W1_eff" \
                else SEEN  # nothing is claimed of the first layer
            seen.append((good, f"{label}: at the last step, what {term[4:-4]} has learned "
                         f"goes as N^{pm(power, error)} (rms)"))
        seen.append((SEEN, f"{label}: final loss {', '.join(f'{x:.2g}' for x in losses)} at N = "
                     f"{', '.join(map(str, widths))}"))
    for ax in axes:
        fit_y(ax)
    axes[1].set_ylim(axes[0].get_ylim())
    axes[0].legend(fontsize=7, title=BANDS, title_fontsize=7)
    axes[2].set(ylabel="rms of what is learned", title="last step")
    axes[2].plot([], [], color="0.4", label="eps of each")
    axes[2].plot([], [], color="0.4", ls="--", label="one eps")
    widths_axis(axes[2], widths)
    return legend(figure, axes[2], BARS), seen


HIDDEN = {"rms_b_0d": "$b_{0d}$", "rms_b_dd": "$b_{dd}$"}  # the others are zero: w(0) = 0


def cures(third, second, plain):
    """Each cure in the regime of the other, beside what it should be compared with."""
    figure, axes = grid(2, 1, 2.5, sharex=True)
    terms = AGGREGATED | BACK | HIDDEN
    tied = {N: second.points[8 / N,].reference[N]
            for N in next(iter(second.points.values())).reference}
    for N, data in tied.items():  # regime3 multiplies b by N
        tied[N] = data.assign({key + more: data[key + more] / N for key in HIDDEN
                               for more in ("", "_se") if key + more in data})
    tied = SimpleNamespace(reference=tied)
    boosted = {str(point[0]): part for point, part in third.points.items()}
    settings = [("Regime II: experts that begin equal",
                 {"\u03bcP": plain.points["mup",], "MSSP": plain.points["mssp",],
                  "\u03bcP, equal experts": tied}),
                (r"Regime III: initial $W_{out}$ times $\sqrt{N}$",
                 {"\u03bcP": boosted["1"], "\u03bcP, $W_{out}(0)$ times $\\sqrt{N}$":
                  next(part for key, part in boosted.items() if key != "1")})]
    seen = []
    for ax, (title, parts) in zip(axes[:, 0], settings):
        found = ladder(ax, parts, terms)
        ax.set(title=title, ylim=(-3.2, 2.2), ylabel=r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=BARS, fontsize=7,
                  handlelength=1)
        last = list(found)[-1]
        some = found[last]
        plain_title = title.replace(r"$\sqrt{N}$", "N^1/2").replace("$W_{out}$", "W_out")
        good = opposite(all_of(seen_at(pair[0], near(0, EXPONENT), len(some))
                               for pair in some.values())) if "MSSP" in found else \
            seen_at(some["rms_b_0d"][0], near(0.5, EXPONENT))  # the gradient of the hidden units
        seen.append((good, f"""{plain_title}, exponents at t =
            {EARLY}: {", ".join(f"{term[4:]} {pm(*pair[0])}" for term, pair in some.items())}"""))
        if "MSSP" in found:
            pairs = [pair[0] for pair in found["MSSP"].values()]
            good = all_of(seen_at(pair, near(0, EXPONENT), len(pairs)) for pair in pairs)
            worst = max(pairs, key=lambda pair: abs(pair[0]))
            seen.append((good, f"MSSP in Regime II: the largest of these exponents is "
                               f"{pm(*worst)}"))
    return figure, seen


def over_depth(run, N):
    """{depth: (shift, low, high, factor, low, high)} of the whole curve over the rate, beside that
    of the smallest depth; intervals hold for all depths and widths together."""
    depths, eta0 = (run.sweep[key].values for key in ("network.depth", "training.eta0"))
    curves = {depth: samples_of({rate: runs_of(run, {"network.depth": depth, "N": N,
                                                     "training.eta0": rate}) for rate in eta0}, N)
              for depth in depths}
    among = (len(depths) - 1) * run.sweep.sizes["N"]
    return {depth: compare(curves[depths[0]], curves[depth], among) for depth in depths[1:]}


def depths_seen(run, N, found):
    """Two sentences on how far curves over the rate are apart at all depths, and how they move."""
    best = optima_told(run["optimum"].sel(N=N))
    first, depths = run.sweep["network.depth"].values[0], ", ".join(f"{one:g}" for one in found)
    seen = []
    for at, (words, more) in enumerate((
            (f"laid on that of depth {first:g}, the curve over the rate of depth {depths} does not "
             "move by a factor of 1.25", f"; best \u03b7\u2080 at all depths {best}"),
            (f"at the same rates losses of depth {depths} are those of depth {first:g} within a "
             "factor of 1.25", ""))):
        ends = np.array([one[3 * at:3 * at + 3] for one in found.values()])
        inside = ends[:, 1] > 1 / 1.25, ends[:, 2] < 1.25
        outside = (ends[:, 1] > 1.25) | (ends[:, 2] < 1 / 1.25)
        verdict = False if outside.any() else True if np.all(inside) else None
        seen.append((verdict, f"N = {N:g}: {words}: "
                     f"{', '.join(span(*one) for one in ends)}{more}"))
    return seen


def stack_depth(rates, blocks):
    figure, axes = grid(2, 3, 2.2)
    sweep = rates.sweep
    widths = sweep["N"].values
    depths = sweep["network.depth"].values
    seen = []
    for ax, n in zip(axes[0], range(len(widths))):
        for k, depth in enumerate(depths):
            one = sweep.sel({"network.depth": depth}).isel(N=n)
            ax.errorbar(sweep["training.eta0"].values, one["objective"].values,
                        sweeps.half_bars(one),
                        color=COLOURS[k], marker="osD^"[k], ms=3.5, lw=1.1, capsize=2,
                        label=f"depth {depth:g}")
        ax.set(yscale="log", title=f"$N = {widths[n]:.0f}$", xlabel=r"learning rate $\eta_0$",
               ylabel=sweeps.compared(sweep)[1])
        sweeps.scale(ax.xaxis, sweep["training.eta0"].values)
        sweeps.scale(ax.yaxis, sweep["objective"].values)
    axes[0, 0].legend(fontsize=7, title=BARS, title_fontsize=7)
    for n, N in enumerate(widths):
        found = over_depth(rates, N)
        seen += depths_seen(rates, N, found)
        shift, low, high = np.array([one[:3] for one in found.values()]).T
        axes[0, 2].errorbar(depths[1:] * 1.04 ** (n - 0.5), shift, (shift - low, high - shift),
                            capsize=2, lw=1.1, color=COLOURS[n], marker="os"[n], ms=4,
                            label=f"$N = {N:.0f}$")
    axes[0, 2].axhline(1, color="0.6", lw=0.8, zorder=0)
    axes[0, 2].set(xscale="log", xlabel="depth $L$", ylabel=r"factor in $\eta_0$",
                   title="shift of the curve")
    axes[0, 2].set_xticks(depths[1:], [f"{depth:g}" for depth in depths[1:]])
    axes[0, 2].set_xticks([], minor=True)
    axes[0, 2].legend(fontsize=7)
    for ax, (point, part) in zip(axes[1], blocks.points.items()):
        label = name(point[0]) + ("" if point[1] == "none" else ", RMSNorm after")
        found = of_blocks(ax, part, 3)
        ax.set_title(label)
        pairs = [pair[0] for parts in found.values() for pair in parts.values()]
        same = all_of(seen_at(pair, near(0, EXPONENT), len(pairs)) for pair in pairs)
        good = same if point[0] == "mssp" else opposite(same)
        seen.append((good, f"""three blocks in a row, {label}: exponents at t = {EARLY} of the
            initial, propagating and effective part of what each adds: {"; ".join(
            f"block {block} {', '.join(pm(*pair[0]) for pair in parts.values())}"
            for block, parts in found.items())}"""))
    for k, words in enumerate(PARTS.values()):
        axes[1, 0].plot([], [], color=COLOURS[k], marker="os^"[k], ms=4, ls="", label=words)
    times(axes[1, 0], EARLY)
    axes[1, 0].set_ylabel(r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
    axes[1, 0].legend(fontsize=6.5, loc="lower right", title=BARS, title_fontsize=6.5)
    return figure, seen
