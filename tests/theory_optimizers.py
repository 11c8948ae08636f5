"""Steps of the optimizers that a dmft.theory structure names, for tests/theory_march.py."""
import numpy as np
from dmft.theory import expression as ex
from dmft.theory import structure as st
from theory_muon import Whole


class Optimizers:
    """Momentum and schedules as weights omega of earlier gradients; entries; selection biases."""

    def begin(self):
        self.entry = {one.matrix: 0.0 for one in self.theory.learners}
        self.moments = {one.matrix: (0.0, 0.0) for one in self.theory.learners}
        self.wholes = {one.matrix: Whole(one, self.units(one), self.theory.training)
                       for one in self.theory.learners if one.optimizer == "muon"}
        self.parts = {matrix: (one.matrix, k) for one in self.theory.learners
                      for k, (matrix, _) in enumerate(one.parts)}
        self.bias = {one.state: 0.0 if one.start is None else np.array([one.start])
                     for one in self.theory.selections}
        self.training, self.chi = self.theory.training, []

    def factor(self, r):
        """That of the schedule."""
        training = self.training
        if training["schedule"] == "constant" and not training["warmup"]:
            return 1.0
        if r < training["warmup"]:
            return r / training["warmup"]
        assert training["schedule"] == "cosine"
        end, last = training["schedule_end"], training["schedule_steps"] or \
            training["steps"] - 1 - training["warmup"]
        u = min(1.0, (r - training["warmup"]) / last)
        return end + (1 - end) * (1 + np.cos(np.pi * u)) / 2

    def units(self, learner):
        """Of an expert whose part is a matrix of its own."""
        key = {"rows": 0, "columns": 1}.get(learner.experts)
        if key is None:
            return 0
        at = next(self.theory.quantities[key].population for key in ex.references(
            learner.gradient[0][key]))
        return self.sites[at] // self.sites[self.theory.populations[at].of]

    def omega(self, t, s, decays=0.0):
        def left(r):
            return self.factor(r) * self.kept(t, decays) / self.kept(r + 1, decays)
        if self.training["optimizer"] != "momentum":
            return self.chi[s] * left(s)
        return self.chi[s] * sum(left(r) * self.training["momentum"] ** (r - s)
                                 for r in range(s, t))

    def kept(self, t, decays):
        """What this part of weight decay has left of the start."""
        return np.prod([1 - self.training["weight_decay"] * decays * self.factor(r)
                        for r in range(t)]) if decays else 1

    def entries(self, term):
        """<D x>, or its transpose; the entries of a thin matrix themselves."""
        matrix, part = self.parts.get(term.matrix, (term.matrix, 0))
        if matrix in self.wholes:
            whole = self.wholes[matrix]
            row = np.atleast_2d(self.expression(term.row)[0])
            if not whole.g:
                return 0.0
            return (whole.apply_back if term.transposed else whole.apply)(row, part)
        D = self.entry[term.matrix]
        learner = next(one for one in self.theory.learners if one.matrix == term.matrix)
        if not np.ndim(D):
            return 0.0
        if term.row is None:
            return self.A @ D.T if learner.kind == "read_in" else \
                D if learner.kind == "bias" else D
        row = np.atleast_2d(self.expression(term.row)[0])
        if term.transposed:
            return row @ D / len(D)
        return np.broadcast_to(row, (len(row), D.shape[1])) @ D.T / D.shape[1]

    def gradient(self, learner):
        """G = (1/P) sum of [Delta] g x, of all uses."""
        total = 0
        for g, x in self.met(learner):
            if learner.delta:
                g = g * self.delta[-1]
            if learner.kinds:
                g, x = np.eye(learner.kinds)[self.kinds], g
            elif learner.kind in ("bias", "vector"):
                g, x = x, g
            total = total + g.T @ x
        return total / self.inputs

    def met(self, learner):
        """(g, x) of each use, a row for each input."""
        for g, x in learner.gradient:
            g = np.ones((1, 1)) if g is None else np.atleast_2d(self.expression(g)[0])
            x = self.A if learner.kind == "read_in" else np.ones((1, 1)) if x is None else \
                np.atleast_2d(self.expression(x)[0])
            rows = max(len(g), len(x))
            yield tuple(np.broadcast_to(one, (rows, one.shape[1])) for one in (g, x))

    def gradient_norm(self):
        """|G|^2 of the whole gradient, from what every matrix is about to learn."""
        every = 0.0
        for one in self.theory.learners:
            G = self.gradient(one) ** 2
            finite = {"map": 1, "read_in": self.A.shape[1], "bias": G.size}.get(one.kind, len(G))
            every += one.norm.value * finite * G.mean()
        for one in self.theory.quantities.values():
            terms = [] if one.backward or not isinstance(one.value, st.Process) else \
                [term for term in one.value.terms if isinstance(term, st.Learned)]
            mine = next((term for term in terms if term.past is None), None)
            for term in terms:
                every += term.rate.value * self.overlap_of_gradients(term, mine, one)
        return every

    def overlap_of_gradients(self, term, mine, one):
        """(1/P^2) sum of Delta Delta <g g> K, of two uses of a matrix or one."""
        if term.column or term.kernel is None:
            G = self.gradient_of(term) / self.inputs
            return (G ** 2).sum() / (1 if one.population is None else G.shape[1])
        g, other = self.at(mine.row, self.t), self.at(term.row, self.t)
        kernel = self.A @ self.A.T if term.kernel == "inputs" else self.overlap(term, self.t)
        if term.delta:
            kernel = kernel * (self.delta[-1] @ self.delta[-1].T)
        rows = max(len(kernel), len(g))
        g, other = (np.broadcast_to(x, (rows, x.shape[1])) for x in (g, other))
        return (kernel * (g @ other.T)).sum() / g.shape[1] / self.inputs ** 2

    def step(self):
        """Moves the entries and the selection biases."""
        training = self.training
        clip = training["clip"]
        self.chi.append(min(1.0, clip / np.sqrt(self.gradient_norm())) if clip else 1.0)
        for one in self.theory.learners:
            keep = 1 - training["weight_decay"] * one.decays * self.factor(self.t) \
                if one.decays else 1
            rate = self.factor(self.t) * one.rate.value * self.theory.eta(one.optimizer)
            if one.matrix in self.wholes:
                for part, (g, x) in enumerate(self.met(one)):
                    weight = self.chi[-1] / self.inputs * (self.delta[-1] if one.delta else 1)
                    self.wholes[one.matrix].met(g, x, weight, self.t, part)
                self.wholes[one.matrix].step(self.t, keep, rate)
                continue
            G, (m, v) = self.chi[-1] * self.gradient(one), self.moments[one.matrix]
            b1, b2, eps = training["beta1"], training["beta2"], one.eps.value * training["eps"]
            if one.optimizer == "lion":
                u, m = b1 * m + (1 - b1) * G, b2 * m + (1 - b2) * G
                move = u / (np.abs(u) + eps)
            else:
                m, v = b1 * m + (1 - b1) * G, b2 * v + (1 - b2) * G ** 2
                a, b = m / (1 - b1 ** (self.t + 1)), v / (1 - b2 ** (self.t + 1))
                move = a / self.normaliser(b, eps)
            self.moments[one.matrix] = m, v
            self.entry[one.matrix] = keep * self.entry[one.matrix] + rate * move
        for one in self.theory.selections:
            mask = self.chosen_by(one)
            excess = np.round(mask.mean(0, keepdims=True) - one.share, 9)
            self.bias[one.state] = self.bias[one.state] - one.eta * (
                np.sign(excess) if one.sign else excess)

    def normaliser(self, v, eps):
        return np.sqrt(v + eps ** 2) if self.training["adam_eps"] == "inside" else np.sqrt(v) + eps

    def chosen_by(self, one):
        """The mask of a selection at this step."""
        value = self.now[one.mask][0]
        return (value > 0).astype(float)
