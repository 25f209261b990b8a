#!/usr/bin/env python3
"""Routed experts on a GPU (of the stand-ins) train as on the host: sizes of whole vectors and others, gradients of a step with one micro-step, which products write rounded, and with
two; verification runs the kernels at their real sizes."""
import array
import json
import shutil
import struct

from support import ROOT, check, finish, read_log, run, scratch, stand_ins, write_safetensors

GPUS = stand_ins(1)

with scratch() as work:
    tokens = [i * i * 7 % 97 for i in range(2 * 32)]
    write_safetensors(work / "data.safetensors", {key: ([2, 1, 32], array.array("q", tokens)) for key in ("input_ids", "labels")})
    # More experts than a token can reach, matrices of whole vectors; the folder in the repository has 20 columns.
    wide = work / "wide"
    wide.mkdir()
    config = json.loads((ROOT / "tests/folders/qwen3-moe/config.json").read_text())
    config |= {"hidden_size": 64, "moe_intermediate_size": 24, "num_experts": 40, "num_experts_per_tok": 3, "num_hidden_layers": 1, "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 16,
               "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160}
    (wide / "config.json").write_text(json.dumps(config))

    def train(plan, *options, env=None):
        run("ztc-run", plan, f"--data={work / 'data.safetensors'}", "--steps=1", "--lr=1e-3", "--no-save", f"--log-json={work / 'log'}", "--overwrite", *options, env=env)
        return [(step["loss"], step["grad_norm"]) for step in read_log(work / "log")[1]]

    for folder in (ROOT / "tests/folders/qwen3-moe", wide):
        for precision, limit in (("fp32", 1e-5), ("bf16", 2e-2)):
            plan = work / "plan.bin"
            said = run("ztc", "compile", folder, "-o", plan, "--batch=1", "--seq=32", f"--precision={precision}", "--target=x86-64-v3,simt", "--verify").stderr
            name = f"{folder.name}, {precision}"
            check(f"{name}: every kernel is verified", "is not known here" not in said, said)
            kinds = [step["kind"] for step in json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"]["microstep"]]
            products = [kind for kind in kinds if kind.startswith("grouped_gemm ")]
            check(f"{name}: experts are routed", any(kind.startswith("route ") for kind in kinds) and products, kinds)
            if folder == wide and precision == "bf16":
                check(f"{name}: a single micro-step's gradients are rounded in products", any(kind.endswith("outer bf16 (of a single micro-step)") for kind in products), products)
            for options in ([], ["--accumulate=2"]):
                host, gpu = train(plan, "--device=cpu", *options), train(plan, "--gpus=1", *options, env=GPUS)
                close = len(host) == len(gpu) == 1 and all(abs(x - y) <= limit * max(1, abs(y)) for x, y in zip(gpu[0], host[0]))
                check(f"{name}, {' '.join(options) or 'one micro-step'}: a GPU's loss and norm", close, (gpu, host))

    # Of the first rows of a causal attention's gradient less than a hundredth of what it is a difference of is left.
    said = run("ztc", "compile", ROOT / "tests/folders/qwen3-moe", "-o", work / "plan.bin", "--batch=2", "--seq=16", "--precision=fp32", "--target=simt", "--verify").stderr
    check("rows of attention's gradient that cancel", "is not known here" not in said, said)

    # A router whose numbers are not finite chooses experts that there are: the run ends as that of any model that has diverged.
    folder, original = work / "diverged", ROOT / "tests/folders/deepseek-v2-biases"
    for method in ({"topk_method": "greedy"}, {"topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1}):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(json.loads((original / "config.json").read_text()) | method))
        data = bytearray((original / "model.safetensors").read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        (router,) = (entry for name, entry in json.loads(data[8:8 + size]).items() if name.endswith("mlp.gate.weight"))
        begin = 8 + size + router["data_offsets"][0]
        data[begin:begin + 32] = b"\x60\x7f" * 16  # the first expert's row in bf16: numbers whose products are beyond f32
        (folder / "model.safetensors").write_bytes(data)
        write_safetensors(work / "small.safetensors", {key: ([1, 2, 24], array.array("q", [i * i * 7 % 41 for i in range(48)])) for key in ("input_ids", "labels")})
        for precision in ("fp32", "bf16"):
            run("ztc", "compile", folder, "-o", plan, "--batch=2", "--seq=24", f"--precision={precision}", "--target=x86-64-v3,simt")
            for where, env in (("--device=cpu", None), ("--gpus=1", GPUS)):
                said = run("ztc-run", plan, f"--data={work / 'small.safetensors'}", "--steps=1", "--no-save", where, expect=1, env=env).stderr
                check(f"{method['topk_method']}, {precision}, {where}: a router without finite numbers", "the gradient norm is not finite" in said and "it has diverged" in said, said)
finish()
