#!/usr/bin/env python3
"""House rules: file sizes, one name for a pass in four places, no leftovers, formatted by clang-format 22."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
failures = []
tracked = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True).stdout.split("\n")
files = [root / f for f in tracked if f and (root / f).is_file()]
sources = [f for f in files if f.suffix in (".h", ".cpp", ".td")]

# The programs themselves; NCCL is configured by variables alone, and the log says what holds.
READS_ENVIRONMENT = ("compiler/Driver/ztc", "runtime/Tools/", "runtime/Device/cuda/nccl/NcclCommunicator.cpp")

for f in sources:
    text = f.read_text()
    name = f.relative_to(root)
    lines = text.count("\n")
    if lines > 650:
        failures.append(f"{name}: {lines} lines; split it by family (about 600 are the limit)")
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\bgetenv\(", line) and str(name).startswith(("compiler/", "runtime/", "passes/", "frontends/")) and not str(name).startswith(READS_ENVIRONMENT):
            failures.append(f"{name}:{number}: reads the environment, which is an input: main reads it and hands it on")
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line):
            failures.append(f"{name}:{number}: leftover: {line.strip()}")

# def FormBuckets : Pass<"ztc-form-buckets", ...> = FormBuckets.cpp = DEBUG_TYPE = the test form-buckets.mlir (lit) or a unit test that names it.
tests = {f.name for f in files if "tests/lit" in str(f)}
unit = "\n".join(f.read_text() for f in files if "tests/unit" in str(f) and f.suffix == ".cpp")
for td in (f for f in files if f.name == "Passes.td"):
    for match in re.finditer(r'def (\w+)\s*:\s*Pass<"([\w-]+)"', td.read_text()):
        cls, argument = match.groups()
        words = "-".join(x.lower() for x in re.findall(r"[A-Z][a-z0-9]*", cls))
        if argument != "ztc-" + words:
            failures.append(f"{td.relative_to(root)}: pass {cls} is called {argument}, expected ztc-{words}")
        source = td.parent / f"{cls}.cpp"
        if not source.exists():
            failures.append(f"{td.relative_to(root)}: pass {cls} has no {source.relative_to(root)}")
        elif f'"{argument}"' not in source.read_text():
            failures.append(f'{source.relative_to(root)}: no DEBUG_TYPE "{argument}"')
        if f"{words}.mlir" not in tests and argument not in unit and cls not in unit:
            failures.append(f"{td.relative_to(root)}: pass {cls} has no test {words}.mlir")

# `-o -` of a program that does not know it leaves a file of that name.
for f in files:
    if any(part.startswith("-") for part in f.relative_to(root).parts):
        failures.append(f"{f.relative_to(root)}: a name that commands take for an option")

# A formatter that is let loose on a script or a document takes its first line apart.
for f in files:
    if f.suffix == ".md" and not f.read_text().startswith("# "):
        failures.append(f"{f.relative_to(root)}: does not begin with a heading")
    if f.suffix in (".sh", ".sbatch") and not (f.read_text().startswith("#!/usr/bin/env ") and os.access(f, os.X_OK)):
        failures.append(f"{f.relative_to(root)}: not a script that can be executed")

clang_format = shutil.which("clang-format-22")
if clang_format:
    cpp = [str(f) for f in sources if f.suffix in (".h", ".cpp")]
    done = subprocess.run([clang_format, "--dry-run", "-Werror", *cpp], capture_output=True, text=True, cwd=root)
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    failures += [f"{pathlib.Path(b).relative_to(root) if b.startswith('/') else b}: not formatted (clang-format-22 -i)" for b in bad]

for failure in failures:
    print(failure)
print(f"{len(sources)} sources, {len(failures)} findings")
sys.exit(1 if failures or not sources else 0)
