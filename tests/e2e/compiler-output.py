#!/usr/bin/env python3
"""What the compiler writes where nothing can be written: a full disk (a limit on the size of files stands for it), a full or closed standard output, a temporary folder
that is not there. One message in words, no signal, nothing half written; a cache that is full costs nothing. And what ends with it, when it is killed."""
import os
import resource
import shutil
import signal
import subprocess

from support import BIN, GOLDEN, Running, arguments_of, check, compile_golden, descendants, finish, is_alive, run, scratch, wait_until

MODEL = GOLDEN / "grouped" / "model.onnx"
SIZES = ["--batch=1", "--seq=8", "--target=x86-64-v3"]


def small_files(bytes_):
    """For a child whose files end at `bytes_`, as on a disk that is full there."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))}


def one_message(name, done, *needs, expect=1):
    said = [x for x in done.stderr.splitlines() if x.strip()]
    check(name, done.returncode == expect and len(said) == 1 and all(x in said[0] for x in needs) and "LLVM" not in said[0], (done.returncode, done.stderr[-500:]))


with scratch() as work:
    plan = compile_golden(work, "grouped")
    out = work / "out"
    out.mkdir()
    none = "--kernel-cache=none"
    # What the command is, how much of a file there is room for, and what the message names.
    for name, command, room, needs in (
            ("IR", ["compile", MODEL, *SIZES, "--to=fuse", "-o", out / "step.mlir"], 4000, ["step.mlir", "too large"]),
            ("dumps of phases", ["compile", MODEL, *SIZES, none, f"--dump-phases={out / 'phases'}", "-o", out / "plan.bin"], 4000, ["--dump-phases", "01-import", "too large"]),
            ("a page of memory", ["memory", MODEL, "--batch=1", "--seq=8", f"--html={out / 'memory.html'}"], 4000, ["memory.html", "too large"]),
            ("a report", ["report", plan, "-o", out / "report.html"], 4000, ["report.html", "too large"]),
            ("kernels on their way to the linker", ["compile", MODEL, *SIZES, none, "-o", out / "plan.bin"], 100, ["ztc-link", "too large", "TMPDIR"])):
        one_message(f"{name} on a full disk", run("ztc", *command, expect=None, **small_files(room)), *needs)
        left = [p for p in out.rglob("*") if p.is_file()]
        check(f"{name}: nothing half written is left", not left, left)

    cache = work / "cache"
    done = run("ztc", "compile", MODEL, *SIZES, f"--kernel-cache={cache}", "-o", out / "cached.bin")
    whole = (out / "cached.bin").read_bytes()
    shutil.rmtree(cache)
    cache.mkdir()
    if os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
        script = f"mount -t tmpfs -o size=16k ztc {cache} && exec {BIN / 'ztc'} compile {MODEL} {' '.join(SIZES)} --kernel-cache={cache} -o {out / 'cached.bin'}"
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
        check("a cache of kernels on a full disk costs nothing", done.returncode == 0 and (out / "cached.bin").read_bytes() == whole, (done.returncode, done.stderr[-400:]))
    else:
        print("left out (not root): a cache on a full disk")

    gone = {**os.environ, "TMPDIR": str(work / "gone")}
    command = ["compile", MODEL, *SIZES, none, "-o", out / "plan.bin"]
    one_message("a temporary folder that is not there", run("ztc", *command, expect=None, env=gone), "temporary folder", "TMPDIR")
    one_message("the same with --verify, without the whole IR", run("ztc", *command, "--verify", expect=None, env=gone), "TMPDIR")

    # Standard output.
    for name, more in (("memory", ["memory", MODEL, "--batch=1", "--seq=8"]), ("inspect", ["inspect", plan]), ("help", ["compile", "--help"]),
                       ("compile", ["compile", MODEL, *SIZES, "-o", out / "full.bin"])):
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(BIN / "ztc"), *map(str, more)], stdout=full, stderr=subprocess.PIPE, text=True)
        one_message(f"{name} into a full standard output", done, "standard output")
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", BIN / "ztc", *more], stderr=subprocess.PIPE, text=True)
        check(f"{name} with a closed one", done.returncode == 0, (done.returncode, done.stderr[-300:]))
    check("the plan is a plan", run("ztc", "inspect", out / "full.bin", expect=None).returncode == 0)

    # Plans that differ where no number does.
    run("ztc", "compile", MODEL, "--batch=1", "--seq=8", "--target=host", "-o", out / "host.bin")
    run("ztc", "compile", MODEL, *SIZES, "-o", out / "one.bin")
    done = run("ztc", "diff", out / "one.bin", out / "host.bin", expect=1)
    check("a difference in machine code is reported", "images of machine code: 1 of 2 differ" in done.stdout, done.stdout[-300:])
    done = run("ztc", "diff", out / "one.bin", out / "none.bin", expect=2)
    check("diff with a missing plan is an error, not a difference", "none.bin" in done.stderr, done.stderr)
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(BIN / "ztc"), "diff", out / "one.bin", out / "one.bin"], stdout=full, stderr=subprocess.PIPE, text=True)
    check("diff into a full standard output is an error, not a difference", done.returncode == 2 and "standard output" in done.stderr, (done.returncode, done.stderr))

    for program, words in (("ztc", ["compile", MODEL, *SIZES, "-o", out / "empty.bin", "--weights", ""]), ("ztc-run", [plan, "--device=cpu", "--steps=1", "--save", ""])):
        one_message(f"an empty word of {program}", run(program, *words, expect=None), words[-2], "empty word", expect=2)

    # A run that the compiler has begun, to measure it, ends with the compiler.
    with Running([BIN / "ztc", "plan", MODEL, "--gpu=host", "--mem=1GiB", "--batch=64", "--global-batch=1048576", "--verify=1"]) as child:
        begun = wait_until(lambda: [p for p in descendants(child.pid) if b"--no-save" in arguments_of(p)], 120)
        os.kill(child.pid, signal.SIGKILL)
        check("a run to verify a plan has begun", bool(begun))
        check("it ends with the compiler", wait_until(lambda: not any(is_alive(p) for p in begun), 10), begun)
finish()
