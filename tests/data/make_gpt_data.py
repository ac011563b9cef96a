#!/usr/bin/env python3
"""Makes gpt.json: what PyTorch makes of the transformer that ships (src/sched/programs/gpt.cpp).

Its loss and the gradient of each weight on one batch, and the weights after 20 steps of AdamW with
clipping on that batch. Everything is computed in f64. Weights and tokens follow from formulas that
tests/jit/conformance/gpt_test.cpp has, too; weights are numbers that bf16 holds.

  python3 tests/data/make_gpt_data.py > tests/data/gpt.json
"""
import json
import math

import torch
from torch.nn import functional as F

VOCABULARY, LENGTH, LAYERS, HIDDEN, HEADS, BATCH, STEPS = 12, 8, 2, 8, 2, 6, 20
LR, BETA2, WEIGHT_DECAY, MAX_NORM = 0.01, 0.98, 0.1, 0.25


def shapes():
    yield "tokens", (VOCABULARY, HIDDEN)
    yield "places", (LENGTH, HIDDEN)
    width = HIDDEN // HEADS
    for i in range(LAYERS):
        yield f"layer{i}.attention_norm", (HIDDEN,)
        for name in ("wq", "wk", "wv"):
            yield f"layer{i}.attention.{name}", (HIDDEN, HEADS, width)
        yield f"layer{i}.attention.wo", (HEADS, width, HIDDEN)
        yield f"layer{i}.mlp_norm", (HIDDEN,)
        yield f"layer{i}.mlp.up", (HIDDEN, 4 * HIDDEN)
        yield f"layer{i}.mlp.down", (4 * HIDDEN, HIDDEN)
    yield "norm", (HIDDEN,)


def made_weights():
    """Of element k, counted through all weights: multiples of 1/64 within 1/2, norms around 1."""
    weights, k = {}, 0
    for name, shape in shapes():
        values = []
        for _ in range(math.prod(shape)):
            values.append(((k * 2654435761 % 2**32) // 2**16 % 65 - 32) / 64 + (1 if name.endswith("norm") else 0))
            k += 1
        weights[name] = torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
    return weights


def batch():
    tokens = [[(r * 5 + s * s * 3 + r * s) % VOCABULARY for s in range(LENGTH)] for r in range(BATCH)]
    labels = [[(r * 7 + s * 2 + 1) % VOCABULARY if (r + s) % 3 else -100 for s in range(LENGTH)] for r in range(BATCH)]
    return torch.tensor(tokens), torch.tensor(labels)


def rms_norm(x, gamma):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma


def loss_of(weights, tokens, labels):
    x = weights["tokens"][tokens] + weights["places"]
    seen = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
    for i in range(LAYERS):
        at = lambda name: weights[f"layer{i}.{name}"]
        h = rms_norm(x, at("attention_norm"))
        q, k, v = (torch.einsum("bsh,hnd->bsnd", h, at(f"attention.w{c}")) for c in "qkv")
        scores = torch.einsum("bsnd,btnd->bnst", q, k) / math.sqrt(HIDDEN // HEADS)
        shares = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
        context = torch.einsum("bnst,btnd->bsnd", shares, v)
        x = x + torch.einsum("bsnd,ndh->bsh", context, at("attention.wo"))
        h = rms_norm(x, at("mlp_norm"))
        x = x + F.gelu(h @ at("mlp.up")) @ at("mlp.down")
    logits = torch.einsum("bsh,vh->bsv", rms_norm(x, weights["norm"]), weights["tokens"])
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))


def flat(tensor):
    return [float(f"{x:.8g}") for x in tensor.detach().reshape(-1).tolist()]


weights, (tokens, labels) = made_weights(), batch()
loss = loss_of(weights, tokens, labels)
loss.backward()
gradients = {name: flat(w.grad) for name, w in weights.items()}
decayed = [w for name, w in weights.items() if not name.endswith("norm")]
others = [w for name, w in weights.items() if name.endswith("norm")]
optimizer = torch.optim.AdamW(
    [{"params": decayed}, {"params": others, "weight_decay": 0.0}],
    lr=LR, betas=(0.9, BETA2), weight_decay=WEIGHT_DECAY)
losses = []
for _ in range(STEPS):
    optimizer.zero_grad()
    value = loss_of(weights, tokens, labels)
    value.backward()
    losses.append(float(f"{value.item():.8g}"))
    torch.nn.utils.clip_grad_norm_(list(weights.values()), MAX_NORM)
    optimizer.step()
print(json.dumps({
    "torch": torch.__version__,
    "vocabulary": VOCABULARY, "length": LENGTH, "layers": LAYERS, "hidden": HIDDEN, "heads": HEADS,
    "batch": BATCH, "steps": STEPS, "lr": LR, "beta2": BETA2, "weight_decay": WEIGHT_DECAY, "max_norm": MAX_NORM,
    "losses": losses, "gradients": gradients, "weights": {name: flat(w) for name, w in weights.items()},
}))
