#!/usr/bin/env python3
"""Weights in fewer bits, by bitsandbytes on a processor: rewrites tests/golden/quantized.safetensors.

  pip install -r tests/golden/requirements.txt
  python tests/golden/quantized.py

On a processor with AVX-512: where rows are multiples of 16 and not of 64 the numbers of nf4 are those that bitsandbytes has there, with scales of other blocks.
Of each matrix: NAME.weight (f32), what quantize_4bit makes of it with double quantisation (NAME.codes, .absmax, .nested_absmax, .nested_map, .map, .mean) and
what dequantize_4bit makes of that (.nf4); the scales of its blocks without that, and the numbers (.scales, .nf4_single); what int8_vectorwise_quant makes of it (.int8_codes, .int8_scales) and the numbers of that (.int8).
"""
import pathlib

import torch
from bitsandbytes.functional import dequantize_4bit, int8_vectorwise_dequant, int8_vectorwise_quant, quantize_4bit
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = {"rows": (12, 40), "odd": (7, 13), "blocks": (200, 88), "zeros": (4, 64), "multiples": (9, 48), "halves": (20, 96)}

assert torch.backends.cpu.get_cpu_capability() == "AVX512"
torch.manual_seed(11)
tensors = {}
for name, shape in SHAPES.items():
    weight = torch.randn(shape) * torch.rand(shape[0], 1) * 0.1
    if name == "zeros":
        weight[1:3] = 0
    codes, state = quantize_4bit(weight, quant_type="nf4", blocksize=64, compress_statistics=True)
    tensors |= {f"{name}.weight": weight, f"{name}.codes": codes.flatten(), f"{name}.absmax": state.absmax, f"{name}.nested_absmax": state.state2.absmax,
                f"{name}.nested_map": state.state2.code, f"{name}.map": state.code, f"{name}.mean": state.offset.reshape(1),
                f"{name}.nf4": dequantize_4bit(codes, state).reshape(shape)}
    same, state = quantize_4bit(weight, quant_type="nf4", blocksize=64, compress_statistics=False)
    assert torch.equal(same, codes)
    tensors |= {f"{name}.scales": state.absmax, f"{name}.nf4_single": dequantize_4bit(same, state).reshape(shape)}
    codes, scales, _ = int8_vectorwise_quant(weight)
    tensors |= {f"{name}.int8_codes": codes, f"{name}.int8_scales": scales, f"{name}.int8": int8_vectorwise_dequant(codes, scales)}
save_file({name: tensor.clone() for name, tensor in tensors.items()}, HERE / "quantized.safetensors")
print(sum(t.numel() * t.element_size() for t in tensors.values()), "bytes")
