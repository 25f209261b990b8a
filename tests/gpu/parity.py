#!/usr/bin/env python3
"""Loss, norm and every gradient of a plan's first step beside PyTorch's, at real shapes: weights that PyTorch draws and writes, the same tokens.

  parity.py PLAN CONFIG.json --batch=B --seq=S --precision=fp32|bf16|fp16 [--device=cuda]

The reference is PyTorch in fp32 without TF32. A plan in 16 bits may differ from it by twice what PyTorch in the same precision does. Prints a table of
the largest relative differences (L2) and ends with 1 where one is beyond its limit."""
import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

FP32 = 1e-3  # sums of thousands of terms in two orders; at the goldens' shapes it is 5e-5
SPARE = 2e-3  # of 16 bits, beside what PyTorch differs by

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("plan")
parser.add_argument("config")
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seq", type=int, required=True)
parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), required=True)
parser.add_argument("--device", default="cuda")
parser.add_argument("--ztc-run", default=here / "bin/ztc-run")
arguments = parser.parse_args()

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.manual_seed(0)
config = transformers.AutoConfig.for_model(**json.loads(pathlib.Path(arguments.config).read_text()))
config.use_cache = False


def gradients(model, ids):
    """Loss, norm and each parameter's gradient on the processor, in f32, under the names of the checkpoint: a mixture's experts are one parameter in memory."""
    model.zero_grad(set_to_none=True)
    logits = model(input_ids=ids).logits.float()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    norm = sum(float(p.grad.double().square().sum()) for p in model.parameters()) ** 0.5
    holder = copy.deepcopy(model)
    with torch.no_grad():
        for held, p in zip(holder.parameters(), model.parameters()):
            held.copy_(p.grad)
    with tempfile.TemporaryDirectory() as folder:
        holder.save_pretrained(folder)
        found = {name: g.float() for file in pathlib.Path(folder).glob("*.safetensors") for name, g in load_file(file).items()}
    return loss.item(), norm, found


def differences(mine, want):
    """By tensor, relative to its own norm, but to no less than a thousandth of the largest."""
    floor = 1e-3 * max(float(g.norm()) for g in want.values())
    return {name: float((mine[name] - g).norm()) / max(float(g.norm()), floor) for name, g in want.items()}


with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").float()
    model.save_pretrained(work / "model")
    ids = torch.randint(0, config.vocab_size, (arguments.batch, arguments.seq))
    save_file({"input_ids": ids[None], "labels": ids[None].clone()}, work / "data.safetensors")
    model = model.to(arguments.device)
    loss, norm, want = gradients(model, ids.to(arguments.device))
    allowed = {name: FP32 for name in want}
    if arguments.precision != "fp32":
        model = model.to({"bf16": torch.bfloat16, "fp16": torch.float16}[arguments.precision])
        _, _, narrow = gradients(model, ids.to(arguments.device))
        allowed = {name: 2 * d + SPARE for name, d in differences(narrow, want).items()}
        # Rounding sends single tokens to other experts, each computation its own tokens: any expert of a layer may differ by what another one does.
        experts = {}
        for name, limit in allowed.items():
            kind = re.sub(r"experts\.\d+\.", "experts.", name)
            experts[kind] = max(experts.get(kind, 0), limit)
        allowed = {name: experts[re.sub(r"experts\.\d+\.", "experts.", name)] for name in allowed}
        del narrow
    del model
    if arguments.device == "cuda":
        torch.cuda.empty_cache()  # the plan needs the memory
    log = work / "log.jsonl"
    subprocess.run([arguments.ztc_run, arguments.plan, f"--weights={work / 'model'}", f"--data={work / 'data.safetensors'}", "--steps=1", "--no-save",
                    "--device=cuda", f"--dump-gradients={work / 'gradients'}", f"--log-json={log}"], check=True, stdout=sys.stderr)
    step = next(x for x in map(json.loads, log.read_text().splitlines()) if "loss" in x)
    mine = {name: g.float() for name, g in load_file(work / "gradients").items()}

if set(mine) != set(want):
    sys.exit(f"the plan's gradients have other names than PyTorch's: {sorted(set(mine) ^ set(want))[:4]}")
found = differences(mine, want)
table = sorted(((found[name] / allowed[name], name) for name in want), reverse=True)
for share, name in table:
    print(f"{found[name]:.2e} of {allowed[name]:.2e}  {name}")
loss_far, norm_far = abs(step["loss"] - loss) / abs(loss), abs(step["grad_norm"] - norm) / norm
largest = max(allowed.values())
passed = table[0][0] <= 1 and loss_far <= largest and norm_far <= largest
print(f"loss {step['loss']:.6f} of {loss:.6f}, norm {step['grad_norm']:.5g} of {norm:.5g}, worst gradient {found[table[0][1]]:.2e} of {allowed[table[0][1]]:.2e}"
      f" allowed ({table[0][1]}), {len(table)} gradients")
sys.exit(0 if passed else 1)
