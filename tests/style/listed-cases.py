#!/usr/bin/env python3
"""Each case that tests/e2e/README.md lists is there: the file, and in it the name of the case."""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
ROW = re.compile(r"\| (?P<key>\w+) \| (?P<what>[^|]+) \| `(?P<file>[^`]+)` \| `(?P<case>[^`]+)` \|")


def is_there(file, case):
    text = file.read_text()
    if file.suffix == ".cpp" and (name := re.fullmatch(r"(\w+)\.(\w+)", case)):
        return re.search(r"\bTEST(_F|_P)?\(%s, %s\)" % name.groups(), text)
    return case in text


findings, keys = [], set()
for number, line in enumerate((TESTS / "e2e/README.md").read_text().splitlines(), 1):
    if not line.startswith("| ") or line.startswith("| |"):
        continue
    row = ROW.fullmatch(line)
    if not row:
        findings.append(f"line {number} is no row of a key, words, a file and a case: {line}")
        continue
    keys.add(row["key"])
    file = TESTS / row["file"]
    if not file.is_file():
        findings.append(f"line {number}: there is no file tests/{row['file']}")
    elif not is_there(file, row["case"]):
        findings.append(f"line {number}: tests/{row['file']} has no case '{row['case']}'")
for letter, last in (("U", 41), ("A", 8), ("B", 8), ("C", 13)):
    findings += [f"{letter}{i} has no case" for i in range(1, last + 1) if f"{letter}{i}" not in keys]
for finding in findings:
    print(f"tests/e2e/README.md: {finding}")
print(f"{len(keys)} keys, {len(findings)} findings")
sys.exit(1 if findings else 0)
