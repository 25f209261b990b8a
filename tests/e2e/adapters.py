#!/usr/bin/env python3
"""Low-rank adapters against PEFT (tests/golden/adapters, made by adapters.py there): losses, gradients by name, exports, stages, resume, what is refused."""
import json
import math
import shutil

from adapter_case import CASES, Case
from support import ROOT, check, finish, read_log, read_safetensors, run, scratch, stand_ins, write_safetensors


def norms(path):
    return {name: math.sqrt(sum(x * x for x in values)) for name, (_, values) in read_safetensors(path).items()}


def parity(case):
    plan, work, golden = case.work / "plan.bin", case.work, case.golden
    if case.compile(plan).returncode:
        return
    done, steps = case.run(plan, f"--dump-gradients={work / 'gradients'}", f"--export={work / 'tuned'}", "--export-dtype=fp32")
    if done.returncode:
        return
    check(f"{case.name}: first loss", abs(steps[0]["loss"] - golden["losses"][0]) <= 1e-5, (steps[0]["loss"], golden["losses"][0]))
    mine, want = norms(work / "gradients"), golden["gradients"]
    check(f"{case.name}: gradients have PEFT's names", set(mine) == set(want), sorted(set(mine) ^ set(want))[:4])
    largest = max(want.values())
    worst = max((abs(mine[n] - want[n]) / max(want[n], 1e-3 * largest), n) for n in set(mine) & set(want))
    check(f"{case.name}: worst norm of a gradient", worst[0] <= 5e-5, worst)
    for what, key, limit, relative in (("loss", "losses", 1e-4, False), ("grad_norm", "gradient_norms", 2e-4, True)):
        error = max(abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, golden[key], strict=True))
        check(f"{case.name}: {what} of each step", error <= limit, error)
    files = sorted(p.name for p in (work / "tuned").iterdir())
    check(f"{case.name}: the export is a PEFT folder", {"adapter_config.json", "adapter_model.safetensors"} <= set(files) and "config.json" not in files
          and "model.safetensors" not in files, files)
    final, want = norms(work / "tuned/adapter_model.safetensors"), golden["norms"]
    worst = max((abs(final.get(n, math.nan) - w) / max(w, 1e-3 * max(want.values())), n) for n, w in want.items())
    check(f"{case.name}: the export has PEFT's tensors", set(final) == set(want) and worst[0] <= 1e-4, worst)
    _, again = case.run(plan, f"--adapter={work / 'tuned'}", steps=1)
    check(f"{case.name}: a run begins with an export", again and abs(again[0]["loss"] - golden["final_loss"]) <= 2e-4, (again[0]["loss"], golden["final_loss"]))


def narrow(case):
    """In 16 bits, within what tests/golden/README.md says of these: the first loss, each gradient's norm, all losses."""
    for precision, limits in (("bf16", (4e-3, 4e-2, 6e-3)), ("fp16", (8e-4, 6e-3, 2e-3))):
        plan, gradients = case.work / f"{precision}.bin", case.work / f"{precision}-gradients"
        case.compile(plan, precision=precision)
        done, steps = case.run(plan, f"--dump-gradients={gradients}")
        if done.returncode:
            continue
        mine, want = norms(gradients), case.golden["gradients"]
        largest = max(want.values())
        worst = max((abs(mine.get(n, math.inf) - w) / max(w, 1e-1 * largest), n) for n, w in want.items())
        errors = abs(steps[0]["loss"] - case.golden["losses"][0]), worst[0], max(abs(s["loss"] - w) for s, w in zip(steps, case.golden["losses"], strict=True))
        check(f"{case.name}: {precision}", all(e <= limit for e, limit in zip(errors, limits)), (errors, worst[1]))


