"""mine.check(optimizer) of every optimizer of torch.optim: right where its rates go with the width
as they should, wrong where they do not."""
import dmft
import dmft.torch
import modules
import pytest
import torch

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
