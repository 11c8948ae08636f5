"""What a series becomes as a size grows, along any axis: the width, the depth, rho, kappa, gamma0,
the width of an expert, the sites of the limit.

    rates = dmft.load("depths.h5")                                   # a sweep over network.depth
    loss = rates.series("loss").sel(N=np.inf).isel(t=-1)
    deep = dmft.extrapolate(loss, "loss", "network.depth")           # a + b/depth
    deep["loss_inf"], deep["loss_inf_se"], deep["chi2"] / deep["freedom"]
    dmft.extrapolate(loss, "loss", "network.depth", power=None)      # a + b/depth^p, p with error
    dmft.richardson(loss, "loss", "network.depth")                   # from the two deepest
    dmft.exponent(loss, "loss", "network.depth")                     # loss as a power of the depth
    dmft.collapse(curves, "loss", "network.depth", "t")              # curves that fall on one

All take a Dataset with NAME and NAME_se, such as dmft.sweep(...).series(NAME) or one that
xarray.concat puts together of runs, and its axis; errors along it are taken as independent. A
result, or the path of its file, stands for its series NAME: of a sweep over the keys and N, of a
run over N. In the place of an axis may stand a coordinate over several axes, such as
active_parameters over the swept keys and N: all points are then one axis, on which the number
grows.
"""
from __future__ import annotations

import os
import warnings

import numpy as np
import xarray

from dmft.errors import InputError, NoteWarning
from dmft.files import Result, load

POWERS = np.geomspace(0.05, 8, 400)  # where an unknown power is looked for
# Why a fit has no result.
SAME = "its points with an error do not tell the parameters apart, as their x are too few or alike"
SEVERAL = ("; several points have the same x, so they may belong to several curves, of which sel "
           "chooses one")


def series_of(data, name: str) -> xarray.Dataset:
    """A Dataset as it is; of a result, or of the path of its file, the series NAME with its errors:
    of a sweep over the keys and N, of a run over N, which is infinite for the limit."""
    if isinstance(data, (str, os.PathLike)):
        data = load(data)
    if isinstance(data, Result) and "sweep" in data:
        return data.series(name)
    if isinstance(data, Result):
        groups = data.reference | ({np.inf: data.limit} if "limit" in data._only() else {})
        parts = [group[[key for key in (name, name + "_se", "n") if key in group]]
                 .drop_vars("N", errors="ignore").expand_dims(N=[float(N)])
                 for N, group in groups.items() if name in group]
        if not parts:
            raise InputError(f"{data.path}: has no series {name}")
        data = xarray.concat(parts, "N")
    if not isinstance(data, xarray.Dataset):
        raise InputError("this takes a Dataset with a series and its errors, a result or the path "
                         f"of its file, and no {type(data).__name__}")
    return data


def with_axis(data: xarray.Dataset, name: str, along: str) -> xarray.Dataset:
    """The same with an axis `along` where that is a coordinate over some of the axes of the series:
    all points of these axes side by side."""
    own = data[along].dims if along in data.coords and along not in data[name].dims else ()
    if not own or not set(own) <= set(data[name].dims):
        return data
    flat = data[[name, name + "_se", along]].reset_coords(along).stack(
        {"all points": own}, create_index=False)
    x = flat[along].values
    flat = flat[[name, name + "_se"]].drop_vars([key for key in flat.coords if "all points"
                                                 in flat[key].dims])
    return flat.rename({"all points": along}).assign_coords({along: x})