def narrow_as_peft(case):
    """In bf16, on one rank and with ZeRO-3 on two: at most twice as far off PEFT's fp32 as PEFT's own bf16 is, each step beside the experts that it chose."""
    own = json.loads((case.adapter / "bf16.json").read_text())
    # One run of six steps says little of how far roundings carry a mixture: the farthest run of all adapters on this folder counts.
    for other in CASES.glob("*/bf16.json") if "other_choices" in own else ():
        if json.loads((other.parent / "golden.json").read_text())["folder"] == case.golden["folder"]:
            beside = json.loads(other.read_text())
            own = {key: value if key == "other_choices" else max(value, beside[key]) for key, value in own.items()}
    others = own.pop("other_choices", [[]] * case.model["steps"])
    for what, batch, arguments, options in (("one rank", None, [], []), ("ZeRO-3 on 2", 1, ["--zero=3"], ["--ranks=2"])):
        plan, gradients = case.work / f"bf16-{len(options)}.bin", case.work / f"bf16-{len(options)}-gradients"
        case.compile(plan, *arguments, precision="bf16", batch=batch)
        done, steps = case.run(plan, f"--dump-gradients={gradients}", *options)
        if done.returncode:
            continue
        golden, mine = case.golden, norms(gradients)
        largest = max(golden["gradients"].values())
        wanted = [min([(w, v), *other], key=lambda x: abs(x[0] - s["loss"]) + abs(x[1] - s["grad_norm"]) / x[1]) for s, w, v, other in zip(steps, golden["losses"], golden["gradient_norms"], others, strict=True)]
        errors = {"loss": abs(steps[0]["loss"] - wanted[0][0]), "losses": max(abs(s["loss"] - w) for s, (w, _) in zip(steps, wanted)),
                  "gradient_norms": max(abs(s["grad_norm"] - v) / v for s, (_, v) in zip(steps, wanted)),
                  "gradients": max(abs(mine.get(n, math.inf) - w) / max(w, 1e-1 * largest) for n, w in golden["gradients"].items())}
        # One loss may be near by chance: the limit of each is that of the farthest.
        limits = {**own, "loss": own["losses"]}
        check(f"{case.name}: bf16 on {what}, as PEFT in bf16", all(1e-6 < errors[key] <= 2 * limit or errors[key] == 0 for key, limit in limits.items()), {k: (errors[k], 2 * limits[k]) for k in limits})


def stages(case):
    """Every stage has the bits of the others, and a resumed run those of the whole one."""
    runs = {}
    for stage in (0, 1, 2, 3):
        plan, folder = case.work / f"zero{stage}.bin", case.work / f"tuned{stage}"
        case.compile(plan, f"--zero={stage}", batch=1)
        _, steps = case.run(plan, "--ranks=2", f"--export={folder}", "--threads=1")
        runs[stage] = ([(s["loss"], s["grad_norm"]) for s in steps], (folder / "adapter_model.safetensors").read_bytes())
    for stage in (1, 2, 3):
        check(f"{case.name}: ZeRO-{stage} has the bits of ZeRO-0", runs[stage] == runs[0])
    saved, tuned = case.work / "saved", case.work / "resumed"
    case.run(case.work / "zero3.bin", "--ranks=2", "--threads=1", "--stop-after=3", f"--save={saved}")
    step = saved / "step-00000003"
    names = {p.name for p in step.iterdir()}
    check(f"{case.name}: a checkpoint is a PEFT folder with moments", {"adapter_config.json", "adapter_model.safetensors", "exp_avg-00001-of-00001.safetensors"} <= names, names)
    trainer = json.loads((step / "trainer.json").read_text())
    check(f"{case.name}: a checkpoint names its model", any("base" in key and str(case.folder) in str(value) for key, value in trainer["environment"].items()), trainer["environment"])
    _, steps = case.run(case.work / "zero3.bin", "--ranks=2", "--threads=1", f"--resume={saved}", f"--export={tuned}")
    check(f"{case.name}: resume goes on bit for bit", ([(s["loss"], s["grad_norm"]) for s in steps], (tuned / "adapter_model.safetensors").read_bytes())
          == (runs[3][0][3:], runs[3][1]))


def fresh(case):
    """--lora makes a new adapter: at first the model's own loss, B zero; what is written loads again, and the frozen model costs nothing."""
    plan, tuned = case.work / "fresh.bin", case.work / "fresh"
    run("ztc", "compile", case.folder, "-o", plan, "--target=host", "--batch=2", f"--seq={case.shape[1]}", "--precision=fp32", "--lora=r=16,alpha=32,targets=all-linear")
    _, steps = case.run(plan, f"--export={tuned}", f"--dump-gradients={case.work / 'fresh-gradients'}")
    check("fresh: the first loss is the model's", abs(steps[0]["loss"] - case.model["losses"][0]) <= 1e-5, (steps[0]["loss"], case.model["losses"][0]))
    gradients = norms(case.work / "fresh-gradients")
    check("fresh: A has no gradient while B is zero", all((x == 0) == (".lora_A." in n) for n, x in gradients.items()), gradients)
    check("fresh: it learns", steps[-1]["loss"] < steps[0]["loss"] + 0.2 and all(math.isfinite(s["loss"]) for s in steps))
    config = json.loads((tuned / "adapter_config.json").read_text())
    check("fresh: the configuration", (config["r"], config["lora_alpha"], config["peft_type"], "lm_head" in config["target_modules"]) == (16, 32, "LORA", False), config)
    again = case.work / "again.bin"
    case.compile(again, adapter=tuned)
    _, more = case.run(again, steps=1)
    _, same = case.run(plan, f"--adapter={tuned}", steps=1)
    check("fresh: compiled with the export or begun with it", more[0]["loss"] == same[0]["loss"] != steps[0]["loss"], (more[0]["loss"], same[0]["loss"]))
    memory = {}
    for name, more in (("adapter", ["--lora=r=2,alpha=4,targets=q_proj"]), ("whole", [])):
        table = json.loads(run("ztc", "memory", case.folder, "--batch=2", f"--seq={case.shape[1]}", "--precision=fp32", "--target=host", "--json", *more).stdout)
        memory[name] = table["rows"][0]["by_class"]
    parameters = memory["whole"]["parameters"]
    check("fresh: the frozen model has no moments", memory["adapter"]["optimizer"] < parameters / 10, memory)


