"""Losses, schedules and the loop of training, as dmft-solve has them."""
from __future__ import annotations

import math

import torch

from dmft.errors import InputError
from dmft.torch.by_parameter import ByParameter
from dmft.torch.muon import Muon
from dmft.torch.table import Table

LOSSES, OPTIMIZERS = Table("loss"), Table("optimizer")
LOSSES |= {"mse": lambda f, y: 0.5 * (y - f) ** 2,
           "huber": lambda f, y: torch.nn.functional.huber_loss(f, y, reduction="none"),
           "logistic": lambda f, y: torch.logaddexp(-y * f, torch.zeros_like(f)),
           "hinge": lambda f, y: torch.relu(1 - y * f),
           "cross_entropy": lambda f, y: -y * torch.log_softmax(f, -1)}     # 0: is not asked


def loss_of(kind: str, f: torch.Tensor, y: torch.Tensor, several: bool = False,
            weight: torch.Tensor | None = None) -> torch.Tensor:
    """The mean over inputs and tokens; several: the last axis is of outputs, which are summed.
    weight [P]: how often each input counts, 1 on average."""
    if f.shape != y.shape:
        raise InputError(f"targets have the shape {tuple(y.shape)}, and outputs {tuple(f.shape)}")
    each = LOSSES[kind](f, y)
    if weight is not None:
        each = each * weight.reshape(-1, *[1] * (each.ndim - 1))
    return (each.sum(-1) if several else each).mean()


def schedule_factor(training: dict, tau: float) -> float:
    """The rate at a time over eta0 (docs/learning.md, section 10); for a LambdaLR."""
    past, kind = tau - training["warmup"], training["schedule"]
    if past < 0:
        return tau / training["warmup"]
    if kind == "constant":
        return 1.0
    if kind == "power":
        return (1 + past / training["schedule_t0"]) ** -training["schedule_power"]
    length = training["schedule_steps"] or training["steps"] - 1 - training["warmup"]
    left, end = (1 - past / length if past < length else 0), training["schedule_end"]
    fallen = {"linear": left, "cosine": (1 - math.cos(math.pi * left)) / 2,
              "polynomial": left ** training.get("schedule_power", 0)}
    return end + (1 - end) * fallen[kind]


class Momentum(ByParameter):
    """V <- momentum V + g, p <- (1 - lr weight_decay) p - lr V: the decay is no part of the
    velocity, as it is in torch.optim.SGD."""

    def __init__(self, params, lr: float = 0.1, momentum: float = 0.9, weight_decay: float = 0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _move(self, p, group) -> None:
        V = self.state[p].setdefault("velocity", torch.zeros_like(p))
        V.mul_(group["momentum"]).add_(p.grad)
        p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * V)


class Lion(ByParameter):
    """u = beta1 m + (1 - beta1) g, m <- beta2 m + (1 - beta2) g, p <- p - lr u/(|u| + eps), with
    decoupled weight decay; at eps = 0 what Lion is elsewhere."""

    def __init__(self, params, lr: float = 1e-4, betas=(0.9, 0.99), eps: float = 0,
                 weight_decay: float = 0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    def _move(self, p, group) -> None:
        state, (beta1, beta2) = self.state[p], group["betas"]
        m = state.setdefault("mean", torch.zeros_like(p))
        u = beta1 * m + (1 - beta1) * p.grad
        m.mul_(beta2).add_(p.grad, alpha=1 - beta2)
        p.mul_(1 - group["lr"] * group["weight_decay"])
        if group["eps"]:
            p.sub_(group["lr"] * u / (u.abs() + group["eps"]))
        else:
            p.sub_(group["lr"] * u.sign())


def refuse_what_torch_lacks(training: dict) -> None:
    """One sentence for what no optimizer of PyTorch does."""
    if training["integrator"] != "gd":
        raise InputError(f"integrator = {training['integrator']} is gradient flow, which no "
                         "optimizer of PyTorch is; integrator = gd is")
    if training.get("adam_eps") == "inside":
        raise InputError("adam_eps = inside puts eps under the root, which Adam of PyTorch does "
                         "not; adam_eps = outside is PyTorch's")


@OPTIMIZERS("gd", "momentum")
def _by_matrix(groups, said):
    if said["optimizer"] == "momentum" and said["weight_decay"]:
        return Momentum(groups, momentum=said["momentum"])
    return torch.optim.SGD(groups, lr=0, momentum=said.get("momentum", 0))


@OPTIMIZERS("adam", "adamw", "lion")
def _by_entry(groups, said):
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "lion": Lion}[said["optimizer"]]
    return make(groups, betas=(said["beta1"], said["beta2"]))


@OPTIMIZERS
def muon(groups, said):
    """Beside the optimizer of what it does not move."""
    return Muon(groups, momentum=said["momentum"], nesterov=said["nesterov"] == "yes",
                exact=said["muon"] == "exact",
                betas=(said.get("beta1", 0.9), said.get("beta2", 0.999)))


def make_optimizer(net, **more) -> torch.optim.Optimizer:
    """The optimizer of the ini, with the groups of a Network; more: those of parameter_groups."""
    said = net.training_settings
    refuse_what_torch_lacks(said)
    return OPTIMIZERS[said["optimizer"]](net.parameter_groups(**more), said)


def train(net, data, steps: int | None = None, measure=None) -> list[float]:
    """Trains a Network as its ini says on dmft.torch.Data; returns its loss, without penalties,
    before each step and at the end, `steps` numbers as in a result file. measure(step, data, f,
    loss): called with each of them, the loss with penalties.

    >>> train(net, dmft.torch.data(ini))                                    # doctest: +SKIP
    """
    said, several = net.training_settings, net.program.outputs > 1
    steps = said["steps"] if steps is None else steps
    optimizer = make_optimizer(net)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedule_factor(said, step))
    losses = []
    for step in range(steps):
        now = data.part(step)
        f = net(now.X, now.tokens)
        loss = net.loss(f, now.y, now.weight)
        losses.append(loss_of(said["loss"], f.detach(), now.y, several, now.weight).item())
        if measure:
            measure(step, now, f, loss)
        if step + 1 == steps:
            break
        optimizer.zero_grad()
        loss.backward()
        if said["clip"]:
            net.clip(said["clip"])
        optimizer.step()
        net.after_step(optimizer)
        scheduler.step()
    return losses
