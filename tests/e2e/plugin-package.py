#!/usr/bin/env python3
"""`cmake --install` and find_package(Ztc): a plugin builds outside of the repository from what is installed, and one that was built for another ztc is
refused before any code of it runs."""
import re
import shutil
import subprocess
import sys
import time

from support import BUILD, GOLDEN, ROOT, check, finish, run, scratch

model = GOLDEN / "grouped" / "model.onnx"
shape = ["--batch=2", "--seq=16", "--threads=1", "--target=x86-64-v3"]
if not shutil.which("clang++-22"):
    print("left out: no clang++-22")
    sys.exit(77)

EXTRA = """
#include <cstdio>
// Runs when the library is opened, before anything can be asked of it.
static const bool opened = [] { std::FILE *file = std::fopen(OPENED, "w"); return file && !std::fclose(file); }();
"""
MISSING = """
void functionThatIsNowhere();
extern "C" void callNowhere() { functionThatIsNowhere(); }
"""


def command(*words):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True)
    check(" ".join(str(x) for x in words[:2]), done.returncode == 0, (done.stdout + done.stderr)[-2000:] if done.returncode else "")
    return done


with scratch() as work:
    prefix, source, out = work / "prefix", work / "sample", work / "sample" / "out"
    command("cmake", "--install", BUILD, "--prefix", prefix)
    shutil.copytree(ROOT / "samples" / "passes", source)
    (source / "Extra.cpp").write_text(EXTRA)
    (source / "Missing.cpp").write_text(MISSING)
    with (source / "CMakeLists.txt").open("a") as lists:
        lists.write("ztc_add_plugin(Extra LayerCosts.cpp Extra.cpp)\nztc_add_plugin(Missing LayerCosts.cpp Missing.cpp)\n")
        lists.write(f"target_compile_definitions(Extra PRIVATE OPENED=\"{work / 'opened'}\")\n")
    command("cmake", "-S", source, "-B", out, "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-22", "-DCMAKE_C_COMPILER=clang-22", f"-DCMAKE_PREFIX_PATH={prefix}")
    command("cmake", "--build", out, "--target", "LayerCosts", "Extra", "Missing") # the others: sample-passes.py

    def compiled(plugin, expect=0):
        done = subprocess.run([str(x) for x in (prefix / "bin/ztc", "compile", model, *shape, f"--load-pass-plugin={plugin}", "-o", work / "plan.bin")],
                              capture_output=True, text=True)
        check(f"the installed ztc with {plugin.name} exits with {expect}", done.returncode == expect, done.stderr)
        return done

    check("the sample runs", re.search(r"layer 1 +[0-9]+ FLOPs", compiled(out / "LayerCosts.so").stdout))
    said = run("ztc", "inspect", work / "plan.bin").stdout
    check("the plan names it with its hash", re.search(r"load-pass-plugin=layer-costs 1\.0 \([0-9a-f]{16}\)", said), said[:800])
    check("no path of the build stays in what is installed", str(BUILD) not in subprocess.run(["readelf", "-d", prefix / "bin/ztc", prefix / "lib/libZtc.so"],
                                                                                             capture_output=True, text=True).stdout)
    said = compiled(out / "Missing.so", expect=2).stderr
    check("a missing symbol is named", "functionThatIsNowhere" in said, said)

    compiled(out / "Extra.so")
    check("a plugin that fits is opened", (work / "opened").exists())
    (work / "opened").unlink()
    stamped = (out / "Extra.so").read_bytes()
    stamp = re.search(rb"ztc [0-9.]+, headers [0-9a-f]{16}, LLVM [^\0]+", stamped)[0]
    foreign = work / "Foreign.so"
    foreign.write_bytes(stamped.replace(stamp, stamp.replace(b"headers ", b"headers 0")[:len(stamp)]))
    for program, arguments, status in ((prefix / "bin/ztc", ["compile", model, "-o", work / "x"], 2), (prefix / "bin/ztc-opt", [ROOT / "tests/lit/Dialect/Graph/ops.mlir"], 1)):
        done = subprocess.run([str(x) for x in (program, f"--load-pass-plugin={foreign}", *arguments)] if program.name == "ztc-opt" else
                              [str(x) for x in (program, *arguments, f"--load-pass-plugin={foreign}")], capture_output=True, text=True)
        check(f"{program.name}: one for another ztc is refused, both stamps named", done.returncode == status and "headers 0" in done.stderr and stamp.decode() in done.stderr, done.stderr)
    check("no code of it ran", not (work / "opened").exists())
    # A pass of one's own: a test that fails, an edit, a test that passes.
    own = work / "own"
    command(ROOT / "samples/passes/new_pass.py", "scale-residuals", own)
    command("cmake", "-S", own, "-B", own / "build", "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++-22", "-DCMAKE_C_COMPILER=clang-22", f"-DCMAKE_PREFIX_PATH={prefix}")
    build = ["cmake", "--build", str(own / "build"), "--target", "check-ScaleResiduals"]
    said = subprocess.run(build, capture_output=True, text=True)
    check("new_pass.py: the test fails at first, for what is not there yet", said.returncode != 0 and "CHECK: graph.tanh" in said.stdout, said.stdout[-800:] + said.stderr)
    code = own / "ScaleResiduals.cpp"
    code.write_text(re.sub(r"      mlir::remark::analysis.*?;\n", "      mlir::OpBuilder builder(op);\n      op.replaceAllUsesWith(ztc::graph::TanhOp::create(builder, "
                           "op.getLoc(), op.getX()).getResult());\n", code.read_text(), flags=re.S))
    started = time.monotonic()
    said = subprocess.run(build, capture_output=True, text=True)
    check("and passes after an edit", said.returncode == 0, said.stdout[-2000:] + said.stderr)
    took = time.monotonic() - started
    check("from the edit to the test's end: at most 10 s (30 where the machine has other work)", took <= 30, f"{took:.1f} s")
    refused = subprocess.run([ROOT / "samples/passes/new_pass.py", "scale-residuals", own], capture_output=True, text=True)
    check("new_pass.py overwrites nothing", refused.returncode == 1 and "not empty" in refused.stderr, refused.stderr)

    plain = work / "plain.so"
    command("clang++-22", "-shared", "-fPIC", "-std=c++20", source / "Missing.cpp", "-o", plain)
    said = compiled(plain, expect=2).stderr
    check("one without a stamp: how to build it", "ztc_add_plugin" in said, said)
    plain.write_text("text")
    said = compiled(plain, expect=2).stderr
    check("a file that is not a library", "not a shared library" in said, said)
finish()
