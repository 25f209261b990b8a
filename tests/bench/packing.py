#!/usr/bin/env python3
"""Packed rows beside padded ones: tokens of documents per second over one epoch of chats, and the share of padding.

    tests/bench/packing.py CONFIG_FOLDER [--seq 512 --batch 4 --chats 240 --rounds 3 --precision fp32]

The chats are random tokens of the lengths that instruction data have: log-normal, a median of 110 and a mean of 140 tokens (sigma 0.7), which is what such
sets report within a factor of two; the first third of each is a prompt. Both plans take the same documents in global batches of --batch rows; runs alternate.
"""
import argparse
import array
import json
import pathlib
import random
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import read_log, run, scratch, write_safetensors  # noqa: E402


def chats(path, count, seq, vocabulary):
    """Rows of S tokens, padded; prompts do not count. Returns the tokens of documents."""
    rng = random.Random(1)
    ids, labels, tokens = [], [], 0
    for _ in range(count):
        length = max(8, min(seq, round(rng.lognormvariate(4.7, 0.7))))
        row = [rng.randrange(vocabulary) for _ in range(length)]
        ids += row + [0] * (seq - length)
        labels += [-100] * (length // 3) + row[length // 3:] + [-100] * (seq - length)
        tokens += length - 1
    write_safetensors(path, {"input_ids": ([count, seq], array.array("q", ids)), "labels": ([count, seq], array.array("q", labels))})
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    for name, default in (("seq", 512), ("batch", 4), ("chats", 240), ("rounds", 3), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", default="fp32")
    o = parser.parse_args()
    with scratch() as work:
        tokens = chats(work / "chats.safetensors", o.chats, o.seq, json.loads((o.folder / "config.json").read_text())["vocab_size"])
        times, padding = {}, {}
        for kind in ("packed", "padded"):
            run("ztc", "compile", o.folder, "-o", work / f"{kind}.bin", "--target=host", f"--batch={o.batch}", f"--seq={o.seq}", f"--precision={o.precision}",
                *(["--pack"] if kind == "packed" else []), timeout=600)
        for _ in range(o.rounds):
            for kind in ("packed", "padded"):
                run("ztc-run", work / f"{kind}.bin", f"--data={work / 'chats.safetensors'}", "--epochs=1", "--device=cpu", "--no-save", "--init=normal:0.02",
                    f"--log-json={work / 'log'}", "--overwrite", *([f"--threads={o.threads}"] if o.threads else []), timeout=3600)
                head, steps = read_log(work / "log")
                times.setdefault(kind, []).append(sum(s["step_ms"] for s in steps) / 1e3)
                padding[kind] = 1 - tokens / (head["rows"] * o.seq)
        for kind in ("packed", "padded"):
            rates = [tokens / t for t in times[kind]]
            print(f"{kind}: {100 * padding[kind]:.1f} % padding, {statistics.median(rates):.0f} tokens of documents a second ({min(rates):.0f} to {max(rates):.0f})")
        ratios = [b / a for a, b in zip(times["packed"], times["padded"])]
        print(f"packed is {statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f})")


main()
