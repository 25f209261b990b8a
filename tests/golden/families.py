#!/usr/bin/env python3
"""Makes tiny random models of many families, what PyTorch computes with them, and their exports as people type them.

  pip install -r tests/golden/requirements.txt
  python tests/golden/families.py --list
  python tests/golden/families.py --out=/tmp/families                        # all families, the usual exports: hours
  python tests/golden/families.py --out=/tmp/families --exports=plain,mask gemma2 phi
  python tests/golden/families.py --stored                                   # rewrites tests/golden/families, what tests/e2e/families.py reads

Each folder: config.json, model.safetensors (as `save_pretrained` writes them), golden.safetensors (input_ids, labels, logits, loss and `grad.NAME`
of one batch), batches.safetensors (input_ids, labels of each training step), golden.json (losses, norms before clipping, learning rates, norms of the
final weights, settings of AdamW), and EXPORT.onnx. Sizes are odd on purpose; norm weights and biases are perturbed, so dropping one is seen.
With --stored the models are smaller still, one export each, and golden.json has the form of make.py's.
A model of family_modules.py, research_modules.py, mixing_modules.py, novel_modules.py or expert_modules.py (plain PyTorch, as people write it) has no config.json.
"""
import argparse
import contextlib
import copy
import io
import json
import logging
import math
import os
import pathlib
import sys
import tempfile
import time
import warnings
import zlib

warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
import transformers.utils.logging
from safetensors.torch import load_file, save_file

import expert_modules
import family_modules
import mixing_modules
import novel_modules
import research_modules
from family_configs import FAMILIES, STORED, smaller

logging.disable(logging.WARNING)
transformers.utils.logging.disable_progress_bar()
WARMUP, LR, LR_MIN, BETAS, EPSILON, DECAY, CLIP = 5, 1e-3, 1e-4, (0.9, 0.95), 1e-8, 0.1, 1.0
USUAL = ["plain", "dynamic", "mask", "torchscript"]
EXPORTS = USUAL + ["dynamic1", "past", "cache", "noopt", "wrapped", "labels", "eager", "op18", "op23", "op23mask", "op24", "torchscript-static"]


HERE = pathlib.Path(__file__).resolve().parent
MODULES = family_modules.MODULES | research_modules.MODULES | mixing_modules.MODULES | novel_modules.MODULES | expert_modules.MODULES


class Logits(torch.nn.Module):
    """A wrapper as people write it: tokens in, logits out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask=None):
        if attention_mask is None:
            return self.model(input_ids=input_ids, use_cache=False).logits
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class MaskedLogits(torch.nn.Module):
    """For the TorchScript exporter: a mask of ones keeps transformers' detection of packed sequences out of the graph."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids), use_cache=False).logits


class WithCache(torch.nn.Module):
    """Logits, then keys and values of every layer: what code that generates wants."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        done = self.model(input_ids=input_ids, use_cache=True)
        return done.logits, *[t for layer in done.past_key_values.layers for t in (layer.keys, layer.values)]


class WithPast(torch.nn.Module):
    """The same with the keys and values of earlier tokens as inputs, in the order and with the names that optimum gives them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, *past):
        cache = transformers.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        done = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return done.logits, *[t for layer in done.past_key_values.layers for t in (layer.keys, layer.values)]


def build(name, small=False):
    """The model, in evaluation mode, fp32, and whether it is plain PyTorch."""
    seed = zlib.crc32(name.encode()) % 100000
    torch.manual_seed(seed)
    if name in MODULES:
        model, ours = MODULES[name](), True
    else:
        kind, options = FAMILIES[name]
        options = smaller(options) if small else dict(options)
        experts, attention = options.pop("experts", None), options.pop("attention", None)
        config = transformers.AutoConfig.for_model(kind, **options)
        extra = {"experts_implementation": experts, "attn_implementation": attention}
        model, ours = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, **{k: v for k, v in extra.items() if v}), False
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.float().eval(), ours


