"""Networks of dmft.torch as modules: precision, weights that are drawn, shapes, state, groups of
parameters; and the command. Run by make torch-test."""
import copy
import doctest
import gc
import importlib
import math
import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from common import OPTIMIZERS, ROOT, ROUND_OFF, SPARSE

import dmft
import dmft.torch
from dmft.torch import __main__ as command
from dmft.torch import comparison

KEPT = {} if torch.__version__ < "2" else {"weights_only": False}


@pytest.mark.parametrize("ini", ["data/regime2.ini", "data/transformer.ini"])
def test_single_precision(ini):
    found = dmft.torch.verify(os.path.join(ROOT, ini), 32, dtype=torch.float32,
                              **{"training.steps": 5})
    assert all(p.dtype == torch.float32 for p in found.network.parameters())
    assert 1e-9 < found.largest < 1e-5, found


@pytest.mark.parametrize("keys", [
    {"training.optimizer": "gd"}, {"training.optimizer": "adam", "training.eps": 0.1},
    {"training.batch": 2, "training.order": "shuffled"}])
def test_inputs_count_by_their_weights(keys):
    rng = np.random.default_rng(3)
    data = {"X": rng.normal(size=(5, 6)), "y": rng.normal(size=5), "weight": [1, 4, 2, 0.5, 3]}
    found = dmft.torch.verify(os.path.join(ROOT, "data", "dense.ini"), 16, **data, **keys,
                              **{"training.steps": 5})
    assert found.largest < ROUND_OFF, found
    assert found.run.data["weight"].values.mean() == pytest.approx(1)


@pytest.mark.parametrize("order", ["shuffled", "cyclic"])
def test_data_have_the_batches_of_all_steps(order):
    """So that a network is trained as dmft-solve trains it, also at a rate that needs a warmup."""
    ini = os.path.join(ROOT, "data", "dense.ini")
    keys = {"training.batch": 2, "training.order": order, "training.steps": 6, "data.inputs": 5,
            "reference.centre": "no", "training.warmup": 3, "training.eta0": 0.7}
    run = dmft.solve(ini, progress=False, **keys, **{
        "reference.widths": 16, "reference.seeds": 1, "solver.replicates": 0})
    net, data = dmft.torch.Network(ini, 16, weights="dmft", **keys), dmft.torch.data(ini, **keys)
    found = dmft.torch.train(net, data)
    assert np.allclose(found, run.reference[16]["loss_runs"].values[0], rtol=ROUND_OFF)
    with pytest.raises(dmft.InputError, match="batches of 6 steps"):
        dmft.torch.train(net, data, steps=7)


def test_weights_are_those_of_a_seed():
    """And outputs of inputs that no training has seen, in directions of their own."""
    ini = os.path.join(ROOT, "data", "dense.ini")
    keys = {"data.test_inputs": 6, "reference.centre": "no", "training.steps": 1}
    run = dmft.solve(ini, progress=False, **keys, **{
        "reference.widths": 16, "reference.seeds": 3, "solver.replicates": 0})
    test = dmft.torch.data(ini, test=True, **keys)
    for seed in (0, 2):
        net = dmft.torch.Network(ini, 16, seed, weights="dmft", **keys)
        loss = net.loss(net(test.X), test.y).item()
        assert abs(loss - run.reference[16]["test_loss_runs"].values[seed, 0]) < 1e-13


@pytest.mark.parametrize("ini, keys", [("data/regime1.ini", {"network.q0": 1.5}),
                                       ("data/regime2.ini", {"init.W_out": 0.5})])
def test_matrices_start_with_their_scales(ini, keys):
    """Those that dmft-solve draws: balanced ones exactly, of independent entries the mean square
    within five of its standard errors, less than a fiftieth of it for maps."""
    net = dmft.torch.Network(os.path.join(ROOT, ini), 512, weights="dmft", **keys, **{
        "reference.draws": "balanced", "data.inputs": 12, "data.dimension": 12,
        "network.read_out": "normal"})
    kinds = {W.name: W.kind for W in net.program.matrices if W.kind != "bias"}
    assert {"read_in", "map", "read_out"} <= set(kinds.values())
    for name, kind in kinds.items():
        V, std = net.weights[name].detach(), net.scale[name].std
        most = 1e-12 if kind in ("read_in", "read_out") else 5 * math.sqrt(2 / V.numel())
        assert kind != "map" or most < 0.02
        assert std > 0 and abs(V.square().mean().item() / std ** 2 - 1) < most, name


