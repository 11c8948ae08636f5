"""dmft.torch.import_module: a module of PyTorch as a network of dmft-solve."""
from __future__ import annotations

import copy
import functools
import warnings
from functools import partial

import torch

from dmft.errors import InputError, NoteWarning
from dmft.torch.importing import (choices, cut_off, grouped, images, noise, pointwise,  # noqa: F401
                                  products, reductions, selections, shapes)
from dmft.torch.importing.axes import cells_shape
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.factors import Factors, growing_places, leaves_of
from dmft.torch.importing.builds import Builds
from dmft.torch.importing.few import import_of_few, looped
from dmft.torch.importing.guard import (AGREES, differences, fresh, in_evaluation, refused,
                                        same_buffers, worst_of)
from dmft.recipe import recipe
from dmft.torch.importing.judging import Judge, Recipe, groups
from dmft.torch.importing.laws import power_of
from dmft.torch.importing.lines import Lines, in_the_module
from dmft.torch.importing.parts import Part, uncovered
from dmft.torch.importing.random_numbers import drawn_as
from dmft.torch.importing.reading import read
from dmft.torch.importing.record import run
from dmft.torch.importing.starts import (frozen, say_what_is_drawn, say_what_is_still,
                                          starts_alike, starts_of)
from dmft.torch.importing.tensors import Constant, Missing
from dmft.torch.importing.terms import called_terms
from dmft.torch.importing.experts import of_lists
from dmft.torch.importing.graph import ordered
from dmft.torch.importing.merging import all_rows, merged
from dmft.torch.importing.writing import Writer
from dmft.torch.network import Network
from dmft.torch.plan_sizes import listed
from dmft.torch.strangers import TAKES, called, place_of

def example_of(example) -> torch.Tensor:
    """What import_module is given, in double precision; what is no input is refused."""
    if not isinstance(example, torch.Tensor) or example.dim() < 2 or not example.numel():
        raise InputError("example: must be a tensor of inputs, numbers [P, D] or [P, n, D], "
                         "images [P, C, H, W], or tokens [P, n]")
    if example.device.type != "cpu":
        raise InputError(f"example is on {example.device}; give it on the processor")
    if example.is_complex() or example.dtype == torch.bool:
        raise InputError(f"example has the type {example.dtype}; numbers or tokens are wanted")
    return example.double() if example.is_floating_point() else example.long()


