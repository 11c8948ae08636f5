"""Which part of a module's tensors is which matrix of a network, as its author says it in `names`.

    {"head.weight": "w"}                          a tensor and a matrix
    {"head.weight": ("w", 0.5)}                   the forward pass multiplies the tensor by 0.5
    {"w13": ["w1_0", "w3_0", "w1_1", "w3_1"]}     blocks of rows, one after the other
    {"w2": "w2"}                                  the same of a family: w2_0, w2_1, ...
    {"experts.*.up.weight": "W2_*"}               a tensor for each of the experts
"""
from __future__ import annotations

import dataclasses
import math
import re

import torch

from dmft.description import Matrix, Program
from dmft.errors import InputError
from dmft.scaling import scaling


@dataclasses.dataclass
class Piece:
    """Rows of a tensor of the module, and the matrix they stand for. count: of the blocks of this
    tensor, and which one; multiplier: a number or a function of the width. vector: a tensor of n
    numbers, where the network has a matrix that reads ones."""
    name: str
    parameter: str
    matrix: str
    multiplier: object
    block: int
    count: int
    vector: bool = False

    def of(self, V: torch.Tensor) -> torch.Tensor:
        """Its rows, of the tensor or of its gradient."""
        if self.count == 1:
            return V
        rows = V.reshape(-1, V.shape[-1])
        each = len(rows) // self.count
        return rows[self.block * each:(self.block + 1) * each]

    def factor(self, N: int) -> float:
        """What the forward pass multiplies it by, at a width."""
        c = self.multiplier(N) if callable(self.multiplier) else self.multiplier
        if not c:
            raise InputError(f"{self.name}: multiplied by 0 it is no part of the module")
        return c


def parameters_of(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Parameters under all names that they have: one that is tied has several."""
    return {f"{place}.{name}".lstrip("."): V
            for place, module in model.named_modules(remove_duplicate=False)
            for name, V in module.named_parameters(recurse=False)}


def _spread(names: dict, there: dict) -> dict:
    """Patterns are replaced by the tensors that they stand for."""
    found = {}
    for name, given in names.items():
        if "*" not in name:
            found[name] = given
            continue
        pattern = re.compile(re.escape(name).replace(r"\*", r"([^.]+)"))
        matches = [(one, match.groups()) for one in there if (match := pattern.fullmatch(one))]
        if not matches:
            raise InputError(f"the module has no parameter like {name}; there are "
                             + " ".join(there))
        for one, texts in matches:
            found[one] = _filled(given, texts)
    return found


def _filled(given, texts):
    if isinstance(given, tuple):
        return (_filled(given[0], texts), *given[1:])
    if isinstance(given, list):
        return [_filled(one, texts) for one in given]
    for text in texts:
        given = given.replace("*", text, 1)
    return given


def _members(network: Program, name: str) -> list[str]:
    """The matrices of a name: itself, or those of a family."""
    members = [W.name for W in network.matrices if W.family == name]
    return members if members and all(W.name != name for W in network.matrices) else [name]


def shape_of(network: Program, W: Matrix, dimension: int) -> tuple[int, ...]:
    """Of the matrix as a parameter of PyTorch, used as x @ V.T."""
    shape = scaling(network, W).shape
    return (shape[0], dimension) if W.kind == "read_in" else shape


def pieces_of(names: dict, model: torch.nn.Module, network: Program,
              dimension: int) -> list[Piece]:
    """names: as above. Refused is what is no tensor or no matrix, and what has other sizes."""
    there = parameters_of(model)
    pieces = []
    for name, given in _spread(names, there).items():
        if name not in there:
            raise InputError(f"the module has no parameter {name}; there are " + " ".join(there))
        which, c = given if isinstance(given, tuple) else (given, 1.0)
        every = which if isinstance(which, list) else _members(network, which)
        V = there[name]
        whole = [network.matrix(one) for one in every]
        sizes = [shape_of(network, W, dimension) for W in whole]
        vector = len(every) == 1 and whole[0].kind == "map" and sizes[0][1] > 1 \
            and V.numel() == sizes[0][0]
        for k, (W, shape) in enumerate(zip(whole, sizes)):
            if W.kind in ("map", "look", "vector") and not vector \
                    and V.numel() != math.prod(shape) * len(every):
                raise InputError(_of_other_size(name, V, every, whole, sizes))
            shown = name if len(every) == 1 else f"{name}[{k}]"
            pieces.append(Piece(shown, name, W.name, c, k, len(every), vector))
    return pieces


def _of_other_size(name, V, every, whole, sizes) -> str:
    shape, *others = (" x ".join(map(str, one)) for one in (V.shape, *sizes))
    if len(every) == 1:
        return (f"{name} has {shape} numbers, and matrix {whole[0].name} has {others[0]}; of a "
                "tensor that holds several matrices give their list, in the order of their rows: "
                f'{{"{name}": ["{whole[0].name}", ...]}}')
    return (f"{name} has {shape} numbers, and {' '.join(every)} have {' + '.join(others)}; give "
            "all matrices that it holds, in the order of their rows")
