"""The same network from the same weights, trained by dmft-solve and by PyTorch: how far apart f,
the loss and all that the network measures are."""
from __future__ import annotations

import dataclasses

import numpy as np
import torch

from dmft.description import Kernel, Numbers
from dmft.errors import InputError
from dmft.files import Result
from dmft.run import solve
from dmft.torch.inputs import data_of
from dmft.torch.network import Network
from dmft.torch.training import refuse_what_torch_lacks, train

MOST = 1e-9  # of a difference that round-off explains


@dataclasses.dataclass
class Comparison:
    """Largest differences, each over the largest value that dmft-solve has: of "f", "loss", and of
    kernels and other numbers by name; `network` and `run` are what was trained."""
    differences: dict[str, float]
    network: Network
    run: Result

    @property
    def worst(self) -> str:
        """The name of the largest difference."""
        return max(self.differences, key=lambda name: self.differences[name])

    @property
    def largest(self) -> float:
        """The largest difference."""
        return self.differences[self.worst]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs by more than round-off, 1e-9."""
        return self.largest <= MOST

    def __str__(self) -> str:
        wide = max(map(len, self.differences))
        rows = [f"{name.ljust(wide)}  {value:.1e}" for name, value in self.differences.items()]
        said = "the same network" if self.agrees else "not the same network"
        return "\n".join(rows + [f"largest: {self.worst}, {self.largest:.1e}, of width "
                                 f"{self.network.program.width}: {said}"])


def relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference over the largest value; a NaN is the largest difference there is.

    >>> float(relative(np.array([1.0, 2.5]), np.array([1.0, 2.0])))
    0.25
    """
    difference = np.abs(ours - theirs)
    if np.isnan(difference).any():
        return np.inf
    return difference.max() / max(np.abs(theirs).max(), np.finfo(float).tiny)


class Measured:
    """Series of a Network in training, by the names of the result file."""

    def __init__(self, net: Network, names):
        p = self.program = net.program
        self.net, self.f = net, []
        self.kernels = [k for k in p.kernels if self._name(k) + "_equal" in names]
        self.numbers = [r for r in p.results if r.operation is not None and self._name(r) in names]
        self.rows: dict[str, list] = {self._name(k) + "_equal": [] for k in self.kernels} | \
            {self._name(r): [] for r in self.numbers}

    def _name(self, measured: Kernel | Numbers) -> str:
        """In the file: of cotangents with the terms of the loss that training carries together."""
        penalties = any(v.operation == "penalty" for v in self.program.operations)
        ending = "_total" if penalties else "_loss"
        return measured.name + (ending if measured.cotangent and self.program.weighted else "")

    def __call__(self, step: int, data, f: torch.Tensor, loss: torch.Tensor) -> None:
        self.f.append(f.detach().numpy())
        cotangents = self._cotangents(f, loss)
        values = self.net.last.values
        for kernel in self.kernels:
            x = self._rows(kernel, values, cotangents).flatten(0, -2)
            product = kernel.scale / x.shape[-1] * x @ x.T
            self.rows[self._name(kernel) + "_equal"].append(product.numpy())
        for result in self.numbers:
            found = cotangents if result.cotangent else values
            self.rows[self._name(result)].append(found[result.operation].detach().numpy())

    def _cotangents(self, f, loss) -> dict[int, torch.Tensor]:
        """{operation: dF/d value}, F = gamma0 f of each input, or where errors are inside
        (docs/method.md, section 1) -gamma0 P times the loss."""
        p = self.program
        wanted = sorted({k.operation for k in self.kernels + self.numbers if k.cotangent})
        if not wanted:
            return {}
        F = -p.gamma0 * p.inputs * loss if p.weighted else p.gamma0 * f.sum()
        values = [self.net.last.values[k] for k in wanted]
        found = torch.autograd.grad(F, values, retain_graph=True, allow_unused=True)
        return {k: torch.zeros_like(value) if g is None else g
                for k, value, g in zip(wanted, values, found)}

    def _rows(self, kernel: Kernel, values, cotangents) -> torch.Tensor:
        v = self.program.operations[kernel.operation]
        if v.operation == "read_out":
            w = self.net.weights[v.matrix] * self.net.scale[v.matrix].unit
            return w.detach()
        if kernel.cotangent:
            return cotangents[kernel.operation] * self.program.size(v.population)
        return values[kernel.operation].detach()


def _differences(measured: Measured, losses, theirs) -> dict[str, float]:
    """One row may stand for all inputs in the file."""
    found = {"f": relative(np.stack(measured.f), theirs["f_runs"].values[0]),
             "loss": relative(np.array(losses), theirs["loss_runs"].values[0])}
    for name, rows in measured.rows.items():
        ours, known = np.stack(rows), theirs[name].values
        if known.size == ours.size:
            known = known.reshape(ours.shape)
        else:
            known = known.reshape(known.shape[0], *[1] * (ours.ndim - 1))
        found[name.removesuffix("_equal")] = relative(ours, known)
    return found


def verify(ini, N: int | None = None, *, network=None, dtype=torch.float64, **keys) -> Comparison:
    """Trains the network of an ini in dmft-solve and in PyTorch from the same weights, the first
    seed of width N (None: the smallest of the ini). Arguments as those of dmft.solve.

    >>> verify("data/regime2.ini", 64).largest                              # doctest: +SKIP
    5.9e-16
    """
    if N is not None:
        keys["reference.widths"] = N
    run = solve(ini, progress=False, network=network, **{
        "reference.coordinate_check": False, "solver.replicates": 0, "output.kernels": "equal",
        "output.tangent": "none", "output.fields": ""} | keys | {
            "reference.seeds": 1, "output.weights": "initial", "output.inputs": "all"})
    N = min(run.reference)
    net = Network(run, N, weights=run, dtype=dtype)
    refuse_what_torch_lacks(net.training_settings)
    if any(v.operation == "noise" for v in net.program.operations):
        raise InputError("this network has noise of its rows, whose normals dmft-solve draws by "
                         "itself and PyTorch cannot know; a Network trains with others")
    theirs = run.reference[N]
    measured = Measured(net, theirs)
    losses = train(net, data_of(run, dtype), measure=measured)
    return Comparison(_differences(measured, losses, theirs), net, run)
