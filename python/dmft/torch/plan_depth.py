"""How scales and rates go with the number of blocks on a stream.

Every block adds to the stream, and L of them have a limit where each adds 1/L of what it would by
itself (*How to Scale Mixture-of-Experts*, Table B.2; docs/theory/stack.md). A module without this
factor has it in the last matrices of each branch: of U = F W, F is L times what the module has in
front. Gradients within a branch are 1/L of those on the stream, so that the rate of SGD is L times
as large, and eps 1/L.
"""
from __future__ import annotations

import math

from dmft.errors import InputError
from dmft.torch.importing.expressions import Expression
from dmft.torch.importing.factors import MATRICES, Factors, leaves_of
from dmft.torch.importing.laws import power_of
from dmft.torch.importing.graph import ordered
from dmft.torch.plan_sizes import pattern_of


def closure(one: Expression, known: dict) -> frozenset:
    """All that an expression is computed from, by id."""
    for part in ordered([one], known):
        known[id(part)] = frozenset().union({id(part)}, *(
            known[id(argument)] for argument in part.arguments))
    return known[id(one)]


class Blocks:
    """Branches on the stream of an imported module. names: the parameters of which a deeper module
    has more. `carried`: {parameter: by which power of L its F is that of the branch}, `inside`:
    parameters within a branch, `left`: lines whose branch no matrix can carry."""

    def __init__(self, roots, widths, names):
        self._roots, self._widths, self._names = roots, widths, set(names)
        self._known: dict[int, frozenset] = {}
        self._leaves = {id(one): {leaf.parameter for leaf in leaves_of(one)}
                        for one in ordered(roots) if one.operation in MATRICES}
        self._users: dict[int, int] = {}
        for one in ordered(roots):
            for argument in one.arguments:
                self._users[id(argument)] = self._users.get(id(argument), 0) + 1
        self.inside: set[str] = set()
        marks = {}
        for branch, stream in self._branches():
            mine = set().union(*(self._leaves.get(one, set()) for one in
                                 closure(branch, self._known) - stream))
            if mine & self._names:
                self.inside |= mine
                marks[id(branch)] = (1.0, widths[1] / widths[0])
        moved = Factors(roots, widths, frozenset(), marks)
        self.carried = {name: power_of(value, widths)[1] for (name, _), value in moved.of.items()}
        self.left = [one.place for one in moved.left]
        self.found = bool(marks)

    def _terms(self, one: Expression) -> list[Expression]:
        """What a sum is made of, through sums that nothing else uses."""
        found = []
        for part in one.arguments:
            through = part.operation == "add" and part.is_rows and self._users[id(part)] == 1
            found += self._terms(part) if through else [part]
        return found

    def _branches(self):
        """(what is added to a stream, all that the stream is computed from)."""
        within = set()
        for one in reversed(ordered(self._roots)):
            if one.operation != "add" or not one.is_rows or id(one) in within:
                continue
            terms = self._terms(one)
            within |= {id(part) for part in one.arguments if part.operation == "add"
                       and self._users[id(part)] == 1}
            streams = [term for term in terms if any(
                id(term) in closure(other, self._known) for other in terms if other is not term)]
            below = frozenset().union(*(closure(term, self._known) for term in streams))
            for term in terms:
                if streams and term not in streams and term.is_rows:
                    yield term, below

    def in_a_row(self) -> bool:
        """Whether parameters of the same name but for a number follow one another, as blocks do,
        and do not stand side by side, as experts do."""
        of: dict[str, list] = {}
        for one in ordered(self._roots):
            for name in self._leaves.get(id(one), set()) & self._names:
                of.setdefault(pattern_of(name), []).append((name, one))
        for places in of.values():
            for name, one in places:
                if any(other != name and id(one) in closure(two, self._known)
                       for other, two in places):
                    return True
        return False


def powers(shallow, deep, names, size: str, why: str | None) -> tuple[dict, list[str]]:
    """({parameter: {number: its power of the number of blocks}}, lines whose branch is to be
    multiplied) of a module imported at a depth and at twice this depth. why: a sentence on why a
    list is none of experts that are alike."""
    blocks = Blocks(shallow.roots, shallow.widths, names)
    if not blocks.in_a_row():
        raise InputError(f"{size}: {why}" if why else
                         f"{size} is a number of matrices side by side ({sorted(names)[0]}, ..), "
                         "as that of experts in a loop; write them as one tensor, one matrix for "
                         f"each expert, or give it by counts={{{size!r}: ...}} and not in base, "
                         "with which your numbers then do not go")
    if not blocks.found:
        raise InputError(f"{size} is a number of layers that add to no stream, and nothing is "
                         "known of how these go with their number; leave it out of base")
    places = _differing(shallow.roots, deep.roots)
    own = [Factors(one.roots, one.widths, places).of for one in (shallow, deep)]
    found = {}
    for name in blocks.inside & set(names):
        F = [next((value[0] for (one, _), value in of.items() if one == name), 1.0) for of in own]
        P = blocks.carried.get(name, 0.0) + round(12 * math.log2(F[1] / F[0])) / 12
        found[name] = {"std": -P, "sgd": 1 - 2 * P, "adam": -P, "eps": P - 1}
    _of_one_kind(found, names)
    return found, sorted(set(blocks.left))


def _differing(one, two) -> set[str]:
    """Lines whose constants are others in the deeper module."""
    sets = []
    for roots in (one, two):
        at: dict[str, set] = {}
        for part in ordered(roots):
            if part.operation == "times":
                at.setdefault(part.place, set()).add(tuple(round(x, 12) for x in part.data))
        sets.append(at)
    return {place for at in sets for place in at if sets[0].get(place) != sets[1].get(place)}


def _of_one_kind(found: dict, names) -> None:
    for name in names:
        alike = [other for other in names if pattern_of(other) == pattern_of(name)]
        if any(found.get(other) != found.get(name) for other in alike):
            raise InputError(f"{alike[-1]} is named like parameters of the blocks, and is none of "
                             "them; give what stands behind the blocks a name of its own")
