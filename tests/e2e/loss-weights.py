#!/usr/bin/env python3
"""Losses whose targets have weights: PyTorch's numbers (tests/golden/loss_weights.py), bits at every stage and on any ranks, packed rows, GPUs, what is refused; weights
of 1 change no bit, a weight of 0 is a label of -100."""
import array
import json
import math

from support import GOLDEN, ROOT, check, finish, optimizer_arguments, read_log, read_safetensors, run, scratch, stand_ins, write_safetensors

goldens = json.loads((GOLDEN / "loss_weights.json").read_text())["cases"]


def flat(rows):
    return [x for batch in rows for row in batch for x in row]


class Case:
    def __init__(self, name, work):
        self.name, self.work, self.golden, self.folder = name, work, goldens[name], ROOT / "tests/folders" / name
        self.model = json.loads((self.folder / "golden.json").read_text())
        self.steps, self.batch, self.seq = (self.model[key] for key in ("steps", "batch", "seq"))
        self.ids, self.labels, self.weights = flat(self.model["input_ids"]), flat(self.model["labels"]), flat(self.golden["weights"])

    def data(self, name, labels=None, weights=()):
        """The rows as a file; `weights` of () stands for the golden's, None for a file without."""
        path, shape = self.work / f"{name}.safetensors", [self.steps, self.batch, self.seq]
        weights = self.weights if weights == () else weights
        write_safetensors(path, {"input_ids": (shape, array.array("q", self.ids)), "labels": (shape, array.array("q", labels or self.labels)),
                                 **({"loss_weights": (shape, array.array("f", weights))} if weights else {})})
        return path

    def compile(self, name, *arguments, batch=None, precision="fp32", target="host", weighted=True, expect=0):
        plan = self.work / f"{name}.bin"
        done = run("ztc", "compile", self.folder, "-o", plan, f"--target={target}", f"--batch={batch or self.batch}", f"--seq={self.seq}", f"--precision={precision}",
                   *["--loss-weights"] * weighted, *arguments, expect=expect)
        return plan if expect == 0 else done

    def run(self, plan, data, *arguments, steps=None, expect=0, env=None, device="--device=cpu"):
        log = self.work / "log"
        optimizer = [x for x in optimizer_arguments(self.model["optimizer"]) if x != "--device=cpu"]
        done = run("ztc-run", plan, f"--data={data}", f"--steps={steps or self.steps}", f"--log-json={log}", "--overwrite", *optimizer, device, *arguments, expect=expect, env=env)
        return done, read_log(log)[1] if done.returncode == 0 else None

    def bits(self, plan, data, *arguments, **more):
        """Losses, norms and the first gradients, as they are."""
        dump = self.work / "bits"
        _, steps = self.run(plan, data, f"--dump-gradients={dump}", "--threads=1", *arguments, **more)
        return [(s["loss"], s["grad_norm"], s["targets"]) for s in steps], dump.read_bytes()


def parity(case):
    plan, data, dump = case.compile("parity"), case.data("rows"), case.work / "gradients"
    done, steps = case.run(plan, data, f"--dump-gradients={dump}")
    if done.returncode:
        return
    golden = case.golden
    check(f"{case.name}: first loss", abs(steps[0]["loss"] - golden["losses"][0]) <= 1e-5, (steps[0]["loss"], golden["losses"][0]))
    mine = {n: math.sqrt(sum(x * x for x in v)) for n, (_, v) in read_safetensors(dump).items()}
    largest = max(golden["gradients"].values())
    worst = max((abs(mine.get(n, math.inf) - w) / max(w, 1e-3 * largest), n) for n, w in golden["gradients"].items())
    check(f"{case.name}: worst norm of a gradient", worst[0] <= 5e-5, worst)
    for what, key, limit, relative in (("loss", "losses", 1e-4, False), ("grad_norm", "gradient_norms", 2e-4, True)):
        error = max(abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, golden[key], strict=True))
        check(f"{case.name}: {what} of each step", error <= limit, error)
    counted = [sum(1 for i in range(step * case.batch * case.seq, (step + 1) * case.batch * case.seq) if i % case.seq and case.labels[i] >= 0 and case.weights[i] > 0)
               for step in range(case.steps)]
    check(f"{case.name}: targets are those with a weight", [s["targets"] for s in steps] == counted, ([s["targets"] for s in steps], counted))
    _, steps = case.run(case.compile("narrow", precision="bf16"), data)
    error = max(abs(s["loss"] - w) for s, w in zip(steps, golden["losses"], strict=True))
    check(f"{case.name}: bf16", 1e-6 < error <= max(6e-3, 2 * case.model.get("own_errors", {}).get("losses", 0)), error)


