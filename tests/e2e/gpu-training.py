#!/usr/bin/env python3
"""A plan is trained on the CUDA device, over the stand-ins of tests/standin: on one GPU and on two, saved and resumed."""
import json
import os
import pathlib
import struct

from support import BIN, check, finish, run, scratch

BUILD = pathlib.Path(os.environ.get("ZTC_BUILD", BIN.parent))
ENVIRONMENT = {**os.environ, "ZTC_STAND_INS": str(BUILD / "lib/standin"), "ZTC_STAND_IN_GPUS": "2"}
SEQ, ROWS, STEPS = 8, 24, 12  # an epoch has 6 steps of 4 rows


def write_data(path):
    """Rows of token ids, labels alike."""
    tokens = struct.pack(f"<{ROWS * SEQ}q", *((i * 7 + 3) % 250 for i in range(ROWS * SEQ)))
    entry = {"dtype": "I64", "shape": [ROWS, SEQ]}
    header = json.dumps({"input_ids": {**entry, "data_offsets": [0, len(tokens)]},
                         "labels": {**entry, "data_offsets": [len(tokens), 2 * len(tokens)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + tokens + tokens)


with scratch() as work:
    plan, data = work / "toy.bin", work / "data.safetensors"
    run("toy-gpu-plan", BUILD / "lib/libztc-standin-toy.so", plan)
    write_data(data)

    def train(name, *options, start=("--init=normal:0.02",)):
        log = work / f"{name}.jsonl"
        done = run("ztc-run", plan, f"--data={data}", f"--steps={STEPS}", "--lr=0.05", f"--log-json={log}",
                   *start, *options, env=ENVIRONMENT)
        check(f"{name}: the run says that there is no GPU", "NO GPU IS USED" in done.stderr)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        headers = [line for line in lines if "predicted_bytes" in line]
        check(f"{name}: predicted is allocated", all(h["predicted_bytes"] == h["allocated_bytes"] for h in headers) and headers)
        return [line for line in lines if "loss" in line]

    one = train("one GPU", "--gpus=1", "--accumulate=2", f"--save={work / 'one'}")
    two = train("two GPUs", "--gpus=2", f"--save={work / 'two'}")
    check("all steps are there", len(one) == len(two) == STEPS, f"{len(one)} {len(two)}")
    check("the loss of the same rows falls", one[6]["loss"] < one[0]["loss"], f"{one[0]['loss']} -> {one[6]['loss']}")
    far = [(a, b) for a, b in zip(one, two)
           for key in ("loss", "grad_norm") if abs(a[key] - b[key]) > 1e-5 * abs(a[key])]
    check("one GPU with two micro-steps and two GPUs with one: equal losses and norms", not far, far[:1] or "")

    train("two GPUs, stopped", "--gpus=2", "--stop-after=3", f"--save={work / 'half'}")
    rest = train("one GPU goes on", "--gpus=1", f"--save={work / 'half'}", start=(f"--resume={work / 'half'}",))
    check("a run saved by two GPUs goes on with one", [x["step"] for x in rest] == list(range(3, STEPS)) and
          all(abs(a["loss"] - b["loss"]) <= 1e-5 * abs(b["loss"]) for a, b in zip(rest, two[3:])), rest[:2])
finish()
