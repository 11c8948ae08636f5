"""A network as a picture: populations as boxes, matrices as arrows between them.

    picture = dmft.draw("data/transformer.ini")     # shows itself in a notebook
    picture.save("transformer.svg")                 # or .pdf, .png, .dot

    dmft-draw FILE.ini [-o OUT.svg] [--force] [--section.key=value ...]

A box is a population with its size and with what acts on its rows site by site; an oval is a group
of operations on numbers, as a router or attention; a thick arrow is a matrix, a thin one a value
that goes from one box to another. Blocks and experts of one kind are folded into one box, whose
border is double, and the label says how many there are. Graphviz lays it out (dot of the package
graphviz). Without -o it is FILE.svg in the current folder; a file that is there stays without
--force. The command is python -m dmft draw, too.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import subprocess
from fractions import Fraction

from dmft.command import Parser, finish, keys_of, patience
from dmft.description import Description, Operation, Program, kind_of, stem
from dmft.errors import InputError, SystemFailure
from dmft.files import Result
from dmft.study import place

SUFFIXES = ("dot", "svg", "pdf", "png")
ROOM = 40                               # letters of a label in a picture
FILLS = "#eef3fb #fdf3e4 #eef7ee #f8eef6 #f3f3ee #eaf6f7".split()
# What an oval of numbers is called, by the first of these operations or rules that it has.
OVALS = [("attend", "attention"), ("gates", "router"), ("mask", "selection"),
         ("top_rows", "selection"), ("first_rows", "selection"), ("look", "numbers"),
         ("penalty", "penalty")]
# Masks among the tokens of an input.
CHOICES = {"top_rows": "top", "first_rows": "first"}
# Operations that say nothing in a box: where rows come from is told by arrows.
SILENT = {"read_in", "embed", "input", "map", "add", "times", "multiply", "ones", "scale", "shift",
          "group_mean", "tile", "tile_mean", "mix", "mix_by_head", "mean_of_rows", "read_out"}


def size_text(program: Program, k: int) -> str:
    """The size of population k, of the limit in units of the width N.

    >>> from dmft.description import Population
    >>> on = Population("x", 1, None, None, 1, factor=0.5, power=1)
    >>> size_text(type("P", (), {"populations": [on]}), 0)
    'N/2'
    """
    on = program.populations[k]
    return str(on.size) if on.size is not None else _product(on.factor, on.power)


@functools.cache
def _product(factor: float, power: float) -> str:
    """factor N^power."""
    exact = Fraction(factor).limit_denominator(1000)
    number = str(exact.numerator) if exact == factor else f"{factor:g}"
    below = f"/{exact.denominator}" if exact == factor and exact.denominator > 1 else ""
    widths = {0: "", 1: "N", 2: "N²"}.get(power, f"N^{power:g}")
    return (widths if number == "1" and widths else f"{number} {widths}".strip()) + below


def group_text(program: Program, k: int) -> str:
    """How many sites of population k each site of the one above it has; of the limit, where sites
    only stand for them, from the sizes."""
    on, above = program.populations[k], program.populations[program.populations[k].of]
    if on.size is not None:
        return str(on.group)
    return _product(on.factor / above.factor, on.power - above.power)


def box_name(program: Program, k: int) -> str:
    """What the box of population k is called: what is numbered shares one where all are alike."""
    name = program.populations[k].name
    return stem(name) if len(_sizes(program)[stem(name)]) == 1 else name


def _told(one, name: str) -> str:
    """The label of a population or a matrix, where there is room for it, else the name."""
    label = kind_of(one.label or "")
    return label if 0 < len(label) <= ROOM else name


def _quoted(text: str) -> str:
    """As graphviz has it between quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _sizes(program: Program) -> dict[str, set]:
    """The sizes of populations that are called the same but for a number."""
    found = program.__dict__.get("_drawn_sizes")
    if found is None:
        found = program.__dict__["_drawn_sizes"] = {}
        for i, on in enumerate(program.populations):
            found.setdefault(stem(on.name), set()).add(
                (size_text(program, i), on.of is not None and group_text(program, i)))
    return found


