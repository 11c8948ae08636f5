"""Scales and rates between a module's parameters and the matrices of its program.

A matrix V of dmft.torch.Network is F times a parameter W, F the factor of its Part. Gradients go
the other way, dL/dW = F dL/dV. So W has

    std/F of its entries, lr/F^2 of SGD, lr/F and F eps of Adam,

and the numbers of V are those of dmft.scaling.
"""
from __future__ import annotations

import dataclasses
import math

import torch

from dmft.description import Program
from dmft.errors import InputError
from dmft.network import Network
from dmft.scaling import scaling
from dmft.torch.importing.optimizers import group_of, muon_rate
from dmft.torch.importing.axes import Piece
from dmft.torch.importing.parts import Part, entries_of

ORTHOGONAL = 1e-5                       # cosines of rows in single precision
# Entries of which a size can be told, and standard errors by which it differs (5.9 is the most that
# 216000 rows of ordinary starts have shown).
FEW, UNEVEN = 16, 7


@dataclasses.dataclass
class Numbers:
    """Of a parameter, as PyTorch has them. `std` is that of its entries at the start, counted from
    `start` of a vector; lr over eta0, eps over that of the ini where they are a network's."""
    std: float
    lr: float
    eps: float


def of_network(network: Program, part: Part, kind: str) -> Numbers:
    """What the network's own numbers are for the parameter of a part; kind: sgd or adam."""
    scale = scaling(network, network.matrix(part.name))
    F, std = abs(part.at(network.width)), scale.std
    if part.common:                     # which of a sum over experts is that of their mean
        shared = scaling(network, network.matrix(part.common))
        std = shared.std / (scale.shape[1] / shared.shape[1] if part.experts[1] else 1)
    return Numbers(std / F, scale.sgd / F ** 2 if kind == "sgd" else scale.adam / F,
                   F * scale.eps)


def entries(part: Part, parameters) -> torch.Tensor:
    """All numbers of a part, counted from its start."""
    found = torch.cat([entries_of(leaf, parameters).detach().double().reshape(-1)
                       for leaf in part.leaves])
    return found - (part.start or 0.0)


def is_orthogonal(part: Part, parameters) -> bool:
    """Whether one of its matrices has orthogonal rows, or columns: three or more of them to
    round-off, which independent entries never have."""
    found = [entries_of(leaf, parameters).detach().double() for leaf in part.leaves]
    if len({V.shape for V in found}) == 1 and found[0].dim() == 1:  # columns, one in a leaf
        found = [torch.stack(found)]
    for V in found:
        if V.dim() != 2 or min(V.shape) < 3:
            continue
        V = V if V.shape[0] <= V.shape[1] else V.T
        V = V / V.norm(dim=1, keepdim=True)
        if (V @ V.T).fill_diagonal_(0).abs().max() < ORTHOGONAL:
            return True
    return False


def is_uneven(part: Part, parameters) -> bool:
    """Whether entries along an axis that grows, as those of an expert or of a row, have another
    size than those of others, by more than accident. All finite axes are taken together."""
    for leaf in part.leaves[:1]:
        whole = parameters[leaf.parameter].detach().double() - (part.start or 0.0)
        block = whole[tuple(one.slice(size) if isinstance(one, Piece) else slice(None)
                            for one, size in zip(leaf.at, whole.shape))]
        for axis, one in enumerate(leaf.at):
            if not isinstance(one, Piece) or one.groups or block.numel() < FEW * block.shape[axis]:
                continue
            squares = block.square().movedim(axis, 0).flatten(1)
            sizes = squares.mean(1)
            spread = (squares / sizes[:, None]).std() / math.sqrt(squares.shape[1])
            roots = (sizes / sizes.mean()) ** (1 / 3)   # of which the law is near a normal one
            if 3 * (roots - roots.mean()).abs().max() > UNEVEN * spread:
                return True
    return False


# --- somebody's numbers -----------------------------------------------------------------------

@dataclasses.dataclass
class Owned(Numbers):
    """kind: how it is moved (optimizers.py); lr: of muon what the orthogonal matrix is multiplied
    by; decay: the share that a step takes."""
    kind: str
    decay: float


def of_user(optimizers, part: Part, parameters, own: dict) -> Owned:
    """His numbers of a part at one width; own: {parameter: those of his module that it is}."""
    found = []
    for name, parameter in ((name, one) for name in part.parameters for one in own[name]):
        kind, group = group_of(optimizers, parameter, name) or ("", {"lr": 0.0})
        lr = float(group["lr"]) if parameter.requires_grad else 0.0
        decay = lr * group.get("weight_decay", 0.0)
        if kind == "muon":
            lr = muon_rate(group, parameter.shape) if lr else 0.0
        found.append((lr, float(group.get("eps", 0)), kind if lr else "", decay))
    if len(set(found)) > 1:
        raise InputError(f"{', '.join(part.parameters)}: the optimizer moves parts of what is one "
                         "matrix of the program differently, which has one rate, eps and decay; "
                         "give them one of each")
    if found[0][2] == "muon" and part.kind != "map":
        raise InputError(f"{part.parameters[0]} has a side that does not grow with the width, and "
                         "a program's Muon moves matrices between layers alone; give it to the "
                         "optimizer of the rest")
    std = entries(part, parameters).square().mean().sqrt().item()
    return Owned(std, *found[0])


class Trained(Network):
    """A network with somebody's own scales and rates, and the keys of [training] with them."""

    def __init__(self, keys):
        super().__init__()
        self.keys = keys

    def settings(self) -> dict:
        """The keys of the network, and those of its training."""
        return super().settings() | self.keys


def weight_options(part: Part, numbers: tuple[Owned, Owned], kind: str, sizes, widths,
                   entries) -> dict:
    """{option of a matrix: its values at both widths} for his numbers. kind: how it is moved;
    sizes: {n, m} of both; entries: how many his matrix has, of which it may be a part or which may
    be that of one expert."""
    found = {}
    for name, value in (("a0", _start), ("rate", _rate), ("adam_rate", _adam_rate),
                        ("adam_eps", _eps)):
        if name == ("rate" if kind != "sgd" else "adam_rate") \
                or name == "adam_eps" and kind != "adam" \
                or name == "a0" and (part.kind == "bias" or part.start is not None):
            continue
        found[name] = tuple(value(part, one, abs(part.at(N)), *size)
                            for one, N, size in zip(numbers, widths, sizes))
    if kind == "muon":                  # whose multiplier is that of Adam
        found["adam_rate"] = tuple(abs(part.at(N)) * one.lr * m / math.sqrt(count) for one, N,
                                   (_, m), count in zip(numbers, widths, sizes, entries))
    return found


def _start(part, numbers, F, n, m):
    a0 = F * numbers.std
    return a0 * math.sqrt(m) if part.kind == "map" else \
        a0 * m if part.kind in ("look", "read_out") else a0


def _rate(part, numbers, F, n, m):
    lr = F ** 2 * numbers.lr
    return {"map": lr * m / n, "read_in": lr / n, "embed": lr / n, "vector": lr / n,
            "bias": lr}.get(part.kind, lr * m)


def _adam_rate(part, numbers, F, n, m):
    lr = F * numbers.lr
    return lr * m if part.kind in ("map", "look", "read_out") else lr


def _eps(part, numbers, F, n, m):
    eps = numbers.eps / F
    return n * eps if part.kind in ("map", "read_in", "embed", "vector") else eps
