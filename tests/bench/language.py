"""make bench-peers, its second part: CPU seconds of a step of two language models, of
examples/language_model.ini and of a larger one, beside the same shapes in PyTorch as a good user
writes them: scaled_dot_product_attention, experts by the indices of their rows, rms_norm, fused
AdamW; single precision, one thread, in turns: medians over the rounds, whose number is ROUNDS (of
the environment), and of the ratios within them, with their middle half. PyTorch's letters are
random and its matrices start at its own scales: it is a test of speed alone. Argument: the program.

Prints ratios of one run on one machine; nothing here decides a test."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import torch
from peers import middle_half  # beside this file
from torch import nn
from torch.nn import functional

INI, EXPERTS, TAKEN, LETTERS, TOKENS, BATCH = "examples/language_model.ini", 8, 2, 256, 64, 32
ROUNDS = int(os.environ.get("ROUNDS", "5"))
# Name: width, blocks, heads, and the steps of the shorter and the longer run of ours.
MODELS = {"language model": (256, 2, 4, 2, 12), "larger": (512, 4, 8, 2, 5)}


class Block(nn.Module):
    def __init__(self, N, heads):
        super().__init__()

        def matrix(out=N):
            return nn.Linear(N, out, bias=False)
        self.heads, self.router = heads, matrix(EXPERTS)
        self.query, self.key, self.value, self.out = (matrix() for _ in range(4))
        self.gate, self.up, self.down = (
            nn.ModuleList(matrix() for _ in range(EXPERTS)) for _ in range(3))

    def attend(self, u):
        def split(x):
            return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        a = functional.scaled_dot_product_attention(
            split(self.query(u)), split(self.key(u)), split(self.value(u)), is_causal=True)
        return self.out(a.transpose(1, 2).reshape(u.shape))

    def experts(self, u):
        top, chosen = self.router(u).topk(TAKEN, -1)
        weight, out = torch.softmax(top, -1), torch.zeros_like(u)
        for e in range(EXPERTS):
            row, place = (chosen == e).nonzero(as_tuple=True)
            x = u[row]
            x = self.down[e](functional.silu(self.gate[e](x)) * self.up[e](x))
            out.index_add_(0, row, x * weight[row, place, None])
        return out

    def forward(self, h):
        N = h.shape[-1]
        h = h + self.attend(functional.rms_norm(h, (N,)))
        return h + self.experts(functional.rms_norm(h, (N,)).view(-1, N)).view(h.shape)


class Model(nn.Module):
    def __init__(self, N, blocks, heads):
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, N), nn.Embedding(TOKENS, N)
        self.blocks = nn.Sequential(*(Block(N, heads) for _ in range(blocks)))
        self.read_out = nn.Linear(N, LETTERS, bias=False)

    def forward(self, x):
        h = self.blocks(self.letters(x) + self.places.weight)
        return self.read_out(functional.rms_norm(h, h.shape[-1:]))


def torch_step(N, blocks, heads):
    model = Model(N, blocks, heads)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x, y = torch.randint(LETTERS, (2, BATCH, TOKENS))

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(x).view(-1, LETTERS), y.view(-1)).backward()
        optimizer.step()
    return step


def torch_seconds(step, steps):
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps


def our_seconds(program, N, blocks, heads, steps):
    """CPU seconds of a run of so many steps, which looks at next to no test inputs."""
    keys = [f"reference.widths={N}", f"network.depth={blocks}", f"network.heads={heads}",
            f"training.steps={steps}", "data.inputs=2000", "data.test_inputs=1",
            "output.test_every=1000", "solver.threads=1"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([program, "--quiet", "-o", folder + "/out.h5", INI,
                                    *("--" + key for key in keys)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} {' '.join(keys)}: status {status}")
    return usage.ru_utime + usage.ru_stime


def main():
    program = sys.argv[1]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'':15} {'ours, s':>9} {'PyTorch, s':>11} {'ratio':>6} {'middle half':>13}")
    for name, (N, blocks, heads, few, more) in MODELS.items():
        step, rounds = torch_step(N, blocks, heads), []
        torch_seconds(step, 2)      # what is met for the first time
        for _ in range(ROUNDS):
            short, long = (our_seconds(program, N, blocks, heads, n) for n in (few, more))
            ours, peer = (long - short) / (more - few), torch_seconds(step, more - few)
            rounds.append((ours, peer, ours / peer))
        ours, peer = (statistics.median(one[k] for one in rounds) for k in range(2))
        ratio, low, high = middle_half([one[2] for one in rounds])
        print(f"{name:15} {ours:9.3f} {peer:11.3f} {ratio:6.2f} [{low:.2f}, {high:.2f}]",
              flush=True)


if __name__ == "__main__":
    main()
