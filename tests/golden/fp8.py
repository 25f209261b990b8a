#!/usr/bin/env python3
"""Training in fp8 as PyTorch computes it: rewrites tests/golden/fp8/ and tests/golden/fp8_codes.safetensors.

  pip install -r tests/golden/requirements.txt
  python tests/golden/fp8.py

What torchao's float8 training does with its tensorwise recipe (torchao.float8, Float8LinearConfig() and dynamic scales), written out for a processor:
- amax = max(abs(x)); scale = largest number of the format / max(amax, 1e-12), in float64, rounded to float32;
- code = (x.float() * scale).clamp(-largest, largest).to(format): PyTorch's own cast;
- output = x w^T, grad_input = dy w, grad_weight = dy^T x of the codes, in float32, times both scales' inverses (float32), rounded to bfloat16;
- x and w are e4m3; dy is e5m2 (torchao's default), or e4m3.
`fused`: q, k, v and gate, up are one layer each, whose weights lie one under the other, as models with fused layers have them: one scale for all of a layer.
It is what the linear layers of transformer blocks do; all else is bfloat16, with masters and AdamW in float32. Where this PyTorch has torch._scaled_mm for
processors, the product is held against it.

fp8/: a small Llama (config.json, model.safetensors), its data, golden.safetensors (gradients of step 0 in fp32) and, for each format of dy, gradients of step 0 in
fp8 (e5m2.safetensors, e4m3.safetensors, and e5m2-fused, e4m3-fused); fp8.json has losses and norms of each way, how far PyTorch's fp8 is off its fp32 (own_differences), and off itself where
attention is computed by another of its ways, eager (other_attention): a rounding that falls otherwise in bfloat16 turns codes over, and those turn others.
fp8_codes.safetensors: the codes of all bfloat16 numbers, of random float32 numbers, and the numbers of all codes, by PyTorch's casts.
"""
import copy
import json
import pathlib

import torch
import transformers
from make import BETAS, CLIP, DECAY, HERE, LR, RATIO, SMALL, STEPS, WARMUP, fresh_model, loss_of, rate
from safetensors.torch import save_file

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
CONFIG = transformers.LlamaConfig(**SMALL | dict(intermediate_size=96), tie_word_embeddings=False)
FOLDER = HERE / "fp8"


def quantize(x, kind):
    largest = torch.finfo(kind).max
    amax = torch.max(torch.abs(x)).to(torch.float64)
    scale = (largest / torch.clamp(amax, min=1e-12)).to(torch.float32)
    return (x.to(torch.float32) * scale).clamp(-largest, largest).to(kind), scale.reciprocal()


def product(a, b):
    """a b^T of (codes, inverse of the scale)."""
    return ((a[0].float() @ b[0].float().t()) * (a[1] * b[1])).to(torch.bfloat16)


def transposed(a):
    return a[0].t().contiguous(), a[1]


class DynamicScales:
    """How codes of what a layer reads (its input, its result's cotangent) get their scale: here from the matrix itself."""

    def codes(self, x, kind, layers, role):
        return quantize(x, kind)

    def begin(self, compute):
        """Before the first step, which compute() computes."""

    def advance(self):
        """After each step."""


class Fp8Product(torch.autograd.Function):
    """`layers`: the names of the weights that w consists of."""

    @staticmethod
    def forward(ctx, x, w, kind, scales, layers):
        rows = x.reshape(-1, x.shape[-1])
        a, b = scales.codes(rows, E4M3, layers, "input"), quantize(w, E4M3)
        ctx.save_for_backward(*a, *b)
        ctx.kind, ctx.shape, ctx.scales, ctx.layers = kind, x.shape, scales, layers
        return product(a, b).reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, dy):
        a, a_scale, b, b_scale = ctx.saved_tensors
        d = ctx.scales.codes(dy.reshape(-1, dy.shape[-1]), ctx.kind, ctx.layers, "cotangent")
        dx = product(d, transposed((b, b_scale))).reshape(ctx.shape)
        return dx, product(transposed(d), transposed((a, a_scale))), None, None, None


class Fp8Linear(torch.nn.Module):
    def __init__(self, weight, kind, scales, layer):
        super().__init__()
        self.weight, self.kind, self.scales, self.layer = weight, kind, scales, layer

    def forward(self, x):
        return Fp8Product.apply(x, self.weight, self.kind, self.scales, [self.layer])


class Fp8Fused(torch.nn.Module):
    """Layers of one input as one: the first that is called computes for all, the others give their part."""

    def __init__(self, weights, kind, parts, scales, layers):
        super().__init__()
        self.weight, self.kind, self.parts, self.scales, self.layers = weights[len(parts)], kind, parts, scales, layers
        self.weights = [weights] if not parts else None  # hidden from parameters(): the layers have their own
        self.place = len(parts)
        parts.append(None)

    def forward(self, x):
        if self.place == 0:
            joined = Fp8Product.apply(x, torch.cat(self.weights[0]), self.kind, self.scales, self.layers)
            self.parts[:] = joined.split([w.shape[0] for w in self.weights[0]], dim=-1)
        return self.parts[self.place]


def fuse(module, names, kind, scales, path):
    weights, parts = [getattr(module, name).weight for name in names], []
    for name in names:
        setattr(module, name, Fp8Fused(weights, kind, parts, scales, [f"{path}.{n}.weight" for n in names]))


