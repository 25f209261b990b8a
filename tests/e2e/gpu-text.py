#!/usr/bin/env python3
"""Texts of several prompts at a time, with a cache and without, and the probabilities of choices, on the CUDA device over the stand-ins of tests/standin: those of
the host."""
import json

from support import ROOT, check, finish, run, scratch, stand_ins

ENVIRONMENT = stand_ins(ZTC_CUDNN="0")

with scratch() as work:
    (work / "prompts.txt").write_bytes(b"\x05\x11\x07\n\x21\n\x30\x02\x19\x0b\n\x22\x06\n\x11\x12\x13\n")
    (work / "questions.jsonl").write_text("".join(json.dumps({"context": "\x05\x11" + chr(33 + i), "choices": ["\x07\x21", "\x30", "\x02\x19\x0b"], "answer": i % 3}) + "\n" for i in range(3)))
    for kind, options in (("with a cache", ["--generate"]), ("without", [])):
        plan = work / f"{kind.replace(' ', '-')}.bin"
        run("ztc", "compile", ROOT / "tests/folders/llama-heads", "--batch=3", "--seq=24", "--precision=fp32", "--target=host,simt", *options, "-o", plan)
        texts = [run("ztc-run", plan, *device, "--prompts", work / "prompts.txt", "--generate=12", "--temperature=2", "--seed=3", env=ENVIRONMENT).stdout
                 for device in (["--device=cpu"], ["--gpus=1"])]
        check(f"five texts, three at a time, {kind}: those of the host", texts[0] == texts[1] and texts[0].count("\n") == 5, texts)
    found = []
    for device in (["--device=cpu"], ["--gpus=1"]):
        log = work / "log"
        run("ztc-run", plan, *device, "--eval-only", "--eval-choices", work / "questions.jsonl", "--tokenizer=bytes", f"--log-json={log}", "--overwrite", env=ENVIRONMENT)
        found.append([x for line in log.read_text().splitlines() if '"choice"' in line for x in json.loads(line)["log_probabilities"]])
    far = [abs(a - b) / max(1, abs(b)) for a, b in zip(*found)]
    check("nine choices, three at a time: the host's probabilities", len(far) == 9 and max(far) < 1e-5, far)
finish()
