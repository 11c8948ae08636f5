"""make bench-peers PEERS=VENV/bin/python: CPU time of a step of gradient descent of finite
networks, of this program and of the same networks in PyTorch and JAX, on one thread, one after the
other in turns. VENV has PyTorch 2 and JAX (pip install torch jax); what it lacks is left out. The
peers have the same matrices in the same precision and measure nothing; of ours the transformer's
test inputs and attention of each input are switched off. Arguments: the program, then networks
(none: all), or NETWORK:WIDTH. ROUNDS (environment) is the number of turns of each.

  eager, scan a network at a time: by autograd, all parameters moved by one call; in JAX by lax.scan
              over several steps in one jitted call, which is 3 to 8 times as fast as a call a step
  compiled    torch.compile, up to the width COMPILED (environment; a compilation takes a minute)
  seeds       SEEDS networks at once by vmap, a step of one of them

A virtual machine slows single runs by a half for seconds, so that the least of a few runs is a
matter of luck. Therefore the ratio of ours to a peer is the median of the ratios within the rounds,
in each of which they run side by side, with the range of their middle half. Prints ratios of one
run on one machine; nothing here decides a test."""

import importlib.util
import math
import os
import statistics
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                  XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")

import precision  # beside this file

SEEDS, LONG = 16, 0.3  # LONG: seconds of a timed loop
ROUNDS = int(os.environ.get("ROUNDS", "9"))
COMPILED = int(os.environ.get("COMPILED", "0"))
# Network, further keys of ours, and for each width the number of steps: those of narrow networks
# take some LONG seconds, for the start of the program (.03 s) is subtracted and varies by a tenth.
CELLS = {
    "regime1": ([], {64: 6000, 256: 600, 512: 60, 2048: 8}),
    "regime2": ([], {64: 12000, 256: 1200, 512: 120, 2048: 12}),
    "regime3": ([], {64: 4000, 256: 120, 512: 16}),
    "residual": ([], {32: 1200, 64: 120, 256: 6}),
    "transformer": (["data.test_inputs=0", "output.inputs=none"],
                    {64: 3000, 256: 160, 512: 24, 2048: 6}),
}


class Network:
    """Shapes of the parameters, and the loss of a network of xp, which is torch or jax."""

    def __init__(self, P, D, outputs=1, tokens=1):
        self.P, self.D, self.outputs, self.tokens = P, D, outputs, tokens

    def mse(self, xp, f, y):
        return ((f - y) ** 2).mean() / 2


class Regime1(Network):
    def shapes(self, N, M=4):
        return {"W1": (N, self.D), "Q": (M, N), "b": (M,), "W2": (M, N, N), "W3": (M, N, N),
                "w": (N,)}

    def loss(self, xp, W, x, y):
        N = W["w"].shape[0]
        x1 = xp.tanh(x @ W["W1"].mT / math.sqrt(self.D))
        psi = x1 @ W["Q"].mT / N + W["b"]
        psi = xp.where(psi >= xp.top(psi, 2), psi, -math.inf)
        h = xp.tanh(x1 @ W["W2"].mT / math.sqrt(N)) @ W["W3"].mT / math.sqrt(N)
        top = (xp.softmax(psi, -1).mT[..., None] * h).sum(0)
        return self.mse(xp, top @ W["w"] / N, y)


class Regime2(Network):
    def shapes(self, N, kappa=0.5, N_e=2):
        M = int(kappa * N)
        return {"W1": (N, self.D), "Q": (M, N), "W_in": (M * N_e, N), "W_out": (N, M * N_e),
                "w": (N,)}

    def loss(self, xp, W, x, y):
        N, M = W["w"].shape[0], W["Q"].shape[0]
        x1 = xp.tanh(x @ W["W1"].mT / math.sqrt(self.D))
        phi = xp.sigmoid(x1 @ W["Q"].mT / math.sqrt(N))
        x2 = xp.tanh(x1 @ W["W_in"].mT / math.sqrt(N))
        x2 = (phi[..., None] * x2.reshape(self.P, M, -1)).reshape(self.P, -1)
        h = x2 @ W["W_out"].mT / math.sqrt(x2.shape[-1])
        return self.mse(xp, h @ W["w"] / N, y)


class Regime3(Network):
    def shapes(self, N, kappa=0.5, iota=0.25):
        M, N_e = int(kappa * N), int(iota * N)
        return {"W1": (N, self.D), "Q": (M, N), "P_in": (M * N_e, N), "P_out": (N, M * N_e),
                "A_in": (N_e, N), "A_out": (N, N_e), "w": (N,)}

    fixed = ("A_in", "A_out")

    def loss(self, xp, W, x, y):
        N, M, N_e = W["w"].shape[0], W["Q"].shape[0], W["A_in"].shape[0]
        x1 = xp.tanh(x @ W["W1"].mT / math.sqrt(self.D))
        phi = xp.sigmoid(x1 @ W["Q"].mT / math.sqrt(N))
        h = (x1 @ W["P_in"].mT / N).reshape(self.P, M, N_e) + \
            (x1 @ W["A_in"].mT / math.sqrt(N))[:, None, :]
        x2 = phi[..., None] * xp.tanh(h)
        h3 = x2.reshape(self.P, -1) @ W["P_out"].mT / (M * N_e)
        h3 = h3 + x2.mean(1) @ W["A_out"].mT / math.sqrt(N_e)
        return self.mse(xp, h3 @ W["w"] / N, y)


