"""The picture and the table of the scales of How to Scale Mixture-of-Experts; see scaling.py."""
from __future__ import annotations

from common import at_widths, grid, name, pm
from dmft.plot.layout import legend
from dmft.plot.select import slope
from dmft.plot.style import BARS, COLOURS
from scaling import scaled
from verdict import EXPONENT, all_of, judge, near, of_interval

# Exponents in N that appendices J.3.2, J.3.4, J.4.3 and J.4.5 print of the columns t = 1 and t = 2,
# None where a piece is exactly zero. Derivatives of f are here multiplied by the power of N (and M)
# that their leading piece has, so that 0 is the scale at which a piece matters. Names are those of
# the coordinate check (docs/output.md): "effective" contains what the tables call "cross", and A3
# their D; A4 to E and the pieces of the router are summed over the two pieces of the read-out.
HALF = (-0.5, 0)
STAYS, SMALL, NEVER = (0, 0), (-0.5, -0.5), (-1, 0)
LATE = (None, 0)
FORWARD = ("W1_eff", "W_in_prop", "W_in_eff", "h3i_init", "h3i_prop", "h3i_eff", "A1", "A21", "A22",
           "A3")
BACK = ("b_00", "b_0d", "b_d0", "b_dd", "A4", "A5", "A6", "E", "R00", "R0d", "Rd0", "Rdd")
PRINTED = {
    (2, "mup"): dict(zip(FORWARD + BACK, (
        HALF, HALF, HALF, STAYS, HALF, STAYS, SMALL, (-1, -0.5), (-1, -0.5), STAYS,
        SMALL, (-1, -0.5), STAYS, NEVER, SMALL, STAYS, (-1, -1), NEVER, SMALL, STAYS, (-1, -1),
        NEVER))),
    (2, "mssp"): dict(zip(FORWARD + BACK, (
        LATE, LATE, LATE, (0.5, 0.5), (None, 0.5), LATE, STAYS, LATE, LATE, LATE,
        None, STAYS, None, LATE, STAYS, LATE, LATE, LATE, STAYS, LATE, LATE, LATE))),
    (3, "mup"): dict(zip(FORWARD + BACK, (
        HALF, HALF, STAYS, STAYS, STAYS, STAYS, SMALL, (-1, -0.5), STAYS, STAYS,
        STAYS, HALF, STAYS, NEVER, SMALL, STAYS, STAYS, NEVER, None, STAYS, None, NEVER))),
    (3, "mssp"): dict(zip(FORWARD + BACK, (
        LATE, LATE, LATE, STAYS, LATE, LATE, STAYS, LATE, LATE, LATE,
        None, STAYS, None, LATE, STAYS, LATE, LATE, LATE, STAYS, LATE, LATE, LATE))),
}
SHARED = {"W_in_prop": "A_in_prop", "W_in_eff": "P_in_eff"}  # experts that begin equal
WORDS = {"init": "init.", "prop": "prop.", "eff": "eff."}
TIMES = (1, "t = 1"), (-1, "from t = 2 on")
OPTIMIZERS = "gradient descent", "Adam"


def label(term: str) -> str:
    """$A_{21}$, $W_{in}$ effective, ...: a piece on an axis."""
    if term.startswith("h3i_"):
        return "one expert, " + WORDS[term[4:]]
    head, _, part = term.rpartition("_")
    if part in WORDS:
        return f"${head[0]}_{{{head[1:].strip('_')}}}$ {WORDS[part]}"
    return f"${term[0]}_{{{term[1:].strip('_')}}}$" if len(term) > 1 else f"${term}$"


def measured(part, term: str, t: int):
    """Slope in ln N through the three largest widths at time t, and its error."""
    if not all("rms_" + term in data for data in part.reference.values()):
        term = SHARED[term]
    return scaled(slope(*(row[-3:] for row in at_widths(part, "rms_" + term, t))))


def exponents(second, third, second_adam, third_adam):
    """{(regime, parameterization): {piece: [at t = 1, later]}}, where each time that the piece is
    not zero has (printed, (value, error) by gradient descent, (value, error) by Adam)."""
    found = {}
    for regime, runs in ((2, (second, second_adam)), (3, (third, third_adam))):
        points = [run.points for run in runs]  # read once
        for point in points[0]:
            parts = [one[point] for one in points]
            found[regime, point[0]] = {
                term: [None if said is None else (said, *(measured(part, term, t)
                                                          for part in parts))
                       for said, (t, _) in zip(printed, TIMES)]
                for term, printed in PRINTED[regime, point[0]].items() if printed}
    return found


def told(title, cells, k: int, which: int) -> tuple[bool | None, str]:
    """Verdict and sentence on the pieces of one side at one time by one optimizer."""
    rows = {term: (times[k][0], *times[k][1 + which]) for term, times in cells.items() if times[k]}
    verdicts = {term: judge(of_interval(value, 2 * error), near(said, EXPONENT), len(rows))
                for term, (said, value, error) in rows.items()}
    agree = sum(good is True for good in verdicts.values())
    other = "; ".join(f"{term} {'disagrees' if verdicts[term] is False else 'is not decided'}: "
                      f"{pm(value, error)}, printed {said:g}"
                      for term, (said, value, error) in rows.items() if not verdicts[term])
    return all_of(verdicts.values()), (
        f"{title}, {OPTIMIZERS[which]}, {TIMES[k][1]}: {agree} of {len(rows)} exponents agree with "
        "those printed within 1/4" + (other and "; " + other))


def scales(*runs):
    """Exponents at t = 1 and at the last step by both optimizers, and as they are printed (lines);
    the same as a table."""
    figure, axes = grid(4, 1, 1.9, sharex=True)
    seen, terms = [], FORWARD + BACK
    heads = ["tables, parameterization", "piece"] + [
        word for t in ("t = 1", "t = 2") for word in (t + ", printed", *OPTIMIZERS)]
    table = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for ax, ((regime, side), cells) in zip(axes[:, 0], exponents(*runs).items()):
        title = f"Regime {'I' * regime}, {name(side)}"
        for level in (0.5, 0, -0.5, -1):
            ax.axhline(level, color="0.92", lw=0.7, zorder=0)
        for term, times in cells.items():
            for k, time in enumerate(times):
                place = terms.index(term) + 0.4 * k - 0.2
                for which, entry in enumerate(time[1:] if time else ()):
                    ax.plot([place - 0.17, place + 0.17], [time[0]] * 2, color="black", lw=2.2,
                            zorder=1)
                    ax.errorbar(place + 0.16 * which - 0.08, entry[0], 1.96 * entry[1],
                                color=COLOURS[k], marker="o^"[which], ms=3.5, lw=1)
            table.append(f"| {title} | {term} | " + " | ".join(
                " | ".join([f"{time[0]:g}", *(pm(*entry) for entry in time[1:])]) if time else
                "zero | | " for time in times) + " |")
        seen += [told(title, cells, k, which) for which in (0, 1) for k in (0, 1)]
        ax.set(title=title, ylim=(-1.6, 1), ylabel=r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
        ax.yaxis.label.set_fontsize(7)
        ax.set_xticks(range(len(terms)), map(label, terms), rotation=90, fontsize=7)
    for k, time in enumerate(("$t = 1$", "last step")):
        for which, optimizer in enumerate(OPTIMIZERS):
            axes[0, 0].plot([], [], ls="", marker="o^"[which], ms=4, color=COLOURS[k],
                            label=f"{optimizer},\n{time}")
    axes[0, 0].plot([], [], color="black", lw=2.2, label="printed")
    return legend(figure, axes[0, 0], BARS), seen, table
