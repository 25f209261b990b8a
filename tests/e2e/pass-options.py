#!/usr/bin/env python3
"""What `ztc compile` lets a compiler engineer see and set: remarks on stderr and as YAML, options of single passes, the pipelines by name, and MLIR's own options."""
import importlib.util
import pathlib
import re
import subprocess
import sys

from support import GOLDEN, check, finish, run, scratch

model = GOLDEN / "grouped" / "model.onnx"
shape = ["--batch=2", "--seq=16", "--threads=1", "--precision=fp32", "--target=x86-64-v3"]

with scratch() as work:
    def compiled(*options, expect=0):
        return run("ztc", "compile", model, *shape, *options, "-o", work / "plan.bin", expect=expect)

    check("no remarks where nobody asked", "remark:" not in compiled("--zero=3").stderr)
    said = compiled("--zero=3", "--recompute=cheap", "--remarks=collectives|recomputed", f"--remarks-file={work / 'remarks.yaml'}").stderr
    check("a remark names what it is about, the pass and the kind",
          "remark: block0: bucket block0 is gathered 2 times in @microstep [ztc-insert-collectives, passed]" in said, said)
    check("of the passes that match", "[ztc-mark-recomputed, passed]" in said, said)
    documents = (work / "remarks.yaml").read_text().split("--- !")[1:]
    check("as YAML: one document each, with pass and function", len(documents) == said.count("remark:") and
          any(re.search(r"Pass: +ztc-insert-collectives\n(.*\n)*Function: +microstep\n", d) for d in documents), documents[:1])
    viewer = pathlib.Path("/usr/lib/llvm-22/share/opt-viewer/opt-viewer.py")
    if viewer.exists() and importlib.util.find_spec("yaml") and importlib.util.find_spec("pygments"):
        done = subprocess.run([sys.executable, viewer, "-o", work / "pages", work / "remarks.yaml"], capture_output=True, text=True)
        page = (work / "pages/index.html").read_text() if done.returncode == 0 else ""
        check("LLVM's opt-viewer reads them: a row each, with pass and function", page.count("ztc-insert-collectives</td>") == said.count("[ztc-insert-collectives,") > 0
              and page.count("ztc-mark-recomputed</td>") == said.count("[ztc-mark-recomputed,") > 0 and "microstep</td>" in page, done.stderr + page[-2000:])
    else:
        print("left out: opt-viewer with Python's yaml and pygments")
    check("only those that match", "ztc-insert" not in compiled("--zero=3", "--recompute=cheap", "--remarks=recomputed").stderr)
    # The search for a budget runs these passes many times; one choice is carried out.
    said = compiled("--mem=700KiB", "--gpus=1", "--remarks=recomputed").stderr
    check("what the search tries is not remarked", said.count("ztc-mark-recomputed") <= 2, said)
    check("a pattern that is not one", "not a regular expression" in compiled("--remarks=(", expect=2).stderr)
    check("a file that cannot be written", "cannot write" in compiled(f"--remarks-file={work / 'none' / 'x'}", expect=2).stderr)

    pipeline = compiled("--print-pipeline", "--pass-option=ztc-assign-slots.staging-bytes=65536", "--pass-option=ztc-assign-slots.attention-block=64").stdout
    check("options of a pass reach it", re.search(r"assign: builtin.module\(.*ztc-assign-slots\{attention-block=64 .*staging-bytes=65536", pipeline), pipeline)
    check("the plan keeps them", "pass-option=ztc-assign-slots.staging-bytes=65536" in run("ztc", "inspect", work / "plan.bin").stdout)
    phases = ["import", "backward", "precision", "shard", "recompute", "fuse", "schedule", "assign", "codegen", "plan"]
    check("--print-pipeline: a line for each phase", [x.split(":")[0] for x in pipeline.splitlines() if "builtin.module" in x] == phases, pipeline)
    text = run("ztc", "compile", model, *shape, "--to=backward").stdout
    (work / "step.mlir").write_text(text)
    line = next(x for x in pipeline.splitlines() if x.startswith("precision:")).split(": ", 1)[1]
    run("ztc-opt", f"--pass-pipeline={line}", work / "step.mlir", "-o", work / "precision.mlir")
    check("ztc-opt takes such a line", "func.func" in (work / "precision.mlir").read_text())
    for option, says in (("ztc-assign-slots", "expected PASS.OPTION=VALUE"), ("ztc-assign-slotz.a=1", "names no pass"), ("ztc-assign-slots.block=1", "no such option"),
                         ("ztc-assign-slots.attention-block=x", "does not take this"), ("ztc-split-groups.a=1", "no pipeline of this compilation")):
        done = compiled(f"--pass-option={option}", expect=2)
        check(f"--pass-option={option} is refused before anything runs", says in done.stderr and "model:" not in done.stdout, done.stderr)

    timing = compiled("--mlir-timing").stderr
    check("--mlir-timing: one report, by phase and pass", timing.count("Execution time report") == 1 and re.search(r"backward\n.*MarkDecay", timing), timing[:600])
    check("--mlir-print-ir-after", "IR Dump After Differentiate" in compiled("--mlir-print-ir-after=ztc-differentiate").stderr)
    check("an option that MLIR does not have", "--mlir-timings" in compiled("--mlir-timings", expect=2).stderr)
finish()
