"""Makes coordinate.h5 from the reference runs in JSON: python3 convert.py parameterizations.json.

Only the cases of gradient descent with tanh at eta0 = 0.3; every number as it is in the JSON."""

import json
import sys

import h5py
import numpy as np

runs = json.load(open(sys.argv[1]))
tested = {(t["case"], t["quantity"], t["step"]): t["tolerance"] for t in runs["tests"]}


def table(quantities, names, steps, get):
    """[quantity][step]..., NaN where the JSON has null."""
    rows = [[get(quantities[q], k) for k in range(len(steps))] for q in names]
    return np.array(rows, dtype=float)


with h5py.File("coordinate.h5", "w") as out:
    out["X"] = np.array(runs["data"]["X"])
    out["y"] = np.array(runs["data"]["y"])
    for regime in "123":
        for parameterization in ("mup", "mssp"):
            for read_out, w4 in (("normal", "1/N"), ("zero", "0")):
                key = f"{regime} sgd {parameterization} w4={w4} tanh"
                case = runs["coordinate"][key]
                names = [q for q in case["quantities"] if q != "loss"]
                steps, null = case["steps"], [None, None]
                def logs(column):
                    def get(q, k):
                        entry = q["ln_rms"][k] or [null] * len(case["N"])
                        return [(v or null)[column] for v in entry]

                    return table(case["quantities"], names, steps, get)

                group = out.create_group(f"regime{regime}_{parameterization}_{read_out}")
                group.attrs["terms"] = np.bytes_(" ".join(q.replace(".", "_") for q in names))
                group["N"] = np.array(case["N"], dtype="i4")
                group["seeds"] = np.array(case["seeds"], dtype="i4")
                group["steps"] = np.array(steps, dtype="i4")
                tolerance = [[tested.get((key, q, s), np.nan) for s in steps] for q in names]
                data = {
                    "ln_rms": logs(0),
                    "ln_sd": logs(1),
                    "exponent": table(case["quantities"], names, steps, lambda q, k: q["exponent"][k]),
                    "tolerance": np.array(tolerance),
                }
                for name, values in data.items():
                    group.create_dataset(name, data=values.astype("f4"), compression=9, shuffle=True)
