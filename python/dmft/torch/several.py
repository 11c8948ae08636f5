"""One optimizer, or several of one model, such as Muon for matrices and AdamW for the rest."""
from __future__ import annotations

from dmft.errors import InputError
from dmft.torch.strangers import called

FORM = "a function of the module, as lambda model: torch.optim.Adam(model.parameters())"


class Several:
    """Optimizers that step together."""

    def __init__(self, optimizers):
        self.optimizers = list(optimizers)

    @property
    def param_groups(self) -> list:
        """Of all of them."""
        return [group for one in self.optimizers for group in one.param_groups]

    def zero_grad(self) -> None:
        """Of all of them."""
        for one in self.optimizers:
            one.zero_grad()

    def step(self) -> None:
        """Of all of them, in their order."""
        for one in self.optimizers:
            one.step()


def call_for_optimizer(optimizer, model):
    """What a user's function of the module gives; InputError where it breaks down, as one that
    takes the parameters does."""
    if not callable(optimizer):
        raise InputError(f"optimizer: {optimizer!r:.40}; must be {FORM}")
    return called("optimizer: the function of the module that gives it", f"let it be {FORM}",
                  optimizer, model)


def several(given) -> Several:
    """given: what a user's function of the module gives, an optimizer or a list of them."""
    every = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in every:
        if not all(hasattr(one, word) for word in ("param_groups", "step", "zero_grad")):
            raise InputError(f"optimizer: gives a {type(one).__name__}; it must give an optimizer "
                             "of torch.optim, or a list of them")
    return Several(every)
