"""Sums, means, softmaxes and norms."""
from __future__ import annotations

import functools

import numpy as np
import torch

from dmft.torch.importing.axes import Axis, as_tokens, cells_shape, length
from dmft.torch.importing.expressions import FAR, Gap, Pairs
from dmft.torch.importing.pointwise import add, div, mul, pow, sub
from dmft.torch.importing.places import mean_of_tokens
from dmft.torch.importing.reading import HANDLERS, Two, pair
from dmft.torch.importing.tensors import SINKS, Tensor, array
from dmft.torch.importing.unsummed import holds, is_unsummed, multiplied, summed


def _dims(read, x, dim):
    if dim is None or dim == []:
        return list(range(len(x.dims)))
    return [read.dimension(x, d) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def sum_of_dimensions(read, x, dims, keep: bool) -> Tensor:
    """The sum over some dimensions."""
    x = read.expressions(x)
    for d in range(len(x.dims) - 1):    # of an image
        if {d, d + 1} <= set(dims) and [axis.kind for axes in x.dims[d:d + 2] for axis in axes] == [
                "row", "column"]:
            both = as_tokens([x.dims[d] + x.dims[d + 1]])
            x = Tensor([*x.dims[:d], *both, (), *x.dims[d + 2:]], x.cells)
    if any(axis.kind in ("input", "token") for d in dims for axis in x.dims[d]):
        x = _masked_slots(read.builder, x)
    for dim in dims:
        x = _summed(read, x, dim)
    if keep:
        return x
    return Tensor([axes for d, axes in enumerate(x.dims) if d not in dims], x.cells)


def _masked_slots(builder, x: Tensor) -> Tensor:
    """Slots whose experts have been chosen by each row, before a sum over rows: what is not chosen
    is 0 from here on, and a sum over slots needs no mask."""
    for dim, axes in enumerate(x.dims):
        for at, axis in enumerate(axes):
            if axis.kind != "slot":
                continue
            place = x.place_of(dim) + len(cells_shape([axes[:at]]))
            cells = np.moveaxis(x.cells, place, 0)
            masked = [builder.multiply(mask, one) for mask, part in zip(axis.about.masks, cells)
                      for one in np.ravel(part)]
            known = Axis("slots of lists", axis.size, about=axis.about)
            x = Tensor([*x.dims[:dim], (*axes[:at], known, *axes[at + 1:]), *x.dims[dim + 1:]],
                       np.moveaxis(array(masked, cells.shape), 0, place))
    return x


def _summed(read, x: Tensor, dim: int) -> Tensor:
    """The sum over a dimension, which is then one of length 1."""
    builder, axes = read.builder, x.dims[dim]
    for axis in axes:
        if axis.cells is None:
            x = _sum_along(read, x, axis)
    place = x.place_of(dim)
    written = [axis for axis in axes if axis.cells is not None]
    cells = np.moveaxis(x.cells, list(range(place, place + len(written))),
                        list(range(-len(written), 0))) if written else x.cells
    kept = cells.shape[:cells.ndim - len(written)]
    made = []
    for index in np.ndindex(kept):
        part = cells[index] if written else np.array(cells[index], object)
        made.append(_total(builder, part, written))
    dims = [*x.dims[:dim], (), *x.dims[dim + 1:]]
    return Tensor(dims, array(made, kept))


def _total(builder, cells, written):
    total, whole = None, None
    if cells.ndim == 1 and written[0].kind == "finite" and not cells[0].is_rows \
            and not builder.value(cells[0]):
        whole = builder.join(list(cells))
        if whole is not None and whole.width == len(cells):
            return builder.make("sum", (whole,), width=1)
    for index in np.ndindex(cells.shape):
        one = cells[index]
        for axis, k in zip(written, index):
            if axis.kind == "slot":
                one = builder.multiply(axis.about.masks[k], one)
        total = one if total is None else builder.add(total, one)
    return total


def _sum_along(read, x: Tensor, axis: Axis) -> Tensor:
    builder = read.builder
    if axis.kind in ("sites", "site slot") and all(is_unsummed(one) for one in x.cells.flat):
        return x.over(lambda one: _of_experts(builder, one, axis))
    pairs = [one for one in x.cells.flat if isinstance(one.population, Pairs)]
    if axis.kind in ("sites", "site slot") and any(map(holds, pairs)):
        raise Gap("a sum over a growing number of experts of a function of what each makes"
                  if axis.kind == "site slot"
                  or axis.size == pairs[0].population.outer.find().sizes else
                  "a sum over the units of each of a growing number of experts of what it makes")
    if axis.kind == "sites":
        alone = [one.kind for one in x.axes].count("sites") == 1
        return x.over(lambda one: _sum_of_sites(builder, one, axis.size, alone))
    if axis.kind == "site slot" and pairs:
        raise Gap("a sum over the chosen experts of rows over their units, which a program has "
                  "over all experts, with gates that are 0 for the others")
    if axis.kind == "site slot":
        return x.over(lambda one: builder.sum_of_sites(builder.multiply(axis.about.mask, one)))
    if axis.kind == "copy":
        return x.over(lambda one: builder.times(tuple(map(float, axis.size)), one))
    if axis.kind == "input":
        return x.over(lambda one: builder.times(tuple(map(float, axis.size)),
                                                _mean_of_inputs(builder, one)))
    if axis.kind == "token":
        return x.over(lambda one: builder.times(tuple(map(float, axis.size)),
                                                mean_of_tokens(builder, one)))
    if axis.kind in ("row", "column"):
        raise Gap("a sum over windows that a reshape makes of tokens; take F.avg_pool1d of x.mT, "
                  "or avg_pool2d of an image")
    raise Gap(SINKS if axis.kind == "source" else f"a sum over an axis of {axis.kind}")


def _sum_of_sites(builder, one, sizes, alone: bool):
    """Sums rows, or what is the same for all of so many sites; alone: there are no other sites."""
    if not one.is_rows or not alone and not isinstance(one.population, Pairs) \
            and one.population.find().sizes != sizes:
        return builder.times(tuple(map(float, sizes)), one)
    return builder.sum_of_sites(one, sizes)


def _of_experts(builder, one, axis: Axis):
    """The sum over experts, or over those that are chosen, of what each makes of its own."""
    if axis.kind == "sites":
        return summed(builder, one, axis.size)
    mask = axis.about.mask
    return summed(builder, multiplied(builder, one, mask), mask.population.find().sizes)


def _mean_of_inputs(builder, one):
    if builder.value(one):
        return one
    return builder.make("mean_of_rows", (one,), population=one.population, axes=one.axes)


@HANDLERS("sum")
def total(read, x, dim=None, keepdim=False, **_):
    return sum_of_dimensions(read, x, _dims(read, x, dim), keepdim)


@HANDLERS
def mean(read, x, dim=None, keepdim=False, **_):
    dims = _dims(read, x, dim)
    counts = [length(x.dims[d]) for d in dims]
    found = sum_of_dimensions(read, x, dims, keepdim)
    k = tuple(float(np.prod([1 / count[i] for count in counts])) for i in (0, 1))
    return read.each(lambda one: read.builder.times(k, one), found)


@HANDLERS("any")
def any_of_slots(read, x, dim=None, keepdim=False):
    dims = _dims(read, x, dim)
    if [axis.kind for d in dims for axis in x.dims[d]] not in ([], ["slot"]):
        raise Gap("whether any of several numbers is above 0")
    return sum_of_dimensions(read, x, dims, keepdim)


@HANDLERS("mse_loss", "nll_loss_forward", "nll_loss2d_forward")
def loss(*_, **__):
    raise Gap("a part of a loss, which is a key of [training]; give output=, a function of the "
              "module and x that returns what stands before it, as lambda m, x: m(x)[0]")


@HANDLERS("_log_softmax", "log_softmax")
def log_softmax(read, x, dim, *_):
    return sub(read, x, logsumexp(read, x, dim, True))


@HANDLERS
def linalg_vector_norm(read, x, order=2, dim=None, keepdim=False, **_):
    if order != 2:
        raise Gap(f"a norm of order {order}")
    squares = pow(read, x, 2)
    return pow(read, sum_of_dimensions(read, squares, _dims(read, squares, dim), keepdim), 0.5)


@HANDLERS("_softmax", "_safe_softmax", "softmax")
def softmax(read, x, dim, *_):
    dim = read.dimension(x, dim)
    x = read.expressions(x).merged(dim)
    kinds = [axis.kind for axis in x.dims[dim]]
    builder = read.builder
    if not kinds:
        return x.over(lambda one: builder.constant((1, 1)))
    if kinds == ["source"]:
        safe = read.step[0].operation.startswith("_safe")
        return x.over(lambda one: _of_sources(builder, one, safe))
    if kinds == ["finite"]:
        return _of_numbers(read, x, dim)
    if kinds == ["slot"]:
        choice = x.dims[dim][0].about
        if x.cells.ndim == 1 and builder.join(list(x.cells)) is choice.scores:
            whole = builder.make("softmax_of_top", (choice.scores,), (choice.top,))
            return Tensor(x.dims, array([builder.pick(whole, k) for k in range(choice.count)],
                                        x.cells.shape))
    if kinds in (["slot"], ["sites"], ["site slot"], ["token"]):
        e = read.each(lambda one: builder.function("exp", one), x)
        return div(read, e, sum_of_dimensions(read, e, [dim], True))
    raise Gap(f"a softmax over {' and '.join(kinds)}")


def _of_sources(builder, one, safe=False):
    """safe: where all are hidden, by the kinds of tokens, each weight is 0."""
    causal, masks, windows = False, [], []
    while one.operation in ("visible", "chosen", "less_largest"):
        if one.operation == "less_largest":     # of which the softmax is the same
            one = one.arguments[0]
            continue
        if one.operation == "chosen":
            mask, one = one.arguments
            masks.append(mask)
            continue
        n, seen = len(one.data), one.data
        first = all(seen[s][t] == (t <= s) for s in range(n) for t in range(n))
        if not first and not all(map(all, seen)):
            windows.append(tuple(tuple(float(here) - 1 for here in row) for row in seen))
        causal, one = causal or first, one.arguments[0]
    axes = frozenset({"token", "source"})
    for mask in masks:
        one = builder.far_below(mask, builder.multiply(mask, one))     # all alike where it is 0
    for window in windows:
        one = builder.add(one, builder.times((FAR, FAR), builder.make(
            "of_pair", data=window, axes=axes)))
    one = builder.make("softmax", (one,), (causal,), one.population, axes)
    for mask in masks if safe else ():
        one = builder.multiply(mask, one)
    return one


def _of_numbers(read, x, dim):
    place, builder = x.place_of(dim), read.builder
    cells = np.moveaxis(x.cells, place, -1)
    made = np.empty(cells.shape, object)
    for index in np.ndindex(cells.shape[:-1]):
        whole = builder.join(list(cells[index]))
        if whole is None or whole.operation != "chosen":
            whole = _hidden_some(builder, list(cells[index])) or builder.list_of(
                list(cells[index]))
        soft = _softmax_of(builder, whole)
        made[index] = [builder.pick(soft, k) for k in range(cells.shape[-1])]
    return Tensor(x.dims, np.moveaxis(made, -1, place))


def _hidden_some(builder, cells):
    """Numbers of which a choice hides each by itself."""
    if not all(one.operation == "chosen" for one in cells):
        return None
    masks, logits = (builder.list_of([one.arguments[k] for one in cells]) for k in (0, 1))
    return builder.make("chosen", (masks, logits))


def _softmax_of(builder, whole):
    """Takes it of numbers, or of those that a mask leaves."""
    if whole.operation != "chosen":
        return builder.make("softmax_of_numbers", (whole,))
    mask, logits = whole.arguments
    if mask.operation == "top" and mask.arguments[0] is logits:
        return builder.make("softmax_of_top", (logits,), mask.data)
    e = builder.multiply(mask, builder.function("exp", logits))
    return builder.divide(e, builder.make("sum", (e,), width=1))


@HANDLERS
def logsumexp(read, x, dim, keepdim=False):
    builder, dims = read.builder, _dims(read, x, dim)
    whole = _list_over(read, x, dims)
    if whole is not None:
        return read.each(lambda one: builder.make("log_sum_exp", (one,), width=1), whole if keepdim
                         else Tensor([axes for d, axes in enumerate(whole.dims) if d not in dims],
                                     whole.cells))
    e = read.each(lambda one: builder.function("exp", one), x)
    found = sum_of_dimensions(read, e, dims, keepdim)
    return read.each(lambda one: builder.function("log", one), found)


def _list_over(read, x, dims) -> Tensor | None:
    """The numbers along one dimension as lists, where it is one of several numbers that no choice
    hides; None where it is not."""
    if len(dims) > 1:
        return None
    (dim,) = dims
    x = read.expressions(x).merged(dim)
    if [axis.kind for axis in x.dims[dim]] != ["finite"]:
        return None
    cells = np.moveaxis(x.cells, x.place_of(dim), -1)
    if any(one.is_rows or one.operation == "chosen" for one in cells.flat):
        return None
    made = [read.builder.list_of(list(cells[index])) for index in np.ndindex(cells.shape[:-1])]
    return Tensor([*x.dims[:dim], (), *x.dims[dim + 1:]], array(made, cells.shape[:-1]))


@HANDLERS
def native_layer_norm(read, x, shape, weight, bias, eps):
    dims = list(range(len(x.dims) - len(shape), len(x.dims)))
    centred = sub(read, x, mean(read, x, dims, True))
    found = _normed(read, centred, dims, weight, bias, eps)
    return [found, *[read.missing("the moments of a layer norm are used; compute them by mean and "
                                  "square")] * 2]


@HANDLERS
def native_group_norm(read, x, weight, bias, inputs, channels, places, groups, eps):
    shape = read.shapes()
    if len(shape) != 2:
        raise Gap("a norm of groups of channels that goes over the places, too; a program "
                  "normalizes each token by itself")
    sizes = tuple(n // int(k) for n, k in zip(shape[1], pair(groups)))
    split = x.view([shape[0], tuple(map(int, pair(groups))), sizes])
    centred = sub(read, split, mean(read, split, [2], True))
    found = _normed(read, centred, [2], None, None, eps).view(shape)
    found = found if weight is None else mul(read, found, weight)
    found = found if bias is None else add(read, found, bias)
    return [found, *[read.missing("the moments of a norm are used; compute them by mean and "
                                  "square")] * 2]


@HANDLERS("_fused_rms_norm", "rms_norm")
def rms_norm(read, x, shape, weight=None, eps=None):
    dims = list(range(len(x.dims) - len(shape), len(x.dims)))
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    return _normed(read, x, dims, weight, None, eps)


def _normed(read, x, dims, weight, bias, eps):
    square = mean(read, pow(read, x, 2), dims, True)
    y = mul(read, x, pow(read, add(read, square, eps), -0.5))
    y = y if weight is None else mul(read, y, weight)
    return y if bias is None else add(read, y, bias)


@HANDLERS
def prod(read, x, dim=None, keepdim=False, **_):
    dims = _dims(read, x, dim)
    if [axis.kind for d in dims for axis in x.dims[d]] != ["finite"]:
        raise Gap("a product of more than a finite number of factors")
    x = read.expressions(x)
    (dim,) = (d for d in dims if x.dims[d])
    cells = np.moveaxis(x.cells, x.place_of(dim), 0)
    made = functools.reduce(np.frompyfunc(read.builder.multiply, 2, 1), cells)
    gone = () if keepdim else dims
    return read.tidied(Tensor([() if d == dim else axes for d, axes in enumerate(x.dims)
                               if d not in gone], array(np.ravel(made), cells.shape[1:])))


@HANDLERS("var", "var_mean", "std", "std_mean")
def var(read, x, dim=None, correction=1, keepdim=False, **_):
    dims, name = _dims(read, x, dim), read.step[0].operation
    counts = [float(np.prod([length(x.dims[d])[i] for d in dims])) for i in (0, 1)]
    correction = 1 if correction is None else correction
    if isinstance(correction, Two) or correction != 0 and counts[0] != counts[1]:
        raise Gap(f"it divides by n - {correction} of n that goes with the width, which is no "
                  "power of it: give correction=0 (unbiased=False)")
    middle = mean(read, x, dims, True)
    found = mean(read, pow(read, sub(read, x, middle), 2), dims, keepdim)
    k = tuple(n / (n - correction) for n in counts)
    found = read.each(lambda one: read.builder.times(k, one), found)
    found = pow(read, found, 0.5) if name.startswith("std") else found
    if not name.endswith("mean"):
        return found
    return [found, middle if keepdim else mean(read, x, dims, False)]

