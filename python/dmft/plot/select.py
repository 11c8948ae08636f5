"""What is drawn: ensembles of a run, their quantities with intervals, kernels and times by name."""
from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import xarray

from dmft.errors import InputError
from dmft.files import Result, load
from dmft.plot.style import NAMES, Missing, NotThere, symbol
from dmft.statistics import student

MOST = 3  # widths in one picture
ROOM = 60  # letters of a label in a heading


def run_of(run):
    """The run that a picture is asked for by its Result, by the path of its file, or by a
    comparison of one parameterization."""
    if isinstance(run, (str, os.PathLike)):
        run = load(run)
    if isinstance(run, Result):
        if "sweep" in run:
            raise InputError(f"{run.path}: is of a sweep, whose pictures are losses, optima and "
                             "against; its points are runs")
        return run._only()
    if isinstance(run, xarray.Dataset) or not isinstance(run, Mapping):
        raise InputError("a picture of a run takes the whole result or the path of its file, and "
                         f"no {type(run).__name__}")
    return run


def of_run(draw):
    """A function (ax, run, ...) that takes what run_of does."""
    @functools.wraps(draw)
    def with_run(ax, run, *arguments, **options):
        return draw(ax, run_of(run), *arguments, **options)
    return with_run


def check_there(run, name: str, *axes: str) -> None:
    """NotThere where neither limit nor networks have a series of this name, or it lacks an axis."""
    known = {str(one): data.variables[one].dims for _, _, data in ensembles(run) for one in data
             if is_series(one)}
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.5) or known
        raise NotThere(f"no series {name}; there is {' '.join(near)}")
    if not set(axes) <= set(known[name]):
        raise NotThere(f"{name} has the axes {' '.join(known[name])}, and this picture needs "
                       + " ".join(axes))


def networks(run) -> list[xarray.Dataset]:
    """The networks, by width."""
    return sorted((data for name, data in run.items() if "N" in data.attrs and "loss" in data),
                  key=lambda data: data.attrs["N"])


def number(value: float) -> str:
    """Six digits, or as many as tell it from its neighbours, as a seed has.

    >>> number(0.1), number(1e5), number(20261125.0)
    ('0.1', '100000', '20261125')
    """
    return next(word for digits in (6, 15, 17) if float(word := f"{value:.{digits}g}") == value
                or digits == 17)


def label(data) -> str:
    """N = 64, or N -> infinity."""
    return f"$N = {data.attrs['N']:.0f}$" if "N" in data.attrs else r"$N \to \infty$"


def shades(count: int):
    """Colours of so many widths, from light to dark."""
    return plt.get_cmap("YlOrBr")(np.linspace(0.4, 0.85, max(count, 2)))[:count]


def ensembles(run) -> list[tuple]:
    """[(label, colour, Dataset)]: of the networks at most three widths, the least and the largest
    among them, then the limit; those that there are."""
    widths = networks(run)
    some = sorted({round(k) for k in np.linspace(0, len(widths) - 1, min(MOST, len(widths)))})
    found = [(label(widths[k]), shade, widths[k]) for k, shade in zip(some, shades(len(some)))]
    if "limit" in run and "loss" in run["limit"]:
        found.append((label(run["limit"]), "black", run["limit"]))
    if not found:
        raise Missing("has no trajectories yet")
    return found


def widths_of(run, least: int) -> list[tuple]:
    """[(N, Dataset)] of all networks, at least so many."""
    found = [(data.attrs["N"], data) for data in networks(run)]
    if len(found) < least:
        raise Missing(f"networks of {len(found)} widths, and it needs {least} ([reference] widths)")
    return found


def equal(part: xarray.DataArray) -> xarray.DataArray:
    """At equal times, and of equal inputs, rows of tokens or outputs."""
    for first, second in (("t", "s"), ("mu", "nu"), ("row", "column"), ("c", "d")):
        if first in part.dims and second in part.dims:
            axes = part.get_axis_num((first, second))
            dims = [dim for dim in part.dims if dim not in (first, second)]
            part = xarray.DataArray(np.diagonal(part.values, axis1=axes[0], axis2=axes[1]),
                                    dims=[*dims, first])
    return part


