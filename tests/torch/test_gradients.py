"""Gradients apart of dmft-solve beside those of PyTorch: of each output, of the loss of the task
and of the penalties, from the same weights, before each of a few steps. Run by make torch-test."""
import os

import numpy as np
import pytest
import torch
from common import ROOT, ROUND_OFF

import dmft
import dmft.torch
from dmft.torch import training
from dmft.torch.inputs import data_of

EXPERTS = {"data.inputs": 5, "data.dimension": 4, "network.kappa": 0.5, "network.gate": "sigmoid"}
TOKENS = {"network.model": "transformer", "data.source": "markov", "data.inputs": 3,
          "data.tokens": 4, "data.vocabulary": 3, "training.loss": "cross_entropy",
          "training.eta0": 0.3}
CASES = [
    ("data/dense.ini", 12, {}),
    ("data/dense.ini", 12, {"training.loss": "logistic", "training.gamma0": 1.7}),
    ("data/regime2.ini", 16, EXPERTS),
    ("data/regime2.ini", 16, EXPERTS | {"network.balance_loss": 0.7, "network.rho": 0.5}),
    ("data/regime2.ini", 16, EXPERTS | {"network.z_loss": 0.2, "training.gamma0": 2}),
    ("data/regime2.ini", 16, EXPERTS | {"network.balance_loss": 0.7, "network.z_loss": 0.2,
                                     "network.rho": 0.5}),
    ("data/regime1.ini", 12, {"network.balance_loss": 0.4}),
    ("data/fashion10.ini", 52, {}),
    ("data/transformer.ini", 12, TOKENS),
    ("data/transformer.ini", 12, TOKENS | {"network.balance_loss": 0.3, "training.gamma0": 1.4,
                                        "network.rho": 0.5}),
    ("data/residual.ini", 16, {}),
]


class Gradients:
    """Products between gradients, of each matrix in units in which its rate of gradient descent is
    eta0, at each step of dmft.torch.training.train."""

    def __init__(self, net):
        self.net, self.rows = net, []
        eta0 = net.training_settings["eta0"]
        self.weights = {group["name"]: (group["params"][0], group["lr"] / eta0)
                        for group in net.parameter_groups()}

    def __call__(self, step, data, f, loss):
        several = self.net.program.outputs > 1
        inputs = f.shape[0]
        of_outputs = [self.jacobian(f.reshape(inputs, -1)[:, o])
                      for o in range(f[0].numel())]
        each = [training.loss_of(self.net.training_settings["loss"], f[mu], data.y[mu], several)
                for mu in range(inputs)]
        task = self.jacobian(torch.stack(each))
        penalty = self.jacobian((inputs * self.net.penalty)[None]) \
            if self.net.penalty.requires_grad else None
        self.rows.append({name: self.products(name, of_outputs, task, penalty)
                          for name in self.weights})

    def jacobian(self, values):
        """{matrix: [values][entries]}"""
        weights = {name: W for name, (W, _) in self.weights.items()}
        rows = [torch.autograd.grad(value, list(weights.values()), retain_graph=True,
                                    allow_unused=True) for value in values]
        return {name: torch.stack([torch.zeros_like(W).flatten() if row[i] is None
                                   else row[i].flatten() for row in rows])
                for i, (name, W) in enumerate(weights.items())}

    def products(self, name, of_outputs, task, penalty):
        rate = self.weights[name][1]
        inputs = len(task[name])
        found = {"tangent": np.mean([(rate * J[name] @ J[name].T).numpy() for J in of_outputs], 0),
                 "tangent_loss": (rate * task[name] @ task[name].T).numpy()}
        whole = task[name].mean(0)
        found["loss"] = rate * whole @ whole
        if penalty:
            p = penalty[name][0] / inputs
            found["penalty"], found["both"] = rate * p @ p, rate * whole @ p
        return found

    def of(self, key, names=None):
        return np.stack([sum(row[name][key] for name in names or self.weights)
                         for row in self.rows])


