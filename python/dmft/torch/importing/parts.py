"""Which part of which parameter is which matrix, and how weights go from the one to the other."""
from __future__ import annotations

import dataclasses
import math

import torch

from dmft.description import kind_of
from dmft.errors import InputError
from dmft.torch.importing.axes import Piece
from dmft.torch.importing.expressions import Leaf

# Kinds of parts, and the operation that has them.
KINDS = ("map", "look", "read_in", "read_out", "embed", "bias", "vector")


@dataclasses.dataclass
class Part:
    """One matrix of the program. `leaves`: the parts of parameters that are its rows (of a read-in
    its columns; of a map or a vector there is one); `to`: the axes of the leaf that are the
    target and the source of a map; `factor`: (c, p), the matrix is c N^p times the parameter;
    `start`: the number that a vector starts at, or None; `rows`: of a read-out, more than it has
    leaves where other numbers of the output are looks; `common`: the name of the matrix that all
    wide experts share at the start, to which this one adds what each has learned, or None;
    `still`: whether all its gradients are held back (detach), so that it never moves, "decays"
    where other parts of its parameter do, as it then decays with them."""
    name: str
    kind: str
    leaves: tuple[Leaf, ...]
    factor: tuple[float, float]
    to: tuple | None = None
    start: float | None = None
    rows: int = 0
    common: str | None = None
    still: bool | str = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that it is made of."""
        return tuple(dict.fromkeys(leaf.parameter for leaf in self.leaves))

    @property
    def label(self) -> str:
        """What the network calls it: the parameter, or the kinds of several."""
        one, *more = self.parameters
        return ", ".join(dict.fromkeys(map(kind_of, self.parameters))) if more else one

    def at_rest(self, said: dict) -> dict:
        """What is said of the matrix, without its rates where it never moves."""
        if not self.still:
            return said
        kept = {key: value for key, value in said.items()
                if key in ("a0", "zero", "start", self.still)}
        return kept | {"fixed": True} | ({} if self.still == "decays" else {"decays": False})

    def at(self, N: int) -> float:
        """The factor at a width."""
        return self.factor[0] * N ** self.factor[1]

    def of(self, parameters, N: int) -> torch.Tensor:
        """The parameter of dmft.torch.Network."""
        if self.kind == "map":
            (leaf,) = self.leaves
            block = entries_of(leaf, parameters)
            order, split = self._order(leaf)
            block = block.permute(order)
            return self.at(N) * block.reshape(math.prod(block.shape[:split]), -1)
        block = gathered(self.leaves, parameters)
        if self.kind == "vector":
            return self.at(N) * block[0]
        if self.kind in ("read_in", "embed"):
            return self.at(N) * block.T
        if self.rows:
            block = torch.cat([block, block.new_zeros(self.rows - len(block), block.shape[1])])
        return self.at(N) * (block[:, 0] if self.kind == "bias" else block)

    @property
    def experts(self) -> tuple[int, bool]:
        """(the axis of the parameter of which each entry is an expert, whether the matrix sums
        over them) of a map between rows and pairs of experts and units."""
        to, source = self.to
        return (source[0], True) if len(source) == 2 else (to[0], False)

    def of_all(self, parameters, N: int) -> dict[str, torch.Tensor]:
        """{name: the parameter of dmft.torch.Network}, with what the first expert has as what all
        of them share, which never learns."""
        V = self.of(parameters, N)
        if not self.common:
            return {self.name: V}
        axis, summed = self.experts
        (leaf,) = self.leaves
        block = entries_of(leaf, parameters).detach()
        at = sorted(leaf.populations).index(axis)
        first = block.select(at, 0).unsqueeze(at)
        mine = self.at(N) * first.expand_as(block).permute(self._order(leaf)[0]).reshape(V.shape)
        size = block.shape[at]
        shared = mine.reshape(len(V), size, -1)[:, 0] * size if summed else \
            mine.reshape(size, -1, V.shape[1])[0]
        return {self.name: V - mine, self.common: shared}

    def with_common(self, weights, N: int) -> torch.Tensor:
        """What the parameter is, from the weights of a network."""
        V = weights[self.name].detach()
        if not self.common:
            return V
        shared, (_, summed) = weights[self.common].detach(), self.experts
        if summed:
            size = V.shape[1] // shared.shape[1]
            return V + (shared / size).repeat(1, size)
        return V + shared.repeat(len(V) // len(shared), 1)

    def _order(self, leaf: Leaf) -> tuple[list[int], int]:
        """The order in which its axes are those of the target and the source, and how many are the
        target's."""
        there = sorted(leaf.populations)
        to, source = self.to
        return [there.index(axis) for axis in (*to, *source)], len(to)

    def into(self, parameters, V: torch.Tensor, N: int) -> None:
        """Writes what a matrix is into the parameters."""
        if self.kind == "map":
            (leaf,) = self.leaves
            order, _ = self._order(leaf)
            block = entries_of(leaf, parameters).permute(order)
            block.copy_(V.reshape(block.shape) / self.at(N))
            return
        if self.kind == "vector":
            V = V[None]
        elif self.kind in ("read_in", "embed"):
            V = V.T
        elif self.kind == "bias":
            V = V.reshape(-1)
        for leaf, row in zip(self.leaves, V):
            block = entries_of(leaf, parameters)
            block.copy_(row.reshape(block.shape) / self.at(N))