def _sources(program: Program, at: int) -> list[int]:
    return program.operations[at].arguments


def _reached(program: Program) -> set[int]:
    """Operations that the output or a penalty depends on."""
    reached, ends = set(), [program.output, *(k for k, op in enumerate(program.operations)
                                              if op.operation == "penalty")]
    while ends:
        at = ends.pop()
        if at not in reached:
            reached.add(at)
            ends += _sources(program, at)
    return reached


@dataclasses.dataclass
class Oval:
    """Operations on numbers that are connected; `rows`: the operations on rows that they read."""
    members: list[int]
    rows: list[int]
    word: str | None = None     # of those that are a word in the box of their rows


def _ovals(program: Program, shown: set[int]) -> dict[int, Oval]:
    """{operation on numbers: its oval}."""
    first = {k: k for k in shown if program.operations[k].population is None
             and program.operations[k].operation != "read_out"}

    def root(k):
        while first[k] != k:
            k = first[k]
        return k

    for k in sorted(first):
        for a in _sources(program, k):
            if a in first:
                one, other = sorted((root(k), root(a)))
                first[other] = one
    ovals: dict[int, Oval] = {}
    for k in first:
        oval = ovals.setdefault(root(k), Oval([], []))
        oval.members.append(k)
        oval.rows += [a for a in _sources(program, k) if a not in first]
    return {k: ovals[root(k)] for k in first}


def _word_of(program: Program, oval: Oval, readers: dict[int, list[int]]) -> str | None:
    """What an oval that only scales or shifts the rows that it averages is called in the box of
    these rows: "norm" for rows over their own norm, "softmax" for rows over their mean, else "".
    None: it does something else."""
    operations = [program.operations[k] for k in oval.members]
    homes = {program.operations[k].population for k in oval.rows} | \
        {program.operations[k].population for member in oval.members for k in readers[member]
         if k not in oval.members}
    words = {op.operation for op in operations}
    if len(homes) > 1 or "average" not in words or len(words) < 2 or \
            not words <= {"average", "numbers", "fn", "times"}:
        return None
    rules = {op.constants.get("rule", op.constants.get("function")) for op in operations}
    means = all(len(op.arguments) == 1 for op in operations if op.operation == "average")
    return "norm" if "power" in rules and not means else \
        "softmax" if "inverse" in rules and means else ""


def _words(op: Operation) -> str:
    """What an operation is called inside of its box or oval; "" where it says nothing."""
    constants = op.constants
    if op.operation == "fn":
        k = constants["k"]
        return constants["function"] if k == 1 else f"{constants['function']}({k:g} ·)"
    if op.operation == "top" or constants.get("rule") in ("mask", "select"):
        return f"top {constants['top']}"
    if op.operation in CHOICES:
        return f"{CHOICES[op.operation]} {constants['top']} tokens"
    if op.operation == "mix_places":
        return "mix of tokens" if op.row == "token" else \
            f"mix to {op.places} places" if op.places else "mix to 1 place"
    if constants.get("rule") == "gates":
        name = "softmax" if constants["softmax"] else "sigmoid"
        return name + (f", top {constants['top']} of {op.numbers}"
                       if constants["top"] < op.numbers else f" of {op.numbers}")
    if constants.get("rule") == "softmax" or op.operation == "softmax_by_head":
        return "causal softmax" if constants["causal"] else "softmax"
    if op.operation == "vector":
        return stem(op.matrix)
    if op.operation == "lag":
        return f"lag {constants['tokens']}"
    return "pool" if op.operation == "pool" else ""


@dataclasses.dataclass
class Box:
    """A box or an oval: its label, what it holds, and how many like it there are."""
    title: str
    oval: bool = False
    words: list[str] = dataclasses.field(default_factory=list)
    members: set = dataclasses.field(default_factory=set)