def test_drawn_weights():
    """Scales are right, seeds repeat, and what is drawn trains as dmft-solve's networks do."""
    ini, keys = os.path.join(ROOT, "data", "regime2.ini"), {"network.expert_width": 4}
    net = dmft.torch.Network(ini, 256, seed=3, **keys)
    assert net._describe().limit is None    # which would take as long as all else
    for name, V in net.weights.items():
        std = net.scale[name].std
        assert abs(V.detach().std().item() - std) < 6 * std / math.sqrt(2 * V.numel()), name
    again, other = (dmft.torch.Network(ini, 256, seed, **keys) for seed in (3, 4))
    assert torch.equal(net.weights["Q"], again.weights["Q"])
    assert not torch.equal(net.weights["Q"], other.weights["Q"])


def test_training_reaches_the_limit():
    """Loss of networks drawn and trained here beside those of dmft-solve: |z| < 4."""
    ini, N = os.path.join(ROOT, "data", "regime2.ini"), 64
    keys = {"training.steps": 8, "training.optimizer": "adam", "training.eta0": 0.1,
            "reference.draws": "iid"}
    run = dmft.solve(ini, progress=False, **keys, **{
        "reference.widths": N, "reference.seeds": 24, "solver.replicates": 0})
    data = dmft.torch.data(ini, **keys)
    losses = np.array([dmft.torch.train(dmft.torch.Network(ini, N, seed, torch.float64, **keys),
                                        data) for seed in range(24)])
    theirs = run.reference[N]["loss_runs"].values
    error = np.sqrt((losses.var(0) + theirs.var(0))[1:] / 24)
    assert np.all(abs(losses.mean(0) - theirs.mean(0))[1:] < 4 * error)


def test_shapes():
    ini = os.path.join(ROOT, "data", "transformer.ini")
    net, data = dmft.torch.Network(ini, 16), dmft.torch.data(ini)
    f = net(data.X, data.tokens)
    assert f.shape == data.y.shape == (8, 6, 4)
    torch.testing.assert_close(net(tokens=data.tokens), f)
    torch.testing.assert_close(f, torch.zeros_like(f))  # less f at the start
    assert dmft.torch.Network(ini, 16, centre=False)(data.X).abs().max() > 1e-3
    dense = os.path.join(ROOT, "data", "dense.ini")
    assert dmft.torch.Network(dense, 12)(dmft.torch.data(dense).X).shape == (4,)
    with pytest.raises(dmft.InputError, match="give X"):
        dmft.torch.Network(dense, 12)(tokens=torch.zeros(2, 3, dtype=torch.long))


def test_targets_have_the_shape_of_outputs():
    """Else the loss would be of all pairs of inputs."""
    net, data = (make(os.path.join(ROOT, "data", "dense.ini")) for make in (
        lambda ini: dmft.torch.Network(ini, 12), dmft.torch.data))
    with pytest.raises(dmft.InputError, match=r"shape \(4, 1\), and outputs \(4,\)"):
        net.loss(net(data.X), data.y[:, None])


def test_networks_without_a_limit():
    ini = os.path.join(ROOT, "data", "regime1.ini")
    keys = {"network.parameterization": "sp", "training.eta0": 0.01}
    net, data = dmft.torch.Network(ini, 16, **keys), dmft.torch.data(ini, **keys)
    losses = dmft.torch.train(net, data)
    assert losses[-1] < losses[0]


def test_groups_of_another_optimizer():
    """The read-in by entry has all numbers of an input, not the directions that inputs span."""
    ini = os.path.join(ROOT, "data", "dense.ini")
    net = dmft.torch.Network(ini, 16)
    other = dmft.torch.Network(ini, 16, **{"training.optimizer": "adam"})
    for mine, theirs in zip(net.parameter_groups("adam"), other.parameter_groups()):
        assert mine["name"] == theirs["name"]
        assert (mine["lr"], mine["eps"]) == (theirs["lr"], theirs["eps"])
    assert other.parameter_groups()[0]["lr"] == pytest.approx(0.5 / math.sqrt(10))
    with pytest.raises(dmft.InputError, match="must be one of gd"):
        net.parameter_groups("sgd")


