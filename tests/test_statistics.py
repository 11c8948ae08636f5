"""Errors of functions of means and of differences, from runs one by one."""
import os

import dmft
import numpy as np
import pytest
import xarray

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = {"training.steps": 4, "solver.sites": 128, "solver.expert_sites": 128,
         "solver.replicates": 3, "reference.widths": 32, "reference.seeds": 6,
         "output.runs": "yes"}


@pytest.fixture(scope="module")
def run():
    return dmft.solve(f"{ROOT}/data/regime2.ini", progress=False, **SMALL)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_every_series_is_kept_run_by_run(run):
    for group in (run.limit, run.reference[32]):
        for name in group.data_vars:
            if name.endswith("_se"):
                stem = name.removesuffix("_se")
                values = group[stem + ("_pseudo" if stem + "_pseudo" in group else "_runs")]
                mean = values.mean("run")
                # Round-off of a mean of n values, in another order of sums.
                np.testing.assert_allclose(mean, group[stem], rtol=1e-12, atol=1e-14)


def test_the_jackknife_of_a_mean_is_the_mean_and_its_error(run):
    for group in (run.limit, run.reference[32]):
        for name in ("loss", "Phi3_diag"):
            value, error = dmft.jackknife(lambda means, name=name: means[name], group)
            np.testing.assert_allclose(value, group[name], rtol=1e-11)
            np.testing.assert_allclose(error, group[name + "_se"], rtol=1e-6)


def test_the_jackknife_takes_the_bias_of_a_square_away():
    draws = np.random.default_rng(1).normal(size=(1000, 4))  # mean 0: the square of a mean is 1/4
    values = [float(dmft.jackknife(lambda means: means["x"] ** 2, xarray.Dataset(
        {"x_runs": (("run", "t"), row[:, None])}))[0][0]) for row in draws]
    spread = np.std(values) / np.sqrt(len(values))
    assert abs(np.mean(values)) < 4 * spread < 0.25 / 4


def test_differences_are_paired_by_seed(run):
    other = dmft.solve(f"{ROOT}/data/regime2.ini", progress=False,
                       **SMALL | {"training.eta0": 0.301})
    change, error = dmft.difference(run.reference[32], other.reference[32], "loss")
    one, two = (r.reference[32] for r in (run, other))
    np.testing.assert_allclose(change, one["loss"] - two["loss"], atol=1e-14)
    unpaired = np.hypot(one["loss_se"], two["loss_se"])
    assert float(error[-1]) < 0.05 * float(unpaired[-1])
    with pytest.raises(dmft.InputError, match="no series|not kept"):
        dmft.difference(one, two, "loss_se")
    with pytest.raises(dmft.InputError, match="run by run"):
        dmft.jackknife(lambda means: means, run["/"])
