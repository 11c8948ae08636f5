"""Random numbers that a module draws while it runs.

Normals are the noise of a program, new for each input and step, and 0 for test inputs. All others
(dropout, jitter, Gumbel noise) become their means, with which dropout lets everything pass.
"""
from __future__ import annotations

import torch

NORMAL = ("randn", "randn_like", "normal", "normal_functional")
# Means of numbers between 0 and 1, of others that begin where PyTorch does if nothing is given.
UNIFORM, EXPONENTIAL, BERNOULLI = ("rand", "rand_like"), "exponential", "bernoulli"
OTHERS = ("multinomial", "poisson", "randint", "randperm", "geometric", "log_normal", "cauchy")


def name_of(function) -> str:
    """Of an operation of PyTorch, without what says that it writes into its argument."""
    return function.overloadpacket.__name__.rstrip("_")


def is_random(name: str) -> bool:
    """Whether an operation draws random numbers."""
    return name in NORMAL or any(word in name for word in (
        *UNIFORM, "uniform", EXPONENTIAL, BERNOULLI, "dropout", *OTHERS))


def mean_of(function, args, options):
    """(what an operation has in the place of random numbers that are no normals, the tensor that it
    is a copy of, if any); (None, None) of all other operations."""
    name, given = name_of(function), [*args[1:], *options.values()]
    if name == "native_dropout":
        return (args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)), args[0]
    if name in UNIFORM:
        return function(*args, **options).fill_(0.5), None
    if name == "uniform":
        ends = [one for one in given if isinstance(one, (int, float))]
        low, high = [*ends, *(0.0, 1.0)[len(ends):]]
        value = (low + high) / 2
    elif name == EXPONENTIAL:
        value = 1 / next((one for one in given if isinstance(one, (int, float))), 1.0)
    elif name == BERNOULLI:
        own = function._overloadname == "default"
        value = args[0] if own else next((one for one in given if one is not None), 0.5)
    else:
        return None, None
    in_place = function.overloadpacket.__name__.endswith("_")
    found = args[0] if in_place else torch.empty_like(args[0])
    if isinstance(value, torch.Tensor):
        return found.copy_(value), value
    return found.fill_(value), None


def normals_of(function, args, options, kept: list):
    """What an operation draws, with the standard normals that it is made of, which are kept."""
    found, name = function(*args, **options), name_of(function)
    z = found
    if name in ("normal", "normal_functional"):
        z = torch.randn(found.shape, dtype=found.dtype)
        mean, std = _moments(function, args, options)
        found = found.copy_(mean + std * z)
    kept.append(z.detach().clone())
    return found


def _moments(function, args, options):
    """(mean, standard deviation) of an operation that draws normals."""
    own = function.overloadpacket.__name__ == "normal"
    return moments(args if own else args[1:], options)


def moments(given, options):
    """(mean, standard deviation) as PyTorch is given them."""
    given = list(given)
    return options.get("mean", given[0] if given else 0.0), \
        options.get("std", given[1] if len(given) > 1 else 1.0)


def drawn_as(shapes, noises, normals, inputs: int) -> list[torch.Tensor]:
    """The normals of each `noise` of a program, in its order [P, n or 1, numbers], of those that a
    module has drawn. shapes: of each draw (kind, size) of its axes."""
    found = []
    for one in noises:
        serial, k = one.data
        axes = shapes[serial]
        sizes = {"input": inputs, "sites": -1}
        z = normals[serial].reshape([sizes.get(kind, size) for kind, size in axes])
        order = sorted(range(len(axes)), key=lambda at: (
            "input", "token", "finite", "sites").index(axes[at][0]))
        z = z.permute(order)
        if not any(kind == "token" for kind, _ in axes):
            z = z.unsqueeze(1)
        last = any(kind == "sites" for kind, _ in axes) or any(
            kind == "finite" for kind, _ in axes)
        z = z if last else z.unsqueeze(-1)
        found.append(z.flatten(2, -2)[:, :, k] if z.dim() > 3 else z)
    return found
