"""Images [P, C, H, W] as tokens: each patch that the module reads at once is a token, and so is
each place of an image that it reads by a convolution; one that is read as a whole is one row."""
from __future__ import annotations

import dataclasses

import numpy as np
import torch

from dmft.torch.importing.axes import Axis, cells_shape, finite
from dmft.torch.importing.tensors import Tensor, array


@dataclasses.dataclass(frozen=True)
class Layout:
    """How an image of so many channels, rows and columns is taken apart: in patches of so many
    places by as many; 0: not at all."""
    shape: tuple[int, int, int]
    patch: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        _, H, W = self.shape
        return (H // self.patch, W // self.patch) if self.patch else (1, 1)

    @property
    def tokens(self) -> int:
        """How many patches there are."""
        return self.grid[0] * self.grid[1]

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """[P, n, C p p] of images, or [P, C H W]."""
        if not self.patch:
            return x.flatten(1)
        p, (h, w) = self.patch, self.grid
        parts = x.reshape(len(x), self.shape[0], h, p, w, p).permute(0, 2, 4, 1, 3, 5)
        return parts.flatten(3).flatten(1, 2)

    def tensor(self, make, size) -> Tensor:
        """The image of an input, of so many at both widths; make: the expression of a number."""
        C, H, W = self.shape
        if not self.patch:
            dims = [(Axis("input", size),), *((finite(k),) if k > 1 else () for k in (C, H, W))]
        else:
            p, (h, w) = self.patch, self.grid
            inside = (finite(p),) if p > 1 else ()
            dims = [(Axis("input", size),), (finite(C),) if C > 1 else (),
                    (Axis("row", (h, h)), *inside), (Axis("column", (w, w)), *inside)]
        shape = cells_shape(dims)
        return Tensor(dims, array([make(k) for k in range(int(np.prod(shape)))], shape))


def layout_of(record) -> Layout | None:
    """How a module takes its images apart, as the first step shows that does; None of other
    inputs."""
    x = record.input
    if x.dim() != 4 or not x.is_floating_point():
        return None
    C, H, W = x.shape[1:]
    seen, found = {id(x)}, 1
    for step in record.steps:
        if not any(id(one) in seen for one in step.arguments if isinstance(one, torch.Tensor)):
            continue
        shape = list(step.results[0].shape) if isinstance(step.results[0], torch.Tensor) else []
        if not shape:
            continue                    # one number of all images, which a branch may be by
        if "conv" in step.operation:
            kernel, stride, padding = list(step.arguments[1].shape[2:]), *step.arguments[3:5]
            found = kernel[0] if kernel == list(stride) == [kernel[0]] * 2 \
                and not any(padding) else 1
            break
        if step.operation in ("im2col", "unfold"):
            found = step.arguments[1][0] if step.operation == "im2col" else step.arguments[2]
            break
        if len(shape) == 6:
            found = shape[3]
            break
        if len(shape) < 3:
            found = 0
            break
        if len(shape) == 3:
            break
        seen |= {id(one) for one in step.results}
    if found and (H % found or W % found):
        found = 1
    return Layout((C, H, W), found)
