#!/usr/bin/env python3
"""Models whose layers carry a state or are unlike those of others (tests/folders): text as transformers writes it, the same bits at ZeRO-0 and ZeRO-3, the CUDA device over the stand-ins, an export
with the names, shapes and types of the folder that gives its loss again."""
import array
import json
import math
import shutil
import struct
import sys

from support import ROOT, check, finish, read_log, run, scratch, stand_ins, write_safetensors

FOLDERS = ROOT / "tests/folders"
TEXTS = json.loads((FOLDERS / "greedy.json").read_text())


def compiled(folder, plan, *options):
    run("ztc", "compile", folder, "-o", plan, "--target=host", *options)
    return plan


def text(name, work):
    """Greedy text from the tokens of a prompt, a byte each."""
    want = TEXTS[name]
    (work / "prompt.txt").write_bytes(bytes(want["prompt"]) + b"\n")
    plan = compiled(FOLDERS / name, work / "text.bin", "--batch=1", "--seq=24", "--precision=fp32")
    done = run("ztc-run", plan, "--device=cpu", "--prompts", work / "prompt.txt", f"--generate={len(want['text'])}")
    said = json.loads(done.stdout or "{}").get("text", "")
    check(f"{name}: the text of transformers", said.encode() == bytes(want["text"]), (said.encode(), bytes(want["text"])))


def write_data(name, path):
    """The rows of a folder's golden; returns how long they are."""
    golden = json.loads((FOLDERS / name / "golden.json").read_text())
    shape = [golden["steps"], golden["batch"], golden["seq"]]
    write_safetensors(path, {key: (shape, array.array("q", [x for b in golden[key] for row in b for x in row])) for key in ("input_ids", "labels")})
    return golden["seq"]


def stages(name, work, precision):
    """Two ranks with whole parameters and with shards."""
    length = write_data(name, work / "data.safetensors")
    exports = []
    for zero in (0, 3):
        plan = compiled(FOLDERS / name, work / f"{precision}{zero}.bin", "--batch=1", f"--seq={length}", f"--zero={zero}", f"--precision={precision}")
        out = work / f"{precision}-{zero}"
        run("ztc-run", plan, "--device=cpu", f"--data={work / 'data.safetensors'}", "--steps=4", "--ranks=2", "--threads=1", "--lr=1e-3", "--no-save", f"--export={out}",
            f"--log-json={work / 'log'}", "--overwrite")
        exports.append([file.read_bytes() for file in sorted(out.glob("*.safetensors"))])  # what is not trained may have a file of its own
    check(f"{name}: {precision}: ZeRO-3 on 2 ranks has the bits of ZeRO-0", exports[0] == exports[1] != [])
    return work / f"{precision}-3"


