"""Expressions: what the right-hand sides of a mean-field theory are made of.

Each is evaluated at one time and, as far as what it names depends on them, for one site and one
input: a reader needs a case for each class here. `Call` stands for everything that has a name and
arguments and no class of its own.
"""
from __future__ import annotations

from dataclasses import dataclass, field


class Expression:
    """The common base; children() are the expressions inside."""

    def children(self) -> tuple:
        return (self.argument,) if hasattr(self, "argument") else ()


@dataclass(frozen=True)
class Scale(Expression):
    """A constant: its value, and how it is made of keys of the ini, factor prod symbol^power."""
    value: float
    factor: float = 1.0
    powers: tuple = ()                  # ((TeX of a key, power), ...)

    def __mul__(self, other: "Scale") -> "Scale":
        powers = dict(self.powers)
        for name, power in other.powers:
            powers[name] = powers.get(name, 0) + power
        return Scale(self.value * other.value, self.factor * other.factor,
                     tuple((name, power) for name, power in powers.items() if power))


def number(value: float) -> Scale:
    """A constant that no key is known to make."""
    return Scale(value, value)


ONE = number(1.0)


@dataclass(frozen=True)
class Ref(Expression):
    """A quantity of the theory, by its key, at the time of the equation."""
    key: str


@dataclass(frozen=True)
class Sum(Expression):
    terms: tuple

    def children(self):
        return self.terms


@dataclass(frozen=True)
class Product(Expression):
    factors: tuple

    def children(self):
        return self.factors


@dataclass(frozen=True)
class Apply(Expression):
    """function(argument) at each site; order 1: its derivative there."""
    function: str
    argument: Expression
    order: int = 0


@dataclass(frozen=True)
class Mean(Expression):
    """The mean over the sites of a population; over = group: over the sites of each group, copies:
    over the groups, inputs: over inputs and tokens."""
    argument: Expression
    over: str = "sites"


@dataclass(frozen=True)
class Column(Expression):
    """One of the numbers of a row."""
    argument: Expression
    column: int


@dataclass(frozen=True)
class Call(Expression):
    """Anything else: word(arguments), with constants ((name, value), ...)."""
    word: str
    arguments: tuple
    constants: tuple = field(default=())

    def children(self):
        return self.arguments

    def __getitem__(self, name: str):
        return dict(self.constants)[name]


def total(terms) -> Expression:
    """The sum of terms, flat."""
    flat = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Sum) else [term])
    return flat[0] if len(flat) == 1 else Sum(tuple(flat))


def product(*factors) -> Expression:
    """The product of factors, flat, constants first and in one."""
    flat, scale = [], ONE
    for one in factors:
        for part in one.factors if isinstance(one, Product) else [one]:
            if isinstance(part, Scale):
                scale = scale * part
            else:
                flat.append(part)
    if scale != ONE or not flat:
        flat.insert(0, scale)
    return flat[0] if len(flat) == 1 else Product(tuple(flat))


def references(expression: Expression):
    """Keys of all quantities that an expression names, one after the other."""
    if isinstance(expression, Ref):
        yield expression.key
    for child in expression.children():
        yield from references(child)


def calls(expression: Expression):
    """All calls in an expression."""
    if isinstance(expression, Call):
        yield expression
    for child in expression.children():
        yield from calls(child)
