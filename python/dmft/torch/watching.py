"""What the modules and the attention of a model take and give while it runs once."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import random

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from dmft.errors import InputError
from dmft.torch.token_rows import LOST, NO_TOKEN, TokenRows, natural_rows, row_numbers

FAR_BELOW = -1e9  # of a logit: what stands behind a mask


@dataclasses.dataclass
class Call:
    """What a module took, or an operation gave. rows: which token each row is (TokenRows.of); low:
    the arguments of the torch.autocast within which it was called, if there was one."""
    given: tuple
    named: dict
    rows: object
    low: tuple = ()

    def within(self):
        """The precision in which it was called."""
        return torch.autocast(*self.low) if self.low else contextlib.nullcontext()


def autocast_of(x) -> tuple:
    """The kind of device and the type of the torch.autocast that is on for a tensor, or nothing."""
    kind = x.device.type if torch.is_tensor(x) else "cpu"
    try:
        return (kind, torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else ()
    except (TypeError, AttributeError):     # before PyTorch 2.4
        on = torch.is_autocast_enabled() if kind == "cuda" else torch.is_autocast_cpu_enabled()
        return (kind, getattr(torch, f"get_autocast_{'gpu' if kind == 'cuda' else kind}_dtype")()
                ) if on else ()


def first_tensor(given) -> torch.Tensor:
    """The output of a module that gives a tuple, a list, a dict or an object: its logits if it has
    them, else its first tensor of floats that is no single number, as the loss in front of it."""
    found = list(_floats(given))
    if not found:
        raise InputError(f"the module gives a {type(given).__name__} without a tensor of floats; "
                         "its output must be a tensor, or a tuple or dict whose first tensor it is")
    return next((one for one in found if one.dim()), found[0])


def _floats(given):
    """All tensors of floats of what a module gives, in their order."""
    if dataclasses.is_dataclass(given) and not isinstance(given, dict):
        given = vars(given)
    if hasattr(given, "_asdict"):
        given = given._asdict()
    if isinstance(given, dict):
        given = [given["logits"]] if "logits" in given else list(given.values())
    if torch.is_tensor(given):
        yield from [given] if given.is_floating_point() else []
    for one in given if isinstance(given, (list, tuple)) else ():
        yield from _floats(one)


def run_model(model, X):
    """X: a tensor, a tuple of arguments, or a dict of those that have names."""
    if isinstance(X, dict):
        return model(**X)
    return model(*X) if isinstance(X, (list, tuple)) else model(X)


def kept(given):
    """A copy of what a module takes, tensors within lists, tuples and dicts as well."""
    if torch.is_tensor(given):
        return given.detach().clone()
    if isinstance(given, dict):
        return {name: kept(one) for name, one in given.items()}
    return type(given)(map(kept, given)) if type(given) in (list, tuple) else given


@contextlib.contextmanager
def same_draws(model: torch.nn.Module, seed: int = 0):
    """Dropout and jitter draw the same numbers whenever a pass runs within this: those of PyTorch,
    of numpy and of Python, and those of generators of PyTorch that its modules keep."""
    own = [one for module in model.modules() for one in vars(module).values()
           if isinstance(one, torch.Generator)]
    states = random.getstate(), np.random.get_state(), [one.get_state() for one in own]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        for one in own:
            one.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            for one, state in zip(own, states[2]):
                one.set_state(state)


@contextlib.contextmanager
def same_buffers(module: torch.nn.Module):
    """What a module keeps beside its parameters, such as means of batches, is put back."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        yield
    finally:
        for name, buffer in module.named_buffers():
            buffer.copy_(before.get(name, buffer))


class _Attention(TorchFunctionMode):
    """Notes the logits and the output of every softmax, and what attention makes of it."""

    def __init__(self, note):
        super().__init__()
        self.note, self.shares = note, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        operands = args[1] if name == "einsum" and isinstance(args[1], (list, tuple)) else args
        if name == "softmax":
            self.note("logits", _without_masked(args[0]))
            self.note("softmax", out)
            self.shares[id(out)] = out
        elif name == "dropout" and id(args[0]) in self.shares:
            self.shares[id(out)] = out
        elif name in ("matmul", "bmm", "einsum", "__matmul__") and any(
                id(x) in self.shares for x in operands if torch.is_tensor(x)):
            self.note("attention", out)
        elif name == "scaled_dot_product_attention":
            self.note("logits", _without_masked(_attention_logits(*args, **kwargs)))
            self.note("attention", out)
        return out


def _without_masked(logits):
    """NaN where a mask has put a logit far below all others."""
    return logits.masked_fill(logits < FAR_BELOW, torch.nan)


