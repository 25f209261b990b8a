#!/usr/bin/env python3
"""What a rank needs at each ZeRO stage and world size, beside the arithmetic of the ZeRO paper (Rajbhandari et al. 2020, section 5), as a Markdown table.

  memory-table.py MODEL.onnx --seq 2048 [--batch 1] [--accumulate 1] [--gpus 1,2,4,8,16,32,64]

The paper counts bytes per parameter: 4 for it, 4 for its gradient, 8 for Adam's moments (fp32), each divided by W where the stage shards it.
`planned` is the plan's own sum of those classes at its peak; `in flight` what ZeRO needs beside it (gathered buckets, receive buffers); `rest` the
activations, workspaces, inputs and gaps. planned - paper is explained by the last column: whole gradient buckets on their way to the reduction.
"""
import argparse
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build/bin"))
GIB = 2 ** 30


def paper(elements, stage, world):
    """Bytes of parameters, gradients and moments on one rank."""
    share = lambda from_stage: world if stage >= from_stage else 1
    return 4 * elements / share(3) + 4 * elements / share(2) + 8 * elements / share(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seq", default="2048")
    parser.add_argument("--batch", default="1")
    parser.add_argument("--accumulate", default="1")
    parser.add_argument("--gpus", default="1,2,4,8,16,32,64")
    a = parser.parse_args()
    text = subprocess.run([str(BIN / "ztc"), "memory", a.model, f"--seq={a.seq}", f"--batch={a.batch}", f"--accumulate={a.accumulate}", f"--gpus={a.gpus}", "--zero=0,1,2,3",
                           "--threads=1", "--precision=fp32", "--json"], check=True, capture_output=True, text=True).stdout
    rows = json.loads(text)["rows"]
    one = next(r for r in rows if r["gpus"] == 1 and r["zero"] == 0)
    elements = one["by_class"]["parameters"] / 4  # with the padding of buckets, which is below one part in a million on real models
    print(f"{pathlib.Path(a.model).parent.name}: {elements / 1e9:.3f} G parameters, B={a.batch}, S={a.seq}, M={a.accumulate}, fp32; GiB per rank\n")
    print("| stage | W | paper | planned | difference | in flight | rest | peak | sent per step |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        c = r["by_class"]
        planned = c["parameters"] + c["gradients"] + c["optimizer"]
        flight = c["gathered"] + c["communication"]
        rest = c["activations"] + c["workspace"] + c["io"] + c["unused"]
        want = paper(elements, r["zero"], r["gpus"])
        print(f"| {r['zero']} | {r['gpus']} | {want / GIB:.2f} | {planned / GIB:.2f} | {(planned - want) / GIB:+.2f} | {flight / GIB:.2f} | {rest / GIB:.2f} | "
              f"{r['peak_bytes'] / GIB:.2f} | {r['sent_bytes'] / GIB:.2f} |")


main()
