#!/usr/bin/env python3
"""ONNX graphs whose weights are stored in fewer bits (MatMulNBits, GatherBlockQuantized, DequantizeLinear, MatMulInteger): the numbers that they stand for, bit by bit, the loss of onnxruntime and
PyTorch; trained, sharded, beside adapters; what is damaged or of another form, by name."""
import array
import hashlib
import json
import shutil

from support import GOLDEN, check, finish, first_step, raw_tensors, run, scratch, write_safetensors

PLACE = GOLDEN / "quantized-graphs"


def hashes(folder, names):
    """Of weights in their type, a zero of either sign as one."""
    tensors, found = raw_tensors(folder / "model.safetensors"), {}
    for name in names:
        kind, _, data = tensors[name]
        words = array.array("H" if kind == "F16" else "I", data)
        sign = 0x8000 if kind == "F16" else 0x80000000
        found[name] = hashlib.sha256(array.array(words.typecode, [0 if x == sign else x for x in words]).tobytes()).hexdigest()
    return found


class Graphs:
    def __init__(self, work):
        self.work = work
        self.golden = json.loads((PLACE / "graphs.json").read_text())
        ids = self.golden["input_ids"]
        tokens, shape = array.array("q", [x for row in ids for x in row]), [1, len(ids), len(ids[0])]
        self.data = work / "data.safetensors"
        write_safetensors(self.data, {"input_ids": (shape, tokens), "labels": (shape, tokens)})

    def compile(self, graph, plan, *arguments, precision="fp32", batch=None, expect=0):
        return run("ztc", "compile", graph, "-o", plan, "--target=host", f"--batch={batch or self.golden['batch']}", f"--seq={self.golden['seq']}", f"--precision={precision}", *arguments, expect=expect)

    def train(self, plan, *arguments, lr=0, expect=0):
        """One step at a rate of 0: loss and norm of the weights as they are."""
        return first_step(self.work, plan, self.data, *arguments, lr=lr, expect=expect)


