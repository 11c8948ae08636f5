"""A module is run once, and what it computes is written down: a Step for each operation.

    record = run(module, example, output)
    record.steps[3].operation           # "aten.mm"
    record.steps[3].place               # "model.py:17: return self.head(x)"

PyTorch itself takes in-place operations and views apart (torch.func.functionalize), so that each
step is a function of earlier values. Loops of Python are written out, and real values decide about
branches. Everything is computed in double precision, also where the module asks for float32.
"""
from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections import OrderedDict

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointFunction
from torch.utils.hooks import RemovableHandle
from torch.utils._python_dispatch import TorchDispatchMode

from dmft.errors import InputError
from dmft.torch.importing.experts import as_lists
from dmft.torch.importing.random_numbers import (BERNOULLI, NORMAL, is_random, mean_of, name_of,
                                                 normals_of)
from dmft.torch.strangers import HALF, is_users, line_of, place_of

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
GROUPED = "aten._grouped_mm.default"


@dataclasses.dataclass
class Step:
    """One operation. Arguments and results are as PyTorch has them; a tensor among them stands for
    itself. `known`: the values of results that depend on no parameter and on no input, else
    None."""
    operation: str
    arguments: tuple
    options: dict
    results: tuple
    known: tuple | None
    stopped: bool                       # computed where gradients are switched off
    place: str


@dataclasses.dataclass
class Record:
    """What a module computed: its steps, its parameters and buffers by name, the input, the
    output, what it adds to the loss, and lines: with random numbers that became their means, of
    half precision, where gradients are held back, where buffers are written, where numbers are
    taken out of tensors, and where these decide about a branch, with the answers so far."""
    steps: list[Step]
    parameters: dict[str, torch.Tensor]
    input: torch.Tensor
    output: torch.Tensor
    penalties: tuple
    means: list[str]
    halves: list[str]
    held: list[str]
    written: list[str]
    taken: list[str]
    decided: dict[str, set[bool]]


def _place(above: int = 2) -> str:
    """The line of the module that is being run: the innermost one outside of PyTorch."""
    frame = sys._getframe(above)
    while frame:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == "pure" and file.startswith(_HERE):
            break                       # what calls the module
        if is_users(file):
            return line_of(file, frame.f_lineno)
        frame = frame.f_back
    return "the module"


def grouped_product(x, weight, offs=None, *_, **__) -> torch.Tensor:
    """PyTorch's grouped product in double precision, which it does not have: rows [S, k] up to
    each of the ends times their matrix [E, k, n]; or columns [k, S] times rows [S, n], summed up to
    each of them, [E, k, n]."""
    ends = offs.tolist()
    sizes = [b - a for a, b in zip([0, *ends], ends)]
    if weight.dim() == 3:
        return torch.cat([rows @ one for rows, one in zip(x.split(sizes), weight)])
    return torch.stack([a @ b for a, b in zip(x.split(sizes, 1), weight.split(sizes))])


def _doubled(options, halves: list[str]) -> dict:
    """Options of an operation, in double precision; a line that asks for half of it is noted."""
    asked = (options or {}).get("dtype")
    if asked in HALF:
        halves.append(f"{asked} at {_place(3)}")
    single = asked == torch.float32 or asked in HALF
    return (options or {}) | ({"dtype": torch.float64} if single else {})


class InDouble(TorchDispatchMode):
    """What asks for float32 or less gets float64; `halves`: where less was asked for. normals: a
    list of what is drawn, which grows; other random numbers are then their means. decided: of a
    record, which gets answers."""

    def __init__(self, normals: list | None = None, decided=()):
        super().__init__()
        self.normals, self.decided = normals, decided
        self.halves: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        options = _doubled(kwargs, self.halves)
        if str(function) == GROUPED:
            return grouped_product(*args, **options)
        if self.normals is None:
            return function(*args, **options)
        if name_of(function) in NORMAL:
            return normals_of(function, args, options, self.normals)
        mean, _ = mean_of(function, args, options)
        found = function(*args, **options) if mean is None else mean
        if isinstance(found, bool) and self.decided and (place := _place()) in self.decided:
            self.decided[place].add(found)
        return found


_default = threading.RLock()            # the default type is one for all threads


@contextlib.contextmanager
def doubles():
    """Within it tensors are made in double precision. Another thread that wants the same waits: it
    would take what this one has set for the type to go back to."""
    with _default:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def _listed(tensor: torch.Tensor):
    return [_listed(part) for part in tensor] if tensor.dim() else tensor.item()


# Ways out of PyTorch, and those of them by which constants may go.
READS = ("numpy", "__array__")
OUTSIDE = (*READS, "__dlpack__", "__deepcopy__", "__reduce_ex__", "apply_", "map_", "map2_")


