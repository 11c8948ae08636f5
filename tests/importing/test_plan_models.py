"""A plan and the models of other people: wrappers, adapters, frozen and shared parameters, and
models that are not those of the plan. Nothing is silently wrong: it holds, or it is refused."""
import copy
import json
import warnings

import dmft
import dmft.torch
import distributed
import modules
import pytest
import torch
from test_plan_depth import Stream, stream_plan
from torch import nn


def first_output(model, x):
    """One number for each input."""
    return model(x)[:, 0]


@pytest.fixture(scope="module", name="plan")
def made_plan():
    """Of three layers, with the base at 16."""
    return dmft.torch.plan(distributed.model_of, modules.numbers(), {"N": 16},
                           widths={"N": (16, 32)}, output=first_output)


class Both(nn.Module):
    """Parameters `up` and `module.up`."""

    def __init__(self, N):
        super().__init__()
        self.up, self.head = nn.Parameter(torch.randn(N, 7)), nn.Linear(N, 1, bias=False)
        self.module = nn.Module()
        self.module.up = nn.Parameter(torch.randn(N, N) * N ** -0.5)

    def forward(self, x):
        return self.head(torch.tanh(x @ self.up.T) @ self.module.up.T)


@pytest.fixture(scope="module", name="both")
def plan_of_both():
    """Its plan."""
    return dmft.torch.plan(Both, modules.numbers(), {"N": 16}, widths={"N": (16, 32)},
                           output=first_output)


def inside(model):
    """A model within another one, as most wrappers have it."""
    outer = nn.Module()
    outer.module = model
    return outer


def rates(plan, model, **more):
    """{how the parameter is called in the model: its rate}."""
    names = {id(one): name for name, one in model.named_parameters()}
    return {names[id(one)]: group["lr"] for group in plan.groups(model, **{"lr": 1.0, **more})
            for one in group["params"]}


def test_a_parameter_may_differ_from_another_by_the_word_of_a_wrapper(both):
    model = Both(64)
    plain = rates(both, model)
    assert plain == {"up": 1.0, "module.up": 0.25, "head.weight": 0.25}
    assert rates(both, inside(inside(model))) == {"module.module." + name: rate
                                                  for name, rate in plain.items()}
    assert rates(both, model, lr={"module.*": 2.0, "*": 1.0})["module.up"] == 0.5
    assert rates(both, model, lr={"module.*": 2.0, "*": 1.0})["up"] == 1.0


def test_a_wrapper_within_a_model_is_taken_off(plan):
    model = distributed.model_of(64)
    wanted = list(rates(plan, model).values())
    model[2] = inside(model[2])
    assert "2.module.weight" in rates(plan, model)
    assert list(rates(plan, model).values()) == wanted


def test_patterns_fit_names_as_any_model_has_them(plan):
    model = inside(distributed.model_of(64))
    twice = rates(plan, model, lr={"module.2.*": 2.0, "*": 1.0})
    assert twice["module.2.weight"] == 0.5 and twice["module.0.weight"] == 1.0
    assert rates(plan, model, lr={"2.*": 2.0, "*": 1.0}) == twice
    for wrong, other in (("7.*", model), ("module.*", model.module)):
        with pytest.raises(dmft.InputError, match=f"lr: '{wrong}' fits no parameter; there"):
            plan.groups(other, lr={wrong: 2.0, "*": 1.0})
    with pytest.warns(dmft.NoteWarning, match="weight_decay: '7.*' fits no parameter"):
        plan.groups(model, lr=1.0, weight_decay={"7.*": 2.0, "*": 1.0})


def test_a_model_is_initialized_once_whatever_wraps_it(plan):
    for first, second in ((lambda m: m, inside), (inside, lambda m: m),
                          (lambda m: m, copy.deepcopy),
                          (lambda m: torch.compile(m, backend="eager"), lambda m: m)):
        model = distributed.model_of(64)
        plan.initialize(first(model))
        with pytest.raises(dmft.InputError, match="initialized before"):
            plan.initialize(second(model))


def adapted(model):
    """A layer with an adapter, as of LoRA."""
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base_layer, self.A = base, nn.Linear(base.in_features, 2, bias=False)
            self.B = nn.Linear(2, base.out_features, bias=False)
    model[2] = Adapter(model[2])
    return model


def shared(model):
    """The first bias is that of another layer, which makes one parameter less."""
    model[2].bias = model[0].bias
    del model[0].bias
    model[0].register_parameter("bias", None)
    return model


OTHERS = {
    "weight norm": (lambda m: nn.utils.parametrizations.weight_norm(m[2]) and m,
                    "no parameter 2.parametrizations.weight.original0"),
    "adapter": (adapted, "no parameter 2.base_layer.weight"),
    "a layer more": (lambda m: m.append(nn.Linear(3, 3)), "no parameter 5.weight"),
    "a layer less": (lambda m: m[:4], "no parameter 4.weight"),
    "moved": (shared, "no parameter 2.bias"),
    "lazy": (lambda m: nn.Sequential(nn.LazyLinear(64), *m[1:]), "has no shape yet"),
    "turned": (lambda m: nn.Sequential(m[0], m[1], nn.Linear(64, 32, bias=False), *m[3:]),
               "is of another module"),
    "half of a layer": (lambda m: nn.Sequential(nn.Linear(7, 32), *m[1:]), "of another module")}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("call", ["initialize", "groups", "muon_groups", "sizes"])
