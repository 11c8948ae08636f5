"""What a sweep compares its points by: one positive number of each run, the smaller the better.

    test_loss     the last one that was measured
    loss          that of the last time; with `batch`, of the last batch alone
    smooth_loss   the mean of the loss over the last times: with `batch`, over one pass through the
                  inputs, so that each counts once and the choice of the last batch not at all, but
                  at most over the last fifth of the times, in which the network is still much the
                  same; without, the same as loss
    time_to=X     the time, in steps and interpolated, at which the loss falls to X
    NAME[t][i]... any series NAME at time t ("last": the last time, which is also meant without an
                  index), of each of its further axes the entry i or the mean over the axis ("mean",
                  which is also meant without an index): Phi3_diag[20][mean], f[last][2]

Without a choice it is test_loss where all runs have it, else smooth_loss.
"""
from __future__ import annotations

import dataclasses
import math
import re

import numpy as np

from dmft.errors import InputError
from dmft.study.text import clip, number_of

AXES, LONGEST = 8, 63  # indices behind that of t; letters
WORDS = {
    "loss": ("loss", "loss at the last time (with batches, of the last batch)"),
    "test_loss": ("test_loss", "loss of the test inputs, the last that was measured"),
    "smooth_loss": ("loss", "loss, with batches the mean over the last pass through the inputs, at "
                    "most the last fifth of the times"),
}


@dataclasses.dataclass
class Objective:
    """kind: a word of WORDS, "time_to" or "series"; series: what is read, of it the time t (None:
    the last) and of each further axis an entry (None: the mean)."""
    text: str
    kind: str
    series: str
    about: str
    level: float = 0.0
    t: int | None = None
    entry: tuple[int | None, ...] = ()


def read(words: str) -> Objective:
    """InputError with the choices there are."""
    if words in WORDS:
        return Objective(words, words, *WORDS[words])
    refused = InputError(
        f"objective \"{clip(words)}\": must be test_loss, loss, smooth_loss, time_to=X with X > 0, "
        "or NAME[t][i]..., a series at a time t or \"last\" and an entry i or \"mean\" of each "
        f"further axis ({AXES} at most)")
    if len(words) > LONGEST:
        raise refused
    if words.startswith("time_to"):
        level = number_of(words.removeprefix("time_to="))
        if not words.startswith("time_to=") or level is None or not level > 0:
            raise refused
        return Objective(words, "time_to", "loss",
                         f"time in steps at which the loss falls to {level:g}", level)
    found = re.fullmatch(r"([^\[ \t/.=]+)(?:\[(last|\d+)\]((?:\[(?:mean|\d+)\])*))?", words)
    further = (found and found[3]) or ""
    entry = tuple(None if one == "mean" else int(one) for one in re.findall(r"\w+", further))
    if not found or len(entry) > AXES:
        raise refused
    t = int(found[2]) if found[2] not in (None, "last") else None
    when = "its last time" if t is None else f"t = {t}"
    return Objective(words, "series", found[1], f"{found[1]} at {when}, " + (
        f"of its further axes {further}" if further else
        "the mean over further axes if it has any"), t=t, entry=entry)


