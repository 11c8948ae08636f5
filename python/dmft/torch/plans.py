"""A plan: initial scales and learning rates of a model at any size. It needs PyTorch alone.

    plan = Plan.load("plan.json")       # of dmft.torch.plan(build, example, base={"N": 256}).save
    model = build(4096)
    plan.initialize(model)
    optimizer = torch.optim.AdamW(plan.groups(model, lr=3e-4, weight_decay=0.1))

This file and plan_sizes.py stand by themselves: copy both to where you train. At the base size
your numbers are what they were; at another they are multiplied by powers of the ratios of the
sizes (docs/plan.md). Parameters go by their names, so that torch.compile, DistributedDataParallel
and FSDP may have wrapped the model.
"""
from __future__ import annotations

import fnmatch
import json
import math
import operator
import warnings

import torch

try:
    from dmft.torch.plan_sizes import (ROUND_OFF, Fitted, InputError, NoteWarning, is_cut, is_flat,
                                       listed, listed_names, pattern_of, power)
except ImportError:                     # beside this file
    from plan_sizes import (ROUND_OFF, Fitted, InputError, NoteWarning, is_cut, is_flat, listed,
                            listed_names, pattern_of, power)

FORMAT = 2
KEYS = ("base", "counts", "notes", "numbers", "parameterization", "parameters")
# Which rates an optimizer of torch.optim has: along the gradient, or of each entry by itself.
# What torch.optim.Muon multiplies its rate by, for n rows and m columns (`adjust_lr_fn`).
MUON_RULES = {"original": lambda n, m: max(1.0, n / m) ** 0.5,
              "match_rms_adamw": lambda n, m: 0.2 * max(n, m) ** 0.5,
              "spectral_unclamped": lambda n, m: (n / m) ** 0.5}
LAWS = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam", "lion": "adam"}


