#!/usr/bin/env python3
"""What Muon beside AdamW makes of the model grouped/: losses, gradient norms, the first momentum and some final weights of eight steps.

  python tests/golden/muon.py          # rewrites tests/golden/muon/
  python tests/golden/muon.py --again  # on another kind of processor: the numbers stay, `own_differences` grow to what PyTorch is off them there

torch.optim.Muon (PyTorch 2.9 or later) for the matrices of the blocks, torch.optim.AdamW for all else. The products of the orthogonalization are rounded to bf16, so
that the order of their sums shows: `own_differences` is the most that PyTorch's numbers are off its own where each direction's rows and columns come in one of four
other orders, which changes nothing else.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from torch.optim import _muon

from make import BETAS, CLIP, DECAY, MODELS, RATIO, STEPS, WARMUP, fresh_model, loss_of, rate

HERE = pathlib.Path(__file__).resolve().parent
LR = 4e-3
# Final weights that are kept: an embedding, two matrices, one of which has more rows than columns, and a vector.
KEPT = ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.0.input_layernorm.weight")
MOMENTA = ("model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.k_proj.weight")
CASES = {"match_rms_adamw": 0.95, "original": 0.9}  # adjust_lr_fn: momentum
ORDERS, order = 4, 0
orthogonalized = _muon._zeropower_via_newtonschulz


def permuted(direction, *settings):
    """The same of a matrix whose rows and columns stand in another order."""
    generator = torch.Generator().manual_seed(direction.shape[0] * 1000 + direction.shape[1] + order)
    rows, columns = (torch.randperm(n, generator=generator) for n in direction.shape)
    result = torch.empty_like(direction, dtype=torch.bfloat16)
    result[rows[:, None], columns] = orthogonalized(direction[rows[:, None], columns], *settings)
    return result


def train(adjust, momentum, data):
    model = fresh_model(0, MODELS["grouped"])
    named = dict(model.named_parameters())
    matrices = [p for n, p in named.items() if p.ndim == 2 and ".layers." in n]
    tables = [p for n, p in named.items() if p.ndim == 2 and ".layers." not in n]
    optimizers = [torch.optim.Muon(matrices, lr=LR, weight_decay=DECAY, momentum=momentum, adjust_lr_fn=adjust),
                  torch.optim.AdamW([{"params": tables, "weight_decay": DECAY}, {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0.0}],
                                    lr=LR, betas=BETAS, eps=1e-8, foreach=False)]
    losses, norms, momenta = [], [], {}
    for step in range(STEPS):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(step, LR)
            optimizer.zero_grad()
        loss = loss_of(model, data["input_ids"][step], data["labels"][step])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        losses.append(loss.item())
        for optimizer in optimizers:
            optimizer.step()
        if step == 0:
            momenta = {"momentum." + n: optimizers[0].state[named[n]]["momentum_buffer"].clone() for n in MOMENTA}
    return losses, norms, {n: named[n].detach().clone() for n in KEPT} | momenta


def main():
    global order
    (HERE / "muon").mkdir(exist_ok=True)
    data = load_file(HERE / "grouped/data.safetensors")
    golden = {"torch": torch.__version__.split("+")[0], "steps": STEPS, "warmup": WARMUP, "min_lr_ratio": RATIO, "clip": CLIP, "lr": LR, "weight_decay": DECAY,
              "betas": BETAS, "cases": {}}
    stored = json.loads((HERE / "muon/muon.json").read_text())["cases"] if "--again" in sys.argv else {}
    for adjust, momentum in CASES.items():
        if known := stored.get(adjust):
            losses, norms, tensors, own = known["losses"], known["gradient_norms"], load_file(HERE / "muon" / f"{adjust}.safetensors"), known["own_differences"]
        else:
            losses, norms, tensors = train(adjust, momentum, data)
            own = {"losses": 0, "gradient_norms": 0, "weights": 0}
        for order in range(-1 if known else 0, ORDERS):
            _muon._zeropower_via_newtonschulz = orthogonalized if order < 0 else permuted
            other_losses, other_norms, other = train(adjust, momentum, data)
            off = {"losses": max(abs(a - b) for a, b in zip(losses, other_losses)), "gradient_norms": max(abs(a - b) / b for a, b in zip(other_norms, norms)),
                   "weights": max(((other[n] - tensors[n]).norm() / tensors[n].norm()).item() for n in KEPT if "embed" not in n)}
            own = {what: max(own[what], off[what]) for what in own}
        _muon._zeropower_via_newtonschulz = orthogonalized
        save_file(tensors, HERE / "muon" / f"{adjust}.safetensors")
        golden["cases"][adjust] = dict(momentum=momentum, losses=losses, gradient_norms=norms, own_differences=own)
        print(adjust, losses[0], "->", losses[-1], own)
    (HERE / "muon/muon.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
