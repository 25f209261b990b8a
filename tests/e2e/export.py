#!/usr/bin/env python3
"""What an export holds beside the weights: config, tokenizer and template of the model's folder, the type of its weights, shards."""
import array
import json
import shutil
import struct

from support import GOLDEN, check, finish, read_safetensors, run, scratch, write_safetensors


def header(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def types(folder):
    return {entry["dtype"] for path in folder.glob("*.safetensors") for name, entry in header(path).items() if name != "__metadata__"}


with scratch() as work:
    model = work / "model"
    model.mkdir()
    for name in ("model.onnx", "config.json"):
        shutil.copy(GOLDEN / "grouped" / name, model / name)
    companions = {"tokenizer.json": "{}", "tokenizer_config.json": "{}", "special_tokens_map.json": "{}", "generation_config.json": "{}",
                  "chat_template.jinja": "{{ messages }}", "merges.txt": "#version: 0.2"}
    for name, text in companions.items():
        (model / name).write_text(text)
    plan = work / "plan.bin"
    run("ztc", "compile", model / "model.onnx", "--batch=2", "--seq=16", "--precision=bf16", "--target=host", "-o", plan)
    train = [plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=2", "--device=cpu"]
    done = run("ztc-run", *train, f"--export={work / 'out'}")
    check("config and tokenizer files come along", all((work / "out" / name).read_text() == text for name, text in companions.items()), sorted(work.glob("out/*")))
    check("fp32 weights stay fp32 where bf16 is computed in", types(work / "out") == {"F32"}, types(work / "out"))
    said = [line for line in done.stdout.splitlines() if line.startswith("exported")]
    check("it is said", len(said) == 1 and "fp32, config.json, tokenizer of" in said[0], said)
    config, original = json.loads((work / "out" / "config.json").read_text()), json.loads((model / "config.json").read_text())
    types_of = lambda c: c.get("dtype", c.get("torch_dtype"))
    check("config.json is the model's but for the type", types_of(config) == "float32"
          and all(config[key] == value for key, value in original.items() if "dtype" not in key), config)
    run("ztc-run", *train, f"--export={work / 'narrow'}", "--export-dtype=bf16", "--shard-size=20KB")
    check("--export-dtype", types(work / "narrow") == {"BF16"} and types_of(json.loads((work / "narrow" / "config.json").read_text())) == "bfloat16")
    shards = sorted(work.glob("narrow/model-*.safetensors"))
    index = json.loads((work / "narrow" / "model.safetensors.index.json").read_text())
    check("--shard-size", len(shards) > 1 and set(index["weight_map"].values()) == {p.name for p in shards}, shards)

    # Weights of their own folder bring its files.
    other = work / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({**original, "of": "other"}))
    (other / "tokenizer.json").write_text('{"of": "other"}')
    write_safetensors(other / "model.safetensors", {name: (shape, array.array("f", values)) for name, (shape, values) in
                                                    read_safetensors(work / "out" / "model.safetensors").items()})
    run("ztc-run", *train, f"--weights={other}", f"--export={work / 'third'}")
    check("--weights DIR: its config and tokenizer", "other" in (work / "third" / "tokenizer.json").read_text()
          and json.loads((work / "third" / "config.json").read_text())["of"] == "other")

    bare = work / "bare"
    bare.mkdir()
    shutil.copy(GOLDEN / "grouped" / "model.onnx", bare)
    run("ztc", "compile", bare / "model.onnx", "--batch=2", "--seq=16", "--target=host", "-o", plan)
    done = run("ztc-run", *train, f"--export={work / 'lone'}")
    check("what a reader will miss is said", "without config.json and tokenizer" in done.stdout and "--hf-config" in done.stdout, done.stdout[-300:])
finish()
