#!/usr/bin/env python3
"""Folders whose weights are stored in fewer bits (fp8, mxfp4, nvfp4, GPTQ, AWQ, compressed-tensors): the numbers that they stand for, bit by bit, the loss of transformers; trained,
exported whole, sharded, beside adapters, as --weights; what is damaged or unknown, by name."""
import array
import hashlib
import json
import shutil
import sys

from support import GOLDEN, ROOT, check, finish, first_step, raw_tensors, read_log, read_safetensors, run, scratch, stand_ins, write_safetensors

PLACE = GOLDEN / "quantized-checkpoints"


class Folder:
    def __init__(self, name, work):
        self.name, self.work, self.path = name, work / name, PLACE / name
        self.work.mkdir()
        self.golden = json.loads((self.path / "golden.json").read_text())
        tokens = [x for row in self.golden["input_ids"] for x in row]
        labels = [x for row in self.golden["input_ids"] for x in row]
        self.data = self.work / "data.safetensors"
        shape = [1, self.golden["batch"], self.golden["seq"]]
        write_safetensors(self.data, {"input_ids": (shape, array.array("q", tokens)), "labels": (shape, array.array("q", labels))})

    def compile(self, plan, *arguments, model=None, precision="fp32", batch=None, expect=0):
        return run("ztc", "compile", model or self.path, "-o", plan, "--target=host", f"--batch={batch or self.golden['batch']}", f"--seq={self.golden['seq']}",
                   f"--precision={precision}", *arguments, expect=expect)

    def train(self, plan, *arguments, lr=0, expect=0):
        """One step at a rate of 0: the loss of the weights as they are."""
        done, step = first_step(self.work, plan, self.data, *arguments, lr=lr, expect=expect)
        return done, step and step["loss"]

    def damaged(self, change=None, config=None):
        """A copy with other tensors (`change` gets them as name: (type, shape, bytes)) or another configuration."""
        copy = self.work / f"copy{len(list(self.work.glob('copy*')))}"
        shutil.copytree(self.path, copy)
        if config:
            text = json.loads((copy / "config.json").read_text())
            config(text)
            (copy / "config.json").write_text(json.dumps(text))
        if change:
            tensors = raw_tensors(copy / "model.safetensors")
            change(tensors)
            write_raw(copy / "model.safetensors", tensors)
        return copy


def write_raw(path, tensors):
    body, head = b"", {}
    for name, (kind, shape, piece) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def hashes(folder, names):
    """Of weights in f32, a zero of either sign as one."""
    tensors = read_safetensors(folder / "model.safetensors")
    return {name: hashlib.sha256(array.array("f", [x + 0.0 for x in tensors[name][1]]).tobytes()).hexdigest() for name in names if name in tensors}


