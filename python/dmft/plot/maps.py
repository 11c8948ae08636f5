"""Maps at a few times, the limit beside the widest networks: attention weights, tangent kernels."""
from __future__ import annotations

import re

import numpy as np

from dmft.plot import axes as draw
from dmft.plot.layout import panels
from dmft.plot.select import ensembles, is_series, label, moments, networks, title
from dmft.plot.style import Missing

ROWS = 6  # of one picture


def _sides(run) -> list[tuple]:
    """[(label, Dataset)]: the limit and the widest networks; those that there are."""
    found = [(label(data), data) for _, _, data in ensembles(run)[-1:] if "N" not in data.attrs]
    return found + [(label(data), data) for data in networks(run)[-1:]]


def _names(run, pattern: str, dims: tuple) -> list[str]:
    """What either side has of this form."""
    return list({name: None for _, data in _sides(run) for name in data
                 if re.fullmatch(pattern, name) and data[name].dims == dims
                 and is_series(name)})


def _some(names: list[str]) -> tuple[list[str], str]:
    """At most so many rows, the first and the last among them; and words about it."""
    places = sorted({round(k) for k in np.linspace(0, len(names) - 1, min(ROWS, len(names)))})
    return [names[k] for k in places], f"  ({ROWS} of {len(names)})" * (len(names) > ROWS)


def _grid(run, rows: int, times, words: str):
    """(figure, [(row, side, time, axis)]): the times of the limit, a gap, those of the networks."""
    sides, count = _sides(run), len(times)
    ratios = ([1] * count + [0.15]) * (len(sides) - 1) + [1] * count
    width = 1.5 * sum(ratios) / len(ratios)
    figure, axes = panels(run, rows, len(ratios), width, 1.55, width_ratios=ratios)
    figure.suptitle(f"{title(run)},  {words}", fontsize=9, x=0.01, ha="left", color="0.35")
    for ax in axes[:, count] if len(sides) > 1 else []:
        ax.set_visible(False)
    places = [(row, data, t, axes[row, k * (count + 1) + j]) for row in range(rows)
              for k, (_, data) in enumerate(sides) for j, t in enumerate(times)]
    for k, (name, _) in enumerate(sides):
        for j, t in enumerate(times):
            axes[0, k * (count + 1) + j].set_title(f"{name},  $t = {t}$")
    return figure, axes, places


def _extent(parts) -> tuple[float, float]:
    return min(np.nanmin(part) for part in parts), max(np.nanmax(part) for part in parts)


def _name_axes(axes, words, x: str, y: str) -> None:
    """Of the first column and the last row; numbers stand there alone."""
    for row, word in zip(axes, words):
        row[0].set_ylabel(f"{word}\n{y}" if word else y)
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax in axes.flat:
        place = ax.get_subplotspec()
        ax.tick_params(labelleft=place.is_first_col(), labelbottom=place.is_last_row())


def _all_heads(name: str) -> str | None:
    """attention_L of attention_L_H."""
    found = re.fullmatch(r"(attention_\d+)_\d+", name)
    return found and found[1]


def _weights(data, name: str, t: int):
    """[token][source]; of a limit where all heads are one, its own."""
    for known in (name, _all_heads(name)):
        if known in data:
            return data[known].isel(t=t, mu=0).values
    return None


def figure_attention(run, options):
    """Attention weights of the first input, in one scale of colours."""
    names = _names(run, r"attention\w*", ("t", "mu", "token", "source"))
    if not names:
        raise Missing("no attention weights are in it")
    headed = {_all_heads(name) for name in names} - {None}
    names, left = _some([name for name in names if name not in headed])
    times = moments([data for _, data in _sides(run)], options.times, 2)
    figure, axes, places = _grid(run, len(names), times, "attention, first input" + left)
    parts = {ax: _weights(data, names[row], t) for row, data, t, ax in places}
    top = _extent([part for part in parts.values() if part is not None])[1]
    for ax, part in parts.items():
        if part is None:
            ax.set_axis_off()
        else:
            image = draw.heat(ax, part, (0, top))
    bar = figure.colorbar(image, ax=list(axes.flat), shrink=min(1, 1.6 / len(names)), pad=0.01)
    bar.set_label("weight")
    words = [re.sub(r"attention_(\d+)(?:_(\d+))?", lambda part: f"block {part[1]}" + (
        f", head {part[2]}" if part[2] else ""), name) for name in names]
    _name_axes(axes, words, "attends to token", "token")
    return figure


def _part(data, name: str, t: int):
    """[mu][nu] of a matrix; of networks with a matrix for each head, which are one in the limit,
    the sum of theirs."""
    if name in data:
        return data[name].isel(t=t).values
    return sum(data[one].isel(t=t).values for one in data if re.fullmatch(name + r"_\d+", one))


def figure_tangent(run, options):
    """Tangent kernels of two inputs, and the part of each matrix, each in a scale of its own: of
    the outputs, not those of a loss."""
    of_outputs = {name for _, data in _sides(run) for name in data
                  if data[name].attrs.get("about", "").startswith("neural tangent kernel")}
    known = [name for name in _names(run, r"tangent\w*", ("t", "mu", "nu")) if name in of_outputs]
    of_heads = {name for _, data in _sides(run) for name in known for head in known
                if name not in data and head in data and re.fullmatch(name + r"_\d+", head)}
    names, left = _some([name for name in known
                         if re.sub(r"_\d+$", "", name) not in of_heads])
    if not names:
        raise Missing("the run had [output] tangent = none")
    times = moments([data for _, data in _sides(run)], options.times, 2)
    figure, axes, places = _grid(run, len(names), times, "tangent kernel" + left)
    for row, name in enumerate(names):
        parts = [(ax, t, draw.by_target(run, _part(data, name, t), t))
                 for where, data, t, ax in places if where == row]
        limits = _extent([part for _, _, part in parts])
        for ax, t, part in parts:
            image = draw.heat(ax, part, limits)
            draw.border(ax, run, t)
        bar = figure.colorbar(image, ax=list(axes[row]), pad=0.01)
        bar.set_label(r"$K_{\mu\nu}$")
    words = [name.replace("tangent_", "part of ").replace("tangent", "all matrices")
             for name in names]
    by = draw.by_words(run)
    _name_axes(axes, words, r"input $\nu$" + by, r"input $\mu$" + by)
    return figure


FIGURES = {"attention": figure_attention, "tangent": figure_tangent}
