#!/usr/bin/env python3
"""Writes optimizer_pairs.json beside this file: parameters, and the last gradient's norm, after 20 steps of every shipped optimizer, with every option
of its struct in programs.h combined with every other one in at least one case.

    python3 -m venv venv && venv/bin/pip install torch numpy && venv/bin/python make_optimizer_pairs.py

Expected values for tests/sched/optimizer_pairs_test.cpp and tests/jit/conformance/pytorch_test.cpp, in f64. The steps
are PyTorch's: its optimizers with a parameter group for each buffer, torch.nn.utils for clipping, and
torch.amp.GradScaler. It has none of Lion, LAMB, LARS and NovoGrad, which are written with numpy from the formulas that
programs.h gives; what is done to gradients before is PyTorch's for these, too.
"""

import itertools
import json
import math
import pathlib

import numpy as np
import torch

from make_optimizer_data import sample

LENGTHS = [5, 1, 6]
N = sum(LENGTHS)
STEPS = 20
# With loss scaling a gradient is infinite in the first step and in a later one.
BAD_STEPS = (1, 8)
LR_SCALE = [1, 0.5, 2]
WEIGHT_DECAY = [0.125, 0, 0.0625]  # of the groups
LOSS_SCALE = {"init_scale": 1024, "growth_factor": 4, "backoff_factor": 0.25, "growth_interval": 3}


def initial():
    return [sample(i) for i in range(N)]


def gradient(step):
    """Of step 1, 2, ...: the average over ranks and micro-batches."""
    return [sample(step * N + i) for i in range(N)]


def rate(step):
    return 0.01 * (1 + step % 3)


def lr_scale(options):
    return LR_SCALE if options.get("groups") else [1] * len(LENGTHS)


def weight_decay(options, default=0):
    if options.get("groups"):
        return WEIGHT_DECAY
    return [options.get("weight_decay", default)] * len(LENGTHS)


class Own:
    """An optimizer that PyTorch has not: `update(w, g, lr, decay)` of a list of buffers, for each of its steps."""

    def __init__(self, parameters, options, scattered):
        self.parameters, self.options, self.scattered, self.t = parameters, options, scattered, 0
        self.states = [{} for _ in parameters]

    def norms(self, values):
        """Of each buffer, or of all where they are one tensor."""
        squares = [float((v * v).sum()) for v in values]
        if not self.scattered:
            squares = [sum(squares)] * len(squares)
        return [math.sqrt(s) for s in squares]

    def zero_grad(self):
        pass

    def step(self, lrs):
        self.t += 1
        with torch.no_grad():
            w = [p.detach().numpy() for p in self.parameters]
            g = [p.grad.numpy() for p in self.parameters]
            for p, new in zip(self.parameters, self.update(w, g, lrs)):
                p.copy_(torch.from_numpy(np.asarray(new)))

    def of(self, name, default):
        return self.options.get(name, default)


class Lion(Own):
    def update(self, w, g, lrs):
        beta1, beta2 = self.of("beta1", 0.9), self.of("beta2", 0.99)
        for i, decay in enumerate(weight_decay(self.options)):
            m = self.states[i].get("m", 0)
            direction = np.sign(beta1 * m + (1 - beta1) * g[i])
            self.states[i]["m"] = beta2 * m + (1 - beta2) * g[i]
            yield w[i] - lrs[i] * (direction + decay * w[i])


class Lamb(Own):
    def update(self, w, g, lrs):
        beta1, beta2, eps = self.of("beta1", 0.9), self.of("beta2", 0.999), self.of("eps", 1e-6)
        u = []
        for i, decay in enumerate(weight_decay(self.options, 0.01)):
            state = self.states[i]
            state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g[i]
            state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g[i] * g[i]
            m_hat, v_hat = state["m"] / (1 - beta1**self.t), state["v"] / (1 - beta2**self.t)
            u.append(m_hat / (np.sqrt(v_hat) + eps) + decay * w[i])
        for i, (w_norm, u_norm) in enumerate(zip(self.norms(w), self.norms(u))):
            ratio = w_norm / u_norm if w_norm > 0 and u_norm > 0 else 1
            yield w[i] - lrs[i] * ratio * u[i]


