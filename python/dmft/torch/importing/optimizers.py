"""Somebody's optimizers as the keys of [training] and a group of each parameter.

A row says which optimizer of dmft-solve a class is, and how it moves what it has: along the
gradient (sgd), every entry by its own (adam), or a matrix as a whole (muon).
"""
from __future__ import annotations

import dataclasses

import torch

from dmft.errors import InputError
from dmft.torch.plans import MUON_RULES
from dmft.torch.several import Several
from dmft.torch.training import Lion, Momentum

ROWS = {torch.optim.SGD: ("momentum", "sgd"), Momentum: ("momentum", "sgd"),
        torch.optim.Adam: ("adam", "adam"), torch.optim.AdamW: ("adamw", "adam"),
        Lion: ("lion", "adam")}
if hasattr(torch.optim, "Muon"):        # since 2.9
    ROWS[torch.optim.Muon] = ("muon", "muon")
# What may move the rest beside Muon, with the value of training.rest_optimizer.
REST = {"gd": "gd", "adam": "adam", "adamw": "adam"}
STEPS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)      # of Muon's iteration
EPS = 1e-7                              # of Muon: the least norm that it divides by


@dataclasses.dataclass(frozen=True)
class Law:
    """keys: those of [training]. kind: how the optimizer moves things, or, with Muon, that of the
    rest; whole: whether Muon is among them."""
    keys: dict
    kind: str
    whole: bool


def kind_of(optimizer) -> str:
    """How one of his optimizers moves things."""
    return ROWS[type(optimizer)][1]


def _row_of(optimizer) -> tuple[str, str]:
    """Its row; Adam may be told to decay as AdamW does."""
    decoupled = any(group.get("decoupled_weight_decay") for group in optimizer.param_groups)
    return ROWS[torch.optim.AdamW if decoupled else type(optimizer)]


def law_of(optimizers: Several) -> Law:
    """The law of optimizers; what has no counterpart is refused in a sentence."""
    for one in optimizers.optimizers:
        _refuse(one)
    whole = [one for one in optimizers.optimizers if kind_of(one) == "muon"]
    rest = [one for one in optimizers.optimizers if one not in whole]
    keys, kind = _keys_of(rest) if rest else ({"training.optimizer": "gd"}, "sgd")
    if kind == "adam":
        keys |= {"training.eps": 1.0, "training.adam_eps": "outside", "training.adam_read_in": 1}
    if not whole:
        return Law(keys | {"training.eta0": 1.0}, kind, False)
    name = keys.pop("training.optimizer")
    if name not in REST:
        raise InputError(f"Muon beside {name}: a program moves what Muon leaves by SGD without "
                         "momentum, Adam or AdamW")
    keys |= {"training.optimizer": "muon", "training.eta0": 1.0,
             "training.rest_optimizer": REST[name], "training.rest_eta0": 1.0,
             "training.momentum": float(_shared(whole, "momentum")),
             "training.nesterov": "yes" if _shared(whole, "nesterov") else "no",
             "training.muon_heads": "together", "training.muon_experts": "together"}
    return Law(keys, kind, True)


def _shared(optimizers, key: str):
    """What all groups have."""
    found = [group.get(key) for one in optimizers for group in one.param_groups]
    if len(set(map(str, found))) > 1:
        raise InputError(f"groups of the optimizer differ in {key}: "
                         + ", ".join(sorted(set(map(str, found)))) + "; a program has one for all: "
                         "give them one")
    return found[0]


def _refuse(optimizer) -> None:
    kind, name = type(optimizer), type(optimizer).__name__
    if kind not in ROWS:
        raise InputError(f"the optimizer {name} is not known here; SGD, Adam, AdamW and Muon of "
                         "torch.optim are, and Lion and Momentum of dmft.torch")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise InputError(f"{name} has a hook around its step (register_step_pre_hook), and what it "
                         "does a program does not do; leave it out, and let training.clip of the "
                         "run clip gradients")
    for group in optimizer.param_groups:
        for word in ("maximize", "amsgrad", "nesterov", "dampening"):
            if group.get(word) and (word != "nesterov" or kind is torch.optim.SGD):
                raise InputError(f"{name} with {word} has no counterpart in a program; leave "
                                 "it out")
        if kind in (torch.optim.SGD, torch.optim.Adam) and group["weight_decay"] \
                and not group.get("decoupled_weight_decay"):
            raise InputError(f"weight_decay of {name} is added to the gradient, which a program "
                             "does not do; AdamW decays weights by themselves")
        if group.get("eps", 1) <= 0 and kind_of(optimizer) == "adam":
            raise InputError(f"{name} with eps = {group['eps']:g}: a program divides by a size "
                             "plus an eps above 0, by which its limit is smooth; give a small one, "
                             "such as eps=1e-8")
        if kind_of(optimizer) == "muon" and group["eps"] > EPS:
            raise InputError(f"Muon with eps = {group['eps']:g}: a program divides a matrix by its "
                             f"norm, however small; leave eps at {EPS:g}")
        if "ns_steps" in group and (group["ns_steps"], tuple(group["ns_coefficients"])) != (
                STEPS, COEFFICIENTS):
            raise InputError(f"Muon with ns_steps = {group['ns_steps']} and ns_coefficients = "
                             f"{tuple(group['ns_coefficients'])}: a program has {STEPS} steps and "
                             f"{COEFFICIENTS}; leave both out")


def _keys_of(optimizers) -> tuple[dict, str]:
    names = {_row_of(one) for one in optimizers}
    if len(names) > 1:
        raise InputError("different optimizers move the parameters ("
                         + " and ".join(sorted(type(one).__name__ for one in optimizers))
                         + "); a program has one, or Muon for matrices and one for the rest")
    (name, kind), = names
    if kind == "adam":
        beta1, beta2 = _shared(optimizers, "betas")
        return {"training.optimizer": name, "training.beta1": float(beta1),
                "training.beta2": float(beta2)}, kind
    momentum = _shared(optimizers, "momentum")
    return ({"training.optimizer": name, "training.momentum": momentum} if momentum else
            {"training.optimizer": "gd"}), kind


def group_of(optimizers: Several, parameter, name: str) -> tuple[str, dict] | None:
    """(how a parameter is moved, the group that it is in); under a schedule its rate is the first
    one."""
    found = [(kind_of(optimizer), group | {"lr": group.get("initial_lr", group["lr"])})
             for optimizer in optimizers.optimizers for group in optimizer.param_groups
             if any(one is parameter for one in group["params"])]
    if len(found) > 1:
        raise InputError(f"{name} is in {len(found)} of the optimizers, each of which moves it; "
                         "give it to one of them")
    return found[0] if found else None


def muon_rate(group, shape) -> float:
    """The number by which Muon multiplies the orthogonal matrix of a parameter of this shape."""
    return float(group["lr"]) * MUON_RULES[group["adjust_lr_fn"] or "original"](*shape)