def same_bits(case):
    """Weights of 1 are as none; one of 0 as a label of -100; data without weights as weights of 1."""
    weighted, plain, ones = case.compile("weighted"), case.compile("plain", weighted=False), [1.0] * len(case.labels)
    without = case.data("without", weights=None)
    expected = case.bits(plain, without)
    check("weights of 1 change no bit", case.bits(weighted, case.data("ones", weights=ones)) == expected)
    check("nor do data without weights", case.bits(weighted, without) == expected)
    zeros = [float((i * 7) % 3 > 0) for i in range(len(ones))]
    ignored = [-100 if w == 0 else label for w, label in zip(zeros, case.labels)]
    check("a weight of 0 is a label of -100", case.bits(weighted, case.data("zeros", weights=zeros)) == case.bits(plain, case.data("ignored", labels=ignored, weights=None)))
    tripled = case.bits(weighted, case.data("tripled", weights=[w * 4 for w in case.weights]))
    check("weights count by their ratios", tripled == case.bits(weighted, case.data("golden")))


def stages(case):
    data = case.data("rows")
    plans = {zero: case.compile(f"zero{zero}", f"--zero={zero}", batch=1) for zero in range(4)}
    for world in (1, 2):
        runs = {zero: case.bits(plan, data, f"--ranks={world}", "--accumulate=1", steps=4) for zero, plan in plans.items()}
        check(f"all stages give the same bits on {world} ranks", all(r == runs[0] for r in runs.values()))
    _, one = case.run(plans[0], data, "--accumulate=2", steps=4)
    _, two = case.run(plans[3], data, "--ranks=2", steps=4)
    worst = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(one, two))
    check("two ranks divide by the weights of both", worst <= 2e-6 and [s["targets"] for s in one] == [s["targets"] for s in two], worst)
    done, _ = case.run(plans[0], data, f"--eval-data={data}", "--eval-every=1", steps=1)
    check("held-out data have weights too", "held-out loss" in done.stdout, done.stdout[-300:])


def packed(case):
    """Rows of several documents: the same loss and gradients as each in a row of its own."""
    shape, lengths, width = [4, case.seq], [12, 8, 15, 5], case.seq
    ids, labels, weights = [], [], []
    for n, length in enumerate(lengths):
        tokens = case.ids[n * 20: n * 20 + length + 1][:width]
        ids += (tokens + [0] * width)[:width]
        labels += (tokens + [-100] * width)[:width]
        weights += ([0.25 * (1 + (i + n) % 5) for i in range(width)])
    data = case.work / "documents.safetensors"
    write_safetensors(data, {"input_ids": (shape, array.array("q", ids)), "labels": (shape, array.array("q", labels)), "loss_weights": (shape, array.array("f", weights))})
    found = {}
    for name, plan, accumulate in (("packed", case.compile("packed", "--pack", batch=1), 2), ("alone", case.compile("alone", batch=1), 4)):
        dump = case.work / name
        _, steps = case.run(plan, data, f"--accumulate={accumulate}", f"--dump-gradients={dump}", steps=1)
        found[name] = steps[0], {n: v for n, (_, v) in read_safetensors(dump).items()}
    (a, mine), (b, want) = found["packed"], found["alone"]
    largest = max(math.sqrt(sum(x * x for x in v)) for v in want.values())
    worst = max(math.sqrt(sum((x - y) ** 2 for x, y in zip(mine[n], v))) / max(math.sqrt(sum(y * y for y in v)), 1e-3 * largest) for n, v in want.items())
    check("packed rows have the weights of their documents", abs(a["loss"] - b["loss"]) <= 1e-6 * b["loss"] and worst <= 1e-6 and a["targets"] == b["targets"], (a["loss"], b["loss"], worst))


