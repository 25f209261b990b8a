#!/usr/bin/env python3
"""Mistakes with models, weights, token files and folders get an answer that says what, where and what to do; those of tests/e2e/mistakes.py are about words of
the command line."""
import array
import json
import re
import shutil

from support import GOLDEN, check, compile_golden, finish, run, scratch, write_safetensors

MODEL = GOLDEN / "grouped" / "model.onnx"
DATA = f"--data={GOLDEN / 'grouped' / 'data.safetensors'}"


def answered(name, done, *needs):
    lines = [x for x in done.stderr.splitlines() if x.strip() and not re.match("ztc(-run)?: (note: )?(batch|no GPU)", x)]
    check(name, len(lines) == 1 and all(re.search(x, lines[0]) for x in needs), done.stderr[-600:])


with scratch() as work:
    plan = compile_golden(work, "grouped")
    short = [plan, "--device=cpu", "--threads=1", "--steps=1", "--no-save"]

    # Models.
    (work / "folder").mkdir()
    answered("a folder that is not a model's", run("ztc", "compile", work / "folder", "-o", work / "x", expect=1), "folder without config.json", "ONNX file")
    (work / "alone").mkdir()
    shutil.copy(MODEL, work / "alone")
    done = run("ztc", "compile", work / "alone/model.onnx", "--batch=1", "--seq=4000", "--target=x86-64-v3", "-o", work / "x")
    check("a sequence that nothing limits is a note", "note: how long a row" in done.stderr and "--seq" in done.stderr, done.stderr)
    done = run("ztc", "compile", MODEL, "--batch=1048576", "--seq=64", "--target=x86-64-v3", "-o", work / "x")
    check("a plan that this machine cannot run is a note", re.search("note: a rank needs .* GiB, this machine has .* GiB.*--batch", done.stderr), done.stderr)
    for text, needs in (("hello", "not a JSON object"), ('{"max_position_embeddings": "many"}', "max_position_embeddings is not a number")):
        (work / "alone/config.json").write_text(text)
        done = run("ztc", "compile", work / "alone/model.onnx", "--batch=1", "--seq=8", "--target=x86-64-v3", "-o", work / "x")
        check(f"config.json: {text[:12]}", "config.json" in done.stderr and needs in done.stderr, done.stderr)

    for precision in ("fp32", "bf16"):
        run("ztc", "compile", MODEL, "--batch=1", "--seq=1", f"--precision={precision}", "-o", work / "one.bin")
        done = run("ztc-run", work / "one.bin", "--device=cpu", "--threads=1", "--steps=2")
        check(f"one row of one token, {precision}", "done    2 steps" in done.stdout, done.stderr)

    # Weights that are not those of the compilation: lengths are the same.
    (work / "tied").mkdir()
    for file in ("model.onnx", "model.onnx.data", "config.json"):
        shutil.copy(GOLDEN / "tied" / file, work / "tied")
    run("ztc", "compile", work / "tied/model.onnx", "--batch=2", "--seq=16", "-o", work / "tied.bin")
    tied = [work / "tied.bin", f"--data={GOLDEN / 'tied' / 'data.safetensors'}", "--device=cpu", "--threads=1", "--steps=1", "--no-save"]
    run("ztc-run", *tied)
    file = work / "tied/model.onnx.data"
    whole = file.read_bytes()
    middle = len(whole) // 2
    for what, other in (("zeros", bytes(len(whole))), ("a hole of zeros", whole[:middle] + bytes(1000) + whole[middle + 1000:]),
                        ("shifted by an element", whole[4:] + whole[:4]), ("a sign", whole[:middle] + bytes([whole[middle] ^ 128]) + whole[middle + 1:])):
        file.write_bytes(other)
        answered(f"weights replaced since the compilation: {what}", run("ztc-run", *tied, expect=1), "model.onnx.data", "compil")
    file.unlink()
    answered("weights gone since the compilation", run("ztc-run", *tied, expect=1), "model.onnx.data", "--weights=DIR")
    (work / "old").mkdir()
    (work / "old/pytorch_model.bin").write_bytes(b"")
    answered("a checkpoint without safetensors", run("ztc-run", plan, DATA, "--device=cpu", "--steps=1", f"--weights={work / 'old'}", expect=1), "--weights", "pytorch_model.bin|model.safetensors")

    # Token files.
    ids = array.array("q", [1] * 64)
    def rows(name, **more):
        write_safetensors(work / name, {"input_ids": ([4, 16], ids), "labels": ([4, 16], ids), **more})
        return f"--data={work / name}"
    answered("a label of -1", run("ztc-run", *short, rows("minus.safetensors", labels=([4, 16], array.array("q", [1] * 20 + [-1] + [1] * 43))), expect=1), "token -1", "row 1, position 4", "-100")
    answered("padding on the left", run("ztc-run", *short, rows("left.safetensors", attention_mask=([4, 16], array.array("q", ([0] * 4 + [1] * 12) * 4))), expect=1), "padded on the left", "pad on the right")
    answered("a vocabulary without bytes", run("ztc-run", *short, f"--data={__file__}", "--tokenizer=bytes", expect=1), "at least 256", "96")

    # Folders and results.
    answered("--hf-config that is not there", run("ztc-run", plan, DATA, "--device=cpu", "--steps=1", f"--hf-config={work / 'nope'}", f"--export={work / 'e'}", expect=1), "--hf-config", "nope/config.json")
    answered("an output below a file", run("ztc-run", plan, DATA, "--device=cpu", "--steps=1", f"--save={plan / 'x'}", expect=1), "a file stands where a folder should be", "another place")
    answered("an output path without write permission", run("ztc", "compile", MODEL, "-o", "/proc/x", expect=1), "cannot write /proc/x:", "where you may write")
    answered("a page where nobody may write", run("ztc", "memory", MODEL, "--html=/proc/x.html", expect=1), "cannot write /proc/x.html:", "where you may write")

    # A checkpoint whose state is not its own.
    save = work / "ck"
    run("ztc-run", plan, DATA, "--device=cpu", "--threads=1", "--steps=6", f"--save={save}", "--save-every=2", "--stop-after=4")
    newest = save / "step-00000004"
    import hashlib
    for step in (3, 18446744073709551615):
        state = json.loads((newest / "trainer.json").read_text())
        state["step"] = step
        (newest / "trainer.json").write_text(json.dumps(state))
        manifest = json.loads((newest / "manifest.json").read_text())
        text = (newest / "trainer.json").read_bytes()
        for entry in manifest["files"]:
            if entry["name"] == "trainer.json":
                entry.update({k: len(text) for k in ("bytes", "size") if k in entry})
                entry.update({"sha256": hashlib.sha256(text).hexdigest()} if "sha256" in entry else {})
        (newest / "manifest.json").write_text(json.dumps(manifest))
        done = run("ztc-run", plan, DATA, "--device=cpu", "--threads=1", "--steps=6", f"--resume={save}", "--no-save")
        check(f"the state of step {step} in step-00000004 is passed over", "step-00000004 is not whole" in done.stdout and "step-00000002" in done.stdout, done.stdout[-500:])
finish()
