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
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, group)
        return loss

    def _move(self, p, group) -> None:
        raise NotImplementedError
