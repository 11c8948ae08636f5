#!/usr/bin/env python3
"""Makes NAME.h5 of every case (see ABOUT): plain numpy networks, extrapolated to infinite width.

    python3 make.py [FOLDER]

Nothing but the writing of the file is shared with anything: equations (1) to (5) of
docs/theory/resnet.md. FOLDER is by default the script's own. Some minutes on one core.
"""
import os
import sys

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(FOLDER, ".."))
from reference import check, write_h5

P, D, STEPS = 4, 6, 16
WIDTHS = {64: 4096, 128: 2048, 256: 1024, 512: 640}  # width: seeds
CASES = {  # depth, branch, gamma0, eta0
    "L2": (2, 1.0, 1.0, 0.3),
    "L4_rich": (4, 1.5, 2.0, 0.08),
}
QUANTITIES = {
    "loss": ("t", "mean over inputs of (y - f)^2/2"),
    "f": ("t mu", "output"),
    "Ch": ("t l mu nu", "h_l.h_l/N, l = 0..L"),
    "Cg": ("t l mu nu", "g_l.g_l/N, l = 0..L"),
}


def networks(N, seeds, X, y, L, b, gamma0, eta0, rng):
    """Trajectories of `seeds` networks of width N, all at once: {quantity: [seed][t]...}"""
    x, s = X.T / np.sqrt(D), b / np.sqrt(L * N)
    W0 = rng.standard_normal((seeds, N, D))
    W = [rng.standard_normal((seeds, N, N)) for _ in range(L)]
    w = rng.standard_normal((seeds, N, 1))
    out = {name: [] for name in QUANTITIES}
    f0 = None
    for _ in range(STEPS):
        h = [W0 @ x]
        for l in range(L):
            h.append(h[l] + s * (W[l] @ np.tanh(h[l])))
        f = (w * h[L]).sum(1) / (gamma0 * N)
        f0 = f if f0 is None else f0
        f = f - f0
        g = [None] * L + [np.broadcast_to(w, h[L].shape)]
        for l in range(L - 1, -1, -1):
            g[l] = g[l + 1] + s * (1 - np.tanh(h[l])**2) * (W[l].transpose(0, 2, 1) @ g[l + 1])
        out["loss"].append(((y - f)**2).mean(1) / 2)
        out["f"].append(f)
        for name, rows in (("Ch", h), ("Cg", g)):
            out[name].append(np.stack([a.transpose(0, 2, 1) @ a / N for a in rows], 1))
        # W -= eta0 gamma0^2 N dloss/dW, dloss/dh_l = -Delta g_l/(gamma0 N P)
        c = eta0 * gamma0 / P * (y - f)[:, None, :]
        for l in range(L):
            W[l] += s * ((c * g[l + 1]) @ np.tanh(h[l]).transpose(0, 2, 1))
        W0 += (c * g[0]) @ x.T
        w = w + (c * h[L]).sum(2, keepdims=True)
    return {name: np.stack(values, 1) for name, values in out.items()}


def ensemble(N, seeds, case, X, y, number):
    """Mean and squared standard error of every quantity."""
    parts, done, at_once = [], 0, max(1, 2**22 // N**2)
    while done < seeds:
        n = min(at_once, seeds - done)
        rng = np.random.default_rng([2023, number, N, done])
        parts.append(networks(N, n, X, y, *case, rng))
        done += n
    result = {}
    for name in QUANTITIES:
        values = np.concatenate([part[name] for part in parts])
        result[name] = values.mean(0), values.var(0, ddof=1) / seeds
    return result


def extrapolate(results):
    """Weighted least squares of a + b/N + c/N^2, entry by entry: a and its standard error."""
    design = np.array([[1, 1 / N, 1 / N**2] for N in results])
    limit = {}
    for name in QUANTITIES:
        mean = np.stack([result[name][0] for result in results.values()])
        weight = 1 / np.maximum(np.stack([r[name][1] for r in results.values()]), 1e-30)
        normal = np.einsum("ki,k...,kj->...ij", design, weight, design)
        right = np.einsum("ki,k...,k...->...i", design, weight, mean)
        scale = np.array([1, 64, 64**2])  # of the coefficients: a well-posed system
        inverse = np.linalg.inv(normal * np.outer(scale, scale))
        fit = np.einsum("...ij,...j->...i", inverse, right * scale)
        limit[name] = {"mean": fit[..., 0], "se": np.sqrt(inverse[..., 0, 0])}
    return limit


def rounded(value):
    return np.round(np.asarray(value), 8).tolist()


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else FOLDER
    rng = np.random.default_rng(2023)
    X = np.round(rng.standard_normal((P, D)), 6)
    y = np.array([1.0, -1.0, 1.0, -1.0])
    for number, (name, case) in enumerate(CASES.items()):
        results = {N: ensemble(N, n, case, X, y, number) for N, n in WIDTHS.items()}
        groups = [("limit", sum(WIDTHS.values()), extrapolate(results))]
        for N, n in WIDTHS.items():
            groups.append((f"nets/N{N:04d}", n,
                           {q: {"mean": m, "se": np.sqrt(v)} for q, (m, v) in results[N].items()}))
        groups = [(where, n, {q: {k: rounded(a) for k, a in value.items()}
                              for q, value in quantities.items()})
                  for where, n, quantities in groups]
        path = os.path.join(folder, name + ".h5")
        write_h5(path, "reference trajectories of resnet; see ABOUT", X, y, groups,
                 QUANTITIES.__getitem__)
        print(f"{name}: {check(path, X, y, groups)} datasets; loss", groups[0][2]["loss"]["mean"])


if __name__ == "__main__":
    main()
