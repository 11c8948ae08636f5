"""The picture of the tables of scales of How to Scale Mixture-of-Experts; see scaling.py."""
from __future__ import annotations

from common import at_widths, grid, name, pm
from dmft.plot.select import slope
from dmft.plot.style import BARS, COLOURS
from scaling import scaled
from verdict import EXPONENT, judge, near, of_interval

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


def measured(part, term: str, t: int):
    """Slope in ln N through the three largest widths at time t, and its error."""
    if not all("rms_" + term in data for data in part.reference.values()):
        term = SHARED[term]
    return scaled(slope(*(row[-3:] for row in at_widths(part, "rms_" + term, t))))


def scales(second, third):
    """Exponents at t = 1 (hollow) and at the last step, and as they are printed (lines)."""
    figure, axes = grid(4, 1, 1.75, sharex=True)
    seen = []
    cells = [(regime, point[0], part) for regime, run in ((2, second), (3, third))
             for point, part in run.points.items()]
    for ax, (regime, side, part) in zip(axes[:, 0], cells):
        title = f"Regime {'I' * regime}, {name(side)}"
        for level in (0.5, 0, -0.5, -1):
            ax.axhline(level, color="0.92", lw=0.7, zorder=0)
        for k, (t, words) in enumerate(((1, "t = 1"), (-1, "from t = 2 on"))):
            rows = []
            for x, (term, printed) in enumerate(PRINTED[regime, side].items()):
                if printed is None or printed[k] is None:
                    continue
                value, error = measured(part, term, t)
                rows.append((term, printed[k], value, error))
                place = x + 0.4 * k - 0.2
                ax.plot([place - 0.17, place + 0.17], [printed[k]] * 2, color="black", lw=2.2,
                        zorder=1)
                ax.errorbar(place, value, 1.96 * error, color=COLOURS[k], marker="os"[k], ms=4,
                            mfc="white" if k == 0 else COLOURS[k], lw=1)
            verdicts = [judge(of_interval(value, 2 * error), near(said, EXPONENT), len(rows))
                        for _, said, value, error in rows]
            most = verdicts.count(True) >= 0.9 * len(rows) or None
            seen.append((False if False in verdicts else most, f"""{title}, {words}:
                {verdicts.count(True)} of {len(rows)} exponents agree with
                those printed within 1/4, {verdicts.count(False)} disagree; measured
                (printed): {", ".join(f"{term} {pm(value, error)} ({said:g})"
                                      for term, said, value, error in rows)}"""))
        ax.set(title=title, ylim=(-1.6, 1), ylabel=r"$d\,\log\mathrm{rms}\,/\,d\,\log N$")
        ax.yaxis.label.set_fontsize(7)
        ax.set_xticks(range(len(FORWARD + BACK)), FORWARD + BACK, rotation=90, fontsize=7)
    for k, words in enumerate(("$t = 1$", "last step")):
        axes[0, 0].plot([], [], ls="", marker="os"[k], ms=4, color=COLOURS[k], label=words,
                        mfc="white" if k == 0 else COLOURS[k])
    axes[0, 0].plot([], [], color="black", lw=2.2, label="printed")
    axes[0, 0].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), title=BARS, fontsize=7)
    return figure, seen
