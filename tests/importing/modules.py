"""Modules as people write them, each a function of its width."""
import math

import torch
from torch import nn
from torch.nn import functional as F

NUMBERS, PLACES, LETTERS = 7, 5, 9      # of an input; of a text


def numbers(rows=48):
    """Inputs [rows, NUMBERS]."""
    return torch.randn(rows, NUMBERS, generator=torch.Generator().manual_seed(3))


def letters(rows=24):
    """Tokens [rows, PLACES]."""
    return torch.randint(LETTERS, (rows, PLACES), generator=torch.Generator().manual_seed(3))


class Perceptron(nn.Module):
    """Two hidden layers."""

    def __init__(self, N, bias=True, act=torch.tanh):
        super().__init__()
        self.first, self.second = nn.Linear(NUMBERS, N, bias=bias), nn.Linear(N, 2 * N, bias=bias)
        self.last, self.act = nn.Linear(2 * N, 1, bias=False), act

    def forward(self, x):
        return self.last(self.act(self.second(self.act(self.first(x))))).squeeze(-1)


class Residual(nn.Module):
    """Blocks with norms on a stream, three outputs."""

    def __init__(self, N, norm=nn.LayerNorm, blocks=2):
        super().__init__()
        self.inlet = nn.Linear(NUMBERS, N)
        self.norms = nn.ModuleList(norm(N) for _ in range(blocks + 1))
        self.up = nn.ModuleList(nn.Linear(N, 3 * N) for _ in range(blocks))
        self.down = nn.ModuleList(nn.Linear(3 * N, N) for _ in range(blocks))
        self.outlet = nn.Linear(N, 3, bias=False)

    def forward(self, x):
        h = self.inlet(x)
        for norm, up, down in zip(self.norms, self.up, self.down):
            h = h + down(F.gelu(up(norm(h))))
        return self.outlet(self.norms[-1](h))


class Attention(nn.Module):
    """Causal attention from one packed matrix; `fused`: by PyTorch's function, else by hand."""

    def __init__(self, N, heads=2, bias=True, fused=True, power=0.5):
        super().__init__()
        self.qkv, self.out = nn.Linear(N, 3 * N, bias=bias), nn.Linear(N, N, bias=bias)
        self.heads, self.fused, self.power = heads, fused, power
        self.register_buffer("seen", torch.ones(PLACES, PLACES).tril().bool())

    def forward(self, x):
        P, n, N = x.shape
        d = N // self.heads
        parts = self.qkv(x).view(P, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            logits = q @ k.mT * d ** -self.power
            y = logits.masked_fill(~self.seen, -math.inf).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(P, n, N))