def window(times: int, inputs: int, batch: int) -> int:
    """Over how many of the last times smooth_loss is."""
    one_pass = (inputs + batch - 1) // batch if batch > 0 else 1
    return min(one_pass, (times + 4) // 5)


# ---- series ----

@dataclasses.dataclass
class Series:
    """A number at each time t, of one group. runs [run][t]: the pseudo-values of the jackknife,
    where there are such, else those of each run, else None. NaN where a run had ended or nothing
    was measured. The error of a mean over entries is the mean of their errors, which it does not
    exceed; the runs tell it better. tolerance: an error common to all runs, or None."""
    mean: np.ndarray
    error: np.ndarray | None = None
    tolerance: np.ndarray | None = None
    runs: np.ndarray | None = None
    pseudo: bool = False


def _entry(reader, name: str, before: int, entry) -> np.ndarray:
    """Of an array [...][t][...], whose first `before` axes end with t, a number for each of
    these."""
    array = reader.values(name)
    axes, where = array.ndim - before, f"{reader.path}: {{}}{reader.name}/{name}"
    if len(entry) > axes:
        raise InputError(where.format("") + f" has {axes} ax{'is' if axes == 1 else 'es'} behind "
                         f"t, and {len(entry)} indices stand behind that of t")
    for k in range(axes):
        wanted = entry[k] if k < len(entry) else None
        if not array.shape[before + k] or (wanted or 0) >= array.shape[before + k]:
            raise InputError(
                where.format(f"axis {k + 1} of ") + f" behind t has {array.shape[before + k]} "
                f"entries, counted from 0: there is no entry {wanted or 0}")
    for k in range(axes):
        wanted = entry[k] if k < len(entry) else None
        array = array.take(wanted, before) if wanted is not None else total(array, before) / \
            array.shape[before]
    return array


def total(array: np.ndarray, axis: int = 0) -> np.ndarray:
    """The sum along an axis, first to last, whatever its length."""
    places = range(array.shape[axis])
    return sum((array.take(k, axis) for k in places), np.zeros(()))


def read_series(reader, name: str, entry=()) -> Series | None:
    """Of a group (dmft.study.output.Reader); None where it has no such series. InputError where its
    first axis is not t, or where it lacks an axis or an entry with an index."""
    if not reader.has(name):
        return None
    if str(reader.attribute("dims", name) or "").split(" ")[0] != "t":
        raise InputError(f"{reader.path}: the first axis of {reader.name}/{name} is not t")
    ends = {end: _entry(reader, name + end, 1, entry) for end in ("", "_se", "_tolerance")
            if not end or reader.has(name + end)}
    pseudo = reader.has(name + "_pseudo")
    each = name + ("_pseudo" if pseudo else "_runs")
    return Series(ends[""], ends.get("_se"), ends.get("_tolerance"),
                  _entry(reader, each, 2, entry) if reader.has(each) else None, pseudo)


# ---- numbers ----

def _time_to(loss: np.ndarray, level: float) -> float:
    """The time at which a loss falls to the level, or NaN."""
    low = np.flatnonzero(loss <= level)
    if not len(low):
        return math.nan
    t = int(low[0])
    return t - float((level - loss[t]) / (loss[t - 1] - loss[t])) if t else 0.0


def _times(objective: Objective, runs: np.ndarray, pseudo: bool) -> list[float]:
    """A time is no linear function of the loss: of pseudo-values, the jackknife of it once more."""
    n = len(runs)
    if not pseudo or n < 2:
        return [_time_to(run, objective.level) for run in runs]
    whole = _time_to(total(runs) / n, objective.level)
    return [n * whole - (n - 1) * _time_to(total(np.delete(runs, r, 0)) / (n - 1), objective.level)
            for r in range(n)]


def of_runs(objective: Objective, series: Series, ended: np.ndarray, times: int) -> np.ndarray:
    """The objective of each run that ended, in their order: NaN where it has none, as a loss that
    does not fall to X, or a series at the last time that others have. Pseudo-values give
    pseudo-values."""
    runs = series.runs[ended]
    if objective.kind == "time_to":
        return np.array(_times(objective, runs, series.pseudo))
    known = np.flatnonzero(np.isfinite(runs).any(axis=0))
    last = objective.t if objective.t is not None else int(known[-1]) if len(known) else -1
    if not 0 <= last < runs.shape[1]:
        return np.full(len(runs), math.nan)
    first = last - times + 1 if objective.kind == "smooth_loss" else last
    return total(runs[:, first:last + 1], 1) / (last - first + 1)


def _last(objective: Objective, series: Series) -> int | None:
    """The last time at which the mean is known, or that which is named."""
    if objective.t is not None:
        return objective.t if objective.t < len(series.mean) else None
    known = np.flatnonzero(np.isfinite(series.mean))
    return int(known[-1]) if len(known) else 0 if len(series.mean) else None


def tolerance(objective: Objective, series: Series) -> float:
    """The error of the tolerance that all of these values share, where one was measured; else, and
    of time_to, 0."""
    t = _last(objective, series)
    if t is None or series.tolerance is None or objective.kind == "time_to":
        return 0.0
    shared = abs(float(series.tolerance[t]))
    return shared if math.isfinite(shared) else 0.0


def of_mean(objective: Objective, series: Series) -> tuple[float, float]:
    """Of a series that was not kept run by run: its mean and standard error."""
    t = _last(objective, series)
    if t is None:
        return math.nan, math.nan
    return float(series.mean[t]), math.nan if series.error is None else float(series.error[t])
