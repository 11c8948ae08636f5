"""Is the program the module? Outputs and all gradients are compared, at a width and on inputs that
the import has not seen: a module that agrees forward may still hold gradients back (padding_idx,
detach), share a parameter, or branch on its data."""
from __future__ import annotations

import math

import torch

from dmft.torch.importing.record import InDouble, call
from dmft.torch.operations import Evaluation


def fresh(example: torch.Tensor, seed: int) -> torch.Tensor:
    """Other inputs like these, of another number: normals, or tokens in another order."""
    generator = torch.Generator().manual_seed(seed)
    count = len(example) + 1
    if example.is_floating_point():
        scale = example.double().square().mean().sqrt().item() or 1.0
        return scale * torch.randn(count, *example.shape[1:], dtype=torch.float64,
                                   generator=generator)
    letters = torch.unique(example)
    return letters[torch.randint(len(letters), (count, *example.shape[1:]), generator=generator)]


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference over the largest value."""
    largest = max(wanted.abs().max().item(), 0.0)
    difference = (found - wanted).abs().max().item()
    if math.isnan(difference):
        return math.inf
    return difference / largest if largest else difference


def evaluate(net, parts, parameters, x: torch.Tensor):
    """(outputs, terms of the loss) of the program, as functions of the module's parameters."""
    N = net.program.width
    weights = {}
    for part in parts:
        shape = net.weights[part.name].shape
        weights[part.name] = part.of(parameters, N).reshape(shape)
    kinds = None if x.is_floating_point() else x
    X = net.inputs_of(x) if kinds is not None else x
    A = X / math.sqrt(net.dimension)
    run = Evaluation(net.program, weights, {}, A[:, None] if A.dim() == 2 else A, kinds)
    return net._shape(run.output), run.penalty


def differences(module, net, parts, ignored, x, output=None) -> dict[str, float]:
    """{"output" or the name of a parameter: relative difference of the output, or of its gradient},
    of the sum of outputs times normals and of what the module adds to the loss."""
    parameters = {name: one for name, one in module.named_parameters() if name not in ignored}
    wanted, terms = call(module, x, output)
    made, penalty = evaluate(net, parts, parameters, x)
    wanted = wanted.reshape(made.shape)
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(wanted.shape, dtype=wanted.dtype, generator=generator)
    found = {"output": relative(made.detach(), wanted.detach())}
    if terms:
        found["terms of the loss"] = relative(penalty.detach(), sum(terms).detach())
    learning = {name: one for name, one in parameters.items() if one.requires_grad}
    sums = ((weight * wanted).sum() + sum(terms), (weight * made).sum() + penalty)
    with InDouble():
        gradients = [torch.autograd.grad(one, list(learning.values()), allow_unused=True)
                     for one in sums]
    none = max((g.abs().max().item() for g in gradients[0] if g is not None), default=1.0)
    for name, theirs, ours in zip(learning, *gradients):
        theirs, ours = (torch.zeros_like(learning[name]) if g is None else g
                        for g in (theirs, ours))
        # a gradient that is 0 but for round-off is compared with the largest of all
        small = theirs.abs().max() < 1e-12 * none
        found[name] = (theirs - ours).abs().max().item() / none if small else \
            relative(ours, theirs)
    return found
