#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py REGIME3.json [FOLDER]

FOLDER is by default the script's own. The rest is in ../reference.py.
"""
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import convert, data_and_training, number, width_group

ABOUT = {  # what each quantity is; see ABOUT for the symbols
    "loss": "mean over inputs of (y - f)^2/2",
    "f": "output, not centred",
    "Phi1": "<sigma(h1)^2> over residual sites",
    "Phi3": "<h3^2>",
    "G1": "<g1^2>",
    "G3": "<w^2>",
    "Phibar": "<(phit_i sigma(h_ij))^2> over experts and units",
    "Gbar": "<g_ij^2> over experts and units",
    "Phitil": "<E_i[phit_i sigma(h_ij)]^2> over units",
    "Gtil": "<E_i[g_ij]^2> over units",
    "PhiE": "<sigma(h_ij)^2> over experts and units",
    "G1phi": "<g1phi_i^2> over experts",
    "phit2": "<phit_i^2> over experts",
}
UNIT_SITES = 256
EXPERT_SITES = 256  # of sigmoid gates: bias below the sampling error


def groups(case):
    """(path, number of runs, quantities) of the limit and of each width."""
    yield "limit", case["dmft_samples"]["nrep"], case["dmft"]
    for width, net in case["finite"].items():
        yield width_group(width), case["finite_seeds"][width], net


def ini(name, case):
    assert case["sigma"] == "tanh" and (case["gate"] == "topk") == (case["rho"] < 1)
    # Softmax has heavy tails that expert_sites cuts: the same number as the stored runs.
    sigmoid = case["gate"] == "sigmoid"
    expert_sites = EXPERT_SITES if sigmoid else case["dmft_samples"]["Si"]
    return "\n".join([
        f"# Reference case {name} of regime3, see ABOUT.",
        "[network]",
        "model = regime3",
        f"parameterization = {case['par']}",
        "activation = tanh",
        f"gate = {'sigmoid' if sigmoid else 'softmax'}",
        f"kappa = {number(case['kappa'])}",
        f"iota = {number(case['iota'])}",
        f"rho = {number(case['rho'])}",
        "",
        *data_and_training(name, case),
        "",
        "[solver]",
        "sites = 2048",
        f"expert_sites = {expert_sites}",
        f"unit_sites = {UNIT_SITES}",
        "replicates = 16",
        "seed = 1",
        "",
        "[reference]",
        "widths =",
        "centre = no",
        "",
        "[output]",
        "kernels = diagonal",
        ""])


def cases(reference):
    for name, case in reference.items():
        yield name, case["X"], case["y"], list(groups(case)), ini(name, case)


def describe(name):
    return "t" if name in ("loss", "G3") else "t mu", ABOUT[name]


if __name__ == "__main__":
    convert(__file__, __doc__, "regime3", cases, describe)
