"""How large networks are and what they cost: as attributes, in sweeps, as an axis. That parameters
are PyTorch's, and which of them are active, is tests/torch/test_counts.py."""
import numpy as np
import pytest
import xarray

import dmft

QUIET = {"solver.replicates": 0, "reference.seeds": 2, "training.steps": 2}
COUNTS = ("parameters", "active_parameters", "flops_per_token", "flops_per_step")


def attributes(N, **settings):
    run = dmft.solve(settings | QUIET, progress=False, **{"reference.widths": N})
    return [run.reference[N].attrs[name] for name in COUNTS]


def test_flops_of_a_dense_network():
    """6 for each entry and input, but 4 of the read-in, which hands nothing back."""
    N, D, P = 24, 5, 7
    found = attributes(N, **{"network.model": "dense", "network.depth": 3, "data.inputs": P,
                             "data.dimension": D})
    entries = [N * D, N * N, N * N, N]
    cost = 6 * sum(entries) - 2 * N * D
    assert found == [sum(entries), sum(entries), cost, P * cost]


@pytest.mark.parametrize("batch", (0, 3))
def test_flops_of_attention(batch):
    """Of every pair of tokens 2 products with each unit of the heads, forward, and 4 backward; the
    embedding of a letter is a matrix, and the read-out has rows of tokens."""
    N, P, n, V = 16, 4, 5, 6
    found = attributes(N, **{"network.model": "transformer", "network.depth": 1, "network.heads": 2,
                             "network.experts": 0, "data.source": "markov", "data.inputs": P,
                             "data.tokens": n, "data.vocabulary": V, "training.batch": batch,
                             "training.loss": "cross_entropy"})
    rows = (batch or P) * n
    D = V + n  # a letter and its place
    assert found[0] == found[1] == N * D + 4 * N * N + V * N
    matrices, products = rows * (4 * N * D + 6 * 4 * N * N + 6 * V * N), 6 * rows * n * N
    assert found[3] == matrices + 2 * products
    assert found[2] == found[3] / rows


def test_flops_of_numbers_that_are_mixed():
    """Of every pair of tokens 2 products with each of three numbers, and 4 backward."""
    N, D, P, n, K = 12, 4, 5, 3, 3
    net = dmft.Network()
    x = net.read_in(net.population("p"), "W0")
    s = net.mix(net.softmax(net.attend(x, x)), net.look(x, K, "Q"))
    net.read_out(net.pool(net.sum(s) * x), "w")
    run = dmft.solve(QUIET, network=net, progress=False,
                     **{"data.tokens": n, "data.inputs": P, "data.dimension": D,
                        "reference.widths": N})
    matrices = P * n * (4 * N * D + 6 * N * K) + 6 * P * N
    assert run.reference[N].attrs["flops_per_step"] == matrices + 6 * P * n * n * (N + K)


def test_places_that_are_chosen():
    """Of three places that a unit has, one is chosen: a third of the entries that read it act."""
    N, D = 12, 4
    net = dmft.Network()
    p = net.population("p")
    z = net.mix(net.read_in(p, "W0"), net.pooling(1, 6, size=2))
    net.read_out(net.pool(net.map(net.top_rows(z, 1) * z, p, "W1")), "w")
    run = dmft.solve(QUIET, network=net, progress=False,
                     **{"data.tokens": 6,
                        "data.dimension": D, "reference.widths": N})
    assert run.reference[N].attrs["active_parameters"] == N * D + N * N / 3 + N


@pytest.mark.parametrize("function, share", (("tanh", 1 / 4), ("sigmoid", 1)))
def test_functions_of_zeros(function, share):
    """A quarter of the units is selected: tanh is 0 at the others, and a sigmoid 1/2."""
    N, D = 12, 4
    net = dmft.Network()
    p = net.population("p")
    h = net.read_in(p, "W0")
    net.read_out(net.map(getattr(net, function)(net.top(h, share=0.25) * h), p, "W1"), "w")
    run = dmft.solve(QUIET, network=net, progress=False,
                     **{"data.dimension": D, "reference.widths": N})
    assert run.reference[N].attrs["active_parameters"] == N * D + N * N * share + N


@pytest.mark.parametrize("power, share", ((1, 1 / 2), (2, 1 / 2), (0, 1)))
def test_powers_of_gates(power, share):
    """Two of four experts are selected; the power 0 of their gates is 1 at all of them."""
    N, D, M = 12, 4, 4
    net = dmft.Network()
    h = net.tanh(net.read_in(net.population("p"), "W0"))
    gates = net.softmax(net.look(h, M, "Q", iid=True), top=2) ** power
    experts = [gates[i] * net.map(h, net.population(f"e{i}"), f"U{i}") for i in range(M)]
    out = net.population("out")
    net.read_out(sum((net.map(x, out, f"V{i}") for i, x in enumerate(experts[1:])),
                     net.map(experts[0], out, "V")), "w")
    run = dmft.solve(QUIET, network=net, progress=False,
                     **{"data.dimension": D, "reference.widths": N, "training.steps": 1})
    found = run.reference[N].attrs
    assert found["parameters"] == N * D + M * N + 2 * M * N * N + N
    assert found["active_parameters"] == N * D + M * N + share * 2 * M * N * N + N


@pytest.fixture(scope="module", name="rates")
def sweep():
    return dmft.sweep({"network": {"model": "regime2", "kappa": 0.5, "expert_width": 4},
                       "data.inputs": 4,
                       "solver": {"replicates": 2, "sites": 64, "expert_sites": 64},
                       "training.steps": 3, "reference": {"widths": "16 32", "seeds": 3},
                       "sweep": {"columns": "active_parameters valid_until",
                                 "network.rho": "1 0.5 0.25"}}, progress=False)


