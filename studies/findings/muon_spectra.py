"""What Muon makes steps of: spectra of its momenta, and of what matrices have learned.

    python/with studies/findings/muon_spectra.py MUON_compare.h5 ADAM_compare.h5 [OUT.csv [OUT.png]]

Reads what dmft-compare wrote of muon_spectra.ini, and with --training.rest=Q, where Adam moves the
router. Of a momentum: its largest singular values over the root of the sum of their squares; the
participation, 1/(sum of their fourth powers), which counts those that carry it; how many are above
1/485, which Muon's step brings to about one. Of what was learned: the largest singular value, and
how many are above half of it.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from dmft.statistics import student  # noqa: E402
from tables import house, write_table  # noqa: E402
from verdict import WORDS, drift, judge, of_interval, within_factor  # noqa: E402

GAIN, TIMES = 485, (2, 8, 14, 20)
MATRICES = ("W_in", "W_out", "Q")
FACTOR = 1.5


def numbers(data, matrix, t):
    """Of means over runs, with standard errors where there are any."""
    out = []
    if f"singular_{matrix}_momentum" in data:
        s, se = (data[f"singular_{matrix}_momentum{end}"][t] for end in ("", "_se"))
        s, se = s[np.isfinite(s)], se[np.isfinite(s)]
        fourth = np.sum(s ** 4)
        out += [("momentum, largest", s[0], se[0]),
                ("momentum, second", s[1], se[1]),
                ("momentum, participation", 1 / fourth,
                 np.sqrt(np.sum((4 * s ** 3 * se) ** 2)) / fourth ** 2),
                ("momentum, above 1/485", np.sum(s > 1 / GAIN), np.nan)]
    s, se = (data[f"singular_{matrix}_learned{end}"][t] for end in ("", "_se"))
    return out + [("learned, largest", s[0], se[0]),
                  ("learned, above half of it", np.sum(s > s[0] / 2), np.nan)]


@house()
def draw(files, path):
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    from dmft.plot.style import BARS
    from dmft.plot.sweeps import scale
    figure, grid = plt.subplots(2, 2, figsize=(7.4, 5.6), layout="constrained")
    axes = grid.flat
    panels = (("Muon", "momentum of each expert's $W_{in}$", "W_in_momentum"),
              ("Muon", "momentum of the router $Q$", "Q_momentum"),
              ("Muon", "what $Q$ has learned with Muon", "Q_learned"),
              ("Adam", "what $Q$ has learned with Adam", "Q_learned"))
    for ax, (router, title, series) in zip(axes, panels):
        networks = files[router]["mssp"]["reference"].items()
        for shade, (N, data) in zip(shades(len(networks)), networks):
            s, se = (data[f"singular_{series}{end}"][TIMES[-1]] for end in ("", "_se"))
            half = student(data.attrs["runs"] - 1) * se
            ax.errorbar(1 + np.arange(len(s)), s, np.where(half < s, half, 0), fmt=".-",
                        color=shade, lw=1, capsize=2, label=f"$N = {int(N[1:])}$")
        ax.set(xlabel="number of the singular value", yscale="log",
               ylabel="singular value" + (", over the root\nof the sum of squares"
                                          if series.endswith("momentum") else ""))
        number = np.count_nonzero(np.isfinite(s))
        scale(ax.xaxis, [1, number])
        if number < 6:
            ax.set_xticks(range(1, number + 1), range(1, number + 1))
            ax.minorticks_off()
        ax.set_title(title, fontsize=9)
        if series.endswith("momentum"):
            ax.axhline(1 / GAIN, color="0.5", ls=":", label=f"1/{GAIN}, above which a\nstep "
                       "makes it about one")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], 1e-5))
    axes[0].legend(loc="lower left", bbox_to_anchor=(0, 0.1), fontsize=7,
                   title=f"{BARS}, where above 0", title_fontsize=7)
    figure.savefig(path, dpi=110)


def main(path, rest, out=None, picture=None):
    rows, spread = [], {}
    with h5py.File(path) as first, h5py.File(rest) as second:
        files = {"Muon": first, "Adam": second}
        for router, file in files.items():
            for side in ("mup", "mssp"):
                for N, data in file[side]["reference"].items():
                    for matrix in MATRICES if router == "Muon" else ("Q",):
                        for t in TIMES:
                            for what, value, se in numbers(data, matrix, t):
                                rows.append((router, side, N, matrix, t, what, f"{value:.4g}",
                                             f"{se:.2g}"))
                                spread.setdefault((router, side, matrix, t, what), []).append(
                                    (int(N[1:]), value, se))
        if picture:
            draw(files, picture)
    for row in rows:
        print(*row)
    for (router, side, matrix, t, what), values in spread.items():
        if what == "learned, largest" and t == TIMES[-1]:
            widths, value, se = np.array(values).T
            samples = np.array([np.log(of_interval(one, 1.96 * error))
                                for one, error in zip(value, se)])
            moved = drift(widths, np.random.default_rng(0).permuted(samples, axis=1))
            print(f"{matrix} by {router}, {side}: the largest singular value of what was learned "
                  f"stays within a factor of {FACTOR} over the width: "
                  f"{WORDS[judge(moved, within_factor(FACTOR))]}")
    if out:
        write_table(out, ("router by", "parameterization", "N", "matrix", "t", "what", "value",
                          "standard error"), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
