"""The coordinate check of somebody's own module: how what its matrices give at the start, and what
their updates add, goes with the width."""
from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
import re
import warnings

import numpy as np
import torch

from dmft.errors import InputError, NoteWarning
from dmft.power import slope
from dmft.torch.inputs import Data
from dmft.torch.several import FORM, call_for_optimizer, several
from dmft.torch.strangers import HALF, TAKES, built, called, refuse_no_function
from dmft.torch.watching import (Watched, first_tensor, mean_square, outputs, run_model,
                                 same_tokens)

PARTS = ("init", "prop", "eff")
DIVERGED = 1e6  # times a loss, or squares of outputs, at the start, or 1 if that is larger
FOLDED = 8  # more modules whose names differ in numbers alone, as those of experts, are one row


@dataclasses.dataclass
class Coordinates:
    """rms [optimizer][name][part] is an array over widths, root mean squares over seeds too, of

        init  M(0) x(0)            prop  M(0) x - M(0) x(0)            eff  M x - M(0) x

    for each module M that has parameters of its own: x is what M took after the last step, x(0)
    what it took of the same tokens at the start, M(0) is the module as it was at the start.
    "output" is what the whole gives: at the start (init) and its change (eff); so are
    "MODULE: logits" (what a softmax takes), "MODULE: softmax" and "MODULE: attention".

    Modules of which there are more at some width, such as blocks and experts where their number
    grows, are one row, `experts.*`, with the mean square of all of them. size: what grows.

    An expert that has other tokens at the end is compared on those that it has at both times.
    left_out [optimizer] says which modules could not be compared at some width, and why: an expert
    without tokens, or what is never called, such as out_proj in PyTorch's MultiheadAttention.
    diverged [optimizer]: the widths at which training has diverged (DIVERGED); what has moved has
    no exponent then."""
    widths: list[int]
    rms: dict[str, dict[str, dict[str, np.ndarray]]]
    left_out: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    size: str = "N"
    diverged: dict[str, list[int]] = dataclasses.field(default_factory=dict)

    def exponent(self, optimizer: str, module: str, part: str) -> float | None:
        """Slope of ln rms in ln N; None where a part is zero or not finite, of one width, and of
        what has moved where training diverges."""
        return self._power(optimizer, part, self.rms[optimizer][module][part])

    def _power(self, optimizer: str, part: str, values) -> float | None:
        lost = part != "init" and optimizer in self.diverged
        return None if values is None or lost else slope(values, self.widths)

    def _rows(self, optimizer: str) -> dict[str, dict[str, np.ndarray]]:
        """Of the table: many modules that are alike are one, with their root mean square."""
        alike: dict[str, list[str]] = {}
        for name in self.rms[optimizer]:
            alike.setdefault(_pattern_of(name), []).append(name)
        rows = {}
        for pattern, names in alike.items():
            if len(names) <= FOLDED:
                rows |= {name: self.rms[optimizer][name] for name in names}
                continue
            every = [self.rms[optimizer][name] for name in names]
            rows[f"{pattern} ({len(names)})"] = {
                part: np.sqrt(np.mean([one[part] ** 2 for one in every if part in one], axis=0))
                for part in PARTS if any(part in one for one in every)}
        return rows

    def _words(self, optimizer: str, parts: dict[str, np.ndarray]) -> str:
        words = []
        for part in PARTS:
            values = parts.get(part)
            power = self._power(optimizer, part, values)
            last = "" if values is None else f"{values[-1]:.2g}"
            words.append(last if power is None else f"{last} {self.size}^{power:+.2f}")
        return "  ".join(word.ljust(15) for word in words).rstrip()

    def __str__(self) -> str:
        tables = {optimizer: self._rows(optimizer) for optimizer in self.rms}
        wide = max(len(name) for rows in tables.values() for name in rows)
        head = " " * (wide + 4) + "  ".join(part.ljust(15) for part in PARTS).rstrip()
        lines = [f"rms at {_at(self.size)}{self.widths[-1]}, and its exponent over "
                 + _at(self.size, "widths ") + " ".join(map(str, self.widths))]
        for optimizer, rows in tables.items():
            lines += [optimizer + ":", head,
                      *(f"  {name.ljust(wide)}  {self._words(optimizer, parts)}"
                        for name, parts in rows.items())]
            lines += [f"  left out: {name}, {why}"
                      for name, why in self.left_out.get(optimizer, {}).items()]
            if optimizer in self.diverged:
                lines.append("  training diverges at " + _at(self.size)
                             + " ".join(map(str, self.diverged[optimizer]))
                             + ": take a smaller lr, or fewer steps")
        return "\n".join(lines)


def _at(size: str, width: str = "width ") -> str:
    """In front of a value of what grows."""
    return width if size == "N" else f"{size} = "


def _pattern_of(name: str) -> str:
    """With * for numbers, but for those that say which part of a tensor it is."""
    return re.sub(r"(\[\d+ of \d+\])|\d+", lambda found: found[1] or "*", name)


