#!/usr/bin/env python3
"""Makes NAME.h5 and NAME.ini of every case from the reference runs in JSON (see ABOUT).

    python3 convert.py RESIDUAL.json [FOLDER]

Needs numpy and h5py; FOLDER is by default the script's own. Values are carried over bit for bit
(checked by reading back), the same input gives the same bytes.
"""
import json
import os
import sys

import h5py
import numpy as np

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


def put(group, name, values, dims, about):
    data = group.create_dataset(name, data=np.asarray(values, "<f8"), track_times=False)
    data.attrs["dims"] = dims
    data.attrs["about"] = about


def put_means(group, quantities, n):
    """NAME and NAME_se of every quantity; the attribute n is the number of independent runs."""
    group.attrs["n"] = np.int32(n)
    for name, value in quantities.items():
        dims, about = QUANTITIES[name]
        put(group, name, value["mean"], dims, about)
        put(group, name + "_se", value["se"], dims, f"standard error of {name}, from n runs")


def replicates(runs, y):
    """n from the identity mean_r sum_mu (y - f_r)^2 = sum_mu (y - f)^2 + (n - 1) sum_mu se_f^2,
    summed over time; the values are rounded to 8 digits, which leaves n within 0.05."""
    f, se = (np.array(runs["f"][key]) for key in ("mean", "se"))
    rest = 2 * len(y) * np.array(runs["loss"]["mean"]) - ((np.array(y) - f)**2).sum(1)
    n = 1 + rest[1:].sum() / (se[1:]**2).sum()
    assert abs(n - round(n)) < 0.05, n
    return round(n)


def groups(case, y):
    """Group of the file, quantities and number of runs of every ensemble of a case."""
    for variant, runs in case["limit"].items():
        assert variant in LIMIT or variant == "noback"
        yield "limit" if variant in LIMIT else "limit_noback", runs, replicates(runs, y)
    for sizes, net in case["finite"].items():
        quantities = {key: value for key, value in net.items() if key != "seeds"}
        assert replicates(net, y) == net["seeds"]
        yield "nets/" + sizes.replace(",", "_").replace("=", ""), quantities, net["seeds"]


def write_h5(path, case, data):
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["about"] = "reference trajectories of residual; see ABOUT"
        put(file, "X", data["X"], "mu i", "inputs")
        put(file, "y", data["y"], "mu", "targets")
        for name, quantities, n in groups(case, data["y"]):
            put_means(file.create_group(name), quantities, n)


def number(value):
    """The shortest text that reads back as the same double; 1, not 1.0."""
    return repr(value).removesuffix(".0")


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


def check(path, case, data):
    """Reads the file back: every number of the case is there, the same double, and nothing else."""
    want = {"X": data["X"], "y": data["y"]}
    for group, quantities, _ in groups(case, data["y"]):
        for name, value in quantities.items():
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
        reference = json.load(file)
    for name, case in reference["cases"].items():
        path = os.path.join(folder, name)
        write_h5(path + ".h5", case, reference["data"])
        with open(path + ".ini", "w", encoding="utf-8") as file:
            file.write(ini(name, case["parameters"]))
        print(f"{name}: {check(path + '.h5', case, reference['data'])} datasets")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] == "--help":
        sys.exit(__doc__)
    main(*sys.argv[1:])
