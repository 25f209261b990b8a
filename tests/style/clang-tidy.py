#!/usr/bin/env python3
"""clang-tidy, many files in one translation unit: a file's headers take longer than the file, MLIR's some 7 seconds of a core.

    tests/style/clang-tidy.py [FOLDER...]      of these folders below the repository; without: all of compiler, passes, frontends and runtime

Files that give a name of their own to different things (two static functions) are looked at in different units, and a unit that does not compile all the same
in two: nothing has to be kept by hand."""
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
WHOLE = ["compiler", "passes", "frontends", "runtime"]
# In a line that is not indented: functions, constants and types that it declares; not members, which stand behind "Class::".
DECLARED = re.compile(r"(?<![\w:])[A-Za-z]\w*(?=\(|(?:\[\w*\])* = |;$)|(?:struct|class|enum|union) (\w+)(?= )")


def flagsOf(entry):
    """How an entry is compiled, without input and output; with its precompiled header where that has headers of MLIR and LLVM alone, which nobody looks at. The
    runtime's has headers of ours, which are parsed to be looked at."""
    words = shlex.split(entry["command"])
    words = words[1 + next(i for i, word in enumerate(words) if "clang++" in word):]
    output = words.index("-o")
    del words[output:output + 2]
    if "-include-pch" in words and pathlib.Path(entry["file"]).is_relative_to(root / "runtime"):
        precompiled = words.index("-include-pch")
        del words[precompiled - 1:precompiled + 3] # -Xclang before it, and before the file
    return [word for word in words if word not in ("-c", entry["file"])]


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
    errors = [line for line in found if "clang-diagnostic-error" in line]
    if len(names) > 1 and errors:
        half = len(names) // 2
        print(f"note: {len(names)} files that do not compile together are looked at in halves: {min(errors)}")
        return look((names[:half], flags, directory)) | look((names[half:], flags, directory))
    if sys.stderr.isatty():
        print(f"{len(found)} in {', '.join(names)}", file=sys.stderr)
    return found


def roomOf(file):
    """Whose files are looked at together: those of a folder of the top level; a dialect, which has code that is generated, and Codegen, in whose headers names
    stand for other things, each by itself."""
    parts = file.relative_to(root).parts
    return file.parent if parts[1] in ("Dialect", "Codegen") else parts[0]


def namesOf(file):
    """Names of a file's own: static ones, and those of a namespace without a name."""
    names, isOwn = set(), False
    for line in file.read_text().splitlines():
        if line.startswith(("namespace {", "} // namespace")):
            isOwn = line.startswith("namespace {") and not line.endswith("}")
        elif re.match("[A-Za-z]", line) and (isOwn or line.startswith("static ")):
            names.update(found[1] or found[0] for found in DECLARED.finditer(line))
    return {name for name in names if not name.endswith("_t")} - {"target"} # of conversions and attributes


def apart(files):
    """The files in lists of FILES at most, none of which has a name twice."""
    lists = []
    for file in sorted(files):
        names = namesOf(pathlib.Path(file))
        into = next((one for one in lists if len(one[0]) < FILES and not one[1] & names), None)
        if into is None:
            lists.append(into := ([], set()))
        into[0].append(file)
        into[1].update(names)
    return [found for found, _ in lists]


def unitsOf(entries):
    """Files with the same flags, many at a time."""
    groups = {}
    for entry in entries:
        flags = flagsOf(entry)
        # Apart: names of llvm that mlir has too clash in one unit, and a unit that does not compile is looked at again, in halves.
        isInLlvmsNames = "\nusing namespace llvm;" in pathlib.Path(entry["file"]).read_text()
        groups.setdefault((roomOf(pathlib.Path(entry["file"])), isInLlvmsNames, entry["directory"], *flags), (flags, []))[1].append(entry["file"])
    return [(files, flags, key[2]) for key, (flags, names) in groups.items() for files in apart(names)]


def entriesOf(folder):
    return json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())


def filesOf(entry):
    """Entries of the files that are compiled together, where an entry is of such a unit."""
    if "/Unity/unity_" not in entry["file"]:
        return [entry]
    files = re.findall(r'^#include "(.*)"', pathlib.Path(entry["file"]).read_text(), re.MULTILINE)
    return [{**entry, "file": file, "command": entry["command"].replace(entry["file"], file)} for file in files]


def ofFolders(tops):
    """Entries of the files below these folders, each once; without the module for cuDNN, which is NVIDIA's headers for the most part."""
    entries = [entry for unit in entriesOf(build) if "-o tests/" not in unit["command"] for entry in filesOf(unit)]
    return {entry["file"]: entry for entry in entries if "/cudnn/" not in entry["file"] and any(pathlib.Path(entry["file"]).is_relative_to(top) for top in tops)}.values()


units = sorted(unitsOf(ofFolders(folders or [root / folder for folder in WHOLE])), key=lambda unit: -len(unit[0])) # long ones first
with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
    findings = set().union(*pool.map(look, units))
for finding in sorted(findings):
    print(finding)
print(f"{len(units)} translation units, {len(findings)} findings")
sys.exit(1 if findings or not units else 0)
