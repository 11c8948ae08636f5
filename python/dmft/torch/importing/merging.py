"""Branches of a record that are the same for every expert of a list become one of all experts.

The module computes something with each expert and joins it: a sum, one by one or on the rows that
chose the expert, a stack, or rows that lie where they were chosen. What is joined is computed for
all experts at once (together.py) in place of that, and must have the same value.
"""
from __future__ import annotations

import dataclasses

import numpy as np
import torch

from dmft.errors import InputError
from dmft.torch.importing.experts import LISTS, at, list_of, places_of
from dmft.torch.importing.lines import at_line
from dmft.torch.importing.moves import NONE, moved, moved_by, places, plainly
from dmft.torch.importing.random_numbers import is_random
from dmft.torch.importing.record import Record, Step, tensors
from dmft.torch.importing.together import NotAlike, Together, Value, filled

CLOSE = 1e-9                            # round-off of sums in another order
# Operations that join what experts have made. Those that put it into a tensor: where in it, counted
# through; which argument is put.
PUTS = {"index_add": (lambda at, dim, rows, *_: at.take(rows.numpy(), dim), 3),
        "scatter_add": (lambda at, dim, index, *_: np.take_along_axis(at, index.numpy(), dim), 3),
        "index_put": (lambda at, index, *_: at[tuple(slice(None) if one is None else one.numpy()
                                                     for one in index)], 2)}
JOINS = ("add", "stack", "cat", *PUTS)


def joining(step: Step) -> str:
    """The name of an operation, without what says that it writes into its argument."""
    return step.operation.removesuffix("_")


