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
import itertools
import json
import math
import operator
import re
import warnings

import torch

try:                                    # beside the program bad input has its own class
    from dmft.errors import InputError, NoteWarning
except ImportError:
    class InputError(ValueError):
        """Bad input, in one sentence."""

    NoteWarning = UserWarning

FORMAT = 1
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")            # of a block or an expert, in a name
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# Which rates an optimizer of torch.optim has: along the gradient, or of each entry by itself.
LAWS = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam", "lion": "adam"}
ROUND_OFF = 1e-6


def plain_names(names) -> dict[str, str]:
    """{name of a parameter: the same without what wrappers put into it}. `module` is one of their
    words, and may be one of a model's own, which then is not before all names.

    >>> plain_names(["module._orig_mod.up.0.weight", "module.module.down"])
    {'module._orig_mod.up.0.weight': 'up.0.weight', 'module.module.down': 'module.down'}
    """
    words = {name: [word for word in name.split(".") if word not in WRAPPERS] for name in names}
    while words and all(len(one) > 1 and one[0] == "module" for one in words.values()):
        words = {name: one[1:] for name, one in words.items()}
    return {name: ".".join(one) for name, one in words.items()}


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
        self._plain = plain_names(name for entry in self._entries for name in entry["names"])
        plain = {pattern_of(name): pattern_of(one) for name, one in self._plain.items()}
        self._counts = {size: (plain[one["pattern"]], one["each"])
                        for size, one in content["counts"].items()}

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
            raise InputError(f"{path} is no whole plan: {(missing + empty)[0]} is " +
                             ("missing" if missing else "empty"))
        try:
            return cls(content)._tried()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise InputError(f"{path} is no whole plan: its sizes, names and powers are not those "
                             "of a module; dmft.torch.plan(...).save makes one") from None

    def _tried(self) -> Plan:
        """The same, after all that is in a file has been used once."""
        ratios = {size: 1 + 1 / operator.index(value) for size, value in self.base.items()}
        for entry in self._entries:
            parts, axes = entry["parts"], entry["shape"]
            laws = [*(law for _, law in axes), *(entry[key] for key in ("sgd", "adam", "eps")),
                    *(part["std"] for part in parts), entry["muon"] or {},
                    *(part["own"] or {} for part in parts)]
            numbers = [power(law, ratios) for law in laws] + [c or 0.0 for c, _ in axes]
            for part in parts:
                _index(part["at"] or (), [64 * 81 * 25 * 7] * len(axes)), part["equal"]
            numbers += [part["at_base"] for part in parts]
            if not math.isfinite(sum(numbers)) or min(self.base.values()) < 1:
                raise ValueError
        self._counted(set(self._plain.values()))
        return str(self) and self

    # --- sizes -----------------------------------------------------------------------------------

    def sizes(self, model: torch.nn.Module) -> dict:
        """The sizes of a model, from the shapes and the number of its parameters."""
        return self._sizes_of(self._shapes(model))

    def _shapes(self, model) -> list:
        return [(entry, one.shape, name) for name, entry, one in self._matched(model)]

    def _sizes_of(self, pairs) -> dict:
        found = self._counted({name for _, _, name in pairs})
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

    def _counted(self, names) -> dict:
        """The sizes that are numbers of parameters; of each kind there must be as many as where the
        module was traced, or as many times more as one of these sizes is larger."""
        traced, here = ([pattern_of(name) for name in some]
                        for some in (self._plain.values(), names))
        times = [here.count(pattern) / traced.count(pattern)
                 for pattern, _ in self._counts.values()]
        factors = [math.prod(some) for k in range(len(times) + 1)
                   for some in itertools.combinations(times, k)]
        for pattern in dict.fromkeys(traced) if times else ():
            wanted = sorted({round(traced.count(pattern) * one, 3) for one in factors})
            if here.count(pattern) not in wanted:
                raise InputError(f"the model has {here.count(pattern)} parameters {pattern}, and "
                                 f"by the plan there are {' or '.join(f'{n:g}' for n in wanted)}; "
                                 "the plan is of another module")
        return {size: here.count(pattern) / each for size, (pattern, each) in self._counts.items()}

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
            if not isinstance(sizes, dict):
                raise InputError(f"sizes is {sizes!r}, and {{size: its value}} of "
                                 f"{' and '.join(self.base)} is wanted")
            if set(sizes) != set(self.base):
                raise InputError(f"sizes: {sorted(sizes)} are given, and the plan has "
                                 f"{sorted(self.base)}")
            for size, value in sizes.items():
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InputError(f"sizes: {size} is {value!r}, and a whole number of at least "
                                     "1 is wanted")
        pairs = self._shapes(model)
        if not any(_is_flat(entry, shape) for entry, shape, _ in pairs):
            if sizes is None:
                return self._sizes_of(pairs)
            self._check_shapes(pairs, sizes)
            return dict(sizes)
        # FSDP has flattened the parameters
        kept = [one._plan_sizes for one in model.modules() if hasattr(one, "_plan_sizes")]
        if sizes is None and not kept:
            raise InputError("the parameters have lost their shapes (FSDP): call initialize before "
                             "FSDP, or give sizes=")
        return dict(kept[0] if sizes is None else sizes)

    # --- parameters ------------------------------------------------------------------------------

    def _matched(self, model):
        """[(name, its entry, the parameter)] of all parameters of a model."""
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"the model is a {type(model).__name__}, and a torch.nn.Module is "
                             "wanted")
        exact = {self._plain[name]: entry for entry in self._entries for name in entry["names"]}
        alike: dict = {}
        for entry in self._entries:
            alike.setdefault(pattern_of(self._plain[entry["names"][0]]), []).append(entry)
        found, plain = [], plain_names(name for name, _ in model.named_parameters())
        if not all(name in exact for name in plain.values()):   # wrappers are within, too
            inner = {name: _without_modules(one) for name, one in plain.items()}
            if len(set(inner.values())) == len(inner) and set(inner.values()) <= set(exact):
                plain = inner
        for wrapped, parameter in model.named_parameters():
            name = plain[wrapped]
            entry = exact.get(name)
            others = alike.get(pattern_of(name), [])
            if entry is None and len(others) == 1 and self._counts:
                entry = others[0]       # of a block more than were traced
            if entry is None and name.split(".")[-1] == "_flat_param":
                raise InputError("FSDP has put several parameters into one: wrap with "
                                 "use_orig_params=True, or call groups before the model is wrapped")
            if entry is None:
                raise InputError(f"the plan has no parameter {name}; it was made of a module with "
                                 + " ".join(one["names"][0] for one in self._entries))
            found.append((name, entry, parameter))
            if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
                raise InputError(f"{name} has no shape yet: call the model once on an input")
        counts, names = self._counts, {name for name, _, _ in found}
        have = {pattern_of(name) for name in names}
        lost = [name for name in exact
                if (pattern_of(name) not in have if counts else name not in names)]
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
        owners = [one for one in model.modules() if any(True for _ in one.parameters(False))]
        if any(getattr(one, "_plan_initialized", False) for one in owners):
            raise InputError("this model was initialized before; a second time would scale it "
                             "again")
        for name, entry, parameter in matched:
            if not parameter.is_floating_point():
                raise InputError(f"{name} has numbers of the type {parameter.dtype}; initialize "
                                 "the model before it is quantized")
            if _is_flat(entry, parameter.shape) and any(
                    part["at"] or part["equal"] is not None or part["own"] is None
                    for part in entry["parts"]):
                raise InputError(f"{name} has lost its shape (FSDP): call initialize before the "
                                 "model is wrapped")
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
        for one in owners:              # whatever wraps them
            one._plan_initialized, one._plan_sizes = True, known
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
        law, ratios = LAWS[optimizer], self._ratios(self._known_sizes(model, sizes))
        found = self._grouped(lr, weight_decay, self._matched(model), [
            (name, parameter, power(entry[law], ratios),
             {"eps": eps * power(entry["eps"], ratios)} if law == "adam" else {})
            for name, entry, parameter in self._matched(model)
            if only is None or only(name, parameter)])
        if not found:
            raise InputError("only: the function says of no parameter that it is meant")
        if optimizer == "adam" and any(group["weight_decay"] for group in found):
            raise InputError("adam adds weight_decay to the gradient, so that its share in a step "
                             "goes with the size of the gradient: take torch.optim.AdamW, or "
                             "Adam(decoupled_weight_decay=True), with optimizer=\"adamw\"")
        return found

    def _grouped(self, lr, weight_decay, matched, rows) -> list[dict]:
        """Groups of rows (name, parameter, by what its rate is multiplied, what else is said);
        patterns may fit any of the parameters that have been matched."""
        for what, given in (("lr", lr), ("weight_decay", weight_decay)):
            for pattern in given if isinstance(given, dict) else ():
                if not any(fnmatch.fnmatchcase(one, pattern) for name, _, _ in matched
                           for one in self._names_of(name)):
                    warnings.warn(f"{what}: {pattern!r} fits no parameter", NoteWarning,
                                  stacklevel=4)
        found: dict[tuple, dict] = {}
        for name, parameter, times, more in rows:
            names = self._names_of(name)
            said = {"lr": _of(lr, names, "lr") * times,
                    "weight_decay": _of(weight_decay, names, "weight_decay") / times, **more}
            group = found.setdefault(tuple(said.values()), {"params": [], **said})
            group["params"].append(parameter)
        return list(found.values())

    def _names_of(self, name: str) -> list[str]:
        """What a pattern of names may mean: without and with a model's own `module`."""
        own = [full for full, plain in self._plain.items() if plain == name]
        taken = any(plain.startswith("module.") for plain in self._plain.values())
        return [name, *own, *(() if taken else ("module." + name,))]

    def muon_groups(self, model: torch.nn.Module, lr, weight_decay=0.0, *,
                    adjust_lr_fn: str | None = None, sizes: dict | None = None):
        """(groups of hidden matrices for torch.optim.Muon, a function that says which parameters
        are left): give the second one to groups as only=. adjust_lr_fn: that of your Muon."""
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise InputError(f"adjust_lr_fn {adjust_lr_fn!r}: must be original or match_rms_adamw")
        ratios = self._ratios(self._known_sizes(model, sizes))
        matched, rows = self._matched(model), []
        for name, entry, parameter in matched:
            if entry["muon"] is not None:
                sides = [[c * power(law, size) for c, law in entry["shape"]] for size in
                         ({one: self.base[one] * ratios[one] for one in ratios}, self.base)]
                here, base = (_muon(n, m, adjust_lr_fn) for n, m in sides)
                rows.append((name, parameter, here / base * power(entry["muon"], ratios), {}))
        if not rows:
            raise InputError("the model has no hidden matrix, which is what Muon is for; give all "
                             "parameters to groups")
        hidden = {one for name, parameter, *_ in rows for one in (name, id(parameter))}
        return self._grouped(lr, weight_decay, matched, rows), \
            lambda name, parameter: not hidden & {name, id(parameter)}

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


