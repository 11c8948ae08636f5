"""The modules that somebody's function makes, at sizes that are asked for."""
from __future__ import annotations

import torch
from torch.nn import init
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from dmft.errors import InputError
from dmft.torch.importing.experts import lists_of, stacked
from dmft.torch.importing.laws import power_of
from dmft.torch.importing.record import InDouble, doubles
from dmft.torch.plan_sizes import pattern_of
from dmft.torch.strangers import as_module, called, place_of, refuse_no_function

MOST, COPIES = 2 ** 28, 6               # parameters of a module that is run; of them in memory
WIDEST = 2 ** 16                        # the largest size, for each input of the example in memory
FILLS = {torch.Tensor.uniform_, torch.Tensor.normal_, init.uniform_, init.normal_,
         init.kaiming_uniform_}


class Unfilled(TorchFunctionMode):
    """Parameters without memory get no random numbers, which would take two fifths of the time of
    making such a module."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in FILLS:
            filled = args[0] if args else kwargs.get("tensor")
            if isinstance(filled, torch.Tensor) and filled.is_meta:
                return filled
        return func(*args, **kwargs)


class Builds:
    """The modules that `build` makes, on the processor and in double precision,
    with `ignored` parameters at 0. `widths`: of the names of what grows, two values each; the
    first one is N. lists: of lists of experts, the names, with * for numbers, of all that are
    stacked in a module."""

    def __init__(self, build, widths, ignored):
        self.build, self.ignored = build, tuple(ignored)
        self.lists: set[str] = set()
        self._names: dict[tuple, list[str]] = {}    # that are known, by sizes and lists
        self.halves: list[str] = []     # lines of build that ask for half precision
        refuse_no_function(build)
        self.sizes = dict(widths) if isinstance(widths, dict) else {"N": widths}
        for name, values in self.sizes.items():
            if not isinstance(values, (list, tuple)) or len(values) != 2 \
                    or not all(isinstance(one, int) for one in values) \
                    or not 0 < values[0] < values[1] <= WIDEST:
                raise InputError(f"widths of {name}: {values}; must be two whole numbers, the "
                                 f"larger one last, at most {WIDEST}")
        self.widths = tuple(next(iter(self.sizes.values())))
        self._counted: list[tuple] = []     # sizes of modules that are known to be small

    def others(self, N: int) -> list[int]:
        """What all names are where the first is N: in proportion to it, or its power."""
        found = []
        for name, values in self.sizes.items():
            law = power_of(values, self.widths)
            size = law and law[0] * N ** law[1]
            if not size or abs(size - round(size)) > 1e-6:
                raise InputError(f"{name} is no power of {next(iter(self.sizes))} that is whole "
                                 f"at {N}; give widths= whose ratios are powers of one another")
            found.append(round(size))
        return found

    def at(self, N: int) -> torch.nn.Module:
        """The module of width N."""
        return self.of_sizes(self.others(N), N)

    def of_sizes(self, sizes, seed: int, as_read: bool = True) -> torch.nn.Module:
        """The module of these sizes, in their order, with its lists of experts stacked (as_read),
        or as build makes it."""
        N = ", ".join(map(str, sizes))
        self._count(sizes, N)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            with InDouble() as asked, doubles():
                module = called(f"build({N})", "give other widths=", self.build, *sizes)
            self.halves += asked.halves
        _refuse_lazy(as_module(module, N))
        module = module.double().train()
        if not as_read:
            return module
        self._check(self.stacked(module), N)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name in self.ignored:
                    parameter.zero_()
        return module

    def _check(self, module, N: str) -> None:
        parameters = dict(module.named_parameters())
        if not parameters:
            raise InputError("the module has no parameters; let build make layers with some")
        unknown = [name for name in self.ignored if name not in parameters]
        if unknown:
            raise InputError(f"ignore: the module has no parameter {unknown[0]}; there are "
                             + " ".join(parameters))
        for name, one in parameters.items():
            for hooks in (one._backward_hooks, one._post_accumulate_grad_hooks):
                for hook in (hooks or {}).values():
                    raise InputError(f"{name} has a hook of its gradient, which a program does not "
                                     "have; leave it out, or scale the lr of the parameter"
                                     + place_of(hook))
        for name, one in [*parameters.items(), *module.named_buffers()]:
            if one.device.type != "cpu":
                raise InputError(f"{name} is on {one.device}; build the module on the processor, "
                                 "it is run at small widths only")

    def without_numbers(self, sizes):
        """The module without any memory; None of one whose constructor wants numbers."""
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"), Unfilled():
                module = self.build(*sizes)
        except Exception:               # of a stranger's code
            return None
        return module if isinstance(module, torch.nn.Module) else None

    def looked_at(self, sizes) -> torch.nn.Module:
        """A module of these sizes without memory, or one with numbers."""
        module = self.without_numbers(sizes)
        return self.of_sizes(sizes, 0, False) if module is None else module

    def names(self, sizes) -> list[str]:
        """The names of all parameters of a module of these sizes, which many questions are about:
        it is built once."""
        key = tuple(sizes), frozenset(self.lists)
        if key not in self._names:
            module = self.stacked(self.looked_at(sizes))
            self._names[key] = [name for name, _ in module.named_parameters()]
        return self._names[key]

    def stacked(self, module: torch.nn.Module) -> torch.nn.Module:
        """The same module, with its lists of experts stacked."""
        return stacked(module, [name for name, (_, why) in lists_of(module).items() if not why
                                and pattern_of(name) in self.lists]) if self.lists else module

    def growing_lists(self, one, two) -> dict[str, str]:
        """{name of a list that is longer at the second of these sizes, with * for numbers: why its
        members cannot be one tensor for each parameter, or ""}."""
        few = lists_of(self.looked_at(one))
        more = lists_of(self.looked_at(two)) if few else {}
        return {pattern_of(name): why for name, (count, why) in few.items()
                if more.get(name, (count,))[0] > count}

    def _count(self, sizes, N: str) -> None:
        """Refuses a module that is too large before it takes memory. One whose sizes are all no
        larger than those of another, which was not, is not counted."""
        if any(all(a <= b for a, b in zip(sizes, known)) for known in self._counted):
            return
        module = self.without_numbers(sizes)
        if module is None:
            return
        _refuse_lazy(module)
        count = sum(one.numel() for one in module.parameters())
        if count > MOST:
            raise InputError(f"build({N}) has {count:.2g} parameters, for which an import takes "
                             f"{COPIES * 8 * count / 1e9:.0f} GB; it needs small modules only: "
                             "give smaller widths=, as (64, 128), or fewer blocks and experts")
        self._counted.append(tuple(sizes))

    def third(self) -> int:
        """A width that was not traced."""
        for N in (sum(self.widths), 2 * self.widths[1], 3 * self.widths[1], 4 * self.widths[1]):
            try:
                self.at(N)
                return N
            except InputError as error:
                failed = error
        raise failed


def _refuse_lazy(module: torch.nn.Module) -> None:
    """Refuses a module whose parameters have no shape before it is called."""
    for name, one in [*module.named_parameters(), *module.named_buffers()]:
        if is_lazy(one):
            raise InputError(f"{name} has no shape yet (as in nn.LazyLinear); let build call the "
                             "module once, as module(example), before it returns it")
