#!/usr/bin/env python3
"""Low-rank adapters against PEFT (tests/golden/adapters, made by adapters.py there): losses, gradients by name, exports, stages, resume, what is refused."""
import array
import json
import math
import shutil

from support import GOLDEN, ROOT, check, finish, optimizer_arguments, read_log, read_safetensors, run, scratch, stand_ins, write_safetensors

CASES = GOLDEN / "adapters"


def norms(path):
    return {name: math.sqrt(sum(x * x for x in values)) for name, (_, values) in read_safetensors(path).items()}


class Case:
    """A golden with the folder that it is of, and its rows as a file."""

    def __init__(self, name, work):
        self.name, self.work, self.adapter = name, work, CASES / name
        self.golden = json.loads((self.adapter / "golden.json").read_text())
        self.folder = ROOT / "tests/folders" / self.golden["folder"]
        if "config" in self.golden:
            self.folder = shutil.copytree(self.folder, work / "folder")
            config = self.folder / "config.json"
            config.write_text(json.dumps(json.loads(config.read_text()) | self.golden["config"]))
        self.model = json.loads((self.folder / "golden.json").read_text())
        self.shape = [self.model["batch"], self.model["seq"]]
        self.data = work / "data.safetensors"
        write_safetensors(self.data, {key: ([self.model["steps"], *self.shape], array.array("q", [x for b in self.model[key] for row in b for x in row]))
                                      for key in ("input_ids", "labels")})

    def compile(self, plan, *arguments, adapter=None, batch=None, precision="fp32", target="host", expect=0):
        return run("ztc", "compile", self.folder, "-o", plan, f"--target={target}", f"--batch={batch or self.shape[0]}", f"--seq={self.shape[1]}", f"--precision={precision}",
                   f"--adapter={adapter or self.adapter}", *([f"--quantize={self.golden['quantize']}"] if "quantize" in self.golden else []), *(f"--lr-of={x}" for x in self.golden.get("lr_of", [])), *arguments, expect=expect)

    def run(self, plan, *arguments, steps=None, expect=0, env=None):
        log = self.work / f"log{len(list(self.work.glob('log*')))}"
        optimizer = [x for x in optimizer_arguments(self.model["optimizer"]) if x != "--no-save" or not any(str(y).startswith("--save=") for y in arguments)]
        device = ["--device=cpu"] if any(str(x).startswith("--gpus") for x in arguments) else []
        optimizer = [x for x in optimizer if x not in device]
        done = run("ztc-run", plan, f"--data={self.data}", f"--steps={steps or self.model['steps']}", f"--log-json={log}", *optimizer, *arguments, expect=expect, env=env)
        return done, read_log(log)[1] if done.returncode == 0 else None


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
                                   ("gpt-oss", 8, "2 routers are left out"), ("mixtral", 34, None)):
        said = compiled(folder, "targets=all-linear")
        check(f"experts left out: {folder}", f"adapters of {modules} modules" in said and (words or "") in said and ("left out" in said) == bool(words), said)
    check("experts left out: of a folder", "24 modules of experts are left out, for which the folder has no factors" in case.compile(case.work / "folder.bin").stderr)
    for targets, isHalf in (("w1+w3", True), ("w1+w2+w3", False)):
        said = compiled("mixtral", f"targets={targets}")
        check(f"experts left out: {targets}", ("missing adapter keys" in said) == isHalf, said)
    some = case.work / "some"
    shutil.copytree(case.adapter, some)
    factors = read_safetensors(some / "adapter_model.safetensors")
    one = "base_model.model.model.layers.0.mlp.experts.1.up_proj.lora_"
    shared = "base_model.model.model.layers.0.mlp.shared_expert.up_proj.lora_"
    write_safetensors(some / "adapter_model.safetensors", factors | {one + f"{x}.weight": factors[shared + f"{x}.weight"] for x in "AB"})
    done = case.compile(case.work / "bad.bin", adapter=some, expect=1)
    check("experts left out: some of a folder's", done.returncode == 1 and "lacks" in done.stderr and "experts.0.gate_proj" in done.stderr, done.stderr)


