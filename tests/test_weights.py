"""[output] weights: what networks compute, from their matrices and the coordinates of the inputs in
the file. Run by tests/python.sh."""
import numpy as np
import pytest

import dmft

N = 12
DENSE = {"network.model": "dense", "network.depth": 2, "network.activation": "tanh",
         "data.inputs": 4, "data.dimension": 9, "training.steps": 5, "training.eta0": 0.3,
         "training.gamma0": 0.7, "solver.replicates": 0, "reference.widths": N,
         "reference.seeds": 2, "reference.centre": "no", "output.weights": "all"}
ROUND_OFF = 1e-13  # of sums of N or fewer numbers of order one


def f_of(run, A, seed, t):
    """f of a dense network of depth 2."""
    W1, W2, w = (run.weights(name, N, seed, t).values for name in ("W1", "W2", "w"))
    if A.shape[1] > W1.shape[1]:
        W1 = np.hstack([W1, run.weights("W1_rest", N, seed, t).values])
    h2 = np.tanh(A @ W1.T) @ W2.T
    return np.tanh(h2) @ w[0] / N / run.parameters["training.gamma0"]


def test_matrices_give_f_at_every_time():
    """Of training inputs, and of test inputs, which have directions of their own: at first, and
    after each step."""
    run = dmft.solve(DENSE, progress=False, **{"data.test_inputs": 8})
    A, A_test = run.data["coordinates"].values, run.data["coordinates_test"].values
    assert A.shape == (4, 4) and A_test.shape == (8, 9)
    X = np.vstack([run.data["X"], run.data["X_test"]])
    both = np.vstack([np.hstack([A, np.zeros((4, 5))]), A_test])
    np.testing.assert_allclose(both @ both.T, X @ X.T / 9, atol=ROUND_OFF)
    networks = run.reference[N]
    for seed in range(2):
        for t in range(5):
            np.testing.assert_allclose(f_of(run, A, seed, t), networks["f_runs"][seed, t],
                                       atol=ROUND_OFF)
            loss = np.mean((f_of(run, A_test, seed, t) - run.data["y_test"].values) ** 2) / 2
            assert abs(loss - networks["test_loss_runs"].values[seed, t]) < ROUND_OFF
    first, last = (run.weights("W2", N, 1, t).values for t in (0, 4))
    assert np.abs(last - first).max() > 1e-3 > 1e-3 * np.abs(first).max()
    assert not np.array_equal(first, run.weights("W2", N, 0, 0))


def test_inputs_are_left_out_without_weights():
    """[output] inputs = none: X is in the file where weights are, which act on it."""
    for weights in ("none", "final"):
        keys = {"output.inputs": "none", "output.kernels": "none", "output.weights": weights}
        run = dmft.solve(DENSE, progress=False, **keys, **{"data.test_inputs": 3})
        written = {"X", "y", "X_test", "y_test"} & set(run.data)
        assert written == {"y", "y_test"} | ({"X", "X_test"} if weights == "final" else set())


def test_a_step_of_gradient_descent():
    """W2 and w after one step, by the gradient of f = <w tanh(W2 tanh(W1 A))>/gamma0."""
    run = dmft.solve(DENSE, progress=False, **{"training.steps": 2, "output.weights": "both"})
    A, y = run.data["coordinates"].values, run.data["y"].values
    W1, W2, w = (run.weights(name, N).values for name in ("W1", "W2", "w"))
    x1 = np.tanh(A @ W1.T)
    x2 = np.tanh(x1 @ W2.T)
    step = 0.3 * 0.7 / 4 * (y - x2 @ w[0] / N / 0.7)[:, None]
    new = run.weights("w", N, t=1).values
    np.testing.assert_allclose(new - w, (step * x2).sum(0)[None], atol=ROUND_OFF)
    change = (step * w * (1 - x2 ** 2)).T @ x1 / N
    assert np.abs(change).max() > 1e-3
    np.testing.assert_allclose(run.weights("W2", N, t=1).values - W2, change, atol=ROUND_OFF)
    np.testing.assert_allclose(f_of(run, A, 0, 1), run.reference[N]["f_runs"][0, 1], atol=ROUND_OFF)


def blocks():
    """Two tied residual blocks and one that starts at zero, times a gate: all kinds of matrices,
    and populations of two sizes."""
    net = dmft.Network()
    stream, units = net.population("stream"), net.population("units", size=0.5)
    h = net.read_in(stream, "W0")
    for _ in range(2):
        W = {"name": "W", "tied": True, "s_f": 0.7, "rate": 0.49}
        h = h + net.map(net.tanh(h), stream, W)
    h = h + net.map(net.tanh(h), stream, {"name": "Z", "zero": True})
    u = net.tanh(net.map(h, units, "V"))
    p = net.softmax(net.bias(net.look(u, 2, "Q"), [0.3, -0.2], "b"))
    net.read_out(p[0] * u, "w")
    return net


