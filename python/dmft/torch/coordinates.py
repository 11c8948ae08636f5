"""The coordinate check of somebody's own module: how what its matrices give at the start, and what
their updates add, goes with the width."""
from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch

from dmft.errors import InputError
from dmft.torch.inputs import Data

PARTS = ("init", "prop", "eff")


@dataclasses.dataclass
class Coordinates:
    """rms [optimizer][module][part] is an array over widths, root mean squares over seeds too, of

        init  M(0) x(0)            prop  M(0) x - M(0) x(0)            eff  M x - M(0) x

    x what the module M took after the last step, M(0) as it was at the start. "output" is what the
    whole gives: at the start (init) and its change (eff). Modules that are never called, such as
    out_proj in PyTorch's MultiheadAttention, are not there."""
    widths: list[int]
    rms: dict[str, dict[str, dict[str, np.ndarray]]]

    def exponent(self, optimizer: str, module: str, part: str) -> float | None:
        """Slope of ln rms in ln N; None where a part is zero or not finite, and of one width."""
        values = self.rms[optimizer][module][part]
        if len(self.widths) < 2 or not np.all((values > 0) & np.isfinite(values)):
            return None
        return float(np.polyfit(np.log(self.widths), np.log(values), 1)[0])

    def _row(self, optimizer: str, module: str, wide: int) -> str:
        words = []
        for part in PARTS:
            values = self.rms[optimizer][module].get(part)
            power = None if values is None else self.exponent(optimizer, module, part)
            words.append("" if values is None else f"{values[-1]:.2g}" + (
                "" if power is None else f" N^{power:+.2f}"))
        return f"  {module.ljust(wide)}  " + "  ".join(word.ljust(15) for word in words).rstrip()

    def __str__(self) -> str:
        wide = max(len(name) for modules in self.rms.values() for name in modules)
        head = " " * (wide + 4) + "  ".join(part.ljust(15) for part in PARTS).rstrip()
        lines = [f"rms at width {self.widths[-1]}, and its exponent over widths "
                 + " ".join(map(str, self.widths))]
        for optimizer, modules in self.rms.items():
            lines += [optimizer + ":", head,
                      *(self._row(optimizer, module, wide) for module in modules)]
        return "\n".join(lines)


class _Watched:
    """The modules of a model that have parameters of their own, as they were at the start, and what
    they take."""

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.now = {name or "(itself)": module for name, module in model.named_modules()
                    if any(True for _ in module.parameters(recurse=False))}
        self.start = {name: copy.deepcopy(module) for name, module in self.now.items()}

    def take(self, X) -> tuple[torch.Tensor, dict[str, list]]:
        """The output, and what each module was called with, before it could change it: arguments
        with and without names. (Hooks of older PyTorch do not see those with names.)"""
        seen: dict[str, list] = {name: [] for name in self.now}

        def watch(name, forward):
            def called(*given, **named):
                seen[name].append((_kept(given), _kept(named)))
                return forward(*given, **named)
            return called

        own = {name: module.__dict__.get("forward") for name, module in self.now.items()}
        for name, module in self.now.items():
            module.forward = watch(name, module.forward)
        try:
            with torch.no_grad():
                return self.model(X).clone(), seen
        finally:
            for name, module in self.now.items():
                del module.forward
                if own[name]:
                    module.forward = own[name]

    def parts(self, name: str, first: list, last: list) -> dict[str, float]:
        """Mean squares of the parts."""
        with torch.no_grad():
            before, moved, now = ([_tensor(module(*_kept(given), **_kept(named)))
                                   for given, named in calls] for module, calls in
                                  ((self.start[name], first), (self.start[name], last),
                                   (self.now[name], last)))
        return {"init": _square(before), "eff": _square(a - b for a, b in zip(now, moved)),
                "prop": _square(a - b for a, b in zip(moved, before) if a.shape == b.shape)}


def _kept(given):
    """A copy of what a module takes, tensors within lists, tuples and dicts as well."""
    if torch.is_tensor(given):
        return given.detach().clone()
    if isinstance(given, dict):
        return {name: _kept(one) for name, one in given.items()}
    return type(given)(map(_kept, given)) if type(given) in (list, tuple) else given


def _tensor(given) -> torch.Tensor:
    return given if torch.is_tensor(given) else given[0]


def _square(tensors) -> float:
    flat = [x.flatten() for x in tensors]
    return torch.cat(flat).double().square().mean().item() if flat else 0.0


def _measure(model, data: Data, optimizer, loss, steps: int) -> dict[str, dict[str, float]]:
    """Mean squares of one model, trained."""
    watched, made = _Watched(model), optimizer(model)
    f0, first = watched.take(data.X)
    for _ in range(steps):
        made.zero_grad()
        loss(model(data.X), data.y).backward()
        made.step()
    f, last = watched.take(data.X)
    found = {name: watched.parts(name, first[name], last[name]) for name in watched.now
             if first[name] and last[name]}
    return found | {"output": {"init": _square([f0]), "eff": _square([f - f0])}}


def half_square(f: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """(f - y)^2/2, the mean over all entries."""
    return 0.5 * (f.reshape(y.shape) - y).square().mean()


def coordinate_check(build, widths, data, *, optimizers: dict | None = None, loss=half_square,
                     steps: int = 3, seeds: int = 2) -> Coordinates:
    """What the modules of your own network and their updates contribute, over widths.

    build: a function of the width that makes it. data: (X, y) or dmft.torch.Data. optimizers:
    {a name: a function of the module that gives its optimizer}; without, Adam at 1e-3 and SGD at
    0.1, of all parameters. A part whose exponent is above zero explodes, one below zero vanishes;
    `eff` that vanishes is a matrix that is frozen in the limit.

    >>> print(coordinate_check(build, [64, 256, 1024], (X, y)))             # doctest: +SKIP
    """
    data = data if isinstance(data, Data) else Data(*data)
    if data.weight is not None:
        raise InputError("coordinate_check counts every input once, and these have weights; give "
                         "(X, y)")
    optimizers = optimizers or {"adam": lambda model: torch.optim.Adam(model.parameters(), 1e-3),
                                "sgd": lambda model: torch.optim.SGD(model.parameters(), 0.1)}
    rms: dict = {}
    for name, optimizer in optimizers.items():
        for k, N in enumerate(widths):
            for seed in range(seeds):
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(seed)
                    found = _measure(build(N), data, optimizer, loss, steps)
                for module, parts in found.items():
                    for part, square in parts.items():
                        at = rms.setdefault(name, {}).setdefault(module, {})
                        at.setdefault(part, np.zeros(len(widths)))[k] += square / seeds
    for modules in rms.values():
        for parts in modules.values():
            for part in parts:
                parts[part] = np.sqrt(parts[part])
    return Coordinates(list(widths), rms)
