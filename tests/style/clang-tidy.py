#!/usr/bin/env python3
"""clang-tidy over the runtime, as a unity build has it: a file's headers take longer than the file.

    tests/style/clang-tidy.py [FOLDER...]      files of these folders below the repository, one by one; without: the runtime
"""
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


def look(entry):
    """Findings of one translation unit."""
    words = shlex.split(entry["command"])
    first = next(i for i, word in enumerate(words) if "clang++" in word)
    flags, skip = [], False
    for word, following in zip(words[first + 1:], words[first + 2:] + [""]):
        if skip:
            skip = False
        elif word in ("-o", "-c", "-include-pch") or word == "-Xclang" and following in ("-include-pch", "-fno-pch-timestamp") or following.endswith(".pch"):
            skip = word != "-Xclang" or following == "-fno-pch-timestamp"
        elif word != entry["file"] and not word.endswith(".pch"):
            flags.append(word)
    done = subprocess.run([tidy, "--quiet", f"--config-file={root / '.clang-tidy'}", entry["file"], "--", *flags, f"-I{build}", "-Wno-everything"],
                          capture_output=True, text=True, cwd=entry["directory"])
    found = {line.replace(str(root) + "/", "") for line in done.stdout.splitlines() if re.search(r"(warning|error): .*\[[\w.,-]+\]$", line)}
    if done.returncode and not found:
        found = {f"{entry['file']}: {done.stderr.strip() or done.stdout.strip()}"}
    if sys.stderr.isatty():
        print(f"{len(found)} in {entry['file']}", file=sys.stderr)
    return found


def entriesOf(folder):
    return json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())


with tempfile.TemporaryDirectory() as unity:
    if folders:
        entries = {entry["file"]: entry for entry in entriesOf(build) if any(pathlib.Path(entry["file"]).is_relative_to(folder) for folder in folders)}
    else:
        command = ["cmake", "-S", root, "-B", unity, "--preset", "runtime", "-DZTC_BUILD_TESTS=OFF", "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=12"]
        subprocess.run(command, check=True, capture_output=True, cwd=root)
        entries = {entry["file"]: entry for entry in entriesOf(unity) if not entry["file"].endswith(".pb.cc") and "cudnn" not in entry["file"]}
    with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        findings = set().union(*pool.map(look, entries.values()))
for finding in sorted(findings):
    print(finding)
print(f"{len(entries)} translation units, {len(findings)} findings")
sys.exit(1 if findings or not entries else 0)
