"""The theory of a limit: forward rows, fields, responses, learned parts and cotangents, derived
from its operations by the rules of docs/method.md, sections 1 and 2."""
from __future__ import annotations

from dmft.description import Description, Program
from dmft.errors import InputError
from dmft.theory import names
from dmft.theory.adjoint import Adjoint
from dmft.theory.experts import Experts
from dmft.theory.expression import (ONE, Apply, Call, Column, Expression, Mean, Ref, Scale, Sum,
                                    product, total)
from dmft.theory.graph import Graph, Node
from dmft.theory.maps import Matrices
from dmft.theory.optimizers import KNOWN
from dmft.theory.scales import Scales
from dmft.theory.structure import Process, Quantity, Selection, Sites, Symbol, Theory

N = 2.0 ** 400                          # the nominal width behind the numbers of a limit
PLAIN = {"shift": "add"}
MEANS = {"group_mean": "group", "tile_mean": "copies", "mean_of_rows": "inputs"}
FIELDS = ("map", "read_in")
MASKS = ("top", "top_rows", "first_rows")
# Words whose rows and numbers have a name of their own.
NAMED = FIELDS + MASKS + ("embed", "input", "noise", "bias", "rows", "constant", "attend",
                          "attend_by_head")


def _size(program: Program, at: int) -> float:
    one = program.populations[at]
    return one.factor * N ** one.power