class Lars(Own):
    def update(self, w, g, lrs):
        momentum, trust = self.of("momentum", 0.9), self.of("trust_coefficient", 0.001)
        decays = weight_decay(self.options, 0.0005)
        for i, (w_norm, g_norm) in enumerate(zip(self.norms(w), self.norms(g))):
            ratio = trust * w_norm / (g_norm + decays[i] * w_norm) if w_norm > 0 and g_norm > 0 else 1
            m = momentum * self.states[i].get("m", 0) + lrs[i] * ratio * (g[i] + decays[i] * w[i])
            self.states[i]["m"] = m
            yield w[i] - m


class NovoGrad(Own):
    def update(self, w, g, lrs):
        beta1, beta2, eps = self.of("beta1", 0.95), self.of("beta2", 0.98), self.of("eps", 1e-8)
        decays = weight_decay(self.options)
        for i, norm in enumerate(self.norms(g)):
            state = self.states[i]
            state["v"] = norm**2 if self.t == 1 else beta2 * state["v"] + (1 - beta2) * norm**2
            state["m"] = beta1 * state.get("m", 0) + g[i] / (math.sqrt(state["v"]) + eps) + decays[i] * w[i]
            yield w[i] - lrs[i] * state["m"]


class Torch:
    """One of PyTorch's, with a group for each buffer."""

    def __init__(self, make, parameters, options, takes_decay=True):
        decays = weight_decay(options, None)
        groups = []
        for p, decay in zip(parameters, decays):
            group = {"params": [p], "lr": 0.0}
            if takes_decay and decay is not None:
                group["weight_decay"] = decay
            groups.append(group)
        self.optimizer = make(groups)

    def step(self, lrs):
        for group, lr in zip(self.optimizer.param_groups, lrs):
            group["lr"] = lr
        self.optimizer.step()


TRAINING = {
    "max_norm", "max_value", "gradient_norm", "loss_scaling", "loss_scale", "groups", "accumulation", "weight_decay"
}


def torch_options(options):
    named = {k: v for k, v in options.items() if k not in TRAINING}
    if "beta1" in named or "beta2" in named:
        named["betas"] = (named.pop("beta1", 0.9), named.pop("beta2", 0.999))
    if "eta_minus" in named or "eta_plus" in named:
        named["etas"] = (named.pop("eta_minus", 0.5), named.pop("eta_plus", 1.2))
    if "step_size_min" in named or "step_size_max" in named:
        named["step_sizes"] = (named.pop("step_size_min", 1e-6), named.pop("step_size_max", 50))
    return named


def run(program, options, scattered):
    parameters = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in split(initial())]
    make, own = OPTIMIZERS[program][:2]
    if own:
        stepper = make(parameters, options, scattered)
    else:
        named = torch_options(options)
        if program == "momentum_sgd":
            named.setdefault("momentum", 0.9)
        if program == "rprop":
            # Rprop reads its learning rate in the first step only, when it makes its state.
            stepper = Torch(lambda groups: make(groups, foreach=False, **named), parameters, options, False)
        else:
            stepper = Torch(lambda groups: make(groups, foreach=False, **named), parameters, options)
    scaler = None
    if options.get("loss_scaling"):
        scaler = torch.amp.GradScaler("cpu", **options.get("loss_scale", {}))
    for step in range(1, STEPS + 1):
        scale = float(scaler.scale(torch.ones(()))) if scaler else 1
        for p, g in zip(parameters, split(gradient(step))):
            p.grad = torch.tensor(g, dtype=torch.float64) * scale
        if scaler and step in BAD_STEPS:
            parameters[-1].grad[2] = math.inf
        finite = all(bool(torch.isfinite(p.grad).all()) for p in parameters)
        if scaler:
            scaler.unscale_(stepper.optimizer if not own else Unscaled(parameters))
        if options.get("max_value"):
            torch.nn.utils.clip_grad_value_(parameters, options["max_value"])
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, options.get("max_norm", math.inf)))
        lrs = [rate(step) * s for s in lr_scale(options)]
        if own:
            if finite:
                stepper.step(lrs)
        elif scaler:
            for group, lr in zip(stepper.optimizer.param_groups, lrs):
                group["lr"] = lr
            scaler.step(stepper.optimizer)
        else:
            stepper.step(lrs)
        if scaler:
            scaler.update()
    w = [x for p in parameters for x in p.detach().tolist()]
    assert all(math.isfinite(x) for x in w)
    return w, norm


