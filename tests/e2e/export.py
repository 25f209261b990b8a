#!/usr/bin/env python3
"""What an export holds beside the weights: config, tokenizer and template of the model's folder, the type of its weights, shards."""
import array
import json
import shutil
import struct

from support import GOLDEN, ROOT, check, finish, read_log, read_safetensors, run, scratch, write_safetensors


def header(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def types(folder):
    return {entry["dtype"] for path in folder.glob("*.safetensors") for name, entry in header(path).items() if name != "__metadata__"}


def raw(folder):
    """name -> (type, shape, bytes)."""
    tensors = {}
    for path in folder.glob("*.safetensors"):
        data, entries = path.read_bytes(), header(path)
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        tensors |= {name: (e["dtype"], e["shape"], data[begin + e["data_offsets"][0]:begin + e["data_offsets"][1]]) for name, e in entries.items()
                    if name != "__metadata__"}
    return tensors


def write_raw(path, tensors):
    entries, blob = {}, b""
    for name, (kind, shape, data) in tensors.items():
        entries[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def multi_modal(work):
    """A vision tower goes along bit for bit, and what else the plan does not train; a stored copy of a tied head does not."""
    folder, plan = work / "vision", work / "vision.bin"
    shutil.copytree(ROOT / "tests/folders/gemma3-vision", folder)
    stored = raw(folder)
    added = {"buffer.of.bytes": ("F8_E4M3", [3], b"\1\2\3"), "buffer.of.numbers": ("I64", [2], struct.pack("<2q", -5, 2**40))}
    embedding = stored["language_model.model.embed_tokens.weight"]
    write_raw(folder / "model.safetensors", stored | added | {"language_model.lm_head.weight": embedding})
    golden = json.loads((folder / "golden.json").read_text())
    tokens = lambda key: ([1, golden["batch"], golden["seq"]], array.array("q", [x for row in golden[key][0] for x in row]))
    write_safetensors(work / "tokens.safetensors", {key: tokens(key) for key in ("input_ids", "labels")})
    run("ztc", "compile", folder, "--batch=1", f"--seq={golden['seq']}", "--precision=fp32", "--target=host", "-o", plan)
    others = {name: tensor for name, tensor in (stored | added).items() if name not in golden["gradients"]}
    check("the folder holds more than what is trained", len(others) > 10, len(others))
    for label, arguments in (("one rank", []), ("two ranks, small shards", ["--ranks=2", "--shard-size=20KB", "--accumulate=1"]), ("in another type", ["--export-dtype=fp16"])):
        out = work / label.replace(" ", "-")
        done = run("ztc-run", plan, f"--data={work / 'tokens.safetensors'}", "--steps=1", "--device=cpu", f"--export={out}", *arguments, expect=None)
        if done.returncode:
            check(f"multi-modal, {label}", False, done.stderr[-300:])
            continue
        exported, index = raw(out), json.loads((out / "model.safetensors.index.json").read_text())
        check(f"multi-modal, {label}: the same tensors", set(exported) == set(stored | added), sorted(set(exported) ^ set(stored | added))[:4])
        check(f"multi-modal, {label}: what is not trained, bit for bit", all(exported.get(name) == tensor for name, tensor in others.items()))
        check(f"multi-modal, {label}: what is trained has changed", all(exported[name][2] != stored[name][2] for name in golden["gradients"] if name.endswith("proj.weight")))
        files = {path.name: set(header(path)) - {"__metadata__"} for path in out.glob("*.safetensors")}
        check(f"multi-modal, {label}: the index says where", index["weight_map"] == {name: file for file, names in files.items() for name in names}
              and all(name.startswith("model-0") for name in files), sorted(files))
        check(f"multi-modal, {label}: it is said", f"{len(others)} tensors that are not trained as they were" in done.stdout, done.stdout[-300:])


def speaking(work):
    """A folder whose language model is part of one that speaks: its tensors keep their names, and those of speech go along."""
    folder, plan, out = work / "speaking", work / "speaking.bin", work / "spoken"
    source = ROOT / "tests/folders/qwen2_5-omni"
    folder.mkdir()
    shutil.copy(source / "config-speaks.json", folder / "config.json")
    golden = json.loads((source / "golden.json").read_text())
    stored = {f"thinker.{name}": tensor for name, tensor in raw(source).items()} | {"talker.model.embed_tokens.weight": ("BF16", [2], b"\1\2\3\4")}
    write_raw(folder / "model.safetensors", stored)
    tokens = lambda key: ([1, golden["batch"], golden["seq"]], array.array("q", [x for row in golden[key][0] for x in row]))
    write_safetensors(work / "tokens.safetensors", {key: tokens(key) for key in ("input_ids", "labels")})
    run("ztc", "compile", folder, f"--batch={golden['batch']}", f"--seq={golden['seq']}", "--precision=fp32", "--target=host", "-o", plan)
    run("ztc-run", plan, f"--data={work / 'tokens.safetensors'}", "--steps=1", "--device=cpu", f"--export={out}", f"--log-json={work / 'log'}")
    loss = read_log(work / "log")[1][0]["loss"]
    check("a model that speaks: its loss", abs(loss - golden["losses"][0]) < 1e-5, loss)
    exported, trained = raw(out), {f"thinker.{name}" for name in golden["gradients"]}
    check("a model that speaks: the same tensors", set(exported) == set(stored), sorted(set(exported) ^ set(stored))[:4])
    check("a model that speaks: what is not trained, bit for bit", all(exported[name] == tensor for name, tensor in stored.items() if name not in trained))
    check("a model that speaks: what is trained has changed", trained <= set(stored) and all(exported[name][2] != stored[name][2] for name in trained if name.endswith("proj.weight")))


with scratch() as work:
    multi_modal(work)
    speaking(work)
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