class Derivation:
    """One pass over the nodes forward and one backward; `theory` is what they leave."""

    def __init__(self, described: Description, again):
        limit, settings = described.limit, described.settings
        self.limit, self.graph = limit, Graph(limit)
        self.nodes = self.graph.nodes
        self.scale = Scales(limit, described, again)
        training = settings["training"]
        optimizer = training.get("optimizer", "gd")
        if optimizer not in KNOWN:
            raise InputError(f"the equations of [training] optimizer = {optimizer} are not known; "
                             "known are those of " + ", ".join(KNOWN))
        self.experts = Experts(limit, self.nodes)
        self.symbols: dict[int, Symbol] = {}
        self.taken: dict[Symbol, object] = {}
        self.matrices_of_places: dict[tuple, list] = {}
        self._name()
        self.theory = Theory(
            network=limit.network, gamma0=limit.gamma0, eta0=training["eta0"], inputs=limit.inputs,
            tokens=limit.tokens, outputs=limit.outputs, output_of_token=limit.output_of_token,
            weighted=limit.weighted, centre=limit.centre, loss=training["loss"], training=training,
            test_inputs=described.test_inputs, quantities={}, fields={}, kernels={}, responses={},
            populations=[self._sites(k) for k in range(len(limit.populations))], read_out="",
            top=ONE, random=limit.random, values=self.scale.values, first_column=self.experts.first,
            labels={one.name: one.label for one in limit.populations + limit.matrices},
            input_weights=bool(settings["data"].get("weight")))
        read_out = self.nodes[self.graph.find(limit.read_out)]
        self.adjoint = Adjoint(self, read_out)
        self._forward(read_out)
        self.adjoint.backward()
        Matrices(self)
        self._order()

    # --- constants ----------------------------------------------------------------------------

    def matrix(self, name: str):
        return self.limit.matrix(name)

    def constant(self, node: Node, key: str) -> Scale:
        """A constant of a node, by the keys that make it."""
        word = self.limit.operations[node.at].operation

        def read(program: Program) -> float:
            op = program.operations[node.at]
            if op.operation != word:
                raise LookupError
            return float(op.constants[key])
        return self.scale(read)

    def beta(self, node: Node) -> Scale:
        """beta of a softmax over sites: k of its exponential."""
        def exponential(program, at):
            op = program.operations[at]
            if op.operation == "multiply":
                return max(exponential(program, arg) for arg in op.arguments)
            return op.constants["k"] if op.operation == "fn" and \
                op.constants["function"] == "exp" else 0.0
        at = node.constants.get("source")
        if at is None:
            return self.scale(lambda program: node.constants["beta"])
        return self.scale(lambda program: exponential(program, at))

    def amplitude(self, name: str) -> Scale:
        return self.scale(lambda p: abs(p.matrix(name).a0 * p.matrix(name).s_f))

    def forward_scale(self, name: str) -> Scale:
        return self.scale(lambda p: (p.matrix(name).a0 * p.matrix(name).s_f) ** 2)

    def backward_scale(self, name: str) -> Scale:
        return self.scale(lambda p: (p.matrix(name).a0 * p.matrix(name).s_f) ** 2 *
                          _size(p, p.matrix(name).source) / _size(p, p.matrix(name).target))

    def _sites(self, at: int) -> Sites:
        def place(program):
            for one in program.populations:
                if one.name == name:
                    return one
            raise LookupError

        def group(program):
            one = place(program)
            return one.factor / program.populations[one.of].factor
        one = self.limit.populations[at]
        name = one.name
        inner = self.scale(group) if one.of is not None else None
        return Sites(name, self.scale(lambda p: place(p).factor), round(one.power), one.group,
                     inner, round(one.power - self.limit.populations[one.of].power)
                     if one.of is not None else 0, one.of, one.shared, one.sites)

    # --- names --------------------------------------------------------------------------------

    def of_matrix(self, name: str) -> Symbol:
        return names.of(name, name in self.experts.matrices)

    def unique(self, symbol: Symbol, owner) -> Symbol:
        """This symbol, with primes where another quantity has it."""
        while self.taken.setdefault(symbol, owner) != owner:
            symbol = Symbol(symbol.base, symbol.words + (r"\prime",), symbol.indices)
        return symbol

    @staticmethod
    def is_trained(node: Node) -> bool:
        """Whether it is something that is trained, by itself: a vector, or numbers."""
        return node.word == "vector" or node.word == "bias" and not node.args

    def is_tied(self, node: Node) -> bool:
        """Whether a look or a read-out has the vectors of an embedding."""
        return node.word in ("look", "read_out") and self.matrix(node.matrix).kind == "embed"

    def is_followed(self, read_out: Node) -> bool:
        """Whether what is read out has a name and a cotangent: something acts on it, or it is that
        of an embedding, from which nothing is subtracted."""
        return bool(read_out.users) or self.is_tied(read_out)

    def _needs_name(self, node: Node) -> bool:
        if node.word == "read_out":     # something acts on it
            return self.is_followed(node)
        if node.word in ("penalty", "ones", "tile") or self.is_trained(node):
            return False
        if node.name or node.word in NAMED:
            return True
        if node.word == "join":
            return any(self.nodes[user].word != "join" for user, _ in node.users)
        if node.word == "look":
            return any(self.nodes[user].word != "bias" for user, _ in node.users)
        if node.word == "numbers" and node.constants["rule"] in ("gates", "mask", "softmax"):
            return True
        if node.word in ("softmax_of_sites", "softmax_of_numbers", "softmax_by_head"):
            return True
        return len({user for user, _ in node.users}) > 1 or any(
            self.nodes[user].word in ("map", "look", "penalty") for user, _ in node.users)

    def _consumer(self, node: Node) -> Symbol | None:
        """The symbol of the first matrix that reads this, straight or through a norm."""
        todo = [node.at]
        while todo:
            here = self.nodes[todo.pop(0)]
            for user, _ in here.users:
                one = self.nodes[user]
                if one.word in ("map", "look"):
                    return self.of_matrix(one.matrix)
                if one.word in ("norm", "fn"):
                    todo.append(user)
        return None

    def _suggest(self, node: Node, count: dict) -> Symbol:
        if self.is_trained(node):
            return self.of_matrix(node.matrix)
        if node.word == "read_out":
            return Symbol("r", (), ())
        if node.tex:
            return Symbol(node.tex, (), ())
        if node.name:
            return names.of(node.name, self.experts.has(node.at, node.name))
        word = node.word
        for user, _ in node.users:      # rows that a matrix with several uses reads
            one = self.nodes[user]
            if one.word == "map" and self.matrix(one.matrix).uses > 1:
                same = [other.at for other in self.nodes.values() if other.matrix == one.matrix]
                matrix = self.of_matrix(one.matrix)
                return Symbol("x", matrix.words,
                              matrix.indices + (("use", same.index(user)),))
        if word == "input":
            return Symbol(r"\iota", (), ())
        if word in ("map", "read_in", "embed", "look", "bias"):
            matrix = self.of_matrix(node.matrix)
            uses = self.matrix(node.matrix).uses if word == "map" else 1
            if uses > 1:
                count[node.matrix] = count.get(node.matrix, -1) + 1
                return Symbol("h", matrix.words, matrix.indices + (("use", count[node.matrix]),))
            if matrix.base == "W" and matrix.words[:1] in (("Q",), ("K",), ("V",)):
                return Symbol(matrix.words[0].lower(), matrix.words[1:], matrix.indices)
            if matrix.base in ("Q", "R") or word in ("look", "bias"):
                base = self.of_matrix(self.nodes[node.args[0]].matrix) if word == "bias" and \
                    self.nodes[node.args[0]].matrix else matrix
                return Symbol(r"\psi", base.words, base.indices)
            return names.like("h", matrix)
        if word == "fn" and node.args[0] in self.symbols:
            inner = self.symbols[node.args[0]]
            return Symbol("x", inner.words if inner.base == "h" else (inner.base, *inner.words),
                          inner.indices)
        inner = self._consumer(node)
        if word == "noise":
            return Symbol(r"\zeta", (), ())
        if word in ("rows", "numbers") + MASKS and (word != "numbers" or
                                                    node.constants["rule"] == "mask"):
            near = self.symbols.get(node.args[0])
            return Symbol("m", (), near.indices if near else ())
        if node.population is None:
            near = self.graph.near(node, self.symbols)
            base = {"attend": "A", "attend_by_head": "A", "average": "r"}.get(word, "s")
            if word in ("softmax_by_head",) or (word == "numbers" and
                                                node.constants["rule"] == "softmax"):
                base = "a"
            elif word in ("softmax_of_numbers",) or (word == "numbers" and
                                                     node.constants["rule"] == "gates"):
                base = "p"
            return Symbol(base, (), near.indices if near else ())
        if inner is not None:
            base = "y" if word == "norm" else "h" if word == "add" else "x"
            return names.like(base, inner)
        if self._is_top(node):
            return Symbol("h" if word == "add" else "x", ("top",))
        return Symbol("h" if word in ("add", "times") else "x", (), self._common(node))

    def _is_top(self, node: Node) -> bool:
        """Whether the read-out reads this, straight or through a norm."""
        users = [self.nodes[user] for user, _ in node.users]
        return any(one.word == "read_out" or one.word == "norm" and self._is_top(one)
                   for one in users)

    def _common(self, node: Node) -> tuple:
        """The indices, a block's among them, that all rows have which this is made of; or none."""
        found, todo = [], list(node.args)
        while todo:
            at = todo.pop()
            if at in self.symbols:
                found.append(self.symbols[at].indices)
            else:
                todo += self.nodes[at].args
        same = tuple(dict.fromkeys(one for one in found[0]
                                   if all(one in other for other in found))) if found else ()
        return same if any(kind == "block" for kind, _ in same) else ()

    def _name(self) -> None:
        count: dict[str, int] = {}
        for named in (True, False):     # names of the description before those made here
            for node in self.nodes.values():
                if self._needs_name(node) and bool(node.name) == named:
                    self.symbols[node.at] = self.unique(self._suggest(node, count), node.at)

    # --- forward ------------------------------------------------------------------------------

    def row(self, at: int) -> Expression:
        """What a node is called, or what it is."""
        return Ref(str(at)) if at in self.symbols else self.value(self.nodes[at])

    def constants(self, node: Node) -> tuple:
        """The constants of a call."""
        known = {key: value for key, value in node.constants.items()
                 if isinstance(value, (str, int, float, bool))}
        if "eta_bias" in known:
            known["state"] = self.state(node)
        if node.word == "constant":     # by token, in an order that a key can have
            known = {"values": tuple(tuple(row) for row in node.constants["values"])}
        if node.word == "mix_places":
            known = self._matrix_of_places(node)
        if node.word == "input":
            known = {"first": known["first"], "count": node.numbers,
                     "kinds": self.limit.vocabulary}
        if node.word == "penalty" and (mask := self.graph.balanced(node)):
            M, K = mask.numbers, mask.constants["top"]
            known |= {"of": M, "top": K, "c": float(f"{known['c'] * K / M:.12g}")}
        if node.word == "pool":
            known = {"of": self.rows(self.nodes[node.args[0]])}
        if node.word == "top":          # of the sites that stand for infinitely many
            known = {"count": known["top"], "share": known["top"] / node.numbers} \
                if node.population is None else \
                {"share": known["top"] / self.limit.populations[node.population].sites}
        return tuple(sorted(known.items()))

    def rows(self, node: Node) -> int:
        """Rows that an input has of a node."""
        n = self.limit.tokens
        return node.places or {"token": n, "pair": n * n}.get(node.row, 1)

    def _matrix_of_places(self, node: Node) -> dict:
        """A constant matrix between places: its entries and shape, and its number, from 1 on, among
        those of this shape."""
        shape = self.rows(node), self.rows(self.nodes[node.args[0]])
        entries = tuple(tuple(entry) for entry in node.constants["entries"])
        alike = self.matrices_of_places.setdefault(shape, [])
        if entries not in alike:
            alike.append(entries)
        return {"entries": entries, "rows": shape[0], "columns": shape[1],
                "number": alike.index(entries) + 1, "transposed": False}

    def value(self, node: Node) -> Expression:
        """What a node is, in terms of its arguments."""
        args = [self.row(arg) for arg in node.args]
        word = PLAIN.get(node.word, node.word)
        constants = self.constants(node)
        if word == "fn":
            inner = product(self.constant(node, "k"), args[0])
            if node.population is None and node.constants["function"] == "inverse":
                return Call("over", (inner,), (("c", 1.0),))
            return inner if node.constants["function"] == "linear" else \
                Apply(node.constants["function"], inner)
        if word == "add":
            return total(args)
        if word == "multiply":
            return product(*args)
        if word == "times":
            return product(self.constant(node, "k"), args[0])
        if word == "scale":
            return product(self.column(args[0], node), args[1])
        if word == "average":
            return Mean(product(*args))
        if word in MEANS:
            return Mean(args[0], MEANS[word])
        if word == "tile":
            return args[0]
        if word == "noise":
            return Call("noise_of_rows", ())
        if word == "ones":
            return ONE
        if word == "read_out" and self.is_tied(node):
            over = Scale(1 / self.limit.gamma0, 1.0, ((r"\gamma_0", -1.0),))
            return product(over, Call("look", (Ref("thin:" + node.matrix), args[0])))
        if word == "read_out":
            return Call(word, (Ref("thin:" + node.matrix), args[0]), (("at", node.at),))
        thin = Ref(f"thin:{node.matrix}")
        if word == "embed":
            return Call("look_back", (args[0], thin))
        if word == "look":
            return Call("look", (thin, args[0]))
        if self.is_trained(node):
            return thin
        if word == "bias":
            several = self.matrix(node.matrix).sets > 1
            return Sum((args[0], Call("of_kind", (thin,)) if several else thin))
        if word == "softmax_of_sites":
            beta = self.beta(node)
            return Call(word, (beta, *args), (("over_all", node.constants["over_all"]),))
        if word == "log_mean_exp":
            return Call(word, (self.beta(node), *args))
        if word in ("attend", "attend_by_head"):
            return product(self.constant(node, "k"), Call(word, tuple(args)))
        if word == "numbers":
            return self._numbers(node, args[0], constants)
        if word == "pick":
            return Column(args[0], node.constants["column"])
        if word == "join":
            return Call("columns", tuple(sum(map(self.adjoint.one_by_one, node.args), [])))
        return Call(word, tuple(args), constants)

    def column(self, numbers: Expression, node: Node) -> Expression:
        """The number of a row that a scale picks."""
        several = self.nodes[node.args[0]].numbers > 1
        return Column(numbers, node.constants["column"]) if several else numbers

    def _numbers(self, node: Node, s: Expression, constants: tuple) -> Expression:
        rule = node.constants["rule"]
        if rule == "plus":
            return Sum((s, self.constant(node, "c")))
        if rule == "gates":
            beta = self.constant(node, "beta")
            return Call(rule, (beta, s), constants + (("of", self.nodes[node.args[0]].numbers),))
        return Call(rule, (s,), constants)

    def _forward(self, read_out: Node) -> None:
        theory = self.theory
        theory.read_out = read_out.matrix
        theory.top = self.row(read_out.args[0])
        if self.is_followed(read_out):
            theory.output = self.row(self.graph.find(self.limit.output))
        for node in self.nodes.values():
            if node.at in self.symbols and node.word not in FIELDS:
                theory.quantities[str(node.at)] = Quantity(
                    str(node.at), self.symbols[node.at], node.population, self.value(node),
                    numbers=node.numbers, row=node.row,
                    places=node.places)
            elif node.word in FIELDS:   # filled in by _maps, when cotangents are known
                theory.quantities[str(node.at)] = Quantity(
                    str(node.at), self.symbols[node.at], node.population, Process([]),
                    row=node.row, places=node.places)
            if node.word == "penalty":
                theory.penalties.append(Call("penalty", (self.row(node.args[0]),),
                                             self.constants(node)))
            if node.word != "penalty":
                self._selection(node)

    def _selection(self, node: Node) -> None:
        """The biases that a mask moves; one line for all that share them."""
        eta, state = node.constants.get("eta_bias"), self.state(node)
        known = self.theory.selections
        if not eta and not node.constants.get("start") or state in [one.state for one in known]:
            return
        of = self.theory.quantities[str(node.at)]
        share = node.constants["rho"] if node.word == "rows" else \
            node.constants["top"] / node.numbers
        start = node.constants.get("start")
        known.append(Selection(state, of.key, self.bias_symbol(of.symbol), eta, share,
                               tuple(start) if start else None, node.constants["sign"]))

    def bias_symbol(self, mask: Symbol) -> Symbol:
        """b, with a word where trained biases have that letter."""
        trained = any(one.kind == "bias" and self.of_matrix(one.name).base == "b"
                      for one in self.limit.matrices)
        return Symbol("b", ("sel",) if trained else (), mask.indices)

    def state(self, node: Node) -> int:
        """What a mask shares its selection biases by."""
        at = self.graph.masks.get(node.at, node.at)
        state = self.limit.operations[at].state
        return at if state is None else state

    def of_input(self, expression: Expression) -> bool:
        """Whether a row differs from input to input."""
        known = self.theory.quantities
        if isinstance(expression, Call) and expression.word in ("error", "loss_slope"):
            return True
        if isinstance(expression, Ref):
            return known[expression.key].of_input if expression.key in known else \
                not expression.key.startswith("thin:")
        return any(self.of_input(child) for child in expression.children())

    def _order(self) -> None:
        """Thin matrices first, then forward, then backward."""
        every = list(self.theory.quantities.values())
        every.sort(key=lambda one: 0 if one.key.startswith("thin:") else 2 if one.backward else 1)
        self.theory.quantities = {one.key: one for one in every}


def derive(described: Description, again) -> Theory:
    """The theory of a description's limit; again(key, value): the description with this key."""
    return Derivation(described, again).theory