class Drawing:
    """A picture of a program; `source` is its text in graphviz's language."""

    def __init__(self, program: Program):
        self.program = program
        self._shown = _reached(program)
        self._readers: dict[int, list[int]] = {k: [] for k in self._shown}
        for k in sorted(self._shown):
            for a in set(_sources(program, k)):
                self._readers[a].append(k)
        self._ovals = _ovals(program, self._shown)
        for oval in self._ovals.values():
            oval.word = _word_of(program, oval, self._readers)
        self._boxes: dict[str, Box] = {}
        self._arrows: dict[tuple[str, str, str], set] = {}
        for at in sorted(self._shown):
            self._place(at)
        for at in sorted(self._shown):
            self._connect(at)
        self.source = self._write()

    def _oval_title(self, oval: Oval) -> str:
        kinds = {word for k in oval.members
                 for word in (self.program.operations[k].operation,
                              self.program.operations[k].constants.get("rule"))}
        return next((title for word, title in OVALS if word in kinds), "numbers")

    def _is_of_gates(self, at: int) -> bool:
        """Whether this is the mask of gates, whose word says how many have one."""
        return any(op.constants.get("rule") == "gates" and at in op.arguments[1:]
                   for op in self.program.operations)

    def _is_behind(self, at: int) -> bool:
        """Whether numbers are among those between what is read out and the output."""
        return at in self._ovals and self.program.output in self._ovals[at].members

    def _key(self, at: int) -> str:
        """The box of an operation."""
        op = self.program.operations[at]
        if op.operation == "read_out" or self._is_behind(at):
            return "f"
        if op.population is not None:
            return box_name(self.program, op.population)
        oval = self._ovals[at]
        if oval.word is not None:  # in the box of its rows
            return self._key(oval.rows[0])
        matrices = {stem(self.program.operations[k].matrix) for k in oval.members
                    if self.program.operations[k].matrix}
        return " ".join([self._oval_title(oval), *sorted(matrices),
                         *sorted({self._key(k) for k in oval.rows})])

    def _place(self, at: int) -> None:
        op, key = self.program.operations[at], self._key(at)
        if key == "f":
            box = self._boxes.setdefault(key, Box("f", True))
        elif op.population is not None:
            on = self.program.populations[op.population]
            groups = "" if on.of is None else \
                f", {group_text(self.program, op.population)} for each of " \
                + box_name(self.program, on.of)
            box = self._boxes.setdefault(key, Box(
                f"{_told(on, key)}  ({size_text(self.program, op.population)}{groups})"))
            box.members.add(op.population)
        elif self._ovals[at].word is not None:
            self._add_word(key, self._ovals[at].word)
            return
        else:
            box = self._boxes.setdefault(key, Box(self._oval_title(self._ovals[at]), True))
            box.members.add(min(self._ovals[at].members))
        if op.operation not in SILENT and not self._is_origin(at) and not self._is_of_gates(at):
            self._add_word(key, self._share(op) or _words(op))

    def _add_word(self, key: str, word: str) -> None:
        """A word in a box, once; a softmax says that there are exponentials."""
        words = self._boxes[key].words
        if word and word not in words and not (word.startswith("exp(") and "softmax" in words):
            words.append(word)
        if word == "softmax":
            words[:] = [one for one in words if not one.startswith("exp")]

    def _share(self, op: Operation) -> str:
        """The largest sites of a population: in the limit a share of them."""
        if op.population is None or "top" not in op.constants or op.operation in CHOICES:
            return ""
        on = self.program.populations[op.population]
        return f"top {op['top']}" if on.size else f"top {_product(op['top'] / on.sites, 0)}"

    def _is_origin(self, at: int) -> bool:
        """Whether a mask is read by averages alone: the origin of a softmax."""
        return self.program.operations[at].operation == "top" and all(
            self.program.operations[k].operation == "average" for k in self._readers[at])

    def _connect(self, at: int) -> None:
        op, end = self.program.operations[at], self._key(at)
        label = _told(self.program.matrix(op.matrix), stem(op.matrix)) if op.matrix else ""
        starts = [self._key(a) for a in op.arguments] or \
            (["x"] if op.operation in ("read_in", "input") else [])
        for start in starts:
            if op.operation == "bias":
                continue
            if label or start != end:
                self._arrows.setdefault((start, end, label), set()).add(op.matrix or at)

    def _write(self) -> str:
        lines = ["digraph network {", "rankdir=BT; bgcolor=white; ranksep=0.45; nodesep=0.35;",
                 'node [fontname="Helvetica", fontsize=11, style="rounded,filled", shape=box];',
                 'edge [fontname="Helvetica", fontsize=10, arrowsize=0.7];',
                 '"x" [shape=plaintext, style="", label="x/√D"];']
        for k, (key, box) in enumerate(self._boxes.items()):
            count = len(box.members)
            title = box.title + (f"  × {count}" if count > 1 else "")
            words = [title, ", ".join(box.words)] if box.words else [title]
            label = "\\n".join(map(_quoted, words))
            shape = "shape=ellipse, style=filled, fillcolor=white" if box.oval else \
                f'fillcolor="{FILLS[k % len(FILLS)]}"'
            lines.append(f'"{key}" [label="{label}", {shape}, peripheries={1 + (count > 1)}];')
        for (start, end, label), members in self._arrows.items():
            many = f" × {len(members)}" if label and len(members) > 1 else ""
            style = 'color="#606060"' if not label else f'label=" {_quoted(label)}{many}", ' \
                'color="#2060a0", fontcolor="#2060a0", penwidth=1.8'
            lines.append(f'"{start}" -> "{end}" [{style}];')
        return "\n".join([*lines, "}"]) + "\n"

    def render(self, kind: str) -> bytes:
        """The picture as svg, pdf or png, by graphviz."""
        try:
            done = subprocess.run(["dot", f"-T{kind}"], input=self.source.encode(),
                                  capture_output=True, check=False)
        except FileNotFoundError:
            raise SystemFailure("pictures of networks need graphviz, whose program dot is not on "
                                "PATH (Debian and Fedora: package graphviz); a .dot file needs "
                                "none") from None
        if done.returncode:
            raise SystemFailure("dot: " + done.stderr.decode(errors="replace").strip())
        return done.stdout

    def save(self, path, force: bool = False) -> None:
        """Writes the picture, with force over a file that is there; the ending of the path says
        how: .svg, .pdf, .png or .dot."""
        path = os.fspath(path)
        kind = _kind_of(path)
        place.check(path, force, "give force=True")
        place.save(path, self.source.encode() if kind == "dot" else self.render(kind))

    def _repr_svg_(self) -> str:
        return self.render("svg").decode()


