"""Why an operation is not read by an import, and what to write in its place."""
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
# Why operations with these words in their names have no counterpart.
WITHOUT = {
    **dict.fromkeys(("cumprod", "logcumsumexp"),
                    "a program has running sums of tokens, and a loop over tokens is read"),
    "_fft": "a program has no transforms; a convolution of few tokens is read as a Conv1d",
    "batch_norm": "inputs of a batch act on one another, and the outputs of a program are of each "
                  "input alone; a norm of each input by itself (LayerNorm, RMSNorm) is read",
    "embedding_bag": "a sum or mean of rows of a table; write it as nn.Embedding and .sum(1) or "
                     ".mean(1) of what it gives",
    "adaptive_avg_pool": "a mean of parts that PyTorch chooses; give their size, by avg_pool1d or "
                         "avg_pool2d",
    "_pack_padded": "rows are sorted by their lengths, and a program has all tokens of all inputs; "
                    "give the padded sequence itself to the recurrent layer",
    "_pad": "a program pads by zeros; take padding_mode=\"zeros\", or F.pad with zeros",
    "_written_in_part": "parts of a tensor are written one by one within an operation of PyTorch, "
                        "as circular padding does (take padding_mode=\"zeros\"); join them by "
                        "torch.cat",
    "_unique": "it tells which were chosen; take all experts, for e in range(len(experts)), and "
               "the rows of each by row, slot = torch.where(chosen == e)",
    "trilinear": "products of all pairs of two layers' numbers (nn.Bilinear); multiply the "
                 "outputs of two layers, as self.one(x) * self.two(x)",
    "weight_norm": "a matrix is computed from parameters, and those of a program are trained "
                   "themselves; a norm of rows (LayerNorm, RMSNorm) is read"}


def advised(gap: str, module: str = "") -> str:
    """A sentence on what has no counterpart, with what to do, if it does not say so itself.
    module: that of Python which reads the operation, if there is one."""
    said = any(word in gap for word in ("; ", ": ", " is read", " is known"))
    return gap if said else f"{gap}; {ADVICE.get(module.rsplit('.', 1)[-1], DEFAULT)}"
