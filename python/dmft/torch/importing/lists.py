"""What a Writer makes of tokens and lists of numbers: embeddings that read in and out, constants of
each kind of token, noise, and numbers that are put side by side."""
from __future__ import annotations

from dmft.torch.importing.expressions import Expression, Gap


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
        source, leaves = one.data
        net, on = self.network, self.population(one.population)
        if source == "feature":
            part = self._part("read_in", leaves, one, more=len(leaves) ** 0.5)
            return net.read_in(on, self._weight(part))
        if id(one) in self._embedded:
            _, weight = self._embedding(one, leaves)
        else:
            weight = self._weight(self._part("embed", leaves, one))
        first = 1
        if source == "place":
            if self._of_numbers:
                raise Gap("a trained table of places beside inputs that are numbers, of which no "
                          "program knows the places")
            first = net.vocabulary + 1
        return net.embed(net.input(first, first + (len(leaves) - 1)), on, weight)

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
        if not self.letters:
            raise Gap("a window or bias of attention between rows of numbers, of which no program "
                      "knows the places")
        first = self.network.vocabulary + 1
        places = self.network.input(first, first + (len(one.data) - 1))
        return self.network.mix(places, [list(row) for row in one.data])

    # --- lists -----------------------------------------------------------------------------------

    def _write_list(self, one):
        """Numbers that are computed one by one, each times a list of 0 and 1."""
        K, known = len(one.arguments), [0.0] * len(one.arguments)
        total = None
        for k, argument in enumerate(one.arguments):
            if argument.operation == "constant":
                if argument.data[0] != argument.data[1]:
                    raise Gap("a list of numbers of which one goes with the width")
                known[k] = argument.data[0]
                continue
            unit = tuple(float(j == k) for j in range(K))
            part = self._known(argument) * self._list(unit)
            total = part if total is None else total + part
        if any(known):
            total = self._list(tuple(known)) if total is None else total + self._list(tuple(known))
        return total

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
