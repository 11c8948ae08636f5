"""For which power of a size in the rates, or in the start, of matrices an optimum transfers.

    found = dmft.transfer("x.ini", ["rates.W_in", "rates.W_out"], "rho", sizes=[1, 0.5, 0.25],
                          powers=[0, 0.5, 1], values="logspace(0.1, 6, 8)")
    print(found)                    # for each power how the best rate drifts with rho
    found.power                     # (low, high): for which powers it does not

One sweep is run: over the powers, the sizes and the key along which the optimum is sought. What is
said of each power rests on the samples of /optimum (docs/output.md), by the rule of the studies.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from dmft.errors import InputError
from dmft.files import Result
from dmft.judgement import WORDS, drift, interval, judge, line, within_factor
from dmft.run import settings_of, sweep

# Sizes as powers in [init], [rates], [eps], [decays] have them, and the keys that set them.
SIZES = {"N": "reference.widths", "rho": "network.rho", "kappa": "network.kappa",
         "iota": "network.iota", "L": "network.depth", "N_e": "network.expert_width",
         "P": "data.inputs", "D": "data.dimension"}
OF_SWEEPS = ("output", "force", "progress", "jobs", "retry")  # options of dmft.sweep, no keys


@dataclasses.dataclass
class Drift:
    """Of one power: the exponent with which the optimum goes as the size, by a line through its
    logarithms, with its interval of 95 %; infinite where an optimum is not known. transfers:
    whether the optimum changes by less than `factor` over all sizes; None: the numbers cannot
    tell. optima: {size: (at, low, high)}, NaN where it is not known."""
    power: float
    exponent: float
    low: float
    high: float
    transfers: bool | None
    optima: dict[float, tuple[float, float, float]]


@dataclasses.dataclass
class Transfer:
    """What transfer() found. power: the interval of 95 % of the power for which the optimum does
    not drift, by a line through the exponents of all powers of which it is known; (-inf, inf) where
    that says nothing. rates: the sweep."""
    matrices: list[str]
    size: str
    along: str
    factor: float
    drifts: list[Drift]
    power: tuple[float, float]
    rates: Result

    def __str__(self) -> str:
        head = f"power of {self.size} in {', '.join(self.matrices)}"
        rows = [(head, f"best {self.along} goes as {self.size} to the", "95 %",
                 f"within a factor of {self.factor:g}", "best at " + " ".join(
                     f"{size:g}" for size in self.drifts[0].optima))]
        rows += [(f"{one.power:g}", f"{one.exponent:.3g}", f"[{one.low:.3g}, {one.high:.3g}]",
                  WORDS[one.transfers],
                  " ".join(f"{at:.3g}" if np.isfinite(at) else "-"
                           for at, _, _ in one.optima.values())) for one in self.drifts]
        wide = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(word.rjust(n) for word, n in zip(row, wide)) for row in rows]
        low, high = self.power
        known = np.isfinite([low, high]).all()
        lines.append(f"it transfers for powers in [{low:.3g}, {high:.3g}] (95 %)" if known else
                     "for which powers it transfers, the numbers cannot tell")
        return "\n".join(lines)


def _list(given) -> list:
    return [given] if isinstance(given, str) else list(given)


def _check(matrices: list[str], size: str, sizes: list, powers: list) -> None:
    for name in matrices:
        if name.split(".")[0] not in ("rates", "init", "eps", "decays") or "." not in name:
            raise InputError(f"{name}: a matrix is named with its section, rates.W_out, "
                             "init.W_out, eps.W_out or decays.W_out")
    if size not in SIZES:
        raise InputError(f"{size}: a size is one of {' '.join(SIZES)}")
    for what, values in (("sizes", sizes), ("powers", powers)):
        if len(values) < 2 or len(set(values)) < len(values):
            raise InputError(f"{what}: this takes two different numbers or more")
    if min(sizes) <= 0:
        raise InputError(f"sizes: {min(sizes):g} is not above 0, and has no power")


def _samples(best) -> np.ndarray:
    """[size, sample] of the logarithm of the optimum; NaN where none is known."""
    with np.errstate(divide="ignore"):
        logs = np.log(best["at_samples"].transpose(..., "sample").values)
    return np.where((best["reason"].values == 0)[:, None], logs, np.nan)


def _check_width(width: float, settings: Mapping[str, str]) -> None:
    """Before anything runs: whether there will be an optimum of this width."""
    widths = [float(N) for N in settings["reference.widths"].split()]
    widths += [np.inf] * (int(settings["solver.replicates"]) > 0)
    if width not in widths:
        raise InputError(f"width = {width:g}: the optima will be of "
                         + (", ".join(f"N = {N:g}" for N in widths) or "nothing")
                         + "; N = inf is the limit, with [solver] replicates above 0")


def root(powers, exponents) -> tuple[float, float]:
    """Interval of 95 % of where a line through exponents [power, sample] is 0; of powers of which
    nothing is known none counts.

    >>> scatter = np.random.default_rng(1).normal(size=(2, 1000))
    >>> low, high = root([0, 1], np.array([[0.5], [-0.5]]) + 0.01 * scatter)
    >>> 0.48 < low < 0.5 < high < 0.52
    True
    """
    known = [k for k, one in enumerate(exponents) if np.isfinite(interval(one)).all()]
    centre, height, slope = line(np.asarray(powers, dtype=float)[known], exponents[known])
    low, high = interval(slope)
    if not np.isfinite([low, high]).all() or low <= 0 <= high:
        return -np.inf, np.inf
    return interval(centre - height / slope)


def transfer(config, matrices, size: str, *, sizes, powers, values, along: str = "training.eta0",
             width: float | None = None, factor: float = 1.25, **options) -> Transfer:
    """For each of `powers` p: matrices, such as "rates.W_out" or a list of them, are multiplied by
    size^p, which takes the place of what the ini says of them, and the optimum along a key is found
    at each of `sizes`.

    config, options: as those of dmft.sweep; without a section [sweep]. size: N, rho, kappa, iota,
    L, N_e, P or D. values: of the key `along`, as a line of [sweep] has them; at least four must
    bracket the optimum. width: of the networks that are asked, inf for the limit (the default where
    there is one, else the widest networks); it is not read where the size is N. factor: by how much
    an optimum that transfers may change over all sizes.

    >>> print(dmft.transfer("x.ini", "rates.Q", "N", sizes=[32, 64, 128], powers=[0, 0.5],
    ...                     values="logspace(0.1, 6, 8)"))                      # doctest: +SKIP
    """
    matrices, sizes, powers = _list(matrices), [float(x) for x in sizes], [float(p) for p in powers]
    _check(matrices, size, sizes, powers)
    if width is not None and size != "N":
        given = {key: value for key, value in options.items() if key not in OF_SWEEPS}
        _check_width(width, settings_of(config, **given | {SIZES[size]: f"{sizes[0]:g}"}))
    lines = {"sweep." + ", ".join(matrices): " | ".join(
        " ".join([f"{size}^{p:g}"] * len(matrices)) for p in powers)}
    written = " ".join(f"{x:g}" for x in sizes)
    if size == "N":
        options = options | {SIZES[size]: written}
    else:
        lines["sweep." + SIZES[size]] = written
    lines["sweep." + along] = values if isinstance(values, str) else " ".join(map(str, values))
    lines["sweep.along"] = along
    if isinstance(config, Mapping):  # what it says of keys that vary is then left out
        rates = sweep(dict(config) | lines, **options)
    else:
        rates = sweep(config, **options | lines)
    best = rates.optimum
    best = best.sel(N=sizes if size == "N" else best["N"].max() if width is None else width)
    axis, found, logs = ",".join(matrices), [], []
    other = "N" if size == "N" else SIZES[size]
    for k, power in enumerate(powers):
        one = best.isel({axis: k}).transpose(other, ...)
        rises = drift(sizes, _samples(one))
        logs.append(rises / np.log(max(sizes) / min(sizes)))
        low, high = interval(logs[-1])
        found.append(Drift(power, float(np.median(logs[-1])), low, high,
                           judge(rises, within_factor(factor)),
                           {x: tuple(float(one[name].values[i]) for name in ("at", "low", "high"))
                            for i, x in enumerate(sizes)}))
    return Transfer(matrices, size, along, factor, found, root(powers, np.array(logs)), rates)
