"""Fits along an axis, collapse, and blocks as an axis, on numbers of which the answer is known."""
import numpy as np
import pytest
import xarray

import dmft

X = np.array([1.0, 2, 4, 8, 16])


def noisy(function, error, seed, samples=400, x=X):
    """Many data sets of one law: NAME [sample][x]."""
    draws = np.random.default_rng(seed).normal(size=(samples, len(x)))
    y = function(x) + error * draws
    return xarray.Dataset({"y": (("sample", "x"), y), "y_se": (("sample", "x"), 0 * y + error)},
                          {"x": x})


def spread_is_error(values, errors, truth):
    """Samples of a number scatter about the truth by the error that is claimed: mean of z within 4
    standard errors of 0, mean of z^2 within 4 of 1."""
    z = (np.asarray(values) - truth) / np.asarray(errors)
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert abs((z ** 2).mean() - 1) < 4 * np.sqrt(2 / len(z))


@pytest.mark.parametrize("power", (1.0, 0.5, 2.0))
def test_extrapolations_have_the_errors_that_they_claim(power):
    fit = dmft.extrapolate(noisy(lambda x: 3 + 2 * x ** -power, 0.02, 1), "y", "x", power)
    spread_is_error(fit["y_inf"], fit["y_inf_se"], 3)
    spread_is_error(fit["at_largest"], fit["at_largest_se"], 2 * 16 ** -power)
    assert (fit["freedom"] == 3).all()
    assert abs(float(fit["chi2"].mean()) - 3) < 4 * np.sqrt(6 / 400)


def test_chi2_says_that_a_form_is_wrong():
    fit = dmft.extrapolate(noisy(lambda x: 3 + 2 * x ** -2, 0.02, 2), "y", "x", 1.0)
    assert float(fit["chi2"].min()) > 3 + 4 * np.sqrt(6)


def test_unknown_powers_are_found():
    fit = dmft.extrapolate(noisy(lambda x: 3 + 2 * x ** -0.7, 0.002, 3, 16), "y", "x", None)
    spread_is_error(fit["power"], fit["power_se"], 0.7)
    spread_is_error(fit["y_inf"], fit["y_inf_se"], 3)
    with pytest.warns(dmft.NoteWarning, match="at sample = 0: chi.2 is smallest at p = 0.05, an"):
        flat = dmft.extrapolate(noisy(lambda x: 3 + 2 * np.exp(x), 1e-6, 4, 1), "y", "x", None)
    assert np.isnan(flat["power"]).all()


def test_points_of_two_curves_have_no_power():
    """As of a sweep over two rates, of which all points are one axis."""
    data = noisy(lambda x: 3 + 2 / x, 1e-6, 4, 2)
    data["y"][0] = 3 + 2 * X
    both = data.assign_coords(size=(("sample", "x"), np.array([X, X])))
    with pytest.warns(dmft.NoteWarning, match="several points have the same x.*sel chooses one"):
        assert np.isnan(dmft.extrapolate(both, "y", "size", None)["power"])


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_widths_weigh_as_in_a_comparison():
    """The line of dmft-compare, also where networks of one width have failed; of errors that obey
    the law of 1/N the line is that of all other axes."""
    run = dmft.compare({"network": {"model": "regime2", "activation": "linear"},
                        "data": {"inputs": 3, "dimension": 4},
                        "training": {"steps": 12, "eta0": 1},
                        "solver": {"replicates": 2, "sites": 64, "expert_sites": 64},
                        "reference": {"widths": "2 8 16", "seeds": 3}}, progress=False)
    fit, there = dmft.extrapolate(run, "loss", "N"), run.compare.isel(parameterization=0)
    assert (run.reference[2]["n"] < 3).any()
    for name in ("loss_inf", "loss_inf_se"):
        known = np.isfinite(there[name])  # of widths without an error none is left out there
        assert known.sum() > 3
        np.testing.assert_allclose(fit[name].values[known], there[name].values[known], rtol=1e-9)
    data = noisy(lambda x: 3 + 2 / x, 0.02, 1)
    data["y_se"] = 0 * data["y_se"] + 0.02 * X ** -0.5
    known, few = dmft.extrapolate(data, "y", "x"), dmft.extrapolate(data.rename(x="N"), "y", "N")
    for name in known:
        np.testing.assert_allclose(few[name], known[name], rtol=1e-10)


def test_points_of_a_sweep_weigh_as_many_networks_as_ended():
    """Of a series of a sweep they are the runs that have a number."""
    y = np.array([5.0, 4.2, 3.7, 3.2])
    data = xarray.Dataset({"y": ("N", y), "y_se": ("N", 0 * y + 0.1)}, {"N": [1.0, 2, 4, 8]})
    data["y_runs"] = ("run", "N"), np.where([[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1]], y, np.nan)
    known = data.drop_vars("y_runs").assign(n=("N", [3, 1, 2, 3]))
    xarray.testing.assert_identical(dmft.extrapolate(data, "y", "N"),
                                    dmft.extrapolate(known, "y", "N"))


