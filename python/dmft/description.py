"""Networks as data: what `dmft-solve --program` prints, as Python objects.

    d = dmft.describe("data/regime2.ini")
    d.networks[0].matrix("W1").a0           # the network of the first width
    d.limit.operations[3].operation         # of the limit; None where there is none
    d.networks[0].size(1)                   # sites of population 1

The fields are the keys of docs/program_format.md, which says what each of them means. A text with
another key, or of another format, is refused; only operations may have constants of any name.
"""
from __future__ import annotations

import dataclasses
import functools
import json
import re

from dmft.errors import InputError

FORMAT = 1


@functools.lru_cache(maxsize=2 ** 18)
def stem(name: str) -> str:
    """The name of what is one of several like it: of blocks, experts, heads.

    >>> stem("W1_0_2"), stem("W_Q_0"), stem("h_in")
    ('W1', 'W_Q', 'h_in')
    """
    return re.sub(r"(_\d+)+$", "", name)


def shown(one) -> str:
    """What readers are told of a population, a matrix, a kernel or numbers: the label that its
    author gave it, else its name.

    >>> shown(Kernel("Phi_0", 3, False, 1.0, None, None, "blocks.0.mlp"))
    'blocks.0.mlp'
    """
    return one.label or one.name


def kind_of(label: str) -> str:
    """A label with * for each number between dots: those of blocks and experts, as PyTorch has it.

    >>> kind_of("layers.3.experts.12.w1"), kind_of("the 3 gates of layer 2")
    ('layers.*.experts.*.w1', 'the 3 gates of layer 2')
    """
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", label)


@dataclasses.dataclass
class Population:
    """Sites of one kind."""
    name: str
    group: int
    of: int | None
    shared: int | None
    page: float
    sites: int = 0
    size: int | None = None             # of a network
    factor: float | None = None         # of the limit, n = factor N^power
    power: float | None = None
    label: str | None = None            # what its author calls it, beside its name


@dataclasses.dataclass
class Matrix:
    """A matrix, thin matrix or bias, with its numbers as it is used."""
    name: str
    family: str | None
    kind: str
    operation: int
    source: int | None
    target: int | None
    width: int
    sets: int
    start: list[float] | None
    a0: float
    s_f: float
    rate: float
    adam_rate: float
    adam_eps: float
    learns: bool
    decays: float                       # the part of weight_decay that acts on it
    tied: bool
    iid: bool
    uses: int
    muon_rate: float
    optimizer: str                      # that moves it, where it learns
    muon_rows: int                      # of an expert, whose part is a matrix; 0: all
    muon_columns: int
    muon_whole: str | None              # the matrix that all maps with this name are moved as
    label: str | None = None


@dataclasses.dataclass
class Operation:
    """One operation; `constants` has what else is said of it: those of its own, and of its rule."""
    operation: str
    arguments: list[int]
    population: int | None
    row: str
    numbers: int
    moves: bool
    name: str | None = None
    tex: str | None = None
    matrix: str | None = None
    state: int | None = None
    places: int | None = None           # rows of an input, where these are places
    adjoint: list | None = None         # of the limit: the cotangents of its arguments
    constants: dict = dataclasses.field(default_factory=dict)

    def __getitem__(self, constant: str):
        return self.constants[constant]


@dataclasses.dataclass
class Kernel:
    """A kernel of the result file."""
    name: str
    operation: int
    cotangent: bool
    scale: float
    about: str | None
    equation: str | None
    label: str | None = None


@dataclasses.dataclass
class Numbers:
    """Numbers of the result file."""
    name: str
    dims: str
    operation: int | None
    cotangent: bool
    about: str | None
    equation: str | None
    label: str | None = None


@functools.lru_cache(maxsize=None)
def _fields(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))


def _take(kind, given: dict, what: str):
    try:
        return kind(**given)
    except TypeError:  # of keys that it does not have; to ask for them first takes as long again
        known = _fields(kind)
    rest = {key: value for key, value in given.items() if key not in known}
    if rest and "constants" not in known:
        raise InputError(f"the description of a network has {what} with {', '.join(rest)}, which "
                         f"format {FORMAT} does not have")
    made = kind(**{key: given[key] for key in given if key in known})
    if rest:
        made.constants = rest
    return made


LISTS = {"populations": Population, "matrices": Matrix, "operations": Operation, "kernels": Kernel,
         "results": Numbers}


@dataclasses.dataclass
class Program:
    """A network of one width, or (width None) of the limit."""
    network: str
    width: int | None
    gamma0: float
    inputs: int
    tokens: int
    vocabulary: int
    outputs: int
    output_of_token: bool
    directions: int
    centre: bool
    random: bool
    weighted: bool
    populations: list[Population]
    matrices: list[Matrix]
    operations: list[Operation]
    kernels: list[Kernel]
    results: list[Numbers]
    read_out: int
    output: int

    def __post_init__(self):
        self._given = {name: self.__dict__.pop(name) for name in LISTS}

    def __getattr__(self, name: str):
        """Lists become objects when they are asked for: of thousands of experts that takes
        seconds."""
        if name not in LISTS or name not in self.__dict__.get("_given", ()):
            raise AttributeError(name)
        setattr(self, name, [_take(LISTS[name], one, name) for one in self._given.pop(name)])
        return self.__dict__[name]

    def matrix(self, name: str) -> Matrix:
        """The matrix of this name."""
        if name in self._named:
            return self._named[name]
        raise InputError(f"this network has no matrix {name}; there are "
                         + " ".join(matrix.name for matrix in self.matrices))

    @functools.cached_property
    def _named(self) -> dict[str, Matrix]:
        return {matrix.name: matrix for matrix in reversed(self.matrices)}

    def size(self, population: int) -> int:
        """Sites of a population of a network."""
        return self.populations[population].size


@dataclasses.dataclass
class Description:
    """What an ini describes: its networks, their limit, and the settings that make them."""
    format: int
    version: str
    settings: dict[str, dict]
    dimension: int
    limit: Program | None
    networks: list[Program]
    no_limit: str | None = None
    text: str = ""
    test_inputs: int = 0

    def __getitem__(self, width: int) -> Program:
        for network in self.networks:
            if network.width == width:
                return network
        raise InputError(f"there is no network of width {width}; there are "
                         + " ".join(str(network.width) for network in self.networks))

    def same_limit(self, other: Description) -> bool:
        """Whether two descriptions that the program has just made are alike from their limits on;
        to compare these takes as long as to read all their lists."""
        return bool(self.text) and \
            self.text.partition('"limit":')[2] == other.text.partition('"limit":')[2]


def read(text: str) -> Description:
    """The description that a text of JSON holds.

    >>> read('{"format": 9}')
    Traceback (most recent call last):
    ...
    dmft.errors.InputError: the description of a network has format 9, and format 1 is known here
    """
    given = json.loads(text)
    if given.get("format") != FORMAT:
        raise InputError(f"the description of a network has format {given.get('format')}, and "
                         f"format {FORMAT} is known here")
    whole = _take(Description, given, "keys")
    whole.limit = whole.limit and _take(Program, whole.limit, "a limit")
    whole.networks = [_take(Program, network, "a network") for network in whole.networks]
    whole.text = text
    return whole
