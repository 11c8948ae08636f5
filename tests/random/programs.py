"""Random networks in Lua that mean something: every one is a pure function of a seed, and the
builder must take it. What it refuses by rule is avoided by construction.

    python3 tests/random/programs.py SEED [limit]          # the Lua text and the ini of a seed

Values are drawn one after the other from the operations of docs/programs.md; what nothing needs is
left out again; every matrix that learns has a way to the output. A network keeps its numbers of
order one: products, powers and exponentials are of what is bounded. With `limit` no value is put
where its limit 0 is divided by or where its fluctuations alone decide, so that most have a limit.
"""
from __future__ import annotations

import dataclasses
import random
import sys

ACTIVATIONS = ("linear", "tanh", "erf", "relu", "gelu", "softplus", "silu")
BY_ENTRY = ("adam", "adamw", "lion")
OPTIMIZERS = ("gd", "momentum", *BY_ENTRY)
POPULATIONS = {  # name: (options, of, units), the groups of a population behind it
    "stream": "", "narrow": "size = 0.5", "wide": "size = 2",
    "experts": 'size = 0.5, sites = "expert_sites", page = 2', "units": "of = experts, group = 2",
    "heads": 'size = 0.25, sites = "expert_sites"', "queries": "of = heads, group = 4",
    "shared": 'size = 0.25, sites = "unit_sites"', "pairs": "of = experts, units = shared"}
GROUPS = {"units": "experts", "queries": "heads", "pairs": "experts"}


@dataclasses.dataclass(eq=False)
class Value:
    """A value of the script. per: input, token, pair (of tokens) or all. vanishes: it may be 0, or
    is in the limit. least: it is above 0 by far. passes: arguments that get a cotangent of it."""
    at: int
    text: str
    on: str | None
    per: str
    K: int = 0
    size: float = 1.0
    vanishes: bool = False
    positive: bool = False
    bounded: bool = False
    moves: bool = True
    weighted: bool = False
    weights: bool = False
    reads: list["Value"] = dataclasses.field(default_factory=list)
    passes: list["Value"] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return f"v{self.at}"


@dataclasses.dataclass
class Program:
    """Text of the script, and of the ini that runs it as SEED.lua."""
    seed: int
    lua: str
    keys: dict[str, dict[str, object]]
    width: int
    words: set[str]

    def ini(self, script: str) -> str:
        """The text of the ini, of a script of this name."""
        keys = {**self.keys, "network": {"program": script, **self.keys["network"]}}
        return f"# Random network {self.seed}.\n" + "".join(
            f"\n[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())
            for section, lines in keys.items() if lines)


