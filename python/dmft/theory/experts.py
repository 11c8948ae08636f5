"""Names whose last number is that of an expert or a head: W_in_0, W_in_1, ..."""
from __future__ import annotations

import collections
import re

from dmft.description import Program
from dmft.theory import names
from dmft.theory.graph import Node


class Experts:
    """`matrices`: names of those whose last number tells experts or heads apart; `first`: the
    number of the first of them."""

    def __init__(self, limit: Program, nodes: dict[int, Node]):
        self.limit, self.nodes = limit, nodes
        self.alike = collections.Counter(re.sub(r"\d+$", "", one.name) for one in limit.matrices)
        self.matrices, self.first = self._find()

    @staticmethod
    def _tail(name: str | None) -> int | None:
        found = re.search(r"(\d+)$", name or "")
        return int(found.group(1)) if found else None

    def _find(self) -> tuple[set, int]:
        """Names of matrices whose last number tells experts or heads apart, and the number of the
        first of them."""
        found = {matrix.name for matrix in self.limit.matrices
                 if matrix.family and matrix.name != matrix.family}
        first = 0
        for node in self.nodes.values():
            if node.word != "scale" or self.nodes[node.args[0]].numbers < 2:
                continue
            above, todo = set(), [node.args[1]]
            while todo:                 # maps up to the first of another population
                one = self.nodes[todo.pop()]
                if one.matrix and self._tail(one.matrix) is not None:
                    above.add(one.matrix)
                todo += [arg for arg in one.args if one.population is not None and
                         self.limit.populations[one.population].name != "stream"
                         and self.nodes[arg].population is not None]
            tails = {name: self._tail(name) - node.constants["column"] for name in above}
            last = [name for name, at in tails.items()
                    if at in (0, 1) and re.search(r"(_|[A-Za-z])\d+$", name)]
            if len(self.nodes[node.args[0]].users) > 1:
                found.update(name for name in last if self._siblings(name) >=
                             self.nodes[node.args[0]].numbers)
        tails = {self._tail(name) for name in found if self._tail(name) is not None}
        if tails:
            first = min(tails)
        while len(tails) > 1:           # of an expert is what reads or feeds sites of its own
            own = self._own_sites(found)
            more = {matrix.name for matrix in self.limit.matrices
                    if matrix.name not in found and self._tail(matrix.name) in tails and
                    self._siblings(matrix.name) == len(tails) and
                    {matrix.source, matrix.target} & own.get(self._tail(matrix.name), set())}
            if not more:
                break
            found |= more
        return found, first

    def _own_sites(self, matrices: set) -> dict[int, set]:
        """Populations that matrices of one number meet and those of no other number do."""
        met: dict[int, set] = {}
        for name in matrices:
            one = self.limit.matrix(name)
            met.setdefault(self._tail(name), set()).update({one.source, one.target} - {None})
        return {tail: here - set().union(*(there for other, there in met.items()
                                           if other != tail)) for tail, here in met.items()}

    def _siblings(self, name: str) -> int:
        return self.alike[re.sub(r"\d+$", "", name)]

    def has(self, at: int, name: str) -> bool:
        """Whether the last number of this name is that of an expert: h_1 behind the experts 0 and 1
        of block 0 has not the two numbers of W_0_1."""
        def numbers(of: str) -> int:
            indices = names.of(of).indices
            return sum(kind != "layer" for kind, _ in indices) or len(indices)
        tail, todo = self._tail(name), [(at, 0)]
        while todo:
            here, depth = todo.pop(0)
            node = self.nodes[here]
            if node.matrix and self._tail(node.matrix) == tail:
                return node.matrix in self.matrices and numbers(name) >= numbers(node.matrix)
            if depth < 4:
                todo += [(arg, depth + 1) for arg in node.args]
        return False