class Merger(Together):
    """The branches of the experts of a record. stacks: the tensors of lists that are stacked; those
    of one length are taken as those of the same experts, each of which may have an entry in
    several. members: {id of a parameter: ((its list, how many there are), which expert has it)} of
    others."""

    def __init__(self, record: Record, stacks=(), members=()):
        super().__init__(_written_anew(record))
        self.stacks, self.members = set(map(id, stacks)), dict(members)
        self.of = {one: {experts: frozenset({e})} for one, (experts, e) in self.members.items()}
        self.why, self.joined = "", 0   # why something was not joined; how much was
        self.laid: dict[int, tuple] = {}        # rows of experts in an order: see _lay

    def merged(self) -> Record:
        """The record with one branch for all experts of each list, and without what then is
        unused."""
        steps: list[Step] = []
        for step in self.record.steps:
            experts: dict = {}
            for one in tensors([step.arguments, *step.options.values()]) \
                    if step.known is None else ():
                for key, some in self.of.get(id(one), {}).items():
                    experts[key] = experts.get(key, frozenset()) | some
            if self._one_of_a_stack(step):
                tensor, _, e = step.arguments
                experts = {("", len(tensor)): frozenset({e % len(tensor)})}
            for k, one in enumerate(step.results):
                if isinstance(one, torch.Tensor):
                    self.made[id(one)] = step, k
                    self.of[id(one)] = experts
            if id(moved_by(step, 0)) in self.laid:
                steps += self._moved(step)
            else:
                self._spread(step)
                steps += self._joined(step, experts) or [step]
        return dataclasses.replace(self.record, steps=self._live(steps))

    def _live(self, steps) -> list[Step]:
        live = {id(one) for one in (self.record.output, *self.record.penalties)}
        found = []
        for step in reversed(steps):
            if is_random(step.operation) or any(id(one) in live for one in step.results):
                live -= {id(one) for one in step.results}   # of the last that makes it
                live |= {id(one) for one in tensors([step.arguments, *step.options.values()])}
                found.append(step)
        for step in found:
            if self._one_of_a_stack(step):
                raise NotAlike(self.why or f"an expert is used by itself ({step.place})")
        return found[::-1]

    def _one_of_a_stack(self, step: Step) -> bool:
        return step.operation == "select" and id(step.arguments[0]) in self.stacks

    # --- joins -----------------------------------------------------------------------------------

    def _joined(self, step: Step, experts: dict) -> list[Step]:
        """The steps of all experts together, up to the tensor in which they are joined; none where
        they are not joined, or not alike."""
        for key, some in experts.items() if joining(step) in JOINS else ():
            if len(some) < key[1] or key[1] < 2:
                continue
            found = self._tried(step, key, self._stacked if joining(step) in ("stack", "cat")
                                else self._sum)
            if found or id(step.results[0]) in self.laid:
                return found
        return []

    def _tried(self, step: Step, experts, make) -> list[Step]:
        """What make(step) computes, as its result; none where experts are not alike."""
        self.begin(experts)
        self.recorder.like, old = step, step.results[0]
        try:
            with torch.no_grad(), self.recorder:
                found = make(step)
        except (NotAlike, TypeError, ValueError, RuntimeError, IndexError) as error:
            why = str(error) if isinstance(error, NotAlike) else \
                f"{step.operation} is not known of all experts together"
            self.why = self.why or at_line(why, step.place)
            return []
        if found is None:
            return []
        if found.shape != old.shape or not torch.allclose(found, old, CLOSE, CLOSE):
            self.why = f"experts together have another value than one by one ({step.place})"
            return []
        self.of[id(old)] = {key: some for key, some in self.of[id(old)].items() if key != experts}
        self.joined += 1
        return [*self.recorder.steps, Step("clone", (found,), {}, (old,), None, False, step.place)]

    def _stacked(self, step: Step) -> torch.Tensor | None:
        every, dim = step.arguments[0], (*step.arguments[1:], 0)[0]
        values = self._values(every)
        stack = step.operation == "stack"
        dim = dim % (every[0].dim() + stack)
        if len(values) > 1 or not values[0].each:
            raise NotAlike(f"what is joined is not one tensor of each expert ({step.place})")
        if values[0].rows is not None:
            join = np.stack if stack else np.concatenate
            return self._lay(step, every, join(self._rows_made(values[0], every), dim))
        tensor = values[0].whole.movedim(0, dim)
        return tensor if stack else tensor.flatten(dim, dim + 1)

    def _in_order(self, every) -> list[tuple]:
        """Tuples of one of each expert, in the order of the experts."""
        found: dict = {}
        for one in every:
            of = self.of.get(id(one), {}).get(self.experts, ())
            if len(of) != 1:
                raise NotAlike("something is joined that is of no one expert")
            (e,) = of
            found.setdefault(e, []).append(one)
        if sorted(found) != list(range(self.count)) or len(set(map(len, found.values()))) > 1:
            raise NotAlike("experts are not joined equally often")
        return list(zip(*(found[e] for e in range(self.count))))

    def _values(self, every) -> list[Value]:
        """What all experts have, of as many tensors as each of them has here."""
        values = [self.value(one) for one in self._in_order(every)]
        if any(not isinstance(one, Value) for one in values):
            raise NotAlike("which rows chose an expert is joined")
        return values

    def _sum(self, step: Step) -> torch.Tensor | None:
        rest, terms, rows = [], [], []
        self._flatten(step.results[0], rest, terms, rows)
        if terms and rows:
            raise NotAlike(f"experts are added in two ways ({step.place})")
        if rows:
            total = self._of_rows(step, rows, rest)
            if total is None:
                return None
        else:
            try:
                values = self._values(terms)
            except NotAlike:            # the first one was added to something
                first = self.made[id(terms[0])][0]
                if joining(first) != "add" or len(first.arguments) != 2:
                    raise
                for one in first.arguments:
                    if isinstance(one, torch.Tensor):
                        (terms if self.of.get(id(one), {}).get(self.experts) else rest).append(one)
                values = self._values(terms[1:])
            if not all(one.each for one in values):
                raise NotAlike(f"what is added is the same for all experts ({step.place})")
            total = sum(one.whole.sum(0) for one in values)
        for one in rest:
            total = total + one
        return total

    def _flatten(self, tensor, rest, terms, rows) -> None:
        """What a sum over experts is made of: what no expert has, one of each expert, and what is
        put where into a tensor."""
        of = self.of.get(id(tensor), {}).get(self.experts, ())
        if not of:
            rest.append(tensor)
            return
        step, _ = self.made[id(tensor)]
        base = step.arguments[0]
        if joining(step) in PUTS and not step.options:
            where, which = PUTS[joining(step)]
            at = where(places(base), *step.arguments[1:])
            if not all(plainly(self.made, (one,)) for one in tensors(step.arguments[1:])
                       if not one.is_floating_point()):
                raise NotAlike(f"which rows are put back is not up to what was chosen alone "
                               f"({step.place})")
            self._flatten(base, rest, terms, rows)
            value = self._added(base, at, step.arguments[which])
            _, every, _ = self.laid.get(id(value), (None, (value,), None))
            ends = np.cumsum([*map(len, every)])[:-1]
            rows += zip(np.split(at, ends), every)
        elif len(of) == 1:
            terms.append(tensor)
        elif joining(step) == "add" and not step.options:
            for one in step.arguments:
                if isinstance(one, torch.Tensor):
                    self._flatten(one, rest, terms, rows)
                elif one:
                    raise NotAlike(f"a number is added between experts ({step.place})")
        else:
            raise NotAlike(f"{step.operation} of what some experts have made ({step.place})")

    def _added(self, to, at, value):
        """What is added to rows of a tensor: what is put there, if nothing is there yet, as the
        value of the sum shows."""
        step, _ = self.made.get(id(value), (None, 0))
        if step is None or joining(step) != "add" or step.options:
            return value
        for one, other in (step.arguments[:2], step.arguments[1::-1]):
            made, _ = self.made.get(id(one), (None, 0))
            if made is not None and made.operation == "index" and made.arguments[0] is to \
                    and np.array_equal(PUTS["index_put"][0](places(to), made.arguments[1]), at):
                return other
        return value

    # --- rows ------------------------------------------------------------------------------------

    def _of_rows(self, step: Step, rows, rest) -> torch.Tensor | None:
        """The sum of what experts have put into their rows; None where it lies in an order of its
        own."""
        where, total, shape = {id(one): at for at, one in rows}, 0, rest[0].shape   # of the base
        many = self._in_order([one for _, one in rows])
        for every in many:
            value = self.value(every)
            if not isinstance(value, Value) or value.rows is None or not value.each or any(
                    where[id(one)].shape != one.shape for one in every):
                raise NotAlike("rows are added that are not the rows an expert was given")
            count = value.rows.mask.shape[1]
            numbers, made = shape.numel() // count, self._rows_made(value, every)
            if numbers * count == shape.numel() and all(np.array_equal(
                    where[id(one)], which % shape.numel()) for one, which in zip(every, made)):
                mask = value.rows.mask.reshape(self.count, *self._row_axes(value))
                total = total + (mask * value.whole).sum(0).reshape(shape)
                continue
            if len(many) > 1 or len(rest) > 1 or not self._empty(rest[0]):
                raise NotAlike("rows are added to others than an expert was given")
            rest.clear()
            laid = np.full(shape.numel(), NONE)
            for one, which in zip(every, made):
                laid[where[id(one)].ravel()] = which.ravel()
            return self._lay(step, every, laid.reshape(shape))
        rest[:] = [one for one in rest if not self._empty(one)]
        return total

    @staticmethod
    def _row_axes(value: Value) -> list[int]:
        """The shape of a mask beside a value, of one expert."""
        shape, before = value.whole.shape[1:], value.axis
        count = value.rows.mask.shape[1]
        if shape[before] == count:
            return [count if d == before else 1 for d in range(len(shape))]
        return [size if d <= before else 1 for d, size in enumerate(shape)]

    def _rows_made(self, value: Value, every) -> list[np.ndarray]:
        """Of what each expert has made of its rows the places among what all make, [experts, rows,
        rest]."""
        found, count = [], value.rows.mask.shape[1]
        rest = value.whole.shape[1:].numel() // count
        for e, (one, at) in enumerate(zip(every, value.at)):
            if one.shape[:value.axis + 1].numel() != len(at):
                raise NotAlike("rows are not the first axis of what an expert has made")
            which = np.where(at < 0, NONE, (e * count + at) * rest)[:, None]
            found.append(np.where(which < 0, NONE, which + np.arange(rest)).reshape(one.shape))
        return found

    def _lay(self, step: Step, every, laid: np.ndarray) -> torch.Tensor | None:
        """Rows of experts in the order that a step gives them, laid out as they were chosen if they
        are so, and else kept: `laid` says which these are."""
        value = self.value(every)
        count, choice = value.rows.mask.shape[1], value.rows.choice
        numbers = value.whole.shape[1:].numel() // count
        which = laid.reshape(-1, numbers)[:, 0] // numbers
        if choice is None:
            raise NotAlike("rows of an expert's own choice are joined in another order")
        if not np.array_equal(which, _in_turn(choice, count)):
            self.laid[id(step.results[0])] = self.experts, every, laid
            return None
        return self._as_chosen(value).reshape(laid.shape)

    def _as_chosen(self, value: Value) -> torch.Tensor:
        """What the experts make of each slot, [rows, slots, numbers]."""
        count, choice = value.rows.mask.shape[1], value.rows.choice
        made = value.whole.reshape(self.count, count, -1)
        index = choice.flatten(0, -2).unsqueeze(-1).expand(-1, -1, made.shape[-1])
        return made.movedim(0, 1).gather(1, index)

    def _spread(self, step: Step) -> None:
        """Of a step that does something to each row of those that experts have made, one behind the
        other, what it does to those of each."""
        given = [one for one in tensors(step.arguments) if id(one) in self.laid]
        if not given or len(step.results) > 1 or step.known is not None or joining(step) in JOINS:
            return
        experts, every, laid = self.laid[id(given[0])]
        whole, result, made = given[0], step.results[0], []
        if result.shape != whole.shape or len(laid) != sum(map(len, every)):
            return
        sizes = [*map(len, every)]
        cut = {id(one): self._cut(one, sizes) for one in tensors(step.arguments)
               if one.shape[:1] == whole.shape[:1] and one.dim() == whole.dim()}
        cut[id(whole)] = every
        for e, part in enumerate(result.split(sizes)):
            arguments = filled(step.arguments, iter([cut[id(one)][e] if id(one) in cut else one
                                                     for one in tensors(step.arguments)]))
            found = getattr(torch.ops.aten, joining(step))(*arguments, **step.options)
            if found.shape != part.shape or not torch.allclose(found, part, CLOSE, CLOSE):
                return
            made.append(found)
            self.made[id(found)] = dataclasses.replace(
                step, arguments=tuple(arguments), results=(found,)), 0
            self.of[id(found)] = {experts: frozenset({e})}
        self.laid[id(result)] = experts, tuple(made), laid

    def _cut(self, one: torch.Tensor, sizes) -> tuple:
        """Parts of a tensor, as a step would make them."""
        parts = tuple(one.detach().split(sizes))
        step = Step("split_with_sizes", (one, sizes), {}, parts, None, False, "the module")
        self.made |= {id(part): (step, k) for k, part in enumerate(parts)}
        return parts

    def _moved(self, step: Step) -> list[Step]:
        """What a step makes that moves rows in an order."""
        experts, every, laid = self.laid[id(moved_by(step, 0))]
        found = [self._tried(part, experts, lambda one, k=k: self._lay(one, every, moved(
            step, k, laid))) for k, part in enumerate(
                dataclasses.replace(step, results=(one,)) for one in step.results)]
        return sum(found, []) if all(found) else [step]

    def _empty(self, one: torch.Tensor) -> bool:
        """Whether nothing has been written into a tensor yet."""
        step, _ = self.made.get(id(one), (None, 0))
        return step is not None and "empty" in step.operation or not one.count_nonzero()


