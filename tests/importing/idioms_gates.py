"""Routers as people write them: gates, groups, stacked matrices, letters."""
import torch
from idioms import OfLetters, Routed
from modules import LETTERS, PLACES, Gated
from torch import nn
from torch.nn import functional as F


class AbsScalar(Routed):
    """The size of a trained number."""

    def setup(self, N):
        self.g = nn.Parameter(torch.tensor(0.7))

    def mix(self, x):
        return (self.g ** 2) ** 0.5 * self.experts[0](x) * self.router(x).softmax(-1)[:, :1]


class ClampTensor(Routed):
    """A sum cut off at a tensor."""

    def mix(self, x):
        w = self.router(x).sigmoid()
        d = w.sum(-1, keepdim=True).clamp(min=torch.tensor(1e-06))
        return sum(((w / d)[:, e:e + 1] * ex(x) for e, ex in enumerate(self.experts)))


class LogSoftmax(Routed):
    """Gates as exponentials."""

    def mix(self, x):
        w = F.log_softmax(self.router(x), -1).exp()
        return self.weighted(x, w)


class SoftplusBeta(Routed):
    """Gates by a softplus with a beta."""

    def mix(self, x):
        w = F.softplus(self.router(x), beta=2)
        w = w / w.sum(-1, keepdim=True)
        return self.weighted(x, w)


class Groups(Routed):
    """DeepSeek-V3: experts of the best two of four groups."""

    def __init__(self, N):
        super().__init__(N, 8, 2)

    def mix(self, x):
        s = self.router(x).sigmoid()
        b = torch.zeros(8)
        c = s + b
        gs = c.view(-1, 4, 2).topk(2, -1)[0].sum(-1)
        gi = gs.topk(2, -1)[1]
        gm = torch.zeros_like(gs).scatter_(1, gi, 1)
        sm = gm.unsqueeze(-1).expand(-1, 4, 2).reshape(-1, 8)
        t = c.masked_fill(~sm.bool(), float("-inf"))
        i = t.topk(2, -1)[1]
        w = s.gather(1, i)
        w = 2.5 * w / (w.sum(-1, keepdim=True) + 1e-20)
        return self.sent(x, w, i)


class Groups0(Groups):
    """DeepSeek-V2: groups by their largest, the others 0."""

    def mix(self, x):
        s = self.router(x).softmax(-1)
        gs = s.view(-1, 4, 2).max(-1).values
        gi = torch.topk(gs, k=2, dim=-1, sorted=False)[1]
        gm = torch.zeros_like(gs)
        gm.scatter_(1, gi, 1)
        sm = gm.unsqueeze(-1).expand(-1, 4, 2).reshape(-1, 8)
        t = s.masked_fill(~sm.bool(), 0.0)
        w, i = torch.topk(t, k=2, dim=-1, sorted=False)
        return self.sent(x, w, i)


