"""The tables of docs/theory/parameterizations.md, generated between its markers.

    python/with tests/recipe_tables.py [--update]

Without --update the exit code is 1 where the page differs from what the program builds.
"""
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import dmft
from dmft.power import Law

PAGE = Path(__file__).resolve().parent.parent / "docs" / "theory" / "parameterizations.md"
BEGIN, END = "<!-- generated: {} -->", "<!-- end -->"
SMALL = {"data.inputs": 4, "training.optimizer": "adam", "training.adam_read_in": 1}
# One place in the sizes of each network; laws do not depend on it.
NETWORKS = {
    "dense": {"depth": 2},
    "regime1": {"experts": 2, "expert_layers": 2, "iota": 0.5, "bias": "trained"},
    "regime2": {"kappa": 0.5, "expert_width": 2},
    "regime3": {"kappa": 0.5, "iota": 0.25},
    "residual": {"alpha": 0.5, "expert_width": 4, "depth": 2},
    "resnet": {"depth": 2},
    "stack": {"mixture": "regime2", "kappa": 0.5, "expert_width": 2, "depth": 2},
    "transformer": {"heads": 2, "attention_width": 1, "experts": 2, "iota": 0.5, "depth": 2,
                    "bias": "trained", "gate": "sigmoid"},
}
WORDS = {"regime1": ["mup", "mssp", "sp", "ntp", "simp"], "regime2": ["mup", "mssp", "sp", "ntp"],
         "regime3": ["mup", "mssp", "sp", "ntp"], "stack": ["mup", "mssp"],
         "transformer": ["mup", "mssp"]}
# The papers divide by M, and Jiang et al. by depth, what the program has in the matrix. (A_out of
# equal experts acts on their mean.)
EXPERTS = Law(1.0, {"M": Fraction(-1)})
BLOCKS = Law(1.0, {"M": Fraction(-1), "L": Fraction(-1)})
USED = {"regime2": {"W_out": EXPERTS}, "residual": {"W2": BLOCKS},
        "regime3": {"W_out": EXPERTS, "P_out": EXPERTS}}
# As printed: std (muP, MSSP), rates of SGD and Adam, eps. How to Scale Mixture-of-Experts, Table
# B.1; Hyperparameter Transfer with Mixture-of-Experts Layers, Table 1, which has Adam alone, with
# the router at its gamma = 1.
PRINTED = {
    ("regime1", "Q"): ("N^-1", "0", "N^-1", "N^-1", "1"),
    ("regime1", "W2"): ("N^-1/2", "N^-1/2", "1", "N^-1", "N^-1"),
    ("regime1", "W3"): ("N_e^-1/2", "N_e^-1/2", "1", "N_e^-1", "N^-1"),
    ("regime2", "Q"): ("N^-1/2", "N^-1/2", "N^-1 M", "N^-1", "M^-1"),
    ("regime2", "W_in"): ("N^-1/2", "N^-1/2", "N^-1 M", "N^-1", "M^-1"),
    ("regime2", "W_out"): ("N_e^-1/2", "M^1/2 N_e^-1/2", "N M", "N_e^-1", "N^-1 M^-1"),
    ("regime3", "Q"): ("N^-1/2", "N^-1/2", "1", "N^-1", "M^-1"),
    ("regime3", "W_in"): ("N^-1/2", "N^-1/2", "M", "N^-1", "N^-1 M^-1"),
    ("regime3", "W_out"): ("N_e^-1/2", "N_e^-1/2", "M", "N_e^-1", "N^-1 M^-1"),
    ("residual", "R"): ("N^-1", "N^-1", None, "N^-1", None),
    ("residual", "W1"): ("N^-1/2", "N^-1/2", None, "N^-1", None),
    ("residual", "W2"): ("N^1/2 N_e^-1", "N^1/2 N_e^-1", None, "N_e^-1", None),
}
COLUMNS = {"std": "std", "sgd": "lr, SGD", "adam": "lr, Adam", "eps": "eps"}
# The sizes that grow together in the limit of each network; others stay.
GROW = {"regime1": ("N", "N_e"), "regime2": ("N", "M"), "regime3": ("N", "M", "N_e"),
        "residual": ("N", "M")}


def recipe(network):
    """The recipe of a built-in network, in all of its parameterizations and the papers' units."""
    ini = {"network": {"model": network, **NETWORKS[network]}, "reference.widths": 64, **SMALL}
    found = dmft.recipe(ini, parameterizations=WORDS.get(network))
    return found.used_times(USED.get(network, {}))


def law(text):
    """The law that a text such as N^1/2 N_e^-1 is.

    >>> str(law("N^1/2 N_e^-1")), str(law("0"))
    ('N^1/2 N_e^-1', '0')
    """
    if text in ("0", "1"):
        return Law(float(text))
    words = (word.partition("^") for word in text.split())
    return Law(1.0, {name: Fraction(power or 1) for name, _, power in words})


def ratio(here, printed):
    """What is built over what is printed, gamma0 aside; None where both are zero."""
    if not here.coefficient and not printed.coefficient:
        return None
    if not here.coefficient or not printed.coefficient:
        return Law(here.coefficient)
    both = here * printed ** -1
    return Law(both.coefficient, {size: both.powers[size] for size in
                                  ("N", "M", "N_e", "L", "D") if size in both.powers})


def compared(made):
    """(network, tensor, parameterization, column, here, printed, ratio) of each printed entry."""
    for (network, tensor), (mup, mssp, sgd, adam, eps) in PRINTED.items():
        words = ("mup", "mssp") if network in WORDS else (None,)
        for word in words:
            printed = {"std": mssp if word == "mssp" else mup, "sgd": sgd, "adam": adam, "eps": eps}
            for column, text in printed.items():
                if text is None:
                    continue
                name = tensor
                if (network, word) == ("regime3", "mssp") and tensor != "Q":
                    # equal initial experts: a matrix that all begin with, and what each learns
                    name = tensor.replace("W_", "A_" if column == "std" else "P_")
                one = made[network][word, name] if word else made[network][name]
                here = one.numbers()[column]
                yield network, tensor, word, column, here, law(text), ratio(here, law(text))


def differences(made):
    """The rows of the table of what is not as printed."""
    found = {}
    for network, tensor, word, column, here, printed, by in compared(made):
        if by is not None and (by.powers or by.coefficient != 1):
            row = (network, tensor, COLUMNS[column], str(here), str(printed), str(by))
            found.setdefault(row, []).append(word or "")
    head = "| network | tensor | | parameterization | built | printed | built over printed |"
    return "\n".join([head, "|" + " --- |" * 7] + [
        f"| {row[0]} | {row[1]} | {row[2]} | {' '.join(words)} | {row[3]} | {row[4]} | {row[5]} |"
        for row, words in found.items()])


def recipes():
    """{network: recipe} of all of them."""
    with ThreadPoolExecutor(2) as threads:
        return dict(zip(NETWORKS, threads.map(recipe, NETWORKS)))


def tables(made):
    """{name: table} of all that the page has."""
    return {**{network: one.markdown() for network, one in made.items()},
            "differences": differences(made)}


def regenerated(text, made):
    """The page with the tables in it."""
    for name, table in made.items():
        begin = BEGIN.format(name)
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{PAGE}: has no table {begin} ... {END}")
        text = f"{before}{begin}\n\n{table}\n\n{END}{after}"
    return text


def main():
    text = PAGE.read_text(encoding="utf-8")
    new = regenerated(text, tables(recipes()))
    if "--update" in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    return int(new != text)


if __name__ == "__main__":
    sys.exit(main())
