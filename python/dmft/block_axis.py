"""Series of single blocks as one series with an axis l."""
from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import xarray

NAME = re.compile(r"(?P<stem>[A-Za-z]\w*?)_(?P<l>\d+)(?:_(?P<member>\d+))?"
                  r"(?P<rest>(?:_[A-Za-z]\w*)?)")
HEADS = ("attention", "logits")  # of each head, where networks have several


def _of_block(array: xarray.DataArray, l: int) -> xarray.DataArray:
    """With axes that have no number of the block: expert_0 is expert."""
    return array.rename({name: name.removesuffix(f"_{l}") for name in (*array.dims, *array.coords)
                         if str(name).endswith(f"_{l}")})


def _gathered(stem: str, parts: dict, data: xarray.Dataset) -> xarray.DataArray | None:
    """Of the arrays {(block, member or None): name} of one kind; None where they are not alike."""
    arrays = {at: _of_block(data[name], at[0]) for at, name in parts.items()}
    first = next(iter(arrays.values()))
    numbers = sorted({l for l, _ in parts})
    members = sorted({member for _, member in parts if member is not None})
    alike = all((array.dims, array.shape) == (first.dims, first.shape)
                for array in arrays.values())
    whole = len(parts) == len(numbers) * max(len(members), 1)
    in_turn = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    if not (alike and whole and in_turn):
        return None
    axes = {"l": numbers}
    values = np.array([[arrays[l, member].values for member in members or [None]]
                       for l in numbers])
    if members:
        axes["head" if stem in HEADS else "i"] = members
    else:
        values = values[:, 0]
    return xarray.DataArray(values, {**first.coords, **axes}, [*axes, *first.dims],
                            attrs=first.attrs)


def blocks(data: xarray.Dataset) -> xarray.Dataset:
    """The same series, those of single blocks as one: Ch_0, Ch_1, ... are Ch with an axis l in
    front, Ch_0_diag, Ch_1_diag, ... are Ch_diag, and so are their errors. What networks have of
    each head, attention_0_0, attention_0_1, ..., is attention_by_head, with an axis `head` behind
    l, beside attention, its mean over heads, which a limit has, too.

    data: run.limit or run.reference[N]. Where a series has fewer blocks than another (attention 0
    to L - 1, Ch 0 to L), it is NaN at the others. Experts of a fixed number, tangent_W2_0_1, are on
    an axis i behind l; without blocks, tangent_W2_0 of regime1, they are on l, since a name does
    not tell what it counts. Arrays of different shapes stay apart.

    >>> x = xarray.Dataset({f"Ch_{l}_diag": ("t", [l, 2.0 * l]) for l in range(3)})
    >>> blocks(x)["Ch_diag"].dims, float(blocks(x)["Ch_diag"].sel(l=2)[1])
    (('l', 't'), 4.0)
    """
    found = defaultdict(dict)
    for name in data.data_vars:
        match = NAME.fullmatch(str(name))
        if match and not match["stem"].startswith("weights"):
            member = None if match["member"] is None else int(match["member"])
            found[match["stem"], match["rest"], member is not None][int(match["l"]), member] = name
    taken, made = [], {}
    for (stem, rest, _), parts in found.items():
        array = _gathered(stem, parts, data)
        name = stem + ("_by_head" if "head" in getattr(array, "dims", ()) else "") + rest
        if array is not None and name not in {**made, **data.variables}:
            made[name] = array
            taken += parts.values()
    left = data.drop_vars(taken)
    if "l" in left.dims and "l" not in left.coords:
        left = left.assign_coords(l=range(left.sizes["l"]))
    return xarray.merge([left, *(array.rename(name) for name, array in made.items())], join="outer",
                        compat="override", combine_attrs="override")