def merged(name, work):
    """The whole model with the adapter in it: a plan of that folder has the loss that the trained adapter has, of weights in fewer bits that of their numbers."""
    case = Case(name, work)
    plan, folder, whole = work / "plan.bin", work / "merged", work / "whole.bin"
    case.compile(plan)
    done, _ = case.run(plan, f"--export={folder}", "--export-dtype=fp32", "--merge")
    if done.returncode:
        return
    files = sorted(p.name for p in folder.iterdir())
    check(f"merged {name}: a folder of transformers", {"config.json", "model.safetensors"} <= set(files) and not any("adapter" in f for f in files), files)
    run("ztc", "compile", folder, "-o", whole, "--target=host", f"--batch={case.shape[0]}", f"--seq={case.shape[1]}", "--precision=fp32")
    _, steps = case.run(whole, steps=1)
    check(f"merged {name}: the loss of the trained adapter", steps and abs(steps[0]["loss"] - case.golden["final_loss"]) <= 2e-4, (steps[0]["loss"], case.golden["final_loss"]))
    if name == "router-saved":
        same = set(read_safetensors(folder / "model.safetensors")) == set(case.model["gradients"])
        check(f"merged {name}: the names of the model's checkpoint", same)
    if name == "nf4":
        done, _ = case.run(plan, f"--export={work / 'base'}", "--merge=base")
        check("merged nf4: into the original weights, which says so", "the original weights: the loss may be another one" in done.stdout + done.stderr, done.stdout + done.stderr)
        run("ztc", "compile", case.adapter / "base", "-o", plan, "--target=host", f"--batch={case.shape[0]}", f"--seq={case.shape[1]}", "--precision=fp32", f"--adapter={case.adapter}")
        done, _ = case.run(plan, f"--export={work / 'stored'}", "--export-dtype=fp32", "--merge")
        config = json.loads((work / "stored/config.json").read_text())
        stored = read_safetensors(work / "stored/model.safetensors")
        check("merged nf4: of a folder in 4 bits, with nothing of these left", "quantization_config" not in config and not any("absmax" in n for n in stored), sorted(stored))
        same = read_safetensors(folder / "model.safetensors")
        worst = max(abs(a - b) for n in same for a, b in zip(same[n][1], stored[n][1], strict=True))
        check("merged nf4: the same numbers", set(same) == set(stored) and worst <= 1e-6, worst)
        done, _ = case.run(plan, f"--export={work / 'none'}", "--merge=base", expect=1)
        check("merged nf4: such a folder has no other weights", "there are no other weights" in done.stderr, done.stderr)


def unmergeable(case):
    """What a model without an adapter cannot say is an error by name."""
    plan = case.work / "plan.bin"
    case.compile(plan)
    done, _ = case.run(plan, f"--export={case.work / 'merged'}", "--merge", expect=1)
    check("merged tied: one of two uses of a tensor", "are one tensor" in done.stderr and "embed_tokens" in done.stderr, done.stderr)


