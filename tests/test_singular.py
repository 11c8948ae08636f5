"""[output] singular: singular values of networks are those of their matrices, spikes of the limit
are where theory has them in closed form, and networks come to them (docs/theory/spikes.md). Run by
tests/python.sh."""
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dmft
import dmft.plot
from dmft.plot import command

ROUND_OFF = 1e-12  # of numbers of order one, from matrices of a hundred rows
SMALL = {"data.inputs": 4, "data.dimension": 12, "training.steps": 5, "training.eta0": 0.5,
         "training.gamma0": 2.0, "solver.sites": 512, "solver.replicates": 4, "reference.seeds": 2,
         "reference.widths": 24, "output.singular_values": 6}
DENSE = {**SMALL, "network.model": "dense", "network.depth": 2, "network.activation": "tanh",
         "output.singular": "W2"}


def wide_network():
    """A hidden layer of N units, and one of 3 N that reads it: n/m = 3, and 1/3 on the way back."""
    net = dmft.Network()
    small, large = net.population("small"), net.population("large", size=3)
    h = net.map(net.tanh(net.read_in(small, "W1")), large, "U")
    net.read_out(net.map(net.tanh(h), small, "V"), "w")
    return net


def of_matrix(W, count):
    n, m = W.shape
    return np.linalg.svd(W, compute_uv=False)[:count] / np.sqrt(n / m)


def check_networks(run, name, N):
    """At all times of all seeds: of W, of W - W(0), and where the latter would be without coupling.
    """
    networks = run.reference[N]
    for seed in range(2):
        start = run.weights(name, N, seed, 0).values
        for t in range(networks.sizes["t"]):
            W = run.weights(name, N, seed, t).values
            learned = of_matrix(W - start, 6)
            got = {key: networks[f"singular_{name}{key}_runs"].values[seed, t]
                   for key in ("", "_learned", "_independent", "_edge", "_lower")}
            np.testing.assert_allclose(got[""], of_matrix(W, 6), rtol=ROUND_OFF)
            np.testing.assert_allclose(got["_learned"], learned, atol=ROUND_OFF)
            r = W.shape[0] / W.shape[1]
            assert got["_edge"] == pytest.approx(1 + r ** -0.5, rel=1e-15)
            assert got["_lower"] == pytest.approx(abs(1 - r ** -0.5), abs=1e-15)
            alone = [np.sqrt((w * w + 1) * (w * w + 1 / r)) / w if w > r ** -0.25 else np.nan
                     for w in learned]
            np.testing.assert_allclose(got["_independent"], alone, rtol=1e-10)
    assert np.isfinite(networks[f"singular_{name}_independent"].values).any()


def test_singular_values_of_networks_are_those_of_their_matrices():
    more = {"output.runs": "yes", "output.weights": "all", "solver.replicates": 0}
    check_networks(dmft.solve(DENSE, progress=False, **more, **{"training.eta0": 2}), "W2", 24)
    wide = {**SMALL, **more, "output.singular": "U V", "training.eta0": 1.5}
    run = dmft.solve(wide, network=wide_network(), progress=False)
    check_networks(run, "U", 24)
    check_networks(run, "V", 24)


@pytest.mark.parametrize("name, r", [("U", 3), ("V", 1 / 3)])
def test_the_bulk_is_that_of_marchenko_and_pastur(name, r):
    """At t = 0: how many singular values lie below any point is known to a few. (Of N eigenvalues
    it fluctuates by sqrt(ln N)/pi about its mean, .7 at N = 100; here the largest of 200 such
    numbers, and means differ by a constant of order one.)"""
    N = 200
    run = dmft.solve({**SMALL, "output.singular": name, "output.singular_values": N,
                      "training.steps": 1, "solver.replicates": 0, "reference.seeds": 1,
                      "reference.widths": N}, network=wide_network(), progress=False)
    s = run.reference[N][f"singular_{name}"].values[0]
    low, high = abs(1 - r ** -0.5), 1 + r ** -0.5
    x = np.linspace(low, high, 100001)
    x = (x[1:] + x[:-1]) / 2  # density of s with s^2 (n/m) an eigenvalue of W W^T
    density = np.sqrt((high ** 2 - x ** 2) * (x ** 2 - low ** 2)) / x
    below = np.interp(s, x, np.cumsum(density) / density.sum()) * N
    assert np.abs(below - np.arange(N)[::-1] - 0.5).max() < 4
    edge = run.reference[N][f"singular_{name}_edge"].values[0]
    assert edge == pytest.approx(high, rel=1e-15)


