"""The mean-field theory of a network as data: what `dmft.equations` typesets.

A *quantity* is a row over the sites of a population, or numbers. It is given by an expression of
other quantities at the same time, or by a *process*, a sum of terms that know the past:

    Field      u(t), a Gaussian field with mean zero and covariance `scale` times a kernel
    Memory     sum over s < t (or s <= t) and inputs of response(t,s) row(s)
    Learned    c rate sum over s < t and inputs of [Delta(s)] kernel(t,s) row(s)
    Start      what a thin matrix or a bias starts from
    Entries    what Adam taught the entries of a matrix, applied to a row

`Theory.quantities` stand in the order in which one step computes them: forward, the output, Delta,
and backward. Nothing else is needed to march them (tests/test_theory_march.py does).
"""
from __future__ import annotations

from dataclasses import dataclass, field

from dmft.theory.expression import Expression, Scale


@dataclass(frozen=True)
class Symbol:
    """How a quantity is written: base^{words,(layer)}_{indices}. Indices are (kind, value), of the
    kinds layer, block, expert."""
    base: str
    words: tuple = ()
    indices: tuple = ()


@dataclass
class Sites:
    """A population."""
    name: str
    size: Scale                         # of n = size N^power
    power: int
    group: int
    group_size: Scale | None            # sites of a group, times N^group_power
    group_power: int
    of: int | None
    shared: int | None
    count: int = 0                      # sites that represent it


@dataclass
class Field:
    """A Gaussian field, of mean zero and covariance scale times kernel."""
    key: str
    symbol: Symbol
    population: int
    scale: Scale
    kernel: str | None                  # None: that of the inputs, Phi0
    use: int = 0                        # of a matrix with several uses: which


@dataclass
class Kernel:
    """K(t,s) = <left(t) right(s)> over a population; measured: its name in result files."""
    key: str
    symbol: Symbol
    population: int
    row: Expression
    of_input: bool                      # False: the row is one for all inputs
    measured: str | None = None
    ratio: float = 1.0                  # what is in the file is ratio times this


@dataclass
class Response:
    """R(t,s) = scale <d row(t)/d field(s)>, for s < t or (now) for s <= t."""
    key: str
    symbol: Symbol
    scale: Scale
    row: Expression
    field: str
    now: bool


@dataclass(frozen=True)
class FieldTerm:
    field: str


@dataclass(frozen=True)
class Memory:
    response: str
    row: Expression
    now: bool


@dataclass(frozen=True)
class Learned:
    """kernel None: none (a thin matrix or a bias); inputs: that of the inputs, Phi0."""
    rate: Scale
    kernel: str | None
    row: Expression
    delta: bool
    output: bool = False                # Delta has the index of the output
    column: bool = False                # the row has that of the column


@dataclass(frozen=True)
class Start:
    """Independent normals of this amplitude, or the numbers given."""
    symbol: Symbol
    amplitude: Scale
    values: tuple | None = None


@dataclass(frozen=True)
class Entries:
    """<D x> of what Adam taught the entries D of a matrix; transposed: <g D>."""
    matrix: str
    row: Expression | None
    transposed: bool = False


@dataclass
class Process:
    """The sum of its terms; uses: of a matrix with several uses each of Memory, Learned, Entries
    is summed over all of them."""
    terms: list
    uses: int = 1


@dataclass
class Quantity:
    """A row over the sites of a population (None: numbers), under a symbol."""
    key: str
    symbol: Symbol
    population: int | None
    value: Expression | Process
    of_input: bool = True               # False: one row for all inputs
    backward: bool = False
    numbers: int = 0
    row: str = "input"


@dataclass
class Learner:
    """A matrix whose entries Adam moves: with the cotangents and rows that make its gradient."""
    matrix: str
    symbol: Symbol
    rate: Scale
    eps: Scale
    gradient: tuple                     # (cotangent, row) of each use; None: the inputs, or nothing
    kind: str = "map"


@dataclass
class Theory:
    """All of it."""
    network: str
    gamma0: float
    eta0: float
    inputs: int
    tokens: int
    outputs: int
    output_of_token: bool
    weighted: bool
    centre: bool
    loss: str
    training: dict
    populations: list[Sites]
    quantities: dict[str, Quantity]
    fields: dict[str, Field]
    kernels: dict[str, Kernel]
    responses: dict[str, Response]
    read_out: str                       # the thin matrix w
    top: Expression                     # what it reads
    penalties: list[Expression] = field(default_factory=list)
    biases: list[tuple] = field(default_factory=list)   # selection biases: (key of mask, eta, rho)
    learners: list[Learner] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)  # TeX of a key: its value
    random: bool = False
    first_column: int = 0