def on_gpus(case):
    data, environment = case.data("rows"), stand_ins(2, ZTC_CUDNN="0")
    for precision, limit in (("fp32", 1e-6), ("bf16", 1e-2)):
        plan = case.compile(f"gpu-{precision}", "--zero=3", batch=1, precision=precision, target="host,simt")
        _, host = case.run(plan, data, "--ranks=2", steps=2)
        _, gpu = case.run(plan, data, "--gpus=2", steps=2, env=environment, device="--device=cuda")
        worst = max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(gpu, host, strict=True) for key in ("loss", "grad_norm"))
        check(f"gpu: {precision} with ZeRO-3 on 2", worst <= limit, worst)


def mistakes(case):
    done, _ = case.run(case.compile("plain", weighted=False), case.data("rows"), expect=1)
    check("weights that a plan does not take are an error", "has loss_weights, and the plan takes none: compile it with --loss-weights" in done.stderr, done.stderr[-300:])
    weighted = case.compile("weighted")
    for bad in (-1.0, math.nan, 1e30):
        done, _ = case.run(weighted, case.data("bad", weights=[1.0] * 30 + [bad] + [1.0] * (len(case.labels) - 31)), expect=1)
        check(f"a weight of {bad} is named", "(loss_weights, row 1, position 10): weights are numbers from 0" in done.stderr, done.stderr[-300:])
    done, _ = case.run(weighted, case.data("nothing", weights=[0.0] * len(case.labels)), expect=1)
    check("data that count nothing are an error", "has a target that counts" in done.stderr and "a weight of 0 in loss_weights" in done.stderr, done.stderr[-300:])
    inspected = run("ztc", "inspect", weighted, "--text").stdout
    check("inspect says that the loss is weighted", "linear_cross_entropy weighted" in inspected and "--loss-weights" in inspected or "loss-weights" in inspected)


def field(number, data):
    """A field of bytes of a protobuf message."""
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def graphs(case):
    """An ONNX graph with an input of that name and type takes weights without the option: one more input is one more field of its graph."""
    model = case.work / "model.onnx"
    case.compile("of-folder", f"--save-onnx={model}", weighted=False)
    number = lambda index, value: bytes([index << 3, value])
    sizes = field(2, field(1, field(2, b"batch")) + field(1, field(2, b"sequence")))
    tensor = field(2, field(1, number(1, 1) + sizes))
    model.write_bytes(model.read_bytes() + field(7, field(11, field(1, b"loss_weights") + tensor)))
    plan, data = case.work / "graph.bin", case.data("rows")
    arguments = ["--target=host", f"--batch={case.batch}", f"--seq={case.seq}", "--precision=fp32", f"--weights={case.folder}"]
    run("ztc", "compile", model, "-o", plan, *arguments)
    checked = run("ztc", "check", model, *arguments[1:]).stdout
    check("check says what the input is", "weights of the labels in the data" in checked, checked[:600])
    _, steps = case.run(plan, data)
    worst = max(abs(s["loss"] - w) for s, w in zip(steps, case.golden["losses"], strict=True))
    check("an ONNX graph with such an input takes weights", worst <= 1e-4, worst)


with scratch() as work:
    for name in goldens:
        parity(Case(name, work))
    case = Case("llama3-defaults", work)
    for test in (same_bits, stages, packed, mistakes, graphs, on_gpus):
        test(case)
    done = Case("gemma2", work).compile("verified", "--verify", "--zero=3", batch=1, expect=None)
    check("--verify holds each pass, the plan and its kernels", done.returncode == 0 and "gap" not in done.stderr, done.stderr[-600:])
finish()
