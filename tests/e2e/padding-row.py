#!/usr/bin/env python3
"""Lookups of the padding token give a tied table no gradient, the head does: without the rule its row has another one, and no other row."""
import json

from support import GOLDEN, check, compile_golden, finish, read_safetensors, run, scratch

folder, name = GOLDEN / "padded", "model.embed_tokens.weight"
golden = json.loads((folder / "golden.json").read_text())
(rows, width), want = read_safetensors(folder / "golden.safetensors")[name]
padding = json.loads((folder / "config.json").read_text())["pad_token_id"]


def gradient(work, *arguments):
    plan = compile_golden(work, "padded", *arguments, batch=golden["batch"], seq=golden["seq"])
    run("ztc-run", plan, f"--data={folder / 'data.safetensors'}", "--steps=1", "--no-save", "--device=cpu", f"--dump-gradients={work / 'gradients'}")
    return read_safetensors(work / "gradients")[name][1]


def rows_that_differ(mine):
    largest = max(map(abs, want))
    return {i // width for i, (a, b) in enumerate(zip(mine, want)) if abs(a - b) > 1e-4 * largest}


with scratch() as work:
    report = json.loads(run("ztc", "check", folder / "model.onnx", "--json", "--precision=fp32").stdout)
    check("check names the row", report["padding_rows"] == [{"table": name, "token": padding, "reason": "the exporter's metadata"}], report["padding_rows"])
    check("the head's share stays", any(want[padding * width : (padding + 1) * width]))
    check("PyTorch's gradient", rows_that_differ(gradient(work)) == set())
    check("without the rule the row has another gradient", rows_that_differ(gradient(work, "--padding-token=none")) == {padding})
    other = (padding + 1) % rows
    check("with another token both rows have", rows_that_differ(gradient(work, f"--padding-token={other}")) >= {padding})
finish()
