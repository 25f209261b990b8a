#!/usr/bin/env python3
"""Our side of "What others report, as predicted rows" in README.md: each row's `ztc plan`, from configurations alone. Prints Markdown.

    tests/bench/reported.py [WORD...]      only rows whose name contains one of the words
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BIN = pathlib.Path(os.environ.get("ZTC_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))


def llama(hidden, intermediate, layers, heads, kv_heads, vocabulary, positions):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocabulary, "max_position_embeddings": positions, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "initializer_range": 0.02}


MODELS = {
    "TinyLlama 1.1B": llama(2048, 5632, 22, 32, 4, 32000, 2048),
    "GPT-2 1.5B": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "n_ctx": 1024,
                   "vocab_size": 50257, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
                   "torch_dtype": "bfloat16", "initializer_range": 0.02, "tie_word_embeddings": True},
    "Llama-3-8B": llama(4096, 14336, 32, 32, 8, 128256, 8192),
    "Yi-34B": llama(7168, 20480, 60, 56, 8, 64000, 4096),
    "Llama-3-70B": llama(8192, 28672, 80, 64, 8, 128256, 8192),
}
ROWS = [  # model, what, options of ztc plan
    ("TinyLlama 1.1B", "LoRA, 4 x 48 GB", "--gpu=L40S-48GB --gpus=4 --method=lora --seq=2048"),
    ("Yi-34B", "LoRA, 8 x 48 GB", "--gpu=L40S-48GB --gpus=8 --method=lora --seq=2048"),
    ("Yi-34B", "QLoRA, 8 x 48 GB", "--gpu=L40S-48GB --gpus=8 --method=qlora --seq=2048"),
    ("GPT-2 1.5B", "all weights, 24 GB and the host", "--gpu=RTX-4090-24GB --gpus=1 --method=full --seq=1024"),
    ("Llama-3-8B", "all weights, 8 x 40 GB", "--gpu=A100-40GB --gpus=8 --zero=3 --method=full --seq=2048"),
    ("Llama-3-8B", "LoRA, 24 GB", "--gpu=RTX-4090-24GB --gpus=1 --method=lora --seq=2048"),
    ("Llama-3-8B", "LoRA, 48 GB", "--gpu=L40S-48GB --gpus=1 --method=lora --seq=2048"),
    ("Llama-3-8B", "LoRA, 80 GB", "--gpu=H100-80GB --gpus=1 --method=lora --seq=2048"),
    ("Llama-3-8B", "QLoRA, 24 GB", "--gpu=RTX-4090-24GB --gpus=1 --method=qlora --seq=2048"),
    ("Llama-3-8B", "QLoRA, 48 GB", "--gpu=L40S-48GB --gpus=1 --method=qlora --seq=2048"),
    ("Llama-3-8B", "QLoRA, 80 GB", "--gpu=H100-80GB --gpus=1 --method=qlora --seq=2048"),
    ("Llama-3-70B", "QLoRA, 48 GB", "--gpu=L40S-48GB --gpus=1 --method=qlora --seq=2048"),
    ("Llama-3-70B", "QLoRA, 2 x 24 GB", "--gpu=RTX-4090-24GB --gpus=2 --method=qlora --seq=2048"),
]
GIB = 1 << 30


def main():
    words = sys.argv[1:]
    print("| run | options of `ztc plan` | needed of a rank | available | on the host | ZeRO | micro-batch x micro-steps | computed again | tokens/s, predicted |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as work:
        for model, what, options in ROWS:
            name = f"{model}, {what}"
            if words and not any(word in name for word in words):
                continue
            folder = pathlib.Path(work) / model.replace(" ", "-")
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text(json.dumps(MODELS[model]))
            done = subprocess.run([BIN / "ztc", "plan", folder, *options.split(), "--json"], capture_output=True, text=True)
            if not done.stdout:
                print(f"| {name} | `{options}` | {done.stderr.strip().splitlines()[-1]} |")
                continue
            table = json.loads(done.stdout)
            for c in table["choices"]:
                if c["recommended"]:
                    below = f"{c['host_bytes'] / GIB:.1f} GiB" if c["host_bytes"] else "nothing"
                    print(f"| {name} | `{options}` | {c['needed_bytes'] / GIB:.1f} GiB | {c['available_bytes'] / GIB:.1f} GiB | {below} | {c['zero']} | "
                          f"{c['batch']} x {c['accumulate']} | {c['recomputed']} | {c['tokens_per_second']:,.0f} |", flush=True)
            if not any(c["recommended"] for c in table["choices"]):
                for m in table["missing"]:
                    print(f"| {name} | `{options}` | {m['needed_bytes'] / GIB:.1f} GiB: does not fit, {m['help']} | {m['available_bytes'] / GIB:.1f} GiB | | {m['zero']} | "
                          f"{m['batch']} x {m['accumulate']} | {m['recomputed']} | |", flush=True)


if __name__ == "__main__":
    main()