class Writer:
    """Draws the values of one program."""

    def __init__(self, seed: int, limit: bool):
        self.seed, self.limit, self.random = seed, limit, random.Random(f"program {seed} {limit}")
        self.values: list[Value] = []
        self.names: dict[str, int] = {}
        self.tied: dict[str, tuple[str, str, str, str]] = {}
        self.words: set[str] = set()
        self.matrices: list[str] = []
        self.ends: list[tuple[str, list[Value], list[Value]]] = []  # text, what it reads, passes
        self.draw_data()
        self.count = self.random.choice((2, 3, 4))

    # --- drawing ---------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def any(self, *choices):
        return self.random.choice(choices)

    def name(self, kind: str) -> str:
        self.names[kind] = self.names.get(kind, 0) + 1
        return f"{kind}{self.names[kind]}"

    def draw_data(self) -> None:
        r = self.random
        kind = r.choice(("rows", "rows", "tokens", "tokens", "markov", "copy", "modular"))
        data, training, network = {"inputs": r.randint(2, 5), "seed": r.randint(1, 999)}, {}, {}
        self.n, self.vocabulary, self.of_token = 1, 0, False
        if kind in ("rows", "tokens"):
            data = {"source": "gaussian", "dimension": r.randint(2, 8)} | data
            if kind == "tokens":
                self.n = data["tokens"] = r.randint(2, 4)
            outputs = r.choice((1, 1, 2, 3))
            if outputs > 1:
                network["outputs"] = outputs
            training["loss"] = r.choice(("mse", "cross_entropy") if outputs > 1 else
                                        ("mse", "mse", "logistic", "hinge"))
            if outputs == 1 and data["inputs"] % 2:
                data["inputs"] += 1
        else:
            data = {"source": kind} | data
            self.vocabulary = data["vocabulary"] = r.randint(2, 4)
            self.of_token, self.n = True, 3
            if kind != "modular":
                self.n = data["tokens"] = r.choice((3, 4) if kind == "markov" else (4, 6))
            if self.chance(0.3):
                data["positions"] = "no"
            training["loss"] = "cross_entropy"
            self.vocabulary += kind in ("copy", "modular")
        if kind == "modular":
            data["inputs"] = min(data["inputs"], data["vocabulary"] ** 2)
        if self.chance(0.25) and kind != "modular":
            training["batch"] = data["inputs"]
            data["inputs"] = 2 * data["inputs"]
            training["order"] = r.choice(("cyclic", "shuffled"))
        if self.chance(0.2) and kind != "modular":
            data["test_inputs"] = 2
        self.kind, self.data, self.training, self.network = kind, data, training, network

    def draw_training(self) -> None:
        r, t = self.random, self.training
        t["steps"] = r.randint(4, 6)
        optimizer = t["optimizer"] = r.choice(OPTIMIZERS)
        by_entry = optimizer in BY_ENTRY
        t["eta0"] = r.choice((0.02, 0.05, 0.1)) if by_entry else r.choice((0.05, 0.1, 0.3))
        t["gamma0"] = r.choice((1, 1, 0.5, 2))
        if optimizer == "momentum":
            t["momentum"] = r.choice((0.5, 0.9))
        if by_entry:
            t["beta1"], t["beta2"] = r.choice((0.8, 0.9)), r.choice((0.9, 0.99))
            t["eps"] = r.choice((0.05, 0.2))
        if optimizer in ("adamw", "lion"):
            t["weight_decay"] = r.choice((0.01, 0.1))
        schedule = t["schedule"] = r.choice(("constant", "constant", "linear", "cosine", "power"))
        if self.chance(0.3):
            t["warmup"] = 2
        if schedule in ("linear", "cosine"):
            t["schedule_end"] = r.choice((0, 0.3))
            if self.chance(0.5):
                t["schedule_steps"] = 3
        if schedule == "power":
            t["schedule_power"], t["schedule_t0"] = r.choice((0.5, 1)), r.choice((1, 3))
        if self.chance(0.25):
            t["clip"] = r.choice((0.05, 0.3))

    def pick(self, test) -> Value | None:
        """A value of which the test is true, later ones more often."""
        found = [v for v in self.values if test(v)]
        if not found:
            return None
        return found[max(self.random.randrange(len(found)) for _ in range(2))]

    def add(self, text: str, on: str | None, per: str, reads=(), passes=None, **more) -> Value:
        reads = list(reads)
        passes = reads if passes is None else list(passes)
        moves = more.pop("moves", any(v.moves for v in passes) or more.get("weighted", False))
        v = Value(len(self.values) + 1, text, on, per, reads=reads, passes=passes, moves=moves,
                  **more)
        self.values.append(v)
        return v

    def rows(self, per: str | None = None) -> Value:
        """Any rows that are of inputs or of tokens."""
        return self.pick(lambda v: v.on and v.per == (per or v.per) and
                         v.per in ("input", "token"))

    def numbers(self, per: str | None = None) -> Value | None:
        return self.pick(lambda v: not v.on and v.per == (per or v.per) and
                         v.per in ("input", "token"))

    def like(self, x: Value, **more) -> Value | None:
        """Other rows with the population and the rows of an input of x, or other numbers."""
        return self.pick(lambda v: v is not x and v.on == x.on and v.per == x.per and
                         (x.on or v.K in (1, x.K) or x.K == 1) and
                         all(getattr(v, key) == value for key, value in more.items()))

    def tame(self, x: Value, most: float = 2) -> Value:
        """x, or a bounded function of it if it may be large."""
        if x.size <= most:
            return x
        self.words.add("tanh")
        return self.add(f"tanh({x})", x.on, x.per, [x], K=x.K, bounded=True,
                        vanishes=x.vanishes)

    def matrix(self, kind: str, **said) -> tuple[str, float, bool]:
        """(text, its scale, whether it starts at zero)."""
        name = said.get("name") or self.name({"read_in": "R", "map": "W", "look": "Q",
                                              "bias": "b", "read_out": "w"}[kind])
        self.matrices.append(name)
        parts, scale, zero = [f'name = "{name}"'], 1.0, False
        if self.chance(0.5) and not said.get("name"):
            self.words.add("plain matrix")
            return f'"{name}"', 1.0, False
        if said.get("tied"):
            parts.append("tied = true")
        if self.chance(0.3):
            scale = self.any(0.5, 0.8, 1.5)
            parts.append(f"a0 = {scale}")
        elif self.chance(0.2) and kind != "read_in":
            zero = True
            parts.append(self.any("zero = true", "a0 = 0"))
            self.words.add("zero")
        if self.chance(0.3):
            s_f = self.any(0.5, 0.8, -1.2)
            scale *= abs(s_f)
            parts.append(f"s_f = {s_f}")
        if self.chance(0.3):
            parts.append(f"rate = {self.any(0.5, 2, 0.3)}")
        elif self.chance(0.15) and not zero:
            parts.append(self.any("fixed = true", "rate = 0"))
            self.words.add("fixed")
        if self.chance(0.15):
            parts.append(f"adam_rate = {self.any(0.5, 2)}")
        if self.chance(0.15):
            parts.append(f"adam_eps = {self.any(0.5, 2)}")
        if kind in ("look", "read_out") and not self.limit and self.chance(0.1):
            parts.append("iid = true")
            self.words.add("iid")
        if self.chance(0.1):
            parts.append(f'family = "{name}"')
        return "{" + ", ".join(parts) + "}", scale, zero

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
        return self.add(f"{word}({x}{k})", x.on, x.per, [x],
                        size=1 if bounded else 1.5 * x.size, bounded=bounded,
                        vanishes=x.vanishes and word not in ("sigmoid", "softplus") or
                        word in ("relu", "sigma", "sigma_of_experts"),
                        positive=word == "sigmoid")

    def exponential(self) -> Value:
        x = self.tame(self.pick(lambda v: v.on and v.per in ("input", "token")), 0)
        k = self.any("", ", 0.5", ", -1")
        return self.add(f"exp({x}{k})", x.on, x.per, [x], size=1.5, positive=True, bounded=True)

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
        y = self.pick(lambda v: v.on and v.positive and v.bounded and
                      v.per in ("input", "token"))
        if y is None:
            return None
        x = self.like(y)
        if x is None or self.chance(0.3):
            return self.add(f"{self.any(1, 0.5)} / {y}", y.on, y.per, [y], size=2)
        x = self.tame(x)
        return self.add(f"{x} / {y}", y.on, y.per, [x, y], size=2 * x.size, vanishes=x.vanishes)

    def scaled(self) -> Value:
        x, k = self.rows(), self.any("0.5 * {}", "{} / 2", "-{}", "{} * 1.5", "scale * {}")
        if "scale" in k:
            self.words.add("key")
        return self.add(k.format(x), x.on, x.per, [x], size=1.5 * x.size, vanishes=x.vanishes)

    def norm(self) -> Value | None:
        x = self.pick(lambda v: v.on and v.per in ("input", "token") and not v.vanishes)
        return x and self.add(f"norm({x})", x.on, x.per, [x])

    def vector(self) -> Value:
        """A trained vector added to rows: a matrix that reads ones."""
        x = self.rows()
        one = self.add(f"exp({x}, 0)", x.on, x.per, [x], bounded=True, positive=True)
        y = self.map(one, x.on)
        return self.add(f"{x} + {y}", x.on, x.per, [x, y], size=x.size + y.size,
                        vanishes=x.vanishes)

    def between(self) -> Value | None:
        x = self.rows()
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
            rate = self.any("", "{eta_bias = 0.1, name = %s}", "{name = %s}")
            rate = rate or "{eta_bias = 0.05, name = %s}"
            text = f"balance_select({x}, {x.on}.sites // 2, " + \
                rate % f'"s{self.name("")}"' + ")"
            self.words.add("balance_select of rows")
        mask = self.add(text, x.on, x.per, [x], [], moves=False, bounded=True)
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
        return self.add(f"bias({s}, {start}, {W})", None, s.per, [s], K=s.K, size=s.size + scale,
                        vanishes=s.vanishes, weighted=True)

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
            text = f'balance_select({s}, {K}, {{eta_bias = {self.any(0, 0.1)}, ' \
                f'name = "s{self.name("")}"}})'
            self.words.add("balance_select of numbers")
        mask = self.add(text, None, s.per, [s], [], K=s.K, moves=False, bounded=True)
        s = self.tame(s, 0)
        e = self.add(f"exp({s})", None, s.per, [s], K=s.K, positive=True, size=1.5, bounded=True)
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
                        "sum", "pick", "pair", "pair", "quotient", "log of square")
        t = self.tame(s)
        more = {"K": s.K, "bounded": s.bounded}
        if kind == "tanh":
            return self.add(f"tanh({s})", None, s.per, [s], vanishes=s.vanishes,
                            **more | {"bounded": True})
        if kind == "exp":
            t = self.tame(s, 0)
            return self.add(f"exp({t})", None, s.per, [t], size=1.5, positive=True,
                            **more | {"bounded": True})
        if kind == "log of square":
            return self.add(f"log(1 + {t} ^ 2)", None, s.per, [t], vanishes=s.vanishes, **more)
        if kind == "square":
            return self.add(f"{t} ^ 2", None, s.per, [t], size=t.size ** 2, vanishes=s.vanishes,
                            **more)
        if kind in ("log", "root", "over"):
            if not s.positive:
                return None
            text = {"log": f"log({s})", "root": f"{s} ^ {self.any(0.5, -0.5)}",
                    "over": f"{self.any(1, 0.5)} / ({s} + 0.3)"}[kind]
            return self.add(text, None, s.per, [s], size=2, vanishes=kind == "log",
                            positive=kind != "log", **more)
        if kind == "plus":
            return self.add(f"{s} {self.any('+', '-')} 0.5", None, s.per, [s], size=s.size + 0.5,
                            vanishes=True, **more)
        if kind == "times":
            return self.add(self.any(f"0.5 * {s}", f"-{s}", f"{s} / 2"), None, s.per, [s],
                            size=s.size, vanishes=s.vanishes, **more)
        if kind == "stop":
            return self.add(f"stop({s})", None, s.per, [s], [], moves=False, size=s.size,
                            positive=s.positive, vanishes=s.vanishes, **more)
        if kind == "sum":
            return self.add(f"sum({t})", None, s.per, [t], size=t.K * t.size,
                            positive=s.positive and t is s, vanishes=not s.positive,
                            **more | {"K": 1})
        if kind == "pick":
            return self.add(f"0.5 + {t}[{self.random.randint(1, t.K)}]", None, s.per, [t],
                            size=t.size, vanishes=True, **more | {"K": 1})
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
        return self.add(f"mix({a}, {v})", units, "token", [a, v], size=v.size,
                        vanishes=v.vanishes)

    def mix_again(self) -> Value | None:
        a = self.pick(lambda v: v.weights)
        if a is None:
            return self.attention()
        v = self.tame(self.rows("token"))
        return self.add(f"mix({a}, {v})", v.on, "token", [a, v], size=v.size, vanishes=True)

    def lag(self) -> Value:
        x, k = self.rows("token"), self.any(1, 1, -1, 2, -2, 0)
        self.words.add("lag")
        return self.add(f"lag({x}, {k})", x.on, "token", [x], size=x.size, vanishes=True)

    def pool(self) -> Value:
        x = self.rows("token")
        self.words.add("pool")
        return self.add(f"pool({x})", x.on, "input", [x], size=x.size, vanishes=x.vanishes,
                        positive=x.positive, bounded=x.bounded)

    # --- ends ------------------------------------------------------------------------------------

    def end(self, text: str, reads, passes=()) -> None:
        self.ends.append((text, list(reads), list(passes)))

    def penalty(self) -> None:
        kind = self.any("numbers", "rows", "mean")
        if kind == "mean":
            x = self.tame(self.rows())
            self.words.add("mean_of_rows of rows")
            self.end(f'local m = mean_of_rows({x})\npenalty(0.1 * average(m, m), '
                     f'"{self.name("pen")}")', [x], [x])
            return
        if kind == "rows":
            x = self.tame(self.rows())
            self.end(f'penalty(0.1 * average({x}, {x}), "{self.name("pen")}")', [x], [x])
            return
        s = self.pick(lambda v: not v.on and v.moves and v.per in ("input", "token"))
        if s:
            s = self.tame(s)
            self.end(f'penalty(0.05 * {s} ^ 2, "{self.name("pen")}")', [s], [s])

    def output(self) -> Value:
        """One value that depends on most of what was drawn."""
        per = "token" if self.of_token else "input"
        if self.n > 1 and not self.of_token and self.chance(0.5):
            per = "token"
        used = {id(x) for v in self.values for x in v.reads}
        open_ends = [v for v in self.values if id(v) not in used and v.moves and
                     v.per in ("input", "token")]
        out = self.pick(lambda v: v.on and v.per == per and v.moves)
        if out is None:
            x = self.tame(self.rows())
            out = self.add(f"pool({x})", x.on, per, [x], size=x.size)
        out = self.tame(out)
        for v in open_ends:
            if v is not out and self.chance(0.9):
                out = self.join(out, v) or out
        return out

    def join(self, out: Value, v: Value) -> Value | None:
        """out with a part of v in it."""
        if v.per == "token" and out.per == "input" and v.on:
            v = self.add(f"pool({v})", v.on, "input", [v], size=v.size, vanishes=v.vanishes)
        if v.per != out.per or not v.moves:
            return None
        v = self.tame(v)
        if v.on:
            if v.on != out.on or self.chance(0.3):
                v = self.map(v, out.on)
            return self.add(f"{out} + {v}", out.on, out.per, [out, v], size=out.size + v.size)
        part = f"{v}[{self.random.randint(1, v.K)}]"
        return self.add(f"{out} + {part} * {self.tame(out)}", out.on, out.per,
                        [out, v, self.values[-1]] if self.values[-1].text == f"tanh({out})" else
                        [out, v], size=out.size * 2)

    def compose(self) -> Program:
        self.add_first()
        operations = [self.map] * 4 + [self.function] * 4 + [self.residual] * 2 + [
            self.tied_map, self.exponential, self.sum_of_rows, self.product_of_rows,
            self.quotient_of_rows, self.scaled, self.norm, self.vector, self.between,
            self.between, self.number_times_rows, self.number_times_rows, self.softmax_over_sites,
            self.top_of_rows, self.look, self.logits, self.bias, self.mean_of_sites, self.gates,
            self.selected, self.of_numbers, self.of_numbers, self.of_numbers]
        tokens = [self.attention, self.attention_by_head, self.mix_again, self.lag, self.lag]
        operations += tokens if self.n > 1 else []
        for _ in range(self.random.randint(2, self.random.choice((6, 12, 18)))):
            self.random.choice(operations)()
        if self.n > 1 and not self.of_token and self.chance(0.6):
            self.pool()
            for _ in range(self.random.randint(0, 4)):
                self.any(self.map, self.function, self.residual, self.number_times_rows)()
        for _ in range(self.any(0, 0, 1, 2)):
            self.penalty()
        out = self.output()
        return self.finish(out)

    def add_first(self) -> None:
        for _ in range(self.any(1, 1, 1, 2)):
            self.read_in()

    def reach(self, out: Value) -> tuple[set[int], set[int]]:
        """Values that are needed; those that have a cotangent."""
        needed, learning = set(), set()

        def go(v: Value, arguments: str, found: set[int]) -> None:
            if v.at in found:
                return
            found.add(v.at)
            for x in getattr(v, arguments):
                go(x, arguments, found)

        def go_cotangent(v: Value) -> None:
            if v.at in learning or not v.moves:
                return
            learning.add(v.at)
            for x in v.passes:
                go_cotangent(x)

        go(out, "reads", needed)
        go_cotangent(out)
        for _, reads, passes in self.ends:
            for x in reads:
                go(x, "reads", needed)
            for x in passes:
                go_cotangent(x)
        return needed, learning

    def finish(self, out: Value) -> Program:
        while True:  # what a matrix makes reaches the output
            needed, learning = self.reach(out)
            alone = [v for v in self.values if v.at in needed - learning and v.weighted]
            if not alone:
                break
            v = alone[-1]
            joined = self.join(out, v) if v.per != "pair" else None
            if joined:
                out = joined
            elif v.on:
                self.end(f'penalty(0.05 * average({v}, {v}), "{self.name("pen")}")', [v], [v])
            else:
                t = self.tame(v)
                self.end(f'penalty(0.05 * {t} ^ 2, "{self.name("pen")}")', [t], [t])
        W = self.matrix("read_out")[0]
        self.draw_training()
        return self.write(out, W, needed, learning)

    def measures(self, needed: set[int], learning: set[int]) -> list[str]:
        lines, shown = [], 0
        axis = {self.count: "i", self.n if self.n > 1 else -1: "source"}
        for v in self.values:
            if v.at not in needed or v.per == "pair":
                continue
            last = v is self.values[-1]
            if v.on and (last or self.chance(0.5)):
                scale = self.any("", "", ", {scale = 2}")
                lines.append(f'kernel({v}, "Phi{v.at}"{scale})')
                self.words.add("kernel")
            if v.on and v.moves and v.at in learning and (last or self.chance(0.4)):
                lines.append(f'gradient({v}, "G{v.at}")')
            if v.on and self.chance(0.05):
                lines.append(f'name_rows({v}, "rows{v.at}")')
            if not v.on and self.chance(0.6) and (v.K == 1 or v.K in axis):
                said = "" if v.K == 1 else f', {{axis = "{axis[v.K]}"}}'
                lines.append(f'show({v}, "s{v.at}"{said})')
                if v.moves and v.at in learning and self.chance(0.6):
                    lines.append(f'show_gradient({v}, "gs{v.at}"{said})')
                shown += 1
        if self.chance(0.4):
            lines.append('read_out_kernel("Gw")')
        gates = [v for v in self.values if v.at in needed and v.on and v.positive and
                 v.on not in GROUPS and v.per in ("input", "token")]
        if gates and self.chance(0.5):
            lines.append(f"gates({self.random.choice(gates)})")
            self.words.add("gates")
        return lines

    def write(self, out: Value, W: str, needed: set[int], learning: set[int]) -> Program:
        kept = [v for v in self.values if v.at in needed]
        lines = [f"{v} = {v.text}" for v in kept]
        ends = [text for text, _, _ in self.ends]
        body = "\n".join(lines + ends)
        on = [name for name in POPULATIONS if f", {name}" in body or f"({name}," in body or
              any(v.on == name for v in kept)]
        for name in list(on):
            on += {"units": ["experts"], "queries": ["heads"], "pairs": ["experts", "shared"]}.get(
                name, [])
        for name in ("heads", "experts", "shared"):
            on += [name] if f"{name})" in body or f"{name}." in body else []
        first = [f'local {name} = population("{name}"' +
                 (f", {{{POPULATIONS[name].replace('units = units', 'units = shared')}}})"
                  if POPULATIONS[name] else ")") for name in POPULATIONS if name in on]
        program = {}
        if "scale *" in body:
            first.append('local scale = key("scale", 1)')
            if self.chance(0.5):
                program["scale"] = self.any(0.5, 1.2)
        measured = self.measures(needed, learning)
        lua = "\n".join(first + lines + ends + measured + [f"read_out({out}, {W})"]) + "\n"
        return Program(self.seed, lua, self.sections(lua, body, program), self.any(8, 16),
                       self.words)

    def with_factors(self, lua: str) -> list[str]:
        """Matrices of the script that learn and do not start at zero; others take no factors."""
        found = []
        for name in self.matrices:
            line = next((line for line in lua.split("\n") if f'"{name}"' in line), "zero")
            if not any(word in line for word in ("zero", "a0 = 0,", "a0 = 0}", "fixed", "rate = 0,",
                                                 "rate = 0}")) and "read_out(" not in line:
                found.append(name)
        return found

    def sections(self, lua: str, body: str, program: dict) -> dict:
        network = self.network
        if "sigma(" in body:
            network["activation"] = self.random.choice(ACTIVATIONS)
        if "sigma_of_experts(" in body and self.chance(0.5):
            network["expert_activation"] = self.random.choice(ACTIVATIONS)
        if self.chance(0.1):
            network["read_out"] = "zero"
        reference = {}
        if not self.limit and self.chance(0.2):
            reference["centre"] = "no"
        if self.chance(0.15) and self.kind == "rows" and self.data["dimension"] <= 4 and \
                not self.data.get("test_inputs"):
            reference["draws"] = "balanced"
        sections = {"network": network, "program": program, "data": self.data,
                    "training": self.training, "reference": reference}
        names = self.with_factors(lua)
        for section in ("init", "rates", "eps") if names else ():
            if self.chance(0.12) and (section != "eps" or self.training["optimizer"] in BY_ENTRY):
                sections[section] = {self.random.choice(names): self.any(0.5, 2)}
        return sections


def draw(seed: int, limit: bool = False) -> Program:
    """The program of a seed.

    >>> draw(1).lua == draw(1).lua
    True
    """
    return Writer(seed, limit).compose()


if __name__ == "__main__":
    made = draw(int(sys.argv[1]), "limit" in sys.argv[2:])
    print(made.lua + made.ini(f"{made.seed}.lua"), end="")
