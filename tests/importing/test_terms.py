"""Terms of the loss that a module computes are penalties of its network, called as he calls
them."""
import re

import dmft
import dmft.torch
import modules
import pytest
import torch
from test_import import ROUND_OFF
from torch.nn import functional as F


class Balanced(modules.Dispatched):
    """Adds a load-balancing loss and a z-loss to its loss."""

    def forward(self, x):
        x = torch.tanh(self.read(x))
        logits = self.router(x)
        chosen = logits.topk(self.top, -1).indices
        load = F.one_hot(chosen, self.count).sum(1).double().mean(0)
        balance = 0.01 * self.count * (load * logits.softmax(-1).mean(0)).sum()
        z = 0.01 * logits.logsumexp(-1).square().mean()
        return self.head(x + self.mix(x))[:, 0], balance + z


def test_terms_of_the_loss_become_penalties():
    mine = dmft.torch.import_module(Balanced, modules.numbers(), (16, 32))
    assert "penalty" in mine.network.lua and mine.differences["terms of the loss"] < ROUND_OFF
    net = mine.load(Balanced(16).double())
    net(modules.numbers())
    assert net.penalty > 0.01


class Named(Balanced):
    """Keeps its terms, and returns them."""

    def forward(self, x):
        out, both = super().forward(x)
        self.aux = 2 * both
        z_loss = both.square()
        return out, 0.5 * self.aux, None, z_loss


@pytest.mark.parametrize("output, names", [
    (None, ["penalty_aux", "penalty_z_loss"]),
    (lambda m, x: (m(x)[0], m.aux), ["penalty_aux"]),
    (lambda m, x: tuple(one for one in m(x) if one is not None), ["penalty_0", "penalty_z_loss"]),
    (lambda m, x: (m(x)[0], m.aux, 3 * m.aux), ["penalty_aux", "penalty_1"])])
def test_a_term_of_the_loss_is_called_as_its_variable(output, names):
    mine = dmft.torch.import_module(Named, modules.numbers(), (16, 32), output=output)
    said = re.findall(r'"(\w+)", {about = "term of the loss, (test_terms.py:\d+)"',
                      mine.network.lua)
    assert [name for name, _ in said] == names and mine.difference < ROUND_OFF
    run = dmft.solve(mine.settings | {"training.steps": 1, "reference.widths": "16",
                                      "solver.replicates": 0}, network=mine.network)
    assert set(names) <= set(run.reference[16].keys())
