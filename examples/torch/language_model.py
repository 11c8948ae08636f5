"""A language model with a mixture of experts, trained in plain PyTorch, with a plan or without.

    python3 examples/torch/language_model.py --plan mssp.json --make mssp       # once: needs dmft
    python3 examples/torch/language_model.py --width 256 --plan mssp.json --lr 0.008
    python3 examples/torch/language_model.py --width 256 --lr 0.008             # without a plan

It reads the documents of this project, letter by letter, each part once, and says how many bits a
letter of the last tenth costs it. The number of experts grows with the width. Where a plan is used
its learning rate is the one at the base, width 64.
"""
import argparse
import glob
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENTS = os.path.join(HERE, "..", "..", "docs")
BASE, UNITS, WINDOW, BATCH = 64, 16, 32, 8


class Attention(nn.Module):
    """Causal attention of two heads."""

    def __init__(self, N, heads=2):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(N, N, bias=False) for _ in range(4))
        self.heads = heads

    def forward(self, x):
        P, n, N = x.shape
        q, k, v = (layer(x).view(P, n, self.heads, -1).transpose(1, 2)
                   for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(P, n, N))


class Experts(nn.Module):
    """M experts of some units; each token takes the quarter of them with the largest scores."""

    def __init__(self, N, M):
        super().__init__()
        self.router = nn.Linear(N, M, bias=False)
        self.up = nn.Parameter(torch.randn(M, UNITS, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(M, N, UNITS) * UNITS ** -0.5)
        self.chosen = M // 4

    def forward(self, x):
        scores, best = self.router(x).topk(self.chosen, -1)
        gates = torch.zeros(*x.shape[:-1], len(self.up)).scatter(-1, best, scores.sigmoid())
        hidden = F.relu(torch.einsum("ptn,mun->ptmu", x, self.up)) * gates[..., None]
        return torch.einsum("ptmu,mnu->ptn", hidden, self.down) / self.chosen


class LanguageModel(nn.Module):
    """Blocks of attention and experts on a stream, one as it stands."""

    def __init__(self, N, M, letters=64, blocks=1):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, N), nn.Embedding(WINDOW, N)
        self.attention = nn.ModuleList(Attention(N) for _ in range(blocks))
        self.experts = nn.ModuleList(Experts(N, M) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.RMSNorm(N) for _ in range(2 * blocks + 1))
        self.head = nn.Linear(N, letters, bias=False)

    def forward(self, tokens):
        x = self.letter(tokens) + self.place(torch.arange(tokens.shape[1]))
        for k, (attention, experts) in enumerate(zip(self.attention, self.experts)):
            x = x + attention(self.norms[2 * k](x))
            x = x + experts(self.norms[2 * k + 1](x))
        return self.head(self.norms[-1](x))


def windows(letters=64):
    """The text in windows of one letter more than the model reads: (to learn from, held out)."""
    files = sorted(glob.glob(os.path.join(DOCUMENTS, "**", "*.md"), recursive=True))
    text = "".join(open(file, encoding="utf-8").read() for file in files).lower()
    kinds = sorted(set(text), key=lambda one: (-text.count(one), one))[:letters - 1]
    number = {one: k + 1 for k, one in enumerate(kinds)}        # 0: all others
    tokens = torch.tensor([number.get(one, 0) for one in text])
    tokens = tokens[:len(tokens) // (WINDOW + 1) * (WINDOW + 1)].view(-1, WINDOW + 1)
    last = len(tokens) // 10
    return tokens[:-last], tokens[-last:]


def bits(model, tokens):
    """Of a letter."""
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()) / torch.tensor(2.0).log()


def train(model, optimizer, read, steps, seed):
    """Trains by windows that are drawn once each; the rate falls to zero."""
    order = torch.randperm(len(read), generator=torch.Generator().manual_seed(seed))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for step in range(steps):
        optimizer.zero_grad()
        loss = bits(model, read[order[step * BATCH:(step + 1) * BATCH]])
        loss.backward()
        optimizer.step()
        schedule.step()
        if not loss.isfinite():
            break
    return model


def held_out(model, tokens, most=256):
    """Bits of a letter of text that was not learned from."""
    with torch.no_grad():
        return bits(model, tokens[:most]).item()


def build(N, M):
    """The model of width N with M experts."""
    return LanguageModel(N, M)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plan", help="file of a plan")
    parser.add_argument("--make", choices=("mssp", "mup", "sp"), help="makes the plan")
    parser.add_argument("--width", type=int, default=BASE)
    parser.add_argument("--lr", type=float, default=2 ** -7)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.make:
        import dmft.torch
        plan = dmft.torch.plan(build, torch.randint(64, (24, WINDOW)), {"N": BASE, "M": BASE // 8},
                               given.make)
        plan.save(given.plan or sys.exit("--make needs --plan FILE"))
        print(plan)
        return
    torch.manual_seed(given.seed)
    read, rest = windows()
    model, groups = build(given.width, given.width // 8), None
    if given.plan:
        from dmft.torch import Plan
        plan = Plan.load(given.plan)
        plan.initialize(model)
        groups = plan.groups(model, lr=given.lr, weight_decay=0.01)
    optimizer = torch.optim.AdamW(groups or model.parameters(), given.lr, betas=(0.9, 0.95),
                                  weight_decay=0.01)
    train(model, optimizer, read, given.steps, given.seed)
    print(f"width {given.width}: {held_out(model, rest):.4f} bits of a letter")


if __name__ == "__main__":
    main()
