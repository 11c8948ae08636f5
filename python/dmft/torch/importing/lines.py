"""Lines of a module, for refusals of what is found after it has been read."""
from __future__ import annotations

import re

from dmft.torch.importing.record import Record, tensors

MOST = 3                                # lines of one kind in a sentence


class Lines:
    """Of a record of a module: where it uses each parameter, where it holds gradients back, writes
    into buffers, and takes numbers out of tensors."""

    def __init__(self, record: Record):
        names = {id(one): name for name, one in record.parameters.items()}
        self._uses: dict[str, list[str]] = {}
        self._operations: dict[str, list[str]] = {}
        for step in record.steps:
            self._operations.setdefault(step.operation, []).append(step.place)
            for one in tensors([step.arguments, *step.options.values()]):
                if id(one) in names:
                    self._uses.setdefault(names[id(one)], []).append(step.place)
        self._record = record

    def of(self, parameter: str) -> str:
        """Those that use a parameter, in brackets behind a blank, or nothing."""
        return _in_brackets(self._uses.get(parameter, []))

    @property
    def held(self) -> str:
        """Those of detach, .data and hooks of gradients."""
        return _in_brackets(self._record.held)

    @property
    def written(self) -> str:
        """Those that change buffers."""
        return _in_brackets(self._record.written)

    @property
    def taken(self) -> str:
        """Those that make a number of Python of what was computed."""
        return _in_brackets(self._record.taken)

    def without_gradient(self, reason: str) -> str:
        """Those of the operation that PyTorch names, as aten::NAME, or that change buffers."""
        name = re.search(r"aten::(\w+)", reason)
        if not name:
            return self.written if "inplace" in reason else ""
        return _in_brackets(self._operations.get(name[1]) or self._record.means)


def _in_brackets(places) -> str:
    found = list(dict.fromkeys(one for one in places if one != "the module"))[:MOST]
    return f" ({'; '.join(found)})" if found else ""
