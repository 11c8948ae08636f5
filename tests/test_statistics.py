"""Errors of functions of means and of differences, from runs one by one."""
import os

import dmft
import numpy as np
import pytest
from refusing import refuses
import xarray

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = {"training.steps": 4, "solver.sites": 128, "solver.expert_sites": 128,
         "solver.replicates": 3, "reference.widths": 32, "reference.seeds": 6,
         "output.runs": "yes", "output.experts": "yes"}  # of which some entries no run has


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


def test_errors_contain_the_tolerance_of_a_limit():
    ini = f"{ROOT}/data/dense.ini"
    keys = {"training.steps": 4, "solver.sites": 64, "solver.replicates": 3, "reference.widths": "",
            "solver.check_tolerance": "yes", "solver.tolerance": 0.1, "output.runs": "yes"}
    checked = dmft.solve(ini, progress=False, **keys).limit
    for name in ("loss", "Phi3_diag"):
        _, error = dmft.jackknife(lambda means, name=name: means[name], checked)
        np.testing.assert_allclose(error, checked[name + "_se"], rtol=1e-6)
        alone = dmft.difference(checked, checked, name)[1]  # runs less themselves: nothing is left
        np.testing.assert_allclose(alone, 2 ** 0.5 * abs(checked[name + "_tolerance"]), rtol=1e-6,
                                   atol=1e-14)
    rates = dmft.sweep(ini, progress=False, **keys, **{"sweep.training.eta0": [0.25, 0.5]})
    of_sweep = rates.series("loss").sel({"training.eta0": 0.5, "N": np.inf})
    _, error = dmft.jackknife(lambda means: means["loss"], of_sweep)
    np.testing.assert_allclose(error, checked["loss_se"], rtol=1e-6)
    assert (abs(checked["Phi3_diag_tolerance"]) > 0.01 * checked["Phi3_diag_se"]).any()


def test_the_jackknife_takes_the_bias_of_a_square_away():
    draws = np.random.default_rng(1).normal(size=(4, 1000))  # mean 0: the square of a mean is 1/4
    values, _ = dmft.jackknife(lambda means: means["x"] ** 2,
                               xarray.Dataset({"x_runs": (("run", "t"), draws)}))
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
    refuses("no series|not kept", dmft.difference, one, two, "loss_se")
    refuses("run by run", dmft.jackknife, lambda means: means, run["/"])


def runs(*values):
    return xarray.Dataset({"x_runs": (("run", "t"), np.array(values, float))})


def test_what_is_no_number_stays_none():
    """As in the means of a file: a mean of fewer runs than its error counts is none."""
    one, other = runs([1, 2], [np.nan, 3], [3, 7]), runs([0.5, 2], [1, 3], [3, 5])
    for value, error in (dmft.jackknife(lambda means: means["x"], one),
                         dmft.difference(one, other, "x")):
        assert np.isnan([value[0], error[0]]).all() and np.isfinite([value[1], error[1]]).all()


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name, keys, counted, left_out, others", (
    ("examples/balanced", {}, ["load", "load_largest", "flips", "accuracy"], ["p"],
     ["balance_loss", "loss"]),
    ("examples/few_experts", {"training.steps": 3}, ["taken", "accuracy"], [], ["psi"]),
    ("examples/few_experts", {"program.capacity": 2}, ["taken", "dropped"], [], ["psi"]),
    ("examples/shared_experts", {}, ["accuracy"], ["G2_e1_diag", "p"], ["Phi1_diag", "loss"]),
    ("data/regime1", {"network.rho": 0.5, "output.experts": "yes"},
     ["load", "flips", "expert_dead", "expert_coselection"], ["expert_gradient_W2", "p"],
     ["psi", "loss"]),
    ("data/regime2", {"output.experts": "yes"}, ["load2", "load_largest", "expert_dead"], [],
     ["Phi1_diag", "loss"])))
