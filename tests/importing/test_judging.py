"""mine.check(optimizer) of every optimizer of torch.optim: right where its rates go with the width
as they should, wrong where they do not."""
import math

import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn

WIDTHS = (64, 256)
CLASSES = sorted(name for name, one in vars(torch.optim).items() if isinstance(one, type)
                 and one is not torch.optim.Optimizer)
# Of the first, the second and the last matrix, at which power of the width its rate is right. Most
# move every entry by about their rate; Adafactor by the rate times the size of the matrix.
BY_ENTRY, ALONG = (0, -1, -1), (1, 0, -1)
POWERS = {"SGD": ALONG, "ASGD": ALONG, "Adafactor": (0, -0.5, 0)}
EPS = (-1, -1, 0)                       # as gradients of the three go
MORE = {"ASGD": {"lambd": 0}, "AdamW": {"weight_decay": 0}}
# Without a step of gradients alone there is no law.
REFUSED = {"LBFGS": "closure", "SparseAdam": "dense"}


@pytest.fixture(scope="module")
def mine():
    """A perceptron of three matrices."""
    build, example, more = modules.MODULES["without_biases"]

    def started(N):
        module = build(N)
        with torch.no_grad():           # exactly, so that small widths tell
            for p, std in zip(module.parameters(), (1, N ** -0.5, 1 / N)):
                p.mul_(std / p.square().mean().sqrt())
        return module
    return dmft.torch.import_module(started, example(), WIDTHS, **more)


def optimizer_of(name, right):
    """With rates that go with the width, or with one rate."""
    kind = getattr(torch.optim, name)

    def made(module):
        N, groups = module.first.weight.shape[0], []
        has_eps = "eps" in kind([torch.nn.Parameter(torch.ones(2, 2))], lr=0.1).defaults
        for p, power, small in zip(module.parameters(), POWERS.get(name, BY_ENTRY), EPS):
            more = {"lr": 0.1 * N ** power} if right else {}
            if right and has_eps and name != "Adafactor":
                more["eps"] = 1e-8 * float(N) ** small
            if right and name == "Adadelta":    # eps lies under the root, and is a rate, too
                more = {"lr": 0.1 * N ** (power - small), "eps": 1e-16 * float(N) ** (2 * small)}
            groups.append({"params": [p], **more})
        return kind(groups, lr=0.1, **MORE.get(name, {}))
    return made


def muon(right):
    """Of the matrix between layers, and AdamW of the others."""
    def made(module):
        N = module.first.weight.shape[0] if right else 1
        rest = [{"params": [module.first.weight], "eps": 1e-8 / N},
                {"params": [module.last.weight], "lr": 0.1 / N}]
        return [torch.optim.Muon([module.second.weight], 0.1, weight_decay=0),
                torch.optim.AdamW(rest, 0.1, weight_decay=0)]
    return made


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in REFUSED])
def test_rates_are_judged_by_a_measured_step(mine, name):
    right, wrong = (muon(way) if name == "Muon" else optimizer_of(name, way)
                    for way in (True, False))
    found = mine.check(right)
    assert found.agrees is True, str(found)
    wrong = mine.check(wrong)
    assert wrong.agrees is False, str(wrong)
    assert "explode" in wrong["last.weight"].text or name == "Adafactor"


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_step_is_refused(mine, name):
    with pytest.raises(dmft.InputError, match=f"how far {name} moves .*{REFUSED[name]}"):
        mine.check(lambda module: getattr(torch.optim, name)(module.parameters()))


@pytest.mark.parametrize("rule, power", [("original", 0), ("match_rms_adamw", -0.5),
                                         ("spectral_unclamped", 0)])
@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_each_rule_of_muons_rate_has_its_law(mine, rule, power):
    def made(off):
        def of(module):
            N = module.first.weight.shape[0]
            return [torch.optim.Muon([module.second.weight], 0.1 * N ** (power + off),
                                     weight_decay=0, adjust_lr_fn=rule), muon(True)(module)[1]]
        return of
    assert mine.check(made(0)).agrees is True
    assert "explode as N^0.50" in mine.check(made(0.5))["second.weight"].text


@pytest.mark.parametrize("kind, more", [("Adam", {"weight_decay": 0.1}), ("NAdam", {
    "weight_decay": 0.1}), ("RMSprop", {"weight_decay": 0.1})])
def test_decay_that_is_no_share_is_not_judged(mine, kind, more):
    made = optimizer_of(kind, True)

    def decaying(module):
        optimizer = made(module)
        for group in optimizer.param_groups:
            group |= more
        return optimizer
    found = mine.check(decaying)
    assert found.agrees is None and "is not judged" in str(found)


class Off(torch.nn.Module):
    """A perceptron in muP, and what `end` makes of its last rows."""

    def __init__(self, N, end):
        super().__init__()
        self.first, self.second, self.last = (torch.nn.Linear(m, n, bias=False) for m, n in (
            (modules.NUMBERS, N), (N, N), (N, 1)))
        self.end = end
        for layer, std in ((self.first, 1), (self.second, N ** -0.5), (self.last, 1 / N)):
            torch.nn.init.normal_(layer.weight, std=std)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(self.end(h, torch.tanh(self.second(h))))[:, 0]


def of_off(end):
    """The check of it, with rates that are right for a tanh."""
    return dmft.torch.check(lambda N: Off(N, end), modules.numbers(), widths=WIDTHS,
                            optimizer=optimizer_of("Adam", True))


