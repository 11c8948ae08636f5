"""Attention as public code has it, between two layers of a language model."""
import math

import torch
from modules import LETTERS, PLACES
from torch import nn
from torch.nn import functional as F

HEADS, SHARED = 4, 2                    # of queries, and of keys and values


def later(n):
    """1 at tokens behind each."""
    return torch.ones(n, n).triu(1).bool()


def tables(d, base=1e4, scale=1.0):
    """Rotary positions: cosines and sines."""
    f = torch.outer(scale * torch.arange(PLACES).double(),
                    base ** -(torch.arange(0, d, 2).double() / d))
    return torch.cat([f, f], -1).cos(), torch.cat([f, f], -1).sin()


def turned(x, cos, sin):
    """Halves turned."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    """Queries, keys and values, and what subclasses do with them."""
    scale = None

    def __init__(self, N, heads=2):
        super().__init__()
        self.H, self.d = heads, N // heads
        self.q, self.k, self.v, self.o = (nn.Linear(N, N, bias=False) for _ in range(4))
        self.setup(N)

    def setup(self, N):
        """What a subclass has beside them."""

    def heads(self, y):
        """[P, heads, n, units]."""
        return y.view(*y.shape[:2], -1, self.d).transpose(1, 2)

    def qkv(self, x):
        """Of each head."""
        return [self.heads(one(x)) for one in (self.q, self.k, self.v)]

    def changed(self, q, k):
        """Queries and keys as they are compared."""
        return q, k

    def logits(self, a):
        """Logits before the mask."""
        return a

    def weights(self, a):
        """Of the logits."""
        return a.masked_fill(later(a.shape[-1]), -math.inf).softmax(-1)

    def forward(self, x):
        q, k, v = self.qkv(x)
        q, k = self.changed(q, k)
        a = self.weights(self.logits(q @ k.mT * (self.scale or self.d ** -0.5)))
        return self.o((a @ v).transpose(1, 2).flatten(2))


class Shared(Attention):
    """Keys and values that two heads share."""

    def __init__(self, N):
        super().__init__(N, HEADS)
        self.k, self.v = (nn.Linear(N, SHARED * self.d, bias=False) for _ in range(2))


class Repeated(Shared):
    """Copies behind one another."""

    def qkv(self, x):
        q, k, v = super().qkv(x)
        return q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)


class Grouped(Shared):
    """Queries in groups."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        q = q.unflatten(1, (SHARED, -1))
        a = torch.einsum("bkgqd,bksd->bkgqs", q, k) / self.d ** 0.5
        a = a.masked_fill(later(x.shape[1]), -1e9).softmax(-1)
        return self.o(torch.einsum("bkgqs,bksd->bqkgd", a, v).flatten(2))


class Packed(Attention):
    """Queries, keys and values by one matrix, of fewer keys than queries (Phi-3)."""

    def setup(self, N):
        self.q = self.k = self.v = None
        self.H = HEADS
        self.d = N // HEADS
        self.qkv_proj = nn.Linear(N, (HEADS + 2 * SHARED) * self.d, bias=False)

    def qkv(self, x):
        q, k, v = self.qkv_proj(x).split([HEADS * self.d, SHARED * self.d, SHARED * self.d], -1)
        return self.copied(*map(self.heads, (q, k, v)))

    def copied(self, q, k, v):
        """Each key for two heads, with rotary positions."""
        q, k = (turned(one, *tables(self.d)) for one in (q, k))
        return q, *(one.repeat_interleave(2, 1) for one in (k, v))


