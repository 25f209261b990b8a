#!/usr/bin/env python3
"""Makes the Hugging Face folders of this place: tiny random models, one or more traps each, and what transformers computes with them.

  pip install -r tests/golden/requirements.txt
  python tests/folders/make.py [NAME...]        # rewrites tests/folders/NAME/, and defaults-5.json: every key of a model type
  python tests/folders/make.py --seed=NAME      # a seed for a mixture, whose near experts no rounding exchanges
  python tests/folders/make.py greedy           # greedy.json: texts of the models whose layers carry a state
  python tests/folders/make.py defaults         # with transformers==4.57.6 installed: defaults-4.json, what its last version 4 reads

Each folder: config.json as transformers 5 writes it, model.safetensors, config-*.json (the same model as other versions and people write it: they must give
the same numbers), golden.json: batches of tokens and labels, losses, gradient norms, the norm of each gradient by checkpoint name. fp32 arithmetic.
"""
import copy
import json
import logging
import math
import os
import pathlib
import re
import sys
import tempfile
import warnings
import zlib

warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
import transformers.utils.logging
from configurations import FOLDERS, SEEDS
from safetensors.torch import load_file, save_file

logging.disable(logging.WARNING)
transformers.utils.logging.disable_progress_bar()
HERE = pathlib.Path(__file__).resolve().parent
STEPS, WARMUP, LR, RATIO, DECAY, BETAS, CLIP = 6, 2, 2e-3, 0.1, 0.1, (0.9, 0.95), 1.0
BATCH, SEQUENCE = 2, 20
# Parts of multi-modal models beside their language model
OTHER_PARTS = re.compile(r"vision|visual|^vit\.|projector|merger|resampler|audio|mlp1|sam_model|qwen2_model|view_seperator|image_newline")


def build(name):
    kind, options, _ = FOLDERS[name]
    options = dict(options)
    extra = {"experts_implementation": options.pop("experts", None), "attn_implementation": options.pop("attention", None)}
    torch.manual_seed(zlib.crc32(name.encode()) % 100000 + SEEDS.get(name, 0))
    auto = transformers.AutoModelForImageTextToText if "text_config" in options else transformers.AutoModelForCausalLM
    if kind == "mistral4":  # whose automatic class is the multi-modal one
        auto, auto.from_config = transformers.Mistral4ForCausalLM, transformers.Mistral4ForCausalLM._from_config
    model = auto.from_config(transformers.AutoConfig.for_model(kind, **options), dtype=torch.float32,
                                                          **{k: v for k, v in extra.items() if v})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1 or parameter.abs().max() == 0:
                parameter.add_(0.1 * torch.randn(parameter.shape))
        for name, buffer in [*model.named_buffers(), *model.named_parameters()]:
            if "correction_bias" in name or kind == "lfm2_moe" and name.endswith("expert_bias"):  # zeros at first, and of effect on the choice of experts
                buffer.copy_((0.3 * torch.randn(buffer.shape)).bfloat16())
            elif "rotary_emb.alpha" in name:  # zeros at first
                buffer.copy_((0.4 * torch.randn(buffer.shape)).bfloat16())
            elif "layer_scalar" in name:  # ones at first, and no parameters
                buffer.copy_((1 + 0.3 * torch.randn(buffer.shape)).bfloat16())
        for name, parameter in model.named_parameters():
            if kind.startswith(("gemma3n", "gemma4")) and name.endswith("k_norm.weight"):  # its scores are not scaled: by these weights, which are about 1 in a fresh model
                parameter.mul_(0.3)
            elif name.endswith("dt_bias"):  # states that live for some tokens: fresh ones decay at once
                parameter.sub_(2.5)
            elif ".indexer." in name:  # what it gives is a choice, through which no gradient goes
                parameter.requires_grad_(False)
        for parameter in model.parameters():
            parameter.copy_(torch.nan_to_num(parameter).clamp(-9, 9).bfloat16())  # kept in 16 bits: half the size, and its reader is tested
    return model.eval()


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    part = (step + 1 - WARMUP) / (STEPS - WARMUP)
    return LR * RATIO + (LR - LR * RATIO) * 0.5 * (1 + math.cos(math.pi * part))


def tokens(vocabulary):
    ids = torch.randint(0, vocabulary, (BATCH, SEQUENCE))
    ids[:, 1::2] = (ids[:, 0::2] * 5 + 3) % vocabulary
    ids[0, 3:5] = 0  # a padding row among inputs and targets
    labels = ids.clone()
    labels[torch.rand(labels.shape) < 0.1] = -100
    return ids, labels


