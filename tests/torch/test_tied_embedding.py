"""examples/tied_embedding.lua beside GPT-2's way of writing it: one parameter [letters, N] that is
an embedding and, transposed, the head."""
import dmft
import dmft.torch
import torch
from common import ROOT, ROUND_OFF
from torch.nn.functional import cross_entropy, embedding, gelu, linear

N, LETTERS = 24, 4


def normed(h):
    return h / h.square().mean(-1, keepdim=True).sqrt()


def test_outputs_and_gradients_are_those_of_one_parameter():
    torch.manual_seed(2)
    net = dmft.torch.Network(f"{ROOT}/examples/tied_embedding.ini", N=N, centre=False)
    tokens, targets = torch.randint(LETTERS, (2, 6, net.program.tokens))
    weights = {name: one.detach().clone().requires_grad_() for name, one in net.weights.items()}
    E, P = (weights[name].detach().T.clone().requires_grad_() for name in "EP")
    h = embedding(tokens, E) + P
    h = h + linear(gelu(linear(normed(h), weights["W1"])), weights["W2"])
    f = linear(normed(h), E) / N
    ours = net(tokens=tokens)
    assert (ours - f).abs().max() < ROUND_OFF * f.abs().max()
    for output in (ours, f):
        cross_entropy(output.reshape(-1, LETTERS), targets.reshape(-1)).backward()
    for name, one in {"E": E, "P": P}.items():
        difference = net.weights[name].grad.T - one.grad
        assert difference.abs().max() < ROUND_OFF * one.grad.abs().max()
    for name in ("W1", "W2"):
        difference = net.weights[name].grad - weights[name].grad
        assert difference.abs().max() < ROUND_OFF * weights[name].grad.abs().max()


def test_the_recipe_scales_it_as_a_vector():
    """Entries of order one at every width, and with the 1/N of the mean in front of the head Adam's
    rate does not go with the width, that of SGD as N."""
    recipe = dmft.recipe(f"{ROOT}/examples/tied_embedding.ini", **{"training.optimizer": "adam"})
    E = recipe["E"]
    assert (E.std.coefficient, E.std.powers) == (1, {})
    assert (E.adam.coefficient, E.adam.powers) == (1, {})
    assert (E.sgd.coefficient, E.sgd.powers) == (1, {"gamma0": 2, "N": 1})
    assert E.decays