class Plan(Fitted):
    """Laws of all parameters of a model. `base`: the sizes at which your numbers hold, `counts`:
    the numbers of experts and blocks with which they do; `notes`: which lines of the module are to
    be changed, and how; print it to see all laws."""

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str, force: bool = False) -> None:
        """Writes the plan, as JSON, with force over a file that is there."""
        try:
            with open(path, "w" if force else "x", encoding="utf-8") as file:
                file.write(json.dumps(self._content, indent=1) + "\n")
        except FileExistsError:
            raise InputError(f"{path}: exists already; choose another name, or force=True") \
                from None
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
        missing = [key for key in KEYS if key not in content]
        empty = [key for key in ("base", "parameters") if not content.get(key)]
        if missing or empty:
            raise InputError(f"{path} is no whole plan: {(missing + empty)[0]} is " +
                             ("missing" if missing else "empty"))
        try:
            return cls(content)._tried()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise InputError(f"{path} is no whole plan: its sizes, names and powers are not those "
                             "of a module; dmft.torch.plan(...).save makes one") from None

    def _tried(self) -> Plan:
        """The same, after all that is in a file has been used once."""
        every = {**self.base, **self.counts}
        ratios = {size: 1 + 1 / operator.index(value) for size, value in every.items()}
        for entry in self._entries:
            parts, axes = entry["parts"], entry["shape"]
            laws = [*(law for _, law in axes), *(entry[key] for key in ("sgd", "adam", "eps")),
                    *(part["std"] for part in parts), entry["muon"] or {},
                    *(part["own"] or {} for part in parts)]
            numbers = [power(law, ratios) for law in laws] + [c or 0.0 for c, _ in axes]
            for part in parts:
                index_in(part["at"] or (), [64 * 81 * 25 * 7] * len(axes)), part["equal"]
            numbers += [part["at_base"] for part in parts if part["own"] is None
                        or part["at_base"] is not None]
            if not math.isfinite(sum(numbers)) or min(every.values()) < 1 \
                    or any(isinstance(one, bool) for one in every.values()):
                raise ValueError
        self._counted(set(self._plain.values()))
        return str(self) and self

    # --- what a training script calls ------------------------------------------------------------

    @torch.no_grad()
    def initialize(self, model: torch.nn.Module, sizes: dict | None = None, *,
                   part: bool = False) -> torch.nn.Module:
        """Multiplies the parameters of a model, as its own constructor drew them, so that their
        standard deviations are those of the plan. Call it once, before anything wraps or trains
        the model. Matrices that all experts share at the start become that of the first. part: of
        groups."""
        known = self._known_sizes(model, sizes, part) if part else {}
        matched = self._matched(model, known)
        owners = [one for one in model.modules() if any(True for _ in one.parameters(False))]
        if any(getattr(one, "_plan_initialized", False) for one in owners):
            raise InputError("this model was initialized before; a second time would scale it "
                             "again")
        for name, entry, parameter in matched:
            if not parameter.is_floating_point() or parameter.element_size() < 2:
                raise InputError(f"{name} has numbers of the type {parameter.dtype}; initialize "
                                 "the model before it is quantized")
            whole = any(one["at"] or one["equal"] is not None or one["own"] is None
                        for one in entry["parts"])
            if whole and is_flat(entry, parameter.shape):
                raise InputError(f"{name} has lost its shape (FSDP): call initialize before the "
                                 "model is wrapped")
            if whole and part and is_cut(entry, parameter.shape, {**self.counts, **known}):
                raise InputError(f"{name} is a part of a tensor, of which the plan must have the "
                                 "whole: call initialize before the model is cut")
            if parameter.is_meta:
                raise InputError(f"{name} is on the meta device and has no numbers yet; initialize "
                                 "the model after it has been materialized")
        known = known or self._known_sizes(model, sizes)
        ratios = self._ratios(known)
        self._copy_first(matched)
        for _, entry, parameter in matched:
            for one in entry["parts"]:
                block = parameter
                if one["at"]:
                    block = parameter[index_in(one["at"], parameter.shape)]
                if one["equal"] is not None:
                    first = block.select(one["equal"], 0).unsqueeze(one["equal"]).clone()
                    block.copy_(first.expand_as(block))
                if one["own"] is not None:
                    factor = power(one["std"], ratios) / power(one["own"], ratios)
                else:                   # its own start is no power of the sizes
                    std = block.double().square().mean().sqrt().item()
                    factor = one["at_base"] * power(one["std"], ratios) / std if std else 1.0
                if factor != 1:
                    block.mul_(factor)
        for one in owners:              # whatever wraps them
            one._plan_initialized, one._plan_sizes = True, known
        return model

    @staticmethod
    def _copy_first(matched) -> None:
        """Gives experts in a list the matrices of the first one, where all start alike."""
        of = {name: parameter for name, _, parameter in matched}
        for name, entry, parameter in matched:
            for one in entry["parts"]:
                if "first" in one:
                    words = name.split(".")
                    words[one["first"]] = "0"
                    first = of.get(".".join(words))
                    if first is None:
                        raise InputError(f"{name} starts as {'.'.join(words)} does, which this "
                                         "part of a model lacks: call initialize before the model "
                                         "is cut")
                    at = index_in(one["at"], parameter.shape) if one["at"] else ...
                    parameter[at] = first[at]

    def groups(self, model: torch.nn.Module, lr, weight_decay=0.0, *, eps: float = 1e-8,
               optimizer: str = "adamw", sizes: dict | None = None, only=None,
               part: bool = False) -> list[dict]:
        """Groups for torch.optim with the plan's rates: lr, eps and weight_decay are yours at the
        base size. optimizer: adamw, adam, lion, sgd or momentum, as which the groups are used; lr
        and weight_decay: a number, or {pattern of names: number}, of which the first that fits
        holds. only: a function (name, parameter) that says which parameters are meant. part: the
        model is a part of the whole whose sizes are given, a stage of a pipeline or what one
        process has of tensors that are cut, with the names of the whole. The share
        that decay takes in a step, lr weight_decay, is the same at every size; Adam, which adds
        decay to gradients and then divides by their size, has no such share, and takes none."""
        if optimizer not in LAWS:
            raise InputError(f"optimizer {optimizer!r}: must be one of {' '.join(LAWS)}; hidden "
                             "matrices of Muon are given by muon_groups")
        if only is not None and not callable(only):
            raise InputError(f"only is {only!r}, and a function (name, parameter) is wanted")
        if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < math.inf:
            raise InputError(f"eps is {eps!r}, and a number of at least 0 is wanted")
        known = self._known_sizes(model, sizes, part)
        law, ratios = LAWS[optimizer], self._ratios(known)
        matched = self._matched(model, known if part else None)
        found = self._grouped(lr, weight_decay, matched, _wrapped(model), [
            (name, parameter, power(entry[law], ratios),
             {"eps": eps * power(entry["eps"], ratios)} if law == "adam" else {})
            for name, entry, parameter in matched
            if only is None or only(name, parameter)])
        if not found:
            raise InputError("only: the function says of no parameter that it is meant")
        if optimizer == "adam" and any(group["weight_decay"] for group in found):
            raise InputError("adam adds weight_decay to the gradient, so that its share in a step "
                             "goes with the size of the gradient: take torch.optim.AdamW, or "
                             "Adam(decoupled_weight_decay=True), with optimizer=\"adamw\"")
        return found

    def _grouped(self, lr, weight_decay, matched, wrapped, rows) -> list[dict]:
        """Groups of rows (name, parameter, by what its rate is multiplied, what else is said);
        patterns may fit any of the parameters that have been matched, by their names without what
        wrappers put into them, or with it."""
        taken = any(plain.startswith("module.") for plain in self._plain.values())
        names = {name: [name, *(full for full, plain in self._plain.items() if plain == name),
                        *(() if taken else (wrapped[id(one)],))] for name, _, one in matched}
        for what, given in (("lr", lr), ("weight_decay", weight_decay)):
            for pattern in given if isinstance(given, dict) else ():
                if any(fnmatch.fnmatchcase(one, pattern) for all_of_one in names.values()
                       for one in all_of_one):
                    continue
                text = f"{what}: {pattern!r} fits no parameter"
                if what == "lr":
                    raise InputError(text + "; there are " + listed_names(names))
                warnings.warn(text, NoteWarning, stacklevel=4)
        found: dict[tuple, dict] = {}
        for name, parameter, times, more in rows:
            said = {"lr": _of(lr, names[name], "lr") * times,
                    "weight_decay": _of(weight_decay, names[name], "weight_decay") / times, **more}
            group = found.setdefault(tuple(said.values()), {"params": [], **said})
            group["params"].append(parameter)
        return list(found.values())

    def muon_groups(self, model: torch.nn.Module, lr, weight_decay=0.0, *,
                    adjust_lr_fn: str | None = None, sizes: dict | None = None,
                    part: bool = False):
        """(groups of hidden matrices for torch.optim.Muon, a function that says which parameters
        are left): give the second one to groups as only=. adjust_lr_fn: that of your Muon; part: of
        groups."""
        if adjust_lr_fn not in (None, *MUON_RULES):
            raise InputError(f"adjust_lr_fn {adjust_lr_fn!r}: must be one of "
                             + " ".join(MUON_RULES))
        known = self._known_sizes(model, sizes, part)
        ratios = self._ratios(known)
        matched, rows = self._matched(model, known if part else None), []
        for name, entry, parameter in matched:
            if entry["muon"] is not None:
                if part and is_cut(entry, parameter.shape, {**self.counts, **known}):
                    raise InputError(f"{name} is a part of a matrix, and Muon needs the whole: "
                                     "give all parameters to groups")
                sides = [[c * power(law, size) for c, law in entry["shape"]] for size in
                         ({one: self.base[one] * ratios[one] for one in ratios}, self.base)]
                here, base = (_muon(n, m, adjust_lr_fn) for n, m in sides)
                rows.append((name, parameter, here / base * power(entry["muon"], ratios), {}))
        if not rows:
            raise InputError("the model has no hidden matrix, which is what Muon is for; give all "
                             "parameters to groups")
        hidden = {one for name, parameter, *_ in rows for one in (name, id(parameter))}
        return self._grouped(lr, weight_decay, matched, _wrapped(model), rows), \
            lambda name, parameter: not hidden & {name, id(parameter)}

    def _ratios(self, sizes: dict) -> dict:
        return {size: sizes[size] / base for size, base in self.base.items()}

    # --- in words --------------------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [["parameter", "std at the base", "std", "lr SGD", "lr Adam", "eps", ""]]
        for entry in self._entries:
            for part in entry["parts"]:
                lines.append([self._title_of(entry),
                              "" if part["at_base"] is None else f"{part['at_base']:.3g}",
                              _said(part["std"]),
                              *(_said(entry[key]) for key in ("sgd", "adam", "eps")),
                              "the same for all experts" if part["equal"] is not None
                              or "first" in part else ""])
        wide = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        text = ["  ".join(cell.ljust(size) for cell, size in zip(line, wide)).rstrip()
                for line in lines]
        text.append(f"{self.parameterization}: your numbers at "
                    f"{listed({**self.base, **self.counts})}, times ratios to it to these powers")
        return "\n".join([*text, *self.notes])

    __repr__ = __str__

    def _title_of(self, entry: dict) -> str:
        """The name of a parameter, and how many there are like it."""
        name, many = entry["names"][0], len(entry["names"])
        kind, sizes = pattern_of(name), {**self.base, **self.counts}
        if kind in self._numbers:       # of which the names are those of a few
            if sum(pattern_of(one["names"][0]) == kind for one in self._entries) > 1:
                return name + (" and others" if many > 1 else "")
            name = kind
            many = round(sum(c * math.prod(sizes[size] for size in of)
                             for c, of in self._numbers[kind]))
        return name + (f" ({many} alike)" if many > 1 else "")