def rows_of_both(case):
    """Rows of a table that is the head too: listed for both they are the same ones; what else would change the head is refused."""
    rows = json.loads((case.adapter / "adapter_config.json").read_text())["trainable_token_indices"]

    def changed(name, **more):
        folder = shutil.copytree(case.adapter, case.work / name)
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))
        return folder
    plan = case.work / "both.bin"
    case.compile(plan, adapter=changed("both", trainable_token_indices={"embed_tokens": rows, "lm_head": rows}))
    _, steps = case.run(plan)
    check("rows of both: the losses", max(abs(s["loss"] - w) for s, w in zip(steps, case.golden["losses"], strict=True)) <= 1e-4, steps)
    fresh = changed("fresh")
    (fresh / "adapter_model.safetensors").unlink()
    case.compile(plan, adapter=fresh)
    _, steps = case.run(plan, steps=1)
    check("rows of both: fresh ones are the model's", abs(steps[0]["loss"] - case.model["losses"][0]) <= 1e-5, (steps[0]["loss"], case.model["losses"][0]))
    for name, more, words in (("others", {"trainable_token_indices": {"embed_tokens": rows, "lm_head": rows[:2]}}, "other rows are listed"),
                              ("targeted", {"target_modules": ["q_proj", "lm_head"]}, "only one of them"), ("saved", {"modules_to_save": ["lm_head"]}, "only one of them")):
        done = case.compile(case.work / "bad.bin", adapter=changed(name, **more), expect=1)
        check(f"rows of both: {name}", done.returncode == 1 and words in done.stderr and "'lm_head' too (tied)" in done.stderr, done.stderr)
    for more in (["--zero=3", "--recompute=layer"], ["--quantize=nf4", "--pack"]):
        case.compile(plan, "--verify", *more)


def dora(case):
    """A fresh DoRA begins as LoRA does: magnitudes are the norms of the weights that are loaded, and of what the adapter adds to them."""
    def first(words, *arguments):
        plan = case.work / "dora.bin"
        run("ztc", "compile", case.folder, "-o", plan, "--target=host", "--batch=2", f"--seq={case.shape[1]}", "--precision=fp32", f"--lora=r=4,alpha=8,targets=all-linear{words}", *arguments)
        return case.run(plan, "--seed=3", f"--export={case.work / 'dora'}", "--overwrite", steps=1)[1][0]["loss"]
    for name, words, arguments in (("as it is", "", []), ("orthogonal", ",init=orthogonal", []), ("beside nf4", "", ["--quantize=nf4"]), ("ZeRO-3", ",init=orthogonal", ["--zero=3"])):
        plain, with_norms = first(words, *arguments), first(words + ",dora=true", *arguments)
        check(f"dora: the first loss is LoRA's, {name}", abs(plain - with_norms) <= 1e-5, (plain, with_norms))
    names = read_safetensors(case.work / "dora/adapter_model.safetensors")
    check("dora: a magnitude for each module", sum(n.endswith(".lora_magnitude_vector") for n in names) == 14, sorted(names)[:4])
    done = run("ztc", "compile", case.folder, "-o", case.work / "v.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", "--precision=fp32", "--zero=3", "--recompute=layer",
               "--lora=r=4,alpha=8,targets=all-linear,dora=true", "--verify")
    check("dora: every pass keeps the step", done.returncode == 0 and "constants to the gradient" in done.stdout + done.stderr, done.stdout + done.stderr)


def rates(case):
    """--lr-of: the bits of every stage, a factor of 1, what is refused; PyTorch's numbers are those of the case `rates`."""
    runs = {}
    for stage in (0, 1, 2, 3):
        plan, folder = case.work / f"rates{stage}.bin", case.work / f"rates{stage}"
        case.compile(plan, f"--zero={stage}", "--lr-of=lora_B=16", "--lr-of=q_proj.lora_A=0.5", batch=1)
        _, steps = case.run(plan, "--ranks=2", f"--export={folder}", "--threads=1")
        runs[stage] = ([(s["loss"], s["grad_norm"]) for s in steps], (folder / "adapter_model.safetensors").read_bytes())
    for stage in (1, 2, 3):
        check(f"rates: ZeRO-{stage} has the bits of ZeRO-0", runs[stage] == runs[0])
    plain, one = case.work / "plain.bin", case.work / "one.bin"
    case.compile(plain)
    case.compile(one, "--lr-of=lora_A=1")
    _, a = case.run(plain, "--threads=1")
    _, b = case.run(one, "--threads=1")
    check("rates: a factor of 1 changes nothing", [s["loss"] for s in a] == [s["loss"] for s in b])
    for pattern, words in (("nothing=2", "matches no parameter"), ("embed_tokens=2", "matches frozen parameters alone"), ("lora_A=0", "positive factor")):
        done = case.compile(case.work / "bad.bin", f"--lr-of={pattern}", expect=1)
        check(f"rates: {pattern} is refused", done.returncode == 1 and words in done.stderr, done.stderr)


