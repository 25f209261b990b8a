#!/usr/bin/env python3
"""The README's block of commands from a downloaded folder to a trained one, run by a shell line for line; docs/fine-tuning.md has the same."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent / "e2e/chat")]
import tokenizers_and_templates as styles  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from support import BIN, ROOT, check, finish, scratch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

HEADING = "## Fine-tune a Hugging Face model on chats"
CHAT = [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": "I am fine."}]


def commands():
    """The indented lines of the section."""
    section = (ROOT / "README.md").read_text().split(HEADING)[1].split("\n## ")[0]
    return [line[4:] for line in section.splitlines() if line.startswith("    ")]


def make_model(folder):
    styles.save(folder, styles.byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]), {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}, styles.CHATML)
    torch.manual_seed(1)
    LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=448, max_position_embeddings=1024,
                                 initializer_range=0.1, eos_token_id=2)).to(torch.bfloat16).save_pretrained(folder)


with scratch() as work:
    make_model(work / "model")
    (work / "chats.jsonl").write_text("".join(json.dumps({"messages": CHAT}) + "\n" for _ in range(8)))
    (work / "samples").symlink_to(ROOT / "samples")
    environment = os.environ | {"PATH": os.pathsep.join([str(BIN), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]), "model": str(work / "model"), "HF_HUB_OFFLINE": "1"}
    lines = commands()
    check("the section has its commands", len(lines) >= 6 and any("ztc-run" in line for line in lines), lines)
    manual = (ROOT / "docs/fine-tuning.md").read_text().splitlines()
    check("the manual has the same commands", all("    " + line in manual for line in lines), [line for line in lines if "    " + line not in manual])
    for line in lines:
        done = subprocess.run(["bash", "-euc", line], cwd=work, env=environment, capture_output=True, text=True)
        check(f"$ {line}", done.returncode == 0, (done.stdout + done.stderr)[-1500:] if done.returncode else "")
        if "pipeline" in line:
            check("the trained model goes on with the prompt", done.stdout.startswith("Hello"), done.stdout)
    before, after = (load_file(work / name / "model.safetensors") for name in ("model", "tuned"))
    check("the trained folder holds the same tensors, with other numbers", set(before) == set(after) and any(not torch.equal(before[n], after[n]) for n in before))
finish()
