r"""LaTeX of expressions and processes of a theory."""
from __future__ import annotations

from dataclasses import replace

from dmft.theory.calls import Calls
from dmft.theory.expression import (Apply, Call, Column, Expression, Mean, Product, Ref, Scale,
                                    Sum, calls)
from dmft.theory.structure import (Entries, FieldTerm, Learned, Learner, Memory, Process, Start,
                                   Symbol, Theory)
from dmft.theory.symbols import LETTERS, Context, learned_symbol, scale, word

PRIME = "'"
FUNCTIONS = {"tanh": r"\tanh", "exp": r"\exp", "sin": r"\sin", "cos": r"\cos",
             "sigmoid": r"\mathrm{sig}", "log": r"\ln"}
PAIRS = ("attend", "attend_by_head", "softmax_by_head", "mix_weights")
TOKENS = ("mix_places", "mix", "mix_by_head", "attend_query", "attend_key", "mix_value")


class Writer(Calls):
    """Writes expressions of one theory."""

    def __init__(self, theory: Theory):
        self.theory = theory
        self.used: set[str] = set()     # words that the page explains
        self.plain: set[str] = set()    # those without a form of their own
        training = theory.training
        self.decay = training.get("weight_decay", 0) and (
            any(isinstance(one.value, Process) and one.value.decays
                for one in theory.quantities.values()))
        self.scheduled = training.get("schedule", "constant") != "constant" or \
            training.get("warmup", 0)
        self.sums = [one for one in theory.quantities.values() if isinstance(one.value, Process)
                     and any(isinstance(term, Learned) for term in one.value.terms)]
        self.remembers = bool(self.sums) and bool(
            training.get("optimizer") == "momentum" or self.scheduled or self.decay or
            training.get("clip", 0))

    # --- symbols ------------------------------------------------------------------------------

    def symbol(self, one: Symbol, at: Context, more: str = "") -> str:
        """base^{words,(layer)}_{indices}, with more indices and the time."""
        above = [word(text) for text in one.words if text != r"\prime"]
        below = []
        for kind, value in one.indices:
            text = at.index(kind, value)
            if kind == "layer":
                above.append(f"({text})")
            else:
                below.append(text)
        below += [more] if more else []
        primes = "'" * one.words.count(r"\prime")
        top = ",".join(above)
        text = one.base + (f"^{{{top}{primes}}}" if top or primes else "")
        return text + (f"_{{{','.join(below)}}}" if below else "")

    def find(self, key: str) -> Symbol:
        theory = self.theory
        for table in (theory.quantities, theory.fields, theory.kernels, theory.responses):
            if key in table:
                return table[key].symbol
        raise KeyError(key)

    def ref(self, key: str, at: Context, more: str = "") -> str:
        one = self.theory.quantities[key]
        if at.column and one.numbers > 1 and not more:
            more = at.column
        return self.symbol(one.symbol, at, more) + at.time

    # --- expressions --------------------------------------------------------------------------

    def text(self, what: Expression, at: Context) -> str:
        """An expression."""
        if isinstance(what, Scale):
            return scale(what)
        if isinstance(what, Ref):
            return self.ref(what.key, at)
        if isinstance(what, Sum):
            return self.sum(what.terms, at)
        if isinstance(what, Product):
            return self.product(what, at)
        if isinstance(what, Apply):
            self.used.add(what.function)
            name = FUNCTIONS.get(what.function) or \
                rf"\mathrm{{{what.function}}}".replace("_", r"\_")
            return f"{name}{PRIME * what.order}({self.text(what.argument, at)})"
        if isinstance(what, Mean):
            self.used.add(what.over)
            over = {"group": "_{j}", "copies": "_{i}", "inputs": r"_{\mu}"}.get(what.over, "")
            return rf"\langle {self.text(what.argument, at)}\rangle{over}"
        if isinstance(what, Column):
            number = what.column + self.theory.first_column
            return self.indexed(what.argument, at.index("expert", number), at)
        return self.call(what, at)

    def factor(self, what: Expression, at: Context) -> str:
        """An expression beside others."""
        text = self.text(what, at)
        added = isinstance(what, Sum) or isinstance(what, Call) and what.word == "noise"
        return rf"\bigl({text}\bigr)" if added else text

    def indexed(self, what: Expression, more: str, at: Context) -> str:
        """An expression with one more index."""
        if isinstance(what, Ref):
            return self.ref(what.key, at, more)
        return rf"\bigl({self.text(what, at)}\bigr)_{{{more}}}"

    def product(self, what: Product, at: Context) -> str:
        words, front = [], ""
        for one in what.factors:
            if isinstance(one, Scale) and abs(one.factor) == 1 and not one.powers:
                front = "-" if one.factor < 0 else ""
            else:
                words.append(self.factor(one, at))
        return front + r"\,".join(words or ["1"])

    def indices(self, what, kind: str) -> set:
        """Numbers of one kind that stand in an expression."""
        found = set()
        if isinstance(what, Ref):
            found = {value for name, value in self.find(what.key).indices if name == kind}
        if isinstance(what, Column) and kind == "expert":
            found = {what.column + self.theory.first_column}
        if isinstance(what, Call) and what.word == "mix_places" and kind == "block":
            found = {what["number"]}
        for child in what.children():
            found |= self.indices(child, kind)
        return found

    def sum(self, terms: tuple, at: Context) -> str:
        """Terms, those that differ by an index alone as one sum over it."""
        left, done = list(terms), []
        while left:
            run, over = [left[0]], None
            for kind in LETTERS:
                same, how = self.alike(left, kind, at)
                if len(same) > len(run):
                    run, over = same, how
            if over:
                kind, letter, first, last = over
                inner = replace(at, letters=at.letters + ((kind, first, letter),))
                one = next(one for one in run if first in self.free(one, kind, at))
                done.append(rf"\sum_{{{letter}={first}}}^{{{last}}}{self.factor(one, inner)}")
            else:
                done.append(self.text(left[0], at))
            for other in run:
                del left[next(k for k, one in enumerate(left) if one is other)]
        return " + ".join(done).replace("+ -", "- ")

    def free(self, term: Expression, kind: str, at: Context) -> set:
        """Numbers of one kind in a term that no letter stands for."""
        return self.indices(term, kind) - {number for known, number, _ in at.letters
                                           if known == kind}

    def alike(self, terms: list, kind: str, at: Context) -> tuple:
        """(terms that one template with an index of this kind gives, with the first of them; kind,
        letter, smallest and largest of the index)."""
        letter = LETTERS[kind][1 if any(known == kind for known, _, _ in at.letters) else 0]
        template, same = None, {}
        for term in terms:
            values = self.free(term, kind, at)
            if not values:
                if template is None:
                    break
                continue
            value = min(values)
            text = self.text(term, replace(at, letters=at.letters + ((kind, value, letter),)))
            template = text if template is None else template
            if text == template:
                same.setdefault(value, term)
        if len(same) < 2 or max(same) - min(same) != len(same) - 1:
            return [], None
        return list(same.values()), (kind, letter, min(same), max(same))

    # --- processes ----------------------------------------------------------------------------

    def lhs_tokens(self, value) -> str:
        """Indices of tokens that an equation with attention writes out."""
        found = set()
        if not isinstance(value, Process):
            for one in calls(value):
                if one.word in PAIRS or (one.word == "softmax" and "causal" in dict(one.constants)):
                    return r"\tau\sigma"
                if one.word == "softmax_back" and self.of_tokens(one.arguments[0]):
                    return r"\tau\sigma"
                if one.word in TOKENS or one.word == "lag":
                    found.add(one.word)
        return r"\tau" if found else ""

    def rate(self, term: Learned) -> str:
        """c rate omega Delta kernel of a learned part."""
        words = [] if term.rate.factor == 1 and not term.rate.powers else [scale(term.rate)]
        words.append("c")
        if self.remembers:
            words.append(r"\omega(t,s)")
        if term.delta:
            words.append(r"\Delta_c(s)" if term.output else r"\Delta(s)")
        return r"\,".join(words)

    def kernel(self, key: str, at: Context, each: str = "") -> str:
        return r"\Phi_0" if key == "inputs" else \
            self.symbol(self.find(key), at, "k'" if each else "") + "(t,s)"

    def learned(self, term: Learned, at: Context, each: str = "") -> str:
        words = [self.rate(term)]
        if term.kinds:
            words.append(r"\mathbf 1[z(s)=z]")
        if term.kernel:
            words.append(self.kernel(term.kernel, at, each))
        return r"\,".join(words)

    def process(self, value: Process, at: Context, key: str) -> str:
        """The sum of the terms of a process; a response and a learned part of one row together,
        unless weight decay acts on the former at t and on the latter from s on."""
        now, then = replace(at, time="(t)"), replace(at, time="(s)")
        each = r"\sum_{k'}" if value.use is not None else ""
        terms = self.templates(value)
        start, parts = [], []
        memory = {term.row: term for term in terms if isinstance(term, Memory) and not term.now}
        for term in terms:
            if each and isinstance(term, (Memory, Learned)):
                then = replace(at, time="(s)", letters=(("use", term.use, "k'"), *at.letters))
            if isinstance(term, FieldTerm):
                field = self.theory.fields[term.field]
                start.append(self.symbol(field.symbol, at) + ("(t)" if field.kernel else ""))
            elif isinstance(term, Start) and (term.amplitude.value or term.values):
                start.append(self.start(term, at, key))
            elif isinstance(term, Memory):
                both = next((one for one in terms if isinstance(one, Learned) and not term.now
                             and not value.decays and one.row == term.row), None)
                response = self.symbol(self.find(term.response), at, "k'" if each else "") + "(t,s)"
                inside = rf"\bigl[{response} + {self.learned(both, at, each)}\bigr]" if both \
                    else response
                low = r"s\le t" if term.now else "s<t"
                (start if value.decays else parts).append(
                    rf"{each}\sum_{{{low}}}{inside}\,{self.factor(term.row, then)}")
            elif isinstance(term, Learned) and (value.decays or term.row not in memory):
                parts.append(rf"{each}\sum_{{s<t}}{self.learned(term, at, each)}\,"
                             rf"{self.factor(term.row, then)}")
            elif isinstance(term, Entries):
                parts.append(self.entries(term, now))
        if value.decays and start:
            start = [rf"\vartheta(t)\bigl[{' + '.join(start)}\bigr]" if len(start) > 1 else
                     rf"\vartheta(t)\,{start[0]}"]
        return " + ".join(start + parts) or "0"

    def start(self, term: Start, at: Context, key: str) -> str:
        """What a thin matrix, a vector or a bias starts from."""
        if term.values and self.theory.quantities[key].population is not None:
            return f"{term.values[0]:g}"
        more = "c" if key == "thin:" + self.theory.read_out and self.theory.outputs > 1 \
            else at.column if self.theory.quantities[key].numbers > 1 else ""
        return self.symbol(term.symbol, at, more) + "(0)"

    @staticmethod
    def templates(value: Process) -> list:
        """The terms that are written: of several uses of a matrix one, its own where it is there,
        stands for all in a sum over k'."""
        if value.use is None:
            return value.terms
        found: dict = {}
        for term in value.terms:
            kind = type(term), getattr(term, "now", None)
            if kind not in found or getattr(term, "use", None) == value.use:
                found[kind] = term
        return list(found.values())

    def learner(self, term: Entries) -> Learner:
        """The matrix that a term is of."""
        return self.theory.learner[term.matrix]

    def entries(self, term: Entries, now: Context) -> str:
        learner = self.learner(term)
        more = now.column if term.row is None and learner.kind != "read_in" else ""
        symbol = dict(learner.parts).get(term.matrix, learner.symbol)
        name = self.symbol(learned_symbol(symbol), now, more) + "(t)"
        if term.row is None:
            return name + (r"\,A" if learner.kind == "read_in" else "")
        row = self.factor(term.row, now)
        return rf"\langle {row}\,{name}\rangle" if term.transposed else \
            rf"\langle {name}\,{row}\rangle"
