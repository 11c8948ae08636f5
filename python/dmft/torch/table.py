"""Functions under the names that a description has for them."""
from __future__ import annotations

from dmft.errors import InputError


class Table(dict):
    """A decorator that enters a function under its own name, or under those that are given; a name
    that it does not have is refused in a sentence."""

    def __init__(self, what: str):
        super().__init__()
        self.what = what

    def __call__(self, *given):
        if len(given) == 1 and callable(given[0]):
            self[given[0].__name__] = given[0]
            return given[0]

        def enter(function):
            self.update(dict.fromkeys(given, function))
            return function
        return enter

    def __missing__(self, name: str):
        raise InputError(f"this network has the {self.what} {name}, which dmft.torch does not have")
