"""Is there a limit of ever fewer selected experts, and with which rates?

    python/with studies/findings/sparse_limit.py sparse_limit.h5 [OUT.csv [OUT.png [MORE.h5 ...]]]
    python/with studies/findings/sparse_limit.py --picture sparse_limit.csv OUT.png
    python/with studies/findings/sparse_limit.py --more sparse_limit.csv MORE.h5 ...

Reads the sweep of sparse_limit.ini, a second one with more replicates of some of its limits (that
of the table was made with --solver.replicates=20 --solver.seed=2), and those of sparse_reason.ini,
sparse_gates.ini, sparse_long.ini, sparse_networks.ini and sparse_wide.ini; says what is seen, and
writes the numbers behind it; or makes the picture of these. --more puts sweeps into a table that is
there.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, numbers, read_table, sentence, write_table  # noqa: E402
from verdict import (WORDS, above, interval, judge, jointly, of_ratio,  # noqa: E402
                     of_runs, within_factor)

HEAD = ("steps", "beta", "initial W_out", "rates of W_out, W_in, Q", "rate of W1", "N", "rho",
        "of", "value", "low", "high")
CLOSE, GROWN = 1.02, 1.1  # a limit: two halvings change the loss, and the growth, by less
FACTOR = 1.05  # networks lie as near
LOSS, GROWTH = "loss", "growth of Phib"


def key_of(unit) -> tuple:
    """(steps, beta, initial W_out, rate of the experts, rate of W1)."""
    keys, section = {}, ""
    for text in unit.parameters["ini"].splitlines():
        name, _, value = (part.strip() for part in text.partition("="))
        section = text.strip("[] ") if text.startswith("[") else section
        keys[section, name] = value
    return (str(int(keys["training", "steps"]) - 1), keys.get(("network", "beta"), "1"),
            *(keys.get(one, "1") for one in (("init", "W_out"), ("rates", "W_out"),
                                             ("rates", "W1"))))


def rows_of(run):
    """Losses at the end of limits and networks, and by how much the features of experts, mean over
    inputs, have grown in the limit."""
    for path in sorted(set(run.units().values.ravel())):
        if path.endswith(".partial"):
            continue
        unit = dmft.load(path)
        key, rho = key_of(unit), unit.parameters["network.rho"]
        if "limit" in unit:
            runs = unit.limit["loss_pseudo"].isel(t=-1).values
            yield *key, "limit", rho, LOSS, *numbers(of_runs(runs, 1))
            if "Phib_diag_runs" in unit.limit:
                kernel = unit.limit["Phib_diag_runs"].values.mean(-1)
                yield *key, "limit", rho, GROWTH, *numbers(of_runs(kernel[:, -1] / kernel[:, 0] - 1,
                                                                   1))
        for N, data in unit.reference.items() if "reference" in unit else ():
            yield *key, f"{int(N)}", rho, LOSS, *numbers(of_runs(
                data["loss_runs"].isel(t=-1).values, N))


def ratio(one, other):
    """Samples of the logarithm of one number of the table over another."""
    (value, *ends), (second, *others) = (map(float, row[8:]) for row in (one, other))
    return of_ratio((value, second), (np.ptp(ends) / 2, np.ptp(others) / 2))


def tell(rows):
    by = {}
    for row in rows:
        if "nan" in row[8:] or float(row[9]) <= 0:  # not known
            continue
        by.setdefault((*row[:6], row[7]), {})[float(row[6])] = row
    for key, found in by.items():
        shares = sorted(found)
        if key[5] != "limit" or 4 * shares[0] not in found:
            continue
        change = ratio(found[shares[0]], found[4 * shares[0]])
        words = f"{key[6]}, {key[0]} steps, beta = {key[1]}, initial W_out {key[2]}, rates " \
            f"{key[3]}, of W1 {key[4]}: " + ", ".join(sentence(found[rho][8:])
                                                      for rho in reversed(shares))
        near = CLOSE if key[6] == LOSS else GROWN
        words += f"; the last two halvings of rho change it by {sentence(numbers(change))}, " \
            f"within {near}: {WORDS[judge(change, within_factor(near))]}"
        if key[6] == LOSS and 16 * shares[0] in found:
            before = ratio(found[4 * shares[0]], found[16 * shares[0]])
            words += f", and those before by {sentence(numbers(before))}"
        if key[6] == GROWTH:
            words += f"; more than {GROWN} times: {WORDS[judge(change, above(np.log(GROWN)))]}"
        print(words)
    tell_networks(by)


def tell_networks(by):
    """The widest networks beside the limit, in all cases together."""
    cases = [(key, rho) for key, found in by.items() if key[5] == "limit" and key[6] == LOSS
             for rho in found if any(other[:5] == key[:5] and other[5] != "limit"
                                     and rho in by[other] for other in by)]
    apart = []
    for key, rho in cases:
        widths = sorted((int(other[5]) for other in by
                         if other[:5] == key[:5] and other[5] != "limit" and rho in by[other]))
        row = by[(*key[:5], str(widths[-1]), LOSS)][rho]
        apart.append(ratio(row, by[key][rho]))
        low, high = np.exp(interval(apart[-1], len(cases)))
        print(f"rate of W1 {key[4]}, rho = {rho:g}: networks of N = "
              + ", ".join(f"{N}: {sentence(by[(*key[:5], str(N), LOSS)][rho][8:])}"
                          for N in widths) + f"; limit {sentence(by[key][rho][8:])}; the widest "
              f"over it {np.exp(np.median(apart[-1])):.3f} [{low:.3f}, {high:.3f}]")
    if apart:
        print(f"the widest are within {FACTOR} of the limit in all {len(apart)}: "
              f"{WORDS[jointly(apart, within_factor(FACTOR))]}")


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained")
    shapes = "osD^v<>pX*"

    def bars(ax, some, **more):
        some = [row for row in some if row[8] != "nan"]
        rho, value, low, high = np.array([(row[6], *row[8:]) for row in some], float).T
        order = np.argsort(-rho)
        ax.errorbar(1 / rho[order], value[order], np.array([value - low, high - value])[:, order],
                    capsize=2, ms=3.5, lw=1, **more)

    limits = [row for row in rows if row[0] == "12" and row[5] == "limit" and row[7] == LOSS]
    for k, key in enumerate(dict.fromkeys(row[1:5] for row in limits)):
        bars(axes[0], [row for row in limits if row[1:5] == key], color=plt.cm.tab10(k),
             marker=shapes[k], label=rf"$\beta$ = {key[0]}, $W_{{out}}(0)$ {key[1]}, rates "
             f"{key[2]}, of $W_1$ {key[3]}")
    axes[0].legend(fontsize=5.5, loc="upper right", ncols=1)
    some = [row for row in rows if row[7] == GROWTH and row[1] == "0.1" and row[0] == "12"]
    for k, rate in enumerate(dict.fromkeys(row[4] for row in some)):
        bars(axes[1], [row for row in some if row[4] == rate], color=f"C{k}", marker=shapes[k],
             label=f"rate of $W_1$ {rate}")
    axes[1].legend(fontsize=6)
    networks = [row for row in rows if row[7] == LOSS and row[0] == "12" and row[1] == "0.1"
                and row[2:4] == ("rho^0.5", "rho") and row[4] in ("1", "rho")]
    for k, rate in enumerate(("1", "rho")):
        for j, N in enumerate(("limit", "4096", "1024", "256")):
            part = [row for row in networks if row[4] == rate and row[5] == N]
            if part:
                bars(axes[2], part, color=f"C{k}", marker=shapes[j], ls="-" if N == "limit" else "",
                     mfc=None if N == "limit" else "white",
                     label=f"rate of $W_1$ {rate}, " + ("limit" if N == "limit" else f"N = {N}"))
    axes[2].legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    for ax, title, words in zip(axes, (
            "limits", r"growth of experts' features, $\beta$ = 0.1", "networks beside the limit"),
            ("loss after 12 steps", "Phib at the end / at the start - 1", "loss after 12 steps")):
        ax.set(xscale="log", xlabel=r"$1/\rho$", ylabel=words, title=title)
        ax.set_xticks([2, 8, 32, 128], ["2", "8", "32", "128"])
        ax.minorticks_off()
    axes[0].set_ylim(0, 0.25)
    axes[1].set(yscale="log")
    axes[1].set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    axes[1].minorticks_off()
    axes[2].set_ylim(0.06, 0.13)
    figure.savefig(path, dpi=100)


def together(rows, sweeps):
    """Rows of a table and those of sweeps, which replace others of the same case and share."""
    found = {row[:8]: row for row in rows}
    for one in sweeps:
        found |= {tuple(map(str, row[:8])): tuple(map(str, row)) for row in rows_of(dmft.load(one))}
    return list(found.values())


def main(path, out=None, picture=None, *more):
    rows = together([], (path, *more))
    tell(rows)
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    if sys.argv[1] == "--more":
        rows = together(read_table(sys.argv[2]), sys.argv[3:])
        tell(rows)
        write_table(sys.argv[2], HEAD, rows)
    else:
        command(main, draw)
