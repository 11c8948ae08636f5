"""Whether a module and a network give the same outputs from the same weights."""
from __future__ import annotations

import copy
import dataclasses
import math

import torch

from dmft.errors import DmftError
from dmft.torch import inputs
from dmft.torch.network import Network
from dmft.torch.pieces import Piece, parameters_of
from dmft.torch.watching import first_tensor

CLOSE = 1e-5  # of outputs in double precision; modules may have constants in single precision
SHIFT = 0.3   # of the rms of a tensor, by which its entries are moved at random


@dataclasses.dataclass
class Outputs:
    """The largest difference of the outputs at the two widths, relative to their rms; None where
    they could not be compared, and why."""
    differences: list[float] | None
    why: str = ""

    @property
    def same(self) -> bool:
        """Whether they are the same at both widths."""
        return self.differences is not None and all(one < CLOSE for one in self.differences)

    def __str__(self) -> str:
        if self.differences is None:
            return f"outputs from the same weights: not compared, since {self.why}"
        found = " and ".join(f"{one:.2g}" for one in self.differences)
        if self.same:
            return f"outputs from the same weights: the same, to {found} of their rms"
        return (f"outputs from the same weights: they differ, by {found} of their rms at the two "
                "widths; so the module is another network, and what no tensor carries, such as a "
                "factor or an operation, is not judged")


def compare_outputs(models, pieces: list[list[Piece]], widths, ini, network, keys) -> Outputs:
    """models and pieces: of both widths. All weights are moved at random first, so that what starts
    at zero acts as well. Read-ins of a network act on X/sqrt D, and a module may do so or not."""
    try:
        data = inputs.data(ini, widths[0], network=network, **keys)
        differences = []
        for model, of_model, N in zip(models, pieces, widths):
            ours = Network(ini, N, centre=False, network=network, **keys).eval()
            theirs = _moved(model)
            differences.append(_difference(theirs, ours, of_model, N, data))
    except DmftError as error:
        return Outputs(None, str(error))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        text = str(error).partition("\n")[0]
        return Outputs(None, f"the module ends with {type(error).__name__}: {text}")
    return Outputs(differences)


def _moved(model) -> torch.nn.Module:
    """A copy in double precision, away from its start."""
    model = copy.deepcopy(model).double().eval()
    if isinstance(model, Network):
        model.centre = False
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for V in model.parameters():
            size = V.square().mean().sqrt() or V.shape[-1] ** -0.5
            V.add_(SHIFT * size * torch.randn(V.shape, dtype=V.dtype, generator=generator))
    return model


def _difference(theirs, ours: Network, pieces: list[Piece], N: int, data) -> float:
    """The smaller one of the two conventions of a read-in."""
    with torch.no_grad():
        given = data.X if data.tokens is None or not _takes_tokens(theirs) else data.tokens
        f = first_tensor(theirs(given))
        found = []
        for unit in (1.0, math.sqrt(ours.dimension)):
            _hand_over(theirs, ours, pieces, N, unit)
            g = ours(data.X, data.tokens)
            if f.numel() != g.numel():
                raise ValueError(f"outputs have {tuple(f.shape)} numbers, and those of the network "
                                 f"{tuple(g.shape)}")
            gap = (f.reshape(g.shape) - g).abs().max() / g.square().mean().sqrt()
            found.append(gap.item())
    return min(found)


def _takes_tokens(model) -> bool:
    return any(isinstance(one, torch.nn.Embedding) for one in model.modules())


def _hand_over(theirs, ours: Network, pieces: list[Piece], N: int, unit: float) -> None:
    """The weights of the module to the network; of read-ins times `unit`."""
    there = parameters_of(theirs)
    for piece in pieces:
        W, V = ours.weights[piece.matrix], piece.of(there[piece.parameter]) * piece.factor(N)
        if piece.vector:
            V = _spread_over(V, ours, piece, W)
        if ours.program.matrix(piece.matrix).kind == "read_in":
            V = V * unit
        W.copy_(V.reshape(W.shape))


def _spread_over(V, ours: Network, piece: Piece, W) -> torch.Tensor:
    """A vector as a matrix that reads ones. A gain is 1 + v with v = W 1: one that acts as a factor
    on rows beside the rows themselves."""
    program = ours.program
    made = program.matrix(piece.matrix).operation
    users = [v for v in program.operations if made in v.arguments]
    gains = any(v.operation == "multiply" for v in users)
    v = V.flatten() - 1 if gains else V.flatten()
    return v[:, None].expand(W.shape) / W.shape[1]
