"""The structure that dmft.equations typesets is enough to solve the limit: tests/theory_march.py
reads nothing else, and its losses are those of dmft-solve. Without any one term they are not."""
import copy
import os

import dmft
import numpy as np
import pytest
from dmft.theory import structure
from theory_march import March

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = 8
CASES = {"dense": ("data/dense.ini", {"training.eta0": 1}),
         "regime2": ("data/regime2.ini", {"training.eta0": 1, "training.gamma0": 2,
                                          "network.kappa": 2, "network.expert_width": 3}),
         "regime1": ("data/regime1.ini", {"training.eta0": 1, "network.iota": 0.5}),
         "outputs": ("data/dense.ini", {"training.eta0": 1, "network.outputs": 3})}


def solved(name):
    """(theory, X, y, losses of dmft-solve, their errors)."""
    ini, more = CASES[name]
    ini, more = os.path.join(ROOT, ini), {**more, "training.steps": STEPS}
    run = dmft.solve(ini, progress=False, **more, **{
        "solver.replicates": 16, "solver.sites": 2048, "solver.expert_sites": 2048,
        "reference.widths": 16, "reference.seeds": 1})
    return (dmft.equations(ini, **more).theory, run.data["X"].values, run.data["y"].values,
            run.limit["loss"].values, run.limit["loss_se"].values)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return solved(request.param)


def march(case, theory, seeds, sites=3000):
    """Losses of draws of the sites, draw by draw, after the first step."""
    return np.array([March(theory, *case[1:3], sites, STEPS, seed).loss[1:]
                     for seed in range(seeds)])


def largest_z(case, found):
    """The largest difference from dmft-solve, in standard errors of both."""
    both = np.sqrt(case[4][1:] ** 2 + found.var(0, ddof=1) / len(found))
    return np.abs((found.mean(0) - case[3][1:]) / both).max()


def test_the_march_of_the_structure_is_the_limit(case):
    assert largest_z(case, march(case, case[0], 16)) < 4


@pytest.mark.parametrize("case", ["dense", "regime2"], indirect=True)
def test_no_term_can_be_left_out(case):
    """Draws of the two are the same, so that the smallest of terms, of the router, are seen too; of
    all others dmft-solve itself says that they are there."""
    whole, far, all_terms = march(case, case[0], 16), 0, 0
    for key, quantity in case[0].quantities.items():
        terms = quantity.value.terms if isinstance(quantity.value, structure.Process) else ()
        for place, term in enumerate(terms):
            if isinstance(term, (structure.Memory, structure.Learned)):
                less = copy.deepcopy(case[0])
                del less.quantities[key].value.terms[place]
                found = march(case, less, 16)
                change = found - whole
                error = change.std(0, ddof=1) / len(found) ** 0.5 + 1e-12
                assert np.abs(change.mean(0) / error).max() > 6, (quantity.symbol, term)
                all_terms, far = all_terms + 1, far + (largest_z(case, found) > 6)
    assert all_terms >= 10 and far >= all_terms - 2
