#!/usr/bin/env python3
"""Products that add their biases, residuals and biases, or give GELU of their sums: the interpreter sees the same model before and after each pass, --recompute=auto takes them, the bits are the same at every ZeRO stage, on
two ranks and with recomputation, and a GPU's library adds them (on the stand-ins) as the host does."""
import array
import json

from support import ROOT, check, finish, read_log, run, scratch, stand_ins, write_safetensors, write_tiny_llama

FUSED = "--pass-option=ztc-fuse-biases.enabled=true"
BOTH = [FUSED, "--pass-option=ztc-fuse-residuals.enabled=true"]
ALL = [*BOTH, "--pass-option=ztc-fuse-activations.enabled=true"]
GPUS = stand_ins(1)

with scratch() as work:
    # Three steps of one row, of tokens below the folders' vocabularies.
    tokens = [i * i * 7 % 97 for i in range(3 * 32)]
    write_safetensors(work / "data.safetensors", {key: ([3, 1, 32], array.array("q", tokens)) for key in ("input_ids", "labels")})

    def compile(name, plan, *options, target="host"):
        run("ztc", "compile", ROOT / "tests/folders" / name, "-o", work / plan, "--batch=1", "--seq=32", "--precision=bf16", f"--target={target}", *options)
        return work / plan

    def train(plan, *options, env=None):
        run("ztc-run", plan, f"--data={work / 'data.safetensors'}", "--steps=3", "--lr=1e-3", "--no-save", f"--log-json={work / 'log'}", "--overwrite", *options, env=env)
        return [(step["loss"], step["grad_norm"]) for step in read_log(work / "log")[1]]

    def products(plan):
        return [step["kind"] for step in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"]["microstep"] if step["kind"].startswith("gemm")]

    def expect_fused(name, way, fused, added):
        plan = compile(name, "fused.bin", *fused, "--verify")
        found = {what: sum(kind.endswith(f" bf16{what}") for kind in products(plan)) for what in added}
        check(f"{name}, {way}: each layer's are in products", found == added, products(plan))
        check(f"{name}, {way}: ztc inspect names them", all(f" bf16{what}  (" in run("ztc", "inspect", plan).stdout for what in added))
        host = train(plan, "--device=cpu", "--threads=2")
        check(f"{name}, {way}: one thread has the bits of two", train(plan, "--device=cpu", "--threads=1") == host and len(host) == 3)
        for options in (["--recompute=auto", "--zero=2"], ["--recompute=layer", "--zero=3"], ["--recompute=none"]):
            other = compile(name, "other.bin", *fused, *options)
            check(f"{name}, {way}: {' '.join(options)}: the same bits", train(other, "--device=cpu") == host)
        gpu = compile(name, "gpu.bin", *fused, target="simt")
        on_gpu = train(gpu, "--gpus=1", env=GPUS)
        check(f"{name}, {way}: a GPU's losses and norms", len(on_gpu) == 3 and all(abs(x - y) < 2e-2 * max(1, abs(y)) for a, b in zip(on_gpu, host) for x, y in zip(a, b)), (on_gpu, host))

    # Of qwen2 q alone: k and v have rows of 20 numbers, no multiple of 8.
    for name, biases, both in (("gpt2", {" + bias": 8}, {" + bias": 4, " + d + bias": 4}), ("qwen2", {" + bias": 2}, {" + bias": 2, " + d": 4})):
        expect_fused(name, "biases", [FUSED], biases)
        expect_fused(name, "residuals and biases", BOTH, both)
        if name == "gpt2":
            expect_fused(name, "GELU too", ALL, {" + bias": 2, " + d + bias": 4, " + bias, gelu": 2})
            # Nobody asks for a bias in products: GELU stays where it is.
            alone = compile(name, "alone.bin", ALL[-1])
            check(f"{name}: no product without a bias gives GELU", not any("gelu" in kind for kind in products(alone)))
        # Nothing is asked for: no product has a bias.
        usual = compile(name, "usual.bin")
        check(f"{name}: without the option no product adds a bias", not any("+ bias" in kind for kind in products(usual)))
    # Sizes of whole vectors: q, k and v are one product, and their biases one vector.
    wide = write_tiny_llama(work / "wide", 128, architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=64, num_attention_heads=4, num_key_value_heads=2)
    plan = compile(wide, "wide.bin", FUSED, "--verify")
    check("q, k and v with their biases are one product", sum("32x128x64 bT bf16 + bias" in kind for kind in products(plan)) == 1, products(plan))
    host = train(plan, "--device=cpu")
    gpu = compile(wide, "wide-gpu.bin", FUSED, target="simt")
    on_gpu = train(gpu, "--gpus=1", env=GPUS)
    check("one product's losses and norms on a GPU", len(on_gpu) == 3 and all(abs(x - y) < 2e-2 * max(1, abs(y)) for a, b in zip(on_gpu, host) for x, y in zip(a, b)), (on_gpu, host))
    # In fp32 the sums are as exact: the pass is not there to be asked for.
    refused = run("ztc", "compile", wide, "-o", work / "fp32.bin", "--batch=1", "--seq=32", "--precision=fp32", "--target=host", FUSED, expect=2)
    check("fp32: no pass is there to be asked for", "no pipeline of this compilation has that pass" in refused.stderr, refused.stderr)
finish()
