"""What the words of a dmft.theory structure mean, in numpy, for tests/theory_march.py.

A value is an array and the population that its columns are sites of (None: they are numbers). Its
rows are inputs, tokens or pairs of tokens (source fastest), or it has one row for all of them."""
import numpy as np
from dmft.theory import expression as ex

FUNCTIONS = {("tanh", 0): np.tanh, ("tanh", 1): lambda h: 1 - np.tanh(h) ** 2,
             ("sigmoid", 0): lambda h: 1 / (1 + np.exp(-h)),
             ("sigmoid", 1): lambda h: 1 / (2 + np.exp(h) + np.exp(-h)),
             ("exp", 0): np.exp, ("exp", 1): np.exp,
             ("log", 0): np.log, ("log", 1): lambda h: 1 / h,
             ("sin", 0): np.sin, ("sin", 1): np.cos,
             ("cos", 0): np.cos, ("cos", 1): lambda h: -np.sin(h)}
NUMBERS = ("look", "input", "read_out", "loss_slope", "attend", "columns")


def tokens(x, n):
    """[input][token][...] of rows."""
    return x.reshape(-1, n, x.shape[1])


def pairs(a, n):
    """[input][target][source][...] of rows."""
    return a.reshape(-1, n, n, a.shape[1])


def largest(s, count):
    """1 on the largest of each row, ties to the lower one."""
    mask = np.zeros(s.shape)
    np.put_along_axis(mask, np.argsort(-s, axis=1, kind="stable")[:, :count], 1, axis=1)
    return mask


