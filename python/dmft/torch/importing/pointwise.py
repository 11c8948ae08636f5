"""Operations of PyTorch that act on every entry by itself."""
from __future__ import annotations

import functools
import math
import operator

from dmft.torch.importing.complex_numbers import is_complex
from dmft.torch.importing.complex_numbers import product as complex_product
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.flags import is_flag, opposite_flag
from dmft.torch.importing.reading import HANDLERS, Two, pair
from dmft.torch.importing.tensors import Constant, Tensor
from dmft.torch.importing.unsummed import is_unsummed, multiplied


# An attention logit that is so far below others has the weight 0 in double precision.
HIDDEN = -1e4
COMPARED = "a comparison of what inputs decide; write what it does by a function such as relu or " \
    "sigmoid, or choose by topk"


@HANDLERS
def add(read, a, b, alpha=1):
    if alpha != 1:
        return read.pointwise(lambda x, y: read.builder.add(x, read.builder.times(pair(alpha), y)),
                              a, b)
    return read.pointwise(lambda x, y: sum_of(read.builder, x, y), a, b)


def sum_of(builder, a, b):
    """a + b, where minus infinity at some tokens attended to hides them."""
    for one, other in ((a, b), (b, a)):
        if one.operation == "visible":  # of a sum of masks
            return hidden(builder, sum_of(builder, one.arguments[0], other), one.data)
        if one.operation == "of_pair":
            seen = [[value == 0 for value in row] for row in one.data]
            if all(value == 0 or value <= HIDDEN for row in one.data for value in row) and (
                    all(map(any, seen)) or min(map(min, one.data)) < -1e30):
                return hidden(builder, other, seen)
        if one.operation == "chosen" and builder.is_value(one.arguments[1], 0.0):
            return builder.make("chosen", (one.arguments[0], other))
        if one.operation == "times" and max(one.data) < -1e30 and is_flag(
                one.arguments[0]):
            return builder.make("chosen", (opposite_flag(builder, one.arguments[0]), other))
    return builder.add(a, b)


def hidden(builder, logits, seen):
    """Logits of which only some are seen."""
    return builder.make("visible", (logits,), tuple(map(tuple, seen)), logits.population,
                        axes=frozenset({"token", "source"}))


@HANDLERS
def sub(read, a, b, alpha=1):
    k = tuple(-value for value in pair(alpha))
    builder = read.builder

    def less(x, y):
        largest = y.arguments[0] if y.operation == "stop" else y
        if largest.operation == "largest_of_sources" and largest.arguments[0] is x \
                and k == (-1.0, -1.0):
            return builder.make("less_largest", (x,), axes=x.axes)
        if k != (-1.0, -1.0) or not (builder.is_value(x, 1.0) and is_flag(y)):
            return builder.add(x, builder.times(k, y))
        return opposite_flag(builder, y)
    return read.pointwise(less, a, b)


@HANDLERS
def rsub(read, a, b, alpha=1):
    return sub(read, b, a, alpha)


@HANDLERS("mul", "logical_and", "bitwise_and")
def mul(read, a, b):
    if is_complex(a) or is_complex(b):
        return complex_product(read, a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Tensor) and one.is_parameter and not isinstance(other, Tensor):
            k = uniform(other)
            if k:
                return one.over(lambda leaf: leaf.times(k))
    return read.pointwise(lambda x, y: product_of(read.builder, x, y), a, b)


def product_of(builder, a, b):
    """a b, where one of them may be what experts make before their sum."""
    for one, other in ((a, b), (b, a)):
        if is_unsummed(one) and not builder.value(other):
            return multiplied(builder, one, other)
    return builder.multiply(a, b)


def uniform(one):
    """The number of a constant that is one number."""
    if not isinstance(one, Constant):
        return pair(one)
    if all(values.size and (values == values.flat[0]).all() for values in one.values):
        return tuple(float(values.flat[0]) for values in one.values)
    return None