def test_another_model_than_the_plans_is_refused(plan, name, call):
    change, sentence = OTHERS[name]
    model = change(distributed.model_of(64))
    before = [one.detach().clone() for one in model.parameters()
              if not isinstance(one, nn.parameter.UninitializedTensorMixin)]
    with pytest.raises(dmft.InputError, match=sentence):
        getattr(plan, call)(model, *(() if call in ("initialize", "sizes") else (0.1,)))
    for one, two in zip(before, model.parameters()):
        assert isinstance(two, nn.parameter.UninitializedTensorMixin) or torch.equal(one, two)


def test_weights_that_are_tied_afterwards_are_refused():
    """Where they are tied from the start, the sum over units has no counterpart in a scale."""
    class Tied(nn.Module):
        def __init__(self, N, tied=False):
            super().__init__()
            self.letter = nn.Embedding(modules.LETTERS, N)
            self.head = nn.Linear(N, modules.LETTERS, bias=False)
            if tied:
                self.head.weight = self.letter.weight

        def forward(self, tokens):
            return self.head(torch.tanh(self.letter(tokens)))
    plan = dmft.torch.plan(Tied, modules.letters(), {"N": 16}, widths={"N": (16, 32)})
    with pytest.raises(dmft.InputError, match="no parameter head.weight"):
        plan.initialize(Tied(64, True))
    with pytest.warns(dmft.NoteWarning, match=r"goes as N\^1, .*multiply it by \(N/16\)\^-1"):
        dmft.torch.plan(lambda N: Tied(N, True), modules.letters(), {"N": 16},
                        widths={"N": (16, 32)})


@pytest.mark.parametrize("kind", [torch.int8, torch.float8_e4m3fn])
def test_quantized_models_are_refused(plan, kind):
    model = distributed.model_of(64)
    model[2].weight = nn.Parameter(torch.zeros(64, 64).to(kind), requires_grad=False)
    with pytest.raises(dmft.InputError, match=f"2.weight has numbers of the type {kind}"):
        plan.initialize(model)


def test_parts_of_flat_parameters_are_not_initialized(plan):
    """FSDP shards them, so that no process has a part or its standard deviation."""
    for key, value in (("at", [[0.0, 0.5, 0, 1], [0.0, 1.0, 0, 1]]), ("equal", 0), ("own", None)):
        content = json.loads(json.dumps(plan._content))
        (entry,) = (one for one in content["parameters"] if one["names"] == ["2.weight"])
        entry["parts"][0][key] = value
        for flat in (False, True):
            model = distributed.model_of(64)
            if flat:
                model[2].weight = nn.Parameter(model[2].weight.detach().flatten())
                with pytest.raises(dmft.InputError, match="call initialize before"):
                    dmft.torch.Plan(content).initialize(model, sizes={"N": 64})
            else:
                dmft.torch.Plan(content).initialize(model, sizes={"N": 64})


def test_frozen_parameters_and_buffers_stay(plan):
    model = plan.initialize(distributed.model_of(64))
    model[0].requires_grad_(False)
    model.register_buffer("steps", torch.ones(5))
    optimizer = torch.optim.AdamW(plan.groups(model, lr=0.1, weight_decay=0.5))
    kept, moved = model[0].weight.clone(), model[2].weight.clone()
    model(torch.randn(4, 7)).sum().backward()
    optimizer.step()
    assert torch.equal(model[0].weight, kept) and not torch.equal(model[2].weight, moved)
    assert torch.equal(model.steps, torch.ones(5))


def test_groups_that_are_empty_are_refused(plan):
    with pytest.raises(dmft.InputError, match="of no parameter"):
        plan.groups(distributed.model_of(64), lr=0.1, only=lambda name, one: False)
    shallow = dmft.torch.plan(
        lambda N: nn.Sequential(nn.Linear(7, N), nn.Tanh(), nn.Linear(N, 1)), modules.numbers(),
        {"N": 16}, widths={"N": (16, 32)}, output=first_output)
    model = nn.Sequential(nn.Linear(7, 64), nn.Tanh(), nn.Linear(64, 1))
    with pytest.raises(dmft.InputError, match="no hidden matrix"):
        shallow.muon_groups(model, lr=0.1)


@pytest.mark.parametrize("sizes", [64, "64", [64], ("N",)])
def test_sizes_that_are_no_dict_are_refused(plan, sizes):
    for call in (plan.groups, plan.muon_groups):
        with pytest.raises(dmft.InputError, match="sizes is .*{size: its value} of N is wanted"):
            call(distributed.model_of(64), 0.1, sizes=sizes)
    with pytest.raises(dmft.InputError, match="sizes is"):
        plan.initialize(distributed.model_of(64), sizes=sizes)