def entries_of(leaf: Leaf, parameters) -> torch.Tensor:
    """A leaf's entries of a parameter, as a part of its memory, with an axis for each of its
    populations."""
    block = parameters[leaf.parameter]
    index = index_at(leaf.at, block.shape)
    shape, block, axis = block.shape, block[index], 0
    for one, total in zip(leaf.at, shape):
        if not isinstance(one, Piece):
            continue
        if one.groups:
            pair = one.pair(total)
            block = block.unflatten(axis, pair)
            axis += 1
            block = block[(slice(None),) * axis + (one.units.slice(pair[1]),)]
        axis += 1
    return block


def index_at(at, shape) -> tuple:
    """The slices of the entries that `at` of a leaf says."""
    return tuple(one.slice(total) if isinstance(one, Piece) else one
                 for one, total in zip(at, shape))


def gathered(leaves, parameters) -> torch.Tensor:
    """[leaves, entries of one]: at once where they are entries of one parameter along one axis."""
    first = leaves[0]
    parameter = parameters[first.parameter]
    differ = [k for k in range(len(first.at))
              if any(leaf.at[k] != first.at[k] for leaf in leaves)] \
        if all(leaf.parameter == first.parameter for leaf in leaves) else None
    whole = not any(isinstance(one, Piece) and one.groups for one in first.at)
    if differ is not None and len(differ) == 1 and len(leaves) > 1 and whole:
        (k,) = differ
        index = list(index_at(first.at, parameter.shape))
        index[k] = slice(None)
        block = parameter[tuple(index)]
        before = sum(isinstance(one, slice) for one in index[:k])
        chosen = torch.as_tensor([leaf.at[k] for leaf in leaves])
        block = block.index_select(before, chosen).movedim(before, 0)
        return block.reshape(len(leaves), -1)
    return torch.stack([entries_of(leaf, parameters).reshape(-1) for leaf in leaves])


def uncovered(parts, parameters, ignored) -> list[str]:
    """Parameters of which some entries are in no matrix; one that is in two is refused."""
    missing, counts = [], {name: torch.zeros(one.shape) for name, one in parameters.items()}
    for part in parts:
        for leaf in part.leaves:
            entries_of(leaf, counts).add_(1)
    for name, count in counts.items():
        if count.max() > 1:
            twice = [part for part in parts if name in part.parameters]
            loop = ", or, where a loop takes a few numbers of each token (state spaces), layers " \
                "that grow, as those of nn.GRU" if {part.kind for part in twice} == {"look"} else ""
            raise InputError(f"{name} is used as several matrices "
                             f"({', '.join(part.name for part in twice)}); a program ties maps "
                             "between the same layers, and an embedding of tokens with the head; "
                             f"build the module with separate ones{loop}")
        if name not in ignored and count.min() < 1:
            missing.append(name)
    return missing


def share(parameter: torch.Tensor, part: Part) -> float:
    """The root mean square of the entries of a parameter that a part is made of."""
    total, count = 0.0, 0
    for leaf in part.leaves:
        block = entries_of(leaf, parameter)
        total, count = total + block.double().square().sum().item(), count + block.numel()
    return math.sqrt(total / count)