def _points(data: xarray.Dataset, name: str, along: str, least: int):
    """(the series and its errors, sizes x, values, errors, weights or None), the axis last; x
    ascending, infinite sizes left out."""
    data = series_of(data, name)
    for wanted in (name, name + "_se"):
        if wanted not in data:
            raise InputError(f"there is no {wanted}; this takes a series with its errors, as "
                             f"sweep.series({name!r}) gives it")
    data = with_axis(data, name, along)
    if along not in data[name].dims:
        raise InputError(f"{name} has no axis {along}; it has "
                         + " ".join(map(str, data[name].dims)))
    x = np.asarray(data[along].values if along in data.coords else range(data.sizes[along]))
    if x.dtype.kind not in "fiu":
        raise InputError(f"{along} has words, not numbers; a key of its own line is an axis of "
                         "numbers, or assign_coords gives it some")
    order = [i for i in np.argsort(x) if np.isfinite(x[i])]
    part = data[[name, name + "_se"]].isel({along: order}).transpose(..., along)
    x = x[order].astype(float)
    if len(set(x)) < least:
        raise InputError(f"different values of {along}: {len(set(x))}, and this takes {least} or "
                         "more")
    rest = data.isel({along: order}) if along in data.dims else data
    return (part, x, part[name].values.astype(float), part[name + "_se"].values.astype(float),
            _weights(rest, name, along, part))


def runs_of(data: xarray.Dataset, name: str):
    """Of how many runs each mean of a series is; None where the data do not say it."""
    return data[name + "_runs"].notnull().sum("run") if name + "_runs" in data else data.get("n")


def _weights(data: xarray.Dataset, name: str, along: str, part: xarray.Dataset):
    """What points weigh, as in dmft-compare: a mean of n networks of width N weighs N n, as the
    variance over networks falls as 1/N, and errors of few networks are too small by chance where
    they are small. None along other axes, of which no such law is known."""
    if along != "N" or "N" not in part.coords:
        return None
    runs = runs_of(data, name)
    if runs is None or not set(runs.dims) <= set(part[name].dims):
        runs = 1
    weight = (part["N"] * runs).broadcast_like(part[name]).transpose(*part[name].dims)
    return weight.values.astype(float)


def _linear(columns: np.ndarray, values: np.ndarray, errors: np.ndarray, weight=None):
    """Least squares of values on columns [k][n], over the last axis: coefficients [...][k],
    covariance [...][k][k], chi^2 and points used. Points weigh 1/error^2, or as given; the
    covariance is that of the errors, and chi^2 the sum of the weighted squares of the residuals
    over what errors let expect, times the degrees of freedom. Points without an error do not count;
    NaN where the others are too few, or at one place."""
    good = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    square = np.where(good, errors, 1) ** 2
    weight = np.where(good, 1 / square if weight is None else weight, 0)
    filled = np.where(good, values, 0)
    normal = np.einsum("in,...n,jn->...ij", columns, weight, columns)
    count = good.sum(-1)
    sizes = np.einsum("...ii->...i", normal).prod(-1)
    apart = np.linalg.det(normal) > 1e-14 * sizes  # by more than round-off
    enough = (count >= len(columns)) & apart
    normal = np.where(enough[..., None, None], normal, np.eye(len(columns)))
    share = np.einsum("...ij,jn,...n->...in", np.linalg.inv(normal), columns, weight)
    solution = np.einsum("...in,...n->...i", share, filled)
    covariance = np.einsum("...in,...n,...jn->...ij", share, square, share)
    left = 1 - np.einsum("in,...in->...n", columns, share)  # of a value's own deviation
    expected = (weight * square * left).sum(-1)
    chi2 = (weight * (filled - np.einsum("...i,in->...n", solution, columns)) ** 2).sum(-1)
    freedom = count - len(columns)
    chi2 = np.where(freedom > 0, chi2 * freedom / np.where(freedom > 0, expected, 1), 0)
    lost = np.where(enough, 0, np.nan)
    return (solution + lost[..., None], covariance + lost[..., None, None], chi2 + lost, count)


def _few(count: int, least: int) -> str:
    return f"points with a value and an error above 0: {count}, and it takes {least} or more"


def _reasons(values: np.ndarray, counts: np.ndarray, least: int) -> list[str]:
    """Of fits, those of which the value is NaN: why; "" of the others."""
    return ["" if np.isfinite(value) else SAME if count >= least else _few(count, least)
            for value, count in zip(values.flat, counts.flat)]


