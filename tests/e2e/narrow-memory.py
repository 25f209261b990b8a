#!/usr/bin/env python3
"""What a rank keeps of a bf16 model is arithmetic, at every ZeRO stage and on any number of ranks: 2 bytes of parameter, 2 of remainder and
8 of moments per parameter, and gradients of 2 bytes (one micro-step) or 4 (several); and what it sends has 2 bytes an element."""
import json
import os
import pathlib
import sys

from support import check, finish, run

fixtures = os.environ.get("ZTC_FIXTURES")
if not fixtures:
    print("left out (ZTC_FIXTURES is not set): exported models")
    sys.exit(77)
model = next(iter(sorted((pathlib.Path(fixtures) / "llama-3-8b").glob("*.onnx"))))
PARAMETERS = 8_030_261_248


def near(value, expected):
    """Padding of shards and alignment of slots are small."""
    return abs(value - expected) <= 0.001 * expected + 4096


for accumulate in (1, 8):
    text = run("ztc", "memory", model, "--precision=bf16", "--seq=2048", "--recompute=layer", "--gpus=1,2,8", "--zero=0,1,2,3", f"--accumulate={accumulate}", "--json",
               timeout=900).stdout
    rows = json.loads(text)["rows"]
    check("a row for each stage and number of ranks", len(rows) == 12, len(rows))
    for row in rows:
        ranks, zero, held = row["gpus"], row["zero"], row["by_class"]
        case = f"8B in bf16, M={accumulate}, ZeRO-{zero} on {ranks}"
        check(f"{case}: parameters", near(held["parameters"], 2 * PARAMETERS / (ranks if zero == 3 else 1)), held["parameters"])
        check(f"{case}: remainders and moments", near(held["optimizer"], 10 * PARAMETERS / (ranks if zero >= 1 else 1)), held["optimizer"])
        share = 1 - 1 / ranks
        sends = {0: 2, 1: 2, 2: accumulate + 1}.get(zero)
        if sends:
            check(f"{case}: sent", near(row["sent_bytes"], sends * 2 * PARAMETERS * share), row["sent_bytes"])
        # At the peak there are the gradients that are complete, and those of the bucket that is being computed (4 + 2 bytes; the embedding
        # and the head are the largest buckets).
        kept = PARAMETERS * (4 if accumulate > 1 else 2) / (1 if zero <= 1 else ranks)
        transient = 2 * 6 * 128256 * 4096
        at_least = 0.999 * kept if accumulate > 1 else 0
        check(f"{case}: gradients", at_least <= held["gradients"] <= kept + transient + 4096, held["gradients"])
finish()