def close(ours, theirs, what):
    scale = max(np.abs(theirs).max(), np.finfo(float).tiny)
    assert np.abs(np.asarray(ours) - theirs).max() < ROUND_OFF * scale, what


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini, N, keys", CASES)
def test_gradients_are_those_of_torch(ini, N, keys):
    run = dmft.solve(os.path.join(ROOT, ini), progress=False, **{
        "training.steps": 4, "reference.widths": N, "reference.seeds": 1, "solver.replicates": 0,
        "output.weights": "initial", "output.tangent": "blocks", "output.gradients": "yes"} | keys)
    net = dmft.torch.Network(run, N, weights=run)
    measured = Gradients(net)
    training.train(net, data_of(run), measure=measured)
    theirs = run.reference[N]
    penalties = [name for name in ("balance_loss", "z_loss") if name in theirs]
    for name in [None, *measured.weights]:
        ending, names = ("_" + name, [name]) if name else ("", None)
        for term in ("tangent", "tangent_loss"):
            close(theirs[term + ending].values, measured.of(term, names), term + ending)
        norm = np.sqrt(measured.of("loss", names))
        close(theirs["gradient_norm_loss" + ending].values, norm, "norm" + ending)
        if len(penalties) == 1:
            other = np.sqrt(measured.of("penalty", names))
            both = measured.of("both", names)
            known = theirs[f"gradient_norm_{penalties[0]}{ending}"].values
            close(known, other, "norm of the penalty" + ending)
            cosine = theirs[f"cosine_loss_{penalties[0]}{ending}"].values
            close(cosine * known * norm, both, "cosine" + ending)
            assert (known > 0).any() or ending
        if len(penalties) == 2:  # together: PyTorch has their sum
            a, b = (theirs[f"gradient_norm_{x}{ending}"].values for x in penalties)
            ab = theirs[f"cosine_balance_loss_z_loss{ending}"].values
            close(a * a + b * b + 2 * a * b * ab, measured.of("penalty", names), "both" + ending)


ADAM = {"training.optimizer": "adam", "training.eta0": 0.03, "training.eps": 0.02}
SHARP = [
    ("data/dense.ini", 12, {}),
    ("data/dense.ini", 12, ADAM | {"training.gamma0": 1.6}),
    ("data/dense.ini", 12, {"training.loss": "logistic", "training.optimizer": "momentum",
                            "training.momentum": 0.7, "training.batch": 3, "data.inputs": 9}),
    ("data/regime2.ini", 16, EXPERTS | ADAM | {
        "network.balance_loss": 0.7, "network.rho": 0.5, "training.optimizer": "adamw",
        "training.weight_decay": 0.01, "training.schedule": "cosine"}),
    ("data/fashion10.ini", 52, {"data.source": "gaussian", "data.inputs": 12, "data.dimension": 49,
                                "network.outputs": 10}),
    ("data/transformer.ini", 12, TOKENS),
    ("data/transformer.ini", 12, TOKENS | ADAM),
]


