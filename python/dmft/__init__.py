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
import importlib
import sys
import types

# What each module gives; it is imported when it is first asked for, because xarray, which most of
# them use, takes longer to import than a small run takes.
_GIVES = {
    "block_axis": "blocks", "description": "Description", "diff": "Diff diff",
    "drawing": "draw",
    "errors": "DmftError InputError Interrupted NoteWarning NumericalFailure SystemFailure",
    "examples": "examples", "extrapolation": "collapse exponent extrapolate richardson",
    "files": "Note Result load valid", "network": "Network", "pages": "docs",
    "recipe": "Recipe recipe", "run": "compare describe resume solve sweep",
    "statistics": "difference jackknife", "theory": "equations",
    "transfer": "Drift Transfer transfer"}
_HOME = {name: module for module, names in _GIVES.items() for name in names.split()}

__all__ = list(_HOME)
__version__ = "0.1.0"


class _Package(types.ModuleType):
    """Names of this package are what they are in _HOME, also where a module of the same name is
    imported, which Python would put in the place of its function."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(f"module 'dmft' has no attribute '{name}'")
        home = f"dmft.{_HOME.get(name, name)}"
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError as error:
            if error.name != home:
                raise
            raise AttributeError(f"module 'dmft' has no attribute '{name}'") from None
        value = getattr(module, name) if name in _HOME else module
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value) -> None:
        if name in _HOME and isinstance(value, types.ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self):
        return sorted({*super().__dir__(), *_HOME})


sys.modules[__name__].__class__ = _Package
