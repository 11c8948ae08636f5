"""Cotangents: the pass of a program in reverse, by the transposes of docs/method.md, section 1."""
from __future__ import annotations

from dmft.theory import names
from dmft.theory.expression import (Apply, Call, Expression, Mean, Ref, Scale, Sum, number, product,
                                    total)
from dmft.theory.graph import Node
from dmft.theory.structure import Process, Quantity, Symbol

# Whose cotangent has a name of its own, because several equations read it.
NAMED = ("map", "read_in", "embed", "vector", "look", "bias", "attend", "attend_by_head",
         "softmax_by_head", "softmax_of_sites", "softmax_of_numbers", "average")
RULES = ("gates", "softmax")


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
            self._from_read_out()
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

    def _from_read_out(self) -> None:
        w = Ref("thin:" + self.read_out.matrix)
        self.add(self.read_out.args[0], Call("error", (w,)) if self.d.theory.weighted else w)

    def _read_out(self, node, g, args):
        """Delta is what arrives here, over gamma0."""
        theory, over = self.d.theory, Scale(1 / self.d.theory.gamma0, 1.0, ((r"\gamma_0", -1.0),))
        terms = g.terms if isinstance(g, Sum) else [g]
        theory.quantities["delta"] = Quantity(
            "delta", Symbol(r"\Delta"), None, total([product(over, term) for term in terms]),
            backward=True, numbers=node.numbers, row=node.row, places=node.places)
        self._from_read_out()

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

    def penalty(self, node: Node) -> Expression:
        """-gamma0 P dF/ds of a term F of the loss."""
        theory, row, rule = self.d.theory, node.row, node.constants["rule"]
        front = Scale(-theory.gamma0, -1.0, ((r"\gamma_0", 1.0),))
        if row == "all":
            front = front * Scale(theory.inputs, 1.0, (("P", 1.0),))
        else:
            front = front * self.share(node)
        s = self.d.row(node.args[0])
        if rule in ("mean", "mean_square"):
            c = self.d.constant(node, "c")
            return product(front, c) if rule == "mean" else product(front, c, number(2.0), s)
        return product(Scale(-theory.gamma0 * theory.inputs, -1.0,
                             ((r"\gamma_0", 1.0), ("P", 1.0))),
                       Call("penalty_slope", (s,), self.d.constants(node)))

    def transpose(self, node: Node, g: Expression) -> None:
        """Hands g to the arguments of a node."""
        d, word = self.d, node.word
        args = [d.row(arg) for arg in node.args]
        rule = getattr(self, f"_{word}", None)
        if rule is not None:
            rule(node, g, args)
        elif word in ("add", "bias", "group_mean", "tile_mean"):
            for arg in node.args:
                self.add(arg, g)
        else:
            for place, arg in enumerate(node.args):
                self.add(arg, Call("transpose", (g, *args), (
                    ("place", place), ("word", word), *d.constants(node))))

    def _read_in(self, node, g, args):
        pass

    _vector = _read_in

    def _embed(self, node, g, args):
        self.add(node.args[0], Call("look", (Ref("thin:" + node.matrix), g)))

    def _map(self, node, g, args):
        d, key = self.d, f"back{node.at}"
        if not self.nodes[node.args[0]].moves:
            return
        matrix = d.of_matrix(node.matrix)
        if d.matrix(node.matrix).uses > 1:
            matrix = Symbol(matrix.base, matrix.words,
                            matrix.indices + d.symbols[node.at].indices[-1:])
        d.theory.quantities[key] = Quantity(
            key, d.unique(names.like(r"\xi", matrix), key), self.nodes[node.args[0]].population,
            Process([]), of_input=d.of_input(g), backward=True, row=node.row,
            places=node.places)
        self.add(node.args[0], Ref(key))

    def _fn(self, node, g, args):
        k, name = self.d.constant(node, "k"), node.constants["function"]
        inner = product(k, args[0])
        slope = product(k, g) if name == "linear" else product(k, Apply(name, inner, 1), g)
        self.add(node.args[0], slope)

    def _times(self, node, g, args):
        self.add(node.args[0], product(self.d.constant(node, "k"), g))

    def _multiply(self, node, g, args):
        for mine, other in ((0, 1), (1, 0)):
            arg, part = node.args[mine], product(args[other], g)
            if self.nodes[arg].population != node.population:
                part = Mean(part, "group")
            elif self.nodes[arg].row == "all" and node.row != "all":
                part = Call("sum_over_inputs", (part,))
            self.add(arg, part)

    def _scale(self, node, g, args):
        numbers = Mean(product(args[1], g))
        if self.nodes[node.args[0]].numbers > 1:
            numbers = Call("at_column", (numbers,), (("column", node.constants["column"]),))
        self.add(node.args[0], numbers)
        self.add(node.args[1], product(self.d.column(args[0], node), g))

    def _shift(self, node, g, args):
        self.add(node.args[0], Mean(g))
        self.add(node.args[1], g)

    def _average(self, node, g, args):
        if len(args) == 1:
            self.add(node.args[0], g)
        elif node.args[0] == node.args[1]:
            self.add(node.args[0], product(number(2.0), g, args[0]))
        else:
            self.add(node.args[0], product(g, args[1]))
            self.add(node.args[1], product(g, args[0]))

    def _tile(self, node, g, args):
        self.add(node.args[0], Mean(g, "copies"))

    def _mean_of_rows(self, node, g, args):
        self.add(node.args[0], product(self.rows(node), g))

    _mean_of_numbers = _mean_of_rows

    def _norm(self, node, g, args):
        self.add(node.args[0], Call("norm_back", (args[0], g)))

    def _softmax_of_sites(self, node, g, args):
        beta, phi = self.d.beta(node), self.d.row(node.at)
        weights = Call("softmax_of_sites", (beta, args[0]), (("over_all", False),)) \
            if node.constants["over_all"] else phi
        mean = Mean(product(phi, g))
        self.add(node.args[0], product(beta, Sum((product(phi, g),
                                                  product(number(-1.0), weights, mean)))))

    def _log_mean_exp(self, node, g, args):
        beta = self.d.beta(node)
        weights = Call("softmax_of_sites", (beta, args[0]), (("over_all", False),))
        self.add(node.args[0], product(beta, g, weights))

    def _softmax_of_numbers(self, node, g, args):
        self.add(node.args[0], Call("softmax_back", (self.d.row(node.at), g)))

    _softmax_by_head = _softmax_of_numbers

    def _look(self, node, g, args):
        self.add(node.args[0], Call("look_back", (g, Ref("thin:" + node.matrix))))

    def _attend(self, node, g, args):
        k = self.d.constant(node, "k")
        self.add(node.args[0], product(k, Call("attend_query", (g, args[1]))))
        self.add(node.args[1], product(k, Call("attend_key", (g, args[0]))))

    _attend_by_head = _attend

    def _mix(self, node, g, args):
        head = (("head", node.word == "mix_by_head"),)
        self.add(node.args[0], Call("mix_weights", (g, args[1]), head))
        self.add(node.args[1], Call("mix_value", (args[0], g)))

    _mix_by_head = _mix

    def _lag(self, node, g, args):
        self.add(node.args[0], Call("lag", (g,), (("tokens", -node.constants["tokens"]),)))

    def _pool(self, node, g, args):
        self.add(node.args[0], product(self.share(self.nodes[node.args[0]]), g))

    def _mix_places(self, node, g, args):
        constants = dict(self.d.constants(node)) | {"transposed": True}
        self.add(node.args[0], Call("mix_places", (g,), tuple(sorted(constants.items()))))

    def _add_numbers(self, node, g, args):
        for arg in node.args:
            one = self.nodes[arg].numbers < node.numbers
            self.add(arg, Call("sum", (g,)) if one else g)

    def _multiply_numbers(self, node, g, args):
        for mine, other in ((0, 1), (1, 0)):
            part = product(args[other], g)
            one = self.nodes[node.args[mine]].numbers < node.numbers
            self.add(node.args[mine], Call("sum", (part,)) if one else part)

    def _numbers(self, node, g, args):
        d, rule, s, arg = self.d, node.constants["rule"], args[0], node.args[0]
        if rule in ("same", "mask", "entropy"):
            return
        if rule in ("plus", "noise", "sum"):
            self.add(arg, g)
        elif rule == "times":
            self.add(arg, product(d.constant(node, "c"), g))
        elif rule == "pick":
            self.add(arg, Call("at_column", (g,), (("column", node.constants["column"]),)))
        elif rule == "exp":
            self.add(arg, product(d.row(node.at), g))
        elif rule == "tanh":
            self.add(arg, product(Apply("tanh", s, 1), g))
        elif rule == "fn":
            self._fn(node, g, args)
        elif rule == "log":
            self.add(arg, product(Call("over", (s,), (("c", 1.0),)), g))
        elif rule == "log_sum_exp":
            self.add(arg, product(Call("softmax_of_numbers", (s,)), g))
        elif rule == "over":
            c = d.constant(node, "c")
            self.add(arg, product(number(-1.0), c, Call("power", (s,), (("c", -2.0),)), g))
        elif rule == "power":
            c = node.constants["c"]
            self.add(arg, product(number(c), Call("power", (s,), (("c", c - 1),)), g))
        elif rule == "softmax":
            self.add(arg, Call("softmax_back", (d.row(node.at), g)))
        elif rule == "gates":
            self.add(arg, Call("gates_back", (d.constant(node, "beta"), d.row(node.at), g, s),
                               d.constants(node) + (("of", node.numbers),)))
        else:
            self.add(arg, Call("transpose", (g, s), (("place", 0), ("word", rule))))
