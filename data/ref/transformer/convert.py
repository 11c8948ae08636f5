#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py TRANSFORMER.json [FOLDER]

FOLDER is by default the script's own. Values have four or five digits in the JSON (attribute digits)
and are stored in single precision; inputs and targets bit for bit.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from reference import arguments, data_and_training, number, width_group, without_seeds

MULTI = {  # of networks with several outputs
    "Phi1": ("t mu", "<sigma(h1)^2>"),
    "PhiL": ("t mu", "the same below the read-out"),
    "G1": ("t mu", "<g1^2>, loss inside"),
}
QUANTITIES = {
    "loss": ("t", "mean loss"),
    "f": ("t mu c", "outputs; per token those of sequence 0"),
    "Phi": ("t l", "mean over rows of <h h> after block l"),
    "PhiL": ("t row", "<h h> at the top, first and last row"),
    "Phi01": ("t", "<h h> at the top between first and last row"),
    "G0": ("t row", "n^2 <g g> at the bottom, first and last row"),
    "G01": ("t", "n^2 <g g> at the bottom between first and last row"),
    "Gmid": ("t", "n^2 mean over rows of <g g> below the last experts (none: at the top)"),
    "att": ("t l source", "attention weights of the last token of sequence 0, mean over heads"),
    "logit": ("t l source", "attention logits of the same"),
    "gate": ("t l e", "gates, mean over the tokens of sequence 0"),
}


SITES = 2048  # of the limits whose JSON does not say


def runs_of(case):
    """(path, number of runs, quantities) of every ensemble of a case."""
    ensembles = [("limit", case["limit"])]
    ensembles += [(width_group(N), net) for N, net in case["finite"].items()]
    for path, runs in ensembles:
        yield path, runs["n"], {name: value for name, value in without_seeds(runs).items()
                                if isinstance(value, dict) and "mean" in value}


def digits(values):
    """Significant digits of the longest value."""
    return max(len(f"{abs(v):.12g}".split("e")[0].replace(".", "").strip("0"))
               for v in np.ravel(values))


def put(group, name, values, dtype="<f4"):
    return group.create_dataset(name, data=np.asarray(values, dtype), track_times=False)


def write(path, case, known):
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["about"] = "reference trajectories of transformers and of several outputs; see ABOUT"
        if "tokens" in case:
            put(file, "tokens", case["tokens"], "<i4").attrs["V"] = np.int32(case["V"])
        else:
            put(file, "X", case["X"], "<f8")
        put(file, "y", case["y"], "<f8")
        for where, n, quantities in runs_of(case):
            group = file.create_group(where)
            group.attrs["n"] = np.int32(n)
            if where == "limit":
                group.attrs["S"] = np.int32(case["limit"].get("S", SITES))
            for name, value in quantities.items():
                data = put(group, name, value["mean"])
                put(group, name + "_se", value["se"])
                if where == "limit":
                    data.attrs["dims"], data.attrs["about"] = known[name]
                    data.attrs["digits"] = np.int32(digits(value["mean"]))


def check(path, case):
    """Reads the file back: every number of the case is there, and nothing else."""
    want = {name: (case[name], dtype)
            for name, dtype in (("tokens", "<i4"), ("X", "<f8"), ("y", "<f8")) if name in case}
    have = {}
    for where, _, quantities in runs_of(case):
        for name, value in quantities.items():
            want[f"{where}/{name}"] = (value["mean"], "<f4")
            want[f"{where}/{name}_se"] = (value["se"], "<f4")
    with h5py.File(path) as file:
        file.visititems(lambda name, item: have.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) else None)
    assert have.keys() == want.keys()
    for name, (values, dtype) in want.items():
        assert np.array_equal(have[name], np.asarray(values, dtype)), name
        assert np.isfinite(have[name]).all(), name
    return len(have)


def yes(flag):
    return "yes" if flag else "no"


def routing(par):
    if not par["E"]:
        return []
    biases = np.ravel(par.get("bt", par.get("b")))
    assert par["kb"] in (0, 1)
    return [f"iota = {number(par['nue'])}",
            f"gate = {par['gate']}",
            f"rho = {number(par.get('K', par['E']) / par['E'])}",
            f"q0 = {number(par['q0'])}",
            f"router_rate = {number(par.get('kr', 1.0))}",
            f"bias = {'trained' if par['kb'] else 'fixed'}",
            f"bias_per = {'token' if 'bt' in par else 'expert'}",
            "biases = " + " ".join(number(float(b)) for b in biases)]


def attention(par):
    heads = (["head_limit = many", f"head_width = {par['Nk']}"] if par.get("heads") == "many"
             else [f"heads = {par['H']}"])
    assert par["branch"] == "1/L" and par["norm"] and par["final_norm"] and par["centre"]
    return ["model = transformer",
            "activation = tanh",
            f"depth = {par['L']}",
            *heads,
            f"attention_width = {number(par['nu'])}",
            f"attention_beta = {number(par['betaA'])}",
            f"causal = {yes(par['causal'])}",
            f"zero_queries = {yes(par.get('zeroQ', False))}",
            f"experts = {par['E']}",
            *routing(par)]


def several(par):
    common = [f"model = {par['model']}", "activation = tanh"]
    if par["model"] == "dense":
        return common + [f"depth = {par['depth']}"]
    return common + [f"parameterization = {par['par']}", f"expert_width = {par['N_e']}",
                     f"kappa = {number(par['kappa'])}", f"gate = {par['gate']}"]


def ini(name, case):
    par = case["params"]
    loss = "cross_entropy" if par["loss"] == "ce" else "mse"
    many = par.get("heads") == "many"
    exact = par.get("E") == 0 and not many
    return "\n".join([
        f"# Reference case {name} of transformer, see ABOUT.",
        "[network]",
        *(several(par) if "model" in par else attention(par)),
        "",
        *data_and_training(name, par, loss),
        "",
        "[solver]",
        f"sites = {512 if exact else 2048 if many else 1024}",
        *(["expert_sites = 512"] if par.get("model") == "regime2" else []),
        f"tolerance = {'1e-4' if exact else '1e-2' if many else '3e-3'}",
        f"replicates = {2 if exact else 32 if 'model' in par else 16}",
        "seed = 1",
        "",
        "[reference]",
        "widths =",
        "draws = balanced",
        "centre = yes",
        "",
        "[output]",
        "kernels = diagonal",
        ""])


def main():
    reference, folder = arguments(__file__, __doc__)
    for name, case in reference["cases"].items():
        path = os.path.join(folder, name)
        write(path + ".h5", case, MULTI | {k: QUANTITIES[k] for k in ("loss", "f")}
              if "model" in case["params"] else QUANTITIES)
        with open(path + ".ini", "w", encoding="utf-8") as file:
            file.write(ini(name, case))
        print(f"{name}: {check(path + '.h5', case)} datasets")


if __name__ == "__main__":
    main()
