"""What the terms of the loss of a module are called, by those who wrote it."""
from __future__ import annotations

import ast
import inspect
import textwrap

LONGEST = 23                            # letters of the name of a result
MODULES = ("torch", "nn", "F", "math", "np")


def called_terms(function, places: list[str]) -> list[str]:
    """Names of terms, of which the function returns a tuple behind its output, and which are
    computed in these lines: those of variables, or else a number."""
    found: list[str] = []
    names = _returned(function, len(places)) or list(map(_assigned, places))
    for k, name in enumerate(names):
        name = f"penalty_{name}"[:LONGEST]
        usable = name.isascii() and name not in (*found, "penalty_")
        found.append(name if usable else f"penalty_{k}")
    return found


def _returned(function, count: int) -> list[str]:
    """The names behind the first one of the last tuple of so many more that a function returns."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    found = []
    for one in ast.walk(tree):
        if isinstance(one, (ast.FunctionDef, ast.Lambda)):
            given = {argument.arg for argument in one.args.args}
            values = [one.body] if isinstance(one, ast.Lambda) else [
                part.value for part in ast.walk(one) if isinstance(part, ast.Return)]
            tuples = [[part for part in value.elts[1:] if ast.unparse(part) != "None"]
                      for value in values if isinstance(value, ast.Tuple)]
            found += [[_name(part, given) for part in parts] for parts in tuples
                      if len(parts) == count]
    return found[-1] if found else []


def _name(node, given) -> str:
    """What an expression is made of: what arguments have, as self.aux, or else variables."""
    parts = list(ast.walk(node))
    own = [one.attr for one in parts if isinstance(one, ast.Attribute)
           and isinstance(one.value, ast.Name) and one.value.id in given]
    variables = [one.id for one in parts if isinstance(one, ast.Name)
                 and one.id not in (*given, *MODULES)]
    return "_".join(dict.fromkeys(own or variables))


def _assigned(place: str) -> str:
    """The variable that a line, FILE:LINE: TEXT, gives a value."""
    try:
        (line,) = ast.parse(place.split(": ", 1)[-1]).body
    except (SyntaxError, ValueError):
        return ""
    target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