def test_state_is_kept():
    """Weights at the start and selection biases are in what torch.save keeps."""
    ini = os.path.join(ROOT, "data", "regime1.ini")
    keys = SPARSE | {"training.steps": 4}
    net, data = dmft.torch.Network(ini, 12, **keys), dmft.torch.data(ini, **keys)
    dmft.torch.train(net, data)
    other = dmft.torch.Network(ini, 12, seed=1, **keys)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(data.X), other(data.X)) and net(data.X).abs().max() > 1e-3
    same = copy.deepcopy(net).float()
    assert same(data.X).dtype == torch.float32
    assert (same(data.X) - net(data.X)).abs().max() < 1e-5


def test_a_network_outlives_the_arrays_of_its_result(tmp_path):
    """A file of data that the result has alone is gone when torch.load makes the network again."""
    X = np.random.default_rng(1).standard_normal((5, 7))
    run = dmft.solve(os.path.join(ROOT, "data", "dense.ini"), progress=False, X=X, y=X[:, 0], **{
        "training.steps": 2, "solver.replicates": 0, "reference.widths": 12, "reference.seeds": 1,
        "output.weights": "initial"})
    net = dmft.torch.Network(run, 12, weights=run)
    groups = {kind: net.parameter_groups(kind) for kind in OPTIMIZERS}
    del net._others["adam"]  # as if not asked for yet
    torch.save(net, tmp_path / "net")
    kept = run.parameters["data.file"]
    del run, net
    gc.collect()
    assert not os.path.exists(kept)
    again = torch.load(tmp_path / "net", **KEPT)
    for kind, given in groups.items():
        found = again.parameter_groups(kind)
        assert [{**one, "params": 0} for one in found] == [{**one, "params": 0} for one in given]


def test_a_network_that_refuses_an_optimizer_is_copied(tmp_path):
    """With one hidden layer no matrix has two infinite sides, which Muon asks for."""
    run = dmft.solve(os.path.join(ROOT, "data", "dense.ini"), progress=False, **{
        "network.depth": 1, "training.steps": 2, "solver.replicates": 0, "reference.widths": 12,
        "reference.seeds": 1, "output.weights": "initial"})
    net = dmft.torch.Network(run, 12, weights=run)
    torch.save(net, tmp_path / "net")
    again = torch.load(tmp_path / "net", **KEPT)
    assert again.parameter_groups("adam") and again.parameter_groups("gd")
    with pytest.raises(dmft.InputError, match="two infinite sides"):
        again.parameter_groups("muon")


def test_groups_that_decay_apart():
    """A_in and A_out never learn and decay with all others; with which, where these differ?"""
    ini = os.path.join(ROOT, "data", "regime3.ini")
    net = dmft.torch.Network(ini, 12, **{"training.optimizer": "adamw"})
    optimizer = torch.optim.AdamW(net.parameter_groups(weight_decay=0.01))
    before = net.weights["A_in"].detach().clone()
    net.after_step(optimizer)
    assert torch.allclose(net.weights["A_in"], 0.99 * before, rtol=1e-12, atol=0)
    part = dmft.torch.Network(ini, 12, **{
        "training.optimizer": "adamw", "training.weight_decay": 0.01, "decays.w": 2,
        "decays.A_in": 0.3})
    before = part.weights["A_in"].detach().clone()
    part.after_step(torch.optim.AdamW(part.parameter_groups()))
    assert torch.allclose(part.weights["A_in"], 0.997 * before, rtol=1e-12, atol=0)
    optimizer.param_groups[1]["weight_decay"] *= 2
    with pytest.raises(dmft.InputError, match="A_in, A_out: never learns .* 0.01 to 0.02"):
        net.after_step(optimizer)