def loss_of(model, ids, labels):
    logits = model(input_ids=ids, use_cache=False).logits
    for module in model.modules():
        if hasattr(module, "recurrent_states"):  # RecurrentGemma's stay there, and no copy of the model could be made
            module.recurrent_states = None
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def frozen(model):
    """What transformers stores and does not train."""
    return [*model.buffers(), *(p for p in model.parameters() if not p.requires_grad)]


def checkpoint_norms(model, folder):
    """Norms of gradients under the checkpoint's names: transformers splits what it holds together when it saves."""
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for one, other in zip(holder.parameters(), model.parameters()):
            one.copy_(torch.zeros_like(one) if other.grad is None else other.grad)
        for tensor in frozen(holder):
            if tensor.is_floating_point():
                tensor.fill_(math.nan)  # its name in the checkpoint may be another
        for name, parameter in holder.named_parameters():
            if ".vision_moe." in name:  # ERNIE's experts of images: numbers after those of text in the checkpoint
                parameter.fill_(math.nan)
        for module in holder.modules():
            if getattr(module, "zero_expert_num", 0):  # LongCat's experts without weights have rows there, which nothing reads
                module.gate_up_proj[module.num_routed_experts:] = math.nan
    place = folder / "gradients"
    holder.save_pretrained(place)
    norms = {n: t.double().norm().item() for n, t in load_file(place / "model.safetensors").items() if not t.isnan().any() and not OTHER_PARTS.search(n)}
    for file in place.iterdir():
        file.unlink()
    place.rmdir()
    return norms


def train(model, batches, after_first, narrow=None):
    """Losses, norms, and what `after_first` says after the first backward pass. With `narrow`, a copy in 16 bits computes; weights and optimizer stay fp32."""
    computes = narrow or model
    trained, computing = list(model.parameters()), list(computes.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in trained if p.ndim >= 2], "weight_decay": DECAY},
                                   {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}], lr=LR, betas=BETAS, eps=1e-8, foreach=False)
    losses, norms, first = [], [], None
    for step, (ids, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        with torch.no_grad():
            for one, other in zip(computing, trained):
                one.grad = None
                if narrow:
                    one.copy_(other)
        loss = loss_of(computes, ids, labels)
        loss.backward()
        if narrow:
            for one, other in zip(computing, trained):
                other.grad = None if one.grad is None else one.grad.float()
        first = first or after_first()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_([p for p in trained if p.grad is not None], CLIP, foreach=False).item())
        optimizer.step()
    return losses, norms, first


def own_errors(model, batches, exact, folder, ways):
    """How far PyTorch's own losses and gradients in bf16 are off, where that is much: a sum that cancels has few digits in 16 bits, near experts change places.
    Which of these do depends on where sums are rounded: of a mixture the largest error of transformers' `ways` to compute its experts counts."""
    errors = {}
    for way in ways:
        wide = copy.deepcopy(model)
        narrow = copy.deepcopy(model).to(torch.bfloat16)
        if way:
            narrow.set_experts_implementation(way)
        losses, norms, gradients = train(wide, batches, lambda: checkpoint_norms(narrow, folder), narrow)
        largest = max(exact[2].values())
        found = {n: abs(x - exact[2][n]) / max(exact[2][n], 1e-3 * largest) for n, x in gradients.items()}
        found = {n: error for n, error in found.items() if error > 0.02}
        # Twice the error is what ours may have (e2e/huggingface-folders.py): it counts from half of the limits there on.
        for key, error, much in (("loss", abs(losses[0] - exact[0][0]), 0.002), ("losses", max(abs(x - y) for x, y in zip(losses, exact[0])), 0.003),
                                 ("gradient_norms", sorted(abs(x - y) / y for x, y in zip(norms, exact[1]))[-2], 0.01)):
            if error > much:
                found[key] = error
        for key, error in found.items():
            errors[key] = max(error, errors.get(key, 0))
    return errors


def ways_of(name):
    """transformers' ways to compute the experts of a folder: one by one, and row by row. (A third one, grouped products, wants rows of 16 bytes in bf16.)"""
    return ("eager", "batched_mm") if FOLDERS[name][1].get("experts") else (None,)


