"""The parts of a coordinate check, tensor by tensor of a module that was imported.

The program of an import computes every expert for every token, and multiplies by the gate, which is
0 where the expert was not chosen. So the k-th row of what an expert takes is the same token at all
times; `needed` says which tokens, and which entries, the output has anything of.
"""
from __future__ import annotations

import contextlib
import copy

import torch

from dmft.errors import InputError
from dmft.torch.importing.axes import Piece
from dmft.torch.importing.few import import_of_counts
from dmft.torch.importing.record import InDouble, doubles
from dmft.torch.operations import OPERATIONS

# Operations of which each entry is made of the entries at its place, or of those of its token.
ENTRYWISE = ("fn", "add", "shift", "times", "bias", "multiply")
OF_TOKEN = ("map", "look", "read_out", "embed", "average", "scale", "pick", "join", "group_mean",
            "tile", "tile_mean", "top", "noise")


def as_written(mine):
    """The import with every factor where the module has it, so that values are the module's, and
    with one matrix where wide experts share a part of theirs."""
    own = copy.copy(mine)
    own.shares = False
    own.move(set())
    return own


class Rows:
    """What the rows of a coordinate check are called: {name of a matrix: the parameter, with the
    part that it is where there are several}."""

    def __init__(self, mine, program):
        self._program = program
        self.of_matrix, parts = {}, {}
        for part in mine.parts:
            parts.setdefault(part.parameters, []).append(part)
        for (first, *rest), alike in parts.items():
            name = " ".join([first.removesuffix(".weight"), *rest])
            whole = {}
            for part in alike:
                whole.setdefault(self._experts(part), []).append(part)
            for experts, of_one in whole.items():
                of_one.sort(key=lambda part: [one.start if isinstance(one, Piece) else one
                                              for one in part.leaves[0].at])
                for k, part in enumerate(of_one):
                    self.of_matrix[part.name] = name + "".join(
                        f"[{one}]" for one in experts if len(whole) > 1) + (
                        f"[{k + 1} of {len(of_one)}]" if len(of_one) > 1 else "")
        self._parents = {part.name: part.parameters[0].split(".")[:-2] for part in mine.parts}

    @staticmethod
    def _experts(part) -> tuple:
        """Places along axes that are written out, of a part with one matrix there."""
        return tuple(one for one in part.leaves[0].at if not isinstance(one, Piece)) \
            if len(part.leaves) == 1 else ()

    def of(self, k: int) -> list[tuple[str, str]]:
        """(name, kind: tensor, operation, or logits) of the rows that an operation belongs to."""
        v = self._program.operations[k]
        if v.matrix:
            tied = v.operation in ("look", "read_out") and \
                self._program.matrix(v.matrix).kind == "embed"
            return [(self.of_matrix[v.matrix] + (" (head)" if tied else ""), "tensor")]
        if _is_softmax(v):
            prefix = self._module_of(v.arguments)
            return [(prefix + ": logits", "logits"), (prefix + ": softmax", "operation")]
        if v.operation in ("mix", "mix_by_head"):
            return [(self._module_of(v.arguments) + ": attention", "operation")]
        return []

    def _module_of(self, todo) -> str:
        """The module that the matrices beneath share."""
        found, todo, seen = None, list(todo), set()
        while todo:
            k = todo.pop()
            if k in seen:
                continue
            seen.add(k)
            v = self._program.operations[k]
            if not v.matrix:
                todo += v.arguments
            elif v.operation in ("map", "look", "read_in", "embed"):
                parent = self._parents[v.matrix]
                both = zip(found, parent) if found is not None else ((a, a) for a in parent)
                found = []
                for a, b in both:
                    if a != b:
                        break
                    found.append(a)
        return ".".join(found or []) or "(itself)"


def _is_softmax(v) -> bool:
    rule = v.constants.get("rule")
    return v.operation == "softmax_by_head" or rule == "softmax" or rule == "gates" and v["softmax"]


def needed(run) -> list[torch.Tensor]:
    """For each operation of an evaluation which of its entries anything else is made of: not those
    of an expert for tokens that did not choose it."""
    operations, values = run.program.operations, run.values
    found = [torch.zeros_like(x, dtype=torch.bool) for x in values]
    used = {k for v in operations for k in v.arguments}
    for k in reversed(range(len(operations))):
        v = operations[k]
        if k == run.program.output or k not in used:
            found[k][:] = True
        for j, argument in enumerate(v.arguments):
            found[argument] |= (values[k] != 0) if _is_softmax(v) else \
                _of_argument(v, found[k], values, j)        # a softmax is 0 behind a mask
    return found