def shards(folder, out, is_second, without=None):
    """The folder with its tensors in two files: bytes as they are."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    shutil.copy(folder / "config.json", out)
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, index = json.loads(data[8:8 + size]), {}
    for number in (1, 2):
        mine, body = {}, b""
        for name, tensor in header.items():
            if name == "__metadata__" or name == without or is_second(name) != (number == 2):
                continue
            piece = data[8 + size + tensor["data_offsets"][0]:8 + size + tensor["data_offsets"][1]]
            mine[name] = tensor | {"data_offsets": [len(body), len(body) + len(piece)]}
            body += piece
            index[name] = f"model-0000{number}-of-00002.safetensors"
        head = json.dumps(mine).encode()
        (out / f"model-0000{number}-of-00002.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + body)
    (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def quantized(case):
    """A frozen model in fewer bits: what it takes, who says so, that its numbers are never kept, what a checkpoint says of its base."""
    wide = case.work / "wide"
    wide.mkdir()
    config = json.loads((case.folder / "config.json").read_text()) | {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64}
    (wide / "config.json").write_text(json.dumps(config))

    def table(*more):
        rows = run("ztc", "memory", wide, "--batch=1", f"--seq={case.shape[1]}", "--precision=fp32", "--target=host", "--json", "--lora=r=2,alpha=4,targets=all-linear", *more).stdout
        return json.loads(rows)["rows"][0]["by_class"]
    plain, nf4, int8 = (table(*more) for more in ([], ["--quantize=nf4"], ["--quantize=int8"]))
    elements = sum(2 * x for x in (256 * 256 * 2, 256 * 64 * config["num_key_value_heads"] * 2, 256 * 512 * 3))
    saved = [(plain["parameters"] - fewer["parameters"]) / elements for fewer in (nf4, int8)]  # bytes an element, of 4
    check("quantized: nf4 takes half a byte, int8 one", 3.4 < saved[0] < 3.5 and 2.9 < saved[1] < 3.0, (saved, nf4, int8, plain))
    text = run("ztc", "memory", case.folder, "--batch=1", f"--seq={case.shape[1]}", "--target=host", "--lora=r=2,alpha=4,targets=all-linear", "--quantize=nf4").stdout
    check("quantized: memory says what is in fewer bits", "14 weights in nf4: " in text, text)
    plan = case.work / "plan.bin"
    case.compile(plan)
    said = run("ztc", "inspect", plan, "--text").stdout
    check("quantized: inspect names each weight", said.count(", nf4 of ") == 14 and "quantised    14 weights in nf4" in said and "model.embed_tokens.weight" in said, said[:3000])
    slots = json.loads(run("ztc", "inspect", plan, "--json").stdout)["slots"]
    check("quantized: numbers are workspace", {s["class"] for s in slots if s["name"].endswith(".dequantize")} == {"workspace"}, slots)
    for precision in ("bf16", "fp16"):
        case.compile(case.work / "narrow.bin", precision=precision)
        _, steps = case.run(case.work / "narrow.bin", steps=1)
        error = abs(steps[0]["loss"] - case.golden["losses"][0])
        check(f"quantized: {precision}", error <= (6e-3 if precision == "bf16" else 2e-3), error)
    saved = case.work / "saved-nf4"
    case.run(plan, f"--save={saved}", steps=1)
    trainer = json.loads((saved / "step-00000001" / "trainer.json").read_text())
    base = [value for key, value in trainer["environment"].items() if "base" in key]
    check("quantized: a checkpoint names its base and the bits", len(base) == 1 and str(case.folder) in base[0] and base[0].endswith(", nf4"), base)
    done = run("ztc", "compile", case.folder, "-o", case.work / "verified.bin", "--target=host", "--batch=1", f"--seq={case.shape[1]}", "--lora=r=4,alpha=8,targets=all-linear",
               "--quantize=nf4", "--zero=3", "--recompute=layer", "--verify")
    # One line of the small form of the model, one of the plan's own kernels.
    check("quantized: every pass keeps the step", done.returncode == 0 and done.stdout.count("verified: ") == 2, done.stderr + done.stdout)
    for level in ("cheap", "layer"):
        again = case.work / f"{level}.bin"
        case.compile(again, f"--recompute={level}")
        _, steps = case.run(again, "--threads=1")
        _, kept = case.run(plan, "--threads=1")
        check(f"quantized: the bits of --recompute={level}", [s["loss"] for s in steps] == [s["loss"] for s in kept])
    # The folder as transformers saves it, quantised by bitsandbytes.
    base, stored = case.adapter / "base", case.work / "stored.bin"
    arguments = ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32"]
    for ranks in (1, 2):
        run("ztc", "compile", base, "-o", stored, *arguments, f"--batch={case.shape[0] // ranks}", f"--adapter={case.adapter}", f"--zero={0 if ranks == 1 else 3}")
        _, steps = case.run(stored, f"--ranks={ranks}")
        error = max(abs(s["loss"] - want) for s, want in zip(steps, case.golden["losses"], strict=True))
        check(f"quantized: from a folder in 4 bits, {ranks} ranks", error <= 1e-4, error)
    _, steps = case.run(plan, f"--weights={base}", steps=1)
    check("quantized: --weights of such a folder", abs(steps[0]["loss"] - case.golden["losses"][0]) <= 1e-5, steps[0]["loss"])
    parts = case.work / "parts"
    def is_second(name):
        return "absmax" in name or name.endswith("_map")
    shards(base, parts, is_second)
    run("ztc", "compile", parts, "-o", stored, *arguments, f"--batch={case.shape[0]}", f"--adapter={case.adapter}")
    _, again = case.run(stored, steps=1)
    check("quantized: a weight's parts in two files", again[0]["loss"] == steps[0]["loss"], (again[0]["loss"], steps[0]["loss"]))
    shards(base, parts, is_second, without="model.layers.1.mlp.up_proj.weight.absmax")
    done, _ = case.run(stored, steps=1, expect=1)
    check("quantized: a part that is missing", "model.layers.1.mlp.up_proj.weight.absmax' is missing" in done.stderr, done.stderr)
    for name, words, *options in (("no adapter", "give --lora"), ("other bits", "in nf4 already", "--lora=r=2,alpha=2,targets=all-linear", "--quantize=int8")):
        done = run("ztc", "compile", base, "-o", case.work / "bad.bin", *arguments, *options, expect=1)
        check(f"quantized: a folder in 4 bits, {name}", words in done.stderr and done.returncode == 1, done.stderr)
    done = run("ztc", "compile", case.folder, "-o", case.work / "bad.bin", "--quantize=nf4", expect=1)
    check("quantized: what is trained keeps its bits", "--lora" in done.stderr and done.returncode == 1, done.stderr)


def single_folder(source, out, storage="U8", double=()):
    """A folder in 4 bits with scales in f32, those that the scales in 8 bits of `source` stand for: its numbers are the same bits. `storage`: the type of its codes;
    `double`: the weights that keep their scales in 8 bits."""
    out.mkdir()
    config = json.loads((source / "config.json").read_text())
    config["quantization_config"]["bnb_4bit_use_double_quant"] = False
    (out / "config.json").write_text(json.dumps(config))
    data = (source / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    stored = {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
              for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}

    def f32(values=()):
        return array.array("f", values)
    for name in [n.removesuffix(".nested_absmax") for n in stored if n.endswith(".nested_absmax")]:
        if name in double:
            continue
        state_name = f"{name}.quant_state.bitsandbytes__nf4"
        state = json.loads(stored[state_name][2])
        nested, table = f32(), f32()
        nested.frombytes(stored.pop(f"{name}.nested_absmax")[2]), table.frombytes(stored.pop(f"{name}.nested_quant_map")[2])
        mean = f32([state["nested_offset"]])[0]
        products = f32(table[code] * nested[block // 256] for block, code in enumerate(stored[f"{name}.absmax"][2]))
        stored[f"{name}.absmax"] = ("F32", [len(products)], f32(product + mean for product in products).tobytes())
        text = json.dumps({key: value for key, value in state.items() if not key.startswith("nested")}).encode()
        stored[state_name] = ("U8", [len(text)], text)
        codes = stored[name][2]
        stored[name] = (storage, [len(codes) // {"U8": 1, "BF16": 2, "F16": 2, "F32": 4}[storage], 1], codes)
    header, body = {}, b""
    for name, (kind, shape, piece) in stored.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (out / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body)
    return out


def single(case):
    """A folder that transformers saved in 4 bits without quantising the scales, as bitsandbytes does unless asked: the bits of one whose scales are these."""
    base, arguments = case.adapter / "base", ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32", f"--adapter={case.adapter}"]
    folder = single_folder(base, case.work / "single")
    losses = {}
    for name, model, ranks, zero in (("double", base, 1, 0), ("single", folder, 1, 0), ("double", base, 2, 3), ("single", folder, 2, 3), ("single-full", folder, 2, 0), ("single-zero", folder, 1, 3)):
        plan = case.work / f"{name}-{ranks}.bin"
        run("ztc", "compile", model, "-o", plan, *arguments, f"--batch={case.shape[0] // ranks}", f"--zero={zero}")
        losses[name, ranks] = [s["loss"] for s in case.run(plan, f"--ranks={ranks}")[1]]
    for ranks in (1, 2):
        check(f"single: the bits of double quantisation, {ranks} ranks", losses["single", ranks] == losses["double", ranks], losses)
    for ranks, name in ((1, "single-zero"), (2, "single-full")):
        check(f"single: ZeRO-3 has the bits of ZeRO-0, {ranks} ranks", losses[name, ranks] == losses["single", ranks], losses)
    error = max(abs(a - b) for a, b in zip(losses["single", 2], losses["single", 1], strict=True))
    check("single: two ranks as one", error <= 1e-5, losses)
    gpu = case.work / "gpu.bin"
    run("ztc", "compile", folder, "-o", gpu, "--target=host,simt", *arguments[1:], f"--batch={case.shape[0]}")
    _, steps = case.run(gpu, "--gpus=1", env=stand_ins(1, ZTC_CUDNN="0"))
    error = max(abs(s["loss"] - want) / want for s, want in zip(steps, losses["single", 1], strict=True))
    check("single: on a GPU", error <= 1e-6, error)
    double, plan = case.work / "double-1.bin", case.work / "single-1.bin"
    said = run("ztc", "inspect", plan, "--text").stdout
    check("single: inspect names the format", said.count(", nf4_single of ") == 14 and "14 weights in nf4_single" in said, said[:3000])
    text = run("ztc", "memory", folder, "--batch=1", f"--seq={case.shape[1]}", "--target=host", f"--adapter={case.adapter}").stdout
    check("single: memory says what is in fewer bits", "14 weights in nf4_single: " in text, text)
    for name, mine, other, words in (("single", plan, base, "has scales in 8 bits"), ("double", double, folder, "has no scales in 8 bits")):
        done, _ = case.run(mine, f"--weights={other}", steps=1, expect=1)
        check(f"single: a plan of {name} quantisation refuses the other kind", words in done.stderr, done.stderr)
    exported = []
    for name, mine in (("single", plan), ("double", double)):
        case.run(mine, f"--export={case.work / f'{name}-merged'}", "--export-dtype=fp32", "--merge")
        exported.append((case.work / f"{name}-merged/model.safetensors").read_bytes())
    check("single: the merged model is that of the same numbers", exported[0] == exported[1])
    weights = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
    for name, model in (("codes as BF16", single_folder(base, case.work / "wide", storage="BF16")), ("codes as F32", single_folder(base, case.work / "wider", storage="F32")),
                        ("beside weights of the other kind", single_folder(base, case.work / "mixed", double=weights))):
        run("ztc", "compile", model, "-o", case.work / "other.bin", *arguments, f"--batch={case.shape[0]}")
        _, steps = case.run(case.work / "other.bin")
        check(f"single: {name}", [s["loss"] for s in steps] == losses["single", 1], steps)
    # Beside a plan of full weights, whatever type the codes are stored as (bnb_4bit_quant_storage).
    of_full = case.work / "of-full.bin"
    run("ztc", "compile", case.folder, "-o", of_full, *arguments, f"--batch={case.shape[0]}", "--quantize=nf4_single")
    storages = ("U8", "BF16", "F16", "F32")
    for storage in storages:
        given = single_folder(base, case.work / f"given-{storage}", storage=storage)
        _, steps = case.run(of_full, f"--weights={given}", f"--export={case.work / f'given-{storage}-merged'}", "--merge")
        check(f"single: --weights with codes as {storage}", steps and [s["loss"] for s in steps] == losses["single", 1], steps)
        done, _ = case.run(of_full, f"--weights={given}", f"--export={case.work / f'given-{storage}-base'}", "--merge=base", steps=1, expect=1)
        check(f"single: such a folder has no other weights, codes as {storage}", "there are no other weights" in done.stderr, done.stderr)
    whole = {(case.work / f"given-{storage}-merged/model.safetensors").read_bytes() for storage in storages}
    check("single: the merged model is the same for every type of codes", len(whole) == 1, len(whole))
    done = run("ztc", "compile", folder, "-o", case.work / "verified.bin", *arguments, "--batch=1", "--quantize=nf4", "--zero=3", "--verify")
    check("single: every pass keeps the step", done.stdout.count("verified: ") == 2, done.stderr + done.stdout)
    # Of full weights too.
    full = case.work / "full.bin"
    run("ztc", "compile", case.folder, "-o", full, *arguments, f"--batch={case.shape[0]}", "--quantize=nf4_single")
    _, steps = case.run(full)
    error = max(abs(s["loss"] - want) for s, want in zip(steps, losses["double", 1], strict=True))
    check("single: of full weights", 0 < error <= 5e-3, error)


def transposed(case):
    """GPT-2's Conv1D in 4 bits, whose codes run over (outputs, inputs): of full weights, and of folders that transformers saved so, merged again as (inputs, outputs)."""
    base, arguments = case.adapter / "base", ["--target=host", f"--seq={case.shape[1]}", "--precision=fp32", f"--adapter={case.adapter}"]
    single, plans = single_folder(base, case.work / "single"), {}
    for name, folder, options in (("full", case.folder, ["--quantize=nf4"]), ("stored", base, []), ("full, single", case.folder, ["--quantize=nf4_single"]), ("stored, single", single, []),
                                  ("stored, ZeRO-3", base, ["--zero=3"])):
        plans[name] = case.work / f"{name}.bin"
        run("ztc", "compile", folder, "-o", plans[name], *arguments, f"--batch={case.shape[0]}", *options)
    losses = {name: [s["loss"] for s in case.run(plan)[1]] for name, plan in plans.items()}
    for name in ("full", "stored"):
        error = max(abs(a - b) for a, b in zip(losses[name], case.golden["losses"], strict=True))
        check(f"transposed: {name}, the losses of PyTorch", error <= 1e-4, error)
    for one, other in (("stored", "full"), ("stored, single", "stored"), ("stored, ZeRO-3", "stored")):
        check(f"transposed: {one} has the bits of {other}", losses[one] == losses[other], (losses[one], losses[other]))
    error = max(abs(a - b) for a, b in zip(losses["full, single"], losses["full"], strict=True))
    check("transposed: scales as they are", 0 < error <= 5e-3, error)
    _, steps = case.run(plans["full"], f"--weights={base}", steps=1)
    check("transposed: --weights of such a folder", steps and steps[0]["loss"] == losses["stored"][0], steps)
    _, steps = case.run(plans["stored"], f"--weights={case.folder}", steps=1)
    check("transposed: --weights of full weights", steps and steps[0]["loss"] == losses["full"][0], steps)
    data = (case.folder / "model.safetensors").read_bytes()
    shapes = {name: tensor["shape"] for name, tensor in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).items() if name != "__metadata__"}
    for name in ("full", "stored"):
        merged, whole = case.work / f"{name}-merged", case.work / f"{name}-merged.bin"
        case.run(plans[name], f"--export={merged}", "--export-dtype=fp32", "--merge")
        same = {n: shape for n, (shape, _) in read_safetensors(merged / "model.safetensors").items()}
        check(f"transposed: {name}, merged as (inputs, outputs)", all(shapes.get(n) == shape for n, shape in same.items()), same)
        run("ztc", "compile", merged, "-o", whole, *arguments[:-1], f"--batch={case.shape[0]}")
        _, steps = case.run(whole, steps=1)
        check(f"transposed: {name}, the merged model's loss", steps and abs(steps[0]["loss"] - case.golden["final_loss"]) <= 2e-4, (steps, case.golden["final_loss"]))
    done = run("ztc", "compile", case.folder, "-o", case.work / "verified.bin", *arguments, "--batch=1", "--quantize=nf4", "--zero=3", "--recompute=layer", "--verify")
    check("transposed: every pass keeps the step", done.returncode == 0 and "verified: " in done.stdout, done.stderr + done.stdout)


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
for name in ("list", "patterns", "biases", "fused", "conv1d", "saved", "saved-inside", "nf4", "nf4-conv1d", "int8", "int8-conv1d", "dora", "dora-fused", "dora-conv1d", "dora-embedding", "dora-int8", "tokens", "experts",
             "experts-inner", "linear-alone", "shared-expert", "shared-experts", "router", "router-all", "router-saved", "stacks", "stacks-swapped", "stacks-renamed", "soft-caps", "parallel", "latent"):
    with scratch() as work:
        merged(name, work)
