"""The limit of an imported network beside the module itself: the module starts with the network's
standard deviations, and PyTorch trains it with the network's rates (`groups`)."""
import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch

STEPS, RATE, SEEDS, WIDTH = 6, 0.3, 10, 192
# Standard errors. Modules of this width differ from the limit by some tenths of one.
MOST = 4.0


def module_losses(mine, build, settings, data, kind):
    """[seed, step] of modules trained by PyTorch, f(0) subtracted."""
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[kind]
    losses = np.zeros((SEEDS, STEPS))
    for seed in range(SEEDS):
        module = build(WIDTH).double()
        mine.store(dmft.torch.Network(settings, N=WIDTH, network=mine.network, seed=seed), module)
        made = optimizer(mine.groups(kind, RATE if kind == "sgd" else 0.05, module, eps=1e-3))
        first = module(data.X).detach()
        for step in range(STEPS):
            loss = (module(data.X) - first - data.y).square().mean() / 2
            losses[seed, step] = loss.item()
            made.zero_grad()
            loss.backward()
            made.step()
    return losses


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name, kind", [("without_biases", "sgd"), ("soft", "adam"),
                                        ("dispatched", "sgd"), ("many", "sgd"),
                                        ("rms_norm", "sgd")])
def test_modules_approach_the_limit(name, kind):
    build, example, more = modules.MODULES[name]
    if name == "rms_norm":
        def build(N):
            module = modules.Residual(N, torch.nn.RMSNorm, 1)
            module.outlet = torch.nn.Linear(N, 1, bias=False)
            return torch.nn.Sequential(module, torch.nn.Flatten(0))
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    settings = mine.settings | {
        "training.steps": STEPS, "reference.centre": "yes", "data.inputs": 8,
        "solver.sites": 256, "solver.replicates": 6, "reference.widths": WIDTH,
        "reference.seeds": 1, "output.kernels": "none", "output.tangent": "none",
        "output.gradients": "no", "training.eta0": RATE}
    if kind == "adam":
        settings |= {"training.optimizer": "adam", "training.adam_eps": "outside",
                     "training.eps": 1e-3, "training.eta0": 0.05, "training.adam_read_in": 1}
    run = dmft.solve(settings, network=mine.network, progress=False)
    theirs = module_losses(mine, build, settings, dmft.torch.inputs.data_of(run), kind)
    limit = run.limit["loss_runs"].values
    assert limit[:, -1].mean() < 0.95 * limit[:, 0].mean()
    error = np.hypot(*(one[:, 1:].std(0, ddof=1) / len(one) ** 0.5 for one in (theirs, limit)))
    z = (theirs[:, 1:].mean(0) - limit[:, 1:].mean(0)) / error
    assert np.abs(z).max() < MOST, z
