"""Random networks (programs.py), trained by dmft-solve and by dmft.torch from the same weights.

    tests/random.sh [--count N] [--time SECONDS] [--seed SEED] [--keep FOLDER]

At every measured time f, the loss, every kernel between inputs and every number measured must agree
as far as round-off explains. What it explains is measured, network by network: COPIES copies of the
PyTorch network have their weights and selection biases changed by a relative 1e-13 before the first
step and after every one, hundreds of times what rounding does to them; the bound of a quantity at a
time is TIMES the largest difference that this has made until then, and 1e-13 of its largest value
until then, and 1e-15, what is left where numbers of order one cancel, or of kernels its square.
What differs by more is printed with its text, its seed, and the first step and the quantity, and
kept in the folder as SEED.lua and SEED.ini; so is what the builder refuses, which is a fault of the
generator.
"""
from __future__ import annotations

import collections
import copy
import os
import sys
import tempfile
import time
import warnings

import numpy as np
import torch

import dmft
from dmft.torch.comparison import Measured
from dmft.torch.inputs import data_of
from dmft.torch.network import Network
from dmft.torch.training import train

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import options  # noqa: E402
import programs  # noqa: E402

COPIES, TIMES, CHANGE, ROUND_OFF, NOTHING = 2, 10, 1e-13, 1e-13, 1e-15


def change(net: Network, generator: torch.Generator) -> None:
    """Every weight and selection bias by a relative CHANGE."""
    with torch.no_grad():
        for x in (*net.weights.values(), *net.buffers()):
            if x.dtype.is_floating_point:
                x.mul_(1 + CHANGE * torch.randn(x.shape, dtype=x.dtype, generator=generator))


def changed(net: Network, seed: int) -> Network:
    """A copy that is changed now and after every step."""
    other, generator = copy.deepcopy(net), torch.Generator().manual_seed(seed)
    right = other.after_step

    def after_step(optimizer=None):
        right(optimizer)
        change(other, generator)

    other.after_step = after_step
    change(other, generator)
    return other


def series(net: Network, data, names) -> dict[str, np.ndarray]:
    """What a network in training measures, by the names of the result file, time first."""
    measured = Measured(net, names)
    losses = train(net, data, measure=measured)
    return {"f_runs": np.stack(measured.f), "loss_runs": np.array(losses)} | \
        {name: np.stack(rows) for name, rows in measured.rows.items()}


def aligned(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """One row may stand for all inputs in the file."""
    if theirs.size == ours.size:
        return theirs.reshape(ours.shape)
    return np.broadcast_to(theirs.reshape(len(theirs), *[1] * (ours.ndim - 1)), ours.shape)


def by_time(x: np.ndarray) -> np.ndarray:
    """The largest absolute value at each time; NaN is infinite."""
    most = np.abs(x).reshape(len(x), -1).max(1) if x.size else np.zeros(len(x))
    return np.where(np.isnan(most), np.inf, most)


class Found:
    """One network: `difference` (quantity, step, difference, bound) or None; `largest` difference
    over the largest value, and `name` of it; `share`: largest difference over its bound; `blunt`:
    quantities of which the bound is a millionth or more at some time, most of them 0."""

    def __init__(self, ini: str, width: int):
        run = dmft.solve(ini, progress=False, **{
            "reference.widths": width, "reference.seeds": 1, "solver.replicates": 0,
            "output.kernels": "equal", "output.weights": "initial"})
        net, theirs = Network(run, width, weights=run), run.reference[width]
        data = data_of(run)
        copies = [series(changed(net, k), data, theirs) for k in range(COPIES)]
        ours = series(net, data, theirs)
        self.difference, self.largest, self.name, self.share = None, 0.0, "", 0.0
        self.blunt = 0
        self.quantities = len(ours)
        for name, x in ours.items():
            y = theirs[name].values[0] if name.endswith("_runs") else theirs[name].values
            spread = np.max([by_time(other[name] - x) for other in copies], 0)
            nothing = NOTHING ** 2 if name.endswith("_equal") else NOTHING
            self._judge(name.removesuffix("_runs").removesuffix("_equal"), x, aligned(y, x), spread,
                        nothing)

    def _judge(self, name: str, ours, theirs, spread, nothing: float) -> None:
        reached = np.maximum.accumulate(by_time(theirs))
        bound = TIMES * np.maximum.accumulate(spread) + ROUND_OFF * reached + nothing
        difference = by_time(ours - theirs)
        tells = bound < 1e-6 * reached  # what is not round-off alone
        relative = (difference[tells] / reached[tells]).max(initial=0)
        self.blunt += bool(bound[-1] > 1e-6 * reached[-1] > 0)
        if relative > self.largest:
            self.largest, self.name = relative, name
        self.share = max(self.share, (difference / bound).max())
        beyond = np.nonzero(difference > bound)[0]
        if len(beyond) and (self.difference is None or beyond[0] < self.difference[1]):
            step = int(beyond[0])
            self.difference = name, step, difference[step], bound[step]


class Tally:
    """What was found of many networks."""

    def __init__(self, keep: str):
        self.keep, self.bad, self.failed, self.largest, self.share = keep, 0, 0, (0.0, "", 0), 0.0
        self.networks = self.quantities = self.blunt = 0
        self.words: collections.Counter = collections.Counter()

    def tell(self, program: programs.Program, what: str) -> None:
        """A fault: printed, and kept."""
        self.bad += 1
        print(f"seed {program.seed}: {what}\n{program.lua}{program.ini(str(program.seed))}"
              f"kept as {program.write(self.keep)}", flush=True)

    def look_at(self, seed: int, folder: str) -> None:
        """One network, of this seed."""
        program = programs.draw(seed)
        try:
            found = Found(program.write(folder), program.width)
        except dmft.InputError as error:
            self.tell(program, f"the generator made a network that is refused: {error}")
            return
        except dmft.NumericalFailure:
            self.failed += 1  # training diverged
            return
        self.networks += 1
        self.words.update(program.words)
        self.quantities += found.quantities
        self.blunt += found.blunt
        self.largest = max(self.largest, (found.largest, found.name, seed))
        self.share = max(self.share, found.share)
        if found.difference:
            name, step, difference, bound = found.difference
            self.tell(program, f"{name} differs first at step {step}, by {difference:.2e}; "
                               f"round-off explains {bound:.2e}")

    def __str__(self) -> str:
        value, name, seed = self.largest
        return (f"{self.networks} random networks, {self.quantities} quantities ({self.blunt} "
                f"with a bound above 1e-6): {self.bad} faults;"
                f" largest difference {value:.1e} of the largest value ({name}, seed {seed}), at "
                f"most {self.share:.2f} of its bound; {self.failed} diverge")


def main() -> int:
    """0: all agree."""
    said = options.parser_of(__doc__, 500, keep=True).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tally, end = Tally(said.keep), time.monotonic() + said.time
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.until(end, range(said.seed, said.seed + said.count)):
            tally.look_at(seed, folder)
    print(tally)
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