def test_a_spike_that_is_independent_of_the_start():
    """What a linear network of one hidden matrix has learned after one step, c w h1^T/m, is
    independent of W(0): the spike of the limit stands where that of independent vectors does, and
    moments are exact. c = eta0 gamma0 y |x|/sqrt D with one input. Later it depends on W(0), and
    spike and independent spike differ."""
    run = dmft.solve({**DENSE, "network.activation": "linear", "data.inputs": 1,
                      "solver.replicates": 2, "reference.widths": "", "solver.tolerance": 1e-8},
                     progress=False, **{"training.gamma0": 2.5})
    limit = run.limit
    X, y = run.data["X"].values, run.data["y"].values
    c = 0.5 * 2.5 * abs(y[0]) * np.sqrt(np.mean(X ** 2))
    assert c > 1.05
    assert np.isnan(limit["singular_W2"].values[0]).all()
    np.testing.assert_allclose(limit["singular_W2_learned"].values[1, :2], [c, 0], atol=1e-7)
    np.testing.assert_allclose(limit["singular_W2"].values[1, 0], c + 1 / c, rtol=1e-9)
    np.testing.assert_allclose(limit["singular_W2_independent"].values[1, 0], c + 1 / c, rtol=1e-9)
    assert np.isnan(limit["singular_W2"].values[1, 1:]).all()
    coupled, alone = (limit[f"singular_W2{key}"].values[3, 0] for key in ("", "_independent"))
    assert abs(coupled - alone) > 0.05
    assert np.isfinite(limit["singular_W2_independent"].values[2, 0])  # but it has no spike
    assert np.isnan(limit["singular_W2"].values[2]).all()


def test_without_a_start_spikes_are_what_was_learned():
    """A matrix that begins at zero: the limit is of finite rank, and so are networks."""
    run = dmft.solve(DENSE, progress=False, **{"init.W2": 0, "init.w": 1, "training.eta0": 1,
                                               "training.gamma0": 3})
    for group in (run.limit, run.reference[24]):
        value, learned = group["singular_W2"].values, group["singular_W2_learned"].values
        seen = np.isfinite(value) & (learned > 1e-6)
        assert seen[-1].sum() >= 2
        # Spikes are roots of a matrix of averages, so that their squares have its round-off: some
        # products of the size of the largest square.
        largest = np.nanmax(value)
        np.testing.assert_allclose(value[seen]**2, learned[seen]**2, rtol=1e-10,
                                   atol=16 * np.finfo(float).eps * largest**2)
        np.testing.assert_array_equal(group["singular_W2_edge"].values, 0)


def z_of_series(run, series, choose):
    """a + b/N through all widths, against the limit, of those entries that choose picks."""
    limit, widths = run.limit, sorted(run.reference)
    value, error = limit[series].values, limit[series + "_se"].values
    means, errors = (np.array([run.reference[N][series + end].values for N in widths])
                     for end in ("", "_se"))
    with np.errstate(all="ignore"):
        weight = 1 / errors ** 2
        x = 1 / np.array(widths)[:, None, None]
        x0, y0 = ((weight * v).sum(0) / weight.sum(0) for v in (x, means))
        sxx = (weight * (x - x0) ** 2).sum(0)
        slope = (weight * (x - x0) * (means - y0)).sum(0) / sxx
        se = np.sqrt(1 / weight.sum(0) + x0 ** 2 / sxx + error ** 2)
        z = (y0 - slope * x0 - value) / se
        wanted = choose(value) & np.isfinite(z)
    assert wanted.any(), series
    return z[wanted]


