"""dmft.torch.coordinate_check of training that diverges. Run by make torch-test."""
import pytest
import torch

import dmft
import dmft.torch
from test_coordinates import X, linear, y


class Branches(torch.nn.Module):
    """Branches that start at zero beside a stream of rows."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = linear(N, 10, 0.3), linear(1, N, N ** -0.5)
        self.up = torch.nn.ModuleList(linear(N, N, N ** -0.5) for _ in range(4))
        self.down = torch.nn.ModuleList(linear(N, N, 0.0) for _ in range(4))

    def forward(self, x):
        x = self.read(x)
        for up, down in zip(self.up, self.down):
            x = x + down(torch.tanh(up(x)))
        return self.head(x)[:, 0]


@pytest.mark.parametrize("lr", [2.0, 1e9])
def test_training_that_diverges_has_no_exponents(lr):
    """Neither of large numbers, nor of those that are not finite any more."""
    found = dmft.torch.coordinate_check(
        Branches, [16, 32, 64], (X, y), steps=6,
        optimizers={"sgd": lambda model: torch.optim.SGD(model.parameters(), lr),
                    "slow": lambda model: torch.optim.SGD(model.parameters(), 1e-3)})
    assert found.diverged == {"sgd": [16, 32, 64]} and found.left_out == {}, str(found)
    for name, parts in found.rms["sgd"].items():
        assert all(found.exponent("sgd", name, part) is None for part in parts if part != "init")
        assert found.exponent("slow", name, "eff") is not None
    said = str(found)
    assert "training diverges at width 16 32 64: take a smaller lr" in said
    rows = said[said.index("sgd:"):said.index("slow:")].splitlines()
    assert max(row.count("N^") for row in rows) == 1, said     # of the start


def test_a_module_that_gives_no_numbers_at_the_start_does_not_diverge_by_training():
    def build(N):
        module = Branches(N)
        torch.nn.init.constant_(module.head.weight, torch.nan)
        return module
    found = dmft.torch.coordinate_check(build, [8], (X, y), seeds=1, steps=1)
    assert found.diverged == {} and found.left_out["sgd"]["output"].startswith("eff")


class Breaks(torch.optim.SGD):
    """Whose last step leaves a matrix without numbers."""

    def step(self):
        super().step()
        with torch.no_grad():
            self.param_groups[0]["params"][1].fill_(torch.nan)


def test_training_diverges_where_outputs_of_some_inputs_are_no_numbers():
    """As where one expert has diverged, and the inputs of another are as before."""
    class Two(torch.nn.Module):
        def __init__(self, N):
            super().__init__()
            self.read, self.up, self.head = (linear(N, 10, 0.3), linear(N, N, N ** -0.5),
                                             linear(1, N, N ** -0.5))

        def forward(self, x):
            h, rows = self.read(x), x[:, 0] > 0
            more = torch.zeros_like(h).index_put((rows,), self.up(h[rows]))
            return self.head(h + more)[:, 0]
    found = dmft.torch.coordinate_check(Two, [8, 16], (X, y), steps=1, seeds=1, optimizers={
        "breaks": lambda model: Breaks(model.parameters(), 1e-3)})
    assert found.diverged == {"breaks": [8, 16]} and found.left_out == {}, str(found)
