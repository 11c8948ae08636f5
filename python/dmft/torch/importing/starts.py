"""What vectors and single numbers of a module start at, and which of its parameters never learn."""
from __future__ import annotations

import warnings

import torch

from dmft.errors import NoteWarning
from dmft.torch.importing.laws import power_of
from dmft.torch.importing.parts import entries_of
from dmft.torch.plan_sizes import pattern_of


def _entries(modules, leaf) -> list[torch.Tensor]:
    """What a leaf is in each of the modules."""
    return [entries_of(leaf, {leaf.parameter: one.get_parameter(leaf.parameter)}).detach()
            for one in modules]


def starts_of(modules, leaf):
    """(the number that a vector or a number starts at, this number in both modules), None of what
    there is not: of vectors whose entries differ, and the first one of those that go with N."""
    values = [one.reshape(-1) for one in _entries(modules, leaf)]
    if any((v != v[0]).any() for v in values):
        return None, None
    both = tuple(v[0].item() for v in values)
    return both[0] if both[0] == both[1] or not leaf.populations else None, both


def starts_alike(modules, leaf, axis: int) -> bool:
    """Whether all entries along an axis of a parameter, of which each is an expert, start alike,
    and not at 0."""
    at = sorted(leaf.populations).index(axis)
    blocks = _entries(modules, leaf)
    return all(one.any() and torch.equal(one, one.select(at, 0).unsqueeze(at).expand_as(one))
               for one in blocks)


def say_what_is_drawn(parts, modules, widths) -> None:
    """Names the single numbers that start at what one module has drawn, in a limit, too."""
    drawn = dict.fromkeys(
        pattern_of(leaf.parameter) for part in parts if part.kind == "bias"
        for leaf in part.leaves if not power_of(starts_of(modules, leaf)[1], widths))
    if drawn:
        warnings.warn(f"{', '.join(drawn)}: build draws single numbers; the network, and its "
                      f"limit, begin with those of N = {widths[0]}; let them start at a number "
                      "that you choose, as 0", NoteWarning, stacklevel=4)


def say_what_is_still(parts) -> None:
    """Names the parameters whose gradients are all held back."""
    names = dict.fromkeys("a part of " * (part.still == "decays") + pattern_of(name)
                          for part in parts if part.still for name in part.parameters)
    if names:
        warnings.warn(f"{', '.join(names)}: the module lets no gradient come here (detach, "
                      "no_grad), so that it never moves, and is fixed in the network", NoteWarning,
                      stacklevel=4)


def frozen(module, part, _) -> dict:
    """What has no gradient in the module has none in the network."""
    learns = any(module.get_parameter(name).requires_grad for name in part.parameters)
    return {} if learns else {"fixed": True, "decays": False}