@HANDLERS
def div(read, a, b, rounding_mode=None):
    if rounding_mode:
        raise Gap("a division that is rounded")
    if isinstance(a, Tensor) and a.is_parameter and uniform(b) if not isinstance(b, Tensor) \
            else False:
        k = uniform(b)
        return a.over(lambda leaf: leaf.times((1 / k[0], 1 / k[1])))
    return read.pointwise(read.builder.divide, a, b)


@HANDLERS
def neg(read, x):
    return read.each(read.builder.negative, x)


@HANDLERS
def pow(read, x, c):                                            # noqa: A001 (PyTorch's own name)
    if not isinstance(c, (int, float)):
        raise Gap("a power that is no constant")
    return read.each(lambda one: read.builder.power(one, float(c)), x)


for _name, _power in (("square", 2), ("sqrt", 0.5), ("rsqrt", -0.5), ("reciprocal", -1)):
    HANDLERS(_name)(lambda read, x, c=_power: pow(read, x, c))


@HANDLERS("tanh", "sigmoid", "relu", "silu", "exp", "log", "sin", "cos", "erf")
def function(read, x, *_):
    name = read.step[0].operation.rstrip("_")
    return read.each(lambda one: read.builder.function(name, one), x)


@HANDLERS
def log1p(read, x):
    builder = read.builder
    return read.each(lambda one: builder.function(
        "log", builder.add(one, builder.constant((1, 1)))), x)


@HANDLERS
def expm1(read, x):
    builder = read.builder
    return read.each(lambda one: builder.add(
        builder.function("exp", one), builder.constant((-1, -1))), x)


@HANDLERS
def gelu(read, x, approximate="none"):
    builder = read.builder
    if approximate == "none":
        return read.each(lambda one: builder.function("gelu", one), x)

    def rough(one):
        inner = builder.add(one, builder.times((0.044715,) * 2, builder.power(one, 3)))
        bent = builder.function("tanh", builder.times((math.sqrt(2 / math.pi),) * 2, inner))
        return builder.times((0.5, 0.5), builder.add(one, builder.multiply(one, bent)))
    return read.each(rough, x)


@HANDLERS
def leaky_relu(read, x, slope=0.01):
    builder = read.builder

    def leaky(one):
        return builder.add(builder.function("relu", one), builder.times(
            (-slope, -slope), builder.function("relu", one, -1.0)))
    return read.each(leaky, x)


@HANDLERS("_prelu_kernel", "prelu")
def prelu(read, x, slope):
    """A leaky ReLU with a trained slope."""
    builder = read.builder
    above, below = (read.each(lambda one, k=k: builder.function("relu", one, k), x)
                    for k in (1.0, -1.0))
    return sub(read, above, mul(read, slope, below))


@HANDLERS
def lerp(read, a, b, weight):
    return add(read, a, mul(read, sub(read, b, a), weight))


@HANDLERS
def addcmul(read, x, a, b, value=1):
    return add(read, x, mul(read, a, b), value)


@HANDLERS
def mish(read, x):
    builder = read.builder
    return read.each(lambda one: builder.multiply(one, builder.function(
        "tanh", builder.function("softplus", one))), x)


@HANDLERS("log_sigmoid_forward", "log_sigmoid")
def log_sigmoid(read, x):
    builder = read.builder
    return read.each(lambda one: builder.negative(builder.function("softplus", one, -1.0)), x)


@HANDLERS
def elu(read, x, alpha=1.0, scale=1.0, inside=1.0):
    builder = read.builder

    def made(one):
        below = builder.negative(builder.function("relu", one, -inside))
        bent = builder.add(builder.function("exp", below), builder.constant((-1, -1)))
        total = builder.add(builder.function("relu", one), builder.times((alpha, alpha), bent))
        return builder.times((scale, scale), total)
    return read.each(made, x)


@HANDLERS
def celu(read, x, alpha=1.0):
    return elu(read, x, alpha, 1.0, 1 / alpha)


