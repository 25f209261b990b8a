#!/usr/bin/env python3
"""Folders whose weights are stored in fewer bits, and the numbers that they stand for: rewrites tests/golden/quantized-checkpoints.

  pip install -r tests/golden/requirements.txt
  python tests/golden/quantized_checkpoints.py [NAME...]

Codes, scales and zeros are random, as any are allowed; what they stand for is computed by the libraries that read such folders: transformers (fp8, mxfp4), compressed-tensors;
of GPTQ and AWQ, whose libraries do not come without a GPU's compiler, by the definition in their papers, an element at a time, and of nvfp4 as ModelOpt stores it by compressed-tensors' formula
with the factor in place of the divisor. Each folder: config.json, model.safetensors, golden.json: SHA-256 of each weight in f32 where it is in fewer bits (in the model's shape), tokens, labels,
and the loss that transformers computes in f32 with these numbers.
"""
import hashlib
import json
import math
import pathlib
import sys
import tempfile
import zlib

import numpy
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

OUT = pathlib.Path(__file__).resolve().parent / "quantized-checkpoints"
LLAMA = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=61, max_position_embeddings=64)
BATCH, SEQUENCE = 2, 12


def linears(model):
    return {f"{name}.weight": module.weight.shape for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and name != "lm_head"}


def scales(*shape, size=0.02, dtype=torch.float32):
    return (size * (0.5 + torch.rand(shape))).to(dtype)


def fp8_codes(shape, dtype=torch.float8_e4m3fn):
    return torch.randn(shape).to(dtype)


def fp8(block=None, *, rows=False, name="weight_scale_inv", dtype=torch.float32, codes=torch.float8_e4m3fn, beside=()):
    """`block`: rows and columns that share a scale; `rows`: a scale for each; neither: one for all."""
    def make(weight, shape):
        grid = [math.ceil(n / b) for n, b in zip(shape, block, strict=True)] if block else [shape[0], 1] if rows else []
        code, scale = fp8_codes(shape, codes), scales(*grid, size=0.05, dtype=dtype)
        if dtype == torch.float8_e8m0fnu:
            scale = torch.randint(120, 124, grid, dtype=torch.uint8).view(dtype)
        module = weight.removesuffix(".weight")
        tensors = {weight: code, f"{module}.{name}": scale} | {f"{module}.{x}": torch.tensor([1.5]) for x in beside}
        ragged = block and any(n % b for n, b in zip(shape, block, strict=True))
        if ragged:  # transformers takes no such weights, DeepSeek's own code does
            wide = scale.float().repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:shape[0], :shape[1]]
            return tensors, code.float() * wide
        return tensors, Fp8Dequantize(None)._dequantize_one(code, scale.reshape(grid or [1, 1]), output_dtype=torch.float32)
    return make