class PackedByKey(Packed):
    """Queries, a key and a value of each group one behind the other (Falcon, InternLM)."""

    def qkv(self, x):
        y = self.qkv_proj(x).unflatten(-1, (SHARED, HEADS // SHARED + 2, self.d))
        q = y[..., :-2, :].flatten(2, 3).transpose(1, 2)
        return self.copied(q, y[..., -2, :].transpose(1, 2), y[..., -1, :].transpose(1, 2))


class PackedByHead(Packed):
    """Query, key and value of each head (GPT-NeoX), of which a part is turned."""

    def setup(self, N):
        super().setup(N)
        self.qkv_proj = nn.Linear(N, 3 * N)

    def qkv(self, x):
        y = self.qkv_proj(x).unflatten(-1, (HEADS, 3 * self.d))
        q, k, v = (one.transpose(1, 2) for one in y.split(self.d, -1))
        r = self.d // 2
        q, k = (torch.cat([turned(one[..., :r], *tables(r)), one[..., r:]], -1) for one in (q, k))
        return q, k, v


class OneKey(Packed):
    """One key and value for all heads (StarCoder)."""

    def setup(self, N):
        super().setup(N)
        self.qkv_proj = nn.Linear(N, N + 2 * self.d)

    def qkv(self, x):
        q, kv = self.qkv_proj(x).split((x.shape[-1], 2 * self.d), -1)
        k, v = kv.chunk(2, -1)
        return self.heads(q), k[:, None], v[:, None]


class Latent(Attention):
    """Keys and values from a layer in between, and rotary positions beside them (DeepSeek-V2)."""

    def setup(self, N):
        self.r = N // 4
        self.q, self.k = None, None
        self.to_q = nn.Linear(N, self.H * (self.d + self.r), bias=False)
        self.down = nn.Linear(N, N // 2 + self.r, bias=False)
        self.norm, self.v = nn.RMSNorm(N // 2), nn.Linear(N // 2, 2 * N, bias=False)

    def qkv(self, x):
        q, turning = self.to_q(x).unflatten(-1, (self.H, -1)).transpose(1, 2).split(
            [self.d, self.r], -1)
        c, key = self.down(x).split([x.shape[-1] // 2, self.r], -1)
        k, v = self.v(self.norm(c)).unflatten(-1, (self.H, -1)).transpose(1, 2).chunk(2, -1)
        turning, key = (turned(one, *tables(self.r)) for one in (turning, key[:, None]))
        return torch.cat([q, turning], -1), torch.cat([k, key.expand(-1, self.H, -1, -1)], -1), v


class Temperature(Attention):
    """One for each head."""

    def setup(self, N):
        self.t = nn.Parameter(torch.ones(self.H, 1, 1))

    def logits(self, a):
        return a * self.t


class Cosine(Attention):
    """Angles between queries and keys, with a temperature below a cap (Swin v2)."""
    scale = 1.0

    def setup(self, N):
        self.t = nn.Parameter(torch.log(10 * torch.ones(self.H, 1, 1)))

    def changed(self, q, k):
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def logits(self, a):
        return a * self.t.clamp(max=math.log(100)).exp()


class Normed(Attention):
    """Norms of queries and keys."""

    def setup(self, N):
        self.q_norm, self.k_norm = nn.RMSNorm(self.d), nn.LayerNorm(self.d)

    def changed(self, q, k):
        return self.q_norm(q), self.k_norm(k)


class Capped(Attention):
    """A cap of logits (Gemma 2) within a window."""

    def logits(self, a):
        n = a.shape[-1]
        far = torch.arange(n)[:, None] - torch.arange(n) > 2
        return (50 * torch.tanh(a / 50)).masked_fill(far, torch.finfo(a.dtype).min)


class Differential(Attention):
    """The weights of one head less those of another."""

    def setup(self, N):
        self.share = nn.Parameter(torch.tensor(0.2))

    def forward(self, x):
        q, k, v = self.qkv(x)
        a = self.weights(q @ k.mT * self.d ** -0.5)
        return self.o(((a[:, :1] - self.share * a[:, 1:]) @ v).transpose(1, 2).flatten(2))


class InTurn(Attention):
    """Rotary positions of neighbours."""

    def changed(self, q, k):
        cos, sin = (one[:, :self.d // 2] for one in tables(self.d))

        def both(x):
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        return both(q), both(k)


class Backwards(Attention):
    """Rotary positions that turn the other way (modded-nanogpt)."""

    def changed(self, q, k):
        cos, sin = (one[:, :self.d // 2] for one in tables(self.d))

        def both(x):
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos + b * sin, a * (-sin) + b * cos], -1)
        return both(q), both(k)


class LessLargest(Attention):
    """A softmax of logits less their largest, which is the same."""

    def logits(self, a):
        a = a.masked_fill(later(a.shape[-1]) > 0, -torch.finfo(a.dtype).max)
        return a - a.amax(-1, keepdim=True).detach()


class Longer(Attention):
    """Rotary positions of a text that is eight times as long, by another base (NTK)."""

    def changed(self, q, k):
        base = 1e4 * 8 ** (self.d / (self.d - 2))
        return [turned(one, *tables(self.d, base)) for one in (q, k)]


class Interpolated(Attention):
    """Rotary positions of a text that is four times as long, which lie closer."""

    def changed(self, q, k):
        return [turned(one, *tables(self.d, scale=0.25)) for one in (q, k)]


class Decayed(Attention):
    """Scores that fall with the distance, without a softmax (RetNet)."""

    def weights(self, a):
        n = a.shape[-1]
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return a * (0.9 ** distance.double() * (distance >= 0))


class Model(nn.Module):
    """A language model with one attention."""

    def __init__(self, N, attention):
        super().__init__()
        self.wte, self.norm = nn.Embedding(LETTERS, N), nn.RMSNorm(N)
        self.attention, self.head = attention(N), nn.Linear(N, LETTERS, bias=False)

    def forward(self, t):
        x = self.wte(t)
        return self.head(x + self.attention(self.norm(x)))


def build_of(attention):
    """build of a model with this attention."""
    return lambda N: Model(N, attention)


ATTENTIONS = {one.__name__: one for one in (
    Repeated, Grouped, Packed, PackedByKey, PackedByHead, OneKey, Latent, Temperature, Cosine,
    Normed, Capped, Differential, InTurn, Backwards, LessLargest, Longer, Interpolated, Decayed)}
