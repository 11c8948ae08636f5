"""Wide experts, many of them, that start alike, as MSSP wants them: a plan makes them so, or the
constructor copies one. The network has what they share, and what each has learned beside it."""
import math

import dmft
import dmft.torch
import modules
import pytest
import torch
from test_plan import KEYS, WIDTHS, Papers
from test_training import OPTIMIZERS, OTHER, WIDTH, compared

SIZES = {size: pair[0] for size, pair in WIDTHS.items()}


@pytest.fixture(scope="module", name="mine")
def imported():
    """The paper's layer in Regime III, as a plan initializes it."""
    plan = dmft.torch.plan(Papers, modules.numbers(), SIZES, "mssp", widths=WIDTHS)
    return dmft.torch.import_module(lambda *sizes: plan.initialize(Papers(*sizes)),
                                    modules.numbers(), WIDTHS)


def copies(N):
    """Experts that the constructor copies from the first."""
    torch.manual_seed(0)
    made = Papers(N, N // 4, N // 2)
    with torch.no_grad():
        for one in (made.W_in, made.W_out):
            one.copy_(one[:1].expand_as(one).clone())
    return made


def test_the_recipe_is_that_of_our_network(mine):
    """dmft-recipe has regime3 with kappa = M/N and iota = N_e/N; the module divides by M."""
    ours = dmft.recipe({"network.model": "regime3", "network.gate": "sigmoid",
                        "network.kappa": 0.25, "network.iota": 0.5}, parameterizations=["mssp"])
    names = {"Q": "Q", "P_in": "W_in", "A_in": "W_in_0", "P_out": "W_out", "A_out": "W_out_0",
             "w": "w"}
    assert mine.names["W_in"] == ("W_in", "W_in_0") and mine.difference < 1e-12
    tables = [{name: one for one in recipe.at({"N": 32}).tensors for name in one.names}
              for recipe in (ours, mine.recipe())]
    wider = [{name: one for one in recipe.at({"N": 64}).tensors for name in one.names}
             for recipe in (ours, mine.recipe())]
    seen = 0
    for ours_is, his in names.items():
        for key in KEYS:
            powers = []
            for table, wide, name in zip(tables, wider, (ours_is, his)):
                one, two = (getattr(where[name], key) for where in (table, wide))
                powers.append(None if one is None else math.log2(float(two) / float(one))
                              if float(one) else 0.0)
            assert powers[0] == (None if powers[1] is None else pytest.approx(
                powers[1], abs=1e-9)), (ours_is, key, powers)
            seen += powers[0] is not None
    assert seen >= 16


def test_what_is_shared_and_learned_together_are_the_module(mine):
    module = mine._builds.of_sizes([32, 8, 16], 3)
    with torch.no_grad():
        module.W_in.add_(0.1 * torch.randn_like(module.W_in))       # as after some training
        module.W_out.add_(0.1 * torch.randn_like(module.W_out))
    other = mine._builds.of_sizes([32, 8, 16], 4)
    mine.store(mine.load(module), other)
    for one, two in zip(module.parameters(), other.parameters()):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)


def test_the_check_takes_the_shared_start_for_the_start(mine):
    found = mine.check(lambda m: torch.optim.Adam(m.parameters(), 1e-3))
    assert "does not start at zero" not in str(found)
    assert "W_in.shared" in str(mine.recipe()) and not mine.recipe(SIZES).notes


def test_a_coordinate_check_has_the_matrix_as_a_whole():
    x = modules.numbers()
    found = dmft.torch.coordinate_check(copies, [16, 32], (x, x[:, 0]), example=x, steps=2,
                                        seeds=2, optimizers={"sgd": OPTIMIZERS["sgd"]})
    for name in ("W_in", "W_out"):
        parts = found.rms["sgd"][name]
        assert all(min(parts[part]) > 0 for part in ("init", "prop", "eff")), name
    assert not any("shared" in name for name in found.rms["sgd"])


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_copied_experts_train_as_the_modules_own_loop(kind):
    compared((copies, modules.numbers, {}), OPTIMIZERS[kind], OTHER if kind == "adamw" else WIDTH)