def test_sweeps_have_counts_and_columns(rates):
    N, D, M = 32, rates.points[1.0,].data.sizes["i"], 16
    experts = 4 * 2 * M * N
    said = rates.sweep["active_parameters"].sel(N=N)
    assert (said == N * D + M * N + N + experts * rates.sweep["network.rho"]).all()
    assert rates.sweep["parameters"].sel(N=N).values.tolist() == [N * D + M * N + N + experts] * 3
    assert np.isnan(rates.sweep["flops_per_step"].sel(N=np.inf)).all()
    head = next(line for line in rates.report.splitlines() if "active_parameters" in line)
    assert head.split()[-2:] == ["active_parameters", "valid_until"]
    assert f"{said.values[0]:.6g}" in rates.report


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(dmft.InputError, match="columns: there is no width; there are valid_until"):
        dmft.sweep({"network.model": "dense", "sweep": {"columns": "width", "training.eta0":
                                                        "1 2"}}, progress=False)


def test_series_are_fitted_against_active_parameters(rates):
    """The coordinate over rho and N is one axis of all points, of which the limit is none."""
    loss = rates.series("loss").isel(t=-1)
    x = loss["active_parameters"].values
    loss["loss"] = loss["loss"] * 0 + 2 + 300 / x
    fit = dmft.extrapolate(loss, "loss", "active_parameters")
    assert float(fit["loss_inf"]) == pytest.approx(2) and int(fit["freedom"]) == 6 - 2
    loss["loss"] = loss["loss"] * 0 + x ** -0.3
    assert float(dmft.exponent(loss, "loss", "active_parameters")["exponent"]) \
        == pytest.approx(-0.3)
    with pytest.raises(dmft.InputError, match="values of parameters: 2"):
        dmft.richardson(loss.sel(N=[16, 32]), "loss", "parameters")
    for fit in (dmft.extrapolate, dmft.exponent):
        with pytest.raises(dmft.InputError, match="values of parameters: 1"):
            fit(loss.sel(N=[16]), "loss", "parameters")
    loss["loss"] = loss["loss"].where(loss["N"] != 32)  # what is left has one size
    assert np.isnan(dmft.extrapolate(loss, "loss", "parameters")["loss_inf"])


def test_a_coordinate_over_some_axes_leaves_the_others():
    x = np.array([[1.0, 2], [4, 8]])
    y = np.stack([3 + 1 / x, 5 + 2 / x], -1)
    data = xarray.Dataset({"y": (("a", "b", "t"), y), "y_se": (("a", "b", "t"), 0 * y + .1)},
                          {"size": (("a", "b"), x), "t": [0, 1]})
    assert dmft.extrapolate(data, "y", "size")["y_inf"].values == pytest.approx([3, 5])


def test_the_size_of_networks_is_an_axis_of_pictures(rates, tmp_path, capsys):
    from dmft.plot.command import main
    ax = rates.plot(x="active_parameters").axes[0]
    lines = ax.get_legend_handles_labels()[0]
    assert [line[0].get_xdata().tolist() for line in lines] \
        == rates.sweep["active_parameters"].sel(N=[16, 32]).values.tolist()
    assert ax.get_xlabel() == "active parameters" and ax.get_xscale() == "log"
    out = str(tmp_path / "x.png")
    assert main([rates.path, "--x", "flops_per_step", "-o", out]) == 0
    for size in ("size", "loss", "N"):
        assert main([rates.path, "--x", size, "-o", out]) == 2
        assert f"no {size}; sizes of networks are parameters" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_series_of_runs_that_have_other_times():
    """Each run's numbers stand at its own times, in any order of the sweep, NaN elsewhere."""
    ini = """
[network]
model = dense
[data]
inputs = 2
dimension = 4
[solver]
sites = 32
replicates = 2
[output]
fields = h2
[sweep]
training.steps = {}
"""
    for order in ("4 6", "6 4"):
        rates = dmft.sweep(ini.format(order), progress=False)
        loss, rows = (rates.series(name).sel(N=np.inf) for name in ("loss", "h2_quantile"))
        assert loss["t"].values.tolist() == [0, 1, 2, 3, 4, 5]
        assert rows["at"].values.tolist() == [0, 3, 5]
        for steps, missing in ((4, 5), (6, 3)):
            own, key = rates.points[float(steps),].limit, {"training.steps": steps}
            values, quantiles = loss["loss"].sel(key), rows["h2_quantile"].sel(key)
            np.testing.assert_array_equal(values[:steps], own["loss"])
            assert values.count() == steps and quantiles.sel(at=missing).isnull().all()
            for t in (0, steps - 1):
                np.testing.assert_array_equal(quantiles.sel(at=t), own["h2_quantile"].sel(at=t))
    with pytest.raises(dmft.InputError, match="the axes t mu in some runs .* and t mu c in others"):
        dmft.sweep(ini.replace("training.steps = {}", "network.outputs = 1 3"),
                   progress=False).series("f")


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_series_of_sweeps_know_until_when_they_hold():
    """Where networks fail, means are of the survivors."""
    rates = dmft.sweep({"network": {"model": "regime2", "activation": "linear", "gate": "constant"},
                        "data.dimension": 4, "solver.replicates": 0, "training.steps": 12,
                        "reference": {"widths": [2, 16], "seeds": 6},
                        "sweep": {"training.eta0": [0.1, 0.6]}}, progress=False)
    loss = rates.series("loss")
    valid = dmft.valid(loss)
    until = rates.sweep["valid_until"].sel({"training.eta0": 0.6, "N": 2}).item()
    assert 0 < until < 12
    assert valid.sel({"training.eta0": 0.6, "N": 2}).sum() == until
    assert valid.sel({"training.eta0": 0.1}).all()
    assert loss["loss"].where(valid).dims == loss["loss"].dims
