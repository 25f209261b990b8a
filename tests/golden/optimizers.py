#!/usr/bin/env python3
"""What other optimizers than AdamW make of the model grouped/: losses, gradient norms and some final weights of eight steps.

  python tests/golden/optimizers.py  # rewrites tests/golden/optimizers/

SGD is PyTorch's. Lion is written here after its paper (Chen et al. 2023, algorithm 2), as its authors have it: PyTorch has none.
"""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file

from make import CLIP, MODELS, RATIO, STEPS, WARMUP, fresh_model, loss_of, rate

HERE = pathlib.Path(__file__).resolve().parent
# Final weights that are kept: an embedding, a matrix and a vector, which has no weight decay.
KEPT = ("model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight")


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas):
        super().__init__(groups, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.mul_(1 - lr * group["weight_decay"]).sub_(lr * update)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


# What ztc compile and ztc-run are told, and the same for PyTorch.
CASES = {
    "lion": ("lion", dict(lr=5e-4, betas=(0.9, 0.99)), 0.3),
    "sgd": ("sgd", dict(lr=0.5, momentum=0.9), 0.01),
    "sgd-nesterov": ("sgd", dict(lr=0.5, momentum=0.8, nesterov=True), 0.01),
    "sgd-plain": ("sgd", dict(lr=1.0, momentum=0.0), 0.01),
}


def main():
    (HERE / "optimizers").mkdir(exist_ok=True)
    data = load_file(HERE / "grouped/data.safetensors")
    golden = {"torch": torch.__version__.split("+")[0], "steps": STEPS, "warmup": WARMUP, "min_lr_ratio": RATIO, "clip": CLIP, "cases": {}}
    for name, (optimizer, settings, decay) in CASES.items():
        model = fresh_model(0, MODELS["grouped"])
        groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": decay},
                  {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
        made = Lion(groups, **settings) if optimizer == "lion" else torch.optim.SGD(groups, **settings, foreach=False)
        losses, norms = [], []
        for step in range(STEPS):
            for group in made.param_groups:
                group["lr"] = rate(step, settings["lr"])
            made.zero_grad()
            loss = loss_of(model, data["input_ids"][step], data["labels"][step])
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
            losses.append(loss.item())
            made.step()
        first = json.loads((HERE / "grouped/golden.json").read_text())["losses"][0]
        assert abs(losses[0] - first) < 1e-6, "these are not the weights of grouped/model.onnx"
        save_file({n: p.detach().clone() for n, p in model.named_parameters() if n in KEPT}, HERE / "optimizers" / f"{name}.safetensors")
        golden["cases"][name] = dict(optimizer=optimizer, **settings, weight_decay=decay, losses=losses, gradient_norms=norms)
        print(name, losses[0], "->", losses[-1])
    (HERE / "optimizers/optimizers.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
