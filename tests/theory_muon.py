"""Steps of Muon as dmft.equations prints them, in numpy, for tests/theory_march.py: matrices are
sum S_ab g_a x_b over the rows that they have met, and the steps of S follow from two Gram matrices.
"""
import numpy as np

POLYNOMIAL = (3.4445, -4.7750, 2.0315)
NOTHING = 1e-12                         # a norm that is round-off


def groups(rows, size):
    """[group][row][site of the group]."""
    return rows.reshape(len(rows), -1, size).swapaxes(0, 1)


def gram(rows, size):
    """Means of products, of each group where there are any."""
    if size:
        rows = groups(rows, size)
    return rows @ rows.swapaxes(-1, -2) / rows.shape[-1]


def applied(S, out, of_out, into, of_into, row):
    """sum_ab S_ab out_a <into_b row>, S that of each group of the sites of out or of into."""
    if of_into:
        overlap = groups(into, of_into) @ groups(row, of_into).swapaxes(-1, -2) / of_into
        return (S @ overlap).mean(0).T @ out
    part = S @ (into @ row.T / row.shape[1])
    if of_out:
        made = part.swapaxes(-1, -2) @ groups(out, of_out)
        return made.swapaxes(0, 1).reshape(len(row), -1)
    return part.T @ out


class Whole:
    """A matrix that Muon moves."""

    def __init__(self, learner, size, training):
        self.learner, self.training = learner, training
        self.rows = size if learner.experts == "rows" else 0        # units of an expert, or 0
        self.columns = size if learner.experts == "columns" else 0
        self.g, self.x, self.weight, self.time, self.part = [], [], [], [], []
        self.S = np.zeros((0, 0))

    def met(self, g, x, weight, t, part):
        self.part.append(np.full(len(g), part))
        self.g.append(g)
        self.x.append(x)
        self.weight.append(np.broadcast_to(weight, (len(g), 1))[:, 0])
        self.time.append(np.full(len(g), t))

    def direction(self, t):
        """Theta."""
        weight, time = np.concatenate(self.weight), np.concatenate(self.time)
        momentum, now = self.training["momentum"], time == t
        if self.training["muon"] == "exact":
            weight = weight * now
        elif self.training["nesterov"] == "yes":
            weight = weight * (now + momentum ** (t - time + 1))
        else:
            weight = weight * momentum ** (t - time)
        D = np.diag(weight)
        Phi, Gamma = gram(np.vstack(self.x), self.columns), gram(np.vstack(self.g), self.rows)
        part = np.concatenate(self.part)
        same = part[:, None] == part
        Phi = Phi * same if self.learner.heads == "columns" else Phi
        Gamma = Gamma * same if self.learner.heads == "rows" else Gamma
        square = np.einsum("...ab,...ab,a,b", Phi, Gamma, weight, weight)  # tr Phi D Gamma D
        norm = np.sqrt(np.maximum(square, 0))[..., None, None]
        Theta = np.where(norm > NOTHING, D / np.maximum(norm, NOTHING), 0)
        if self.training["muon"] == "exact":
            values, vectors = np.linalg.eig(Phi @ D @ Gamma @ D)
            known = abs(values) > 1e-12 * abs(values).max()
            root = known / np.sqrt(np.where(known, values, 1) + 0j)
            return (D @ vectors @ np.diag(root) @ np.linalg.inv(vectors)).real
        for _ in range(5):
            turn = Theta @ Phi @ Theta.swapaxes(-1, -2) @ Gamma
            Theta = POLYNOMIAL[0] * Theta + turn @ (POLYNOMIAL[1] * Theta +
                                                    POLYNOMIAL[2] * turn @ Theta)
        return Theta

    def step(self, t, keep, rate):
        Theta = self.direction(t)
        old = np.zeros(Theta.shape)
        old[..., :self.S.shape[-1], :self.S.shape[-1]] = self.S
        self.S = keep * old + rate * Theta

    def own(self, part):
        """(S, g, x), of a head those that are its own."""
        count = self.S.shape[-1]
        S, g, x = self.S, np.vstack(self.g)[:count], np.vstack(self.x)[:count]
        mine = np.concatenate(self.part)[:count] == part
        if self.learner.heads == "rows":
            return S[mine], g[mine], x
        if self.learner.heads == "columns":
            return S[:, mine], g, x[mine]
        return S, g, x

    def apply(self, row, part=None):
        S, g, x = self.own(part)
        return applied(S, g, self.rows, x, self.columns, row)

    def apply_back(self, row, part=None):
        S, g, x = self.own(part)
        return applied(S.swapaxes(-1, -2), x, self.columns, g, self.rows, row)
