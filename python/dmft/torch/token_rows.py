"""Which token each row of a tensor belongs to, while a module runs.

Layers with experts hand each expert the tokens that chose it, so that the k-th row of an expert's
input is another token at another time. Whoever compares inputs of two times needs to know which
token a row is. TokenRows follows the rows through a forward pass.

A tensor whose rows stand in the order of the module's own inputs has nothing to follow. Once a
tensor is indexed, it gets a twin of the same shape, whose entries say in which row of the indexed
tensor they stood; operations that only move entries are then done to the twin as well, and others
keep the rows that they have. Where the rows come back to their order, the twin is dropped."""
from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LOST = object()  # the rows were chosen by the data, and what became of them is not known
NO_TOKEN = -1

MOVES = {  # what only moves entries of its first argument
    "index", "index_select", "gather", "masked_select", "take_along_dim", "take",
    "view", "_unsafe_view", "reshape", "_reshape_alias", "permute", "transpose", "t", "squeeze",
    "unsqueeze", "expand", "slice", "select", "split", "split_with_sizes", "unbind", "chunk",
    "clone", "contiguous", "detach", "alias", "flip", "roll", "repeat", "movedim", "narrow",
    "as_strided", "unfold", "diagonal", "tile", "repeat_interleave"}
CHOOSES = {"index", "index_select", "gather", "masked_select", "take_along_dim", "take",
           "expand", "repeat"}  # takes rows in another order, or several times
GATHERS_INTO = {  # whose rows are those of their first argument
    "index_add", "index_put", "_index_put_impl", "index_copy", "scatter", "scatter_add",
    "scatter_reduce", "masked_scatter", "masked_fill", "copy", "fill", "zero", "slice_scatter",
    "select_scatter"}
REDUCES = {"sum", "mean", "amax", "amin", "prod"}
PRODUCTS = {"mm", "bmm", "matmul", "addmm", "baddbmm", "mv", "_grouped_mm", "linear"}
SORTS = {"topk": 2, "sort": 1}  # and where the axis is among their arguments
JOINS = {"cat", "stack", "concat"}
PUTS = {"index_put", "_index_put_impl", "index_copy", "scatter", "copy"}  # rows in places of others
OF_SHAPE = {"new_zeros", "new_empty", "new_full", "new_ones", "zeros_like", "empty_like",
            "full_like", "ones_like"}   # depend on no entry of their argument


def natural_rows(x: torch.Tensor) -> torch.Tensor:
    """The number of its row at every entry of x; rows are along all axes but the last."""
    lead = x.shape[:-1] if x.dim() > 1 else x.shape
    rows = torch.arange(lead.numel()).view(lead)
    return (rows.unsqueeze(-1) if x.dim() > 1 else rows).expand(x.shape)


def _name(func) -> str:
    """Of an operation, without what says that it writes into its argument."""
    name = func.overloadpacket.__name__
    return name[:-1] if name.endswith("_") and not name.startswith("__") else name


def _tensors(given):
    if torch.is_tensor(given):
        yield given
    elif isinstance(given, (list, tuple)):
        for one in given:
            yield from _tensors(one)
    elif isinstance(given, dict):
        yield from _tensors(list(given.values()))


def row_numbers(twin: torch.Tensor) -> torch.Tensor | None:
    """One number for each row of a twin; None where the entries of a row have several."""
    if twin.dim() < 2:
        return twin
    return twin[..., 0].flatten() if _constant_along(twin, -1) else None


def _constant_along(rows: torch.Tensor, axis: int) -> bool:
    return rows.shape[axis] == 0 or bool((rows == rows.narrow(axis, 0, 1)).all())