def compressed(format, *, dtype=torch.bfloat16, zeros=False, **args):
    """By compressed-tensors: a random weight, scales and zeros, compressed, and decompressed."""
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(symmetric=not zeros, **args))
    compressor = BaseCompressor.get_value_from_registry(format)

    def make(weight, shape):
        group = args.get("group_size")
        grid = (shape[0], shape[1] // group) if group else (shape[0], 1) if args["strategy"] == "channel" else (1,)
        if args["strategy"] == "block":
            grid = tuple(math.ceil(n / b) for n, b in zip(shape, args["block_structure"], strict=True))
        size = {"int": 0.15 / 2 ** (args["num_bits"] - 1), "float": 0.05}[args["type"]]
        state = {"weight": (0.1 * torch.randn(shape)).to(dtype), "weight_scale": scales(*grid, size=size, dtype=dtype)}
        if format == "nvfp4-pack-quantized":
            state |= {"weight_global_scale": torch.tensor([800.0]), "weight_scale": (state["weight_scale"].float() * 800).to(torch.float8_e4m3fn).float()}
        elif format == "mxfp4-pack-quantized":
            state["weight_scale"] = torch.exp2(torch.randint(-6, -3, grid).float())
        if zeros:
            span = 2 ** (args["num_bits"] - 1)
            state["weight_zero_point"] = torch.randint(-span, span, grid).to(torch.int8)
        stored = compressor.compress(state, scheme)
        if format == "nvfp4-pack-quantized":  # decompress() computes in bf16
            codes = unpack_fp4_from_uint8(stored["weight_packed"], *shape, dtype=torch.float32)
            return ({weight.removesuffix("weight") + key: value for key, value in stored.items()},
                    dequantize(codes, stored["weight_scale"].float(), args=scheme.weights, dtype=torch.float32, global_scale=stored["weight_global_scale"]))
        wide = {key: value.float() if key == "weight_scale" and value.dtype == dtype else value for key, value in stored.items()}  # numbers in f32, not in the scales' type
        return {weight.removesuffix("weight") + key: value for key, value in stored.items()}, compressor.decompress(wide, scheme)["weight"].float()
    return make


def words(codes, bits):
    """Integers along the first axis, one after the other from the low bits of words of 32 on."""
    count, width = codes.shape
    stream = ((codes[:, None, :] >> numpy.arange(bits)[None, :, None]) & 1).reshape(count * bits, width).astype(numpy.uint64)
    stream = numpy.concatenate([stream, numpy.zeros((-len(stream) % 32, width), numpy.uint64)]).reshape(-1, 32, width)
    return torch.from_numpy((stream << numpy.arange(32, dtype=numpy.uint64)[None, :, None]).sum(1).astype(numpy.uint32).view(numpy.int32))


def gptq(bits, group, *, less=1, shuffled=False):
    """arXiv:2210.17323 as AutoGPTQ stores it: (code - zero) * scale; `less`: what stored zeros are less by."""
    def make(weight, shape):
        outputs, inputs = shape
        random = numpy.random.default_rng(zlib.crc32(weight.encode()))
        codes, zeros = random.integers(0, 2**bits, (inputs, outputs)), random.integers(1, 2**bits, (inputs // group, outputs))
        scale = scales(inputs // group, outputs, size=0.15 / 2 ** (bits - 1), dtype=torch.float16)
        order = numpy.arange(inputs) // group
        if shuffled:
            random.shuffle(order)
        module = weight.removesuffix("weight")
        tensors = {f"{module}qweight": words(codes, bits), f"{module}qzeros": words((zeros - less).T, bits).T.contiguous(), f"{module}scales": scale,
                   f"{module}g_idx": torch.from_numpy(order.astype(numpy.int32))}
        number = (torch.from_numpy(codes) - torch.from_numpy(zeros)[order]).float() * scale.float()[order]
        return tensors, number.T.contiguous()
    return make


def awq(group):
    """arXiv:2306.00978 as AutoAWQ's gemm stores it."""
    def make(weight, shape):
        outputs, inputs = shape
        random = numpy.random.default_rng(zlib.crc32(weight.encode()))
        codes, zeros = random.integers(0, 16, (inputs, outputs)), random.integers(0, 16, (inputs // group, outputs))
        scale = scales(inputs // group, outputs, size=0.02, dtype=torch.float16)

        def packed(matrix):  # place i of a word has the output of the i-th of these
            mixed = matrix.reshape(len(matrix), -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(matrix.shape)
            return words(mixed.T, 4).T.contiguous()
        module = weight.removesuffix("weight")
        groups = numpy.arange(inputs) // group
        number = (torch.from_numpy(codes) - torch.from_numpy(zeros)[groups]).float() * scale.float()[groups]
        return {f"{module}qweight": packed(codes), f"{module}qzeros": packed(zeros), f"{module}scales": scale}, number.T.contiguous()
    return make


def nvfp4_factor(weight, shape):
    """As ModelOpt stores it: bytes of two codes, e4m3 scales for each 16, and a number that multiplies them."""
    codes = torch.randint(0, 256, (shape[0], shape[1] // 2), dtype=torch.uint8)
    scale, factor = torch.rand(shape[0], shape[1] // 16).to(torch.float8_e4m3fn), torch.tensor(0.11)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    number = torch.stack([values[(codes & 15).long()], values[(codes >> 4).long()]], -1).reshape(shape)
    return ({weight: codes, f"{weight}_scale": scale, f"{weight}_scale_2": factor, weight.removesuffix("weight") + "input_scale": torch.tensor(0.5)},
            number * (scale.float() * factor).repeat_interleave(16, 1))


def experts(weight, shape):
    """Of gpt-oss: (experts, inputs, outputs) as transposed matrices in mxfp4."""
    count, inputs, outputs = shape
    blocks = torch.randint(0, 256, (count, outputs, inputs // 32, 16), dtype=torch.uint8)
    exponents = torch.randint(119, 124, blocks.shape[:-1], dtype=torch.uint8)
    return {f"{weight}_blocks": blocks, f"{weight}_scales": exponents}, convert_moe_packed_tensors(blocks, exponents, dtype=torch.float32)


def llama(make, quantization, **more):
    return dict(kind="llama", options=LLAMA | more, of=linears, make=make, quantization=quantization)


def packed(format, **args):
    group = {"targets": ["Linear"], "format": format, "weights": {"symmetric": "zeros" not in args, "dynamic": False} | {k: v for k, v in args.items() if k != "zeros"}}
    return llama(compressed(format, **args), dict(quant_method="compressed-tensors", format=format, config_groups={"group_0": group}, ignore=["lm_head"], quantization_status="compressed"))


FOLDERS = {
    "fp8-blocks": llama(fp8((32, 16)), dict(quant_method="fp8", weight_block_size=[32, 16], activation_scheme="dynamic", fmt="e4m3")),
    "fp8-ragged": llama(fp8((40, 48)), dict(quant_method="fp8", weight_block_size=[40, 48], activation_scheme="dynamic")),
    "fp8-powers": llama(fp8((32, 32), dtype=torch.float8_e8m0fnu), dict(quant_method="fp8", weight_block_size=[32, 32], scale_fmt="ue8m0")),
    "fp8-static": llama(fp8(dtype=torch.bfloat16, beside=["activation_scale"]), dict(quant_method="fp8", weight_block_size=None, activation_scheme="static")),
    "fp8-rows": llama(fp8(rows=True, name="weight_scale", codes=torch.float8_e5m2, beside=["input_scale_ub"]), dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0)),
    "gpt-oss": dict(kind="gpt_oss", options=dict(hidden_size=64, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=61,
                                                 num_local_experts=3, num_experts_per_tok=2, sliding_window=8, layer_types=["sliding_attention"]),
                    of=lambda model: {name: tensor.shape for name, tensor in model.named_parameters() if name.endswith(("gate_up_proj", "down_proj"))}, make=experts,
                    quantization=dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])),
    "gptq-4": llama(gptq(4, 32), dict(quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=False, checkpoint_format="gptq")),
    "gptq-4-order": llama(gptq(4, 16, less=0, shuffled=True), dict(quant_method="gptq", bits=4, group_size=16, desc_act=True, sym=False, checkpoint_format="gptq_v2")),
    "gptq-3": llama(gptq(3, 32), dict(quant_method="gptq", bits=3, group_size=32, desc_act=False, sym=False)),
    "gptq-8": llama(gptq(8, 32), dict(quant_method="gptq", bits=8, group_size=32, desc_act=False, sym=False)),
    "awq": llama(awq(32), dict(quant_method="awq", bits=4, group_size=32, version="gemm", zero_point=True)),
    "integers-4": packed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=32),
    "integers-3-zeros": packed("pack-quantized", num_bits=3, type="int", strategy="group", group_size=16, zeros=True),
    "integers-8-rows": packed("int-quantized", num_bits=8, type="int", strategy="channel", zeros=True),
    "floats-8-rows": packed("float-quantized", num_bits=8, type="float", strategy="channel"),
    "mxfp4": packed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32),
    "nvfp4": packed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
    "nvfp4-factor": llama(nvfp4_factor, dict(quant_method="modelopt", quant_algo="NVFP4")),
}


def write(name):
    case = FOLDERS[name]
    torch.manual_seed(zlib.crc32(name.encode()) % 100000)
    config = transformers.AutoConfig.for_model(case["kind"], **case["options"])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    quantized = case["of"](model)
    stored = {key: value.bfloat16().contiguous() for key, value in model.state_dict().items() if key not in quantized}
    numbers = {}
    for weight, shape in quantized.items():
        tensors, number = case["make"](weight, tuple(shape))
        assert number.shape == shape and number.isfinite().all(), weight
        stored |= {key: value.contiguous() for key, value in tensors.items()}
        numbers[weight] = number.contiguous()
    model.load_state_dict(model.state_dict() | numbers)
    tokens = torch.randint(0, config.vocab_size, (BATCH, SEQUENCE))
    with torch.no_grad():
        loss = model(input_ids=tokens, labels=tokens).loss
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        config.dtype = torch.bfloat16
        config.architectures = [type(model).__name__]
        config.save_pretrained(work)
        text = json.loads((pathlib.Path(work) / "config.json").read_text()) | {"quantization_config": case["quantization"]}
    (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    golden = {"batch": BATCH, "seq": SEQUENCE, "input_ids": tokens.tolist(), "loss": loss.item(),
              "sha256": {weight: hashlib.sha256((number + 0.0).numpy().tobytes()).hexdigest() for weight, number in sorted(numbers.items())}}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")
    print(name, f"{loss.item():.6f}", (folder / "model.safetensors").stat().st_size, "bytes")


if __name__ == "__main__":
    for name in sys.argv[1:] or FOLDERS:
        write(name)
