"""Plans of parts of a model: stages of a pipeline, and tensors that several processes share."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn

X = modules.numbers(48)
SIZES = {"N": 64}


class Stream(nn.Module):
    """Blocks on a stream."""

    def __init__(self, N, L=4):
        super().__init__()
        layer = lambda n, m: nn.Linear(m, n, bias=False)
        self.inlet, self.outlet = layer(N, 7), layer(1, N)
        self.up = nn.ModuleList(layer(2 * N, N) for _ in range(L))
        self.down = nn.ModuleList(layer(N, 2 * N) for _ in range(L))

    def forward(self, x):
        h = self.inlet(x)
        for up, down in zip(self.up, self.down):
            h = h + down(torch.tanh(up(h)))
        return self.outlet(h)[:, 0]


@pytest.fixture(scope="module", name="plans")
def plans_of_blocks():
    """Of four blocks, and of any number of them."""
    return [dmft.torch.plan(Stream, X, {"N": 16}, widths={"N": (16, 32)}),
            dmft.torch.plan(Stream, X, {"N": 16}, widths={"N": (16, 32)}, counts={"L": 12})]


def rates(groups, model):
    """{name: (lr, decay)}."""
    names = {id(one): name for name, one in model.named_parameters()}
    return {names[id(one)]: (group["lr"], group["weight_decay"]) for group in groups
            for one in group["params"]}


def stage(model, first, last):
    """Some of the blocks, under their names, without what stands before and behind them."""
    found = nn.Module()
    for name in ("up", "down"):
        setattr(found, name, nn.ModuleDict({str(k): getattr(model, name)[k]
                                            for k in range(first, last)}))
    return found


@pytest.mark.parametrize("which", [0, 1])
def test_a_stage_of_a_pipeline_has_what_the_whole_says(plans, which):
    plan, L = plans[which], (4, 12)[which]
    torch.manual_seed(0)
    whole = Stream(64, L)
    torch.manual_seed(0)
    part = stage(Stream(64, L), 2, 4)
    plan.initialize(whole)
    plan.initialize(part, SIZES, part=True)
    for name, one in part.named_parameters():
        assert torch.equal(one, dict(whole.named_parameters())[name])
    mine = rates(plan.groups(part, 0.1, 0.01, sizes=SIZES, part=True), part)
    theirs = rates(plan.groups(whole, 0.1, 0.01), whole)
    assert mine == {name: theirs[name] for name in mine} and len(mine) == 4
    hidden, rest = plan.muon_groups(part, 0.02, sizes=SIZES, part=True)
    assert sum(len(group["params"]) for group in hidden) == 4
    assert not any(rest(name, one) for name, one in part.named_parameters())


def test_a_tensor_that_processes_share_has_the_rates_of_the_whole(plans):
    """Rows of `up` and columns of `down` are cut in two."""
    (plan, _), whole = plans, Stream(64)
    theirs = rates(plan.groups(whole, 0.1), whole)
    shard = Stream(64)
    for up, down in zip(shard.up, shard.down):
        up.weight = nn.Parameter(up.weight[:64].clone())
        down.weight = nn.Parameter(down.weight[:, :64].clone())
    before = shard.up[0].weight.detach().clone()
    plan.initialize(shard, SIZES, part=True)
    assert torch.allclose(shard.up[0].weight, before)       # N^-0.5, as nn.Linear draws it
    assert rates(plan.groups(shard, 0.1, sizes=SIZES, part=True), shard) == theirs
    with pytest.raises(dmft.InputError, match="Muon needs the whole"):
        plan.muon_groups(shard, 0.02, sizes=SIZES, part=True)
    with pytest.raises(dmft.InputError, match="has the shape"):
        plan.groups(shard, 0.1, sizes=SIZES)


class Xavier(Stream):
    """Its inlet starts as no power of N, so that a plan measures it."""

    def __init__(self, N):
        super().__init__(N)
        nn.init.xavier_normal_(self.inlet.weight)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_a_tensor_whose_start_is_measured_is_initialized_before_it_is_cut():
    plan, shard = dmft.torch.plan(Xavier, X, {"N": 16}, widths={"N": (16, 32)}), Xavier(64)
    shard.inlet.weight = nn.Parameter(shard.inlet.weight[:32].clone())
    with pytest.raises(dmft.InputError, match="inlet.weight is a part of a tensor"):
        plan.initialize(shard, SIZES, part=True)
    assert plan.groups(shard, 0.1, sizes=SIZES, part=True)


def test_parts_that_are_not_said_to_be_some_are_refused_in_one_sentence(plans):
    plan, counted = plans
    part = stage(Stream(64), 2, 4)
    with pytest.raises(dmft.InputError, match="no parameter inlet.weight.*which part=True says"):
        plan.groups(part, 0.1, sizes=SIZES)
    with pytest.raises(dmft.InputError, match=r"sizes of the whole; give sizes=\{'N': ...\}"):
        plan.groups(part, 0.1, part=True)
    with pytest.raises(dmft.InputError, match="no parameter up.2.weight.*by counts="):
        plan.initialize(Stream(64, 2))
    with pytest.raises(dmft.InputError, match="no parameter up.4.weight, but others of this kind"):
        plan.initialize(Stream(64, 6))
    outer = nn.Module()
    outer.model = Stream(64)
    with pytest.raises(dmft.InputError, match="it is of model, a part of this model, so give"):
        plan.initialize(outer)
    with pytest.warns(dmft.NoteWarning, match="the model has L = 2"):
        counted.initialize(Stream(64, 2))
