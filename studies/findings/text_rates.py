"""What losses text_rates.ini can have: those of counts of letters, pairs and threes of letters.

    python/with studies/findings/text_rates.py [data/kjv.txt]

Counts are of the first nine tenths of a text (by default that which `make text` writes), and losses
are natural logarithms for a letter of the last tenth. What was not seen counts as PSEUDO times.
image_rates.py reads the sweep.
"""
import os
import sys

import numpy as np

PSEUDO = 0.01
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "kjv.txt")


def loss_of_counts(text: bytes, order: int) -> float:
    """Of the law of a letter given the order - 1 letters before it."""
    kinds, letters = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    first = 9 * len(letters) // 10
    words = sum(letters[k:len(letters) - order + 1 + k] * len(kinds) ** (order - 1 - k)
                for k in range(order))
    counts = np.full(len(kinds) ** order, PSEUDO)
    np.add.at(counts, words[:first], 1)
    law = counts.reshape(-1, len(kinds))
    law /= law.sum(1, keepdims=True)
    return float(-np.log(law.ravel()[words[first:]]).mean())


def main(path=TEXT):
    with open(path, "rb") as file:
        text = file.read()
    for order, name in ((1, "letters"), (2, "pairs"), (3, "threes")):
        print(f"{name}: {loss_of_counts(text, order):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
