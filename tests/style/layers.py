#!/usr/bin/env python3
"""The layer rule: who may include whom. A file that crosses the wall is named with the line and the rule it breaks."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
L2 = ["compiler/" + x for x in ("Interfaces", "Dialect", "Analysis", "Reference", "Conversion", "Codegen", "Target", "Support", "Verification")]
L0 = ["runtime/Core", "runtime/Format"]
L1 = ["runtime/" + x for x in ("Memory", "Device", "Collective", "Ranks", "Executor", "Checkpoint", "Train", "Data", "Text")]
# folder prefix -> prefixes it may include
rules = {
    **{x: L0 for x in L0},
    **{x: L0 + L1 for x in L1},
    "runtime/Tools": L0 + L1 + ["runtime/Tools"],
    **{x: L2 + L0 + ["runtime/Memory"] for x in L2},
    "passes": L2 + L0 + ["runtime/Memory", "passes"],
    "frontends": L2 + L0 + ["runtime/Memory", "frontends"],
    "compiler/Driver": [""],
    "compiler/Report": [""],
    "tests": [""],
    "samples": [""],
}
never = [  # (folder, what it never includes, why)
    ("compiler/Dialect", "compiler/Conversion", "a dialect does not know how it is lowered"),
    ("compiler/Dialect", "compiler/Codegen", "a dialect does not know how it is compiled"),
    ("compiler/Dialect/Graph", "compiler/Dialect/Dist", "the dialects do not include one another"),
    ("compiler/Dialect/Graph", "compiler/Dialect/Plan", "the dialects do not include one another"),
    ("compiler/Dialect/Dist", "compiler/Dialect/Graph", "the dialects do not include one another"),
    ("compiler/Dialect/Dist", "compiler/Dialect/Plan", "the dialects do not include one another"),
    ("compiler/Dialect/Plan", "compiler/Dialect/Graph", "the dialects do not include one another"),
    ("compiler/Dialect/Plan", "compiler/Dialect/Dist", "the dialects do not include one another"),
]
foreign = re.compile(r"(mlir|llvm|lld|onnx)/")
failures = []


def check(path):
    name = str(path.relative_to(root))
    home = max((p for p in rules if name.startswith(p + "/")), key=len, default=None)
    if home is None:
        failures.append(f"{name}: in a folder without a layer; give it one in tests/style/layers.py")
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        target = found[2]
        if name.startswith("runtime/") and foreign.match(target):
            failures.append(f"{name}:{number}: includes {target}, but the runtime builds without LLVM, MLIR and ONNX")
        if found[1] == '"' and target.split("/")[0] in ("compiler", "runtime", "passes", "frontends"):
            if not any(target.startswith(p) for p in rules[home]):
                failures.append(f"{name}:{number}: includes {target}, which {home} may not see")
            for folder, taboo, why in never:
                if name.startswith(folder + "/") and target.startswith(taboo + "/"):
                    failures.append(f"{name}:{number}: includes {target}: {why}")


files = [p for top in ("compiler", "runtime", "passes", "frontends") for p in (root / top).rglob("*") if p.suffix in (".h", ".cpp", ".td")]
for file in files:
    check(file)
for failure in failures:
    print(failure)
print(f"{len(files)} files, {len(failures)} violations")
sys.exit(1 if failures or not files else 0)
