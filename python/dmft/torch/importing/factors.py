"""Factors of the forward pass that go with the width, moved into the matrices beneath them.

A module divides a sum over experts by M, or attention logits by the root of d, where a network of
this program has means. Such a factor is the same as a factor of the matrices whose products it
multiplies, if nothing else is made of these, and then it is a matter of their initial scale and
rate: of U = F W, W is what the module has. Where a factor cannot be moved (a softmax of it, a
packed matrix of which it reaches a part, a gain that starts at 1), the module has to be changed,
and `Left` says where.
"""
from __future__ import annotations

import dataclasses

from dmft.torch.importing.laws import power_of
from dmft.torch.importing.graph import learning, ordered

ONE = (1.0, 1.0)
# Operations that hand a factor on to the argument of this number, and those that have it from any
# one of theirs.
THROUGH = {"times": 0, "pick": 0, "sum": 0, "mix": 1, "mix_places": 0, "pool": 0, "stop": 0,
           "mean_of_rows": 0, "tile": 0, "expand": 0, "tile_mean": 0, "group_mean": 0}
PRODUCTS = ("multiply", "average", "attend")
# Said behind the line of a factor.
LOGITS = " (the logits of attention)"
MATRICES = ("map", "look", "read_in", "vector", "parameter")


@dataclasses.dataclass(frozen=True)
class Left:
    """A factor that stays, at both widths, and the line of the module that has it."""
    place: str
    values: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Asked:
    """A factor that an expression is to have, and of which it is made (ids of expressions)."""
    value: tuple[float, float] = ONE
    made_of: frozenset = frozenset()

    def times(self, value, source) -> "Asked":
        """Returns what is asked for with another factor."""
        return Asked((self.value[0] * abs(value[0]), self.value[1] * abs(value[1])),
                     self.made_of | {source})

    @property
    def is_one(self) -> bool:
        """Whether nothing is asked."""
        return _same(self.value, ONE)


def _same(a, b) -> bool:
    return all(abs(x - y) <= 1e-9 * abs(y) for x, y in zip(a, b))


def _of_relu(one) -> bool:
    """Whether it is what a ReLU gives, but for constants and means."""
    while one.operation in THROUGH:
        one = one.arguments[THROUGH[one.operation]]
    return one.operation == "function" and one.data[0] == "relu"


def leaves_of(one) -> tuple:
    """The parts of parameters of an expression that is a product with a matrix."""
    if one.operation in ("map", "vector"):
        return (one.data[0],)
    return one.data[1] if one.operation == "read_in" else one.data[0]


def moving(roots) -> set[tuple]:
    """Keys of the leaves that a gradient reaches."""
    reached = learning(roots, ("top", "top_rows", "stop"))
    return {leaf.key() for one in ordered(roots) if id(one) in reached
            and one.operation in MATRICES for leaf in leaves_of(one)}


def is_still(leaves, moved: set[tuple]) -> bool | str:
    """Part.still: PyTorch's weight decay is of all parts of a parameter that has a gradient."""
    if any(leaf.key() in moved for leaf in leaves):
        return False
    moved = {name for name, _ in moved}
    return "decays" if any(leaf.parameter in moved for leaf in leaves) else True


def growing_places(roots, widths) -> set[str]:
    """Lines of the module with a factor that goes with the width."""
    laws = [(one.place, power_of(one.data, widths)) for one in ordered(roots)
            if one.operation == "times"]
    return {place for place, law in laws if law is None or law[1] != 0}


