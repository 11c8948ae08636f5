"""What an imported module's own scales and rates are beside those of its network."""
from __future__ import annotations

import dataclasses
import functools
import math
import warnings

import torch

from dmft.description import Program
from dmft.errors import InputError, NoteWarning
from dmft.power import slope
from dmft.run import describe
from dmft.torch import exponents
from dmft.torch.importing import rates
from dmft.torch.importing.experts import of_lists
from dmft.torch.importing.laws import SIGMAS, is_simple, measured_power
from dmft.torch.importing.optimizers import law_of
from dmft.torch.inputs import ALONE
from dmft.torch.optimizer_laws import optimizer_laws
from dmft.torch.pieces import Piece
from dmft.torch.plan_sizes import pattern_of
from dmft.torch.same_outputs import Outputs
from dmft.torch.several import call_for_optimizer, several

ALIKE = 1e-9                            # round-off of rates that are one
DRAWN = 16                              # modules that a standard deviation is measured on


def kind_keys(kind: str) -> dict:
    """Keys of [training] of an optimizer that moves as sgd or as adam does."""
    return {"training.optimizer": "gd"} if kind == "sgd" else \
        {"training.optimizer": "adam", "training.adam_read_in": 1}


class Judge:
    """Compares the modules of two widths with the networks of these widths."""

    def __init__(self, imported):
        self.imported = imported
        self.widths = imported._builds.widths
        self.modules = imported._modules
        self.parameters = [dict(module.named_parameters()) for module in self.modules]
        self._optimizer = None              # the user's function, which may draw weights anew
        self.stacks = [of_lists(module) for module in self.modules]

    @functools.cached_property
    def his(self) -> list:
        """The modules as build makes them, which an optimizer is of: each expert in a list has
        parameters of its own."""
        builds = self.imported._builds
        return [builds.of_sizes(builds.others(N), N, False) for N in self.widths] \
            if self.stacks[0] else self.modules

    def _own(self) -> list[dict]:
        """{parameter: the parameters of his that it is} of both modules."""
        found = []
        for module, parameters, stacks in zip(self.his, self.parameters, self.stacks):
            own = dict(module.named_parameters())
            found.append({name: [own[one] for one in stacks.get(name, [name])]
                          for name in parameters})
        return found

    def networks(self, kind: str) -> list[Program]:
        """The network at both widths, with an optimizer of this kind."""
        found = describe(self.imported.settings | ALONE | {
            "reference.widths": list(self.widths),
            **kind_keys(kind)}, network=self.imported.network)
        return [found[N] for N in self.widths]

    def check(self, optimizer) -> exponents.Check:
        """dmft.torch.check, of all parts; what outputs do has been compared by the import."""
        self._optimizer = optimizer
        laws = [optimizer_laws(module, optimizer) for module in self.his]
        for found, stacks in zip(laws, self.stacks):
            found |= {name: self._one_law(name, [found.get(one) for one in experts])
                      for name, experts in stacks.items()}
        networks, pairs = {}, []
        for part in self.imported.parts:
            law = self._law(laws[0], part)
            kind = "sgd" if law and law.by_entry is False else "adam"
            if kind not in networks:
                networks[kind] = self.networks(kind)
            both = networks[kind]
            piece = Piece(", ".join(part.parameters), part.parameters[0], part.name, 1.0, 0, 1)
            ours = [rates.of_network(network, part, kind) for network in both]
            side = exponents.Side(*([getattr(one, name) for one in ours]
                                     for name in ("std", "lr", "eps")))
            matrix = both[0].matrix(part.name)
            if not matrix.learns:
                side.lr[:] = 0, 0
            if part.common:             # which starts as what all experts share
                shared = both[0].matrix(part.common)
                matrix = dataclasses.replace(matrix, a0=shared.a0, s_f=shared.s_f)
            pairs.append(exponents.Pair(piece, matrix,
                                         law.by_entry if law else True,
                                         self._side(laws, part), side, self.widths))
        found = self.imported.differences["output"]
        unnamed = [*self.imported._builds.ignored, *self.imported.unused]
        left = [(one.place, power) for one in self.imported.left
                if (power := slope(one.values, self.widths))]
        return exponents.judged(pairs, next(iter(networks.values()))[0], self.widths, unnamed, [],
                                Outputs([found, found]), left)

    @staticmethod
    def _one_law(name: str, laws: list):
        """The law of experts in a list, which are one matrix."""
        first = laws[0]
        if any((one is None) != (first is None) or one and (
                one.by_entry != first.by_entry or any(
                    abs((getattr(one, key) or 0) - (getattr(first, key) or 0))
                    > ALIKE * abs(getattr(first, key) or 0) for key in ("rate", "eps", "decay")))
               for one in laws):
            raise InputError(f"{name}: experts in a list are moved differently by the optimizer; a "
                             "program has one rate, eps and decay for all of them; give them one "
                             "of each")
        return first

    @staticmethod
    def _law(laws: dict, part):
        """The one law of all parameters of a part; None if they do not move."""
        found = {name: None if part.still else laws.get(name) for name in part.parameters}
        if len({law and law.by_entry for law in found.values()}) > 1:
            raise InputError(f"{', '.join(part.parameters)} are one matrix of the program, and are "
                             "moved by different optimizers; give them to one")
        return next(iter(found.values()))

    def _side(self, laws, part) -> exponents.Side:
        side = exponents.Side(self._stds(part), [], [])
        for of_model in laws:
            law = self._law(of_model, part)
            side.lr.append(law.rate if law else 0)
            side.eps.append(law.eps if law else 0)
            side.decay.append(law.decay if law else 0)
        side.sampling = self._error(part)
        return side

    # --- his own numbers -------------------------------------------------------------------------

    def trained(self, optimizer):
        """The network with his scales, rates, eps and decay."""
        self._optimizer = optimizer
        optimizers = [several(call_for_optimizer(optimizer, module)) for module in self.his]
        law = law_of(optimizers[0])
        networks, own = self.networks(law.kind), self._own()
        found = {part.name: [rates.of_user(*pair) for pair in zip(
            optimizers, (part, part), self.parameters, own)] for part in self.imported.parts}
        for part in self.imported.parts:
            one, two = (owned.kind or "none" for owned in found[part.name])
            if one != two:
                raise InputError(f"{', '.join(part.parameters)} is moved by {one} at N = "
                                 f"{self.widths[0]} and by {two} at {self.widths[1]}; a program "
                                 "moves it in one way at every width")
        if not any(one.lr for both in found.values() for one in both):
            raise InputError("the optimizer moves no parameter of the module, as one of another "
                             "module, or of lr = 0, does not; give a function of the module")
        self._say_what_is_not_drawn()
        keys = {"training.gamma0": 1.0, **law.keys}
        decay = max(one.decay for both in found.values() for one in both)
        if decay:
            keys["training.weight_decay"] = decay
        if law.whole:
            keys["training.muon_experts"] = self._muon_of_experts(
                [part for part in self.imported.parts if found[part.name][0].kind == "muon"])
            keys["training.rest"] = " ".join(
                part.name for part in self.imported.parts
                if part.kind == "map" and found[part.name][0].kind != "muon")

        def options(part, writer):
            both = found[part.name]
            kind, alike = both[0].kind or law.kind, self._parts_of(part)
            sizes = [self._sizes(network, part.name) for network in networks]
            entries = [of[part.parameters[0]][0].numel() for of in own]
            values = rates.weight_options(part, self._of_powers(part, both), kind, sizes,
                                          self.widths, entries)
            said = {"decays": self._part_of_decay(writer, part, both, decay)} if decay else {}
            if kind == "muon" and len(alike) > 1:
                self._check_parts(alike, networks[0])
                said["heads_of"] = alike[0].name
            return said | self._written(writer, values, all(one.lr == 0 for one in both))
        return self.imported.write(options, rates.Trained(keys)).network

    def _muon_of_experts(self, moved) -> str:
        """The key muon_experts: whether the part of each expert is a matrix of Muon's. Those in a
        list are, where an expert is as wide as its matrix of the program has entries for it."""
        listed = [part for part in moved if part.parameters[0] in self.stacks[0]]
        for part in listed:
            if sum(map(len, part.to)) < 3 or len(self._parts_of(part)) > 1:
                raise InputError(
                    f"{part.parameters[0]}: Muon takes the matrix of each expert by itself, and a "
                    "program has that of experts that grow alone, in a matrix for each parameter; "
                    "give it to the optimizer of the rest")
        others = [part for part in moved if part not in listed and sum(map(len, part.to)) > 2]
        if listed and others:
            raise InputError(f"Muon takes {listed[0].parameters[0]} expert by expert, and "
                             f"{others[0].parameters[0]} as one matrix of all experts; a program "
                             "has one way for both: give one to the optimizer of the rest")
        return "each" if listed else "together"

    def _say_what_is_not_drawn(self) -> None:
        """A program draws independent normals; what else a module begins with is said."""
        said, seen = {}, {}
        for part in self.imported.parts:
            if part.kind == "bias" or part.start is not None:
                continue
            values = rates.entries(part, self.parameters[1])
            mean, size = values.mean().item(), values.square().mean().item()
            zeros, twin = (values == 0).sum().item(), seen.get(values.numpy().tobytes(), part)
            if zeros == len(values) or part.kind == "vector" and (values == values[0]).all():
                continue
            why = f"are those of {', '.join(twin.parameters)}" if twin is not part else \
                "are 0 in part" if zeros else \
                "are equal to others of them, as in copied experts," \
                if not part.common and 1 < len(values.unique()) <= len(values) / 2 else \
                "have a mean that is not 0" \
                if mean ** 2 * len(values) > SIGMAS ** 2 * (size - mean ** 2) else \
                "depend on one another, since its rows or columns are orthogonal," \
                if rates.is_orthogonal(part, self.parameters[1]) else \
                "have other standard deviations from expert to expert, or from row to row," \
                if rates.is_uneven(part, self.parameters[1]) else None
            seen[values.numpy().tobytes()] = twin
            if why:
                said.setdefault(why, []).append(", ".join(part.parameters))
        for why, names in said.items():
            warnings.warn(f"entries of {', '.join(dict.fromkeys(names))} {why} at the start; the "
                          "network, and its limit, begin with independent normals of the same "
                          "root mean square", NoteWarning, stacklevel=4)

    @functools.cached_property
    def _squares(self) -> list[list[dict[str, float]]]:
        """{matrix: mean square of its entries} of several modules of both widths, which are not
        kept; of one, where build draws the same ones again, as one does that sets the seed."""
        builds, found = self.imported._builds, [[self._of_parts(one)] for one in self.parameters]
        for N, parameters, squares in zip(self.widths, self.parameters, found):
            for k in range(1, DRAWN):
                module = builds.of_sizes(builds.others(N), 100 + k)
                if not self.stacks[0]:
                    call_for_optimizer(self._optimizer, module)
                drawn = dict(module.named_parameters())
                if all(torch.equal(one, parameters[name]) for name, one in drawn.items()):
                    return [one[:1] for one in found]
                squares.append(self._of_parts(drawn))
        return found

    def _of_parts(self, parameters) -> dict[str, float]:
        return {part.name: rates.entries(part, parameters).square().mean().item()
                for part in self.imported.parts}

    def _stds(self, part) -> list[float]:
        """A part's standard deviations at both widths, measured on all modules that are drawn."""
        return [math.sqrt(sum(one[part.name] for one in squares) / len(squares))
                for squares in self._squares]

    def _parts_of(self, part) -> list:
        """The matrices that are parts of the same parameter, which Muon moves as a whole."""
        return [one for one in self.imported.parts if one.parameters == part.parameters]

    def _check_parts(self, parts, network: Program) -> None:
        """Refuses a matrix whose parts are of several sizes."""
        if len({self._sizes(network, one.name) for one in parts}) > 1:
            (name,) = parts[0].parameters
            raise InputError(f"{name}: Muon moves it as one matrix, whose parts "
                             f"{' and '.join(one.name for one in parts)} are of several sizes, and "
                             "a program does so with parts of one size alone; build the module "
                             "with separate parameters, or give this one to the optimizer of the "
                             "rest")

    def _of_powers(self, part, numbers):
        """Standard deviations are measured; here they are powers of the width."""
        stds = self._stds(part)
        c, p = measured_power(stds, self.widths, self._error(part))
        if not is_simple(p):
            warnings.warn(f"the standard deviation of {', '.join(part.parameters)} is "
                          f"{stds[0]:.3g} at N = {self.widths[0]} and {stds[1]:.3g} at "
                          f"{self.widths[1]}, which is no simple power of N; {c:.3g} "
                          f"N^{p:.3g} is taken, which is a guess at other widths and in a limit",
                          NoteWarning, stacklevel=5)
        return tuple(dataclasses.replace(one, std=c * N ** p)
                     for N, one in zip(self.widths, numbers))

    def _error(self, part) -> float:
        """The standard error of the logarithm of the ratio of a part's standard deviations at both
        widths, if its entries are normal."""
        return math.sqrt(sum(1 / (2 * rates.entries(part, one).numel() * len(squares))
                             for one, squares in zip(self.parameters, self._squares)))

    @staticmethod
    def _sizes(network: Program, name: str):
        W = network.matrix(name)
        return tuple(1 if side is None else network.size(side) for side in (W.target, W.source))

    @staticmethod
    def _written(writer, values, frozen: bool) -> dict:
        found = {}
        if values.get("a0") == (0.0, 0.0):
            found["zero"] = True
            del values["a0"]
        if frozen:
            found["fixed"] = True
        for name, pair in values.items():
            if 0.0 not in pair:
                found[name] = writer.number(pair)
        return found

    def _part_of_decay(self, writer, part, both, largest: float):
        """What a step takes of a part, over the largest that it takes of any."""
        shares = tuple(one.decay / largest for one in both)
        if not any(shares):
            return False
        if not all(shares):
            raise InputError(f"{', '.join(part.parameters)} decays by {both[0].decay:g} at N = "
                             f"{self.widths[0]} and by {both[1].decay:g} at {self.widths[1]}; "
                             "what it decays by must be a power of the width: give it one "
                             "weight_decay at all widths, or c N^p")
        return writer.number(shares)


