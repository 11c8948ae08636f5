"""Inputs and targets of an ini as tensors."""
from __future__ import annotations

import dataclasses

import torch

from dmft.errors import InputError
from dmft.files import Result
from dmft.run import settings_of, solve

# Networks without a limit, which those of some parameterizations do not have.
ALONE = {"solver.replicates": 0}
# What a run needs for its data and the weights at the start alone: one time, no kernels.
BRIEF = ALONE | {
    "training.steps": 1, "training.schedule": "constant", "training.warmup": 0,
    "reference.seeds": 1, "reference.coordinate_check": False,
    "output.inputs": "all", "output.kernels": "none", "output.tangent": "none",
    "output.gradients": "no",
    "output.sharpness": "none"}


@dataclasses.dataclass
class Data:
    """Inputs X [P, D] or [P, n, D], targets y as f has its shape, numbers of the tokens [P, n]
    where there are any, with [training] batch the inputs of each step, and with [data] weight how
    often each input counts [P]."""
    X: torch.Tensor
    y: torch.Tensor
    tokens: torch.Tensor | None = None
    batch: torch.Tensor | None = None
    weight: torch.Tensor | None = None

    def part(self, step: int) -> "Data":
        """The inputs of a step."""
        if self.batch is None:
            return self
        if step >= len(self.batch):
            raise InputError(f"step {step}: the data have batches of {len(self.batch)} steps, "
                             "those of [training] steps")
        at = self.batch[step]
        return Data(self.X[at], self.y[at], None if self.tokens is None else self.tokens[at],
                    weight=None if self.weight is None else self.weight[at])


def data_of(run: Result, dtype=torch.float64, test: bool = False) -> Data:
    """The data of a result, or its test inputs."""
    ending = "_test" if test else ""
    kept = run.data
    X, y = (torch.as_tensor(kept[name + ending].values).to(dtype) for name in "Xy")
    whole = {name: torch.as_tensor(kept[name].values).long()
             for name in ("tokens" + ending, *(() if test else ("batch",))) if name in kept}
    weight = kept.get("weight" + ending)
    return Data(X, y, whole.get("tokens" + ending), whole.get("batch"),
                None if weight is None else torch.as_tensor(weight.values).to(dtype))


def data(ini, N: int = 64, *, dtype=torch.float64, test: bool = False, network=None,
         **more) -> Data:
    """The inputs and targets of an ini, or its test inputs. Arguments as those of dmft.solve; N: a
    width that networks of the ini can have.

    >>> dmft.torch.data("data/regime2.ini").X.shape                         # doctest: +SKIP
    torch.Size([4, 10])
    """
    said = settings_of(ini, network=network, **more)
    batches = {"training.steps": said["training.steps"], "training.eta0": 0} \
        if said["training.batch"] != "0" else {}    # those of all steps, in which nothing moves
    run = solve(ini, progress=False, network=network,
                **more | BRIEF | batches | {"reference.widths": N, "reference.draws": "iid"})
    return data_of(run, dtype, test)
