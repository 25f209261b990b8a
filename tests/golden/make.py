#!/usr/bin/env python3
"""Makes the goldens of this folder: small Llamas as PyTorch exports them, and what PyTorch computes with them.

  pip install -r tests/golden/requirements.txt
  python tests/golden/make.py [NAME...]  # rewrites tests/golden/<model>/

Each folder: model.onnx (weights inside, or beside it in model.onnx.data), config.json, data.safetensors (input_ids and labels of every training step), golden.safetensors
(gradients of step 0), golden.json (losses, gradient norms, learning rates, settings, final loss of batch 0).
"""
import json
import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

STEPS, WARMUP, LR, RATIO, DECAY, BETAS, CLIP = 8, 2, 2e-3, 0.1, 0.1, (0.9, 0.95), 1.0
HERE = pathlib.Path(__file__).resolve().parent
SMALL = dict(hidden_size=32, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=96, max_position_embeddings=64, use_cache=False, initializer_range=0.1,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
MODELS = {
    "grouped": transformers.LlamaConfig(**SMALL, tie_word_embeddings=False),
    "tied": transformers.LlamaConfig(**SMALL, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)),
    "head-norms": transformers.Qwen3Config(**SMALL, head_dim=12, tie_word_embeddings=False),
    # The padding token stands among inputs and targets: its row of the table gets the head's share of the gradient, and weight decay.
    "padded": transformers.LlamaConfig(**SMALL | dict(hidden_size=24, num_hidden_layers=1, pad_token_id=7), tie_word_embeddings=True),
}


def rate(step, largest=LR):
    if step < WARMUP:
        return largest * (step + 1) / WARMUP
    part = (step + 1 - WARMUP) / (STEPS - WARMUP)
    return largest * RATIO + (largest - largest * RATIO) * 0.5 * (1 + math.cos(math.pi * part))


def loss_of(model, ids, labels):
    logits = model(input_ids=ids).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def fresh_model(number, config):
    torch.manual_seed(100 + number)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.mul_(1 + 0.2 * torch.rand_like(parameter))
    return model


def main():
    for number, (name, config) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        model = fresh_model(number, config)
        dims = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
        program = torch.onnx.export(model, (), kwargs={"input_ids": torch.zeros(2, 8, dtype=torch.int64)}, dynamo=True,
                                    opset_version=18, dynamic_shapes={"input_ids": dims})
        for node in program.model.graph:
            for key in [k for k in node.metadata_props if "stack_trace" in k]:
                del node.metadata_props[key]
        program.save(str(folder / "model.onnx"), external_data=name == "tied")  # one of them with its weights beside it
        (folder / "config.json").write_text(config.to_json_string())

        ids = torch.randint(0, config.vocab_size, (STEPS, 2, 16))
        ids[:, :, 1::2] = (ids[:, :, 0::2] * 5 + 3) % config.vocab_size  # every second token can be learned
        if config.pad_token_id is not None:
            ids[:, :, 5] = ids[:, 1, 12:] = config.pad_token_id
        labels = ids.clone()
        labels[torch.rand(ids.shape) < 0.15] = -100
        save_file({"input_ids": ids, "labels": labels}, folder / "data.safetensors")

        loss_of(model, ids[0], labels[0]).backward()
        save_file({n: p.grad.clone() for n, p in model.named_parameters()}, folder / "golden.safetensors")
        groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": DECAY},
                  {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=1e-8, foreach=False)
        losses, norms = [], []
        for step in range(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
            optimizer.zero_grad()
            loss = loss_of(model, ids[step], labels[step])
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
            losses.append(loss.item())
            optimizer.step()
        with torch.no_grad():
            final = loss_of(model, ids[0], labels[0]).item()
        (folder / "golden.json").write_text(json.dumps({
            "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "batch": 2, "seq": 16, "steps": STEPS, "warmup": WARMUP, "lr": LR,
            "min_lr_ratio": RATIO, "weight_decay": DECAY, "betas": BETAS, "epsilon": 1e-8, "clip": CLIP,
            "rates": [rate(t) for t in range(STEPS)], "losses": losses, "gradient_norms": norms, "final_loss": final}, indent=1) + "\n")
        print(name, sum(p.numel() for p in model.parameters()), "parameters", losses[0], "->", losses[-1])


if __name__ == "__main__":
    main()
