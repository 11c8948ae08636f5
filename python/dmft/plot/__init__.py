"""Pictures: functions that draw on an axis of yours, and the command dmft-plot.

    import dmft, dmft.plot, matplotlib.pyplot as plt
    run = dmft.load("regime2.h5")
    dmft.plot.loss(plt.gca(), run)              # or the path of its file
    dmft.plot.curves(plt.gca(), run, "Phi3_diag")

Whole figures are in dmft.plot.figures (a run), together (several on one axis), sweeps.
plt.rc_context(dmft.plot.STYLE) gives the sizes and colours of the command.
"""
try:
    import matplotlib
except ImportError as error:
    raise ImportError('pictures need matplotlib: pip install "dmft[plot]"') from error

from dmft.plot.axes import (band, convergence, coordinates, curves, distribution, experts,
                            exponents, heat, input_heat, loss, time_heat)
from dmft.plot.fits import extrapolation, power_law
from dmft.plot.select import quantity
from dmft.plot.specialisation import information, norms, overlap, share
from dmft.plot.spikes import singular
from dmft.plot.style import COLOURS, NAMES, STYLE, Missing, NotThere
from dmft.plot.sweeps import against, losses, optima
from dmft.plot.together import overlay

__all__ = ["loss", "curves", "exponents", "convergence", "experts", "coordinates", "distribution",
           "information", "share", "overlap", "norms", "heat", "input_heat", "time_heat", "band",
           "singular", "overlay", "extrapolation", "power_law", "losses", "optima", "against",
           "quantity", "COLOURS", "NAMES", "STYLE", "Missing", "NotThere"]
