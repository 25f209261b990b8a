#!/usr/bin/env python3
"""Hugging Face folders as transformers saves them, made here and now, against PyTorch: one batch's loss and every gradient, eight steps, in fp32 and bf16, and what
an export then holds. Needs the packages of tests/golden/requirements.txt.

  folders.py [NAME...] [--list]

A case: a model of tests/folders/make.py or of tests/golden/family_configs.py that ztc builds from its folder. Weights are stored by turns in fp32 and bf16, in one
file and in shards; the experts of a mixture also as transformers 5 holds them, one tensor of three dimensions.
"""
import argparse
import copy
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / place) for place in ("folders", "golden", "e2e")]
import make  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from configurations import MORE  # noqa: E402
from family_configs import FAMILIES  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from support import ROOT, check, finish, optimizer_arguments, read_log, run, scratch  # noqa: E402

STEPS = 8
LIMITS = {"fp32": (1e-5, 5e-5, 1e-4, 2e-4), "bf16": (4e-3, 4e-2, 6e-3, 2e-2)}
make.STEPS = STEPS
BUILT = set(re.findall(r'{"([a-z0-9_-]+)", fill', (ROOT / "frontends/huggingface/Families.cpp").read_text()))
make.FOLDERS.update(MORE)
make.FOLDERS.update({f"family-{name}": (kind, options, {}) for name, (kind, options) in FAMILIES.items() if kind in BUILT})


def loaded(folder):
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def in_checkpoint(model, tensors, work):
    """One tensor for each parameter, under the names and in the forms that transformers saves."""
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for one, other in zip(holder.parameters(), tensors):
            one.copy_(other)
        for tensor in make.frozen(holder):
            tensor.zero_()  # without a gradient
    holder.save_pretrained(work / "held")
    named = loaded(work / "held")
    shutil.rmtree(work / "held")
    return named


def as_in_memory(model, tensors, work):
    """The same under the names of version 5's modules: experts are one tensor of three dimensions."""
    return {name: tensor.detach().clone().contiguous() for (name, _), tensor in zip(model.named_parameters(), tensors)}


def differences(mine, want):
    """Relative L2 differences, largest first; a tensor far smaller than the largest is held against that."""
    scale = max((t.double().norm().item() for t in want.values()), default=0)
    return sorted(((float((mine[n].double() - want[n].double()).norm() / max(want[n].double().norm().item(), 1e-3 * scale)), n)
                   for n in set(mine) & set(want)), reverse=True)


def train(model, batches, narrow=None):
    """Losses, norms, gradients of the first step by parameter, and the model afterwards. With `narrow`, a copy of the model in 16 bits computes; weights and
    optimizer stay fp32."""
    model = copy.deepcopy(model)
    computes = narrow or model
    trained, computing = list(model.parameters()), list(computes.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in trained if p.ndim >= 2], "weight_decay": make.DECAY},
                                   {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}], lr=make.LR, betas=make.BETAS, eps=1e-8, foreach=False)
    losses, norms, gradients = [], [], None
    for step, (ids, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = make.rate(step)
        with torch.no_grad():
            for one, other in zip(computing, trained):
                one.grad = None
                if narrow:
                    one.copy_(other)
        loss = make.loss_of(computes, ids, labels)
        loss.backward()
        for one, other in zip(computing, trained):
            other.grad = None if one.grad is None else one.grad.float()
        gradients = gradients or [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in trained]
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_([p for p in trained if p.grad is not None], make.CLIP, foreach=False).item())
        optimizer.step()
    return losses, norms, gradients, model


def golden_of(model, work, held):
    """What PyTorch computes in fp32, by checkpoint name, and how far its own run in bf16 is off: experts that are chosen anew by a rounding are not errors of ours."""
    batches = [make.tokens(model.config.get_text_config().vocab_size) for _ in range(STEPS)]
    save_file({"input_ids": torch.stack([b[0] for b in batches]), "labels": torch.stack([b[1] for b in batches])}, work / "data.safetensors")
    losses, norms, gradients, trained = train(model, batches)
    own_losses, own_norms, own_gradients, _ = train(model, batches, narrow=copy.deepcopy(model).to(torch.bfloat16))
    named = held(model, gradients, work)
    floor = differences(held(model, own_gradients, work), named)[0][0], max(abs(a - b) for a, b in zip(losses, own_losses)), \
        sorted(abs(a - b) / a for a, b in zip(norms, own_norms))[-2]
    return {"losses": losses, "norms": norms, "gradients": named, "weights": held(model, list(trained.parameters()), work), "floor": floor, "lr": make.LR,
            "epsilon": 1e-8, "warmup": make.WARMUP, "min_lr_ratio": make.RATIO, "weight_decay": make.DECAY, "betas": make.BETAS, "clip": make.CLIP}


