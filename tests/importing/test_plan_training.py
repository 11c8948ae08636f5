"""A plan in training scripts: wrappers, compilation, low precision, accumulation, checkpoints."""
import copy
import json
import os
import re
import subprocess
import sys

import dmft.torch
import distributed
import modules
import pytest
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module", name="plan")
def made_plan():
    """Of three layers, with the base at 16."""
    return dmft.torch.plan(distributed.model_of, modules.numbers(), {"N": 16}, widths={
        "N": (16, 32)}, output=lambda m, x: m(x)[:, 0])


@pytest.fixture(name="model")
def initialized_model(plan):
    """Width 64."""
    torch.manual_seed(0)
    return plan.initialize(distributed.model_of(64))


DATA = torch.randn(16, modules.NUMBERS, generator=torch.Generator().manual_seed(1))


def steps(model, optimizer, count=3, parts=1, precision=None):
    """Losses of a few steps, with gradients that are accumulated over parts of the batch."""
    y, losses = DATA[:, :1] * DATA[:, 1:2], []
    for _ in range(count):
        optimizer.zero_grad()
        for x, target in zip(DATA.chunk(parts), y.chunk(parts)):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision is not None):
                out = model(x)
            loss = (out.float() - target).square().mean() / parts
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def adam(plan, model):
    """AdamW with the plan's groups."""
    return torch.optim.AdamW(plan.groups(model, lr=0.02, weight_decay=0.1))