def quantity(data, name: str):
    """Mean and half of the 95 % interval over t (and l, i): equal times, averaged over inputs and
    whatever other axes there are. The half is NaN where a file has no error, as of counts."""
    if name not in data:
        raise NotThere(f"no series {name}")
    parts, mean = [], data[name]
    for part in (mean, data[name + "_se"] if name + "_se" in data else mean * np.nan):
        part = equal(part)
        part = part.mean([dim for dim in part.dims if dim not in ("t", "l", "i")], skipna=False)
        parts.append(part.transpose("t", ...).reset_coords(drop=True))
    wide = student(np.maximum(data["n"].values - 1.0, 0))
    return parts[0], parts[1] * xarray.DataArray(wide, dims="t")


def slope(N, mean, half):
    """d log mean / d log N and half of its 95 % interval, of arrays [N][...]: weighted least
    squares through the widths, with the errors of the means as weights and no term for a curvature
    in log N. NaN where a mean is zero."""
    x = np.reshape(np.log(N), (-1,) + (1,) * (np.ndim(mean) - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = (mean / half) ** 2
        away = x - (weight * x).sum(0) / weight.sum(0)
        spread = (weight * away**2).sum(0)
        return (weight * away * np.log(mean)).sum(0) / spread, 1 / np.sqrt(spread)


def is_series(name: str) -> bool:
    """Whether it is a series itself: not its error, nor its values run by run ([output] runs)."""
    return not str(name).endswith(("_se", "_tolerance", "_runs", "_pseudo"))


def kernels_of(run, only=None) -> dict[str, str]:
    """{NAME: name of the dataset} of all kernels or of some: NAME where a run has it, at all pairs
    of times, else NAME_diag."""
    there = {name: "s" in value.dims for name, value in ensembles(run)[-1][2].items()
             if "kernel" in value.attrs.get("about", "") and is_series(name)
             and ("s" in value.dims or name.endswith("_diag"))}
    known = {name.removesuffix("_diag"): name
             for name in sorted(there, key=lambda name: there[name])}
    known = {name: known[name] for name in dict.fromkeys(
        name.removesuffix("_diag") for name in there)}
    if not known:
        raise Missing("the run had [output] kernels = none")
    for name in set(only or []) - set(known):
        raise NotThere(f"no kernel {name}; there are {' '.join(known)}")
    return {name: known[name] for name in only or known}


def moments(groups, given, count: int) -> list[int]:
    """The times asked for, else so many, evenly spread up to the last that all groups reached."""
    reached = min(int(np.count_nonzero(data["n"].values)) for data in groups)
    times = given or [round((reached - 1) * k / count) for k in range(count + 1)]
    for time in times:
        if not 0 <= time < reached:
            raise NotThere(f"no step {time}; there are {reached}, counted from 0")
    return sorted(set(times))


def step_of(data, t: int) -> int:
    """A time that was reached; of a negative one from the last of these on, -1, backwards."""
    reached = int(np.count_nonzero(data["n"].values))
    return moments([data], [t if t >= 0 else reached + t], 1)[0]


def heading(run, name: str, stored: str) -> str:
    """Symbol, meaning and definition of a kernel."""
    about = ensembles(run)[-1][2][stored].attrs
    formula = re.sub(r"([a-z])(\d)", r"\1_\2", about["equation"].split(",")[0])
    formula = re.sub(r"(?<![a-z])(sigma|phi|kappa|psi)", r"\\\1", formula)
    formula = re.sub(r"_(\w+)", lambda sub: "_{%s}" % sub[1].replace("_", ","), formula)
    formula = formula.replace(" ", r"\,").replace("<", r"\langle\,").replace(">", r"\,\rangle")
    label = about.get("label", "").replace("$", r"\$")
    words = about["about"].split(";")[0] + (f" ({label})" if 0 < len(label) <= ROOM else "")
    return f"{symbol(name)}: {words}\n${formula}$"


def name_of(run) -> str:
    """Network and parameterization."""
    keys = run["parameters"].attrs
    words = [keys["network.model"]]
    if words[0].startswith("regime"):
        words.append(NAMES.get(keys["network.parameterization"],
                               str(keys["network.parameterization"])))
    return ", ".join(words)


def title(run) -> str:
    """Model and parameterization, main parameters, whether the run came to its end."""
    keys = run["parameters"].attrs
    words = [name_of(run)]
    words += [rf"$\{name}_0 = {keys[f'training.{name}0']:g}$" for name in ("eta", "gamma")]
    return ", ".join(words) + ("" if run["/"].attrs["complete"] else "  (incomplete)")
