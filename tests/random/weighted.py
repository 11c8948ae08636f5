"""Data of a file whose inputs have weights, in the place of those that a random network has
(programs.py): inputs, targets and tokens of the same shapes, as lists."""
from __future__ import annotations

import dataclasses
import math
import random

import h5py
import numpy as np

# What counts each input once, and refuses weights (docs/data.md).
COUNTS_ONCE = ("mean_of_rows(", "penalty(", "eta_bias = 0.")


def takes_weights(lua: str) -> bool:
    """Whether a network trains by no mean that counts each input once."""
    return not any(word in lua for word in COUNTS_ONCE)


@dataclasses.dataclass
class DataFile:
    """Arrays by name, and the keys of [data] but for the file."""
    arrays: dict[str, list]
    keys: dict[str, object]

    def write(self, stem: str) -> None:
        """The file, of which stem is the beginning."""
        path, arrays = stem + ".h5", {name: np.array(x) for name, x in self.arrays.items()}
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array


class Draw:
    """Draws the arrays."""

    def __init__(self, seed: int, data: dict, loss: str, outputs: int, vocabulary: int):
        self.random, self.loss, self.outputs = random.Random(f"weights {seed}"), loss, outputs
        self.vocabulary, self.dimension = vocabulary, data.get("dimension")
        self.n = int(data.get("tokens", 3 if vocabulary else 1))
        self.arrays: dict[str, list] = {}
        self.add(int(data["inputs"]), "")
        if data.get("test_inputs"):
            self.add(int(data["test_inputs"]), "_test")

    def normals(self, *shape: int):
        if not shape:
            return round(self.random.gauss(0, 1), 4)
        return [self.normals(*shape[1:]) for _ in range(shape[0])]

    def add(self, count: int, ending: str) -> None:
        r, arrays = self.random, self.arrays
        if self.vocabulary:
            arrays["tokens" + ending] = [[r.randrange(self.vocabulary) for _ in range(self.n)]
                                         for _ in range(count)]
            y = [[r.randrange(-1, self.outputs) for _ in range(self.n)] for _ in range(count)]
            for row in y:  # something is asked of each input
                row[r.randrange(self.n)] = r.randrange(self.outputs)
            arrays["y" + ending] = y
        else:
            several = (self.n,) if self.n > 1 else ()
            arrays["X" + ending] = self.normals(count, *several, self.dimension)
            arrays["y" + ending] = self.targets(count, bool(ending))
        if not ending or r.random() < 0.7:
            arrays["weight" + ending] = [round(math.exp(r.gauss(0, 0.8)), 3) for _ in range(count)]

    def targets(self, count: int, test: bool) -> list:
        """Classes, or rows that are one-hot or of numbers; of test inputs as of the others."""
        r, C = self.random, self.outputs
        if C == 1:
            return [r.choice((-1, 1)) for _ in range(count)] if self.loss in (
                "logistic", "hinge") else self.normals(count)
        if test:
            rows = isinstance(self.arrays["y"][0], list)
        else:
            rows = r.random() < 0.5
        classes = [r.randrange(C) for _ in range(count)]
        if not rows:
            return classes
        if self.loss == "mse":
            return self.normals(count, C)
        return [[float(c == k) for k in range(C)] for c in classes]  # integers are of tokens

    def made(self, data: dict) -> DataFile:
        """The file, and keys in the place of those of data."""
        keys = {"source": "file", "weight": "weight"}
        if self.vocabulary:
            keys |= {"vocabulary": self.vocabulary}
            keys |= {"positions": data["positions"]} if "positions" in data else {}
        return DataFile(self.arrays, keys)
