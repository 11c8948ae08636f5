"""Two results beside one another: regression tests against a stored file.

    found = dmft.diff("stored.h5", "new.h5")                # paths, or results
    assert found.equal, found                               # the table of dmft-diff
    dmft.diff(old, new, only=["loss", "limit/Phi3_diag"], rtol=1e-6)
    dmft.diff(old, new, sigma="auto")                       # within their sampling errors

The kinds of file are those of dmft.load: a run, a comparison, the summary of a sweep. Settings that
differ are listed and decide nothing, and /provenance, the description and the sentences of notes
are not looked at. All other arrays are compared by one of three questions:

exact    Are all numbers the same? As those of one program on one machine are, whatever its threads.
rtol     Is |new - old| <= rtol times the largest entry at that time (in a sweep: times the entry)?
         Errors NAME_se are measured by the NAME that they belong to. What is below the round-off of
         the largest entry of all times, 64 eps, is equal, too.
sigma    Is |z| below a threshold? z is the difference over both errors, as a normal number that is
         as rare as Student's t. With "auto" the threshold is that which the largest of all |z| that
         are looked at exceeds in one of a hundred comparisons of equal results (Sidak's, of
         independent entries; it is less often where they move together). Arrays without an error,
         or with one of 0, are equal by tolerance, or "cannot tell"; inputs and targets are compared
         by tolerance, and errors and single runs are not judged.

NaN in both files is equal, and NaN in one of them a difference (of fits, /compare and /optimum, one
"cannot tell" with sigma). A text that differs, such as the name of an axis, is a difference.

By default it is rtol = 1e-8 (1e-3 of runs in single precision) where both files have the same
seeds, since the same draws give the same numbers up to round-off, and sigma where seeds differ.

The errors of two files with the same seed are not independent: their runs begin with the same
draws, which drop out of the difference. With sigma their runs are paired where both files have them
(the loss and the output always, all series with [output] runs = yes); elsewhere |z| is too small,
so that a large one shows a difference and a small one does not show that there is none.
"""
from __future__ import annotations

import difflib
import fnmatch
import math
import os
import statistics

import numpy as np
import xarray

from dmft.diff_table import Diff, Row, base_of
from dmft.errors import InputError
from dmft.files import Result, load
from dmft.statistics import normal_of

RTOL, RTOL_SINGLE = 1e-8, 1e-3
CHANCE = 0.01           # of a difference that is none, in a whole comparison by sigma = "auto"
ASIDE = ("parameters", "provenance", "notes")
TIMES = ("t", "at", "kept")
# counts of the march, of which runs tell no error
COMPUTATION = ("rank", "fallback", "unmatched", "carriers")


def _open(what) -> Result:
    run = what if isinstance(what, Result) else load(os.fspath(what))
    if not run.complete:
        raise InputError(f"{run.path}: is of a run that has not ended; only whole results are "
                         "compared")
    return run


def _kind(run: Result) -> str:
    return "a sweep" if "sweep" in run else "a comparison" if run.sides else "a run"


def _settings(run: Result) -> dict[str, str]:
    """{section.key: value}, of a comparison SIDE/section.key. A sweep has those of its ini."""
    found = {}
    for path, group in run.items():
        if path != "parameters" and not path.endswith("/parameters"):
            continue
        side = path.removesuffix("parameters")
        keys = {key: value for key, value in group.attrs.items() if key != "ini"}
        section = ""
        for line in str(group.attrs.get("ini", "")).splitlines() if not keys else ():
            key, sign, value = line.partition("=")
            if line.startswith("["):
                section = line.strip("[] ")
            elif sign and not line.startswith(("#", ";")):
                keys[f"{section}.{key.strip()}"] = value.strip()
        found |= {side + key: str(value) for key, value in keys.items()}
    return found


def _same_seed(old: dict, new: dict) -> bool:
    """A sweep says what its ini gives, and the default of all seeds is 1."""
    return all(str(old.get(key, 1)) == str(new.get(key, 1)) for key in old.keys() | new.keys()
               if key.endswith((".seed", "_seed")))


def _is_single(*settings: dict) -> bool:
    return any(value == "single" for one in settings for key, value in one.items()
               if key.endswith(".precision"))


def _values(array: xarray.DataArray) -> np.ndarray:
    """Its numbers, of a large array read anew, as kept ones of all arrays would not fit."""
    return array.copy(deep=False).values


def _arrays(run: Result) -> dict[str, xarray.DataArray | float]:
    """{GROUP/NAME: array}, with the numbers that are attributes of a group as arrays of one."""
    found = {}
    for path, group in run.items():
        if path.rsplit("/", 1)[-1] in ASIDE:
            continue
        for name in group.variables:
            made = name == "tau" or name == "N" and not group[name].dims  # by dmft.load
            if not made and name != "description" and (path, name) != ("sweep", "file"):
                found[f"{path}/{name}".lstrip("/")] = group[name]
        if path != "/":
            found |= {f"{path}/@{name}": xarray.DataArray(float(value))
                      for name, value in group.attrs.items() if isinstance(value, (int, float))}
    return found


