"""A module with many experts and blocks is imported with few of them."""
from __future__ import annotations


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
    return found


def import_of_counts(mine, more: dict):
    """The import of the whole module of an import of few, with the counts that were asked for, but
    for these."""
    from dmft.torch.importing.result import import_module
    counts, builds = mine.counts | more, mine._builds
    return import_module(lambda *sizes: mine.build(*sizes, *counts.values()), mine._example,
                         builds.sizes, output=mine.output, ignore=builds.ignored)
