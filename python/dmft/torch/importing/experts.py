"""Experts in a list, of which there are more at a larger size, as one tensor for each of their
parameters.

The names of these are those of the list's with * for the number, `experts.*.up.weight`. The module
itself computes as before: its list takes the matrices of an expert out of them when it is asked for
it, and merging.py makes one branch of those of all experts.
"""
from __future__ import annotations

import torch
from torch import nn


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


class Stacked(nn.ModuleList):
    """A list of modules whose parameters are one tensor for all of them."""

    def _expert(self, e: int):
        of = dict(self._modules["*"].named_parameters())
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


def alike_lists(module: nn.Module) -> dict[str, int]:
    """{name of a list of modules that have the same parameters: how many they are}."""
    def of(one):
        return type(one), [(name, p.shape, p.requires_grad) for name, p in one.named_parameters()]
    return {name: len(one) for name, one in module.named_modules()
            if type(one) is nn.ModuleList and len(one) > 1 and any(True for _ in one.parameters())
            and all(of(other) == of(one[0]) for other in one)}


def stacked(module: nn.Module, names) -> nn.Module:
    """The same module, with these lists of it stacked."""
    for name in names:
        one = module.get_submodule(name)
        experts = list(one)
        places = [{path + "." * bool(path) + key: (part, key)
                   for path, part in expert.named_modules() for key in part._parameters
                   if part._parameters[key] is not None} for expert in experts]
        with torch.no_grad():
            tensors = {path: nn.Parameter(
                torch.stack([place[path][0]._parameters[place[path][1]] for place in places]),
                places[0][path][0]._parameters[places[0][path][1]].requires_grad)
                for path in places[0]}
        one.__class__ = Stacked
        one.__dict__.update(experts=experts, places=places)
        one._modules.clear()
        one._modules["*"] = _Tree(tensors)
    return module


def of_lists(module: nn.Module) -> dict[str, list[str]]:
    """{parameter of a list that is stacked: the parameters of the experts that it has}."""
    return {f"{name}.*.{path}": [f"{name}.{e}.{path}" for e in range(len(one))]
            for name, one in module.named_modules() if isinstance(one, Stacked)
            for path in one.__dict__["places"][0]}