def _within(value):
    """The tensor that functionalize has wrapped, with what has been written into it."""
    if not isinstance(value, torch.Tensor) or not torch._is_functional_tensor(value):
        return value
    torch._sync(value)
    return torch._from_functional_tensor(value)


# What lets other gradients through than those of what is computed, or none.
HOLDING = (torch.Tensor.register_hook, torch.Tensor.data.__get__, torch.Tensor.detach)


class _AsInTraining(TorchFunctionMode):
    """What functionalize refuses, or does not know: tolist() goes number by number, and what is
    computed has a gradient, as in training. unknown: that of the recorder."""

    def __init__(self, unknown: set[int]):
        super().__init__()
        self.unknown, self.held = unknown, []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.tolist:
            return _listed(args[0])
        if function == torch.Tensor.requires_grad.__get__:
            return args[0].is_floating_point() and torch.is_grad_enabled()
        if function is torch.Tensor.requires_grad_:
            return args[0]
        if function in HOLDING:
            self.held.append(_place())
        if function is torch.Tensor.register_hook:  # what it does to a gradient is found later
            return RemovableHandle(OrderedDict())
        if function == torch.Tensor.data.__get__:
            return args[0].detach()
        name = getattr(function, "__name__", "")
        if name in OUTSIDE:
            inner = [_within(one) for one in args]
            if name not in READS or any(id(one) in self.unknown for one in inner):
                raise InputError(f"{name}: numbers of a tensor {list(args[0].shape)} leave "
                                 "PyTorch, where neither a program nor a gradient goes with them; "
                                 f"write it with operations of torch ({_place()})")
            return function(*inner, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


class _Context:
    """What a torch.autograd.Function keeps for its backward, which is not called."""

    def __init__(self, count: int):
        self.needs_input_grad = (True,) * count

    def save_for_backward(self, *kept) -> None:
        self.saved_tensors = kept

    def nothing(self, *_) -> None:
        """Of what is said of outputs."""

    mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_forward = nothing


@contextlib.contextmanager
def _forward_alone(held: list[str]):
    """Within it a torch.autograd.Function, which functionalize refuses, is what its forward
    computes, and hooks of modules on gradients do nothing; whether gradients are other ones is
    found later. held: to it lines are added."""
    Function, Hook = torch.autograd.Function, torch.utils.hooks.BackwardHook

    def apply(kind, *given, **named):
        if kind is CheckpointFunction:          # function, whether random numbers are kept, ...
            return given[0](*given[2:])
        held.append(_place())
        if kind.setup_context is not Function.setup_context:
            return kind.forward(*given, **named)
        return kind.forward(_Context(len(given)), *given, **named)
    kept = Function.__dict__["apply"], Hook._apply_on_tensors
    Function.apply, Hook._apply_on_tensors = classmethod(apply), lambda _, __, args: (args, None)
    try:
        yield
    finally:
        Function.apply, Hook._apply_on_tensors = kept


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)


class Recorder(TorchDispatchMode):
    """Writes steps down; `unknown` holds the tensors that depend on parameters or inputs. like: a
    step in whose place others are written."""

    def __init__(self):
        super().__init__()
        self.like: Step | None = None
        self.steps: list[Step] = []
        self.unknown: set[int] = set()
        self.means: list[str] = []      # lines with random numbers that became their means
        self.halves: list[str] = []     # lines that ask for half precision
        self.taken: list[str] = []      # lines that make numbers of tensors
        self.decided: dict[str, set[bool]] = {}     # lines that make decisions of them
        self._at: dict[int, dict] = {}  # {a place of memory: {id: a tensor that is there}}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        options = _doubled(kwargs, self.halves)
        name = str(function).rsplit(".", 1)[0].removeprefix("aten.")
        found, of = mean_of(function, args, options)
        stopped = self.like.stopped if self.like else not torch.is_grad_enabled()
        if found is not None:
            self.means.append(_place())
            stopped |= name.rstrip("_") == BERNOULLI    # no gradient goes to a probability
            name, args, options = "clone", (of,), {}
        elif str(function) == GROUPED:
            found = grouped_product(*args, **options)
        else:
            found = function(*args, **options)
        known = not any(id(one) in self.unknown for one in tensors([args, *options.values()]))
        if name.rstrip("_").endswith("_like") or name.startswith("new_"):
            known = True
        if is_random(name):
            known = False
        results = tuple(tensors(found))
        if name == "_local_scalar_dense" and not known:
            if isinstance(found, float):
                self.taken.append(_place())
            elif isinstance(found, bool):
                self.decided.setdefault(_place(), set()).add(found)
        if not known:
            self.unknown.update(id(one) for one in results)
        values = tuple(_values(one, name) for one in results) if known else None
        self.steps.append(Step(name, args, options, results or (found,), values,
                               stopped, self.like.place if self.like else _place()))
        for one in results:
            self._written_by(function, one, known)
        return found

    def _written_by(self, function, one: torch.Tensor, known: bool) -> None:
        """Keeps where a result is; what else is there has been written, too, by an operation in
        place, as those are that functionalize does not see within others of PyTorch."""
        there = self._at.setdefault(one.untyped_storage().data_ptr(), {})
        for other in function._schema.is_mutable and there.values() or ():
            if other is not one and _overlap(other, one):
                self.steps.append(Step("_written_in_part", (other, one), {}, (other,),
                                       (_values(other, ""),) if known else None, False, _place()))
                self.unknown |= set() if known else {id(other)}
        there[id(one)] = one


