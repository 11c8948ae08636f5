"""A plan: initial scales and learning rates of a model at any size. It needs PyTorch alone.

    plan = Plan.load("plan.json")       # of dmft.torch.plan(build, example, base={"N": 256}).save
    model = build(4096)
    plan.initialize(model)
    optimizer = torch.optim.AdamW(plan.groups(model, lr=3e-4, weight_decay=0.1))

This file stands by itself: copy it to where you train, and import it from there. At the base size
your numbers are what they were; at another they are multiplied by powers of the ratios of the
sizes (docs/plan.md). Parameters go by their names, so that torch.compile, DistributedDataParallel
and FSDP may have wrapped the model.
"""
from __future__ import annotations

import fnmatch
import json
import math
import re

import torch

try:                                    # beside the program bad input has its own class
    from dmft.errors import InputError
except ImportError:
    class InputError(ValueError):
        """Bad input, in one sentence."""

FORMAT = 1
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")            # of a block or an expert, in a name
WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# Which rates an optimizer of torch.optim has: along the gradient, or of each entry by itself.
LAWS = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam", "lion": "adam"}
ROUND_OFF = 1e-6


def plain_name(name: str) -> str:
    """The name of a parameter without what wrappers put into it.

    >>> plain_name("module._orig_mod.up.0.weight")
    'up.0.weight'
    """
    return ".".join(word for word in name.split(".") if word not in WRAPPERS)


def pattern_of(name: str) -> str:
    """A name with * for the number of a block or an expert."""
    return NUMBER.sub("*", name)


def power(law: dict, ratios: dict) -> float:
    """Ratios of sizes to the powers of a law.

    >>> power({"N": -0.5}, {"N": 4, "M": 2})
    0.5
    """
    return math.prod(ratios[size] ** float(up) for size, up in law.items())


