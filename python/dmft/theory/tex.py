r"""LaTeX of expressions and processes of a theory."""
from __future__ import annotations

from dataclasses import dataclass, replace

from dmft.theory.expression import (Apply, Call, Column, Expression, Mean, Product, Ref, Scale, Sum,
                                    calls)
from dmft.theory.names import GREEK
from dmft.theory.structure import (Entries, FieldTerm, Learned, Learner, Memory, Process, Start,
                                   Symbol, Theory)

FUNCTIONS = {"tanh": r"\tanh", "exp": r"\exp", "sigmoid": r"\mathrm{sig}", "log": r"\ln"}
# Letters of an index that stands for several numbers; the second where the first is taken.
LETTERS = {"layer": ("l", "m"), "block": (r"\ell", r"\ell'"), "expert": ("i", "j"),
           "use": ("k", "k'")}
LEARNED = r"\mathcal{W}"
TAU, SIGMA, PRIME = r"\tau", r"\sigma", "'"
TAU_SIGMA, SIGMA_TAU = TAU + SIGMA, SIGMA + TAU
PAIRS = ("attend", "attend_by_head", "softmax_by_head", "mix_weights")
TOKENS = ("mix", "mix_by_head", "attend_query", "attend_key", "mix_value")


def word(text: str) -> str:
    """A word of a symbol."""
    if text.startswith("\\") or len(text) == 1:
        return text
    return "\\" + text if text in GREEK else rf"\mathrm{{{text}}}"


def label(text: str) -> str:
    """A name of the description or of a file."""
    return rf"\texttt{{{text}}}".replace("_", r"\_")


def scale(one: Scale) -> str:
    """A constant: 2, 1/(kappa N_e), -1.

    >>> scale(Scale(4.0, 1.0, (("\\\\kappa", -1.0), ("N_e", 0.5))))
    '\\\\tfrac{\\\\sqrt{N_e}}{\\\\kappa}'
    """
    over, under = [], []
    for name, power in one.powers:
        size = abs(power)
        text = name if size == 1 else rf"\sqrt{{{name}}}" if size == 0.5 else \
            rf"{name}^{{{size:.4g}}}"
        (over if power > 0 else under).append(text)
    factor, sign = abs(one.factor), "-" if one.factor < 0 else ""
    whole = next((k for k in range(2, 65) if abs(factor * k - 1) < 1e-9), None)
    if whole:
        under.insert(0, str(whole))
    elif factor != 1:
        digits = f"{factor:.5g}"
        over.insert(0, digits if "e" not in digits else
                    digits.replace("e", r"\cdot10^{") + "}")
    top = r"\,".join(over) or "1"
    return sign + (rf"\tfrac{{{top}}}{{{' '.join(under)}}}" if under else top)


@dataclass(frozen=True)
class Context:
    """How names are written in one equation: indices that a letter stands for, and the index of
    the column of numbers, where an equation is of one."""
    letters: tuple = ()                 # ((kind, number, letter), ...)
    column: str = ""
    time: str = ""
    tokens: str = ""

    def index(self, kind: str, value) -> str:
        for known, number, letter in self.letters:
            if known == kind and isinstance(value, int):
                if value == number:
                    return letter
                if abs(value - number) == 1:
                    return f"{letter}{value - number:+d}"
        return str(value)


