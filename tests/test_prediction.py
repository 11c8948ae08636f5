"""run.predict: outputs at inputs that come after a run, against a run that had them as its own."""
import os
import sys

import numpy as np
import pytest
from refusing import refuses

import dmft

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZE = {"training.steps": 5, "reference.widths": [16, 24], "reference.seeds": 2,
        "solver.replicates": 3, "solver.sites": 64, "solver.threads": 1}
# Read-ins with directions of test inputs that decay; entry by entry; velocities and many experts;
# several outputs of minibatches, of networks that are not centred; outputs that halves correct;
# several outputs, and inputs that do not count alike.
CASES = {
    "decay": ("dense", {"training.weight_decay": 0.05}),
    "adam": ("regime1", {"training.optimizer": "adam", "training.eta0": 0.05}),
    "momentum": ("regime2", {"training.optimizer": "momentum", "solver.expert_sites": 64,
                             "training.weight_decay": 0.02}),
    "batches": ("dense", {"training.batch": 2, "network.outputs": 3, "reference.centre": False}),
    "halves": ("dense", {"solver.halves": True}),
    "weights": ("dense", {"network.outputs": 3})}
RANDOM = np.random.default_rng(4)
X, EARLIER, LATER = (RANDOM.normal(size=(n, 9)) for n in (4, 3, 6))
LATER[0] = X[1]


def run_of(name, X_test, y_test, **keys):
    model, own = CASES[name]
    if name == "weights":
        keys["weight"] = [3, 1, 1, 0.5]
    y = [0, 1, 2, 0] if "network.outputs" in own else [1, -1, 1, -1]
    return dmft.solve(os.path.join(ROOT, "data", model + ".ini"), progress=False, X=X, y=y,
                      X_test=X_test, y_test=y_test, **{**SIZE, **own, **keys})


def wider(n):
    return RANDOM.normal(size=(n, 30))


def losses(f, y):
    """Of each run."""
    target = np.eye(3)[y] if f.ndim == 3 else np.array(y)
    return (0.5 * (f - target) ** 2).reshape(*f.shape[:2], -1).sum(-1).mean(1)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_test_inputs(name):
    """The losses of the other run tell its outputs apart; sums of round-off."""
    classes = "network.outputs" in CASES[name][1]
    y = [1, 0, 2, 1, 0, 1] if classes else [1, 1, -1, 1, -1, -1]
    kept = run_of(name, EARLIER, y[:3], **{"output.checkpoint": 10})
    found = kept.predict(LATER)
    other = run_of(name, LATER, y)
    for N in (16, 24):
        f = found.reference[N]["f_runs"].values
        assert f.shape[:2] == (2, 6)
        wanted = other.reference[N]["test_loss_runs"].values[:, -1]
        np.testing.assert_allclose(losses(f, y), wanted, rtol=1e-13)
        np.testing.assert_allclose(found.reference[N]["f"].values, f.mean(0), rtol=1e-13)
    # of a limit the loss is that of the mean output, by the jackknife
    f = found.limit["f_runs"].values
    whole = losses(f.mean(0, keepdims=True), y)[0]
    without = [losses(np.delete(f, r, 0).mean(0, keepdims=True), y)[0] for r in range(3)]
    loss = other.limit["test_loss"].values[-1]
    np.testing.assert_allclose(3 * whole - 2 * np.mean(without), loss, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_halves_go_on():
    """A run that was made longer goes on from the states of its halves, too."""
    y = [1, 1, 1]
    whole, short = (run_of("halves", EARLIER, y, **{"output.checkpoint": 10,
                                                    "training.steps": steps}) for steps in (5, 3))
    longer = dmft.resume(short, progress=False, **{"training.steps": 5})
    for name in ("f", "f_se"):
        np.testing.assert_array_equal(longer.limit[name], whole.limit[name])
        np.testing.assert_array_equal(longer.predict(LATER).limit[name],
                                      whole.predict(LATER).limit[name])
    os.remove(whole.path + ".state/half2_0001.state")
    refuses("replicate 1 of the limit in halves has kept no", whole.predict, LATER)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_what_cannot_be_predicted_is_refused(tmp_path):
    plain = run_of("decay", EARLIER, [1, 1, 1])
    refuses("has kept neither states", plain.predict, LATER)
    kept = run_of("decay", EARLIER, [1, 1, 1], **{"output.checkpoint": 10})
    refuses("has 1 x 5 numbers, and those of the run 1 x 9", kept.predict, LATER[:, :5])
    wide = dmft.solve(os.path.join(ROOT, "data", "regime2.ini"), progress=False, X=wider(4),
                      y=[1, -1, 1, -1], **{**SIZE, "output.checkpoint": 10,
                                           "solver.replicates": 0})
    refuses("20 directions, and balanced draws need N > 20", wide.predict, wider(16))
    refuses("give X or, where inputs are tokens, tokens", kept.predict)
    with pytest.raises(dmft.InputError, match="more than the 64 sites of the limit"):
        dmft.solve({"network.model": "dense", "data.dimension": 200, **SIZE}, progress=False,
                   **{"output.checkpoint": 10}).predict(RANDOM.normal(size=(70, 200)))


def test_weights_ask_for_pytorch(monkeypatch):
    """Where it is not installed, in its own sentence."""
    run = run_of("decay", EARLIER, [1, 1, 1], **{"output.weights": "both", "training.steps": 2})
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "dmft.torch", raising=False)
    with pytest.raises(ImportError, match="dmft.torch needs PyTorch: pip install"):
        run.predict(LATER)


def test_tokens_are_predicted():
    keys = {**SIZE, "network.model": "transformer", "data.source": "markov", "data.vocabulary": 4,
            "data.tokens": 5, "training.loss": "cross_entropy", "data.inputs": 4,
            "data.test_inputs": 3, "training.steps": 3, "reference.widths": [8],
            "solver.sites": 128}
    run = dmft.solve(keys, progress=False, **{"output.checkpoint": 10, "solver.replicates": 0})
    tokens = run.data["tokens"].values.astype(int)
    found = run.predict(tokens=tokens)
    np.testing.assert_allclose(found.reference[8]["f_runs"].values,
                               run.reference[8]["f_runs"].values[:, -1], rtol=0, atol=1e-13)


def test_states_of_comparisons_are_not_read(tmp_path):
    """They are for going on; the sentence says what serves instead, and no --continue."""
    both = dmft.compare({"network": {"model": "dense"}, "data": {"dimension": 4, "inputs": 3},
                         "training": {"steps": 2}, "solver": {"sites": 64, "replicates": 2},
                         "reference": {"widths": 8, "seeds": 2}, "output": {"checkpoint": 10}},
                        output=str(tmp_path / "x.h5"), progress=False)
    refuses("is of a comparison or a sweep.*output.weights", both.predict, np.ones((2, 4)))
