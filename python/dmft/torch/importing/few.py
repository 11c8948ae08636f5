"""A module with many experts and blocks is imported with few of them."""
from __future__ import annotations

from dmft.errors import InputError


def import_of_few(build, example, widths, counts, more):
    """import_module of `build` with the smallest numbers of experts and blocks, in the order of
    `counts`, at which the module runs, has parts that are alike, and can be read."""
    from dmft.torch.importing.result import import_module
    from dmft.torch.plan_families import STARTS, Few, checked
    sizes = widths if isinstance(widths, dict) else {"N": widths}
    base = {size: pair[-1] for size, pair in sizes.items()}
    few = Few(build, example, base, checked(counts, base), sizes, more)
    failed = None
    for start in STARTS:
        if not few.from_start(start):
            continue
        try:
            found = import_module(few.build_at(0), example, sizes, **more)
        except InputError as error:     # perhaps all experts were chosen: with more once again
            failed = failed or error
            continue
        found.counts, found.traced, found.build = dict(counts), few.at(0), build
        return found
    raise failed or few.refused()