def defaults(case):
    """Rates follow what is trained, and the header says so."""
    whole, adapter = case.work / "whole.bin", case.work / "adapter.bin"
    run("ztc", "compile", case.folder, "-o", whole, "--target=host", "--batch=1", f"--seq={case.shape[1]}")
    case.compile(adapter, batch=1)
    for name, plan, arguments, lr, decay, warmup in (("fresh", whole, ["--init=normal:0.02"], 3e-4, 0.1, 0), ("loaded", whole, [], 2e-5, 0, 3), ("adapters", adapter, [], 2e-4, 0, 3),
                                                     ("given", adapter, ["--lr=1e-3", "--weight-decay=0.5", "--warmup=2"], 1e-3, 0.5, 2)):
        log = case.work / f"defaults-{name}"
        done = run("ztc-run", plan, f"--data={case.data}", "--steps=100", "--stop-after=1", f"--log-json={log}", "--no-save", "--device=cpu", *arguments)
        said = read_log(log)[0]["optimizer"]
        check(f"defaults: {name}", (said["lr"], said["weight_decay"], said["warmup"]) == (lr, decay, warmup), said)
        check(f"defaults: {name}, in the header", f"rates   lr {lr:g}, cosine, warm-up {warmup} of 100 steps, weight decay {decay:g}" in done.stdout
              and ("by default for" in done.stdout) == (name != "given"), done.stdout)
    saved = case.work / "defaults-saved"
    run("ztc-run", whole, f"--data={case.data}", "--steps=6", "--stop-after=2", "--init=normal:0.02", f"--save={saved}", "--device=cpu")
    done = run("ztc-run", whole, f"--data={case.data}", "--steps=6", f"--resume={saved}", "--no-save", "--device=cpu")
    check("defaults: a resumed run keeps its rates", "lr 0.0003" in done.stdout and "; as before: lr" in done.stdout and "differs" not in done.stdout, done.stdout)


def into_graph(case):
    """ztc export --merge: the graph has the bits of the folder that ztc-run --merge makes of the same adapter."""
    graph, merged, plan = case.work / "graph.onnx", case.work / "merged.onnx", case.work / "graph.bin"
    run("ztc", "compile", case.folder, "-o", case.work / "x.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", f"--save-onnx={graph}")
    run("ztc", "export", graph, f"--weights={case.adapter}", "--merge", f"--base={case.folder}", "-o", merged)
    run("ztc", "compile", merged, "-o", plan, "--target=host", f"--batch={case.shape[0]}", f"--seq={case.shape[1]}", "--precision=fp32")
    _, steps = case.run(plan, steps=1)
    beside, folder = case.work / "beside.bin", case.work / "folder"
    case.compile(beside)
    run("ztc-run", beside, f"--data={case.data}", "--steps=1", "--lr=0", "--device=cpu", "--merge", f"--export={folder}")
    run("ztc", "compile", folder, "-o", plan, "--target=host", f"--batch={case.shape[0]}", f"--seq={case.shape[1]}", "--precision=fp32")
    _, same = case.run(plan, steps=1)
    check(f"into graph {case.name}: the merged folder's loss", steps and steps[0]["loss"] == same[0]["loss"], (steps, same))
    # Rounded once, to the bf16 of the folder.
    check(f"into graph {case.name}: nearly that of the adapter", abs(steps[0]["loss"] - case.golden["losses"][0]) <= 4e-3, (steps, case.golden["losses"][0]))


def not_into_graph(case):
    """What ztc export --merge refuses, by name."""
    graph, merged = case.work / "graph.onnx", case.work / "merged.onnx"
    run("ztc", "compile", case.folder, "-o", case.work / "x.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", f"--save-onnx={graph}")
    other = ROOT / "tests/folders/llama3-defaults"
    for name, arguments, words in (("tied", [f"--weights={case.adapter}", f"--base={case.folder}"], ["are one tensor", "embed_tokens"]),
                                   ("no base", [f"--weights={case.adapter}"], ["--base=DIR"]), ("another model", [f"--weights={CASES / 'conv1d'}", f"--base={other}"], ["changes no tensor"])):
        done = run("ztc", "export", graph, *arguments, "--merge", "-o", merged, expect=1)
        check(f"into graph: {name}", done.returncode == 1 and all(w in done.stderr for w in words) and not merged.exists(), done.stderr)