def _kind_of(path: str) -> str:
    """What the ending of a path says, svg; InputError where it is that of no picture."""
    kind = os.path.splitext(path)[1].removeprefix(".")
    if kind not in SUFFIXES:
        raise InputError(f"{path}: a picture of a network is one of "
                         + " ".join("." + suffix for suffix in SUFFIXES))
    return kind


def draw(config, *, width: int | None = None, **more) -> Drawing:
    """A picture of the network of an ini, or of a Result.

    config, more: as those of dmft.describe. width: sizes are those of the network of this width;
    without it they are in units of N.

    >>> dmft.draw("data/regime2.ini").save("regime2.svg")       # doctest: +SKIP
    """
    from dmft.run import describe
    if width is not None:
        return Drawing(describe(config, **more)[width])
    if not isinstance(config, Result):
        with contextlib.suppress(InputError):   # the limit alone; an ini may need a width
            limit = describe(config, **more | {"reference.widths": ""}).limit
            if limit is not None:
                return Drawing(limit)
    described: Description = describe(config, **more)
    return Drawing(described.limit or described.networks[0])


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Parser("dmft-draw", usage="%(prog)s FILE.ini [-o OUT.svg] [--force] "
                    "[--section.key=value ...]",
                    description="Draws the network of an ini: .svg .pdf .png .dot")
    parser.add_argument("file", metavar="FILE.ini")
    parser.add_argument("-o", metavar="OUT.svg", dest="output")
    parser.add_argument("--force", action="store_true", help="overwrite OUT.svg")
    options, rest = parser.parse_known_args(words)
    out = options.output or os.path.splitext(os.path.basename(options.file))[0] + ".svg"

    def work() -> None:
        keys = keys_of(rest)
        _kind_of(out)
        place.check(out, options.force)     # before networks are described
        with patience("dmft-draw"):
            drawn = draw(options.file, **keys)
        drawn.save(out, force=True)
    return finish("dmft-draw", work)
