#!/usr/bin/env python3
"""Input that is seldom met: headers of safetensors that two readers would read in two ways, links and pipes, numbers that overflow while text is written, a system
that gives less than usual. One message in words, soon, and nothing silently else."""
import array
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import time

from support import BIN, GOLDEN, ROOT, check, compile_golden, finish, run, scratch, write_safetensors

DATA = f"--data={GOLDEN / 'grouped' / 'data.safetensors'}"
MODEL = GOLDEN / "grouped" / "model.onnx"
# What no message is made of: the words of libraries.
FOREIGN = ("std::", "vector::", "bad_alloc", "Assertion", "terminate called", "basic_string", "nlohmann")


def one_error(name, done, *needs):
    said = [x for x in done.stderr.splitlines() if x.strip()]
    check(name, len(said) == 1 and all(x in said[0] for x in needs) and not any(x in said[0] for x in FOREIGN), done.stderr[-500:])


with scratch() as work:
    plan = compile_golden(work, "grouped")
    short = [plan, DATA, "--device=cpu", "--threads=1", "--steps=2"]

    # Headers of safetensors that say more than one thing, or less than the file holds.
    run("ztc-run", *short, f"--export={work / 'model'}")
    file = work / "model/model.safetensors"
    whole = file.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header, values = whole[8:8 + size].rstrip(), whole[8 + size:]

    def with_header(text, more=b""):
        text += b" " * (-len(text) % 8)
        file.write_bytes(struct.pack("<Q", len(text)) + text + values + more)
        return run("ztc-run", *short, f"--weights={work / 'model'}", "--no-save", expect=1)
    # The last entries exchange two tensors of one shape: who takes the first of each name has another model.
    text = json.loads(header)
    one, other = next((a, b) for a in text for b in text if a < b and "__metadata__" not in (a, b) and text[a]["shape"] == text[b]["shape"])
    again = b"," + json.dumps({one: text[other], other: text[one]}).encode()[1:]
    one_error("weights in which a tensor stands twice", with_header(header[:-1] + again), "stands twice in its header")
    one_error("weights with bytes that belong to no tensor", with_header(header, bytes(64)), "belong to no tensor")

    # Links and pipes.
    (work / "linked").mkdir()
    (work / "elsewhere").mkdir()
    shutil.copy(GOLDEN / "tied/model.onnx", work / "linked")
    shutil.copy(GOLDEN / "tied/model.onnx.data", work / "elsewhere")
    (work / "linked/model.onnx.data").symlink_to(work / "elsewhere/model.onnx.data")
    done = run("ztc", "compile", work / "linked/model.onnx", "--batch=1", "--seq=8", "--target=x86-64-v3", "-o", work / "linked.bin")
    check("external data behind a link out of its folder is said", "link out of the model's folder" in done.stderr + done.stdout and "elsewhere/model.onnx.data" in done.stderr + done.stdout, done.stderr)
    save = work / "ck"
    run("ztc-run", *short[:-1], "--steps=6", f"--save={save}", "--save-every=2", "--stop-after=4")
    for victim in sorted(p.name for p in (save / "step-00000004").iterdir() if p.suffix == ".safetensors" or p.name in ("trainer.json", "manifest.json")):
        path = save / "step-00000004" / victim
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        done = run("ztc-run", *short[:-1], "--steps=6", "--no-save", f"--resume={save}", timeout=60)
        check(f"a pipe in a checkpoint is passed over: {victim}", "step-00000004" in done.stdout and "weights checkpoint" in re.sub(" +", " ", done.stdout) and "step-00000002" in done.stdout, done.stdout[-500:])
        path.unlink()
        path.write_bytes(content)

    # A plan is a program, and its reader has to know.
    check("the README says that a plan is a program", "A plan carries machine code" in (ROOT / "README.md").read_text())

    # Text of a model whose numbers overflow on the way: every weight is finite, and no token is chosen of what comes out.
    for name, factor in (("huge", 1e25), ("usual", 1.0)):
        tensors = {}
        text = json.loads(header)
        for key, item in text.items():
            if key == "__metadata__":
                continue
            begin, end = item["data_offsets"]
            numbers = array.array("f", values[begin:end])
            if "q_proj" in key or "k_proj" in key:
                numbers = array.array("f", [x * factor for x in numbers])
            tensors[key] = (item["shape"], numbers)
        (work / name).mkdir()
        write_safetensors(work / name / "model.safetensors", tensors)
    (work / "prompts.txt").write_text("AB\nA\n")
    usual = run("ztc-run", plan, "--device=cpu", f"--weights={work / 'usual'}", "--generate=4", "--prompt=AB")
    check("text of usual numbers", len(usual.stdout) > 2)
    for options in (["--prompt=AB"], ["--prompt=AB", "--temperature=1"], [f"--prompts={work / 'prompts.txt'}"]):
        done = run("ztc-run", plan, "--device=cpu", f"--weights={work / 'huge'}", "--generate=4", *options, expect=1)
        one_error(f"text of logits that are not numbers: {options[-1]}", done, "logits", "not numbers", "weights")

    # A step in which nothing counts is skipped, and prints no NaN.
    ids, labels = array.array("q", [1] * 16 * 8), array.array("q", [1] * 16 * 4 + [-100] * 16 * 4)
    write_safetensors(work / "half.safetensors", {"input_ids": ([8, 16], ids), "labels": ([8, 16], labels)})
    done = run("ztc-run", plan, f"--data={work / 'half.safetensors'}", "--device=cpu", "--threads=1", "--steps=4", "--no-save")
    check("a step that counts nothing prints no NaN", "no target is counted, the step is skipped" in done.stdout and "nan" not in done.stdout.lower(), done.stdout[-900:])

    # What a system does not give.
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    begin = time.monotonic()
    done = subprocess.run([BIN / "ztc-run", *short, "--no-save", "--ranks=2"], capture_output=True, text=True, timeout=120, preexec_fn=few)
    check("eight descriptors are too few, and that is said soon", done.returncode == 1 and time.monotonic() - begin < 30 and ("open files" in done.stderr or "descriptors" in done.stderr), (time.monotonic() - begin, done.stderr[-500:]))
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN / "ztc-run", *short, f"--save={work / 'full'}", "--log-json=/dev/full"], stdout=full, stderr=full, timeout=120)
    check("a full disk for log and messages costs no checkpoint", done.returncode in (0, 1) and any((work / "full").glob("step-*")), done.returncode)

    # Messages.
    long = "x" * 100_000
    for arguments in ([f"--data={long}", "--steps=1"], [f"--{long}=1"]):
        done = run("ztc-run", plan, "--device=cpu", *arguments, expect=None)
        check(f"an argument of 100 kB is not printed whole: {arguments[0][:12]}", done.returncode in (1, 2) and len(done.stderr) < 25_000, len(done.stderr))
    done = run("ztc", "compile", MODEL, "--precision=fp32", "-o", work / "none" / "x.bin", expect=1)
    said = [x for x in done.stderr.splitlines() if x.strip()]
    check("the error is the last line, after the notes", "does not exist" in said[-1] and sum("does not exist" in x for x in said) == 1, said)
    for path in sorted((ROOT / "tests/fuzz/regressions/onnx").iterdir()):
        done = run("ztc", "check", path, expect=None, timeout=120)
        check(f"{path.name}: a message in words", done.returncode in (0, 1) and not any(x in done.stdout + done.stderr for x in FOREIGN), (done.returncode, done.stderr[-300:]))
finish()