def _overlap(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether two tensors in one place of memory have a number in common."""
    if one.dtype != two.dtype:
        return True
    every = torch.arange(one.untyped_storage().nbytes() // one.element_size())
    places = [every.as_strided(x.shape, x.stride(), x.storage_offset()) for x in (one, two)]
    return bool(torch.isin(*places).any())


def numbers_of(tensor: torch.Tensor):
    """A tensor's values in double precision, for numpy."""
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64).numpy()


def _values(tensor: torch.Tensor, name: str):
    """A copy of the values; zeros of what is still to be written."""
    return numbers_of(tensor).copy() if "empty" not in name else np.zeros(tensor.shape)


def first_output(module, x, output=None):
    """(the output, what is added to the loss) of what a module, or output(module, x), returns: a
    tensor; a tuple of it and of numbers that are terms of the loss; a tuple, dict or object with
    logits."""
    found = output(module, x) if output else module(x)
    if isinstance(found, torch.Tensor):
        return found, ()
    if isinstance(found, dict) and "logits" in found:
        return found["logits"], ()
    if hasattr(found, "logits"):
        return found.logits, ()
    if isinstance(found, (tuple, list)) and found and isinstance(found[0], torch.Tensor):
        terms = [one for one in found[1:] if one is not None]
        if all(isinstance(one, torch.Tensor) and one.dim() == 0 for one in terms):
            return found[0], tuple(terms)
    raise InputError(f"the module returns a {type(found).__name__}; give output=, a function "
                     "(module, x) of its output, or of (output, term of the loss, ...)"
                     + place_of(output or type(module).forward))


def call(module: torch.nn.Module, x: torch.Tensor, output=None, normals: list | None = None,
         decided=(), seed: int = 0):
    """(output, terms of the loss) of a module, with the normals of a seed, which are added to a
    list; decided: as InDouble has it."""
    with torch.random.fork_rng(devices=[]), InDouble([] if normals is None else normals, decided), \
            doubles(), as_lists():
        torch.manual_seed(seed)
        return first_output(module, x, output)


@contextlib.contextmanager
def _put(module: torch.nn.Module, tensors: dict[str, torch.Tensor]):
    """Within it the module has these parameters and buffers, under all of their names; a module
    that is a part of it twice has its own ones again behind it."""
    given = {id(one): tensors[name]
             for name, one in [*module.named_parameters(), *module.named_buffers()]}
    kept = [(table, key, one) for part in module.modules()
            for table in (part._parameters, part._buffers) for key, one in table.items()
            if id(one) in given]
    try:
        for table, key, one in kept:
            table[key] = given[id(one)]
        yield
    finally:
        for table, key, one in kept:
            table[key] = one


def _written(tensors: dict, parameters, recorder: Recorder) -> list[str]:
    """The lines of a module that change its buffers; one that changes a parameter is refused."""
    made = {id(one): step.place for step in recorder.steps for one in step.results}
    found = []
    for name, one in tensors.items():
        place = made.get(id(_within(one)))
        if place and name in parameters:
            raise InputError(f"the module writes into its parameter {name}, which training alone "
                             f"changes in a program; do it in build, or behind steps ({place})")
        found += [place] * bool(place)
    return found


def run(module: torch.nn.Module, x: torch.Tensor, output=None) -> Record:
    """The record of a module in double precision at the input x."""
    parameters = dict(module.named_parameters())
    kept = parameters | dict(module.named_buffers())
    recorder, written = Recorder(), []
    recorder.unknown.update(id(one) for one in [*parameters.values(), x])

    def pure(tensors, given):
        tensors = {name: one if name in parameters else one.clone()     # as before any writing
                   for name, one in tensors.items()}
        with _put(module, tensors):
            with doubles(), as_lists():
                found, terms = first_output(module, given, output)
            written.extend(_written(tensors, parameters, recorder))
            return tuple(one.clone() for one in (found, *terms))

    training = _AsInTraining(recorder.unknown)
    with sdpa_kernel(SDPBackend.MATH), recorder, training, _forward_alone(training.held):
        found, *terms = torch.func.functionalize(pure)(kept, x)
    return Record(recorder.steps, parameters, x, found, tuple(terms), recorder.means,
                  recorder.halves, training.held, written, recorder.taken, recorder.decided)
