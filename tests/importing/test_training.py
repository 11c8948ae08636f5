"""dmft-solve trains an imported network as somebody's own loop in PyTorch trains his module, from
the same weights, with his standard deviations, rates, eps and decay."""
import re

import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch
from dmft.torch.importing.record import InDouble
from dmft.torch.several import several

# Round-off that grows over eight steps; 4e-15 has been seen.
ROUND_OFF, STEPS, WIDTH, OTHER = 1e-12, 8, 16, 48      # OTHER: not traced
OPTIMIZERS = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), 0.05),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), 0.03, momentum=0.8),
    "adam": lambda m: torch.optim.Adam(m.parameters(), 1e-2, eps=1e-6),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), 1e-2, betas=(0.8, 0.95), eps=1e-6,
                                         weight_decay=0.1),
    "lion": lambda m: dmft.torch.Lion(m.parameters(), 1e-2, eps=1e-3, weight_decay=0.1)}
ALL = [(name, kind) for name in modules.MODULES for kind in ("sgd", "adam", "adamw")
       ] + [("soft", "momentum"), ("soft", "lion"), ("without_biases", "lion")]


def his_outputs(mine, build, run, optimizer, width=WIDTH):
    """Outputs of the module before each step of his own loop, from the weights of a run."""
    ours = dmft.torch.Network(run, width, weights=run)
    module = build(*mine._builds.others(width)).double()
    mine.store(ours, module)
    data = dmft.torch.inputs.data_of(run)
    tokens = data.tokens is not None
    x, loss, made, outputs = data.tokens if tokens else data.X, "cross_entropy" if tokens else \
        "mse", several(optimizer(module)), []
    for _ in range(STEPS):
        f = module(x)
        outputs.append(f.detach().numpy())
        made.zero_grad()
        dmft.torch.loss_of(loss, f, data.y, f.dim() > 1).backward()
        with InDouble():                # Muon computes in bfloat16 else
            made.step()
    return np.stack(outputs)


def compared(module, optimizer, width=WIDTH):
    """Fails unless his loop and ours are one; module: a name, or what modules.MODULES has of it."""
    build, example, more = modules.MODULES[module] if isinstance(module, str) else module
    mine = dmft.torch.import_module(build, example(), (16, 32), check=False, **more)
    trained_alike(mine, build, optimizer, width)


def trained_alike(mine, build, optimizer, width):
    """Fails unless his loop and that of an import are one."""
    run = dmft.solve(mine.settings, network=mine.as_trained(optimizer), progress=False, **{
        "training.steps": STEPS, "reference.widths": width, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial", "output.inputs": "all"})
    his = his_outputs(mine, build, run, optimizer, width)
    ours = run.reference[width]["f_runs"].values[0].reshape(his.shape)
    assert np.abs(his[-1] - his[0]).max() > 0.01            # something was learned
    assert np.abs(his - ours).max() < ROUND_OFF * np.abs(his).max()


@pytest.mark.parametrize("name, kind", ALL)
def test_his_loop_and_ours_are_one(name, kind):
    compared(name, OPTIMIZERS[kind], OTHER if kind == "adamw" else WIDTH)


def groups_of(module):
    """Decay of matrices alone, as most training code has it."""
    matrices = [p for p in module.parameters() if p.dim() > 1]
    others = [p for p in module.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}], 1e-2,
                             eps=1e-6, weight_decay=0.1)


@pytest.mark.parametrize("name", ["layer_norm", "scattered"])
def test_groups_without_decay(name):
    compared(name, groups_of)


def differently(module):
    """Every parameter has a learning rate and a decay of its own, down to none; the rates of
    matrices fall with the width, and what a step takes off them falls with them."""
    width = module.first.weight.shape[0]
    return torch.optim.AdamW([
        {"params": [p], "lr": (0.02 + 0.01 * k) * (16 / width if p is module.second.weight else 1),
         "weight_decay": 0.3 * k} for k, p in enumerate(module.parameters())], 1e-2, eps=1e-6)


