r"""Pages of equations: a theory as LaTeX, for a document or for Markdown."""
from __future__ import annotations

import functools
import re
from dataclasses import replace

from dmft.description import kind_of
from dmft.theory.expression import Call, Ref, Scale, calls
from dmft.theory.lines import Line, fold
from dmft.theory.optimizers import Optimizers
from dmft.theory.sentences import LOSSES, NOTES, plain_notes, unknown_loss
from dmft.theory.structure import Process, Quantity, Selection, Start, Symbol, Theory
from dmft.theory.symbols import PRINTED, Context, label, scale
from dmft.theory.tex import Writer


class Page:
    """The parts of a page: [(title, paragraphs, lines of one display)]."""

    def __init__(self, theory: Theory):
        self.theory, self.w = theory, Writer(theory)
        self.lines = self._quantities()
        self.parts: list[tuple[str, list[str], list[str]]] = []
        self._output()
        self._sites()
        self._laws()
        self._optimizer()
        self._conventions()

    # --- lines --------------------------------------------------------------------------------

    def _quantity(self, one: Quantity) -> list[Line]:
        value = one.value
        thin = one.key.startswith("thin:")
        by_column = thin or (not isinstance(value, Process) and any(
            call.word in ("look", "read_out") for call in calls(value))) or (
            not isinstance(value, Process) and any(
                isinstance(child, Ref) and child.key.startswith("thin:")
                for child in value.children()))
        column = "k" if by_column and one.numbers > 1 else ""
        of_outputs = isinstance(value, Call) and value.word == "read_out"
        if (of_outputs or one.key == "thin:" + self.theory.read_out) and self.theory.outputs > 1:
            column = "c"
        if one.kinds:
            column = (column or "k") + ",z"
        if isinstance(value, Call) and value.word == "columns":
            return [self._line(replace(one, symbol=Symbol(
                one.symbol.base, one.symbol.words, one.symbol.indices + (
                    ("expert", k + self.theory.first_column),)), value=part, numbers=0), "")
                    for k, part in enumerate(value.arguments)]
        return [self._line(one, column)]

    def _line(self, one: Quantity, column: str) -> Line:
        w, value = self.w, one.value

        def write(at: Context) -> str:
            at = replace(at, column=column)
            left = w.symbol(one.symbol, at, column or w.lhs_tokens(value))
            if isinstance(value, Process):
                return rf"{left}(t) &= {w.process(value, at, one.key)}"
            return rf"{left} &= {w.text(value, at)}"
        return Line(write, one.symbol.indices, one.population)

    def _quantities(self) -> list[Line]:
        lines = [line for one in self.theory.quantities.values() for line in self._quantity(one)]
        return fold(lines)

    @staticmethod
    def shown(line: Line) -> str:
        """A line with the ranges of its letters."""
        text = line.text()
        for letter, first, last in line.ranges:
            between = r",\dots," if last > first + 1 else ","
            text += rf"\qquad({letter}={first}{between}{last})"
        return text

    # --- parts --------------------------------------------------------------------------------

    def _output(self) -> None:
        theory, w = self.theory, self.w
        several = theory.outputs > 1
        c = "_c" if several else ""
        top = w.factor(theory.top, Context(time="(t)"))
        read = w.symbol(theory.quantities["thin:" + theory.read_out].symbol, Context(),
                        "c" if several else "")
        minus = rf" - f{c}(0)" if theory.centre else ""
        lines = [rf"f{c}(t) &= \tfrac1{{\gamma_0}}\langle {read}(t)\,{top}\rangle{minus}"]
        error = r"\Delta"
        if theory.output is not None:
            lines, error = [f"f &= {w.text(theory.output, Context())}"], "e"
        many, slope, one, single = LOSSES.get(theory.loss) or unknown_loss(theory.loss)
        loss, delta = (many, slope) if several else (one, single)
        mean = r"\tfrac1{P\,n}\sum_{\mu,\tau}" if theory.output_of_token else r"\tfrac1P\sum_\mu"
        weight = r"w_\mu" if theory.input_weights else ""
        mean += weight and " " + weight
        plus = "".join(" + " + self._summed(line) for line in fold(
            [Line(functools.partial(w.text, one), self._indices(one), None)
             for one in theory.penalties]))
        lines.append(rf"\mathcal L &= {mean}\Bigl[{loss}\Bigr]{plus}")
        scale = (r"\tfrac1n" if theory.output_of_token else "") + weight
        over = scale + r"\bigl(" + delta + r"\bigr)" if scale else delta
        lines.append(rf"{error}{c} &= -P\,\tfrac{{\partial\mathcal L}}{{\partial f{c}}} = {over}")
        self.parts.append(("Output and loss", [], lines))

    def _indices(self, what) -> tuple:
        """The indices of the first quantity of an expression that has some."""
        if isinstance(what, Ref) and what.key in self.theory.quantities:
            return self.theory.quantities[what.key].symbol.indices
        return next(filter(None, map(self._indices, what.children())), ())

    @staticmethod
    def _summed(line: Line) -> str:
        """A term, or the sum of all that differ by an index."""
        return "".join(rf"\sum_{{{letter}={first}}}^{{{last}}}"
                       for letter, first, last in line.ranges) + line.text()

    def _families(self) -> list[list[int]]:
        """Populations that one display shows together: groups and what they are groups of."""
        theory, home = self.theory, {}
        for at, one in enumerate(theory.populations):
            home[at] = home[one.of] if one.of is not None and one.of in home else at
        for at, one in enumerate(theory.populations):
            if one.shared is not None:
                home[one.shared] = home[at]
        families: dict[int, list[int]] = {}
        for at in range(len(theory.populations)):
            families.setdefault(home[at], []).append(at)
        return list(families.values())

    def _size(self, at: int) -> str:
        one = self.theory.populations[at]
        width = "" if not one.power else "N" if one.power == 1 else f"N^{{{one.power}}}"
        text = scale(one.size)
        whole = rf"{text}\,{width}" if text != "1" else width or "1"
        words = rf"{label(one.name)}: ${whole}$ sites"
        if one.of is not None and one.group > 1:
            inner = scale(one.group_size)
            many = "N" if one.group_power == 1 else ""
            group = rf"{inner}\,{many}" if many and inner != "1" else many or inner
            words += rf", ${group}$ of each of {label(self.theory.populations[one.of].name)}"
        return words

    def _sites(self) -> None:
        for family in self._families():
            here = [line for line in self.lines if line.population in family]
            if not here:
                continue
            places = dict.fromkeys(family)
            for line in here:
                places.update(dict.fromkeys(line.populations))
            shown = {at for line in here for at in line.populations or (line.population,)}
            shown |= {self.theory.populations[at].of for at in shown}
            names = "; ".join(self._size(at) for at in family if at in shown)
            more = [self.theory.populations[at].name for at in places if at not in family
                    and at is not None]
            if more:
                names += "; likewise " + ", ".join(shortened(more))
            self.parts.append(("Sites of " + names, [], [self.shown(line) for line in here]))
        numbers = [self.shown(line) for line in self.lines if line.population is None]
        if numbers:
            self.parts.append(("Numbers", ["They do not fluctuate in the limit."]
                               if not self.theory.random else [], numbers))
        biases = fold([self._selection(one) for one in self.theory.selections])
        if biases:
            self.parts.append(("Selection biases", [], [self.shown(line) for line in biases]))

    def _selection(self, one: Selection) -> Line:
        """How a selection bias begins and moves."""
        mask = self.theory.quantities[one.mask]
        of_sites = mask.population is not None
        top = next((call for call in calls(mask.value) if call.word in ("mask", "gates")), None)

        def write(at: Context) -> str:
            b, m = (self.w.symbol(symbol, at, "" if of_sites else "k")
                    for symbol in (one.symbol, mask.symbol))
            load = rf"\mathbf 1[{m}(t)>0]" if top and top.word == "gates" else f"{m}(t)"
            share = rf"\tfrac{{{top['top']}}}{{{mask.numbers}}}" if top else r"\rho"
            sign = r"\mathrm{sign}" if one.sign else ""
            step = rf" - {one.eta:g}\,{sign}\bigl(\langle {load}\rangle_\mu - {share}\bigr)" \
                if one.eta else ""
            begin = f"{b}(0)" + (r"\text{ given}" if one.start else "=0")
            return rf"{b}(t+1) &= {b}(t){step},\qquad {begin}"
        return Line(write, one.symbol.indices, None)

    @staticmethod
    def use(symbol: Symbol):
        """(k', which use) of what belongs to one use of a matrix that has several."""
        return next((("k'", value) for kind, value in symbol.indices if kind == "use"), "")

    def _laws(self) -> None:
        theory, w = self.theory, self.w

        def front(one) -> str:
            """The factor of a law, unless it is 1."""
            text = scale(one.scale)
            return "" if text == "1" else text + r"\,"

        def kernel(one):
            def write(at):
                t, s = replace(at, time="(t)"), replace(at, time="(s)")
                note = ""
                if one.measured and not at.letters:
                    times = "" if one.ratio == 1 else rf"\text{{ is {one.ratio:g} times it}}"
                    note = rf"\qquad{label(one.measured)}{times}"
                more = self.use(one.symbol)
                if more:
                    s = replace(s, letters=(("use", more[1], "k'"),))
                return rf"{w.symbol(one.symbol, at, more and more[0])}(t,s) &= " \
                       rf"\langle {w.factor(one.row, t)}\,{w.factor(one.row, s)}\rangle{note}"
            return Line(write, one.symbol.indices, one.population)

        def law(one):
            def write(at):
                inner = w.symbol(theory.kernels[one.kernel].symbol, at) if one.kernel else \
                    r"\Phi_0"
                if self.use(one.symbol):
                    number = self.use(one.symbol)[1]
                    other = replace(at, letters=(("use", number, "k'"),))
                    return rf"\langle {w.symbol(one.symbol, at)}(t)\," \
                           rf"{w.symbol(one.symbol, other)}(s)\rangle &= {front(one)}" + w.symbol(
                               theory.kernels[one.kernel].symbol, at, "k'") + "(t,s)"
                return rf"{w.symbol(one.symbol, at)} &\sim\mathcal{{GP}}" \
                       rf"\bigl(0,\,{front(one)}{inner}\bigr)"
            return Line(write, one.symbol.indices, one.population)

        def response(one):
            def write(at):
                row = w.factor(one.row, replace(at, time="(t)"))
                more = self.use(one.symbol)
                other = replace(at, letters=(("use", more[1], "k'"),)) if more else at
                by = w.symbol(theory.fields[one.field].symbol, other) + "(s)"
                left = w.symbol(one.symbol, at, more and more[0])
                return rf"{left}(t,s) &= {front(one)}\Bigl\langle" \
                       rf"\frac{{\delta\,{row}}}{{\delta\,{by}}}\Bigr\rangle"
            return Line(write, one.symbol.indices, None)
        for title, make, table, more in (
                ("Gaussian fields", law, theory.fields, self._starts()),
                ("Kernels", kernel, theory.kernels, []),
                ("Responses", response, theory.responses, [])):
            lines = [self.shown(line) for line in fold(more + [
                make(one) for one in table.values() if not self._other_use(one)])]
            if lines:
                self.parts.append((title, [], lines))

    def _thin(self):
        """(quantity, its start) of each thin matrix and bias that does not start at zero."""
        for one in self.theory.quantities.values():
            for term in one.value.terms if isinstance(one.value, Process) else []:
                if isinstance(term, Start) and (term.values or term.amplitude.value):
                    yield one, term

    def _starts(self) -> list[Line]:
        """What thin matrices start from."""
        def start(one, term):
            variance = scale(term.amplitude * term.amplitude)

            def write(at):
                name = self.w.start(term, replace(at, column="k"), one.key)
                return rf"{name} &\sim\mathcal N(0,\,{variance})\text{{ at every site}}"
            return Line(write, one.symbol.indices, one.population)
        return [start(one, term) for one, term in self._thin() if not term.values]

    def _given(self) -> list[str]:
        """A sentence about biases that start from numbers of the description."""
        given = [self.w.start(term, Context(column="k,z" if one.kinds else "k"), one.key)
                 for one, term in self._thin() if term.values and one.population is None]
        return [f"Given are {', '.join(shortened(given, '${}$'.format))}."] if given else []

    def _other_use(self, one) -> bool:
        """Whether this is a response to another use of the same matrix, which that to the same
        use stands for."""
        field = self.theory.fields.get(getattr(one, "field", None))
        return field is not None and field.symbol.indices != one.symbol.indices

    def _optimizer(self) -> None:
        words, lines = Optimizers(self.theory, self.w).part()
        if words:
            self.parts.append(("Optimizer", words, [
                one if isinstance(one, str) else self.shown(one) for one in lines]))

    def _conventions(self) -> None:
        theory = self.theory
        tokens, eta = theory.tokens > 1, Optimizers(theory, self.w).eta
        words = [
            "A time stands for a time and an input" + (" and a token" if tokens else "") +
            r": $\sum_{s<t}$ is over the steps $s<t$ and all $P$ inputs" +
            (" and their $n$ tokens" if tokens else "") +
            r" of each, $\sum_{s\le t}$ has $s=t$ as well. "
            r"$\langle\,\rangle$ is the mean over the sites of a population, "
            rf"$\Phi_0$ the kernel of the inputs, $c={eta}\gamma_0/P$. "
            r"The cotangent $g$ of a row "
            r"$h$ is the derivative $\partial(\gamma_0 f)/\partial h$ times the number of sites" + (
                r", with $\Delta$ inside" if theory.weighted else "") +
            r"; $\xi=W^\top g$ is what a matrix hands back. $u$ and $v$ are Gaussian fields, "
            "independent of one another; the responses $A(t,s)$ and $B(t,s)$ are averages."]
        if any(self.use(one.symbol) for one in theory.quantities.values()):
            words.append("$k$ and $k'$ count the uses of a matrix that has several.")
        if any(one.measured for one in theory.kernels.values()):
            self.w.used.add("measured")
        notes = [note for name, note in NOTES.items() if name in self.w.used] + \
            plain_notes(self.w.plain) + self._given()
        if notes:
            words.append(" ".join(notes))
        if theory.training.get("batch"):
            words.append("$P$ is the number of inputs of a batch; sums at step $s$ are over those "
                         "of its batch.")
        if theory.test_inputs:
            words.append("A test input has the same fields and kernels and the forward equations "
                         "alone; sums over $s$ stay those over training inputs.")
        if theory.random:
            words.append("This limit is a random one: masks begin with ties, which fluctuations "
                         "of a finite width decide.")
        used = constants(theory)
        values = ", ".join(rf"${tex}={value:g}$" for tex, value in theory.values.items()
                           if tex in used)
        if values:
            words.append(f"Here {values}.")
        words += self._labels()
        self.parts.insert(0, ("", words, []))

    def _labels(self) -> list[str]:
        """What the author of the network calls its matrices and populations."""
        names: dict[str, list[str]] = {}
        for name, given in self.theory.labels.items():
            if given:
                names.setdefault(kind_of(given), []).append(name)
        told = [rf"{', '.join(shortened(those))} {'are' if len(those) > 1 else 'is'} {label(given)}"
                for given, those in names.items()]
        return ["In the words of its author " + "; ".join(told) + "."] if told else []

    # --- texts --------------------------------------------------------------------------------

    def body(self) -> str:
        """LaTeX without a preamble."""
        out = []
        for title, words, lines in self.parts:
            if title:
                out.append(rf"\paragraph{{{title}}}")
            out += words
            if lines:
                out.append(r"\begin{align*}" + "\n" + " \\\\\n".join(lines) + "\n" +
                           r"\end{align*}")
        return "\n\n".join(out)

    def document(self) -> str:
        """A LaTeX document."""
        name = self.theory.network.replace("_", r"\_")
        return "\n".join([
            r"\documentclass[10pt]{article}", r"\usepackage[margin=18mm]{geometry}",
            r"\usepackage{amsmath,amssymb}", r"\allowdisplaybreaks",
            r"\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}", r"\begin{document}",
            rf"\section*{{\texttt{{{name}}}: the limit $N\to\infty$}}", "", self.body(), "",
            r"\end{document}", ""])

    def markdown(self) -> str:
        """Markdown with formulas between dollars."""
        out = []
        for title, words, lines in self.parts:
            if title:
                out.append(f"**{plain(title)}**")
            out += [plain(text) for text in words]
            if lines:
                out.append("$$\n\\begin{aligned}\n" + " \\\\\n".join(
                    line.replace(r"\texttt{", r"\mathtt{") for line in lines) +
                    "\n\\end{aligned}\n$$")
        return "\n\n".join(out).replace("<", r"\lt ") + "\n"


