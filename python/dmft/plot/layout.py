"""A figure with panels, and the legend at its right side."""
from __future__ import annotations

import matplotlib.pyplot as plt

from dmft.plot.select import title


def panels(run, rows: int, columns: int, width: float = 3.0, height: float = 2.3, **more):
    """A figure and its axes [rows][columns]; inches of one panel."""
    figure, axes = plt.subplots(rows, columns, squeeze=False,
                                figsize=(width * columns + 1.3, height * rows + 0.3), **more)
    figure.suptitle(title(run), fontsize=9, x=0.01, ha="left", color="0.35")
    return figure, axes


def legend(figure, ax, words: str):
    """The whole figure's, at its right side, with the lines of one axis; and what a band that is
    hatched (dmft.plot.axes.band) says, where there is one."""
    lines = ax.get_legend_handles_labels()
    if any(part.get_hatch() for one in figure.axes for part in one.collections):
        words += "\nhatched: down to 0"
    try:
        figure.legend(*lines, loc="outside right center", title=words, alignment="left")
    except ValueError:  # matplotlib 3.6: beside the last panel of the first row, or its colours
        places = {one: one.get_subplotspec() for one in figure.axes
                  if one.get_visible() and hasattr(one, "get_subplotspec")}
        last = [one for one, place in places.items() if place and place.rowspan.start == 0][-1]
        before, bar = last.get_legend(), last.images[0].colorbar if last.images else None
        (bar.ax if bar else last).legend(*lines, loc="upper left", title=words, alignment="left",
                                         bbox_to_anchor=(7.5 if bar else 1.02, 1))
        if before:
            last.add_artist(before)
    return figure