class TokenRows(TorchDispatchMode):
    """Used around a forward pass without gradients: `begin` with the tensors that the module is
    called with, then ask `of(x)` for the rows of a tensor while the pass runs."""

    def __init__(self):
        super().__init__()
        self.known: dict = {}   # id of a tensor: (the tensor, its twin or LOST)
        self.moving: dict = {}  # id of a tensor that depends on the inputs: the tensor
        self.parts: dict = {}   # id of a tensor that was written part by part: (it, its twin)
        self.waiting: dict = {}  # such tensors, where no rows have come yet that the data chose

    def begin(self, inputs) -> None:
        """inputs: what the module is called with, tensors within lists and dicts as well."""
        for x in _tensors(inputs):
            self.moving[id(x)] = x

    def of(self, x: torch.Tensor):
        """The twin of x, which has NO_TOKEN where a row belongs to none; None where the rows of x
        stand in their order; or LOST."""
        if id(x) not in self.known and x._is_view() and id(x._base) in self.parts:
            base, twin = self.parts[id(x._base)]
            twin = twin if twin is LOST else twin.as_strided(
                x.shape, x.stride(), x.storage_offset() - base.storage_offset())
            return twin if twin is LOST or not torch.equal(twin, natural_rows(x)) else None
        return self.known[id(x)][1] if id(x) in self.known else None

    def _moves(self, x: torch.Tensor) -> bool:
        """Whether it depends on the inputs."""
        return id(x) in self.moving or x._is_view() and id(x._base) in self.parts

    def _keep(self, x, twin) -> None:
        """A twin that says nothing is dropped."""
        self.known.pop(id(x), None)
        if twin is LOST or twin is not None and not torch.equal(twin, natural_rows(x)):
            self.known[id(x)] = (x, twin)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        found = [self.of(x) for x in _tensors(args)]
        moved = [self._moves(x) for x in _tensors(args)]
        out = func(*args, **kwargs)
        if _name(func) in OF_SHAPE or not any(self._moves(x) for x in _tensors((args, kwargs))):
            return out
        if _name(func) in PUTS and self._put(func, args, kwargs, found, moved, out):
            return out
        for x in _tensors(out):
            self.moving[id(x)] = x
        self._follow(func, _name(func), args, kwargs, found, out)
        return out

    def _follow(self, func, name, args, kwargs, found, out) -> None:
        first = next(_tensors(args), None)
        outs = list(_tensors(out))
        if name in CHOOSES and found[0] is None and self._moves(first):
            found[0] = natural_rows(first)
        some = [twin for twin in found if twin is not None]
        if name in GATHERS_INTO:
            twins = [found[0]] * len(outs)
        elif name in SORTS:
            twins = self._sorted(first, found[0], args, kwargs, outs, SORTS[name])
        elif name in PRODUCTS:
            twins = [self._product(args, outs[0], added=name in ("addmm", "baddbmm"))]
        elif not some:
            twins = [None] * len(outs)
        elif any(twin is LOST for twin in some):
            twins = [LOST] * len(outs)
        elif name in MOVES:
            twins = list(_tensors(func(found[0], *args[1:], **kwargs))) if found[0] is not None \
                else [LOST] * len(outs)
        elif name in JOINS:
            twins = [func([natural_rows(x) if twin is None else twin
                           for x, twin in zip(_tensors(args), found)], *args[1:], **kwargs)]
        elif name in REDUCES:
            twins = [self._reduced(found[0], args, kwargs, outs[0])]
        else:
            twins = [self._entrywise(next((twin for twin in some if twin.shape == x.shape),
                                          some[0]), x) for x in outs]
        for x, twin in zip(outs, twins):
            self._keep(x, twin)

    def _put(self, func, args, kwargs, found, moved, out) -> bool:
        """Whether rows were put where the data says, as into the places of an expert, or rows that
        the data has chosen into a part of a tensor. What is put nowhere is no token."""
        into, rows = args[0], [x for x in _tensors(args)][-1]
        adds = "index_put" in _name(func) and (args[3:4] or [kwargs.get("accumulate")])[0]
        if adds or rows.dim() < 2 or rows.shape[-1] != into.shape[-1]:
            return False
        if _name(func) == "copy" and into._is_view() and moved[-1]:
            return self._put_into_part(into, rows, found[-1])
        if found[-1] is None and not any(moved[1:-1]):
            return False
        known = found[0] if found[0] is not None else natural_rows(into) if moved[0] else \
            torch.full(into.shape, NO_TOKEN)
        twin = natural_rows(rows) if found[-1] is None else found[-1]
        self.moving[id(out)] = out
        self._keep(out, LOST if LOST in (known, twin) else _said(func(
            *(twin if one is rows else known.clone() if one is into else one for one in args),
            **kwargs)))
        return True

    def _put_into_part(self, part, rows, twin) -> bool:
        """Rows come into a part of a tensor, of which some parts have rows that the data chose."""
        whole = part._base
        puts = self.waiting.setdefault(id(whole), [])
        puts.append((whole, part, natural_rows(rows) if twin is None else twin))
        if twin is None and id(whole) not in self.parts:
            return False
        known = self.parts.get(id(whole), (whole, self.of(whole)))[1]
        if known is None:
            known = natural_rows(whole) if id(whole) in self.moving else \
                torch.full(whole.shape, NO_TOKEN)
        for _, one, its in puts:
            if known is LOST or its is LOST:
                known = LOST
                break
            known = known.clone(memory_format=torch.contiguous_format)
            known.as_strided(one.shape, one.stride(),
                             one.storage_offset() - whole.storage_offset()).copy_(its)
        self.parts[id(whole)], self.waiting[id(whole)] = (whole, known), []
        return True

    @staticmethod
    def _entrywise(twin, out):
        """Of an operation that no list has: rows stay where the shape lets them."""
        if twin.shape == out.shape:
            return twin
        if twin.dim() == out.dim() and all(a in (1, b) for a, b in zip(twin.shape, out.shape)):
            return twin.expand(out.shape)
        if twin.dim() > 1 and twin.shape[:-1] == out.shape[:-1] and _constant_along(twin, -1):
            return twin[..., :1].expand(out.shape)
        if twin.dim() < out.dim():
            try:
                return twin.expand(out.shape)
            except RuntimeError:
                return LOST
        return LOST

    @staticmethod
    def _reduced(twin, args, kwargs, out):
        axes = args[1] if len(args) > 1 else kwargs.get("dim")
        if twin is None or axes is None:
            return None
        axes = [axes] if isinstance(axes, int) else list(axes) or list(range(twin.dim()))
        if not all(twin.shape[axis] and _constant_along(twin, axis) for axis in axes):
            return LOST
        for axis in sorted((axis % twin.dim() for axis in axes), reverse=True):
            twin = twin.select(axis, 0)
        return twin.view(out.shape)

    def _sorted(self, x, twin, args, kwargs, outs, at: int):
        """Along the last axis rows stay; along another one they are chosen. at: where the axis is
        among the arguments."""
        axis = args[at] if len(args) > at else kwargs.get("dim", -1)
        if axis % max(x.dim(), 1) == x.dim() - 1:
            return [twin if twin is None or twin is LOST else self._entrywise(twin, outs[0])] * 2
        if twin is LOST:
            return [LOST, LOST]
        return [torch.gather(natural_rows(x) if twin is None else twin, axis, outs[1]), None]

    def _product(self, args, out, added):
        """Rows come from the left factor and columns from the right one, but where the left one
        chooses rows of the right one."""
        a, b = [x for x in args if torch.is_tensor(x)][1 if added else 0:][:2]
        twins = [self.of(a), self.of(b)]
        if LOST in twins:
            return LOST
        if self._moves(a) and self._moves(b) and a.dim() == b.dim() and \
                _chooses(a) and a.shape[-1] == b.shape[-2]:
            rows = (natural_rows(b) if twins[1] is None else twins[1])[..., :1].to(a.dtype)
            has = a.sum(-1, keepdim=True)
            chosen = torch.where(has > 0, a @ rows, torch.full_like(has, NO_TOKEN))
            return chosen.round().long().expand(out.shape)
        if self._moves(a) and self._moves(b) and b.dim() > 1 and \
                _chooses(b.transpose(-1, -2)):
            return LOST
        if twins[0] is not None and twins[0].dim() > 1 and _constant_along(twins[0], -1):
            rows = twins[0][..., :1] if out.dim() == twins[0].dim() else twins[0][..., 0]
            return rows.expand(out.shape)
        if twins[1] is not None and twins[1].dim() > 1 and _constant_along(twins[1], -2):
            return twins[1][..., :1, :].expand(out.shape)
        return None


def _said(twin: torch.Tensor) -> torch.Tensor:
    """A twin whose rows are all where they belong or nowhere, as of what experts give for the
    tokens that they have, is that of all rows."""
    natural = natural_rows(twin)
    return natural if ((twin == natural) | (twin == NO_TOKEN)).all() else twin


def _chooses(mask: torch.Tensor) -> bool:
    """Whether each row of it is zero, or 1 in one place, and some row chooses."""
    if mask.dim() < 2 or not mask.is_floating_point():
        return False
    return bool(((mask == 0) | (mask == 1)).all() and (mask.sum(-1) <= 1).all() and mask.any()
                and mask.shape[-1] > 1)