class Writer:
    """Writes expressions of one theory."""

    def __init__(self, theory: Theory):
        self.theory = theory
        self.used: set[str] = set()     # words that the page explains
        training = theory.training
        self.decay = training.get("weight_decay", 0) and (
            any(isinstance(one.value, Process) and one.value.decays
                for one in theory.quantities.values()))
        self.scheduled = training.get("schedule", "constant") != "constant" or \
            training.get("warmup", 0)
        self.remembers = training.get("optimizer") == "momentum" or self.scheduled or \
            training.get("clip", 0)

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
        return rf"\bigl({text}\bigr)" if isinstance(what, Sum) else text

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

    # --- calls --------------------------------------------------------------------------------

    def call(self, what: Call, at: Context) -> str:
        rule = getattr(self, f"_{what.word}", None)
        if rule:
            return rule(what, at)
        args = ", ".join(self.text(one, at) for one in what.arguments)
        name = what.word.replace("_", r"\_")
        if what.word == "transpose":
            name, args = what["word"].replace("_", r"\_"), args
            return rf"\mathrm{{{name}}}^{{\top}}_{{{what['place'] + 1}}}[{args}]"
        return rf"\mathrm{{{name}}}({args})"

    def _look(self, what, at):
        columns, x = what.arguments
        return rf"\langle {self.text(columns, at)}\,{self.factor(x, at)}\rangle"

    def _look_back(self, what, at):
        g, Q = what.arguments
        if isinstance(Q, Ref) and self.theory.quantities[Q.key].numbers < 2:
            return rf"{self.text(g, at)}\,{self.text(Q, at)}"
        inner = replace(at, column="k")
        return rf"\sum_k {self.indexed(g, 'k', inner)}\,{self.text(Q, inner)}"

    def _entry(self, what, at):
        return self.indexed(what.arguments[0], at.column or "k", at)

    def _error(self, what, at):
        if self.theory.outputs > 1:
            return rf"\sum_c\Delta_c{at.time}\,{self.indexed(what.arguments[0], 'c', at)}"
        return rf"\Delta{at.time}\,{self.text(what.arguments[0], at)}"

    def _columns(self, what, at):
        return r"\bigl(" + ",\\,".join(self.text(one, at) for one in what.arguments) + r"\bigr)"

    def _sum(self, what, at):
        return rf"\sum_k {self.indexed(what.arguments[0], 'k', at)}"

    def _sum_over_inputs(self, what, at):
        return rf"\sum_\mu {self.factor(what.arguments[0], at)}"

    def whole(self, what: Expression, at: Context) -> str:
        """An expression that something acts on: in brackets, unless it is one name."""
        text = self.text(what, at)
        return text if isinstance(what, (Ref, Column, Mean)) else rf"\bigl({text}\bigr)"

    def _power(self, what, at):
        power = "" if what["c"] == 1 else rf"^{{{what['c']:g}}}"
        return rf"{self.whole(what.arguments[0], at)}{power}"

    def _over(self, what, at):
        return rf"\frac{{{what['c']:g}}}{{{self.text(what.arguments[0], at)}}}"

    def _exp(self, what, at):
        return rf"\exp({self.text(what.arguments[0], at)})"

    def _log(self, what, at):
        return rf"\ln {self.whole(what.arguments[0], at)}"

    def _tanh(self, what, at):
        return rf"\tanh({self.text(what.arguments[0], at)})"

    def _noise(self, what, at):
        self.used.add("noise")
        return rf"{self.text(what.arguments[0], at)} + {what['std']:g}\,\zeta"

    def _top(self, what, at):
        self.used.add("top")
        return rf"\mathrm{{top}}_{{{what['share']:.4g}}}({self.text(what.arguments[0], at)})"

    def _noise_of_rows(self, what, at):
        self.used.add("noise_of_rows")
        return r"\mathcal N(0,1)"

    def _constant(self, what, at):
        self.used.add("constant")
        return r"\mathrm{const}(u,\tau)" if len(what["values"]) > 1 else r"\mathrm{const}(u)"

    def _top_rows(self, what, at):
        self.used.add("top_rows")
        return rf"\mathrm{{top}}^\tau_{{{what['top']}}}({self.text(what.arguments[0], at)})"

    def _first_rows(self, what, at):
        self.used.add("first_rows")
        return rf"\mathrm{{first}}^\tau_{{{what['top']}}}({self.text(what.arguments[0], at)})"

    def _rows(self, what, at):
        if what["rule"] != "select":
            return rf"\mathrm{{{what['rule']}}}({self.text(what.arguments[0], at)})"
        self.used.add("select")
        return rf"\mathrm{{top}}_{{\rho}}({self.text(what.arguments[0], at)}{self.plus(what, at)})"

    def plus(self, what: Call, at: Context, before: str = " + ") -> str:
        """The selection bias of a mask, where it has one."""
        for one in self.theory.selections:
            if one.state == what["state"]:
                return before + self.symbol(one.symbol, at)
        return ""

    def _of_kind(self, what, at):
        """The bias of the kind of a token."""
        self.used.add("kind")
        return self.indexed(what.arguments[0], f"{at.column or 'k'},z", replace(at, column=""))

    def _softmax_of_sites(self, what, at):
        self.used.add("softmax_of_sites")
        beta, psi, *mask = what.arguments
        inner = self.text(psi, at) if beta.value == 1 and not beta.powers else \
            rf"{scale(beta)}\,{self.factor(psi, at)}"
        if not mask:
            return rf"\mathrm{{softmax}}({inner})"
        text = self.text(mask[0], at)
        if what["over_all"]:
            return rf"{text}\,\mathrm{{softmax}}({inner})"
        self.used.add("masked")
        return rf"\mathrm{{softmax}}_{{{text}}}({inner})"

    def _log_mean_exp(self, what, at):
        return rf"\ln\langle\exp({self.text(what.arguments[0], at)})\rangle"

    def _softmax_of_numbers(self, what, at):
        s, *mask = what.arguments
        low = f"_{{{self.text(mask[0], at)}}}" if mask else ""
        return rf"\mathrm{{softmax}}{low}({self.text(s, at)})"

    def _beta(self, beta: Scale, s: Expression, at) -> str:
        return self.text(s, at) if beta.value == 1 and not beta.powers else \
            rf"{scale(beta)}\,{self.factor(s, at)}"

    def _gates(self, what, at):
        beta, s = what.arguments
        inner = self._beta(beta, s, at)
        top = what["top"] < what["of"]
        if top:
            self.used.add("gates")
        bias = self.plus(what, at, "; s + ") if top else ""
        name = r"\mathrm{softmax}" if what["softmax"] else r"\mathrm{sig}"
        low = rf"_{{\mathrm{{top}}\,{what['top']}{bias}}}" if top else ""
        return rf"{name}{low}({inner})"

    def _mask(self, what, at):
        self.used.add("gates")
        return rf"\mathrm{{top}}_{{{what['top']}}}({self.text(what.arguments[1], at)}" \
               f"{self.plus(what, at)})"

    def _gates_back(self, what, at):
        beta, p, g, s = what.arguments
        front = "" if beta.value == 1 and not beta.powers else scale(beta) + r"\,"
        if not what["softmax"]:
            mask = r"m\," if what["top"] < what["of"] else ""
            if mask:
                self.used.add("gates")
            return rf"{front}{mask}\mathrm{{sig}}'({self._beta(beta, s, at)})\,{self.text(g, at)}"
        p_text, g_text = self.text(p, at), self.text(g, at)
        mean = rf"\sum_k {self.indexed(p, 'k', at)}\,{self.indexed(g, 'k', at)}"
        if what["over_all"]:
            return rf"{front}\bigl({p_text}\,{g_text} - \mathrm{{softmax}}" \
                   rf"({self._beta(beta, s, at)})\,{mean}\bigr)"
        return rf"{front}{p_text}\,\bigl({g_text} - {mean}\bigr)"

    def of_tokens(self, what: Expression) -> bool:
        """Whether a row of numbers is one for pairs of tokens."""
        value = self.theory.quantities[what.key].value if isinstance(what, Ref) else what
        return isinstance(value, Call) and value.word in ("softmax", "softmax_by_head")

    def _softmax_back(self, what, at):
        p, g = what.arguments
        if self.of_tokens(p):
            pair, other = r"\tau\sigma", r"\tau\rho"
            return rf"{self.indexed(p, pair, at)}\,\bigl({self.indexed(g, pair, at)} - " \
                   rf"\sum_\rho {self.indexed(p, other, at)}\,{self.indexed(g, other, at)}\bigr)"
        return rf"{self.text(p, at)}\,\bigl({self.text(g, at)} - " \
               rf"\sum_k {self.indexed(p, 'k', at)}\,{self.indexed(g, 'k', at)}\bigr)"

    def _softmax(self, what, at):
        seen = r"\sigma\le\tau" if what["causal"] else r"\sigma"
        inner = self.indexed(what.arguments[0], TAU_SIGMA, at)
        return rf"\mathrm{{softmax}}_{{{seen}}}({inner})"

    _softmax_by_head = _softmax

    def _attend(self, what, at):
        q, k = what.arguments
        low = "_{j}" if what.word == "attend_by_head" else ""
        return rf"\langle {self.indexed(q, TAU, at)}\," \
               rf"{self.indexed(k, SIGMA, at)}\rangle{low}"

    _attend_by_head = _attend

    def _attend_query(self, what, at):
        g, k = what.arguments
        return rf"\sum_\sigma {self.indexed(g, TAU_SIGMA, at)}\," \
               rf"{self.indexed(k, SIGMA, at)}"

    def _attend_key(self, what, at):
        g, q = what.arguments
        return rf"\sum_\sigma {self.indexed(g, SIGMA_TAU, at)}\," \
               rf"{self.indexed(q, SIGMA, at)}"

    _mix_value = _attend_key

    def _mix(self, what, at):
        return self._attend_query(what, at)

    _mix_by_head = _mix

    def _mix_weights(self, what, at):
        g, v = what.arguments
        low = "_{j}" if what["head"] else ""
        return rf"\langle {self.indexed(g, TAU, at)}\," \
               rf"{self.indexed(v, SIGMA, at)}\rangle{low}"

    def _norm(self, what, at):
        self.used.add("norm")
        return rf"\mathrm{{norm}}({self.text(what.arguments[0], at)})"

    def _norm_back(self, what, at):
        self.used.add("norm")
        x, g = what.arguments
        return rf"\mathrm{{norm}}'_{{{self.text(x, at)}}}[{self.text(g, at)}]"

    def _pool(self, what, at):
        return rf"\tfrac1n\sum_\tau {self.indexed(what.arguments[0], TAU, at)}"

    def _lag(self, what, at):
        self.used.add("lag")
        return self.indexed(what.arguments[0], rf"\tau{-what['tokens']:+d}", at)

    def _entropy(self, what, at):
        return rf"H({self.text(what.arguments[0], at)})"

    def _penalty(self, what, at):
        s, rule = self.text(what.arguments[0], at), what["rule"]
        several = isinstance(what.arguments[0], Ref) and \
            self.theory.quantities[what.arguments[0].key].numbers > 1
        k = r"\textstyle\sum_k" if several else ""
        s = self.indexed(what.arguments[0], "k", at) if several else s
        c = "" if what["c"] == 1 else f"{what['c']:g}" + r"\,"
        if rule == "mean":
            return rf"{c}\langle {k}{s}\rangle_\mu"
        if rule == "mean_square":
            inner = s if several else self.whole(what.arguments[0], at)
            return rf"{c}\langle {k}{inner}^2\rangle_\mu"
        self.used.add(rule)
        if rule == "z":
            return rf"{c}\bigl\langle\bigl(\ln\textstyle\sum_k\exp(\beta\,{s})\bigr)^2" \
                   r"\bigr\rangle_\mu"
        return rf"{c}\tfrac{{K}}{{{what['top']}}}\textstyle\sum_k\langle m_k\rangle_\mu" \
               r"\langle q_k\rangle_\mu"

    def _penalty_slope(self, what, at):
        kind = r"\mathrm{z}" if what["rule"] == "z" else r"\mathrm{bal}"
        return rf"\tfrac{{\partial F_{{{kind}}}}}{{\partial {self.text(what.arguments[0], at)}}}"

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
        """The sum of the terms of a process; a response and a learned part of one row together."""
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
                             and one.row == term.row), None)
                response = self.symbol(self.find(term.response), at, "k'" if each else "") + "(t,s)"
                inside = rf"\bigl[{response} + {self.learned(both, at, each)}\bigr]" if both \
                    else response
                low = r"s\le t" if term.now else "s<t"
                (start if value.decays else parts).append(
                    rf"{each}\sum_{{{low}}}{inside}\,{self.factor(term.row, then)}")
            elif isinstance(term, Learned) and term.row not in memory:
                parts.append(rf"{each}\sum_{{s<t}}{self.learned(term, at, each)}\,"
                             rf"{self.factor(term.row, then)}")
            elif isinstance(term, Entries):
                parts.append(self.entries(term, now))
        if value.decays and start:
            start = [rf"\zeta(t)\bigl[{' + '.join(start)}\bigr]" if len(start) > 1 else
                     rf"\zeta(t)\,{start[0]}"]
        return " + ".join(start + parts) or "0"

    def start(self, term: Start, at: Context, key: str) -> str:
        """What a thin matrix or a bias starts from."""
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
        return next(one for one in self.theory.learners if one.matrix == term.matrix)

    def entries(self, term: Entries, now: Context) -> str:
        learner = self.learner(term)
        more = now.column if term.row is None and learner.kind != "read_in" else ""
        name = self.symbol(learned_symbol(learner.symbol), now, more) + "(t)"
        if term.row is None:
            return name + (r"\,A" if learner.kind == "read_in" else "")
        row = self.factor(term.row, now)
        return rf"\langle {row}\,{name}\rangle" if term.transposed else \
            rf"\langle {name}\,{row}\rangle"


def learned_symbol(matrix: Symbol) -> Symbol:
    """The symbol of what a matrix has learned entry by entry."""
    words = matrix.words if matrix.base == "W" else (matrix.base, *matrix.words)
    return Symbol(LEARNED, words, matrix.indices)