# --- a recipe --------------------------------------------------------------------------------

class Recipe:
    """Laws of all parameters: std at the start, learning rates and eps at a width N, as multiples
    of yours at the width `base`; `rows` has (parameter, std at base, powers of std, lr of SGD, lr
    of Adam, eps)."""

    def __init__(self, judge: Judge, base: int):
        self.base = base
        module = judge.imported._builds.at(base)
        parameters = dict(module.named_parameters())
        sides = {kind: judge.networks(kind) for kind in ("sgd", "adam")}
        self.rows = []
        for part in judge.imported.parts:
            powers = []
            for kind, name in (("sgd", "std"), ("sgd", "lr"), ("adam", "lr"), ("adam", "eps")):
                two = [getattr(rates.of_network(network, part, kind), name)
                       for network in sides[kind]]
                powers.append(slope(two, judge.widths))
            std = rates.entries(part, parameters).square().mean().sqrt().item()
            self.rows.append((", ".join(part.parameters), part.name, std, *powers))

    def __str__(self) -> str:
        lines = [["parameter", "matrices", f"std at {self.base}", "std", "lr SGD", "lr Adam",
                  "eps Adam"]]
        alike: dict = {}  # blocks, experts, heads with the same powers
        for name, _, std, *powers in self.rows:
            cells = ("0" if p is None else f"N^{p + 0:.2f}" for p in powers)
            alike.setdefault((pattern_of(name), *cells), []).append((std, name))
        for (pattern, *cells), found in alike.items():
            stds, names = zip(*found)
            low, high = (f"{one:.3g}" for one in (min(stds), max(stds)))
            name = names[0] if len(set(names)) == 1 else pattern
            lines.append([name, str(len(stds)), low if low == high else f"{low} to {high}", *cells])
        wide = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        text = ["  ".join(cell.ljust(size) for cell, size in zip(line, wide)).rstrip()
                for line in lines]
        return "\n".join([*text, f"at width N your numbers are those at {self.base} times "
                          f"(N/{self.base}) to these powers"])

    __repr__ = __str__


