"""What a record computes with each expert of a list, computed for all of them at once.

Tensors, one of each expert, are followed back to what they share, to the parameters of the experts,
and to entries of one tensor, such as gates, one for each of them. The operations are run for all
together, and recorded once. Rows that an expert is given alone become all rows, and a mask: which
ones they are is known by their numbers (moves.py), however they were found.
"""
from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch

from dmft.torch.importing.moves import NONE, moved_by, places, plainly, reasons, trails
from dmft.torch.importing.record import Record, Recorder, Step, tensors

CHOOSING = ("index", "index_select", "gather", "topk")  # of rows
VIEWS = ("view", "_unsafe_view", "reshape", "expand")


class NotAlike(Exception):
    """Experts that do not do the same."""


@dataclasses.dataclass(eq=False)
class Rows:
    """Which rows all experts are given: `mask` [experts, rows]. choice: the index [.., slot] of the
    experts that each row chose, if that says it."""
    mask: torch.Tensor
    choice: torch.Tensor | None


@dataclasses.dataclass
class Value:
    """What all experts have: `tensor`, whose first axis is that of experts if `each`, or a list of
    one of each. axis: of rows that were chosen, of which all are here; rows: which these are; at:
    where the rows of each expert are among all; inner: how many lie side by side, all rows if they
    are chosen among all of them."""
    tensor: object
    each: bool
    axis: int | None = None
    rows: Rows | None = None
    at: tuple = ()
    inner: int = 0

    @property
    def whole(self) -> torch.Tensor:
        return torch.stack(self.tensor) if isinstance(self.tensor, list) else self.tensor


@dataclasses.dataclass
class Hit:
    """Whether the index [.., slot] is the expert, times weights."""
    index: torch.Tensor
    weights: torch.Tensor | None = None