def changed(content, path, value):
    """A copy with another value there."""
    content = json.loads(json.dumps(content))
    *way, last = path
    place = content
    for key in way:
        place = place[key]
    place[last] = value
    return content


@pytest.mark.parametrize("path, value", [
    (["base"], 3), (["base"], [1]), (["base"], {"N": 0}), (["base"], {"N": 1.5}),
    (["base"], {"N": -16}), (["base"], {"M": 16}), (["numbers"], [1]), (["numbers"], {"L": 3}),
    (["numbers"], {"x": [[1, ["N"]]]}), (["counts"], {"E": 0}), (["counts"], [1]),
    (["parameters"], [3]), (["parameters"], 3),
    (["parameters"], [{}]), (["notes"], 3), (["parameters", 0, "names"], []),
    (["parameters", 0, "names"], [3]), (["parameters", 0, "shape"], [3]),
    (["parameters", 0, "shape"], [["x", {}]]), (["parameters", 0, "adam"], None),
    (["parameters", 0, "sgd"], {"N": "x"}), (["parameters", 0, "eps"], {"N": float("nan")}),
    (["parameters", 0, "muon"], 3), (["parameters", 0, "parts"], [3]),
    (["parameters", 0, "parts", 0, "std"], 3), (["parameters", 0, "parts", 0, "at_base"], "x")])
def test_what_is_wrong_in_a_file_is_said(plan, tmp_path, path, value):
    (tmp_path / "x.json").write_text(json.dumps(changed(plan._content, path, value)))
    with pytest.raises(dmft.InputError, match="x.json is no (whole )?plan"):
        dmft.torch.Plan.load(str(tmp_path / "x.json"))


# --- numbers of blocks ---------------------------------------------------------------------------

def blocks(N, L):
    """A stream of so many."""
    return Stream(N, L, lambda L: 1.0)


def test_blocks_are_as_many_as_were_traced_where_depth_is_no_size():
    plan = dmft.torch.plan(lambda N: blocks(N, 3), modules.numbers(), {"N": 16},
                           widths={"N": (16, 32)})
    assert plan.sizes(blocks(64, 3)) == {"N": 64}
    for L in (1, 2, 4):
        with pytest.raises(dmft.InputError, match="no parameter (up|down).(1|2|3)"):
            plan.initialize(blocks(64, L))


def test_all_kinds_of_blocks_are_as_many():
    plan = stream_plan(lambda L: 1.0)
    assert plan.sizes(blocks(64, 6)) == {"N": 64, "L": 6}
    for gone in ("up", "down"):
        model = blocks(64, 6)
        getattr(model, gone).pop(-1)
        with pytest.raises(dmft.InputError, match="the model has .* parameters .*another module"):
            plan.initialize(model)


# --- decay and schedulers ------------------------------------------------------------------------

def gradient_of(plan, N):
    """(a hidden matrix at the plan's start, its gradient)."""
    torch.manual_seed(0)
    model, x = plan.initialize(distributed.model_of(N)), modules.numbers()
    (model(x)[:, 0] - x[:, 0]).square().mean().backward()
    return model, model[2].weight


def rms(one):
    """Of all entries."""
    return one.square().mean().sqrt().item()


def test_why_adam_takes_no_decay(plan):
    """AdamW takes lr weight_decay of a weight in a step, the same share at every width. Adam adds
    weight_decay w to the gradient, which in a wide model is small: beside the gradient this grows
    as N^(1/2) or faster for one decay, so that wide models would only decay."""
    beside = {}
    for N in (32, 512):
        model, weight = gradient_of(plan, N)
        (group,) = (one for one in plan.groups(model, lr=0.02, weight_decay=0.1)
                    if any(p is weight for p in one["params"]))
        assert group["lr"] * group["weight_decay"] == pytest.approx(0.002)
        beside[N] = [decay * rms(weight.detach()) / rms(weight.grad)
                     for decay in (0.1, group["weight_decay"])]
    one, groups = (beside[512][k] / beside[32][k] for k in (0, 1))
    assert one > 16 ** 0.4 and groups > 16 ** 1.4


def ratios(optimizer):
    """Of the rates of all groups to the first one's."""
    found = [group["lr"] for group in optimizer.param_groups]
    return [one / found[0] for one in found]


SCHEDULERS = {
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "cycle of each": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, [group["lr"] for group in o.param_groups], total_steps=10)}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_that_multiply_keep_a_plan(plan, name):
    optimizer = torch.optim.AdamW(plan.groups(distributed.model_of(64), lr=0.02))
    before = ratios(optimizer)
    assert len(set(before)) > 1
    scheduler = SCHEDULERS[name](optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # PyTorch's, that no step was taken
        for _ in range(5):
            scheduler.step()
            assert ratios(optimizer) == pytest.approx(before)


def test_schedulers_that_set_rates_undo_it(plan):
    """As docs/plan.md says."""
    for made in (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.02, total_steps=10),
                 lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.01)):
        optimizer = torch.optim.AdamW(plan.groups(distributed.model_of(64), lr=0.02))
        before, scheduler = ratios(optimizer), made(optimizer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                scheduler.step()
        assert ratios(optimizer) != pytest.approx(before, rel=0.05)
