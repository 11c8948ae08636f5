"""The scales and rates of somebody's own module beside those of a network: how they go with the
width."""
from __future__ import annotations

import dataclasses
import math

import torch

from dmft.description import Matrix, Program
from dmft.errors import InputError
from dmft.run import describe
from dmft.scaling import scaling
from dmft.torch.inputs import ALONE

CLOSE = 0.05  # of an exponent


@dataclasses.dataclass
class Tensor:
    """A tensor of the module and what it stands for: exponents over the width of the two of them,
    None where a number is zero; `learned` is by which power its updates are off. Verdicts are what
    makes another limit of it; remarks are of Adam's eps, which may be too small to matter."""
    name: str
    ours: str
    std: float | None
    std_ours: float | None
    lr: float | None
    lr_ours: float | None
    learned: float | None
    verdicts: list[str]
    remarks: list[str]

    @property
    def agrees(self) -> bool:
        """Whether the limit is that of the network, as far as this tensor decides it."""
        return not self.verdicts


@dataclasses.dataclass
class Check:
    """What check has found, tensor by tensor, and names on either side that were not given."""
    tensors: list[Tensor]
    widths: tuple[int, int]
    unnamed: list[str]
    missing: list[str]

    @property
    def agrees(self) -> bool:
        """Whether every tensor goes with the width as its matrix does."""
        return all(tensor.agrees for tensor in self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise InputError(f"nothing was compared under the name {name}; there are "
                         + " ".join(tensor.name for tensor in self.tensors))

    def __str__(self) -> str:
        head = ["tensor", "is", "std", "ours", "lr", "ours", "in the limit"]
        rows = [[t.name, t.ours, _text(t.std), _text(t.std_ours), _text(t.lr), _text(t.lr_ours),
                 "; ".join((t.verdicts or ["as ours"]) + t.remarks)] for t in self.tensors]
        wide = [max(len(row[k]) for row in [head, *rows]) for k in range(len(head))]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in [head, *rows]]
        if self.unnamed:
            lines.append("not compared: " + " ".join(self.unnamed))
        if self.missing:
            lines.append("matrices of the network that nothing stands for: "
                         + " ".join(self.missing))
        return "\n".join(lines)


def _text(exponent: float | None) -> str:
    return "zero" if exponent is None else f"N^{round(exponent, 2) + 0.0:.2f}"


def _slope(numbers, widths) -> float | None:
    if min(numbers) <= 0:
        return None
    return math.log(numbers[1] / numbers[0]) / math.log(widths[1] / widths[0])


# --- both sides ------------------------------------------------------------------------------

@dataclasses.dataclass
class _Side:
    """Numbers of one tensor at both widths: std and its round-off of sampling, lr, eps."""
    std: list[float]
    lr: list[float]
    eps: list[float]
    sampling: float = 0


