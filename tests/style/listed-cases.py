#!/usr/bin/env python3
"""Each case that a README of the tests lists is there: the file, and in it the name of the case."""
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


# By README: the letters of its keys, and the last number of each.
LISTS = {"e2e/README.md": {"U": 41, "A": 8, "B": 8, "C": 13}, "gpu/README.md": {"H": 18}}


def check(readme, letters):
    """What is wrong with the tables of `readme` that end with a file and a case."""
    findings, keys, inside = [], set(), False
    for number, line in enumerate((TESTS / readme).read_text().splitlines(), 1):
        if line.endswith("| file | case |"):
            inside = True
            continue
        inside = inside and line.startswith("|")
        if not inside or line.startswith("|---"):
            continue
        row = ROW.fullmatch(line)
        if not row:
            findings.append(f"line {number} is not a row of a key, words, a file and a case: {line}")
            continue
        keys.add(row["key"])
        file = TESTS / row["file"]
        if not file.is_file():
            findings.append(f"line {number}: there is no file tests/{row['file']}")
        elif not is_there(file, row["case"]):
            findings.append(f"line {number}: tests/{row['file']} has no case '{row['case']}'")
    for letter, last in letters.items():
        findings += [f"{letter}{i} has no case" for i in range(1, last + 1) if f"{letter}{i}" not in keys]
    for finding in findings:
        print(f"tests/{readme}: {finding}")
    return len(findings), len(keys)


results = [check(readme, letters) for readme, letters in LISTS.items()]
print(f"{sum(keys for _, keys in results)} keys, {sum(findings for findings, _ in results)} findings")
sys.exit(any(findings for findings, _ in results))