class Residual(Network):
    def shapes(self, N, L=2, E=32):
        block = {"R": (E, N), "W1": (N * N, N), "W2": (N, N * N)}
        return {"W0": (N, self.D), "w": (N,),
                **{f"{name}_{k}": shape for k in range(L) for name, shape in block.items()}}

    def loss(self, xp, W, x, y, L=2, E=32, K=8):
        N = W["w"].shape[0]
        h = x @ W["W0"].mT / math.sqrt(self.D)
        for k in range(L):
            c = xp.sigmoid(h @ W[f"R_{k}"].mT / math.sqrt(N))
            c = xp.where(c >= xp.top(c, K), c, 0.0)
            x1 = xp.tanh(h @ W[f"W1_{k}"].mT / math.sqrt(N)).reshape(self.P, E, -1)
            h = h + (c[..., None] * x1).reshape(self.P, -1) @ W[f"W2_{k}"].mT / (N * L)
        return self.mse(xp, h @ W["w"] / N, y)


class Transformer(Network):
    def shapes(self, N, M=2, iota=0.5):
        return {"W0": (N, self.D), "W_Q": (N, N), "W_K": (N, N), "W_V": (N, N), "W_O": (N, N),
                "R": (M, N), "b": (M,), "W1": (M, int(iota * N), N), "W2": (M, N, int(iota * N)),
                "w": (self.outputs, N)}

    def norm(self, xp, h):
        return h / xp.sqrt((h * h).mean(-1)[..., None])

    def loss(self, xp, W, x, y):
        n, N, m = self.tokens, W["w"].shape[-1], math.sqrt(W["w"].shape[-1])
        h = x @ W["W0"].mT / math.sqrt(self.D)
        u = self.norm(xp, h)
        q, k, v = (u @ W[name].mT / m for name in ("W_Q", "W_K", "W_V"))
        a = xp.softmax(3 * (q @ k.mT) / N + xp.asarray(self.mask(n), x), -1)
        h = h + (a @ v) @ W["W_O"].mT / m
        u = self.norm(xp, h)
        p = xp.sigmoid(u @ W["R"].mT / N + W["b"])
        for e in range(2):
            h = h + p[..., e, None] * (xp.tanh(u @ W["W1"][e].mT / m) @ W["W2"][e].mT / m)
        f = self.norm(xp, h) @ W["w"].mT / N
        return (xp.logsumexp(f, -1) - (f * y).sum(-1)).mean()

    def mask(self, n):
        return [[0.0 if t <= s else -math.inf for t in range(n)] for s in range(n)]


NETWORKS = {"regime1": Regime1(4, 10), "regime2": Regime2(4, 10), "regime3": Regime3(4, 10),
            "residual": Residual(16, 10), "transformer": Transformer(8, 4, 4, 6)}


def numbers(network, N, seeds):
    """Inputs, targets and parameters by numpy, the latter with an axis of seeds if asked for."""
    import numpy as np
    rng, P, n = np.random.default_rng(1), network.P, network.tokens
    if n > 1:
        x = np.eye(network.D)[rng.integers(network.D, size=(P, n))] * math.sqrt(network.D)
        y = np.eye(network.outputs)[rng.integers(network.outputs, size=(P, n))]
    else:
        x, y = rng.standard_normal((P, network.D)), rng.standard_normal(P)
    lead = (seeds,) if seeds else ()
    fixed = getattr(network, "fixed", ())
    W = {name: rng.standard_normal(lead + shape, dtype=np.float32)
         for name, shape in network.shapes(N).items()}
    return x, y, {k: v for k, v in W.items() if k not in fixed}, \
        {k: v for k, v in W.items() if k in fixed}


def timed(step):
    """CPU seconds of a call; what the first calls prepare is left out."""
    step(), step()
    count, spent = 1, 0.0
    while True:
        start = time.process_time()
        for _ in range(count):
            step()
        spent = time.process_time() - start
        if spent > LONG:
            return spent / count
        count = max(2 * count, int(1.2 * LONG * count / max(spent, 1e-4)))


