#!/usr/bin/env python3
"""tests/gpu/parity.py, which holds a first step on a GPU against PyTorch's: over the stand-ins, at a small shape, with PyTorch on the processor. Needs a
python3 with torch, transformers and safetensors; is skipped where there is none."""
import json
import os
import shutil
import subprocess
import sys

from support import BIN, ROOT, check, finish, run, scratch, stand_ins

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "attention_bias": False,
          "mlp_bias": False, "tie_word_embeddings": False, "initializer_range": 0.02, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
MIXTURE = {**CONFIG, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "moe_intermediate_size": 48, "num_experts": 4, "num_experts_per_tok": 2,
           "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
BATCH, SEQ = 2, 32

python = next((p for p in (os.environ.get("ZTC_TORCH_PYTHON"), sys.executable, shutil.which("python3"))
               if p and subprocess.run([p, "-c", "import torch, transformers, safetensors"], capture_output=True).returncode == 0), None)
if not python:
    print("skip: no python3 with torch, transformers and safetensors (ZTC_TORCH_PYTHON names one)")
    sys.exit(77)

with scratch() as work:
    environment = stand_ins(1)

    def compiled(name, config, precision):
        (work / name).mkdir(exist_ok=True)
        (work / name / "config.json").write_text(json.dumps(config))
        plan = work / name / f"{precision}.bin"
        run("ztc", "compile", work / name, f"--batch={BATCH}", f"--seq={SEQ}", f"--precision={precision}", "--target=simt", "-o", plan)
        return plan

    plans = {precision: compiled("model", CONFIG, precision) for precision in ("fp32", "bf16", "fp16")}

    def parity(plan, precision):
        done = subprocess.run([python, ROOT / "tests/gpu/parity.py", plan, plan.parent / "config.json", f"--batch={BATCH}", f"--seq={SEQ}", f"--precision={precision}",
                               "--device=cpu", "--ztc-run", BIN / "ztc-run"], capture_output=True, text=True, timeout=300, env=environment)
        return done.returncode, done.stdout[-400:] + done.stderr[-800:]

    for precision in plans:
        status, said = parity(plans[precision], precision)
        check(f"parity.py: {precision}: loss, norm and every gradient", status == 0 and "21 gradients" in said, said)
    for precision in ("fp32", "bf16"):
        status, said = parity(compiled("mixture", MIXTURE, precision), precision)
        check(f"parity.py: a mixture of experts, {precision}: every gradient of every expert", status == 0 and "45 gradients" in said, said)
    status, said = parity(plans["bf16"], "fp32")
    check("parity.py: 16 bits are not taken for fp32", status == 1 and "allowed (" in said, said)
finish()
