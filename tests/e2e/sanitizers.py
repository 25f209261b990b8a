#!/usr/bin/env python3
"""The CUDA path over the stand-ins under ThreadSanitizer and AddressSanitizer: the SIMT engine; every kernel of whole plans, those of
library calls too; ztc-run with checkpoints, a resume, shards on two ranks, one of which is killed. What is wrong on purpose (barriers left out, blocks
that take themselves for the first, operands whose ends are guarded) must be reported. Builds the runtime twice more, without the compiler, in folders
of the build."""
import os
import re
import signal
import subprocess
import sys
import time

from support import BUILD, GOLDEN, ROOT, Running, check, compile_golden, finish, rank_processes, read_log, run, scratch, stand_ins, wait_until

TARGETS = ("ztc-run", "gpu-steps", "ztc-standin-cuda", "ztc-standin-cublaslt", "ztc-standin-nccl", "ztc-standin-nvml", "ztc-standin-neighbours")
DATA = GOLDEN / "grouped" / "data.safetensors"
STEPS = 3
SANITIZERS = {"tsan": "thread", "asan": "address"}  # UBSan makes the build half as long again
FLAGS = "-O0 -gline-tables-only"  # with -O1 the compiler takes half as long again


def build(preset):
    """Builds with sanitizers; where files do not compile many at a time, one by one. Without the module for cuDNN: it takes as long as a fifth of the rest, is not
    instrumented, and runs here do without (ZTC_CUDNN)."""
    folder, log = BUILD / preset, ""
    for unity in ("ON", "OFF"):
        configure = ["cmake", "--preset", preset, "-B", folder, f"-DZTC_SANITIZE={SANITIZERS[preset]}", f"-DCMAKE_UNITY_BUILD={unity}", f"-DCMAKE_CXX_FLAGS_RELWITHDEBINFO={FLAGS}", "-DZTC_CUDNN_FRONTEND_INCLUDE=OFF"]
        for command in (configure, ["cmake", "--build", folder, "--target", *TARGETS]):
            done = subprocess.run([str(x) for x in command], cwd=ROOT, capture_output=True, text=True)
            log = (done.stdout + done.stderr)[-4000:]
            if done.returncode:
                break
        else:
            return folder
        print(f"note: with CMAKE_UNITY_BUILD={unity} it does not build; names that two files share: runtime/CMakeLists.txt has those that are compiled alone\n{log}")
    if "libclang_rt" in log:
        print("left out: this compiler has no libraries of sanitizers")
        sys.exit(77)
    check(f"the runtime builds with preset {preset}", False)
    finish()


