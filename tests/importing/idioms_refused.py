"""Routers as people write them that are not read, each with a word of the sentence that says so."""
import torch
from idioms import OfLetters, Routed
from modules import NUMBERS, Gated
from torch import nn
from torch.nn import functional as F


class SoftplusThreshold(Routed):
    """A softplus that jumps."""

    def mix(self, x):
        w = F.softplus(self.router(x), beta=1, threshold=5)
        w = w / w.sum(-1, keepdim=True)
        return self.weighted(x, w)


class Capacity(Routed):
    """Switch with a capacity over inputs."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        h = F.one_hot(p.argmax(-1), self.count)
        pos = (h.cumsum(0) - 1) * h
        keep = (pos < 20) & (h > 0)
        w = p * keep
        return self.weighted(x, w)


class ExpertChoice(Routed):
    """Experts choose inputs."""

    def mix(self, x):
        s = self.router(x).softmax(-1)
        g, i = s.t().topk(12, -1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            out.index_add_(0, i[e], ex(x[i[e]]) * g[e, :, None])
        return out


class TopP(Routed):
    """As many experts as have 60 per cent."""

    def mix(self, x):
        p = self.router(x).softmax(-1)
        s, i = p.sort(-1, descending=True)
        k = s.cumsum(-1) - s < 0.6
        w = torch.zeros_like(p).scatter(1, i, s * k)
        return self.weighted(x, w)


class TokHash2(OfLetters):
    """Hash routing by a remainder."""

    def mix(self, x, t):
        h = F.one_hot(t.view(-1) % 4, 4).to(x.dtype)
        return sum((h[:, e:e + 1] * ex(x) for e, ex in enumerate(self.experts)))


class TokChoice(OfLetters):
    """Experts choose tokens one by one."""

    def forward(self, t):
        x = self.wte(t)
        s = self.router(x).softmax(-1)
        g, i = s.transpose(1, 2).topk(2, -1)
        P = F.one_hot(i, x.shape[1]).to(x.dtype)
        xin = torch.einsum("bect,btn->becn", P, x)
        y = torch.stack([ex(xin[:, e]) for e, ex in enumerate(self.experts)], 1)
        return self.head(x + torch.einsum("bect,bec,becn->btn", P, g, y))


class TokCapacity(OfLetters):
    """A capacity over tokens."""

    def mix(self, x, t):
        p = self.router(x).softmax(-1)
        h = F.one_hot(p.argmax(-1), 4).view(*t.shape, 4)
        keep = (h.cumsum(1) <= 2) & (h > 0)
        w = (p.view(*t.shape, 4) * keep).view(-1, 4)
        return self.weighted(x, w)


REFUSED = {
    SoftplusThreshold: "jumps at its threshold",
    Capacity: "cumsum",
    ExpertChoice: "all inputs",
    TopP: "sorted numbers",
    TokHash2: "remainder",
    TokChoice: "one by one",
    TokCapacity: "cumsum"}
