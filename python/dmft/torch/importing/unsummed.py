"""What each of a growing number of experts makes by a matrix of its own, before their sum.

A program has no rows over experts and the width at once, which this would be, but a map from the
experts to the width, and this is its sum: sum_e g_e W_e x_e is the map of g x. So such products are
kept as they are (operation `unsummed`), what multiplies an expert goes into its x, and the sum over
experts is the map. Whatever else is made of them is refused where the program is written.
"""
from __future__ import annotations

from dmft.torch.importing.expressions import ALIKE, Expression, Gap, Leaf, Pairs
from dmft.torch.importing.graph import ordered

def product(builder, x: Expression, leaf: Leaf, expert: int, to: tuple) -> Expression:
    """The products of rows x over experts, or over their units, and the leaf's matrix of each
    expert, to the sites of its axes `to`."""
    if not x.is_rows or len(to) != 1:
        raise Gap("a matrix of its own for each of a growing number of experts, applied to what is "
                  "the same for all of them")
    source = (expert, *(axis for axis in leaf.populations if axis not in (expert, *to)))
    x.population.meet(builder.sites(leaf, source))
    return builder.make("unsummed", (x,), (leaf, to, source), builder.sites(leaf, (expert, *to)),
                        x.axes)


def is_unsummed(one) -> bool:
    """Whether an expression is such products, or a sum of them."""
    if one.population is None or not isinstance(one.population.find(), Pairs):
        return False                    # a stream of many blocks is not gone through
    if one.operation in ("add", "times"):
        return any(is_unsummed(part) for part in one.arguments)
    return one.operation == "unsummed"


def holds(one) -> bool:
    """Whether it is a function of such products."""
    return any(part.operation == "unsummed" for part in ordered([one]))


def multiplied(builder, one: Expression, other: Expression) -> Expression:
    """Times numbers, or rows over the experts."""
    if one.operation == "times":
        return builder.times(one.data, multiplied(builder, one.arguments[0], other))
    if one.operation == "add":
        return builder.add(*(multiplied(builder, part, other) for part in one.arguments))
    if one.operation == "vector" and other.is_rows:     # a bias of each expert
        _meet(one.population, other.population)
        (leaf,) = one.data
        expert, to = sorted(leaf.populations)
        return builder.make("unsummed", (other,), (leaf, (to,), (expert,)), one.population,
                            other.axes)
    if one.operation != "unsummed":
        raise Gap("what experts make is multiplied beside something else before it is summed over "
                  "them")
    if other.is_rows:
        _meet(one.population, other.population)
    leaf, to, source = one.data
    x = builder.multiply(one.arguments[0], other)
    return builder.make("unsummed", (x,), (leaf, to, source), one.population, x.axes)


def summed(builder, one: Expression, sizes) -> Expression:
    """The sum over the experts, of which there are so many."""
    if one.operation in ("add", "times"):
        parts = [summed(builder, part, sizes) for part in one.arguments]
        return builder.add(*parts) if one.operation == "add" else builder.times(one.data, parts[0])
    if one.operation != "unsummed":
        raise Gap("what experts make is added to something else before it is summed over them")
    outer, inner = one.population.outer.find(), one.population.inner.find()
    if outer.sizes == inner.sizes:
        raise Gap(ALIKE)
    if tuple(sizes) != outer.sizes:
        raise Gap("a sum over the width of what each of a growing number of experts makes")
    return builder.map(one.arguments[0], *one.data)


def _meet(pairs: Pairs, other) -> None:
    outer, inner = pairs.outer.find(), pairs.inner.find()
    if isinstance(other, Pairs) or other.find() is inner or other.find().sizes != outer.sizes:
        raise Gap("what experts make is multiplied by what differs over the width before it is "
                  "summed over them")
    if outer.sizes == inner.sizes and other.find() is not outer:
        raise Gap(ALIKE)
    outer.meet(other)
