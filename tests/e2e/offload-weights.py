#!/usr/bin/env python3
"""Weights below the device at every stage, frozen ones and trained ones, in the host's memory and on a disk: the bits of the plan that has all of it on the device, on
1, 2 and 4 ranks, with accumulation, recomputation, updates in the backward, evaluations, texts that are generated, quantised weights and a resume; on a GPU too
(over the stand-ins of tests/standin); predicted = reserved in every space; a budget takes as many as it needs."""
import json
import os

from support import BUILD, check, finish, read_log, run, scratch, write_tiny_llama

STAND_INS = {"ZTC_STAND_INS": str(BUILD / "lib/standin"), "ZTC_STAND_IN_GPUS": "2", "ZTC_CUDNN": "0"}
LORA = "--lora=r=4,alpha=8,targets=all-linear"
# Parameters alone: states and masters stay where they are.
ALONE = [f"--pass-option=ztc-{one}.choice=parameters={{}}" for one in ("place-below", "bring-parameters")]


def alone(share):
    return [option.format(share) for option in ALONE]


def write_llama(folder, **more):
    write_tiny_llama(folder, 512)
    config = json.loads((folder / "config.json").read_text())
    config.update(hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
    config.update(more)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def checkpoint(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


with scratch() as work:
    model = write_llama(work / "model")
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    (work / "held-out.txt").write_text("A slow green turtle walks around the busy cat. " * 20)
    disk = work / "disk"
    disk.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}

    def compiled(name, *options, target="host", of=model):
        plan = work / f"{name.replace(' ', '-')}.bin"
        said = run("ztc", "compile", of, "--batch=1", "--seq=32", f"--target={target}", "-o", plan, *options, env=environment).stdout
        return plan, said

    def trained(plan, *options, steps=3, device="--device=cpu", env=()):
        """Losses, norms and evaluations, the checkpoint, the log's header and summary."""
        save = work / "checkpoints"
        run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=1e-3", device, f"--save={save}", "--overwrite", f"--log-json={work / 'log'}",
            f"--eval-data={work / 'held-out.txt'}", "--eval-every=2", *(["--threads=1"] if device == "--device=cpu" else []), *options, env={**environment, **dict(env)})
        lines = [json.loads(x) for x in (work / "log").read_text().splitlines()]
        numbers = [(x.get("loss"), x.get("grad_norm"), x.get("eval_loss")) for x in lines if "loss" in x or "eval_loss" in x]
        return numbers, checkpoint(save / f"step-{steps:08}"), lines[0], [x for x in lines if x.get("event") == "summary"][-1]

    known = {}  # what plans have given that have everything on the device

    def same(what, plain, below, *options, **more):
        key = (plain, *options, *more.items())
        if key not in known:
            known[key] = trained(plain, *options, **more)
        expected, found = known[key], trained(below, "--poison", *options, **more)
        check(f"{what}: the same bits", found[:2] == expected[:2] and len(found[0]) > 3 and found[1], (found[0], expected[0]))
        spaces = found[2]["spaces"]
        check(f"{what}: predicted = reserved in every space", all(s["predicted_bytes"] == s["allocated_bytes"] for s in spaces.values()) and any(s["predicted_bytes"] for s in spaces.values()), spaces)
        check(f"{what}: nothing is left", not list(disk.iterdir()))
        return expected, found

    def lower(plan, space, *options):
        """Bytes by class in a space."""
        row = json.loads(run("ztc", "inspect", plan, "--json", *(options or ["--threads=1"]), env=environment).stdout)
        return row["spaces"].get(space, {}).get("by_class", {})

    # The weights beside an adapter, at every stage; all of them, and some of them.
    places = {"host": ["--host-mem=1GiB"], "disk": [f"--disk={disk}"], "both": ["--host-mem=500KiB", f"--disk={disk}"]}
    for zero in range(4):
        plain, _ = compiled(f"plain lora {zero}", LORA, f"--zero={zero}")
        for name, place in places.items():
            plan, said = compiled(f"{name} lora {zero}", LORA, f"--zero={zero}", *place)
            for ranks in (1, 2, 4) if name == "both" else (1,):
                expected, found = same(f"an adapter's frozen weights, ZeRO-{zero}, {name}, {ranks} ranks", plain, plan, f"--ranks={ranks}", "--accumulate=2")
            check(f"ZeRO-{zero}, {name}: they lie there", all(lower(plan, space).get("parameters", 0) > 100000 for space in (("host", "disk") if name == "both" else (name,))), said)
            check(f"ZeRO-{zero}, {name}: and not on the device", found[2]["by_class"].get("parameters", 0) == 0 < expected[2]["by_class"]["parameters"], found[2]["by_class"])
    text = run("ztc", "inspect", work / "host-lora-0.bin", "--text", env=environment).stdout
    check("a block comes while the one before computes", "block1.parameter.brought in" in text and "block1.parameter.brought2 in" in text, text[:2000])

    # Trained ones: the update works on them where they lie (stage 0), or in a window, from which they go down again; by both engines.
    for precision, zero in (("bf16", 0), ("bf16", 1), ("bf16", 2), ("bf16", 3), ("fp32", 0), ("fp32", 2), ("fp16", 1)):
        plain, _ = compiled(f"plain {precision} {zero}", f"--precision={precision}", f"--zero={zero}")
        for name, place in (("all", places["both"]), ("parameters alone", [f"--disk={disk}", *alone("4+99")])):
            plan, said = compiled(f"{name} {precision} {zero}", f"--precision={precision}", f"--zero={zero}", *place)
            for ranks in (1, 2, 3) if precision == "bf16" else (1,):
                same(f"{name}, {precision}, ZeRO-{zero}, {ranks} ranks", plain, plan, f"--ranks={ranks}")
    for name, options, more in (("recomputation and accumulation", ["--recompute=layer"], ["--accumulate=3"]), ("8-bit states without masters", ["--optimizer-state=int8", "--master=none"], []),
                                ("frozen embeddings", ["--freeze=embed_tokens"], []), ("fp8", ["--precision=fp8"], ["--accumulate=2"]), ("lion", ["--optimizer=lion"], []),
                                ("updates in the backward", ["--update=in-backward"], ["--clip=0"]), ("quantised", [LORA, "--quantize=nf4"], [])):
        for zero in (0, 1, 2):
            plain, _ = compiled(f"plain {name} {zero}", f"--zero={zero}", *options)
            plan, said = compiled(f"below {name} {zero}", f"--zero={zero}", *options, *places["both"])
            same(f"{name}, ZeRO-{zero}", plain, plan, *more, f"--ranks={1 + zero % 2}")
    tied = write_llama(work / "tied", tie_word_embeddings=True)
    for zero in (0, 2):
        plain, plan = (compiled(f"{len(place)} tied {zero}", f"--zero={zero}", *place, of=tied)[0] for place in ([], places["both"]))
        same(f"a table that is the head too, ZeRO-{zero}", plain, plan, "--ranks=2")

    # Resumed with the other plan; texts.
    plain, plan = work / "plain-bf16-1.bin", work / "all-bf16-1.bin"
    straight = trained(plain, steps=4)[1]
    for first, then in ((plan, plan), (plain, plan), (plan, plain)):
        train = [f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=4", "--lr=1e-3", "--device=cpu", "--threads=1", f"--save={work / 'parts'}"]
        run("ztc-run", first, *train, "--overwrite", "--stop-after=2")
        run("ztc-run", then, *train, f"--resume={work / 'parts'}")
        check(f"{first.name}, resumed with {then.name}: the same bits", checkpoint(work / "parts/step-00000004") == straight)
    texts = []
    for place in ([], places["both"]):
        plan, _ = compiled(f"{len(place)} texts", "--generate", *place)
        texts.append(run("ztc-run", plan, f"--weights={work / 'parts/step-00000004'}", "--tokenizer=bytes", "--generate=12", "--temperature=1", "--prompt=The quick", "--device=cpu", "--threads=1", errors="replace").stdout)
    check("the same text, token by token", texts[0] == texts[1] and texts[0], texts)

    # As many as a budget asks for.
    options = ["--zero=0", "--gpus=1", "--threads=1", LORA]
    rows = json.loads(run("ztc", "memory", model, "--batch=1", "--seq=32", "--target=host", *options, "--json", env=environment).stdout)["rows"]
    peak, seen = rows[0]["peak_bytes"], []
    for share in (0.95, 0.8, 0.7):
        plan, said = compiled(f"budget {share}", *options, f"--mem={int(peak * share)}B", "--host-mem=1GiB", "--recompute=none")
        row = json.loads(run("ztc", "inspect", plan, "--json", "--threads=1", env=environment).stdout)
        seen.append(row["spaces"]["host"]["by_class"].get("parameters", 0))
        check(f"--mem of {share:.0%} is kept with {seen[-1]} bytes of weights in the host's memory", row["peak_bytes"] <= peak * share, row["peak_bytes"])
        same("within it", work / "plain-lora-0.bin", plan)
    check("a smaller budget moves more", seen == sorted(seen) and seen[0] < seen[-1], seen)

    # On a GPU: by its kernels, or with updates on the host's cores, of what lies in its memory.
    for name, options in (("an adapter", [LORA]), ("all", []), ("sharded states", ["--zero=1"]), ("the host's update", ["--offload-update=host"])):
        given = [option for option in options if not option.startswith("--offload")]
        plain, _ = compiled(f"gpu plain {name}", *given, target="x86-64-v3,simt")
        for where in ("host", "disk") if name == "an adapter" else ("both",) if name == "all" else ("host",):
            plan, _ = compiled(f"gpu {where} {name}", *options, *places[where], target="x86-64-v3,simt")
            for gpus in (1, 2) if name == "sharded states" else (1,):
                expected, found = (trained(one, device=f"--gpus={gpus}", env=STAND_INS) for one in (plain, plan))
                check(f"{gpus} GPUs, {name}, {where}: the same bits", found[:2] == expected[:2], (found[0], expected[0]))
finish()
