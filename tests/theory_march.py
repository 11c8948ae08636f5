"""A march of the single-site processes that a `dmft.theory` structure states, and of nothing else:
sites by Monte Carlo, covariances from kernels, responses by Stein's lemma. It takes single steps of
every optimizer, and tests/theory_words.py says what each expression is worth."""
import numpy as np
from dmft.theory import expression as ex
from dmft.theory import structure as st
from theory_draws import Basis, Draw
from theory_optimizers import Optimizers
from theory_words import Words

class March(Words, Optimizers):
    """f of each step, of one draw of the sites. few: sites of populations whose every site has
    infinitely many of another, and how many of these each has."""

    def __init__(self, theory, data, sites, few, steps, seed):
        self.theory, self.n, self.inputs = theory, theory.tokens, theory.inputs
        self.read(data)
        self.draw = np.random.default_rng(seed)
        self.sites = self.populations(sites, few)
        self.basis = {at: Basis(self.sites[at]) for at in self.drawn()}
        self.draws = {one.draw: Draw() for one in theory.fields.values()}
        self.start, self.past, self.delta, self.f, self.first = {}, [], [], [], 0
        self.begin()
        for self.t in range(steps):
            self.now, self.past = {}, self.past + [{}]
            for one in theory.quantities.values():
                if one.backward and len(self.f) == self.t:  # forward is done
                    self.output()
                self.keep(one)
            self.step()

    def read(self, data):
        X = data["X"].values
        self.X = X.reshape(-1, X.shape[-1])
        self.A = self.X / np.sqrt(X.shape[-1])
        self.y = data["y"].values
        if "tokens" in data:
            self.kinds = data["tokens"].values.ravel()

    def populations(self, sites, few):
        every, count = self.theory.populations, []
        pairs = {at for one in every if one.of is not None and one.group_power
                 for at in (one.of, one.shared)}
        outer = {one.of for one in every}
        for at, one in enumerate(every):
            if one.of is None:
                count.append(few[at not in outer] if at in pairs else sites)
            else:
                count.append(count[one.of] * (few[1] if one.group_power else one.group))
        return count

    def drawn(self):
        """Populations that normals are drawn on."""
        every = [one.population for one in self.theory.fields.values()]
        every += [one.population for one in self.theory.quantities.values()
                  if one.key.startswith("thin:") and one.population is not None]
        return {at if self.theory.populations[at].shared is None else
                self.theory.populations[at].shared for at in every}

    def keep(self, one):
        """Computes a quantity, with a row for each of its own."""
        value, _ = self.process(one) if isinstance(one.value, st.Process) else \
            self.expression(one.value)
        rows = {"input": self.inputs, "token": self.inputs * self.n,
                "pair": self.inputs * self.n ** 2,
                "place": self.inputs * (one.places or 0)}.get(one.row, 1)
        value = np.atleast_2d(value)
        if one.of_input and len(value) < rows:
            value = np.repeat(value, rows // len(value), axis=0)
        if one.key == "delta":
            self.delta[-1] = value
        self.now[one.key] = self.past[-1][one.key] = value, one.population
        if one.population in self.basis and not one.numbers:
            self.basis[one.population].join(value, 0.05)

    def output(self):
        """f, and Delta of the loss."""
        w = self.now["thin:" + self.theory.read_out][0]
        f = self.expression(self.theory.output)[0] if self.theory.output else \
            self.read_out(None, w, self.expression(self.theory.top)[0])
        y = self.y.reshape(f.shape)
        slope = {"mse": lambda: y - f, "huber": lambda: np.clip(y - f, -1, 1),
                 "logistic": lambda: y / (1 + np.exp(y * f)), "hinge": lambda: y * (y * f < 1),
                 "cross_entropy": lambda: y - np.exp(f) / np.exp(f).sum(1, keepdims=True)}
        self.f.append(f)
        self.slope = slope[self.theory.loss]() * (self.inputs / len(f))
        self.delta.append(None if self.theory.output else self.slope)

    # --- draws --------------------------------------------------------------------------------

    def fresh(self, at, sign=1):
        """A normal that is orthogonal to all rows of its population. Groups of infinitely many
        sites may have the same one, and mirror images in it: backward fields have the opposite
        sign (sign) where forward ones are equal."""
        shared = self.theory.populations[at].shared
        if shared is not None:
            half = self.draw.normal(size=self.sites[shared] // 2)
            normal = self.basis[shared].new_of(np.append(half, sign * half), 0.1)
            return np.tile(normal, self.sites[at] // self.sites[shared])
        return self.basis[at].new_of(self.draw.normal(size=self.sites[at]), 0.1)

    def at(self, row, s):
        """A row of an earlier step, or of this one."""
        known = self.past[s]
        if s < self.t and row in known:
            return known[row]
        now, self.now = self.now, known
        value, self.now = np.atleast_2d(self.expression(row)[0]), now
        if s < self.t:
            known[row] = value
        return value

    def gaussian(self, key):
        """A field at this step, of its covariance with all that was drawn together with it."""
        field = self.theory.fields[key]
        rows, size = self.A, 1
        if field.kernel is not None:
            rows = self.at(self.theory.kernels[field.kernel].row, self.t)
            size = rows.shape[1]
        sign = -1 if field.backward else 1
        made = np.zeros((len(rows), self.sites[field.population]))
        for mu, row in enumerate(rows):
            made[mu] = self.draws[field.draw].row(row, field.scale.value / size, (key, self.t, mu),
                                                  lambda: self.fresh(field.population, sign))
        return made

    # --- processes ----------------------------------------------------------------------------

    def process(self, one):
        """The sum of the terms of a process; what comes from the start has decayed."""
        total, kept = 0, self.kept(self.t, one.value.decays)
        for term in one.value.terms:
            front = kept if isinstance(term, (st.FieldTerm, st.Start, st.Memory)) else 1
            total = total + front * self.term(term, one)
        if not np.ndim(total):
            total = np.zeros((1, one.numbers if one.population is None else
                              self.sites[one.population]))
        return total, one.population

    def term(self, term, one):
        if isinstance(term, st.FieldTerm):
            return self.gaussian(term.field)
        if isinstance(term, st.Start):
            return self.first_value(term, one)
        if isinstance(term, st.Memory):
            return self.memory(term, one)
        if isinstance(term, st.Entries):
            return self.entries(term)
        return self.column(term, one) if term.column else self.learned(term, one)

    def first_value(self, term, one):
        """What a thin matrix or a bias starts from."""
        if one.key not in self.start:
            count = one.numbers or 1
            if term.values and one.population is not None:
                made = np.full((1, self.sites[one.population]), term.values[0])
            elif term.values:
                made = np.reshape(term.values, (-1, count))
            elif one.population is None or not term.amplitude.value:
                made = np.zeros((1 if one.population is None else count,
                                 count if one.population is None else self.sites[one.population]))
            else:
                made = term.amplitude.value * np.array([self.fresh(one.population)
                                                        for _ in range(count)])
            self.start[one.key] = made
        return self.start[one.key]

    def memory(self, term, one):
        """sum over s of R(t,s) row(s), R = scale <d x(t)/d field(s)>."""
        response = self.theory.responses[term.response]
        draw = self.draws[self.theory.fields[response.field].draw]
        slopes = response.scale.value * draw.slopes(self.at(response.row, self.t)) \
            if draw.places else []
        which = [k for k, (key, s, _) in enumerate(draw.places)
                 if key == response.field and s < self.t + term.now]
        if not which:
            return np.zeros((1, self.sites[one.population]))
        rows = [self.at(term.row, draw.places[k][1])[draw.places[k][2]] for k in which]
        return slopes[which].T @ np.array(rows)

    def learned(self, term, one):
        """c rate sum over s < t of omega(t,s) [Delta(s)] kernel(t,s) row(s)."""
        total = np.zeros((1, self.sites[one.population]))
        for s in range(self.t):
            row = self.at(term.row, s)
            kernel = np.ones((1, 1)) if term.kernel is None else self.A @ self.A.T \
                if term.kernel == "inputs" else self.overlap(term, s)
            if term.delta:
                kernel = kernel * self.delta[s].T
            if kernel.shape[1] != len(row):
                kernel = np.broadcast_to(kernel, (len(kernel), max(kernel.shape[1], len(row))))
                row = np.broadcast_to(row, (kernel.shape[1], row.shape[1]))
            total = total + self.omega(self.t, s, one.value.decays) * kernel @ row
        return self.c(term) * total

    def c(self, term):
        return term.rate.value * self.theory.rest[1] * self.theory.gamma0 / self.inputs

    def overlap(self, term, s):
        """A kernel, or between two uses of a matrix."""
        left = self.theory.kernels[term.kernel]
        right = self.theory.kernels[term.past or term.kernel]
        x = self.at(left.row, self.t)
        return x @ self.at(right.row, s).T / x.shape[1]

    def column(self, term, one):
        """What Q_k and b_k learn."""
        total = sum(self.omega(self.t, s, one.value.decays) * self.gradient_of(term, s)
                    for s in range(self.t))
        total = self.c(term) * total
        return total if isinstance(term.row, ex.Product) or not np.ndim(total) else total.T

    def gradient_of(self, term, s=None):
        """sum over inputs of [Delta] g x of a thin matrix at a step."""
        s = self.t if s is None else s
        of_sites = isinstance(term.row, ex.Product)
        g, x = (term.row.factors[0], term.row.factors[1]) if of_sites else (term.row, ex.ONE)
        g = g.arguments[0] if isinstance(g, ex.Call) and g.word == "entry" else g
        if not term.column:             # the read-out, or a vector
            g = self.at(g, s)
            error = self.delta[s] if term.delta else np.ones((len(g), 1))
            return error.T @ np.broadcast_to(g, (len(error), g.shape[1]))
        error = (self.delta[s] if term.delta else 1) * self.at(g, s)
        x = self.at(x, s) if of_sites else np.eye(term.kinds)[self.kinds] if term.kinds else \
            np.ones((len(error), 1))
        return error.T @ x