def z_of(run, names, learned):
    """Of all spikes of the limit that stand 3 % clear of the edge, and of the largest singular
    value of what was learned."""
    z = []
    for name in names:
        edge = run.limit[f"singular_{name}_edge"].values[:, None]
        first = np.arange(run.limit.sizes["singular"])
        z += list(z_of_series(run, f"singular_{name}",
                              lambda value: (value > 1.03 * edge) & (first < 2)))
        if learned:
            z += list(z_of_series(run, f"singular_{name}_learned",
                                  lambda value: (value > 0.1 * np.nanmax(value)) & (first < 1)))
    return np.array(z)


@pytest.mark.parametrize("settings, names, network", [
    ({"network.model": "dense", "network.depth": 3, "network.activation": "tanh"}, ["W2", "W3"],
     None),
    ({"network.model": "dense", "network.depth": 2, "network.activation": "erf",
      "training.optimizer": "momentum", "training.momentum": 0.7, "training.batch": 4,
      "data.inputs": 8, "training.eta0": 0.2}, ["W2"], None),
    ({"network.model": "regime1", "network.parameterization": "mssp"}, ["W2_0"], None),
    ({"network.model": "regime2", "network.parameterization": "mssp", "network.kappa": 0.5,
      "network.expert_width": 3, "solver.expert_sites": 512}, ["W_out"], None),
    ({"training.eta0": 0.15, "training.gamma0": 4, "reference.seeds": 16}, ["U", "V"],
     wide_network),
    ({"network.program": "examples/tied.lua", "program.depth": 2, "training.eta0": 0.1,
      "training.gamma0": 4}, ["W"], None),
    ({"network.model": "dense", "network.depth": 2, "network.activation": "tanh",
      "training.optimizer": "muon", "training.muon": "exact", "training.momentum": 0,
      "training.rest_optimizer": "gd", "training.rest_eta0": 0.3, "training.eta0": 0.3,
      "training.weight_decay": 0.2, "reference.widths": "64 96 192", "reference.seeds": 16}, ["W2"],
     None)], ids=["dense", "batches", "regime1", "regime2", "wide", "tied", "muon"])
def test_networks_come_to_the_limit(settings, names, network):
    """Of one case the z move together, so that two times tell as much as nine: judged are the
    largest and the rms, as in tests/test_networks.c. Exact steps of Muon give what is learned equal
    singular values, which lie apart by N^-1/2 in networks: no a + b/N."""
    more = {"network": network()} if network else {}
    run = dmft.solve({**SMALL, "training.steps": 9, "solver.sites": 1024, "solver.replicates": 6,
                      "reference.widths": "32 64 128", "reference.seeds": 24,
                      "output.singular": " ".join(names), "output.singular_every": 4, **settings},
                     progress=False, **more)
    z = z_of(run, names, "training.muon" not in settings)
    print(f"largest |z| {np.abs(z).max():.2f}, rms {np.sqrt(np.mean(z ** 2)):.2f} of {len(z)}")
    assert np.abs(z).max() <= 4 and np.sqrt(np.mean(z ** 2)) <= 2


MUON = {"training.optimizer": "muon", "training.momentum": 0.6, "training.weight_decay": 0,
        "training.eta0": 0.2, "training.rest_eta0": 0.05}


