"""Walks through expressions, and words for them and for names."""
from __future__ import annotations

import re

from dmft.torch.importing.expressions import Expression

LONGEST = 23                            # letters of the name of a matrix


def ordered(roots, known=()) -> list[Expression]:
    """All expressions below these, arguments first, but for those whose ids are known, and what
    these alone are made of."""
    found, seen, stack = [], set(), [(one, False) for one in reversed(roots)]
    while stack:
        one, done = stack.pop()
        if done:
            found.append(one)
        elif id(one) not in seen and id(one) not in known:
            seen.add(id(one))
            stack.append((one, True))
            stack += [(argument, False) for argument in reversed(one.arguments)]
    return found


def learning(roots, held_back=("top", "top_rows")) -> set[int]:
    """Ids of the expressions that a gradient reaches, but for those that these operations hold
    back."""
    seen, stack = set(), list(roots)
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            if one.operation not in held_back:
                stack += one.arguments
    return seen


def said(one: Expression) -> str:
    """An expression in words."""
    name = one.data[0] if one.operation == "function" else one.operation
    return f"{name} of {'rows' if one.is_rows else 'numbers'}".replace("_", " ")


def _short(word: str) -> str:
    known = {"layers": "l", "model": "", "transformer": "", "experts": "e", "weight": "",
             "mlp": "m", "attn": "a", "self": "", "proj": "p"}
    return known.get(word, word)


def name_of(parameter: str) -> str:
    """The name of a matrix that is this parameter, in few letters."""
    words = [_short(word) for word in re.split(r"[._*]+", parameter.removesuffix(".weight"))
             if word != "weight"]
    words = [word for word in words if word] or ["W"]
    text = "_".join(words)
    while len(text) > LONGEST - 4 and len(words) > 1:
        longest = max(range(len(words)), key=lambda k: len(words[k]))
        if len(words[longest]) == 1:
            words.pop(0)
        else:
            words[longest] = words[longest][:-1]
        text = "_".join(words)
    return text if text[0].isalpha() else "W" + text


def reads_and_writes(roots) -> set[int]:
    """Ids of read-ins and looks by one embedding."""
    every = ordered(roots)
    looks = {tuple(leaf.key() for leaf in one.data[0]): one for one in every
             if one.operation == "look" and len({leaf.factor for leaf in one.data[0]}) == 1}
    found = set()
    for one in every:
        if one.operation == "read_in":
            look = looks.get(tuple(leaf.key() for leaf in one.data[1]))
            found |= {id(one), id(look)} if look else set()
    return found


def is_read_alone(look: Expression, roots) -> bool:
    """Whether no rows are made of numbers that are read, so that they can be a read-out."""
    made: dict[int, bool] = {id(look): True}
    for one in ordered(roots):
        if one is not look:
            made[id(one)] = any(made[id(argument)] for argument in one.arguments)
        if made[id(one)] and (one.is_rows or one.operation in ("top", "attend", "mix")):
            return False
    return True


def looks_of(output: Expression) -> list:
    """The products of rows and a matrix that numbers are made of, by numbers alone."""
    looks, todo, seen = [], [output], set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.is_rows:
            continue
        if one.operation == "look":
            looks.append(one)
        else:
            todo += one.arguments
    return looks
