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
from dmft.torch.importing.parts import Part, index_of
from dmft.torch.training import Lion, Momentum


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
    F = abs(part.at(network.width))
    return Numbers(scale.std / F, scale.sgd / F ** 2 if kind == "sgd" else scale.adam / F,
                   F * scale.eps)


def entries(part: Part, parameters) -> torch.Tensor:
    """All numbers of a part, counted from its start."""
    found = torch.cat([parameters[leaf.parameter].detach().double()[
        index_of(leaf, parameters[leaf.parameter].shape)].reshape(-1) for leaf in part.leaves])
    return found - (part.start or 0.0)


# --- somebody's optimizer --------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Law:
    """What an optimizer is here: its name in [training], whether it moves entries by themselves
    (kind adam) or along the gradient (sgd), and the keys that it sets."""
    name: str
    kind: str
    keys: dict


def law_of(optimizer: torch.optim.Optimizer) -> Law:
    """The law of an optimizer; one without a counterpart is refused in a sentence."""
    kind, group = type(optimizer), optimizer.param_groups[0]

    def shared(key):
        values = {str(one.get(key)) for one in optimizer.param_groups}
        if len(values) > 1:
            raise InputError(f"groups of the optimizer differ in {key}: "
                             + ", ".join(sorted(values)) + "; a program has one for all")
        return group[key]
    for word in ("maximize", "amsgrad", "nesterov", "dampening"):
        if group.get(word):
            raise InputError(f"{kind.__name__} with {word} has no counterpart in a program")
    if kind in (torch.optim.SGD, torch.optim.Adam) and not group.get(
            "decoupled_weight_decay") and any(one["weight_decay"]
                                              for one in optimizer.param_groups):
        raise InputError(f"weight_decay of {kind.__name__} is added to the gradient, which a "
                         "program does not do; AdamW decays weights by themselves")
    if kind in (torch.optim.SGD, Momentum):
        momentum = shared("momentum")
        return Law("momentum", "sgd", {"training.momentum": momentum}) if momentum else \
            Law("gd", "sgd", {})
    if kind in (torch.optim.Adam, torch.optim.AdamW, Lion):
        beta1, beta2 = shared("betas")
        name = {torch.optim.Adam: "adam", torch.optim.AdamW: "adamw", Lion: "lion"}[kind]
        return Law(name, "adam", {"training.beta1": float(beta1), "training.beta2": float(beta2)})
    raise InputError(f"the optimizer {kind.__name__} is not known here; SGD, Adam and AdamW of "
                     "torch.optim are, and Lion and Momentum of dmft.torch")


def group_of(optimizer: torch.optim.Optimizer, parameter) -> dict | None:
    """The group that a parameter is in; under a schedule its rate is the first one."""
    for group in optimizer.param_groups:
        if any(one is parameter for one in group["params"]):
            return group | {"lr": group.get("initial_lr", group["lr"])}
    return None


def of_user(optimizer, part: Part, parameters) -> tuple[Numbers, float]:
    """His numbers of a part at one width, and by which share a step decays it."""
    found = []
    for name in part.parameters:
        group = group_of(optimizer, parameters[name]) or {"lr": 0.0}
        lr = float(group["lr"]) if parameters[name].requires_grad else 0.0
        found.append((lr, float(group.get("eps", 0)), lr * group.get("weight_decay", 0.0)))
    if len(set(found)) > 1:
        raise InputError(f"{', '.join(part.parameters)} are one matrix of the program, and have "
                         "different rates, eps or decay in the optimizer")
    lr, eps, decay = found[0]
    std = entries(part, parameters).square().mean().sqrt().item()
    return Numbers(std, lr, eps), decay


class Trained(Network):
    """A network with somebody's own scales and rates, and the keys of [training] with them."""

    def __init__(self, keys):
        super().__init__()
        self.keys = keys

    def settings(self) -> dict:
        """The keys of the network, and those of its training."""
        return super().settings() | self.keys


def weight_options(part: Part, numbers: tuple[Numbers, Numbers], law: Law, sizes, widths) -> dict:
    """{option of a matrix: its values at both widths} for his numbers; sizes: {n, m} of both."""
    found = {}
    for name, value in (("a0", _start), ("rate", _rate), ("adam_rate", _adam_rate),
                        ("adam_eps", _eps)):
        if name == ("adam_rate" if law.kind == "sgd" else "rate") \
                or name == "adam_eps" and law.kind == "sgd" \
                or name == "a0" and (part.kind == "bias" or part.start is not None):
            continue
        found[name] = tuple(value(part, one, abs(part.at(N)), *size)
                            for one, N, size in zip(numbers, widths, sizes))
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