def _warn(form: str, reasons: list[str], part: xarray.Dataset, name: str) -> None:
    """One sentence on fits without a result. reasons: of each fit, in the order of the axes of the
    series but the last, "" where there is a result."""
    lost = [k for k, reason in enumerate(reasons) if reason]
    if not lost:
        return
    dims = part[name].dims[:-1]
    index = np.unravel_index(lost[0], [part.sizes[dim] for dim in dims]) if dims else ()
    place = ", ".join(f"{dim} = {part[dim].values[k] if dim in part.coords else k}"
                      for dim, k in zip(dims, index))
    warnings.warn(f"{form} has no result" + (f" at {place}" if place else "")
                  + f": {reasons[lost[0]]}"
                  + (f"; nor is there one at {len(lost) - 1} other places" * (len(lost) > 1)),
                  NoteWarning, stacklevel=3)


def _check_power(power: float) -> None:
    """InputError of a power with which b x^-power does not vanish as x goes to infinity."""
    if not 0 < power < np.inf:
        raise InputError(f"power = {power:g}: must be above 0, p of b x^-p")


def _power_columns(x: np.ndarray, power: float) -> np.ndarray:
    return np.stack([np.ones_like(x), (x / x[-1]) ** -power])


def _free_power(x: np.ndarray, values: np.ndarray, errors: np.ndarray, weight=None):
    """((p, its error, a, its error, b, its error, chi^2), why there are none or "") of one fit with
    an unknown power: the p of the least chi^2, and the covariance of all three there; NaN where
    chi^2 has no least value inside of POWERS."""
    nothing, count = (np.nan,) * 7, int((np.isfinite(values) & (errors > 0)).sum())
    if count < 4:
        return nothing, _few(count, 4)
    chi2 = np.array([_linear(_power_columns(x, p), values, errors, weight)[2] for p in POWERS])
    if not np.isfinite(chi2).any():
        return nothing, SAME
    best = int(np.nanargmin(chi2))
    if best in (0, len(POWERS) - 1):
        return nothing, (f"chi^2 is smallest at p = {POWERS[best]:g}, an end of the powers that "
                         "are tried" + (SEVERAL if len(set(x)) < len(x) else ""))
    low, high = POWERS[best - 1], POWERS[best + 1]
    for _ in range(60):  # golden section
        left, right = high - (high - low) / 1.618034, low + (high - low) / 1.618034
        at = [_linear(_power_columns(x, p), values, errors, weight)[2] for p in (left, right)]
        low, high = (low, right) if at[0] < at[1] else (left, high)
    p = (low + high) / 2
    (a, b), _, least, _ = _linear(_power_columns(x, p), values, errors, weight)
    slope = -b * np.log(x / x[-1]) * (x / x[-1]) ** -p  # of the fit in p
    columns = np.vstack([_power_columns(x, p), slope])
    error = np.sqrt(np.diag(_linear(columns, values, errors, weight)[1]))
    if not np.isfinite(error).all():
        return nothing, SAME
    return (p, error[2], a, error[0], b, error[1], least), ""


