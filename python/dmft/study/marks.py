"""What the units of a sweep are worth: the warnings of each run (solver/run/notes.h), what only all
widths of a point together show, and what its networks cost."""
from __future__ import annotations

import dataclasses
import math

import numpy as np

from dmft.errors import InputError
from dmft.study.objective import total
from dmft.study.output import Reader
from dmft.study.sweep import Sweep


@dataclasses.dataclass(frozen=True)
class Mark:
    """A series of /sweep. attribute: what the run has it by; letter: in the table, with what it
    means."""
    name: str
    about: str
    attribute: bool = True
    letter: str = ""
    means: str = ""


MARKS = [
    Mark("valid_until", "the first time from which a warning holds, or the number of times"),
    Mark("self_averaging", "0: a handful of experts or units carries an average of the limit",
         letter="c", means="a handful of experts or units carries an average of the limit: its "
         "mean depends on the sites, and its error is too small"),
    Mark("edge_of_stability", "1: over the second half of the times the variance of f over "
         "networks does not fall with N", attribute=False, letter="e",
         means="at the edge of stability: "
         "networks of one width differ as much as those of any other; no limit says what a network "
         "does"),
    Mark("unmatched", "normals of the limit that were not fully matched, over the sites of their "
         "population", letter="u", means="random vectors of the limit could not all be made "
         "orthogonal, because it has too few sites: above 1 for each site, biases may be several "
         "standard errors"),
    Mark("failed_diverged", "runs that diverged", letter="D", means="runs diverged"),
    Mark("failed_sites", "limits with too few sites for their bases", letter="S", means="the limit "
         "needs more sites than it has, which is no divergence; raise sites (expert_sites, "
         "unit_sites)"),
    Mark("failed_tolerance", "runs whose steps or sweeps did not come to their tolerance",
         letter="T", means="steps or sweeps did not come to their tolerance"),
    Mark("parameters", "numbers of a network that learn"),
    Mark("active_parameters", "those of them that take part in the output of one token"),
    Mark("flops_per_token", "multiplications and additions of matrices and attention for one token "
         "(or input), forward and backward"),
    Mark("flops_per_step", "the same for all inputs of one evaluation"),
    Mark("floor", "loss of the best predictor, where the law of the data is known"),
]
NAMES = [mark.name for mark in MARKS]
EDGE = MARKS[NAMES.index("edge_of_stability")]
FEWEST, LEAST = 4, 1e-6  # networks; a standard deviation below this share of rms f tells nothing


def columns_of(text: str | None) -> list[str]:
    """The columns of the table that [sweep] columns asks for; InputError with those there are."""
    for name in (text or "").split():
        if name not in NAMES:
            raise InputError(f"[sweep] columns: there is no {name[:80]}; there are "
                             + " ".join(NAMES))
    return (text or "").split()


class Marks:
    """value [name][unit]: NaN, not known or does not apply."""

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self.value = {name: np.full(sweep.count, math.nan) for name in NAMES}
        self._outputs: dict[int, np.ndarray] = {}  # of one point: f_runs [run][t][entries]

    def read(self, unit: int, file) -> None:
        """From the file of a unit."""
        group, data = Reader(file, self.sweep.group(unit)), Reader(file, "data")
        for mark in MARKS:
            if mark.attribute:
                found = (data if mark.name == "floor" else group).number(mark.name)
                self.value[mark.name][unit] = math.nan if found is None else found
        if self.sweep.width(unit) and len(self.sweep.widths) > 1 and group.has("f_runs") and \
                len(group.shape("f_runs")) > 2:
            runs = group.values("f_runs")
            self._outputs[unit] = runs.reshape(*runs.shape[:2], -1)

    def find_edge(self, point: int) -> None:
        """Of a point all of whose units were read, by all its widths; of runs as long as one
        another. Their outputs, which of all points may be too many to be kept, are let go."""
        widths, first = self.sweep.widths, point * self.sweep.columns
        found = [self._outputs.pop(first + k, None) for k in range(len(widths))]
        if len(widths) < 2 or any(f is None or f.shape[:2] != found[0].shape[:2] for f in found):
            return
        reached = _at_edge(widths, found)
        self.value[EDGE.name][first:first + self.sweep.columns] = reached
        limit = slice(first + len(widths), first + self.sweep.columns)
        if reached:  # the numbers of networks are what they are
            until = self.value["valid_until"]
            until[limit] = np.fmin(until[limit], found[0].shape[1] // 2)

    def has(self, mark: Mark, unit: int) -> bool:
        """Whether a unit has a letter."""
        value = self.value[mark.name][unit]
        return bool(mark.letter) and bool(value == 0 if mark.name == "self_averaging"
                                          else value > 0)

    def letters(self, unit: int) -> str:
        """Behind the row of a unit, "  [ce]", or nothing."""
        found = "".join(mark.letter for mark in MARKS if self.has(mark, unit))
        return f"  [{found}]" if found else ""

    def explanations(self) -> list[str]:
        """What the letters that occur mean."""
        return [f"{mark.letter}: {mark.means}" for mark in MARKS
                if any(self.has(mark, unit) for unit in range(self.sweep.count))]


# ---- the edge of stability (solver/run/stability.c) ----

def _log_variances(f: np.ndarray, there: np.ndarray, t: int) -> np.ndarray:
    """ln V at t of the networks that reached it, V the variance summed over the entries of f: of
    all of them, then without run r, which for a run that did not reach t is the same; NaN where
    this is round-off. there [run]: whether it reached t."""
    n, runs = int(there.sum()), f[there, t]
    value = np.full(1 + len(f), math.nan)
    if not n:
        return value
    mean = total(runs / n)
    apart = total((runs - mean) ** 2, 1)
    every = float(total(apart))
    if n >= FEWEST and every / n > LEAST ** 2 * float(total(mean * mean)):
        value[:] = math.log(every / (n - 1))
        value[1:][there] = np.log((every - apart * n / (n - 1)) / (n - 2))
    return value


def _at_edge(widths: list[int], outputs: list[np.ndarray]) -> bool:
    """Whether, in the second half of the times, the variance of f over networks falls more slowly
    than N^-1/2 and not as 1/N, by three errors: its slope in ln N, with that of the jackknife over
    networks or of the residuals, the larger."""
    times, sums, reached = 0, [np.zeros(1 + len(f)) for f in outputs], None
    ends = [np.logical_and.accumulate(~np.isnan(f[:, :, 0]), axis=1) for f in outputs]
    for t in range(outputs[0].shape[1] // 2, outputs[0].shape[1]):
        there = [one[:, t] for one in ends]
        now = [_log_variances(f, one, t) for f, one in zip(outputs, there)]
        if not all(np.isfinite(value[0]) for value in now):
            continue
        reached = reached or there
        sums, times = [sum_ + value for sum_, value in zip(sums, now)], times + 1
    if not times:
        return False
    mean, error = [], []
    for value, there in zip(sums, reached):
        shift, n = (value[1:][there] - value[0]) / times, int(there.sum())
        first, second = float(total(shift / n)), float(total(shift * shift / n))
        mean.append(value[0] / times)
        error.append(math.sqrt((n - 1) * max(second - first * first, 0.0)))
    x, y = np.log(widths), np.array(mean)
    lever = x - x.mean()
    spread = float(lever @ lever)
    slope = float(lever @ y) / spread
    own = math.sqrt(float(((lever * error) ** 2).sum())) / spread
    if len(widths) >= 3:
        rest = y - y.mean() - slope * lever
        own = max(own, math.sqrt(float(rest @ rest) / (len(widths) - 2) / spread))
    return slope > -0.5 and slope + 1 > 3 * own