def test_the_limit_on_the_axis_is_no_point():
    data = xarray.Dataset({"y": ("N", [5.0, 4.0, 0.0]), "y_se": ("N", [0.1, 0.1, 0.1])},
                          {"N": [1.0, 2.0, np.inf]})
    assert float(dmft.extrapolate(data, "y", "N")["y_inf"]) == pytest.approx(3)


def test_points_without_an_error_are_left_out():
    data = noisy(lambda x: 3 + 2 / x, 0.02, 5, 1)
    data["y"][0, 0] = np.nan
    fit = dmft.extrapolate(data, "y", "x")
    assert int(fit["freedom"]) == 2 and abs(float(fit["y_inf"]) - 3) < 4 * float(fit["y_inf_se"])
    data["y"][0, 0], data["y_se"][0, 0] = 5, 0  # as of a linear network
    for power, freedom in ((1.0, 2), (None, 1)):
        assert int(dmft.extrapolate(data, "y", "x", power)["freedom"]) == freedom
    data["y_se"][0, :4] = np.nan
    for fit, what, power in ((dmft.extrapolate, "y_inf", [1]), (dmft.extrapolate, "y_inf", [None]),
                             (dmft.exponent, "exponent", [])):
        with pytest.warns(dmft.NoteWarning, match="a value and an error above 0: 1, and it takes"):
            assert np.isnan(fit(data, "y", "x", *power)[what]).all()


def test_richardson_contains_what_the_form_is_worth():
    data = noisy(lambda x: 3 + 2 / x + 1 / x ** 2, 0, 6, 1)
    value, error = dmft.richardson(data, "y", "x")
    assert float(error) > abs(float(value) - 3) > 0
    data = noisy(lambda x: 3 + 2 / x, 0.02, 7)
    value, error = dmft.richardson(data, "y", "x")
    assert abs(float(value.mean()) - 3) < 4 * float(error.mean()) / 20
    assert float(value.std()) < float(error.mean())


def test_exponents():
    fit = dmft.exponent(noisy(lambda x: -3 * x ** -0.5, 0.01, 8), "y", "x")
    # errors of 5 % at the end bend the logarithm by a tenth of an error
    z = (fit["exponent"] + 0.5) / fit["exponent_se"]
    assert abs(float(z.mean())) < 0.3 and 0.7 < float((z ** 2).mean()) < 1.3


def test_curves_collapse_with_their_scaling_alone():
    t = np.linspace(1, 8, 57)
    noise = 0.02 * np.random.default_rng(9).normal(size=(3, 57))
    y = np.exp(-t[None] / X[:3, None]) + noise
    data = xarray.Dataset({"y": (("x", "t"), y), "y_se": (("x", "t"), 0 * y + 0.02)},
                          {"x": X[:3], "t": t})
    good = dmft.collapse(data, "y", "x", "t", power_over=-1)
    assert 0.6 < good < 1.5 and dmft.collapse(data, "y", "x", "t") > 10
    falls = data.isel(t=slice(None, None, -1))
    assert dmft.collapse(falls, "y", "x", "t", power_over=-1) == pytest.approx(good, rel=1e-12)


@pytest.mark.parametrize("call, sentence", (
    (lambda data: dmft.extrapolate(data, "z", "x"), "there is no z"),
    (lambda data: dmft.extrapolate(data, "y", "N"), "y has no axis N; it has sample x"),
    (lambda data: dmft.extrapolate(data, "y", "x", power=-1), "power = -1: must be above 0"),
    (lambda data: dmft.richardson(data, "y", "x", power=0), "power = 0: must be above 0"),
    (lambda data: dmft.extrapolate(data.isel(x=[0]), "y", "x"), "different values of x: 1, and"),
    (lambda data: dmft.richardson(data.assign_coords(x=[1, 2, 4, 8, 8]), "y", "x"), "the same x"),
    (lambda data: dmft.extrapolate(data.assign_coords(x=X - 1), "y", "x"), "need values above 0"),
    (lambda data: dmft.richardson(data.assign_coords(x=X - 4), "y", "x"), "need values above 0"),
    (lambda data: dmft.extrapolate(data.assign_coords(x=list("abcde")), "y", "x"), "x has words"),
    (lambda data: dmft.collapse(data.expand_dims(k=2), "y", "x", "sample"), "choose one of")))
def test_what_has_no_answer_is_a_sentence(call, sentence):
    with pytest.raises(dmft.InputError, match=sentence):
        call(noisy(lambda x: 1 / x, 0.1, 10, 3))