def _words(names) -> list[str]:
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    return list(names)


def _is_named(path: str, names: list[str]) -> bool:
    """Whether a name is that of the array, its path, or a group that it is in; * stands for any
    part of a name."""
    *groups, last = path.split("/")
    all_of = [last, path] + ["/".join(groups[:k + 1]) for k in range(len(groups))] + groups[:1] \
        + ["/".join(groups[1:] + [last]), "/".join(groups[1:])]
    return any(fnmatch.fnmatchcase(one, name) for one in all_of for name in names)


def _check_names(names: list[str], option: str, paths: set[str]) -> None:
    for name in names:
        if not any(_is_named(path, [name]) for path in paths):
            known = {path.rsplit("/", 1)[-1] for path in paths} | paths
            near = difflib.get_close_matches(name, known, 3)
            raise InputError(f"{option} = {name}: neither file has an array or a group of this name"
                             + ("; there is " + ", ".join(near) if near else ""))


def _scale(path: str, arrays: dict) -> np.ndarray:
    """What differences are relative to: the largest entry of the same time, in a sweep the entry
    itself; of errors that of what they belong to."""
    own = arrays[path]
    base = arrays[base_of(path, arrays)]
    array = base if base.dims == own.dims else own
    size = np.nan_to_num(np.abs(_values(array).astype(float)), posinf=0)
    in_sweep = path.startswith(("sweep/", "optimum/"))
    over = tuple(k for k, dim in enumerate(array.dims)
                 if dim == "sample" or not in_sweep and dim not in TIMES)
    return np.broadcast_to(size.max(over, keepdims=True, initial=0), own.shape)


def _allowed(path: str, pair: list[dict], rtol: float) -> tuple[np.ndarray, np.ndarray]:
    """(what differences are relative to, the largest that is none)."""
    scale = np.maximum(*(_scale(path, arrays) for arrays in pair))
    return scale, rtol * scale + 64 * np.finfo(float).eps * scale.max(initial=0)


def _runs(run: Result, path: str, array: xarray.DataArray):
    """Of how many runs the means of an array are; infinite where the file does not say it."""
    place, _, _ = path.rpartition("/")
    group = run[place or "/"]
    if "n" in group and set(group["n"].dims) <= set(array.dims):
        return group["n"].broadcast_like(array).transpose(*array.dims).values
    if "runs" in group.attrs:
        return group.attrs["runs"] - group.attrs.get("failed", 0)
    if place.endswith("compare"):
        side = place.removesuffix("compare")
        return min((data.attrs["runs"] for name, data in run.items()
                    if name.startswith(side + "reference/N")), default=math.inf)
    if place == "optimum":
        return float(run["sweep"]["n"].min())
    return math.inf


def _error(run: Result, path: str, arrays: dict):
    """(standard error, degrees of freedom) of an array; None if it has none."""
    array = arrays[path]
    if path.rsplit("/", 1)[-1] in COMPUTATION:
        return None
    if path + "_se" in arrays:
        error = _values(arrays[path + "_se"])
    elif path + "_samples" in arrays:  # of resamples
        samples = arrays[path + "_samples"]
        error = samples.std("sample", skipna=False).transpose(*array.dims).values
    else:
        return None
    return error, np.maximum(np.asarray(_runs(run, path, array), dtype=float) - 1, 0)


def _paired(path: str, pair: list[dict]):
    """(error, degrees of freedom) of a difference whose runs are the same draws; None where a file
    does not have them."""
    for end in ("_pseudo", "_runs"):
        if not all(path + end in arrays for arrays in pair):
            continue
        one, other = (arrays[path + end] for arrays in pair)
        if one.shape != other.shape or "run" not in one.dims or one.sizes["run"] < 2:
            return None
        change = _values(other).astype(float) - _values(one)
        axis, n = one.dims.index("run"), one.sizes["run"]
        return change.std(axis, ddof=1) / math.sqrt(n), np.float64(n - 1)
    return None


def _z(path: str, runs: list[Result], pair: list[dict], paired: bool):
    """z of new - old, entry by entry; None where a file has no error of it."""
    with np.errstate(invalid="ignore"):
        change = _values(pair[1][path]).astype(float) - _values(pair[0][path])
    found = _paired(path, pair) if paired else None
    if found is None:
        errors = [_error(run, path, arrays) for run, arrays in zip(runs, pair)]
        if None in errors:
            return None
        squares = [error ** 2 for error, _ in errors]
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [np.where(square > 0, square ** 2 / freedom, 0)
                     for square, (_, freedom) in zip(squares, errors)]
            freedom = np.where(sum(parts) > 0, sum(squares) ** 2 / sum(parts), math.inf)
        error = np.sqrt(sum(squares))
        found = np.where(error > 0, error, np.nan), freedom  # 0: what changes it, sampling does not
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(change == 0, 0, change / found[0])
    return np.where(np.isinf(t), t, normal_of(t, found[1]))


