"""What a record computes with each expert of a list, computed for all of them at once.

Tensors, one of each expert, are followed back to what they share, to the tensors that their
parameters are entries of, and to entries of one tensor, such as gates, one for each of them. The
operations are run for all together, and recorded once. Rows that an expert is given alone become
all rows, and a mask.
"""
from __future__ import annotations

import dataclasses

import torch

from dmft.torch.importing.record import Record, Recorder, Step

VIEWS = ("view", "_unsafe_view", "reshape", "expand")
# Operations that take an entry of a tensor: (axis, which entry) of their k-th result, and whether
# the axis stays, with one entry; -1 is none of single ones.
ENTRIES = {"select": (lambda k, dim, e: (dim, e), False),
           "slice": (lambda k, dim=0, low=0, high=-1, *step: (dim, low if high == low + 1 else -1),
                     True),
           "unbind": (lambda k, dim=0: (dim, k), False),
           "split": (lambda k, size, dim=0: (dim, k if size == 1 else -1), True)}


class NotAlike(Exception):
    """Experts that do not do the same."""


@dataclasses.dataclass
class Value:
    """What all experts have: `tensor`, whose first axis is that of experts if `each`. rows: the
    axis of rows that were chosen, which is that of all rows here, and mask: of these."""
    tensor: torch.Tensor
    each: bool
    rows: int | None = None
    mask: Value | None = None


@dataclasses.dataclass
class Hit:
    """Whether the index [.., slot] is the expert, with axes in this order, times weights."""
    index: torch.Tensor
    order: tuple
    weights: torch.Tensor | None = None

    @property
    def slot(self) -> int:
        return self.order.index(self.index.dim() - 1)


@dataclasses.dataclass
class Places:
    """Where a mask is not 0; of an axis, if one of its columns."""
    mask: object
    axis: int | None = None


