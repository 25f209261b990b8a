#!/usr/bin/env python3
"""Updates on the host's cores of what lies in the host's memory (--offload-update=host): the bits of the update on the device, at every stage, for every optimizer and
form of states, after and within the backward, on GPUs (over the stand-ins of tests/standin) and on the CPU; predicted = reserved in every space, and within --host-mem;
a resumed run goes on with the bits; the compiler takes what is faster."""
import json
import os

from support import check, finish, read_log, read_summary, run, scratch, stand_ins, tensor_files, write_tiny_llama

HOST = ["--host-mem=1GiB", "--offload-update=host", "--pass-option=ztc-update-on-host.piece-elements=262144"]
DEVICE = ["--host-mem=1GiB", "--offload-update=device"]
HOST_MEMORY = 8 << 20  # bytes, where some lies on a disk
DISK_STAGING = 16 << 20  # kDiskStagingBytes of runtime/Memory/DiskStaging.h: through which a device reads a disk, beside --host-mem


with scratch() as work:
    model = work / "model"
    write_tiny_llama(model, 2560, hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    disk = work / "disk"
    disk.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    on_gpus = stand_ins(2, environment, ZTC_CUDNN="0")

    def compiled(name, *options, target="x86-64-v3,simt"):
        plan = work / f"{name.replace(' ', '-')}.bin"
        done = run("ztc", "compile", model, "--batch=1", "--seq=32", f"--target={target}", "-o", plan, *options, env=environment)
        return plan, done.stdout

    def trained(plan, *options, steps=3, gpus=0):
        """Losses and norms, the checkpoint, the log's header and summary."""
        save = work / "checkpoints"
        where = [f"--gpus={gpus}"] if gpus else ["--device=cpu"]
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=1e-3", *where, "--threads=2", f"--save={save}", "--overwrite",
            f"--log-json={work / 'log'}", *options, env=on_gpus if gpus else environment)
        head, lines = read_log(work / "log")
        return [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(save / f"step-{steps:08}"), head, read_summary(work / "log")

    def same(what, expected, found):
        check(f"{what}: the same bits", found[:2] == expected[:2] and len(found[1]) >= 2, (found[0], expected[0]))
        spaces = found[2]["spaces"]
        check(f"{what}: predicted = reserved in every space", all(s["predicted_bytes"] == s["allocated_bytes"] for s in spaces.values()), spaces)

    # Every stage, optimizer and form of states: on one device all three plans, on two ranks the host's and the plain one.
    cases = [("bf16 0", ["--precision=bf16"], []), ("bf16 1", ["--precision=bf16", "--zero=1"], []), ("bf16 3", ["--precision=bf16", "--zero=3"], ["--accumulate=2"]),
             ("fp32 2", ["--precision=fp32", "--zero=2"], []), ("fp16 0", ["--precision=fp16"], ["--accumulate=2"]),
             ("int8 states 1", ["--precision=bf16", "--optimizer-state=int8", "--master=none", "--zero=1"], []),
             ("bf16 states 3", ["--precision=bf16", "--optimizer-state=bf16", "--zero=3"], []), ("lion 0", ["--optimizer=lion"], []), ("sgd 2", ["--optimizer=sgd", "--zero=2"], []),
             ("in the backward 0", ["--precision=bf16", "--update=in-backward"], ["--clip=0"]),
             ("in the backward 3", ["--precision=bf16", "--update=in-backward", "--zero=3"], ["--clip=0"])]
    for name, options, more in cases:
        plain, _ = compiled(f"plain {name}", *options)
        host, said = compiled(f"host {name}", *options, *HOST)
        text = run("ztc", "inspect", host, "--text", "--gpus=1", env=environment).stdout
        check(f"{name}: the host's cores update, as the compiler says", "on the host's cores" in text and "the host's cores update there" in said, said)
        for gpus in (0, 1, 2) if name in ("bf16 1", "bf16 3", "in the backward 3") else (0, 1):
            ranks = f"{name}, {gpus} GPUs" if gpus else f"{name}, on the CPU"
            expected, found = (trained(plan, *more, gpus=gpus) for plan in (plain, host))
            same(ranks, expected, found)
            if gpus == 1:
                check(f"{ranks}: the header says who updates", "updates in the host's memory by 2" in found[2]["versions"]["device"], found[2]["versions"])
    streamed, _ = compiled("streamed", "--precision=bf16", *DEVICE)
    plain, host = work / "plain-bf16-0.bin", work / "host-bf16-0.bin"
    expected, through, found = (trained(plan, gpus=1) for plan in (plain, streamed, host))
    same("streamed through the device", expected, through)
    check("less goes over the link", found[3]["host_in_bytes"] + found[3]["host_out_bytes"] < (through[3]["host_in_bytes"] + through[3]["host_out_bytes"]) / 2, (found[3], through[3]))
    check("the device holds no windows", found[2]["allocated_bytes"] <= through[2]["allocated_bytes"], (found[2]["allocated_bytes"], through[2]["allocated_bytes"]))
    same("poisoned", trained(plain), trained(host, "--poison"))

    # Some on the disk: those stream.
    both, said = compiled("both", "--precision=fp32", "--zero=2", f"--host-mem={HOST_MEMORY}B", f"--disk={disk}", "--offload-update=host")
    check("some are below, and --host-mem holds", "disk " in said, said)
    row = json.loads(run("ztc", "inspect", both, "--json", "--gpus=1", env=environment).stdout)
    check("the windows are within --host-mem", row["spaces"]["host"]["bytes"] <= HOST_MEMORY + DISK_STAGING and row["spaces"]["host"]["updated_bytes"] > 0, row["spaces"])
    for gpus in (0, 1):
        same(f"host and disk, {gpus} GPUs", trained(work / "plain-fp32-2.bin", gpus=gpus), trained(both, gpus=gpus))

    # A resumed run, on the GPU with the host's update and then without.
    straight = trained(plain, gpus=1, steps=4)[1]
    train = [f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=4", "--lr=1e-3", "--gpus=1", f"--save={work / 'parts'}"]
    for first, then in ((host, host), (host, plain), (plain, host)):
        run("ztc-run", first, *train, "--overwrite", "--stop-after=2", env=on_gpus)
        run("ztc-run", then, *train, f"--resume={work / 'parts'}", env=on_gpus)
        check(f"{first.name}, resumed with {then.name}: the same bits", tensor_files(work / "parts/step-00000004") == straight)

    # Who is faster: by the rate of the link.
    links = work / "cache/ztc/links.json"
    links.parent.mkdir(parents=True, exist_ok=True)
    for rate, onHost in ((4e9, True), (400e9, False)):
        links.write_text(json.dumps([{"kind": "gpu", "name": "a GPU", "date": "2026-11-24", "in_bytes_per_second": rate, "out_bytes_per_second": rate}]))
        said = compiled("auto", "--precision=bf16", "--host-mem=1GiB")[1]
        check(f"at {rate / 1e9:.0f} GB/s the {'host' if onHost else 'device'} updates", ("the host's cores update" in said) == onHost, said)
    said = compiled("auto", "--precision=bf16", "--host-mem=1GiB", target="x86-64-v3")[1]
    check("on a CPU they stream", "the host's cores update" not in said, said)

    # What it needs is said.
    for options, words in ((["--offload-update=host"], "--host-mem=SIZE"), (["--offload-update=host", "--host-mem=1GiB", "--target=simt"], "--target=host,simt")):
        done = run("ztc", "compile", model, "-o", work / "no.bin", *options, env=environment, expect=2)
        check(f"{options}: {words}", words in done.stderr and not (work / "no.bin").exists(), done.stderr)
finish()