def numbers(folder):
    """What the codes stand for, and what training makes of them."""
    plan, export = folder.work / "plan.bin", folder.work / "whole"
    done = folder.compile(plan)
    count = len(folder.golden["sha256"])
    listed = json.loads(run("ztc", "check", folder.path, "--json").stdout)["parameters"]
    said = [p for p in listed if any("dequantised as it is loaded" in t for t in p["transformations"])]
    check(f"{folder.name}: check says which those are", sorted(p["name"] for p in said) == sorted(folder.golden["sha256"]) and all("model.safetensors" in p["source"] for p in listed))
    check(f"{folder.name}: compile says what is dequantised", f"{count} weights are stored as " in done.stdout + done.stderr, done.stdout[-600:] + done.stderr[-600:])
    _, loss = folder.train(plan, f"--export={export}", "--export-dtype=fp32")
    check(f"{folder.name}: the loss of transformers", abs(loss - folder.golden["loss"]) <= 2e-6 * folder.golden["loss"], (loss, folder.golden["loss"]))
    check(f"{folder.name}: each number, bit by bit", hashes(export, folder.golden["sha256"]) == folder.golden["sha256"])
    config = json.loads((export / "config.json").read_text())
    stored = read_safetensors(export / "model.safetensors")
    check(f"{folder.name}: an export is whole", "quantization_config" not in config and not [n for n in stored if n.endswith(("scale", "scale_inv", "qzeros", "scales", "_packed", "_blocks"))], list(stored))
    folder.compile(folder.work / "again.bin", model=export)
    _, again = folder.train(folder.work / "again.bin")
    check(f"{folder.name}: and has the same loss", again == loss, (again, loss))
    _, given = folder.train(folder.work / "again.bin", f"--weights={folder.path}")
    check(f"{folder.name}: as --weights of another plan", given == loss, (given, loss))
    folder.compile(folder.work / "sharded.bin", "--zero=3", batch=folder.golden["batch"] // 2)
    _, sharded = folder.train(folder.work / "sharded.bin", "--ranks=2")
    check(f"{folder.name}: ZeRO-3 on two ranks", abs(sharded - loss) <= 2e-6 * loss, (sharded, loss))
    narrow = folder.work / "narrow"
    folder.compile(folder.work / "narrow.bin", precision="bf16")
    _, rounded = folder.train(folder.work / "narrow.bin", f"--export={narrow}")
    types = {kind for kind, _, _ in raw_tensors(narrow / "model.safetensors").values()}
    check(f"{folder.name}: bf16, exported in the model's type", abs(rounded - loss) <= 1e-2 * loss and types == {"BF16"}, (rounded, loss, types))


def others(folder):
    """Weights that the model does not have go along in full; codes that do not fit their scales as they are."""
    def change(tensors):
        for part in ("weight", "weight_scale_inv"):
            tensors[f"model.layers.1.enorm.{part}"] = tensors[f"model.layers.0.mlp.up_proj.{part}"]
        kind, shape, data = tensors["model.layers.0.mlp.up_proj.weight"]
        tensors["model.layers.1.odd.weight"] = (kind, shape, data[::-1])
        tensors["model.layers.1.odd.weight_scale_inv"] = ("F32", [7], bytes(28))
    plan, export = folder.work / "plan.bin", folder.work / "others"
    folder.compile(plan, model=folder.damaged(change))
    folder.train(plan, f"--export={export}", "--shard-size=1GB")
    tensors = {}
    for file in export.glob("*.safetensors"):
        tensors |= raw_tensors(file)
    halves = [[x & 0x7fff and x for x in array.array("H", tensors[name][2])] for name in ("model.layers.1.enorm.weight", "model.layers.0.mlp.up_proj.weight")]  # a step makes 0 of -0
    check("others: in full, in the model's type", halves[0] == halves[1] and tensors["model.layers.1.enorm.weight"][0] == "BF16" and "model.layers.1.enorm.weight_scale_inv" not in tensors, list(tensors))
    check("others: as they are", tensors["model.layers.1.odd.weight"][0] == "F8_E4M3" and tensors["model.layers.1.odd.weight_scale_inv"][1] == [7], list(tensors))


def adapters(folder):
    """LoRA beside the numbers, and beside nf4 that is made of them."""
    for words in ([], ["--quantize=nf4"], ["--quantize=int8", "--zero=3"]):
        plan = folder.work / "adapter.bin"
        folder.compile(plan, "--lora=r=2,alpha=4,targets=all-linear", *words)
        _, loss = folder.train(plan, lr=1e-3)
        limit = 2e-6 if not words else 0.05
        check(f"{folder.name}: an adapter beside it {words}", abs(loss - folder.golden["loss"]) <= limit * folder.golden["loss"], (loss, folder.golden["loss"]))
    merged = folder.work / "merged"
    folder.compile(folder.work / "adapter.bin", "--lora=r=2,alpha=4,targets=all-linear")
    folder.train(folder.work / "adapter.bin", "--merge", f"--export={merged}", "--export-dtype=fp32")
    check(f"{folder.name}: merged with nothing learned", hashes(merged, folder.golden["sha256"]) == folder.golden["sha256"])


def kept(folder):
    """--quantize=mxfp4 keeps the folder's codes: memory is less, no bit of a step differs, and a merge has the folder's numbers."""
    lora = "--lora=r=2,alpha=4,targets=all-linear"
    for options in (["--precision=fp32"], ["--precision=bf16"], ["--precision=bf16", "--zero=3"]):
        ranks = 2 if "--zero=3" in options else 1
        losses, bytes = [], []
        for quantize in ([], ["--quantize=mxfp4"]):
            plan, log = folder.work / "kept.bin", folder.work / f"kept{len(list(folder.work.glob('kept*')))}"
            run("ztc", "compile", folder.path, "-o", plan, "--target=host", f"--batch={folder.golden['batch'] // ranks}", f"--seq={folder.golden['seq']}", lora, *options, *quantize)
            run("ztc-run", plan, f"--data={folder.data}", "--steps=3", "--lr=1e-2", "--device=cpu", "--no-save", f"--ranks={ranks}", f"--log-json={log}")
            losses.append([(s["loss"], s["grad_norm"]) for s in read_log(log)[1]])
            classes = json.loads(run("ztc", "inspect", plan, "--json").stdout)
            bytes.append(sum(s["bytes"] for s in classes["slots"] if s["class"] == "parameters"))
        check(f"{folder.name}: kept in mxfp4, {' '.join(options)}: the same bits", losses[0] == losses[1] and len(losses[0]) == 3, losses)
        check(f"{folder.name}: kept in mxfp4, {' '.join(options)}: fewer bytes", bytes[1] < 0.8 * bytes[0], bytes)
    merged = folder.work / "kept-merged"
    plan = folder.work / "kept.bin"
    folder.compile(plan, lora, "--quantize=mxfp4")
    folder.train(plan, "--merge", f"--export={merged}", "--export-dtype=fp32")
    check(f"{folder.name}: kept in mxfp4, merged with nothing learned", hashes(merged, folder.golden["sha256"]) == folder.golden["sha256"])
    done = run("ztc", "compile", folder.path, "-o", plan, "--target=host", "--batch=1", "--seq=8", lora, "--quantize=mxfp4", "--verify")
    check(f"{folder.name}: kept in mxfp4, every pass keeps the step", done.stdout.count("verified: ") == 2, done.stdout + done.stderr)
    # A GPU's kernel, by the stand-ins.
    plan = folder.work / "gpu.bin"
    run("ztc", "compile", folder.path, "-o", plan, "--target=host,simt", "--batch=1", f"--seq={folder.golden['seq']}", lora, "--quantize=mxfp4", "--precision=bf16")
    found = []
    for name, where, env in (("host", ["--device=cpu"], None), ("gpu", ["--gpus=1"], stand_ins(1))):
        run("ztc-run", plan, f"--data={folder.data}", "--steps=1", "--lr=0", "--no-save", f"--log-json={folder.work / name}.jsonl", *where, env=env)
        found.append(read_log(folder.work / f"{name}.jsonl")[1][0]["loss"])
    check(f"{folder.name}: kept in mxfp4 on a GPU", abs(found[0] - found[1]) <= 1e-3 * found[0], found)


def one_by_one(work):
    """Stacks of experts as modules of their own, as programs that quantise linear modules leave them."""
    for name, turned in (("llama4", True), ("mistral4", False)):
        source, folder = ROOT / "tests/folders" / name, work / name
        tensors = raw_tensors(source / "model.safetensors")

        def split(stack):
            """Matrices (outputs, inputs) of two bytes an element."""
            kind, (count, rows, columns), data = stack
            for e in range(count):
                part = data[2 * e * rows * columns:2 * (e + 1) * rows * columns]
                if turned:
                    part = b"".join(part[2 * (r * columns + c):2 * (r * columns + c) + 2] for c in range(columns) for r in range(rows))
                yield kind, [columns, rows] if turned else [rows, columns], part
        for key in [n for n in tensors if n.endswith(".experts.gate_up_proj")]:
            module = key.removesuffix("gate_up_proj")
            for e, (kind, (rows, columns), data) in enumerate(split(tensors.pop(key))):
                for part, half in (("gate", data[:len(data) // 2]), ("up", data[len(data) // 2:])):
                    tensors[f"{module}{e}.{part}_proj.weight"] = (kind, [rows // 2, columns], half)
            for e, matrix in enumerate(split(tensors.pop(f"{module}down_proj"))):
                tensors[f"{module}{e}.down_proj.weight"] = matrix
        folder.mkdir()
        shutil.copy(source / "config.json", folder)
        write_raw(folder / "model.safetensors", tensors)
        losses = []
        for model in (source, folder):
            run("ztc", "compile", model, "-o", work / "plan.bin", "--target=host", "--batch=2", "--seq=12", "--precision=fp32")
            run("ztc-run", work / "plan.bin", f"--data={data_of(work, 2, 12, 31)}", "--steps=1", "--lr=1e-3", "--device=cpu", "--no-save", f"--log-json={work / 'log'}", "--overwrite")
            losses.append([(s["loss"], s["grad_norm"]) for s in read_log(work / "log")[1]])
        close = all(abs(a - b) <= 1e-6 * abs(b) for one, two in zip(*losses, strict=True) for a, b in zip(one, two, strict=True))
        check(f"{name}: experts one by one", close and losses[0], losses)


def data_of(work, rows, columns, vocabulary):
    write_safetensors(work / "rows.safetensors", {key: ([1, rows, columns], array.array("q", [i * i * 7 % vocabulary for i in range(rows * columns)])) for key in ("input_ids", "labels")})
    return work / "rows.safetensors"


def said_elsewhere(work):
    """Commands that know of such folders too."""
    text = run("ztc", "plan", PLACE / "gpt-oss", "--gpu=H100-80GB", "--method=qlora", "--seq=12").stdout
    check("plan: what is in mxfp4 stays so", "--quantize=mxfp4" in text and "nf4" not in text, text)
    text = run("ztc", "plan", PLACE / "awq", "--gpu=H100-80GB", "--method=qlora", "--seq=12").stdout
    check("plan: what is dequantised becomes nf4", "--quantize=nf4" in text, text)
    said = run("ztc", "compile", PLACE / "awq", "-o", work / "plan.bin", "--batch=1", "--seq=8", "--target=host", f"--save-onnx={work / 'awq.onnx'}").stderr
    check("--save-onnx: weights that the graph lacks", "lacks the 7 weights that the folder has in fewer bits" in said, said)


def refusals(work):
    """Each names what is wrong, ends with 1 and leaves no plan."""
    def refuse(name, folder, words, change=None, config=None):
        plan = folder.work / "refused.bin"
        plan.unlink(missing_ok=True)
        done = folder.compile(plan, model=folder.damaged(change, config), expect=1)
        check(f"refused: {name}", all(w in done.stderr for w in words) and not plan.exists(), done.stderr)

    def drop(name):
        return lambda tensors: tensors.pop(name)

    def cut(name):
        def change(tensors):
            kind, shape, data = tensors[name]
            tensors[name] = (kind, [shape[0] - 1, *shape[1:]], data[:len(data) // shape[0] * (shape[0] - 1)])
        return change
    fp8, gptq, integers, experts = (Folder(f"{name}", work / "refusals") for name in ("fp8-blocks", "gptq-4", "integers-4", "gpt-oss"))
    q, layer = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.experts.down_proj"
    refuse("a scale that is missing", integers, [f"'{q}.weight_scale' is missing"], drop(f"{q}.weight_scale"))
    refuse("scales of another shape", fp8, [f"'{q}.weight_scale_inv' has F32 (1, 4)", f"'{q}.weight'"], cut(f"{q}.weight_scale_inv"))
    refuse("codes of another shape", fp8, [f"{q}.weight", "(63, 64)"], cut(f"{q}.weight"))
    refuse("zeros that are missing", gptq, [f"'{q}.qzeros' is missing"], drop(f"{q}.qzeros"))
    refuse("zeros of another shape", gptq, [f"'{q}.qzeros' has I32 (1, 8)"], cut(f"{q}.qzeros"))
    refuse("an order that is too short", gptq, [f"'{q}.g_idx' has I32 (63)"], cut(f"{q}.g_idx"))

    def outside(tensors):
        kind, shape, data = tensors[f"{q}.g_idx"]
        tensors[f"{q}.g_idx"] = (kind, shape, (2).to_bytes(4, "little") + data[4:])
    refuse("an order outside the scales", gptq, [f"'{q}.g_idx' names scale 2 of 2"], outside)
    refuse("blocks without exponents", experts, [f"'{layer}_scales' is missing"], drop(f"{layer}_scales"))
    for method in ("hqq", "aqlm", "quanto", "torchao"):
        refuse(f"weights of {method}", fp8, [f"quantised by '{method}', which ztc does not read"], config=lambda c, m=method: c["quantization_config"].update(quant_method=m))
    refuse("AWQ's other layouts", gptq, ["awq's version 'GEMV'"], config=lambda c: c["quantization_config"].update(quant_method="awq", version="GEMV"))
    refuse("sparse weights", integers, ["'sparse-24-bitmask' (sparsity_config)"], config=lambda c: c["quantization_config"].update(sparsity_config={"format": "sparse-24-bitmask"}))
    refuse("GPTQ without its configuration", gptq, ["quantization_config", "zeros"], config=lambda c: c.pop("quantization_config"))
    # A folder that was changed after the plan was made.
    plan = integers.work / "plan.bin"
    copy = integers.damaged(lambda tensors: None)
    integers.compile(plan, model=copy)
    shutil.copy(integers.damaged(drop(f"{q}.weight_scale")) / "model.safetensors", copy)
    done, _ = integers.train(plan, expect=1)
    check("refused: weights that are not those of the plan", "compile again" in done.stderr, done.stderr)
    done, _ = integers.train(plan, f"--weights={integers.damaged(drop(f'{q}.weight_scale'))}", expect=1)
    check("refused: --weights with a part that is missing", f"'{q}.weight_scale' is missing" in done.stderr, done.stderr)


with scratch() as work:
    (work / "refusals").mkdir()
    names = sys.argv[1:] or sorted(p.name for p in PLACE.iterdir())
    for name in names:
        numbers(Folder(name, work))
    if not sys.argv[1:]:
        (work / "beside").mkdir()
        for name in ("fp8-blocks", "gpt-oss", "awq"):
            adapters(Folder(name, work / "beside"))
        (work / "kept").mkdir()
        for name in ("gpt-oss", "mxfp4"):
            kept(Folder(name, work / "kept"))
        (work / "apart").mkdir()
        one_by_one(work / "apart")
        others(Folder("fp8-blocks", work / "apart"))
        said_elsewhere(work / "apart")
        refusals(work)
finish()
