"""Convolutions and pooling over the places of an image (`layout` says which are tokens), and
pooling along the tokens of a sequence."""
from __future__ import annotations

import functools

import numpy as np

from dmft.torch.importing.axes import Axis
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.places import count_of, is_of_tokens, places_mixed, windows
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.tensors import Tensor


def _flat(x: Tensor) -> Tensor:
    """[P, token, C] of [P, C, H, W]."""
    (row, *_), (column, *_) = x.dims[2:]
    size = (row.size[0] * column.size[0],) * 2
    return Tensor([x.dims[0], (Axis("token", size),), x.dims[1]], x.cells)


def _image(x: Tensor, h: int, w: int) -> Tensor:
    """[P, C, H, W] of [P, token, C]."""
    return Tensor([x.dims[0], x.dims[2], (Axis("row", (h, h)),), (Axis("column", (w, w)),)],
                  x.cells)


def _sizes(x: Tensor):
    kinds = [[axis.kind for axis in axes] for axes in x.dims[2:]]
    if len(x.dims) != 4 or [one[:1] for one in kinds] != [["row"], ["column"]]:
        raise Gap("the rows and columns of an image, or the tokens of a sequence, are wanted as "
                  "the last axes; give inputs [P, C, H, W] and turn none of them, or pool x.mT of "
                  "rows x of each token")
    return x.dims[2][0].size[0], x.dims[3][0].size[0], kinds[0][1:] != []


def _opened(x: Tensor):
    """(its rows [P, token, C], the two numbers of its places, whether each is a patch, what makes
    it of its rows) of an image, or of a sequence [P, C, 1, n]."""
    if len(x.dims) == 4 and is_of_tokens(x, 3) and not x.dims[2]:
        return Tensor([x.dims[0], x.dims[3], x.dims[1]], x.cells), (1, count_of(x, 3)), False, \
            lambda rows, *_: Tensor([rows.dims[0], rows.dims[2], (), rows.dims[1]], rows.cells)
    *size, of_patches = _sizes(x)
    return _flat(x), size, of_patches, _image


def convolved(read, x: Tensor, weight: Tensor, bias, stride, padding, dilation, apart: bool):
    """A convolution over an image: of patches one product, else one for each place of a window."""
    from dmft.torch.importing.pointwise import add, mul
    from dmft.torch.importing.products import linear
    from dmft.torch.importing.shapes import select
    h, w, of_patches = _sizes(x)
    kernel = [read.step[0].arguments[1].shape[2], read.step[0].arguments[1].shape[3]]
    if of_patches:
        rows = Tensor([x.dims[0], x.dims[2][:1], x.dims[3][:1],
                       (*x.dims[1], *x.dims[2][1:], *x.dims[3][1:])], x.cells).merged(3)
        flat = Tensor([weight.dims[0], tuple(axis for axes in weight.dims[1:] for axis in axes)],
                      weight.cells).merged(1)
        found = linear(read, rows, flat, bias)
        return found.permute([0, 3, 1, 2])
    grids = [windows(n, k, s, p, d) for n, k, s, p, d in zip(
        (h, w), kernel, stride, padding, dilation)]
    rows, found = _flat(x), None
    for k, vertical in enumerate(grids[0]):
        for j, across in enumerate(grids[1]):
            one = select(read, select(read, weight, 3, j), 2, k)
            y = mul(read, rows, Tensor([one.dims[0]], one.cells)) if apart else \
                linear(read, rows, one)
            y = places_mixed(read, y, 1, np.kron(vertical, across))
            found = y if found is None else add(read, found, y)
    found = found if bias is None else add(read, found, bias)
    return _image(found, len(grids[0][0]), len(grids[1][0]))


@HANDLERS
def avg_pool2d(read, x, kernel, stride=(), padding=0, ceil=False, count=True, divisor=None):
    rows, size, of_patches, back = _opened(x)
    pads = [padding] * 2 if isinstance(padding, int) else list(padding)
    if of_patches or ceil or divisor:
        raise Gap("a mean of places of a patch, or with ceil_mode or divisor_override; leave these "
                  "out, and let padding make whole windows")
    kernel = list(kernel) * (2 // len(kernel))
    stride = list(stride) * (2 // len(stride)) if stride else kernel
    grids = [sum(windows(n, k, s, p, 1)) for n, k, s, p in zip(size, kernel, stride, pads * 2)]
    grids = [one / (k if count else one.sum(1, keepdims=True)) for one, k in zip(grids, kernel)]
    return back(places_mixed(read, rows, 1, np.kron(*grids)), *map(len, grids))


def _within(parts):
    """Places of windows, with the first one that is within the image for all that are not: the
    largest is then the same."""
    inside = [one.any(1) for one in parts]
    first = np.argmax(inside, axis=0)
    kept = np.array(parts)[first, np.arange(len(first))]
    return [np.where(there[:, None], one, kept) for one, there in zip(parts, inside)]


@HANDLERS("max_pool2d_with_indices", "max_pool2d")
def max_pool2d(read, x, kernel, stride=(), padding=0, dilation=1, ceil=False):
    """The largest of the places of a window, each the larger of two after the other."""
    from dmft.torch.importing.cut_off import larger
    rows, size, of_patches, back = _opened(x)
    kernel, stride, padding, dilation = (
        [one] * 2 if isinstance(one, int) else list(one) * (2 // len(one) if len(one) else 1)
        for one in (kernel, stride or kernel, padding, dilation))
    if of_patches or ceil:
        raise Gap("the largest of places of a patch, or with ceil_mode; leave it out, and let "
                  "padding make whole windows")
    grids = [_within(windows(n, k, s, p, d)) for n, k, s, p, d in zip(
        size, kernel, stride, padding, dilation)]
    parts = [places_mixed(read, rows, 1, np.kron(a, b)) for a in grids[0] for b in grids[1]]
    found = functools.reduce(lambda one, two: read.pointwise(
        lambda a, b: larger(read.builder, a, b), one, two), parts)
    made = back(found, len(grids[0][0]), len(grids[1][0]))
    return [made, read.missing("which of several places is the largest is used; use the largest "
                               "itself")]


@HANDLERS
def adaptive_max_pool2d(read, x, sizes):
    there = [one[0] for one in read.shapes()[2:]]
    have = [step.shape[2:] for step in read.step[0].arguments[:1]][0]
    if any(n % k for n, k in zip(have, there)):
        raise Gap("the largest of parts of different sizes; take max_pool2d with their size")
    return max_pool2d(read, x, [n // k for n, k in zip(have, there)])


@HANDLERS
def im2col(read, x, kernel, dilation, padding, stride):
    """Patches as columns."""
    _sizes(x)
    if list(kernel) != list(stride) or any(padding):
        raise Gap("patches that overlap")
    features = (*x.dims[1], *x.dims[2][1:], *x.dims[3][1:])
    return Tensor([x.dims[0], features, *_flat(x).dims[1:2]], x.cells).merged(1)
