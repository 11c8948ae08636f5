"""The values of a random network, and how some of them are picked."""
from __future__ import annotations

import dataclasses
import random

from settings import Settings

POPULATIONS = {  # name: its options; what it is of stands before it
    "stream": "", "narrow": "size = 0.5", "wide": "size = 2",
    "experts": 'size = 0.5, sites = "expert_sites", page = 2', "units": "of = experts, group = 2",
    "heads": 'size = 0.25, sites = "expert_sites"', "queries": "of = heads, group = 4",
    "shared": 'size = 0.25, sites = "unit_sites"', "pairs": "of = experts, units = shared"}
GROUPS = {"units": "experts", "queries": "heads", "pairs": "experts"}


@dataclasses.dataclass(eq=False)
class Value:
    """A value of the script. per: input, token, pair (of tokens) or all. vanishes: it may be 0, or
    is in the limit. weighted: made by a matrix. weights: those of attention. same: at all tokens,
    so that round-off alone could choose among them. passes: arguments that get a cotangent of it.
    """
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
    same: bool = False
    reads: list["Value"] = dataclasses.field(default_factory=list)
    passes: list["Value"] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return f"v{self.at}"


class Values(Settings):
    """The values of one program."""

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

    def name(self, kind: str) -> str:
        self.names[kind] = self.names.get(kind, 0) + 1
        return f"{kind}{self.names[kind]}"

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
        more.setdefault("same", bool(reads) and all(v.same for v in reads))
        v = Value(len(self.values) + 1, text, on, per, reads=reads, passes=passes, moves=moves,
                  **more)
        self.values.append(v)
        return v

    def of(self, text: str, x: Value, passes=None, **more) -> Value:
        """A value of x alone, over its population and of the same inputs or tokens."""
        return self.add(text, x.on, x.per, [x], passes, **more)

    def rows(self, per: str | None = None) -> Value:
        """Any rows that are of inputs or of tokens."""
        return self.pick(lambda v: v.on and v.per == (per or v.per) and v.per in ("input", "token"))

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
        return self.of(f"tanh({x})", x, K=x.K, bounded=True, vanishes=x.vanishes)

    def matrix(self, kind: str, **said) -> tuple[str, float, bool]:
        """(text, its scale, whether it starts at zero)."""
        name = said.get("name") or self.name({
            "read_in": "R", "map": "W", "look": "Q", "bias": "b", "read_out": "w", "vector": "v",
            "embed": "E", "scalar": "s"}[kind])
        self.matrices.append(name)
        parts, scale, zero = [f'name = "{name}"'], 1.0, False
        if said.get("K", 1) > 1:
            parts.append("start = {0.7, -0.5}")
        elif self.chance(0.5) and not said.get("name"):
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
        if kind in ("vector", "scalar") and said.get("K", 1) == 1 and self.chance(0.4):
            start = self.any(0, 0.6, -1.2)
            scale, zero = scale * max(1, abs(start)), zero or not start
            parts.append(f"start = {start}")
        if self.chance(0.15):
            parts.append(self.any("decays = true", "decays = false"))
            self.words.add("decays")
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
