"""Rows that are sorted by the expert that they are sent to, and one product for all experts.

What a slot holds is read as one expression for each expert (`selections`), whatever the order of
the slots; sorting them and bringing them back to their order therefore changes nothing here.
"""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.axes import cells_shape
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.products import contract
from dmft.torch.importing.reading import HANDLERS, pair
from dmft.torch.importing.tensors import Constant, Missing, Tensor, array

SLOTS = ("slot", "site slot")           # of few experts, and of a number that grows


def sorted_slots(read, x: Tensor) -> list[Tensor]:
    """Slots sorted by their experts, and the order."""
    order = read.builder.make("order", data=(tuple(x.axes), True))
    return [x, Tensor(x.dims, np.full(x.cells.shape, order, object))]


@HANDLERS("floor_divide")
def rows_of(read, x, count):
    (axes, slots) = _order(x)
    slot = axes[-1]
    if not slots or slot.kind not in SLOTS or slot.size != pair(count):
        raise Gap("places of rows that are divided")
    order = read.builder.make("order", data=(axes, False))
    return Tensor(x.dims, np.full(x.cells.shape, order, object))


def _order(x):
    one = x.cells.flat[0] if isinstance(x, Tensor) else None
    if one is None or one.operation != "order":
        raise Gap("other than an order of rows is used as one")
    return one.data


def is_order(one) -> bool:
    """Whether an index is an order of slots, or the rows of slots in such an order."""
    return isinstance(one, Tensor) and not one.is_parameter \
        and one.cells.flat[0].operation == "order"


def in_order(read, x: Tensor, index: Tensor) -> Tensor:
    """Slots in another order, or the rows that they are of."""
    axes, slots = _order(index)
    if slots:
        if tuple(x.dims[0]) != axes:
            raise Gap("other than slots are sorted by their experts")
        return x
    if tuple(x.dims[0]) != axes[:-1]:
        raise Gap("other rows are sorted by their experts than have chosen them")
    shape = x.cells.shape
    if axes[-1].cells is None:
        return Tensor([axes, *x.dims[1:]], x.cells)
    cells = np.broadcast_to(x.cells, (axes[-1].cells, *shape))
    return Tensor([axes, *x.dims[1:]], array(list(cells.reshape(-1)), cells.shape))


def by_expert(x: Tensor, index: Tensor) -> Tensor:
    """What each expert has in a list of one entry for each, at every slot."""
    slot = next(axis for axis in index.axes if axis.kind == "slot")
    if not x.dims[0] or x.dims[0][0].kind != "finite" or x.dims[0][0].cells != slot.cells \
            or index.cells.ndim != 1:
        raise Gap("entries of other than a list of experts are taken")
    dims = [*index.dims, *x.dims[1:]]
    return Tensor(dims, x.cells.reshape(cells_shape(dims)))


@HANDLERS("_grouped_mm", "grouped_mm")
def grouped(read, x, weight, *_, **__):
    if isinstance(x, Missing):
        return x
    if isinstance(x, Constant) or not isinstance(weight, Tensor):
        raise Gap("a grouped product with constants")
    rows = x.dims[0]
    if rows[-1].kind == "site slot":
        return _growing(read, x, weight)
    slots = [axis for axis in rows if axis.kind == "slot"]
    if len(slots) != 1 or rows[-1].kind != "slot" or len(weight.dims) != 3 \
            or [axis.cells for axis in weight.dims[0]] != [slots[0].cells]:
        raise Gap("a grouped product of other than slots with the matrices of their experts")
    parts = [contract(read, Tensor([rows[:-1], x.dims[1]], _cell(x.cells[k])),
                      Tensor(weight.dims[1:], _cell(weight.cells[k])), 0)
             for k in range(slots[0].cells)]
    dims = [rows, *parts[0].dims[1:]]
    return Tensor(dims, array([cell for part in parts for cell in part.cells.flat],
                              cells_shape(dims)))


def _growing(read, x: Tensor, weight: Tensor) -> Tensor:
    """The product where the number of experts grows."""
    *rows, slot = x.dims[0]
    experts = weight.dims[0]
    if [axis.kind for axis in experts] != ["sites"] or len(weight.dims) != 3 \
            or experts[0].size != slot.about.mask.population.find().sizes:
        raise Gap("a grouped product of other than slots with the matrices of their experts")
    found = contract(read, Tensor([(), tuple(rows), x.dims[1]], x.cells), weight, 1)
    return Tensor([x.dims[0], found.dims[2]], found.cells)


def _cell(cells) -> np.ndarray:
    return cells if isinstance(cells, np.ndarray) else array([cells], ())
