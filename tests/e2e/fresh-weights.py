#!/usr/bin/env python3
"""Folders without weights begin as transformers' own models do: constants are equal, drawn numbers of the same distribution; the same bits on every number of ranks."""
import array
import json
import math
import shutil

from support import ROOT, check, finish, read_log, read_safetensors, run, scratch, write_safetensors

FOLDERS = ROOT / "tests/folders"
softplus = lambda x: math.log1p(math.exp(x))
same = lambda value: lambda values, shape: all(x == value for x in values)
between = lambda low, high, of=lambda x: x: lambda values, shape: all(low * (1 - 1e-5) - 1e-9 <= of(x) <= high * (1 + 1e-5) + 1e-9 for x in values) and len(set(values)) == len(values)
centred = lambda bound: lambda values, shape: all(abs(x) <= bound for x in values) and max(values) > bound / 2 and min(values) < -bound / 2
# Of numbers drawn about 0 with this deviation: theirs, within what so few of them tell.
normal = lambda deviation: lambda values, shape: abs(math.sqrt(sum(x * x for x in values) / len(values)) / deviation - 1) < 4 / math.sqrt(2 * len(values))
counted = lambda values, shape: all(abs(math.exp(x) - (i % shape[-1] + 1)) < 1e-5 * shape[-1] for i, x in enumerate(values))
steps = between(0.001, 0.1, softplus)
MAMBA = {"A_log": counted, "D": same(1), "dt_bias": same(1)}
# Norms that add 1 to their weight, but not that of a delta rule's result.
SHIFTED = {"input_layernorm.weight": same(0), "post_attention_layernorm.weight": same(0), "model.norm.weight": same(0), "q_norm.weight": same(0)}
DELTA = {"A_log": between(0.01, 16, math.exp), "dt_bias": same(1), "linear_attn.norm.weight": same(1)} | SHIFTED
# What transformers 5.23 makes of parameters whose names end so (_init_weights of each model type); out_proj of Nemotron-H is divided by the root of its four layers.
EXPECTED = {
    "granite-hybrid": MAMBA, "zamba2": MAMBA | {"dt_bias": between(0.05, 0.1, softplus)}, "bamba": MAMBA, "falcon-h1": MAMBA, "qwen3-next": DELTA, "qwen3-5": DELTA,
    "gemma3": SHIFTED | {"pre_feedforward_layernorm.weight": same(0)}, "llama3-defaults": {"model.norm.weight": same(1)},
    "ernie4_5-moe": {"moe_statics.e_score_correction_bias": same(0), "gate.weight": normal(0.12)}, "ernie4_5-vl": {"moe_statics.e_score_correction_bias": same(0), "gate.weight": normal(0.12)},
    "step3p7": {"q_norm.weight": same(0), "model.norm.weight": same(0), "moe.down_proj.weight": normal(0.12)}, "muse-glimmer": {"input_layernorm.weight": same(1), "post_attention_layernorm.weight": same(1)},
    "muse-spark": {"input_layernorm.weight": same(0), "post_feedforward_layernorm.weight": same(0), "pre_expert_norm.weight": same(0), "post_expert_norm.weight": same(0), "model.norm.weight": same(1),
                   "post_attention_residual_gate.gate": lambda values, shape: len(set(values)) == len(values) and max(map(abs, values)) < 0.6},
    "mistral-large4": {"ssmax_scaling.s": same(0), "ssmax_scaling.b": same(1), "lerope.alpha": same(0), "kv_a_norm.weight": same(1)},
    "kimi-linear": {"A_log": between(1, 16, math.exp), "dt_bias": steps}, "olmo-hybrid": {"A_log": between(0, 16, math.exp), "dt_bias": steps},
    "nemotron-h": MAMBA | {"dt_bias": steps, "out_proj.weight": lambda values, shape: centred(1 / math.sqrt(shape[1]) / 2)(values, shape)},
    "jamba": {"A_log": counted, "D": same(1), "dt_proj.bias": same(0), "dt_layernorm.weight": same(1)},
    "mamba": {"A_log": counted, "D": same(1), "dt_proj.bias": steps, "dt_proj.weight": centred(5**-0.5), "conv1d.weight": centred(0.5),
              "out_proj.weight": lambda values, shape: centred(1 / math.sqrt(shape[1]))(values, shape)},
    "mamba2": MAMBA | {"dt_bias": steps, "conv1d.weight": lambda values, shape: centred(1 / math.sqrt(shape[2]))(values, shape),
                       "out_proj.weight": lambda values, shape: centred(1 / math.sqrt(shape[1]))(values, shape)},
    "recurrent-gemma": {"recurrent_param": between(0.9**2, 0.999**2, lambda x: math.exp(-2 * softplus(x))), "linear_x.weight": normal(32**-0.5), "linear_out.weight": normal((2 / 3 / 48) ** 0.5),
                        "q_proj.weight": normal(32**-0.5), "o_proj.weight": normal((2 / 3 / 32) ** 0.5), "input_gate_weight": normal((0.3 / 12) ** 0.5), "recurrent_gate_bias": same(0),
                        "up_proj.weight": normal((0.3 / 3) ** 0.5), "conv_1d.weight": normal((0.3 / 3) ** 0.5), "final_norm.weight": same(0), "temporal_pre_norm.weight": same(0)}}