def run(how, plan_file, tmp_path):
    """What the first of the processes prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1",
                   "PLANS": os.path.dirname(dmft.torch.plans.__file__)}
    ranks = [subprocess.Popen(
        [sys.executable, os.path.join(HERE, "distributed.py"), str(plan_file), how, str(rank),
         str(tmp_path / f"meeting_{how}")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment) for rank in range(1 if how == "alone" else 2)]
    said = [one.communicate() for one in ranks]
    assert all(one.returncode == 0 for one in ranks), said
    lines = [re.match(r"([\d.]+) (.*)", line).groups() for line in said[0][0].splitlines()]
    return [float(loss) for loss, _ in lines], lines[0][1]


def test_processes_train_as_one_does(plan, tmp_path):
    plan.save(str(tmp_path / "plan.json"))
    losses, rates = run("alone", tmp_path / "plan.json", tmp_path)
    assert rates == "[0.005, 0.005, 0.02]" and losses[-1] < losses[0]
    for how in ("ddp", "fsdp", "fsdp2"):
        others, same = run(how, tmp_path / "plan.json", tmp_path)
        assert same == rates, how
        assert others == pytest.approx(losses, rel=2e-5), how       # single precision, other order


def test_a_compiled_model_has_the_rates_of_its_parameters(plan, model):
    plain, compiled = copy.deepcopy(model), torch.compile(model, backend="aot_eager")
    assert steps(plain, adam(plan, plain)) == pytest.approx(
        steps(compiled, adam(plan, compiled)), rel=1e-5)


def test_accumulated_gradients_are_those_of_the_batch(plan, model):
    other = copy.deepcopy(model)
    steps(model, adam(plan, model))
    steps(other, adam(plan, other), parts=4)
    for one, two in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)


def test_low_precision_above_masters_in_single(plan, model):
    low = copy.deepcopy(model)
    losses, others = steps(model, adam(plan, model)), steps(low, adam(plan, low), precision="low")
    assert others == pytest.approx(losses, rel=0.05) and others != losses
    torch.manual_seed(0)
    rounded = plan.initialize(distributed.model_of(64).bfloat16())
    torch.manual_seed(0)
    whole = plan.initialize(distributed.model_of(64))
    for one, two in zip(rounded.parameters(), whole.parameters()):
        torch.testing.assert_close(one.float(), two, rtol=2 ** -7, atol=0)


def test_training_goes_on_from_a_checkpoint(plan, model, tmp_path):
    whole = copy.deepcopy(model)
    optimizer = adam(plan, whole)
    expected = steps(whole, optimizer, 5)[3:]
    optimizer = adam(plan, model)
    steps(model, optimizer, 3)
    torch.save([model.state_dict(), optimizer.state_dict()], tmp_path / "state")
    weights, moments = torch.load(tmp_path / "state")
    again = distributed.model_of(64)
    again.load_state_dict(weights)
    optimizer = adam(plan, again)
    optimizer.load_state_dict(moments)
    assert steps(again, optimizer, 2) == expected


def test_muon_and_adamw_train_together(plan, model):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    hidden, rest = plan.muon_groups(model, lr=0.02, weight_decay=0.1)
    muon = torch.optim.Muon(hidden)
    others = torch.optim.AdamW(plan.groups(model, lr=0.02, only=rest))
    before = [one.detach().clone() for one in model.parameters()]
    first = steps(model, muon, 1)[0]
    assert [torch.equal(one, two) for one, two in zip(model.parameters(), before)] == \
        [True, True, False, True]
    assert steps(model, others, 20)[-1] < first


def test_two_models_of_one_plan_keep_their_sizes(plan):
    """Also when what wraps them has flattened their parameters, as FSDP does."""
    narrow, wide = (plan.initialize(distributed.model_of(N)) for N in (32, 128))
    wanted = plan.groups(narrow, lr=0.02)
    for model in (narrow, wide):
        for one in model.modules():
            for name, parameter in list(one.named_parameters(recurse=False)):
                setattr(one, name, torch.nn.Parameter(parameter.detach().flatten()))
    assert [group["lr"] for group in plan.groups(narrow, lr=0.02)] == [
        group["lr"] for group in wanted]
    assert min(group["lr"] for group in plan.groups(wide, lr=0.02)) == pytest.approx(0.02 / 8)


@pytest.mark.parametrize("options, said", [
    ({"sizes": {"N": 4096}}, "N is 4096, and by the shapes"), ({"sizes": {"N": -3}}, "N is -3"),
    ({"sizes": {"N": 0}}, "N is 0"), ({"sizes": {"N": "x"}}, "N is 'x'"),
    ({"lr": -1.0}, "lr of .* is -1.0"), ({"lr": float("nan")}, "lr of .* is nan"),
    ({"weight_decay": -1.0}, "weight_decay of"), ({"eps": -1.0}, "eps is -1.0"),
    ({"only": 3}, "only is 3"),
    ({"optimizer": "adam", "weight_decay": 0.1}, "adam adds weight_decay to the gradient")])
def test_numbers_that_are_none_are_refused(plan, model, options, said):
    with pytest.raises(dmft.InputError, match=said):
        plan.groups(model, **{"lr": 0.02, **options})


def test_adam_without_decay_has_the_rates_of_adamw(plan, model):
    assert [group["lr"] for group in plan.groups(model, lr=0.02, optimizer="adam")] == [
        group["lr"] for group in plan.groups(model, lr=0.02)]


@pytest.mark.parametrize("gone", dmft.torch.plans.KEYS)
def test_a_part_of_a_plan_is_refused(plan, tmp_path, gone):
    plan.save(str(tmp_path / "plan.json"))
    content = json.loads((tmp_path / "plan.json").read_text())
    del content[gone]
    (tmp_path / "part.json").write_text(json.dumps(content))
    with pytest.raises(dmft.InputError, match=f"part.json is no whole plan: {gone} is missing"):
        dmft.torch.Plan.load(str(tmp_path / "part.json"))
    (tmp_path / "part.json").write_text(json.dumps({**content, gone: {}, "base": {}}))
    with pytest.raises(dmft.InputError, match="base is empty"):
        dmft.torch.Plan.load(str(tmp_path / "part.json"))


def test_a_submodule_may_be_called_module():
    def build(N):
        return torch.nn.ModuleDict({"module": distributed.model_of(N)})
    plan = dmft.torch.plan(build, modules.numbers(), {"N": 16}, widths={"N": (16, 32)},
                           output=lambda m, x: m["module"](x)[:, 0])
    assert len(plan.groups(build(64), lr=0.1)) > 1


def test_blocks_of_a_submodule_that_is_called_module_are_counted():
    one = {"names": ["module.b.0.weight", "module.b.1.weight"], "shape": [[1, {"N": 1}]] * 2,
           "parts": [], "sgd": {}, "adam": {}, "eps": {}, "muon": None}
    plan = dmft.torch.Plan({
        "format": 2, "base": {"N": 4, "L": 2}, "notes": [], "parameterization": "mup",
        "counts": {},
        "numbers": {"module.b.*.weight": [[1, ["L"]]]}, "parameters": [one]})
    model = torch.nn.Module()
    model.module = torch.nn.Module()
    model.module.b = torch.nn.ModuleList(torch.nn.Linear(8, 8, bias=False) for _ in range(3))
    assert plan.sizes(model) == {"N": 8, "L": 3}