class Heads(nn.Module):
    """Attention of N/d heads of d numbers; `share` of them have the same keys and values, and
    queries, keys and values are then a matrix each."""

    def __init__(self, N, d=4, share=1, fused=True, packed=None):
        super().__init__()
        self.d, self.fused, sizes = d, fused, [N, N // share, N // share]
        self.qkv = nn.ModuleList(nn.Linear(N, n, bias=False) for n in (
            [sum(sizes)] if (share == 1 if packed is None else packed) else sizes))
        self.out, self.sizes, self.share = nn.Linear(N, N, bias=False), sizes, share
        self.register_buffer("seen", torch.ones(PLACES, PLACES).tril().bool())

    def forward(self, x):
        P, n, N = x.shape
        parts = [one(x) for one in self.qkv]
        parts = parts[0].split(self.sizes, -1) if len(parts) == 1 else parts
        q, k, v = (one.view(P, n, -1, self.d).transpose(1, 2) for one in parts)
        k, v = (one.repeat_interleave(self.share, 1) for one in (k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = (q @ k.mT / self.d).masked_fill(~self.seen, -math.inf).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(P, n, N))


class Transformer(nn.Module):
    """Predicts the next letter."""

    def __init__(self, N, bias=True, blocks=2, **attention):
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, N), nn.Embedding(PLACES, N)
        self.norms = nn.ModuleList(nn.LayerNorm(N, bias=bias) for _ in range(2 * blocks + 1))
        self.attention = nn.ModuleList(Attention(N, bias=bias, **attention) for _ in range(blocks))
        self.layers = nn.ModuleList(nn.Sequential(
            nn.Linear(N, 2 * N, bias=bias), nn.GELU(), nn.Linear(2 * N, N, bias=bias))
            for _ in range(blocks))
        self.head = nn.Linear(N, LETTERS, bias=False)

    def forward(self, tokens):
        h = self.letter(tokens) + self.place(torch.arange(tokens.shape[1]))
        for k, (attention, layer) in enumerate(zip(self.attention, self.layers)):
            h = h + attention(self.norms[2 * k](h))
            h = h + layer(self.norms[2 * k + 1](h))
        return self.head(self.norms[-1](h))


class Encoder(nn.Module):
    """A layer as PyTorch has it, on rows of numbers."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = nn.Linear(NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.layer = nn.TransformerEncoderLayer(N, 2, 2 * N, 0.0, batch_first=True,
                                                norm_first=True)

    def forward(self, x):
        return self.head(self.layer(self.read(x)).mean(1))[:, 0]


class Bottleneck(nn.Module):
    """What is trained beside matrices: a number, scales of units, three numbers in between; and
    a layer that is used twice."""

    def __init__(self, N, act=F.elu):
        super().__init__()
        self.read, self.head = nn.Linear(NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.down, self.up = nn.Linear(N, 3, bias=False), nn.Linear(3, N, bias=False)
        self.twice, self.act = nn.Linear(N, N, bias=False), act
        self.number = nn.Parameter(torch.tensor(0.3))
        self.scale = nn.Parameter(torch.full((N,), 0.1))

    def forward(self, x):
        h = self.read(x)
        h = h + self.number * self.twice(self.act(h)) * self.scale
        h = h + self.twice(self.act(h))
        return self.head(h + self.up(self.down(h)))[:, 0]


class Mixture(nn.Module):
    """What all mixtures here share: a layer below, and a head on the stream."""

    def __init__(self, N, experts=4, top=2, bias=False):
        super().__init__()
        self.read, self.head = nn.Linear(NUMBERS, N, bias=False), nn.Linear(N, 1, bias=False)
        self.router = nn.Linear(N, experts, bias=bias)
        self.count, self.top = experts, top

    def forward(self, x):
        x = torch.tanh(self.read(x))
        return self.head(x + self.mix(x))[:, 0]


class Soft(Mixture):
    """All experts process every input; their matrices are one tensor."""

    def __init__(self, N):
        super().__init__(N)
        self.up = nn.Parameter(torch.randn(self.count, N, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(self.count, N, N) * N ** -0.5)

    def mix(self, x):
        gates = self.router(x).softmax(-1)
        hidden = F.relu(torch.einsum("pn,emn->pem", x, self.up))
        return torch.einsum("pe,pem,enm->pn", gates, hidden, self.down)


class Gated(nn.Module):
    """An expert whose hidden units are gated."""

    def __init__(self, N, units):
        super().__init__()
        self.gate, self.up = (nn.Linear(N, units, bias=False) for _ in range(2))
        self.down = nn.Linear(units, N, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Dispatched(Mixture):
    """Each expert sees the rows that chose it (torch.where, index_add_)."""

    def __init__(self, N):
        super().__init__(N)
        self.experts = nn.ModuleList(Gated(N, 2 * N) for _ in range(self.count))

    def mix(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.top, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        hot, total = F.one_hot(chosen, self.count).permute(2, 1, 0), torch.zeros_like(x)
        for expert, mask in zip(self.experts, hot):
            slot, row = torch.where(mask)
            total.index_add_(0, row, expert(x[row]) * weights[row, slot, None])
        return total


class Shared(Mixture):
    """Sigmoid scores, a selection bias in a buffer, and an expert that sees everything."""

    def __init__(self, N):
        super().__init__(N)
        self.experts = nn.ModuleList(Gated(N, N) for _ in range(self.count))
        self.common = Gated(N, 2 * N)
        self.register_buffer("correction", torch.zeros(self.count))

    def mix(self, x):
        scores = self.router(x).sigmoid()
        chosen = (scores + self.correction).topk(self.top, -1).indices
        weights = scores.gather(1, chosen)
        weights = 1.5 * weights / weights.sum(-1, keepdim=True)
        total = torch.zeros_like(x)
        for e, load in enumerate(chosen.flatten().bincount(minlength=self.count).tolist()):
            if load:
                row, slot = (chosen == e).nonzero(as_tuple=True)
                total[row] += self.experts[e](x[row]) * weights[row, slot, None]
        return total + self.common(x)


class Scattered(Mixture):
    """Gates over the chosen logits are scattered back; rows are found by boolean masks."""

    def __init__(self, N):
        super().__init__(N, bias=True)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N))
                                     for _ in range(self.count))

    def mix(self, x):
        logits = self.router(x)
        largest, chosen = logits.topk(self.top, -1)
        gates = torch.zeros_like(logits).scatter(-1, chosen, largest.softmax(-1))
        total = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mine = (chosen == e).any(-1)
            total[mine] += expert(x[mine]) * gates[mine, e, None]
        return total


class Many(nn.Module):
    """M experts of two units, M half of the width."""

    def __init__(self, N, share=None):
        super().__init__()
        M = N // 2
        self.read, self.head = nn.Linear(NUMBERS, N, bias=False), nn.Linear(N, 1, bias=False)
        self.router = nn.Linear(N, M, bias=False)
        self.up = nn.Parameter(torch.randn(M, 2, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(N, M, 2) * M ** -0.5)
        self.top = share and int(share * M)

    def forward(self, x):
        x = torch.tanh(self.read(x))
        logits = self.router(x)
        if self.top:
            largest, chosen = logits.topk(self.top, -1)
            gates = torch.zeros_like(logits).scatter(-1, chosen, largest.sigmoid())
        else:
            gates = logits.sigmoid()
        return self.head(self.mixed(torch.einsum("pn,mun->pmu", x, self.up).tanh(), gates))[:, 0]

    def mixed(self, hidden, gates):
        """The sum over experts."""
        return torch.einsum("pmu,nmu->pn", hidden * gates[..., None], self.down)


class Outputs(Many):
    """What each expert makes is there before it is multiplied by its gate and summed."""

    def mixed(self, hidden, gates):
        made = torch.einsum("pmu,nmu->pmn", hidden, self.down)
        return ((made + 0.5 * made) * gates[..., None]).sum(1) - (0.5 * gates[..., None] * made
                                                                  ).sum(1)


class Wide(nn.Module):
    """M experts of as many units as the network has; both grow."""

    def __init__(self, N, M=None):
        super().__init__()
        M = M or N // 4
        self.read, self.head = nn.Linear(NUMBERS, N, bias=False), nn.Linear(N, 1, bias=False)
        self.router = nn.Linear(N, M, bias=False)
        self.up = nn.Parameter(torch.randn(M, N, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(M, N, N) * N ** -0.5)

    def forward(self, x):
        x = torch.tanh(self.read(x))
        hidden = torch.einsum("pn,mun->pmu", x, self.up).relu()
        gates = self.router(x).sigmoid()
        return self.head(x + self.mixed(hidden, gates[..., None]) / len(self.up))[:, 0]

    def mixed(self, hidden, gates):
        """The sum over experts."""
        return torch.einsum("pmu,mnu->pn", hidden * gates, self.down)


class WideOutputs(Wide):
    """What each expert makes is there before it is multiplied by its gate and summed."""

    def mixed(self, hidden, gates):
        return (torch.einsum("pmu,mnu->pmn", hidden, self.down) * gates).sum(1)


class Bent(WideOutputs):
    """Something is done to what each expert makes, which no program does."""

    def __init__(self, N, M, bend=F.relu):
        super().__init__(N, M)
        self.gain, self.bend = nn.Parameter(torch.ones(N)), bend

    def mixed(self, hidden, gates):
        made = torch.einsum("pmu,mnu->pmn", hidden, self.down)
        return (self.bend(made) * gates).sum(1) * self.gain


class Flat(nn.Module):
    """Experts that grow in number and width, whose units are one axis of a matrix: taken apart by a
    view into M experts, halves and a mean over them (gated), or by gates that are repeated."""

    def __init__(self, N, M=None, gated=False, bias=True):
        super().__init__()
        self.M, self.gated, units = M or N // 4, gated, N // 2
        self.read, self.head = nn.Linear(NUMBERS, N, bias=False), nn.Linear(N, 1, bias=False)
        self.router = nn.Linear(N, self.M, bias=False)
        self.up = nn.Linear(N, self.M * units * (2 if gated else 1), bias=bias)
        self.down = nn.Linear(self.M * units, N, bias=False)
        self.shared = nn.Linear(N, units, bias=False)

    def forward(self, x):
        x = torch.tanh(self.read(x))
        gates, hidden = self.router(x).sigmoid(), self.up(x)
        if self.gated:
            gate, hidden = hidden.view(len(x), self.M, -1).chunk(2, -1)
            hidden = F.silu(gate) * hidden * gates[..., None]
            hidden = (hidden - 0.5 * hidden.mean(1, keepdim=True)).flatten(1)
        else:                           # what all experts share is copied to each
            hidden = hidden + self.shared(x).repeat(1, self.M)
            hidden = hidden.relu() * gates.repeat_interleave(hidden.shape[1] // self.M, 1)
        if self.gated:
            hidden = hidden * self.shared(x).repeat(1, self.M)
        return self.head(x + self.down(hidden) / self.M)[:, 0]


def many_heads(N, **heads):
    """A transformer whose heads grow in number."""
    model = Transformer(N, bias=False, blocks=1)
    model.attention[0] = Heads(N, **heads)
    return model


# name: (build, example, what import_module is given beside them)
MODULES = {
    "perceptron": (Perceptron, numbers, {}),
    "without_biases": (lambda N: Perceptron(N, False, F.relu), numbers, {}),
    "logs": (lambda N: Perceptron(N, False, lambda h: torch.sqrt(1 + torch.log1p(h * h))
                                - torch.logaddexp(torch.expm1(torch.tanh(h)), -h)), numbers, {}),
    "layer_norm": (Residual, numbers, {}),
    "rms_norm": (lambda N: Residual(N, nn.RMSNorm), numbers, {}),
    "transformer": (Transformer, letters, {}),
    "by_hand": (lambda N: Transformer(N, bias=False, fused=False), letters, {}),
    "over_d": (lambda N: Transformer(N, bias=False, fused=False, power=1.0), letters, {}),
    "encoder": (Encoder, lambda: torch.randn(24, PLACES, NUMBERS, generator=torch.Generator(
        ).manual_seed(3)), {}),
    "bottleneck": (Bottleneck, numbers, {}),
    "soft": (Soft, numbers, {}),
    "dispatched": (Dispatched, numbers, {}),
    "shared": (Shared, numbers, {}),
    "scattered": (Scattered, numbers, {}),
    "many": (Many, numbers, {}),
    "many_top": (lambda N: Many(N, 0.25), numbers, {}),
    "many_outputs": (Outputs, numbers, {}),
    "many_outputs_top": (lambda N: Outputs(N, 0.25), numbers, {}),
    "wide": (Wide, numbers, {}),
    "wide_outputs": (WideOutputs, numbers, {}),
    "many_heads": (many_heads, letters, {}),
    "shared_heads": (lambda N: many_heads(N, share=2, fused=False), letters, {}),
    "flat": (Flat, numbers, {}),
    "flat_gated": (lambda N: Flat(N, gated=True), numbers, {}),
}