def test_momenta_are_what_steps_are_made_of():
    """The step of a network between two times has the singular values eta0 |p(s)| (n/m)^1/2."""
    run = dmft.solve({**SMALL, **MUON, "output.singular": "U", "output.runs": "yes",
                      "output.weights": "all", "solver.replicates": 0,
                      "output.singular_values": 30}, network=wide_network(), progress=False)
    for seed in range(2):
        s = run.reference[24]["singular_U_momentum_runs"].values[seed]
        assert np.isnan(s[0]).all() and np.isnan(s[:, 24:]).all()
        for t in range(1, 5):
            step = run.weights("U", 24, seed, t).values - run.weights("U", 24, seed, t - 1).values
            p = s[t, :24]
            assert (p ** 2).sum() == pytest.approx(1, rel=ROUND_OFF)
            for _ in range(5):
                p = 3.4445 * p - 4.7750 * p ** 3 + 2.0315 * p ** 5
            np.testing.assert_allclose(of_matrix(step, 24), 0.2 * np.sort(np.abs(p))[::-1],
                                       atol=485 * ROUND_OFF)


def test_momenta_of_a_limit():
    """Of one input and without momentum one singular value, 1; where Muon leaves the matrix, or
    keeps no momentum, there is no series."""
    one = {**DENSE, **MUON, "training.momentum": 0, "data.inputs": 1, "reference.widths": ""}
    run = dmft.solve(one, progress=False)
    limit = run.limit
    np.testing.assert_array_equal(run.singular("W2").momentum, limit["singular_W2_momentum"])
    s = limit["singular_W2_momentum"].values
    assert np.isnan(s[0]).all()
    np.testing.assert_allclose(s[1:], [[1, 0, 0, 0, 0, 0]] * 4, atol=ROUND_OFF)
    for more in ({"training.muon": "exact"}, {"training.optimizer": "gd"}):
        settings = {**one, **more}
        if "training.optimizer" in more:
            settings = {key: value for key, value in settings.items()
                        if key not in MUON or key in ("training.optimizer", "training.eta0")}
        assert "singular_W2_momentum" not in dmft.solve(settings, progress=False).limit


@pytest.mark.parametrize("settings, names", [
    ({"network.model": "dense", "network.depth": 2, "network.activation": "tanh"}, ["W2"]),
    ({"network.model": "regime2", "network.parameterization": "mssp", "network.kappa": 0.5,
      "network.expert_width": 3, "solver.expert_sites": 512}, ["W_in", "W_out"]),
], ids=["dense", "experts"])
def test_momenta_of_networks_come_to_those_of_the_limit(settings, names):
    """a + b/N through all widths against the limit, of singular values above a tenth; of experts
    means over them."""
    run = dmft.solve({**SMALL, **MUON, "training.steps": 7, "solver.sites": 1024,
                      "solver.replicates": 6, "reference.widths": "32 64 128",
                      "reference.seeds": 24, "output.singular": " ".join(names),
                      "output.singular_every": 3, **settings}, progress=False)
    z = np.concatenate([z_of_series(run, f"singular_{name}_momentum", lambda value: value > 0.1)
                        for name in names])
    print(f"largest |z| {np.abs(z).max():.2f}, rms {np.sqrt(np.mean(z ** 2)):.2f} of {len(z)}")
    assert np.abs(z).max() <= 4 and np.sqrt(np.mean(z ** 2)) <= 2


def test_halves_and_a_run_that_goes_on(tmp_path):
    """The limit with halves is that without, by its errors; one that goes on has the same bits."""
    more = {"training.optimizer": "momentum", "training.momentum": 0.5, "training.gamma0": 3,
            "solver.sites": 256}
    path = str(tmp_path / "cut.h5")
    cut = dmft.solve(DENSE, progress=False, output=path, **more,
                     **{"output.checkpoint": 100, "training.steps": 3})
    on = dmft.resume(cut, progress=False, **{"training.steps": 6})
    whole = dmft.solve(DENSE, progress=False, **more, **{"training.steps": 6})
    halves = dmft.solve(DENSE, progress=False, **more, **{"training.steps": 6,
                                                          "solver.halves": "yes"})
    for one, other in ((on.limit, whole.limit), (on.reference[24], whole.reference[24])):
        for key in ("", "_learned", "_independent", "_edge"):
            np.testing.assert_array_equal(one[f"singular_W2{key}"], other[f"singular_W2{key}"])
    a, b = halves.limit, whole.limit
    spike = "singular_W2"
    z = (a[spike] - b[spike]).values[-1, 0] / np.hypot(a[spike + "_se"], b[spike + "_se"])[-1, 0]
    assert abs(z) < 4


