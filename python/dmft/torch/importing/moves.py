"""Where the numbers of a tensor come from, if it only arranges those of another.

An operation that moves numbers is run once more, on the places that they had, so that it need not
be known what it does to an axis: rows that are sorted by their experts, cut into parts of as many
as each has, and put back, are rows of the first tensor by their numbers.
"""
from __future__ import annotations

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from dmft.torch.importing.record import Step, tensors

NONE = -1                               # the place of a number that comes from nowhere


def _again(step: Step, places: torch.Tensor, k: int) -> torch.Tensor:
    name = "reshape" if step.operation in ("view", "_unsafe_view") else step.operation
    found = getattr(torch.ops.aten, name)(places, *step.arguments[1:], **step.options)
    return found[k] if isinstance(found, (list, tuple)) else found


def _copied(_, places, *__):
    return places


def _largest(step: Step, places, _):
    """Of the largest numbers along an axis."""
    return places.gather((*step.arguments[2:], -1)[0], step.results[1])


def _put(step: Step, places, _):
    """Of what is put into a tensor that has nothing of interest before."""
    base, at, *_ = step.arguments
    return torch.full(base.shape, NONE).index_put(at, places)


# What each operation makes of the places, and which argument it moves.
MOVES = dict.fromkeys("""select slice split split_with_sizes unbind index index_select gather repeat
    view _unsafe_view reshape expand permute transpose t squeeze unsqueeze""".split(), (_again, 0))
MOVES |= dict.fromkeys(("clone", "alias", "_to_copy"), (_copied, 0))
MOVES |= {"topk": (_largest, 0), "index_put": (_put, 2)}


def moved_by(step: Step | None, k: int) -> torch.Tensor | None:
    """The tensor whose numbers are those of the k-th result; None where they are computed."""
    if step is None or step.operation not in MOVES or (step.operation, k) == ("topk", 1):
        return None
    return step.arguments[MOVES[step.operation][1]]


def moved(step: Step, k: int, places: np.ndarray) -> np.ndarray:
    """The places of the k-th result of a step, where its argument has these."""
    with _disable_current_modes():      # which would write it down
        return MOVES[step.operation][0](step, torch.as_tensor(places), k).numpy()


def trails(made: dict, one: torch.Tensor):
    """(a tensor, the steps from it to this one) for all whose numbers are arranged in this one,
    itself first. made: {id of a tensor: (its step, which result)}."""
    steps: list = []
    while one is not None:
        yield one, list(steps)
        step, k = made.get(id(one), (None, 0))
        steps.insert(0, (step, k))
        one = moved_by(step, k)


def places(source: torch.Tensor, steps=()) -> np.ndarray:
    """Where the numbers behind these steps are in the source, counted through."""
    found = np.arange(source.numel()).reshape(source.shape)
    for step, k in steps:
        found = moved(step, k, found)
    return found


def reasons(made: dict, every: tuple):
    """Whole numbers and flags that tensors of all experts are made of, by which rows are chosen,
    the nearest first: tuples of one for each expert."""
    return (many for many in _ways(made, every) if not many[0].is_floating_point())


def _ways(made: dict, every: tuple):
    """The same, with what is arranged by them."""
    queue = [every]
    seen = {tuple(map(id, every))}
    for many in queue:
        yield many
        steps = [made.get(id(one), (None, 0)) for one in many]
        if any(step is None for step, _ in steps):
            continue
        for column in zip(*(_below(*one) for one in steps)):
            if tuple(map(id, column)) not in seen:
                seen.add(tuple(map(id, column)))
                queue.append(column)


def _below(step: Step, k: int) -> list[torch.Tensor]:
    below, values = moved_by(step, k), step.operation == "topk" and not k
    return [*step.results[1:]] * values + [
        one for one in tensors(step.arguments) if one is below or not one.is_floating_point()]


# What whole numbers and flags may be made by that say no more than which rows were chosen, and not,
# as a comparison with a capacity, which of these; with a number: the one that they may have.
DECIDES = "eq nonzero any sum scatter sort argsort topk max argmax cumsum floor_divide div".split()
WITH = {"add": None, "sub": None, "mul": None, "gt": 0, "ne": 0}
END = 2 ** 62                           # of a slice that is given none


def plainly(made: dict, every: tuple) -> bool:
    """Whether what decides about these tensors, if anything does, is what was chosen alone: on
    other data no flag may be another that was of no effect here."""
    return all(_plain(*made[id(one)]) for many in _ways(made, every) for one in many
               if id(one) in made)


def _plain(step: Step, k: int) -> bool:
    name, given = step.operation.removesuffix("_"), step.arguments
    if step.known is not None or step.results[k].is_floating_point() and moved_by(step, k) is None:
        return True
    if name in WITH:
        return isinstance(given[1], (int, float)) and WITH[name] in (None, given[1])
    if name == "slice" and len(given) > 3 and isinstance(given[3], int):
        return not given[0].shape[given[1]] < given[3] < END
    return name in MOVES or name in DECIDES
