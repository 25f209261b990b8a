#!/usr/bin/env python3
"""Whole models on the CUDA device, over the stand-ins of tests/standin: the host's losses, norms and first gradients within rounding, in every
precision, on one GPU and with shards on two, with attention by own kernels and by cuDNN; predicted is allocated; what the run says where cuDNN
cannot be used; a plan for GPUs alone."""
from support import BUILD, GOLDEN, check, compile_golden, finish, gradient_errors, read_log, read_safetensors, run, scratch, stand_ins

ENVIRONMENT = stand_ins(2)
CUDNN = (BUILD / "lib/libztc-cudnn.so").exists()
OWN = {**ENVIRONMENT, "ZTC_CUDNN": "0"}
STEPS = 2
SKIPS = 3  # of the run in fp16 whose scale is too large at first
# Losses, the first gradient norm, the second, worst gradient, relative: sums have another order, and where they are rounded to 16 bits the last bit
# moves. AdamW's first update is close to the sign of each gradient: what is near zero turns, so the second norm is as far off as a run in 16 bits is
# from one in fp32 on the host alone (up to 2e-3 in fp16, 1e-2 in bf16). The first norm in fp16 may be off by half a unit in the last place of f16: logits
# are rounded to it, and one whose sum has another order may fall to the other neighbour (3.4e-4 where they are, 1.7e-4 where the head is kept in fp32).
LIMITS = {"fp32": (1e-6, 1e-6, 1e-6, 1e-5), "bf16": (2e-3, 2e-3, 1e-2, 4e-2), "fp16": (3e-4, 2**-11, 2e-3, 6e-3)}


def train(plan, name, model, *more, steps=STEPS, env=OWN, **expected):
    """(run header, steps, first gradients) of a run."""
    log, gradients = plan.with_name(f"{name}.log"), plan.with_name(f"{name}.gradients")
    done = run("ztc-run", plan, f"--data={GOLDEN / model / 'data.safetensors'}", f"--steps={steps}", "--lr=2e-3", "--no-save", f"--log-json={log}",
               f"--dump-gradients={gradients}", *more, env=env, **expected)
    return (*read_log(log), read_safetensors(gradients)) if done.returncode == 0 else done


def compare(work, case, model, ranks, accumulate, *options, by_cudnn=CUDNN, scale=None):
    """`scale`: what fp16's loss is multiplied by first; steps are added for those that overflow."""
    precision = case.split()[0]
    folder = work / case.replace(" ", "-")
    folder.mkdir()
    plan = compile_golden(folder, model, f"--precision={precision}", "--target=x86-64-v3,simt", *options, batch=1)
    more = {"steps": STEPS + SKIPS} if scale else {}
    common = (f"--accumulate={accumulate}", *([f"--loss-scale={scale}"] if scale else []))
    _, host, want = train(plan, "host", model, f"--ranks={ranks}", *common, "--device=cpu", "--threads=1", **more)
    head, gpu, own = train(plan, "gpu", model, f"--gpus={ranks}", *common, **more)
    used = head["versions"]["device"]
    check(f"{case}: attention by own kernels", "attention and its gradient by own kernels (" in used, used)
    close(case, precision, head, (host, want), (gpu, own))
    if by_cudnn:
        head, steps, got = train(plan, "cudnn", model, f"--gpus={ranks}", *common, env=ENVIRONMENT, **more)
        used = head["versions"]["device"]
        check(f"{case}: attention by cuDNN", "attention by cuDNN 9.26.0, attention gradient by cuDNN 9.26.0 with scores in memory" in used, used)
        close(f"{case} by cuDNN", precision, head, (host, want), (steps, got))
        close(f"{case} by cuDNN, beside own kernels", precision, head, (gpu, own), (steps, got), "own kernels")
    if scale:
        skips = [x["skipped"] for x in gpu]
        check(f"{case}: the first steps overflow and halve the scale", skips == [True] * SKIPS + [False] * STEPS
              and [x["loss_scale"] for x in gpu] == [scale / 2 ** min(i, SKIPS) for i in range(len(gpu))], gpu)
    return plan, gpu


