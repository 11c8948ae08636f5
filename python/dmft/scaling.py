"""From the numbers of a description to those of ordinary training code.

    network = dmft.describe("data/regime2.ini", **{"reference.widths": 256}).networks[0]
    scaling(network, network.matrix("W1")).std

A description counts in U, the matrix as it is used, and its gradients are those of F = gamma0 f
with cotangents n dF/dh (docs/program_format.md). Training code has parameters V, used as x @ V.T,
and gradients dL/dV of the mean loss L over the P inputs. n and m are the sizes of the target and
of the source; where a side is finite V is U over what its operation divides by:

    kind      V              std             lr of SGD                 lr of Adam             eps
    map       U              a0 s_f/sqrt m   eta0 rate gamma0^2 n/m    eta0 adam_rate/m       /n
    read_in   U              a0 s_f          eta0 rate gamma0^2 n      eta0 adam_rate         /n
    embed     U              a0 s_f          eta0 rate gamma0^2 n      eta0 adam_rate         /n
    vector    U              a0 s_f          eta0 rate gamma0^2 n      eta0 adam_rate         /n
    look      U/m            a0 s_f/m        eta0 rate gamma0^2/m      eta0 adam_rate/m       1
    bias      U              as given        eta0 rate gamma0^2        eta0 adam_rate         1
    read_out  U/(gamma0 m)   a0 s_f/that     eta0 rate/m               eta0 adam_rate/that    1

Muon moves a map by lr NS(M/|M|), lr = eta0 muon_rate (n m)^1/2/m, where the n m in the root are
those of the part of an expert or a head if each has a matrix of its own; of H maps that are moved
as one matrix (`parts_of`) lr is H^1/2 times that of one (`muon`).

A vector is a read-in of the number 1, and has its numbers; where all of its entries start at one
number, or the trained numbers of a bias do, this is given.

The last column is what eps adam_eps is multiplied by. The reason: a step moves U by rate (eta0
gamma0/P) (1/m) sum_mu Delta_mu g_mu x_mu^T with g = n gamma0 df/dh, which is -dL/dU times
eta0 rate gamma0^2 n/m. Adam moves m U, of the gradient -n gamma0 dL/dU with gamma0 eps adam_eps.

Read-ins act on A = X/sqrt D. Of V that acts on X itself std is to be divided by sqrt D, the lr of
SGD by D, that of Adam by sqrt D, and eps to be multiplied by sqrt D. Momentum has the rates of SGD,
Lion those of Adam. Decoupled decay, V *= 1 - weight_decay in each step, is weight_decay/lr of a
group of PyTorch. The gradient's norm for clipping, docs/learning.md (10.1), is the square root of
the sum over V of (lr of SGD)/eta0 |dL/dV|^2.
"""
from __future__ import annotations

import dataclasses
import math

from dmft.description import Matrix, Program
from dmft.rows import OPTIMIZERS as ROWS

# Optimizers that move matrices along their gradients, those that move every entry by itself, and
# those that move a matrix by a function of all of its gradient.
BY_MATRIX, BY_ENTRY, BY_WHOLE = (tuple(name for name, way in ROWS.items() if way == one)
                                 for one in ("matrix", "entry", "whole"))
OPTIMIZERS = BY_MATRIX + BY_ENTRY + BY_WHOLE


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Numbers of one parameter. `unit`: it is U over this; std: of its entries at the start (0
    where its numbers are given); sgd, adam: lr over eta0; eps: over the eps of the ini."""
    shape: tuple[int, ...]
    unit: float
    std: float
    sgd: float
    adam: float
    eps: float
    muon: float = 0         # of what Muon moves: what NS is multiplied by, over eta0


def parts_of(network: Program, matrix: Matrix) -> list[Matrix]:
    """The maps that Muon moves as one matrix, this one among them."""
    whole = matrix.muon_whole
    return [one for one in network.matrices if one.muon_whole == whole] if whole else [matrix]


def side_of(network: Program, parts: list[Matrix]) -> int:
    """Along which axis the matrix of all parts is cut: 0 where they read the same rows, of which
    each part makes some, else 1."""
    read = {network.operations[one.operation].arguments[0] for one in parts}
    return 0 if len(read) == 1 else 1


def scaling(network: Program, matrix: Matrix) -> Scaling:
    """The numbers of a parameter of a network (not of a limit, which has no sizes).

    >>> network = dmft.describe("data/regime2.ini").networks[0]             # doctest: +SKIP
    >>> scaling(network, network.matrix("w")).std                           # doctest: +SKIP
    0.015625
    """
    n = None if matrix.target is None else network.size(matrix.target)
    m = None if matrix.source is None else network.size(matrix.source)
    gamma0, start = network.gamma0, matrix.a0 * matrix.s_f
    rate, adam, eps = matrix.rate * gamma0 ** 2, matrix.adam_rate, matrix.adam_eps
    if matrix.kind == "map":
        part = (matrix.muon_rows or n) * (matrix.muon_columns or m)
        part *= len(parts_of(network, matrix))
        return Scaling((n, m), 1, start / math.sqrt(m), rate * n / m, adam / m, eps / n,
                       matrix.muon_rate * math.sqrt(part) / m)
    if matrix.kind in ("read_in", "embed"):
        return Scaling((n, matrix.width), 1, start, rate * n, adam, eps / n)
    if matrix.kind == "vector":
        return Scaling((n,), 1, 0 if matrix.start else start, rate * n, adam, eps / n)
    if matrix.kind == "look":
        return Scaling((matrix.width, m), m, start / m, rate / m, adam / m, eps)
    if matrix.kind == "bias":
        sets = (matrix.sets,) if matrix.sets > 1 else ()
        return Scaling((*sets, matrix.width), 1, 0, rate, adam, eps)
    unit = gamma0 * m
    return Scaling((matrix.width, m), unit, start / unit, matrix.rate / m, adam / unit, eps)
