"""Muon as dmft-solve has it (docs/theory/muon.md), for matrices and what they leave."""
from __future__ import annotations

import math

import torch

from dmft.torch.by_parameter import ByParameter

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonal(M: torch.Tensor, exact: bool = False, least: float = 0) -> torch.Tensor:
    """A matrix [..., n, m] with the singular vectors of M: five Newton-Schulz steps of M/|M|, or
    singular values of 1 (exact), those below 1e-10 of the largest becoming 0. A matrix with entries
    of root mean square `least` at most becomes 0."""
    norm = torch.linalg.matrix_norm(M, keepdim=True)
    none = norm <= least * math.sqrt(M.shape[-2] * M.shape[-1])
    X = torch.where(none, torch.zeros_like(M), M / torch.where(none, torch.ones_like(norm), norm))
    if exact:
        U, s, Vt = torch.linalg.svd(X, full_matrices=False)
        kept = (s > 1e-10 * s.amax(-1, keepdim=True)).to(X.dtype)
        return (U * kept[..., None, :]) @ Vt
    turned = X.shape[-2] > X.shape[-1]
    X = X.mT if turned else X
    a, b, c = NEWTON_SCHULZ
    for _ in range(5):
        square = X @ X.mT
        X = a * X + (b * square + c * square @ square) @ X
    return X.mT if turned else X


class Muon(ByParameter):
    """Each group says who moves it. `by` = "muon": V <- momentum V + g, M = V or with nesterov
    g + momentum V, p -= lr orthogonal(M), where rows and columns say how many of each in turn are a
    matrix of their own (0: all), and `least` at which root mean square of its entries M is
    round-off and takes no step; with `join` the parameters of the group are parts of one matrix,
    one below the other (0) or side by side (1). "adam": lr, betas, eps. "gd": lr. All decay first,
    p *= 1 - lr weight_decay.

    >>> Muon([{"params": [W], "by": "muon", "lr": 0.02}])                   # doctest: +SKIP
    """

    def __init__(self, params, lr: float = 0.02, momentum: float = 0.95, nesterov: bool = False,
                 exact: bool = False, betas=(0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0):
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "nesterov": nesterov, "exact": exact, "betas": betas,
            "eps": eps, "weight_decay": weight_decay, "by": "muon", "rows": 0, "columns": 0,
            "least": 0, "join": None})

    def _move(self, p, group) -> None:
        p.mul_(1 - group["lr"] * group["weight_decay"])
        getattr(self, "_" + group["by"])(p, group)

    def _gd(self, p, group) -> None:
        p.sub_(group["lr"] * p.grad)

    def _adam(self, p, group) -> None:
        state, (beta1, beta2) = self.state[p], group["betas"]
        t = state["step"] = state.get("step", 0) + 1
        m = state.setdefault("mean", torch.zeros_like(p))
        v = state.setdefault("square", torch.zeros_like(p))
        m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
        v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        root = (v / (1 - beta2 ** t)).sqrt()
        p.sub_(group["lr"] / (1 - beta1 ** t) * m / (root + group["eps"]))

    def _move_group(self, params, group) -> None:
        join = group["join"]
        if join is None:
            super()._move_group(params, group)
            return
        M = torch.cat([self._direction(p, group) for p in params], join)
        step = orthogonal(M, group["exact"], group["least"])
        for p, part in zip(params, step.split([p.shape[join] for p in params], join)):
            p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * part)

    def _direction(self, p, group) -> torch.Tensor:
        """M."""
        V = self.state[p].setdefault("velocity", torch.zeros_like(p))
        V.mul_(group["momentum"]).add_(p.grad)
        return p.grad + group["momentum"] * V if group["nesterov"] else V

    def _muon(self, p, group) -> None:
        M, (n, m) = self._direction(p, group), p.shape
        rows, columns = group["rows"] or n, group["columns"] or m
        blocks = M.reshape(n // rows, rows, m // columns, columns).transpose(1, 2)
        step = orthogonal(blocks, group["exact"], group["least"]).transpose(1, 2).reshape(n, m)
        p.sub_(group["lr"] * step)