def close(case, precision, head, wanted, gotten, whose="the host"):
    (host, want), (gpu, got) = wanted, gotten
    check(f"{case}: predicted is allocated", head["predicted_bytes"] == head["allocated_bytes"] > 0, head["allocated_bytes"])
    skips = [(x["skipped"], x.get("loss_scale")) for x in host]
    check(f"{case}: steps are skipped as by {whose}", [(x["skipped"], x.get("loss_scale")) for x in gpu] == skips, skips)
    check(f"{case}: {STEPS} steps train", len(gpu) - sum(skip for skip, _ in skips) == STEPS)
    loss, first, second, gradient = LIMITS[precision]
    for key, limits in (("loss", [loss] * len(host)), ("grad_norm", (first, second))):
        pairs = [(a[key], b[key]) for a, b in zip(gpu, host) if key == "loss" or not b["skipped"]]
        far = [abs(a - b) / abs(b) for a, b in pairs]
        check(f"{case}: {key} as by {whose}", len(far) == len(limits) and all(x <= limit for x, limit in zip(far, limits)), far)
    errors = gradient_errors(got, want, floor=1e-2)
    worst = max(errors, key=errors.get)
    check(f"{case}: gradients as by {whose}", errors[worst] <= gradient, (worst, errors[worst]))


def without_cudnn(work, plan, own):
    """Where cuDNN cannot be used the run says why, and own kernels give their bits."""
    missing = work / "without cuDNN"
    missing.mkdir()
    for name in ("cuda", "cublaslt", "nccl", "nvml"):
        (missing / f"libztc-standin-{name}.so").symlink_to(BUILD / f"lib/standin/libztc-standin-{name}.so")
    for case, variables, needs in (
        ("is missing", {"ZTC_STAND_INS": str(missing)}, ["attention and its gradient by own kernels (cuDNN cannot be loaded", "nvidia-cudnn-cu13", "ZTC_LIBCUDNN"]),
        ("has no module", {"ZTC_CUDNN_MODULE": "/no/such/file.so"}, ["attention and its gradient by own kernels (this build has no libztc-cudnn.so"]),
        ("has no engine", {"ZTC_STAND_IN_CUDNN_ENGINES": "0"}, ["attention by own kernels (cuDNN 9.26.0 refuses:", "attention gradient by own kernels (cuDNN"]),
        ("is too old", {"ZTC_STAND_IN_CUDNN": "90500"}, ["attention and its gradient by own kernels (cuDNN 9.5.0 is not used: 9.6.0 or later is needed)"]),
        ("wants too much", {"ZTC_STAND_IN_CUDNN_WORKSPACE": str(1 << 30)}, ["attention gradient by own kernels (cuDNN 9.26.0 wants 1.00 GiB of workspace here, the plan reserves"]),
        ("cannot run its graphs", {"ZTC_STAND_IN_CUDNN_EXECUTES": "0", "ZTC_CUDA_TUNE": "20", "XDG_CACHE_HOME": str(work / "cache")},
         ["attention and its gradient by own kernels (cuDNN 9.26.0: execute: ", "Unable to load any libcudart library"]),
    ):
        head, steps, _ = train(plan, case.replace(" ", "-"), "tied", "--gpus=1", "--accumulate=2", env={**ENVIRONMENT, **variables})
        used = head["versions"]["device"]
        check(f"cuDNN {case}: the run says so", all(text in used for text in needs), used)
        check(f"cuDNN {case}: own kernels' bits", [x["loss"] for x in steps] == [x["loss"] for x in own])
    # Before 9.25 the gradient's workspace grows with the square of the sequence: products' leaves room for it here.
    used = train(plan, "old", "tied", "--gpus=1", env={**ENVIRONMENT, "ZTC_STAND_IN_CUDNN": "91900"})[0]["versions"]["device"]
    check("cuDNN 9.19: its one way, in the plan's workspace", used.endswith("attention and its gradient by cuDNN 9.19.0"), used)


with scratch() as work:
    _, steps = compare(work, "fp32 on one GPU", "grouped", 1, 2, by_cudnn=False)
    narrow, own = compare(work, "bf16 on one GPU", "tied", 1, 2)
    if CUDNN:
        without_cudnn(work, narrow, own)
    else:
        print("cuDNN is left out: this build has no libztc-cudnn.so")
    compare(work, "fp16 on one GPU", "head-norms", 1, 1, by_cudnn=False)  # heads of a length that cuDNN does not take
    compare(work, "fp16 with overflows on one GPU", "grouped", 1, 2, scale=2 ** 20)
    compare(work, "bf16 with shards on two GPUs", "grouped", 2, 1, "--zero=3")

    alone = compile_golden(work, "grouped", "--target=simt", batch=1)
    check("a plan for GPUs alone: the same bits", [x["loss"] for x in train(alone, "alone", "grouped", "--gpus=1", "--accumulate=2")[1]] == [x["loss"] for x in steps])
    refused = train(alone, "refused", "grouped", "--device=cpu", expect=1)
    check("a plan for GPUs alone is not a host's", "this processor cannot run the plan's kernels" in refused.stderr, refused.stderr)
finish()