class Sanitized:
    """A build with a sanitizer, whose reports go into files of a folder."""

    def __init__(self, preset, work):
        started = time.monotonic()
        self.preset, self.work, self.folder, self.count = preset, work, build(preset), 0
        print(f"{preset} is built after {time.monotonic() - started:.0f} s", flush=True)

    def environment(self, variables):
        self.count += 1
        options = f"log_path={self.work}/{self.preset}-{self.count}:exitcode=66"
        standins = str(self.folder / "lib/standin")
        return {**os.environ, "TSAN_OPTIONS": options, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": f"{options}:print_stacktrace=1", "ZTC_STAND_INS": standins,
                "ZTC_STAND_IN_GPUS": "2", "ZTC_CUDNN": "0", **variables}

    def reports(self):
        """Those of the last run."""
        return "\n".join(file.read_text(errors="replace") for file in sorted(self.work.glob(f"{self.preset}-{self.count}.*")))

    def run(self, program, *arguments, halt=False, **variables):
        """The finished program and its reports."""
        env = self.environment(variables)
        if halt:
            env["TSAN_OPTIONS"] += ":halt_on_error=1"
        done = subprocess.run([str(self.folder / "bin" / program), *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300)
        return done, self.reports()

    def clean(self, name, program, *arguments, **variables):
        done, reports = self.run(program, *arguments, **variables)
        good = done.returncode == 0 and not reports
        check(f"{self.preset}: {name}", good, "" if good else f"exit status {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}\n{reports[:6000]}")
        return done


def kernels(tsan, asan, plan):
    """All kernels of a plan. Returns what gpu-steps executed."""
    name = plan.stem
    lines = tsan.clean(f"{name}: kernels", "gpu-steps", plan).stdout.splitlines()
    check(f"{name}: no race", lines and all(line.startswith("clean ") for line in lines), [line for line in lines if line.startswith("race ")])
    asan.clean(f"{name}: kernels", "gpu-steps", plan)
    return [line.removeprefix("clean ") for line in lines]


def races(tsan, plan, step, **variables):
    what = " ".join(f"{key}={value}" for key, value in variables.items())
    done, reports = tsan.run("gpu-steps", plan, step, halt=True, **variables)
    check(f"{plan.stem}: {step} races with {what}", done.returncode == 66 and "ThreadSanitizer: data race" in reports, (done.returncode, done.stderr[-500:]))


def leaves_its_operands(asan, plan, step, access):
    done, reports = asan.run("gpu-steps", plan, step, access)
    found = re.search(r"a (read of|write to) memory that AddressSanitizer guards", done.stderr + reports) or "AddressSanitizer: use-after-poison" in reports
    check(f"{plan.stem}: {step}: an end of what it {access}s that is guarded is found", done.returncode != 0 and found, (done.returncode, done.stderr[-500:]))


def train(sanitized, name, plan, gpus, *options, **variables):
    log = sanitized.work / f"{sanitized.preset}-{name.replace(' ', '-')}.log"
    done = sanitized.clean(f"training, {name}", "ztc-run", plan, f"--gpus={gpus}", f"--data={DATA}", f"--steps={STEPS}", "--lr=2e-3", f"--log-json={log}", *options, **variables)
    steps = read_log(log)[1] if log.exists() else []
    return done, [x["loss"] for x in steps]


def training(sanitized, one, two):
    """Downloads are slow, so that a checkpoint is written while the next step is trained."""
    slow, save = {"ZTC_STAND_IN_COPY_MS": "3"}, sanitized.work / f"{sanitized.preset}-saved"
    _, losses = train(sanitized, "checkpoints beside", one, 1, "--accumulate=2", f"--save={save}", "--save-every=1", f"--eval-data={DATA}", "--eval-every=2", **slow)
    train(sanitized, "checkpoints beside, two ranks with shards", two, 2, f"--save={save}-two", "--save-every=1", **slow)
    _, rest = train(sanitized, "resumed", one, 1, "--accumulate=2", f"--resume={save / 'step-00000001'}", "--no-save", ZTC_CUDA_GRAPHS="0")
    check(f"{sanitized.preset}: a resume has the losses of the whole run", len(losses) == STEPS and rest == losses[1:], (losses, rest))

    def ended(name, expected, number, chosen):
        """Ends a run of two ranks in the middle by a signal to the process that `chosen` takes of the launcher and the ranks."""
        folder = sanitized.work / f"{sanitized.preset}-{name}".replace(" ", "-")
        command = [sanitized.folder / "bin/ztc-run", two, "--gpus=2", f"--data={DATA}", "--steps=100000", f"--save={folder}", "--save-every=2"]
        with Running(command, env=sanitized.environment(slow)) as running:
            saved = wait_until(lambda: list(folder.glob("step-*")), 120)
            os.kill(chosen(running.pid, *rank_processes(running.pid, two)), number)
            status = running.finish(90)
        reports = sanitized.reports()
        good = saved and status == expected and not reports
        check(f"{sanitized.preset}: {name}", good, "" if good else (saved, status, running.err[-1500:], reports[:6000]))

    ended("a rank is killed", 1, signal.SIGKILL, lambda launcher, first, second: second)
    ended("a signal ends a run", 3, signal.SIGTERM, lambda launcher, first, second: launcher)


with scratch() as work:
    tsan, asan = Sanitized("tsan", work), Sanitized("asan", work)
    for sanitized in (tsan, asan):
        sanitized.clean("the engine", "ztc-standin-neighbours")
    done, reports = tsan.run("ztc-standin-neighbours", "race")
    good = done.returncode == 66 and "data race" in reports and "neighbours(" in reports
    check("the engine: a barrier that a kernel leaves out is reported", good, "" if good else reports[:4000])

    one = compile_golden(work, "grouped", "--target=simt", batch=1)
    two = compile_golden(work, "head-norms", "--target=simt", "--zero=3", "--precision=fp16", "--recompute=layer", batch=1)
    narrow = compile_golden(work, "tied", "--target=simt", "--precision=bf16", batch=1)
    kernels(tsan, asan, one)
    kernels(tsan, asan, two)
    names = kernels(tsan, asan, narrow)
    attention = [next(x for x in names if x.endswith(kind)) for kind in (" attention", " attention_grad")]
    head = next(x for x in names if x.endswith(" linear_cross_entropy"))
    for step in (attention[0], head, "sum_squares"):
        races(tsan, narrow, step, ZTC_STAND_IN_BARRIERS="none")
    # The engine finds more of that, and in every run: no sanitizer is needed.
    for variable, what, steps in (("ZTC_STAND_IN_BARRIERS=none", "another thread", (*attention, head, "sum_squares")),
                                  ("ZTC_STAND_IN_BLOCKS=first", "another block of the grid", (*attention, head, "swiglu"))):
        name, value = variable.split("=")
        for step in steps:
            done = run("gpu-steps", narrow, step, expect=1, env=stand_ins(**{name: value}))
            check(f"tied: {step}: {variable} is found", what in done.stderr, done.stderr[-500:])
    for step in (*attention, head, "swiglu", "model.embed_tokens embedding"):
        for access in ("read", "write"):
            leaves_its_operands(asan, narrow, step, access)
    (work / "sharded").mkdir()
    sharded = compile_golden(work / "sharded", "grouped", "--target=simt", "--zero=3", "--precision=bf16", batch=1)
    for sanitized in (tsan, asan):
        training(sanitized, one, sharded)
finish()