def numbers(graphs, name, golden):
    graph, plan, export = PLACE / f"{name}.onnx", graphs.work / f"{name}.plan", graphs.work / f"{name}-export"
    listed = json.loads(run("ztc", "check", graph, "--json").stdout)["parameters"]
    said = sorted(p["name"] for p in listed if any("dequantised as it is loaded" in t for t in p["transformations"]))
    check(f"{name}: check says which those are", said == sorted(golden["sha256"]), said)
    done = graphs.compile(graph, plan)
    check(f"{name}: compile says what is dequantised", f"{len(said)} weights are stored in fewer bits" in done.stdout + done.stderr, done.stdout[-600:] + done.stderr[-600:])
    check(f"{name}: and that products read data as they are", ("to 8 bits: training reads them as they are" in done.stdout + done.stderr) == name.startswith("dynamic"))
    _, step = graphs.train(plan, f"--export={export}")
    rotary = 1e-4 if golden["type"] == "F16" else 0  # the frequencies of such a graph are f16 too, PyTorch's are not
    for what, wanted, limit in (("loss", "loss", max(2e-6, rotary)), ("loss", "onnxruntime", 2e-6), ("grad_norm", "norm", max(2e-5, rotary))):
        if wanted in golden:
            check(f"{name}: {wanted}", abs(step[what] - golden[wanted]) <= limit * golden[wanted], (step[what], golden[wanted]))
    types = {kind for kind, _, _ in raw_tensors(export / "model.safetensors").values()}
    check(f"{name}: exported in the type of the scales", types == {golden["type"]}, types)
    check(f"{name}: each number, bit by bit", hashes(export, said) == golden["sha256"])
    graphs.compile(graph, plan, "--zero=3", batch=graphs.golden["batch"] // 2)
    _, sharded = graphs.train(plan, "--ranks=2")
    check(f"{name}: ZeRO-3 on two ranks", abs(sharded["loss"] - step["loss"]) <= 2e-6 * step["loss"], (sharded["loss"], step["loss"]))
    graphs.compile(graph, plan, precision="bf16")
    _, narrow = graphs.train(plan)
    check(f"{name}: bf16", abs(narrow["loss"] - step["loss"]) <= 1e-2 * step["loss"], (narrow["loss"], step["loss"]))


def adapters(graphs):
    graph, golden = PLACE / "q4-zeros.onnx", graphs.golden["graphs"]["q4-zeros"]
    plan, merged = graphs.work / "adapter.plan", graphs.work / "merged"
    for words, limit in (([], 2e-6), (["--quantize=nf4"], 0.05), (["--quantize=int8", "--zero=3"], 0.05)):
        graphs.compile(graph, plan, "--lora=r=2,alpha=4,targets=all-linear", *words)
        _, step = graphs.train(plan, lr=1e-3)
        check(f"an adapter beside it {words}", abs(step["loss"] - golden["loss"]) <= limit * golden["loss"], (step["loss"], golden["loss"]))
    graphs.compile(graph, plan, "--lora=r=2,alpha=4,targets=all-linear")
    graphs.train(plan, "--merge", f"--export={merged}", "--export-dtype=fp32")
    check("merged with nothing learned", hashes(merged, golden["sha256"]) == golden["sha256"])


def elsewhere(graphs):
    """Full weights from a folder; a plan whose graph moved, changed or is gone; the way back into the graph."""
    graph, plan = PLACE / "linear-fp8.onnx", graphs.work / "full.plan"
    folder = graphs.work / "linear-int8-export"
    graphs.compile(graph, plan, f"--weights={folder}")
    _, step = graphs.train(plan)
    loss = graphs.golden["graphs"]["linear-int8"]["loss"]
    check("--weights in place of the codes", abs(step["loss"] - loss) <= 2e-6 * loss, (step["loss"], loss))
    done = run("ztc", "export", graph, f"--weights={folder}", "-o", graphs.work / "back.onnx", expect=1)
    check("ztc export does not quantise again", "in fewer bits" in done.stderr and not (graphs.work / "back.onnx").exists(), done.stderr)
    done = graphs.compile(graph, plan, f"--weights={GOLDEN / 'quantized-checkpoints' / 'awq'}", expect=1)
    check("--weights in fewer bits", "quant_method awq" in done.stderr and "compile that folder itself" in done.stderr, done.stderr)
    moved = graphs.work / "moved"
    moved.mkdir()
    for file in ("q4-zeros.onnx", "q4-zeros.onnx.data"):
        shutil.copy(PLACE / file, moved)
    graphs.compile(moved / "q4-zeros.onnx", moved / "plan.bin")
    data = (moved / "q4-zeros.onnx.data").read_bytes()
    for what, change in (("codes and scales", lambda x: bytes(255 - b for b in x)), ("a file that is shorter", lambda x: x[:-1])):
        (moved / "q4-zeros.onnx.data").write_bytes(change(data))
        done, _ = graphs.train(moved / "plan.bin", expect=1)
        check(f"{what} that changed since", "compile again or give --weights" in done.stderr, done.stderr)
    (moved / "q4-zeros.onnx.data").unlink()
    done, _ = graphs.train(moved / "plan.bin", expect=1)
    check("a file that is gone", "give --weights" in done.stderr, done.stderr)
    done = graphs.compile(moved / "q4-zeros.onnx", moved / "plan.bin", expect=None)
    check("a graph without its data", "q4-zeros.onnx.data" in done.stdout + done.stderr, done.stderr)


def varint(number):
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes(data + bytes([number]))


def refusals(graphs):
    """An attribute's number, or a name, that makes parts not fit."""
    text = (PLACE / "q4.onnx").read_bytes()

    def attribute(name, value):  # AttributeProto: name = 1, i = 3, type = 20
        at = text.index(b"\x0a" + varint(len(name)) + name)
        place = text.index(b"\x18", at + len(name) + 2) + 1
        return text[:place] + varint(value) + text[place + 1:]
    cases = {
        "K": (attribute(b"K", 65), "does not fit its other inputs"),
        "N": (attribute(b"N", 47), "does not fit its other inputs"),
        "block_size": (attribute(b"block_size", 16), "does not fit its other inputs"),
        "no block": (attribute(b"block_size", 0), "impossible sizes"),
        "bits": (attribute(b"bits", 3), "codes of 3 bits"),
        "scales": (text.replace(b"_scales", b"_scalex", 1), "nothing before it defines"),
    }
    for what, (changed, wanted) in cases.items():
        file = graphs.work / "refused.onnx"
        file.write_bytes(changed)
        done = graphs.compile(file, graphs.work / "refused.plan", expect=1)
        check(f"refused: {what}", wanted in done.stderr and done.stderr.count("\n") <= 2 and not (graphs.work / "refused.plan").exists(), done.stderr)


def mutations(graphs, rounds=150):
    """Any byte may be any other: no crash."""
    state = 1
    for name in ("q4-zeros", "linear-int4-columns", "q4-tables"):
        text = bytearray((PLACE / f"{name}.onnx").read_bytes())
        for _ in range(rounds // 3):
            changed = bytearray(text)
            for _ in range(3):
                state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
                changed[(state >> 33) % len(changed)] = state >> 20 & 255
            file = graphs.work / "mutated.onnx"
            file.write_bytes(changed)
            shutil.copy(PLACE / "q4-zeros.onnx.data", graphs.work / "q4-zeros.onnx.data")
            done = run("ztc", "check", file, expect=None)
            if done.returncode not in (0, 1):
                check(f"{name}: a mutated file", False, (done.returncode, done.stderr[-400:]))
                return
    check("mutated files: no crash", True)


with scratch() as work:
    graphs = Graphs(work)
    for name, golden in graphs.golden["graphs"].items():
        numbers(graphs, name, golden)
    adapters(graphs)
    elsewhere(graphs)
    refusals(graphs)
    mutations(graphs)
finish()
