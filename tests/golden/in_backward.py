#!/usr/bin/env python3
"""What PyTorch makes of the model grouped/ where each parameter is updated in the backward, as soon as its gradient is there: losses, gradient norms and some
final weights of eight steps.

  python tests/golden/in_backward.py  # rewrites tests/golden/in_backward/

Updates are made by hooks after the accumulation of a gradient (Tensor.register_post_accumulate_grad_hook), one optimizer for each parameter, as PyTorch's
tutorial and torchtune do it. Where gradients are clipped the factor is that of ztc-run --clip=block (of the norm of the parameter's block, or of embedding,
head and final norm by themselves) or --clip=previous (of the norm of all gradients of the step before; in the first step as block): then the updates wait
for the norms of their block, which a hook of one parameter does not know.
"""
import json
import pathlib
import re

import torch
from safetensors.torch import load_file, save_file

from make import MODELS, RATIO, STEPS, WARMUP, fresh_model, loss_of, rate
from optimizers import KEPT

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "in_backward"
# What ztc compile and ztc-run are told, and the same for PyTorch.
CASES = {
    "adamw": ("adamw", dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8), 0.1, "0"),
    "sgd": ("sgd", dict(lr=0.5, momentum=0.9), 0.01, "0"),
    "block": ("sgd", dict(lr=0.5, momentum=0.9), 0.01, "block:0.25"),
    "previous": ("sgd", dict(lr=0.5, momentum=0.9), 0.01, "previous:0.5"),
}


def bucket_of(name):
    layer = re.search(r"layers\.(\d+)\.", name)
    return layer.group(1) if layer else name.split(".")[-2]


def norm_of(gradients):
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])).item()


def train(model, data, optimizer, settings, decay, clip):
    make = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    parameters = dict(model.named_parameters())
    own = {name: make([p], **settings, weight_decay=decay if p.ndim >= 2 else 0.0, foreach=False) for name, p in parameters.items()}
    kind, _, largest = clip.partition(":")
    largest = float(largest or kind)
    losses, norms, squares = [], [], []

    def update(name, p):
        squares.append(p.grad.square().sum().item())
        own[name].step()
        own[name].zero_grad()

    if kind == "0":
        for name, p in parameters.items():
            p.register_post_accumulate_grad_hook(lambda p, name=name: update(name, p))
    for step in range(STEPS):
        for each in own.values():
            each.param_groups[0]["lr"] = rate(step, settings["lr"])
        squares.clear()
        loss = loss_of(model, data["input_ids"][step], data["labels"][step])
        loss.backward()
        if kind != "0":
            blocks = {}
            for name, p in parameters.items():
                blocks.setdefault(bucket_of(name), []).append(p.grad)
            scales = {block: min(1.0, largest / ((norms[-1] if kind == "previous" and norms else norm_of(gradients)) + 1e-6)) for block, gradients in blocks.items()}
            norms.append(norm_of([p.grad for p in parameters.values()]))
            for name, p in parameters.items():
                p.grad.mul_(scales[bucket_of(name)])
                own[name].step()
                own[name].zero_grad()
        else:
            norms.append(sum(squares) ** 0.5)
        losses.append(loss.item())
    return losses, norms


def main():
    FOLDER.mkdir(exist_ok=True)
    data = load_file(HERE / "grouped/data.safetensors")
    golden = {"torch": torch.__version__.split("+")[0], "steps": STEPS, "warmup": WARMUP, "min_lr_ratio": RATIO, "cases": {}}
    for name, (optimizer, settings, decay, clip) in CASES.items():
        model = fresh_model(0, MODELS["grouped"])
        losses, norms = train(model, data, optimizer, settings, decay, clip)
        first = json.loads((HERE / "grouped/golden.json").read_text())["losses"][0]
        assert abs(losses[0] - first) < 1e-6, "these are not the weights of grouped/model.onnx"
        save_file({n: p.detach().clone() for n, p in model.named_parameters() if n in KEPT}, FOLDER / f"{name}.safetensors")
        golden["cases"][name] = dict(optimizer=optimizer, **settings, weight_decay=decay, clip=clip, losses=losses, gradient_norms=norms)
        print(name, losses[0], "->", losses[-1], norms)
    (FOLDER / "in_backward.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
