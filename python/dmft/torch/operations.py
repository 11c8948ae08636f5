"""The operations of a description (docs/program_format.md) on tensors: rows are [P, rows of an
input, sites], numbers [P, rows of an input, K], and what is one for all inputs has 1 in place of P.

A function has the name of its operation, and arguments (evaluation, operation, values). Nothing
here knows a network. The pass in reverse is left to autograd.
"""
from __future__ import annotations

import math

import torch

from dmft.description import Operation, Program
from dmft.torch import rules
from dmft.torch.rules import causal_softmax, largest
from dmft.torch.table import Table

OPERATIONS = Table("operation")
FUNCTIONS = Table("function")
FUNCTIONS |= {"linear": lambda x: x, "tanh": torch.tanh, "erf": torch.erf, "relu": torch.relu,
              "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
              "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
              "sin": torch.sin, "cos": torch.cos, "log": torch.log,
              "sigmoid": torch.sigmoid, "exp": torch.exp, "inverse": torch.reciprocal}


class Evaluation:
    """One pass forward: `values` of all operations in their order, the `penalty` they add to the
    loss, and `loads`, {state: (its loads, what they should be, eta_bias, sign rule)}.

    A is [P, n, D], kinds the tokens [P, n] or None; weights and selection biases by name and by
    state; noisy: whether noise is drawn, else it is 0, or a function that gives the normals of one
    after the other; origin: what is subtracted from the
    numbers that are read out, or None."""

    def __init__(self, program: Program, weights, biases, A: torch.Tensor,
                 kinds: torch.Tensor | None, noisy=False, origin=None):
        self.noisy, self.origin = noisy, origin
        self.program, self.weights, self.biases, self.A, self.kinds = \
            program, weights, biases, A, kinds
        self.penalty, self.loads = A.new_zeros(()), {}
        self.values: list[torch.Tensor] = []
        for operation in program.operations:
            arguments = [self.values[k] for k in operation.arguments]
            value = OPERATIONS[operation.operation](self, operation, *arguments)
            if torch.is_grad_enabled() and not value.requires_grad:
                # nothing below learns, and its cotangent may still be measured
                value = value.detach().requires_grad_()
            self.values.append(value)

    @property
    def output(self) -> torch.Tensor:
        """f, [P, n or 1, C]."""
        return self.values[self.program.output]

    @property
    def read_out(self) -> torch.Tensor:
        """What is read out, of this shape: f, unless something acts on it."""
        return self.values[self.program.read_out]

    def sites(self, operation: Operation) -> int:
        """Sites of the population of its rows."""
        return self.program.size(operation.population)

    def of_all(self, operation: Operation, b: torch.Tensor) -> torch.Tensor:
        """One row b of all inputs, as the rows of an operation, which stay when b moves."""
        n = self.program.tokens
        rows = operation.places or {"token": n, "pair": n * n}.get(operation.row, 1)
        return b.expand(len(self.A), rows, -1).clone()

    def group(self, operation: Operation) -> int:
        """How many sites of the population of its rows are side by side for one of another."""
        return self.program.populations[operation.population].group


# --- of one line -----------------------------------------------------------------------------

