#!/usr/bin/env python3
"""Weighted losses, as a Trainer's compute_loss_func has them: rewrites tests/golden/loss_weights.json.

  python tests/golden/loss_weights.py

Of some of tests/folders, on its own rows: w = a weight for each label, loss = (cross_entropy(reduction="none") * w).sum() / w.sum() over labels that are not -100.
The norms of gradients of step 0 are fp32, and so are losses and norms of all steps.
"""
import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "folders"))
from make import BETAS, CLIP, DECAY, checkpoint_norms, rate  # noqa: E402

# Plain logits with a table that is the head too; scaled and capped ones; a head of its own.
FOLDERS = ("llama3-defaults", "gemma2", "qwen2")


def loss_of(model, ids, labels, weights):
    logits = model(input_ids=ids, use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100, reduction="none")
    weights = torch.where(labels[:, 1:] == -100, 0.0, weights[:, 1:]).flatten()
    return (losses * weights).sum() / weights.sum()


def case(name):
    folder = HERE.parent / "folders" / name
    golden = json.loads((folder / "golden.json").read_text())
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    torch.manual_seed(11)
    weights = torch.rand(golden["steps"], golden["batch"], golden["seq"]) * 2
    weights[torch.rand(weights.shape) < 0.2] = 0  # as a label of -100
    weights[1, 0] = 0  # a row that counts nothing
    weights = (weights * 64).round() / 64  # few digits in the file
    trained = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in trained if p.ndim >= 2], "weight_decay": DECAY},
                                   {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}], lr=1, betas=BETAS, eps=1e-8, foreach=False)
    losses, norms, gradients = [], [], None
    for step in range(golden["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        loss = loss_of(model, torch.tensor(golden["input_ids"][step]), torch.tensor(golden["labels"][step]), weights[step])
        loss.backward()
        gradients = gradients or checkpoint_norms(model, HERE)
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False).item())
        optimizer.step()
    print(name, losses[0], "->", losses[-1])
    return {"weights": weights.tolist(), "losses": losses, "gradient_norms": norms, "gradients": gradients}


if __name__ == "__main__":
    made = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "cases": {name: case(name) for name in FOLDERS}}
    (HERE / "loss_weights.json").write_text(json.dumps(made) + "\n")
