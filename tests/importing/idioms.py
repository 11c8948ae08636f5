"""Routers as people write them: one expert or some are chosen."""
import torch
from modules import LETTERS, Gated, Mixture
from torch import nn
from torch.nn import functional as F


class Routed(Mixture):
    """Experts in a list; a subclass says how rows are sent to them."""

    def __init__(self, N, experts=4, top=2, bias=False):
        super().__init__(N, experts, top, bias)
        self.experts = nn.ModuleList(Gated(N, N) for _ in range(experts))
        self.setup(N)

    def setup(self, N):
        """What a subclass has beside them."""

    def sent(self, x, w, i):
        """Rows sent to the experts i with weights w."""
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            r, k = torch.where(i == e)
            out.index_add_(0, r, ex(x[r]) * w[r, k, None])
        return out

    def weighted(self, x, w):
        """All experts with weights w."""
        return sum(w[:, e:e + 1] * ex(x) for e, ex in enumerate(self.experts))


class OfLetters(Routed):
    """The same on letters, [B, T, N] flattened."""

    def __init__(self, N):
        nn.Module.__init__(self)
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS, bias=False)
        self.router, self.count = nn.Linear(N, 4, bias=False), 4
        self.experts = nn.ModuleList(Gated(N, N) for _ in range(4))
        self.setup(N)

    def forward(self, t):
        x = self.wte(t)
        return self.head(x + self.mix(x.view(-1, x.shape[-1]), t).view(x.shape))


class MaxRouter(Routed):
    """Weights and experts by max."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        g, i = p.max(-1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            m = i == e
            if m.any():
                out[m] = ex(x[m])
        return out * g.unsqueeze(-1)


class ArgmaxRouter(Routed):
    """argmax, and its gate gathered."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        i = p.argmax(-1)
        g = p.gather(-1, i.unsqueeze(-1)).squeeze(-1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            idx = (i == e).nonzero().squeeze(-1)
            out = out.index_add(0, idx, ex(x[idx]) * g[idx].unsqueeze(-1))
        return out


class Topk1Squeeze(Routed):
    """The largest, squeezed."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        g, i = p.topk(1, -1)
        g, i = (g.squeeze(-1), i.squeeze(-1))
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            m = i == e
            out[m] = ex(x[m]) * g[m, None]
        return out


class Topk1Where(Routed):
    """Every expert sees all rows, where keeps its own."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        g, i = p.topk(1, -1)
        out = 0
        for e, ex in enumerate(self.experts):
            out = out + torch.where(i == e, g * ex(x), 0.0)
        return out


class Topk1Col(Routed):
    """The column of a top 1."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        g, i = p.topk(1, -1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            m = i[:, 0] == e
            out[m] = ex(x[m]) * g[m]
        return out


class Topk2Cols(Routed):
    """Slot by slot."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        g, i = p.topk(2, -1)
        out = torch.zeros_like(x)
        for k in range(2):
            for e, ex in enumerate(self.experts):
                m = i[:, k] == e
                out[m] += ex(x[m]) * g[m, k, None]
        return out


class ConstBias(Routed):
    """Scores plus a list of constants choose."""

    def mix(self, x):
        s = self.router(x).sigmoid()
        i = (s + torch.tensor([0.1, 0.0, -0.1, 0.05])).topk(2, -1).indices
        w = s.gather(-1, i)
        w = w / w.sum(-1, keepdim=True)
        return self.sent(x, w, i)


class BiasBuffer(Routed):
    """Scores plus a buffer choose."""

    def setup(self, N):
        self.register_buffer("b", torch.tensor([0.1, 0.0, -0.1, 0.05]))

    def mix(self, x):
        s = self.router(x).sigmoid()
        i = (s + self.b).topk(2, -1)[1]
        w = torch.zeros_like(s).scatter(1, i, s.gather(1, i))
        w = w / w.sum(-1, keepdim=True)
        return self.weighted(x, w)


class BiasParam(Routed):
    """Scores plus a parameter that nothing trains choose."""

    def setup(self, N):
        self.b = nn.Parameter(torch.tensor([0.1, 0.0, -0.1, 0.05]))

    def mix(self, x):
        s = self.router(x).sigmoid()
        i = (s + self.b).topk(2, -1)[1]
        w = torch.zeros_like(s).scatter(1, i, s.gather(1, i))
        w = w / (w.sum(-1, keepdim=True) + 1e-20)
        return self.weighted(x, w)


class NoisyEval(Routed):
    """Logits over minus infinity."""

    def mix(self, x):
        logits = self.router(x)
        z = torch.full_like(logits, float("-inf"))
        v, i = logits.topk(2, -1)
        z = z.scatter(-1, i, v)
        w = z.softmax(-1)
        return self.weighted(x, w)


class Kth(Routed):
    """All that are not below the second largest."""

    def mix(self, x):
        logits = self.router(x)
        kth = logits.topk(2, -1)[0][..., -1, None]
        w = logits.masked_fill(logits < kth, float("-inf")).softmax(-1)
        return self.weighted(x, w)


class StraightThrough(Routed):
    """A choice with the gradient of the shares."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        h = F.one_hot(p.argmax(-1), self.count).to(p.dtype)
        w = h + p - p.detach()
        return self.weighted(x, w)


class Isin(Routed):
    """The same with tensors and index_select."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        i = p.topk(2, -1).indices
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            hit = (i == torch.tensor(e)).any(dim=1).nonzero().flatten()
            out[hit] += p[hit, e].unsqueeze(1) * ex(x.index_select(0, hit))
        return out


class Unbind(Routed):
    """GShard: the first and the second expert apart."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        i1 = p.argmax(-1)
        h1 = F.one_hot(i1, 4)
        p2 = p * (1 - h1)
        i2 = p2.argmax(-1)
        h2 = F.one_hot(i2, 4)
        g1, g2 = ((p * h1).sum(-1), (p * h2).sum(-1))
        d = g1 + g2 + 1e-09
        w = (g1 / d)[:, None] * h1 + (g2 / d)[:, None] * h2
        return self.weighted(x, w)


class Llama4(Routed):
    """Sigmoid over minus infinity, in front of the expert."""

    def mix(self, x):
        logits = self.router(x)
        v, i = logits.topk(1, 1)
        s = torch.full_like(logits, float("-inf")).scatter_(1, i, v).sigmoid()
        return sum((ex(x * s[:, e:e + 1]) for e, ex in enumerate(self.experts)))


class FirstSlots(Routed):
    """Two of the three largest."""

    def mix(self, x):
        v, i = self.router(x).topk(3, -1)
        return self.sent(x, v[:, :2].softmax(-1), i[:, :2])


class LastSlot(Routed):
    """All that are as large as the second one, which is a slice."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        return self.weighted(x, p * (p >= p.topk(2, -1).values[:, -1:]))


IDIOMS = [
    MaxRouter, ArgmaxRouter, Topk1Squeeze, Topk1Where, Topk1Col, Topk2Cols, ConstBias, BiasBuffer,
    BiasParam, NoisyEval, Kth, StraightThrough, Isin, Unbind, Llama4, FirstSlots, LastSlot]
