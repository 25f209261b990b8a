#!/usr/bin/env python3
"""`ztc compile --verify`: a plugin's pass that changes what a step computes is named, with what changed and a command that runs it again; one that keeps
it, or says that it changes it, passes; ztc's own passes keep every value of every golden model."""
import json
import os
import re
import shutil
import subprocess
import sys

from support import BIN, BUILD, GOLDEN, ROOT, check, finish, run, scratch

if not shutil.which("clang++-22"):
    print("left out: no clang++-22")
    sys.exit(77)

LISTS = """cmake_minimum_required(VERSION 3.25)
project(verified CXX C)
find_package(Ztc REQUIRED)
ztc_add_plugin(VerifiedPasses VerifiedPasses.cpp)
"""
model = GOLDEN / "grouped" / "model.onnx"
common = ["--threads=1"]

with scratch() as work:
    source, out = work / "plugin", work / "plugin/out"
    source.mkdir()
    shutil.copy(ROOT / "tests/e2e/plugins/VerifiedPasses.cpp", source)
    (source / "CMakeLists.txt").write_text(LISTS)
    for command in (["cmake", "-S", source, "-B", out, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-22", "-DCMAKE_C_COMPILER=clang-22", f"-DZtc_DIR={BUILD}/lib/cmake/Ztc"],
                    ["cmake", "--build", out]):
        done = subprocess.run([str(x) for x in command], capture_output=True, text=True)
        check(" ".join(map(str, command[:2])), done.returncode == 0, (done.stdout + done.stderr)[-2000:] if done.returncode else "")
    plugin = out / "VerifiedPasses.so"

    def compiled(name, *options, expect):
        environment = dict(os.environ, ZTC_TEST_PASS=name)
        target = [] if any(x.startswith("--target") for x in options) else ["--target=x86-64-v3"]
        return run("ztc", "compile", model, *common, *target, "--verify", f"--load-pass-plugin={plugin}", *options, "-o", work / "plan.bin", expect=expect, env=environment)

    for name, options, phase, words in (
            ("swap-swiglu", [], "import", ["@forward", "logits"]),
            ("swap-swiglu-late", [], "precision", ["the loss was"]),
            ("swap-swiglu-recomputed", ["--recompute=cheap", "--zero=3"], "recompute", ["values differ"]),
            ("double-logits", [], "import", ["@forward"]),
            ("double-gradient", [], "backward", ["@microstep", "1 of"]),
            ("keep-sums-to-oneself", [], "schedule", ["on 2 ranks"]),
            ("lose-bits", [], "precision", ["rounding"]),
            ("round-norms-bits", [], "backward", ["with its rounding"])):
        said = compiled(name, *options, expect=1).stderr
        named = f"pass '{name}' of plugin verified-passes in phase {phase}" in said
        check(f"{name} is found, with what it changed", named and all(word in said for word in words), said)
        check(f"{name}: no plan is written", not (work / "plan.bin").exists())
        file = work / f"plan.bin.{name}.mlir"
        check(f"{name}: the step before it and a command", file.exists() and f"{name}" in said and "ztc-opt" in said, said)
        done = subprocess.run([BIN / "ztc-opt", file, "-o", "/dev/null"], capture_output=True, text=True)
        check(f"{name}: ztc-opt reads the step", done.returncode == 0, done.stderr)

    said = compiled("commute-in-kernels,add-in-kernels", expect=1).stderr
    check("a wrong pass over kernels is named, not the right one before it",
          "pass 'add-in-kernels' of plugin verified-passes in phase codegen" in said and "element" in said and "pass 'commute" not in said, said)
    said = compiled("double-forms", expect=1).stderr
    check("so is one over their forms", "pass 'double-forms' of plugin verified-passes in phase codegen" in said and "element" in said, said)
    said = compiled("sum-in-forms", expect=1).stderr
    check("a form that needs other loops than were planned is refused", "'kernel.func' op its body takes" in said, said)

    # What is wrong at the sizes of the plan alone: small forms have 16 rows.
    def real(name, *options, expect, folder=ROOT / "tests/folders/llama-linear"):
        return run("ztc", "compile", folder, "--batch=3", "--seq=17", *common, "--verify", f"--load-pass-plugin={plugin}", *options,
                   "-o", work / "plan.bin", expect=expect, env=dict(os.environ, ZTC_TEST_PASS=name))

    cpu = ["--target=x86-64-v3", "--precision=fp32"]
    said = real("commute-in-kernels,forget-last-row", *cpu, expect=1)
    check("a partial block that only the real plan has is run: a pass that is wrong there is named, with kernel, target, unit and element",
          re.search(r"pass 'forget-last-row' of plugin verified-passes in phase codegen.*kernel \S+ \(x86-64-v3\) at its real size: unit 6 of 7, element \d+ of .* is .*, its group gives", said.stderr)
          and "pass 'commute" not in said.stderr and "so do two updates" in said.stdout, said.stdout + said.stderr)
    check("forget-last-row: no plan is written", not (work / "plan.bin").exists())
    said = real("double-tall", *cpu, expect=1).stderr
    check("so is a form that is wrong where there are many rows", "pass 'double-tall' of plugin verified-passes in phase codegen" in said and "at its real size" in said, said)
    # Kernels of library calls, and those of states in 8 bits: right in the small form, with 16 rows and few blocks.
    states = ["--optimizer-state=int8"]
    wide = work / "wide"
    wide.mkdir()
    config = json.loads((ROOT / "tests/folders/llama-linear/config.json").read_text())
    (wide / "config.json").write_text(json.dumps({**config, "hidden_size": 192, "head_dim": 48, "intermediate_size": 256}))

    def caught(name, kernel, what, *options, **folder):
        said = real(f"commute-in-kernels,{name}", *options, expect=1, **folder)
        check(f"{name}: the pass is named, with {kernel} at its real size",
              re.search(rf"pass '{name}' of plugin verified-passes in phase codegen.*kernel {kernel}\S* \(\S+\) at its real size: {what}", said.stderr)
              and "pass 'commute" not in said.stderr and "so do two updates" in said.stdout, said.stdout + said.stderr)
        check(f"{name}: no plan is written", not (work / "plan.bin").exists())

    caught("forget-late-rows-of-attention", "attention_softmax", r"attention.* of 3 x 17 f32 rows, 4 heads \(2 of keys\) of 10, causal.*: element \d+ of \w+ is .*, the interpreter gives", *cpu)
    caught("forget-late-rows-of-losses", "cross_entropy_rows", r"the loss.* of 51 f32 rows over \d+ tokens: element \d+ of \w+ is .*, the interpreter gives", *cpu)
    caught("forget-last-states", "adamw", r"unit \d+ of \d+, element \d+ of result \d is .*, its group gives", *cpu, *states, folder=wide)
    said = real("commute-in-kernels", *cpu, *states, expect=0, folder=wide)
    check("states in 8 bits are verified at their real sizes, and nothing is left out", "not checked" not in said.stderr, said.stdout + said.stderr)
    (work / "plan.bin").unlink()
    said = real("commute-in-kernels", *cpu, expect=0)
    check("one that is right passes at the real sizes", re.search("verified: [1-9][0-9]* units of the kernels of [1-9][0-9]* groups and [1-9][0-9]* of [1-9][0-9]* kernels of library calls, at their real sizes, agree", said.stdout)
          and "not checked" not in said.stderr, said.stdout + said.stderr)
    (work / "plan.bin").unlink()

    for name, options in (("read-other-block", ["--precision=fp32"]), ("read-other-block", ["--zero=1"]), ("forget-sum", ["--zero=1", "--precision=fp16"])):
        said = compiled(name, *options, expect=1).stderr
        check(f"{name}: a run of the plan finds it", "a run of the plan on 1 rank" in said and "the loss of step 0" in said
              and f"after it runs pass '{name}' of plugin verified-passes in phase plan" in said, said)
        check(f"{name}: no plan is written", not (work / "plan.bin").exists())
    for name, options in (("commute-in-kernels", []), ("commute-sums", ["--zero=2"]), ("double-logits-and-say-so", []), ("none", ["--zero=1", "--precision=fp16"])):
        said = compiled(name, *options, expect=0)
        check(f"{name} passes", re.search("kernels of [1-9][0-9]* groups and [1-9][0-9]* of library calls agree.* so do two updates of a run on 1 and 2 ranks", said.stdout)
              and "not checked" not in said.stderr, said.stdout + said.stderr)
        (work / "plan.bin").unlink()

    if (BUILD / "lib/standin/libztc-standin-cuda.so").exists():
        gpus = ["--target=x86-64-v3,simt", "--precision=fp32"]
        said = compiled("add-in-gpu-code", *gpus, expect=1).stderr
        check("a pass that spoils kernels for GPUs alone is found by running these",
              "(simt): result" in said and "pass 'add-in-gpu-code' of plugin verified-passes in phase codegen" in said, said)
        said = real("commute-in-kernels,add-in-gpu-code", "--target=sm_90a", "--precision=fp32", expect=1).stderr
        check("of a plan for a GPU alone too", "(simt): result" in said and "pass 'add-in-gpu-code'" in said, said)
        said = real("double-tall", "--target=sm_90a", "--precision=fp32", expect=1).stderr
        check("and what is wrong at its real sizes", "pass 'double-tall' of plugin" in said and "at its real size" in said, said)
        caught("forget-late-keys-on-gpus", "gpu_attention", "attention.* of 3 x 17 f32 rows", "--target=sm_90a", "--precision=fp32")
        caught("forget-late-losses-on-gpus", "gpu_loss_sum", r"the sum of \d+ losses", "--target=sm_90a", "--precision=fp32")
        caught("forget-last-states", "adamw", "unit", "--target=sm_90a", *states, folder=wide)
        said = real("commute-in-kernels,forget-warp-barriers", "--target=sm_90a", *states, expect=1, folder=wide).stderr
        check("a barrier that is missing where states are updated in place is found, and the pass named",
              "pass 'forget-warp-barriers' of plugin verified-passes in phase codegen" in said and "no barrier in between" in said, said)
        said = real("commute-in-kernels", "--target=sm_90a", expect=0)
        check("a right one passes, by the engine", re.search("kernels of library calls, at their real sizes, agree with the interpreter, on this processor and on the engine", said.stdout), said.stdout + said.stderr)
        (work / "plan.bin").unlink()
        said = compiled("say-forms-double", *gpus, expect=0)
        check("what a pass changes on purpose is what kernels of both kinds are held to",
              "on this processor and on the engine" in said.stdout and "changes what the step computes" in said.stderr, said.stdout + said.stderr)
        (work / "plan.bin").unlink()
        said = compiled("say-forms-double,double-forms", *gpus, expect=1).stderr
        check("and one after it that changes more without saying so is named, not that",
              "pass 'double-forms' of plugin verified-passes in phase codegen" in said and "pass 'say" not in said, said)
        said = compiled("commute-in-kernels", *gpus, expect=0)
        check("one that keeps them passes, on one and on two", "on 1 and 2 ranks, and with kernels for GPUs" in said.stdout and "its kernels ran on this processor" in said.stderr,
              said.stdout + said.stderr)
        (work / "plan.bin").unlink()
    for name, phase in (("complain", "shard"), ("crash", "fuse")):
        said = run("ztc", "compile", model, *common, f"--load-pass-plugin={plugin}", "-o", work / "plan.bin", expect=None, env=dict(os.environ, ZTC_TEST_PASS=name))
        check(f"{name}: what goes wrong in a plugin's pass is said with its name", f"pass '{name}' of plugin verified-passes in phase {phase}" in said.stderr,
              said.stderr)
        (work / "plan.bin").unlink(missing_ok=True)

    common.append("--target=x86-64-v3")
    for golden in ("tied", "head-norms", "padded"):
        said = run("ztc", "compile", GOLDEN / golden / "model.onnx", *common, "--verify", "--zero=3", "--recompute=layer", "-o", work / "plan.bin")
        check(f"ztc's own passes keep the values of {golden}", re.search(r"verified: [0-9]+ passes \(0 of plugins\)", said.stdout) and "not checked" not in said.stderr,
              said.stdout + said.stderr)
    said = run("ztc", "compile", model, *common, "--verify", "--zero=2", "--lora=r=4,alpha=8,targets=all-linear", "-o", work / "plan.bin")

    def holds(said):
        return "gradients agree" in said.stdout and "so do two updates of a run on 1 and 2 ranks" in said.stdout and "not checked" not in said.stderr

    check("adapters change the model, and nothing changes it after them", holds(said), said.stdout + said.stderr)
    for bits, zero, precision in (("nf4", 0, "fp32"), ("nf4", 3, "bf16"), ("int8", 2, "fp32")):
        said = run("ztc", "compile", model, *common, "--verify", f"--zero={zero}", f"--quantize={bits}", f"--precision={precision}", "--lora=r=4,alpha=8,targets=all-linear",
                   "-o", work / "plan.bin")
        check(f"weights in {bits}, at stage {zero} in {precision}", holds(said), said.stdout + said.stderr)
    folders = ROOT / "tests/folders"
    for case in ("list", "saved", "layers", "conv1d", "fused", "tied"):
        golden = json.loads((GOLDEN / "adapters" / case / "golden.json").read_text())
        said = run("ztc", "compile", folders / golden["folder"], *common, "--batch=1", "--seq=16", "--verify", "--zero=1", f"--adapter={GOLDEN / 'adapters' / case}",
                   "-o", work / "plan.bin")
        check(f"a folder of PEFT: {case}", holds(said), said.stdout + said.stderr)
    said = run("ztc", "compile", GOLDEN / "adapters/nf4/base", *common, "--batch=1", "--seq=16", "--verify", f"--adapter={GOLDEN / 'adapters/nf4'}", "-o", work / "plan.bin")
    check("a folder in 4 bits", holds(said), said.stdout + said.stderr)
    for name, options, who in (("read-other-block", ["--quantize=nf4"], "phase plan"), ("forget-sum", ["--zero=1"], "phase plan")):
        (work / "plan.bin").unlink(missing_ok=True)
        said = compiled(name, "--lora=r=4,alpha=8,targets=all-linear", *options, expect=1).stderr
        check(f"{name} beside an adapter: a run of the plan finds it", "a run of the plan on 1 rank" in said and f"pass '{name}' of plugin verified-passes in {who}" in said, said)
finish()
