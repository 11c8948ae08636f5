"""The rows of the programs, as `dmft-solve --operations` prints them and operations.tsv keeps them
(make words): words of networks, optimizers, losses."""
import os

with open(os.path.join(os.path.dirname(__file__), "operations.tsv"), encoding="utf-8") as _lines:
    _ROWS = [line.rstrip("\n").split("\t") for line in _lines]
# {optimizer: how it moves a matrix}: along its gradients ("matrix"), every entry by its own
# ("entry"), or by a function of the whole gradient ("whole").
OPTIMIZERS = {row[1]: row[2] for row in _ROWS if row[0] == "Optimizers"}
# {loss: its formula in TeX}
LOSSES = {row[1]: row[4] for row in _ROWS if row[0] == "Losses"}
# {word: (arguments, what it gives, what it is)}
WORDS = {name: (arguments, gives, about) for chapter, name, arguments, gives, about, _ in _ROWS
         if chapter not in ("Optimizers", "Losses")}