def test_command(capsys, monkeypatch):
    dense = os.path.join(ROOT, "data", "dense.ini")
    assert command.main([dense, "--width", "12", "--training.steps=3"]) == 0
    assert "of width 12: the same network" in capsys.readouterr().out
    for key, said in (("training.adam_eps=inside", "adam_eps = inside"),
                      ("training.integrator=euler", "gradient flow"),
                      ("training.eta0=0", "weight decay at eta0 = 0")):
        more = [] if "integrator" in key else ["--training.weight_decay=0.1",
                                               "--training.optimizer=adamw"]
        assert command.main([dense, "--width", "12", "--" + key, *more]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    noise = ["--network.bias_noise=0.5", "--width", "12"]
    assert command.main([os.path.join(ROOT, "data", "regime1.ini"), *noise]) == 2
    assert "bias_noise" in capsys.readouterr().err
    assert command.main([os.path.join(ROOT, "examples", "noisy_top.ini"), "--width", "12"]) == 2
    assert "noise of its rows" in capsys.readouterr().err
    assert command.main([dense, "--network.kapa=3"]) == 2
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "or PyTorch has no such optimizer." in " ".join(capsys.readouterr().out.split())
    assert command.main([dense, "--steps=3"]) == 2
    monkeypatch.setattr(comparison, "MOST", 0)
    assert command.main([dense, "--width", "12"]) == 1


def test_noise_of_rows():
    """Of a network in training: psi = Q x + softplus(S x) zeta with standard normals zeta, anew in
    each call; nothing learns through zeta itself. In evaluation there is none."""
    net = dmft.torch.Network(os.path.join(ROOT, "examples", "noisy_top.ini"), 32)
    X = torch.randn(2000, net.dimension, dtype=torch.float64)
    name = [v.operation for v in net.program.operations].index("noise")
    zeta = [net.evaluate(X).values[name] for _ in range(2)]
    assert all(z.is_leaf for z in zeta)  # its cotangent may be asked for, and ends there
    for z in zeta:  # 2000 inputs, 16 experts: five standard errors
        assert abs(z.mean()) < 5 / 32000 ** 0.5
        assert abs(z.square().mean() - 1) < 5 * (2 / 32000) ** 0.5
    assert abs((zeta[0] * zeta[1]).mean()) < 5 / 32000 ** 0.5
    net.eval()
    assert not net.evaluate(X).values[name].any()


def test_without_torch():
    """dmft does not import PyTorch, and dmft.torch says in a sentence that it needs it."""
    def said(text, code):
        done = subprocess.run([sys.executable, *text], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr
    said(["-c", "import sys, dmft; sys.exit('torch' in sys.modules)"], 0)
    hidden = "import sys; sys.modules['torch'] = None; "
    assert "dmft.torch needs PyTorch" in said(["-c", hidden + "import dmft.torch"], 1)
    as_command = hidden + "sys.argv = ['-m']; import dmft.torch"
    assert said(["-c", as_command], 1).count("\n") == 1


def test_examples_of_docstrings():
    for module in pkgutil.iter_modules(dmft.torch.__path__):
        try:
            found = importlib.import_module("dmft.torch." + module.name)
        except ModuleNotFoundError as error:  # modules take others; make import-test has them all
            assert error.name == "torch.nn.attention", module.name
            continue
        assert not doctest.testmod(found).failed, module.name


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini", ["data/dense.ini", "data/regime3.ini"])
def test_outputs_from_kept_weights(ini):
    """run.predict without states, at inputs that the run had."""
    keys = {"training.steps": 4, "reference.widths": "12", "reference.seeds": 2,
            "solver.replicates": 0, "data.test_inputs": 3, "output.weights": "both"}
    run = dmft.solve(ini, progress=False, **keys)
    states = dmft.solve(ini, progress=False, **keys, **{"output.checkpoint": 10})
    X = np.concatenate([run.data["X"].values, run.data["X_test"].values])
    f, wanted = (one.predict(X).reference[12]["f_runs"] for one in (run, states))
    assert f.dims == wanted.dims
    np.testing.assert_allclose(f.values, wanted.values, rtol=0, atol=1e-12)
    with pytest.raises(dmft.InputError, match="has no limit; it is predicted from states alone"):
        _ = run.predict(X).limit
    decayed = dmft.solve(ini, progress=False, **keys | {"training.weight_decay": 0.1})
    with pytest.raises(dmft.InputError, match="with weight decay are predicted from states alone"):
        decayed.predict(X)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_predictions_from_weights_are_of_networks_that_did_not_fail():
    run = dmft.solve({"network": {"model": "regime2", "activation": "linear", "gate": "constant"},
                      "data.dimension": 4, "training": {"steps": 12, "eta0": 0.6},
                      "reference": {"widths": 2, "seeds": 6}, "solver.replicates": 0,
                      "output.weights": "both"}, progress=False)
    found = run.predict(np.eye(4)[:3]).reference[2]
    ended = np.isfinite(run.reference[2]["f_runs"][:, -1]).all("mu").values
    assert 2 <= ended.sum() < 6
    kept = found["f_runs"].values[ended]
    np.testing.assert_allclose(found["f"], kept.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found["f_se"], kept.std(0, ddof=1) / len(kept) ** 0.5, rtol=1e-12)
