"""Your PyTorch model on the command line: judged, scaled, and its limit computed.

    dmft-torch FILE.py:build --example "tokens 24 16 64" [--base N=64] [--widths N=32:64]
               [--recipe] [--check FILE.py:optimizer] [--limit SETTINGS.ini [--limit-to OUT.h5]]
               [--counts E=256,L=60 [--looped]] [--plan plan.json [--parameterization mssp]]
               [--output FILE.py:function] [--ignore NAME,NAME] [--force]

or python -m dmft torch. `build` is a function of the width, or of all sizes of --base in their
order, that gives the module (docs/import.md). Without another option the matrices that it is are
printed. Exit codes: 0 done; 1 --check has found what does not agree, or what it cannot tell; 2 the
input is wrong, which one sentence says; 130 interrupted; those of dmft-solve for --limit.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import os
import sys
import warnings

from dmft.command import Parser, finish, patience
from dmft.errors import DmftError, InputError, NoteWarning
from dmft.study import place

MOST = 10 ** 8                          # numbers of an example


def function_of(text: str):
    """The function of a file, FILE.py:NAME."""
    path, sign, name = text.rpartition(":")
    if not sign or not name.isidentifier():
        raise InputError(f"{text}: a function is given as FILE.py:NAME")
    if not os.path.isfile(path):
        raise InputError(f"{path}: there is no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec = importlib.util.spec_from_file_location(
            os.path.splitext(os.path.basename(path))[0], path)
        if spec is None:
            raise InputError(f"{path} is no file of Python")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except (DmftError, KeyboardInterrupt):
        raise
    except BaseException as error:      # of a stranger's code, which may call sys.exit
        raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, name, None)):
        raise InputError(f"{path} has no function {name}")
    return getattr(module, name)


def example_of(text: str):
    """Inputs of which the shape is given: "tokens P n KINDS", "numbers P D" or "numbers P n D"."""
    import torch
    kind, *sizes = text.split() or [""]
    if not all(one.isdigit() and int(one) > 0 for one in sizes) or (kind, len(sizes)) not in (
            ("tokens", 3), ("numbers", 2), ("numbers", 3)):
        raise InputError(f"--example {text!r}: must be \"tokens INPUTS LENGTH KINDS\", \"numbers "
                         "INPUTS DIMENSION\" or \"numbers INPUTS LENGTH DIMENSION\"")
    generator, shape = torch.Generator().manual_seed(1), [int(one) for one in sizes]
    count = math.prod(shape[:2] if kind == "tokens" else shape)
    if count > MOST:
        raise InputError(f"--example {text!r}: these are {count:.1e} numbers, and the inputs only "
                         f"show what the module does; {MOST:.0e} are the most")
    return torch.randint(shape[2], shape[:2], generator=generator) if kind == "tokens" else \
        torch.randn(shape, generator=generator)


def sizes_of(text: str, option: str) -> dict:
    """{size: value, or its two values} of N=64,M=8 or N=32:64,M=4:8."""
    found = {}
    for word in text.replace(",", " ").split():
        name, sign, value = word.partition("=")
        values = value.split(":")
        if not (name.isidentifier() and sign and all(one.isdigit() for one in values)) \
                or len(values) != (2 if option == "--widths" else 1):
            form = "N=32:64,M=4:8" if option == "--widths" else "N=64,M=8"
            raise InputError(f"{option} {word}: sizes are written {form}")
        if name in found:
            raise InputError(f"{option} {text}: {name} is given twice")
        found[name] = tuple(map(int, values)) if len(values) > 1 else int(value)
    if not found:
        raise InputError(f"{option}: no size is given")
    if option != "--widths" and min(found.values()) < (2 if option == "--base" else 1):
        raise InputError(f"{option} {text}: sizes are whole numbers of at least "
                         + ("2" if option == "--base" else "1"))
    return found


def _lacking(ini: str, settings: dict) -> dict:
    """The module's keys that an ini does not give; its data stand for those of the example."""
    said = set()
    try:
        with open(ini, encoding="utf-8") as lines:
            section = ""
            for line in map(str.strip, lines):
                if line.startswith("["):
                    section = line.partition("]")[0].strip("[ ")
                elif "=" in line and not line.startswith(("#", ";")):
                    said.add(f"{section}.{line.partition('=')[0].strip()}")
    except OSError as error:
        raise InputError(f"{ini}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{ini} is no text") from None
    return {key: value for key, value in settings.items() if key not in said
            and not (key.startswith("data.") and "data.source" in said)}


