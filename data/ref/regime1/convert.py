#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py REGIME1.json [FOLDER]

FOLDER is by default the script's own. The rest is in ../reference.py.
"""
import os
import sys

import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import convert, number, width_group, without_seeds

ABOUT = {  # dims and what each quantity is; see ABOUT for the symbols
    "loss": ("t", "mean over inputs of (y - f)^2/2"),
    "f": ("t mu", "output"),
    "psi": ("t mu k", "router logits, biases included"),
    "dpsi": ("t mu k", "psi(t) - psi(0)"),
    "gphi": ("t mu k", "<w h_L> of expert k, without the gate"),
    "Phi1": ("t mu nu", "<sigma(h1) sigma(h1)>, equal times"),
    "Phi2": ("t k mu nu", "<sigma(h2) sigma(h2)> of expert k, equal times"),
    "PhiL": ("t mu nu", "<hL hL>, hL = sum_k p_k h_L,k, equal times"),
    "G1": ("t mu nu", "<g1 g1>, equal times"),
    "Phi1_0T": ("mu nu", "Phi1[mu,nu](0, T-1): two-time"),
    "G1_0T": ("mu nu", "G1[mu,nu](0, T-1): two-time"),
}
GATES = {"softmax": "softmax", "sigmoid": "sigmoid", "one": "constant"}
ACTIVATIONS = {"tanh": "tanh", "lin": "linear"}
BIASES = {0: "fixed", 1: "trained"}


def groups(case):
    """(path, number of runs, quantities) of the limit and of each width."""
    yield "limit", case["mc_seeds"], case["dmft"]
    for width, net in case["nets"].items():
        yield width_group(width), net["seeds"], without_seeds(net)


def check_runs(quantities, n, y):
    """mean_r sum_mu (y - f_r)^2 = sum_mu (y - f)^2 + (n - 1) sum_mu se_f^2 gives n back, as far
    as numbers rounded to 1e-6 tell: the last column of `slack` is what rounding can do."""
    mean, se = (np.array(quantities["f"][key]) for key in ("mean", "se"))
    left = 2 * len(y) * np.array(quantities["loss"]["mean"])
    right = ((np.array(y) - mean)**2).sum(1) + (n - 1) * (se**2).sum(1)
    half = 0.5e-6
    slack = 2 * len(y) * half + 2 * half * np.abs(np.array(y) - mean).sum(1) + \
        2 * half * (n - 1) * se.sum(1) + len(y) * n * half**2
    assert (np.abs(left - right) <= 1.001 * slack).all(), np.abs(left - right) / slack


def router(par):
    """The keys of a router, if there is one."""
    if par["gate"] == "one":
        assert par["K"] is None and par["b"] is None and par["M"] == 1
        return []
    lines = [] if par["K"] is None else [f"rho = {number(par['K'] / par['M'])}"]
    lines.append(f"q0 = {number(par['q0'])}")
    if par["b"] is None:
        assert par["kb"] == 0
        return lines + ["bias = none"]
    return lines + [f"bias = {BIASES[par['kb']]}", "biases = " + " ".join(map(number, par["b"]))]


def training(par):
    """Gradient descent, or Adam of the conventions in ABOUT."""
    if "eta" not in par:
        return [f"eta0 = {number(par['eta0'])}", f"gamma0 = {number(par['gamma0'])}"]
    return [
        f"eta0 = {number(par['eta'])}",
        "gamma0 = 1",
        "optimizer = adam",
        f"beta1 = {number(par['b1'])}",
        f"beta2 = {number(par['b2'])}",
        f"eps = {number(par['eps'])}",
        "adam_eps = inside",
        "adam_read_in = 1",
    ]


def ini(name, par):
    # what a case trained by Adam does not say is fixed there
    par = {"out": "lin", "kQ": 1, "kb": 0, "L": 2, **par}
    assert par["out"] == "lin" and par["kQ"] == 1
    return "\n".join([
        f"# Reference case {name} of regime1, see ABOUT.",
        "[network]",
        "model = regime1",
        f"activation = {ACTIVATIONS[par['act']]}",
        f"gate = {GATES[par['gate']]}",
        f"experts = {par['M']}",
        f"expert_layers = {par['L'] - 1}",
        "expert_output = linear",
        *router(par),
        "",
        "[data]",
        "source = file",
        f"file = {name}.h5",
        "",
        "[training]",
        f"steps = {par['T']}",
        *training(par),
        "loss = mse",
        "",
        "[solver]",
        "sites = 2048",
        "replicates = 16",
        "seed = 1",
        "",
        "[output]",
        "kernels = full",
        ""])


def cases(reference):
    X, y = reference["X"], reference["y"]
    for name, case in reference["cases"].items():
        for _, n, quantities in groups(case):
            check_runs(quantities, n, y)
        yield name, X, y, list(groups(case)), ini(name, case["params"])


if __name__ == "__main__":
    convert(__file__, __doc__, "regime1", cases, ABOUT.get)
