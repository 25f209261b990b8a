#!/usr/bin/env python3
"""The samples of samples/passes are built from what `cmake --install` installs, outside of the repository; their lit tests run; each does in a whole
compilation and a run what it says; and variants that are wrong in one line are found by `--verify` and named."""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

from support import BUILD, GOLDEN, ROOT, check, finish, read_log, read_safetensors, scratch, stand_ins

if not shutil.which("clang++-22"):
    print("left out: no clang++-22")
    sys.exit(77)
SAMPLES = ("LayerCosts", "KernelCounts", "ZLoss", "GatedSilu", "Adagrad", "AlternateBlocks", "DelayGathers", "ScaleKernels", "OutsideKernel", "ClampStores")
# A file, what is wrong in it, and who is named with which words.
WRONG = {
    "UnsaidLoss": ("ZLoss", [("ztc::Keeps::Changes);", "ztc::Keeps::Meaning);")], "pass 'z-loss' of plugin z-loss in phase backward", "the loss was"),
    "WrongValue": ("GatedSilu", [("gate * sigmoid(gate) * up,", "up * sigmoid(gate) * up,")], "pass 'gate-silu' of plugin gated-silu in phase import", "logits"),
    "WrongGradient": ("GatedSilu", [("(1.0 + gate * (1.0 - s))", "(1.0 - gate * (1.0 - s))")], "pass 'gate-silu' of plugin gated-silu in phase import has brought a wrong gradient",
                      "ops of plugins in it: sample.gated_silu"),
    "UnsaidScale": ("ScaleKernels", [("ztc::Keeps::Changes);", "ztc::Keeps::Meaning);"), ("llvm::cl::init(1.0)", "llvm::cl::init(0.5)"),
                                     ("form.getSymName() != kernel", '!form.getSymName().starts_with("swiglu")')],
                    "pass 'scale-kernels' of plugin scale-kernels in phase codegen", "kernel swiglu"),
    "WrongKernel": ("ClampStores", [("cl::init(1e30)", "cl::init(0.25)")], "pass 'clamp-stores' of plugin clamp-stores in phase codegen", "element"),
}
# The sum of two tensors of 32 rows and 32 columns, for a processor and for a GPU.
ADD_C = """#include <stdint.h>
void add(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  const float *x = buffers[0], *y = buffers[1];
  float *sum = buffers[2];
  for (int64_t i = 32 * begin; i < 32 * end; ++i)
    sum[i] = x[i] + y[i];
}
"""
ADD_PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {
  .reg .b32 %r<4>;
  .reg .f32 %f<4>;
  .reg .b64 %d<8>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 128, %r2;
  mul.wide.u32 %d1, %r3, 4;
  ld.param.u64 %d2, [p0];
  ld.param.u64 %d3, [p1];
  ld.param.u64 %d4, [p2];
  add.u64 %d5, %d2, %d1;
  add.u64 %d6, %d3, %d1;
  add.u64 %d7, %d4, %d1;
  ld.global.f32 %f1, [%d5];
  ld.global.f32 %f2, [%d6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%d7], %f3;
  ret;
}
"""
# What the PTX does, for the engine that stands for a GPU.
ADD_SIMT = """#include <stdint.h>
int32_t llvm_nvvm_read_ptx_sreg_tid_x(void);
int32_t llvm_nvvm_read_ptx_sreg_ctaid_x(void);
void ztc_simt_read(const void *address, int64_t bytes);
void ztc_simt_write(const void *address, int64_t bytes);
void add(void *const *parameters) {
  const float *x = *(const float **)parameters[0], *y = *(const float **)parameters[1];
  float *sum = *(float **)parameters[2];
  const int64_t i = 128 * (int64_t)llvm_nvvm_read_ptx_sreg_ctaid_x() + llvm_nvvm_read_ptx_sreg_tid_x();
  ztc_simt_read(x + i, 4);
  ztc_simt_read(y + i, 4);
  ztc_simt_write(sum + i, 4);
  sum[i] = x[i] + y[i];
}
"""
model = GOLDEN / "grouped" / "model.onnx"
common = ["--batch=2", "--seq=16", "--threads=1"]
STAND_INS = stand_ins(ZTC_CUDNN="0")


def command(*words, expect=0, env=None):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True, env=env)
    good = expect is None or done.returncode == expect
    check(" ".join(pathlib.Path(str(x)).name for x in words[:3]), good, "" if good else (done.stdout + done.stderr)[-3000:])
    return done


with scratch() as work:
    prefix, source, out = work / "prefix", work / "passes", work / "out"
    command("cmake", "--install", BUILD, "--prefix", prefix)
    shutil.copytree(ROOT / "samples" / "passes", source)
    with (source / "CMakeLists.txt").open("a") as lists:
        for name, (sample, changes, _, _) in WRONG.items():
            text = (source / f"{sample}.cpp").read_text()
            for before, after in changes:
                check(f"{name}: {sample} has the line that is to be wrong", before in text)
                text = text.replace(before, after)
            operations = ""
            if (source / f"{sample}.td").exists():
                shutil.copy(source / f"{sample}.td", source / f"{name}.td")
                text, operations = re.sub(rf'"{sample}(Dialect)?\.', rf'"{name}\1.', text), f" OPS {name}.td"
            (source / f"{name}.cpp").write_text(text)
            lists.write(f"ztc_add_plugin({name} {name}.cpp{operations})\n")
    command("cmake", "-S", source, "-B", out, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-22", "-DCMAKE_C_COMPILER=clang-22", f"-DCMAKE_PREFIX_PATH={prefix}")
    command("cmake", "--build", out)
    for sample in SAMPLES:
        done = command("cmake", "--build", out, "--target", f"check-{sample}")
        check(f"{sample}: its lit tests pass", re.search(r"Passed: +[1-9]", done.stdout) and "Failed" not in done.stdout, done.stdout[-2000:])

    def compiled(plugin, *options, expect=0, name="plan"):
        plan = work / f"{name}.bin"
        load = [f"--load-pass-plugin={out / plugin}.so"] if plugin else []
        for usual in ("--precision=fp32", "--target=x86-64-v3"):
            options = options if any(x.startswith(usual.split("=")[0] + "=") for x in options) else (usual, *options)
        return plan, command(prefix / "bin/ztc", "compile", model, *common, *load, *options, "-o", plan, expect=expect)

    def trained(plan, *options, steps=2, on_gpu=False):
        log = work / "log"
        place = ["--gpus=1"] if on_gpu else ["--device=cpu", "--threads=1"]
        command(prefix / "bin/ztc-run", plan, f"--data={GOLDEN / 'grouped/data.safetensors'}", f"--steps={steps}", "--lr=1e-3", "--schedule=constant", *place,
                f"--log-json={log}", "--overwrite", *(options or ["--no-save"]), env=STAND_INS if on_gpu else None)
        return read_log(log)

    plain = compiled("", name="plain")[0]
    head, steps = trained(plain)
    losses = [step["loss"] for step in steps]

    # The term is in the loss, in proportion to its weight, and in the gradient.
    terms = []
    for weight in (0.001, 0.002):
        plan, said = compiled("ZLoss", f"--pass-option=z-loss.weight={weight}", "--verify")
        check("z-loss: it says that it changes the loss, and --verify what it cannot hold then",
              "gradients agree with finite differences" in said.stdout and "a pass changes the loss" in said.stderr, said.stdout + said.stderr)
        terms.append(trained(plan)[1][0]["loss"] - losses[0])
    check("z-loss: the loss grows with the weight", terms[0] > 0 and abs(terms[1] / terms[0] - 2) < 1e-2, terms)
    done = command(prefix / "bin/ztc", "diff", plain, plan, expect=1)
    check("z-loss: ztc diff shows the plugin, its option and its kernels", all(word in done.stdout for word in ("load-pass-plugin", "z-loss.weight", "microstep +")),
          done.stdout[-2000:])

    plan, said = compiled("GatedSilu", "--verify")
    check("gated_silu: keeps what the step computes", re.search(r"\(1 of plugins\)", said.stdout) and "not checked" not in said.stderr, said.stdout + said.stderr)
    mine = [step["loss"] for step in trained(plan)[1]]
    check("gated_silu: and its losses", all(abs(a - b) < 1e-5 for a, b in zip(mine, losses)), (mine, losses))
    plan, said = compiled("GatedSilu", "--verify", "--precision=bf16", "--recompute=layer", "--zero=2")
    check("gated_silu: in bf16, sharded, recomputed", re.search(r"\(1 of plugins\)", said.stdout) and "not checked" not in said.stderr, said.stdout + said.stderr)

    # Adagrad against its formula, from a state that a run has come to.
    plan, said = compiled("Adagrad", "--optimizer=adagrad", "--zero=1", "--verify")
    checkpoints, rate, epsilon, decay = work / "adagrad", 1e-3, 1e-8, 0.1
    rule = [f"--epsilon={epsilon}", f"--weight-decay={decay}", "--clip=0", f"--save={checkpoints}", "--save-every=1"]
    head, _ = trained(plan, *rule, "--stop-after=1", steps=2)
    check("adagrad: half of Adam's states", read_log(work / "log")[0]["by_class"]["optimizer"] * 2 <= trained(plain)[0]["by_class"]["optimizer"] + 4096)
    trained(plan, *rule, f"--resume={checkpoints}", f"--dump-gradients={work / 'gradients'}", steps=2)
    gradients = read_safetensors(work / "gradients")
    state = {}
    for step in (1, 2):
        for kind in ("model", "sum"):
            for file in sorted((checkpoints / f"step-{step:08}").glob(f"{kind}*.safetensors")):
                state.update({(step, kind, name): value for name, value in read_safetensors(file).items()})
        check(f"adagrad: step {step} has no state of AdamW's", not list((checkpoints / f"step-{step:08}").glob("exp_avg*")))
    worst = [0.0, 0.0]
    for name, (shape, g) in gradients.items():
        kept = decay if len(shape) > 1 else 0
        for p1, s1, x, p2, s2 in zip(*(state[key][1] for key in ((1, "model", name), (1, "sum", name))), g, state[2, "model", name][1], state[2, "sum", name][1]):
            worst[0] = max(worst[0], abs(p1 * (1 - rate * kept) - rate * x / (math.sqrt(s1 + x * x) + epsilon) - p2))
            worst[1] = max(worst[1], abs(s1 + x * x - s2))
    check("adagrad: weights and sums are those of the formula", worst[0] < 1e-6 and worst[1] < 1e-7 and len(gradients) > 5, worst)
    said = compiled("", "--optimizer=adagrad", expect=2)[1].stderr
    check("adagrad: without the plugin its name is unknown", "--optimizer=adagrad" in said and "adamw" in said, said)

    peaks = {}
    for policy in ("none", "alternate", "layer"):
        plan, _ = compiled("AlternateBlocks", f"--recompute={policy}")
        head, steps = trained(plan)
        peaks[policy] = head["by_class"]["activations"]
        check(f"alternate blocks: --recompute={policy} keeps every bit", [step["loss"] for step in steps] == losses)
    check("alternate blocks: saves less than whole layers, more than nothing", peaks["layer"] <= peaks["alternate"] < peaks["none"], peaks)

    plan, said = compiled("DelayGathers", "--zero=3", "--gpus=2", "--explain-passes", "--verify")
    row = next((line for line in said.stdout.splitlines() if "pass 'delay-gathers' of plugin delay-gathers" in line), "")
    check("delay-gathers: --explain-passes says what it saves", re.search(r"plugin delay-gathers +-[0-9]", row), said.stdout)
    ahead, _ = compiled("", "--zero=3", name="ahead")
    runs = [[(s["loss"], s["grad_norm"]) for s in trained(p, "--ranks=2", "--no-save")[1]] for p in (ahead, plan)]
    check("delay-gathers: on two ranks every bit is kept", runs[0] == runs[1], runs)

    # One rewrite of a form reaches processors and GPUs, and a kernel of its own one call alone.
    scaled = {}
    for option in ("by=1", "by=0.5", "by=0.5,call=4"):  # the first of @microstep, after two each of @eval and @generate
        settings = [f"--pass-option=scale-kernels.{x}" for x in ("kernel=swiglu", *option.split(","))]
        plan, said = compiled("ScaleKernels", "--target=x86-64-v3,simt", "--verify", *settings)
        check(f"scale-kernels {option}: the kernels of both kinds compute what the form says, and --verify says what it cannot hold then",
              "agree with the interpreter, on this processor and on the engine" in said.stdout and "changes what the step computes" in said.stderr, said.stdout + said.stderr)
        scaled[option] = [[step["loss"] for step in trained(plan, on_gpu=on_gpu)[1]] for on_gpu in (False, True)]
        check(f"scale-kernels {option}: equal losses on a processor and on the engine", all(abs(a - b) < 1e-5 for a, b in zip(*scaled[option])), scaled[option])
    check("scale-kernels: by 1 it keeps every bit", scaled["by=1"][0] == losses, scaled)
    check("scale-kernels: all calls, one call and none are three steps", len({runs[0][0] for runs in scaled.values()}) == 3, scaled)

    # Machine code from outside takes the place of a kernel and is held to the group that it computes.
    for name, text in (("right", ADD_C), ("wrong", ADD_C.replace("x[i] + y[i]", "x[i] - y[i]")), ("nameless", ADD_C.replace("void add", "void sum"))):
        (work / f"{name}.c").write_text(text)
        command("clang-22", "-O2", "-fPIC", "-march=x86-64-v3", "-ffp-contract=off", "-c", work / f"{name}.c", "-o", work / f"{name}.o")
    from_outside = ["--pass-option=outside-kernel.kernel=add"]
    plan, said = compiled("OutsideKernel", "--verify", *from_outside, f"--pass-option=outside-kernel.object={work}/right.o")
    check("outside-kernel: it computes what its group does", re.search("kernels of [1-9][0-9]* groups and [1-9][0-9]* of library calls agree", said.stdout), said.stdout + said.stderr)
    check("outside-kernel: and the run has the same bits", [step["loss"] for step in trained(plan)[1]] == losses)
    said = compiled("OutsideKernel", "--verify", *from_outside, f"--pass-option=outside-kernel.object={work}/wrong.o", expect=1, name="outside")[1].stderr
    check("outside-kernel: one that does not is found, with the pass that brought it",
          "pass 'outside-kernel' of plugin outside-kernel in phase codegen" in said and "kernel add " in said, said)
    said = compiled("OutsideKernel", *from_outside, f"--pass-option=outside-kernel.object={work}/nameless.o", expect=1, name="outside")[1].stderr
    check("outside-kernel: one without its symbol is refused", "objects from outside do not define add" in said, said)
    (work / "add.ptx").write_text(ADD_PTX)
    threads = ["--pass-option=outside-kernel.threads=128", "--pass-option=outside-kernel.units=4"]
    plan, _ = compiled("OutsideKernel", "--target=sm_90a", *from_outside, *threads, f"--pass-option=outside-kernel.ptx={work}/add.ptx")
    shown = command(prefix / "bin/ztc", "inspect", plan, "--json").stdout
    version = re.search(r'"name": "add",.*?"target": "sm_90a",\s*"block_threads": (\d+),\s*"units_per_block": (\d+)', shown, re.DOTALL)
    check("outside-kernel: PTX from outside is part of the module for a GPU, with its launch", version and version.groups() == ("128", "4"), version and version.groups())
    (work / "none.ptx").write_text(ADD_PTX.replace("add(", "sum("))
    said = compiled("OutsideKernel", "--target=sm_90a", *from_outside, f"--pass-option=outside-kernel.ptx={work}/none.ptx", expect=1, name="outside")[1].stderr
    check("outside-kernel: PTX without its entry is refused", "PTX from outside has no entry add" in said, said)

    # Neither PTX nor a cubin runs without a GPU: --verify says so, and runs what stands for them.
    for name, text in (("simt", ADD_SIMT), ("wrong-simt", ADD_SIMT.replace("x[i] + y[i]", "x[i] - y[i]")), ("far-simt", ADD_SIMT.replace("ztc_simt_read(y + i", "ztc_simt_read(y + i + 999999"))):
        (work / f"{name}.c").write_text(text)
        command("clang-22", "-O2", "-fPIC", "-c", work / f"{name}.c", "-o", work / f"{name}.o")
    ptx = ["--verify", *from_outside, *threads, f"--pass-option=outside-kernel.ptx={work}/add.ptx"]
    if (BUILD / "lib/standin/libztc-standin-cuda.so").exists():
        for stands, with_simt in (("what is generated of the group", []), ("an object", [f"--pass-option=outside-kernel.simt={work}/simt.o"])):
            said = compiled("OutsideKernel", "--target=sm_90a", *ptx, *with_simt)[1]
            check(f"outside-kernel: {stands} stands for PTX, and what was not run is said", "on this processor and on the engine" in said.stdout
                  and "not checked: kernel add for sm_90a: its PTX from outside needs a GPU to run" in said.stderr, said.stdout + said.stderr)
        for name, words in (("wrong-simt", "kernel add (simt)"), ("far-simt", "kernel add (simt)")):
            said = compiled("OutsideKernel", "--target=sm_90a", *ptx, f"--pass-option=outside-kernel.simt={work}/{name}.o", expect=1, name="outside")[1].stderr
            check(f"outside-kernel: {name} is found on the engine", words in said and "pass 'outside-kernel' of plugin outside-kernel in phase codegen" in said, said)
        plan, _ = compiled("OutsideKernel", "--target=x86-64-v3,simt", *ptx[1:], f"--pass-option=outside-kernel.simt={work}/simt.o")
        stood = [step["loss"] for step in trained(plan, on_gpu=True)[1]]
        check("outside-kernel: a stand-in GPU trains with the object", all(abs(a - b) < 1e-5 for a, b in zip(stood, losses)), (stood, losses))

    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    if ptxas:
        command(ptxas, "-arch=sm_90a", work / "add.ptx", "-o", work / "add.cubin")
        command(ptxas, "-arch=sm_90a", work / "none.ptx", "-o", work / "none.cubin")
        cubin = [*from_outside, *threads, f"--pass-option=outside-kernel.cubin={work}/add.cubin"]
        plan, said = compiled("OutsideKernel", "--target=sm_90a,sm_80", "--verify", *cubin)
        check("outside-kernel: where there is no cubin for a GPU that is said, and that none was run",
              "none for sm_80: what is generated runs there" in said.stderr and "kernel add for sm_90a: its cubin from outside needs a GPU" in said.stderr, said.stderr)
        shown = json.loads(command(prefix / "bin/ztc", "inspect", plan, "--json").stdout)
        versions = {x["target"]: x for x in next(x for x in shown["kernels"] if x["name"] == "add")["versions"]}
        check("outside-kernel: a kernel is the cubin for its GPU and generated for others", versions["sm_90a"].get("outside") == "cubin" and "outside" not in versions["sm_80"]
              and (versions["sm_90a"]["block_threads"], versions["sm_90a"]["units_per_block"]) == (128, 4), versions)
        size = (work / "add.cubin").stat().st_size
        check("outside-kernel: the plan holds its bytes", [x["bytes"] for x in shown["images"] if x.get("outside") == "add"] == [size]
              and (work / "add.cubin").read_bytes() in plan.read_bytes(), shown["images"])
        text = command(prefix / "bin/ztc", "inspect", plan, "--kernels").stdout
        check("outside-kernel: inspect says where it is from", "; cubin from outside" in text and f"{size} bytes, a cubin from outside for add" in text, text)
        for name, options, words in (("add", ["--target=sm_80", "--pass-option=outside-kernel.architecture=sm_80"], "a cubin from outside is for sm_90, it was given for sm_80"),
                                     ("none", ["--target=sm_90a"], "a cubin from outside for sm_90a has no entry add")):
            said = compiled("OutsideKernel", *options, *from_outside, f"--pass-option=outside-kernel.cubin={work}/{name}.cubin", expect=1, name="outside")[1].stderr
            check(f"outside-kernel: {words}", words in said and "kernel.func" in said, said)
    for name, words in (("add.ptx", "they have no ELF header"), ("right.o", "ELF for machine 62")):
        said = compiled("OutsideKernel", "--target=sm_90a", *from_outside, f"--pass-option=outside-kernel.cubin={work}/{name}", expect=1, name="outside")[1].stderr
        check(f"outside-kernel: bytes that are not a cubin are refused: {name}", "bytes from outside are not a cubin" in said and words in said, said)

    plan, said = compiled("ClampStores", "--verify")
    check("clamp-stores: kernels agree with the interpreter", re.search("kernels of [1-9][0-9]* groups and [1-9][0-9]* of library calls agree", said.stdout), said.stdout + said.stderr)
    check("clamp-stores: and the run has the same bits", [step["loss"] for step in trained(plan)[1]] == losses)

    # A rewrite without C++, right and wrong.
    patterns = source / "PlainSwiglu.pdll"
    done = command("cmake", "--build", out, "--target", "check-PlainSwiglu")
    check("plain-swiglu: its lit test passes", re.search(r"Passed: +1", done.stdout) and "Failed" not in done.stdout, done.stdout[-2000:])
    plan, said = compiled("", f"--patterns={patterns}", "--verify", "--remarks=apply-patterns", name="patterns")
    check("plain-swiglu: keeps what the step computes", re.search(r"\(1 of plugins\)", said.stdout) and "not checked" not in said.stderr, said.stdout + said.stderr)
    check("plain-swiglu: says how often it applied", "[ztc-apply-patterns, passed]" in said.stderr, said.stderr)
    mine = [step["loss"] for step in trained(plan)[1]]
    check("plain-swiglu: and its losses", all(abs(a - b) < 1e-5 for a, b in zip(mine, losses)), (mine, losses))
    text = command(prefix / "bin/ztc", "inspect", plan).stdout
    check("the plan names file, place and hash", re.search(r"patterns=PlainSwiglu\.pdll after import \([0-9a-f]{16}\)", text), text[:1500])
    wrong = work / "WrongPatterns.pdll"
    wrong.write_text(patterns.read_text().replace("op<graph.mul>(gate, open)", "op<graph.mul>(up, open)"))
    for place, phase in (("", "import"), (",before=precision", "precision"), (",after=loss", "backward")):
        said = compiled("", f"--patterns={wrong}{place}", "--verify", expect=1, name="wrong")[1].stderr
        check(f"wrong patterns{place} are found and named", f"pass 'ztc-apply-patterns' of plugin WrongPatterns.pdll in phase {phase}" in said, said)
    for text, words in ((f"{wrong},behind=fuse", "'behind=fuse' is not known"), (f"{wrong},after=fusion", "there is no phase 'fusion'"), (work / "none.pdll", "No such file")):
        said = compiled("", f"--patterns={text}", expect=2, name="wrong")[1].stderr
        check(f"--patterns={text} is refused", words in said, said)

    for name, (_, _, who, what) in WRONG.items():
        said = compiled(name, "--verify", expect=1, name=name)[1].stderr
        check(f"{name} is found and named", who in said and what in said, said)
        check(f"{name}: no plan is written", not (work / f"{name}.bin").exists())
        if "a wrong gradient" in who:
            check(f"{name}: the step before that pass, and a command", (work / f"{name}.bin.gate-silu.mlir").exists() and "--pass-pipeline='builtin.module(gate-silu)'" in said, said)
finish()