OPERATIONS |= {
    "read_in": lambda run, v: run.A @ run.weights[v.matrix].T,
    "embed": lambda run, v, s: s @ run.weights[v.matrix].T,
    "vector": lambda run, v: run.of_all(v, run.weights[v.matrix]),
    "fn": lambda run, v, x: FUNCTIONS[v["function"]](v["k"] * x),
    **dict.fromkeys(("add", "shift"), lambda run, v, a, b: a + b),
    "times": lambda run, v, x: v["k"] * (x if v.moves else x.detach()),
    "group_mean": lambda run, v, x: x.unflatten(-1, (run.sites(v), -1)).mean(-1),
    "tile": lambda run, v, x: x.repeat(1, 1, run.sites(v) // x.shape[-1]),
    "tile_mean": lambda run, v, x: x.unflatten(-1, (-1, run.sites(v))).mean(-2),
    "top": lambda run, v, x: largest(x, v["top"]),
    "ones": lambda run, v: run.A.new_ones(1, 1, run.sites(v)),
    "average": lambda run, v, a, b=None: (a if b is None else a * b).mean(-1, keepdim=True),
    "scale": lambda run, v, s, x: s[..., v["column"], None] * x,
    "pick": lambda run, v, s: s[..., v["column"]:v["column"] + v.numbers],
    "join": lambda run, v, a, b: torch.cat([a, b], -1),
    "mean_of_rows": lambda run, v, x: x.mean((0, 1), keepdim=True),
    "mix": lambda run, v, a, x: a @ x,
    "pool": lambda run, v, x: x.mean(1, keepdim=True)}


# --- matrices --------------------------------------------------------------------------------


def _is_tied(run, v):
    """Whether the matrix of a look or a read-out is that of an embedding."""
    return run.program.matrix(v.matrix).kind == "embed"


@OPERATIONS("map", "look")
def product(run, v, x):
    V = run.weights[v.matrix]
    return x @ V / len(V) if _is_tied(run, v) else x @ V.T


@OPERATIONS
def read_out(run, v, x):
    read = product(run, v, x)
    if _is_tied(run, v):
        return read / run.program.gamma0
    return read if run.origin is None else read - run.origin


@OPERATIONS
def bias(run, v, s=None):
    b = run.weights[v.matrix]
    return run.of_all(v, b) if s is None else s + (b if b.dim() == 1 else b[run.kinds])


# --- rows ------------------------------------------------------------------------------------


@OPERATIONS
def multiply(run, v, a, b):
    if a.shape[-1] != b.shape[-1]:
        a = a.repeat_interleave(run.group(v), -1)
    return a * b


@OPERATIONS
def noise(run, v, x):
    """Normals of PyTorch's own generator, not those of dmft-solve."""
    if callable(run.noisy):
        return run.noisy()
    return torch.randn_like(x).detach() if run.noisy else torch.zeros_like(x)


@OPERATIONS
def constant(run, v):
    values = run.A.new_tensor(v["values"])
    return values.repeat(1, run.sites(v) // values.shape[1]).expand(len(run.A), -1, -1)


@OPERATIONS("input")
def numbers_of_input(run, v):
    """Those of X; of tokens, ones where they are of a kind or stand at a place."""
    V, first = run.program.vocabulary, v["first"]
    there = run.A * math.sqrt(run.A.shape[-1])
    if V:
        places = torch.eye(run.A.shape[1], dtype=run.A.dtype, device=run.A.device)
        there = torch.cat([(run.A[..., :V] > 0).to(run.A.dtype),
                           places.expand(len(run.A), -1, -1)], -1)
    return there[..., first:first + v.numbers]


# --- rules -----------------------------------------------------------------------------------

@OPERATIONS
def numbers(run, v, *s):
    result = rules.NUMBERS[v["rule"]](run, v, *s)
    return result if v.moves else result.detach()


@OPERATIONS
def rows(run, v, x):
    return rules.ROWS[v["rule"]](run, v, x.detach())


@OPERATIONS
def penalty(run, v, s):
    added = rules.PENALTIES[v["rule"]](run, v, s)
    run.penalty = run.penalty + added
    return added


# --- tokens ----------------------------------------------------------------------------------

def _heads(run, v, x):
    """[P, n, heads, units of one]."""
    return x.unflatten(-1, (-1, run.program.populations[v.population].group))


@OPERATIONS
def attend(run, v, q, k):
    return v["k"] / q.shape[-1] * (q @ k.transpose(1, 2))


@OPERATIONS
def attend_by_head(run, v, q, k):
    of_units = run.program.operations[v.arguments[0]]
    q, k = _heads(run, of_units, q), _heads(run, of_units, k)
    return torch.einsum("pshg,pthg->psth", q, k).flatten(1, 2) * (v["k"] / q.shape[-1])


def _pairs(run, x):
    """[P, s, t, heads] of rows of pairs."""
    return x.unflatten(1, (run.program.tokens, run.program.tokens))


@OPERATIONS
def softmax_by_head(run, v, x):
    logits = _pairs(run, x).movedim(2, -1)
    weights = causal_softmax(logits.movedim(1, 2)) if v["causal"] else \
        torch.softmax(logits.movedim(1, 2), -1)
    return weights.permute(0, 2, 3, 1).flatten(1, 2)


@OPERATIONS
def mix_by_head(run, v, a, x):
    return torch.einsum("psth,pthg->pshg", _pairs(run, a), _heads(run, v, x)).flatten(2)


@OPERATIONS
def lag(run, v, x):
    k, n = v["tokens"], x.shape[1]
    shifted = torch.zeros_like(x)
    if k >= 0:
        shifted[:, k:] = x[:, :max(n - k, 0)]
    else:
        shifted[:, :max(n + k, 0)] = x[:, -k:]
    return shifted


@OPERATIONS
def top_rows(run, v, x):
    order = torch.sort(x.detach(), dim=1, descending=True, stable=True).indices
    return torch.zeros_like(x).scatter_(1, order[:, :v["top"]], 1.0)


@OPERATIONS
def first_rows(run, v, x):
    wanted = (x.detach() > 0).to(x.dtype)
    return wanted * (wanted.cumsum(1) <= v["top"])


@OPERATIONS
def mix_places(run, v, x):
    S = x.new_zeros(v.places or {"input": 1, "token": run.program.tokens}[v.row], x.shape[1])
    for row, column, value in v["entries"]:
        S[row, column] = value
    return S @ x
