"""What a plan makes of factors in front of a head, and of parameters that copy others."""
import copy

import modules
import pytest
import torch
from test_plan import laws, plan_of
from torch import nn


class Readout(nn.Module):
    """The multiplier c/N in front of the head that mup's MuReadout has, behind a function of rows
    that have been normed with a gain."""

    def __init__(self, N, rows):
        super().__init__()
        self.read, self.second = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.norm, self.head, self.rows = nn.LayerNorm(N), nn.Linear(N, 1, bias=False), rows

    def forward(self, x):
        h = self.read(x)
        return self.head(self.rows(self, h) * 2 / h.shape[-1])[:, 0]


@pytest.mark.parametrize("rows", [
    lambda m, h: torch.relu(m.second(torch.tanh(h))), lambda m, h: torch.tanh(m.second(h)),
    lambda m, h: m.norm(m.second(torch.relu(h))), lambda m, h: h + m.second(torch.relu(h))],
    ids=["relu", "tanh", "norm", "stream"])
def test_a_multiplier_in_front_of_the_head_is_one_of_the_head(rows):
    """What is beneath keeps its size, also where it could have the factor, as beneath a ReLU."""
    plan = plan_of(lambda N: Readout(N, rows), ("N",), "mup")
    assert not plan.notes
    assert laws(plan, "head.weight") == {"std": {}, "sgd": {"N": 1}, "adam": {}, "eps": {"N": -1}}
    assert laws(plan, "second.weight") == {"std": {"N": -0.5}, "sgd": {}, "adam": {"N": -1},
                                           "eps": {"N": -1}}
    assert laws(plan, "read.weight")["std"] == {}


class Followed(nn.Module):
    """A teacher that follows the student (BYOL, DINO) and starts as a copy of it."""

    def __init__(self, N):
        super().__init__()
        self.student = modules.Perceptron(N)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x):
        return self.student(x)


@pytest.mark.filterwarnings("ignore:no output depends")
@pytest.mark.parametrize("word", ["mssp", "mup"])
def test_a_copy_that_nothing_reads_is_a_copy_after_initialize(word):
    plan = plan_of(Followed, ("N",), word)
    model = plan.initialize(Followed(64))
    for one, two in zip(model.student.parameters(), model.teacher.parameters()):
        torch.testing.assert_close(one, two, rtol=0, atol=0, check_stride=False)
    # 32^-1/2 3^-1/2 at the base, of 128 numbers now
    assert (model.student.last.weight.std() / 0.102 * 64 / 16 - 1).abs() < 5 * 128 ** -0.5


@pytest.mark.filterwarnings("ignore:.*no scale of a matrix")
def test_several_factors_of_one_line_are_several_notes():
    def rows(m, h):
        return torch.tanh(h.shape[-1] ** 0.5 * h) + torch.sigmoid(h.shape[-1] * torch.tanh(h))
    notes = plan_of(lambda N: Readout(N, rows), ("N",)).notes
    assert [note.split("multiply it by ")[1] for note in sorted(notes)] == [
        "(N/16)^-0.5", "(N/16)^-1"]