def exported(folder, work, *arguments, zero=0):
    """What a run of one step at a rate of 0 leaves."""
    plan, out = work / "plan.bin", work / "out"
    shutil.rmtree(out, ignore_errors=True)
    run("ztc", "compile", folder, "-o", plan, "--target=host", "--batch=1", "--seq=8", f"--zero={zero}", "--precision=fp32")
    run("ztc-run", plan, "--device=cpu", f"--data={work / 'data.safetensors'}", "--steps=1", "--lr=0", "--no-save", f"--export={out}", *arguments)
    return read_safetensors(out / "model.safetensors")


with scratch() as work:
    rows = array.array("q", range(1, 17))
    write_safetensors(work / "data.safetensors", {key: ([2, 8], rows) for key in ("input_ids", "labels")})
    for name, expected in EXPECTED.items():
        folder = work / name
        folder.mkdir()
        shutil.copy(FOLDERS / name / "config.json", folder)
        tensors = exported(folder, work)
        for end, holds in expected.items():
            found = {n: (shape, values) for n, (shape, values) in tensors.items() if ("." + n).endswith("." + end)}
            wrong = [(n, list(values)[:4]) for n, (shape, values) in found.items() if not holds(values, shape)]
            check(f"{name}: {end} begins as transformers'", found and not wrong, wrong[:2])
        drawn = [n for n in tensors if n.endswith((".A_log", ".dt_bias"))]
        check(f"{name}: layers differ where numbers are drawn", name not in ("kimi-linear", "olmo-hybrid") or len({tuple(tensors[n][1]) for n in drawn}) == len(drawn))
    folder = work / "olmo-hybrid"
    one, two, other = exported(folder, work), exported(folder, work, "--ranks=2", zero=3), exported(folder, work, "--seed=3")
    check("the same bits on two ranks with shards", all(list(one[n][1]) == list(two[n][1]) for n in one) and set(one) == set(two))
    check("other numbers of another seed", any(list(one[n][1]) != list(other[n][1]) for n in one if n.endswith("A_log")))
    losses = []
    for folder in (FOLDERS / "mamba2", work / "mamba2"):
        run("ztc", "compile", folder, "-o", work / "plan.bin", "--target=host", "--batch=1", "--seq=8", "--precision=fp32")
        run("ztc-run", work / "plan.bin", "--device=cpu", f"--data={work / 'data.safetensors'}", "--steps=1", "--no-save", f"--log-json={work / 'log'}", "--overwrite", "--init=normal:0.05")
        losses.append(read_log(work / "log")[1][0]["loss"])
    check("--init of a folder with weights begins as one without", losses[0] == losses[1], losses)
    config = json.loads((work / "mamba2/config.json").read_text())
    (work / "mamba2/config.json").write_text(json.dumps(config | {"time_step_min": 0}))
    done = run("ztc", "compile", work / "mamba2", "-o", work / "plan.bin", "--batch=1", "--seq=8", expect=1)
    check("a step of 0 is refused", "time_step_min is 0; steps are above 0" in done.stderr, done.stderr[-300:])
finish()
