#!/usr/bin/env python3
"""What moves within a micro-step: states whose updates are in the backward, gradients, and what blocks keep for their backward; in the host's memory and on a disk,
with the bits of the plan that has all of it on the device, at every stage, with accumulation, recomputation and a resume; on a GPU too (over the stand-ins of
tests/standin), where a disk goes through page-locked memory. Rates of links are kept, and the compiler says where its own are from."""
import json
import os
import re

from support import check, finish, read_log, read_safetensors, read_summary, run, scratch, stand_ins, tensor_files, write_tiny_llama

IN_BACKWARD = ["--update=in-backward"]
# More than there is: everything of these kinds.
WITHIN = "--pass-option=ztc-stage-slots.choice=gradients=0+99/activations=2+97"


def write_llama(folder, **more):
    return write_tiny_llama(folder, 512, **{"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, **more})


with scratch() as work:
    model = write_llama(work / "model")
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    disk = work / "disk"
    disk.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    on_gpus = stand_ins(2, environment, ZTC_CUDNN="0")

    def compiled(name, *options, target="host"):
        plan = work / f"{name.replace(' ', '-')}.bin"
        run("ztc", "compile", model, "--batch=1", "--seq=32", f"--target={target}", "-o", plan, *options, env=environment)
        return plan

    def trained(plan, *options, steps=3, device="--device=cpu"):
        """Losses and norms, the checkpoint, the log's header and summary."""
        save = work / "checkpoints"
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=1e-3", device, f"--save={save}", "--overwrite", f"--log-json={work / 'log'}",
            *(["--threads=1"] if device == "--device=cpu" else []), *options, env=environment if device == "--device=cpu" else on_gpus)
        head, lines = read_log(work / "log")
        return [(s["loss"], s["grad_norm"]) for s in lines], tensor_files(save / f"step-{steps:08}"), head, read_summary(work / "log")

    def same(what, plain, below, *options, **more):
        expected, found = trained(plain, *options, **more), trained(below, *options, **more)
        check(f"{what}: the same bits", found[:2] == expected[:2] and len(found[1]) >= 3, (found[0], expected[0]))
        spaces = found[2]["spaces"]
        check(f"{what}: predicted = reserved in every space", all(s["predicted_bytes"] == s["allocated_bytes"] for s in spaces.values()), spaces)
        check(f"{what}: nothing is left", not list(disk.iterdir()))
        return expected, found

    # Updates in the backward: states in the host's memory and on the disk, at stage 3 parameters too.
    spaces = ["--host-mem=400KiB", f"--disk={disk}", "--pass-option=ztc-stream-update.piece-elements=262144"]
    states = ["--precision=bf16", "--master=none", "--optimizer-state=int8"]
    for name, options in (("bf16", ["--precision=bf16"]), ("int8 without masters", states), ("recomputation", [*states, "--recompute=layer"])):
        for zero in range(4) if name == "bf16" else (0, 3):
            plain = compiled(f"plain {name} {zero}", *options, *IN_BACKWARD, f"--zero={zero}")
            below = compiled(f"below {name} {zero}", *options, *IN_BACKWARD, f"--zero={zero}", *spaces)
            for ranks in (1, 2) if zero in (0, 3) else (1,):
                for clip in ("0", "block") if ranks == 1 else ("0",):
                    _, found = same(f"{name} in the backward, ZeRO-{zero}, {ranks} ranks, --clip={clip}", plain, below, f"--clip={clip}", f"--ranks={ranks}")
                    check("states were moved", found[3]["disk_read_bytes"] > 0 < found[3]["host_in_bytes"], found[3])
    same("poisoned", work / "plain-bf16-3.bin", work / "below-bf16-3.bin", "--clip=0", "--poison")
    one_piece = compiled("one piece", *states, *IN_BACKWARD, "--host-mem=1GiB")
    same("a bucket at a time", work / "plain-int8-without-masters-0.bin", one_piece, "--clip=0", "--poison")

    # Gradients and activations, with everything else or alone; one micro-step and several.
    for precision, zero, more in (("bf16", 0, []), ("fp32", 0, []), ("bf16", 2, []), ("bf16", 3, ["--recompute=layer"]), ("fp32", 1, []), ("fp16", 3, [])):
        options = [f"--precision={precision}", f"--zero={zero}", *more]
        plain = compiled(f"plain {precision} {zero} {len(more)}", *options)
        for name, space in (("below", [f"--disk={disk}"]), ("some", ["--host-mem=1MiB", f"--disk={disk}", "--pass-option=ztc-place-below.choice=none"])):
            plan = compiled(f"{name} {precision} {zero} {len(more)}", *options, *space, WITHIN)
            text = run("ztc", "inspect", plan, "--text").stdout
            check(f"{precision}, ZeRO-{zero}: gradients and activations move", re.search(r"gradient out ", text) and re.search(r"layer0\.\S+ again in", text), text[:3000])
            for accumulate, ranks in ((1, 1), (3, 1), (2, 2))[1 if name == "some" else 0:]:
                same(f"gradients and activations, {precision}, ZeRO-{zero}, {name}, {accumulate} micro-steps, {ranks} ranks", plain, plan, f"--accumulate={accumulate}", f"--ranks={ranks}",
                     "--poison")
    # Tensor by tensor: some of some blocks, in both spaces, beside what is computed again.
    def tensors_of(plan):
        """By space what blocks keep there: the number of blocks by tensor."""
        spaces = json.loads(run("ztc", "inspect", plan, "--json", "--threads=1", env=environment).stdout).get("spaces", {})
        return {name: {t["tensor"]: (t["blocks"], t["of_blocks"]) for t in space.get("tensors", [])} for name, space in spaces.items()}

    options = ["--precision=bf16", "--recompute=cheap"]
    plain, names = compiled("plain cheap", *options), sorted(tensors_of(compiled("all cheap", *options, f"--disk={disk}", "--pass-option=ztc-stage-slots.choice=activations=0+99"))["disk"])
    check("blocks keep several tensors", len(names) >= 3, names)
    choice = f"activations.{names[0]}=1+1/activations.{names[1]}=0+2"
    some = compiled("tensors", *options, "--host-mem=1MiB", f"--disk={disk}", f"--pass-option=ztc-stage-slots.choice={choice}")
    found = tensors_of(some)
    check("what is asked for lies below, and nothing else", found == {"host": {names[0]: (1, 3)}, "disk": {names[0]: (1, 3), names[1]: (2, 3)}}, found)
    same("some tensors of some blocks", plain, some, "--accumulate=2", "--poison")

    plain, plan = work / "plain-bf16-2-0.bin", work / "some-bf16-2-0.bin"
    dumped = []
    for each in (plain, plan):
        trained(each, f"--dump-gradients={work / 'gradients'}", "--accumulate=2")
        dumped.append(read_safetensors(work / "gradients"))
    check("gradients are dumped from where they lie", dumped[0] == dumped[1] and len(dumped[0]) > 10)
    both = compiled("both", *states, *IN_BACKWARD, "--zero=3", f"--disk={disk}", "--pass-option=ztc-stage-slots.choice=activations=0+99")
    same("states, parameters and activations in one micro-step", work / "plain-int8-without-masters-3.bin", both, "--clip=0", "--poison")

    # A budget that states and parameters below do not meet alone: gradients follow.
    large = write_llama(work / "large", hidden_size=256, intermediate_size=704, num_hidden_layers=6)
    options = ["--batch=1", "--seq=32", "--target=host", "--zero=3", "--gpus=1", "--threads=1", f"--disk={disk}", "--pass-option=ztc-stream-update.piece-elements=262144"]
    least = json.loads(run("ztc", "memory", large, *options, "--json", env=environment).stdout)["rows"][0]["peak_bytes"]
    run("ztc", "compile", large, *options, "--recompute=none", f"--mem={least - (2 << 20)}", "-o", work / "tight.bin", env=environment)
    row = json.loads(run("ztc", "inspect", work / "tight.bin", "--json", "--threads=1", env=environment).stdout)
    check("a budget below that of states and parameters is met", row["peak_bytes"] <= least - (2 << 20), (row["peak_bytes"], least))
    check("with gradients", row["spaces"]["disk"]["by_class"].get("gradients", 0) > 0, row["spaces"])
    run("ztc", "compile", large, *options[:5], "-o", work / "loose.bin", env=environment)
    same("within it", work / "loose.bin", work / "tight.bin")

    # On a GPU: page-locked memory, and a disk behind it.
    for name, options in (("in the backward", [*states, *IN_BACKWARD]), ("after it", ["--precision=bf16", "--zero=3", WITHIN])):
        plans = [compiled(f"gpu {name} {len(space)}", *(option for option in options if space or option != WITHIN), *space, target="x86-64-v3,simt") for space in ([], [f"--disk={disk}"])]
        expected, found = (trained(plan, *(["--clip=0"] if "backward" in name else []), steps=4, device="--gpus=1") for plan in plans)
        check(f"a GPU with a disk, updates {name}: the same bits", found[:2] == expected[:2], (found[0], expected[0]))
        check("predicted = reserved in every space", found[2]["spaces"]["disk"]["predicted_bytes"] == found[2]["spaces"]["disk"]["allocated_bytes"] > 0
              and found[2]["spaces"]["host"]["predicted_bytes"] == found[2]["spaces"]["host"]["allocated_bytes"] > 0, found[2]["spaces"])
        check("nothing is left", not list(disk.iterdir()))

    # Rates of links: assumed until they are measured, then kept with a date.
    def sources(*options):
        row = json.loads(run("ztc", "inspect", work / "below-bf16-0.bin", "--json", *options, env=environment).stdout)
        return {name: space["link_source"] for name, space in row["spaces"].items()}

    check("rates are assumed", all("assumed" in source for source in sources().values()), sources())
    said = run("ztc-run", "--measure-links", f"--disk={disk}", env=on_gpus).stdout
    check("what is measured is kept", "links.json" in said and re.search(r"gpu +[0-9.]+ GB/s in", said), said)
    kept = json.loads((work / "cache/ztc/links.json").read_text())
    check("with device and date", {x["kind"] for x in kept} == {"memory", "cores", "gpu", "disk"} and all(re.match(r"20\d\d-\d\d-\d\d$", x["date"]) and x["name"] for x in kept), kept)
    text = run("ztc", "memory", model, "--batch=1", "--seq=32", "--target=host", "--threads=1", f"--disk={disk}", env=environment).stdout
    check("and the compiler goes by it", re.search(r"^disk .*GB/s \(measured 20\d\d-\d\d-\d\d", text, re.M), text)
    (work / "cache/ztc/links.json").write_text("rates")
    done = run("ztc", "memory", model, "--batch=1", "--seq=32", "--target=host", "--threads=1", f"--disk={disk}", env=environment)
    check("a file that holds none is named, and left aside", "links.json" in done.stderr and "--measure-links" in done.stderr and "assumed" in done.stdout, (done.stderr, done.stdout))
# In the update too gradients come back bucket by bucket, for their norm and once more: three of them are on the device, not all.
with scratch() as work:
    deep = write_llama(work / "model", num_hidden_layers=12)
    said = run("ztc", "memory", deep, "--batch=1", "--seq=32", "--target=host", "--precision=fp32", "--mem=1MiB", "--reserve=0", f"--disk={work}", "--json")
    row = json.loads(said.stdout)["rows"][0]
    there, below = row["by_class"]["gradients"], row["spaces"]["disk"]["by_class"].get("gradients", 0)
    check("of 12 blocks' gradients three at most are on the device at the peak", 0 < there <= 3.1 * below / 13, (there, below))
finish()
