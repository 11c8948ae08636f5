r"""The part of a page of equations that says how matrices move."""
from __future__ import annotations

from dmft.scaling import BY_ENTRY, BY_WHOLE
from dmft.theory.lines import Line, fold
from dmft.theory.structure import Learner, Theory
from dmft.theory.symbols import LEARNED, Context, learned_symbol, scale
from dmft.theory.tex import Writer

KNOWN = ("gd", "momentum", "adam", "adamw", "lion", "muon")  # whose steps are written here
ETA = (r"\eta_0", r"\eta_{\mathrm{rest}}")  # [without, beside Muon] the rate of all but Muon


class Optimizers:
    """How what is learned entry by entry, and by Muon, moves; the weights of sums over steps."""

    def __init__(self, theory: Theory, writer: Writer):
        self.theory, self.w, self.training = theory, writer, theory.training
        self.entries = [one for one in theory.learners if one.optimizer in BY_ENTRY]
        self.wholes = [one for one in theory.learners if one.optimizer in BY_WHOLE]
        self.eta = ETA[self.training.get("optimizer") == "muon"]
        self.clips = bool(self.training.get("clip", 0))
        self.words: list[str] = []
        self.lines: list[str | Line] = []

    def part(self) -> tuple[list[str], list]:
        """(paragraphs, lines of one display)."""
        chi = r"\chi(t)\," if self.clips else ""
        if self.wholes:
            self._muon()
        if self.entries:
            last = self.entries[0].optimizer == "lion"
            self.words.append(("All other entries " if self.wholes else "Entries ") +
                              rf"${LEARNED}$ of what a matrix has learned move by the history "
                              "of their own gradient $G$" + ("." if last else
                                                             ", by its two moments."))
            self.lines += self._steps(chi)
        self.lines += fold([self._gradient(one) for one in self.wholes + self.entries])
        if self.w.decay:
            self._decay()
        if self.w.remembers:
            self._weights()
        if self.w.scheduled:
            self.words.append(r"$\sigma$ is the schedule.")
        if self.clips:
            self.words += self._clipping()
        integrator = self.training.get("integrator", "gd")
        if integrator != "gd":
            self.words.append(
                r"In gradient flow sums over $s<t$ are integrals over $\tau$, beside which "
                rf"responses at $s=t$ stay as they are; {integrator} takes the integrals in steps.")
        return self.words, self.lines

    # --- what all have ------------------------------------------------------------------------

    def _decay(self) -> None:
        self.lines.append((r"\vartheta(t) &= \prod_{r<t}\bigl(1-\lambda\,\sigma(r)\bigr)" if
                           self.w.scheduled else r"\vartheta(t) &= (1-\lambda)^t") +
                          rf",\qquad \lambda = {self.training['weight_decay']:g}")
        parts: dict = {}
        for one in self.theory.learners:
            parts.setdefault(one.decays, []).extend(
                learned_symbol(symbol)
                for symbol in dict(one.parts or ((None, one.symbol),)).values())
        for one in self.w.sums:
            parts.setdefault(one.value.decays, []).append(one.symbol)
        for part, symbols in sorted(parts.items()):
            names = ", ".join(self.w.symbol(one, Context()) for one in symbols)
            if part == 0:
                self.words.append(f"Without decay, $\\lambda=0$, move ${names}$.")
            elif part != 1:
                self.words.append(f"With ${part:g}\\,\\lambda$ in the place of $\\lambda$ "
                                  f"move ${names}$.")

    def _weights(self) -> None:
        """omega(t,s): by how much the gradient of step s has moved a matrix at time t."""
        momentum = self.training.get("optimizer") == "momentum"
        at = "r" if momentum else "s"   # the step at which it moves the matrix
        body = [rf"\sigma({at})"] if self.w.scheduled else []
        body += [r"\mu^{r-s}"] if momentum else []
        body += [rf"\frac{{\vartheta(t)}}{{\vartheta({at}+1)}}"] if self.w.decay else []
        factors = ([r"\chi(s)"] if self.clips else []) + \
            ([r"\sum_{r=s}^{t-1}"] if momentum else [])
        self.lines.append(r"\omega(t,s) &= " + r"\,".join(factors + body).replace(
            r"{t-1}\,", "{t-1}"))
        self.words.append(r"The gradient of step $s$ has moved a matrix by $\omega(t,s)$ times "
                          r"itself at time $t$" + (r", $\mu$ the momentum." if momentum else "."))

    def _clipping(self) -> list[str]:
        """What gradients are clipped by."""
        clip = rf"Clipping is $\chi=\min(1,{self.training['clip']:g}/|G|)$"
        if self.theory.learners and not self.w.sums:
            return [clip + r", $|G|^2$ the sum over matrices of "
                    r"$\Lambda$ times the mean of $G^2$ over sites, summed over what has no sites."]
        return [clip + r" with $|G|^2=\sum_W\tfrac{\Lambda_W}"
                r"{P^2}\sum_{\mu\nu}\Delta_\mu\Delta_\nu\langle g_\mu g_\nu\rangle"
                r"\langle x_\mu x_\nu\rangle$, where $\Lambda_W\,c$ is the factor of what $W$ "
                r"learns from $g$ and $x$" + (r" where $\Lambda$ does not stand here"
                                              if self.theory.learners else "") + (
                    r", with $\Delta$ in $g$ where $c$ has none beside it."
                    if self.theory.weighted else ".")]

    def _kept(self) -> tuple[str, str]:
        """(the factor of a schedule, of weight decay) in a step."""
        sigma = r"\sigma(t)\," if self.w.scheduled else ""
        return sigma, rf"(1-{sigma}\lambda)\," if self.w.decay else ""

    # --- entries ------------------------------------------------------------------------------

    def _steps(self, chi: str) -> list[str]:
        """How entries move: chi, the factor of clipping."""
        sigma, keep = self._kept()
        step = rf"{LEARNED}(t+1) &= {keep}{LEARNED}(t) + {sigma}\eta\,"
        if self.entries[0].optimizer == "lion":
            return [step + r"\frac{u(t)}{|u(t)| + \epsilon},\qquad "
                    rf"u(t) = \beta_1 m(t-1) + (1-\beta_1)\,{chi}G(t)",
                    rf"m(t) &= \beta_2 m(t-1) + (1-\beta_2)\,{chi}G(t)"]
        root = r"\sqrt{\hat v + \epsilon^2}" if self.training.get("adam_eps") == "inside" else \
            r"\sqrt{\hat v} + \epsilon"
        square = rf"\bigl({chi}G(t)\bigr)^2" if chi else "G(t)^2"
        return [step + rf"\frac{{\hat m(t)}}{{{root}}},\qquad \hat m = "
                r"\frac{m}{1-\beta_1^{t+1}},\quad \hat v = \frac{v}{1-\beta_2^{t+1}}",
                rf"m(t) &= \beta_1 m(t-1) + (1-\beta_1)\,{chi}G(t),\qquad "
                rf"v(t) = \beta_2 v(t-1) + (1-\beta_2)\,{square}"]

    def _gradient(self, one: Learner) -> Line:
        whole, clips = one.optimizer in BY_WHOLE, self.clips

        def write(at: Context) -> str:
            several = one.kind == "read_out" and self.theory.outputs > 1
            delta = (r"\Delta_c" if several else r"\Delta") + r"\," if one.delta else ""
            name = self.w.symbol(learned_symbol(one.symbol), at)
            rate = "" if scale(one.rate) == "1" else scale(one.rate) + r"\,"
            norm = rf",\quad\Lambda={scale(one.norm)}" if clips else ""
            if whole:
                name = ",".join(self.w.symbol(learned_symbol(symbol), at)
                                for _, symbol in one.parts) or name
                return rf"{name}:\quad {self._pair(one, at)},\qquad \eta={rate}\eta_0{norm}"
            words = []
            for g, x in one.gradient:
                parts = ([self.w.factor(g, at)] if g is not None else []) + \
                    ([self.w.factor(x, at)] if x is not None else
                     ["A"] if one.kind == "read_in" else [])
                words.append(delta + r"\,".join(parts))
            eps = "" if scale(one.eps) == "1" else scale(one.eps) + r"\,"
            inside = words[0] if len(words) == 1 else rf"\bigl({' + '.join(words)}\bigr)"
            over = r"\mu,\tau" if self.theory.tokens > 1 else r"\mu"
            return rf"{name}:\quad G &= \tfrac1P\sum_{{{over}}} {inside},\qquad " \
                   rf"\eta={rate}{self.eta},\quad\epsilon={eps}\epsilon_0{norm}"
        return Line(write, one.symbol.indices, None)

    # --- Muon ---------------------------------------------------------------------------------

    def _pair(self, one: Learner, at: Context) -> str:
        """What g_a and x_a are, and whose means the Gram matrices are."""
        pairs = [(self.w.factor(g, at), self.w.factor(x, at)) for g, x in one.gradient]
        text = r"(g_a,x_a) &= " + r"\text{ or }".join(f"({g},\\,{x})" for g, x in pairs)
        if one.experts:
            self.w.used.add("group")
        of = {"rows": r",\quad \Gamma_{ab}=\langle g_a\,g_b\rangle_j",
              "columns": r",\quad \Phi_{ab}=\langle x_a\,x_b\rangle_j"}
        of_heads = {"rows": r",\quad \Gamma_{ab}=0\text{ between heads}",
                    "columns": r",\quad \Phi_{ab}=0\text{ between heads}"}
        return text + of.get(one.experts, "") + of_heads.get(one.heads, "")

    def _muon(self) -> None:
        """A step of a matrix in the basis of the rows it has met."""
        training, (sigma, keep) = self.training, self._kept()
        mu = r"\mu_V"
        delta = r"\Delta(r)" if self.wholes[0].delta else ""
        weight = (r"\chi(r)\," if self.clips else "") + rf"\tfrac{{{delta or 1}}}{{P}}"
        exact = training.get("muon") == "exact"
        if exact or not training["momentum"]:
            weight += r"\,\delta_{r,t}"
        elif training.get("nesterov") == "yes":
            weight += rf"\,\bigl(\delta_{{r,t}} + {mu}^{{t-r+1}}\bigr)"
        else:
            weight += rf"\,{mu}^{{t-r}}"
        self.words.append(
            rf"Muon moves ${LEARNED}(t) = \sum_{{ab}}S_{{ab}}(t)\,g_a\,x_b$ as a whole. $a$ and "
            r"$b$ count all that a matrix has met: each stands for a step $r\le t$ and an input" + (
                ", a token" if self.theory.tokens > 1 else "") + (
                " and a use" if any(len(one.gradient) > 1 for one in self.wholes) else "") +
            r" of it. $D$ is diagonal; unless it is said below, $\Gamma_{ab}=\langle g_a\,"
            r"g_b\rangle$ and $\Phi_{ab}=\langle x_a\,x_b\rangle$." + (
                r" Where it is said, each expert $j$ has its own $\Theta$ and $S$."
                if any(one.experts for one in self.wholes) else "") + (
                r" Where means between heads are 0, $a$ and $b$ count the heads as well, whose "
                rf"parts ${LEARNED}$ of one matrix have the $g_a$ and $x_b$ that are their own."
                if any(one.heads for one in self.wholes) else "") + (
                "" if exact or not training["momentum"] else
                rf" ${mu}={training['momentum']:g}$ is the momentum."))
        self.lines.append(rf"S(t+1) &= {keep}S(t) + {sigma}\eta\,\Theta(t),\qquad "
                          rf"D_{{aa}}(t) = {weight}")
        if exact:
            self.lines.append(r"\Theta &= D\,\bigl(\Phi\,D\,\Gamma\,D\bigr)^{-1/2}")
            return
        self.words.append(
            r"$\Theta$ begins as $D$ over its norm, and is 0 where that is; five Newton-Schulz "
            r"steps take singular values to about one.")
        self.lines.append(
            r"\Theta &\leftarrow 3.4445\,\Theta - 4.7750\,\Theta\Phi\Theta^\top\Gamma\,\Theta + "
            r"2.0315\,\bigl(\Theta\Phi\Theta^\top\Gamma\bigr)^2\Theta\quad\text{five times, from }"
            r"\Theta = D\big/\sqrt{\mathrm{tr}(\Phi D\,\Gamma D)}")
