"""Pictures of networks that read a text; see scaling.py."""
from __future__ import annotations

import numpy as np

from common import at_widths, grid, of_exponent, pm, span
from dmft.plot import axes as draw
from dmft.plot.layout import legend
from dmft.plot.select import quantity, shades
from verdict import all_of, below, interval, judge, of_interval


def reading(run):
    """Bits of a letter while a transformer reads a text once, of what it reads and of what is held
    out."""
    (part,), seen = run.points.values(), []
    figure, axes = grid(1, 2, 2.6, sharey=True)
    for (N, data), shade in zip(part.reference.items(), shades(len(part.reference))):
        mean, half = quantity(data, "bits")
        draw.band(axes[0, 0], mean, half, shade, lw=1.0, label=f"$N = {N}$")
        mean, half = quantity(data, "test_bits")
        known = np.flatnonzero(np.isfinite(mean.values))
        axes[0, 1].errorbar(known, mean.values[known], half.values[known], color=shade, lw=1.4,
                            marker="o", ms=3, capsize=2, label=f"$N = {N}$")
    axes[0, 0].set(xlabel="step", ylabel="bits of a letter", title="text that is read")
    axes[0, 1].set(xlabel="step", title="text that is held out")
    N, bits, half = at_widths(part, "test_bits")
    power = of_exponent(part, "test_bits", -1)
    told = ", ".join(pm(*(float(data[name][-1]) for name in ("test_bits", "test_bits_se")))
                     for data in part.reference.values())
    seen.append((judge(power, below(0)), f"""held-out bits of a letter at the last step fall with
        the width: {told} at N = {", ".join(f"{n:g}" for n in N)}, as
        N^{span(np.median(power), *interval(power))}"""))
    first = at_widths(part, "test_bits", 0)[1]
    fallen = [judge(of_interval(np.log(end / start), error / end), below(0))
              for start, end, error in zip(first, bits, half)]
    seen.append((all_of(fallen), f"""every width learns: {", ".join(f"{one:.2f}" for one in first)}
        bits at the start"""))
    return legend(figure, axes[0, 1], "bands and bars:\n95 %"), seen
