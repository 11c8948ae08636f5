"""A module with many experts and blocks is imported with few of them."""
from __future__ import annotations

import dataclasses
import itertools
import math
import re
import warnings

from dmft.errors import InputError, NoteWarning

# Words of Lua, and of a text with loops.
TAKEN = """and break do else elseif end false for function goto if in local nil not or repeat return
    then true until while all math string table pairs ipairs""".split()


def import_of_few(build, example, widths, counts, more):
    """import_module of `build` with the smallest numbers of experts and blocks, in the order of
    `counts`, at which the module runs, has parts that are alike, and can be read."""
    from dmft.torch.importing.result import import_module
    from dmft.torch.plan_families import Few, checked
    sizes = widths if isinstance(widths, dict) else {"N": widths}
    base = {size: pair[-1] for size, pair in sizes.items()}
    few = Few(build, example, base, checked(counts, base), sizes, more)
    found = few.first(lambda: import_module(few.build_at(0), example, sizes, **more))
    found.counts, found.traced, found.build = dict(counts), few.at(0), build
    found.places = dict(few.places)
    return found


def import_of_counts(mine, more: dict):
    """The import of the whole module of an import of few, with the counts that were asked for, but
    for these."""
    from dmft.torch.importing.result import import_module
    counts, builds = mine.counts | more, mine._builds
    return import_module(lambda *sizes: mine.build(*sizes, *counts.values()), mine._example,
                         builds.sizes, output=mine.output, ignore=builds.ignored)


def looped(mine):
    """With counts, `network` with loops over experts and blocks, whose numbers are keys of
    [program]. The module is read with some more of them, and with few the text is `network`.

    >>> dmft.solve("mine.ini", network=mine.looped, **{"program.E": 8})      # doctest: +SKIP
    """
    from dmft.network import CONSTANTS, OPERATIONS, Network
    from dmft.torch.importing.expressions import Gap
    from dmft.torch.importing.rolling import rolled
    if not mine.counts:
        raise InputError("looped: import_module has no counts, of experts and blocks, that a text "
                         "could have loops over")
    taken = [name for name in mine.counts if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
             or name in (*OPERATIONS, *CONSTANTS, *TAKEN) or re.fullmatch(r"[vi]\d+", name)]
    if taken:
        raise InputError(f"looped: counts has the name {taken[0]}, which is no name of a number or "
                         "has a meaning in programs; give another, as E or L")
    grid = {name: places[1:] for name, places in mine.places.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoteWarning)    # the import of few has said them
        corners = {corner: import_of_counts(mine, {name: pair[one] for (name, pair), one in zip(
            grid.items(), corner)}) for corner in itertools.product((0, 1), repeat=len(grid))}
    made = Network()
    try:
        made.take(rolled({corner: one.network.lua for corner, one in corners.items()}, grid,
                         mine.counts))
        same_network(mine, made, mine.traced)
    except Gap as gap:
        raise InputError(f"looped: the text has no loops over {' and '.join(grid)}: {gap}") \
            from None
    return made


def same_network(mine, made, counts: dict) -> None:
    """That the text with loops is the network that was imported with so many experts and blocks."""
    from dmft.run import describe
    from dmft.torch.importing.expressions import Gap
    keys = mine.settings | {"solver.replicates": 0, "reference.widths": mine._builds.widths[0]}
    one = describe(keys, network=mine.network).networks[0]
    try:
        other = describe(keys | {f"program.{name}": value for name, value in counts.items()},
                         network=made).networks[0]
    except InputError as error:
        raise Gap(f"with few of them it would be no network ({error.sentence})") from None
    for kind in ("populations", "matrices", "operations"):
        first, second = ([dataclasses.asdict(x) for x in getattr(x, kind)] for x in (one, other))
        if not _same(first, second):
            raise Gap("with few of them it would be another network")


def _same(a, b) -> bool:
    """Whether two lists, dicts or numbers are the same up to round-off."""
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-12)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    return a == b
