"""dmft.torch.plan where the number of blocks grows."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from test_plan import laws
from torch import nn


class Stream(nn.Module):
    """Blocks on a stream, each times a factor."""

    def __init__(self, N, L, factor):
        super().__init__()
        self.inlet, self.outlet = nn.Linear(7, N, bias=False), nn.Linear(N, 1, bias=False)
        self.up = nn.ModuleList(nn.Linear(N, N) for _ in range(L))
        self.down = nn.ModuleList(nn.Linear(N, N) for _ in range(L))
        self.factor, self.last = factor(L), nn.RMSNorm(N)

    def forward(self, x):
        h = self.inlet(x)
        for up, down in zip(self.up, self.down):
            h = h + self.factor * down(torch.tanh(up(h)))
        return self.outlet(self.last(h))[:, 0]


DEPTH = {"N": (16, 32), "L": (2, 4)}


def stream_plan(factor, word="mssp"):
    """Of a stream, with the base at two blocks of 16."""
    return dmft.torch.plan(lambda N, L: Stream(N, L, factor), modules.numbers(),
                           {"N": 16, "L": 2}, word, widths=DEPTH)


def test_laws_of_blocks_are_those_of_the_papers_table():
    """Table B.2: with 1/L in front of each branch eps of what is in it goes as 1/L, and the rest
    does not go with the depth."""
    plan = stream_plan(lambda L: 1 / L)
    for name, law in (("up.0.weight", {"std": 0, "sgd": 1, "adam": 0, "eps": -1}),
                      ("down.1.bias", {"std": 0, "sgd": 1, "adam": 0, "eps": -1}),
                      ("last.weight", {"std": 0, "sgd": 0, "adam": 0, "eps": 0}),
                      ("outlet.weight", {"std": 0, "sgd": 0, "adam": 0, "eps": 0})):
        assert {key: one.get("L", 0) for key, one in laws(plan, name).items()} == law, name
    assert plan.sizes(Stream(32, 8, lambda L: 1 / L)) == {"N": 32, "L": 8}
    shallow = stream_plan(lambda L: 1 / L, "mup")
    assert not any("L" in law for law in laws(shallow, "up.0.weight").values())


@pytest.mark.parametrize("power", [0, 0.5])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_branches_without_the_factor_train_as_those_with_it(kind, power):
    """At the base both are one module, L^-power beside base^(1 - power)/L; at eight blocks the
    plans of both give the same losses."""
    factors = (lambda L: L ** -power), (lambda L: 2 ** (1 - power) / L)
    found = []
    for factor in factors:
        torch.manual_seed(0)
        model, plan = Stream(32, 8, factor).double(), stream_plan(factor)
        plan.initialize(model)
        made = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[kind](
            plan.groups(model, lr=0.05, eps=1e-20, optimizer=kind))
        x, losses = modules.numbers().double(), []
        for _ in range(6):
            loss = (model(x) - x[:, 0] * x[:, 1]).square().mean()
            losses.append(loss.item())
            made.zero_grad()
            loss.backward()
            made.step()
        found.append(losses)
    assert found[0][5] < 0.99 * found[0][0]
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_a_branch_that_no_matrix_carries_is_said_with_its_line():
    class Normed(Stream):
        def forward(self, x):
            h = self.inlet(x)
            for up, down in zip(self.up, self.down):
                h = h + torch.tanh(down(torch.tanh(up(h))))
            return self.outlet(self.last(h))[:, 0]
    with pytest.warns(dmft.NoteWarning, match=r"test_plan_depth.py:\d+: .*multiply it by 2/L"):
        dmft.torch.plan(lambda N, L: Normed(N, L, float), modules.numbers(), {"N": 16, "L": 2},
                        widths=DEPTH)


class Listed(modules.Mixture):
    """Experts in a list that are not alike: each is divided by its number."""

    def __init__(self, N, M):
        super().__init__(N, M)
        self.up = nn.ParameterList(torch.randn(N, N) for _ in range(M))

    def mix(self, x):
        gates = self.router(x).sigmoid()
        return sum(gates[:, k, None] * (x @ up).tanh() / (1 + k)
                   for k, up in enumerate(self.up))


NOT_COUNTED = {
    "experts": (lambda N, L: Listed(N, L), "write them as one tensor"),
    "no stream": (lambda N, L: nn.Sequential(
        nn.Linear(7, N), *(nn.Sequential(nn.Linear(N, N), nn.Tanh()) for _ in range(L)),
        nn.Linear(N, 1, bias=False), nn.Flatten(0)), "add to no stream")}


@pytest.mark.parametrize("name", NOT_COUNTED)
def test_what_is_no_depth_is_refused(name):
    build, sentence = NOT_COUNTED[name]
    with pytest.raises(dmft.InputError, match=sentence):
        dmft.torch.plan(build, modules.numbers(), {"N": 16, "L": 2}, widths=DEPTH)