def _named(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Parameters under all names that they have: one that is tied has several."""
    return {f"{place}.{name}".lstrip("."): V
            for place, module in model.named_modules(remove_duplicate=False)
            for name, V in module.named_parameters(recurse=False)}


def _theirs(models, made, name: str, multipliers, by_entry: bool) -> _Side:
    """As the module uses it: multiplied by what the forward pass multiplies it by."""
    side, errors = _Side([], [], []), []
    if 0 in multipliers:
        raise InputError(f"{name}: multiplied by 0 it is no part of the module")
    for model, of_model, c in zip(models, made, multipliers):
        parameters = _named(model)
        if name not in parameters:
            raise InputError(f"the module has no parameter {name}; there are "
                             + " ".join(parameters))
        V = parameters[name]
        groups = of_model.param_groups if isinstance(of_model, torch.optim.Optimizer) else of_model
        group = next((g for g in groups if any(p is V for p in g["params"])), {}) \
            if V.requires_grad else {}
        side.std.append(abs(c) * V.detach().square().mean().sqrt().item())
        side.lr.append((abs(c) if by_entry else c * c) * group.get("lr", 0))
        side.eps.append(group.get("eps", 0) / abs(c))
        errors.append(1 / (2 * V.numel()))
    side.sampling = math.sqrt(sum(errors))
    return side


def _ours(networks: list[Program], name: str, by_entry: bool) -> _Side:
    """Numbers over eta0 and eps; of a matrix that starts at zero the std it would have else."""
    side = _Side([], [], [])
    for network in networks:
        W = network.matrix(name)
        scale = scaling(network, dataclasses.replace(W, a0=W.a0 or 1.0, s_f=W.s_f or 1.0))
        side.std.append(scale.std)
        side.lr.append((scale.adam if by_entry else scale.sgd) if W.learns else 0)
        side.eps.append(scale.eps)
    return side


class _Pair:
    """A tensor of the module and the matrix it stands for."""

    def __init__(self, name: str, matrix: Matrix, theirs: _Side, ours: _Side, widths):
        self.name, self.matrix = name, matrix
        self.std, self.lr, self.eps = (_slope(side, widths)
                                       for side in (theirs.std, theirs.lr, theirs.eps))
        self.std_ours, self.lr_ours, self.eps_ours = (_slope(side, widths)
                                                      for side in (ours.std, ours.lr, ours.eps))
        self.zero = matrix.kind != "bias" and 0 in (matrix.a0, matrix.s_f)
        self.sampling = theirs.sampling / math.log(widths[1] / widths[0])
        self.error = max(CLOSE, 4 * self.sampling)

    @property
    def start(self) -> float:
        """By which power of the width its start is off."""
        if self.matrix.kind == "bias":
            return 0.0 if self.std is None else self.std
        if self.std is None:
            return 0.0 if self.zero else -math.inf
        return self.std - self.std_ours

    @property
    def rate(self) -> float:
        """By which its lr is; a frozen one by all."""
        return -math.inf if self.lr is None or self.lr_ours is None else self.lr - self.lr_ours

    def tensor(self, gradient: float, error: float, by_entry: bool) -> Tensor:
        """What is said of it, where its gradient is off by this power, known to this error."""
        learned, eps = None, None
        if self.lr is not None and self.lr_ours is not None:
            learned = self.rate + (0 if by_entry else gradient)
            if by_entry and self.eps is not None:
                eps = self.eps - self.eps_ours - gradient
        return Tensor(self.name, self.matrix.name, self.std,
                      None if self.zero else self.std_ours, self.lr, self.lr_ours, learned,
                      [*self._of_start(), *self._of_rate(), *self._of_updates(learned, error)],
                      [*self._of_eps(eps, error)])

    def _of_start(self):
        if self.start == -math.inf:
            yield "starts at zero"
        elif self.start > self.error:
            gives = self.std + (0 if self.matrix.kind in ("read_in", "bias") else 0.5)
            yield f"what it gives at the start explodes as N^{gives:.2f}" if gives > self.error \
                else f"gives at the start N^{self.start:.2f} times what ours does"
        elif self.start < -self.error:
            yield f"what it gives at the start vanishes beside ours as N^{self.start:.2f}"
        elif self.zero and self.std is not None:
            yield "does not start at zero"

    def _of_rate(self):
        if self.lr is None and self.lr_ours is not None:
            yield "is frozen"
        elif self.lr is not None and self.lr_ours is None:
            yield "learns, which ours does not"

    @staticmethod
    def _of_updates(learned: float | None, error: float):
        if learned is not None and learned > error:
            yield f"its updates explode as N^{learned:.2f}"
        elif learned is not None and learned < -error:
            yield f"lazy: its updates vanish as N^{learned:.2f}"

    @staticmethod
    def _of_eps(eps: float | None, error: float):
        if eps is not None and abs(eps) > error:
            yield f"eps {'grows' if eps > 0 else 'falls'} beside its gradient as N^{eps:.2f}"


# --- the whole -------------------------------------------------------------------------------

def _downstream(network: Program, pairs: dict[str, _Pair], by_entry: bool) -> dict[str, float]:
    """{matrix: by which power the gradient that arrives at it is off in the first steps}: along the
    worst path to the output, each matrix by its start, or if that is zero by what it learns. Where
    numbers take a mean over sites, what is random adds up to N^0.5 less than what has learned."""
    operations = network.operations
    arriving = [-math.inf] * len(operations)
    arriving[network.read_out] = 0.0
    powers: dict[str, float] = {}
    for i in reversed(range(len(operations))):
        name, own = operations[i].matrix, 0.0
        if name and arriving[i] > -math.inf:
            powers[name] = max(powers.get(name, -math.inf), arriving[i])
        if name in pairs and pairs[name].matrix.kind != "bias":
            own = pairs[name].start
            if own == -math.inf:
                own = pairs[name].rate + (0 if by_entry else arriving[i])
        for k in operations[i].arguments:
            power = arriving[i] + own
            if operations[i].population is not None and operations[k].population is None:
                power = max(power - 0.5, min(power, 0))
            arriving[k] = max(arriving[k], power)
    return powers


def _models(given, widths):
    if callable(given) and not isinstance(given, torch.nn.Module):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return [given(N) for N in widths]
    models = list(given)
    if len(models) != 2:
        raise InputError("models: must be a function of the width, or two modules")
    return models


def _described(ini, widths, by_entry: bool, network, keys) -> list[Program]:
    """With an optimizer of the kind of theirs."""
    keys = keys | ALONE | {"reference.widths": list(widths)}
    found = describe(ini, network=network, **keys)
    ours = found.settings["training"]["optimizer"]
    if ours == "muon" or by_entry == (ours in ("gd", "momentum")):
        found = describe(ini, network=network, **keys | {
            "training.optimizer": "adam" if by_entry else "gd"})
    return [found[N] for N in widths]


def check(models, names: dict, ini, widths=(256, 1024), *, optimizer, network=None,
          **keys) -> Check:
    """How the scales and rates of your own module go with the width, beside those of the network of
    an ini: tensor by tensor what differs, and what it does in the limit.

    models: a function of the width that builds it, or the modules of the two widths. names: {name
    of a parameter: matrix}, or (matrix, c) where the forward pass multiplies the parameter by c, a
    number or a function of the width. optimizer: a function of the module that gives its optimizer,
    or groups of Adam. Numbers that do not go with the width are not judged.

    >>> check(build, {"head.weight": "w"}, "data/regime1.ini",
    ...       optimizer=lambda model: torch.optim.Adam(model.parameters(), 1e-3))
    ...                                                                     # doctest: +SKIP
    """
    if len(widths) != 2 or not 0 < widths[0] < widths[1]:
        raise InputError(f"widths {' '.join(map(str, widths))}: must be two, the larger one last")
    models = _models(models, widths)
    made = [optimizer(model) for model in models]
    by_entry = not isinstance(made[0], torch.optim.SGD)
    networks = _described(ini, widths, by_entry, network, keys)
    pairs = []
    for name, given in names.items():
        matrix, c = given if isinstance(given, tuple) else (given, 1.0)
        theirs = _theirs(models, made, name, [c(N) if callable(c) else c for N in widths],
                         by_entry)
        pairs.append(_Pair(name, networks[0].matrix(matrix), theirs,
                           _ours(networks, matrix, by_entry), widths))
    gradients = _downstream(networks[0], {pair.matrix.name: pair for pair in pairs}, by_entry)
    known = {pair.matrix.name for pair in pairs} | {pair.matrix.family or "" for pair in pairs}
    error = max(CLOSE, 4 * math.hypot(*(pair.sampling for pair in pairs
                                        if pair.matrix.kind != "bias")))
    there = _named(models[0])
    compared = [there[name] for name in names]
    return Check([pair.tensor(gradients.get(pair.matrix.name, 0.0), error, by_entry)
                  for pair in pairs], tuple(widths),
                 [name for name, V in models[0].named_parameters()
                  if not any(V is one for one in compared)],
                 [W.name for W in networks[0].matrices if not known & {W.name, W.family}])