def _of(given, names: list[str], what: str) -> float:
    """A number that is given for all parameters, or by patterns; names: of one of them."""
    for pattern, value in given.items() if isinstance(given, dict) else (("*", given),):
        if any(fnmatch.fnmatchcase(name, pattern) for name in names):
            if not _is_number(value) or not 0 <= value < math.inf:
                raise InputError(f"{what} of {names[0]} is {value!r}, and a number of at least 0 "
                                 "is wanted")
            return float(value)
    raise InputError(f"{what}: no pattern of {' '.join(given)} fits {names[0]}; add one, as '*'")


def _without_modules(name: str) -> str:
    return ".".join(word for word in name.split(".") if word != "module")


def _is_number(one) -> bool:
    return isinstance(one, (int, float)) and not isinstance(one, bool)


def _is_flat(entry: dict, shape) -> bool:
    """Whether FSDP has flattened a parameter."""
    return len(shape) == 1 and len(entry["shape"]) > 1


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
        if any(abs(round(end * total) - end * total) > ROUND_OFF * total for end in (start, stop)):
            raise InputError(f"an axis of {total} cannot be cut at {start:g} and {stop:g} of it, "
                             "as the module of the plan is")
        found.append(slice(round(start * total) + phase, round(stop * total), step))
    return tuple(found)


def _said(law: dict) -> str:
    return " ".join(f"{size}^{up:g}" for size, up in law.items() if up) or "1"