def groups(judge: Judge, kind: str, lr: float, module, eps: float = 1e-8) -> list[dict]:
    """Groups for torch.optim of a module that build has made, with the network's rates times lr."""
    if kind not in ("sgd", "adam", "adamw", "lion"):
        raise InputError(f"optimizer {kind!r}: must be one of sgd adam adamw lion")
    for what, one in (("lr", lr), ("eps", eps)):
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 <= one < math.inf:
            raise InputError(f"{what} is {one!r}, and a number of at least 0 is wanted")
    law = "sgd" if kind == "sgd" else "adam"
    net = judge.imported.load(module)
    network = describe(judge.imported.settings | ALONE | {
        "reference.widths": net.program.width, **kind_keys(law)},
        network=judge.imported.network)[net.program.width]
    parameters, found = dict(module.named_parameters()), {}
    for part in judge.imported.parts:
        numbers = rates.of_network(network, part, law)
        said = {"lr": lr * numbers.lr} | ({"eps": eps * numbers.eps} if law == "adam" else {})
        for name in part.parameters:
            before = found.setdefault(name, said)
            if any(abs(before[key] - said[key]) > 1e-9 * abs(said[key]) for key in said):
                raise InputError(f"parts of {name} have different rates ({before['lr']:g} and "
                                 f"{said['lr']:g} of {part.name}), and an optimizer has one for "
                                 "all of it; build the module with separate parameters")
    of = of_lists(judge.imported.stacked(module))
    return [{"params": [parameters[one] for one in ([name] if name in parameters else of[name])],
             "name": name, **said} for name, said in found.items()]
