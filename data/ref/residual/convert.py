#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py RESIDUAL.json [FOLDER]

FOLDER is by default the script's own. The rest is in ../reference.py.
"""
import os
import sys

import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import convert, data_and_training, number, without_seeds

QUANTITIES = {  # dims and what each quantity is; see ABOUT for the symbols
    "loss": ("t", "mean over inputs of (y - f)^2/2"),
    "f": ("t mu", "output"),
    "p": ("t l mu", "mean over experts of the logit p_k"),
    "p2": ("t l mu", "mean over experts of p_k^2"),
    "A": ("t l mu", "mean over experts of A_k"),
    "load2": ("t l", "mean over experts of (mean_mu m_k - rho)^2"),
    "b2": ("t l", "variance over experts of b_k"),
    "qstar": ("t l mu", "selection threshold of sig(p) + b"),
    "Ch": ("t l mu nu", "h_l.h_l/N, l = 0..L"),
    "Cg": ("t l mu nu", "g_l.g_l/N, l = 0..L"),
    "Ch0t": ("t mu nu", "h_L(t).h_L(0)/N: two-time, mu belongs to t, nu to 0"),
    "Mphi": ("t l mu nu", "mean over experts and units of c phi c phi"),
    "Mg": ("t l mu nu", "mean over experts and units of c gk c gk"),
    "MAA": ("t l mu nu", "mean over experts of sd A sd A"),
}
LIMIT = ("alpha0", "Q64", "None")  # the full equations, by case


def replicates(runs, y):
    """n from the identity mean_r sum_mu (y - f_r)^2 = sum_mu (y - f)^2 + (n - 1) sum_mu se_f^2,
    summed over time; the values are rounded to 8 digits, which leaves n within 0.05."""
    f, se = (np.array(runs["f"][key]) for key in ("mean", "se"))
    rest = 2 * len(y) * np.array(runs["loss"]["mean"]) - ((np.array(y) - f)**2).sum(1)
    n = 1 + rest[1:].sum() / (se[1:]**2).sum()
    assert abs(n - round(n)) < 0.05, n
    return round(n)


def groups(case, y):
    """(path, number of runs, quantities) of every ensemble of a case."""
    for variant, runs in case["limit"].items():
        assert variant in LIMIT or variant == "noback"
        yield "limit" if variant in LIMIT else "limit_noback", replicates(runs, y), runs
    for sizes, net in case["finite"].items():
        assert replicates(net, y) == net["seeds"]
        path = "nets/" + sizes.replace(",", "_").replace("=", "")
        yield path, net["seeds"], without_seeds(net)


def ini(name, par):
    assert par["phi"] == "tanh" and par["gate"] == "sigmoid"
    top = par["kappa"] < 1
    assert not top or par["bias"] == "stratified normal"
    routing = [] if not top else [
        f"rho = {number(par['kappa'])}", "experts = 64", "bias_draws = stratified",
        f"bias_std = {number(par['sb'])}", f"eta_bias = {number(par['eta_b'])}"]
    return "\n".join([
        f"# Reference case {name} of residual, see ABOUT.",
        "[network]",
        "model = residual",
        "activation = tanh",
        f"depth = {par['L']}",
        f"alpha = {number(par['alpha'])}",
        "expert_width = 0",
        *routing,
        "",
        *data_and_training(name, par),
        "",
        "[solver]",
        "sites = 1024",
        *(["expert_sites = 64", "unit_sites = 512"] if top else ["unit_sites = 2048"]),
        "replicates = 16",
        "seed = 1",
        "",
        "[reference]",
        "widths =",
        "draws = balanced",
        "centre = no",
        "",
        "[output]",
        "kernels = full",
        ""])


def cases(reference):
    X, y = reference["data"]["X"], reference["data"]["y"]
    for name, case in reference["cases"].items():
        yield name, X, y, list(groups(case, y)), ini(name, case["parameters"])


if __name__ == "__main__":
    convert(__file__, __doc__, "residual", cases, QUANTITIES.get)
