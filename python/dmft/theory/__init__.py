"""The mean-field theory of a network: dmft.equations."""
from __future__ import annotations

from dmft.description import Description
from dmft.errors import InputError
from dmft.theory.derive import derive
from dmft.theory.structure import Theory


class Equations:
    """The mean-field theory of a network: `theory` (dmft.theory.structure), and as text."""

    def __init__(self, theory: Theory):
        self.theory = theory


def equations(config, *, network=None, **more) -> Equations:
    """The mean-field theory of the network of an ini."""
    from dmft.run import describe
    described = describe(config, network=network, **more)
    if described.limit is None:
        raise InputError(described.no_limit)

    def again(key: str, value: float):
        changed = {**more, key: int(value) if float(value).is_integer() else value}
        return describe(config, network=network, **changed).limit
    return Equations(derive(described.limit, described.settings, again))
