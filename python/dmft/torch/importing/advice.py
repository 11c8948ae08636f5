"""What to write in the place of an operation that an import does not read."""
from __future__ import annotations

DEFAULT = "write it with sums, products, means and functions such as tanh, exp, relu"
# By the file that reads, or writes, such operations.
ADVICE = {
    "selections": "a loop over the experts may take its rows by row, slot = torch.where(chosen == "
                  "e), and add what they become by index_add_",
    "choices": "let each row choose by topk of its own scores along the last axis, and multiply "
               "what the experts make by the weights",
    "shapes": "let a layer of its own make each part, and add, stack or join whole outputs",
    "products": "write it as nn.Linear of rows, and as sums over experts, heads or tokens of rows "
                "times numbers",
    "reductions": "take the sum, mean, norm or softmax of all entries along an axis",
    "images": "take convolutions and pooling of whole windows over [P, C, H, W]",
    "places": "move, take or join whole tokens, by F.pad with zeros, slices, torch.cat or "
              "nn.Conv1d of x.mT",
    "noise": "draw torch.randn_like(h) of what the layers make"}
ADVICE["grouped"] = ADVICE["lists"] = ADVICE["selections"]


def advised(gap: str, module: str = "") -> str:
    """A sentence on what has no counterpart, with what to do, if it does not say so itself.
    module: that of Python which reads the operation, if there is one."""
    said = any(word in gap for word in ("; ", ": ", " is read", " is known"))
    return gap if said else f"{gap}; {ADVICE.get(module.rsplit('.', 1)[-1], DEFAULT)}"