class Plan:
    """Laws of all parameters of a model. `base`: the sizes at which your numbers hold; `notes`:
    which lines of the module are to be changed, and how; print it to see all laws."""

    def __init__(self, content: dict):
        self._content = content
        self.base, self.notes = content["base"], content["notes"]
        self.parameterization = content["parameterization"]
        self._entries = content["parameters"]

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Writes the plan, as JSON."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(self._content, indent=1) + "\n")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str) -> Plan:
        """A plan that was saved."""
        try:
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except ValueError:
            raise InputError(f"{path} is no plan: it is no JSON") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            found = content.get("format") if isinstance(content, dict) else None
            raise InputError(f"{path} is no plan of format {FORMAT} (its format is {found}); "
                             "dmft.torch.plan(...).save makes one")
        missing = [key for key in ("base", "counts", "notes", "parameterization", "parameters")
                   if key not in content]
        empty = [key for key in ("base", "parameters") if not content.get(key)]
        if missing or empty:
            raise InputError(f"{path} is no whole plan: {(missing + empty)[0]} is "
                             f"{'missing' if missing else 'empty'}; "
                             "dmft.torch.plan(...).save makes one")
        return cls(content)

    # --- sizes -----------------------------------------------------------------------------------

    def sizes(self, model: torch.nn.Module) -> dict:
        """The sizes of a model, from the shapes and the number of its parameters."""
        return self._sizes_of(self._shapes(model))

    def _shapes(self, model) -> list:
        return [(entry, one.shape, name) for name, entry, one in self._matched(model)]

    def _sizes_of(self, pairs) -> dict:
        found = {}
        for size, count in self._content["counts"].items():
            pattern = plain_name(count["pattern"])
            numbers = {name for _, _, name in pairs if pattern_of(name) == pattern}
            found[size] = len(numbers) / count["each"]
        for _ in self.base:             # each dimension that has one unknown size gives it
            for entry, shape, _ in pairs:
                for (c, law), have in zip(entry["shape"], shape):
                    unknown = [size for size in law if size not in found]
                    if len(unknown) == 1:
                        (size,) = unknown
                        rest = c * math.prod(found[one] ** up for one, up in law.items()
                                             if one != size)
                        found[size] = (have / rest) ** (1 / law[size])
        missing = [size for size in self.base if size not in found]
        if missing:
            raise InputError(f"no parameter of the model tells its {missing[0]}; give sizes=")
        found = {size: self._whole(size, found[size]) for size in self.base}
        self._check_shapes(pairs, found)
        return found

    @staticmethod
    def _check_shapes(pairs, found: dict) -> None:
        for entry, shape, name in pairs:
            wanted = [None if c is None else c * power(law, found) for c, law in entry["shape"]]
            if any(one and abs(one - have) > ROUND_OFF * one for one, have in zip(wanted, shape)):
                said = ", ".join(f"{size} = {value}" for size, value in found.items())
                raise InputError(f"{name} has the shape {list(shape)}, and in this plan it is "
                                 f"{[one and round(one, 3) for one in wanted]} at {said}; "
                                 "the plan is of another module")

    @staticmethod
    def _whole(size: str, value: float) -> int:
        if abs(value - round(value)) > ROUND_OFF * value:
            raise InputError(f"{size} of the model would be {value:.6g}, which is no whole number; "
                             "the plan is of another module")
        return round(value)

    def _known_sizes(self, model, sizes: dict | None) -> dict:
        if sizes is not None:
            if set(sizes) != set(self.base):
                raise InputError(f"sizes: {sorted(sizes)} are given, and the plan has "
                                 f"{sorted(self.base)}")
            for size, value in sizes.items():
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InputError(f"sizes: {size} is {value!r}, and a whole number of at least "
                                     "1 is wanted")
        pairs = self._shapes(model)
        if not any(len(shape) == 1 and len(entry["shape"]) > 1 for entry, shape, _ in pairs):
            if sizes is None:
                return self._sizes_of(pairs)
            self._check_shapes(pairs, sizes)
            return dict(sizes)
        # FSDP has flattened the parameters
        kept = [one._plan_sizes for one in model.modules() if hasattr(one, "_plan_sizes")]
        if sizes is None and not kept:
            raise InputError("the parameters have lost their shapes (FSDP): call initialize before "
                             "the model is wrapped, or give sizes=")
        return dict(kept[0] if sizes is None else sizes)

    # --- parameters ------------------------------------------------------------------------------

    def _matched(self, model):
        """[(name, its entry, the parameter)] of all parameters of a model."""
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"the model is a {type(model).__name__}, and a torch.nn.Module is "
                             "wanted")
        exact = {plain_name(name): entry for entry in self._entries for name in entry["names"]}
        alike: dict = {}
        for entry in self._entries:
            alike.setdefault(pattern_of(plain_name(entry["names"][0])), []).append(entry)
        found = []
        for wrapped, parameter in model.named_parameters():
            name = plain_name(wrapped)
            entry = exact.get(name)
            others = alike.get(pattern_of(name), [])
            if entry is None and len(others) == 1 and self._content["counts"]:
                entry = others[0]       # of a block more than were traced
            if entry is None and name.split(".")[-1] == "_flat_param":
                raise InputError("FSDP has put several parameters into one: wrap with "
                                 "use_orig_params=True, or call groups before the model is wrapped")
            if entry is None:
                raise InputError(f"the plan has no parameter {name}; it was made of a module with "
                                 + " ".join(one["names"][0] for one in self._entries))
            found.append((name, entry, parameter))
        have = {pattern_of(name) for name, _, _ in found}
        lost = [entry["names"][0] for entry in self._entries
                if pattern_of(plain_name(entry["names"][0])) not in have]
        if lost:
            raise InputError(f"the model has no parameter {lost[0]}, which the plan has; the plan "
                             "is of another module")
        return found

    # --- what a training script calls ------------------------------------------------------------

    @torch.no_grad()
    def initialize(self, model: torch.nn.Module, sizes: dict | None = None) -> torch.nn.Module:
        """Multiplies the parameters of a model, as its own constructor drew them, so that their
        standard deviations are those of the plan. Call it once, before anything wraps or trains
        the model. Matrices that all experts share at the start become that of the first."""
        matched = self._matched(model)
        if getattr(model, "_plan_initialized", False):
            raise InputError("this model was initialized before; a second time would scale it "
                             "again")
        for name, _, parameter in matched:
            if parameter.is_meta:
                raise InputError(f"{name} is on the meta device and has no numbers yet; initialize "
                                 "the model after it has been materialized")
        known = self._known_sizes(model, sizes)
        ratios = self._ratios(known)
        for _, entry, parameter in matched:
            for part in entry["parts"]:
                block = parameter[_index(part["at"], parameter.shape)] if part["at"] else parameter
                if part["equal"] is not None:
                    first = block.select(part["equal"], 0).unsqueeze(part["equal"]).clone()
                    block.copy_(first.expand_as(block))
                if part["own"] is not None:
                    factor = power(part["std"], ratios) / power(part["own"], ratios)
                else:                   # its own start is no power of the sizes
                    std = block.double().square().mean().sqrt().item()
                    factor = part["at_base"] * power(part["std"], ratios) / std if std else 1.0
                if factor != 1:
                    block.mul_(factor)
        model._plan_initialized, model._plan_sizes = True, known
        return model

    def groups(self, model: torch.nn.Module, lr, weight_decay=0.0, *, eps: float = 1e-8,
               optimizer: str = "adamw", sizes: dict | None = None, only=None) -> list[dict]:
        """Groups for torch.optim with the plan's rates: lr, eps and weight_decay are yours at the
        base size. optimizer: adamw, adam, lion, sgd or momentum, as which the groups are used; lr
        and weight_decay: a number, or {pattern of names: number}, of which the first that fits
        holds. only: a function (name, parameter) that says which parameters are meant. The share
        that decay takes in a step, lr weight_decay, is the same at every size; Adam, which adds
        decay to gradients and then divides by their size, has no such share, and takes none."""
        if optimizer not in LAWS:
            raise InputError(f"optimizer {optimizer!r}: must be one of {' '.join(LAWS)}; hidden "
                             "matrices of Muon are given by muon_groups")
        if only is not None and not callable(only):
            raise InputError(f"only is {only!r}, and a function (name, parameter) is wanted")
        if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < math.inf:
            raise InputError(f"eps is {eps!r}, and a number of at least 0 is wanted")
        law, matched = LAWS[optimizer], self._matched(model)
        ratios = self._ratios(self._known_sizes(model, sizes))
        found: dict[tuple, dict] = {}
        for name, entry, parameter in matched:
            if only is not None and not only(name, parameter):
                continue
            times = power(entry[law], ratios)
            said = {"lr": _of(lr, name, "lr") * times,
                    "weight_decay": _of(weight_decay, name, "weight_decay") / times}
            if optimizer == "adam" and said["weight_decay"]:
                raise InputError("adam adds weight_decay to the gradient, so that its share in a "
                                 "step goes with the size of the gradient: take torch.optim.AdamW, "
                                 "or Adam(decoupled_weight_decay=True), with optimizer=\"adamw\"")
            if law == "adam":
                said["eps"] = eps * power(entry["eps"], ratios)
            group = found.setdefault(tuple(said.values()), {"params": [], **said})
            group["params"].append(parameter)
        return list(found.values())

    def muon_groups(self, model: torch.nn.Module, lr, weight_decay=0.0, *,
                    adjust_lr_fn: str | None = None, sizes: dict | None = None):
        """(groups of hidden matrices for torch.optim.Muon, a function that says which parameters
        are left): give the second one to groups as only=. adjust_lr_fn: that of your Muon."""
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise InputError(f"adjust_lr_fn {adjust_lr_fn!r}: must be original or match_rms_adamw")
        ratios = self._ratios(self._known_sizes(model, sizes))
        found: dict[tuple, dict] = {}
        hidden = set()
        for name, entry, parameter in self._matched(model):
            if entry["muon"] is None:
                continue
            hidden.add(name)
            sides = [[c * power(law, size) for c, law in entry["shape"]]
                     for size in ({one: self.base[one] * ratios[one] for one in ratios}, self.base)]
            here, base = (_muon(n, m, adjust_lr_fn) for n, m in sides)
            times = here / base * power(entry["muon"], ratios)
            said = {"lr": _of(lr, name, "lr") * times,
                    "weight_decay": _of(weight_decay, name, "weight_decay") / times}
            group = found.setdefault(tuple(said.values()), {"params": [], **said})
            group["params"].append(parameter)
        return list(found.values()), lambda name, parameter: plain_name(name) not in hidden

    def _ratios(self, sizes: dict) -> dict:
        return {size: sizes[size] / base for size, base in self.base.items()}

    # --- in words --------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [["parameter", "std at the base", "std", "lr SGD", "lr Adam", "eps", ""]]
        for entry in self._entries:
            name, many = entry["names"][0], len(entry["names"])
            for part in entry["parts"]:
                lines.append([name + (f" ({many} alike)" if many > 1 else ""),
                              f"{part['at_base']:.3g}", _said(part["std"]),
                              *(_said(entry[key]) for key in ("sgd", "adam", "eps")),
                              "the same for all experts" if part["equal"] is not None else ""])
        wide = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        text = ["  ".join(cell.ljust(size) for cell, size in zip(line, wide)).rstrip()
                for line in lines]
        base = ", ".join(f"{size} = {value}" for size, value in self.base.items())
        text.append(f"{self.parameterization}: your numbers at {base}, times ratios to it to these "
                    "powers")
        return "\n".join([*text, *self.notes])

    __repr__ = __str__


