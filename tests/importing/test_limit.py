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
from dmft.torch.importing.record import InDouble, call

STEPS, REPLICATES = 5, 16
SEEDS = {48: 16, 96: 12, 192: 8}        # networks of each width
# Of tokens there are n times as many rows, which need more sites: a Mixtral of two layers at 8
# inputs of 5 tokens is off by .006 with 256 sites.
INPUTS, SITES, OF_TOKENS = 8, 256, {"data.inputs": 4, "solver.sites": 1024, "solver.replicates": 6,
                                    "training.steps": 4}
RATES = {"sgd": 0.3, "adam": 0.05}
# Standard errors, which are those of the draws of modules and of the limit. A tenth of what is
# learned is the largest error with which they are worth something.
MOST, SHARE = 3.0, 0.1


def losses(mine, settings, data, kind, width, seeds):
    """[seed, step] of modules trained by PyTorch, where the settings say so f(0) subtracted."""
    x, loss_kind = (data.X, "mse") if data.tokens is None else (data.tokens, "cross_entropy")
    x = images_of(mine, x) if mine._reading.layout else x
    found = np.zeros((seeds, settings["training.steps"]))
    for seed, row in enumerate(found):
        module = mine._builds.at(width)
        mine.store(dmft.torch.Network(settings, N=width, network=mine.network, seed=seed), module)
        made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[kind](
            mine.groups(kind, settings["training.eta0"], module, eps=1e-3))
        first = call(module, x)[0].detach() * (settings["reference.centre"] == "yes")
        for step in range(len(row)):
            f = call(module, x, seed=STEPS * seed + step)[0] - first
            loss = dmft.torch.loss_of(loss_kind, f, data.y, f.dim() > 1)
            row[step] = loss.item()
            made.zero_grad()
            with InDouble():
                loss.backward()
            made.step()
    return found


def settings_of(mine, kind):
    """Those of the limit."""
    found = mine.settings | {
        "training.steps": STEPS, "reference.centre": "yes", "data.inputs": INPUTS,
        "solver.sites": SITES, "solver.replicates": REPLICATES, "reference.widths": 16,
        "reference.seeds": 1, "output.kernels": "none", "output.tangent": "none",
        "output.gradients": "no", "training.eta0": RATES[kind]}
    if kind == "adam":
        found |= {"training.optimizer": "adam", "training.adam_eps": "outside",
                  "training.eps": 1e-3, "training.adam_read_in": 1}
    return found | (OF_TOKENS if mine._reading.tokens > 1 else {})


def images_of(mine, X):
    """The images whose patches these are."""
    layout = mine._reading.layout
    if not layout.patch:
        return X.reshape(-1, *layout.shape)
    p, (h, w) = layout.patch, layout.grid
    parts = X[:, mine._reading.more:].reshape(len(X), h, w, -1, p, p).permute(0, 3, 1, 4, 2, 5)
    return parts.reshape(-1, *layout.shape)


def moments(runs):
    """(mean, standard error) of each step behind the first."""
    return runs[:, 1:].mean(0), runs[:, 1:].std(0, ddof=1) / len(runs) ** 0.5


def approach(mine, kind, seeds=None, centre="yes", rate=None):
    """Fails unless modules of growing width, seeds[N] of each, come to the limit. centre: whether
    f(0) is subtracted, which may not be 0 in the limit of a head that is the embedding."""
    seeds = seeds or SEEDS
    settings = settings_of(mine, kind) | {"reference.centre": centre,
                                          "training.eta0": rate or RATES[kind]}
    run = dmft.solve(settings, network=mine.network, progress=False)
    data = dmft.torch.inputs.data_of(run)
    limit, limit_error = moments(run.limit["loss_runs"].values)
    start = run.limit["loss"][0].item()
    means, errors = zip(*(moments(losses(mine, settings, data, kind, N, count))
                           for N, count in seeds.items()))
    table = xarray.Dataset({"loss": (("width", "step"), np.array(means)),
                            "loss_se": (("width", "step"), np.array(errors))},
                           {"width": list(seeds)})
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


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_experts_that_grow_in_number_and_width_approach_the_limit():
    mine = dmft.torch.import_module(modules.Wide, modules.numbers(),
                                    {"N": (16, 32), "M": (8, 16)})
    assert "mirrored = true" in mine.network.lua
    approach(mine, "sgd", {16: 32, 32: 24, 64: 16})


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_heads_that_grow_in_number_approach_the_limit():
    mine = dmft.torch.import_module(modules.many_heads, modules.letters(), (16, 32))
    assert "group = 1" in mine.network.lua
    approach(mine, "sgd", {32: 16, 64: 12, 128: 8})


@pytest.mark.parametrize("packed, words", [(True, "qkv.*pairs of two growing.*separate par"),
                                           (False, "in number and in size")])
def test_heads_that_grow_in_number_and_in_size_are_refused(packed, words):
    def build(N):
        return modules.many_heads(N, d=round((N / 4) ** 0.5), packed=packed)
    with pytest.raises(dmft.InputError, match=words + r".* \(.*modules.py:\d+"):
        dmft.torch.import_module(build, modules.letters(), (16, 64))


class Three(torch.nn.Module):
    """Queries, keys and values, which have a matrix each."""

    def __init__(self, N):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(N, N, bias=False) for _ in range(3))

    def forward(self, x):
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


def separate(N):
    """A transformer with attention over the root of d."""
    model = modules.Transformer(N, bias=False)
    for one in model.attention:
        one.qkv = Three(N)
    return model


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_the_root_of_d_goes_into_separate_matrices():
    """Half of it into each, so that queries and keys start smaller than others."""
    mine = dmft.torch.import_module(separate, modules.letters(), (16, 32))
    assert not mine.left and mine.difference < 1e-12
    assert "attend(" in mine.network.lua and "N ^" not in mine.network.lua
    rows = {name: powers for name, _, _, *powers in mine.recipe(base=32).rows}
    for name, std, adam in (("q", -.75, -1.25), ("k", -.75, -1.25), ("v", -.5, -1)):
        powers = rows[f"attention.0.qkv.{name}.weight"]
        assert powers[0] == pytest.approx(std) and powers[2] == pytest.approx(adam)
    approach(mine, "sgd", {32: 16, 64: 12, 128: 8})


@pytest.mark.parametrize("name", ["transformer", "by_hand", "encoder"])
def test_what_has_no_limit_names_its_line(name):
    """Attention over the root of d, from one packed matrix."""
    build, example, more = modules.MODULES[name]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    with pytest.raises(dmft.InputError, match=r"grows as N\^0.5, so that there is no limit.*py:\d"):
        dmft.solve(settings_of(mine, "sgd"), network=mine.network, progress=False)