def with_fp8(model, kind, fused, scales):
    for number, block in enumerate(model.model.layers):
        path = f"model.layers.{number}"
        if fused:
            fuse(block.self_attn, ("q_proj", "k_proj", "v_proj"), kind, scales, path + ".self_attn")
            fuse(block.mlp, ("gate_proj", "up_proj"), kind, scales, path + ".mlp")
        for part, module in list(block.named_modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(module, name, Fp8Linear(child.weight, kind, scales, f"{path}.{part}.{name}.weight"))
    return model


def train(start, way, ids, labels, attention="sdpa", scales=DynamicScales(), gradients_of=0):
    """Losses, norms and the gradients of a step; the optimizer works on fp32 masters."""
    masters = {n: torch.nn.Parameter(p.detach().clone()) for n, p in start.named_parameters()}
    model = copy.deepcopy(start)
    model.config._attn_implementation = attention
    if way != "fp32":
        model = model.to(torch.bfloat16)
    if way not in ("fp32", "bf16"):
        model = with_fp8(model, {"e5m2": E5M2, "e4m3": E4M3}[way.split("-")[0]], way.endswith("-fused"), scales)
    groups = [{"params": [p for p in masters.values() if p.ndim >= 2], "weight_decay": DECAY},
              {"params": [p for p in masters.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=1e-8, foreach=False)

    def compute(step):
        model.zero_grad()
        logits = model(input_ids=ids[step]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[step][:, 1:].flatten(), ignore_index=-100)
        loss.backward()
        return loss

    losses, norms, gradients = [], [], None
    scales.begin(lambda: compute(0))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss = compute(step)
        for name, parameter in model.named_parameters():
            masters[name].grad = parameter.grad.float()
        if step == gradients_of:
            gradients = {n: p.grad.clone() for n, p in masters.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), CLIP).item())
        losses.append(loss.item())
        optimizer.step()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(masters[name])
        scales.advance()
    return losses, norms, gradients


def differences(run, expected):
    (losses, norms, gradients), (l, n, g) = run, expected
    return {"first_loss": abs(losses[0] - l[0]), "gradient": worst_difference(gradients, g), "losses": max(abs(a - b) for a, b in zip(losses, l)),
            "norms": max(abs(a - b) / b for a, b in zip(norms, n))}


def worst_difference(gradients, expected):
    largest = max(g.norm().item() for g in expected.values())
    return max(((gradients[n] - g).norm() / max(g.norm().item(), 1e-3 * largest)).item() for n, g in expected.items())


def hold_against_scaled_mm():
    torch.manual_seed(5)
    a, b = quantize(torch.randn(32, 64).bfloat16(), E4M3), quantize(torch.randn(48, 64).bfloat16(), E4M3)
    try:
        theirs = torch._scaled_mm(a[0], b[0].t(), scale_a=a[1], scale_b=b[1], out_dtype=torch.bfloat16)
    except (RuntimeError, NotImplementedError) as error:
        print("torch._scaled_mm does not run here:", str(error).splitlines()[0])
        return
    difference = (theirs.float() - product(a, b).float()).norm() / theirs.float().norm()
    print("product and torch._scaled_mm differ by", difference.item())


def codes():
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()
    torch.manual_seed(6)
    some = torch.randn(8192) * torch.exp2(torch.randint(-20, 20, (8192,)).float())
    near = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    tensors = {"floats": some}
    for name, kind in (("e4m3", E4M3), ("e5m2", E5M2)):
        largest = torch.finfo(kind).max
        cast = lambda x: x.clamp(-largest, largest).to(kind).view(torch.uint8)
        tensors |= {name + ".bf16": cast(every), name + ".floats": cast(some), name + ".numbers": near.view(kind).float()}
    save_file(tensors, HERE / "fp8_codes.safetensors")


def main():
    torch.set_num_threads(1)
    hold_against_scaled_mm()
    codes()
    FOLDER.mkdir(exist_ok=True)
    model = fresh_model(7, CONFIG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    (FOLDER / "config.json").write_text(CONFIG.to_json_string())
    save_file({n: p.detach().bfloat16() for n, p in model.named_parameters()}, FOLDER / "model.safetensors", metadata={"format": "pt"})
    ids = torch.randint(0, CONFIG.vocab_size, (STEPS, 2, 32))
    ids[:, :, 1::2] = (ids[:, :, 0::2] * 5 + 3) % CONFIG.vocab_size
    labels = ids.clone()
    labels[torch.rand(ids.shape) < 0.15] = -100
    save_file({"input_ids": ids, "labels": labels}, FOLDER / "data.safetensors")
    golden = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "batch": 2, "seq": 32, "steps": STEPS, "warmup": WARMUP, "lr": LR,
              "min_lr_ratio": RATIO, "weight_decay": DECAY, "betas": BETAS, "epsilon": 1e-8, "clip": CLIP, "rates": [rate(t) for t in range(STEPS)]}
    exact = train(model, "fp32", ids, labels)
    golden |= {"losses": exact[0], "gradient_norms": exact[1]}
    save_file(exact[2], FOLDER / "golden.safetensors")
    for way in ("bf16", "e5m2", "e4m3", "e5m2-fused", "e4m3-fused"):
        found = train(model, way, ids, labels)
        golden[way] = {"losses": found[0], "gradient_norms": found[1], "own_differences": differences(found, exact),
                       "other_attention": differences(train(model, way, ids, labels, "eager"), found)}
        if way != "bf16":
            save_file(found[2], FOLDER / f"{way}.safetensors")
        print(way, golden[way]["own_differences"], golden[way]["other_attention"])
    (FOLDER / "fp8.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