def test_numbers_and_picture(tmp_path):
    """What is drawn are the numbers of the file: the spike of the limit, values of networks."""
    run = dmft.solve(DENSE, progress=False, output=str(tmp_path / "run.h5"),
                     **{"training.gamma0": 3})
    spikes, values = run.singular("W2"), run.singular("W2", 24)
    np.testing.assert_array_equal(spikes.value, run.limit["singular_W2"])
    np.testing.assert_array_equal(values.learned_se, run.reference[24]["singular_W2_learned_se"])
    with pytest.raises(dmft.InputError, match="no singular values of W1 of networks of N = 24"):
        run.singular("W1", 24)
    figure, ax = plt.subplots()
    dmft.plot.singular(ax, run, "W2")
    drawn = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_array_equal(drawn[r"$N \to \infty$"], spikes.value[:, 0])
    np.testing.assert_array_equal(drawn["$N = 24$"], values.value[:, 0])
    assert np.isfinite(spikes.value[-1, 0])
    plt.close(figure)
    assert command.main([run.path, "--what", "singular", "-o", str(tmp_path / "s.png")]) == 0
    assert (tmp_path / "s.png").exists()


def test_times_that_are_left_out():
    """A gap between times would have no line: curves go over those that there are, in pictures of
    the loss of test inputs, too."""
    run = dmft.solve(DENSE, progress=False, **{"output.singular_every": 3, "training.steps": 6,
                                               "data.test_inputs": 3, "output.test_every": 3})
    there = np.isfinite(run.reference[24]["singular_W2"].values[:, 0])
    np.testing.assert_array_equal(there, [True, False, False, True, False, True])
    np.testing.assert_array_equal(np.isfinite(run.limit["singular_W2_edge"]), there)
    _, (spikes, loss) = plt.subplots(1, 2)
    dmft.plot.singular(spikes, run, "W2")
    line = next(line for line in spikes.lines if line.get_label() == "$N = 24$")
    dmft.plot.curves(loss, run, "test_loss")
    assert len(loss.lines) == 2
    for one, times in zip((line, *loss.lines), ([0, 3, 5], [0, 3], [0, 3])):
        np.testing.assert_array_equal(one.get_xdata(), times)
        assert np.isfinite(one.get_ydata()).all()
    plt.close("all")


def test_adam_has_them_in_networks_alone(tmp_path):
    adam = {"training.optimizer": "adam", "training.eta0": 0.05}
    run = dmft.solve(DENSE, progress=False, **adam,
                     **{"network.depth": 3, "output.singular": "W2 W3"})
    assert "singular_W2" in run.reference[24] and "singular_W2" not in run.limit
    assert any("singular values of W2, W3:" in str(note) for note in run.notes)
    with pytest.raises(dmft.InputError, match="W2, whose entries the optimizer moves one by one"):
        dmft.solve(DENSE, progress=False, **adam, **{"reference.widths": ""})


@pytest.mark.parametrize("more, said", [
    ({"output.singular": "W5"}, 'no matrices between populations are called W5; did you mean "W2"'),
    ({"output.singular": "W1"}, "names are W2"),
    ({"output.singular": "W2 W2"}, "W2 comes twice"),
    ({"network.depth": 1}, "the network has no matrices between populations"),
    ({"solver.method": "fixed_point"}, "method = fixed_point draws fields"),
    ({"output.singular_values": 0}, "singular_values"),
    ({"output.singular": "", "output.singular_values": 3}, "it is used only with singular"),
    ({"output.singular": "", "output.singular_every": 3}, "it is used only with singular")])
def test_what_is_refused(more, said):
    with pytest.raises(dmft.InputError, match="singular") as refused:
        dmft.solve(DENSE, progress=False, **more)
    assert said in str(refused.value)