@pytest.mark.parametrize("width", [8, OTHER])
def test_groups_whose_decays_differ(width):
    """At a smaller width than was traced a step takes more, at a larger one less."""
    compared("without_biases", differently, width)


def by_muon(**more):
    """Muon for matrices between layers, AdamW for the rest, as they are used."""
    def made(module):
        hidden = [p for name, p in module.named_parameters()
                  if p.dim() == 2 and min(p.shape) > modules.NUMBERS
                  and min(p.shape) != modules.LETTERS
                  or "router" in name and not isinstance(module, modules.Mixture)]
        rest = [p for p in module.parameters() if not any(p is one for one in hidden)]
        return [torch.optim.Muon(hidden, 0.05, **{"weight_decay": 0.1} | more),
                torch.optim.AdamW(rest, 1e-2, eps=1e-6, weight_decay=0)]
    return made


MUON = [{}, {"adjust_lr_fn": "match_rms_adamw"}, {"adjust_lr_fn": "spectral_unclamped"},
        {"nesterov": False, "momentum": 0.8, "weight_decay": 0}]
needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")


@needs_muon
@pytest.mark.parametrize("name, more", [("perceptron", one) for one in MUON] + [
    ("transformer", one) for one in MUON] + [(name, {}) for name in (
        "layer_norm", "by_hand", "encoder", "bottleneck", "dispatched", "shared", "scattered",
        "many", "many_top", "many_heads", "wide", "flat", "flat_gated")], ids=str)
def test_muon_and_adamw_train_as_his_loop(name, more):
    """Packed queries, keys and values are one matrix of Muon; its own arithmetic of bfloat16 is in
    double precision in both."""
    compared(name, by_muon(**more), OTHER)


@needs_muon
@pytest.mark.parametrize("name", ["layer_norm", "transformer", "dispatched"])
def test_muon_and_adamw_with_decays_of_their_own(name):
    """One with decay beside one with another, at other rates."""
    def made(module):
        muon, rest = by_muon(weight_decay=0.1)(module)
        for group in rest.param_groups:
            group["weight_decay"] = 0.7
        return [muon, rest]
    compared(name, made, OTHER)


@needs_muon
def test_muon_beside_plain_descent():
    def made(module):
        return [torch.optim.Muon([module.second.weight], 0.05, weight_decay=0),
                torch.optim.SGD([module.first.weight, module.last.weight], 0.05)]
    compared("without_biases", made, OTHER)


@needs_muon
@pytest.mark.parametrize("optimizer, words", [
    (lambda m: [torch.optim.Muon(m.parameters(), 0.1)], r"first.weight has a side .*modules.py:"),
    (lambda m: torch.optim.Muon([m.second.weight], 0.1, ns_steps=6), "ns_steps = 6"),
    (lambda m: torch.optim.Muon([m.second.weight], 0.1, eps=0.5), "Muon with eps = 0.5: "),
    (lambda m: [torch.optim.Muon([m.second.weight], 0.1),
                torch.optim.SGD([m.first.weight], 0.1, momentum=0.9)], "beside momentum"),
    (lambda m: [torch.optim.Adam(m.parameters(), 0.1)] if len(m.first.weight) > 16 else [
        torch.optim.Muon([m.second.weight], 0.1), torch.optim.Adam([m.first.weight], 0.1)],
     "by muon at N = 16 and by adam at 32"),
    (lambda m: [torch.optim.Adam([m.second.weight], 0.1),
                torch.optim.SGD([m.first.weight], 0.1)], "Adam and SGD"),
], ids=["read_in", "steps", "eps", "momentum", "changing", "two_kinds"])
def test_several_without_a_counterpart_are_refused(optimizer, words):
    build, example, more = modules.MODULES["without_biases"]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    with pytest.raises(dmft.InputError, match=words):
        mine.as_trained(optimizer)


