#!/usr/bin/env python3
"""Writes samples/quickstart/model.onnx: a small Llama (0.8 M parameters, byte vocabulary) as torch.onnx.export writes it.

The file in the repository came from this script with torch 2.15, transformers 5.23 (pip install torch transformers onnx onnxscript).
Weights are random; training starts from them.
"""
import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                     vocab_size=256, max_position_embeddings=512, tie_word_embeddings=False, use_cache=False,
                     bos_token_id=None, eos_token_id=None, pad_token_id=None)
torch.manual_seed(1)
model = LlamaForCausalLM(config).eval()
generator = torch.Generator().manual_seed(2)
with torch.no_grad():  # norms that differ from one another, or the exporter merges them into one initializer
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))

out = pathlib.Path(__file__).resolve().parents[1] / "quickstart" / "model.onnx"
ids = torch.zeros(2, 64, dtype=torch.int64)
dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
program = torch.onnx.export(model, (), kwargs={"input_ids": ids}, dynamo=True, opset_version=18, dynamic_shapes={"input_ids": dims})
for node in program.model.graph:  # the stack trace of the exporting machine is of no use to anybody else
    for key in [k for k in node.metadata_props if "stack_trace" in k]:
        del node.metadata_props[key]
program.save(str(out), external_data=False)
(out.parent / "config.json").write_text(config.to_json_string())
print(out, out.stat().st_size, "bytes")
