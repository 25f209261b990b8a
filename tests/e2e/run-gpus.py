#!/usr/bin/env python3
"""ztc-run --gpus: what it says where no GPU can be used, and that stand-ins are never taken unasked."""
import os

from support import BUILD, check, compile_golden, finish, read_log, run, scratch

STAND_INS = BUILD / "lib/standin"


def refused(name, plan, *options, needs, expect=1, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ZTC_LIB", "ZTC_STAND"))}
    done = run("ztc-run", plan, *options, expect=expect, env={**environment, **variables})
    for text in needs:
        check(f"{name}: says {text}", text in done.stderr, "" if text in done.stderr else done.stderr[-400:])
    check(f"{name}: one error", done.stderr.count("error:") == 1, done.stderr[-400:] if done.stderr.count("error:") != 1 else "")


with scratch() as work:
    plan = compile_golden(work, "grouped")
    refused("no driver", plan, "--gpus=1", ZTC_LIBCUDA="/nowhere/libcuda.so.1",
            needs=["--gpus: no GPU can be used", "/nowhere/libcuda.so.1", "--device=cpu", "ZTC_LIBCUDA"])
    refused("no driver for the launcher", plan, "--gpus=2", ZTC_LIBCUDA="/nowhere/libcuda.so.1", needs=["--gpus: no GPU can be used"])
    refused("a stand-in as the driver", plan, "--device=cuda", ZTC_LIBCUDA=str(STAND_INS / "libztc-standin-cuda.so"),
            needs=["is a stand-in for tests, which only ZTC_STAND_INS may name"])
    on_stand_ins = {"ZTC_STAND_INS": str(STAND_INS)}
    refused("no GPU", plan, "--gpus=1", **on_stand_ins, ZTC_STAND_IN_DRIVER="0", needs=["the NVIDIA driver is here and sees no GPU"])
    refused("an old driver", plan, "--gpus=1", **on_stand_ins, ZTC_STAND_IN_DRIVER="11080",
            needs=["it supports CUDA 11.8, 12.0 is needed", "driver 525"])
    refused("too few GPUs", plan, "--gpus=2", **on_stand_ins, needs=["--gpus 2: this host has 1: STAND-IN (NO GPU)"])
    refused("a plan for the processor", plan, "--gpus=1", **on_stand_ins,
            needs=["NO GPU IS USED, THIS IS A TEST", "the plan's kernels are for x86-64-v3", "STAND-IN (NO GPU) runs simt"])

    # What the toy plan of gpu-training.py needs besides a driver.
    toy = work / "toy.bin"
    run("toy-gpu-plan", BUILD / "lib/libztc-standin-toy.so", toy)
    trial = ("--init=normal:0.02", "--steps=1")
    no_nccl = work / "without NCCL"
    no_nccl.mkdir()
    for name in ("cuda", "cublaslt", "nvml"):
        (no_nccl / f"libztc-standin-{name}.so").symlink_to(STAND_INS / f"libztc-standin-{name}.so")
    refused("no NCCL", toy, "--gpus=2", *trial, ZTC_STAND_INS=str(no_nccl), ZTC_STAND_IN_GPUS="2",
            needs=["NCCL cannot be loaded", "several GPUs need it", "nvidia-nccl", "ZTC_LIBNCCL"])
    refused("an old NCCL", toy, "--gpus=2", *trial, **on_stand_ins, ZTC_STAND_IN_GPUS="2", ZTC_STAND_IN_NCCL="21701",
            needs=["NCCL 2.17.1 was found, 2.18 is needed"])
    refused("too little memory", toy, "--gpus=2", *trial, **on_stand_ins, ZTC_STAND_IN_GPUS="2", ZTC_STAND_IN_MEMORY="1000",
            needs=["bytes more than the 1000 B that are free"])
    refused("too little memory for two on one GPU", toy, "--gpus=2", *trial, **on_stand_ins, ZTC_SHARE_GPUS="1", ZTC_STAND_IN_MEMORY="30000",
            needs=["for the 2 ranks on GPU 0000:00:00.0"])
    # Libraries take memory of their own at their first call: before the arena, so that nothing is missing in the middle of a step.
    folder = work / "for GPUs"
    folder.mkdir()
    model, header = compile_golden(folder, "grouped", "--target=simt", batch=1), work / "header.log"
    run("ztc-run", model, *trial, "--gpus=1", f"--log-json={header}", env={**os.environ, **on_stand_ins})
    arena, taken = -(-read_log(header)[0]["allocated_bytes"] // 512) * 512, 128 << 10  # whole pages of the stand-in
    greedy = {**on_stand_ins, "ZTC_STAND_IN_LIBRARIES": str(taken)}
    refused("libraries take theirs before the arena", model, "--gpus=1", *trial, **greedy, ZTC_STAND_IN_MEMORY=str(arena + taken - 512),
            needs=["512 bytes more than the"])
    done = run("ztc-run", model, *trial, "--gpus=1", env={**os.environ, **greedy, "ZTC_STAND_IN_MEMORY": str(arena + taken)})
    check("with what libraries take the arena fits to the byte", done.returncode == 0, done.stderr[-600:])
    refused("two ranks: the buffers of collectives too", model, "--gpus=2", *trial, **greedy, ZTC_STAND_IN_GPUS="2", ZTC_STAND_IN_MEMORY=str(arena + taken),
            needs=["bytes more than the"])
    said = run("ztc-run", "--libraries", env={**os.environ, **on_stand_ins}).stdout
    check("--libraries: versions and files", "cuBLASLt 13.1.0, " in said and "NCCL 2.28.9, " in said and "libztc-standin-nccl.so" in said, said)
    done = run("ztc-run", toy, *trial, env={**os.environ, **on_stand_ins, "ZTC_STAND_IN_GPUS": "2"})
    check("without a word about devices all GPUs are taken", "ranks   2, a GPU each" in done.stdout, done.stdout[-600:] + done.stderr[-600:])
    done = run("ztc-run", plan, "--steps=1", env={**os.environ, "ZTC_LIBCUDA": "/nowhere/libcuda.so.1"})
    check("where there is none, the processor, and it says so", "no GPU was found: one CPU rank" in done.stdout, done.stdout[-600:])
    done = run("ztc-run", plan, "--device=cpu", "--steps=1", env={**os.environ, **on_stand_ins})
    check("a run on the processor takes no stand-ins", "NO GPU" not in done.stdout + done.stderr)
finish()
