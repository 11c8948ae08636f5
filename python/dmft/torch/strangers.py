"""Lines of somebody's own code, and what it ends with, in a sentence."""
from __future__ import annotations

import linecache
import os
import re
import traceback

import torch

from dmft.errors import InputError

HALF = (torch.float16, torch.bfloat16)
_TORCH = os.path.dirname(torch.__file__) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Files of ours that call somebody's code. Others may be that of a module: our own networks.
_CALLS = tuple(_HERE + one for one in ("importing" + os.sep, "strangers.py", "several.py",
               "coordinates.py", "watching.py", "token_rows.py", "exponents.py",
               "optimizer_laws.py", "same_outputs.py"))
DEVICE = "build the module, and give its inputs, on the processor"
# What to do where PyTorch ends with these words, whatever it was that ended.
KEPT = "an autograd.Function that is kept by its apply (gelu = Gelu.apply) is not seen; call " \
    "Gelu.apply(x) where it is used"
MENDS = {"autograd.Function": KEPT, "custom_function_call": KEPT,
         "Inference tensors": "take torch.no_grad() in the place of inference_mode()",
         "does not require grad": "let some of its parameters learn, by requires_grad = True",
         "argument: 'closure'": "take an optimizer whose step() needs gradients alone",
         "have the same dtype": "build the module in one type, and give inputs of this type",
         "same device": DEVICE, "expected device": DEVICE, "NVIDIA driver": DEVICE,
         "CUDA enabled": DEVICE}
TAKES = "give inputs of the shape and the type that it takes in training"


def is_users(file: str) -> bool:
    """Whether it is a file of the module, or of a package that it uses, but for PyTorch."""
    return not file.startswith((_TORCH, *_CALLS, "<")) and (
        not file.startswith(_PYTHON) or "-packages" in file)


def line_of(file: str, line: int) -> str:
    """FILE:LINE: its text."""
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text}" if text else "")


def place_of(function) -> str:
    """The line where somebody's function begins, in brackets behind a blank, or nothing."""
    code = getattr(function, "__code__", None)
    return f" ({line_of(code.co_filename, code.co_firstlineno)})" \
        if code and is_users(code.co_filename) else ""


def said_of(error: Exception, mend: str = TAKES) -> str:
    """The first sentence that somebody's code ends with, what to do, and the last line of his where
    it did."""
    first = re.split(r"\.?(?:\.\s|\n|$)", str(error), maxsplit=1)[0]
    mend = next((one for words, one in MENDS.items() if words in str(error)), mend)
    lines = [one for one in traceback.extract_tb(error.__traceback__) if is_users(one.filename)]
    return f"{type(error).__name__}: {first}; {mend}" + (
        f" ({line_of(lines[-1].filename, lines[-1].lineno)})" if lines else "")


def refuse_no_function(build) -> None:
    """Refuses what a user gives as `build` if it makes no modules."""
    if not callable(build) or isinstance(build, torch.nn.Module):
        raise InputError(f"build is a {type(build).__name__}; it must be a function of the width "
                         "that makes the module")


def as_module(made, N) -> torch.nn.Module:
    """What a user's build(N) has made, if that is a module. N: the sizes, for the sentence."""
    if not isinstance(made, torch.nn.Module):
        raise InputError(f"build({N}) gives a {type(made).__name__}, which is no torch.nn.Module; "
                         "let it return the module")
    if isinstance(made, torch.jit.ScriptModule):
        raise InputError(f"build({N}) gives a module of torch.jit, of which Python sees no "
                         "operation; let it return the module itself")
    return made


def built(build, N: int) -> torch.nn.Module:
    """The module that somebody's function makes."""
    return as_module(called(f"build({N})", "give other widths", build, N), N)


def called(what: str, mend: str, function, *given):
    """function(*given) of somebody's own; an InputError, "WHAT ends with ...", where it does."""
    try:
        return function(*given)
    except InputError:
        raise
    except Exception as error:          # of a stranger's code
        raise InputError(f"{what} ends with {said_of(error, mend)}") from error