def _of_module(watched: Watched, name: str, first: list, last: list) -> dict[str, float | None]:
    """Mean squares of the parts of a module; None is a part that cannot be told."""
    before, moved, now = (outputs(module, calls) for module, calls in (
        (watched.start[name], first), (watched.start[name], last), (watched.now[name], last)))
    pairs = same_tokens(list(zip(before, (call.rows for call in first))),
                        list(zip(moved, (call.rows for call in last))))
    return {"init": mean_square(before),
            "prop": None if pairs is None else mean_square(b - a for a, b in pairs),
            "eff": mean_square(b - a for a, b in zip(moved, now))}


def _of_operation(first: list, last: list) -> dict[str, float | None]:
    """Of an operation at the start, and of its change."""
    before, after = ([(call.given[0], call.rows) for call in calls] for calls in (first, last))
    pairs = same_tokens(before, after)
    return {"init": mean_square(x for x, _ in before),
            "eff": None if pairs is None else mean_square(b - a for a, b in pairs)}


class _ByModule:
    """What each module of the models takes and gives, and softmax and attention within them."""

    within = contextlib.nullcontext

    def __init__(self, build, N: int):
        self._build, self._N = build, N

    def model(self, seed: int):
        """The one of this seed, in single precision if it has less."""
        torch.manual_seed(seed)
        model = built(self._build, self._N)
        if halves := {one.dtype for one in model.parameters()} & set(HALF):
            warnings.warn(f"the module has numbers of {halves.pop()}, and is computed in single "
                          "precision, so that round-off is no part of what is seen", NoteWarning,
                          stacklevel=4)
            model = model.float()
        return model

    def begin(self, model, X):
        """What is seen at the start."""
        self._watched = Watched(model)
        self._first = self._watched.take(X)
        return self._first[0]

    def end(self, X):
        """(the output now, mean squares of all parts)."""
        watched, (_, first, given_first) = self._watched, self._first
        f, last, given_last = watched.take(X)
        found = {name: _of_module(watched, name, first[name], last[name]) for name in watched.now}
        return f, found | {name: _of_operation(given_first[name], given_last[name])
                           for name in given_first if name in given_last}


def _of_type(given, dtype):
    """Inputs or targets with all floats in this precision."""
    if isinstance(given, dict):
        return {name: _of_type(one, dtype) for name, one in given.items()}
    if type(given) in (list, tuple):
        return type(given)(_of_type(one, dtype) for one in given)
    return given.to(dtype) if torch.is_tensor(given) and given.is_floating_point() else given


def _measure(watcher, seed: int, data: Data, optimizer, loss, steps: int) -> tuple[dict, bool]:
    """Mean squares of one model, trained, and whether it has diverged; what is not finite any more
    is then infinite."""
    model = watcher.model(seed)
    types = {one.dtype for one in model.parameters() if one.is_floating_point()}
    if len(types) == 1:
        data = Data(*(_of_type(one, *types) for one in (data.X, data.y)))
    f0 = watcher.begin(model, data.X)
    made, losses = several(call_for_optimizer(optimizer, model)), []
    with watcher.within():
        for _ in range(steps):
            made.zero_grad()
            losses.append(loss(run_model(model, data.X), data.y))
            losses[-1].backward()
            made.step()
    f, found = watcher.end(data.X)
    whole = {"init": mean_square([f0]), "eff": mean_square([f - f0])}
    found |= {"output": whole}
    pairs = [(losses[0].item(), one.item()) for one in losses[1:]]
    pairs.append((whole["init"], f.double().square().mean().item()))    # NaN if one output is
    diverged = whole["init"] is not None and not all(
        abs(one) <= DIVERGED * max(1, abs(first)) for first, one in pairs)
    if diverged:
        for parts in found.values():
            parts |= {part: math.inf for part, square in parts.items() if square is None}
    return found, diverged


def _watchers(build, widths, data: Data, size: str, example) -> list:
    """One for each width."""
    if example is not None:
        from dmft.torch import import_module
        build = import_module(build, example)
    if not hasattr(build, "as_trained"):
        refuse_no_function(build)
        return [_ByModule(build, N) for N in widths]
    from dmft.torch.importing.coordinates import ByTensor
    if not torch.is_tensor(data.X):
        raise InputError(f"data: X is a {type(data.X).__name__}, and an import has one tensor of "
                         "inputs")
    return [ByTensor(build, size, N) for N in widths]


