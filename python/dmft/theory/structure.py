"""The mean-field theory of a network as data: what `dmft.equations` typesets.

A *quantity* is a row over the sites of a population, or numbers. It is given by an expression of
other quantities at the same time, or by a *process*, a sum of terms that know the past:

    Field      u(t), a Gaussian field with mean zero and covariance `scale` times a kernel
    Memory     sum over s < t (or s <= t) and inputs of response(t,s) row(s)
    Learned    c rate sum over s < t and inputs of [Delta(s)] kernel(t,s) row(s)
    Start      what a thin matrix or a bias starts from
    Entries    what Adam taught the entries of a matrix, or Muon the matrix, applied to a row

`Theory.quantities` stand in the order in which one step computes them: forward, the output, Delta,
and backward. Nothing else is needed to march them (tests/test_theory_march.py does).
"""
from __future__ import annotations

import functools
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
    draw: str = ""                      # fields of one draw are jointly Gaussian (several uses of a
                                        # matrix): scale times the mean of the rows of both kernels
    backward: bool = False              # v: of what a matrix hands back


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
    use: int = 0                        # of a matrix with several uses: that of row


@dataclass(frozen=True)
class Learned:
    """kernel None: none (of what is thin: a column, a vector, a bias); inputs: that of the inputs,
    Phi0. past: the kernel whose row is taken at s, where that is of another use of the matrix.
    kinds: only tokens of its own kind count, of so many kinds."""
    rate: Scale
    kernel: str | None
    row: Expression
    delta: bool
    output: bool = False                # Delta has the index of the output
    column: bool = False                # the row has that of the column
    use: int = 0                        # of a matrix with several uses: that of row
    past: str | None = None
    kinds: int = 0


@dataclass(frozen=True)
class Start:
    """Independent normals of this amplitude, or the numbers given (a row for each kind of
    token)."""
    symbol: Symbol
    amplitude: Scale
    values: tuple | None = None


@dataclass(frozen=True)
class Entries:
    """<D x> of what Adam or Muon taught the entries D of a matrix; transposed: <g D>."""
    matrix: str
    row: Expression | None
    transposed: bool = False


@dataclass
class Process:
    """The sum of its terms. use: which of several uses of a matrix it is; then Memory and Learned
    stand there once for each of them. decays: by which part of weight decay fields, starts and
    memories shrink, which come from the initial matrix."""
    terms: list
    use: int | None = None
    decays: float = 0.0


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
    places: int | None = None           # rows of an input, where these are places
    kinds: int = 0                      # of a bias: has numbers for each of so many kinds of token


@dataclass
class Learner:
    """A matrix whose entries Adam or Lion moves, or that Muon moves as a whole: G is the sum over
    inputs (and tokens) of [Delta] g x over P, for each use. They move by rate times Theory.eta of
    the optimizer times the normalised step, whose eps is eps times that of the ini."""
    matrix: str
    symbol: Symbol
    rate: Scale
    eps: Scale
    gradient: tuple                     # (g, x) of each use; None: 1, or of a read-in the inputs
    kind: str
    delta: bool
    decays: float
    norm: Scale                         # the factor of <G G> in the norm that clipping is by
    optimizer: str                      # adam, adamw, lion or muon
    kinds: int = 0                      # of a bias with numbers for each kind of token
    experts: str = ""                   # of Muon: each expert's part is a matrix, whose rows (units
                                        # g) or columns (units x) are a group; "": all is one
    parts: tuple = ()                   # of Muon: (matrix, symbol) of each head that is a part of
                                        # this matrix, in the order of `gradient`
    heads: str = ""                     # rows: each head has rows of its own (g), and all read the
                                        # same x; columns: each has its own x


@dataclass
class Selection:
    """Biases of a selection of the largest: b -= eta (<m> - share) after each step, <m> the mean
    over inputs and tokens of the mask; with `sign`, by the sign of that difference. `mask` has the
    mask, or gates that are 0 off it."""
    state: int                          # as the words that select name it
    mask: str
    symbol: Symbol
    eta: float
    share: float
    start: tuple | None = None          # of the sites; None: 0
    sign: bool = False


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
    test_inputs: int
    populations: list[Sites]
    quantities: dict[str, Quantity]
    fields: dict[str, Field]
    kernels: dict[str, Kernel]
    responses: dict[str, Response]
    read_out: str                       # the thin matrix w
    top: Expression                     # what it reads
    output: Expression | None = None    # f, where something acts on what is read out
    penalties: list[Expression] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    learners: list[Learner] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)  # TeX of a key: its value
    random: bool = False
    first_column: int = 0
    labels: dict[str, str | None] = field(default_factory=dict)     # of matrices and populations
    input_weights: bool = False         # [data] weight: the loss counts each input w_mu times

    @functools.cached_property
    def learner(self) -> dict[str, Learner]:
        """What moves a matrix, by its name."""
        return {name: one for one in reversed(self.learners)
                for name in [one.matrix, *dict(one.parts)]}

    @property
    def rest(self) -> tuple[str, float]:
        """The optimizer, and its eta0, of what Muon leaves to another one; else of everything."""
        if self.training.get("optimizer") == "muon":
            return self.training["rest_optimizer"], self.training["rest_eta0"]
        return self.training.get("optimizer", "gd"), self.eta0

    def eta(self, optimizer: str) -> float:
        """The rate that the ini gives an optimizer."""
        return self.eta0 if optimizer == "muon" else self.rest[1]
