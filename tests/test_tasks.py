"""Drawn data whose law is known: parameters and floors of /data, judged by their definitions in
numpy. Laws of dmft.data: test_data_command.py."""
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
    few, many = (drawn(source="power_law", inputs=P, noise=0.1) for P in (3, 8))
    np.testing.assert_array_equal(few["X"], many["X"][:3])
    np.testing.assert_array_equal(few["y"], many["y"][:3])
    few, many = drawn(**CHAIN, inputs=3, tokens=4), drawn(**CHAIN, inputs=5, tokens=7)
    np.testing.assert_array_equal(few["tokens"], many["tokens"][:3, :4])


@pytest.mark.parametrize("keys, sentence", (
    ({"source": "power_law", "spectrum_decay": 101}, "spectrum_decay=101: out of range.* 0 to"),
    ({"source": "markov", "components": 2}, "an option of dmft-data mixture and dmft-data chains"),
    ({"source": "power_law", "training.loss": "cross_entropy"}, "are numbers, not classes"),
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
                if line.get_label() == "best predictor,\non average"]
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