def _place(array: xarray.DataArray, index) -> str:
    return " ".join(f"{dim} = {array[dim].values[k] if dim in array.coords else k}"
                    for dim, k in zip(array.dims, np.unravel_index(index, array.shape)))


def _has_numbers(path: str, pair: list[dict]) -> bool:
    """In both files; the values of a swept key may be numbers in one and texts in the other."""
    return all(arrays[path].dtype.kind in "fiub" for arrays in pair)


def _text_row(path: str, old: xarray.DataArray, new: xarray.DataArray) -> Row:
    other = np.asarray(_values(old) != _values(new))
    at = _place(old, int(np.argmax(other))) if other.any() else ""
    return Row(path, old.size, int(other.sum()), math.nan, math.nan, math.nan, at, "different")


def _judge(path: str, pair: list[dict], z, rtol: float, threshold: float | None) -> Row:
    """threshold: of |z|, or None: differences are judged by rtol, which is 0 for bits."""
    old, new = (arrays[path] for arrays in pair)
    values = [_values(array).astype(float) for array in (old, new)]
    missing = np.isnan(values[0]) != np.isnan(values[1])
    with np.errstate(invalid="ignore"):
        change = np.where((values[0] == values[1]) | np.isnan(values[0]), 0,
                          np.abs(values[1] - values[0]))
    scale, allowed = _allowed(path, pair, rtol)
    far = (change > allowed if rtol else change > 0) | missing
    verdict = "different" if far.any() else "equal"
    if threshold is not None and far.any() and not path.startswith("data/"):
        known = ~np.isnan(z) if z is not None else np.zeros(old.shape, bool)
        shown = far & known & (np.abs(np.where(known, z, 0)) > threshold)
        if not path.startswith("optimum/") and path.split("/")[-2:-1] != ["compare"]:
            shown |= missing  # fits may have a result by chance
        verdict = "different" if shown.any() else "equal" if not (far & ~known).any() \
            else "cannot tell"
        far = shown
    change = np.where(missing, np.inf, change)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(change > 0, change / scale, 0)
    largest = math.nan if z is None or not np.isfinite(z).any() else float(np.nanmax(np.abs(z)))
    at = int(np.argmax(np.where(far, change, -1) if far.any() else change))
    place = _place(old, at) + " (NaN in one file)" * bool(missing.flat[at])
    return Row(path, old.size, int(far.sum()), float(change.max(initial=0)),
               float(relative.max(initial=0)), largest, place, verdict)


def _is_of_runs(path: str, arrays: dict) -> bool:
    """Whether it depends on how many runs there are."""
    return path.endswith("/run") or base_of(path, arrays) != path and "run" in arrays[path].dims


def _shapes(pair: list[dict], paths: set[str], exact: bool, judged: bool,
            found: Diff) -> list[str]:
    """The arrays that both have, of one shape; what else there is goes into `found`. judged: by
    errors, which other numbers of runs have as well."""
    both = []
    for path in [*pair[0], *(path for path in pair[1] if path not in pair[0])]:
        if path not in paths:
            continue
        if path not in pair[1]:
            found.shapes.append(f"the old file alone has {path}")
        elif path not in pair[0]:
            found.added.append(path)
        elif pair[0][path].shape != pair[1][path].shape \
                or pair[0][path].dims != pair[1][path].dims:
            if judged and _is_of_runs(path, pair[0]):
                continue
            words = [" ".join(f"{dim} {size}" for dim, size in arrays[path].sizes.items()) or "one"
                     for arrays in pair]
            found.shapes.append(f"{path} has another shape: {words[0]} -> {words[1]}")
        else:
            both.append(path)
    if exact:
        found.shapes += [f"the new file alone has {path}" for path in found.added]
        found.added = []
    return both


def _same_numbers(old: np.ndarray, new: np.ndarray, found: Diff) -> bool:
    """Which are then counted."""
    numbers = old.dtype.kind == new.dtype.kind == "f"
    same = np.array_equal(old, new, equal_nan=True) if numbers else np.array_equal(old, new)
    found.same += same
    return same