def masked(case):
    """Dropout: another mask for each step and module; the same bits at every stage, on any ranks, with other micro-batches and with recomputation."""
    def compiled(plan, *arguments, batch=1):
        return run("ztc", "compile", case.folder, "-o", case.work / plan, "--target=host", f"--batch={batch}", f"--seq={case.shape[1]}", "--precision=fp32",
                   "--lora=r=4,alpha=8,targets=all-linear,dropout=0.25,init=gaussian", *arguments)

    def losses(plan, *arguments, steps=3):
        _, rows = case.run(case.work / plan, "--threads=1", "--seed=5", *arguments, steps=steps)
        return [(s["loss"], s["grad_norm"]) for s in rows]
    compiled("plain.bin", "--recompute=none")
    plain = losses("plain.bin", "--ranks=2")
    for stage in (1, 2, 3):
        compiled("other.bin", f"--zero={stage}", "--recompute=layer")
        check(f"dropout: ZeRO-{stage} and recomputed layers have the bits of the plain plan", losses("other.bin", "--ranks=2") == plain)
    alone = losses("plain.bin", "--accumulate=2")
    check("dropout: one rank with two micro-steps", all(abs(a - b) <= 1e-6 for (a, _), (b, _) in zip(alone, plain)), (alone, plain))
    compiled("wide.bin", batch=2)
    wide = losses("wide.bin")
    check("dropout: and one micro-step of two rows", all(abs(a - b) <= 1e-6 for (a, _), (b, _) in zip(wide, plain)), (wide, plain))
    other = [s["loss"] for s in case.run(case.work / "plain.bin", "--threads=1", "--ranks=2", "--seed=6", steps=3)[1]]
    check("dropout: another seed drops others, once B is not zero", other[0] == plain[0][0] and other[1:] != [a for a, _ in plain[1:]], (other, plain))
    run("ztc", "compile", case.folder, "-o", case.work / "v.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", "--precision=fp32", "--zero=3", "--recompute=layer",
        "--lora=r=4,alpha=8,targets=all-linear,dropout=0.25", "--verify")


def recomputed(case):
    """In bf16 beside frozen parameters that stay in f32: shards and recomputation have the bits of whole parameters and of what is kept, with nf4 too."""
    for quantize in ([], ["--quantize=nf4"]):
        found = []
        for what in (["--zero=0"], ["--zero=3"], ["--zero=3", "--recompute=layer", "--verify"], ["--zero=3", "--recompute=cheap", "--prefetch=0"], ["--zero=3", "--recompute=layer", "--keep-gathered=all"]):
            plan, folder = case.work / "plan.bin", case.work / f"tuned{len(quantize)}{len(found)}"
            if case.compile(plan, *what, *quantize, batch=1, precision="bf16").returncode:
                continue
            _, steps = case.run(plan, "--ranks=2", "--threads=1", f"--export={folder}")
            found.append(([(s["loss"], s["grad_norm"]) for s in steps], (folder / "adapter_model.safetensors").read_bytes()))
            check(f"{case.name}: {' '.join(what + quantize)}", found[-1] == found[0], (found[-1][0], found[0][0]))


def experts_inside(case):
    """Of a module that is trained whole and has experts in it, which PEFT has as stacks."""
    adapter = case.work / "inside"
    adapter.mkdir()
    for name in ("mlp", "block_sparse_moe"):
        (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"], "modules_to_save": [name]}))
        done = case.compile(case.work / "bad.bin", adapter=adapter, expect=1)
        check(f"experts inside {name}: refused", "modules_to_save: 'model.layers.0.block_sparse_moe.experts.0.w" in done.stderr and "target_parameters" in done.stderr, done.stderr)


def older(case):
    """A router under the name that it had before transformers 5, in a folder of that time."""
    folder, plan = shutil.copytree(case.adapter, case.work / "older"), case.work / "older.bin"
    tensors = {name.replace(".mlp.gate.", ".block_sparse_moe.gate."): x for name, x in read_safetensors(folder / "adapter_model.safetensors").items()}
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    case.compile(plan, adapter=folder)
    _, steps = case.run(plan, f"--export={case.work / 'older-tuned'}", steps=1)
    check("older: the first loss", steps and abs(steps[0]["loss"] - case.golden["losses"][0]) <= 1e-5, steps)
    check("older: the export keeps the folder's names", set(read_safetensors(case.work / "older-tuned/adapter_model.safetensors")) == set(tensors), sorted(tensors))


def linear(case):
    """all-linear leaves out tables of positions, norms and the head."""
    done = run("ztc", "compile", ROOT / "tests/folders/gpt2", "-o", case.work / "gpt2.bin", "--target=host", "--batch=1", "--seq=20", "--lora=r=2,alpha=2,targets=all-linear")
    check("linear: gpt2 has four linear modules a block", "adapters of 8 modules" in done.stderr, done.stderr)
    # Of one layer alone, which an export says in whole names: in another program too these are the same modules.
    adapter, plan, tuned = case.work / "one-layer", case.work / "one-layer.bin", case.work / "one-layer-tuned"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "target_modules": "all-linear", "layers_to_transform": [1]}))
    done = case.compile(plan, adapter=adapter)
    check("linear: one layer has seven linear modules", "adapters of 7 modules" in done.stderr, done.stderr)
    case.run(plan, f"--export={tuned}", steps=1)
    names = read_safetensors(tuned / "adapter_model.safetensors")
    targets = json.loads((tuned / "adapter_config.json").read_text())["target_modules"]
    check("linear: all of that layer", len(names) == 14 and all(".layers.1." in n for n in names) and len(targets) == 7 and all(f"base_model.model.{t}.lora_A.weight" in names for t in targets), (targets, sorted(names)))