def shapes(folder):
    """Types and shapes by name."""
    found = {}
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        found |= {name: (entry["dtype"], entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    return found


def exported(name, out, work):
    """What was trained is a folder like the one that it came from; a plan of it has the loss that a plan of that folder has with these weights."""
    old, new = shapes(FOLDERS / name), shapes(out)
    check(f"{name}: an export has the folder's names, shapes and types", old == new, [key for key in {*old, *new} if old.get(key) != new.get(key)][:4])
    config, original = (json.loads((folder / "config.json").read_text()) for folder in (out, FOLDERS / name))
    check(f"{name}: its configuration is the folder's but for the type", config | {"dtype": "float32"} == original)
    losses = []
    for folder, more in ((out, []), (FOLDERS / name, [f"--weights={out}"])):
        plan = compiled(folder, work / "again.bin", "--batch=1", "--seq=20", "--precision=bf16")
        run("ztc-run", plan, "--device=cpu", f"--data={work / 'data.safetensors'}", "--steps=1", "--threads=1", "--no-save", f"--export={work / 'last'}",
            f"--log-json={work / 'again'}", "--overwrite", *more)
        losses.append(read_log(work / "again")[1][0]["loss"])
    check(f"{name}: an export is read again", losses[0] == losses[1], losses)


def on_gpu(name, work):
    """The CUDA device over the stand-ins: the host's losses and norms, on one GPU and with shards on two; limits as in gpu-models.py, of products in TF32 too: they round
    less than bf16."""
    environment = stand_ins(2, ZTC_CUDNN="0")
    length = write_data(name, work / "data.safetensors")
    done = run("ztc", "compile", FOLDERS / name, "-o", work / "verified.bin", "--target=simt", "--batch=1", f"--seq={length}", "--precision=fp32", "--verify")
    said = done.stdout + done.stderr
    check(f"{name}: gpu: every kernel is verified", "is not known here" not in said and "on the engine that runs those for GPUs" in said, said)
    losses = {}
    for precision, limits in (("fp32", (1e-6, 1e-6)), ("bf16", (2e-3, 1e-2)), ("bf16 --tf32", (2e-3, 1e-2))):
        for ranks, zero in ((1, 0), (2, 3)):
            plan = work / f"gpu-{precision}-{zero}.bin"
            run("ztc", "compile", FOLDERS / name, "-o", plan, "--target=x86-64-v3,simt", "--batch=1", f"--seq={length}", f"--zero={zero}", *f"--precision={precision}".split())
            logs = []
            for where, more in (((f"--ranks={ranks}", "--device=cpu", "--threads=1"), {}), ((f"--gpus={ranks}",), {"env": environment})):
                run("ztc-run", plan, f"--data={work / 'data.safetensors'}", "--steps=2", "--lr=2e-3", "--no-save", f"--export={work / 'gpu-out'}", f"--log-json={work / 'gpu-log'}",
                    "--overwrite", *where, **more)
                logs.append(read_log(work / "gpu-log")[1])
            worst = [max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(logs[1], logs[0], strict=True)) for key in ("loss", "grad_norm")]
            losses[precision, zero] = [entry["loss"] for entry in logs[1]]
            check(f"{name}: gpu: {precision} with ZeRO-{zero} on {ranks}", all(w <= limit for w, limit in zip(worst, limits)), worst)
    hasStates = name in ("qwen3-5", "kimi-linear", "granite-hybrid")
    check(f"{name}: gpu: --tf32 rounds what linear attention multiplies in fp32", (losses["bf16 --tf32", 0] != losses["bf16", 0]) == hasStates, losses)


def infinite(work):
    """An infinity in a config.json stands in the export as it stood there: older versions of transformers read no other form."""
    folder, out = work / "model", work / "out"
    shutil.copytree(FOLDERS / "granite-hybrid", folder)
    shutil.copy(folder / "config-4.json", folder / "config.json")
    check("infinite: the folder has one", "Infinity" in (folder / "config.json").read_text() and "__float__" not in (folder / "config.json").read_text())
    plan = compiled(folder, work / "plan.bin", "--batch=1", "--seq=20")
    write_data("granite-hybrid", work / "data.safetensors")
    run("ztc-run", plan, "--device=cpu", f"--data={work / 'data.safetensors'}", "--no-save", "--steps=1", f"--export={out}")
    config = (out / "config.json").read_text()
    check("infinite: the export has it in its form", json.loads(config)["time_step_limit"] == [0.0, math.inf] and "__float__" not in config, "" if "__float__" not in config else config[-300:])


for name in sys.argv[1:] or TEXTS:
    with scratch() as work:
        text(name, work)
        stages(name, work, "fp32")
        exported(name, stages(name, work, "bf16"), work)
for name in ("lfm2", "qwen3-5", "kimi-linear", "granite-hybrid", "mamba", "recurrent-gemma"):
    if not sys.argv[1:] or name in sys.argv[1:]:
        with scratch() as work:
            on_gpu(name, work)
with scratch() as work:
    infinite(work)
finish()