def test_a_norm_of_one_is_a_factor_of_the_read_out():
    """Rows of length one have entries of N^-1/2, by which the read-out has to be larger."""
    assert of_off(lambda h, z: z / z.square().mean(-1, True).sqrt()).agrees is True
    for one in (lambda h, z: z / z.norm(dim=-1, keepdim=True),
                lambda h, z: torch.nn.functional.normalize(z, dim=-1)):
        found = of_off(one)
        assert found.agrees is False and not found.left, str(found)
        assert "vanish as N^-0.50" in found["last.weight"].text, str(found)


def test_a_factor_that_no_tensor_carries_is_no_agreement():
    """All tensors are as ours, which has this factor, too, and so no limit."""
    found = of_off(lambda h, z: torch.tanh(z.shape[-1] ** 0.5 * h) * z)
    assert found.agrees is False and all(one.agrees for one in found.tensors), str(found)
    assert "test_judging.py" in str(found) and "grows as N^0.50, and no tensor" in str(found)


@pytest.mark.filterwarnings("ignore:no output depends")
def test_a_parameter_that_nothing_reads_is_not_compared():
    found = of_off(lambda h, z: h)
    assert found.agrees is None and found.unnamed == ["second.weight"], str(found)


def test_a_start_of_a_vector_that_few_numbers_hide_is_not_called_right():
    """torch.nn.Linear draws biases of N^-1/2, which eight numbers do not tell from N^0 if
    build draws the same ones again."""
    class Biased(Off):
        def __init__(self, N):
            torch.manual_seed(N)
            super().__init__(N, lambda h, z: z)
            self.gain = torch.nn.Parameter(torch.randn(N) * N ** -0.5)

        def forward(self, x):
            h = torch.tanh(self.first(x) + self.gain)
            return self.last(torch.tanh(self.second(h)))[:, 0]

    def check(widths):
        return dmft.torch.check(Biased, modules.numbers(), widths=widths, optimizer=lambda m:
                                torch.optim.SGD(m.parameters(), 0.1))["gain"]
    small, large = check((8, 16)), check(WIDTHS)
    assert small.agrees and "larger widths mend" in small.text
    assert "vanishes beside ours" in large.text


class Branches(nn.Module):
    """Branches that start at zero beside a stream of rows; `power` is that of the head's start."""

    def __init__(self, N, power, blocks=8):
        super().__init__()
        layer = lambda n, m: nn.Linear(m, n, bias=False)
        self.read, self.head = layer(N, modules.NUMBERS), layer(1, N)
        self.up = nn.ModuleList(layer(N, N) for _ in range(blocks))
        self.down = nn.ModuleList(layer(N, N) for _ in range(blocks))
        nn.init.normal_(self.head.weight, std=N ** power)
        for one in self.down:
            nn.init.zeros_(one.weight)

    def forward(self, x):
        x = self.read(x)
        for up, down in zip(self.up, self.down):
            x = x + down(torch.tanh(up(x)))
        return self.head(x)[:, 0]


def branches(power, widths):
    mine = dmft.torch.import_module(lambda N: Branches(N, power), modules.numbers(), widths=widths)
    return mine.check(lambda module: torch.optim.SGD([
        {"params": one, "lr": 0.1 * one.shape[0] ** float(name == "read.weight")
         / one.shape[1] ** float(name == "head.weight")}
        for name, one in module.named_parameters()]))


def test_branches_from_zero_that_explode_have_no_power():
    """Each doubles the power of what arrives at those beneath it, step after step."""
    found = branches(-0.5, (64, 256))
    text = str(found)
    assert found.agrees is False
    assert found["down.7.weight"].learned < 1 < found["down.6.weight"].learned + 0.5, text
    for name in ("read.weight", "up.0.weight", "down.0.weight"):
        assert found[name].learned == math.inf, text
        assert "its updates diverge" in found[name].text and "smaller lr" in found[name].text
    assert all(tensor.learned == math.inf or tensor.learned < 2 for tensor in found.tensors), text


def test_noise_of_a_start_is_not_doubled_by_branches_from_zero():
    """Eight of them, beneath a head whose start is known to N^+-0.16."""
    found = branches(-1.0, (16, 32))
    noise = found["down.7.weight"].learned
    assert noise == found["head.weight"].std + 1 and abs(noise) > 0.01     # else it proves nothing
    assert all(abs(tensor.learned) <= 2 * abs(noise) + 1e-9 for tensor in found.tensors), str(found)
    assert not any("updates explode" in tensor.text for tensor in found.tensors), str(found)


class Seeded(Off):
    """One that draws the same numbers in every build, with a head that is larger at N = 64."""

    def __init__(self, N):
        torch.manual_seed(0)
        super().__init__(N, lambda h, z: z)
        self.last.weight.data *= 1.25 * N ** -1 / self.last.weight.std().item() if N == 64 else 1


def test_a_start_is_measured_on_many_modules():
    """The 64 numbers of a head in one module do not tell its power; those of sixteen do, unless all
    are the same."""
    found, seeded = (dmft.torch.check(build, modules.numbers(), optimizer=optimizer_of(
        "Adam", True)) for build in (lambda N: Off(N, lambda h, z: z), Seeded))
    assert found.agrees is True, str(found)
    assert seeded.agrees is None and "N^+-0.31 alone" in seeded["last.weight"].text, str(seeded)