def test_runs_that_agree_by_chance_tell_no_error(name, keys, counted, left_out, others):
    """An expert that nobody chooses in any of three networks has a load of 0, and nobody knows in
    how many others it would not: the error is NaN wherever all agree on what is counted, whatever
    the number is, and on the 0 of what a selection leaves out. What they agree on for other
    reasons, as on logits at the start, has an error of 0."""
    small = {key: value for key, value in SMALL.items() if "expert" not in key}
    run = dmft.solve(f"{ROOT}/{name}.ini", progress=False, **small | keys)
    nothing = 0
    for group in (run.limit, run.reference[32]):
        for one in counted + left_out + others:
            if one not in group:
                continue
            runs, error = group[one + "_runs"], group[one + "_se"]
            spread = runs.max("run") - runs.min("run")
            agree = (spread <= 1e-12 * abs(runs.max("run"))) & runs.notnull().all("run")
            if one in left_out:
                agree &= group[one] == 0
            if one in others:
                assert error.notnull().all() or one == "loss"
            else:
                assert (error.isnull() == (agree | group[one].isnull())).all(), one
                nothing += int(agree.sum())
    assert nothing > 0
    few = run.limit[[name for name in run.limit if name.startswith((*counted, "loss"))]]
    for one in set(counted) & set(run.limit):
        _, error = dmft.jackknife(lambda means, one=one: 2 * means[one], few)
        assert (error.isnull() == run.limit[one + "_se"].isnull()).all()
        _, error = dmft.difference(few, few, one)
        assert (error.isnull() == run.limit[one + "_se"].isnull()).all()


def test_what_no_run_has_at_the_end_tells_nothing_of_the_end():
    """As a test loss that is measured at every second time; the other series say who ended."""
    both = runs([1, 1, 1], [2, 2, 2], [3, 3, 3], [4, 4, np.nan])
    both["test_runs"] = ("run", "t"), [[1, 5, np.nan], [1, 6, np.nan], [1, 7, np.nan],
                                       [1, 8, np.nan]]
    value, error = dmft.jackknife(lambda means: means["test"], both)
    np.testing.assert_allclose(value, [1, 6, np.nan], rtol=1e-14)
    np.testing.assert_allclose(error, [0, 1 / 3 ** 0.5, np.nan], rtol=1e-12)
    assert dmft.difference(both, both, "x")[0].shape == (3,)
    refuses("and here 0 did", dmft.jackknife, lambda means: means["x"], both.isel(run=[3, 3]))


def test_a_run_without_some_numbers_has_ended():
    """As a replicate with fewer spikes than others, or a network whose loss has no curvature."""
    group = runs([1, 1], [2, 2], [3, 3])
    group["spikes_runs"] = ("run", "t", "singular"), [[[2, np.nan], [3, 2]], [[2, 2], [3, np.nan]],
                                                      [[np.nan] * 2, [np.nan] * 2]]
    value, error = dmft.jackknife(lambda means: means["x"], group)
    np.testing.assert_allclose([value[1], error[1]], [2, 1 / 3 ** 0.5], rtol=1e-12)
    assert float(dmft.difference(group, group, "spikes")[0].isnull().sum()) == 4


def test_runs_are_paired_by_their_number():
    """Also where another one failed in each, and groups without numbers of runs."""
    one, other = (runs([1, 1], [2, 2], [3, np.nan], [4, 4]),
                  runs([0, np.nan], [0, 1], [0, 2], [0, 1]))
    for pair in ((one, other), [group.assign_coords(run=range(4)) for group in (one, other)]):
        change, _ = dmft.difference(*pair, "x")
        np.testing.assert_array_equal(change, [3, 2])
    with pytest.raises(dmft.InputError, match="in both, and here 1 did"):
        dmft.difference(one.isel(run=[0, 1]), other.isel(run=[0, 1, 2]), "x")


def test_differences_are_of_the_same_times():
    """As many others would leave what both have, or nothing."""
    one, other = (xarray.Dataset({"x_runs": (("run", "t", "at"), np.ones((2, 1, 2)))},
                                 {"at": at}) for at in ([0, 4], [0, 5]))
    assert dmft.difference(one, one, "x")[0].shape == (1, 2)
    refuses("other numbers along its axes", dmft.difference, one, other, "x")
