"""Experts in a list, of which there are more at a larger size, as one tensor for each of their
parameters.

The names of these are those of the list's with * for the number, `experts.*.up.weight`. The module
itself computes as before: its list takes the matrices of an expert out of them when it is asked for
it, and merging.py makes one branch of those of all experts. While the module runs (`as_lists`) the
list has its members also where it is walked through, as by named_children.
"""
from __future__ import annotations

import collections
import contextlib

import torch
from torch import nn

from dmft.errors import InputError


LISTS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList)


class _Tree(nn.Module):
    """The parameters of all experts, under the names that those of one have."""

    def __init__(self, tensors: dict):
        super().__init__()
        for name, tensor in tensors.items():
            first, _, rest = name.partition(".")
            if not rest:
                self.register_parameter(first, tensor)
        for first in dict.fromkeys(name.partition(".")[0] for name in tensors if "." in name):
            self.add_module(first, _Tree({name[len(first) + 1:]: one for name, one
                                          in tensors.items() if name.startswith(first + ".")}))


_runs = [False]                         # whether a module is being run


@contextlib.contextmanager
def as_lists():
    """Within it all that is stacked has its members one by one, as the module is written for."""
    before, _runs[0] = _runs[0], True
    try:
        yield
    finally:
        _runs[0] = before


class Stacked(nn.ModuleList):
    """A list of modules whose parameters are one tensor for all of them."""

    @property
    def _modules(self) -> dict:
        return dict(zip(map(str, range(len(self))), self)) if _runs[0] else \
            self.__dict__["_modules"]

    def __getattr__(self, name: str):
        return self[int(name)] if _runs[0] and name.isdigit() else super().__getattr__(name)

    def _expert(self, e: int):
        of = dict(self.__dict__["_modules"]["*"].named_parameters())
        for name, (part, key) in self.__dict__["places"][e].items():
            part._parameters[key] = of[name][e]
        return self.__dict__["experts"][e]

    def __getstate__(self):             # of a copy, which takes them out of its own tensors
        for places in self.__dict__["places"]:
            for part, key in places.values():
                part._parameters[key] = None
        return self.__dict__

    def __len__(self):
        return len(self.__dict__["experts"])

    def __iter__(self):
        return (self._expert(e) for e in range(len(self)))

    def __getitem__(self, which):
        every = range(len(self))[which]
        return self._expert(every) if isinstance(every, int) else [self._expert(e) for e in every]


class StackedTensors(nn.ParameterList):
    """A list of parameters that are one tensor."""

    @property
    def _parameters(self) -> dict:
        return dict(zip(map(str, range(len(self))), self)) if _runs[0] else \
            self.__dict__["_parameters"]

    def __getitem__(self, which):
        every = range(len(self))[which]
        tensor = self.__dict__["_parameters"]["*"]
        return tensor[every] if isinstance(every, int) else [tensor[e] for e in every]


def places_of(one) -> list[dict]:
    """{path: (the module that has it, its name there)} of the parameters of each member."""
    if isinstance(one, nn.ParameterList):
        return [{"": (one, key)} if one._parameters.get(key) is not None else {}
                for key in map(str, range(len(one)))]    # others are None, or no tensors
    members = one.values() if isinstance(one, nn.ModuleDict) else one
    return [{path + "." * bool(path) + key: (part, key) for path, part in member.named_modules()
             for key in part._parameters if part._parameters[key] is not None}
            for member in members]


def at(place) -> torch.Tensor:
    part, key = place
    return part._parameters[key]


def lists_of(module: nn.Module) -> dict[str, tuple[int, str]]:
    """{name of a list of modules, or of parameters: (how many, why they cannot be one tensor for
    each parameter or "")}."""
    found = {}
    for name, one in module.named_modules():
        if not isinstance(one, LISTS):
            continue
        every = places_of(one)
        kinds = {tuple((type(part), path, at((part, key)).shape)
                       for path, (part, key) in places.items()) for places in every}
        learn = {tuple(at(place).requires_grad for place in places.values()) for places in every}
        if any(every):
            found[name] = len(every), \
                f"is a {type(one).__name__}, and no ModuleList or ParameterList" \
                if type(one) not in (nn.ModuleList, nn.ParameterList) else \
                "has only one at the smaller size" if len(every) < 2 else \
                "has members of several classes or shapes" if len(kinds) > 1 else \
                "has members of which some have parameters that do not learn" if len(learn) > 1 \
                else ""
    return found


def stacked(module: nn.Module, names) -> nn.Module:
    """The same module, with these lists of it stacked."""
    uses = collections.Counter(id(one) for part in module.modules()
                               for one in part._parameters.values())
    parts = set()
    for name in names:
        if any(name.startswith(outer + ".") for outer in names):
            raise InputError(f"{name} is a list within another list, and both have more members "
                             "at the larger size; give one of their lengths by counts=")
        one = module.get_submodule(name)
        every = places_of(one)
        for e, places in enumerate(every):
            for path, place in places.items():
                if uses[id(at(place))] > 1 or place in parts:
                    raise _used_twice(name, e, path)
            parts |= set(places.values())
        with torch.no_grad():
            tensors = {path: nn.Parameter(torch.stack([at(places[path]) for places in every]),
                                          at(every[0][path]).requires_grad) for path in every[0]}
        if isinstance(one, nn.ParameterList):
            one.__class__ = StackedTensors
            one._parameters.clear()
            one.register_parameter("*", tensors[""])
            continue
        one.__dict__.update(experts=list(one), places=every)
        one.__class__ = Stacked
        one._modules.clear()
        one._modules["*"] = _Tree(tensors)
    left = set(module.modules())
    for name in names:
        one = module.get_submodule(name)
        for e, places in enumerate(one.__dict__.get("places", ())):
            for path, (part, _) in places.items():
                if part in left:
                    raise _used_twice(name, e, path)
    return module


def _used_twice(name: str, e: int, path: str) -> InputError:
    return InputError(f"{name}.{e}{'.' * bool(path)}{path} is a parameter of something else, too, "
                      f"and each of a growing number of members of {name} must have its own; give "
                      "their number by counts=")


def of_lists(module: nn.Module) -> dict[str, list[str]]:
    """{parameter of a list that is stacked: the parameters of the experts that it has}."""
    return {f"{name}.*{path}": [f"{name}.{e}{path}" for e in range(len(one))]
            for name, one in module.named_modules() if isinstance(one, (Stacked, StackedTensors))
            for path in ([""] if isinstance(one, StackedTensors) else
                         ["." + path for path in one.__dict__["places"][0]])}


def list_of(name: str) -> str | None:
    """The list that a parameter of this name is stacked of."""
    words = name.split(".")
    return ".".join(words[:words.index("*")]) if "*" in words else None