def experts_left_out(case):
    """all-linear begins without what PEFT finds no linear modules of, and says so; of Mixtral PEFT takes these for parameters. Of halves alone it reads nothing."""
    def compiled(folder, words):
        return run("ztc", "compile", ROOT / "tests/folders" / folder, "-o", case.work / "fresh.bin", "--target=host", "--batch=1", "--seq=20", f"--lora=r=2,alpha=3,{words}").stderr
    for folder, modules, words in (("qwen2-moe", 23, "24 modules of experts and 2 routers are left out"), ("hy-v3", 14, "12 modules of experts and 1 router are left out"),
                                   ("gpt-oss", 8, "2 routers are left out"), ("mixtral", 34, None), ("minimax", 40, None), ("qwen3-next", 47, None),
                                   ("falcon-h1", 16, "out_proj of state space models is left out, 2 in all: PEFT refuses adapters of it in model_type falcon_h1"),
                                   ("nemotron-h", 9, "8 modules of experts and 1 router are left out"), ("nemotron-h", 9, "out_proj of state space models is left out, 1 in all")):
        said = compiled(folder, "targets=all-linear")
        check(f"experts left out: {folder}", f"adapters of {modules} modules" in said and (words or "") in said and ("left out" in said) == bool(words), said)
    check("experts left out: of a folder", "24 modules of experts are left out, for which the folder has no factors" in case.compile(case.work / "folder.bin").stderr)
    for targets, isHalf in (("w1+w3", True), ("w1+w2+w3", False)):
        said = compiled("mixtral", f"targets={targets}")
        check(f"experts left out: {targets}", ("missing adapter keys" in said) == isHalf, said)
    done = run("ztc", "compile", ROOT / "tests/folders/falcon-h1", "-o", case.work / "bad.bin", "--lora=r=2,targets=out_proj+in_proj", expect=1)
    check("experts left out: what PEFT refuses", "'model.layers.0.mamba.out_proj', of which PEFT refuses adapters in model_type falcon_h1" in done.stderr, done.stderr)
    some = case.work / "some"
    shutil.copytree(case.adapter, some)
    factors = read_safetensors(some / "adapter_model.safetensors")
    one = "base_model.model.model.layers.0.mlp.experts.1.up_proj.lora_"
    shared = "base_model.model.model.layers.0.mlp.shared_expert.up_proj.lora_"
    write_safetensors(some / "adapter_model.safetensors", factors | {one + f"{x}.weight": factors[shared + f"{x}.weight"] for x in "AB"})
    done = case.compile(case.work / "bad.bin", adapter=some, expect=1)
    check("experts left out: some of a folder's", done.returncode == 1 and "lacks" in done.stderr and "experts.0.gate_proj" in done.stderr, done.stderr)


def on_gpus(case):
    """Weights in fewer bits on the CUDA device, over the stand-ins: the host's losses and gradients, on one GPU and with shards on two."""
    environment = stand_ins(2, ZTC_CUDNN="0")
    for precision, limits in (("fp32", (1e-6, 1e-6)), ("bf16", (2e-3, 1e-2))):  # losses, norms: those of gpu-models.py
        for ranks, zero in ((1, 0), (2, 3)):
            plan = case.work / f"{precision}-{zero}.bin"
            case.compile(plan, f"--zero={zero}", batch=1, precision=precision, target="x86-64-v3,simt")
            _, host = case.run(plan, f"--ranks={ranks}", "--threads=1", steps=2)
            _, gpu = case.run(plan, f"--gpus={ranks}", steps=2, env=environment)
            worst = [max(abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(gpu, host, strict=True)) for key in ("loss", "grad_norm")]
            check(f"gpu: {precision} with ZeRO-{zero} on {ranks}", all(w <= limit for w, limit in zip(worst, limits)), worst)


