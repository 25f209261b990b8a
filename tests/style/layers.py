#!/usr/bin/env python3
"""The layer rule: who may include whom. A file that crosses the wall is named with the line and the rule it breaks."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
# One total order: a folder includes what stands before it, and itself. So there are no circles, between folders of one layer either.
order = [
    *("runtime/" + x for x in ("Core", "Format", "Memory", "Disk", "Ranks", "Text", "Data", "Checkpoint", "Collective", "Device", "Device/host", "Device/cuda",
                               "Executor", "Train", "Tools")),
    *("compiler/" + x for x in ("Interfaces", "Support", "Dialect/Graph", "Dialect/Dist", "Dialect/Plan", "Dialect/Kernel", "Analysis", "Tensors", "Reference",
                                "Codegen", "Conversion", "Target", "Verification")),
    *("passes/" + x for x in ("Patterns", "Autodiff", "Adapters", "Quantization", "Precision", "Sharding", "Recompute", "Fusion", "Schedule", "Verify", "Kernels",
                              "Placement", "Offload")),
    "frontends/huggingface", "frontends/onnx",
    "compiler/Report", "compiler/Driver",
]
# The wall: what compiles a plan shares the record and the planner with what executes it, no more.
shared = ("runtime/Core", "runtime/Format", "runtime/Memory")
# The driver also asks the machine for its GPUs, and holds what a run has saved against the interpreter.
wall = {"compiler/Driver": shared + ("runtime/Device/cuda", "runtime/Checkpoint")}
never = [  # (folder, what it never includes, why)
    ("compiler/Dialect", "compiler/Conversion", "a dialect does not know how it is lowered"),
    ("compiler/Dialect", "compiler/Codegen", "a dialect does not know how it is compiled"),
    ("compiler/Dialect/Graph", "compiler/Dialect/Dist", "the dialects do not include one another"),
    ("compiler/Dialect/Graph", "compiler/Dialect/Plan", "the dialects do not include one another"),
    ("compiler/Dialect/Dist", "compiler/Dialect/Graph", "the dialects do not include one another"),
    ("compiler/Dialect/Dist", "compiler/Dialect/Plan", "the dialects do not include one another"),
    ("compiler/Dialect/Plan", "compiler/Dialect/Graph", "the dialects do not include one another"),
    ("compiler/Dialect/Plan", "compiler/Dialect/Dist", "the dialects do not include one another"),
    ("frontends", "passes", "a frontend does not know what becomes of the graph"),
]
foreign = re.compile(r"(mlir|llvm|lld|onnx)/")
failures = []


def home(name):
    """The folder of the order that a file is in: the longest that fits."""
    return max((folder for folder in order if name.startswith(folder + "/")), key=len, default=None)


def mayInclude(folder, other):
    if folder.startswith("runtime/") or not other.startswith("runtime/"):
        return order.index(other) <= order.index(folder)
    return other in wall.get(folder, shared)


def check(path):
    name = str(path.relative_to(root))
    folder = home(name)
    if folder is None:
        failures.append(f"{name}: in a folder without a place; give it one in tests/style/layers.py")
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#?\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        target = found[2]
        if name.startswith("runtime/") and foreign.match(target):
            failures.append(f"{name}:{number}: includes {target}, but the runtime builds without LLVM, MLIR and ONNX")
        if found[1] == '"' and target.split("/")[0] in ("compiler", "runtime", "passes", "frontends"):
            other = home(target)
            if other is None or not mayInclude(folder, other):
                failures.append(f"{name}:{number}: includes {target}, which {folder} may not see")
            for inside, taboo, why in never:
                if name.startswith(inside + "/") and target.startswith(taboo + "/"):
                    failures.append(f"{name}:{number}: includes {target}: {why}")


def main():
    files = [p for top in ("compiler", "runtime", "passes", "frontends") for p in (root / top).rglob("*") if p.suffix in (".h", ".cpp", ".td")]
    for file in files:
        check(file)
    for failure in failures:
        print(failure)
    print(f"{len(files)} files, {len(failures)} violations")
    return 1 if failures or not files else 0


if __name__ == "__main__":
    sys.exit(main())