def _of(given, name: str, what: str) -> float:
    """A number that is given for all names, or by patterns."""
    for pattern, value in given.items() if isinstance(given, dict) else (("*", given),):
        if fnmatch.fnmatchcase(name, pattern):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                raise InputError(f"{what} of {name} is {value!r}, and a number of at least 0 is "
                                 "wanted")
            return float(value)
    raise InputError(f"{what}: no pattern of {' '.join(given)} fits {name}; add one, as '*'")


def _muon(n: float, m: float, rule: str | None) -> float:
    """The lr of torch.optim.Muon that moves an n x m matrix as far as rows of norm one need it:
    (n/m)^1/2 over what its rule multiplies."""
    rule = max(n, m) ** 0.5 if rule == "match_rms_adamw" else max(1.0, n / m) ** 0.5
    return (n / m) ** 0.5 / rule


def _index(at, shape) -> tuple:
    """Of a part: for each axis an entry, or (start, stop, phase, step), fractions of its length."""
    found = []
    for one, total in zip(at, shape):
        if isinstance(one, int):
            found.append(slice(one, one + 1))
            continue
        start, stop, phase, step = one
        found.append(slice(round(start * total) + phase, round(stop * total), step))
    return tuple(found)


def _said(law: dict) -> str:
    return " ".join(f"{size}^{up:g}" for size, up in law.items() if up) or "1"
