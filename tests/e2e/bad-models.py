#!/usr/bin/env python3
"""What is wrong with a model or its weights is said in one message, with exit status 1 or 2, and no plan is written."""
import array
import re
import shutil

from support import GOLDEN, check, finish, read_safetensors, run, scratch, write_safetensors

model = GOLDEN / "grouped" / "model.onnx"


def refused(name, work, path, *arguments, expect=1, needs=(), seq=16):
    """The compilation fails with `expect`, says each of `needs`, and leaves no plan (nor harms an old one)."""
    plan = work / "plan.bin"
    plan.write_bytes(b"an older plan")
    done = run("ztc", "compile", path, "--batch=2", f"--seq={seq}", "-o", plan, *arguments, expect=expect)
    text = done.stderr + done.stdout
    check(f"{name}: message", all(re.search(x, text) for x in needs), [x for x in needs if not re.search(x, text)] and text[-600:])
    check(f"{name}: an older plan is untouched", plan.read_bytes() == b"an older plan")
    check(f"{name}: no crash text", "PLEASE submit a bug report" not in text and "Assertion" not in text)
    check(f"{name}: nothing else is left", sorted(p.name for p in work.iterdir() if p.name.startswith("plan")) == ["plan.bin"])


with scratch() as work:
    bad = work / "model.onnx"
    bad.write_text("this is a text file, not a model\n" * 20)
    refused("not an ONNX file", work, bad, needs=["model.onnx", "not an ONNX|ONNX"])
    bad.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    refused("truncated ONNX", work, bad, needs=["truncated|not an ONNX"])
    bad.write_bytes(b"")
    refused("empty file", work, bad, needs=["model.onnx"])
    refused("no such file", work, work / "nothing.onnx", needs=["nothing.onnx"])
    # An operator's name is patched in place: the file stays a valid ONNX model with operators nobody knows.
    bad.write_bytes(model.read_bytes().replace(b"\x22\x07Sigmoid", b"\x22\x07Sigmoix").replace(b"\x22\x07Softmax", b"\x22\x07Softmaz"))
    refused("unsupported operators, all at once", work, bad, needs=["Sigmoix", "Softmaz"])
    refused("unknown option", work, model, "--no-such-option=1", expect=2, needs=["no-such-option"])
    refused("unknown precision", work, model, "--precision=fp7", expect=2, needs=["precision"])
    refused("sequence above the position limit", work, model, seq=4096, needs=["4096", "64"])

with scratch() as work:  # external data that is not there
    for name in ("model.onnx", "config.json"):
        shutil.copy(GOLDEN / "tied" / name, work / name)
    refused("missing external data", work, work / "model.onnx", needs=[r"model\.onnx\.data", "weights"])

with scratch() as work:  # weights of another model
    shapes = {n: s for n, (s, _) in read_safetensors(GOLDEN / "grouped" / "golden.safetensors").items()}
    missing, wrong = "model.layers.1.mlp.up_proj.weight", "model.norm.weight"
    tensors = {}
    for n, shape in shapes.items():
        if n != missing:
            shape = [shape[0] + 1] if n == wrong else shape
            count = 1
            for d in shape:
                count *= d
            tensors[n] = (shape, array.array("f", bytes(4 * count)))
    write_safetensors(work / "weights.safetensors", tensors)
    refused("missing and wrong-shaped weights", work, model, f"--weights={work / 'weights.safetensors'}", needs=[re.escape(missing), re.escape(wrong)])
    (work / "weights.safetensors").write_bytes((work / "weights.safetensors").read_bytes()[:100])
    refused("truncated weights", work, model, f"--weights={work / 'weights.safetensors'}", needs=["weights.safetensors"])

with scratch() as work:  # an output that cannot be written
    done = run("ztc", "compile", model, "--batch=2", "--seq=16", "-o", work / "no" / "such" / "folder" / "plan.bin", expect=1)
    check("output folder does not exist: message", "no/such/folder" in done.stderr)
finish()
