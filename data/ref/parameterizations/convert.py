#!/usr/bin/env python3
"""Makes tiny.h5 and regimeN.ini from the reference trajectories in JSON (see ABOUT).

    python3 convert.py PARAMETERIZATIONS.json [FOLDER]

FOLDER is by default the script's own. The rest is in ../reference.py.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import arguments, number, put


def dataset(case):
    """regime1 mup adam eps inside -> regime1/mup_adam_inside"""
    regime, rest = case.split(" ", 1)
    return regime + "/" + rest.replace("eps ", "").replace(" ", "_")


def write(path, tiny):
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["about"] = "trajectories of tiny networks; see ABOUT"
        put(file, "X", tiny["X"], "mu i", "inputs")
        put(file, "y", tiny["y"], "mu", "targets")
        for case, f in tiny["cases"].items():
            put(file, dataset(case), f, "t mu", "output after t steps: " + case)
    with h5py.File(path) as file:
        for name, want in [("X", tiny["X"]), ("y", tiny["y"])] + \
                [(dataset(case), f) for case, f in tiny["cases"].items()]:
            assert file[name][()].tobytes() == np.array(want, float).tobytes(), name


def ini(tiny, regime):
    assert tiny["gate"] == "sigmoid" and tiny["act"] == "tanh"
    N, M, Ne = tiny["N"], tiny["M"], tiny["Ne"]
    sizes = {
        "regime1": [f"experts = {M}", "expert_layers = 2"],
        "regime2": [f"kappa = {number(M / N)}", f"expert_width = {Ne}", "lambda_in = kappa"],
        "regime3": [f"kappa = {number(M / N)}", f"iota = {number(Ne / N)}"],
    }
    return "\n".join([
        f"# The tiny networks of {regime}, see ABOUT; parameterization and optimizer differ by case.",
        "[network]",
        f"model = {regime}",
        "activation = tanh",
        "gate = sigmoid",
        *sizes[regime],
        "",
        "[data]",
        "source = file",
        "file = tiny.h5",
        "",
        "[training]",
        f"steps = {tiny['steps'] + 1}",
        f"gamma0 = {number(tiny['gamma0'])}",
        "",
        "[solver]",
        "replicates = 0",
        "",
        "[reference]",
        f"widths = {N}",
        "centre = no",
        ""])


def main():
    reference, folder = arguments(__file__, __doc__)
    tiny = reference["tiny"]
    write(os.path.join(folder, "tiny.h5"), tiny)
    for regime in "regime1", "regime2", "regime3":
        with open(os.path.join(folder, regime + ".ini"), "w", encoding="utf-8") as file:
            file.write(ini(tiny, regime))
    print(f"{len(tiny['cases'])} trajectories")


if __name__ == "__main__":
    main()
