"""Drawn data whose law is known: components, parameters and floors of /data, judged by their
definitions in numpy, with sums over all hidden sequences where the program filters."""
import itertools

import numpy as np
import pytest

import dmft

SMALL = {"network.model": "dense", "training.steps": 1, "solver.sites": 64,
         "solver.replicates": 0, "reference.widths": [8], "reference.seeds": 1}


def drawn(**keys):
    return dmft.solve({**SMALL, **{f"data.{key}": value for key, value in keys.items()
                                   if "." not in key},
                       **{key: value for key, value in keys.items() if "." in key}},
                      progress=False).data


def test_mixtures_are_what_they_say():
    P, K, D, r, noise = 4000, 3, 12, 0.6, 0.3
    data = drawn(source="mixture", components=K, separation=r, noise=noise, inputs=P,
                 test_inputs=P, dimension=D)
    means, teachers = data["means"].values, data["teachers"].values
    for X, y, k in ((data["X"].values, data["y"].values, data["component"].values.astype(int)),
                    (data["X_test"].values, data["y_test"].values,
                     data["component_test"].values.astype(int))):
        assert abs(np.bincount(k, minlength=K) - P / K).max() < 5 * np.sqrt(P * 2 / 9)
        g = (X - r * means[k]) / np.sqrt(1 - r ** 2)
        e = (y - np.einsum("mi,mi->m", teachers[k], X) / np.sqrt(D)) / noise
        for numbers in (g, e):  # mean and variance of standard normals, five standard errors
            assert abs(numbers.mean()) < 5 / np.sqrt(numbers.size)
            assert abs(numbers.var() - 1) < 5 * np.sqrt(2 / numbers.size)
        assert abs(np.corrcoef(g[:, 0], g[:, 1])[0, 1]) < 5 / np.sqrt(P)
    # the best predictor, from the densities
    X, y = data["X_test"].values, data["y_test"].values
    log = -((X[:, None] - r * means) ** 2).sum(-1) / (2 * (1 - r ** 2))
    p = np.exp(log - log.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    u = X @ teachers.T / np.sqrt(D)
    best = (p * u).sum(1)
    expected = ((p * (u - best[:, None]) ** 2).sum(1) + noise ** 2) / 2
    assert data.attrs["floor"] == pytest.approx(expected.mean(), rel=1e-12)
    loss = (y - best) ** 2 / 2
    assert abs((loss - expected).mean()) < 4 * (loss - expected).std() / np.sqrt(P)
    # and no predictor that does not know the component does better than one that does
    assert expected.mean() > noise ** 2 / 2


def test_without_separation_nothing_tells_the_component():
    """The best prediction is then that of the mean teacher."""
    data = drawn(source="mixture", components=2, separation=0, inputs=500, dimension=6)
    u = data["X"].values @ data["teachers"].values.T / np.sqrt(6)
    assert data.attrs["floor"] == pytest.approx((u[:, 0] - u[:, 1]).var() / 8
                                                + (u[:, 0] - u[:, 1]).mean() ** 2 / 8, rel=1e-12)


def test_power_laws():
    P, D, a, b, noise = 20000, 8, 1.5, 0.7, 0.5
    data = drawn(source="power_law", inputs=P, dimension=D, spectrum_decay=a, target_decay=b,
                 noise=noise)
    i = np.arange(1, D + 1)
    spectrum, share = i ** -a / (i ** -a).sum() * D, i ** -b / (i ** -b).sum()
    np.testing.assert_allclose(data["spectrum"], spectrum, rtol=1e-14)
    np.testing.assert_allclose(data["target_shares"], share, rtol=1e-14)
    X, y = data["X"].values, data["y"].values
    assert (abs(X.var(0) / spectrum - 1) < 5 * np.sqrt(2 / P)).all()
    rest = y - X @ np.sqrt(share / spectrum)
    assert abs(rest.var() / noise ** 2 - 1) < 5 * np.sqrt(2 / P)
    assert abs((y - rest).var() - 1) < 5 * np.sqrt(2 / P)
    assert data.attrs["floor"] == pytest.approx(noise ** 2 / 2)
    other = drawn(source="power_law", inputs=4, dimension=D, **{"training.loss": "huber"})
    assert "floor" not in other.attrs  # which is of squares
    attention = {"network.model": "transformer", "network.depth": 1, "network.experts": 0,
                 "network.causal": "no"}
    same = drawn(source="power_law", inputs=4, dimension=D, noise=noise, **attention)
    assert same.attrs["floor"] == data.attrs["floor"]  # no letter is asked for


CHAIN = {"source": "markov", "vocabulary": 3, "sharpness": 2, "training.loss": "cross_entropy"}


def entropies(T, tokens, switching):
    """Of each next letter, given all before it, by a sum over all sequences of components."""
    K, n = len(T), len(tokens)
    found = []
    for s in range(n):
        p = np.zeros(T.shape[-1])
        for hidden in itertools.product(range(K), repeat=s + 1):
            weight = 1 / K
            for before, after in zip(hidden, hidden[1:]):
                weight *= (1 - switching) * (before == after) + switching / K
            for place in range(s):
                weight *= T[hidden[place]][tokens[place], tokens[place + 1]]
            p += weight * T[hidden[s]][tokens[s]]
        p /= p.sum()
        found.append(-(p * np.log(p)).sum())
    return found


@pytest.mark.parametrize("K, switching", ((2, 0), (3, 0.3), (2, 1)))
def test_hidden_chains(K, switching):
    data = drawn(**CHAIN, inputs=600, test_inputs=5, tokens=5, components=K, switching=switching)
    T, tokens = data["chain"].values, data["tokens"].values
    np.testing.assert_allclose(T.sum(-1), 1, rtol=1e-14)
    by_hand = np.mean([entropies(T, row, switching) for row in data["tokens_test"].values])
    assert data.attrs["floor"] == pytest.approx(by_hand, rel=1e-12)
    component = data["component"].values.astype(int)
    begin = np.bincount(component[:, 0], minlength=K)
    assert abs(begin - 600 / K).max() < 5 * np.sqrt(600 / K)
    changed = (component[:, 1:] != component[:, :-1]).mean()
    p = switching * (1 - 1 / K)
    assert abs(changed - p) <= 5 * np.sqrt(p * (1 - p) / component[:, 1:].size)
    for k in range(K):  # letters follow the chain of the component behind them
        at = np.flatnonzero((component[:, :-1] == k).ravel())
        before, after = tokens[:, :-1].ravel()[at], tokens[:, 1:].ravel()[at]
        for a in range(3):
            from_a = after[before == a]
            q = T[k, a]
            share = np.bincount(from_a, minlength=3) / len(from_a)
            assert (abs(share - q) < 5 * np.sqrt(q * (1 - q) / len(from_a))).all()


def test_one_chain_has_its_entropy_rate():
    data = drawn(**CHAIN, inputs=2, test_inputs=3000, tokens=30)
    T = data["chain"].values[0]
    share = np.linalg.matrix_power(T, 200)[0]
    rows = -(T * np.log(T)).sum(-1)
    assert data.attrs["entropy_rate"] == pytest.approx(share @ rows, rel=1e-10)
    assert data.attrs["floor"] == pytest.approx(rows[data["tokens_test"].values].mean(), rel=1e-12)
    assert "component" not in data
    # the floor is a cross-entropy
    numbers = drawn(**{**CHAIN, "training.loss": "mse"}, inputs=2, tokens=3)
    assert "floor" not in numbers.attrs and "entropy_rate" not in numbers.attrs


def test_inputs_do_not_depend_on_their_number():
    for law in ({"source": "mixture", "components": 3}, {"source": "power_law"}):
        few, many = drawn(**law, inputs=3, noise=0.1), drawn(**law, inputs=8, noise=0.1)
        np.testing.assert_array_equal(few["X"], many["X"][:3])
        np.testing.assert_array_equal(few["y"], many["y"][:3])
    few = drawn(**CHAIN, inputs=3, tokens=4, components=2, switching=0.5)
    many = drawn(**CHAIN, inputs=5, tokens=7, components=2, switching=0.5)
    np.testing.assert_array_equal(few["tokens"], many["tokens"][:3, :4])


@pytest.mark.parametrize("keys, sentence", (
    ({"source": "mixture", "separation": 1}, "separation=1: out of range.* 0 to 0.999"),
    ({"source": "mixture", "components": 0}, "components=0: out of range"),
    ({"source": "power_law", "components": 2}, "used only when .* source = markov or mixture"),
    ({"source": "mixture", "training.loss": "cross_entropy"}, "are numbers, not classes"),
    ({"source": "gaussian", "noise": 1}, "used only when")))
def test_what_is_no_task_is_refused(keys, sentence):
    with pytest.raises(dmft.InputError, match=sentence):
        drawn(**keys)


def test_a_network_that_sees_the_letter_that_is_asked_for_has_no_floor():
    attention = {"network.model": "transformer", "network.depth": 1, "network.experts": 0}
    for causal in ("no", "yes"):
        data = drawn(**CHAIN, inputs=2, tokens=3, **attention, **{"network.causal": causal})
        assert ("floor" in data.attrs) == (causal == "yes") and "entropy_rate" in data.attrs


def test_sweeps_have_the_floor_and_draw_it():
    from dmft.plot.sweeps import WORDS
    settings = {"network.model": "transformer", "network.depth": 1, "network.experts": 0,
                "network.causal": "yes", "data": {"source": "markov", "inputs": 4, "tokens": 3,
                                                  "vocabulary": 3},
                "training": {"steps": 2, "loss": "cross_entropy"}, "solver.replicates": 0,
                "reference": {"widths": 16, "seeds": 2}, "sweep": {"training.eta0": "1 2 3"}}
    run = dmft.sweep(settings, progress=False)
    floor = run.points[1.0,].data.attrs["floor"]
    assert (run.sweep["floor"] == floor).all()

    def drawn_at(result):
        return [line.get_ydata()[0] for line in result.plot().axes[0].lines
                if line.get_label() == "best predictor"]
    assert run.sweep.attrs["objective"] in WORDS and drawn_at(run) == [floor]
    other = dmft.sweep(settings, progress=False, **{"sweep.objective": "loss[0]"})
    low = run.sweep.assign(floor=0 * run.sweep["floor"] + floor / 100)
    far = dmft.Result("far.h5", {**run, "sweep": low})
    assert drawn_at(far) == [floor / 100] and far.plot().axes[0].get_ylim()[0] < floor / 100
    assert drawn_at(other) == []  # which is no loss that a floor is of


SOURCES = {"signs": {"source": "gaussian", "dimension": 4},
           "classes": {"source": "gaussian", "dimension": 4, "network.outputs": 5},
           "letters": {"source": "markov", "vocabulary": 4, "tokens": 8,
                       "network.model": "transformer", "network.causal": "yes",
                       "training.loss": "cross_entropy"}}


@pytest.mark.parametrize("kind", SOURCES)
def test_label_noise_is_a_share_of_other_classes(kind):
    P, p = (60 if kind == "letters" else 500), 0.3
    keys = SOURCES[kind] | {"inputs": P, "test_inputs": 20}
    right = drawn(**keys)
    for seed in (1, 2):
        wrong = drawn(**keys, label_noise=p, label_noise_seed=seed)
        assert (wrong["y_test"] == right["y_test"]).all()
        if kind == "signs":
            old, new, C = right["y"].values > 0, wrong["y"].values > 0, 2
        else:
            old, new, C = right["y"].values.argmax(-1), wrong["y"].values.argmax(-1), \
                right["y"].shape[-1]
            assert (wrong["y"].values.sum(-1) == 1).all()
        moved = (old != new).ravel()
        error = np.sqrt(p * (1 - p) / moved.size)
        assert abs(moved.mean() - p) < 5 * error
        shifts = np.bincount((new.astype(int) - old).ravel()[moved] % C, minlength=C)
        even = moved.sum() / (C - 1)
        assert shifts[0] == 0 and abs(shifts[1:] - even).max() <= 5 * np.sqrt(even)
        if seed > 1:  # another draw: both wrong with p^2
            assert abs((moved & before).mean() - p ** 2) < 5 * p / np.sqrt(moved.size)
        before = moved
    assert not (drawn(**keys, label_noise=1)["y"] * right["y"] > 0).any()


def test_label_noise_is_refused_where_it_means_nothing():
    with pytest.raises(dmft.InputError, match="targets are numbers, neither classes nor"):
        drawn(source="multi_index", label_noise=0.1)
    with pytest.raises(dmft.InputError, match="label_noise_seed=3: it is used only with"):
        drawn(label_noise_seed=3)
    kept = drawn(source="markov", vocabulary=3, tokens=4, inputs=4, **{
        "network.model": "transformer", "network.causal": "yes", "training.loss": "cross_entropy"})
    assert "floor" in kept.attrs
    noisy = drawn(source="markov", vocabulary=3, tokens=4, inputs=4, label_noise=0.2, **{
        "network.model": "transformer", "network.causal": "yes", "training.loss": "cross_entropy"})
    assert "floor" not in noisy.attrs