def store(model, folder, index):
    """The folder, in one of the forms in which people have them; returns the words for it."""
    narrow, sharded = index % 2 == 1, index % 3 == 1
    saved = copy.deepcopy(model).to(torch.bfloat16 if narrow else torch.float32)
    saved.save_pretrained(folder, **({"max_shard_size": "40KB"} if sharded else {}))
    return f"{'bf16' if narrow else 'fp32'}, {'shards' if sharded else 'one file'}"


def compare(label, precision, golden, folder, work):
    plan, out = work / f"{precision}.bin", work / f"out-{precision}"
    done = run("ztc", "compile", folder, "-o", plan, "--target=x86-64-v3", f"--batch={make.BATCH}", f"--seq={make.SEQUENCE}", f"--precision={precision}", expect=None)
    if done.returncode:
        return check(f"{label}: {precision}: compiles", False, done.stderr.strip()[-700:])
    done = run("ztc-run", plan, f"--data={work / 'data.safetensors'}", f"--steps={STEPS}", f"--log-json={work / precision}", f"--dump-gradients={work / 'mine'}",
               f"--export={out}", "--export-dtype=fp32", *optimizer_arguments(golden))
    if done.returncode:
        return
    _, steps = read_log(work / precision)
    first, *limits = LIMITS[precision]
    gradient, losses, sizes = limits if precision == "fp32" else [max(limit, 1.5 * own) for limit, own in zip(limits, golden["floor"])]
    first = max(first, golden["floor"][1] if precision == "bf16" else 0)
    error = abs(steps[0]["loss"] - golden["losses"][0])
    check(f"{label}: {precision}: first loss", error <= first, error)
    mine, stored = load_file(work / "mine"), loaded(folder)
    frozen = {n for n, g in golden["gradients"].items() if n not in mine and not g.any()}
    want = {n: g for n, g in golden["gradients"].items() if n in stored and n not in frozen}
    check(f"{label}: {precision}: a gradient for each tensor of the checkpoint", set(mine) == set(want), sorted(set(mine) ^ set(want))[:4])
    worst = differences(mine, want)[:1]
    check(f"{label}: {precision}: worst gradient", worst and worst[0][0] <= gradient, worst)
    errors = [abs(s["loss"] - w) for s, w in zip(steps, golden["losses"])]
    check(f"{label}: {precision}: losses of {STEPS} steps", len(errors) == STEPS and max(errors) <= losses, max(errors, default=None))
    errors = sorted(abs(s["grad_norm"] - w) / w for s, w in zip(steps, golden["norms"]))
    if precision != "fp32" and errors[-1] < 0.3:
        errors.pop()  # one step may amplify a rounding
    check(f"{label}: {precision}: norms of {STEPS} steps", errors and errors[-1] <= sizes, errors[-1:])
    exported = loaded(out)
    check(f"{label}: {precision}: the export holds what the folder holds", {n: t.shape for n, t in exported.items()} == {n: t.shape for n, t in stored.items()},
          sorted(set(exported) ^ set(stored))[:4])
    untouched = [n for n in stored if n not in golden["gradients"] or n in frozen]
    check(f"{label}: {precision}: what is not trained is copied", all(torch.equal(exported[n].float(), stored[n].float()) for n in untouched if n in exported))
    if precision == "fp32":
        # A bias of keys has next to no gradient, and Adam makes steps of whatever rounding left of it.
        matrices = [n for n in want if n in exported and want[n].ndim > 1]
        worst = differences({n: exported[n] - stored[n] for n in matrices}, {n: golden["weights"][n] - stored[n] for n in matrices})[:1]
        check(f"{label}: {precision}: what {STEPS} steps changed", worst and worst[0][0] <= 2e-2, worst)


def examine(name, index, precisions):
    model = make.build(name)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the fast ones ask for sizes that are multiples of 16 bytes
    with scratch() as work:
        golden = golden_of(model, work, in_checkpoint)
        words = store(model, work / "model", index)
        for precision in precisions:
            compare(f"{name} ({words})", precision, golden, work / "model", work)
    stacked = [n for n, p in model.named_parameters() if p.ndim == 3 and "experts" in n]
    if not stacked or all(n in golden["gradients"] for n in stacked):
        return
    with scratch() as work:  # as a program that saves state_dict() leaves it
        golden = golden_of(model, work, as_in_memory)
        model.save_pretrained(work / "model")
        for file in (work / "model").glob("*.safetensors"):
            file.unlink()
        save_file({n: t.detach().clone().contiguous() for n, t in model.state_dict().items() if n != "lm_head.weight" or not model.config.tie_word_embeddings},
                  work / "model/model.safetensors", metadata={"format": "pt"})
        compare(f"{name} (experts in three dimensions)", "fp32", golden, work / "model", work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--precisions", default=",".join(LIMITS))
    arguments = parser.parse_args()
    if arguments.list:
        return print(*make.FOLDERS, sep="\n")
    for index, name in enumerate(make.FOLDERS):
        if not arguments.names or name in arguments.names:
            examine(name, index, arguments.precisions.split(","))
    finish()


if __name__ == "__main__":
    main()