@HANDLERS
def softplus(read, x, beta=1, threshold=20):
    if threshold < 20:
        raise Gap(f"a softplus that jumps at its threshold {threshold:g}")
    builder = read.builder
    return read.each(lambda one: builder.times((1 / beta,) * 2, builder.function(
        "softplus", one, float(beta))), x)


@HANDLERS
def logaddexp(read, x, other):
    builder = read.builder
    return read.pointwise(lambda a, b: builder.add(b, builder.function(
        "softplus", builder.add(a, builder.negative(b)))), x, other)


@HANDLERS
def abs(read, x):                                               # noqa: A001 (PyTorch's own name)
    builder = read.builder
    return read.each(lambda one: builder.add(builder.function("relu", one),
                                             builder.function("relu", one, -1.0)), x)


@HANDLERS
def where(read, condition, one, other):
    builder = read.builder
    if isinstance(condition, Constant):
        condition = condition if isinstance(one, Constant) and isinstance(other, Constant) \
            else read.operand(condition, one if isinstance(one, Tensor) else other)

    for value, kept, mask in ((one, other, _opposite), (other, one, lambda _, m: m)):
        if _is_nothing(value) and isinstance(condition, Tensor) \
                and (isinstance(kept, Tensor) or uniform(kept) == (0.0, 0.0)) \
                and condition.cells.flat[0].operation != "of_pair":
            return read.pointwise(lambda m, x: builder.make(
                "chosen", (mask(builder, m), x)), condition, kept)

    def chosen(mask, value):
        return _masked(builder, mask, value)
    first = read.pointwise(chosen, condition, one)
    opposite = read.each(lambda mask: _opposite(builder, mask), condition)
    second = read.pointwise(chosen, opposite, other)
    return read.pointwise(lambda a, b: _joined(builder, a, b), first, second)


def _is_nothing(value) -> bool:
    """Whether a constant is minus infinity."""
    k = None if isinstance(value, Tensor) else uniform(value)
    return k is not None and max(k) < -1e30


def _opposite(builder, mask):
    if mask.operation == "not":
        return mask.arguments[0]
    if is_flag(mask):
        return opposite_flag(builder, mask)
    if mask.operation in ("pick", "top") and not mask.is_rows:
        return builder.make("not", (mask,))
    if mask.operation == "of_pair":
        return builder.make("of_pair", data=tuple(tuple(1 - v for v in row) for row in mask.data),
                            axes=mask.axes)
    return builder.add(builder.constant((1, 1)), builder.negative(mask))


def _masked(builder, mask, value):
    """value where the mask is 1; elsewhere nothing."""
    if mask.operation == "of_pair":
        k = builder.value(value)
        if k and (max(k) < -1e30 or max(k) <= HIDDEN and all(0 in row for row in mask.data)):
            return builder.make("nothing", data=mask.data, axes=mask.axes)
        if not k and "source" in value.axes:
            return builder.make("seen", (value,), mask.data, axes=mask.axes | value.axes)
    return builder.multiply(mask, value)


def _joined(builder, a, b):
    for one, other in ((a, b), (b, a)):
        if one.operation == "seen" and other.operation == "nothing":
            return hidden(builder, one.arguments[0], one.data)
    return builder.add(*(builder.multiply(builder.make("of_pair", data=one.data, axes=one.axes),
                                          one.arguments[0]) if one.operation == "seen" else one
                         for one in (a, b)))


@HANDLERS
def masked_fill(read, x, mask, value):
    if isinstance(mask, Constant):
        mask = read.operand(mask, x)
    return where(read, mask, value, x)


