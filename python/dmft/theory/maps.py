"""What matrices make: the processes of maps and read-ins, of the columns of thin matrices, their
fields, responses, kernels, and what Adam and its like teach their entries, or Muon the matrix."""
from __future__ import annotations

import math

from dmft.scaling import BY_ENTRY, BY_MATRIX, parts_of, side_of
from dmft.theory import names
from dmft.theory.expression import ONE, Call, Expression, Ref, Scale, number, product
from dmft.theory.graph import Node
from dmft.theory.structure import (Entries, Field, FieldTerm, Kernel, Learned, Learner, Memory,
                                   Process, Quantity, Response, Start, Symbol)


class Matrices:
    """Fills the processes of a derivation, whose forward rows and cotangents are known."""

    def __init__(self, derivation):
        self.d, self.limit, self.theory = derivation, derivation.limit, derivation.theory
        self.nodes, self.adjoint = derivation.nodes, derivation.adjoint
        self.uses, self.made, self.of = {}, {}, {}  # by matrix; kernels by row; learners by matrix
        for node in self.nodes.values():
            if node.word == "map":
                self.uses.setdefault(node.matrix, []).append(node)
        for node in self.nodes.values():
            if node.word == "read_in":
                self._read_in(node)
            elif node.word == "map":
                self._map(node)
        for node in self.nodes.values():
            if node.word in ("vector", "embed", "look", "bias", "read_out"):
                self._thin(node)

    def kernel(self, row: Expression, population: int, at: int, backward: bool) -> str:
        """The key of the kernel of a row; it is made at the first call."""
        if (row, population) in self.made:
            return self.made[row, population]
        measured = self._measured(row, at, backward)
        base = r"\Gamma" if backward else r"\Phi"
        if measured and measured.scale == 1:
            symbol = names.of(measured.name, self.d.experts.has(
                self.d.graph.find(measured.operation), measured.name))
        elif row == Ref("thin:" + self.theory.read_out):
            symbol = names.cotangent(self.d.of_matrix(self.theory.read_out))
            symbol = Symbol(base, symbol.words, symbol.indices)
        elif isinstance(row, Ref) and row.key in self.theory.quantities:
            inner = self.theory.quantities[row.key].symbol
            words = inner.words if inner.base in ("x", "g") else (inner.base, *inner.words)
            symbol = Symbol(base, words, inner.indices)
        else:
            inner = self.d.symbols.get(at, Symbol("x"))
            symbol = Symbol(base, (inner.base, *inner.words), inner.indices)
        key = self.made[row, population] = f"{'G' if backward else 'P'}{at}"
        self.theory.kernels[key] = Kernel(
            key, self.d.unique(symbol, ("kernel", key)), population, row, self.d.of_input(row),
            measured.name if measured else None, measured.scale if measured else 1.0)
        return key

    def _measured(self, row: Expression, at: int, backward: bool):
        """The kernel of result files that is of this row."""
        if row == Ref("thin:" + self.theory.read_out):
            for one in self.limit.kernels:
                if self.limit.operations[one.operation].operation == "read_out":
                    return one
        for one in self.limit.kernels:
            place = self.d.graph.find(one.operation)
            if self.limit.operations[one.operation].operation != "read_out" and \
                    one.cotangent == backward and \
                    (self.adjoint.named(place) == row if backward else place == at):
                return one
        return None

    # --- what moves ---------------------------------------------------------------------------

    def moves(self, name: str) -> bool:
        """Whether what a matrix learns has a limit that is not 0."""
        return self.d.matrix(name).learns and self.rate(name).value != 0

    def optimizer(self, name: str) -> str:
        """That which moves a matrix."""
        return self.d.matrix(name).optimizer

    def summed(self, name: str) -> bool:
        """Whether what a matrix learns is a sum of its gradients with weights of their times."""
        return self.optimizer(name) in BY_MATRIX

    def rate(self, name: str) -> Scale:
        """The rate that the optimizer has."""
        optimizer = self.optimizer(name)
        key = "rate" if optimizer in BY_MATRIX else \
            "adam_rate" if optimizer in BY_ENTRY else "muon_rate"
        return self.d.scale(lambda p: getattr(p.matrix(name), key) if p.matrix(name).learns
                            else 0.0)

    def kinds(self, name: str) -> int:
        """Of a bias with numbers for each kind of token: how many kinds."""
        sets = self.d.matrix(name).sets
        return sets if sets > 1 else 0

    def decays(self, name: str) -> float:
        """The part of weight decay that acts on a matrix."""
        return self.d.matrix(name).decays if self.theory.training.get("weight_decay") else 0.0

    def learner(self, name: str, *gradient) -> None:
        """The entries of a matrix move, by the gradient of one use of it among others."""
        matrix = self.d.matrix(name)
        whole = matrix.muon_whole and ("whole", matrix.muon_whole)
        if name in self.of or whole in self.of:
            one = self.of.get(name) or self.of[whole]
            one.gradient += (gradient,)
            if one.matrix != name:
                one.parts += ((name, self.d.of_matrix(name)),)
            return
        out = matrix.kind == "read_out"
        eps = self.d.scale(lambda p: p.matrix(name).adam_eps)
        if not out:
            eps = eps * Scale(self.theory.gamma0, 1.0, ((r"\gamma_0", 1.0),))
        self.theory.learners.append(Learner(
            name, self.d.of_matrix(name), self.rate(name), eps, (gradient,), matrix.kind,
            out or not self.theory.weighted, self.decays(name),
            self.d.scale(lambda p: p.matrix(name).rate), matrix.optimizer, self.kinds(name),
            "rows" if matrix.muon_rows else "columns" if matrix.muon_columns else ""))
        one = self.of[name] = self.theory.learners[-1]
        parts = parts_of(self.limit, matrix)
        if len(parts) > 1:
            count = len(parts)
            self.of[whole] = one
            one.rate *= Scale(math.sqrt(count), 1.0, ((str(count), 0.5),))
            one.parts = ((name, one.symbol),)
            one.heads = ("rows", "columns")[side_of(self.limit, parts)]

    # --- processes ----------------------------------------------------------------------------

    def _read_in(self, node: Node) -> None:
        theory, name = self.theory, node.matrix
        symbol, scale = self.d.of_matrix(name), self.d.forward_scale(name)
        terms, g = [], self.adjoint.named(node.at)
        if scale.value:
            key = f"u{node.at}"
            theory.fields[key] = Field(key, names.like("u", symbol), node.population, scale, None,
                                       key)
            terms.append(FieldTerm(key))
        if g is not None and self.moves(name):
            if not self.summed(name):
                terms.append(Entries(name, None))
                self.learner(name, g, None)
            else:
                terms.append(Learned(self.rate(name), "inputs", g, not theory.weighted))
        theory.quantities[str(node.at)].value = Process(terms, decays=self.decays(name))

    def _symbol(self, node: Node) -> Symbol:
        """That of a matrix, with the number of this use where there are several."""
        symbol = self.d.of_matrix(node.matrix)
        use = self.d.symbols[node.at].indices[-1:] if self.d.matrix(node.matrix).uses > 1 else ()
        return Symbol(symbol.base, symbol.words, symbol.indices + use)

    def _phi(self, node: Node) -> str | None:
        """The kernel of what a map reads; of a row of ones that starts at zero none: 1."""
        x, of = self.d.row(node.args[0]), self.nodes[node.args[0]]
        if x == ONE and not self.d.forward_scale(node.matrix).value:
            return None
        return self.kernel(x, of.population, node.args[0], False)

    def _gamma(self, node: Node) -> str | None:
        """The kernel of what a map is handed back; None where it hands nothing on."""
        g = self.adjoint.named(node.at)
        if f"back{node.at}" not in self.theory.quantities:
            return None
        return self.kernel(g, node.population, node.at, True)

    def _map(self, node: Node) -> None:
        uses = self.uses[node.matrix]
        mine = uses.index(node) if self.d.matrix(node.matrix).uses > 1 else None
        back = self.theory.quantities.get(f"back{node.at}")
        self._fields(node, back)
        every = [(0, node)] if mine is None else list(enumerate(uses))
        for terms, of_use in ((self._forward_terms, node), (self._backward_terms, back)):
            if of_use is None:
                continue
            made = terms(node, every)
            key = str(node.at) if of_use is node else back.key
            self.theory.quantities[key].value = Process(made, mine, self.decays(node.matrix))
        g = self.adjoint.named(node.at)
        if self.moves(node.matrix) and not self.summed(node.matrix) and g is not None:
            self.learner(node.matrix, g, self.d.row(node.args[0]))

    def _fields(self, node: Node, back) -> None:
        theory, name, symbol = self.theory, node.matrix, self._symbol(node)
        forward, backward = self.d.forward_scale(name), self.d.backward_scale(name)
        phi, gamma = self._phi(node), self._gamma(node)
        if forward.value:
            theory.fields[f"u{node.at}"] = Field(f"u{node.at}", names.like("u", symbol),
                                                 node.population, forward, phi, "u" + name)
        if back is not None and backward.value:
            theory.fields[f"v{node.at}"] = Field(f"v{node.at}", names.like("v", symbol),
                                                 back.population, backward, gamma, "v" + name, True)

    def _response(self, base: str, node: Node, other: Node, row: Expression) -> str:
        """The response of a row of one use to the field of another."""
        theory, forward = self.theory, base == "B"
        key = f"{base}{node.at}" if node is other else f"{base}{node.at}_{other.at}"
        name = node.matrix
        theory.responses[key] = Response(
            key, names.like(base, self._symbol(node)),
            self.d.forward_scale(name) if forward else self.d.backward_scale(name), row,
            f"{'u' if forward else 'v'}{other.at}", forward)
        return key

    def _forward_terms(self, node: Node, every: list) -> list:
        theory, name, x = self.theory, node.matrix, self.d.row(node.args[0])
        terms = [FieldTerm(f"u{node.at}")] if self.d.forward_scale(name).value else []
        moves, summed, phi = self.moves(name), self.summed(name), self._phi(node)
        for use, other in every:
            g = self.adjoint.named(other.at)
            if g is None:
                continue
            handed = f"back{other.at}" in theory.quantities
            if handed and self.d.backward_scale(name).value:
                terms.append(Memory(self._response("A", node, other, x), g, False, use))
            if moves and summed:
                terms.append(Learned(self.rate(name), phi, g, not theory.weighted, use=use,
                                     past=self._phi(other) if other is not node else None))
        if moves and not summed:
            terms.append(Entries(name, x))
        return terms

    def _backward_terms(self, node: Node, every: list) -> list:
        theory, name, g = self.theory, node.matrix, self.adjoint.named(node.at)
        moves, summed, gamma = self.moves(name), self.summed(name), self._gamma(node)
        terms = [FieldTerm(f"v{node.at}")] if self.d.backward_scale(name).value else []
        for use, other in every:
            x = self.d.row(other.args[0])
            if self.d.forward_scale(name).value:
                terms.append(Memory(self._response("B", node, other, g), x, True, use))
        for use, other in every:
            past = self.adjoint.named(other.at)
            if moves and summed and past is not None:
                terms.append(Learned(
                    self.rate(name), gamma, self.d.row(other.args[0]), not theory.weighted,
                    use=use, past=self.kernel(past, other.population, other.at, True)
                    if other is not node else None))
        if moves and not summed:
            terms.append(Entries(name, g, True))
        return terms

    def _thin(self, node: Node) -> None:
        """The columns of an embedding, a look, a vector, a bias or the read-out, and what these
        learn, of one use after the other."""
        theory, d, name = self.theory, self.d, node.matrix
        matrix, key = d.matrix(name), "thin:" + name
        alone = node.word in ("bias", "vector")         # it reads no rows
        if key not in theory.quantities:
            given = matrix.start and (node.word == "bias" or any(matrix.start))
            start = Start(d.of_matrix(name), number(0.0) if matrix.start else d.amplitude(name),
                          tuple(matrix.start) if given else None)
            on = node if alone or node.word == "embed" else self.nodes[node.args[0]]
            theory.quantities[key] = Quantity(
                key, d.of_matrix(name), on.population,
                Process([start], decays=self.decays(name)), of_input=False,
                numbers=matrix.width if matrix.width > 1 else 0, row="all", kinds=self.kinds(name))
        terms = theory.quantities[key].value.terms
        row = None if alone else d.row(node.args[0])
        g = None if node.word == "read_out" else self.adjoint.named(node.at)
        if node.word == "embed":        # numbers and rows, as a look has them
            g, row = (row, g) if g is not None else (None, None)
        if not self.moves(name) or (g is None and node.word != "read_out"):
            return
        if not self.summed(name):
            if d.is_tied(node) and g is None:
                g = Ref("delta")
            terms += [] if name in self.of else [Entries(name, None)]
            self.learner(name, g, row)
        elif node.word == "read_out":
            terms.append(Learned(self.rate(name), None, row, True, output=theory.outputs > 1))
        else:
            if node.word in ("embed", "look"):
                g = product(Call("entry", (g,)) if matrix.width > 1 else g, row)
            terms.append(Learned(self.rate(name), None, g, not theory.weighted,
                                 column=node.word != "vector", kinds=self.kinds(name)))