@pytest.mark.parametrize("optimizer, words", [
    (lambda m: torch.optim.Adagrad(m.parameters()), "Adagrad is not known"),
    (lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True), "nesterov"),
    (lambda m: torch.optim.Adam(m.parameters(), 0.1, weight_decay=0.1), "added to the gradient"),
    (lambda m: torch.optim.AdamW(
        m.parameters(), 0.1, weight_decay=0.5 if len(m.first.weight) > 16 else 0),
     "decays by 0 at N = 16 and by 0.05 at 32"),
    (lambda m: dmft.torch.Lion(m.parameters()), "Lion with eps = 0: "),
    (lambda m: torch.optim.AdamW(m.parameters(), eps=0), "AdamW with eps = 0: "),
    (lambda m: 3, "gives a int"),
    (lambda m: torch.optim.Adam(torch.nn.Linear(2, 2).parameters()), "moves no parameter"),
], ids=["unknown", "nesterov", "l2", "decay_at_one_width", "signs", "no_eps", "none", "others"])
def test_optimizers_without_a_counterpart_are_refused(optimizer, words):
    build, example, more = modules.MODULES["without_biases"]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    with pytest.raises(dmft.InputError) as failed:
        mine.as_trained(optimizer)
    assert words in str(failed.value)


def mup(module, kind):
    """A perceptron whose rates go with the width as they should: by hand, as mup has them."""
    N = module.first.weight.shape[0]
    module.last.weight.data.div_(N ** 0.5)
    lr = {"sgd": [N, N, 1, N, 1 / N], "adam": [1, 1, 1 / N, 1, 1 / N]}[kind]
    eps = [1 / N, 1 / N, 1 / N, 1 / N, 1]
    made = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[kind]
    return made([{"params": [p], "lr": 0.1 * rate, **({"eps": 1e-8 * e} if kind == "adam" else {})}
                 for p, rate, e in zip(module.parameters(), lr, eps)])


def test_a_decay_that_falls_with_the_width_is_none_of_the_limit():
    """At one weight_decay of AdamW what a step takes off the matrix between layers, whose rate goes
    as 1/N, vanishes; what it takes off the others stays."""
    plain, example, more = modules.MODULES["perceptron"]

    def build(N):
        module = plain(N)
        module.last.weight.data.div_(N ** 0.5)
        return module
    mine = dmft.torch.import_module(build, example(), (16, 32), check=False, **more)

    def made(module):
        groups = mup(module, "adam").param_groups
        return torch.optim.AdamW([{"params": one["params"], "lr": one["lr"], "eps": one["eps"],
                                   "weight_decay": 0.1} for one in groups])
    told = dmft.describe(mine.settings | {"reference.widths": 64, "solver.replicates": 1},
                         network=mine.as_trained(made))
    names = [mine.names[name][0] for name in ("first.weight", "second.weight", "last.weight")]
    assert [told.limit.matrix(name).decays for name in names] == [1, 0, 0]
    found = [told.networks[0].matrix(name).decays for name in names]
    assert np.allclose(found, [1, 1 / 64, 1 / 64], rtol=ROUND_OFF, atol=0)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_check_knows_vectors_and_matrices(kind):
    build, example, more = modules.MODULES["perceptron"]
    mine = dmft.torch.import_module(build, example(), (128, 512), **more)
    plain = str(mine.check(OPTIMIZERS[kind]))
    for name in ("second.weight", "last.weight"):
        assert re.search(rf"{name} .*explode", plain), plain
    right = mine.check(lambda m: mup(m, kind))
    rates = [(one.lr, one.lr_ours) for one in right.tensors]
    assert all(abs(a - b) < 1e-6 for a, b in rates), str(right)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_groups_have_the_rates_of_the_network(kind):
    build, example, more = modules.MODULES["transformer"]
    mine = dmft.torch.import_module(build, example(), (16, 32), check=False, **more)
    small, large = (mine.groups(kind, 0.1, build(N)) for N in (32, 64))
    powers = {one["name"]: np.log2(two["lr"] / one["lr"]) for one, two in zip(small, large)}
    wanted = {"sgd": {"head.weight": -1, "letter.weight": 1, "norms.0.weight": 1,
                      "layers.0.0.weight": 0, "layers.0.0.bias": 1},
              "adam": {"head.weight": -1, "letter.weight": 0, "norms.0.weight": 0,
                       "layers.0.0.weight": -1, "layers.0.0.bias": 0}}[kind]
    assert {name: round(powers[name], 9) + 0 for name in wanted} == wanted
    model = build(32)
    assert len(torch.optim.SGD(mine.groups("sgd", 0.1)(model)).param_groups) == len(small)


