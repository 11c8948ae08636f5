r"""LaTeX of the calls of a theory: a method for each word, which `Writer` calls by its name."""
from __future__ import annotations

from dataclasses import replace

from dmft.theory.expression import Call, Column, Expression, Mean, Ref, Scale
from dmft.theory.symbols import Context, scale

TAU, SIGMA = r"\tau", r"\sigma"
TAU_SIGMA, SIGMA_TAU = TAU + SIGMA, SIGMA + TAU


class Calls:
    """What `Writer` says of calls: it has the theory, the words that the page explains (`used`),
    and how expressions and symbols are written."""

    def call(self, what: Call, at: Context) -> str:
        rule = getattr(self, f"_{what.word}", None)
        if rule:
            return rule(what, at)
        args = ", ".join(self.text(one, at) for one in what.arguments)
        self.plain.add(what.word)
        name = what.word.replace("_", r"\_")
        if what.word == "transpose":
            name = what["word"].replace("_", r"\_")
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

    def _input(self, what, at):
        self.used.add("kinds_and_places" if what["kinds"] else "input")
        last = what["first"] + what["count"]
        return rf"\mathrm{{input}}_{{{what['first'] + 1}\ldots{last}}}"

    def _entry(self, what, at):
        return self.indexed(what.arguments[0], at.column or "k", at)

    def _error(self, what, at):
        if self.theory.outputs > 1:
            return rf"\sum_c\Delta_c{at.time}\,{self.indexed(what.arguments[0], 'c', at)}"
        return rf"\Delta{at.time}\,{self.text(what.arguments[0], at)}"

    def _read_out(self, what, at):
        w, x = what.arguments
        c = at.column if self.theory.outputs > 1 else ""
        minus = " - " + self.symbol(self.theory.quantities[str(what["at"])].symbol, at, c) + "(0)" \
            if self.theory.centre else ""
        return rf"\tfrac1{{\gamma_0}}\langle {self.text(w, at)}\,{self.factor(x, at)}\rangle{minus}"

    def _loss_slope(self, what, at):
        return ("e_" + at.column if at.column else "e") + at.time

    def _columns(self, what, at):
        return r"\bigl(" + ",\\,".join(self.text(one, at) for one in what.arguments) + r"\bigr)"

    def _sum(self, what, at):
        return rf"\sum_k {self.indexed(what.arguments[0], 'k', at)}"

    def _log_sum_exp(self, what, at):
        return rf"\ln \sum_k \exp({self.indexed(what.arguments[0], 'k', at)})"

    def _sum_over_inputs(self, what, at):
        return rf"\sum_\mu {self.factor(what.arguments[0], at)}"

    def whole(self, what: Expression, at: Context) -> str:
        """An expression that something acts on: in brackets, unless it is one name."""
        text = self.text(what, at)
        return text if isinstance(what, (Ref, Column, Mean)) else rf"\bigl({text}\bigr)"

    def _base(self, what: Expression, at: Context) -> str:
        """What has a power: in brackets, where a name has an index above already."""
        text = self.whole(what, at)
        return rf"\bigl({text}\bigr)" if isinstance(what, Ref) and "^" in text else text

    def _power(self, what, at):
        if what["c"] == 1:
            return self.whole(what.arguments[0], at)
        return rf"{self._base(what.arguments[0], at)}^{{{what['c']:g}}}"

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
        size = dict(what.constants).get("count", f"{what['share']:.4g}")
        return rf"\mathrm{{top}}_{{{size}}}({self.text(what.arguments[0], at)})"

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
        inner = self._beta(beta, psi, at)
        if not mask:
            return rf"\mathrm{{softmax}}({inner})"
        text = self.text(mask[0], at)
        if what["over_all"]:
            return rf"{text}\,\mathrm{{softmax}}({inner})"
        self.used.add("masked")
        return rf"\mathrm{{softmax}}_{{{text}}}({inner})"

    def _log_mean_exp(self, what, at):
        return rf"\ln\langle\exp({self._beta(*what.arguments, at)})\rangle"

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
        return rf"\mathrm{{top}}_{{{what['top']}}}({self.text(what.arguments[0], at)}" \
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

    def _mix(self, what, at):
        a, v = what.arguments
        pair = SIGMA_TAU if what["transposed"] else TAU_SIGMA
        return rf"\sum_\sigma {self.indexed(a, pair, at)}\,{self.indexed(v, SIGMA, at)}"

    _mix_by_head = _mix

    def _norm(self, what, at):
        self.used.add("norm")
        return rf"\mathrm{{norm}}({self.text(what.arguments[0], at)})"

    def _norm_back(self, what, at):
        self.used.add("norm")
        x, g = what.arguments
        return rf"\mathrm{{norm}}'_{{{self.text(x, at)}}}[{self.text(g, at)}]"

    def _pool(self, what, at):
        n = "n" if what["of"] == self.theory.tokens else f"{{{what['of']}}}"
        return rf"\tfrac1{n}\sum_\tau {self.indexed(what.arguments[0], TAU, at)}"

    def _mix_places(self, what, at):
        self.used.add("mix_places")
        index = at.index("block", what["number"])
        pair = SIGMA_TAU if what["transposed"] else TAU_SIGMA
        return rf"\sum_\sigma S^{{{what['rows']}\times{what['columns']}}}_{{{index},{pair}}}\," \
               rf"{self.indexed(what.arguments[0], SIGMA, at)}"

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
        known = dict(what.constants)
        c = "" if what["c"] == 1 else f"{what['c']:g}" + r"\,"
        c += rf"\tfrac{{{known['of']}}}{{{known['top']}}}\," if "of" in known else ""
        if rule == "mean":
            return rf"{c}\langle {k}{s}\rangle_\mu"
        inner = s if several else self._base(what.arguments[0], at)
        return rf"{c}\langle {k}{inner}^2\rangle_\mu"
