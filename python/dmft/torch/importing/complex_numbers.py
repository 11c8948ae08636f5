"""Complex numbers, by which rotary positions turn pairs of numbers."""
from __future__ import annotations

import dataclasses

from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.tensors import Constant, Tensor


@dataclasses.dataclass
class Complex:
    """A tensor of complex numbers: their real and imaginary parts."""
    parts: tuple


@HANDLERS
def view_as_complex(read, x):
    from dmft.torch.importing.shapes import select
    return Complex(tuple(select(read, x, len(x.dims) - 1, k) for k in (0, 1)))


@HANDLERS
def view_as_real(read, x):
    from dmft.torch.importing.shapes import stack
    if not isinstance(x, Complex):
        raise Gap("numbers that are not complex")
    return stack(read, list(x.parts), -1)


def product(read, a, b) -> Complex:
    """a b, of which one or both are complex."""
    from dmft.torch.importing.pointwise import add, mul, sub
    (x, y), (u, v) = _parts(a), _parts(b)
    if v is None:
        return Complex((mul(read, x, u), mul(read, y, u)))
    if y is None:
        return Complex((mul(read, x, u), mul(read, x, v)))
    return Complex((sub(read, mul(read, x, u), mul(read, y, v)),
                    add(read, mul(read, x, v), mul(read, y, u))))


def _parts(one):
    if isinstance(one, Complex):
        return one.parts
    if isinstance(one, Constant) and one.values[0].dtype.kind == "c":
        return tuple(Constant(tuple(part(values) for values in one.values))
                     for part in (lambda z: z.real, lambda z: z.imag))
    return one, None


def is_complex(one) -> bool:
    """Whether it is such a tensor."""
    return isinstance(one, Complex) and isinstance(one.parts[0], Tensor)