@HANDLERS("eq", "ne")
def eq(read, x, number):
    if isinstance(number, Two):
        raise Gap("a loop over the experts that were chosen comes to other ones at the two widths; "
                  "give an example in which every expert is chosen, 24 or more rows for each")
    if isinstance(number, Constant) and uniform(number):
        number = uniform(number)[0]
    if not isinstance(number, (int, float)):
        raise Gap("a comparison of computed numbers")
    wanted = 1.0 if read.step[0].operation.startswith("eq") else 0.0

    def compared(one):
        if one.operation == "expert":
            return read.builder.constant((wanted if one.data[0] == number else 1 - wanted,) * 2)
        if one.operation == "token":
            letter = read.builder.make("letter", data=(int(number),), axes=one.axes)
            return letter if wanted else opposite_flag(read.builder, letter)
        if one.operation == "of_letter":
            return read.builder.make("of_letter", data=tuple(
                wanted if value == number else 1 - wanted for value in one.data), axes=one.axes)
        if one.operation == "which":
            masks = one.data[0]
            found = masks[int(number)] if 0 <= number < len(masks) else \
                read.builder.constant((0, 0))
            return found if wanted else _opposite(read.builder, found)
        if one.operation in ("pick", "top") and number in (0, 1):
            return one if number == wanted else _opposite(read.builder, one)
        k = read.builder.value(one)
        if k:
            return read.builder.constant([wanted if v == number else 1 - wanted for v in k])
        raise Gap(COMPARED)
    return read.each(compared, x)


@HANDLERS("lt", "le")
def below(read, x, number):
    if isinstance(number, Tensor) and read.step[0].operation.startswith("lt"):
        return read.pointwise(lambda a, b: _opposite(read.builder, _among_largest(read, a, b)),
                              x, number)
    raise Gap(COMPARED)


def _among_largest(read, one, other):
    """Whether a number is among the K largest, of which the other is the last."""
    scores, top = read.__dict__.get("kth", {}).get(id(other), (None, 0))
    whole = one.arguments[0] if one.operation == "pick" else None
    if scores is None or whole is not scores:
        raise Gap("a comparison of computed numbers")
    return read.builder.pick(read.builder.make("top", (scores,), (top,)), one.data[0])


@HANDLERS("gt", "ge")
def above(read, x, number):
    if isinstance(number, Tensor) and read.step[0].operation.startswith("ge"):
        return read.pointwise(lambda a, b: _among_largest(read, a, b), x, number)
    if isinstance(number, (Tensor, Constant, Two)):
        raise Gap("a comparison of computed numbers")
    compared = operator.gt if read.step[0].operation.startswith("gt") else operator.ge
    return read.each(lambda one: _of_mask(read, one, compared, number), x)


def _of_mask(read, one, compared, number):
    k = read.builder.value(one)
    if k:
        return read.builder.constant([float(compared(v, number)) for v in k])
    if one.operation == "pick" and one.arguments[0].operation == "top" \
            and compared(1, number) and not compared(0, number):
        return one
    c, letter = (one.data, one.arguments[0]) if one.operation == "times" else ((1.0, 1.0), one)
    if letter.operation == "letter" and all(compared(x, number) for x in c) \
            and not compared(0, number):
        return letter
    if one.operation == "multiply" and number == 0 and compared is operator.gt:
        for mask, other in (one.arguments, one.arguments[::-1]):
            if read.builder.is_mask(mask) and _is_positive(other):
                return mask
    raise Gap(COMPARED)


def _is_positive(one) -> bool:
    """Whether numbers cannot be 0 or less: shares, and what an exponential or a sigmoid gives."""
    whole = one.arguments[0] if one.operation == "pick" else one
    return whole.operation == "softmax_of_numbers" \
        or whole.operation == "function" and whole.data[0] in ("sigmoid", "exp", "softplus")


@HANDLERS("logical_or", "bitwise_or")
def either(read, a, b):
    builder, no = read.builder, functools.partial(_opposite, read.builder)
    return read.pointwise(lambda x, y: no(product_of(builder, no(x), no(y))), a, b)


@HANDLERS("logical_not", "bitwise_not")
def opposite(read, x):
    return read.each(lambda one: _opposite(read.builder, one), x)