def tokens(generator, batch, sequence, vocabulary, padding):
    """Rows of which every second token can be learned, and labels with holes, a masked prompt and a masked tail. A padding token stands
    among inputs and targets: its row of the table is special."""
    ids = torch.randint(0, vocabulary, (batch, sequence), generator=generator)
    ids[:, 1::2] = (ids[:, 0 : sequence - sequence % 2 : 2] * 5 + 3) % vocabulary
    if padding is not None:
        ids[:, sequence // 2] = padding
    labels = ids.clone()
    labels[torch.rand(batch, sequence, generator=generator) < 0.1] = -100
    labels[0, : sequence // 8] = -100
    labels[-1, sequence - 3 :] = -100
    return ids, labels


def logits_of(model, ours, ids):
    return model(ids) if ours else model(input_ids=ids, use_cache=False).logits


def loss_of(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def rate(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    part = (step + 1 - WARMUP) / (steps - WARMUP)
    return LR_MIN + (LR - LR_MIN) * 0.5 * (1 + math.cos(math.pi * part))


def train(model, ours, batches, narrow=None):
    """Losses, norms before clipping, the model afterwards, the first step's gradients. With `narrow`, a copy of the model in 16 bits computes, of a loss that is
    scaled where the type has few exponents; weights and optimizer stay fp32."""
    model = copy.deepcopy(model)
    computes = copy.deepcopy(model).to(narrow) if narrow else model
    trained = [p for p in model.parameters() if p.requires_grad]
    computing = [p for p in computes.parameters() if p.requires_grad]
    scale = 2.0**10 if narrow == torch.float16 else 1.0
    groups = [{"params": [p for p in trained if p.ndim >= 2], "weight_decay": DECAY},
              {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=LR, betas=BETAS, eps=EPSILON, foreach=False)
    losses, norms, gradients = [], [], None
    for step, (ids, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, len(batches))
        computes.zero_grad()
        if narrow:
            with torch.no_grad():
                for one, other in zip(computing, trained):
                    one.copy_(other)
        loss = loss_of(logits_of(computes, ours, ids).float(), labels)
        (loss * scale).backward()
        for one, other in zip(computing, trained):
            if narrow:
                other.grad = None if one.grad is None else one.grad.float() / scale
        gradients = gradients or [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in trained]
        norms.append(torch.nn.utils.clip_grad_norm_(trained, CLIP, foreach=False).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, model, gradients


def own_differences(model, ours, first, batches, full):
    """How far PyTorch's own runs in 16 bits are off the fp32 run (`full`), loss and gradients of the batch `first`, losses and norms of a run: where a rounding makes
    a router choose another expert that is far, and no error of ours."""
    found, (loss, _, _, wanted) = {}, train(model, ours, [first])
    for name, narrow in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        try:
            own, _, _, gradients = train(model, ours, [first], narrow)
            losses, norms, _, _ = train(model, ours, batches, narrow)
        except RuntimeError:  # an implementation that has no kernel for this type
            continue
        largest = max(g.norm().item() for g in wanted)
        found[name] = {"loss": abs(own[0] - loss[0]), "losses": max(abs(a - b) for a, b in zip(losses, full[0])),
                       "norms": sorted(abs(a - b) / a for a, b in zip(full[1], norms)),
                       "gradient": max((a - b).norm().item() / max(b.norm().item(), 1e-3 * largest) for a, b in zip(gradients, wanted))}
    return found


def stored(model, ours, tensors):
    """Tensors of parameters (values, gradients) as the model's checkpoint divides and names them: transformers keeps the experts of a layer in one
    tensor, checkpoints one matrix for each; what it calls lm_head is embed_out in those of GPT-NeoX."""
    if ours:
        return tensors
    shell = copy.deepcopy(model)
    with torch.no_grad(), tempfile.TemporaryDirectory() as work:
        for name, parameter in shell.named_parameters():
            if name in tensors:
                parameter.copy_(tensors[name])
        shell.save_pretrained(work)
        kept = {k: v for part in pathlib.Path(work).glob("*.safetensors") for k, v in load_file(part).items()}
    return {k: v for k, v in kept.items() if k not in dict(shell.named_buffers())}


def add_own_differences(model, ours, folder):
    """To a golden that was made before these were part of it."""
    golden, batches = json.loads((folder / "golden.json").read_text()), load_file(folder / "batches.safetensors")
    if "own_differences" in golden:
        return
    tensors, batches = load_file(folder / "golden.safetensors"), list(zip(batches["input_ids"], batches["labels"]))
    golden["own_differences"] = own_differences(model, ours, (tensors["input_ids"], tensors["labels"]), batches, train(model, ours, batches))
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def goldens(model, ours, name, folder, steps, batch, sequence):
    vocabulary = model(torch.zeros(1, 4, dtype=torch.int64)).shape[-1] if ours else model.config.get_text_config().vocab_size
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) % 100000 + 2)
    padding = None if ours else model.config.get_text_config().pad_token_id
    ids, labels = tokens(generator, batch, sequence, vocabulary, padding)
    batches = [tokens(generator, batch, sequence, vocabulary, padding) for _ in range(steps)]
    save_file({"input_ids": torch.stack([b[0] for b in batches]), "labels": torch.stack([b[1] for b in batches])}, folder / "batches.safetensors")
    model.zero_grad()
    logits = logits_of(model, ours, ids)
    loss = loss_of(logits, labels)
    loss.backward()
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    gradients = stored(model, ours, {n: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone().contiguous() for n, p in named.items()})
    save_file({"input_ids": ids, "labels": labels, "logits": logits.detach().contiguous(), "loss": loss.detach()}
              | {f"grad.{n}": g for n, g in gradients.items()}, folder / "golden.safetensors")
    whole = train(model, ours, batches)
    losses, norms, trained, _ = whole
    with torch.no_grad():
        final = loss_of(logits_of(trained, ours, ids), labels).item()
    weights = stored(trained, ours, {n: p.detach().clone().contiguous() for n, p in trained.named_parameters() if n in named})
    (folder / "golden.json").write_text(json.dumps({
        "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "B": batch, "S": sequence, "vocab_size": vocabulary,
        "num_parameters": sum(p.numel() for p in named.values()), "loss": loss.item(), "losses": losses, "grad_norms_preclip": norms,
        "final_eval_loss": final, "final_param_l2": {n: p.norm().item() for n, p in weights.items()},
        "own_differences": own_differences(model, ours, (ids, labels), batches, whole),
        "grad_l2": {n: g.norm().item() for n, g in gradients.items()}, "param_shapes": {n: list(p.shape) for n, p in gradients.items()},
        "adamw": {"lr": LR, "lr_min": LR_MIN, "betas": BETAS, "eps": EPSILON, "weight_decay": DECAY, "clip_grad_norm": CLIP, "steps": steps,
                  "lrs": [rate(t, steps) for t in range(steps)]}}, indent=1) + "\n")
    model.zero_grad()
    return ids


def export(model, ours, ids, kind, path):
    """One export. The names say what the user did; see EXPORTS. "dynamic@extended": another tool worked on that file."""
    if "@" in kind:
        base, tool = kind.split("@")
        if not path.with_name(f"{base}.onnx").exists():
            export(model, ours, ids, base, path.with_name(f"{base}.onnx"))
        return optimise(path.with_name(f"{base}.onnx"), tool, path)
    model = copy.deepcopy(model)
    mask = torch.ones_like(ids)
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    parts = kind.split("-")
    if not ours:
        model.config.use_cache = False
    if parts[0].startswith("op"):
        opset = int("".join(c for c in parts[0] if c.isdigit()))
        inputs = {"input_ids": ids} | ({"attention_mask": mask} if kind.endswith("mask") else {})
        torch.onnx.export(model, (ids,) if ours else (), str(path), kwargs=None if ours else inputs, dynamo=True, opset_version=opset,
                          dynamic_shapes=(free,) if ours else {n: free for n in inputs}, output_names=["logits"], external_data=False)
    elif kind == "plain":
        torch.onnx.export(model, (ids,), str(path), dynamo=True)
    elif kind == "dynamic":
        torch.onnx.export(model if ours else Logits(model), (ids,), str(path), dynamo=True, input_names=["tokens"], output_names=["scores"],
                          dynamic_shapes=(free,) if ours else {"input_ids": free})
    elif kind == "dynamic1":  # an example of one row
        torch.onnx.export(model if ours else Logits(model), (ids[:1],), str(path), dynamo=True, input_names=["input_ids"], output_names=["logits"],
                          dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, "logits": {0: "batch", 1: "sequence"}})
    elif kind == "noopt":
        torch.onnx.export(model, (ids,), str(path), dynamo=True, external_data=False, optimize=False)
    elif kind == "torchscript":
        torch.onnx.export(model if ours else MaskedLogits(model), (ids,), str(path), dynamo=False, opset_version=17, input_names=["input_ids"],
                          output_names=["logits"], dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}})
    elif kind == "torchscript-static":
        torch.onnx.export(model if ours else MaskedLogits(model), (ids,), str(path), dynamo=False, opset_version=18)
    elif ours:
        raise ValueError("not for plain modules")
    elif kind == "mask":
        positions = torch.arange(ids.shape[1])[None].expand(ids.shape[0], -1).contiguous()
        inputs = {"input_ids": ids, "attention_mask": mask}
        torch.onnx.export(model, (), str(path), kwargs=inputs, dynamo=True, dynamic_shapes={n: free for n in inputs}, opset_version=18)
    elif kind == "past":
        past = [torch.zeros(ids.shape[0], *t.shape[1:2], 3, t.shape[3]) for t in WithCache(model)(ids)[1:]]
        joined = torch.ones(ids.shape[0], 3 + ids.shape[1], dtype=torch.int64)
        names = [f"past_key_values.{i // 2}.{('key', 'value')[i % 2]}" for i in range(len(past))]
        grown = {0: "batch", 1: "total"}
        torch.onnx.export(WithPast(model), (ids, joined, *past), str(path), dynamo=False, opset_version=17,
                          input_names=["input_ids", "attention_mask", *names], output_names=["logits", *(n.replace("past_key_values", "present") for n in names)],
                          dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": grown} | {n: {0: "batch", 2: "past"} for n in names})
    elif kind == "cache":
        torch.onnx.export(WithCache(model), (ids,), str(path), dynamo=True)
    elif kind == "wrapped":
        torch.onnx.export(Logits(model), (ids,), str(path), dynamo=True)
    elif kind == "labels":
        torch.onnx.export(model, (), str(path), kwargs={"input_ids": ids, "attention_mask": mask, "labels": ids}, dynamo=True)
    elif kind == "eager":
        model.set_attn_implementation("eager")
        torch.onnx.export(model, (), str(path), kwargs={"input_ids": ids}, dynamo=True, dynamic_shapes={"input_ids": free}, opset_version=18)
    else:
        raise ValueError(f"no export '{kind}'")


def optimise(path, tool, out):
    """What users do with an export: onnxruntime's graph at a level (basic, extended, all), or the graph as a simplifier leaves it."""
    import onnx
    if tool == "slim":
        import onnxslim
        onnx.save(onnxslim.slim(str(path)), out)
    elif tool == "sim":
        import onnxsim
        onnx.save(onnxsim.simplify(onnx.load(path))[0], out)
    else:
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{tool.upper()}")
        options.optimized_model_filepath = str(out)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def strip(path):
    """Keeps of the metadata what says where a node comes from: without paths of this machine, stack traces and the exporter's graph in words."""
    import onnx
    model = onnx.load(path)
    for node in [*model.graph.node, *(n for f in model.functions for n in f.node)]:
        node.doc_string = ""
        for entry in [p for p in node.metadata_props if p.key not in ("pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes")]:
            node.metadata_props.remove(entry)
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
    del model.graph.value_info[:]
    model.graph.doc_string = ""
    for entry in [p for p in model.graph.metadata_props if p.key != "pkg.torch.export.ExportedProgram.graph_signature"]:
        model.graph.metadata_props.remove(entry)
    onnx.save(model, path)


def store(name, kind, steps=6, batch=2, sequence=13):
    """One small model of tests/golden/families: weights, one export that holds them too, batches, gradients, losses."""
    folder = HERE / "families" / name
    folder.mkdir(parents=True, exist_ok=True)
    family_modules.WIDTH, family_modules.VOCABULARY = 24, 61
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        model, ours = build(name, small=True)
        save(model, ours, work)
        ids = goldens(model, ours, name, work, steps, batch, sequence)
        with contextlib.redirect_stdout(io.StringIO()):
            export(model, ours, ids, kind, work / "model.onnx")
        strip(work / "model.onnx")
        full, tensors = json.loads((work / "golden.json").read_text()), load_file(work / "golden.safetensors")
        for file in ("model.onnx", "model.safetensors", *(["config.json"] if not ours else [])):
            (folder / file).write_bytes((work / file).read_bytes())
        batches = load_file(work / "batches.safetensors")
        first = {k: torch.cat([tensors[k][None], batches[k][: steps - 1]]) for k in ("input_ids", "labels")}
        save_file(first, folder / "data.safetensors")
        save_file({n[5:]: t for n, t in tensors.items() if n.startswith("grad.")}, folder / "golden.safetensors")
    batches = list(zip(first["input_ids"], first["labels"]))
    whole = train(model, ours, batches)
    losses, norms, _, _ = whole
    (folder / "golden.json").write_text(json.dumps({
        "torch": full["torch"], "transformers": full["transformers"], "export": kind, "batch": batch, "seq": sequence, "steps": steps, "warmup": WARMUP, "lr": LR,
        "min_lr_ratio": LR_MIN / LR, "weight_decay": DECAY, "betas": BETAS, "epsilon": EPSILON, "clip": CLIP, "rates": full["adamw"]["lrs"],
        "losses": losses, "gradient_norms": norms, "own_differences": own_differences(model, ours, batches[0], batches, whole)}, indent=1) + "\n")
    print(name, kind, full["num_parameters"], "parameters", losses[0], "->", losses[-1], flush=True)


def one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = [i for i, line in enumerate(lines) if "Exception summary" in line]
    return f"{type(error).__name__}: {' '.join(lines[cause[0] + 1 : cause[0] + 2] if cause else lines[:2])[:300]}"


def check(path, ids, logits):
    """ "ok" where onnxruntime computes PyTorch's logits from the file, else what it says: some exports are wrong from the start."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feed = {}
        for i in session.get_inputs():
            if "past" in i.name:  # of length 0
                feed[i.name] = torch.zeros([n if isinstance(n, int) else len(ids) if d == 0 else 0 for d, n in enumerate(i.shape)]).numpy()
            else:
                feed[i.name] = (torch.ones_like(ids) if "mask" in i.name else ids).numpy()
        found = [torch.from_numpy(y) for y in session.run(None, feed) if y.shape == tuple(logits.shape)]
    except Exception as error:  # of several classes without a common one
        return f"onnxruntime: {one_line(error)[:200]}"
    error = min(((y - logits).abs().max().item() for y in found), default=float("inf"))
    return "ok" if error <= 1e-3 * logits.abs().max().item() else f"onnxruntime: logits differ by {error:.2g}"


def save(model, ours, folder):
    """The checkpoint as its owner would publish it."""
    if ours:
        tensors = model.state_dict() if getattr(model, "stores_buffers", False) else dict(model.named_parameters())
        save_file({n: p.detach().contiguous() for n, p in tensors.items()}, folder / "model.safetensors")
    else:
        model.config.use_cache = False
        model.save_pretrained(folder)


def make(name, out, exports, steps, batch, sequence, again):
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    model, ours = build(name)
    if again or not (folder / "golden.json").exists():
        save(model, ours, folder)
        ids = goldens(model, ours, name, folder, steps, batch, sequence)
    else:
        ids = load_file(folder / "golden.safetensors")["input_ids"]
        add_own_differences(model, ours, folder)
    logits = load_file(folder / "golden.safetensors")["logits"]
    report = json.loads((folder / "exports.json").read_text()) if (folder / "exports.json").exists() else {}
    for kind in exports:
        path = folder / f"{kind}.onnx"
        if path.exists() and not again or (kind in report and report[kind] != "ok" and not again):
            continue
        begin = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                export(model, ours, ids, kind, path)
            report[kind] = check(path, ids, logits)
        except Exception as error:  # an exporter that cannot: noted, and the others go on
            report[kind] = one_line(error)
            path.unlink(missing_ok=True)
        print(f"{name}: {kind}: {report[kind]} ({time.time() - begin:.1f} s)", flush=True)
        (folder / "exports.json").write_text(json.dumps(report, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="families (default: all)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("families"))
    parser.add_argument("--exports", default=",".join(USUAL), help=f"of {', '.join(EXPORTS)}; with @basic, @extended, @all (onnxruntime), @slim or @sim "
                        "appended: what that tool makes of the file")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=21)
    parser.add_argument("--again", action="store_true", help="make anew what is there")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--stored", action="store_true", help="rewrite the models of tests/golden/families")
    arguments = parser.parse_args()
    names = arguments.names or [*FAMILIES, *MODULES]
    if arguments.list:
        return print(*names, sep="\n")
    if arguments.stored:
        for name in arguments.names or STORED:
            store(name, STORED[name])
        return
    failed = []
    for name in names:
        try:
            make(name, arguments.out, [x for x in arguments.exports.split(",") if x], arguments.steps, arguments.batch, arguments.sequence, arguments.again)
        except Exception as error:
            failed.append(name)
            print(f"{name}: no model: {one_line(error)}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