class Unscaled(torch.optim.SGD):
    """What GradScaler takes for an optimizer: it divides the gradients of this one's parameters."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0)


def split(values):
    ends = list(itertools.accumulate(LENGTHS))
    return [values[end - length:end] for end, length in zip(ends, LENGTHS)]


# Of each option a value that is not the default.
BETAS = {"beta1": 0.8, "beta2": 0.95}
OF_ALL = {
    "max_norm": 0.75,
    "max_value": 0.5,
    "gradient_norm": True,
    "loss_scaling": True,
    "loss_scale": LOSS_SCALE,
    "groups": True,
    "accumulation": True,
}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, False, {"weight_decay": 0.1}),
    "momentum_sgd": (torch.optim.SGD, False,
                     {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1, "nesterov": True}),
    "adam": (torch.optim.Adam, False, {**BETAS, "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, False, {**BETAS, "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True}),
    "adamax": (torch.optim.Adamax, False, {**BETAS, "eps": 1e-3, "weight_decay": 0.1}),
    "nadam": (torch.optim.NAdam, False,
              {**BETAS, "eps": 1e-3, "weight_decay": 0.1, "momentum_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": (torch.optim.RAdam, False, {**BETAS, "eps": 1e-3, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adagrad": (torch.optim.Adagrad, False,
                {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2, "eps": 1e-3}),
    "adadelta": (torch.optim.Adadelta, False, {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    "rmsprop": (torch.optim.RMSprop, False,
                {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.5, "centered": True}),
    "rprop": (torch.optim.Rprop, False,
              {"eta_minus": 0.4, "eta_plus": 1.1, "step_size_min": 0.005, "step_size_max": 0.02}),
    "lion": (Lion, True, {**BETAS, "weight_decay": 0.1}),
    "lamb": (Lamb, True, {**BETAS, "eps": 1e-3, "weight_decay": 0.1}),
    "lars": (Lars, True, {"momentum": 0.8, "weight_decay": 0.1, "trust_coefficient": 0.02}),
    "novograd": (NovoGrad, True, {**BETAS, "eps": 1e-3, "weight_decay": 0.1}),
}


def is_allowed(chosen):
    return not (chosen.get("nesterov") and chosen.get("dampening"))


def pairwise(names):
    """Choices of `names`, each on or off, so that any two are once on together, once off, and once either alone."""
    wanted = {
        (a, x, b, y)
        for a, b in itertools.combinations(names, 2)
        for x, y in itertools.product((False, True), repeat=2)
        if is_allowed({a: x, b: y})
    }

    def covered(case):
        return {(a, case[a], b, case[b]) for a, b in itertools.combinations(names, 2)}

    cases = []
    while wanted:
        best = None
        a, x, b, y = min(wanted)
        for seed in range(200):
            # Greedily from the first pair that no case has, in an order of its own each time.
            case = {a: x, b: y}
            rest = [name for name in names if name not in case]
            rest.sort(key=lambda name: sample(hash_of(name) + seed))
            for name in rest:
                scores = []
                for on in (False, True):
                    tried = {**case, name: on}
                    if is_allowed(tried):
                        gained = sum((p, tried[p], name, on) in wanted or (name, on, p, tried[p]) in wanted for p in case)
                        scores.append((gained, on))
                case[name] = max(scores)[1]
            gained = len(covered(case) & wanted)
            if best is None or gained > best[0]:
                best = (gained, case)
        cases.append(best[1])
        wanted -= covered(best[1])
    return cases


def hash_of(text):
    value = 0
    for c in text:
        value = (value * 31 + ord(c)) & 0xFFFFFFFF
    return value


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # of NAdam's product of momenta
    cases = []
    for program, (_, _, of_its_own) in OPTIMIZERS.items():
        values = {**of_its_own, **OF_ALL}
        for chosen in pairwise(["scattered", *values]):
            scattered = chosen.pop("scattered")
            options = {name: values[name] for name, on in chosen.items() if on}
            w, norm = run(program, options, scattered)
            w, norm = [float(f"{x:.12g}") for x in w], float(f"{norm:.12g}")
            case = {"program": program, "scattered": scattered, "options": options, "w": w}
            cases.append({**case, "gradient_norm": norm} if options.get("gradient_norm") else case)
    head = {
        "made_by": "tests/data/make_optimizer_pairs.py",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "lengths": LENGTHS,
        "steps": STEPS,
        "bad_steps": BAD_STEPS,
        "lr_scale": LR_SCALE,
        "weight_decay": WEIGHT_DECAY,
    }
    text = json.dumps(head)[:-1] + ', "cases": [\n'
    text += ",\n".join(json.dumps(case) for case in cases) + "\n]}\n"
    pathlib.Path(__file__).with_name("optimizer_pairs.json").write_text(text)
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
