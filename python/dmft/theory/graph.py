"""The operations of a limit as nodes: what a page of equations shows as one thing is one node.

Contracted are: norms (an average, a power and a scale), softmaxes over sites and over numbers
(exponentials, their sum and a quotient, with the largest exponent taken out), ln <exp>, and what is
the identity. Nodes that lead neither to the output nor to a penalty are left out.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from dmft.description import Program


@dataclass
class Node:
    """An operation, or several that are one thing; at: the place of the last of them."""
    at: int
    word: str
    args: list[int]
    population: int | None
    numbers: int
    row: str
    moves: bool
    name: str | None = None
    tex: str | None = None
    matrix: str | None = None
    constants: dict = field(default_factory=dict)
    places: int | None = None           # rows of an input, where these are places
    users: list[tuple[int, int]] = field(default_factory=list)  # (node, place among its arguments)


class Graph:
    """`nodes` by their place, in the order of the program; `alias`: places that are another's."""

    def __init__(self, limit: Program):
        self.limit, self.operations = limit, limit.operations
        self.alias: dict[int, int] = {}
        self.masks: dict[int, int] = {}     # of gates: what leaves some of them out
        self.nodes: dict[int, Node] = {}
        for at in range(len(self.operations)):
            self._add(at)
        self._keep()

    def find(self, at: int) -> int:
        while at in self.alias:
            at = self.alias[at]
        return at

    def near(self, node: Node, symbols: dict):
        """The symbol of what a number is made of, straight or by what has none; or None."""
        todo = list(node.args)
        while todo:
            at = todo.pop(0)
            if at in symbols:
                return symbols[at]
            if self.nodes[at].population is None:
                todo += self.nodes[at].args
        return None

    def balanced(self, node: Node) -> Node | None:
        """The mask whose loads a balancing loss has, with a coefficient over their share K/M: on a
        page this is a fraction, and pages of more experts differ in whole numbers alone."""
        todo = list(node.args) if node.constants["c"] != 1 else []
        while todo:
            one = self.nodes[todo.pop()]
            if one.word == "numbers" and one.constants["rule"] == "mask":
                return one
            if one.word in ("multiply", "mean_of_rows") or one.constants.get("rule") == "sum":
                todo += one.args
        return None

    def _rule(self, at: int) -> str:
        op = self.operations[at]
        return op.constants.get("rule", "") if op.operation == "numbers" else ""

    def _is(self, at: int, function: str) -> bool:
        """Whether this is the function of numbers, without a factor."""
        op = self.operations[at]
        return op.operation == "fn" and op.population is None and op["function"] == function and \
            op["k"] == 1

    def _add(self, at: int) -> None:
        op = self.operations[at]
        args = [self.find(arg) for arg in op.arguments]
        node = Node(at, op.operation, args, op.population, op.numbers, op.row, op.moves, op.name,
                    op.tex, op.matrix, dict(op.constants), op.places)
        rule = self._rule(at)
        if rule == "gates":     # with what its mask, which equations write below, is made by
            node.args, mask = args[:1], op.arguments[1:]
            node.constants |= {"eta_bias": 0.0, "sign": False}
            for one in mask:
                self.masks[at] = one
                node.constants |= {key: self.operations[one].constants[key]
                                   for key in ("eta_bias", "sign")
                                   if key in self.operations[one].constants}
        if (rule == "noise" and op["std"] == 0) or \
                (op.operation == "times" and op["k"] == 1 and
                 (op.moves or not self.nodes[args[0]].moves)) or \
                (op.operation == "rows" and op["rule"] == "watch"):
            self.alias[at] = args[0]
            if op.name and not self.nodes[args[0]].name:
                self.nodes[args[0]].name, self.nodes[args[0]].tex = op.name, op.tex
            return
        if op.operation == "fn" and op["function"] == "exp" and op["k"] == 0:
            node.word, node.args, node.moves = "ones", [], False
        for pattern in (self._norm, self._softmax, self._log_mean_exp, self._softmax_of_numbers):
            if pattern(node):
                break
        self.nodes[at] = node

    def _norm(self, node: Node) -> bool:
        """x <x x>^(-1/2)."""
        if node.word != "scale":
            return False
        factor, x = node.args
        inner = self.nodes[factor].args[0] if self._rule(factor) == "power" and \
            self.operations[factor]["c"] == -0.5 else None
        if inner is None or self.nodes[inner].word != "average" or self.nodes[inner].args != [x, x]:
            return False
        node.word, node.args, node.constants = "norm", [x], {}
        return True

    def _largest(self, at: int, sign: int = -1):
        """x of the number -max x: the average of x on its largest site, times the sites."""
        node = self.nodes[at]
        if node.word == "times" and self.operations[at]["k"] == 1:    # `stop`
            node = self.nodes[node.args[0]]
        if node.word != "times" or node.population is not None:
            return None
        inner = self.nodes[node.args[0]]
        if sign > 0 and inner.word == "times":
            return self._largest(inner.at)
        top = [self.nodes[arg] for arg in inner.args]
        if inner.word == "average" and len(top) == 2 and top[1].word == "top" and \
                top[1].constants["top"] == 1 and top[1].args == [top[0].at]:
            return top[0].at
        return None

    def _exponential(self, at: int):
        """(psi, beta, mask or None) of mask exp(beta (psi - max)); or None."""
        node, mask = self.nodes[at], None
        if node.word == "multiply":
            ends = [self.nodes[arg] for arg in node.args]
            ends.sort(key=lambda one: one.word == "fn" and one.constants["function"] == "exp")
            mask, node = ends[0].at, ends[1]
        if node.word != "fn" or node.constants["function"] != "exp":
            return None
        inner = self.nodes[node.args[0]]
        if inner.word == "shift" and self._largest(inner.args[0]) == inner.args[1]:
            inner = self.nodes[inner.args[1]]
        return inner.at, node.constants["k"], mask

    def _softmax(self, node: Node) -> bool:
        """exp(beta psi)/<exp(beta psi)> over the sites, each with a mask or not."""
        if node.word != "scale" or not self._is(node.args[0], "inverse") or \
                node.population is None:
            return False
        below = self.nodes[self.nodes[node.args[0]].args[0]]
        above = self._exponential(node.args[1])
        if above is None or below.word != "average" or len(below.args) != 1:
            return False
        under = self._exponential(below.args[0])
        if under is None or under[:2] != above[:2] or under[2] not in (above[2], None):
            return False
        psi, beta, mask = above
        node.word = "softmax_of_sites"
        node.args = [psi] + ([mask] if mask is not None else [])
        node.constants = {"beta": beta, "over_all": under[2] != mask, "exponential": node.args[1:]}
        node.constants["source"] = self.operations[node.at].arguments[1]
        return True

    def _log_mean_exp(self, node: Node) -> bool:
        """ln <exp(beta psi)> + beta max psi."""
        if node.word != "add" or not self._is(node.args[0], "log"):
            return False
        below = self.nodes[self.nodes[node.args[0]].args[0]]
        inner = self._exponential(below.args[0]) if below.word == "average" and \
            len(below.args) == 1 else None
        if inner is None or inner[2] is not None or \
                inner[0] not in (self._largest(node.args[1], 1), self._largest(node.args[1])):
            return False
        node.word, node.args = "log_mean_exp", [inner[0]]
        node.constants = {"beta": inner[1], "source": below.args[0]}
        return True

    def _exponential_of_numbers(self, at: int):
        node, mask = self.nodes[at], None
        if node.word == "multiply":
            ends = sorted((self.nodes[arg] for arg in node.args),
                          key=lambda one: self._is(one.at, "exp"))
            mask, node = ends[0].at, ends[1]
        return (node.args[0], mask) if self._is(node.at, "exp") else None

    def _softmax_of_numbers(self, node: Node) -> bool:
        """mask exp(s)/sum mask exp(s)."""
        if node.word != "scale" or not self._is(node.args[0], "inverse") or \
                node.population is not None:
            return False
        below = self.nodes[self.nodes[node.args[0]].args[0]]
        above = self._exponential_of_numbers(node.args[1])
        if above is None or self._rule(below.at) != "sum" or \
                self._exponential_of_numbers(below.args[0]) != above:
            return False
        s, mask = above
        node.word = "softmax_of_numbers"
        node.args = [s] + ([mask] if mask is not None else [])
        node.constants = {}
        return True

    def _keep(self) -> None:
        """Leaves what leads to the output or to a penalty, and says who uses it."""
        roots = [self.find(self.limit.output)]
        roots += [node.at for node in self.nodes.values() if node.word == "penalty"]
        seen = set()
        while roots:
            at = roots.pop()
            if at not in seen:
                seen.add(at)
                roots += self.nodes[at].args
        self.nodes = {at: node for at, node in self.nodes.items() if at in seen}
        for node in self.nodes.values():
            for place, arg in enumerate(node.args):
                self.nodes[arg].users.append((node.at, place))