class SharedGate(Routed):
    """Qwen2-MoE: a shared expert with a gate, a loop over the experts that were hit."""

    def setup(self, N):
        self.shared, self.sg = (Gated(N, 2 * N), nn.Linear(N, 1, bias=False))

    def mix(self, x):
        w, i = self.router(x).softmax(-1).topk(2, -1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        hot = F.one_hot(i, self.count).permute(2, 1, 0)
        for e in (hot.sum((-1, -2)) > 0).nonzero():
            k, r = torch.where(hot[e].squeeze(0))
            cur = x[None, r].reshape(-1, x.shape[1])
            out.index_add_(0, r, self.experts[e](cur) * w[r, k, None])
        return out + self.sg(x).sigmoid() * self.shared(x)


class SortDispatch(Routed):
    """DeepSeek, rows sorted by experts."""

    def mix(self, x):
        w, i = self.router(x).softmax(-1).topk(2, -1)
        cnts = i.new_zeros((i.shape[0], self.count))
        cnts.scatter_(1, i, 1)
        per = cnts.sum(0)
        idxs = i.view(-1).argsort()
        xs = x[idxs // i.shape[1]]
        outs = []
        start = 0
        for e, n in enumerate(per.tolist()):
            n = int(n)
            outs.append(self.experts[e](xs[start:start + n]))
            start += n
        outs = torch.cat(outs)
        new = torch.empty_like(outs)
        new[idxs] = outs
        return (new.view(*i.shape, -1) * w.unsqueeze(-1)).sum(1)


class Stacked(Routed):
    """GShard: dispatch and combine."""

    def setup(self, N):
        self.w1, self.w2 = (nn.Parameter(torch.randn(4, N, N) / N ** 0.5) for _ in range(2))
        del self.experts

    def mix(self, x):
        g, i = self.router(x).softmax(-1).topk(2, -1)
        comb = (F.one_hot(i, 4).to(g.dtype) * g.unsqueeze(-1)).sum(1)
        d = (comb > 0).to(x.dtype)
        xe = torch.einsum("pe,pn->epn", d, x)
        h = F.gelu(torch.bmm(xe, self.w1))
        y = torch.bmm(h, self.w2)
        return torch.einsum("pe,epn->pn", comb, y)


class GatherWeights(Routed):
    """The matrices of the experts of each row."""

    def setup(self, N):
        self.w1, self.w2 = (nn.Parameter(torch.randn(4, N, N) / N ** 0.5) for _ in range(2))
        del self.experts

    def mix(self, x):
        g, i = self.router(x).softmax(-1).topk(2, -1)
        h = torch.einsum("pn,pkmn->pkm", x, self.w1[i]).relu()
        y = torch.einsum("pkm,pknm->pkn", h, self.w2[i])
        return torch.einsum("pkn,pk->pn", y, g)


class CosineRouter(Routed):
    """Angles between rows and experts."""

    def setup(self, N):
        self.temp = nn.Parameter(torch.tensor(1.0))

    def mix(self, x):
        logits = F.linear(F.normalize(x, dim=-1), F.normalize(self.router.weight, dim=-1))
        logits = logits * self.temp.exp()
        w = logits.softmax(-1)
        return self.weighted(x, w)


class Relu(Routed):
    """ReMoE."""

    def mix(self, x):
        w = self.router(x).relu()
        return self.weighted(x, w)


class TwoRouters(Routed):
    """Two levels of gates."""

    def setup(self, N):
        self.r2 = nn.Linear(N, 2, bias=False)

    def mix(self, x):
        a, b = (self.r2(x).softmax(-1), self.router(x).view(-1, 2, 2).softmax(-1))
        w = (a.unsqueeze(-1) * b).flatten(1)
        return self.weighted(x, w)


class LowRank(Routed):
    """A router through three numbers."""

    def setup(self, N):
        self.router = nn.Sequential(nn.Linear(N, 3), nn.Tanh(), nn.Linear(3, 4))

    def mix(self, x):
        w = self.router(x).softmax(-1)
        return self.weighted(x, w)


class LoraExperts(Routed):
    """Experts of rank two on a common matrix."""

    def setup(self, N):
        self.base = nn.Linear(N, N, bias=False)
        self.A = nn.Parameter(torch.randn(4, 2, N) / N ** 0.5)
        self.B = nn.Parameter(torch.randn(4, N, 2))
        del self.experts

    def mix(self, x):
        w = self.router(x).softmax(-1)
        low = torch.einsum("enr,per->pen", self.B, torch.einsum("ern,pn->per", self.A, x))
        return self.base(x) + torch.einsum("pe,pen->pn", w, low)


class GptOss(Routed):
    """gpt-oss: interleaved halves, clamps, biases, bmm."""

    def setup(self, N):
        self.router = nn.Linear(N, 4)
        self.gu = nn.Parameter(torch.randn(4, N, 2 * N) / N ** 0.5)
        self.gub = nn.Parameter(torch.zeros(4, 2 * N))
        self.dn = nn.Parameter(torch.randn(4, N, N) / N ** 0.5)
        self.dnb = nn.Parameter(torch.zeros(4, N))
        del self.experts

    def mix(self, x):
        logits = self.router(x)
        v, i = logits.topk(2, -1)
        v = v.softmax(-1)
        s = torch.zeros_like(logits).scatter_(1, i, v)
        h = x.repeat(4, 1).view(4, -1, x.shape[1])
        gu = torch.bmm(h, self.gu) + self.gub[:, None, :]
        g, u = (gu[..., ::2], gu[..., 1::2])
        g = g.clamp(min=None, max=7.0)
        u = u.clamp(min=-7.0, max=7.0)
        y = torch.bmm((u + 1) * (g * torch.sigmoid(g * 1.702)), self.dn) + self.dnb[:, None, :]
        return (y * s.t()[..., None]).sum(0)


class TokMax(OfLetters):
    """On letters, flattened."""

    def mix(self, x, t):
        p = self.router(x).softmax(-1)
        g, i = p.max(-1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            m = i == e
            out[m] = ex(x[m]) * g[m].unsqueeze(-1)
        return out


class TokHash(OfLetters):
    """Hash routing by a table."""

    def setup(self, N):
        self.register_buffer("table", torch.arange(LETTERS) % 4)

    def mix(self, x, t):
        i = self.table[t].view(-1)
        out = torch.zeros_like(x)
        for e, ex in enumerate(self.experts):
            m = i == e
            out[m] = ex(x[m])
        return out


class Copies(Routed):
    """DeepSeek's training code, minimind: a row for each slot, and all slots in one dimension."""

    def slots(self, flat, rows, y):
        """Puts what experts make of their slots into y."""
        for e, ex in enumerate(self.experts):
            y[flat == e] = ex(rows[flat == e]) + 0.5 * rows[flat == e]
        return y

    def mix(self, x, *_):
        w, i = self.router(x).softmax(-1).topk(2, -1)
        rows = x.repeat_interleave(2, 0)
        y = self.slots(i.view(-1), rows, torch.empty_like(rows))
        return (y.view(*w.shape, -1) * w.unsqueeze(-1)).sum(1)


class CopiesByPlace(Copies):
    """The same by their places; what all have made is bent before it is weighted."""

    def slots(self, flat, rows, y):
        y = torch.zeros_like(rows)
        for e, ex in enumerate(self.experts):
            r = torch.where(flat == e)[0]
            if r.numel():
                y.index_add_(0, r, ex(rows[r]))
        return torch.tanh(y)


class TokCopies(OfLetters, Copies):
    """On letters, flattened, with loads of each sequence (DeepSeek-V2), of all tokens, and of each
    slot (transformers) in its loss."""

    def forward(self, t):
        p = self.router(self.wte(t)).softmax(-1)
        i = p.topk(2, -1).indices
        load = torch.zeros(len(t), 4, dtype=p.dtype).scatter_add_(
            1, i.view(len(t), -1), torch.ones(len(t), 2 * t.shape[1], dtype=p.dtype))
        chosen, p = F.one_hot(i.view(-1, 2), 4).to(p.dtype), p.view(-1, 4)
        flat = F.one_hot(i.view(-1), 4).to(p.dtype).mean(0)
        return super().forward(t), 0.1 * (load * p.view(*t.shape, 4).mean(1)).sum(1).mean(), \
            (chosen.mean(0) * p.mean(0)).sum(), (flat * p.mean(0)).sum()


class MoD(nn.Module):
    """Mixture of depths: two tokens of a sequence."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = (nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS, bias=False))
        self.r = nn.Linear(N, 1, bias=False)
        self.ex = Gated(N, N)
        self.wpe = nn.Embedding(PLACES, N)

    def forward(self, t):
        x = self.wte(t) + self.wpe(torch.arange(PLACES))
        s = self.r(x).squeeze(-1)
        i = s.topk(2, 1).indices
        m = torch.zeros_like(s).scatter_(1, i, 1.0)
        return self.head(x + (m * s.sigmoid()).unsqueeze(-1) * self.ex(x))


class GroupsHidden(Routed):
    """DeepSeek-V3 as its authors write it: what is not in the best groups is hidden by a mask of
    ones with zeros scattered into it."""

    def __init__(self, N, groups=4):
        self.groups = groups
        super().__init__(N, 8, 2)

    def setup(self, N):
        self.register_buffer("offset", torch.linspace(-0.01, 0.01, 8))

    def mix(self, x):
        original = self.router(x).sigmoid()
        scores = (original + self.offset).view(len(x), self.groups, -1)
        best = scores.topk(2, -1)[0].sum(-1).topk(min(2, self.groups), -1)[1]
        hidden = scores.new_ones(len(x), self.groups, dtype=bool).scatter_(1, best, False)
        scores = scores.masked_fill_(hidden.unsqueeze(-1), float("-inf")).flatten(1)
        i = scores.topk(2, -1)[1]
        w = original.gather(1, i)
        return self.sent(x, w / w.sum(-1, keepdim=True) * 2.5, i)


class OneGroup(GroupsHidden):
    """All experts in one group, as the configurations of GLM and dots have it."""

    def __init__(self, N):
        super().__init__(N, 1)


IDIOMS = [
    AbsScalar, ClampTensor, LogSoftmax, SoftplusBeta, Groups, Groups0, SharedGate, SortDispatch,
    Stacked, GatherWeights, CosineRouter, Relu, TwoRouters, LowRank, LoraExperts, GptOss, TokMax,
    TokHash, Copies, CopiesByPlace, TokCopies, MoD, GroupsHidden, OneGroup]
