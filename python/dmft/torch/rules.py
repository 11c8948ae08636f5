"""The rules of a description (docs/program_format.md): of numbers, of rows, and terms of the loss.

A function has the arguments (evaluation, operation, values), as those of operations.
"""
from __future__ import annotations

import math

import torch

from dmft.errors import InputError
from dmft.torch.table import Table

NUMBERS, ROWS, PENALTIES = Table("rule"), Table("rule"), Table("penalty")


def largest(x: torch.Tensor, K: int) -> torch.Tensor:
    """1 on the K largest of the last axis, ties to the lower one, else 0."""
    x = x.detach()
    order = torch.sort(x, dim=-1, descending=True, stable=True).indices
    return torch.zeros_like(x).scatter_(-1, order[..., :K], 1)


def causal_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Over the last axis t of [..., s, t], where t <= s."""
    n = logits.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool, device=logits.device).triu(1)
    return torch.softmax(logits.masked_fill(later, -math.inf), -1)


NUMBERS |= {"plus": lambda run, v, s: s + v["c"],
            "power": lambda run, v, s: s ** v["c"],
            "sum": lambda run, v, s: s.sum(-1, keepdim=True),
            "log_sum_exp": lambda run, v, s: s.logsumexp(-1, keepdim=True),
            "softmax": lambda run, v, s: causal_softmax(s) if v["causal"] else torch.softmax(s, -1)}
ROWS |= {"watch": lambda run, v, x: x}
PENALTIES |= {"mean": lambda run, v, s: v["c"] * s.sum(-1).mean(),
              "mean_square": lambda run, v, s: v["c"] * (s ** 2).sum(-1).mean()}


def _weights(v, s):
    """Of all experts, before the mask."""
    return torch.softmax(v["beta"] * s, -1) if v["softmax"] else torch.sigmoid(v["beta"] * s)


@NUMBERS
def gates(run, v, s, chosen=None):
    if chosen is None:
        return _weights(v, s)
    if v["softmax"] and not v["over_all"]:
        return torch.softmax((v["beta"] * s).masked_fill(chosen == 0, -math.inf), -1)
    return chosen * _weights(v, s)


@NUMBERS
def mask(run, v, s):
    chosen = largest(s + run.biases[v.state] if v.state in run.biases else s, v["top"])
    run.loads[v.state] = chosen.mean((0, 1)), v["top"] / s.shape[-1], v["eta_bias"], v["sign"]
    return chosen


@NUMBERS
def noise(run, v, s):
    if v["std"]:
        raise InputError("this network has noise of its logits (bias_noise), whose normals "
                         "PyTorch does not draw as dmft-solve does")
    return s


@NUMBERS
def entropy(run, v, s):
    q = s / s.sum(-1, keepdim=True)
    if s.shape[-1] == 1:
        return torch.ones_like(s)
    return -torch.special.xlogy(q, q).sum(-1, keepdim=True) / math.log(s.shape[-1])


@ROWS
def select(run, v, x):
    chosen = largest(x + run.biases[v.state], v["top"])
    run.loads[v.state] = chosen.mean((0, 1)), v["rho"], v["eta_bias"], v["sign"]
    return chosen
