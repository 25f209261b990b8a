#!/usr/bin/env python3
"""What is wrong with a plan, data or an output folder is said in one message, with exit status 1 or 2, and old content stays."""
import array
import hashlib
import json
import os
import re
import struct
import subprocess

from support import BIN, GOLDEN, Running, check, compile_golden, finish, run, scratch, wait_until, write_safetensors

HEADER = 56  # runtime/Format/PlanFile.h


def refused(name, plan, *arguments, expect=1, needs=()):
    """ztc-run fails with `expect` and says each of `needs` in one line."""
    done = run("ztc-run", plan, *arguments, expect=expect)
    errors = [x for x in done.stderr.splitlines() if "error:" in x]
    check(f"{name}: one message", len(errors) == 1, errors or done.stderr[-500:])
    check(f"{name}: it says what and where", all(re.search(x, done.stderr) for x in needs), [x for x in needs if not re.search(x, done.stderr)] and done.stderr[-500:])
    return done


def with_payload(data, payload):
    """The plan's header for another payload, whose checksum is right again."""
    return data[:16] + struct.pack("<Q", len(payload)) + hashlib.sha256(payload).digest() + payload


def rows(path, tokens, labels=None):
    """Rows of a safetensors data set: [[...], ...]."""
    shape = [len(tokens), len(tokens[0]) if tokens else 16]
    flat = lambda x: array.array("q", [v for row in x for v in row])
    write_safetensors(path, {"input_ids": (shape, flat(tokens)), "labels": (shape, flat(labels or tokens))})
    return path