class Together:
    """All experts at once, of which there are `count`. made: {tensor: (its step, which result)};
    of: {tensor: {(name, number) of experts: which of them it is computed with}}."""

    def __init__(self, record: Record):
        self.record, self.recorder = record, Recorder()
        self.recorder.unknown.update(id(one) for one in record.parameters.values())
        self.recorder.unknown.add(id(record.input))
        self.recorder.unknown.update(id(one) for step in record.steps if step.known is None
                                     for one in step.results)
        self.made: dict[int, tuple[Step, int]] = {}
        self.of: dict[int, dict] = {}
        self.members: dict[int, tuple] = {}     # {a parameter: (its list, which expert has it)}

    def begin(self, experts) -> None:
        """Forgets what was computed. experts: (a name of theirs, how many there are)."""
        self.experts, self.count = experts, experts[1]
        self.known, self.recorder.steps = {}, []

    def value(self, every: tuple):
        """What all experts have where each has one of these tensors."""
        key = tuple(map(id, every))
        if key not in self.known:
            self.known[key] = self._found(every)
        return self.known[key]

    def _found(self, every: tuple):
        if all(one is every[0] for one in every):
            return Value(every[0], False)
        if [self.members.get(id(one)) for one in every] == [
                (self.experts, e) for e in range(self.count)]:
            return Value(list(every), True)
        made = [self.made.get(id(one)) for one in every]
        if None in made or len({(step.operation, step.stopped) for step, _ in made}) > 1:
            raise NotAlike("experts are not computed alike"
                           + next((f" ({one[0].place})" for one in made if one), ""))
        first, _ = made[0]
        if all(step.known is not None for step, _ in made) \
                and len({one.shape for one in every}) > 1:     # a number for each row
            one = every[0].flatten()[:1]
            if all(bool((other == one).all()) for other in every):
                return Value(one.reshape([1] * every[0].dim()), False)
        before, self.recorder.like = self.recorder.like, first
        try:
            found = self._flags(every) or self._arranged(every) or self._run(*zip(*made))
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise NotAlike(f"{first.operation} is not known of all experts together "
                           f"({first.place})") from error
        self.recorder.like = before
        return found

    # --- what chooses -----------------------------------------------------------------------------

    def _choices(self, every: tuple):
        """Indices [.., slot] that these tensors of all experts are made of, the nearest first; none
        where something else decides about them, too."""
        for many in reasons(self.made, every) if plainly(self.made, every) else ():
            one = many[0]
            if all(other is one for other in many) and one.dtype == torch.int64 and one.dim():
                yield one

    def _with_slot(self, index: torch.Tensor) -> torch.Tensor:
        """The index [.., slot] of one that had no other slot."""
        for one, _ in trails(self.made, index):
            if one.shape == (*index.shape, 1):
                return one
        return self.known.setdefault(("slot", id(index)), index.unsqueeze(-1))

    def _flags(self, every: tuple):
        """Whether an expert was chosen: by a slot, or at all."""
        step, _ = self.made[id(every[0])]
        if every[0].is_floating_point() and step.operation != "_to_copy" or every[0].is_complex():
            return None
        flags = [one.detach().numpy() for one in every]
        if not all(np.isin(one, (0, 1)).all() for one in flags):
            return None
        for index in self._choices(every):
            if index.dim() > 1 and all(np.array_equal(one, index.numpy() == e)
                                       for e, one in enumerate(flags)):
                return Hit(index)
            index = index if index.dim() > every[0].dim() else self._with_slot(index)
            if all(np.array_equal(one, (index.numpy() == e).any(-1))
                   for e, one in enumerate(flags)):
                return Value(self.scattered(index), True)
        return None

    def scattered(self, index: torch.Tensor, weights=None) -> torch.Tensor:
        """The sum over slots of an index of whether it is the expert, times weights."""
        dtype = self.record.output.dtype if weights is None else weights.dtype
        zeros = torch.zeros((*index.shape[:-1], self.count), dtype=dtype)
        return zeros.scatter(-1, index, 1.0 if weights is None else weights).movedim(-1, 0)

    def _rows(self, every: tuple, at, count: int) -> Rows | None:
        """Which of so many rows the experts are given, at these places; None where nothing that was
        chosen says it."""
        wanted = np.stack([np.bincount(one[one >= 0], minlength=count) for one in at])
        chosen = [one for one in (index if index.shape[:-1].numel() == count else
                                  self._with_slot(index) for index in self._choices(every))
                  if one.shape[:-1].numel() == count and np.array_equal(self._hits(one), wanted)]
        one = chosen[-1] if chosen else None    # the first that was computed, if several do
        found = next((rows for key, rows in self.known.items() if key[0] == "rows"
                      and rows.choice is one and np.array_equal(rows.mask.numpy(), wanted)), None)
        mask = found.mask if found else self.scattered(one).flatten(1) if chosen else next((
            made for made in self._masks(every, count)
            if np.array_equal(made.detach().numpy(), wanted)), None)
        if mask is None:
            return None
        return found or self.known.setdefault(("rows", id(mask)), Rows(mask, one))

    def _hits(self, index: torch.Tensor) -> np.ndarray:
        """How many slots of each row have each expert, [experts, rows]."""
        flat = index.numpy().reshape(-1, index.shape[-1])
        return np.stack([(flat == e).sum(-1) for e in range(self.count)])

    def _masks(self, every: tuple, count: int):
        """Masks of rows that each expert may have chosen by numbers of its own, flags or places."""
        for many in reasons(self.made, every):
            one, same = many[0], all(other is many[0] for other in many)
            if one.dtype == torch.int64 and not plainly(self.made, every):
                continue
            if same:                    # of all experts along an axis before the last
                made = [(one, d) for d, size in enumerate(one.shape[:-1]) if size == self.count]
            else:
                found = self.value(many)
                made = [(found.whole, 0)] if isinstance(found, Value) and not found.rows else []
            for places, d in made:
                if places.dtype == torch.bool and places[0].numel() == count:
                    yield places.flatten(1)
                side = count * self.count // places.shape[:-1].numel()
                if places.dtype == torch.int64 and places.dim() in (2, 3) and count * self.count \
                        == places.shape[:-1].numel() * side and places.numpy().max() < side:
                    zeros = torch.zeros(*places.shape[:-1], side, dtype=self.record.output.dtype)
                    yield zeros.scatter(-1, places, 1.0).movedim(d, 0).flatten(1)

    # --- what is arranged -------------------------------------------------------------------------

    def _arranged(self, every: tuple) -> Value | None:
        """Entries of one tensor, one of each expert, or rows of one tensor that each has chosen."""
        if moved_by(*self.made[id(every[0])]) is None:
            return None
        last = None
        for both in zip(*(trails(self.made, one) for one in every)):
            many, first = tuple(one for one, _ in both), both[0][0]
            step, _ = self.made.get(id(first), (None, 0))
            if any(one is not first for one in many) or self.of.get(id(first), {}).get(
                    self.experts) or step and step.operation in ("index_put", "topk"):
                continue                # what they are made of says more
            found = self._part(every, Value(first, False), both)
            last = found and (found, both[0][1]) or last
            if found and not found.rows:
                break
        if last:                        # of the first tensor that has its rows, and no copies
            found, steps = last
            room, count = max(map(len, found.at), default=0), found.rows and len(found.rows.mask.T)
            if found.rows and room < count and any(
                    step.operation == "index_put" for step, _ in steps):
                raise NotAlike(f"an expert has room for {room} of {count} rows, and which do not "
                               "fit is up to the others; give it room for all")
            return found
        if self.made[id(every[0])][0].operation not in CHOOSING:
            return None
        value = self.value(many) if many[0] is not many[1] else None
        found = self._part(every, value, both) if isinstance(value, Value) and not value.rows \
            else None
        if found is None:
            raise NotAlike("rows are chosen in a way that is not known of experts in a list "
                           f"({self.made[id(every[0])][0].place})")
        return found

    def _part(self, every, source: Value, both) -> Value | None:
        """What tensors of all experts have of a source, moved by these steps."""
        where = [places(one, steps) for one, steps in both]
        return next((found for k in range(1, both[0][0].dim() + 1) if (
            found := self._parts(every, source, where, k)) is not None), None)

    def _parts(self, every, source: Value, where, k: int) -> Value | None:
        """Parts of a tensor, each a place of its first k axes and all of the others."""
        tensor, each = source.whole, source.each
        shape = tensor.shape[int(each):]
        rest, axes = shape[k:].numel(), list(shape[:k])
        parts = [_whole_parts(one, rest) for one in where]
        if any(one is None for one in parts):
            return None
        at = [np.unravel_index(np.maximum(one, 0), axes) for one in parts]
        own = next((d for d, size in enumerate(axes) if not each and size == self.count and all(
            (one[d] == e).all() for e, one in enumerate(at))), None)
        kept = [d for d in range(k) if d != own]
        axes = [axes[d] for d in kept]
        count = math.prod(axes)
        rows = [np.where(part < 0, NONE, np.ravel_multi_index([one[d] for d in kept], axes)
                         if kept else 0) for one, part in zip(at, parts)]
        if own is not None:
            tensor, each = tensor.movedim(own, 0), True
        if all(np.array_equal(one, np.arange(count)) for one in rows):
            if len({one.shape for one in every}) > 1:
                return None
            return Value(tensor.reshape(*[self.count] * each, *every[0].shape), each)
        if rest == 1 and not each:
            slots = [index for index in self._choices(every)
                     if index.numel() == count and 1 < index.dim() and all(
                         np.array_equal(np.sort(one), np.flatnonzero(index.numpy() == e))
                         for e, one in enumerate(rows))]
            for index in slots[-1:]:
                tensor, each = self.scattered(index, tensor.reshape(index.shape)), True
                rows = [one // index.shape[-1] for one in rows]
                axes = list(index.shape[:-1])
        return self._rows_of(every, tensor, each, rows, axes)

    def _rows_of(self, every, tensor, each: bool, at, axes) -> Value | None:
        """All rows of a tensor [.., rows, rest], at places of which experts have theirs."""
        longest = max(range(self.count), key=lambda e: len(at[e]))
        shape, number = every[longest].shape, len(at[longest])
        first = next((q for q in range(len(shape) + 1) if shape[:q].numel() == number), None)
        count = math.prod(axes)
        if first is None or number < 2:
            return None
        long = [d for d in range(first) if shape[d] > 1]
        side = len(axes) == 2 and all(len(one) % axes[0] == 0 and (
            one.reshape(axes[0], -1) // axes[1] == np.arange(axes[0])[:, None]).all() for one in at)
        if len(long) != 1 and not (len(long) == 2 and side and shape[long[0]] == axes[0]):
            return None
        shape = [*shape[:long[-1]], count if len(long) == 1 else axes[1], *shape[long[-1] + 1:]]
        rows = self._rows(every, at, count)
        return None if rows is None else Value(tensor.reshape(*[self.count] * each, *shape), each,
                                               long[-1], rows, tuple(at), axes[-1] if side else
                                               count)

    # --- what is computed -------------------------------------------------------------------------

    def _run(self, steps, results):
        """The operation itself, on what all experts have."""
        first, k = steps[0], results[0]
        given = [list(tensors([step.arguments, *step.options.values()])) for step in steps]
        if len(set(map(len, given))) > 1 or len(set(results)) > 1:
            raise NotAlike(f"experts are not computed alike ({first.place})")
        values = [self.value(every) for every in zip(*given)]
        if any(isinstance(one, Hit) for one in values):
            return _of_hit(self, first, values)
        listed = any(isinstance(one.tensor, list) for one in values)
        if not listed and first.operation not in VIEWS and any(
                _numbers(step.arguments) != _numbers(first.arguments)
                or _numbers([*step.options.values()]) != _numbers([*first.options.values()])
                for step in steps):
            raise NotAlike(f"numbers go with the number of an expert ({first.place})")
        of_rows = next((one for one in values if one.axis is not None), None)
        if of_rows and not all(one.rows is of_rows.rows and all(map(np.array_equal, one.at,
                                                                       of_rows.at))
                               for one in values if one.axis is not None):
            raise NotAlike(f"rows of two experts are used together ({first.place})")
        each = any(one.each for one in values)
        alone = [self._function(step, k, values[0] if of_rows else None)
                 for step in (steps if listed else steps[:1])]
        inputs = [one.tensor for one in values]
        if listed:
            found = [function(*(x[e] if one.each else x for x, one in zip(inputs, values)))
                     for e, function in enumerate(alone)]
        elif each:
            found = torch.func.vmap(alone[0], tuple(0 if one.each else None for one in values))(
                *inputs)
        else:
            found = alone[0](*inputs)
        if not of_rows:
            return Value(found, each)
        shape = found[0].shape if listed else found.shape[int(each):]
        old = first.results[k].shape
        other = [d for d, (a, b) in enumerate(zip(shape, old)) if a != b]
        if len(shape) != len(old) or len(other) > 1:
            raise NotAlike(f"{first.operation} of rows that chose an expert ({first.place})")
        return dataclasses.replace(of_rows, tensor=found, each=each,
                                   axis=other[0] if other else of_rows.axis)

    @staticmethod
    def _function(step: Step, k: int, rows: Value | None):
        """The step as a function of its tensors; rows: of which it makes a view."""
        if step.operation.endswith("_") and step.stopped:
            raise NotAlike(f"{step.operation} writes into what experts have ({step.place})")
        arguments = list(step.arguments)
        if rows is not None and step.operation in VIEWS:
            arguments[1] = _viewed(step, rows)

        def function(*given):
            left = iter(given)
            found = getattr(torch.ops.aten, step.operation.removesuffix("_"))(
                *filled(arguments, left), **{key: filled(one, left)
                                              for key, one in step.options.items()})
            return found[k] if isinstance(found, (list, tuple)) else found
        return function


def _of_hit(self: Together, step: Step, values):
    """What is made of whether an expert was chosen."""
    hit = next(one for one in values if isinstance(one, Hit))
    rest = [one for one in values if one is not hit]
    name, dims = step.operation, (*step.arguments, None)[1]
    if name in ("_to_copy", "clone"):
        return hit
    if name == "mul" and hit.weights is None and not rest[0].each \
            and rest[0].tensor.shape == hit.index.shape:
        return Hit(hit.index, rest[0].tensor)
    if name in ("sum", "any") and [one % hit.index.dim() for one in (
            dims if isinstance(dims, list) else [dims])] == [hit.index.dim() - 1]:
        found = self.scattered(hit.index, hit.weights)
        return Value(found.unsqueeze(-1) if True in step.arguments[2:] else found, True)
    raise NotAlike(f"{name} of whether an expert was chosen ({step.place})")


def _whole_parts(at: np.ndarray, rest: int) -> np.ndarray | None:
    """Which parts of so many numbers each are at these places, NONE among them; None where they are
    no such parts."""
    if at.size % rest:
        return None
    at = at.reshape(-1, rest)
    part = np.where(at[:, 0] < 0, NONE, at[:, 0] // rest)
    whole = np.where(part[:, None] < 0, NONE, part[:, None] * rest + np.arange(rest))
    return part if np.array_equal(at, whole) else None


def _numbers(argument):
    """Arguments without the tensors among them."""
    if isinstance(argument, (list, tuple)):
        return [_numbers(one) for one in argument]
    return None if isinstance(argument, torch.Tensor) else argument


def filled(argument, given):
    """Arguments with other tensors."""
    if isinstance(argument, (list, tuple)):
        return [filled(one, given) for one in argument]
    return next(given) if isinstance(argument, torch.Tensor) else argument


def _viewed(step: Step, x: Value) -> list[int]:
    """The shape of a view with all rows in place of those that were chosen."""
    shape, old = list(step.results[0].shape), step.arguments[0].shape
    mine = x.tensor[0].shape if isinstance(x.tensor, list) else x.tensor.shape[int(x.each):]
    outer, inner = mine[:x.axis + 1].numel() // x.inner, x.inner * old[x.axis] // mine[x.axis]
    for d, size in enumerate(shape):
        within = outer // torch.Size(shape[:d]).numel()
        if within * torch.Size(shape[:d]).numel() == outer and size == within * inner:
            shape[d] = within * x.inner
            return shape
    raise NotAlike(f"rows that chose an expert are put into another shape ({step.place})")
