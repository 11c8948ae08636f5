"""What to write in the place of an operation that an import does not read."""
from __future__ import annotations

# By the file that reads such operations.
ADVICE = {
    "selections": "a loop over the experts may take its rows by row, slot = torch.where(chosen == "
                  "e), and add what they become by index_add_",
    "choices": "let each row choose by topk of its own scores along the last axis, and multiply "
               "what the experts make by the weights",
    "shapes": "let a layer of its own make each part, and add, stack or join whole outputs",
    "products": "write it as nn.Linear of rows, and as sums over experts, heads or tokens of rows "
                "times numbers",
    "reductions": "take the sum, mean, norm or softmax of all entries along an axis",
    "pointwise": "write it by sums, products and functions such as relu, sigmoid and exp",
    "images": "take convolutions and pooling of whole windows over [P, C, H, W]"}
ADVICE["grouped"] = ADVICE["lists"] = ADVICE["selections"]
ADVICE["places"] = ADVICE["images"]


def advised(gap: str, handler) -> str:
    """A sentence on what has no counterpart, with what to do, if it does not say so itself.
    handler: what reads the operation; None of one that nothing reads."""
    file = handler.__module__.rsplit(".", 1)[-1] if handler else ""
    said = any(word in gap for word in (";", ": ", " is read", " is known"))
    return gap if said or file not in ADVICE else f"{gap}; {ADVICE[file]}"
