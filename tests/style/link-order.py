#!/usr/bin/env python3
"""The layer rule as the linker sees it: what an object of a folder leaves undefined is defined in a folder that it may see.

Includes alone do not tell: a function can be declared in one folder and defined in another. A symbol that several folders define (a template,
an inline function) belongs to none of them and is left out."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import layers

build = pathlib.Path(os.environ.get("ZTC_BUILD", layers.root / "build"))
nm = shutil.which("llvm-nm-22")
targets = [build / folder / "CMakeFiles" / (name + ".dir") for folder, name in (
    ("runtime", "ZtcBaseObjects"), ("runtime", "ZtcRuntime"), ("runtime", "ztc-run"), ("compiler", "ZtcCompiler"), ("compiler", "ZtcFrontendOnnx"), ("compiler", "ztc"))]
commands = build / "compile_commands.json"  # the folders may hold objects of an earlier configuration too
made = [pathlib.Path(entry["directory"]) / re.search(r" -o (\S+)", entry["command"])[1] for entry in json.loads(commands.read_text())] if commands.exists() else []
objects = [o for o in made if o.exists() and any(target in o.parents for target in targets)]
if not nm or not objects:
    print(f"no llvm-nm-22, or no objects below {build}: nothing to look at")
    sys.exit(77)


def source_of(path):
    """An object's source within the repository: <target>.dir/Device/host/X.cpp.o, or .../__/passes/Fusion/X.cpp.o from outside the target's folder.
    Of several files compiled together, which are of one folder, the first."""
    if path.parent.name == "Unity":
        first = re.search(r'^#include "(.*)"', path.with_suffix("").read_text(), re.MULTILINE)[1]
        return str(pathlib.Path(first).relative_to(layers.root))
    target = next(t for t in targets if t in path.parents)
    name = str(path.relative_to(target))[:-2]
    if name.startswith("__/"):
        return name.removeprefix("__/")
    return f"{target.parent.parent.name}/{name}"


defined, wanted = collections.defaultdict(set), {}
for path in objects:
    folder = layers.home(source_of(path))
    if folder is None:
        continue
    symbols = subprocess.run([nm, "--format=just-symbols", "--defined-only", "--extern-only", "--no-weak", path], capture_output=True, text=True)
    for symbol in symbols.stdout.split():
        defined[symbol].add(folder)
    symbols = subprocess.run([nm, "--format=just-symbols", "--undefined-only", path], capture_output=True, text=True)
    wanted[path] = (folder, set(symbols.stdout.split()))

failures = set()
for path, (folder, symbols) in wanted.items():
    for symbol in symbols:
        homes = defined.get(symbol, ())
        if homes and not any(layers.mayInclude(folder, home) for home in homes):
            failures.add(f"{source_of(path)}: calls {symbol}, which is defined in {', '.join(sorted(homes))}: {folder} may not see it")
for failure in sorted(failures):
    print(failure)
print(f"{len(wanted)} objects, {len(defined)} symbols, {len(failures)} violations")
sys.exit(1 if failures or not defined else 0)