class Together:
    """All experts at once, of which there are `count`. made: {tensor: (its step, which result)}."""

    def __init__(self, record: Record):
        self.record, self.recorder = record, Recorder()
        self.recorder.unknown.update(id(one) for one in record.parameters.values())
        self.recorder.unknown.add(id(record.input))
        self.recorder.unknown.update(id(one) for step in record.steps if step.known is None
                                     for one in step.results)
        self.made: dict[int, tuple[Step, int]] = {}
        self.count, self.known = 0, {}
        self.hits: dict[int, Hit] = {}  # of masks, by their ids

    def value(self, every: tuple):
        """What all experts have where each has one of these tensors."""
        key = tuple(map(id, every))
        if key not in self.known:
            self.known[key] = self._found(every)
        return self.known[key]

    def _found(self, every: tuple):
        if all(one is every[0] for one in every):
            return Value(every[0], False)
        made = [self.made.get(id(one)) for one in every]
        if None in made or len({(step.operation, step.stopped) for step, _ in made}) > 1:
            raise NotAlike("experts are not computed alike"
                           + next((f" ({one[0].place})" for one in made if one), ""))
        steps = [step for step, _ in made]
        if steps[0].operation.endswith("_"):
            raise NotAlike(f"{steps[0].operation} writes into what experts have ({steps[0].place})")
        entries = self._entries(steps, [k for _, k in made])
        if entries is not None:
            return entries
        try:
            if len({k for _, k in made}) > 1 \
                    or any(one.options != steps[0].options for one in steps):
                raise NotAlike(f"{steps[0].operation} is not the same for all experts "
                               f"({steps[0].place})")
            arguments = self._arguments([step.arguments for step in steps],
                                        steps[0].operation in VIEWS)
            self.recorder.like, before = steps[0], self.recorder.like
            found = self._applied(steps[0], arguments, made[0][1])
            self.recorder.like = before
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise NotAlike(f"{steps[0].operation} is not known of all experts together "
                           f"({steps[0].place})") from error
        return found

    def _entries(self, steps, ks):
        """Entries of one tensor, the e-th one for expert e."""
        first, experts = steps[0], list(range(self.count))
        if first.operation != "eq" and first.operation not in ENTRIES:
            return None
        source = first.arguments[0]
        if any(step.arguments[0] is not source for step in steps):
            return None
        if first.operation == "eq":
            if source.is_floating_point() or [step.arguments[1] for step in steps] != experts:
                return None
            return self._mask_of(Hit(self._with_slot(source), (0, 1))) if source.dim() == 1 \
                else Hit(source, tuple(range(source.dim())))
        find, keeps = ENTRIES[first.operation]
        at = [find(k, *step.arguments[1:]) for step, k in zip(steps, ks)]
        dim = at[0][0] % source.dim()
        if any(one[0] != at[0][0] for one in at) or source.shape[dim] != self.count \
                or [one[1] % self.count for one in at] != experts:
            return None
        if first.operation == "select" and (hit := self._chosen(source, dim)):
            return hit
        tensor = source.movedim(dim, 0) if dim else source
        return Value(tensor.unsqueeze(dim + 1) if keeps else tensor, True)

    def _with_slot(self, index: torch.Tensor) -> torch.Tensor:
        """The index [.., slot] of one that had no other slot."""
        step, _ = self.made.get(id(index), (None, 0))
        while step is not None and isinstance(step.arguments[0], torch.Tensor) \
                and step.arguments[0].numel() == index.numel():
            if step.arguments[0].shape == (*index.shape, 1):
                return step.arguments[0]
            step, _ = self.made.get(id(step.arguments[0]), (None, 0))
        return index.unsqueeze(-1)

    def _chosen(self, source, dim):
        """Of the one_hot of an index, [.., slot, expert] in any order; None of another tensor."""
        order = list(range(source.dim()))
        step, _ = self.made.get(id(source), (None, 0))
        while step is not None and step.operation in ("permute", "_to_copy"):
            if step.operation == "permute":
                order = [step.arguments[1][one] % len(order) for one in order]
            step, _ = self.made.get(id(step.arguments[0]), (None, 0))
        if step is None or step.operation.rstrip("_") != "scatter" or len(order) < 3 \
                or step.arguments[3] != 1 or order[dim] != len(order) - 1:
            return None
        made, _ = self.made.get(id(step.arguments[2]), (None, 0))
        if made is None or made.operation != "unsqueeze":
            return None
        del order[dim]
        return Hit(made.arguments[0], tuple(order))

    def _scattered(self, hit: Hit, weights=None) -> Value:
        """The sum over slots of a hit times weights."""
        like = hit.weights if weights is None else weights
        shape = (*hit.index.shape[:-1], self.count)
        dtype = self.record.output.dtype if like is None else like.dtype
        zeros = torch.zeros(shape, dtype=dtype)
        found = zeros.scatter(-1, hit.index, 1.0 if like is None else like)
        return Value(found.movedim(-1, 0), True)

    def _mask_of(self, hit: Hit) -> Value:
        key = "mask", id(hit.index)
        if key not in self.known:
            found = self._scattered(dataclasses.replace(hit, weights=None))
            self.known[key], self.hits[id(found)] = found, hit
        return self.known[key]

    def mask(self, at) -> Value:
        """The mask of rows; at: places of rows, or the mask itself."""
        mask = at.mask if isinstance(at, Places) else at
        if isinstance(mask, Hit):
            if isinstance(at, Places) and at.axis == mask.slot:
                raise NotAlike("slots of experts are used as rows")
            return self._mask_of(mask)
        if not isinstance(mask, Value) or not mask.each or mask.tensor.dim() != 2 \
                or isinstance(at, Places) and at.axis != 0:
            raise NotAlike("rows are chosen in a way that is not known of experts in a list")
        return mask

    def _arguments(self, every, views: bool):
        """Arguments of all experts; sizes of views may be others, of rows that were chosen."""
        first = every[0]
        if isinstance(first, torch.Tensor):
            return self.value(tuple(every))
        if isinstance(first, (list, tuple)):
            if len({len(one) for one in every}) > 1:
                raise NotAlike("experts are not computed alike")
            return [self._arguments(one, views) for one in zip(*every)]
        if any(one != first for one in every) and not views:
            raise NotAlike("numbers go with the number of an expert")
        return first

    def _applied(self, step: Step, arguments, k: int):
        name, first = step.operation, arguments[0]
        if isinstance(first, Hit):
            return self._of_hit(name, arguments)
        if name == "mul" and isinstance(arguments[1], Hit):
            return self._of_hit(name, arguments[::-1])
        if name == "nonzero":
            return Places(first)
        if isinstance(first, Places):
            return self._column(name, first, arguments, k)
        if name == "index":
            return self._indexed(*arguments)
        return self._run(step, arguments, k)

    def _of_hit(self, name: str, arguments):
        hit, *more = arguments
        if name in ("_to_copy", "clone"):
            return hit
        if name == "mul" and isinstance(more[0], Value) and not more[0].each \
                and more[0].tensor.shape == hit.index.shape and hit.weights is None \
                and hit.order == tuple(range(len(hit.order))):
            return dataclasses.replace(hit, weights=more[0].tensor)
        if name == "nonzero" and hit.weights is None:
            return Places(hit)
        if name in ("sum", "any") and hit.index.dim() == 2:
            dims = more[0] if isinstance(more[0], list) else [more[0]]
            if [one % 2 for one in dims] == [hit.slot]:
                found = self._mask_of(hit) if hit.weights is None else self._scattered(hit)
                keep = len(more) > 1 and more[1]
                return found if not keep else Value(found.tensor.unsqueeze(1 + hit.slot), True)
        raise NotAlike(f"{name} of whether an expert was chosen")

    @staticmethod
    def _column(name: str, places: Places, arguments, k: int) -> Places:
        """Places along one axis."""
        if places.axis is None:
            if name == "unbind" and arguments[1:] in ([1], [-1]):
                return Places(places.mask, k)
            if name == "select" and arguments[1] in (1, -1):
                return Places(places.mask, arguments[2])
            if name in ("squeeze", "view", "reshape", "flatten"):
                return Places(places.mask, 0)
        elif name in ("clone", "alias"):
            return places
        raise NotAlike(f"{name} of which rows chose an expert")

    def _indexed(self, x, at) -> Value:
        """Rows that chose an expert, or weights of theirs."""
        dims = [d for d, one in enumerate(at) if one is not None]
        columns = [at[d] for d in dims]
        if not isinstance(x, Value) or x.rows is not None:
            raise NotAlike("rows are chosen of rows that chose an expert")
        if len(columns) == 1:
            mask = self.mask(columns[0])
            of = self.hits.get(id(mask))    # weights of a single slot have an axis for it
            if of is not None and not x.each and x.tensor.shape == of.index.shape \
                    and x.tensor.shape[-1] == 1 and x.tensor.is_floating_point():
                x = Value(self._scattered(of, x.tensor).tensor.unsqueeze(-1), True)
            return Value(x.tensor, x.each, dims[0], mask)
        hit = columns[0].mask if isinstance(columns[0], Places) else None
        if not isinstance(hit, Hit) or x.each or hit.index.dim() != 2 or dims != [0, 1] \
                or any(not isinstance(one, Places) or one.mask is not hit for one in columns):
            raise NotAlike("entries are taken in a way that is not known of experts in a list")
        axes = [hit.order[one.axis] for one in columns]
        weights, rest = x.tensor, x.tensor.shape[2:]
        if sorted(axes) != [0, 1] or any(one != 1 for one in rest):
            raise NotAlike("entries are taken in a way that is not known of experts in a list")
        if axes == [1, 0]:
            weights = weights.movedim(0, 1)
        found = self._scattered(hit, weights.reshape(weights.shape[:2]) if rest else weights)
        for _ in rest:
            found = Value(found.tensor.unsqueeze(-1), True)
        return Value(found.tensor, True, 0, self._mask_of(hit))

    def _run(self, step: Step, arguments, k: int) -> Value:
        """The operation itself, on what all experts have."""
        values: list[Value] = []

        def emptied(one):
            if isinstance(one, list):
                return [emptied(each) for each in one]
            if isinstance(one, (Hit, Places)):
                raise NotAlike(f"{step.operation} of which rows chose an expert ({step.place})")
            if isinstance(one, Value):
                values.append(one)
                return None, len(values) - 1
            return one
        empty = emptied(arguments)
        masks = [one.mask for one in values if one.rows is not None]
        if any(one is not masks[0] for one in masks):
            raise NotAlike(f"rows of two experts are used together ({step.place})")
        if masks and step.operation in VIEWS:
            empty[1] = self._viewed(step, values[0])

        def filled(one, tensors):
            if isinstance(one, list):
                return [filled(each, tensors) for each in one]
            return tensors[one[1]] if isinstance(one, tuple) else one

        def function(*tensors):
            found = getattr(torch.ops.aten, step.operation)(*filled(empty, tensors), **step.options)
            return found[k] if isinstance(found, (list, tuple)) else found
        tensors = [one.tensor for one in values]
        each = any(one.each for one in values)
        found = torch.func.vmap(function, tuple(0 if one.each else None for one in values))(
            *tensors) if each else function(*tensors)
        if not masks:
            return Value(found, each)
        shapes = found.shape[int(each):], step.results[k].shape
        if len(shapes[0]) != len(shapes[1]):
            raise NotAlike(f"{step.operation} of rows that chose an expert ({step.place})")
        other = [d for d, (a, b) in enumerate(zip(*shapes)) if a != b]
        before = next(one.rows for one in values if one.rows is not None)
        if len(other) > 1:
            raise NotAlike(f"{step.operation} of rows that chose an expert ({step.place})")
        return Value(found, each, other[0] if other else before, masks[0])

    @staticmethod
    def _viewed(step: Step, x: Value) -> list[int]:
        """The shape of a view with all rows in place of those that were chosen."""
        shape, old = list(step.results[0].shape), step.arguments[0].shape
        mine = x.tensor.shape[int(x.each):]
        before = old[:x.rows].numel()
        for d in range(len(shape)):
            if torch.Size(shape[:d]).numel() == before and shape[d] == old[x.rows]:
                shape[d] = mine[x.rows]
                return shape
        raise NotAlike(f"rows that chose an expert are put into another shape ({step.place})")
