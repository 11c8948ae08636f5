"""The limit of an imported network beside the module itself, trained by PyTorch at growing widths:
modules start with the network's standard deviations and train with its rates (`groups`), and what
their losses become in 1/N is the limit's."""
import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch
import xarray
from dmft.torch.importing.record import call

STEPS, SITES, REPLICATES = 5, 256, 16
SEEDS = {48: 16, 96: 12, 192: 8}       # networks of each width
RATES = {"sgd": 0.3, "adam": 0.05}
# Standard errors, which are those of the draws of modules and of the limit. A tenth of what is
# learned is the largest error with which they are worth something.
MOST, SHARE = 3.0, 0.1


def losses(mine, settings, data, kind, width):
    """[seed, step] of modules trained by PyTorch, f(0) subtracted."""
    x, loss_kind = (data.X, "mse") if data.tokens is None else (data.tokens, "cross_entropy")
    found = np.zeros((SEEDS[width], STEPS))
    for seed, row in enumerate(found):
        module = mine._builds.at(width)
        mine.store(dmft.torch.Network(settings, N=width, network=mine.network, seed=seed), module)
        made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[kind](
            mine.groups(kind, RATES[kind], module, eps=1e-3))
        first = call(module, x)[0].detach()
        for step in range(STEPS):
            f = call(module, x)[0] - first
            loss = dmft.torch.loss_of(loss_kind, f, data.y, f.dim() > 1)
            row[step] = loss.item()
            made.zero_grad()
            loss.backward()
            made.step()
    return found


def settings_of(mine, kind):
    """Those of the limit."""
    found = mine.settings | {
        "training.steps": STEPS, "reference.centre": "yes", "data.inputs": 8,
        "solver.sites": SITES, "solver.replicates": REPLICATES, "reference.widths": 16,
        "reference.seeds": 1, "output.kernels": "none", "output.tangent": "none",
        "output.gradients": "no", "training.eta0": RATES[kind]}
    if kind == "adam":
        found |= {"training.optimizer": "adam", "training.adam_eps": "outside",
                  "training.eps": 1e-3, "training.adam_read_in": 1}
    return found


def moments(runs):
    """(mean, standard error) of each step behind the first."""
    return runs[:, 1:].mean(0), runs[:, 1:].std(0, ddof=1) / len(runs) ** 0.5


def approach(mine, kind):
    """Fails unless modules of growing width come to the limit."""
    settings = settings_of(mine, kind)
    run = dmft.solve(settings, network=mine.network, progress=False)
    data = dmft.torch.inputs.data_of(run)
    limit, limit_error = moments(run.limit["loss_runs"].values)
    start = run.limit["loss"][0].item()
    means, errors = zip(*(moments(losses(mine, settings, data, kind, N)) for N in SEEDS))
    table = xarray.Dataset({"loss": (("width", "step"), np.array(means)),
                            "loss_se": (("width", "step"), np.array(errors))},
                           {"width": list(SEEDS)})
    fit = dmft.extrapolate(table, "loss", "width")
    error = np.hypot(fit["loss_inf_se"].values, limit_error)
    assert (error < SHARE * (start - limit)).all(), (error, start - limit)
    z = (fit["loss_inf"].values - limit) / error
    assert np.abs(z).max() < MOST, z


def single(norm):
    """Blocks with norms, one output."""
    def build(N):
        module = modules.Residual(N, norm, 1)
        module.outlet = torch.nn.Linear(N, 1, bias=False)
        return torch.nn.Sequential(module, torch.nn.Flatten(0))
    return build


FAMILIES = [(name, "sgd") for name in (
    "perceptron", "without_biases", "layer_norm", "rms_norm", "over_d", "bottleneck", "soft",
    "dispatched", "shared", "scattered", "many", "many_top")] + [
    ("over_d", "adam"), ("soft", "adam"), ("dispatched", "adam"),
    ("many_top", "adam")]


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name, kind", FAMILIES)
def test_modules_approach_the_limit(name, kind):
    build, example, more = modules.MODULES[name]
    if name.endswith("_norm"):
        build = single({"layer_norm": torch.nn.LayerNorm, "rms_norm": torch.nn.RMSNorm}[name])
    approach(dmft.torch.import_module(build, example(), (16, 32), **more), kind)


@pytest.mark.parametrize("name", ["transformer", "by_hand", "encoder"])
def test_what_has_no_limit_names_its_line(name):
    """Attention over the root of d, from one packed matrix."""
    build, example, more = modules.MODULES[name]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    with pytest.raises(dmft.InputError, match=r"grows as N\^0.5, so that there is no limit.*py:\d"):
        dmft.solve(settings_of(mine, "sgd"), network=mine.network, progress=False)