def _in_turn(choice: torch.Tensor, count: int) -> np.ndarray:
    """Where what each slot of each row chose is among what all experts make of all rows."""
    return (choice.numpy().reshape(count, -1) * count + np.arange(count)[:, None]).ravel()


def _written_anew(record: Record) -> Record:
    """The record with a tensor of its own for what is written into another, as PyTorch does within
    some of its operations."""
    now: dict[int, torch.Tensor] = {}

    def of(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(of, value))
        return now.get(id(value), value)
    steps = []
    for step in record.steps:
        step = dataclasses.replace(step, arguments=of(step.arguments), options={
            key: of(value) for key, value in step.options.items()})
        if step.operation.endswith("_") and isinstance(step.results[0], torch.Tensor):
            now[id(step.results[0])] = step.results[0].detach()
        steps.append(dataclasses.replace(step, results=of(step.results)))
    return dataclasses.replace(record, steps=steps, output=of(record.output),
                               penalties=of(record.penalties))


def merged(record: Record) -> Record:
    """The record with one branch for all experts of each list that is stacked."""
    stacks = {name: one for name, one in record.parameters.items() if list_of(name) is not None}
    if not stacks:
        return record
    try:
        return Merger(record, stacks.values()).merged()
    except NotAlike as error:
        names = dict.fromkeys(map(list_of, stacks))
        raise InputError(f"the experts in {' and '.join(names)} are "
                         f"not read as one tensor: {error}; write them as one tensor, one matrix "
                         "for each expert, or give their number by counts=") from None


def all_rows(record: Record, module: torch.nn.Module) -> Record | None:
    """The record with all rows, and masks, in the place of those that each of a fixed number of
    experts is given, in a list or one tensor; None where there is nothing of this kind."""
    members = {}
    for name, one in module.named_modules():    # the innermost list of each parameter
        if type(one) in LISTS:
            every = places_of(one)
            members |= {id(at(place)): ((name.rpartition(".")[0], len(every)), e)
                        for e, places in enumerate(every) for place in places.values()}
    taken: dict[int, set] = {}
    for step in record.steps:
        if step.operation == "select" and step.arguments[1] == 0:
            taken.setdefault(id(step.arguments[0]), set()).add(step.arguments[2])
    stacks = [one for one in record.parameters.values() if one.dim() > 1
              and taken.get(id(one)) == set(range(len(one)))]
    merger = Merger(record, stacks, members)
    try:
        found = merger.merged()
    except NotAlike:
        return None
    return found if merger.joined else None
