"""The picture of spikes: singular values of trained matrices (docs/theory/spikes.md)."""
from __future__ import annotations

import numpy as np

from common import grid, pm
from dmft.plot import singular
from dmft.plot.layout import legend
from dmft.plot.select import student
from dmft.plot.style import BANDS
from verdict import above, judge, near, of_interval

CLEAR = 1.03  # of the edge: spikes nearer to it are approached slowly
SAME = 0.02   # of a spike: networks and limit


def of_networks(run, stored: str):
    """a of a + b/N through all widths at every time, and half of its 95 % interval; [t]."""
    N = np.array(sorted(run.reference), dtype=float)[:, None]
    mean, se = (np.array([run.reference[int(n)][stored + end].values[:, 0] for n in N[:, 0]])
                for end in ("", "_se"))
    with np.errstate(all="ignore"):  # at the start nothing has an error
        weight = 1 / se ** 2
        x0, y0 = ((weight * v).sum(0) / weight.sum(0) for v in (1 / N, mean))
        sxx = (weight * (1 / N - x0) ** 2).sum(0)
        slope = (weight * (1 / N - x0) * (mean - y0)).sum(0) / sxx
        return y0 - slope * x0, 1.96 * np.sqrt(1 / weight.sum(0) + x0 ** 2 / sxx)


def spikes(run):
    names = ("W2", "W3")
    figure, axes = grid(len(run.points), len(names), 2.4, sharex=True)
    seen = []
    for row, (point, part) in zip(axes, run.points.items()):
        for ax, name in zip(row, names):
            singular(ax, part, name)
            ax.set(title=rf"{name}, $\gamma_0 = {point[0]:g}$", ylim=(1.75, None))
            seen += sentences(part, name, point[0])
    seen = seen or [(None, "no spike of the limit stands clear of the edge")]
    return legend(figure, axes[-1, -1], BANDS), seen


def sentences(part, name: str, gamma0: float):
    """Of one matrix at the last time: networks beside the limit, and the spike beside that of
    independent vectors."""
    limit, stored = part.limit, "singular_" + name
    value, edge = (limit[stored + end].values for end in ("", "_edge"))
    if not value[-1, 0] > CLEAR * edge[-1]:
        return []
    factor = student(limit["n"].values[-1] - 1)
    half = factor * float(limit[stored + "_se"].values[-1, 0])
    a, a_half = (one[-1] for one in of_networks(part, stored))
    spike, words = value[-1, 0], f"\u03b3\u2080 = {gamma0:g}, {name}"
    learned = float(limit[stored + "_learned"].values[-1, 0])
    alone = limit[stored + "_independent"].values[-1, 0]
    there = f"at {alone:.3f}" if np.isfinite(alone) else "nowhere outside of the bulk"
    beyond = alone if np.isfinite(alone) else edge[-1]
    apart = of_interval(a / spike - 1, np.hypot(a_half, half) / spike)
    return [(judge(apart, near(0, SAME)),
             f"""{words}: the largest spike of the limit ends at {pm(spike, half / factor)},
             networks extrapolate to {pm(a, a_half / 1.96)}"""),
            (judge(of_interval(spike - beyond, half), above(0)),
             f"""{words}: if what it has learned, with largest singular value {learned:.3f}, were
             independent of its start, the spike would stand {there}; it stands further out""")]
