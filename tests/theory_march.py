"""A march of the single-site processes that a `dmft.theory` structure states, and of nothing else:
sites by Monte Carlo, covariances from kernels, responses by Stein's lemma. For gradient descent on
the squared error of one output, without tokens."""
import numpy as np
from dmft.theory import expression as ex
from dmft.theory import structure as st

FUNCTIONS = {("tanh", 0): np.tanh, ("tanh", 1): lambda h: 1 - np.tanh(h) ** 2,
             ("sigmoid", 0): lambda h: 1 / (1 + np.exp(-h)),
             ("sigmoid", 1): lambda h: 1 / (2 + np.exp(h) + np.exp(-h))}
TOLERANCE = 1e-2


class March:
    """f and loss of each step, of one draw of the sites."""

    def __init__(self, theory, X, y, sites, steps, seed):
        self.theory, self.X, self.y = theory, X, y.reshape(len(X), -1)
        self.phi0 = X @ X.T / X.shape[1]
        self.draw = np.random.default_rng(seed)
        self.sites = []
        for one in theory.populations:
            self.sites.append(sites if one.of is None else self.sites[one.of] * one.group)
        self.met = [np.zeros((0, n)) for n in self.sites]  # orthonormal rows of each population
        self.field = {key: ([], [], []) for key in theory.fields}  # pivots, factor, normals
        self.start, self.past, self.delta = {}, [], []
        self.kernels = {key: {} for key in theory.kernels}
        self.f, self.loss = [], []
        for self.t in range(steps):
            self.now, self.past = {}, self.past + [{}]
            for one in theory.quantities.values():
                if one.backward and len(self.f) == self.t:  # forward is done
                    self.output()
                self.keep(one)

    def keep(self, one):
        value, _ = self.value(one.value, one)
        self.now[one.key] = self.past[-1][one.key] = np.atleast_2d(value), one.population
        if one.population is not None and not one.numbers:
            self.orthogonal(one.population, self.now[one.key][0], 0.05)

    def output(self):
        (h, _), (w, _) = self.value(self.theory.top), self.now["thin:" + self.theory.read_out]
        f = h @ w.T / (h.shape[1] * self.theory.gamma0)
        self.first = self.first if self.t else f
        self.f.append(f - self.first)
        self.delta.append(self.y - self.f[-1])
        self.loss.append((self.delta[-1] ** 2).sum() / 2 / len(self.y))

    def orthogonal(self, at, rows, tolerance):
        """Rows join the orthonormal basis of a population; what is new of each is returned."""
        new = []
        for row in rows:
            left = row.copy()
            for _ in range(2):
                left -= (self.met[at] @ left / self.sites[at]) @ self.met[at]
            size = np.sqrt((left ** 2).mean())
            if size > tolerance * np.sqrt((row ** 2).mean()) and size > 1e-12:
                new.append(left / size)
                self.met[at] = np.vstack([self.met[at], new[-1]])
        return new

    def normals(self, at, count):
        return np.array(self.orthogonal(at, self.draw.normal(size=(count, self.sites[at])), 0.1))

    def value(self, what, one=None):
        """(array inputs x sites, population) of an expression or process."""
        if isinstance(what, st.Process):
            terms = [self.term(term, one) for term in what.terms]
            return (sum(terms) if terms else np.zeros(self.sites[one.population])), one.population
        if isinstance(what, ex.Scale):
            return what.value, None
        if isinstance(what, ex.Ref):
            return self.now[what.key]
        parts = [self.value(child) for child in what.children()]
        if isinstance(what, ex.Apply):
            return FUNCTIONS[what.function, what.order](parts[0][0]), parts[0][1]
        if isinstance(what, ex.Mean) and what.over == "group":
            group, of = (getattr(self.theory.populations[parts[0][1]], key)
                         for key in ("group", "of"))
            return parts[0][0].reshape(-1, self.sites[of], group).mean(2), of
        if isinstance(what, (ex.Sum, ex.Product)):
            at = max((at for _, at in parts if at is not None), default=None)
            parts = [value if where in (None, at) else
                     np.repeat(value, self.sites[at] // self.sites[where], axis=1)
                     for value, where in parts]
            parts = np.array(np.broadcast_arrays(*parts))
            return parts.sum(0) if isinstance(what, ex.Sum) else parts.prod(0), at
        if isinstance(what, ex.Column):
            return parts[0][0][:, [what.column]], None
        if isinstance(what, ex.Mean) and what.over == "sites":
            return parts[0][0].mean(1, keepdims=True), None
        if isinstance(what, ex.Call):
            return getattr(self, what.word)(what, *(value for value, _ in parts)), \
                parts[-1][1] if what.word in ("look_back", "error") else None
        raise NotImplementedError(what)

    @staticmethod
    def look(_, columns, x):
        return x @ columns.T / x.shape[1]

    @staticmethod
    def look_back(_, g, columns):
        return g @ columns

    def error(self, _, columns):
        return self.delta[-1] @ columns

    @staticmethod
    def columns(_, *numbers):
        return np.hstack(numbers)

    @staticmethod
    def gates(what, beta, s):
        """A softmax over the largest."""
        least = np.sort(s, axis=1)[:, [-what["top"]]]
        weights = np.where(s >= least, np.exp(beta * s), 0)
        return weights / weights.sum(1, keepdims=True)

    @staticmethod
    def gates_back(_, beta, p, g, s):
        return beta * p * (g - (p * g).sum(1, keepdims=True))

    def term(self, term, one):
        if isinstance(term, st.FieldTerm):
            return self.gaussian(term.field)
        if isinstance(term, st.Start) and term.values:
            return np.array([term.values])
        if isinstance(term, st.Start) and one.numbers:
            if one.key not in self.start:
                self.start[one.key] = term.amplitude.value * self.normals(one.population,
                                                                          one.numbers)
            return self.start[one.key]
        if isinstance(term, st.Start):
            if one.key not in self.start:
                self.start[one.key] = term.amplitude.value * self.normals(one.population, 1)
            return self.start[one.key]
        if getattr(term, "column", False):
            return self.column(term, one)
        rows = [self.at(term.row, s) for s in range(self.t + getattr(term, "now", False))]
        if isinstance(term, st.Memory):
            return self.memory(self.theory.responses[term.response], rows, one)
        c = term.rate.value * self.theory.eta0 * self.theory.gamma0 / len(self.y)
        total = np.zeros((1, self.sites[one.population]))
        for s, row in enumerate(rows):
            kernel = 1.0 if term.kernel is None else self.phi0 \
                if term.kernel == "inputs" else self.kernel(term.kernel, self.t, s)
            error = self.delta[s].T if term.delta else np.ones((1, len(self.y)))
            total = total + (kernel * error) @ np.broadcast_to(row, (len(self.y), row.shape[1]))
        return c * total

    def column(self, term, one):
        """What Q_k and b_k learn."""
        c = term.rate.value * self.theory.eta0 * self.theory.gamma0 / len(self.y)
        of_sites = isinstance(term.row, ex.Product)
        g, x = (term.row.factors[0].arguments[0], term.row.factors[1]) if of_sites else \
            (term.row, ex.ONE)
        total = np.zeros((one.numbers, self.sites[one.population] if of_sites else 1))
        for s in range(self.t):
            error = self.delta[s] * self.at(g, s)
            total += c * error.T @ (self.at(x, s) if of_sites else np.ones((len(self.y), 1)))
        return total if of_sites else total.T

    def at(self, row, s):
        """A row of an earlier step."""
        now, self.now = self.now, self.past[s]
        value, self.now = self.value(row)[0], now
        return value

    def kernel(self, key, t, s):
        """K(t,s) over the inputs of both, measured."""
        if (t, s) not in self.kernels[key]:
            left, right = (self.at(self.theory.kernels[key].row, when) for when in (t, s))
            self.kernels[key][t, s] = left @ right.T / left.shape[1]
        return self.kernels[key][t, s]

    def gaussian(self, key):
        """The field at this step, of its covariance with all steps before."""
        field, (pivots, factor, normals) = self.theory.fields[key], self.field[key]
        if field.kernel is None and self.t:
            return self.past[0]["field" + key]

        def covariance(row, other):
            matrix = self.phi0 if field.kernel is None else \
                self.kernel(field.kernel, row[0], other[0])
            return field.scale.value * matrix[row[1], other[1]]
        rows = len(self.X) if field.kernel is None or self.theory.kernels[field.kernel].of_input \
            else 1
        made = np.zeros((rows, self.sites[field.population]))
        for mu in range(rows):
            here, known = (self.t, mu), []
            for k, pivot in enumerate(pivots):
                known.append((covariance(here, pivot) - np.dot(known, factor[k][:k])) /
                             factor[k][k])
            size = covariance(here, here)
            left = size - np.dot(known, known)
            if left > TOLERANCE ** 2 * size:
                known.append(np.sqrt(left))
                pivots.append(here)
                factor.append(known)
                normals.append(self.normals(field.population, 1)[0])
            made[mu] = np.dot(known, np.array(normals)[:len(known)]) if known else 0
        self.past[self.t]["field" + key] = made
        return made

    def memory(self, response, rows, one):
        """sum over s of R(t,s) row(s), R = scale <d x(t)/d field(s)> from <x e> = sum R L."""
        pivots, factor, normals = self.field[response.field]
        if not pivots:
            return np.zeros(self.sites[one.population])
        x = self.at(response.row, self.t)
        lower = np.zeros((len(pivots), len(pivots)))
        for k, line in enumerate(factor):
            lower[k, :k + 1] = line
        slopes = np.linalg.solve(lower.T, np.array(normals) @ x.T / x.shape[1])
        return response.scale.value * slopes.T @ np.array([rows[s][mu] for s, mu in pivots])
