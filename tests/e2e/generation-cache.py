#!/usr/bin/env python3
"""Text with a key/value cache is the text without one: greedy and sampled, in fp32 and bf16, beyond the window, of models with windows, experts, learned positions."""
import json
import os
import sys

from support import ROOT, check, finish, run, scratch

FOLDERS = ROOT / "tests/folders"
CACHED = ("gpt2", "qwen3", "llama-heads", "gemma3", "mistral", "mixtral", "gemma2", "gpt-oss")
PROMPTS = b"\x05\x11\x07\n\x21\n\x30\x02\x19\x0b\x0c\x01\x2f\x1c\x13\x08\x04\n"

names = sys.argv[1:] or os.environ.get("ZTC_FOLDERS", "").split() or CACHED
for name in names:
    with scratch() as work:
        (work / "prompts.txt").write_bytes(PROMPTS)
        for precision in ("fp32", "bf16"):
            plans = {"with": ["--generate"], "without": []}
            texts = {}
            for kind, options in plans.items():
                plan = work / f"{precision}-{kind}.bin"
                run("ztc", "compile", FOLDERS / name, "-o", plan, "--target=host", "--batch=2", "--seq=32", f"--precision={precision}", *options)
                programs = set(json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"])
                check(f"{name}: {precision}: {kind} a cache", ("decode" in programs) == (kind == "with"), programs)
                texts[kind] = [[json.loads(line)["tokens"] for line in run("ztc-run", plan, "--device=cpu", "--prompts", work / "prompts.txt", "--generate=50", *sampling)
                                .stdout.splitlines()] for sampling in ([], ["--temperature=1", "--seed=3"], ["--temperature=3", "--seed=4"])]
            check(f"{name}: {precision}: the texts are equal", texts["with"] == texts["without"] and all(texts["with"]), texts)
finish()