def softmax(s, mask=1):
    weights = mask * np.exp(s - s.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


class Words:
    """A method for each word of a Call; n tokens, and the rest as the march has it."""

    def look(self, _, columns, x):
        return x @ columns.T / x.shape[1]

    def read_out(self, _, columns, x):
        r = self.look(_, columns, x) / self.theory.gamma0
        if self.t == 0 and self.theory.centre:
            self.first = r
        return r - self.first

    def loss_slope(self, _):
        return self.slope

    def look_back(self, _, g, columns):
        return g @ columns

    def error(self, _, columns):
        return self.delta[-1] @ columns

    def input(self, what):
        there = self.X
        if what["kinds"]:
            places = np.tile(np.eye(self.n), (self.inputs, 1))
            there = np.hstack([np.eye(what["kinds"])[self.kinds], places])
        return there[:, what["first"]:what["first"] + what["count"]]

    def of_kind(self, _, columns):
        return columns[self.kinds]

    def columns(self, _, *numbers):
        rows = max(len(one) for one in numbers if np.ndim(one))
        return np.hstack([np.broadcast_to(one, (rows, 1)) for one in numbers])

    # --- gates of a fixed number of experts ---------------------------------------------------

    def chosen(self, what, s):
        return largest(s + self.bias.get(what["state"], 0), what["top"])

    def gates(self, what, beta, s):
        mask = self.chosen(what, s)
        if not what["softmax"]:
            return mask * FUNCTIONS["sigmoid", 0](beta * s)
        return mask * softmax(beta * s) if what["over_all"] else softmax(beta * s, mask)

    def mask(self, what, s):
        return self.chosen(what, s)

    def gates_back(self, what, beta, p, g, s):
        if not what["softmax"]:
            return beta * (p > 0) * FUNCTIONS["sigmoid", 1](beta * s) * g
        mean = (p * g).sum(1, keepdims=True)
        return beta * (p * g - (softmax(beta * s) if what["over_all"] else p) * mean)

    # --- masks and gates over sites -----------------------------------------------------------

    def top(self, what, x):
        return largest(x, round(what["share"] * x.shape[1]))

    def constant(self, what, *_):
        return np.tile(np.array(what["values"]), (self.inputs, 1))

    def top_rows(self, what, x):
        order = np.argsort(-tokens(x, len(x) // self.inputs), axis=1, kind="stable")
        mask = np.zeros(order.shape)
        np.put_along_axis(mask, order[:, :what["top"]], 1.0, axis=1)
        return mask.reshape(x.shape)

    def first_rows(self, what, x):
        wanted = tokens(x, len(x) // self.inputs) > 0
        return (wanted & (wanted.cumsum(1) <= what["top"])).astype(float).reshape(x.shape)

    def rows(self, what, x):
        return largest(x + self.bias.get(what["state"], 0), round(what["rho"] * x.shape[1]))

    def softmax_of_sites(self, what, beta, psi, mask=1.0):
        if what["over_all"]:
            return mask * softmax(beta * psi) * psi.shape[1]
        return softmax(beta * psi, mask) * psi.shape[1]

    def log_mean_exp(self, _, beta, psi):
        return np.log(np.exp(beta * psi).mean(1, keepdims=True))

    # --- tokens -------------------------------------------------------------------------------

    def attend(self, _, q, k):
        return np.einsum("pts,pus->ptu", tokens(q, self.n), tokens(k, self.n)).reshape(
            -1, 1) / q.shape[1]

    def attend_by_head(self, _, q, k):
        q, k = (x.reshape(-1, self.n, self.heads, x.shape[1] // self.heads) for x in (q, k))
        return np.einsum("pths,puhs->ptuh", q, k).reshape(-1, self.heads) / q.shape[3]

    def softmax(self, what, logits):
        a = pairs(logits, self.n)
        seen = np.tri(self.n)[:, :, None] if what["causal"] else 1
        a = seen * np.exp(a - a.max(2, keepdims=True))
        return (a / a.sum(2, keepdims=True)).reshape(logits.shape)

    softmax_by_head = softmax

    def softmax_back(self, _, p, g):
        a, b = (pairs(p, self.n), pairs(g, self.n)) if len(p) == self.inputs * self.n ** 2 and \
            self.n > 1 else (p, g)
        axis = a.ndim - 2 if a.ndim > 2 else 1
        return (a * (b - (a * b).sum(axis, keepdims=True))).reshape(p.shape)

    def mixed(self, a, v, way):
        a, v = pairs(a, self.n), tokens(v, self.n)
        a = np.repeat(a, v.shape[2] // a.shape[3], axis=3)
        return np.einsum(way, np.broadcast_to(a, a.shape[:3] + v.shape[2:]), v).reshape(
            -1, v.shape[2])

    def mix(self, what, a, v):
        return self.mixed(a, v, "puts,pus->pts" if what["transposed"] else "ptus,pus->pts")

    mix_by_head = mix

    def pool(self, what, x):
        return tokens(x, what["of"]).mean(1)

    def mix_places(self, what, x):
        S = np.zeros((what["rows"], what["columns"]))
        for row, column, value in what["entries"]:
            S[row, column] = value
        S = S.T if what["transposed"] else S
        return np.einsum("st,ptx->psx", S, tokens(x, S.shape[1])).reshape(-1, x.shape[1])

    def transpose(self, what, g, x):
        """Of a word of one argument that combines rows, the same at every site."""
        columns = [getattr(self, what["word"])(what, row[:, None]) for row in np.eye(len(x))]
        return np.array([(column * g).sum(0) for column in columns])

    def lag(self, what, x):
        by = what["tokens"]
        x = tokens(x, len(x) // self.inputs)
        moved = np.zeros(x.shape)
        if by >= 0:
            moved[:, by:] = x[:, :x.shape[1] - by]
        else:
            moved[:, :by] = x[:, -by:]
        return moved.reshape(-1, x.shape[2])

    # --- norms and numbers --------------------------------------------------------------------

    def norm(self, _, x):
        return x / np.sqrt((x ** 2).mean(1, keepdims=True))

    def norm_back(self, _, x, g):
        size = np.sqrt((x ** 2).mean(1, keepdims=True))
        return (g - x / size ** 2 * (x * g).mean(1, keepdims=True)) / size

    def softmax_of_numbers(self, _, s, mask=1.0):
        return softmax(s, mask)

    def sum(self, _, s):
        return s.sum(1, keepdims=True)

    def log_sum_exp(self, _, s):
        largest = s.max(1, keepdims=True)
        return largest + np.log(np.exp(s - largest).sum(1, keepdims=True))

    def sum_over_inputs(self, _, x):
        return x.sum(0, keepdims=True)

    def exp(self, _, s):
        return np.exp(s)

    def log(self, _, s):
        return np.log(s)

    def tanh(self, _, s):
        return np.tanh(s)

    def over(self, what, s):
        return what["c"] / s

    def power(self, what, s):
        return s ** what["c"]

    # --- expressions --------------------------------------------------------------------------

    def together(self, parts):
        """Arrays of one shape: rows of inputs for their tokens, sites for those of their groups."""
        at = max((at for _, at in parts if at is not None), default=None)
        rows = max((len(value) for value, _ in parts if np.ndim(value)), default=1)
        same = []
        for value, where in parts:
            if where not in (None, at):
                one = self.theory.populations[at]
                value = np.tile(value, self.sites[at] // self.sites[where]) \
                    if one.shared == where else \
                    np.repeat(value, self.sites[at] // self.sites[where], axis=1)
            if np.ndim(value) and 1 < len(value) < rows:
                value = np.repeat(value, rows // len(value), axis=0)
            same.append(value)
        return np.array(np.broadcast_arrays(*same)), at

    def mean(self, what, x, at):
        if what.over == "inputs":
            return x.mean(0, keepdims=True), at
        if what.over == "sites":
            return x.mean(1, keepdims=True), None
        one = self.theory.populations[at]
        if what.over == "group":
            return x.reshape(len(x), self.sites[one.of], -1).mean(2), one.of
        return x.reshape(len(x), -1, self.sites[one.shared]).mean(1), one.shared

    def expression(self, what):
        """(array, population) of an expression at the step that is looked at."""
        if isinstance(what, ex.Scale):
            return what.value, None
        if isinstance(what, ex.Ref):
            return self.now[what.key]
        parts = [self.expression(child) for child in what.children()]
        if isinstance(what, ex.Apply):
            return FUNCTIONS[what.function, what.order](parts[0][0]), parts[0][1]
        if isinstance(what, ex.Mean):
            return self.mean(what, *parts[0])
        if isinstance(what, (ex.Sum, ex.Product)):
            values, at = self.together(parts)
            return values.sum(0) if isinstance(what, ex.Sum) else values.prod(0), at
        if isinstance(what, ex.Column):
            return parts[0][0][:, [what.column]], None
        return self.call(what, parts)

    def call(self, what, parts):
        ats = [at for _, at in parts if at is not None]
        at = None if what.word in NUMBERS or not ats else ats[-1]
        by_head = what.word == "attend_by_head" or what.word == "mix_weights" and what["head"]
        if what.word == "mix_weights" and not by_head:
            at = None
        if by_head:
            at = self.theory.populations[at].of
            self.heads = self.sites[at]
        return getattr(self, what.word)(what, *(value for value, _ in parts)), at
