"""Cotangents: the pass of a program in reverse, as the description says it of each operation."""
from __future__ import annotations

from dmft.rows import WORDS
from dmft.theory import names
from dmft.theory.calls import Calls
from dmft.theory.expression import (ONE, Apply, Call, Column, Expression, Mean, Ref, Scale, Sum,
                                    number, product, total)
from dmft.theory.graph import Node
from dmft.theory.structure import Process, Quantity, Symbol

# Whose cotangent has a name of its own, because several equations read it.
NAMED = ("map", "read_in", "embed", "vector", "look", "bias", "attend", "attend_by_head",
         "softmax_by_head", "softmax_of_sites", "softmax_of_numbers", "average")
RULES = ("gates", "softmax")
# Operations that change where numbers or rows lie, and those that are means.
SAME = ("expand", "repeat", "spread", "tile")
MEANS = {"group_mean": "group", "tile_mean": "copies"}


class Adjoint:
    """Writes the quantities of the pass in reverse into the theory of a derivation."""

    def __init__(self, derivation, read_out: Node):
        self.d, self.read_out = derivation, read_out
        self.nodes = derivation.nodes
        self.parts: dict[int, list[Expression]] = {}
        self.found: dict[int, Expression] = {}

    def named(self, at: int) -> Ref | None:
        """The cotangent of a node with a name; None where nothing arrives."""
        return self.found.get(at)

    def backward(self) -> None:
        """All nodes, last to first."""
        theory = self.d.theory
        if theory.output is None:
            self.add(self.read_out.args[0], self.from_read_out())
        else:
            front = Scale(theory.gamma0, 1.0, ((r"\gamma_0", 1.0),))
            self.add(self.d.graph.find(self.d.limit.output),
                     product(front, Call("loss_slope", ())))
        for node in reversed(list(self.nodes.values())):
            if node.word == "penalty":
                self.add(node.args[0], self.penalty(node))
            elif node.at in self.parts and node.moves:
                g = self.columns(node, self.parts[node.at])
                if self.wants_name(node, g):
                    g = self.name(node, g)
                self.found[node.at] = g
                self.transpose(node, g)

    def from_read_out(self) -> Expression:
        """What a read-out hands back."""
        w = Ref("thin:" + self.read_out.matrix)
        return Call("error", (w,)) if self.d.theory.weighted else w

    def add(self, at: int, g: Expression) -> None:
        """A part of the cotangent of a node; nothing where it does not learn."""
        if self.nodes[at].moves:
            self.parts.setdefault(at, []).append(g)

    @staticmethod
    def columns(node: Node, parts: list[Expression]) -> Expression:
        """The sum of what arrives; parts for single columns become one row of numbers."""
        single = {part["column"]: [] for part in parts
                  if isinstance(part, Call) and part.word == "at_column"}
        rest = []
        for part in parts:
            if isinstance(part, Call) and part.word == "at_column":
                single[part["column"]].append(part.arguments[0])
            else:
                rest.append(part)
        if single:
            row = tuple(total(single[k]) if k in single else number(0.0)
                        for k in range(node.numbers))
            rest.append(Call("columns", row))
        return total(rest)

    def wants_name(self, node: Node, g: Expression) -> bool:
        if node.word == "map" and self.d.matrix(node.matrix).uses > 1:
            return True
        if isinstance(g, Ref):
            return False
        if node.word in NAMED or (node.word == "numbers" and node.constants["rule"] in RULES):
            return True
        if isinstance(g, Call) and g.word == "columns":
            return True
        moving = [arg for arg in node.args if self.nodes[arg].moves]
        return len(moving) > 1 or (isinstance(g, Sum) and node.at in self.d.symbols)

    def name(self, node: Node, g: Expression) -> Ref:
        """Makes a quantity of this cotangent."""
        d, key = self.d, f"g{node.at}"
        symbol = d.symbols.get(node.at) or d._suggest(node, {})
        d.theory.quantities[key] = Quantity(
            key, d.unique(names.cotangent(symbol), key), node.population, g,
            of_input=d.of_input(g), backward=True, numbers=node.numbers, row=node.row,
            places=node.places)
        return Ref(key)

    def rows(self, node: Node) -> Scale:
        """One over the number of rows that a mean over inputs is of."""
        return Scale(1 / self.d.theory.inputs, 1.0, (("P", -1.0),)) * \
            self.share(self.nodes[node.args[0]])

    def share(self, node: Node) -> Scale:
        """One over the number of rows that an input has of a node."""
        power = {"token": 1, "pair": 2}.get(node.row, 0)
        if node.places:
            return number(1 / node.places)
        return Scale(1 / self.d.rows(node), 1.0, (("n", -float(power)),) if power else ())

    def coefficient(self, node: Node) -> Scale:
        """c of a term of the loss."""
        c, mask = self.d.constant(node, "c"), self.d.graph.balanced(node)
        if mask is None:
            return c
        M, K = mask.numbers, mask.constants["top"]
        return Scale(c.value, float(f"{c.factor * K / M:.10g}"),
                     (*c.powers, (rf"\tfrac{{{M}}}{{{K}}}", 1.0)))

    def penalty(self, node: Node) -> Expression:
        """-gamma0 P dF/ds of a term F of the loss."""
        theory, row, rule = self.d.theory, node.row, node.constants["rule"]
        front = Scale(-theory.gamma0, -1.0, ((r"\gamma_0", 1.0),))
        if row == "all":
            front = front * Scale(theory.inputs, 1.0, (("P", 1.0),))
        else:
            front = front * self.share(node)
        s = self.d.row(node.args[0])
        c = self.coefficient(node)
        return product(front, c) if rule == "mean" else product(front, c, number(2.0), s)

    def transpose(self, node: Node, g: Expression) -> None:
        """Hands g to the arguments of a node: as its adjoint says, but for what is several
        operations in one."""
        whole = getattr(self, f"_whole_{node.word}", None)
        trees = self.d.limit.operations[node.at].adjoint
        parts = [whole(node, g)] if whole else [
            None if tree is None else self.part(tree, node, place, g)
            for place, tree in enumerate(trees or ())]
        if len(parts) > 1 and node.args[0] == node.args[1] and parts[0] == parts[1]:
            parts = [product(number(2.0), parts[0])]
        for arg, part in zip(node.args, parts):
            if part is not None:
                self.add(arg, part)

    def part(self, tree, node: Node, place: int, g: Expression):
        """What a tree of the description is, where g arrives at a node, for one of its arguments;
        None: nothing."""
        d = self.d
        if tree == "g":
            return g
        if isinstance(tree, int):
            return d.row(d.graph.find(tree))
        parts = [self.part(one, node, place, g) for one in tree["arguments"]]
        word, arg = tree["operation"], self.nodes[node.args[place]]
        constants = tuple((key, tree[key]) for key in sorted(tree)
                          if key not in ("operation", "arguments"))
        rule = getattr(self, f"_{word}", None)
        if rule:
            return rule(node, arg, parts, constants)
        if word in SAME:
            return parts[0]
        if word in MEANS:
            return Mean(parts[0], MEANS[word])
        if word in WORDS or hasattr(Calls, f"_{word}"):
            return Call(word, tuple(parts), constants)
        return Call("transpose", (g, *map(d.row, node.args)),
                    (("place", place), ("word", node.word), *d.constants(node)))

    def _slope(self, node, arg, *_):
        """The slope has the factor inside of the function, which is left out where it is 1."""
        k, name = self.d.constant(node, "k"), node.constants["function"]
        if node.population is None and name in ("exp", "log", "inverse"):
            s = product(k, self.d.row(arg.at))
            return product(k, {"exp": self.d.row(node.at), "log": Call("over", (s,), (("c", 1.0),)),
                               "inverse": product(number(-1.0),
                                                  Call("power", (s,), (("c", -2.0),)))}[name])
        return k if name == "linear" else \
            product(k, Apply(name, product(k, self.d.row(arg.at)), 1))

    def _times(self, node, arg, parts, _):
        if node.word == "fn":
            return parts[0]
        factor = self.d.constant(node, "k") if node.word != "mean_of_rows" else self.rows(node)
        return product(factor, parts[0])

    def _unpool(self, node, arg, parts, _):
        return product(self.share(arg), parts[0])

    def _multiply(self, node, arg, parts, _):
        part = product(*parts)
        one = node.word == "multiply" and arg.row == "all" and node.row != "all"
        return Call("sum_over_inputs", (part,)) if one else part

    def one_by_one(self, at: int) -> list[Expression]:
        """The numbers of a node; those of a list that only lists read are its own."""
        node = self.nodes[at]
        if node.word == "join" and at not in self.d.symbols:
            return [part for arg in node.args for part in self.one_by_one(arg)]
        s = self.d.row(at)
        return [Column(s, k) for k in range(node.numbers)] if node.numbers > 1 else [s]

    def _pick_back(self, node, arg, parts, constants):
        return Call("at_column", (parts[0],), constants)

    def _pick(self, node, arg, parts, constants):
        """Those of g that a part of a list has."""
        first = dict(constants)["column"]
        columns = tuple(Column(parts[0], first + k) for k in range(arg.numbers))
        return columns[0] if arg.numbers == 1 else Call("columns", columns)

    def _scale(self, node, arg, parts, _):
        c = self.d.column(parts[0], node) if node.word == "scale" else parts[0]
        return product(c, parts[1])

    def _average(self, node, arg, parts, _):
        part = product(*sorted(parts, key=lambda one: one != self.d.row(node.args[-1])))
        part = Call("sum", (part,)) if node.population is None else Mean(part)
        return part if arg.numbers < 2 else \
            Call("at_column", (part,), (("column", node.constants["column"]),))

    def _look_back(self, node, arg, parts, _):
        return Call("look_back", (parts[0], Ref("thin:" + node.matrix)))

    def _embed_back(self, node, arg, parts, _):
        return Call("look", (Ref("thin:" + node.matrix), parts[0]))

    def _map_back(self, node, arg, parts, _):
        d, key = self.d, f"back{node.at}"
        matrix = d.of_matrix(node.matrix)
        if d.matrix(node.matrix).uses > 1:
            matrix = Symbol(matrix.base, matrix.words,
                            matrix.indices + d.symbols[node.at].indices[-1:])
        d.theory.quantities[key] = Quantity(
            key, d.unique(names.like(r"\xi", matrix), key), arg.population, Process([]),
            of_input=d.of_input(parts[0]), backward=True, row=node.row, places=node.places)
        return Ref(key)

    def _mix(self, node, arg, parts, constants):
        k = self.d.constant(node, "k") if node.word == "attend" else ONE
        return product(k, Call("mix", tuple(parts), constants))

    def _mix_places(self, node, arg, parts, _):
        constants = dict(self.d.constants(node)) | {"transposed": True}
        return Call("mix_places", tuple(parts), tuple(sorted(constants.items())))

    # --- several operations in one -------------------------------------------------------------

    def _whole_read_out(self, node, g):
        """Delta is what arrives here, over gamma0."""
        theory, over = self.d.theory, Scale(1 / self.d.theory.gamma0, 1.0, ((r"\gamma_0", -1.0),))
        terms = g.terms if isinstance(g, Sum) else [g]
        theory.quantities["delta"] = Quantity(
            "delta", Symbol(r"\Delta"), None, total([product(over, term) for term in terms]),
            backward=True, numbers=node.numbers, row=node.row, places=node.places)
        return self.from_read_out()

    def _whole_norm(self, node, g):
        return Call("norm_back", (self.d.row(node.args[0]), g))

    def _whole_softmax_of_sites(self, node, g):
        beta, phi = self.d.beta(node), self.d.row(node.at)
        weights = Call("softmax_of_sites", (beta, self.d.row(node.args[0])),
                       (("over_all", False),)) if node.constants["over_all"] else phi
        mean = Mean(product(phi, g))
        return product(beta, Sum((product(phi, g), product(number(-1.0), weights, mean))))

    def _whole_log_mean_exp(self, node, g):
        beta = self.d.beta(node)
        return product(beta, g, Call("softmax_of_sites", (beta, self.d.row(node.args[0])),
                                     (("over_all", False),)))

    def _whole_softmax_of_numbers(self, node, g):
        return Call("softmax_back", (self.d.row(node.at), g))

    def _whole_numbers(self, node, g):
        d, rule, s = self.d, node.constants["rule"], self.d.row(node.args[0])
        if rule in ("mask", "entropy"):
            return None
        if rule in ("plus", "noise", "sum"):
            return g
        if rule == "log_sum_exp":
            return product(Call("softmax_of_numbers", (s,)), g)
        if rule == "power":
            c = node.constants["c"]
            return product(number(c), Call("power", (s,), (("c", c - 1),)), g)
        if rule == "softmax":
            return Call("softmax_back", (d.row(node.at), g))
        if rule == "gates":
            return Call("gates_back", (d.constant(node, "beta"), d.row(node.at), g, s),
                        d.constants(node) + (("of", node.numbers),))
        return Call("transpose", (g, s), (("place", 0), ("word", rule)))