for test in (unmergeable, not_into_graph):
    with scratch() as work:
        test(Case("tied", work))
for test in (stages, masked, fresh, linear, refused, dora, rates, defaults):
    with scratch() as work:
        test(Case("list", work))
for test in (older, experts_inside):
    with scratch() as work:
        test(Case("router-saved", work))
with scratch() as work:
    experts_left_out(Case("linear-alone", work))
for name in ("list", "dora", "tokens", "router", "router-saved", "shared-experts"):
    with scratch() as work:
        into_graph(Case(name, work))
for name in ("dora", "tokens", "experts", "router-all", "stacks"):
    with scratch() as work:
        stages(Case(name, work))
for name in ("list", "dora", "dora-embedding", "dora-nf4", "tokens", "experts", "parallel"):
    with scratch() as work:
        narrow(Case(name, work))
for name in sorted(p.parent.name for p in CASES.glob("*/bf16.json")):
    with scratch() as work:
        narrow_as_peft(Case(name, work))
for name in ("dora", "tokens"):  # tokens: on a part of the joined q|k|v alone, which is padded in bf16
    with scratch() as work:
        on_gpus(Case(name, work))
for test in (transposed, on_gpus):
    with scratch() as work:
        test(Case("nf4-conv1d", work))
for test in (stages, quantized, single, on_gpus):
    with scratch() as work:
        test(Case("nf4", work))
finish()
