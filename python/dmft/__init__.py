"""The infinite-width limit of a network's training, beside finite networks, from Python.

    import dmft
    run = dmft.solve("data/regime2.ini", **{"training.eta0": 0.5})
    run.limit["loss"], run.limit["loss_se"]     # xarray, with the names of their axes
    run.reference[256]["loss"]                  # networks of width 256

dmft.solve, dmft.sweep and dmft.compare run the programs of these names, dmft.resume goes on with a
run; dmft.load reads what they wrote, whole or in progress, and dmft.diff says in what two results
differ. dmft.Network is a network written in Python; dmft.describe gives any network as data,
dmft.recipe says how to train it in code of your own, dmft.equations is its mean-field theory,
dmft.draw its picture, dmft.torch makes it a module of PyTorch. dmft.plot draws what runs computed
(pip install "dmft[plot]", or dmft-plot FILE.h5).
dmft.docs() lists the documents, and shows a page or what a key means; dmft.examples(FOLDER) puts
the inis that they start from into a folder.
"""
from dmft.block_axis import blocks
from dmft.description import Description
from dmft.diff import Diff, diff
from dmft.drawing import draw
from dmft.errors import (DmftError, InputError, Interrupted, NoteWarning, NumericalFailure,
                         SystemFailure)
from dmft.examples import examples
from dmft.extrapolation import collapse, exponent, extrapolate, richardson
from dmft.files import Note, Result, load, valid
from dmft.network import Network
from dmft.pages import docs
from dmft.recipe import Recipe, recipe
from dmft.run import compare, describe, resume, solve, sweep
from dmft.statistics import difference, jackknife
from dmft.theory import equations
from dmft.transfer import Drift, Transfer, transfer

__all__ = ["solve", "sweep", "compare", "resume", "load", "valid", "describe", "recipe",
           "equations", "draw", "diff", "Diff", "jackknife", "difference", "extrapolate",
           "richardson", "exponent", "collapse", "blocks", "docs", "examples", "transfer",
           "Transfer", "Drift", "Description", "Recipe", "Network", "Result", "Note", "DmftError",
           "SystemFailure", "InputError", "NumericalFailure", "Interrupted", "NoteWarning"]
__version__ = "0.1.0"
