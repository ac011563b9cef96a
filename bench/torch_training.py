"""The training step of bench/training.cpp in PyTorch, eager, with DistributedDataParallel over gloo: a process of one
thread for each rank.

usage: torch_training.py RANKS STEPS
"""

import math
import os
import resource
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

VOCABULARY, LENGTH, BATCH, LAYERS, HIDDEN, HEADS = 256, 128, 8, 4, 256, 4
WARM_UP = 3


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.gamma, 1e-5)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        q, k, v = (
            t.view(-1, LENGTH, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for t in self.qkv(self.norm1(x)).split(HIDDEN, -1)
        )
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(context.transpose(1, 2).reshape(-1, LENGTH, HIDDEN))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(VOCABULARY, HIDDEN) / math.sqrt(HIDDEN))
        self.places = nn.Parameter(torch.randn(LENGTH, HIDDEN) / math.sqrt(HIDDEN))
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.norm = RmsNorm()

    def forward(self, tokens):
        x = self.layers(F.embedding(tokens, self.tokens) + self.places)
        return F.linear(self.norm(x), self.tokens)


def products_ms(step):
    """Of one step, in its matrix products; those of attention are a part of one fused op and count whole."""
    names = ("aten::mm", "aten::bmm", "aten::addmm", "flash_attention")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    return sum(
        event.self_cpu_time_total for event in profile.key_averages() if any(name in event.key for name in names)
    ) / 1e3


def work(rank, ranks, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
    labels = (tokens * 7 + 3) % VOCABULARY

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens).view(-1, VOCABULARY), labels.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    times = []
    for t in range(WARM_UP + steps):
        dist.barrier()
        start = time.perf_counter()
        loss = step()
        ms = torch.tensor((time.perf_counter() - start) * 1e3)
        dist.all_reduce(ms, dist.ReduceOp.MAX)
        if t >= WARM_UP:
            times.append(ms.item())
    products = torch.tensor(products_ms(step))
    dist.all_reduce(products, dist.ReduceOp.MAX)
    memory = torch.tensor(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    dist.all_reduce(memory, dist.ReduceOp.MAX)
    whole = statistics.median(times)
    if rank == 0:
        print(
            f"PyTorch      {whole:8.1f} ms a step  {whole - products.item():8.1f} outside products  "
            f"{memory.item():6.0f} MiB  loss {loss.item():.4f}",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, measured = int(sys.argv[1]), int(sys.argv[2])
    mp.spawn(work, args=(ranks, measured), nprocs=ranks)
