#!/usr/bin/env python3
"""ztc check: the report as text and as JSON, and that it refuses what ztc compile refuses."""
import json
import os
import pathlib

from support import GOLDEN, check, finish, run, scratch


def checked(path, *arguments, expect=0):
    text, parsed = run("ztc", "check", path, *arguments, expect=expect), run("ztc", "check", path, "--json", *arguments, expect=expect)
    return text, json.loads(parsed.stdout)


text, found = checked(GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16")
check("the verdict is the last line", "the plan compiles" in text.stdout.splitlines()[-1] and found["compiles"], text.stdout[-300:])
check("layers that are alike are one line", sum(line.startswith("  layers 0-") for line in text.stdout.splitlines()) == 1, text.stdout)
attention = [op for group in found["layer_idioms"] for op in group["ops"] if op.startswith("attention")]
check("what tells an attention apart", attention and "causal" in attention[0] and "of key and value" in attention[0], attention)
names = {p["name"]: p for p in found["parameters"]}
check("parameters with shape, source and orientation", len(names) == len(found["parameters"]) and "model.embed_tokens.weight" in names
      and all(p["shape"] and p["source"] for p in names.values()) and any(p["transposed"] for p in names.values()))
_, tied = checked(GOLDEN / "tied" / "model.onnx", "--batch=2", "--seq=16")
check("ties", any("lm_head.weight" in p["tied"] + [p["name"]] and p["tied"] for p in tied["parameters"]), tied["parameters"][:2])

with scratch() as work:
    bad = work / "model.onnx"
    bad.write_bytes((GOLDEN / "grouped" / "model.onnx").read_bytes().replace(b"\x22\x07Sigmoid", b"\x22\x07Sigmoix"))
    text, found = checked(bad, "--batch=2", "--seq=16", expect=1)
    check("an error stands on the last lines", "Sigmoix" in text.stderr.splitlines()[-1] and text.stderr.startswith("error:"), text.stderr)
    check("JSON has it too", not found["imports"] and any("Sigmoix" in e for e in found["errors"]) and found["failed_phase"] == "import", found["errors"])
    text, found = checked(work / "nothing.onnx", expect=1)
    check("no such file", "nothing.onnx" in text.stderr and found["errors"], text.stderr)

fixtures = os.environ.get("ZTC_FIXTURES")
if not fixtures:
    print("left out (ZTC_FIXTURES is not set): exported models")
else:
    for path in (pathlib.Path(fixtures) / "llama-tiny" / "dynamo-op18.onnx", pathlib.Path(fixtures) / "llama-3-8b" / "dynamo-op18.onnx"):
        text, found = checked(path, "--seq=64")
        check(f"{path.parent.name}: compiles", found["compiles"] and found["parameters"], found["errors"])
finish()
