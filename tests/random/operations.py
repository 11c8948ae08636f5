"""What is drawn for a random network: a method for each operation, or for some that go together,
which adds values and returns the last; None where there is nothing that it could take."""
from __future__ import annotations

from trained import Trained
from values import GROUPS, POPULATIONS, Value


class Operations(Trained):
    """Draws values from those that are there."""

    # --- operations ------------------------------------------------------------------------------

    def read_in(self) -> Value:
        on = self.any("stream", "stream", "narrow", "wide", "units")
        W, scale, zero = self.matrix("read_in")
        return self.add(f"read_in({on}, {W})", on, "token" if self.n > 1 else "input", K=0,
                        size=scale, vanishes=zero, weighted=True)

    def map(self, x: Value | None = None, on: str | None = None) -> Value:
        x = x or self.tame(self.rows())
        names = [name for name in POPULATIONS if name not in ("pairs", "heads")] + ["stream"] * 3
        if not self.limit:
            names += ["pairs", "heads"]
        on = on or self.random.choice(names)
        W, scale, zero = self.matrix("map")
        return self.add(f"map({x}, {on}, {W})", on, x.per, [x], size=scale * x.size,
                        vanishes=zero or x.vanishes, weighted=True)

    def tied_map(self) -> Value:
        tied = [one for one in self.tied.values() if self.chance(0.8)]
        for text, source, target, per in tied:
            x = self.pick(lambda v: v.on == source and v.per == per and v.size < 3)
            if x:
                break
        else:
            x, name = self.tame(self.rows()), self.name("T")
            text = self.matrix("map", name=name, tied=True)[0]
            target = x.on if self.chance(0.7) else self.any("stream", "narrow", "units")
            self.tied[name] = text, x.on, target, x.per
        zero = "zero = true" in text or "a0 = 0," in text or "a0 = 0}" in text
        return self.add(f"map({x}, {target}, {text})", target, x.per, [x], size=1.5 * x.size,
                        vanishes=zero or x.vanishes, weighted=True)

    def residual(self) -> Value:
        x = self.tame(self.rows(), 4)
        inner = self.function(x)
        y = self.map(inner, x.on)
        b = self.any(1, 0.5, 0.7)
        return self.add(f"{x} + {b} * {y}", x.on, x.per, [x, y], size=x.size + b * y.size,
                        vanishes=x.vanishes)

    def function(self, x: Value | None = None) -> Value:
        x = x or self.rows()
        word = self.any("tanh", "erf", "relu", "gelu", "silu", "softplus", "sigmoid", "sigma",
                        "sigma_of_experts")
        self.words.add(word)
        k = "" if word.startswith("sigma") and word != "sigmoid" or self.chance(0.6) else \
            f", {self.any(0.5, 1.5, -1)}"
        bounded = word in ("tanh", "erf", "sigmoid")
        return self.of(f"{word}({x}{k})", x, size=1 if bounded else 1.5 * x.size, bounded=bounded,
                       vanishes=x.vanishes and word not in ("sigmoid", "softplus") or
                       word in ("relu", "sigma", "sigma_of_experts"), positive=word == "sigmoid")

    def exponential(self) -> Value:
        x = self.tame(self.pick(lambda v: v.on and v.per in ("input", "token")), 0)
        k = self.any("", ", 0.5", ", -1")
        e = self.of(f"exp({x}{k})", x, size=1.5, positive=True, bounded=True)
        if self.chance(0.7):
            return e
        if self.chance(0.5):
            return self.add(f"log({e}, 2)", x.on, x.per, [e], size=x.size + 1)
        return self.add(f"{e} ^ {self.any(0.5, -0.5, 2, -2)}", x.on, x.per, [e], size=2.5,
                        positive=True, bounded=True)

    def sum_of_rows(self) -> Value | None:
        x = self.rows()
        y = self.like(x)
        if y is None or x.size + y.size > 8:
            return None
        sign = self.any("+", "-")
        return self.add(f"{x} {sign} {y}", x.on, x.per, [x, y], size=x.size + y.size,
                        vanishes=x.vanishes and y.vanishes or sign == "-")

    def product_of_rows(self) -> Value | None:
        x = self.tame(self.rows())
        if x.on in GROUPS and self.chance(0.7):
            y = self.pick(lambda v: v.on == GROUPS[x.on] and v.per == x.per and v.size <= 2)
        else:
            y = self.pick(lambda v: v.on == x.on and v.per == x.per and v.size <= 2)
        if y is None:
            return None
        a, b = (x, y) if self.chance(0.5) else (y, x)
        return self.add(f"{a} * {b}", x.on, x.per, [x, y], size=x.size * y.size,
                        vanishes=x.vanishes or y.vanishes or x is not y,
                        positive=x.positive and y.positive, bounded=x.bounded and y.bounded)

    def quotient_of_rows(self) -> Value | None:
        y = self.pick(lambda v: v.on and v.positive and v.bounded and v.per in ("input", "token"))
        if y is None:
            return None
        x = self.like(y)
        if x is None or self.chance(0.3):
            return self.of(f"{self.any(1, 0.5)} / {y}", y, size=2)
        x = self.tame(x)
        return self.add(f"{x} / {y}", y.on, y.per, [x, y], size=2 * x.size, vanishes=x.vanishes)

    def scaled(self) -> Value:
        x, k = self.rows(), self.any("0.5 * {}", "{} / 2", "-{}", "{} * 1.5", "scale * {}")
        if "scale" in k:
            self.words.add("key")
        return self.of(k.format(x), x, size=1.5 * x.size, vanishes=x.vanishes)

    def norm(self) -> Value | None:
        x = self.pick(lambda v: v.on and v.per in ("input", "token") and not v.vanishes)
        return x and self.of(f"norm({x})", x)

    def between(self) -> Value | None:
        x = self.rows()
        if not self.limit and self.chance(0.15):
            self.words.add("tile")
            x = self.map(x, "shared")
            x = self.add(f"tile({x}, pairs)", "pairs", x.per, [x], size=x.size, vanishes=x.vanishes)
            x = self.function(self.map(self.rows(x.per), "pairs") if self.chance(0.3) else x)
        target = {"experts": ["units", "pairs"], "heads": ["queries"], "units": ["experts"],
                  "queries": ["heads"], "shared": ["pairs"], "pairs": ["experts", "shared"]}
        if x.on not in target:
            x = self.pick(lambda v: v.on in target and v.per in ("input", "token"))
            if x is None:
                x = self.map(on=self.any("experts", "heads", "shared", "units"))
        on = self.random.choice(target[x.on])
        if x.on == "shared":
            word = "tile"
        elif x.on == "pairs" and on == "shared":
            word = "tile_mean"
        else:
            word = "group_mean" if x.on in GROUPS else "expand"
        self.words.add(word)
        mean = word in ("group_mean", "tile_mean")
        return self.add(f"{word}({x}, {on})", on, x.per, [x], size=x.size,
                        vanishes=x.vanishes or mean and not x.positive, positive=x.positive,
                        bounded=x.bounded)

    def number_times_rows(self) -> Value | None:
        x = self.tame(self.rows())
        s = self.numbers(x.per)
        if s is None:
            return None
        s = self.tame(s)
        part = f"{s}[{self.random.randint(1, s.K)}]" if s.K > 1 or self.chance(0.5) else f"{s}"
        if self.chance(0.7):
            text = f"{part} * {x}" if self.chance(0.5) else f"{x} * {part}"
            return self.add(text, x.on, x.per, [s, x], size=s.size * x.size,
                            vanishes=x.vanishes or not s.positive)
        return self.add(f"{part} + {x}" if self.chance(0.5) else f"{x} - {part}", x.on, x.per,
                        [s, x], size=s.size + x.size, vanishes=x.vanishes)

    def softmax_over_sites(self) -> Value:
        x = self.exponential()
        s = self.add(f"mean({x})", None, x.per, [x], K=1, size=1.5, positive=True, bounded=True)
        return self.add(f"{x} / {s}", x.on, x.per, [x, s], size=1.5, positive=True, bounded=True)

    def top_of_rows(self) -> Value:
        x, y = self.rows(), None
        self.words.add("top")
        text = f"top({x}, {x.on}.sites // 2)"
        if self.chance(0.4):
            rate = self.any("", "{eta_bias = 0.1, sign = true, name = %s}", "{name = %s}")
            rate = rate or "{eta_bias = 0.05, name = %s}"
            text = f"balance_select({x}, {x.on}.sites // 2, " + \
                rate % f'"s{self.name("")}"' + ")"
            self.words.add("balance_select of rows")
        mask = self.of(text, x, [], moves=False, bounded=True)
        y = self.like(mask, moves=True) or x
        y = self.tame(y)
        return self.add(f"{mask} * {y}", x.on, x.per, [mask, y], [y], size=y.size,
                        vanishes=y.vanishes)

    # --- numbers ---------------------------------------------------------------------------------

    def look(self) -> Value:
        x = self.tame(self.rows())
        W, scale, _ = self.matrix("look")
        K = self.any(self.count, self.count, 1)
        return self.add(f"look({x}, {K}, {W})", None, x.per, [x], K=K, size=scale * x.size,
                        vanishes=True, weighted=True)

    def logits(self) -> Value:
        """Looks with biases that tell their numbers apart."""
        x = self.tame(self.rows())
        zero = self.limit or self.chance(0.5)
        Q = f'{{name = "{self.name("Q")}", a0 = {0 if zero else 1}}}'
        s = self.add(f"look({x}, {self.count}, {Q})", None, x.per, [x], K=self.count, size=x.size,
                     vanishes=True, weighted=True)
        return self.bias(s)

    def bias(self, s: Value | None = None) -> Value | None:
        s = s or self.numbers()
        if s is None:
            return None
        draw = lambda: "{" + ", ".join(f"{self.random.gauss(0, 1):.3f}" for _ in range(s.K)) + "}"
        if self.vocabulary and s.per == "token" and self.chance(0.4):
            start = "{" + ", ".join(draw() for _ in range(self.vocabulary)) + "}"
            self.words.add("bias of tokens")
        else:
            start = f"normals({s.K})" if self.chance(0.3) else draw()
        W, scale, _ = self.matrix("bias")
        return self.of(f"bias({s}, {start}, {W})", s, K=s.K, size=s.size + scale,
                       vanishes=s.vanishes, weighted=True, same=False)

    def mean_of_sites(self) -> Value:
        x = self.tame(self.rows())
        if self.chance(0.4):
            self.words.add("mean")
            return self.add(f"mean({x})", None, x.per, [x], K=1, size=x.size,
                            vanishes=not x.positive, positive=x.positive)
        y = self.like(x) if self.chance(0.6) else x
        y = self.tame(y or x)
        same = x is y and not x.vanishes
        return self.add(f"average({x}, {y})", None, x.per, [x, y], K=1, size=x.size * y.size,
                        vanishes=not same, positive=same)

    def gates(self) -> Value:
        s = self.tame(self.pick(lambda v: not v.on and v.K == self.count and
                                v.per in ("input", "token")) or self.logits(), 4)
        word, options = self.any("softmax", "sigmoid"), []
        if self.chance(0.4):
            options.append(f"beta = {self.any(0.5, 2)}")
        top = self.chance(0.4) and s.K > 1
        if top:
            options.append(f"top = {self.random.randint(1, s.K)}")
        self.words.add(word + " of numbers")
        return self.add(f"{word}({s}" + (f", {{{', '.join(options)}}}" if options else "") + ")",
                        None, s.per, [s], K=s.K, positive=not top, bounded=True)

    def selected(self) -> Value:
        s = self.logits()
        K = self.random.randint(1, s.K)
        if self.chance(0.5):
            text = f"top({s}, {K})"
        else:
            eta = self.any(0, 0.1)
            sign = "sign = true, " if eta and K % 2 else ""
            text = f'balance_select({s}, {K}, {{eta_bias = {eta}, {sign}' \
                f'name = "s{self.name("")}"}})'
            self.words.add("balance_select of numbers")
        mask = self.of(text, s, [], K=s.K, moves=False, bounded=True)
        s = self.tame(s, 0)
        e = self.of(f"exp({s})", s, K=s.K, positive=True, size=1.5, bounded=True)
        if self.chance(0.5) and self.chance(0.7):
            coefficient = f"{0.1 * s.K / K:.3f}"
            text = f"{coefficient} * sum(mean_of_rows({mask}) * mean_of_rows({e} / sum({e})))"
            self.end(f'penalty({text}, "{self.name("balance")}")', [mask, e], [e])
            self.words.add("mean_of_rows of numbers")
        return self.add(f"{mask} * {e} / sum({mask} * {e})", None, s.per, [mask, e], [e], K=s.K,
                        bounded=True)

    def of_numbers(self) -> Value | None:
        s = self.numbers()
        if s is None:
            return None
        kind = self.any("tanh", "exp", "log", "square", "root", "over", "plus", "times", "stop",
                        "sum", "pick", "pair", "pair", "quotient", "log of square", "log_sum_exp",
                        "function", "tokens", "tokens", "join")
        t = self.tame(s)
        more = {"K": s.K, "bounded": s.bounded}
        if kind == "tokens":
            return self.of_tokens(s, **more)
        if kind == "join":
            other = self.pick(lambda v: not v.on and v.per == s.per) or s
            return self.add(f"join({{{s}, {other}[1], {s}}})", None, s.per, [s, other],
                            size=max(s.size, other.size), vanishes=s.vanishes or other.vanishes,
                            K=2 * s.K + 1, positive=s.positive and other.positive)
        if kind == "tanh":
            return self.of(f"tanh({s})", s, vanishes=s.vanishes, **more | {"bounded": True})
        if kind == "function":
            word = self.any("erf", "relu", "gelu", "silu", "softplus", "sin", "cos")
            k = self.any("", ", 0.5", ", -1.5")
            return self.of(f"{word}({t}{k})", t, size=1.5 * t.size + 1, vanishes=True, **more)
        if kind == "exp":
            t = self.tame(s, 0)
            return self.of(f"exp({t})", t, size=1.5, positive=True, **more | {"bounded": True})
        if kind == "log of square":
            return self.of(f"log(1 + {t} ^ 2)", t, vanishes=s.vanishes, **more)
        if kind == "log_sum_exp":
            return self.of(f"log_sum_exp({t})", t, size=t.size + 1, **more | {"K": 1})
        if kind == "square":
            return self.of(f"{t} ^ 2", t, size=t.size ** 2, vanishes=s.vanishes, **more)
        if kind in ("log", "root", "over"):
            if not s.positive:
                return None
            text = {"log": f"log({s})", "root": f"{s} ^ {self.any(0.5, -0.5)}",
                    "over": f"{self.any(1, 0.5)} / ({s} + 0.3)"}[kind]
            return self.of(text, s, size=2, vanishes=kind == "log", positive=kind != "log", **more)
        if kind == "plus":
            return self.of(f"{s} {self.any('+', '-')} 0.5", s, size=s.size + 0.5, vanishes=True,
                           **more)
        if kind == "times":
            return self.of(self.any(f"0.5 * {s}", f"-{s}", f"{s} / 2"), s, size=s.size,
                           vanishes=s.vanishes, **more)
        if kind == "stop":
            return self.of(f"stop({s})", s, [], moves=False, size=s.size, positive=s.positive,
                           vanishes=s.vanishes, **more)
        if kind == "sum":
            return self.of(f"sum({t})", t, size=t.K * t.size, positive=s.positive and t is s,
                           vanishes=not s.positive, **more | {"K": 1})
        if kind == "pick":
            return self.of(f"0.5 + {t}[{self.random.randint(1, t.K)}]", t, size=t.size,
                           vanishes=True, **more | {"K": 1})
        other = self.like(t)
        if other is None:
            return None
        other = self.tame(other)
        K = max(t.K, other.K)
        if kind == "quotient" and other.positive:
            return self.add(f"{t} / ({other} + 0.2)", None, s.per, [t, other], size=3,
                            vanishes=True, **more | {"K": K, "bounded": False})
        sign = self.any("+", "-", "*")
        return self.add(f"{t} {sign} {other}", None, s.per, [t, other],
                        size=max(t.size + other.size, t.size * other.size), vanishes=True,
                        **more | {"K": K, "bounded": False})

    def of_tokens(self, s: Value, **more) -> Value | None:
        """Words that numbers of tokens have as rows do."""
        if s.per != "token":
            return None
        kind = self.any("lag", "pool", "mix")
        if kind == "lag":
            return self.of(f"lag({s}, {self.any(1, 1, 2, -1)})", s, size=s.size, vanishes=True,
                           **more)
        if kind == "pool":
            return self.add(f"pool({s})", None, "input", [s], size=s.size, vanishes=s.vanishes,
                            positive=s.positive, **more)
        weights = ", ".join("{" + ", ".join(f"{self.random.uniform(0.1, 1) / self.n:.3f}"
                                            for _ in range(self.n)) + "}" for _ in range(self.n))
        return self.of(f"mix({s}, {{{weights}}})", s, size=s.size, vanishes=s.vanishes,
                       positive=s.positive, **more)

    # --- tokens ----------------------------------------------------------------------------------

    def attention(self) -> Value:
        y = self.tame(self.rows("token"))
        on, causal = self.any("stream", "narrow", y.on), self.any("true", "false")
        q = self.map(y, on)
        k = self.map(y, on) if self.chance(0.8) else q
        beta = self.any("", ", 2", ", 0.5")
        a = self.add(f"attend({q}, {k}{beta})", None, "token", [q, k], K=self.n, size=2,
                     vanishes=True)
        soft = self.chance(0.85)
        if soft:
            a = self.add(f"softmax({a}, {{causal = {causal}}})", None, "token", [a], K=self.n,
                         bounded=True, positive=causal == "false")
        else:
            a = self.tame(a, 0)
        a.weights = True
        v = self.map(y) if self.chance(0.7) else y
        self.words.add("attention")
        return self.add(f"mix({a}, {v})", v.on, "token", [a, v], size=v.size * (1 if soft else 2),
                        vanishes=v.vanishes or not soft)

    def attention_by_head(self) -> Value:
        y = self.tame(self.rows("token"))
        units, heads = self.any(("queries", "heads"), ("queries", "heads"), ("units", "experts"))
        q, k, v = self.map(y, units), self.map(y, units), self.map(y, units)
        beta = self.any("1", "2", "0.5")
        a = self.add(f"attend({q}, {k}, {beta}, {heads})", heads, "pair", [q, k], size=2,
                     vanishes=True)
        if self.chance(0.2):
            a = self.add(f"tanh({a})", heads, "pair", [a], bounded=True, vanishes=True)
        if self.chance(0.85):
            causal = self.any("true", "false")
            a = self.add(f"softmax({a}, {{causal = {causal}}})", heads, "pair", [a], bounded=True)
        self.words.add("attention by head")
        return self.add(f"mix({a}, {v})", units, "token", [a, v], size=v.size, vanishes=v.vanishes)

    def mix_again(self) -> Value | None:
        a = self.pick(lambda v: v.weights)
        if a is None:
            return self.attention()
        v = self.tame(self.rows("token"))
        return self.add(f"mix({a}, {v})", v.on, "token", [a, v], size=v.size, vanishes=True)

    def constant(self) -> Value:
        """Rows times numbers of their sites and tokens."""
        x = self.tame(self.rows("token"))
        self.words.add("constant")
        c = f"constant({x.on}, function(u, s) return math.cos({self.any(1, 3)} * s * u) end)"
        return self.add(f"{c} * {x}", x.on, "token", [x], size=x.size, vanishes=x.vanishes,
                        same=False)

    def choice_of_rows(self) -> Value:
        """Rows of the tokens that are chosen at each site, and of the first that are above 0."""
        x = self.pick(lambda v: v.on and v.per == "token" and (self.limit or not v.same))
        word = self.any("top_rows", "first_rows")
        self.words.add(word)
        mask = self.add(f"{word}({x}, {self.any(1, 2)})", x.on, "token", [x], [], moves=False,
                        bounded=True)
        y = self.tame(self.like(mask, moves=True) or x)
        return self.add(f"{mask} * {y}", x.on, "token", [mask, y], [y], size=y.size,
                        vanishes=y.vanishes)

    def choice_of_numbers(self) -> Value:
        """Numbers of the tokens that are chosen, of each number by itself."""
        s = self.pick(lambda v: not v.on and v.per == "token" and (self.limit or not v.same))
        word = self.any("top_rows", "first_rows")
        if s is None or self.limit:     # fluctuations might choose
            return self.choice_of_rows()
        self.words.add(f"{word} of numbers")
        mask = self.add(f"{word}({s}, {self.any(1, 2)})", None, "token", [s], [], K=s.K,
                        moves=False, bounded=True)
        t = self.tame(s)
        return self.add(f"{mask} * {t}", None, "token", [mask, t], [t], K=s.K, size=t.size,
                        vanishes=True)

    def mixture_of_places(self) -> Value:
        """Rows mixed to fewer places and back."""
        x, places = self.rows("token"), self.random.randint(1, self.n)
        self.words.add("mix_places")

        def matrix(rows, columns):
            entries = [[self.any(0, 0, 1, 0.5, -0.5) for _ in range(columns)] for _ in range(rows)]
            entries[-1][0] = 1
            return "{" + ", ".join("{" + ", ".join(map(str, row)) + "}" for row in entries) + "}"
        inner = f"mix({x}, {matrix(places, self.n)})"
        inner = f"tanh({inner})" if self.chance(0.5) else inner
        return self.add(f"mix({inner}, {matrix(self.n, places)})", x.on, "token", [x],
                        size=x.size * self.n, vanishes=True)

    def lag(self) -> Value:
        x, k = self.rows("token"), self.any(1, 1, -1, 2, -2, 0)
        self.words.add("lag")
        return self.add(f"lag({x}, {k})", x.on, "token", [x], size=x.size, vanishes=True)

    def pool(self) -> Value:
        x = self.rows("token")
        self.words.add("pool")
        return self.add(f"pool({x})", x.on, "input", [x], size=x.size, vanishes=x.vanishes,
                        positive=x.positive, bounded=x.bounded)