def _attention_logits(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                      scale=None, enable_gqa=False):
    """What scaled_dot_product_attention takes the softmax of."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    logits = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        ahead = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(ahead, -torch.inf)
    if attn_mask is not None:
        logits = logits.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool \
            else logits + attn_mask
    return logits


class Watched:
    """A model, its modules that have parameters of their own as they were at the start, and what
    they take."""

    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.now = {name or "(itself)": module for name, module in model.named_modules()
                    if any(True for _ in module.parameters(recurse=False))}
        self.start = {name: copy.deepcopy(module) for name, module in self.now.items()}

    def take(self, X) -> tuple[torch.Tensor, dict[str, list[Call]], dict[str, list[Call]]]:
        """The output, what each module was called with before it could change it, and what softmax
        and attention had, {"module: operation": calls}."""
        taken: dict[str, list] = {name: [] for name in self.now}
        given: dict[str, list] = {}
        rows, within = TokenRows(), ["(itself)"]
        own: list = []

        def note(operation, x):
            place = given.setdefault(f"{within[-1]}: {operation}", [])
            place.append(Call((x.detach().clone(),), {}, rows.of(x)))

        def watch(name, forward):
            def called(*args, **named):
                if name in taken:
                    x = next((x for x in (*args, *named.values()) if torch.is_tensor(x)), None)
                    taken[name].append(Call(kept(args), kept(named), None if x is None else
                                            rows.of(x), autocast_of(x)))
                within.append(name)
                try:
                    return forward(*args, **named)
                finally:
                    within.pop()
            return called

        for name, module in self.model.named_modules():
            own.append((module, module.__dict__.get("forward")))
            module.forward = watch(name or "(itself)", module.forward)
        rows.begin(X)
        try:
            with same_buffers(self.model), same_draws(self.model), torch.no_grad(), rows, \
                    _Attention(note):
                return first_tensor(run_model(self.model, X)).clone(), taken, given
        finally:
            for module, forward in own:
                del module.forward
                if forward:
                    module.forward = forward


def outputs(module, calls: list[Call]) -> list[torch.Tensor]:
    """What a module gives on what it was called with, without gradients."""
    with torch.no_grad():
        found = []
        for call in calls:
            with same_buffers(module), same_draws(module), call.within():
                found.append(_of_tokens(first_tensor(
                    module(*kept(call.given), **kept(call.named))), call.rows))
        return found


def _of_tokens(x: torch.Tensor, twin) -> torch.Tensor:
    """NaN in rows that belong to no token, as in places of an expert that nobody took."""
    rows = None if twin is None or twin is LOST else row_numbers(twin)
    if rows is None or x.dim() < 2 or len(rows) != x.shape[:-1].numel():
        return x
    return x.masked_fill((rows == NO_TOKEN).view(*x.shape[:-1], 1), torch.nan)


def mean_square(tensors) -> float | None:
    """Over all entries that are not NaN; None where there are none."""
    flat = [x.flatten().double() for x in tensors]
    mean = torch.cat(flat).square().nanmean().item() if flat else math.nan
    return None if math.isnan(mean) else mean


def same_tokens(first: list[tuple], last: list[tuple]):
    """Pairs of the entries of the same tokens, of calls at two times. first, last: (tensor, twin
    of what it was made of) of each call. None where the rows cannot be told."""
    if len(first) != len(last):
        return None if first and last else []
    pairs = []
    for (a, twin_a), (b, twin_b) in zip(first, last):
        if twin_a is LOST or twin_b is LOST:
            return None
        if a.shape == b.shape and _alike(twin_a, twin_b):
            pairs.append((a, b))
            continue
        at_a, at_b = _numbered(a, twin_a), _numbered(b, twin_b)
        if at_a is None or at_b is None:
            return None
        a, b = (x.reshape(-1, x.shape[-1]) if x.dim() > 1 else x for x in (a, b))
        common = [key for key in at_b if key in at_a]
        pairs.append((a[[at_a[key] for key in common]], b[[at_b[key] for key in common]]))
    return pairs


def _alike(twin, other) -> bool:
    if twin is None or other is None:
        return twin is other
    return torch.equal(twin, other)


def _numbered(x: torch.Tensor, twin) -> dict | None:
    """{(token, how many rows of it came before): row of x}; None where its rows are not known."""
    rows = row_numbers(natural_rows(x) if twin is None else twin)
    if rows is None or len(rows) != x.shape[:-1 if x.dim() > 1 else 1].numel():
        return None
    seen: dict = {}
    found = {}
    for k, token in enumerate(rows.tolist()):
        if token != NO_TOKEN:
            seen[token] = seen.get(token, -1) + 1
            found[token, seen[token]] = k
    return found
