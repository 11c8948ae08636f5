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
from dmft.sizes import MEANING

PAGE = Path(__file__).resolve().parent.parent / "docs" / "theory" / "parameterizations.md"
BEGIN, END = "<!-- generated: {} -->", "<!-- end -->"
SMALL = {"data.inputs": 4, "training.optimizer": "adam"}
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
# B.1, and Table B.2 for what Adam does to W1, which acts on x, w and b; Hyperparameter Transfer
# with Mixture-of-Experts Layers, Table 1, which has Adam alone, with the router at its gamma = 1.
ENDS = {(f"regime{k}", tensor): (None, None, None, *adam) for k in (1, 2, 3)
        for tensor, adam in (("W1", ("D^-1", "N^-1")), ("w", ("N^-1", "1")))}
PRINTED = ENDS | {
    ("regime1", "b"): (None, None, None, "1", "1"),
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
    """The recipe of a built-in network, in all of its parameterizations."""
    ini = {"network": {"model": network, **NETWORKS[network]}, "reference.widths": 64, **SMALL}
    return dmft.recipe(ini, parameterizations=WORDS.get(network))


def of_papers(network, made, raw=False):
    """The same in the papers' units; raw: also of W1, which acts on x there."""
    factors = {one.name: Law(1.0, {"D": Fraction(1, 2)}) for one in made.tensors
               if raw and one.kind == "read_in"}
    return made.used_times(factors | USED.get(network, {}))


def law(text):
    """The law that a text such as N^1/2 N_e^-1 is.

    >>> str(law("N^1/2 N_e^-1")), str(law("0"))
    ('N^1/2 N_e^-1', '0')
    """
    if text in ("0", "1"):
        return Law(float(text))
    words = (word.partition("^") for word in text.split())
    return Law(1.0, {name: Fraction(power or 1) for name, _, power in words})


def ordered(law, sizes=tuple(MEANING)):
    """The powers of these sizes alone, in their order."""
    return Law(law.coefficient, {size: law.powers[size] for size in sizes if size in law.powers})


def ratio(here, printed):
    """What is built over what is printed, gamma0 aside; None where both are zero."""
    if not here.coefficient and not printed.coefficient:
        return None
    if not here.coefficient or not printed.coefficient:
        return Law(here.coefficient)
    return ordered(here * printed ** -1, ("N", "M", "N_e", "L", "D"))


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
                here = of_papers(network, made[network], tensor == "W1")
                one = here[word, name] if word else here[name]
                here = one.numbers()[column]
                yield network, tensor, word, column, here, law(text), ratio(here, law(text))


def differences(made):
    """The table of what is not as printed."""
    found = {}
    for network, tensor, word, column, here, printed, by in compared(made):
        if by is not None and (by.powers or by.coefficient != 1):
            row = (network, tensor, COLUMNS[column], str(here), str(printed), str(by))
            found.setdefault(row, []).append(word or "")
    head = "| network | tensor | | parameterization | built | printed | built over printed |"
    return "\n".join([head, "|" + " --- |" * 7] + [
        f"| {row[0]} | {row[1]} | {row[2]} | {' '.join(words)} | {row[3]} | {row[4]} | {row[5]} |"
        for row, words in found.items()])


def of_entries(one):
    """(eta/eta0, eps/eps0) of Adam on D, the learned part in units of order one, from what Adam has
    of a tensor V: D is m V, or gamma0 m V of a read-out, m the sites that it averages over, and the
    gradient of an average over n sites has 1/n and 1/gamma0 less."""
    gamma0 = Law(1.0, {"gamma0": Fraction(1)})
    eta, eps = one.adam, one.eps * gamma0
    if one.kind in ("map", "look", "read_out"):
        eta *= one.columns
    if one.kind in ("map", "read_in"):
        eps *= one.rows
    if one.kind == "read_out":
        eta, eps = eta * gamma0, one.eps
    return ordered(eta), ordered(eps)


def of_adam(made):
    """The table of what Adam has: of W in the papers' units, and of D."""
    printed = {}
    for network, tensor, word, column, _, _, by in compared(made):
        if column in ("adam", "eps"):
            same = not by.powers and by.coefficient == 1
            printed.setdefault((network, word, tensor), []).append(same)
    head = ["network", "tensor", "parameterization", "rate of W", "nu", "as printed", "eta/eta0",
            "eps/eps0"]
    found = {}
    for network, one in made.items():
        for mine, W in zip(one.tensors, of_papers(network, one, True).tensors):
            if mine.adam is not None and mine.point in (None, "mup", "mssp"):
                name = mine.name.replace("P_", "W_") if mine.point == "mssp" else mine.name
                same = printed.get((network, mine.point, name))
                told = "" if same is None else "yes" if all(same) else "no"
                row = (network, mine.name, ordered(W.adam), ordered(W.eps), told, *of_entries(mine))
                found.setdefault(tuple(map(str, row)), []).append(mine.point or "")
    rows = [head, ["---"] * len(head)] + [[*row[:2], " ".join(words), *row[2:]]
                                         for row, words in found.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def recipes():
    """{network: recipe} of all of them."""
    with ThreadPoolExecutor(2) as threads:
        return dict(zip(NETWORKS, threads.map(recipe, NETWORKS)))


def tables(made):
    """{name: table} of all that the page has."""
    return {**{network: of_papers(network, one).markdown() for network, one in made.items()},
            "differences": differences(made), "adam": of_adam(made)}


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
