"""What the convert.py of the folders here share: from runs in JSON to NAME.h5 and NAME.ini.

Needs numpy and h5py. Values are carried over bit for bit (checked by reading back), the same input
gives the same bytes.
"""
import json
import os
import sys

import h5py
import numpy as np


def number(value):
    """The shortest text that reads back as the same double; 1, not 1.0."""
    return repr(value).removesuffix(".0")


def data_and_training(name, parameters, loss="mse"):
    """Lines of the ini of a case whose inputs are in NAME.h5."""
    return ["[data]", "source = file", f"file = {name}.h5", "",
            "[training]",
            f"steps = {parameters['T']}",
            f"eta0 = {number(parameters['eta0'])}",
            f"gamma0 = {number(parameters['gamma0'])}",
            f"loss = {loss}"]


def put(group, name, values, dims, about):
    data = group.create_dataset(name, data=np.asarray(values, "<f8"), track_times=False)
    data.attrs["dims"] = dims
    data.attrs["about"] = about


def width_group(width):
    return f"nets/N{int(width):04d}"


def without_seeds(net):
    return {key: value for key, value in net.items() if key != "seeds"}


def write_h5(path, about, X, y, groups, describe):
    """In each group NAME and NAME_se of every quantity; the attribute n is the number of
    independent runs. describe(name): dims, and what it is."""
    with h5py.File(path, "w", libver="earliest") as file:
        file.attrs["about"] = about
        put(file, "X", X, "mu i", "inputs")
        put(file, "y", y, "mu", "targets")
        for where, n, quantities in groups:
            group = file.create_group(where)
            group.attrs["n"] = np.int32(n)
            for name, value in quantities.items():
                dims, text = describe(name)
                put(group, name, value["mean"], dims, text)
                put(group, name + "_se", value["se"], dims,
                    f"standard error of {name}, from n runs")


def check(path, X, y, groups):
    """Reads the file back: every number of the case is there, the same double, and nothing else."""
    want, have = {"X": X, "y": y}, {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: have.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) else None)
        for group, n, quantities in groups:
            assert file[group].attrs["n"] == n
            for name, value in quantities.items():
                want[f"{group}/{name}"], want[f"{group}/{name}_se"] = value["mean"], value["se"]
    assert have.keys() == want.keys()
    for name, values in have.items():
        expected = np.array(want[name], float)
        assert values.dtype == np.float64 and values.shape == expected.shape, name
        assert values.tobytes() == expected.tobytes(), name
        assert np.isfinite(values).all(), name
    return len(have)


def arguments(script, doc):
    """What is in the JSON file, and the folder to write to, by default that of the script."""
    if len(sys.argv) not in (2, 3) or sys.argv[1] == "--help":
        sys.exit(doc)
    with open(sys.argv[1], encoding="utf-8") as file:
        return json.load(file), (sys.argv[2:] + [os.path.dirname(os.path.abspath(script))])[0]


def convert(script, doc, model, cases, describe):
    """cases(JSON): name, X, y, list of groups (path, number of runs, quantities), ini of each."""
    reference, folder = arguments(script, doc)
    for name, X, y, groups, ini in cases(reference):
        path = os.path.join(folder, name)
        about = f"reference trajectories of {model}; see ABOUT"
        write_h5(path + ".h5", about, X, y, groups, describe)
        with open(path + ".ini", "w", encoding="utf-8") as file:
            file.write(ini)
        print(f"{name}: {check(path + '.h5', X, y, groups)} datasets")
