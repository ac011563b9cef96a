#!/usr/bin/env python3
"""Writes optimizers.json beside this file: parameters after 200 steps of PyTorch's optimizers, of Lion and of LAMB.

    python3 -m venv venv && venv/bin/pip install torch numpy && venv/bin/python make_optimizer_data.py

Expected values for tests/jit/conformance/pytorch_test.cpp, which makes the same initial parameters and gradients: whole multiples of
2^-10, hashes of a counter, which f16, f32 and f64 hold exactly. Each case runs in f64, the truth, and in f32, what
PyTorch itself makes of f32. PyTorch has neither LAMB nor Lion, which are written with numpy: `Lamb` is You et al.
(2020), algorithm 2 with the identity for phi, with numpy's norms in f32; `Lion` is Chen et al. (2023), algorithm 2.
"""

import json
import pathlib

import numpy as np
import torch

N = 67
STEPS = 200
LR = 0.01


def sample(counter):
    """A multiple of 2^-10 in [-1, 1) from a 32-bit counter: the finalizer of MurmurHash3, and its top 11 bits."""
    x = counter & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> 16
    return ((x >> 21) - 1024) / 1024


def initial():
    return [sample(i) for i in range(N)]


def gradient(step):
    """Of step 1, 2, ...: the average over the ranks."""
    return [sample(step * N + i) for i in range(N)]


class Lamb:
    """One tensor, in the dtype of `w`."""

    def __init__(self, w, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01):
        self.w, self.m, self.v, self.t = w, np.zeros_like(w), np.zeros_like(w), 0
        self.beta1, self.beta2, self.eps, self.weight_decay = beta1, beta2, eps, weight_decay

    def step(self, g):
        real = self.w.dtype.type
        self.t += 1
        self.m = real(self.beta1) * self.m + real(1 - self.beta1) * g
        self.v = real(self.beta2) * self.v + real(1 - self.beta2) * g * g
        m_hat = self.m / real(1 - self.beta1**self.t)
        v_hat = self.v / real(1 - self.beta2**self.t)
        u = m_hat / (np.sqrt(v_hat) + real(self.eps)) + real(self.weight_decay) * self.w
        w_norm, u_norm = np.linalg.norm(self.w), np.linalg.norm(u)
        ratio = w_norm / u_norm if w_norm > 0 and u_norm > 0 else real(1)
        self.w = self.w - real(LR) * ratio * u
        assert self.w.dtype == real


class Lion:
    """One tensor, in the dtype of `w`."""

    def __init__(self, w, beta1=0.9, beta2=0.99, weight_decay=0):
        self.w, self.m = w, np.zeros_like(w)
        self.beta1, self.beta2, self.weight_decay = beta1, beta2, weight_decay

    def step(self, g):
        real = self.w.dtype.type
        direction = np.sign(real(self.beta1) * self.m + real(1 - self.beta1) * g)
        # Decay first, as in the authors' code: in f32 that rounds otherwise than their formula.
        self.w = real(1 - LR * self.weight_decay) * self.w - real(LR) * direction
        self.m = real(self.beta2) * self.m + real(1 - self.beta2) * g
        assert self.w.dtype == real


def run_numpy(optimizer, options, dtype):
    stepper = optimizer(np.array(initial(), dtype), **options)
    for step in range(1, STEPS + 1):
        stepper.step(np.array(gradient(step), dtype))
    return stepper.w.tolist()


def run_torch(optimizer, options, dtype):
    torch.set_default_dtype(dtype)  # of NAdam's product of momenta
    w = torch.tensor(initial(), dtype=dtype, requires_grad=True)
    # foreach and fused are other implementations, which may round otherwise.
    stepper = optimizer([w], lr=LR, foreach=False, **options)
    for step in range(1, STEPS + 1):
        w.grad = torch.tensor(gradient(step), dtype=dtype)
        stepper.step()
    return w.detach().tolist()


CASES = [
    ("sgd", torch.optim.SGD, {}),
    ("sgd", torch.optim.SGD, {"weight_decay": 0.1}),
    ("momentum_sgd", torch.optim.SGD, {"momentum": 0.9}),
    ("momentum_sgd", torch.optim.SGD,
     {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05}),
    ("momentum_sgd", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    ("adam", torch.optim.Adam, {}),
    ("adam", torch.optim.Adam, {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("adam", torch.optim.Adam, {"betas": (0.8, 0.95), "amsgrad": True}),
    ("adamw", torch.optim.AdamW, {}),
    ("adamw", torch.optim.AdamW, {"betas": (0.8, 0.95), "weight_decay": 0.2}),
    ("adamw", torch.optim.AdamW, {"betas": (0.8, 0.95), "amsgrad": True}),
    ("adamax", torch.optim.Adamax, {}),
    ("adamax", torch.optim.Adamax, {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("nadam", torch.optim.NAdam, {}),
    ("nadam", torch.optim.NAdam,
     {"betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.1, "decoupled_weight_decay": True}),
    ("radam", torch.optim.RAdam, {}),
    ("radam", torch.optim.RAdam, {"betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("adagrad", torch.optim.Adagrad, {}),
    ("adagrad", torch.optim.Adagrad,
     {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("adadelta", torch.optim.Adadelta, {}),
    ("adadelta", torch.optim.Adadelta, {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    ("rmsprop", torch.optim.RMSprop, {}),
    ("rmsprop", torch.optim.RMSprop, {"alpha": 0.9, "weight_decay": 0.1, "momentum": 0.5, "centered": True}),
    ("rprop", torch.optim.Rprop, {}),
    ("rprop", torch.optim.Rprop, {"etas": (0.4, 1.1), "step_sizes": (1e-3, 0.05)}),
    ("lion", Lion, {}),
    ("lion", Lion, {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1}),
    ("lamb", Lamb, {}),
    ("lamb", Lamb, {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1}),
]


def plain(options):
    """Options by the names of coconet::programs."""
    named = dict(options)
    if "betas" in named:
        named["beta1"], named["beta2"] = named.pop("betas")
    if "etas" in named:
        named["eta_minus"], named["eta_plus"] = named.pop("etas")
    if "step_sizes" in named:
        named["step_size_min"], named["step_size_max"] = named.pop("step_sizes")
    return named


def main():
    torch.set_num_threads(1)
    cases = []
    for program, optimizer, options in CASES:
        if optimizer in (Lamb, Lion):
            f64, f32 = (run_numpy(optimizer, options, d) for d in (np.float64, np.float32))
        else:
            f64, f32 = (run_torch(optimizer, options, d) for d in (torch.float64, torch.float32))
        f32 = [float(np.format_float_scientific(np.float32(x), unique=True)) for x in f32]
        cases.append({"program": program, "options": plain(options), "f64": f64, "f32": f32})
    head = {
        "made_by": "tests/data/make_optimizer_data.py",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "n": N,
        "steps": STEPS,
        "lr": LR,
    }
    text = json.dumps(head)[:-1] + ', "cases": [\n'
    text += ",\n".join(json.dumps(case) for case in cases) + "\n]}\n"
    pathlib.Path(__file__).with_name("optimizers.json").write_text(text)


if __name__ == "__main__":
    main()
