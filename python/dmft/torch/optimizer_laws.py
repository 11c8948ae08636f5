"""How far an optimizer moves each parameter: measured, so that it holds for every class.

How a step goes with the width is not to be told from the class of an optimizer: Muon moves singular
values by its rate, by a rule of its own for the shape; Adafactor by the size of the parameter; a
schedule has changed the rate. So a copy of the model makes steps of given gradients. These are of
rank one, u v^T with entries of +-c, since that is what a few inputs hand a wide matrix."""
from __future__ import annotations

import copy
import dataclasses
import math

import torch

from dmft.torch.several import Several, call_for_optimizer, several
from dmft.torch.strangers import called

ALIKE = 0.1   # of a ratio of steps that should be one, or two
EXACT = 1e-3  # of the share that decay takes
# Classes whose first steps follow another law than later ones, and how many these are at most.
WARM_UP = {"RAdam": 6}


@dataclasses.dataclass
class Law:
    """Of one parameter. rate: how far an entry moves in the first step of gradients +-1, without
    decay; by_entry: True where a gradient twice as large moves it as far (Adam, Lion, Muon), False
    where twice as far (SGD), None where neither. eps: the gradient below which it matters, or 0.
    decay: the share of the parameter that is lost in a step; None where it is no fixed share."""
    rate: float
    by_entry: bool | None
    eps: float
    decay: float | None


def _made(model, optimizer) -> Several:
    """The optimizer of a model; groups alone, in a list of dicts, are those of Adam."""
    made = call_for_optimizer(optimizer, model)
    if isinstance(made, (list, tuple)) and made and all(isinstance(one, dict) for one in made):
        made = torch.optim.Adam(list(made))
    made = several(made)
    for group in made.param_groups:  # a schedule has changed it
        if "initial_lr" in group:
            group["lr"] = group["initial_lr"]
    return made


def _gradients(model, size: float):
    generator = torch.Generator().manual_seed(1)
    for V in model.parameters():
        if not V.requires_grad:
            continue
        sign = torch.ones_like(V)
        for axis, length in enumerate(V.shape):
            along = torch.randint(0, 2, (length,), generator=generator) * 2 - 1
            sign = sign * along.to(V).view([-1 if k == axis else 1 for k in range(V.dim())])
        V.grad = size * sign


def _step(model, optimizer, size: float, decays: bool) -> dict[str, tuple]:
    """{name: (parameter before, after)} of a step of a copy with these gradients."""
    model = copy.deepcopy(model).double()  # steps may be small beside what they move
    made = _made(model, optimizer)
    if decays:
        with torch.no_grad():
            for V in model.parameters():  # one that starts at zero decays as well
                V.copy_(torch.randn(V.shape, generator=torch.Generator().manual_seed(2)))
    for group in made.param_groups if not decays else ():
        if "weight_decay" in group:
            group["weight_decay"] = 0
    names = " ".join(type(one).__name__ for one in made.optimizers)
    for _ in range(max(WARM_UP.get(name, 0) for name in names.split()) + 1):
        before = {name: V.detach().clone() for name, V in model.named_parameters()}
        _gradients(model, size)
        called(f"optimizer: how far {names} moves parameters cannot be told, since a step of "
               "gradients of given size", "take one whose step() needs gradients alone", made.step)
    return {name: (before[name], V.detach()) for name, V in model.named_parameters()}


def _moved(pair) -> float:
    before, after = pair
    return (after - before).double().square().mean().sqrt().item()


def _decay(pair) -> float | None:
    """The share that is lost; None where what moves is no multiple of the parameter."""
    before, after = (x.double() for x in pair)
    share = 1 - (before * after).sum() / before.square().sum()
    rest = (after - (1 - share) * before).square().mean().sqrt()
    close = EXACT * abs(share) + 4 * torch.finfo(torch.float64).eps
    return share.item() if rest <= close * before.square().mean().sqrt() else None


def optimizer_laws(model, optimizer) -> dict[str, Law]:
    """{name of a parameter: its law}, of those that move. optimizer: a function of the module that
    gives its optimizer, or several in a list, or groups of Adam.

    >>> sgd = lambda model: torch.optim.SGD(model.parameters(), 0.1)        # doctest: +SKIP
    >>> optimizer_laws(torch.nn.Linear(4, 4), sgd)["weight"].rate           # doctest: +SKIP
    0.1
    """
    one, two, decayed = (_step(model, optimizer, size, decays)
                         for size, decays in ((1, False), (2, False), (0, True)))
    eps = {id(V): group.get("eps", 0) for group in _made(model, optimizer).param_groups
           for V in group["params"]}
    parameters = dict(model.named_parameters())
    sizes = {e for e in eps.values() if isinstance(e, (int, float)) and e > 0}
    sizes |= {math.sqrt(e) for e in sizes}      # below which an eps under the root matters
    small = {e: _step(model, optimizer, e, False) for e in sizes}
    found = {}
    for name, V in parameters.items():
        rate = _moved(one[name])
        if not rate:
            continue
        twice, e = _moved(two[name]) / rate, eps.get(id(V), 0)
        by_entry = next((kind for kind, ratio in ((True, 1), (False, 2))
                         if abs(twice - ratio) < ALIKE * ratio), None)
        matters = [g for g in (e, e ** 0.5) if by_entry and g in small
                   and _moved(small[g][name]) < (1 - ALIKE) * rate] if e in small else []
        found[name] = Law(rate, by_entry, max(matters, default=0), _decay(decayed[name]))
    return found