with scratch() as work:
    plan = compile_golden(work, "grouped")
    data = GOLDEN / "grouped" / "data.safetensors"
    train = [f"--data={data}", "--steps=2", "--no-save", "--device=cpu"]
    good = plan.read_bytes()

    # The command line.
    refused("unknown option", plan, "--no-such-option=1", expect=2, needs=["--no-such-option"])
    refused("steps missing", plan, f"--data={data}", expect=2, needs=["--steps"])
    refused("save-every without save", plan, *train, "--save-every=2", expect=2, needs=["--save-every", "--save"])
    # Numbers that are not what they look like.
    for arguments, needs in ((["--lr", ""], ["--lr", "not a number"]), (["--lr", "nan"], ["--lr", "finite"]), (["--steps", "-1"], ["--steps", "-1"]),
                             (["--steps", "18446744073709551616"], ["--steps", "too large"]), (["--clip", "-1"], ["--clip", "not negative"]), (["--warmup", "1e3"], ["--warmup", "whole"]),
                             (["--accumulate", "4294967295"], ["--accumulate"])):
        refused(f"{' '.join(arguments)}", plan, f"--data={data}", *([] if "--steps" in arguments else ["--steps=2"]), "--no-save", *arguments, expect=2, needs=needs)
    refused("epochs without end", plan, f"--data={data}", "--epochs=1e308", "--no-save", expect=2, needs=["--epochs"])
    zeros = run("ztc-run", plan, f"--data={data}", "--steps=0012", "--stop-after=1", "--no-save", "--device=cpu")
    check("a number with zeros before it is decimal", "/12 " in zeros.stdout, zeros.stdout[-300:])
    scaled = run("ztc-run", plan, *train, "--loss-scale=1024")
    check("a loss scale without fp16 is a note", "note: --loss-scale has no effect" in scaled.stderr, scaled.stderr)
    refused("no GPU", plan, "--gpus=1", needs=["GPU", "--device=cpu"])
    refused("nodes without their index", plan, "--device=cpu", "--nodes=2", "--rendezvous=10.0.0.1:29500", expect=2, needs=["--nodes", "--node-rank"])
    refused("nodes without an address", plan, "--device=cpu", "--nodes=2", "--node-rank=0", expect=2, needs=["--rendezvous HOST:PORT"])
    refused("an address without a port", plan, "--device=cpu", "--ranks=2", "--rendezvous=node1", expect=2, needs=["--rendezvous", "'node1'"])
    alone = run("ztc-run", plan, "--device=cpu", "--steps=1", "--rendezvous=node1:29500")
    check("an address for one rank is a note", "note: --rendezvous has no effect on one rank" in alone.stderr, alone.stderr)

    # The plan.
    bad = work / "bad.bin"
    refused("no plan", work / "nothing.bin", *train, needs=["nothing.bin"])
    for name, content, needs in (
            ("empty plan", b"", ["bad.bin"]),
            ("text as plan", b"hello, this is text\n" * 50, ["bad.bin", "plan"]),
            ("truncated header", good[:20], ["bad.bin", "truncated"]),
            ("truncated plan", good[: len(good) // 2], ["bad.bin", "truncated"]),
            ("corrupted plan", good[:-100] + bytes([good[-100] ^ 1]) + good[-99:], ["bad.bin", "corrupt|checksum|damaged"]),
            ("newer plan", good[:8] + struct.pack("<I", 99) + good[12:], ["bad.bin", "99", "version"]),
            ("plan for another instruction set", with_payload(good, good[HEADER:].replace(b"x86-64-v", b"ppc64leX")), ["instruction set|target|ppc64le"])):
        bad.write_bytes(content)
        refused(name, bad, *train, needs=needs)

    # Data.
    refused("no data file", plan, f"--data={work / 'nothing.bin'}", "--steps=1", needs=["nothing.bin"])
    empty = work / "empty.bin"
    empty.write_bytes(b"")
    refused("empty data", plan, f"--data={empty}", "--steps=1", "--no-save", needs=["empty.bin"])
    one = rows(work / "one.safetensors", [[1] * 16])
    refused("fewer rows than a global batch", plan, f"--data={one}", "--steps=1", "--no-save", needs=["1 row", "2"])
    refused("fewer rows than an accumulated batch", plan, f"--data={data}", "--steps=1", "--accumulate=9", "--no-save", needs=["16 rows", "18"])
    other = rows(work / "other.safetensors", [[1] * 8] * 4)
    refused("another sequence length", plan, f"--data={other}", "--steps=1", "--no-save", needs=["other.safetensors", "8", "16"])
    wild = rows(work / "wild.safetensors", [[1] * 16, [1] * 15 + [4000], [1] * 16, [1] * 16])
    refused("token beyond the vocabulary", plan, f"--data={wild}", "--steps=2", "--no-save", needs=["wild.safetensors", "4000", "vocabulary", r"offset|byte|\d+"])
    broken = work / "broken.safetensors"
    broken.write_bytes(data.read_bytes()[:200])
    refused("truncated data", plan, f"--data={broken}", "--steps=1", "--no-save", needs=["broken.safetensors"])

    none = rows(work / "none.safetensors", [[1] * 16] * 4, [[-100] * 16] * 4)
    refused("data without a target", plan, f"--data={none}", "--steps=2", "--no-save", needs=["--data", "none.safetensors", "-100"])
    refused("evaluation data without a target", plan, *train, f"--eval-data={none}", needs=["--eval-data", "none.safetensors", "-100"])
    os.mkfifo(work / "pipe.bin")
    refused("a pipe as data", plan, f"--data={work / 'pipe.bin'}", "--steps=1", "--no-save", needs=["pipe.bin", "not a file"])
    refused("a pipe as plan", work / "pipe.bin", *train, needs=["pipe.bin", "not a file"])
    refused("a device as plan", "/dev/zero", *train, needs=["/dev/zero", "not a file"])

    # Data that is cut under the run: what was learned is kept.
    stream, log = work / "stream.bin", work / "stream.log"
    stream.write_bytes(array.array("H", [i % 60 for i in range(20000)]).tobytes())
    with Running([BIN / "ztc-run", plan, f"--data={stream}", "--steps=1000000", "--device=cpu", f"--save={work / 'cut'}", f"--log-json={log}"], stdout=subprocess.DEVNULL) as running:
        wait_until(lambda: log.exists() and log.read_bytes().count(b"\n") > 3, 60)
        stream.write_bytes(b"")
        status = running.finish(60)
    check("data cut under the run: a message and status 1", status == 1 and "stream.bin" in running.err and "truncated" in running.err, (status, running.err[-300:]))
    check("data cut under the run: the model is saved", len(list((work / "cut").glob("step-*"))) == 1)

    # Weights.
    refused("no such weights", plan, *train, f"--weights={work / 'nothing'}", needs=["nothing"])
    refused("no checkpoint to resume", plan, f"--data={data}", "--steps=2", f"--resume={work}", needs=["resume|checkpoint", re.escape(str(work))])

    # Where results go. Root may write everywhere, so the obstacle is a file where a folder should be.
    obstacle = work / "obstacle"
    obstacle.write_text("old content")
    for option in ("--save", "--export"):
        refused(f"{option} into a file", plan, f"--data={data}", "--steps=2", f"{option}={obstacle / 'x'}", needs=["obstacle"])
    refused("log into a missing folder", plan, *train, f"--log-json={work / 'none' / 'log'}", needs=["none/log"])
    check("the obstacle is untouched", obstacle.read_text() == "old content")

    # Divergence: in fp32 the last good weights are saved and the step is named.
    # The update of step 0 throws the weights so far that step 1 has no finite gradient.
    before = set(work.iterdir())
    done = refused("divergence", plan, f"--data={data}", "--steps=8", "--lr=1e36", "--clip=0", "--schedule=constant", f"--save={work / 'diverged'}", f"--log-json={work / 'log'}",
                   needs=[r"step \d", "not finite|NaN|nan", "diverged"])
    lines = [json.loads(x) for x in (work / "log").read_text().splitlines()]
    check("divergence: the last step has no norm", lines[-1].get("grad_norm", 0) is None, lines[-1])
    saved = sorted(p.name for p in (work / "diverged").iterdir() if not p.name.startswith("."))
    check("divergence: the weights that gave it stand apart", saved == [f"diverged-step-{lines[-1]['step']:08}"], saved)
    # The last good checkpoint stays the only one that --keep counts and --resume takes.
    good = work / "good"
    long = [f"--data={data}", "--steps=20", "--device=cpu", f"--save={good}"]
    run("ztc-run", plan, *long, "--stop-after=4", "--keep=1")
    refused("divergence with --keep=1", plan, *long, f"--resume={good}", "--keep=1", "--lr=1e37", "--clip=0", "--schedule=constant", needs=["step-00000004", "diverged-step-00000005", "--resume"])
    check("divergence with --keep=1: the good one is there", (good / "step-00000004").is_dir() and (good / "diverged-step-00000005").is_dir(), sorted(good.iterdir()))
    again = run("ztc-run", plan, *long, f"--resume={good}", "--stop-after=5")
    check("divergence with --keep=1: goes on from the good one", "step-00000004" in again.stdout, again.stdout[-400:])

    # A manifest that leaves files out vouches for nothing; a state of another step is not a state of this one.
    newest = good / "step-00000005"
    manifest = json.loads((newest / "manifest.json").read_text())
    original = dict(manifest)
    for what, files in (("empty", []), ("without the model", [x for x in original["files"] if not x["name"].startswith("model")])):
        manifest["files"] = files
        (newest / "manifest.json").write_text(json.dumps(manifest))
        done = run("ztc-run", plan, *long, f"--resume={good}", "--stop-after=4")
        check(f"a manifest {what} is passed over", "step-00000005 is not whole" in done.stdout and "step-00000004" in done.stdout, done.stdout[-600:])

# A full disk: a file system of its own, too small for the export; an older export keeps its content.
with scratch() as work:
    small = work / "small"
    small.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True).returncode != 0:
        print("left out (needs root and tmpfs): a full disk")
    else:
        try:
            plan = compile_golden(work, "grouped")
            arguments = [f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=2", "--device=cpu"]
            run("ztc-run", plan, *arguments, f"--export={small / 'model'}")
            listing = lambda: {p.relative_to(small): p.read_bytes() for p in sorted(small.rglob("*")) if p.is_file() and p.name != "filler"}
            old = listing()
            check("full disk: there is an older export", len(old) >= 1)
            free = os.statvfs(small)
            (small / "filler").write_bytes(bytes(free.f_bavail * free.f_bsize))
            for option, target in (("--export", small / "model"), ("--save", small / "checkpoints")):
                refused(f"full disk: {option}", plan, *arguments, f"{option}={target}", "--overwrite", needs=["space|full|left|free", str(small)])
                check(f"full disk: {option}: the older export is whole and nothing is half-written", listing() == old, sorted(set(listing()) ^ set(old)))
        finally:
            subprocess.run(["umount", str(small)])
finish()
