#!/usr/bin/env python3
"""clang-tidy, many files in one translation unit: a file's headers take longer than the file, MLIR's some 7 seconds of a core.

    tests/style/clang-tidy.py [FOLDER...]      of these folders below the repository; without: all of compiler, passes, frontends and runtime

Files whose names clash in one unit (two static functions) are looked at in two: nothing has to be kept by hand."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(os.environ.get("ZTC_BUILD", root / "build"))
tidy = shutil.which("clang-tidy-22")
if not tidy or not (build / "compile_commands.json").exists():
    print("no clang-tidy-22, or no compile_commands.json: nothing to look at")
    sys.exit(77)
folders = [root / folder for folder in sys.argv[1:]]
FILES = 40  # of one unit: 9 s of a core for 40 of passes, 7 s for the smallest of them alone
# Beside the runtime, which has a configuration of its own for this.
WHOLE = ["compiler", "passes", "frontends"]


def flagsOf(entry):
    """How an entry is compiled, without input and output; with its precompiled header: that has headers of MLIR and LLVM alone, which nobody looks at."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if "clang++" in word)
    flags, skip = [], False
    for word in words[first + 1:]:
        if skip:
            skip = False
        elif word == "-o":
            skip = True
        elif word not in ("-c", entry["file"]):
            flags.append(word)
    return flags


def look(unit):
    """Findings of one unit: files that are compiled alike."""
    names, flags, directory = unit
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write("".join(f'#include "{name}"\n' for name in names))
        source.flush()
        done = subprocess.run([tidy, "--quiet", f"--config-file={root / '.clang-tidy'}", source.name, "--", *flags, f"-I{build}", "-Wno-everything"],
                              capture_output=True, text=True, cwd=directory)
    found = {line.replace(str(root) + "/", "") for line in done.stdout.splitlines() if re.search(r"(warning|error): .*\[[\w.,-]+\]$", line)}
    if done.returncode and not found:
        found = {f"{names[0]}: {done.stderr.strip() or done.stdout.strip()}"}
    if len(names) > 1 and any("clang-diagnostic-error" in line for line in found):
        half = len(names) // 2
        return look((names[:half], flags, directory)) | look((names[half:], flags, directory))
    if sys.stderr.isatty():
        print(f"{len(found)} in {', '.join(names)}", file=sys.stderr)
    return found


def roomOf(file):
    """Whose files are looked at together: all of passes, all of frontends, a folder of compiler, where each dialect has code that is generated."""
    top = file.relative_to(root).parts[0]
    return file.parent if top == "compiler" else top


def unitsOf(entries):
    """Files with the same flags, many at a time."""
    groups = {}
    for entry in entries:
        flags = flagsOf(entry)
        isInLlvmsNames = "\nusing namespace llvm;" in pathlib.Path(entry["file"]).read_text() # some are others than MLIR's: looking twice costs more
        groups.setdefault((roomOf(pathlib.Path(entry["file"])), isInLlvmsNames, entry["directory"], *flags), (flags, []))[1].append(entry["file"])
    return [(sorted(names)[first:first + FILES], flags, key[2]) for key, (flags, names) in groups.items() for first in range(0, len(names), FILES)]


def entriesOf(folder):
    return json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())


def filesOf(entry):
    """Entries of the files that are compiled together, where an entry is of such a unit."""
    if "/Unity/unity_" not in entry["file"]:
        return [entry]
    files = re.findall(r'^#include "(.*)"', pathlib.Path(entry["file"]).read_text(), re.MULTILINE)
    return [{**entry, "file": file, "command": entry["command"].replace(entry["file"], file)} for file in files]


def ofFolders(tops):
    return {entry["file"]: entry for unit in entriesOf(build) if "-o tests/" not in unit["command"] for entry in filesOf(unit) if any(pathlib.Path(entry["file"]).is_relative_to(top) for top in tops)}.values()


with tempfile.TemporaryDirectory() as unity:
    if folders:
        units = unitsOf(ofFolders(folders))
    else:
        # The runtime is a unity build already.
        command = ["cmake", "-S", root, "-B", unity, "--preset", "runtime", "-DZTC_BUILD_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=12"]
        subprocess.run(command, check=True, capture_output=True, cwd=root)
        units = [([entry["file"]], flagsOf(entry), entry["directory"]) for entry in entriesOf(unity) if not entry["file"].endswith(".pb.cc") and "cudnn" not in entry["file"]]
        units += unitsOf(ofFolders([root / folder for folder in WHOLE]))
    with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        findings = set().union(*pool.map(look, units))
for finding in sorted(findings):
    print(finding)
print(f"{len(units)} translation units, {len(findings)} findings")
sys.exit(1 if findings or not units else 0)