def seed_of(name):
    """A seed for SEEDS: the first with which no rounding to bf16 chooses other experts in the first step, whichever way transformers computes them, and be
    embeddings a rounding away. Then near scores do not decide what that step is held to."""
    for SEEDS[name] in range(int(os.environ.get("FIRST_SEED", 0)), 300):
        model = build(name)
        batches = [tokens(model.config.get_text_config().vocab_size) for _ in range(STEPS)]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save_pretrained(folder)
            own = copy.deepcopy(model)
            exact = train(own, batches, lambda: checkpoint_norms(own, folder))
            errors = own_errors(model, batches, exact, folder, ways_of(name))
            for _ in range(3):
                near = copy.deepcopy(model)
                with torch.no_grad():
                    table = near.get_input_embeddings().weight
                    table.mul_(1 + 2**-9 * torch.randn(table.shape))
                errors |= own_errors(near, batches, exact, folder, ways_of(name)[:1])
        # A gradient of attention may be far off for other reasons.
        errors = {n: error for n, error in errors.items() if n == "loss" or re.search(r"expert|router|\.gate\.", n)}
        print(name, SEEDS[name], errors, flush=True)
        if not errors:
            return


def make(name):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model = build(name)
    model.save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    # Parameters are such numbers already; decays that MiniMax stores are not.
    save_file({n: t.bfloat16() if t.bfloat16().equal(t) else t for n, t in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    for key, change in FOLDERS[name][2].items():
        (folder / f"config-{key}.json").write_text(json.dumps(change(config), indent=1) + "\n")
    batches = [tokens(config.get("text_config", config)["vocab_size"]) for _ in range(STEPS)]
    start = copy.deepcopy(model)
    losses, norms, gradients = train(model, batches, lambda: checkpoint_norms(model, folder))
    (folder / "golden.json").write_text(json.dumps({
        "transformers": transformers.__version__, "batch": BATCH, "seq": SEQUENCE, "steps": STEPS, "losses": losses, "gradient_norms": norms,
        "gradients": gradients, "own_errors": own_errors(start, batches, (losses, norms, gradients), folder, ways_of(name)), "rates": [rate(s) for s in range(STEPS)],
        "optimizer": {"lr": LR, "epsilon": 1e-8, "warmup": WARMUP, "min_lr_ratio": RATIO, "weight_decay": DECAY, "betas": BETAS, "clip": CLIP},
        "input_ids": [b[0].tolist() for b in batches], "labels": [b[1].tolist() for b in batches]}) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, losses {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)


def defaults():
    """What transformers' configuration classes read, each key with its default, of every model type that ztc builds from a folder."""
    table = (HERE.parents[1] / "frontends/huggingface/Families.cpp").read_text()
    lines = []
    for kind in sorted(re.findall(r'{"([a-z0-9_-]+)", fill', table)):
        try:
            lines.append(f" {json.dumps(kind)}: {json.dumps(transformers.AutoConfig.for_model(kind).to_dict())}")
        except ValueError:
            print(f"{kind}: transformers {transformers.__version__} does not have it")
    (HERE / f"defaults-{transformers.__version__.split('.')[0]}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


# Whose layers carry a state, or are unlike those of others: the text that transformers goes on with, each time from the whole row
GREEDY = ("deepseek-v32", "diffllama", "jetmoe", "longcat-flash", "minimax-m3", "hrm-text", "lfm2", "lfm2-moe", "lfm3", "qwen3-next", "qwen3-5", "olmo-hybrid", "kimi-linear", "granite-hybrid", "bamba", "falcon-h1", "nemotron-h", "mamba2", "minimax", "zamba2", "mamba", "jamba", "recurrent-gemma")


def greedy():
    """greedy.json: for each folder the prompt of 30 whose text has the most tokens that differ, and this text."""
    lines = []
    for name in GREEDY:
        torch.manual_seed(5)
        model = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32).eval()
        rows = torch.randint(1, model.config.vocab_size, (30, 3))
        rows = rows[(rows != 10).all(1)]  # a line break ends a prompt
        with torch.no_grad():
            for _ in range(16):
                rows = torch.cat([rows, model(input_ids=rows, use_cache=False).logits[:, -1:].argmax(-1)], 1)
        best = max(rows.tolist(), key=lambda row: len(set(row[3:])))
        lines.append(f" {json.dumps(name)}: {json.dumps({'prompt': best[:3], 'text': best[3:]})}")
    (HERE / "greedy.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["defaults", *FOLDERS, "greedy"]:
        if name.startswith("--seed="):
            seed_of(name.removeprefix("--seed="))
        else:
            {"defaults": defaults, "greedy": greedy}.get(name, lambda: make(name))()