class Sharpness:
    """What [output] sharpness has, at each step of dmft.torch.training.train, from Jacobians and
    Hessians of single inputs; all eigenvalues of K H, which is not symmetric. all_inputs: how many
    there are, of which a batch is a sample without replacement."""

    def __init__(self, net, all_inputs):
        self.net, self.rows, self.said = net, [], net.training_settings
        self.all_inputs = all_inputs
        self.by_entry = self.said["optimizer"].startswith("adam")
        self.weights = {group["name"]: (group["params"][0], group["lr"])
                        for group in net.parameter_groups("gd", eta0=1)}
        self.groups = {group["name"]: group for group in net.parameter_groups()}
        self.square = {name: 0 for name in self.weights}

    def __call__(self, step, data, f, loss):
        several, inputs = self.net.program.outputs > 1, f.shape[0]
        flat = f.reshape(inputs, -1)
        names = list(self.weights)
        weights = [W for W, _ in self.weights.values()]
        J = {name: [] for name in names}
        for value in flat.flatten():
            for name, row in zip(names, torch.autograd.grad(value, weights, retain_graph=True)):
                J[name].append(row.flatten())
        grads = torch.autograd.grad(loss, weights, retain_graph=True)
        H, Delta = self.curvature(data, f.detach(), several)
        plain, adam = {}, {}
        for name, grad in zip(names, grads):
            rows = torch.stack(J[name])
            plain[name] = (self.weights[name][1] * rows @ rows.T).numpy()
            adam[name] = self.precondition(name, grad.flatten(), rows, step).numpy() \
                if self.by_entry else plain[name]
        self.rows.append(self.numbers(plain, adam, H, Delta, inputs))

    def precondition(self, name, grad, rows, step):
        group, (_, beta2) = self.groups[name], (0, self.said.get("beta2", 0.999))
        self.square[name] = beta2 * self.square[name] + (1 - beta2) * grad ** 2
        unbiased = self.square[name] / (1 - beta2 ** (step + 1))
        part = group["lr"] / self.said["eta0"] / (unbiased.sqrt() + group["eps"])
        return rows * part @ rows.T

    def curvature(self, data, f, several):
        """Block-diagonal H and Delta of the loss of each input."""
        H, Delta = [], []
        for mu in range(f.shape[0]):
            def one(flat, mu=mu):
                return training.loss_of(self.said["loss"], flat.reshape(f[mu].shape), data.y[mu],
                                        several)
            flat = f[mu].flatten()
            H.append(torch.autograd.functional.hessian(one, flat))
            Delta.append(-torch.autograd.functional.jacobian(one, flat))
        return torch.block_diag(*H).numpy(), torch.cat(Delta).numpy()

    def numbers(self, plain, adam, H, Delta, inputs):
        def largest(K):
            return np.linalg.eigvals(K @ H).real.max() / inputs
        K = sum(plain.values())
        found = {"sharpness": largest(K)} | {f"sharpness_{n}": largest(k) for n, k in plain.items()}
        if self.by_entry:
            found["sharpness_adam"] = largest(sum(adam.values()))
            found |= {f"sharpness_adam_{n}": largest(k) for n, k in adam.items()}
        each = np.repeat(np.eye(inputs), len(Delta) // inputs, 1) * Delta  # of each input's loss
        gram = each @ K @ each.T
        whole, single = gram.sum() / inputs ** 2, np.trace(gram) / inputs
        sample, n = bool(self.said["batch"]), self.all_inputs
        spread = (single - whole) * inputs / (inputs - 1)  # of single gradients, about their mean
        found["gradient_noise"] = noise = spread * (n - 1) / n if sample else single - whole
        # a mean of so many out of n, without replacement, has this variance
        found["gradient_square"] = whole - spread * (1 / inputs - 1 / n) if sample else whole
        if not sample:
            found["noise_scale"] = noise / whole
        u = K @ Delta / inputs
        found["rate_greedy"] = whole / (u @ H @ u / inputs)
        tau = len(self.rows)
        optimizer, beta = self.said["optimizer"], self.said.get("beta1")
        schedule = training.schedule_factor(self.said, tau)
        edge = 2 - schedule * self.said.get("weight_decay", 0)
        edge *= 1 if optimizer == "gd" else 1 + self.said["momentum"] \
            if optimizer == "momentum" else (1 + beta) / (1 - beta)
        eta = self.said["eta0"] * schedule
        found["edge"] = eta * found["sharpness_adam" if self.by_entry else "sharpness"] / edge
        return found


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini, N, keys", SHARP)
def test_sharpness_is_that_of_torch(ini, N, keys):
    run = dmft.solve(os.path.join(ROOT, ini), progress=False, **{
        "training.steps": 4, "reference.widths": N, "reference.seeds": 1, "solver.replicates": 0,
        "output.weights": "initial", "output.sharpness": "blocks"} | keys)
    net = dmft.torch.Network(run, N, weights=run)
    measured = Sharpness(net, run.data["y"].shape[0])
    training.train(net, data_of(run), measure=measured)
    for name in measured.rows[0]:
        close(run.reference[N][name].values, np.array([row[name] for row in measured.rows]), name)
