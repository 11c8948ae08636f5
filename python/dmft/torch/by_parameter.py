"""What the optimizers that PyTorch does not have share."""
from __future__ import annotations

import torch


class ByParameter(torch.optim.Optimizer):
    """An optimizer whose step moves one parameter after the other, by _move of a subclass."""

    @torch.no_grad()
    def step(self, closure=None):
        """One step of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._move_group([p for p in group["params"] if p.grad is not None], group)
        return loss

    def _move_group(self, params, group) -> None:
        for p in params:
            self._move(p, group)

    def _move(self, p, group) -> None:
        raise NotImplementedError
