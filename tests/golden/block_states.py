#!/usr/bin/env python3
"""Optimizer states in 8 bits, by bitsandbytes: rewrites tests/golden/block_states.safetensors.

  pip install -r tests/golden/requirements.txt
  python tests/golden/block_states.py

Four steps of AdamW, Lion and SGD on the same gradients. bitsandbytes has no such optimizer for processors, so the updates are written here, in f32 and in the order of
its CUDA kernels (kOptimizerStatic8bit2StateBlockwise, ...1State...), between its own dequantize_blockwise and quantize_blockwise. The latter is the one that it has
for every device ("default"): its library for processors looks codes up in 65536 equal steps, which leaves nothing of numbers below 1.5e-5 of a block's magnitude.
Of each state: the codes and magnitudes after the last step (OPTIMIZER.STATE.codes, .absmax); of each optimizer the parameter. `values` and their codes in both
maps, the maps, and how many codes of the library for processors are others (printed) complete it.
"""
import pathlib

import torch
from bitsandbytes.functional import create_dynamic_map
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
ELEMENTS, STEPS, BLOCK = 3000, 4, 256
LR, BETA1, BETA2, EPSILON, MOMENTUM = 1e-3, 0.9, 0.95, 1e-8, 0.9
MAPS = {True: create_dynamic_map(signed=True), False: create_dynamic_map(signed=False)}
quantize, dequantize = torch.ops.bitsandbytes.quantize_blockwise.default, torch.ops.bitsandbytes.dequantize_blockwise.default


def encode(values, signed):
    return quantize._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, values, MAPS[signed], BLOCK)


class State:
    def __init__(self, signed):
        self.signed = signed
        self.codes, self.absmax = encode(torch.zeros(ELEMENTS), signed)

    def read(self):
        return dequantize(self.codes, self.absmax, MAPS[self.signed], BLOCK, torch.float32)

    def write(self, values):
        self.codes, self.absmax = encode(values, self.signed)


def adamw(p, g, m, v, step):
    s1, s2 = m.read(), v.read()
    s1 = s1 * BETA1 + (1 - BETA1) * g
    s2 = s2 * BETA2 + (1 - BETA2) * g * g
    p = p - LR / (1 - BETA1**step) * s1 / (s2.sqrt() / (1 - BETA2**step) ** 0.5 + EPSILON)
    m.write(s1)
    v.write(s2)
    return p


def lion(p, g, m, step):
    s1 = m.read()
    p = p - LR * (s1 * BETA1 + (1 - BETA1) * g).sign()
    m.write(s1 * BETA2 + (1 - BETA2) * g)
    return p


def sgd(p, g, m, step):
    s1 = m.read() * MOMENTUM + g
    m.write(s1)
    return p - LR * s1


torch.manual_seed(5)
parameter = torch.randn(ELEMENTS) * 0.1
gradients = torch.randn(STEPS, ELEMENTS) * 10 ** (torch.rand(ELEMENTS) * -4)
tensors = {"parameter": parameter, "gradients": gradients, "map": MAPS[True], "unsigned_map": MAPS[False]}
for name, update, states in (("adamw", adamw, {"exp_avg": True, "exp_avg_sq": False}), ("lion", lion, {"exp_avg": True}), ("sgd", sgd, {"momentum_buffer": True})):
    kept, p = {state: State(signed) for state, signed in states.items()}, parameter
    for step in range(STEPS):
        p = update(p, gradients[step], *kept.values(), step + 1)
    tensors[f"{name}.parameter"] = p
    for state, value in kept.items():
        tensors |= {f"{name}.{state}.codes": value.codes, f"{name}.{state}.absmax": value.absmax}
values = torch.randn(8 * BLOCK) * 10 ** (torch.rand(8 * BLOCK) * -6)
values[3 * BLOCK:4 * BLOCK] = 0
tensors["values"] = values
for signed, numbers in ((True, values), (False, values.abs())):
    codes, _ = encode(numbers, signed)
    tensors["codes" if signed else "unsigned_codes"] = codes
    others = quantize(numbers, MAPS[signed].clone(), BLOCK)[0] != codes
    print(f"{'signed' if signed else 'unsigned'}: the library for processors has {others.sum().item()} other codes of {codes.numel()}")
save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, HERE / "block_states.safetensors")