def test_a_recipe_has_your_numbers_at_the_base():
    build, example, more = modules.MODULES["without_biases"]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    text = str(mine.recipe(base=64))
    line = next(line for line in text.splitlines() if line.startswith("second.weight"))
    assert line.split()[3:] == ["N^-0.50", "N^0.00", "N^-1.00", "N^-1.00"]
    assert abs(float(line.split()[2]) - (3 * 64) ** -0.5) < 0.01
    with pytest.raises(dmft.InputError, match="mssp"):
        mine.recipe(parameterization="sp")


def test_a_row_of_one_parameter_has_its_name():
    """Also where all names are numbers."""
    mine = dmft.torch.import_module(lambda N: torch.nn.Sequential(
        torch.nn.Linear(5, N), torch.nn.Tanh(), torch.nn.Linear(N, 1, bias=False),
        torch.nn.Flatten(0)), torch.randn(24, 5), (16, 32))
    names = [line.split()[0] for line in str(mine.recipe(base=64)).splitlines()[1:-1]]
    assert names == ["0.weight", "0.bias", "2.weight"]


def test_check_of_a_module_alone_is_that_of_its_import():
    build, example, more = modules.MODULES["soft"]

    def optimizer(model):
        return torch.optim.Adam(model.parameters(), 1e-3)
    found = dmft.torch.check(build, example(), widths=(16, 32), optimizer=optimizer, **more)
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    assert str(found) == str(mine.check(optimizer)) and found.agrees is False
    assert found.outputs.same


def test_what_few_numbers_hide_is_not_called_right():
    """At widths 16 and 32 a head of some numbers, the same in every build, does not tell N^-1/2
    from N^-1; the rate of Adam, which is no measurement, is judged all the same."""
    def build(N):
        torch.manual_seed(N)
        return modules.MODULES["without_biases"][0](N)

    def optimizer(model):
        first, second, last = model.parameters()
        rate = {"lr": 1 / len(first)}
        return torch.optim.Adam([{"params": [first]}, {"params": [second, last], **rate}])
    found = dmft.torch.check(build, modules.numbers(), widths=(16, 32), optimizer=optimizer)
    assert found.agrees is None and "larger widths mend" in found["last.weight"].text
    far = dmft.torch.check(build, modules.numbers(), widths=(64, 512), optimizer=optimizer)
    assert far.agrees is False and "at the start" in far["last.weight"].text


def test_check_of_what_cannot_be_read_says_that_it_cannot_tell():
    class Sorted(modules.Perceptron):
        def forward(self, x):
            return super().forward(x) + self.first.weight.sort(0).values.sum()
    with pytest.raises(dmft.InputError, match="cannot tell .* test_import.py|cannot tell .*sort"):
        dmft.torch.check(Sorted, modules.numbers(), widths=(16, 32),
                         optimizer=lambda m: torch.optim.SGD(m.parameters(), 0.1))
    with pytest.raises(dmft.InputError, match="a tensor of inputs"):
        dmft.torch.check(Sorted, modules.numbers(), "x.ini", optimizer=None)


class Scaled(torch.nn.Module):
    """Trained numbers that the module multiplies, by a constant and by a power of the width."""

    def __init__(self, N):
        super().__init__()
        self.up, self.score = torch.nn.Linear(5, N), torch.nn.Linear(N, 3, bias=False)
        self.down = torch.nn.Linear(N, 1, bias=False)
        self.bias = torch.nn.Parameter(torch.tensor([0.3, -0.2, 0.5]))
        self.gain = torch.nn.Parameter(torch.tensor(2.0))
        self.width = N

    def forward(self, x):
        h = torch.tanh(self.up(x))
        g = torch.softmax(self.score(h) + self.width ** -0.5 * self.bias, -1)
        return self.down(h + 0.25 * self.gain * g[:, :1] * torch.sin(h))[:, 0]


