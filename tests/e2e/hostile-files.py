#!/usr/bin/env python3
"""Files that a stranger wrote, or that were cut on their way: one message, and nothing silently else. Names with control characters, NaN weights, headers that lie, deep text."""
import json
import os
import signal
import struct

from support import BIN, GOLDEN, ROOT, Running, check, compile_golden, finish, run, scratch, wait_until

DATA = f"--data={GOLDEN / 'grouped' / 'data.safetensors'}"


def one_error(name, done, *needs):
    said = [x for x in done.stderr.splitlines() if x.strip()]
    check(name, len(said) == 1 and all(x in said[0] for x in needs), done.stderr[-500:])


with scratch() as work:
    plan = compile_golden(work, "grouped")
    short = [plan, "--device=cpu", "--threads=1", "--steps=2"]

    # Names reach a terminal as text, whatever they hold.
    model = (GOLDEN / "grouped/model.onnx").read_bytes()
    producer = next(x for x in (b"pytorch", b"onnx", b"ztc") if x in model)
    weight = b"model.norm.weight"
    spoilt = model.replace(producer, b"\x1b]0;x\x07"[:len(producer)].ljust(len(producer), b"\x07"), 1).replace(weight, b"model.norm\x1b[31mab")
    (work / "escape.onnx").write_bytes(spoilt)
    texts = [run("ztc", *command, expect=None) for command in
             (["check", work / "escape.onnx"], ["check", "--json", work / "escape.onnx"], ["compile", work / "escape.onnx", "--batch=1", "--seq=8", "-o", work / "escape.bin"])]
    if (work / "escape.bin").exists():
        texts += [run("ztc", "inspect", work / "escape.bin", expect=None), run("ztc", "memory", work / "escape.onnx", "--batch=1", "--seq=8", expect=None),
                  run("ztc-run", work / "escape.bin", "--device=cpu", "--steps=1", expect=None)]
    check("no control character reaches the terminal", not any(c in done.stdout + done.stderr for done in texts for c in "\x1b\x07"), len(texts))
    check("they are shown", "\\x1b" in texts[0].stdout, texts[0].stdout[:200])

    # Weights that are not finite.
    run("ztc-run", *short, DATA, f"--export={work / 'model'}")
    file = work / "model/model.safetensors"
    bytes_ = bytearray(file.read_bytes())
    size = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:8 + size])
    name = sorted(k for k in header if k.endswith("norm.weight"))[0]
    at = 8 + size + header[name]["data_offsets"][0] + 4
    for word in ("nan", "inf"):
        bytes_[at:at + 4] = struct.pack("<f", float(word))
        file.write_bytes(bytes_)
        done = run("ztc-run", *short, DATA, f"--weights={work / 'model'}", f"--export={work / 'never'}", expect=1)
        one_error(f"a weight that is {word}", done, name, word, "element 1")

    # A header of llm.c that names fewer tokens than there are.
    head = [20240520, 1, 100] + [0] * 253
    (work / "short.bin").write_bytes(struct.pack("<256i", *head) + bytes(2 * 1000))
    one_error("a header that leaves tokens out", run("ztc-run", *short, f"--data={work / 'short.bin'}", "--no-save", expect=1), "1000 tokens", "promises 100")

    # Deep text.
    (work / "deep.json").write_text("[" * 200000)
    one_error("a deep precision policy", run("ztc", "compile", GOLDEN / "grouped/model.onnx", f"--precision-policy={work / 'deep.json'}", "-o", work / "x", expect=1), "depth")
    (work / "deep.mlir").write_text("module {" * 100000)
    one_error("deep IR", run("ztc", "compile", work / "deep.mlir", "--from=plan", "-o", work / "x", expect=1), "deep")
    (work / "hf").mkdir()
    (work / "hf/config.json").write_text("[" * 200000)
    one_error("a deep config.json", run("ztc-run", *short, DATA, f"--hf-config={work / 'hf'}", f"--export={work / 'never'}", expect=1), "config.json")

    # A file of 2 kB whose functions stand for 16,000 nodes and more.
    for name in ("function-growth", "function-doubling"):
        done = run("ztc", "check", ROOT / "tests/fuzz/regressions/onnx" / name, expect=None)
        check(f"{name}: its graph is not made", done.returncode == 1 and "so often that the graph would have more than" in done.stderr, done.stderr[-300:])

    # Numbers without sense.
    for text in ("1e-320", "inf", "nan", "0"):
        check(f"--timeout={text} is refused", "--timeout" in run("ztc-run", *short, f"--timeout={text}", expect=2).stderr)

    # A log that another run writes into, and checkpoints that another run removes while they are read.
    log, save = work / "log", work / "ck"
    with Running([BIN / "ztc-run", plan, DATA, "--device=cpu", "--threads=1", "--steps=100000000", f"--save={save}", "--save-every=3", "--keep=1", f"--log-json={log}"]) as running:
        wait_until(lambda: any(save.glob("step-*")), 60)
        one_error("a log of another run", run("ztc-run", *short, DATA, "--no-save", "--overwrite", f"--log-json={log}", expect=1), "another run is writing into")
        goes_on = [run("ztc-run", plan, DATA, "--device=cpu", "--threads=1", "--steps=100000000", "--stop-after=1", "--no-save", f"--resume={save}", expect=None) for _ in range(5)]
        check("a resume from a folder whose writer prunes", all(done.returncode == 0 and "No such file" not in done.stderr for done in goes_on), [done.stderr[-200:] for done in goes_on])
        os.kill(running.pid, signal.SIGTERM)
        running.finish(60)
    check("the log of the first run is whole", all(line.startswith("{") and line.endswith("}") for line in log.read_text().splitlines()))
finish()
