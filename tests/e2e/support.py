"""Helpers of the end-to-end tests; Python's standard library only."""
import array
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build/bin"))
GOLDEN = ROOT / "tests/golden"
failures = []


def check(name, good, detail=""):
    """Prints one line and remembers a failure."""
    print(f"{'ok  ' if good else 'FAIL'} {name} {detail}", flush=True)
    if not good:
        failures.append(name)


def finish():
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def run(program, *arguments, expect=0, timeout=240, **more):
    """Runs a ztc program; `expect` is its exit status, or None for any. Returns the finished process."""
    command = [str(BIN / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **more)
    if expect is not None and done.returncode != expect:
        print("$", " ".join(command))
        print(done.stdout[-2000:], done.stderr[-4000:], sep="\n")
        check(f"{program} exits with {expect}", False, f"(it was {done.returncode})")
    return done


def scratch():
    """A temporary folder as a context manager that gives a path."""
    class Folder(tempfile.TemporaryDirectory):
        def __enter__(self):
            return pathlib.Path(super().__enter__())
    return Folder(prefix="ztc-test-")


def read_safetensors(path):
    """name -> (shape, array of floats or integers)."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    codes = {"F32": "f", "F64": "d", "I64": "q", "I32": "i"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = array.array(codes[entry["dtype"]])
            values.frombytes(data[8 + size + begin:8 + size + end])
            tensors[name] = (entry["shape"], values)
    return tensors


def write_safetensors(path, tensors):
    """tensors: name -> (shape, array.array of type q, i or f)."""
    codes = {"f": "F32", "q": "I64", "i": "I32"}
    header, blob = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": codes[values.typecode], "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + blob)


def read_log(path):
    """(run header, steps) of a --log-json file."""
    lines = [json.loads(x) for x in pathlib.Path(path).read_text().splitlines() if x.strip()]
    return lines[0], [x for x in lines[1:] if "loss" in x and not x.get("event")]


def compile_golden(folder, name, *arguments, batch=2, seq=16):
    """Compiles tests/golden/<name> and returns the plan's path."""
    plan = folder / f"{name}.bin"
    run("ztc", "compile", GOLDEN / name / "model.onnx", f"--batch={batch}", f"--seq={seq}", "-o", plan, *arguments)
    return plan


def optimizer_arguments(golden):
    """The options that repeat the optimizer of golden.json."""
    return [f"--lr={golden['lr']}", f"--beta1={golden['betas'][0]}", f"--beta2={golden['betas'][1]}", f"--epsilon={golden['epsilon']}",
            f"--weight-decay={golden['weight_decay']}", f"--clip={golden['clip']}", f"--warmup={golden['warmup']}",
            f"--min-lr-ratio={golden['min_lr_ratio']}", "--schedule=cosine", "--device=cpu", "--no-save"]
