#!/usr/bin/env python3
"""Writes the inputs that fuzzing begins with, from the goldens: seeds.py FOLDER (a folder for each target in it). Exported models in the folder
that ZTC_FIXTURES names are taken too. Large weights become external data: their bytes are nothing to look for faults in."""
import json
import os
import pathlib
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
PART_END = b"\n--part--\n"  # Fuzz.h
LARGEST = 256  # bytes of a tensor that stays
out = pathlib.Path(sys.argv[1])


def write(target, name, content):
    (out / target).mkdir(parents=True, exist_ok=True)
    (out / target / name).write_bytes(content)


def varint(value):
    text = b""
    while value >= 0x80:
        text, value = text + bytes([value & 0x7F | 0x80]), value >> 7
    return text + bytes([value])


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, wire type, value or bytes) of a message."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else read_varint(data, at)
            value, at = data[at:at + size], at + size
        yield tag >> 3, kind, value


def message(parts):
    return b"".join(varint(number << 3 | kind) + (varint(value) if kind == 0 else (varint(len(value)) if kind == 2 else b"") + value) for number, kind, value in parts)


def without_weights(model):
    """The model with its large tensors in another file (ModelProto.graph = 7, GraphProto.initializer = 5, TensorProto.raw_data = 9)."""
    def tensor(data):
        parts = list(fields(data))
        raw = next((value for number, kind, value in parts if number == 9 and kind == 2), b"")
        if len(raw) <= LARGEST:
            return data
        entry = lambda key, value: (13, 2, message([(1, 2, key), (2, 2, value)]))
        return message([p for p in parts if p[0] != 9] + [entry(b"location", b"model.onnx.data"), entry(b"offset", b"0"), entry(b"length", str(len(raw)).encode()), (14, 0, 1)])
    graph = lambda data: message([(n, k, tensor(v) if n == 5 and k == 2 else v) for n, k, v in fields(data)])
    # Metadata of nodes and of the graph stays: names come from it.
    return message([(n, k, graph(v) if n == 7 and k == 2 else v) for n, k, v in fields(model)])


models = sorted(GOLDEN.glob("*/model.onnx"))
if os.environ.get("ZTC_FIXTURES"):
    models += sorted(pathlib.Path(os.environ["ZTC_FIXTURES"]).glob("*-tiny*/*.onnx"))
for model in models:
    write("onnx", f"{model.parent.name}-{model.name}", without_weights(model.read_bytes()))

for config in sorted(GOLDEN.rglob("config.json")):
    write("config", config.parent.name, config.read_bytes())

file = (GOLDEN / "grouped" / "data.safetensors").read_bytes()
small = lambda header, data: struct.pack("<Q", len(header)) + header + data
one = small(b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}', bytes(10))
index = json.dumps({"metadata": {"total_size": 10}, "weight_map": {"a": "model-00001-of-00001.safetensors", "b": "model-00001-of-00001.safetensors"}}).encode()
write("safetensors", "file", one)
write("safetensors", "data", file)
write("safetensors", "index", index + PART_END + one)

tokens = b"".join(struct.pack("<H", i % 300) for i in range(80))
llmc = lambda magic, version, width: struct.pack("<3i", magic, version, 40) + bytes(1012) + b"".join(struct.pack("<" + width, i) for i in range(40))
megatron = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3) + struct.pack("<2i", 30, 10) + struct.pack("<2q", 0, 60) + struct.pack("<3q", 0, 1, 2)
write("tokens", "nanogpt", b"\0" + tokens)
write("tokens", "llmc16", b"\0" + llmc(20240520, 1, "H"))
write("tokens", "llmc32", b"\0" + llmc(20240801, 7, "I"))
write("tokens", "megatron", b"\1" + megatron + PART_END + tokens)
write("tokens", "safetensors", b"\2" + file)
write("tokens", "text", b"\3" + b"Friends are those who know you. " * 4)

for folder in sorted((GOLDEN / "tokenizers").iterdir()):
    first = json.loads((folder / "expected.jsonl").read_text().splitlines()[0])
    write("tokenizer", folder.name, (folder / "tokenizer.json").read_bytes() + PART_END + first["text"].encode())

write("json", "trainer", json.dumps({"version": 1, "step": 3, "adam_count": 3, "epoch": 0, "rows": 6, "global_batch": 2, "seed": 1, "good_steps": 1, "skipped_in_a_row": 0, "shuffle": True,
                                     "loss_scale": 1.0, "environment": {"threads": "2"}, "algorithms": {"key": "cuBLASLt", "algorithms": {"64x64x64": "0a00"}}}).encode())
write("json", "manifest", json.dumps({"version": 1, "files": [{"name": "model.safetensors", "size": 100, "sha256": ["00" * 32]}]}).encode())
write("json", "algorithms", json.dumps({"key": "cuBLASLt 13", "algorithms": {"64x192x64 NT": "0a00"}}).encode())

# What a rank says, each message with its length in front (runtime/Ranks/ranks.proto); the first byte: from a rank, or from a stranger.
frame = lambda kind, *content: (lambda body: struct.pack("<I", len(body)) + body)(message([(kind, 2, message(list(content)))]))
progress = [(1, 2, b"training"), (2, 0, 7), (3, 2, b"all_gather block3"), (5, 0, 1), (7, 0, 12)]
said = [frame(5, *progress), frame(2, (1, 2, b"plan"), (2, 0, 0), (3, 2, b"bytes")), frame(3, (1, 2, b"key"), (2, 2, b"value")), frame(4, (1, 0, 1), (2, 2, b"key")),
        frame(6, (1, 0, 3), (2, 2, b"rank 1: the disk is full")), frame(7)]
write("wire", "rank", b"\1" + b"".join(said))
write("wire", "stranger", b"\0" + frame(1, (2, 0, 3), (3, 2, b"nonce"), (4, 2, message([(1, 0, 1), (2, 0, 2), (3, 2, b"1")])), (5, 2, b"proof")))

# Plans without their header and without code: kernels' images are nothing to mutate either.
bin_folder = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build" / "bin"))
for name, options in (("fp32", ["--precision=fp32"]), ("zero3", ["--precision=bf16", "--zero=3"])):
    plan = out / "plan.bin"
    subprocess.run([bin_folder / "ztc", "compile", GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16", "--target=host", *options, "-o", plan], check=True, capture_output=True)
    cut = lambda data, depth=0: message([(n, k, cut_bytes(v, depth) if k == 2 else v) for n, k, v in fields(data)])

    def cut_bytes(value, depth):
        if len(value) > 4096 and value[:4] == b"\x7fELF":
            return value[:64]
        try:
            return cut(value, depth + 1) if len(value) > 4096 and depth < 4 else value
        except IndexError:
            return value
    write("plan", name, cut(plan.read_bytes()[56:]))
    plan.unlink()
