#!/usr/bin/env python3
"""Times a step of torch.optim.Adam(fused=True) on one GPU: gpu_torch_adam.py EXPONENT... | --when FILE

Prints a line for each exponent e: e, and the median milliseconds of a step on one f32 tensor of 2^e parameters, by
events around batches of steps. With --when it gets ready, and measures when FILE is there, which has the exponents.
Ends with 77 and says why on standard error when PyTorch or a GPU for it is missing.
"""
import os
import statistics
import sys
import time

try:
    import torch
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print(f"torch {torch.__version__} finds no GPU that it can use", file=sys.stderr)
    sys.exit(77)


def batch(optimizer, steps):
    """Milliseconds of one of `steps` steps, after one that is not timed."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    optimizer.step()
    begin.record()
    for _ in range(steps):
        optimizer.step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


def exponents():
    if sys.argv[1] != "--when":
        return sys.argv[1:]
    torch.zeros(1, device="cuda")
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.02)
    with open(sys.argv[2]) as file:
        return file.read().split()


for exponent in map(int, exponents()):
    weights = torch.nn.Parameter(torch.randn(2**exponent, device="cuda"))
    weights.grad = torch.randn_like(weights)
    optimizer = torch.optim.Adam([weights], lr=1e-3, fused=True)
    batch(optimizer, 4)
    steps = max(4, min(1000, round(10 / batch(optimizer, 12))))
    print(exponent, statistics.median(batch(optimizer, steps) for _ in range(15)), flush=True)