class _Sums:
    """Mean squares over seeds, at each width, of one optimizer."""

    def __init__(self, widths, size: str):
        self.widths, self.size = widths, size
        self.squares: dict[str, dict[str, list[list]]] = {}

    def add(self, k: int, found: dict) -> None:
        for name, parts in found.items():
            for part, square in parts.items():
                at = self.squares.setdefault(name, {}).setdefault(
                    part, [[] for _ in self.widths])
                at[k].append(square)

    def _growing(self) -> dict:
        """The squares, where modules that are not there at every width are one with those that are
        called like them but for a number."""
        few = {_pattern_of(name) for name, parts in self.squares.items()
               if not all(squares for at in parts.values() for squares in at)}
        found: dict[str, dict[str, list[list]]] = {}
        for name, parts in self.squares.items():
            many = _pattern_of(name) if _pattern_of(name) in few else name
            for part, at in parts.items():
                sums = found.setdefault(many, {}).setdefault(part, [[] for _ in self.widths])
                for all_of_them, squares in zip(sums, at):
                    all_of_them += squares
        return found

    def result(self) -> tuple[dict, dict]:
        """(rms, left_out). A seed in which a part is not known, as that of an expert without
        tokens, does not count; a module that no seed knows at some width is left out."""
        rms: dict = {}
        left: dict = {}
        where = _at(self.size)
        for name, parts in self._growing().items():
            for part, at in parts.items():
                known = [[square for square in squares if square is not None] for squares in at]
                absent, empty = (" ".join(str(N) for N, squares in zip(self.widths, every)
                                          if not squares) for every in (at, known))
                if absent:
                    left[name] = f"it is not there at {where}{absent}"
                elif empty and part != "prop":
                    left[name] = f"{part}: it is never called, or with no tokens, at {where}{empty}"
                elif empty:
                    left.setdefault(name, "prop: the tokens that it has at the start and at the "
                                    f"end are others, or cannot be told, at {where}{empty}")
                else:
                    rms.setdefault(name, {})[part] = np.sqrt(
                        [math.fsum(squares) / len(squares) for squares in known])
        return rms, left


def half_square(f, y: torch.Tensor) -> torch.Tensor:
    """(f - y)^2/2, the mean over all entries; f: what the module gives."""
    f = first_tensor(f)
    if f.numel() != y.numel():
        raise InputError(f"loss: the module gives {list(f.shape)} and y is {list(y.shape)}; give "
                         "loss=, a function of what the module gives and of y")
    return 0.5 * (f.reshape(y.shape) - y.to(f.dtype)).square().mean()


def _pair(data) -> Data:
    if isinstance(data, Data):
        if data.weight is not None:
            raise InputError("coordinate_check counts every input once, and these have weights; "
                             "give (X, y)")
        return data
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise InputError(f"data: must be a pair (X, y), is a {type(data).__name__}; of a loader "
                         "give one batch, next(iter(loader))")
    X, y = (torch.as_tensor(one) if isinstance(one, np.ndarray) else one for one in data)
    return Data(X, y)


def coordinate_check(build, widths, data, *, optimizers: dict | None = None, loss=half_square,
                     steps: int = 3, seeds: int = 2, size: str = "N",
                     example=None) -> Coordinates:
    """What the modules of your own network and their updates contribute, over widths.

    build: a function of the width that makes it; or an import (dmft.torch.import_module), which is
    made here where there is an `example`: rows are then the tensors of the module, part by part,
    and logits, softmax and attention between them, in double precision. data: (X, y) or
    dmft.torch.Data, X being what the module is called with: a tensor, a tuple of arguments, or a
    dict of those with names. optimizers: {a name: a function of the module that gives its
    optimizer, or a list of several}; without, Adam at 1e-3 and SGD at 0.1, of all parameters. loss:
    a function of what the module gives and of y. Dropout and jitter draw the same numbers at the
    start and at the end. What grows may also be the number of blocks or experts,
    lambda L: build(256, L); size is then its name, and of an import the one that its counts= has
    (it is at its larger traced width, and imported anew).

    A part whose exponent is above zero explodes. `eff` and the output's change should have the
    exponent 0; where `eff` falls the matrix is frozen in the limit. `init` of a read-out or a
    router that starts with entries of 1/N falls as N^-1/2, which is right.

    >>> print(coordinate_check(build, [64, 256, 1024], (X, y)))             # doctest: +SKIP
    """
    data = _pair(data)
    optimizers = optimizers or {"adam": lambda model: torch.optim.Adam(model.parameters(), 1e-3),
                                "sgd": lambda model: torch.optim.SGD(model.parameters(), 0.1)}
    if not isinstance(optimizers, dict):
        raise InputError(f"optimizers: must be {{a name: {FORM}}}")
    wanted = widths
    try:
        widths = [operator.index(N) for N in wanted]
    except TypeError:                   # no numbers, or not whole ones
        widths = []
    if not widths or min(widths) < 1:
        raise InputError(f"widths: {wanted!r}; must be a list of whole numbers, as [64, 256]")
    watchers = _watchers(build, widths, data, size, example)
    rms, left_out, diverged = {}, {}, {}
    for name, optimizer in optimizers.items():
        sums, wide = _Sums(widths, size), {}
        for k, watcher in enumerate(watchers):
            for seed in range(seeds):
                with torch.random.fork_rng(devices=[]):
                    found, diverges = called(
                        f"coordinate_check: the module at {_at(size)}{widths[k]}", TAKES, _measure,
                        watcher, seed, data, optimizer, loss, steps)
                sums.add(k, found)
                wide |= {widths[k]: None} if diverges else {}
        rms[name], left = sums.result()
        if left:
            left_out[name] = left
        if wide:
            diverged[name] = list(wide)
    return Coordinates(widths, rms, left_out, size, diverged)
