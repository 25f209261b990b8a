#!/usr/bin/env python3
"""Weights from a sharded Hugging Face folder give the run that weights from the ONNX file give, to the bit."""
import json

from support import GOLDEN, check, compile_golden, finish, read_log, read_safetensors, run, scratch, write_safetensors

with scratch() as work:
    data = GOLDEN / "grouped" / "data.safetensors"
    plan = compile_golden(work, "grouped")
    common = ["--device=cpu", f"--data={data}", "--steps=1", "--lr=0"]
    run("ztc-run", plan, *common, f"--export={work / 'whole'}", "--export-dtype=fp32", f"--log-json={work / 'one'}")
    tensors = read_safetensors(work / "whole" / "model.safetensors")
    folder = work / "sharded"
    folder.mkdir()
    names, files = sorted(tensors), ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    where = {name: files[i % 2] for i, name in enumerate(names)}
    for file in files:
        write_safetensors(folder / file, {n: tensors[n] for n in names if where[n] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    other = work / "other.bin"
    run("ztc", "compile", GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16", "--precision=fp32", f"--weights={folder}", "-o", other)
    run("ztc-run", other, *common, "--no-save", f"--log-json={work / 'two'}")
    run("ztc-run", plan, *common, "--no-save", f"--weights={folder}", f"--log-json={work / 'three'}")
    losses = [read_log(work / x)[1][0]["loss"] for x in ("one", "two", "three")]
    check("the same loss from the file, from the folder at compile time and at run time", len(set(losses)) == 1, losses)
finish()
