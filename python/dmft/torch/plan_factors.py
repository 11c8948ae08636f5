"""Factors of the forward pass that go with the width, moved into the matrices beneath them.

A module divides a sum over experts by M, or attention logits by the root of d, where a network of
this program has means. Such a factor is the same as a factor of the matrices whose products it
multiplies, if nothing else is made of these, and then it is a matter of their initial scale and
rate: of U = F W, W is what the module has. Where a factor cannot be moved (a softmax of it, a
packed matrix of which it reaches a part), the module has to be changed, and `Left` says where.
"""
from __future__ import annotations

import dataclasses

from dmft.torch.importing.laws import power_of
from dmft.torch.importing.writing import ordered

ONE = (1.0, 1.0)
# Operations that hand a factor on to the argument of this number, and those that have it from any
# one of theirs.
THROUGH = {"times": 0, "pick": 0, "sum": 0, "mix": 1, "mix_places": 0, "pool": 0, "stop": 0,
           "mean_of_rows": 0}
PRODUCTS = ("multiply", "average", "attend")
MATRICES = ("map", "look", "read_in", "vector", "parameter")


@dataclasses.dataclass(frozen=True)
class Left:
    """A factor that stays, at both widths, and the line of the module that has it."""
    place: str
    values: tuple[float, float]


def _times(a, b):
    return a[0] * b[0], a[1] * b[1]


def _same(a, b) -> bool:
    return all(abs(x - y) <= 1e-9 * abs(y) for x, y in zip(a, b))


def leaves_of(one) -> tuple:
    """The parts of parameters of an expression that is a product with a matrix."""
    if one.operation == "map":
        return (one.data[0],)
    if one.operation == "vector":
        return (one.data[0],)
    return one.data[1] if one.operation == "read_in" else one.data[0]


def growing_places(roots, widths) -> set[str]:
    """Lines of the module with a factor that goes with the width."""
    laws = [(one.place, power_of(one.data, widths)) for one in ordered(roots)
            if one.operation == "times"]
    return {place for place, law in laws if law is None or law[1] != 0}


class Factors:
    """`of`: {key of a leaf: F at both widths}, where it is not 1; `left`: what could not be
    moved. places: the lines whose factors are meant; marks: {id of an expression: a factor that it
    is to have beside them}."""

    def __init__(self, roots, widths, places, marks=None):
        self._marks = marks or {}
        self._roots, self._widths, self._blocked = roots, widths, set()
        self._places = places
        self._absorbs: dict[int, bool] = {}
        self._users: dict[int, list] = {}
        for one in ordered(roots):
            for argument in one.arguments:
                self._users.setdefault(id(argument), []).append(one)
        while True:
            self.of, self.left, self._wanted = {}, [], {}
            self._absorbs.clear()
            self._move()
            torn = self._torn() - self._blocked
            if not torn:
                break
            self._blocked |= torn
        self.of = {key: value for key, value in self.of.items() if not _same(value, ONE)}

    def _torn(self) -> set:
        """Parameters of which a factor reaches a part alone: an optimizer has one rate for all."""
        found: dict = {}
        for (name, _), value in self.of.items():
            found.setdefault(name, []).append(value)
        return {name for name, values in found.items()
                if not all(_same(value, values[0]) for value in values)}

    # --- from the output down --------------------------------------------------------------------

    def _move(self) -> None:
        for one in reversed(ordered(self._roots)):
            asked = self._wanted.get(id(one), [(ONE, one.place)])
            value, place = asked[0]
            if not all(_same(value, other) for other, _ in asked):
                self._leave(asked)
                value = ONE
            self._hand_on(one, value, place)

    def _leave(self, asked) -> None:
        for value, place in asked:
            law = power_of(value, self._widths)
            if law is None or law[1] != 0:
                self.left.append(Left(place, value))

    def _ask(self, one, value, place) -> None:
        self._wanted.setdefault(id(one), []).append((value, place))

    def _hand_on(self, one, value, place) -> None:
        """What is asked of an expression is asked of its arguments."""
        if id(one) in self._marks:
            value, place = _times(value, self._marks[id(one)]), one.place
        if one.operation == "times":
            if one.place in self._places and not self._upward(one):
                place = one.place if _same(value, ONE) else place
                value = _times(value, [abs(x) for x in one.data])
            if not self._can(one.arguments[0]):
                self._leave([(value, place)])
                value = ONE
            self._ask(one.arguments[0], value, place)
        elif one.operation in MATRICES:
            self._take(one, value, place)
        elif _same(value, ONE) or not self._can(one):
            if not _same(value, ONE):
                self._leave([(value, place)])
            for argument in one.arguments:
                self._ask(argument, ONE, place)
        elif one.operation in PRODUCTS and len(one.arguments) == 2:
            able = [k for k, argument in enumerate(one.arguments) if self._can(argument)]
            halves = one.operation == "attend" and len(able) == 2
            if halves or one.arguments[0] is one.arguments[1]:
                value, able = tuple(abs(x) ** 0.5 for x in value), [0, 1]
            else:
                able = able[:1]
            for k, argument in enumerate(one.arguments):
                self._ask(argument, value if k in able else ONE, place)
        else:
            through = THROUGH.get(one.operation)
            for k, argument in enumerate(one.arguments):
                self._ask(argument, value if through in (None, k) else ONE, place)

    def _upward(self, one) -> bool:
        """Whether a factor, which nothing beneath can have, is one of the matrices that use what it
        multiplies."""
        return one.operation == "times" and one.place in self._places \
            and not self._can(one.arguments[0]) and id(one) in self._users and all(
                user.operation in ("map", "look") and self._can(user)
                for user in self._users[id(one)])

    def _take(self, one, value, place) -> None:
        for argument in one.arguments:
            if self._upward(argument):
                value, place = _times(value, [abs(x) for x in argument.data]), argument.place
        for leaf in leaves_of(one):
            before = self.of.setdefault(leaf.key(), value)
            if not _same(before, value):
                self._leave([(_times(value, (1 / before[0], 1 / before[1])), place)])
        for argument in one.arguments:
            self._ask(argument, ONE, one.place)

    def _can(self, one) -> bool:
        """Whether a factor of an expression is one of matrices beneath it."""
        if id(one) not in self._absorbs:
            self._absorbs[id(one)] = self._found(one)
        return self._absorbs[id(one)]

    def _found(self, one) -> bool:
        if one.operation in MATRICES:
            return not any(leaf.parameter in self._blocked for leaf in leaves_of(one))
        if one.operation in THROUGH:
            return self._can(one.arguments[THROUGH[one.operation]])
        if one.operation == "add" or one.operation == "function" and one.data[0] == "relu":
            return all(self._can(argument) for argument in one.arguments)
        if one.operation in PRODUCTS:
            return any(self._can(argument) for argument in one.arguments)
        return False