def _question(found: Diff, exact: bool, rtol: float, sigma, threshold, count: int,
              in_sweep: bool) -> None:
    if exact:
        found.question = "equal: the same numbers"
    elif threshold is None:
        what = "of the entry" if in_sweep else "of the largest entry at the same time"
        found.question = f"equal: within {rtol:g} {what} (errors: of what they belong to)"
    elif sigma == "auto":
        found.question = (f"equal: |z| below {threshold:.2f}, which the largest of {count} exceeds "
                          f"in one of {round(1 / CHANCE)} comparisons of equal results")
    else:
        by_chance = count * 2 * statistics.NormalDist().cdf(-threshold)
        found.question = (f"equal: |z| below {threshold:g}; of {count} z {by_chance:.2g} are "
                          "beyond it by chance")


def diff(old, new, *, exact: bool = False, rtol: float | None = None, sigma=None, only=(),
         ignore=()) -> Diff:
    """Two results, by one of the questions of this module. old, new: paths or results of one kind.
    exact, rtol, sigma: one of them; sigma is a number or "auto". only, ignore: names of arrays
    (loss), of groups (limit) or paths (limit/loss), in which * stands for any letters, as a list or
    a text. What the new file alone has is listed, and a difference with exact only.

    >>> diff("stored.h5", "new.h5", ignore="rank").equal        # doctest: +SKIP
    True
    """
    if exact + (rtol is not None) + (sigma is not None) > 1:
        raise InputError("exact, rtol and sigma are three questions; ask one of them")
    if rtol is not None and not 0 < rtol < 1:
        raise InputError(f"rtol = {rtol}: must be above 0 and below 1 (exact asks for the same "
                         "bits)")
    if sigma not in (None, "auto") and not (isinstance(sigma, (int, float))
                                            and 0 < sigma < math.inf):
        raise InputError(f"sigma = {sigma}: must be a number above 0, or auto")
    runs = [_open(old), _open(new)]
    kinds = [_kind(run) for run in runs]
    if kinds[0] != kinds[1]:
        raise InputError(f"{runs[0].path} is of {kinds[0]} and {runs[1].path} of {kinds[1]}; two "
                         "of one kind are compared")
    settings, pair = [_settings(run) for run in runs], [_arrays(run) for run in runs]
    paths, only, ignore = set(pair[0]) | set(pair[1]), _words(only), _words(ignore)
    _check_names(only, "only", paths)
    _check_names(ignore, "ignore", paths)
    paths = {path for path in paths if (not only or _is_named(path, only))
             and not _is_named(path, ignore)}
    if not paths:
        raise InputError("nothing is left to be compared: ignore takes away all that only asks for")
    found = Diff(runs[0].path, runs[1].path)
    found.settings = [(key, *(one.get(key, "(not there)") for one in settings))
                      for key in sorted(settings[0].keys() | settings[1].keys())
                      if settings[0].get(key) != settings[1].get(key)]
    same_seed = _same_seed(*settings)
    if not exact and rtol is None and sigma is None:
        sigma = None if same_seed else "auto"
    tolerance = 0 if exact else rtol or (RTOL_SINGLE if _is_single(*settings) else RTOL)
    both = _shapes(pair, paths, exact, sigma is not None, found)
    both = [path for path in both
            if not _same_numbers(*(_values(arrays[path]) for arrays in pair), found)]
    z = {path: _z(path, runs, pair, same_seed and sigma is not None) for path in both
         if _has_numbers(path, pair) and base_of(path, pair[0]) == path}
    count = sum(int(np.isfinite(one).sum()) for one in z.values() if one is not None)
    threshold = None if sigma is None else float(sigma) if sigma != "auto" else \
        statistics.NormalDist().inv_cdf(1 + math.expm1(math.log1p(-CHANCE) / max(count, 1)) / 2)
    _question(found, exact, tolerance, sigma, threshold, count, "sweep" in runs[0])
    single = set()  # errors and runs, which have no error of their own
    for path in both:
        if not _has_numbers(path, pair):
            found.rows.append(_text_row(path, pair[0][path], pair[1][path]))
        elif threshold is not None and base_of(path, pair[0]) != path:
            single.add(path.rsplit("/", 1)[-1])
        else:
            found.rows.append(_judge(path, pair, z.get(path), tolerance, threshold))
    if single:
        found.notes.append("not judged, as they have no error of their own: "
                           + " ".join(sorted(single)))
    if threshold is not None and same_seed:
        found.notes.append("Both files have the same seeds: where single runs are not kept in "
                           "both, |z| is too small.")
    elif threshold is None and not same_seed and not exact:
        found.notes.append("The files have other seeds: differences of the size of the errors are "
                           "chance; --sigma auto asks for others.")
    noted = [{f"{note.group} {note.code}" for note in run.notes} for run in runs]
    for which, alone in (("old", noted[0] - noted[1]), ("new", noted[1] - noted[0])):
        if alone:
            found.notes.append(f"notes of the {which} file alone: {', '.join(sorted(alone))}")
    return found
