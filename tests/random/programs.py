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
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from operations import Operations  # noqa: E402
from values import GROUPS, POPULATIONS, Value  # noqa: E402
from weighted import DataFile, Draw, takes_weights  # noqa: E402

# Rows of dmft-solve --operations without the chapter; the words by rows that methods alone draw.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "dmft",
                       "operations.tsv"), encoding="utf-8") as _lines:
    TABLE = [line.rstrip("\n").split("\t")[1:] for line in _lines]
BY_HAND = ("group_mean", "tile", "tile_mean", "noise", "top_rows", "first_rows")


@dataclasses.dataclass
class Program:
    """Text of the script, and of the ini that runs it as SEED.lua."""
    seed: int
    lua: str
    keys: dict[str, dict[str, object]]
    width: int
    words: set[str]
    file: DataFile | None = None

    def ini(self, stem: str) -> str:
        """The text of the ini, of a script and, where it is of a file, of data of this name."""
        keys = {**self.keys, "network": {"program": stem + ".lua", **self.keys["network"]}}
        if self.file:
            keys["data"] = {**self.keys["data"], "file": stem + "_data.h5"}
        return f"# Random network {self.seed}.\n" + "".join(
            f"\n[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())
            for section, lines in keys.items() if lines)

    def write(self, folder: str) -> str:
        """The path of its ini, SEED.ini, beside SEED.lua and its data."""
        os.makedirs(folder, exist_ok=True)
        stem = os.path.join(folder, str(self.seed))
        for ending, text in ((".lua", self.lua), (".ini", self.ini(str(self.seed)))):
            with open(stem + ending, "w", encoding="utf-8") as file:
                file.write(text)
        if self.file:
            self.file.write(stem + "_data")  # SEED.h5 may be a result
        return stem + ".ini"


class Writer(Operations):
    """Draws one program."""

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
        open_ends = [v for v in self.values if id(v) not in used and
                     (v.moves or not self.limit and v.text.startswith("stop")) and
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
        if v.per != out.per or not v.moves and v.on:
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

    def by_row(self) -> Value:
        """Rows by a word that is an operation by its row and takes rows and constants alone."""
        words = [(name, arguments.split(", ")) for name, arguments, gives, _, constants in
                 TABLE if constants != "-" and gives.startswith("rows") and name not in BY_HAND and
                 not set("psWK") & set(arguments.split(", "))]
        name, arguments = self.random.choice(words)
        x = self.rows("token")
        given = ", ".join(str(x if one in "xy" else self.any(1, 2)) for one in arguments)
        self.words.add(name)
        return self.add(f"{name}({given})", x.on, "token", [x], size=x.size * self.n, vanishes=True)

    def behind(self, text: str) -> str:
        """The read-out, and what may act on its numbers on their way to the output."""
        if self.chance(0.7):
            return text
        self.words.add("output")
        lines = [f"local f = {text}"]
        if self.chance(0.5):
            W = self.matrix("bias")[0]
            lines += ["local start = {}", "for c = 1, outputs do start[c] = 0.3 * (-1) ^ c end",
                      f"f = bias(f, start, {W})"]
        if self.chance(0.6):
            W = self.matrix("scalar")[0] if self.chance(0.4) else None
            lines.append(f"f = scalar(f, {W}) * f" if W else
                         self.any("f = 2 * tanh(f / 2)", "f = 0.8 * f + 0.1"))
        if self.chance(0.4):
            lines.append(f'penalty(0.05 * log_sum_exp(f) ^ 2, "{self.name("pen")}")')
        return "\n".join([*lines, "output(f)"])

    def compose(self) -> Program:
        self.add_first()
        operations = [self.map] * 4 + [self.function] * 4 + [self.residual] * 2 + [
            self.tied_map, self.exponential, self.sum_of_rows, self.product_of_rows,
            self.quotient_of_rows, self.scaled, self.norm, self.stop_of_rows,
            self.vector, self.scalar, self.embedding, self.between,
            self.between, self.number_times_rows, self.number_times_rows, self.softmax_over_sites,
            self.top_of_rows, self.look, self.logits, self.bias, self.mean_of_sites, self.gates,
            self.selected, self.of_numbers, self.of_numbers, self.of_numbers]
        tokens = [self.attention, self.attention_by_head, self.mix_again, self.lag, self.by_row,
                  self.choice_of_rows, self.choice_of_numbers, self.mixture_of_places,
                  self.constant]
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
        end = self.behind(f"read_out({out}, {self.matrix('read_out')[0]})")
        self.draw_training()
        return self.write(out, end, needed, learning)

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

    def write(self, out: Value, end: str, needed: set[int], learning: set[int]) -> Program:
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
        lua = "\n".join(first + lines + ends + measured + [end]) + "\n"
        return Program(self.seed, lua, self.sections(lua, body, program), self.any(8, 16),
                       self.words)


def with_weights(program: Program, vocabulary: int) -> None:
    """Gives most programs that take weights of inputs such inputs, of a file."""
    keys = program.keys
    if not takes_weights(program.lua) or random.Random(f"weighted {program.seed}").random() > 0.7:
        return
    outputs = keys["network"].get("outputs", vocabulary or 1)
    program.file = Draw(program.seed, keys["data"], keys["training"]["loss"], outputs,
                        vocabulary).made(keys["data"])
    program.keys = keys | {"data": program.file.keys,
                           "network": keys["network"] | {"outputs": outputs}}
    program.words.add("weights of inputs")


def draw(seed: int, limit: bool = False, weights: bool = True, tests: int | None = None) -> Program:
    """The program of a seed; weights: inputs may have some, and all else is the same; tests: so
    many test inputs in the place of those drawn.

    >>> draw(1).lua == draw(1).lua
    True
    """
    writer = Writer(seed, limit)
    program = writer.compose()
    if tests is not None:
        program.keys["data"]["test_inputs"] = tests
    if weights:
        with_weights(program, writer.vocabulary)
    return program


if __name__ == "__main__":
    made = draw(int(sys.argv[1]), "limit" in sys.argv[2:])
    print(made.lua + made.ini(str(made.seed)), end="")