def extrapolate(data: xarray.Dataset, name: str, along: str, power: float | None = 1.0):
    """A Dataset of the fit a + b x^-power over an axis: NAME_inf (a, what the series
    becomes as x goes to infinity) and NAME_inf_se; `at_largest` (b x^-power at the largest x, how
    far that is from it) and its error; chi2 and `freedom`, the points less the parameters: the form
    fits where chi2 is about freedom, give or take sqrt(2 freedom). power=None fits it, too, as
    `power` with `power_se`, from four points or more. A fit without a result is NaN, and a warning
    says why: points without errors, or a power that is not between .05 and 8.

    Points weigh 1/NAME_se^2; along N a mean of n networks weighs N n, as in dmft-compare, because
    errors of few networks are themselves not known well. Along other axes errors count as known,
    which those of fewer than 16 runs are not: with 4 at 4 points 11 of 100 a are further off than
    1.96 of their errors (docs/output.md, "Few networks"), and chi2 is too large as often.
    Infinite x, as the limit on the axis N, is left out: it is what a can be compared with.

    >>> x = np.array([1.0, 2, 4, 8])
    >>> data = xarray.Dataset({"y": ("x", 3 + 2 / x), "y_se": ("x", 0 * x + .01)}, {"x": x})
    >>> round(float(extrapolate(data, "y", "x")["y_inf"]), 9)
    3.0
    >>> fit = extrapolate(data, "y", "x", power=None)
    >>> round(float(fit["power"]), 5), int(fit["freedom"])
    (1.0, 1)
    """
    part, x, values, errors, weight = _points(data, name, along, 2 if power is not None else 4)
    if x[0] <= 0:
        raise InputError(f"{along} = {x[0]:g}: powers need values above 0")
    if power is not None:
        _check_power(power)
        solution, covariance, chi2, count = _linear(_power_columns(x, power), values, errors,
                                                    weight)
        found = {name + "_inf": solution[..., 0], name + "_inf_se": covariance[..., 0, 0] ** 0.5,
                 "at_largest": solution[..., 1], "at_largest_se": covariance[..., 1, 1] ** 0.5,
                 "chi2": chi2, "freedom": count - 2}
        reasons = _reasons(solution[..., 0], count, 2)
    else:
        rows = [None if one is None else one.reshape(-1, len(x))
                for one in (values, errors, weight)]
        flat = [_free_power(x, rows[0][k], rows[1][k], None if weight is None else rows[2][k])
                for k in range(len(rows[0]))]
        table = np.array([numbers for numbers, _ in flat]).reshape(*values.shape[:-1], 7)
        reasons = [reason for _, reason in flat]
        names = ("power", "power_se", name + "_inf", name + "_inf_se", "at_largest",
                 "at_largest_se", "chi2")
        found = {key: table[..., k] for k, key in enumerate(names)}
        found["freedom"] = (np.isfinite(values) & np.isfinite(errors) & (errors > 0)).sum(-1) - 3
    _warn(f"the fit of {name} by a + b x^-{'p' if power is None else f'{power:g}'}, x = {along},",
          reasons, part, name)
    dims = part[name].dims[:-1]
    coords = {key: value for key, value in part.coords.items() if along not in value.dims}
    return xarray.Dataset({key: (dims, value) for key, value in found.items()}, coords)


def richardson(data: xarray.Dataset, name: str, along: str, power: float = 1.0):
    """(value, error) of the series at infinite x from its two largest x alone, on the assumption
    that it is a + b x^-power there. The error contains the sampling error and, in quadrature, what
    the assumption is worth: the difference to the same from the two before, where b x^-2 power
    would show. For few sizes that are known well, such as depths 2, 4, 8.

    >>> x = np.array([1.0, 2, 4])
    >>> data = xarray.Dataset({"y": ("x", 3 + 2 / x), "y_se": ("x", 0 * x)}, {"x": x})
    >>> [float(part) for part in richardson(data, "y", "x")]
    [3.0, 0.0]
    """
    _check_power(power)
    part, x, values, errors, _ = _points(data, name, along, 3)
    if x[-3] <= 0:
        raise InputError(f"{along} = {x[-3]:g}: powers need values above 0")
    if len(set(x[-3:])) < 3:
        raise InputError(f"several points have the same {along}: Richardson's formula takes one "
                         "for each; choose some of them with sel")

    def from_pair(i):
        far = (x[i + 1] / x[i]) ** power
        return ((far * values[..., i + 1] - values[..., i]) / (far - 1),
                np.hypot(far * errors[..., i + 1], errors[..., i]) / (far - 1))

    last, sampling = from_pair(len(x) - 2)
    form = last - from_pair(len(x) - 3)[0]
    coords = {key: value for key, value in part.coords.items() if along not in value.dims}
    return tuple(xarray.DataArray(array, coords, part[name].dims[:-1])
                 for array in (last, np.hypot(sampling, form)))


