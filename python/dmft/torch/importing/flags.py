"""Flags of tokens, 1 for some kinds of tokens and else 0, and numbers of the token attended to."""
from __future__ import annotations

from dmft.torch.importing.expressions import Builder, Expression, Gap


def is_flag(a) -> bool:
    """Whether it is 1 for tokens of some kinds, else 0."""
    if a.operation in ("not", "of_source", "multiply"):
        return all(is_flag(one) for one in a.arguments)
    return a.operation == "letter"


def opposite_flag(builder: Builder, flag) -> Expression:
    """1 - flag."""
    return flag.arguments[0] if flag.operation == "not" else builder.make("not", (flag,))


def of_source(builder: Builder, a) -> Expression:
    """Numbers of each token as those of the token attended to."""
    if a.is_rows:
        raise Gap("rows of each token are combined with attention weights")
    if builder.value(a):
        return a
    if a.operation in ("times", "chosen"):
        made = [of_source(builder, one) for one in a.arguments]
        return builder.times(a.data, made[0]) if a.operation == "times" else \
            builder.make("chosen", made)
    return builder.make("of_source", (a,), axes=frozenset({"source"}))