class Factors:
    """`of`: {key of a leaf: F at both widths}, where it is not 1; `moved`: ids of the expressions
    whose factors these are; `left`: what could not be moved. places: the lines whose factors are
    meant; marks: {id of an expression: a factor that it is to have beside them}; fixed: parameters
    that have none."""

    def __init__(self, roots, widths, places, marks=None, fixed=()):
        self._roots, self._places, self._marks = roots, places, marks or {}
        self._widths = widths
        self._blocked, self._kept, self._up = set(fixed), set(), set()
        self._users: dict[int, list] = {}
        for one in ordered(roots):
            for argument in one.arguments:
                self._users.setdefault(id(argument), []).append(one)
        while True:
            self._failed, self._absorbs, self._wanted = set(), {}, {}
            self.of: dict = {}
            self.moved: set[int] = set()
            for one in reversed(ordered(roots)):
                self._hand_on(one)
            torn = self._torn() - self._blocked
            if not torn and not self._failed:
                break
            self._blocked |= torn
            more = set() if torn else self._may_go_up()
            self._up |= more
            self._kept |= set() if torn or more else self._failed
        self.of = {key: asked.value for key, asked in self.of.items() if not asked.is_one}
        self.left = list(dict.fromkeys(left for left in self._all_left() if self._grows(
            left.values, widths)))

    def odd(self, otherwise: Left) -> Left:
        """A factor that is no power of the width, of those that were moved."""
        return next((Left(one.place, one.data) for one in ordered(self._roots)
                     if one.operation == "times" and power_of(one.data, self._widths) is None),
                    otherwise)

    def with_sums(self, sums) -> list[Left]:
        """`left`, and sums over sites that an embedding has in the place of means, each together
        with a factor in front of it."""
        found = list(self.left)
        for look, k in sums:
            over = [one for one in ordered(self._roots) if one.operation == "times"
                    and one.arguments[0] is look]
            place, values = look.place, k
            for one in over[:1]:
                values = tuple(abs(a * b) for a, b in zip(one.data, k))
                place = one.place
                found = [left for left in found if left != Left(place, tuple(map(abs, one.data)))]
            if self._grows(values, self._widths):
                found.append(Left(place, values))
        return found

    def _all_left(self):
        for one in ordered(self._roots):
            place = one.place + LOGITS * self._is_attended(one)
            if id(one) in self._kept:
                yield Left(place, tuple(map(abs, one.data)))
            if -id(one) in self._kept:
                yield Left(place, self._marks[id(one)])

    def _is_attended(self, one) -> bool:
        """Whether it is the logits of attention, also behind a mask, or what these are a sum of."""
        users = self._users.get(id(one), [])
        return any(user.operation == "softmax" or user.operation in ("visible", "add", "times")
                   and self._is_attended(user) for user in users)

    @staticmethod
    def _grows(values, widths) -> bool:
        law = power_of(values, widths)
        return law is None or law[1] != 0

    def _torn(self) -> set:
        """Parameters of which a factor reaches a part alone: an optimizer has one rate for all."""
        found: dict = {}
        for (name, _), asked in self.of.items():
            found.setdefault(name, []).append(asked.value)
        return {name for name, values in found.items()
                if not all(_same(value, values[0]) for value in values)}

    # --- from the output down --------------------------------------------------------------------

    def _asked(self, one) -> Asked:
        """What all that use an expression ask of it, if they agree."""
        asked = self._wanted.get(id(one), [Asked()])
        if all(_same(asked[0].value, other.value) for other in asked):
            return Asked(asked[0].value, frozenset().union(*(other.made_of for other in asked)))
        return self._refused(*asked)

    def _refused(self, *asked: Asked) -> Asked:
        """Factors that cannot be moved stay where they are, if they are not 1."""
        for other in asked:
            self._failed |= other.made_of if not other.is_one else frozenset()
        return Asked()

    def _ask(self, one, asked: Asked) -> None:
        self._wanted.setdefault(id(one), []).append(asked)

    def _hand_on(self, one) -> None:
        """What is asked of an expression is asked of its arguments."""
        asked = self._asked(one)
        if id(one) in self._marks and -id(one) not in self._kept:
            asked = asked.times(self._marks[id(one)], -id(one))
        if one.operation == "times":
            if self._is_meant(one):
                self.moved.add(id(one))
                if not self._upward(one):
                    asked = asked.times(one.data, id(one))
            if not asked.is_one and not self._can(one.arguments[0]):
                asked = self._refused(asked)
            self._ask(one.arguments[0], asked)
        elif one.operation in MATRICES:
            self._take(one, asked)
        elif asked.is_one or not self._can(one):
            if not asked.is_one:
                self._refused(asked)
            for argument in one.arguments:
                self._ask(argument, Asked())
        elif one.operation in PRODUCTS and len(one.arguments) == 2:
            able = [k for k, argument in enumerate(one.arguments) if self._can(argument)]
            halves = one.operation == "attend" and len(able) == 2
            if halves or one.arguments[0] is one.arguments[1]:
                asked = Asked(tuple(x ** 0.5 for x in asked.value), asked.made_of)
                able = [0, 1]
            else:
                able = able[:1]
            for k, argument in enumerate(one.arguments):
                self._ask(argument, asked if k in able else Asked())
        else:
            through = THROUGH.get(one.operation)
            for k, argument in enumerate(one.arguments):
                self._ask(argument, asked if through in (None, k) else Asked())

    def _is_meant(self, one) -> bool:
        return one.operation == "times" and one.place in self._places \
            and id(one) not in self._kept

    def _upward(self, one) -> bool:
        """Whether a factor is one of the matrices that use what it multiplies, as in front of a
        read-out: nothing beneath can have it, or has it (`_up`), or what does is beneath a ReLU,
        which would then take what is large."""
        return self._is_meant(one) and self._used_by_matrices(one) and (
            not self._can(one.arguments[0]) or id(one) in self._up or _of_relu(one.arguments[0]))

    def _used_by_matrices(self, one) -> bool:
        return id(one) in self._users and all(
            user.operation in ("map", "look") and self._can(user) for user in self._users[id(one)])

    def _may_go_up(self) -> set[int]:
        """Which factors have failed further down alone."""
        return {id(one) for one in ordered(self._roots) if id(one) in self._failed - self._up
                and self._is_meant(one) and self._used_by_matrices(one)}

    def _take(self, one, asked: Asked) -> None:
        for argument in one.arguments:
            if self._upward(argument):
                asked = asked.times(argument.data, id(argument))
        for leaf in leaves_of(one):
            before = self.of.setdefault(leaf.key(), asked)
            if not _same(before.value, asked.value):
                self._refused(before, asked)
        if not self._can(one):
            self._refused(asked)
        for argument in one.arguments:
            self._ask(argument, Asked())

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