def work(given) -> int:
    """What the options ask for; returns the exit code."""
    for path in filter(None, (given.plan, given.limit_to)):
        place.check(path, given.force)
    try:
        import dmft.torch
        dmft.torch.plan         # InputError of a PyTorch that is too old
    except ImportError as error:
        raise InputError(str(error)) from None
    from dmft.torch.plan_laws import WORDS, halved
    if given.parameterization not in WORDS:
        raise InputError(f"--parameterization {given.parameterization}: must be one of "
                         + " ".join(WORDS))
    base = sizes_of(given.base, "--base")
    more = {"ignore": [one for one in given.ignore.split(",") if one]}
    if given.output:
        more["output"] = function_of(given.output)
    counts = sizes_of(given.counts, "--counts") if given.counts else None
    widths = given.widths and sizes_of(given.widths, "--widths")
    build, example = function_of(given.build), example_of(given.example)
    asked = [given.recipe, given.check, given.limit, given.looped]
    code = 0
    if any(asked) or not given.plan:
        pairs = widths or {name: (one, 2 * one) for name, one in halved(base).items()}
        mine = dmft.torch.import_module(build, example, pairs, counts=counts, **more)
        if not any(asked):
            print(mine)
            for name, matrices in mine.names.items():
                print(f"{name}: {' '.join(matrices)}")
        if given.recipe:
            print(mine.recipe(base if counts else next(iter(base.values()))))
        if given.check:
            found = mine.check(function_of(given.check))
            print(found)
            code = 0 if found.agrees else 1
        if given.looped:
            print(mine.looped.lua, end="")
        if given.limit:
            run = dmft.solve(given.limit, network=mine.network, output=given.limit_to,
                             force=given.force, progress=sys.stderr.isatty(),
                             **_lacking(given.limit, mine.settings))
            print(run.report, end="")
    if given.plan:
        plan = dmft.torch.plan(build, example, base, given.parameterization, widths=widths,
                               counts=counts, **more)
        plan.save(given.plan, force=True)
        print(plan)
    return code


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "dmft-torch", formatter_class=argparse.RawTextHelpFormatter,
        usage="dmft-torch FILE.py:build --example \"tokens 24 16 64\" [options]",
        description="Judges and scales a model of PyTorch, and computes its limit.")
    parser.add_argument("build", metavar="FILE.py:build", help="function that makes the module")
    parser.add_argument("--example", required=True, metavar="WORDS", help="inputs it takes: "
                        "\"tokens INPUTS LENGTH KINDS\", \"numbers INPUTS\nDIMENSION\" or "
                        "\"numbers INPUTS LENGTH DIMENSION\"; 24 inputs or more for each expert")
    parser.add_argument("--base", default="N=64", metavar="N=64,M=8", help="sizes that grow, in "
                        "the order of build's arguments, where\nyour numbers hold (default: N=64)")
    parser.add_argument("--widths", metavar="N=32:64,M=4:8", help="at which sizes it is read "
                        "(default: from the base down to 64)")
    parser.add_argument("--counts", metavar="E=256,L=60", help="numbers of experts and blocks, "
                        "arguments of build behind\nthose of --base; it is built with few of them")
    parser.add_argument("--looped", action="store_true", help="with --counts, the program with "
                        "loops over experts and blocks")
    parser.add_argument("--recipe", action="store_true", help="your numbers at the base, and how "
                        "they go on")
    parser.add_argument("--check", metavar="FILE.py:optimizer", help="function of the module that "
                        "gives your optimizer: which\nscales and rates do not go with the width")
    parser.add_argument("--limit", metavar="SETTINGS.ini", help="the limit, with the keys of "
                        "[training], [solver], [reference] of this ini")
    parser.add_argument("--limit-to", metavar="OUT.h5", help="file of the limit")
    parser.add_argument("--plan", metavar="plan.json", help="writes a plan for your training "
                        "script")
    parser.add_argument("--parameterization", default="mssp", metavar="WORD", help="of the plan: "
                        "mssp, mup or sp")
    parser.add_argument("--output", metavar="FILE.py:function", help="function (module, x) of the "
                        "module's output")
    parser.add_argument("--ignore", default="", metavar="NAME,NAME", help="biases that are held "
                        "at 0")
    parser.add_argument("--force", action="store_true", help="overwrite OUT.h5 and plan.json")
    given = parser.parse_args(arguments)

    def judge() -> int:
        wait = contextlib.nullcontext() if given.limit else patience(
            "dmft-torch", "the module is built, run and described at small sizes")
        with warnings.catch_warnings(), wait:
            warnings.simplefilter("always", NoteWarning)
            warnings.showwarning = _notes()
            return work(given)
    return finish("dmft-torch", judge)


def _notes():
    """A function that prints each note once."""
    said = set()

    def note(message, category, *_, **__) -> None:
        if issubclass(category, NoteWarning) and str(message) not in said:
            said.add(str(message))
            print(f"dmft-torch: note: {message}", file=sys.stderr)
    return note