def _of_argument(v, mine: torch.Tensor, values, j: int) -> torch.Tensor:
    """Which entries of its argument j the needed entries of an operation are made of."""
    x = values[v.arguments[j]]
    everything = torch.ones_like(x, dtype=torch.bool)
    if mine.shape[:2] != x.shape[:2] or v.operation not in ENTRYWISE + OF_TOKEN:
        return everything
    if v.operation in ("multiply", "scale"):
        other = values[v.arguments[1 - j]]
        if v.operation == "scale" and j == 1:
            other = other[..., v["column"], None]
        if v.operation == "multiply" or j == 1:
            if other.shape[-1] not in (1, mine.shape[-1]):      # of which each is one of a group
                other = other.repeat_interleave(mine.shape[-1] // other.shape[-1], -1)
            mine = mine & (other != 0)
    if v.operation in ENTRYWISE and mine.shape == x.shape:
        return mine
    return mine.any(-1, keepdim=True) & everything


def _with(run, weights):
    """The same evaluation with other weights."""
    other = copy.copy(run)
    other.weights = weights
    return other


def _alone(v, arguments):
    """The arguments of a product; a bias is looked at without what it is added to."""
    return [torch.zeros_like(x) for x in arguments] if v.operation == "bias" else arguments


def measure(rows: Rows, first, last) -> dict:
    """{row: {part: mean square or None}} of two evaluations, of the module at its start and now
    (Coordinates says what the parts are)."""
    taken: dict = {}
    of_start, of_end = needed(first), needed(last)
    for k, name, kind in [(k, *row) for k in range(len(of_start)) for row in rows.of(k)]:
        v = first.program.operations[k]
        at_start, now = first.values[k], last.values[k]
        here, there = of_start[k], of_end[k]
        parts = taken.setdefault(name, {"init": []} | ({"prop": []} if kind == "tensor" else {})
                                 | {"eff": []})
        if kind == "logits":            # all that the softmax takes, but for what a mask hides
            here, there = here & (at_start != 0), there & (now != 0)
            at_start, now = (run.values[v.arguments[0]] for run in (first, last))
        if kind != "tensor":
            parts["init"].append(at_start[here])
            parts["eff"].append((now - at_start)[here & there])
            continue
        product = OPERATIONS[v.operation]
        x0, x = (_alone(v, [run.values[j] for j in v.arguments]) for run in (first, last))
        at_start = product(first, v, *x0)
        moved = product(_with(last, first.weights), v, *x)
        parts["init"].append(at_start[here])
        parts["prop"].append((moved - at_start)[here & there])
        parts["eff"].append((product(last, v, *x) - moved)[there])
    return {name: {part: _mean_square(every) for part, every in parts.items()}
            for name, parts in taken.items()}


def _mean_square(tensors) -> float | None:
    total = sum(one.numel() for one in tensors)
    return sum(one.square().sum().item() for one in tensors) / total if total else None


class ByTensor:
    """What the tensors of modules of one size make, by the program of their import."""

    def __init__(self, mine, size: str, value: int):
        builds = mine._builds
        if size == next(iter(builds.sizes)):
            self._sizes = builds.others(value)
        elif size in mine.counts:
            mine = import_of_counts(mine, {size: value})
            self._sizes = builds.others(builds.widths[1])
        else:
            raise InputError(f"size {size!r}: of this import "
                             + " or ".join([next(iter(builds.sizes)), *mine.counts])
                             + " may grow (other sizes of its widths= go with the first)")
        self._mine, self._own = mine, as_written(mine)

    @staticmethod
    @contextlib.contextmanager
    def within():
        """The module runs in double precision within it."""
        with InDouble(), doubles():
            yield

    def model(self, seed: int):
        """The module of this seed."""
        return self._mine._builds.of_sizes(self._sizes, seed)

    def begin(self, model, X):
        """What is seen at the start."""
        self._model, self._net = model, self._own.load(model)
        self._first = self._evaluated(self._net, X)
        return self._net._shape(self._first.output)

    def end(self, X):
        """(the output now, mean squares of all parts)."""
        last = self._evaluated(self._own.load(self._model), X)
        return self._net._shape(last.output), measure(Rows(self._own, last.program), self._first,
                                                      last)

    def _evaluated(self, net, X):
        with torch.no_grad():
            if X.is_floating_point():
                return net.evaluate(self._mine.inputs(X))
            return net.evaluate(net.inputs_of(X), X)
