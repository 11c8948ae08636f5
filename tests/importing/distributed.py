"""Trains a model by a plan with one wrapper, in one of two processes of gloo or alone, and prints
the losses and the rates of the first process.

    python distributed.py PLAN.json {alone|ddp|fsdp|fsdp2} RANK FILE
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn


def model_of(N):
    """Three layers."""
    return nn.Sequential(nn.Linear(7, N), nn.Tanh(), nn.Linear(N, N, bias=False), nn.Tanh(),
                         nn.Linear(N, 1, bias=False))


def wrapped(model, how, mesh):
    """The model within the wrapper."""
    if how == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if how == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def main(plan_file, how, rank, meeting):
    """The losses of four steps."""
    rank, mesh = int(rank), None
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if how != "alone":
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,)) if how == "fsdp2" else None
    sys.path.insert(0, os.environ["PLANS"])     # the file alone, as on a cluster
    from plans import Plan
    model, plan = model_of(64), Plan.load(plan_file)
    plan.initialize(model)
    model = wrapped(model, how, mesh)
    groups = plan.groups(model, lr=0.02, weight_decay=0.1)
    optimizer = torch.optim.AdamW(groups)
    x = torch.randn(16, 7)
    y = x[:, :1] * x[:, 1:2]
    mine = slice(8 * rank, 8 * rank + 8) if how != "alone" else slice(0, 16)
    for _ in range(4):
        optimizer.zero_grad()
        loss = (model(x[mine]) - y[mine]).square().mean()
        loss.backward()
        optimizer.step()
        if how != "alone":
            total = loss.detach().clone()
            dist.all_reduce(total)
            loss = total / 2
        if rank == 0:
            print(f"{loss.item():.7f}", sorted(round(one["lr"], 9) for one in groups))
    if how != "alone":
        # All is done and said. PyTorch 2.15 sometimes calls std::terminate while it takes the
        # threads of gloo down, so the two processes meet here and end without that.
        sys.stdout.flush()
        dist.barrier()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
