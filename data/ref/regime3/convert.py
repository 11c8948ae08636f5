#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py REGIME3.json [FOLDER]

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


def put(group, name, values, dims, about):
    data = group.create_dataset(name, data=np.asarray(values, "<f8"), track_times=False)
    data.attrs["dims"] = dims
    data.attrs["about"] = about


def put_means(group, quantities, n):
    """NAME and NAME_se of every quantity; the attribute n is the number of independent runs."""
    group.attrs["n"] = np.int32(n)
    for name, value in quantities.items():
        dims = "t" if name in ("loss", "G3") else "t mu"
        put(group, name, value["mean"], dims, ABOUT[name])
        put(group, name + "_se", value["se"], dims, f"standard error of {name}, from n runs")


def write_h5(path, case):
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["about"] = "reference trajectories of regime3; see ABOUT"
        put(file, "X", case["X"], "mu i", "inputs")
        put(file, "y", case["y"], "mu", "targets")
        put_means(file.create_group("limit"), case["dmft"], case["dmft_samples"]["nrep"])
        for width, net in case["finite"].items():
            put_means(file.create_group(f"nets/N{int(width):04d}"), net,
                      case["finite_seeds"][width])


def number(value):
    """The shortest text that reads back as the same double; 1, not 1.0."""
    return repr(value).removesuffix(".0")


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
        "[data]",
        "source = file",
        f"file = {name}.h5",
        "",
        "[training]",
        f"steps = {case['T']}",
        f"eta0 = {number(case['eta0'])}",
        f"gamma0 = {number(case['gamma0'])}",
        "loss = mse",
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


def check(path, case):
    """Reads the file back: every number of the case is there, the same double, and nothing else."""
    want = {"X": case["X"], "y": case["y"]}
    for group, values in [("limit", case["dmft"])] + \
                         [(f"nets/N{int(w):04d}", v) for w, v in case["finite"].items()]:
        for name, value in values.items():
            want[f"{group}/{name}"], want[f"{group}/{name}_se"] = value["mean"], value["se"]
    have = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: have.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) else None)
    assert have.keys() == want.keys()
    for name, values in have.items():
        expected = np.array(want[name], float)
        assert values.dtype == np.float64 and values.shape == expected.shape, name
        assert values.tobytes() == expected.tobytes(), name
        assert np.isfinite(values).all(), name
    return len(have)


def main(source, folder=os.path.dirname(os.path.abspath(__file__))):
    with open(source, encoding="utf-8") as file:
        cases = json.load(file)
    for name, case in cases.items():
        path = os.path.join(folder, name)
        write_h5(path + ".h5", case)
        with open(path + ".ini", "w", encoding="utf-8") as file:
            file.write(ini(name, case))
        print(f"{name}: {check(path + '.h5', case)} datasets")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] == "--help":
        sys.exit(__doc__)
    main(*sys.argv[1:])
