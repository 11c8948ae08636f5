"""What is drawn for a random network of trained vectors and numbers, and of stopped rows."""
from __future__ import annotations

from values import Value, Values


class Trained(Values):
    """Draws values from those that are there."""

    def vector(self) -> Value:
        """A trained vector added to rows, or in front of them."""
        x = self.tame(self.rows())
        W, scale, zero = self.matrix("vector")
        tokens = x.per == "token" or self.n == 1
        like = x.on if tokens and self.chance(0.5) else x
        y = self.add(f"vector({like}, {W})", x.on, x.per, [x] if like is x else [], passes=[],
                     size=scale, vanishes=zero, weighted=True, same=True)
        if self.chance(0.4):
            return self.add(f"{x} + {y} * {x}", x.on, x.per, [x, y], size=(1 + scale) * x.size,
                            vanishes=x.vanishes)
        return self.add(f"{x} + {y}", x.on, x.per, [x, y], size=x.size + scale, vanishes=x.vanishes)

    def scalar(self) -> Value:
        """Trained numbers in front of rows."""
        x = self.tame(self.rows())
        K = self.any(1, 1, 2)
        W, scale, zero = self.matrix("scalar", K=K)
        s = self.add(f"scalar({x}, {W})", None, x.per, [x], passes=[], K=K, size=scale,
                     vanishes=zero, weighted=True, same=True)
        part = f"{s}[{K}]" if K > 1 else str(s)
        return self.add(f"{part} * {x}", x.on, x.per, [s, x], size=scale * x.size,
                        vanishes=x.vanishes or zero)

    def embedding(self) -> Value:
        """A vector for each of a few numbers, of the input or others; a look may share them."""
        s, per = self.numbers() if self.chance(0.4) else None, "token" if self.n > 1 else "input"
        if s is None:
            most = self.vocabulary + self.n if self.vocabulary else self.data["dimension"]
            first = self.random.randint(1, most)
            K = self.random.randint(first, min(most, first + 4)) - first + 1
            s = self.add(f"input({first}, {first + K - 1})", None, per, K=K, moves=False)
        s = self.tame(s)
        on, tied = self.any("stream", "stream", "narrow", "units"), self.chance(0.5)
        said = {"tied": True, "name": self.name("T")} if tied else {}
        E, scale, zero = self.matrix("embed", **said)
        y = self.add(f"embed({s}, {on}, {E})", on, s.per, [s], size=scale * s.size,
                     vanishes=zero or s.vanishes, weighted=True)
        x = self.pick(lambda v: v.on == on and v.per == s.per) if tied else None
        if x is None:
            return y
        self.words.add("a look at an embedding")
        x = self.tame(x)
        return self.add(f"look({x}, {s.K}, {E})", None, s.per, [x, y], [x], K=s.K,
                        size=scale * x.size, vanishes=True, weighted=True)

    def stop_of_rows(self) -> Value:
        """Rows beside themselves without a gradient."""
        x = self.tame(self.rows())
        y = self.of(f"stop({x})", x, [], moves=False, size=x.size, vanishes=x.vanishes)
        return self.add(f"{x} - 0.5 * {y}", x.on, x.per, [x, y], [x], size=1.5 * x.size,
                        vanishes=x.vanishes)
