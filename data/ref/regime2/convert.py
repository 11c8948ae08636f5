#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py REGIME2.json [FOLDER]

Needs numpy and h5py; FOLDER is by default the script's own. Values are carried over bit for bit
(checked by reading back), the same input gives the same bytes.
"""
import json
import os
import sys

import h5py
import numpy as np

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


def put(group, name, values, dims, about):
    data = group.create_dataset(name, data=np.asarray(values, "<f8"), track_times=False)
    data.attrs["dims"] = dims
    data.attrs["about"] = about


def put_means(group, quantities, n):
    """NAME and NAME_se of every quantity; the attribute n is the number of independent runs."""
    group.attrs["n"] = np.int32(n)
    for name, value in quantities.items():
        dims = "t mu" if name == "f" else "t"
        put(group, name, value["mean"], dims, ABOUT[name])
        put(group, name + "_se", value["se"], dims, f"standard error of {name}, from n runs")


def replicates(limit, y):
    """n from the identity mean_r sum_mu (y - f_r)^2 = sum_mu (y - f)^2 + (n - 1) sum_mu se_f^2."""
    f, se = (np.array(limit["f"][key]) for key in ("mean", "se"))
    rest = 2 * len(y) * np.array(limit["loss"]["mean"]) - ((np.array(y) - f)**2).sum(1)
    n = 1 + rest[1:] / (se**2).sum(1)[1:]
    assert np.abs(n - np.round(n[0])).max() < 1e-6, n
    return int(np.round(n[0]))


def write_h5(path, case):
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["about"] = "reference trajectories of regime2; see ABOUT"
        put(file, "X", case["X"], "mu i", "inputs")
        put(file, "y", case["y"], "mu", "targets")
        limit = case["dmft"]
        put_means(file.create_group("limit"), limit, replicates(limit, case["y"]))
        for width, net in case["nets"].items():
            quantities = {key: value for key, value in net.items() if key != "seeds"}
            put_means(file.create_group(f"nets/N{int(width):04d}"), quantities, net["seeds"])


def number(value):
    """The shortest text that reads back as the same double; 1, not 1.0."""
    return repr(value).removesuffix(".0")


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
        "[data]",
        "source = file",
        f"file = {name}.h5",
        "",
        "[training]",
        f"steps = {par['T']}",
        f"eta0 = {number(par['eta0'])}",
        f"gamma0 = {number(par['gamma0'])}",
        "loss = mse",
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


def check(path, case):
    """Reads the file back: every number of the case is there, the same double, and nothing else."""
    want = {"X": case["X"], "y": case["y"]}
    for group, values in [("limit", case["dmft"])] + \
                         [(f"nets/N{int(w):04d}", v) for w, v in case["nets"].items()]:
        for name, value in values.items():
            if name != "seeds":
                want[f"{group}/{name}"], want[f"{group}/{name}_se"] = value["mean"], value["se"]
    have = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: have.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) else None)
        for width, net in case["nets"].items():
            assert file[f"nets/N{int(width):04d}"].attrs["n"] == net["seeds"]
    assert have.keys() == want.keys()
    for name, values in have.items():
        expected = np.array(want[name], float)
        assert values.dtype == np.float64 and values.shape == expected.shape, name
        assert values.tobytes() == expected.tobytes(), name
        assert np.isfinite(values).all(), name
    return len(have)


def main(source, folder=os.path.dirname(os.path.abspath(__file__))):
    with open(source, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for name, case in cases.items():
        path = os.path.join(folder, name)
        write_h5(path + ".h5", case)
        with open(path + ".ini", "w", encoding="utf-8") as file:
            file.write(ini(name, case["params"]))
        print(f"{name}: {check(path + '.h5', case)} datasets")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] == "--help":
        sys.exit(__doc__)
    main(*sys.argv[1:])
