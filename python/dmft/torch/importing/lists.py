"""What a Writer makes of tokens and lists of numbers: embeddings that read in and out, constants of
each kind of token, noise, and numbers that are put side by side."""
from __future__ import annotations

from dmft.torch.importing.expressions import Expression, Gap
from dmft.torch.importing.tables import formula


class Lists:
    """A part of Writer. `sums`: looks by an embedding, with the factor, at both widths, by which
    the module's sum is the program's mean."""
    sums: list

    # --- embeddings that read in and out ---------------------------------------------------------

    def _look_of_embedding(self, operation, one: Expression, x, *more):
        """Numbers by an embedding, which has means over sites where a module has sums."""
        part, weight = self._embedding(one, one.data[0])
        sizes = one.arguments[0].population.find().sizes
        k = tuple(size * one.data[0][0].factor[0] / part.at(N) for size, N in zip(
            sizes, self.widths))
        self.sums.append((one, k))
        return self.number(k) * operation(x, *more, weight)

    def _embedding(self, one: Expression, leaves):
        """(the part, the matrix) of an embedding that reads in and out."""
        key = tuple(leaf.key() for leaf in leaves)
        if key not in self._embeddings:
            part = self._part("embed", leaves, one)
            self._embeddings[key] = part, self._weight(part, tied=True)
        return self._embeddings[key]

    def _write_read_in(self, one):
        """Numbers of an input by a read-in, letters and places each by an embedding."""
        source, leaves, *some = one.data
        net, on = self.network, self.population(one.population)
        if source == "feature":
            part = self._part("read_in", leaves, one, more=len(leaves) ** 0.5)
            return net.read_in(on, self._weight(part))
        if id(one) in self._embedded:
            _, weight = self._embedding(one, leaves)
        else:
            weight = self._weight(self._part("embed", leaves, one))
        if source == "numbers":
            return net.embed(self._known(one.arguments[0]), on, weight)
        if some:
            return net.embed(self._letters_of(some[0].which), on,
                             weight | ({"fixed": True} if some[0].fixed else {}))
        if source == "place":
            return net.embed(self._flags_of_places(), on, weight)
        return net.embed(net.input(1, len(leaves)), on, weight)

    def _flags_of_places(self):
        """Of each token as many numbers as there are, 1 at its place and else 0."""
        net = self.network
        if self.letters:
            return net.input(net.vocabulary + 1, net.vocabulary + self.tokens)
        if self._flags is None:
            on = next(iter(self._populations.values()), None)
            on = net.population("places") if on is None else on
            self._flags = net.join([net.mean(net.constant(on, net.function(
                "u, s", f"s == {k + 1} and 1 or 0"))) for k in range(self.tokens)])
        return self._flags

    def _number_of_token(self, one):
        """A constant of each token."""
        if any(a != b for a, b in one.data):
            raise Gap("a constant of each token that goes with the width; let the "
                      "constants be the same at every width, and multiply behind them")
        return self.network.sum(self._flags_of_places() * self._list(
            tuple(values[0] for values in one.data)))

    def _letters_of(self, which):
        """Flags of some kinds of tokens, which lie side by side but for gaps."""
        ends = [k for k in range(1, len(which)) if which[k] != which[k - 1] + 1]
        runs = [which[a:b] for a, b in zip([0, *ends], [*ends, len(which)])]
        parts = [self.network.input(run[0] + 1, run[-1] + 1) for run in runs]
        return parts[0] if len(parts) == 1 else self.network.join(parts)

    # --- flags of tokens ---------------------------------------------------------------------

    def _write_feature(self, one):
        """One of the numbers of an input."""
        return self.network.input(one.data[0] + 1, one.data[0] + 1)

    def _write_letter(self, one):
        """1 for tokens of one kind, else 0."""
        return self.network.input(one.data[0] + 1, one.data[0] + 1)

    def _write_of_source(self, one):
        """Numbers of the token attended to: attention logits of rows of ones."""
        on = next(iter(self._populations.values()), None)
        if on is None:
            on = self.network.population("places")
        ones = self._constant_rows(on, 1.0)
        return self.network.attend(ones, self._known(one.arguments[0])[0] * ones)

    def _write_of_pair(self, one):
        """A constant for each token and each that it attends to."""
        return self.network.mix(self._flags_of_places(), [list(row) for row in one.data])

    def _table(self, table: Expression, one: Expression):
        if table.operation == "of_token":
            laws = [self.number(values) for values in table.data]
            if not all(isinstance(law, float) for law in laws):
                raise Gap("a constant of each token that goes with the width; let the "
                          "constants be the same at every width, and multiply behind them")
            text = "({" + ", ".join(map(repr, laws)) + "})[s]" \
                + " or 0" * (len(laws) < self.tokens)
        else:
            text = formula(table.data[0], self.population(one.population)._text + ".size")
        found = self.network.constant(self.population(one.population),
                                      self.network.function("u, s", text))
        fewer = table.operation == "of_token" and len(table.data) < self.tokens
        return self.network.mix(found, [[float(s == t) for t in range(self.tokens)] for s in range(
            len(table.data))]) if fewer else found

    # --- lists -----------------------------------------------------------------------------------

    def _write_list(self, one):
        """Numbers that are computed one by one."""
        for argument in one.arguments:
            if argument.operation == "constant" and argument.data[0] != argument.data[1]:
                raise Gap("a list of numbers of which one goes with the width; let the "
                          "constants be the same at every width, and multiply behind them")
        return self.network.join(self._met(one))

    def _write_of_letter(self, one):
        """A constant of each kind of token."""
        name = f"letters_{sum(other.operation == 'of_letter' for other in self._written) + 1}"
        self._written.append(one)
        self.letters = len(one.data)
        return self.network.bias(self._list((0.0,)), [[value] for value in one.data],
                                 {"name": name, "rate": 0})

    def _write_noise(self, one):
        self.noises.append(one)
        if one.is_rows:
            like = self._constant_rows(self.population(one.population), 1.0)
            return self.network.noise(like if "token" in one.axes else self.network.pool(like))
        like = self._list((0.0,) * one.width)
        return self.network.noise(like if "token" in one.axes or not self.letters else
                                  self.network.pool(like))

    def _list(self, values):
        """Constant numbers side by side."""
        if values not in self._lists:
            self._lists[values] = self.network.scalar(
                {"name": f"list_{len(self._lists) + 1}", "start": list(values), "rate": 0})
        return self._lists[values]
