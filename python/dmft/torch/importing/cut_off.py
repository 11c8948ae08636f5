"""The larger of two, and numbers that are cut off above or below; all are sums of a ReLU."""
from __future__ import annotations

from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.pointwise import uniform
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.tensors import Constant, Tensor


def larger(builder, a, b):
    """The larger of two."""
    return builder.add(b, builder.function("relu", builder.add(a, builder.negative(b))))


@HANDLERS("maximum", "fmax")
def maximum(read, x, other):
    return read.pointwise(lambda a, b: larger(read.builder, a, b), x, other)


@HANDLERS("minimum", "fmin")
def minimum(read, x, other):
    builder = read.builder
    return read.pointwise(lambda a, b: builder.negative(
        larger(builder, builder.negative(a), builder.negative(b))), x, other)


def between(builder, one, low, high):
    """Cut off below and above. A positive factor stands before it, so that x over the larger of its
    norm and eps (F.normalize) has that of the norm."""
    if one.operation == "times" and min(one.data) > 0 and high is None and low >= 0:
        less = builder.constant([low / c for c in one.data])
        return builder.times(one.data, larger(builder, one.arguments[0], less))
    found = one
    if low is not None:
        found = builder.add(builder.constant((low, low)), builder.function(
            "relu", builder.add(one, builder.constant((-low, -low)))))
    if high is not None:
        above_it = builder.function("relu", builder.add(one, builder.constant((-high, -high))))
        found = builder.add(found, builder.negative(above_it))
    return found


@HANDLERS("clamp", "hardtanh", "clamp_min", "clamp_max")
def clamp(read, x, low=None, high=None):
    name = read.step[0].operation
    if any(isinstance(one, Tensor) or isinstance(one, Constant) and not uniform(one)
           for one in (low, high)):
        raise Gap("numbers are cut off at others that are computed; write it by torch.maximum, and "
                  "a choice of experts by such thresholds (sparsemixer) by topk of a softmax")
    low, high = (uniform(one) if isinstance(one, Constant) else one for one in (low, high))
    if any(isinstance(one, tuple) and one[0] != one[1] for one in (low, high)):
        raise Gap("numbers are cut off at one that goes with the width")
    low, high = (one[0] if isinstance(one, tuple) else one for one in (low, high))
    if name == "clamp_max":
        low, high = None, low
    if name == "hardtanh" and low is None:
        low, high = -1.0, 1.0
    if low is not None and high is not None and low > high:
        raise Gap(f"numbers are cut off below at {low:g} and above at {high:g}, which is less, so "
                  f"that all are {high:g}; let the lower one come first")
    return read.each(lambda one: between(read.builder, one, low, high), x)


@HANDLERS
def hardsigmoid(*_):
    raise Gap("PyTorch computes its slope with 1/6 in single precision; write F.relu6(x + 3)/6")


@HANDLERS
def hardswish(read, x):
    builder = read.builder

    def made(one):
        gate = between(builder, builder.add(one, builder.constant((3, 3))), 0.0, 6.0)
        return builder.times((1 / 6, 1 / 6), builder.multiply(one, gate))
    return read.each(made, x)
