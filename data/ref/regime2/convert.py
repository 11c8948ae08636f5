#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py REGIME2.json [FOLDER]

FOLDER is by default the script's own. The rest is in ../reference.py.
"""
import os
import sys

import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import convert, data_and_training, number, width_group, without_seeds

ABOUT = {  # what each quantity is; see ABOUT for the symbols
    "loss": "mean over inputs of (y - f)^2/2",
    "f": "output", "f0": "output of input 0", "f1": "output of input 1",
    "Phi1_00": "<sigma(h1) sigma(h1)>, inputs (0,0)", "Phi1_01": "the same, inputs (0,1)",
    "Phi1t0_00": "Phi1[0,0](t, 0): two-time, the other time is 0",
    "G1_00": "<g1 g1>, inputs (0,0)",
    "Phi3_00": "<h3 h3>, inputs (0,0)", "Phi3_01": "the same, inputs (0,1)",
    "G3": "<w4 w4>",
    "Phib_00": "<phi phi (1/N_e) sum_j sigma(h2_j) sigma(h2_j)>, inputs (0,0)",
    "Phib_01": "the same, inputs (0,1)",
    "Gb_00": "<(1/N_e) sum_j g2_j g2_j>, inputs (0,0)",
    "Gphi_00": "<gphi gphi>, inputs (0,0)",
    "phit2_0": "<phi^2>, input 0", "psi2_0": "<psi^2>, input 0",
    "gbar_0": "<phi gamma>, input 0", "h2sq_0": "<h2^2>, input 0",
}


def replicates(limit, y):
    """n from the identity mean_r sum_mu (y - f_r)^2 = sum_mu (y - f)^2 + (n - 1) sum_mu se_f^2."""
    f, se = (np.array(limit["f"][key]) for key in ("mean", "se"))
    rest = 2 * len(y) * np.array(limit["loss"]["mean"]) - ((np.array(y) - f)**2).sum(1)
    n = 1 + rest[1:] / (se**2).sum(1)[1:]
    assert np.abs(n - np.round(n[0])).max() < 1e-6, n
    return int(np.round(n[0]))


def groups(case):
    """(path, number of runs, quantities) of the limit and of each width."""
    yield "limit", replicates(case["dmft"], case["y"]), case["dmft"]
    for width, net in case["nets"].items():
        yield width_group(width), net["seeds"], without_seeds(net)


def ini(name, par):
    assert par["gate"] in ("softmax", "sigmoid") and par["lam_Q"] == par["kappa"]
    assert par["lam_out"] == 1 and par["lam_in"] in (1, par["kappa"])
    aggregation = ["aggregation = K"] if par["gate"] == "sigmoid" else []
    return "\n".join([
        f"# Reference case {name} of regime2, see ABOUT.",
        "[network]",
        "model = regime2",
        f"parameterization = {'mup' if par['mup'] else 'mssp'}",
        "activation = tanh",
        f"gate = {par['gate']}",
        f"beta = {number(par['beta'])}",
        f"kappa = {number(par['kappa'])}",
        f"expert_width = {par['Ne']}",
        f"rho = {number(par['rho'])}",
        *aggregation,
        f"lambda_in = {'1' if par['lam_in'] == 1 else 'kappa'}",
        "",
        *data_and_training(name, par),
        "",
        "[solver]",
        "sites = 2048",
        "expert_sites = 2048",
        "replicates = 16",
        "seed = 1",
        "",
        "[reference]",
        "widths =",
        "",
        "[output]",
        "kernels = full",
        ""])


def cases(reference):
    for name, case in reference["cases"].items():
        yield name, case["X"], case["y"], list(groups(case)), ini(name, case["params"])


def describe(name):
    return "t mu" if name == "f" else "t", ABOUT[name]


if __name__ == "__main__":
    convert(__file__, __doc__, "regime2", cases, describe)
