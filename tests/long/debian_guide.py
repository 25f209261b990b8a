"""What the guide (samples/passes/README.md, as the Debian package installs it) says to do, in a root of its own: a pass begun by new_pass.py becomes a plugin
that changes a plan, `ztc diff` shows it, training with samples gives the losses that it should, three of them that are wrong in one line are found by
`--verify` and named, and a plugin that was built for another ztc is refused by name. Runs in the root that debian-guide.sh makes."""
import json
import os
import pathlib
import re
import shutil
import subprocess

samples, model, work = pathlib.Path("/usr/share/ztc/samples/passes"), pathlib.Path("/tmp/model"), pathlib.Path("/tmp/work")
shape = ["--batch=2", "--seq=16", "--precision=fp32", "--threads=1"]
WRONG = {  # a sample, what is wrong in it, and who is named with which word
    "UnsaidLoss": ("ZLoss", "ztc::Keeps::Changes);", "ztc::Keeps::Meaning);", "pass 'z-loss' of plugin z-loss in phase backward", "the loss was"),
    "WrongGradient": ("GatedSilu", "(1.0 + gate * (1.0 - s))", "(1.0 - gate * (1.0 - s))",
                      "pass 'gate-silu' of plugin gated-silu in phase import has brought a wrong gradient", "sample.gated_silu"),
    "WrongKernel": ("ClampStores", "cl::init(1e30)", "cl::init(0.25)", "pass 'clamp-stores' of plugin clamp-stores in phase codegen", "element"),
}


def run(*words, expect=0):
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True)
    assert expect is None or done.returncode == expect, f"{words}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def check(what, good, said=""):
    assert good, f"{what}\n{said}"
    print("ok  ", what, flush=True)


def compiled(name, *options, expect=0):
    plan = work / f"{name}.bin"
    return plan, run("ztc", "compile", model / "model.onnx", *shape, *options, "-o", plan, expect=expect)


def losses(plan):
    run("ztc-run", plan, "--device=cpu", "--threads=1", f"--data={model / 'data.safetensors'}", "--steps=3", "--lr=1e-3", "--schedule=constant", "--no-save", "--overwrite",
        f"--log-json={work / 'log'}")
    return [line["loss"] for line in map(json.loads, (work / "log").read_text().splitlines()) if "loss" in line]


work.mkdir()
os.environ.update(CC="clang-22", CXX="clang++-22")
plain, _ = compiled("plain")
without = losses(plain)
check("the first loss is PyTorch's", abs(without[0] - json.loads((model / "golden.json").read_text())["losses"][0]) < 1e-4, without)

# The ten minutes of the guide: start, a test that fails, an edit, a test that passes, what it does.
own = work / "my-pass"
run(samples / "new_pass.py", "scale-logits", own)
run("cmake", "-S", own, "-B", own / "build", "-G", "Ninja", "-DZtc_DIR=/usr/lib/cmake/Ztc")
said = run("cmake", "--build", own / "build", "--target", "check-ScaleLogits", expect=None)
check("the test of a new pass fails at first", said.returncode != 0 and "CHECK: graph.tanh" in said.stdout, said.stdout + said.stderr)
code = own / "ScaleLogits.cpp"
edited = re.sub(r"      mlir::remark::analysis.*?;\n", "      mlir::OpBuilder builder(op);\n      op.replaceAllUsesWith(ztc::graph::TanhOp::create(builder, op.getLoc(), "
                "op.getX()).getResult());\n", code.read_text(), flags=re.S)
code.write_text(edited)
run("cmake", "--build", own / "build", "--target", "check-ScaleLogits")
print("ok   and passes after an edit", flush=True)

# The samples, and variants that are wrong in one line.
source, out = work / "passes", work / "out"
shutil.copytree(samples, source)
with (source / "CMakeLists.txt").open("a") as lists:
    for name, (sample, before, after, _, _) in WRONG.items():
        text = (source / f"{sample}.cpp").read_text()
        check(f"{name}: {sample} has the line that is to be wrong", before in text)
        text, operations = text.replace(before, after), ""
        if (source / f"{sample}.td").exists():
            shutil.copy(source / f"{sample}.td", source / f"{name}.td")
            text, operations = re.sub(rf'"{sample}(Dialect)?\.', rf'"{name}\1.', text), f" OPS {name}.td"
        (source / f"{name}.cpp").write_text(text)
        lists.write(f"ztc_add_plugin({name} {name}.cpp{operations})\n")
run("cmake", "-S", source, "-B", out, "-G", "Ninja", "-DZtc_DIR=/usr/lib/cmake/Ztc")
run("cmake", "--build", out)
for name in ("ZLoss", "GatedSilu"):
    run("cmake", "--build", out, "--target", f"check-{name}")

plan, said = compiled("with", f"--load-pass-plugin={out / 'GatedSilu.so'}", "--verify")
check("--verify finds the sample's op right", re.search(r"\(1 of plugins\)", said.stdout) and "not checked" not in said.stderr, said.stdout + said.stderr)
said = run("ztc", "diff", plain, plan, expect=1).stdout
check("ztc diff shows the plugin and what it changed", "load-pass-plugin" in said and re.search(r"^.*microstep", said, re.M), said[-2000:])
check("training with it gives the losses without it", all(abs(a - b) < 1e-5 for a, b in zip(losses(plan), without)))
terms = [losses(compiled("term", f"--load-pass-plugin={out / 'ZLoss.so'}", f"--pass-option=z-loss.weight={weight}")[0])[0] - without[0] for weight in (0.001, 0.002)]
check("a term of the loss grows with its weight", terms[0] > 0 and abs(terms[1] / terms[0] - 2) < 1e-2, terms)
for name, (_, _, _, who, word) in WRONG.items():
    said = compiled("wrong", f"--load-pass-plugin={out / name}.so", "--verify", expect=1)[1].stderr
    check(f"{name} is found and named", who in said and word in said, said)
stamped = (out / "ZLoss.so").read_bytes()
stamp = re.search(rb"ztc [0-9.]+, headers [0-9a-f]{16}, LLVM [^\0]+", stamped)[0]
(work / "Foreign.so").write_bytes(stamped.replace(stamp, stamp.replace(b"headers ", b"headers 0")[:len(stamp)]))
said = compiled("foreign", f"--load-pass-plugin={work / 'Foreign.so'}", expect=2)[1].stderr
check("one for another ztc is refused, both stamps named", "headers 0" in said and stamp.decode() in said, said)
