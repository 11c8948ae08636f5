"""Is the program the module? Outputs and all gradients are compared, at a width and on inputs that
the import has not seen: a module that agrees forward may still hold gradients back (padding_idx,
detach), share a parameter, branch on its data, or remember earlier calls."""
from __future__ import annotations

import math

import torch

from dmft.errors import InputError
from dmft.torch.importing.merging import merged
from dmft.torch.importing.record import InDouble, call, run, tensors
from dmft.torch.operations import Evaluation
from dmft.torch.strangers import called


def fresh(example: torch.Tensor, seed: int, kinds: int = 0) -> torch.Tensor:
    """Other inputs like these, of another number: normals, or tokens in another order; kinds: with
    each of so many kinds among them, of which the example may lack some, or with the first ones."""
    generator = torch.Generator().manual_seed(seed)
    count = len(example) + 1
    if example.is_floating_point():
        scale = example.double().square().mean().sqrt().item() or 1.0
        return scale * torch.randn(count, *example.shape[1:], dtype=torch.float64,
                                   generator=generator)
    letters = torch.unique(example)
    found = letters[torch.randint(len(letters), (count, *example.shape[1:]), generator=generator)]
    places = torch.randperm(found.numel(), generator=generator)[:kinds]
    found.view(-1)[places] = torch.arange(len(places))
    return found


AGREES = 1e-8                           # round-off of some hundred operations
# What is compared beside outputs, terms of the loss and gradients.
OTHER = "the output at other weights and inputs"
AGAIN = "the output of the same inputs in a second call"