def exponent(data: xarray.Dataset, name: str, along: str):
    """A Dataset with `exponent` and `exponent_se` of the series as a power of x, the slope of ln
    |NAME| in ln x, weighted as by extrapolate, and chi2 and freedom. Values below two of their
    errors have no logarithm that one could use, and are left out; a warning says where too few are
    left.

    >>> x = np.array([1.0, 2, 4])
    >>> data = xarray.Dataset({"y": ("x", 3 * x ** -.5), "y_se": ("x", .01 * x)}, {"x": x})
    >>> round(float(exponent(data, "y", "x")["exponent"]), 9)
    -0.5
    """
    part, x, values, errors, weight = _points(data, name, along, 2)
    if x[0] <= 0:
        raise InputError(f"{along} = {x[0]:g}: powers need values above 0")
    good = np.abs(values) > 2 * errors
    logs = np.where(good, np.log(np.abs(np.where(good, values, 1))), np.nan)
    relative = np.where(good, errors / np.abs(np.where(good, values, 1)), np.nan)
    columns = np.stack([np.ones_like(x), np.log(x / x[0])])
    if weight is not None:
        weight = weight * values ** 2  # an error of the logarithm is relative
    solution, covariance, chi2, count = _linear(columns, logs, relative, weight)
    _warn(f"the exponent of {name} in {along}", _reasons(solution[..., 1], count, 2), part, name)
    coords = {key: value for key, value in part.coords.items() if along not in value.dims}
    return xarray.Dataset({key: (part[name].dims[:-1], value) for key, value in (
        ("exponent", solution[..., 1]), ("exponent_se", covariance[..., 1, 1] ** 0.5),
        ("chi2", chi2), ("freedom", count - 2))}, coords)


def _quality(x, y, error) -> float:
    """Mean of (y - Y)^2/(dy^2 + dY^2) over the points of all curves [curve][point], Y that of a
    line through the neighbours on the other curves; NaN where nothing overlaps."""
    found = []
    for one in range(len(x)):
        for at, value, own in zip(x[one], y[one], error[one]):
            near = []
            for other in range(len(x)):
                k = int(np.searchsorted(x[other], at)) if other != one else 0
                if 0 < k < len(x[other]):
                    near += [(x[other][i], y[other][i], error[other][i]) for i in (k - 1, k)]
            if not np.isfinite(value * own) or len(near) < 2:
                continue
            near = np.array(near)
            near = near[np.isfinite(near).all(1) & (near[:, 2] > 0)]
            if len(near) < 2 or np.ptp(near[:, 0]) == 0:
                continue
            columns = np.stack([np.ones(len(near)), near[:, 0] - at])
            solution, covariance, _, _ = _linear(columns, near[:, 1], near[:, 2])
            found.append((value - solution[0]) ** 2 / (own ** 2 + covariance[0, 0]))
    return float(np.mean(found)) if found else float("nan")


def collapse(data: xarray.Dataset, name: str, along: str, over: str, power: float = 0.0,
             power_over: float = 0.0) -> float:
    """How well curves fall on one another, of each size x on `along` one curve on the axis `over`:
    NAME x^power against over x^power_over. 1 within their errors; (quality - 1) grows as the square
    of what is left between them in units of errors (Houdayer and Hartmann, 2004). Blocks at l of a
    network of depth L fall on l/L with power_over = -1.

    >>> x, t = np.array([1.0, 2, 4]), np.linspace(1, 8, 57)
    >>> y = np.exp(-t[None] / x[:, None])
    >>> data = xarray.Dataset({"y": (("x", "t"), y), "y_se": (("x", "t"), 0 * y + .01)},
    ...                       {"x": x, "t": t})
    >>> collapse(data, "y", "x", "t", power_over=-1) < .1 < 100 < collapse(data, "y", "x", "t")
    True
    """
    part, x, *_ = _points(data, name, along, 2)
    if set(part[name].dims) != {along, over}:
        raise InputError(f"{name} has the axes {' '.join(map(str, part[name].dims))}; a collapse "
                         f"takes {along} and {over} alone: choose one of the others with sel")
    values = part[name].transpose(along, over).values
    errors = part[name + "_se"].transpose(along, over).values
    places = np.asarray(part[over].values, dtype=float)
    rising = np.argsort(places)  # keys of a sweep may fall
    scale = x[:, None] ** power
    return _quality(places[rising] * x[:, None] ** power_over, (values * scale)[:, rising],
                    (errors * scale)[:, rising])