def test_blocks_are_an_axis():
    """Of a stack: the kernels of the stream have a block more than the routers; limit and networks
    have one name for attention, that of its mean over heads; what belongs to no block stays."""
    run = dmft.solve({"network": {"model": "transformer", "depth": 2, "heads": 2, "experts": 0},
                      "data": {"source": "markov", "inputs": 2, "tokens": 3, "vocabulary": 2},
                      "training": {"steps": 2, "loss": "cross_entropy"},
                      "solver": {"sites": 64, "replicates": 2},
                      "reference": {"widths": 8, "seeds": 2}}, progress=False)
    limit, networks = dmft.blocks(run.limit), dmft.blocks(run.reference[8])
    assert limit["Ch_diag"].dims[0] == "l" and list(limit["l"]) == [0, 1, 2]
    np.testing.assert_array_equal(limit["Ch_diag"].sel(l=2), run.limit["Ch_2_diag"])
    np.testing.assert_array_equal(limit["Ch_diag_se"].sel(l=1), run.limit["Ch_1_diag_se"])
    assert limit["attention"].dims == networks["attention"].dims
    by_head = networks["attention_by_head"]
    assert by_head.dims[:2] == ("l", "head")
    np.testing.assert_array_equal(by_head.sel(l=1, head=0), run.reference[8]["attention_1_0"])
    np.testing.assert_allclose(networks["attention"].values[:2], by_head.mean("head").values[:2],
                               atol=1e-15)
    assert np.isnan(limit["attention"].sel(l=2)).all()
    assert (by_head - limit["attention"]).dims[:2] == ("l", "head")
    np.testing.assert_array_equal(limit["loss"], run.limit["loss"])
    assert not [name for name in limit.data_vars if "_0" in name]


def test_pictures_have_the_points_and_the_fit():
    """Intervals are Student's of the runs there are; infinite sizes are no part of the fit."""
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt
    from dmft import plot
    x = np.array([np.inf, 4, 1, 2, 8.0])
    y = 3 + 2 / x + np.array([0.1, 0.01, -0.01, 0, 0])
    runs = np.tile(y[:, None], 4) + [-0.05, 0.05, np.nan, np.nan]
    data = xarray.Dataset({"y": ("x", y), "y_se": ("x", 0 * y + 0.05), "y_runs": (("x", "run"),
                                                                                  runs)}, {"x": x})
    figure, ax = plt.subplots()
    found = plot.extrapolation(ax, data, "y", "x")
    points, at_zero, limit = ax.containers
    np.testing.assert_allclose(np.sort(points[0].get_xdata()), [1 / 8, 1 / 4, 1 / 2, 1])
    bar = points[2][0].get_segments()[0]
    assert abs(bar[1, 1] - bar[0, 1] - 2 * 12.7062 * 0.05) < 1e-4  # two runs
    assert at_zero[0].get_ydata()[0] == float(found["y_inf"])
    assert limit[0].get_xdata()[0] == 0 and limit[0].get_ydata()[0] == y[0]

    def check_line(ax, found):
        line = next(line for line in ax.lines if len(line.get_xdata()) == 2
                    and line.get_linestyle() == "-")
        np.testing.assert_allclose(np.interp(1 / 8, *line.get_data()),
                                   found["y_inf"] + found["at_largest"])

    check_line(ax, found)
    data["y"][-1] = np.nan  # of the largest x, at which the fit still says what it is
    figure, ax = plt.subplots()
    check_line(ax, plot.extrapolation(ax, data, "y", "x"))
    figure, ax = plt.subplots()
    law = xarray.Dataset({"y": ("x", 3 * X ** -1.5), "y_se": ("x", 0.01 * X ** -1.5)}, {"x": X})
    law["y_se"][-1] = 1  # which says nothing
    found = plot.power_law(ax, law, "y", "x")
    line = next(line for line in ax.lines if line.get_label().startswith("$"))
    np.testing.assert_allclose(line.get_ydata(), 3 * np.array([1, 8.0]) ** -1.5)
    assert len(ax.containers[0][0].get_xdata()) == 4 and len(ax.containers[1][0].get_xdata()) == 1
    flat = law.assign(y=("x", 1 + 0.05 * X ** -1), y_se=("x", 0.001 + 0 * X))
    plot.power_law(ax.figure.add_subplot(), flat, "y", "x")  # ticks that say what they are
    ax.figure.canvas.draw()
    axis = ax.figure.axes[-1].yaxis
    assert any(label.get_text().startswith("1.0") for label in axis.get_ticklabels())
    assert not any(label.get_text() for label in axis.get_ticklabels(minor=True))
    with pytest.raises(plot.Missing, match="above two of its errors"), \
            pytest.warns(dmft.NoteWarning):
        plot.power_law(ax, law.assign(y=0 * law["y"]), "y", "x")
    with pytest.raises(dmft.InputError, match="y has other axes, k: choose a point of each"):
        plot.extrapolation(ax, law.expand_dims(k=2), "y", "x")
    plt.close("all")
