#!/usr/bin/env python3
"""Frozen weights in 4 and 8 bits beside an adapter (QLoRA): from full weights and from folders that transformers saved, with scales of either kind and codes of any
type, of GPT-2's transposed matrices too; merged again."""
import array
import json
import shutil

from adapter_case import Case
from support import check, finish, read_safetensors, run, scratch, stand_ins


def shards(folder, out, is_second, without=None):
    """The folder with its tensors in two files: bytes as they are."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    shutil.copy(folder / "config.json", out)
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, index = json.loads(data[8:8 + size]), {}
    for number in (1, 2):
        mine, body = {}, b""
        for name, tensor in header.items():
            if name == "__metadata__" or name == without or is_second(name) != (number == 2):
                continue
            piece = data[8 + size + tensor["data_offsets"][0]:8 + size + tensor["data_offsets"][1]]
            mine[name] = tensor | {"data_offsets": [len(body), len(body) + len(piece)]}
            body += piece
            index[name] = f"model-0000{number}-of-00002.safetensors"
        head = json.dumps(mine).encode()
        (out / f"model-0000{number}-of-00002.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def quantized(case):
    """A frozen model in fewer bits: what it takes, who says so, that its numbers are never kept, what a checkpoint says of its base."""
    wide = case.work / "wide"
    wide.mkdir()
    config = json.loads((case.folder / "config.json").read_text()) | {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
    (wide / "config.json").write_text(json.dumps(config))

    def table(*more):
        rows = run("ztc", "memory", wide, "--batch=1", f"--seq={case.shape[1]}", "--precision=fp32", "--target=host", "--json", "--lora=r=2,alpha=4,targets=all-linear", *more).stdout
        return json.loads(rows)["rows"][0]["by_class"]
    plain, nf4, int8 = (table(*more) for more in ([], ["--quantize=nf4"], ["--quantize=int8"]))
    elements = sum(2 * x for x in (256 * 256 * 2, 256 * 64 * config["num_key_value_heads"] * 2, 256 * 512 * 3))
    saved = [(plain["parameters"] - fewer["parameters"]) / elements for fewer in (nf4, int8)]  # bytes an element, of 4
    check("quantized: nf4 takes half a byte, int8 one", 3.4 < saved[0] < 3.5 and 2.9 < saved[1] < 3.0, (saved, nf4, int8, plain))
    text = run("ztc", "memory", case.folder, "--batch=1", f"--seq={case.shape[1]}", "--target=host", "--lora=r=2,alpha=4,targets=all-linear", "--quantize=nf4").stdout
    check("quantized: memory says what is in fewer bits", "14 weights in nf4: " in text, text)
    plan = case.work / "plan.bin"
    case.compile(plan)
    said = run("ztc", "inspect", plan, "--text").stdout
    check("quantized: inspect names each weight", said.count(", nf4 of ") == 14 and "quantised    14 weights in nf4" in said and "model.embed_tokens.weight" in said, said[:3000])
    slots = json.loads(run("ztc", "inspect", plan, "--json").stdout)["slots"]
    check("quantized: numbers are workspace", {s["class"] for s in slots if s["name"].endswith(".dequantize")} == {"workspace"}, slots)
    for precision in ("bf16", "fp16"):
        case.compile(case.work / "narrow.bin", precision=precision)
        _, steps = case.run(case.work / "narrow.bin", steps=1)
        error = abs(steps[0]["loss"] - case.golden["losses"][0])
        check(f"quantized: {precision}", error <= (6e-3 if precision == "bf16" else 2e-3), error)
    saved = case.work / "saved-nf4"
    case.run(plan, f"--save={saved}", steps=1)
    trainer = json.loads((saved / "step-00000001" / "trainer.json").read_text())
    base = [value for key, value in trainer["environment"].items() if "base" in key]
    check("quantized: a checkpoint names its base and the bits", len(base) == 1 and str(case.folder) in base[0] and base[0].endswith(", nf4"), base)
    done = run("ztc", "compile", case.folder, "-o", case.work / "verified.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", "--lora=r=4,alpha=8,targets=all-linear",
               "--quantize=nf4", "--zero=3", "--recompute=layer", "--verify")
    # One line of the small form of the model, one of the plan's own kernels.
    check("quantized: every pass keeps the step", done.returncode == 0 and done.stdout.count("verified: ") == 2, done.stderr + done.stdout)
    for level in ("cheap", "layer"):
        again = case.work / f"{level}.bin"
        case.compile(again, f"--recompute={level}")
        _, steps = case.run(again, "--threads=1")
        _, kept = case.run(plan, "--threads=1")
        check(f"quantized: the bits of --recompute={level}", [s["loss"] for s in steps] == [s["loss"] for s in kept])
    # The folder as transformers saves it, quantised by bitsandbytes.
    base, stored = case.adapter / "base", case.work / "stored.bin"
    arguments = ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32"]
    for ranks in (1, 2):
        run("ztc", "compile", base, "-o", stored, *arguments, f"--batch={case.shape[0] // ranks}", f"--adapter={case.adapter}", f"--zero={0 if ranks == 1 else 3}")
        _, steps = case.run(stored, f"--ranks={ranks}")
        error = max(abs(s["loss"] - want) for s, want in zip(steps, case.golden["losses"], strict=True))
        check(f"quantized: from a folder in 4 bits, {ranks} ranks", error <= 1e-4, error)
    _, steps = case.run(plan, f"--weights={base}", steps=1)
    check("quantized: --weights of such a folder", abs(steps[0]["loss"] - case.golden["losses"][0]) <= 1e-5, steps[0]["loss"])
    parts = case.work / "parts"
    def is_second(name):
        return "absmax" in name or name.endswith("_map")
    shards(base, parts, is_second)
    run("ztc", "compile", parts, "-o", stored, *arguments, f"--batch={case.shape[0]}", f"--adapter={case.adapter}")
    _, again = case.run(stored, steps=1)
    check("quantized: a weight's parts in two files", again[0]["loss"] == steps[0]["loss"], (again[0]["loss"], steps[0]["loss"]))
    shards(base, parts, is_second, without="model.layers.1.mlp.up_proj.weight.absmax")
    done, _ = case.run(stored, steps=1, expect=1)
    check("quantized: a part that is missing", "model.layers.1.mlp.up_proj.weight.absmax' is missing" in done.stderr, done.stderr)
    for name, words, *options in (("no adapter", "give --lora"), ("other bits", "in nf4 already", "--lora=r=2,alpha=2,targets=all-linear", "--quantize=int8")):
        done = run("ztc", "compile", base, "-o", case.work / "bad.bin", *arguments, *options, expect=1)
        check(f"quantized: a folder in 4 bits, {name}", words in done.stderr and done.returncode == 1, done.stderr)
    done = run("ztc", "compile", case.folder, "-o", case.work / "bad.bin", "--quantize=nf4", expect=1)
    check("quantized: what is trained keeps its bits", "--lora" in done.stderr and done.returncode == 1, done.stderr)


def single_folder(source, out, storage="U8", double=()):
    """A folder in 4 bits with scales in f32, those that the scales in 8 bits of `source` stand for: its numbers are the same bits. `storage`: the type of its codes;
    `double`: the weights that keep their scales in 8 bits."""
    out.mkdir()
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"]["bnb_4bit_use_double_quant"] = False
    (out / "config.json").write_text(json.dumps(config))
    data = (source / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    stored = {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
              for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}

    def f32(values=()):
        return array.array("f", values)
    for name in [n.removesuffix(".nested_absmax") for n in stored if n.endswith(".nested_absmax")]:
        if name in double:
            continue
        state_name = f"{name}.quant_state.bitsandbytes__nf4"
        state = json.loads(stored[state_name][2])
        nested, table = f32(), f32()
        nested.frombytes(stored.pop(f"{name}.nested_absmax")[2]), table.frombytes(stored.pop(f"{name}.nested_quant_map")[2])
        mean = f32([state["nested_offset"]])[0]
        products = f32(table[code] * nested[block // 256] for block, code in enumerate(stored[f"{name}.absmax"][2]))
        stored[f"{name}.absmax"] = ("F32", [len(products)], f32(product + mean for product in products).tobytes())
        text = json.dumps({key: value for key, value in state.items() if not key.startswith("nested")}).encode()
        stored[state_name] = ("U8", [len(text)], text)
        codes = stored[name][2]
        stored[name] = (storage, [len(codes) // {"U8": 1, "BF16": 2, "F16": 2, "F32": 4}[storage], 1], codes)
    header, body = {}, b""
    for name, (kind, shape, piece) in stored.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (out / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    return out


def single(case):
    """A folder that transformers saved in 4 bits without quantising the scales, as bitsandbytes does unless asked: the bits of one whose scales are these."""
    base, arguments = case.adapter / "base", ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32", f"--adapter={case.adapter}"]
    folder = single_folder(base, case.work / "single")
    losses = {}
    for name, model, ranks, zero in (("double", base, 1, 0), ("single", folder, 1, 0), ("double", base, 2, 3), ("single", folder, 2, 3), ("single-full", folder, 2, 0), ("single-zero", folder, 1, 3)):
        plan = case.work / f"{name}-{ranks}.bin"
        run("ztc", "compile", model, "-o", plan, *arguments, f"--batch={case.shape[0] // ranks}", f"--zero={zero}")
        losses[name, ranks] = [s["loss"] for s in case.run(plan, f"--ranks={ranks}")[1]]
    for ranks in (1, 2):
        check(f"single: the bits of double quantisation, {ranks} ranks", losses["single", ranks] == losses["double", ranks], losses)
    for ranks, name in ((1, "single-zero"), (2, "single-full")):
        check(f"single: ZeRO-3 has the bits of ZeRO-0, {ranks} ranks", losses[name, ranks] == losses["single", ranks], losses)
    error = max(abs(a - b) for a, b in zip(losses["single", 2], losses["single", 1], strict=True))
    check("single: two ranks as one", error <= 1e-5, losses)
    gpu = case.work / "gpu.bin"
    run("ztc", "compile", folder, "-o", gpu, "--target=host,simt", *arguments[1:], f"--batch={case.shape[0]}")
    _, steps = case.run(gpu, "--gpus=1", env=stand_ins(1, ZTC_CUDNN="0"))
    error = max(abs(s["loss"] - want) / want for s, want in zip(steps, losses["single", 1], strict=True))
    check("single: on a GPU", error <= 1e-6, error)
    double, plan = case.work / "double-1.bin", case.work / "single-1.bin"
    said = run("ztc", "inspect", plan, "--text").stdout
    check("single: inspect names the format", said.count(", nf4_single of ") == 14 and "14 weights in nf4_single" in said, said[:3000])
    text = run("ztc", "memory", folder, "--batch=1", f"--seq={case.shape[1]}", "--target=host", f"--adapter={case.adapter}").stdout
    check("single: memory says what is in fewer bits", "14 weights in nf4_single: " in text, text)
    for name, mine, other, words in (("single", plan, base, "has scales in 8 bits"), ("double", double, folder, "has no scales in 8 bits")):
        done, _ = case.run(mine, f"--weights={other}", steps=1, expect=1)
        check(f"single: a plan of {name} quantisation refuses the other kind", words in done.stderr, done.stderr)
    exported = []
    for name, mine in (("single", plan), ("double", double)):
        case.run(mine, f"--export={case.work / f'{name}-merged'}", "--export-dtype=fp32", "--merge")
        exported.append((case.work / f"{name}-merged/model.safetensors").read_bytes())
    check("single: the merged model is that of the same numbers", exported[0] == exported[1])
    weights = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
    for name, model in (("codes as BF16", single_folder(base, case.work / "wide", storage="BF16")), ("codes as F32", single_folder(base, case.work / "wider", storage="F32")),
                        ("beside weights of the other kind", single_folder(base, case.work / "mixed", double=weights))):
        run("ztc", "compile", model, "-o", case.work / "other.bin", *arguments, f"--batch={case.shape[0]}")
        _, steps = case.run(case.work / "other.bin")
        check(f"single: {name}", [s["loss"] for s in steps] == losses["single", 1], steps)
    # Beside a plan of full weights, whatever type the codes are stored as (bnb_4bit_quant_storage).
    of_full = case.work / "of-full.bin"
    run("ztc", "compile", case.folder, "-o", of_full, *arguments, f"--batch={case.shape[0]}", "--quantize=nf4_single")
    storages = ("U8", "BF16", "F16", "F32")
    for storage in storages:
        given = single_folder(base, case.work / f"given-{storage}", storage=storage)
        _, steps = case.run(of_full, f"--weights={given}", f"--export={case.work / f'given-{storage}-merged'}", "--merge")
        check(f"single: --weights with codes as {storage}", steps and [s["loss"] for s in steps] == losses["single", 1], steps)
        done, _ = case.run(of_full, f"--weights={given}", f"--export={case.work / f'given-{storage}-base'}", "--merge=base", steps=1, expect=1)
        check(f"single: --merge=base is refused where the folder holds only quantized weights ({storage})", "there are no other weights" in done.stderr, done.stderr)
    whole = {(case.work / f"given-{storage}-merged/model.safetensors").read_bytes() for storage in storages}
    check("single: the merged model is the same for every type of codes", len(whole) == 1, len(whole))
    done = run("ztc", "compile", folder, "-o", case.work / "verified.bin", *arguments, "--batch=1", "--quantize=nf4", "--zero=3", "--verify")
    check("single: every pass keeps the step", done.stdout.count("verified: ") == 2, done.stderr + done.stdout)
    # Of full weights too.
    full = case.work / "full.bin"
    run("ztc", "compile", case.folder, "-o", full, *arguments, f"--batch={case.shape[0]}", "--quantize=nf4_single")
    _, steps = case.run(full)
    error = max(abs(s["loss"] - want) for s, want in zip(steps, losses["double", 1], strict=True))
    check("single: of full weights", 0 < error <= 5e-3, error)


def transposed(case):
    """GPT-2's Conv1D in 4 bits, whose codes run over (outputs, inputs): of full weights, and of folders that transformers saved so, merged again as (inputs, outputs)."""
    base, arguments = case.adapter / "base", ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32", f"--adapter={case.adapter}"]
    single, plans = single_folder(base, case.work / "single"), {}
    for name, folder, options in (("full", case.folder, ["--quantize=nf4"]), ("stored", base, []), ("full, single", case.folder, ["--quantize=nf4_single"]), ("stored, single", single, []),
                                  ("stored, ZeRO-3", base, ["--zero=3"])):
        plans[name] = case.work / f"{name}.bin"
        run("ztc", "compile", folder, "-o", plans[name], *arguments, f"--batch={case.shape[0]}", *options)
    losses = {name: [s["loss"] for s in case.run(plan)[1]] for name, plan in plans.items()}
    for name in ("full", "stored"):
        error = max(abs(a - b) for a, b in zip(losses[name], case.golden["losses"], strict=True))
        check(f"transposed: {name}, the losses of PyTorch", error <= 1e-4, error)
    for one, other in (("stored", "full"), ("stored, single", "stored"), ("stored, ZeRO-3", "stored")):
        check(f"transposed: {one} has the bits of {other}", losses[one] == losses[other], (losses[one], losses[other]))
    error = max(abs(a - b) for a, b in zip(losses["full, single"], losses["full"], strict=True))
    check("transposed: scales as they are", 0 < error <= 5e-3, error)
    _, steps = case.run(plans["full"], f"--weights={base}", steps=1)
    check("transposed: --weights of such a folder", steps and steps[0]["loss"] == losses["stored"][0], steps)
    _, steps = case.run(plans["stored"], f"--weights={case.folder}", steps=1)
    check("transposed: --weights of full weights", steps and steps[0]["loss"] == losses["full"][0], steps)
    data = (case.folder / "model.safetensors").read_bytes()
    shapes = {name: tensor["shape"] for name, tensor in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).items() if name != "__metadata__"}
    for name in ("full", "stored"):
        merged, whole = case.work / f"{name}-merged", case.work / f"{name}-merged.bin"
        case.run(plans[name], f"--export={merged}", "--export-dtype=fp32", "--merge")
        same = {n: shape for n, (shape, _) in read_safetensors(merged / "model.safetensors").items()}
        check(f"transposed: {name}, merged as (inputs, outputs)", all(shapes.get(n) == shape for n, shape in same.items()), same)
        run("ztc", "compile", merged, "-o", whole, *arguments[:-1], f"--batch={case.shape[0]}")
        _, steps = case.run(whole, steps=1)
        check(f"transposed: {name}, the merged model's loss", steps and abs(steps[0]["loss"] - case.golden["final_loss"]) <= 2e-4, (steps, case.golden["final_loss"]))
    done = run("ztc", "compile", case.folder, "-o", case.work / "verified.bin", *arguments, "--batch=1", "--quantize=nf4", "--zero=3", "--recompute=layer", "--verify")
    check("transposed: every pass keeps the step", done.returncode == 0 and "verified: " in done.stdout, done.stderr + done.stdout)


with scratch() as work:
    transposed(Case("nf4-conv1d", work))
for test in (quantized, single):
    with scratch() as work:
        test(Case("nf4", work))
finish()
