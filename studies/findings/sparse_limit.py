"""Is there a limit of ever fewer selected experts, and with which rates?

    python/with studies/findings/sparse_limit.py sparse_limit.h5 [OUT.csv [OUT.png [MORE.h5]]]
    python/with studies/findings/sparse_limit.py --picture sparse_limit.csv OUT.png

Reads the sweep of sparse_limit.ini, and a second one with more replicates of some of its limits
(that of the table was made with --solver.replicates=20 --solver.seed=2); says what is seen, and
writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, numbers, sentence  # noqa: E402
from verdict import WORDS, judge, of_runs, within_factor  # noqa: E402

HEAD = ("beta", "initial W_out", "rates of W_out, W_in, Q", "rate of W1", "rho", "loss", "low",
        "high")
CLOSE = 1.02  # a limit: two halvings change the loss by less


def found_in(run):
    """{(beta, initial W_out, rate of the experts, rate of W1): {rho: samples of ln loss}}."""
    found = {}
    for path in sorted(set(run.units().values.ravel())):
        unit = dmft.load(path)
        keys, section = {}, ""
        for text in unit.parameters["ini"].splitlines():
            name, _, value = (part.strip() for part in text.partition("="))
            section = text.strip("[] ") if text.startswith("[") else section
            keys[section, name] = value
        key = (keys["network", "beta"] if ("network", "beta") in keys else "1",
               keys.get(("init", "W_out"), "1"), keys.get(("rates", "W_out"), "1"),
               keys.get(("rates", "W1"), "1"))
        if "limit" in unit:
            runs = unit.limit["loss_pseudo"].isel(t=-1).values
            found.setdefault(key, {})[float(unit.parameters["network.rho"])] = of_runs(runs, 1)
    return found


def tell(found):
    for key, by in found.items():
        shares = sorted(by)
        if 4 * shares[0] not in by:
            continue
        change = by[shares[0]] - by[4 * shares[0]]
        print(f"beta = {key[0]}, initial W_out {key[1]}, rates {key[2]}, of W1 {key[3]}: losses "
              + ", ".join(sentence(numbers(by[rho])) for rho in reversed(shares))
              + f"; the last two halvings of rho change it by {sentence(numbers(change))}, within "
              f"{CLOSE}: {WORDS[judge(change, within_factor(CLOSE))]}")


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for k, key in enumerate(dict.fromkeys(row[:4] for row in rows)):
        rho, loss, low, high = np.array([row[4:] for row in rows if row[:4] == key
                                         and row[5] != "nan"], float).T
        ax.errorbar(1 / rho, loss, (loss - low, high - loss), capsize=2, ms=3.5, lw=1,
                    marker="osD^v<>p"[k % 8], color=plt.cm.tab10(k),
                    label=rf"$\beta$ = {key[0]}, $W_{{out}}(0)$ {key[1]}, rates {key[2]}, "
                    f"of $W_1$ {key[3]}")
    ax.set(xscale="log", xlabel=r"$1/\rho$", ylabel="loss after 12 steps, limit", ylim=(0, None))
    ax.set_xticks([2, 8, 32, 128], ["2", "8", "32", "128"])
    ax.minorticks_off()
    ax.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None, *more):
    found = found_in(dmft.load(path))
    for one in more:  # with more replicates: in their place
        for key, by in found_in(dmft.load(one)).items():
            found[key] = by
    tell(found)
    rows = [(*key, rho, *numbers(by[rho])) for key, by in found.items()
            for rho in sorted(by, reverse=True)]
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