def torch_step(network, N, single, seeds, compiled):
    import torch
    torch.set_num_threads(1)
    dtype = torch.float32 if single else torch.float64
    x, y, W, fixed = numbers(network, N, seeds)
    x, y = torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype)
    W, fixed = ({k: torch.tensor(v, dtype=dtype) for k, v in part.items()} for part in (W, fixed))

    class Xp:
        tanh, sigmoid, softmax, where = torch.tanh, torch.sigmoid, torch.softmax, torch.where
        sqrt, logsumexp = torch.sqrt, torch.logsumexp
        asarray = staticmethod(lambda values, like: torch.tensor(values, dtype=like.dtype))
        top = staticmethod(lambda v, K: torch.topk(v, K).values[..., -1:])

    def loss(W, fixed):
        return network.loss(Xp, {**W, **fixed}, x, y)
    if seeds:
        gradient = torch.func.vmap(torch.func.grad(loss))

        def step():
            G = gradient(W, fixed)
            torch._foreach_add_(list(W.values()), [G[k] for k in W], alpha=-0.01)
        return step
    value, moved = torch.compile(loss) if compiled else loss, list(W.values())
    for w in moved:
        w.requires_grad_()

    def step():
        G = torch.autograd.grad(value(W, fixed), moved)
        with torch.no_grad():
            torch._foreach_add_(moved, G, alpha=-0.01)
    return step


def jax_step(network, N, single, seeds):
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    dtype = jnp.float32 if single else jnp.float64
    x, y, W, fixed = numbers(network, N, seeds)
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    W, fixed = ({k: jnp.asarray(v, dtype) for k, v in part.items()} for part in (W, fixed))

    class Xp:
        tanh, sigmoid, softmax, where = jnp.tanh, jax.nn.sigmoid, jax.nn.softmax, jnp.where
        sqrt, logsumexp = jnp.sqrt, jax.nn.logsumexp
        asarray = staticmethod(lambda values, like: jnp.asarray(values, like.dtype))
        top = staticmethod(lambda v, K: jax.lax.top_k(v, K)[0][..., -1:])

    def gradient(W, fixed):
        return jax.grad(lambda W: network.loss(Xp, {**W, **fixed}, x, y))(W)
    gradient = jax.vmap(gradient) if seeds else gradient

    def moved(W, fixed):
        return {k: W[k] - 0.01 * g for k, g in gradient(W, fixed).items()}
    def steps(W, fixed):
        return jax.lax.scan(lambda W, _: (moved(W, fixed), None), W, length=steps_of(N))[0]
    steps, state = jax.jit(steps, donate_argnums=0), [W]

    def call():
        state[0] = steps(state[0], fixed)
        jax.block_until_ready(state[0])
    return call


def steps_of(N):
    """Steps of JAX in one call: more where a step is short."""
    return max(4, min(64, 8192 // N))


def room(network, N, seeds):
    """Whether parameters and gradients of so many seeds stay below 2 GB."""
    size = sum(math.prod(shape) for shape in network.shapes(N).values())
    return 8 * size * max(seeds, 1) < 2e9


def peers(network, N):
    """Names of the peers that are installed and suit this width, with what makes a call of each,
    and how many steps of a network that is."""
    found = {}
    for single in (True, False):
        bits = "f32" if single else "f64"
        for seeds in (0, SEEDS):
            if not room(network, N, seeds):
                continue
            how = "seeds" if seeds else "eager"
            if importlib.util.find_spec("torch"):
                found[f"torch {bits} {how}"] = (
                    lambda s=single, n=seeds: torch_step(network, N, s, n, False), max(seeds, 1))
            if importlib.util.find_spec("jax"):
                found[f"jax {bits} {'seeds' if seeds else 'scan'}"] = (
                    lambda s=single, n=seeds: jax_step(network, N, s, n),
                    max(seeds, 1) * steps_of(N))
        if single and N <= COMPILED and importlib.util.find_spec("torch"):
            found[f"torch {bits} compiled"] = (
                lambda s=single: torch_step(network, N, s, 0, True), 1)
    return found


def middle_half(values):
    """Median of values, and the range of their middle half."""
    low, middle, high = statistics.quantiles(values, method="inclusive")
    return middle, low, high


def main():
    program, cells = sys.argv[1], [(*cell.split(":"), None)[:2] for cell in sys.argv[2:] or CELLS]
    print(f"{'network':12} {'N':>5} {'who':20} {'ms a step':>10} {'ours, same precision':>21}")
    for name, only in cells:
        keys, widths = CELLS[name]
        for N, steps in widths.items():
            if only and int(only) != N:
                continue
            options = [*keys, f"reference.widths={N}"]
            ready = {who: (make(), count)
                     for who, (make, count) in peers(NETWORKS[name], N).items()}
            starts, rounds = {}, []
            for _ in range(ROUNDS):
                spent = {bits: precision.step(program, name, options, bits, steps, starts)
                         for bits in ("f32", "f64")}
                spent |= {who: timed(call) / count for who, (call, count) in ready.items()}
                rounds.append(spent)
            for who in rounds[0]:
                ours = who if who in ("f32", "f64") else who.split()[1]
                ratio = middle_half([spent[ours] / spent[who] for spent in rounds])
                step = statistics.median(spent[who] for spent in rounds)
                label = f"ours {who}" if who == ours else who
                print(f"{name:12} {N:5} {label:20} {1e3 * step:10.4g} "
                      f"{ratio[0]:8.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]", flush=True)


if __name__ == "__main__":
    main()
