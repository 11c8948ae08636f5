"""How large a network is said to be: parameters as PyTorch counts them, and those that are active
as the entries of which the gradient of one input is not zero."""
import os

import pytest
import torch
from common import ROOT
from test_torch import INIS, WIDTH

import dmft
import dmft.torch

ONE = {"solver.replicates": 0, "reference.seeds": 1, "training.steps": 1}


def counted(ini: str, N: int, **keys):
    """(the network, what its file says of it)."""
    keys = ONE | keys
    run = dmft.solve(os.path.join(ROOT, ini), progress=False, **keys | {"reference.widths": N})
    return dmft.torch.Network(run, N), run.reference[N].attrs


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini", INIS)
def test_parameters_are_those_of_pytorch(ini):
    net, said = counted(ini, WIDTH.get(ini, 16))
    assert said["parameters"] == sum(p.numel() for p in net.parameters() if p.requires_grad)
    assert 0 < said["active_parameters"] <= said["parameters"]


# One input, functions that are nowhere flat, two outputs so that none is at its target.
SINGLE = {"data.source": "gaussian", "data.inputs": 1, "data.dimension": 6,
          "network.activation": "softplus", "reference.centre": "no"}
SPARSE = [
    ("regime1", {"network.rho": 0.5, "network.gate": "softmax"}),
    ("regime1", {"network.rho": 0.25, "network.gate": "sigmoid"}),
    ("regime2", {"network.rho": 0.25, "network.kappa": 1}),
    ("regime2", {"network.rho": 0.25, "network.kappa": 1, "network.gate": "softmax",
                 "network.softmax_over": "all"}),
    ("regime2", {"network.rho": 0.5, "network.kappa": 1, "network.eta_bias": 0.1}),
    ("regime3", {"network.rho": 0.5, "network.parameterization": "mup"}),
    ("stack", {"network.rho": 0.5}),
    ("residual", {"network.rho": 0.25}),
]


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("model, keys", SPARSE)
def test_active_parameters_have_a_gradient(model, keys):
    """Of a router that selects all rows are active, though what is not selected has no gradient."""
    net, said = counted(f"data/{model}.ini", 16, **SINGLE | keys)
    X = torch.as_tensor(net._source.data["X"].values, dtype=net.dtype)
    net(X).sum().backward()
    found = 0
    for W in net.program.matrices:
        g = net.weights[W.name].grad
        if g is not None:
            router = W.name.split("_")[0] in ("Q", "R", "b")
            found += g.numel() if router else int((g != 0).sum())
    assert said["active_parameters"] == found < said["parameters"]
