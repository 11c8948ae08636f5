"""Errors of what is computed from a run, from its replicates or seeds one by one.

    run = dmft.solve("x.ini", **{"output.runs": "yes"})
    ratio, error = dmft.jackknife(lambda group: group["Phi3_diag"] / group["G3_diag"],
                                  run.reference[256])
    change, error = dmft.difference(one.reference[256], other.reference[256], "loss")

Both take groups of a Result (run.limit, run.reference[N]) whose series were kept run by run: the
loss and the output always are, all others with [output] runs = yes.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dmft.errors import InputError

if TYPE_CHECKING:  # dmft-sweep, which needs Student's law alone, starts without it (test_study.py)
    import xarray

SMALLEST = np.finfo(float).tiny  # a probability below it has lost digits


@functools.lru_cache(None)
def _quadrature():
    return np.polynomial.legendre.leggauss(40)


def student(freedom):
    """97.5 % of Student's t, for any number of degrees of freedom of at least 1; NaN below.

    With t = sqrt(n) tan(a) its density is cos(a)^(n - 1) da; Newton's steps from the left never
    pass the root, since the integral is concave.

    >>> round(float(student(7)), 6)
    2.364624
    """
    nodes, weights = _quadrature()

    def one(n):
        if not n >= 1:
            return math.nan
        whole = math.sqrt(math.pi) * math.exp(math.lgamma(n / 2) - math.lgamma((n + 1) / 2))
        angle = 0.0
        for _ in range(60):
            below = angle / 2 * (weights * np.cos(angle / 2 * (nodes + 1)) ** (n - 1)).sum()
            step = (0.475 * whole - below) / math.cos(angle) ** (n - 1)
            angle += step
            if abs(step) <= 1e-15 * angle:
                break
        return math.sqrt(n) * math.tan(angle)

    values, places = np.unique(np.asarray(freedom, dtype=float), return_inverse=True)
    return np.array([one(n) for n in values])[places].reshape(np.shape(freedom))


def normal_of(t, freedom):
    """The normal number that is exceeded as rarely as t of Student's law, an array; NaN without a
    degree of freedom, and t itself where a probability is below all numbers.

    >>> normal_of([2.364624, -0.5], 7).round(4)                 # 97.5 % of t is that of z
    array([ 1.96  , -0.4783])
    """
    from scipy.special import ndtri, stdtr
    with np.errstate(invalid="ignore"):
        t, n = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
        rare = stdtr(np.where(n >= 1, n, np.nan), -abs(t))
        return np.where(rare <= SMALLEST, t, np.copysign(-ndtri(rare), t))


def _ended(array: xarray.DataArray) -> np.ndarray:
    """Whether each run has a number at the last time, as one that did not reach it has none in any
    series. Others may have none in some, as a replicate without a spike beyond the bulk."""
    there = array.isel(t=-1).notnull()
    return there.any([d for d in there.dims if d != "run"]).values


def _runs_of(group: xarray.Dataset) -> dict[str, xarray.DataArray]:
    """{NAME: its values run by run} of the runs that reached every time; of the loss of a limit,
    which is that of the mean output, the pseudo-values, whose mean it is."""
    found = {name.removesuffix("_runs"): group[name] for name in group.data_vars
             if name.endswith("_runs") and "run" in group[name].dims}
    found |= {name.removesuffix("_pseudo"): group[name] for name in group.data_vars
              if name.endswith("_pseudo")}
    if not found:
        raise InputError("this group has no series run by run; run it with [output] runs = yes")
    told = [_ended(array) for array in found.values() if "t" in array.dims]
    whole = np.any(told, axis=0) if told else False
    if np.count_nonzero(whole) < 2:
        raise InputError(f"an error takes two runs or more that reached the end, and here "
                         f"{np.count_nonzero(whole)} did")
    return {name: array.assign_coords(run=array["run"]).isel(run=np.flatnonzero(whole))
            for name, array in found.items()}


def _tolerance(group: xarray.Dataset, name: str) -> xarray.DataArray | float:
    """By how much the tolerance of a limit moves a series; 0 where that was not checked."""
    return group.get(f"{name}_tolerance", 0.0)


def _known(group: xarray.Dataset, name: str, array: xarray.DataArray) -> xarray.DataArray:
    """Means over runs, or their errors, NaN where the error in the file is: of what is counted,
    such as a load, runs that all agree do not tell it (docs/output.md)."""
    error = group.get(f"{name}_se")
    return array if error is None else array.where(error.notnull())


def jackknife(function: Callable[[xarray.Dataset], xarray.DataArray], group: xarray.Dataset):
    """(value, standard error) of a function of means over runs, such as a ratio, an exponent or a
    time at which something happens.

    function: takes a Dataset of means under their own names and returns a number or an array.
    group: run.limit or run.reference[N]. Runs that did not reach the end are left out.

    The function of a mean of n runs has a bias of order 1/n, and its error is not that of its
    arguments. With v the value of all and v(-r) that without run r, value and error are those of
    the n pseudo-values n v - (n - 1) v(-r). A limit with check_tolerance has NAME_tolerance beside
    NAME: how much v changes where the means do by that is in the error, in quadrature. The
    error is NaN where that of a mean that the function takes is.

    >>> import xarray
    >>> x = xarray.Dataset({"x_runs": (("run", "t"), [[1.0], [2.0], [3.0]])})
    >>> value, error = jackknife(lambda group: group["x"] * 2, x)
    >>> float(value[0]), round(float(error[0]), 3)
    (4.0, 1.155)
    """
    import xarray
    runs = _runs_of(group)
    n = len(next(iter(runs.values()))["run"])

    def value_without(left_out: list[int]):
        kept = [r for r in range(n) if r not in left_out]
        return function(xarray.Dataset({name: array.isel(run=kept).mean("run", skipna=False)
                                        for name, array in runs.items()}))

    whole = value_without([])
    pseudo = [n * whole - (n - 1) * value_without([r]) for r in range(n)]
    mean = sum(pseudo) / n
    variance = sum((one - mean) ** 2 for one in pseudo) / (n * (n - 1))
    checked = xarray.Dataset({name: array.mean("run", skipna=False) - _tolerance(group, name)
                              for name, array in runs.items()})
    known = function(xarray.Dataset({name: _known(group, name, array.mean("run", skipna=False))
                                     for name, array in runs.items()}))
    error = (variance + (whole - function(checked)) ** 2) ** 0.5
    return mean, xarray.where(np.isnan(known), np.nan, error)


def difference(one: xarray.Dataset, other: xarray.Dataset, name: str):
    """(one - other, standard error) of a series, run by run: seed 3 of the one minus seed 3 of the
    other. Where both were run with the same [solver] seed, networks of one seed begin with the same
    draws, and what is common to them drops out of the difference. The tolerances of limits that
    were run with check_tolerance are in the error, which is NaN where that of one of the two is.

    >>> import xarray
    >>> x = xarray.Dataset({"loss_runs": (("run", "t"), [[1.0], [2.0]])})
    >>> y = xarray.Dataset({"loss_runs": (("run", "t"), [[0.5], [1.5]])})
    >>> [float(part[0]) for part in difference(x, y, "loss")]
    [0.5, 0.0]
    """
    import xarray
    pair = []
    for group in (one, other):
        runs = _runs_of(group)
        if name not in runs:
            raise InputError(f"{name} was not kept run by run; there are {' '.join(runs)}, and all "
                             "with [output] runs = yes")
        pair.append(runs[name])
    kept = sorted(set(pair[0]["run"].values) & set(pair[1]["run"].values))
    if len(kept) < 2:
        raise InputError(f"an error takes two runs or more that reached the end in both, and here "
                         f"{len(kept)} did")
    pair = [array.sel(run=kept) for array in pair]
    if pair[0].sizes != pair[1].sizes:
        raise InputError(f"{name} has the sizes {dict(pair[0].sizes)} here and "
                         f"{dict(pair[1].sizes)} there")
    try:
        pair = xarray.align(*pair, join="exact")
    except ValueError:
        raise InputError(f"{name} has other numbers along its axes here than there, such as other "
                         "times") from None
    change = pair[0] - pair[1]
    n = change.sizes["run"]
    error = (change.var("run", ddof=1, skipna=False) / n
             + _tolerance(one, name) ** 2 + _tolerance(other, name) ** 2) ** 0.5
    for group in (one, other):
        error = _known(group, name, error)
    return change.mean("run", skipna=False).rename(name), error.rename(name + "_se")
