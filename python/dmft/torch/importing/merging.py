"""Branches of a record that are the same for every expert of a list become one of all experts.

The module computes something with each expert and joins it: a sum, one by one or on the rows that
chose the expert, or a stack. What is joined is computed for all experts at once (together.py) in
place of that, and must have the same value.
"""
from __future__ import annotations

import dataclasses

import torch

from dmft.errors import InputError
from dmft.torch.importing.experts import list_of
from dmft.torch.importing.lines import at_line
from dmft.torch.importing.random_numbers import is_random
from dmft.torch.importing.record import Record, Step, tensors
from dmft.torch.importing.together import NotAlike, Together, Value

CLOSE = 1e-9                            # round-off of sums in another order
JOINS = ("add", "index_add", "index_put", "stack", "cat")


class Merger(Together):
    """The branches of the lists of experts of a record; stacks: their tensors. Lists of one length
    are taken as those of the same experts, each of which may have an entry in several."""

    def __init__(self, record: Record, stacks):
        super().__init__(record)
        self.stacks = set(map(id, stacks))
        self.why = ""                   # why something was not joined

    def merged(self) -> Record:
        """The record with one branch for all experts of each list, and without what then is
        unused."""
        steps: list[Step] = []
        self.of: dict[int, frozenset] = {}      # which experts a tensor is computed with
        for step in self.record.steps:
            experts = frozenset().union(*(self.of.get(id(one), frozenset()) for one in tensors(
                [step.arguments, *step.options.values()])))
            if self._one_of_a_stack(step):
                tensor, _, e = step.arguments
                experts = frozenset({(len(tensor), e % len(tensor))})
            for k, one in enumerate(step.results):
                if isinstance(one, torch.Tensor):
                    self.made[id(one)] = step, k
                    self.of[id(one)] = experts
            joined = None
            if step.operation in JOINS and {count for count, _ in experts} == {len(experts)}:
                joined = self._join(step, len(experts))
            if joined:
                self.of[id(step.results[0])] = frozenset()
            steps += joined or [step]
        return dataclasses.replace(self.record, steps=self._live(steps))

    def _live(self, steps) -> list[Step]:
        live = {id(one) for one in (self.record.output, *self.record.penalties)}
        found = []
        for step in reversed(steps):
            if is_random(step.operation) or any(id(one) in live for one in step.results):
                live |= {id(one) for one in tensors([step.arguments, *step.options.values()])}
                found.append(step)
        for step in found:
            if self._one_of_a_stack(step):
                raise NotAlike(self.why or f"an expert is used by itself ({step.place})")
        return found[::-1]

    def _one_of_a_stack(self, step: Step) -> bool:
        return step.operation == "select" and id(step.arguments[0]) in self.stacks

    # --- joins -----------------------------------------------------------------------------------

    def _join(self, step: Step, count: int) -> list[Step] | None:
        """The steps of all experts together, up to the tensor in which they are joined; None where
        they are not joined, or not alike."""
        self.count, self.known = count, {}
        self.recorder.steps, self.recorder.like = [], step
        try:
            with torch.no_grad(), self.recorder:
                found = (self._stacked if step.operation in ("stack", "cat") else self._sum)(step)
        except NotAlike as error:
            self.why = at_line(str(error), step.place)
            return None
        old = step.results[0]
        if found.shape != old.shape or not torch.allclose(found, old, CLOSE, CLOSE):
            self.why = f"experts together have another value than one by one ({step.place})"
            return None
        return [*self.recorder.steps, Step("clone", (found,), {}, (old,), None, False, step.place)]

    def _stacked(self, step: Step) -> torch.Tensor:
        every, dim = step.arguments[0], (*step.arguments[1:], 0)[0]
        values = self._values(every)
        if len(values) > 1 or values[0].rows is not None:
            raise NotAlike(f"rows that experts chose are joined ({step.place})")
        tensor = values[0].tensor
        if not values[0].each:
            tensor = tensor.expand(self.count, *tensor.shape)
        stack = step.operation == "stack"
        dim = dim % (every[0].dim() + stack)
        tensor = tensor.movedim(0, dim)
        return tensor if stack else tensor.flatten(dim, dim + 1)

    def _in_order(self, every) -> list[tuple]:
        """Tuples of one of each expert, in the order of the experts."""
        found: dict = {}
        for one in every:
            of = self.of.get(id(one), frozenset())
            if len(of) != 1:
                raise NotAlike("something is joined that is of no one expert")
            ((_, e),) = of
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

    def _sum(self, step: Step) -> torch.Tensor:
        rest, terms, rows = [], [], []
        self._flatten(step.results[0], rest, terms, rows)
        if terms and rows:
            raise NotAlike(f"experts are added in two ways ({step.place})")
        if rows:
            total = self._of_rows(rows)
        else:
            try:
                values = self._values(terms)
            except NotAlike:            # the first one was added to something
                first = self.made[id(terms[0])][0]
                if first.operation != "add" or len(first.arguments) != 2:
                    raise
                for one in first.arguments:
                    if isinstance(one, torch.Tensor):
                        (terms if self.of.get(id(one)) else rest).append(one)
                values = self._values(terms[1:])
            if not all(one.each for one in values):
                raise NotAlike(f"what is added is the same for all experts ({step.place})")
            total = sum(one.tensor.sum(0) for one in values)
        for one in rest:
            total = total + one
        return total

    def _flatten(self, tensor, rest, terms, rows) -> None:
        """What a sum over experts is made of: what no expert has, one of each expert, and what is
        added to rows."""
        of = self.of.get(id(tensor), frozenset())
        if not of:
            rest.append(tensor)
            return
        step, _ = self.made[id(tensor)]
        arguments = step.arguments
        if step.operation == "index_add" and arguments[1] == 0 and len(arguments) == 4:
            self._flatten(arguments[0], rest, terms, rows)
            rows.append((arguments[2], arguments[3]))
        elif step.operation == "index_put" and (added := self._added(*arguments)) is not None:
            self._flatten(arguments[0], rest, terms, rows)
            rows.append((arguments[1][0], added))
        elif len(of) == 1:
            terms.append(tensor)
        elif step.operation == "add" and not step.options:
            for one in arguments:
                if isinstance(one, torch.Tensor):
                    self._flatten(one, rest, terms, rows)
                elif one:
                    raise NotAlike(f"a number is added between experts ({step.place})")
        else:
            raise NotAlike(f"{step.operation} of what some experts have made ({step.place})")

    def _added(self, to, at, value, accumulate=False):
        """What is added to rows of a tensor: what is put there, if nothing is there yet, as the
        value of the sum shows."""
        if len(at) != 1:
            return None
        step, _ = self.made.get(id(value), (None, 0))
        if accumulate or step is None or step.operation != "add" or step.options:
            return value
        for one, other in (step.arguments[:2], step.arguments[1::-1]):
            made, _ = self.made.get(id(one), (None, 0))
            if made is not None and made.operation == "index" and made.arguments[0] is to \
                    and len(made.arguments[1]) == 1 and made.arguments[1][0] is at[0]:
                return other
        return value

    def _of_rows(self, rows) -> torch.Tensor:
        where, total = {id(one): at for at, one in rows}, 0
        for every in self._in_order([one for _, one in rows]):
            at, value = self.value(tuple(where[id(one)] for one in every)), self.value(every)
            if not isinstance(value, Value) or value.rows != 0:
                raise NotAlike("rows are added that are not the rows an expert was given")
            mask = self.mask(at)
            if mask is not value.mask:
                raise NotAlike("rows are added to others than an expert was given")
            wide = mask.tensor.reshape(*mask.tensor.shape,
                                       *[1] * (value.tensor.dim() - value.each - 1))
            total = total + (wide * value.tensor).sum(0)
        return total


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