def test_every_kind_of_matrix():
    """At every time, with two outputs; Z is first zero, then few rows that it learned, then all
    of its entries."""
    rng = np.random.default_rng(2)
    rest = {key: value for key, value in DENSE.items() if not key.startswith(("network", "data"))}
    run = dmft.solve(rest, network=blocks(), X=rng.normal(size=(3, 5)), progress=False,
                     y=rng.normal(size=(3, 2)))
    networks = run.reference[N]
    kept = {name.removeprefix("weights_"): data.shape for name, data in networks.items()
            if name.startswith("weights_")}
    assert kept == {"W0": (2, 5, 12, 3), "W": (2, 5, 12, 12), "Z": (2, 5, 12, 12),
                    "V": (2, 5, 6, 12), "Q": (2, 5, 2, 6), "b": (2, 5, 2), "w": (2, 5, 2, 6)}
    for t in range(5):
        W0, W, Z, V, Q, b, w = (run.weights(name, N, 1, t).values for name in kept)
        h = run.data["coordinates"].values @ W0.T
        for M in (W, W, Z):
            h = h + np.tanh(h) @ M.T
        u = np.tanh(h @ V.T)
        p = np.exp(u @ Q.T / 6 + b)
        f = (p[:, :1] / p.sum(1, keepdims=True) * u) @ w.T / 6 / 0.7
        np.testing.assert_allclose(f, networks["f_runs"][1, t], atol=ROUND_OFF)
        assert t > 1 or np.linalg.matrix_rank(Z) == 3 * t
    assert np.abs(b - [0.3, -0.2]).max() > 1e-4


def test_which_times_are_kept():
    values = {}
    for times, t in (("initial", [0]), ("final", [4]), ("both", [0, 4]), ("all", range(5))):
        run = dmft.solve(DENSE, progress=False, **{"output.weights": times})
        W1 = run.reference[N]["weights_W1"]
        assert W1.dims == ("run", "t" if times == "all" else "kept", "W1_target", "W1_source")
        assert list(W1[W1.dims[1]]) == list(t)
        values[times] = W1.values
    for times, t in (("initial", [0]), ("final", [4]), ("both", [0, 4])):
        np.testing.assert_array_equal(values[times], values["all"][:, t])
    alone = dmft.solve(DENSE, progress=False, **{"training.steps": 1, "output.weights": "both"})
    np.testing.assert_array_equal(alone.reference[N]["weights_W1"], values["initial"])


def test_limits_have_none():
    """By march and by fixed point, beside networks and in comparisons; and none without the key."""
    both = {"solver.replicates": 2, "solver.sites": 32, "reference.widths": [8, N]}
    for key in ({}, {"solver.method": "fixed_point", "solver.fp_tolerance": 0.1}):
        run = dmft.solve(DENSE, progress=False, **both, **key, **{"reference.centre": "yes"})
        assert not [name for name in run.limit.variables if name.startswith(("weights", "kept"))]
        assert "weights_W1" in run.reference[8]
    side = dmft.compare(DENSE, progress=False, **both, **{"output.weights": "final"})
    assert not [name for name in side.compare.variables if name.startswith(("weights", "kept"))]
    assert "f_inf" in side.compare and side.weights("W2", 8, t=4).shape == (8, 8)
    none = dmft.solve(DENSE, progress=False, **{"output.weights": "none"})
    assert "coordinates" not in none.data
    with pytest.raises(dmft.InputError, match="has no matrix W1 of networks of N = 12"):
        none.weights("W1", N)
    with pytest.raises(dmft.InputError, match="seeds 0 to 1 at t = 0 4"):
        dmft.solve(DENSE, progress=False, **{"output.weights": "both"}).weights("W1", N, t=2)
    with pytest.raises(dmft.InputError, match="reference.64.: there are no networks of"):
        none.weights("W1", 64)


def test_networks_that_fail_have_no_last_matrices():
    """With a linear network and a rate at which one of the seeds diverges at the last time, after
    its matrices of this time were measured."""
    run = dmft.solve({"network.model": "regime2", "network.activation": "linear",
                      "network.gate": "constant", "data.inputs": 4, "data.dimension": 4,
                      "training.eta0": 0.6, "training.steps": 5, "solver.replicates": 0,
                      "reference.widths": 2, "reference.seeds": 6, "output.weights": "both"},
                     progress=False)
    networks = run.reference[2]
    lost = np.isnan(networks["loss_runs"].values[:, -1])
    assert 0 < lost.sum() < 6 and not np.isnan(networks["loss_runs"].values[:, -2]).any()
    matrices = [data.values for name, data in networks.items() if name.startswith("weights_")]
    for matrix in matrices:
        missing = np.isnan(matrix).reshape(6, 2, -1)
        assert not missing[:, 0].any()
        np.testing.assert_array_equal(missing[:, 1].all(1), lost)
        np.testing.assert_array_equal(missing[:, 1].any(1), lost)