def shortened(names: list[str], write=label) -> list[str]:
    r"""Names as a page writes them; of three or more that differ in numbers the first and the last.

    >>> shortened(["top", "head_1", "head_2", "head_3"], str)
    ['top', 'head_1, $\\dots$, head_3']
    """
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    return [", ".join(map(write, those)) if len(those) < 3 else
            rf"{write(those[0])}, $\dots$, {write(those[-1])}" for those in found.values()]


def constants(what) -> set[str]:
    """TeX of all keys that constants of a theory are made of."""
    found, seen, left = set(), set(), [what]
    while left:
        one = left.pop()
        if isinstance(one, Scale):
            found.update(name for name, _ in one.powers)
        elif isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
        elif hasattr(one, "__dataclass_fields__") and id(one) not in seen:
            seen.add(id(one))
            left.extend(vars(one).values())
    return found


def plain(text: str) -> str:
    r"""Text outside of formulas, as Markdown has it.

    >>> plain(r"\texttt{head\_0}: $N$ sites")
    '`head_0`: $N$ sites'
    """
    def code(found):
        name = found[1]
        for letter, printed in PRINTED.items():
            name = name.replace(printed, letter)
        return f"`{name}`"
    return re.sub(r"\\texttt\{((?:\\.|[^\\}])*)\}", code, text)
