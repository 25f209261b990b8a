#!/usr/bin/env python3
"""Optimizer states in 8 bits: the same bits at every stage on 1, 2 and 3 ranks and in a resumed run; a checkpoint holds codes and scales that plans with other states
read, and back; `ztc memory` names what keeps fp32; losses on text stay within 1 % of those with fp32 states (500 steps: tests/long/small-states.sh)."""
import json
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "long"))
from fortunes import split_text
from support import GOLDEN, ROOT, check, compile_golden, finish, read_log, read_safetensors, repeated_rows, run, scratch, tensors

DATA = GOLDEN / "grouped/data.safetensors"
BLOCK, STEPS, TEXT_STEPS = 256, 8, 200
# The golden model's tensors have 512 to 3072 elements: of a model's size they would all keep fp32.
SMALL = "--pass-option=ztc-store-masters.block-from=512"
STATES = {"adamw": ("exp_avg", "exp_avg_sq"), "lion": ("exp_avg",), "sgd": ("momentum_buffer",)}


def decoded(folder, kind):
    """The numbers of a state."""
    found = {}
    for file in sorted(folder.glob(f"{kind}-*.safetensors")):
        held = read_safetensors(file)
        for name, (shape, values) in held.items():
            if name != "quant_map" and not name.endswith(".absmax"):
                scales = held.get(f"{name}.absmax")
                found[name] = [held["quant_map"][1][code] * scales[1][i // BLOCK] for i, code in enumerate(values)] if scales else list(values)
    return found


def train(plan, save, *options, ranks=1, data=DATA):
    run("ztc-run", plan, f"--data={data}", f"--steps={STEPS}", "--lr=1e-3", "--clip=0", f"--save={save}", "--save-every=4", "--device=cpu", "--threads=1",
        f"--ranks={ranks}", f"--log-json={save}.log", "--overwrite", *options)
    return save / f"step-{STEPS:08}"


with scratch() as work:
    # On the same rows all bits are those of one rank, and codes must not know how many there are.
    rows = {world: repeated_rows(DATA, work, world) for world in (1, 2, 3)}
    for optimizer, states in STATES.items():
        found, whole = {}, optimizer == "adamw"
        for zero in range(4) if whole else (0, 2):
            for precision in ("fp32", "bf16") if whole else ("fp32",):
                folder = work / f"{optimizer}-{zero}-{precision}"
                folder.mkdir()
                more = ["--recompute=layer"] if zero == 3 else []
                plan = compile_golden(folder, "grouped", f"--precision={precision}", f"--optimizer={optimizer}", "--optimizer-state=int8", SMALL, f"--zero={zero}", *more)
                for world in (1, 2, 3) if whole else (1, 2):
                    last = train(plan, folder / str(world), ranks=world, data=rows[world])
                    found.setdefault(precision, []).append(tensors(last, "model", *states))
        for precision, all_bits in found.items():
            check(f"{optimizer}, {precision}: the same bits at every stage on 1, 2 and 3 ranks", all(bits == all_bits[0] for bits in all_bits) and len(all_bits[0]) > 40, len(all_bits))
        one = next(iter(found.values()))[0]
        codes = {name: len(raw) for (kind, name), (shape, raw) in one.items() if kind == states[0] and (kind, f"{name}.absmax") in one}
        check(f"{optimizer}: codes of matrices, a byte an element", len(codes) == 15 and sum(codes.values()) == 2 * (2 * 1024 + 2 * 512 + 3 * 2304) + 3072, codes)
        scales = {name for (kind, name), (shape, raw) in one.items() if name.endswith(".absmax") and len(raw) == 4 * -(-codes[name[:-7]] // BLOCK) and kind == states[0]}
        check(f"{optimizer}: a scale for each 256 of them", len(scales) == len(codes))
        check(f"{optimizer}: embeddings and vectors keep fp32", len(one[states[0], "model.embed_tokens.weight"][1]) == 4 * 96 * 32)

    # A run that ends after step 4 and goes on, on other ranks too; in plans whose states are stored otherwise, and back.
    base = work / "adamw-2-fp32"
    plan = base / "grouped.bin"
    straight = tensors(train(plan, work / "straight", ranks=2, data=rows[2]), "model", *STATES["adamw"])
    train(plan, work / "stopped", "--stop-after=4", ranks=2, data=rows[2])
    resumed = tensors(train(plan, work / "resumed", f"--resume={work / 'stopped'}", ranks=2, data=rows[2]), "model", *STATES["adamw"])
    check("a resumed run gives the same bits", resumed == straight and len(resumed) > 40)
    on_one = tensors(train(plan, work / "one", f"--resume={work / 'stopped'}", data=rows[2]), "model", *STATES["adamw"])
    check("and on another number of ranks", on_one == straight)
    wide = work / "wide"
    wide.mkdir()
    wide_plan = compile_golden(wide, "grouped")
    first = run("ztc-run", wide_plan, f"--data={DATA}", "--steps=5", "--device=cpu", "--threads=1", f"--resume={work / 'stopped/step-00000004'}", f"--save={work / 'to-wide'}", "--overwrite")
    check("and says so", "optimizer state fp32, it was int8" in first.stdout, first.stdout[-800:])
    back = run("ztc-run", plan, f"--data={DATA}", "--steps=6", "--device=cpu", "--threads=1", f"--resume={work / 'to-wide/step-00000005'}", f"--save={work / 'back'}", "--overwrite")
    check("a plan with 8-bit states goes on from fp32, and says so", "optimizer state int8, it was fp32" in back.stdout, back.stdout[-800:])
    mine, theirs = decoded(work / "straight/step-00000004", "exp_avg"), decoded(work / "stopped/step-00000004", "exp_avg")
    check("codes stand for numbers", mine == theirs and any(any(values) for values in mine.values()))

    text = run("ztc", "inspect", plan, "--text").stdout
    check("ztc inspect says how states are stored", "exp_avg block8, exp_avg_sq ublock8" in text and "exp_avg f32" in text)
    for options in (["--optimizer=adamw", "--precision=fp32"], ["--optimizer=lion", "--precision=bf16", "--master=none"], ["--optimizer=sgd", "--precision=fp16"]):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--batch=2", "--seq=16", "--target=host", "--verify", "--optimizer-state=int8", SMALL, *options, "-o", work / "verified.bin",
                   expect=None)
        check(f"--verify holds {' '.join(options)} with states in int8", said.returncode == 0 and "not checked" not in said.stderr, said.stderr[-1500:])

    # A model whose matrices are large enough, on text that stays as it is.
    model = ROOT / "samples/quickstart"
    memory = run("ztc", "memory", model / "model.onnx", "--batch=8", "--seq=64", "--optimizer-state=int8", "--precision=fp32").stdout
    check("ztc memory names what keeps fp32", "model.layers.*.input_layernorm.weight (4)" in memory and "model.embed_tokens.weight" in memory and "down_proj" not in memory, memory.splitlines()[-1])
    losses, optimizer_bytes, text = {}, {}, None
    try:
        text, _ = split_text(work)
    except SystemExit: # it has said why
        print("left out: losses on text")
    for name, options in () if text is None else (("fp32", []), ("int8", ["--optimizer-state=int8"]), ("bf16 without masters", ["--precision=bf16", "--master=none"]),
                          ("bf16 without masters, int8", ["--precision=bf16", "--master=none", "--optimizer-state=int8"])):
        plan, log = work / "text.bin", work / "text.log"
        precision = [] if any("precision" in option for option in options) else ["--precision=fp32"]
        run("ztc", "compile", model / "model.onnx", "--batch=8", "--seq=64", "--target=host", *precision, *options, "-o", plan)
        run("ztc-run", plan, "--data", text, "--tokenizer=bytes", "--shuffle", f"--steps={TEXT_STEPS}", "--lr=2e-3", "--warmup=20", "--init=normal:0.02", "--device=cpu",
            "--threads=1", "--no-save", f"--log-json={log}", "--overwrite", timeout=900)
        head, steps = read_log(log)
        losses[name], optimizer_bytes[name] = statistics.mean(step["loss"] for step in steps[-20:]), head["by_class"]["optimizer"]
    for name, loss in losses.items():
        error = abs(loss - losses["fp32"]) / losses["fp32"]
        check(f"{name}: losses on text within 1 % of fp32's", error <= 0.01 and losses["fp32"] < 3.2, f"{loss:.4f}, {100 * error:.2f} %")
    if text:
        check("states in 8 bits take a quarter", optimizer_bytes["int8"] <= 0.31 * optimizer_bytes["fp32"], json.dumps(optimizer_bytes))
finish()
