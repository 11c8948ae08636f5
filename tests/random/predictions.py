"""Predictions of random networks and limits (programs.py): outputs at inputs that come after a run
(run.predict, of a run that kept its states) beside those of a run that had them as test inputs.

    tests/random.sh predictions [--count N] [--time SECONDS] [--seed SEED] [--keep FOLDER]

Programs of even seeds are networks of two seeds, those of odd ones limits of two replicates with
few sites; keys are drawn as in pieces.py, and some of the runs are made in two pieces. Predictions
of the run without these inputs and of the run with them must have the same bits, and the test
losses of the second run, which the file has in their place, must be those of these outputs, up to
the round-off of a mean of losses.
"""
from __future__ import annotations

import os
import sys

import numpy as np

import dmft

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import programs  # noqa: E402
from pieces import NotRun, Piece, look_at  # noqa: E402

TESTS, ROUND_OFF = 3, 1e-12
MORE = ({"reference.precision": "single"}, {"reference.centre": "no"}, {"solver.halves": "yes"},
        {"solver.draws": "normal"}, {"training.nesterov": "yes"}, {"output.inputs": "none"},
        {"training.weight_decay": 0.05}, {"output.test_every": 2})


def loss_of(kind: str, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of each output."""
    if kind == "mse":
        return 0.5 * (y - f) ** 2
    if kind == "logistic":
        return np.logaddexp(-y * f, 0)
    if kind == "hinge":
        return np.maximum(1 - y * f, 0)
    return -y * (f - np.log(np.exp(f).sum(-1, keepdims=True)))


class Asked(Piece):
    """A program, with test inputs and without."""
    more = MORE

    def with_tests(self, count: int) -> str:
        """The ini of the same program with so many test inputs."""
        program = programs.draw(self.seed, limit=self.seed % 2 == 1, tests=count)
        return program.write(os.path.join(self.folder, f"tests{count}"))

    def run(self, count: int, **keys) -> dmft.Result:
        """With so many test inputs, at times made in two pieces."""
        cut = self.random.choice((self.steps, self.random.randint(1, self.steps - 1)))
        run = dmft.solve(self.with_tests(count), progress=False, output=os.path.join(
            self.folder, f"tests{count}.h5"), **{**self.keys, **keys, "training.steps": cut})
        if cut < self.steps:
            run = dmft.resume(run.path, progress=False, **{"training.steps": self.steps})
        return run

    def difference(self) -> str | None:
        """What of the predictions is not that of the run with test inputs."""
        self.more_keys()
        try:
            self.run(TESTS, **{"output.inputs": "all"})
        except (dmft.InputError, dmft.NumericalFailure) as error:
            raise NotRun(error) from None
        whole = dmft.load(os.path.join(self.folder, f"tests{TESTS}.h5"))
        name = "tokens" if "tokens_test" in whole.data else "X"
        later = {name: whole.data[name + "_test"].values}
        kept = self.run(self.random.choice((0, 1)))
        found, again = kept.predict(**later), whole.predict(**later)
        groups = ({"limit": (found.limit, again.limit, whole.limit)} if self.seed % 2 else
                  {f"N = {N}": (found.reference[N], again.reference[N], whole.reference[N])
                   for N in whole.reference})
        for where, (ours, theirs, test) in groups.items():
            for series in ("f_runs", "f", "f_se"):
                if not np.array_equal(ours[series], theirs[series], equal_nan=True):
                    return f"{series} of {where} differs, {self.keys}"
            said = self.loss_difference(ours["f_runs"].values, whole, test)
            if said:
                return f"test loss of {where}: {said}, {self.keys}"
        return None

    def loss_difference(self, f: np.ndarray, whole, test) -> str | None:
        """f [run, ...] beside the test losses at the last time."""
        loss, y = self.program.keys["training"]["loss"], whole.data["y_test"].values
        weight = whole.data.get("weight_test", np.ones(len(y)))
        several = loss == "cross_entropy" or self.program.keys["network"].get("outputs", 1) > 1
        rows = y.size // (y.shape[-1] if several else 1)

        def mean(f):
            each = loss_of(loss, f, y.reshape(f.shape))
            return (each.reshape(len(y), -1).sum(1) * np.asarray(weight)).sum() / rows

        bound = ROUND_OFF * (1 + np.abs(f).max() ** 2)
        at = int(np.flatnonzero(np.isfinite(test["test_loss"].values))[-1])
        if at < self.steps - 1:
            return None  # test_every
        if self.seed % 2 == 0:
            ours, theirs = [mean(one) for one in f], test["test_loss_runs"].values[:, at]
        else:
            n = len(f)
            less = np.mean([mean(np.delete(f, r, 0).mean(0)) for r in range(n)])
            ours, theirs = n * mean(f.mean(0)) - (n - 1) * less, test["test_loss"].values[at]
        off = np.abs(np.array(ours) - theirs).max()
        return f"off by {off:.2e}, round-off is {bound:.2e}" if not off <= bound else None


if __name__ == "__main__":
    sys.exit(look_at(__doc__, Asked, "are predicted as their test inputs are", "are not"))