def test_numbers_start_where_the_module_has_them():
    mine = dmft.torch.import_module(Scaled, torch.randn(24, 5), (16, 32))
    run = dmft.solve(mine.settings, network=mine.network, progress=False, **{
        "training.steps": 1, "reference.widths": OTHER, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial"})
    module = Scaled(OTHER).double()
    mine.store(dmft.torch.Network(run, OTHER, weights=run), module)
    assert np.allclose(module.bias.detach(), [0.3, -0.2, 0.5], rtol=ROUND_OFF, atol=0)
    assert np.allclose(module.gain.detach(), 2, rtol=ROUND_OFF, atol=0)


def started(first, second):
    """(build, example) of a perceptron whose matrices start with these standard deviations."""
    def build(N):
        module = modules.MODULES["without_biases"][0](N)
        torch.nn.init.normal_(module.first.weight, std=first(N))
        torch.nn.init.normal_(module.second.weight, std=second(N))
        return module
    return build, modules.MODULES["without_biases"][1]()


def test_starts_that_are_no_half_power_hold_at_other_widths():
    mine = dmft.torch.import_module(*started(lambda N: N ** -0.25, lambda N: N ** -0.75), (64, 128))
    run = dmft.solve(mine.settings, network=mine.as_trained(OPTIMIZERS["sgd"]), progress=False, **{
        "training.steps": 1, "reference.widths": 1024, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial"})
    module = mine._builds.at(1024)
    mine.store(dmft.torch.Network(run, 1024, weights=run), module)
    for weight, power in ((module.first.weight, -0.25), (module.second.weight, -0.75)):
        found = weight.detach().square().mean().sqrt().item() / 1024 ** power
        # c comes of 16 matrices at each of two widths, the smaller one of 64 x D numbers
        of_c = 2 / (2 * 16 * 64 * module.first.weight.shape[1])
        assert abs(np.log(found)) < 5 * np.sqrt(of_c + 1 / (2 * weight.numel()))


def test_a_start_that_is_no_power_is_said():
    xavier = started(lambda N: (2 / (N + 100)) ** 0.5, lambda N: N ** -0.5)
    mine = dmft.torch.import_module(*xavier, (128, 512))
    with pytest.warns(dmft.NoteWarning, match="first.weight is .* no simple power of N"):
        mine.as_trained(OPTIMIZERS["sgd"])


class Tables(torch.nn.Module):
    """Letters, places and letters once more, each by a table with a factor of its own."""

    def __init__(self, N):
        super().__init__()
        self.letter, self.place = torch.nn.Embedding(modules.LETTERS, N), torch.nn.Embedding(9, N)
        self.again = torch.nn.Embedding(modules.LETTERS, N)
        self.up, self.head = torch.nn.Linear(N, N), torch.nn.Linear(N, modules.LETTERS, bias=False)
        for one, std in ((self.letter, 0.5), (self.place, 0.02), (self.again, 2.0)):
            torch.nn.init.normal_(one.weight, std=std)

    def forward(self, x):
        place = self.place(torch.arange(x.shape[1]))
        h = self.up(torch.tanh(3 * self.letter(x) + place)) - place
        return self.head(torch.tanh(h + self.again(x)))


@pytest.mark.filterwarnings("ignore:no output depends")
def test_letters_and_places_are_tables_of_their_own():
    """Each starts as the module starts it."""
    mine = dmft.torch.import_module(Tables, modules.letters(), (16, 32))
    assert mine.difference < ROUND_OFF
    assert {name: mine.names[name + ".weight"] for name in ("letter", "place", "again")} \
        == {"letter": ("letter",), "place": ("place",), "again": ("again",)}
    his = mine.as_trained(lambda m: torch.optim.SGD(m.parameters(), 0.1))
    net = dmft.torch.Network(his.settings() | mine.settings, N=512, network=his)
    for name, std in (("letter", 0.5), ("place", 0.02), ("again", 2.0)):
        draws = net.weights[name]
        assert abs(draws.std().item() / std - 1) < 0.1, name        # four standard errors