def refused(case):
    """One message that names what is wrong."""
    def changed(name, **more):
        folder = case.work / name
        shutil.copytree(case.adapter, folder)
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))
        return folder
    for name, more, words in (
            ("rank", {"r": 5}, ["lora_A.weight", "[4, 40]", "[5, 40]"]), ("targets", {"target_modules": ["q_proj"]}, ["for which the model has no place"]),
            ("more", {"target_modules": ["q_proj", "v_proj", "down_proj", "o_proj"]}, ["lacks", "o_proj.lora_A.weight"]),
            ("nothing", {"target_modules": ["query"]}, ["names no module", "q_proj"]), ("norm", {"target_modules": ["norm"]}, ["model.norm", "neither a linear module nor an embedding"]),
            ("pissa", {"init_lora_weights": "pissa"}, ["init_lora_weights", "pissa"]), ("kind", {"peft_type": "IA3"}, ["peft_type", "IA3"]),
            ("unknown", {"lora_moon": 3}, ["lora_moon", "3"]), ("parameter", {"target_parameters": ["gate.weight"]}, ["'gate.weight'", "none of that name"]),
            ("twice", {"target_parameters": ["q_proj.weight"]}, ["'model.layers.0.self_attn.q_proj.weight'", "name it in one of them"]),
            ("layers", {"target_modules": ".*q_proj", "layers_to_transform": [0]}, ["layers_to_transform", "'.*q_proj'", "regular expression"]), ("pattern", {"target_modules": "(q_proj"}, ["target_modules", "regular expression"])):
        done = case.compile(case.work / "bad.bin", adapter=changed(name, **more), expect=1)
        check(f"refused: {name}", done.returncode == 1 and all(w in done.stderr for w in words), done.stderr)
    done = run("ztc", "compile", case.folder, "-o", case.work / "bad.bin", "--lora=r=4,rank=4", expect=1)
    check("refused: a word of --lora", "rank=4" in done.stderr, done.stderr)
    plan = case.work / "good.bin"
    case.compile(plan)
    done, _ = case.run(plan, f"--adapter={changed('alpha', lora_alpha=99)}", expect=1)
    whole = case.work / "whole.bin"
    run("ztc", "compile", case.folder, "-o", whole, "--target=host", "--batch=1", f"--seq={case.shape[1]}")
    trial = run("ztc-run", whole, f"--adapter={case.adapter}", "--device=cpu", expect=1)
    check("refused: an adapter for a plan without one", "trains the whole model" in trial.stderr, trial.stderr)
    check("refused: an adapter of another scale", "lora_alpha" in done.stderr and "99" in done.stderr, done.stderr)


for name in sorted(p.name for p in CASES.iterdir()):
    with scratch() as work:
        parity(Case(name, work))
for name in ("list", "patterns", "biases", "fused", "conv1d", "saved", "saved-inside", "nf4", "nf4-conv1d", "int8", "int8-conv1d", "dora", "dora-fused", "dora-conv1d", "dora-embedding", "dora-int8", "tokens", "tokens-head",
             "tokens-head-padding", "experts", "experts-inner", "linear-alone", "shared-expert", "shared-experts", "router", "router-all", "router-saved", "stacks", "stacks-swapped", "stacks-renamed", "soft-caps", "parallel", "latent", "layer-inputs",
             "values-are-keys", "streams", "convolutions", "convolutions-experts", "convolutions-gates", "delta", "delta-parts", "delta-apart", "delta-rows", "states", "states-beside", "states-apart"):
    with scratch() as work:
        merged(name, work)
for test in (unmergeable, not_into_graph):
    with scratch() as work:
        test(Case("tied", work))
for test in (stages, masked, fresh, linear, refused, dora, rates, defaults):
    with scratch() as work:
        test(Case("list", work))
with scratch() as work:
    rows_of_both(Case("tokens-head", work))
for test in (older, experts_inside):
    with scratch() as work:
        test(Case("router-saved", work))
with scratch() as work:
    experts_left_out(Case("linear-alone", work))
for name in ("list", "dora", "tokens", "tokens-head", "router", "router-saved", "shared-experts"):
    with scratch() as work:
        into_graph(Case(name, work))
for name in ("dora", "tokens", "tokens-head", "experts", "router-all", "stacks", "layer-inputs", "convolutions", "delta", "states"):
    with scratch() as work:
        stages(Case(name, work))
for name in ("states", "states-beside"):
    with scratch() as work:
        recomputed(Case(name, work))
for name in ("list", "dora", "dora-embedding", "dora-nf4", "tokens", "tokens-head", "experts", "parallel"):
    with scratch() as work:
        narrow(Case(name, work))
for name in sorted(p.parent.name for p in CASES.glob("*/bf16.json")):
    with scratch() as work:
        narrow_as_peft(Case(name, work))
for name in ("dora", "tokens", "tokens-head"):  # tokens: on a part of the joined q|k|v alone, which is padded in bf16
    with scratch() as work:
        on_gpus(Case(name, work))
with scratch() as work:
    on_gpus(Case("nf4-conv1d", work))
for test in (stages, on_gpus):
    with scratch() as work:
        test(Case("nf4", work))
finish()