class Imported:
    """A module as a network of dmft-solve; what import_module returns.

    network: for every function that takes `network=`. names: {parameter: its matrices}. settings:
    the keys of the ini that the network needs. difference: the largest relative difference of
    outputs and of gradients that was found, `differences` that of each. counts, traced: numbers of
    experts and blocks that were asked for, and those that the network has."""

    shares = True       # wide experts that start alike have a matrix in common

    def __init__(self, builds: Builds, example, output):
        self._builds, self._example, self.output = builds, example, output
        self.ignored = builds.ignored
        builds.lists = self._lists()
        self._modules = [builds.at(N) for N in builds.widths]
        if len({tuple(one.shape for one in module.parameters()) for module in self._modules}) < 2:
            raise InputError("build gives modules of the same sizes at widths {} and {}; it must "
                             "give a wider one where its argument is larger".format(*builds.widths))
        records = self._records()
        try:
            self._reading, self._expressions = self._read(records)
        except InputError as error:
            again = [*map(all_rows, records, self._modules)]
            try:
                made = None not in again and self._read(again)
            except InputError:
                made = None
            if not made:                # what is said is of the module as it is
                raise error from None
            self._reading, self._expressions = made
        with self.lines.named():
            self.move(growing_places(self.roots, builds.widths))
            self._covered()
        say_what_is_drawn(self.parts, self._modules, builds.widths)
        say_what_is_still(self.parts)
        self.differences: dict[str, float] = {}
        self.ways: dict[str, None] = {}     # lines at which the module is another on other inputs
        self.build, self.counts, self.traced, self.places = builds.build, {}, {}, {}

    def _lists(self) -> set[str]:
        """Lists of experts of which there are more at the larger size."""
        found = self._builds.growing_lists(*map(self._builds.others, self._builds.widths))
        for name, why in found.items():
            if why:
                raise InputError(f"{name}, which has more members at the larger size, {why}; make "
                                 "it an nn.ModuleList of one class and shape, or one tensor, or "
                                 "give its length by counts=")
        return set(found)

    # --- reading ---------------------------------------------------------------------------------

    def _records(self) -> list:
        records = [called(f"the module of width {N}, run on the example,", TAKES, lambda module:
                          merged(run(module, self._example, self.output)), module)
                   for N, module in zip(self._builds.widths, self._modules)]
        self.means = records[0].means
        self.lines = Lines(records[0])
        self.halves = [*self._builds.halves, *records[0].halves]
        return records

    def _read(self, records):
        """(a reading, (the numbers of the output, {name: term of the loss}) as expressions)."""
        with self.lines.named():
            reading = read(records, self._builds.ignored)
        found, builder = [], reading.builder
        for one in [reading.output, *reading.penalties]:
            if isinstance(one, Missing):
                raise InputError(one.sentence)
            if isinstance(one, Constant) and not found:
                raise InputError("the output depends on no input and no parameter; let the module "
                                 f"return what its layers make{self.lines.end}")
            found.append(None if isinstance(one, Constant) else
                         builder.list_of(list(one.cells.reshape(-1))))
        self._output_axes(reading.output.dims)
        output, *terms = found
        names = called_terms(self.output or type(self._modules[0]).forward,
                             [one.place if one else "" for one in terms])
        return reading, (output, {name: one for name, one in zip(names, terms) if one})

    @property
    def roots(self) -> list:
        """The expressions of the output and of the terms of the loss."""
        output, terms = self._expressions
        return [output, *terms.values()]

    def move(self, places) -> None:
        """Writes the network with the factors of these lines of the module in the matrices beneath
        them; `left` are those that no matrix can have."""
        self._factors = Factors(self.roots, self._builds.widths, places, fixed=self._started())
        writer = self.write()
        self.left = self._factors.with_sums(writer.sums)
        self.network, self.parts, self.noises = writer.network, writer.parts, writer.noises
        self.settings = self._settings(writer)

    def _started(self) -> set[str]:
        """Vectors and numbers that start at one that is not 0."""
        leaves = [leaf for one in ordered(self.roots) if one.operation in ("vector", "parameter")
                  for leaf in leaves_of(one)]
        return {leaf.parameter for leaf in leaves if starts_of(self._modules, leaf)[0]}

    def _output_axes(self, dims) -> None:
        place = self.lines.end
        kinds = [axis.kind for axes in dims for axis in axes]
        allowed = (["input"], ["input", "finite"], ["input", "token"],
                   ["input", "token", "finite"])
        if kinds not in allowed:
            raise InputError(f"the output has axes of {' and '.join(kinds) or 'no kind'}; it must "
                             "have one row for each input (and token), and finitely many numbers"
                             + place)
        if "token" in kinds and self._example.is_floating_point():
            raise InputError("the output has a row for each token, of inputs that are numbers; "
                             "such data have one target for each input: let the module return "
                             f"the mean over its tokens, by output= or in build{place}")
        if "token" not in kinds and not self._example.is_floating_point():
            raise InputError("the output has one row for each input, of inputs that are tokens; "
                             "such data have a target for each token: let the module return a row "
                             f"for each, by output= or in build{place}")
        count = next((axis.size[0] for axes in dims for axis in axes if axis.kind == "token"), None)
        if count not in (None, self._example.shape[1]):
            raise InputError(f"the output has rows of {count} of the {self._example.shape[1]} "
                             "tokens; it must have one for each token, or one for each "
                             f"input{place}")
        self.outputs = (cells_shape(dims) or (1,))[0]

    def write(self, options=None, network=None) -> Writer:
        """The program, with what options(part, writer) says of each matrix."""
        sizes = self._reading.tokens, self.outputs
        writer = Writer(self._builds.widths, sizes, partial(starts_of, self._modules),
                        self._factors, options or partial(frozen, self._modules[0]), network,
                        partial(starts_alike, self._modules) if self.shares else None)
        output, terms = self._expressions
        try:
            writer.write(output, terms)
        except Gap as gap:
            taken = self.lines.taken if "power of the width" in str(gap) else ""
            raise InputError(f"{gap}; numbers of Python are made of tensors{taken}" if taken
                             else str(gap)) from None
        return writer

    def _settings(self, writer: Writer) -> dict:
        x, keys = self.inputs(self._example), {"training.gamma0": 1.0, "reference.centre": "no"}
        if x.is_floating_point():
            keys |= {"data.source": "gaussian", "data.dimension": x.shape[-1],
                     "data.inputs": len(x)}
            if x.dim() == 3:
                keys["data.tokens"] = x.shape[1]
            if self.outputs > 1:
                keys["network.outputs"] = self.outputs
            return keys
        if not writer.letters:
            raise InputError("the module does not depend on which tokens it is given; let an "
                             f"nn.Embedding read them{self.lines.end}")
        return keys | {"data.source": "markov", "data.inputs": len(x), "data.tokens": x.shape[1],
                       "data.vocabulary": writer.letters, "data.positions": "no",
                       "training.loss": "cross_entropy"}

    def _covered(self) -> None:
        parameters = dict(self._modules[0].named_parameters())
        self.unused = uncovered(self.parts, parameters, self._builds.ignored)
        if self.unused:
            warnings.warn("no output depends on all of " + ", ".join(self.unused)
                          + ", which are no part of the network", NoteWarning, stacklevel=4)

    looped = functools.cached_property(looped)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """{parameter: names of the matrices that it is, or whose parts it is}."""
        found: dict[str, list[str]] = {}
        of = of_lists(self._modules[0])
        for part in self.parts:
            for name in (one for stack in part.parameters for one in of.get(stack, [stack])):
                found.setdefault(name, []).extend(filter(None, (part.name, part.common)))
        return {name: tuple(matrices) for name, matrices in found.items()}

    def inputs(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs of the module as those of the network: of images [P, C, H, W] its patches, or
        places, as tokens [P, n, D], or [P, D] where it reads the image as a whole; others as they
        are. Tokens of the module's own, such as a class token, are rows of zeros before them."""
        at = slice(1, None) if self._reading.layout else slice(-1, None)
        if x.is_floating_point() and x.shape[at] != self._example.shape[at]:
            raise InputError(f"inputs {list(x.shape)}: the network is that of inputs of the shape "
                             f"{list(self._example.shape[1:])}")
        found = self._reading.layout.of(x) if self._reading.layout else x
        return found if not self._reading.more else torch.nn.functional.pad(
            found, (0, 0, self._reading.more, 0))

    # --- weights ---------------------------------------------------------------------------------

    def _width(self, module) -> int:
        """Finds the width of a module which build has made."""
        parameters = dict(module.named_parameters())
        unknown = sorted(set(parameters) - set(dict(self._modules[0].named_parameters())))
        if unknown:
            raise InputError(f"the network has no {unknown[0]} of this module"
                             + (f": it is that of {listed(self.traced)}; recipe(base) is a plan "
                                "that has groups for any number of them" if self.traced else
                                "; give one that build makes"))
        for name, (a, b) in ((name, (p, dict(self._modules[1].named_parameters())[name]))
                             for name, p in self._modules[0].named_parameters()):
            if name not in parameters:
                raise InputError(f"the module has no parameter {name}; give one that build makes")
            for k, sizes in enumerate(zip(a.shape, b.shape)):
                law = power_of(sizes, self._builds.widths)
                if law and law[1]:
                    return round((parameters[name].shape[k] / law[0]) ** (1 / law[1]))
        raise InputError("no parameter of the module grows with the width; let build make "
                         "wider layers")

    def stacked(self, module) -> torch.nn.Module:
        """A module that build has made, or a copy of it whose lists of experts are stacked."""
        if not self._builds.lists or of_lists(module):
            return module
        kept = {id(one): one for name, one in module.named_parameters()}
        return self._builds.stacked(copy.deepcopy(module, kept))

    def load(self, module) -> Network:
        """The network of dmft.torch with the weights of a module that build has made; its buffers
        must be those that build makes, which are constants of the network."""
        module = self.stacked(module)
        N, letters = self._width(module), self.settings.get("data.vocabulary", self.outputs)
        if letters != self.outputs:
            raise InputError(f"the output has {self.outputs} numbers for each token, and there are "
                             f"{letters} kinds of tokens, of each of which a network has one: let "
                             f"build make as many{self.lines.end}")
        if dict(module.named_buffers()):
            same_buffers(module, self._builds.at(N))
        try:
            net = Network(self.settings, N=N, network=self.network, centre=False)
        except InputError as error:
            raise in_the_module(error) from error
        parameters = {name: one.detach().double() for name, one in module.named_parameters()}
        held = [name for name in self.ignored if parameters[name].any()]
        if held:
            warnings.warn(f"{', '.join(held)}: not 0 in this module, and held at 0 in the network",
                          NoteWarning, stacklevel=2)
        with torch.no_grad():
            for part in self.parts:
                for name, V in part.of_all(parameters, N).items():
                    net.weights[name].copy_(V.reshape(net.weights[name].shape))
        return net

    def store(self, net: Network, module) -> None:
        """Writes the weights of a dmft.torch.Network of this network into a module."""
        N, mine = net.program.width, self.stacked(module)
        parameters = dict(mine.named_parameters())
        if self._width(mine) != N:
            raise InputError(f"the network has the width {N}, and the module {self._width(mine)}")
        with torch.no_grad():
            for part in self.parts:
                V = part.with_common(net.weights, N)
                part.into(parameters, V, N)
            for name in self._builds.ignored:
                parameters[name].zero_()
            for stack, names in of_lists(mine).items() if mine is not module else ():
                for name, value in zip(names, parameters[stack]):
                    module.get_parameter(name).copy_(value)
            # all else is shared by both

    # --- comparison ------------------------------------------------------------------------------

    def compare(self) -> None:
        """Fills `differences`."""
        N = self._builds.third()
        module, x = self._builds.at(N), fresh(self._example, 5)
        net = self.load(module)
        sizes = self._builds.others(N)
        more = (self._builds.of_sizes(sizes, N + k) for k in range(1, 5))
        self.differences = differences(module, net, self, x, more)

    def drawn_as(self, normals, inputs: int) -> list[torch.Tensor]:
        """The noise of the network for the normals that the module draws for so many inputs."""
        return drawn_as(self._reading.drawn, self.noises, normals, inputs)

    def as_trained(self, optimizer):
        """The network as you train it: with your standard deviations, learning rates, eps and
        decay, and the keys of [training] that go with them. optimizer: a function of the module
        that gives its optimizer.

        >>> mine.as_trained(lambda m: torch.optim.AdamW(m.parameters(), 1e-3))   # doctest: +SKIP
        """
        with self.lines.named(place_of(optimizer)):
            return Judge(self).trained(optimizer)

    def check(self, optimizer):
        """What of your scales and rates does not go with the width as the network's do, part by
        part, as dmft.torch.check says it."""
        with self.lines.named(place_of(optimizer)):
            return Judge(self).check(optimizer)

    def groups(self, optimizer: str, lr: float, module=None, eps: float = 1e-8):
        """Groups for torch.optim of a module that build has made, with the network's rates times
        lr; without a module the function of it. optimizer: sgd, adam, adamw or lion.

        >>> torch.optim.Adam(mine.groups("adam", 0.01, model))              # doctest: +SKIP
        """
        if module is None:
            return lambda one: self.groups(optimizer, lr, one, eps)
        with self.lines.named():
            return groups(Judge(self), optimizer, lr, module, eps)

    def recipe(self, base: int | dict | None = None, parameterization: str = "mssp"):
        """Laws of std, learning rates and eps: the network's own (dmft.recipe), or with a width
        `base` your numbers there and the network's powers beyond it. A dict {size: base} has a law
        for each size that grows, mssp or mup (a dmft.torch.Plan); with counts any base is one.

        >>> mine.recipe({"N": 64, "M": 8}, "mup")                           # doctest: +SKIP
        """
        made = self._builds
        if self.counts and base is not None and not isinstance(base, dict):
            base = dict(zip(made.sizes, made.others(base)))
        if isinstance(base, dict):
            from dmft.torch.planning import plan
            widths = {name: made.sizes.get(name, (one, 2 * one)) for name, one in base.items()}
            return plan(self.build, self._example, base, parameterization, widths=widths,
                        counts=self.counts or None, output=self.output, ignore=made.ignored)
        if parameterization != "mssp":
            raise InputError(f"parameterization {parameterization!r}: an imported network has "
                             "mssp, the language's own; base={'N': 64} may have mup")
        if base is not None and not (isinstance(base, int) and base > 0):
            raise InputError(f"base: {base!r}; must be the width where your numbers hold")
        if base is not None:
            return Recipe(Judge(self), base)
        return recipe(self.settings, network=self.network)

    @property
    def difference(self) -> float:
        """The largest of the differences; nan where one cannot be told."""
        return self.differences[worst_of(self.differences)]

    def __repr__(self):
        return (f"<{len(self.names)} parameters of a module as {len(self.parts)} matrices; largest "
                f"difference {self.difference:.1e}>")


def import_module(build, example, widths=(64, 128), *, output=None, ignore=(), check=True,
                  counts=None) -> Imported:
    """A module of PyTorch as a network of dmft-solve.

    build: a function of the width that gives the module; of several sizes that grow, with widths a
    dict of two values for each, in the order of its arguments. example: inputs, numbers [P, D] or
    [P, n, D], images [P, C, H, W], or tokens [P, n]; with experts that are chosen, 24 rows or more
    for each. output: a function (module, x) of the output, or of (output, term of the loss, ...),
    where the module itself does not return this. ignore: names of biases that are held at 0.
    Outputs and gradients of the network are compared with those of the module at a third width, on
    other inputs; where they differ, or where something has no counterpart, check=True raises an
    InputError that names the operation and the line of the module. counts: {name: how many} of
    experts and blocks, arguments of build behind those of widths: the module is built with few of
    them, the network is that of `traced`, and recipe(base) has laws and groups for any number of
    them.

    >>> mine = import_module(build, torch.randn(24, 10))                    # doctest: +SKIP
    >>> run = dmft.solve("mine.ini", network=mine.network)                  # doctest: +SKIP
    """
    if counts is not None:
        return import_of_few(build, example, widths, counts,
                             {"output": output, "ignore": ignore, "check": check})
    builds = Builds(build, widths, [ignore] if isinstance(ignore, str) else ignore)
    try:
        found = Imported(builds, example_of(example), output)
    except InputError as error:
        if isinstance(example, torch.Tensor) and example.dim() > 1 and len(example) == 1:
            raise InputError(f"{error.sentence}; the example has one row, which is not told from "
                             "other axes of one: give two or more") from error
        raise
    if found.means:
        other = in_evaluation(builds, found)
        warnings.warn("random numbers that are no normals have their means in the network, " + (
            f"whose outputs are not those of the module after eval(): these differ by {other:.1e} "
            "of the largest: " if other > AGREES else
            "with which dropout and jitter do nothing, as if set to 0: ")
                      + "; ".join(dict.fromkeys(found.means)), NoteWarning, stacklevel=2)
    if found.halves:
        warnings.warn("half precision is read as double precision, as all numbers are, so that its "
                      "round-off is no part of the network: "
                      + "; ".join(dict.fromkeys(found.halves)), NoteWarning, stacklevel=2)
    found.compare()
    if check and not found.difference <= AGREES:
        raise refused(found.differences, found.lines, found.ways)
    if found.lines.one_sided:
        warnings.warn("whether the network is the module at other inputs and weights cannot be "
                      "told, since a decision on data was the same at all that were compared, or "
                      "can be made by a number that is taken out of a tensor: "
                      + "; ".join(found.lines.one_sided), NoteWarning, stacklevel=2)
    return found


__all__ = ["import_module", "Imported", "Part"]