def _of(given, names: list[str], what: str) -> float:
    """A number that is given for all parameters, or by patterns; names: of one of them."""
    for pattern, value in given.items() if isinstance(given, dict) else (("*", given),):
        if any(fnmatch.fnmatchcase(name, pattern) for name in names):
            if not _is_number(value) or not 0 <= value < math.inf:
                raise InputError(f"{what} of {names[0]} is {value!r}, and a number of at least 0 "
                                 "is wanted")
            return float(value)
    raise InputError(f"{what}: no pattern of {' '.join(given)} fits {names[0]}; add one, as '*'")


def _wrapped(model) -> dict[int, str]:
    """The names that the model itself has for its parameters."""
    return {id(one): name for name, one in model.named_parameters()}


def _is_number(one) -> bool:
    return isinstance(one, (int, float)) and not isinstance(one, bool)


def _muon(n: float, m: float, rule: str | None) -> float:
    """The lr of torch.optim.Muon that moves an n x m matrix as far as rows of norm one need it:
    (n/m)^1/2 over what its rule multiplies."""
    return (n / m) ** 0.5 / MUON_RULES[rule or "original"](n, m)


def index_in(at, shape) -> tuple:
    """Of a part: for each axis an entry, or (start, stop, phase, step), fractions of its length."""
    found = []
    for one, total in zip(at, shape):
        if isinstance(one, int):
            found.append(slice(one, one + 1))
            continue
        start, stop, phase, step = one
        if any(abs(round(end * total) - end * total) > ROUND_OFF * total for end in (start, stop)):
            raise InputError(f"an axis of {total} cannot be cut at {start:g} and {stop:g} of it, "
                             "as the module of the plan is")
        found.append(slice(round(start * total) + phase, round(stop * total), step))
    return tuple(found)


def _said(law: dict) -> str:
    return " ".join(f"{size}^{up:g}" for size, up in law.items() if up) or "1"
