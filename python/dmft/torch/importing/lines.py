"""Lines of a module, for refusals of what is found after it has been read."""
from __future__ import annotations

import contextlib
import re

from dmft.errors import InputError
from dmft.torch.importing.advice import advised
from dmft.torch.importing.record import Record, tensors
from dmft.torch.plan_sizes import pattern_of

CHOICES = ("topk", "argmax", "argmin", "sort", "max", "nonzero")
MOST = 3                                # lines of one kind in a sentence
LINE = re.compile(r"\.py:\d+")          # of a file
OF_TEXT = re.compile(r"network\.lua:\d+: (.*); line \d+ of the generated text is .*, written at "
                     r"(.*)", re.DOTALL)


def at_line(sentence: str, place: str) -> str:
    """A sentence with a line of the module behind it, unless it has one."""
    known = LINE.search(sentence) or not LINE.search(place)
    return sentence if known else f"{sentence} ({place})"


def in_the_module(error: InputError) -> InputError:
    """What dmft-solve refuses of the text of an import, said of the line of the module."""
    found = OF_TEXT.match(str(error))
    if not found or not LINE.search(found[2]):
        return error
    why = found[1]
    if "one for all inputs" in why:
        why += ", as a mean over a batch is; take it over what each input has itself, as LayerNorm"
    return InputError(f"{advised(why)} ({found[2]})")


class Lines:
    """Of a record of a module: where it uses each parameter, where it holds gradients back, writes
    into buffers, and takes numbers out of tensors."""

    def __init__(self, record: Record):
        names = {id(one): name for name, one in record.parameters.items()}
        self.parameters = list(names.values())
        self.steps = [(step.operation, step.place) for step in record.steps]
        self._uses: dict[str, list[str]] = {}
        self._last: dict[str, int] = {}         # the step that uses a parameter last
        self._operations: dict[str, list[str]] = {}
        for k, step in enumerate(record.steps):
            self._operations.setdefault(step.operation, []).append(step.place)
            for one in tensors([step.arguments, *step.options.values()]):
                if id(one) in names:
                    self._uses.setdefault(names[id(one)], []).append(step.place)
                    self._last[names[id(one)]] = k
        self._record, self.sides = record, record.decided

    def of(self, *parameters: str) -> str:
        """Those that use parameters, in brackets behind a blank, or nothing."""
        return _in_brackets([place for one in parameters for place in self._uses.get(one, [])])

    def last(self, parameters) -> str:
        """The one of these parameters that the module comes to last."""
        return max(parameters, key=lambda one: self._last.get(one, -1))

    @property
    def end(self) -> str:
        """The one that makes the output."""
        return _in_brackets([place for _, place in self.steps if LINE.search(place)][-1:])

    @staticmethod
    def said(parameters) -> str:
        """Names of parameters, a few of many."""
        more = f" and {len(parameters) - MOST} more" if len(parameters) > MOST else ""
        return ", ".join(parameters[:MOST]) + more

    def of_named(self, sentence: str) -> str:
        """Those that use the parameters, or parameters like these, that a sentence names: as its
        first words, or by a name that is no word of English."""
        first, *rest = re.findall(r"[\w.*]+", sentence.partition(";")[0])
        words = {first, *(one for one in rest if re.search(r"[._\d]", one))}
        return self.of(*(one for one in self.parameters if {one, pattern_of(one)} & words))

    @contextlib.contextmanager
    def named(self, otherwise: str = ""):
        """Within it a refusal that has no line has those of the parameters that it names, or else
        the one in brackets."""
        try:
            yield
        except InputError as error:
            if not LINE.search(str(error)):
                error.sentence += self.of_named(error.sentence) or otherwise
                error.args = (error.sentence,)
            raise

    @property
    def decided(self) -> str:
        """Those that make a decision of Python of what was computed."""
        return _in_brackets(self._record.decided)

    @property
    def one_sided(self) -> list[str]:
        """Those whose decision was the same wherever the module has been run, or cannot be seen."""
        return [*(place for place, sides in self.sides.items() if len(sides) == 1),
                *dict.fromkeys(self._record.taken)]

    @property
    def turning(self) -> str:
        """Those at which a module may be another on other inputs: decisions, numbers that are taken
        out, or choices; else what makes the output."""
        return self.decided or self.taken or _in_brackets(
            place for operation, place in self.steps if operation in CHOICES) or self.end

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
        if "inplace" in reason:
            return "; compute a new tensor there" + self.written
        if not name:
            return "; let the forward pass run with gradients" + self.end
        return "; write it with operations that have one" + _in_brackets(
            self._operations.get(name[1]) or self._record.means)


def _in_brackets(places) -> str:
    found = list(dict.fromkeys(one for one in places if one != "the module"))[:MOST]
    return f" ({'; '.join(found)})" if found else ""