def others(x: torch.Tensor, kinds: int) -> list[torch.Tensor]:
    """A few inputs on which a branch on data may go another way: of the other sign, larger,
    smaller, or tokens of all kinds; with one of them so often that its experts have more rows
    than the example has, which a capacity would leave out; and one alone: others have none."""
    few, often = x[:24], x[:1].expand_as(x)
    alone = often[:2] if x.dim() < 3 and x.is_floating_point() else x[:1, :1].expand_as(x[:2])
    found = [-few, 3 * few, 0.1 * few] if x.is_floating_point() else [fresh(few, 11, kinds),
                                                                      fresh(few, 12)]
    return [*found[:-1], torch.cat([found[-1], often]), alone]


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference over the largest value; nan, which cannot be told, of a module whose
    own values are not finite."""
    if not wanted.isfinite().all():
        return math.nan
    largest = wanted.abs().max().item()
    difference = (found - wanted).abs().max().item()
    if math.isnan(difference):
        return math.inf
    return difference / largest if largest else difference


def evaluate(net, mine, parameters, x: torch.Tensor, normals=()):
    """(outputs, terms of the loss) of the program, as functions of the module's parameters, with
    the normals that this has drawn as noise. mine: the Imported."""
    N = net.program.width
    weights = {name: one.detach() for name, one in net.weights.items()}     # constants, too
    for part in mine.parts:
        for name, V in part.of_all(parameters, N).items():
            V = V.reshape(net.weights[name].shape)
            weights[name] = V if net.program.matrix(name).learns else V.detach()
    kinds = None if x.is_floating_point() else x
    X = net.inputs_of(x) if kinds is not None else mine.inputs(x)
    A = X / math.sqrt(net.dimension)
    run = Evaluation(net.program, weights, {}, A[:, None] if A.dim() == 2 else A, kinds,
                     iter(mine.drawn_as(normals, len(x))).__next__)
    return net._shape(run.output), run.penalty


def differences(module, net, mine, x=None, more=()) -> dict[str, float]:
    """{"output" or the name of a parameter: relative difference of the output, or of its gradient},
    of the sum of outputs times normals and of what the module adds to the loss; and of the outputs
    of `more`, of the same size with other weights, of which the first has gradients, too."""
    wanted, found = _compared(module, net, mine, x)
    return _on_others(found, module, wanted, more, net, mine, x)


def _call(module, x, mine, normals=None):
    return called("the module runs on the example and, on inputs that it is compared on, "
                  f"{list(x.shape)} of either sign or other tokens,", "let it take any number of "
                  "them, of any values", call, module, x, mine.output, normals, mine.lines.sides)


def in_evaluation(builds, mine) -> float:
    """By how much of the largest the outputs of a module change where its random numbers, but for
    normals, are not drawn, but as after eval(); nan where it cannot be evaluated so."""
    module, x = builds.at(builds.widths[0]), fresh(mine._example, 5)
    try:
        with torch.no_grad():
            wanted = call(module, x, mine.output)[0]
            return relative(call(module.eval(), x, mine.output)[0], wanted)
    except Exception:                   # of a stranger's code, which trains all the same
        return math.nan


def _gradients(one, parameters, lines):
    try:
        found = torch.autograd.grad(one, parameters, allow_unused=True)
        return [g.to_dense() if g is not None and g.is_sparse else g for g in found]
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError("PyTorch finds no gradient of the module, as a step of training wants "
                         f"it: {reason}{lines.without_gradient(reason)}") from error


def _compared(module, net, mine, x):
    """(outputs, differences of these and of gradients) of one module."""
    parameters = {name: one for name, one in module.named_parameters() if name not in mine.ignored}
    normals: list = []
    wanted, terms = _call(module, x, mine, normals)
    made, penalty = evaluate(net, mine, parameters, x, normals)
    wanted = wanted.reshape(made.shape)
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(wanted.shape, dtype=wanted.dtype, generator=generator)
    found = {"output": relative(made.detach(), wanted.detach())}
    if terms:
        found["terms of the loss"] = relative(penalty.detach(), sum(terms).detach())
    learning = {name: one for name, one in parameters.items() if one.requires_grad}
    sums = ((weight * wanted).sum() + sum(terms), (weight * made).sum() + penalty)
    with InDouble():
        gradients = [_gradients(one, list(learning.values()), mine.lines) for one in sums]
    none = max((g.abs().max().item() for g in gradients[0] if g is not None), default=1.0)
    for name, theirs, ours in zip(learning, *gradients):
        theirs, ours = (torch.zeros_like(learning[name]) if g is None else g
                        for g in (theirs, ours))
        # a gradient that is 0 but for round-off is compared with the largest of all
        small = theirs.abs().max() < 1e-12 * none
        found[name] = (theirs - ours).abs().max().item() / none if small else \
            relative(ours, theirs)
    return wanted.detach(), found


def _started_elsewhere(module, ignored) -> None:
    """Gives entries that start at 0, and parameters of one value, others: a head or a branch that
    starts at 0 holds back the gradients of all beneath it, and hides what these compute."""
    generator = torch.Generator().manual_seed(13)
    for name, p in module.named_parameters():
        if name not in ignored:
            noise = torch.randn(p.shape, dtype=p.dtype, generator=generator)
            size = p.shape[-1] ** -0.5 if p.dim() > 1 else 0.1
            p.add_(size * noise * ((p == 0) | (p == p.flatten()[0]).all()))


def _on_others(found, module, wanted, more, net, mine, x) -> dict[str, float]:
    """Adds to what was found outputs of the same inputs once more, and of other weights and inputs
    of other sizes."""
    several = []
    with torch.no_grad():
        again = _call(module, x, mine)[0].reshape(wanted.shape)
        found[AGAIN] = relative(again, wanted)
        for one, z, k in zip(more, others(x, mine.settings.get("data.vocabulary", 0)),
                             (1.0, -1.0, 2.0, 1.0)):
            _started_elsewhere(one, mine.ignored)
            if not several:
                with torch.enable_grad():
                    moved = _compared(one, net, mine, x)[1]
                found |= {key: max(found[key], value) for key, value in moved.items()
                          if value > found[key]}        # nan: what was positive may be negative
            for p in one.parameters():
                p.mul_(k)
            parameters = {name: p for name, p in one.named_parameters() if name not in mine.ignored}
            normals: list = []
            theirs = _call(one, z, mine, normals)[0]
            ours = evaluate(net, mine, parameters, z, normals)[0]
            theirs = theirs.reshape(ours.shape)
            seen = theirs.isfinite()        # what is positive at the start may now be negative
            if seen.any():
                several.append(relative(ours[seen], theirs[seen]))
                if several[-1] > AGREES:
                    mine.ways |= _other_way(mine, one, z)
    if not found["output"] <= AGREES:
        mine.ways |= _other_way(mine, module, x)
    return found | {OTHER: max(several, default=math.nan)}


def _other_way(mine, module, x) -> dict[str, None]:
    """The line at which a module computes something else than it did on the example, or what is
    not finite."""
    try:
        with torch.enable_grad():
            steps = merged(run(module, x, mine.output)).steps
    except Exception:                   # of a stranger's code, which is no reason of what differs
        return {}
    before = mine.lines.steps
    for one, (operation, _) in zip(steps, before):
        if one.operation != operation or not all(
                map(_is_finite, tensors(one.results))) and all(
                    map(_is_finite, tensors([one.arguments, *one.options.values()]))):
            return {one.place: None}
    longer = [one.place for one in steps[len(before):]] + [at for _, at in before[len(steps):]]
    return dict.fromkeys(longer[:1])


def _is_finite(one: torch.Tensor) -> bool:
    return not one.is_floating_point() or bool(one.isfinite().all())


def worst_of(found: dict[str, float]) -> str:
    """The key of the largest difference; what cannot be told comes before all that differs less
    than infinitely."""
    return max(found, key=lambda key: math.inf if math.isnan(found[key]) else found[key])


SINGLE = 1e-5                           # of the largest value, between float32 and float64


def same_buffers(module, built) -> None:
    """Refuses a module of which a buffer is not that of the module that was built."""
    there = dict(built.named_buffers())
    for name, one in module.named_buffers():
        other = there.get(name)
        known = other is not None and other.shape == one.shape
        near = max(SINGLE, torch.finfo(one.dtype).eps if one.is_floating_point() else 0)
        if known and (not one.numel() or torch.allclose(
                one.double(), other.double(), near, near * other.double().abs().max().item(),
                equal_nan=True)):
            continue
        raise InputError(f"the buffer {name} of this module is not what build makes it; the "
                         "network has it as a constant, so that it would be another network: set "
                         "it in build, or make it a parameter")


def refused(found: dict[str, float], lines, ways) -> InputError:
    """The sentence that says what of a network is not the module, of all that was found; lines:
    those of the module (lines.py), ways: those at which it computes something else."""
    worst = worst_of(found)
    later = [key for key in found if found[key] > AGREES and key in lines.parameters]
    if found["output"] > AGREES and not math.isnan(found[worst]):
        worst = "output"                # gradients differ, too, where outputs do
    elif worst in later:
        worst = lines.last(later)       # whose gradient is computed first
    if found[AGAIN] > AGREES:
        worst = AGAIN                   # by which all else differs, too
    value, what = found[worst], worst
    if worst in lines.parameters:
        what = f"the gradient of {worst}{lines.of(worst)}"
    if math.isnan(value):
        where = f" ({'; '.join(ways)})" if ways else ""
        return InputError(f"whether the network is the module cannot be told: {what} is not "
                          f"finite in the module itself{where}, at a width and on inputs that were "
                          "not traced (normal numbers of the size of the example's); let it be "
                          "finite for all inputs, as by an eps beneath a root or a division")
    others = [one for one in later if one != worst]
    first = f", the first one on the way back, before {lines.said(others)}" \
        if worst in later and others else ""
    return InputError(f"the network is not the module: {what} differs by {value:.1e} of its "
                      f"largest value{first}, at a width and on inputs that were not traced; "
                      + _why(worst, lines, ways))


def _why(worst: str, lines, ways) -> str:
    if worst == AGAIN:
        return "it remembers earlier calls, as in a buffer that every call changes" \
            f"{lines.written}; let your loop change it behind a step, and not forward"
    if worst in lines.parameters:
        return "something holds gradients back or changes them, as detach, .data, padding_idx, a " \
            f"hook or a torch.autograd.Function{lines.held}, or shares a parameter; take it out " \
            "of the forward pass, or freeze the parameter by requires_grad = False"
    what = "a branch on data, an expert that the example never chose or that has room for few " \
        f"rows, or a number that is no power of the width{lines.turning}"
    if ways:
        what = f"it computes something else there ({'; '.join(list(ways)[:2])}), as by a branch " \
            f"on data{lines.decided}"
    return f"{what}; a program computes the same for all inputs: let build decide, weight both " \
        "branches by a function of the input such as sigmoid, or give 24 or more rows for each " \
        "expert"
