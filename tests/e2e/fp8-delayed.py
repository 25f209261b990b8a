#!/usr/bin/env python3
"""Training in fp8 with delayed scaling: beside PyTorch's of the same scaling and fp32 (tests/golden/fp8, made by fp8_delayed.py there), also where codes are cut; stages, ranks, micro-steps, recomputation and fusion change no bit; checkpoints;
evaluation; a GPU of the stand-ins; what is refused."""
import hashlib
import json
import math
import shutil

from support import GOLDEN, check, finish, gradient_errors, numbers, optimizer_arguments, read_log, read_safetensors, run, scratch, stand_ins, train_golden

FOLDER = GOLDEN / "fp8"
golden = json.loads((FOLDER / "fp8.json").read_text())
delayed = json.loads((FOLDER / "delayed.json").read_text())
KEYS = ("first_loss", "gradient", "losses", "norms")
KINDS = ("e5m2", "e4m3", "e5m2-fused", "e4m3-fused")


def limits_of(way, which):
    """Twice what PyTorch's delayed scaling is off its fp32 (own_differences), or off itself where attention is computed by others of its ways (other_attention)."""
    return [2 * delayed[way][which][key] for key in KEYS]


STAND_INS = stand_ins(2, ZTC_CUDNN="0")
DATA = f"--data={FOLDER / 'data.safetensors'}"


def compile_plan(work, name, *arguments, **expected):
    plan = work / f"{name}.bin"
    batch = [] if any(str(x).startswith("--batch") for x in arguments) else [f"--batch={golden['batch']}"]
    scaling = [] if any(str(x).startswith("--fp8-scaling") for x in arguments) else ["--fp8-scaling=delayed"]
    done = run("ztc", "compile", FOLDER, *batch, f"--seq={golden['seq']}", "--precision=fp8", *scaling, "-o", plan, *arguments, **expected)
    return done if expected else plan


def train(work, plan, *more, **options):
    return train_golden(work, plan, FOLDER, golden, *more, **options)


def worst(mine, want):
    return max((error, name) for name, error in gradient_errors(mine, want).items())


def close(case, mine, steps, want, losses, limits):
    """The last steps of a run."""
    first = len(losses["losses"]) - len(steps)
    check(f"{case}: worst gradient", worst(mine, want)[0] <= limits[1], worst(mine, want))
    off = [abs(s["loss"] - w) for s, w in zip(steps, losses["losses"][first:])]
    check(f"{case}: first loss", off[0] <= (limits[2] if first else limits[0]), off[0])
    check(f"{case}: losses over {len(steps)} steps", max(off) <= limits[2], off)
    norms = [abs(s["grad_norm"] - w) / w for s, w in zip(steps, losses["gradient_norms"][first:])]
    check(f"{case}: norms over {len(steps)} steps", max(norms) <= limits[3], norms)


def part(plan, *more, steps, ranks=2):
    """A run that is saved or resumed: the steps of its log, and what it prints."""
    log = plan.parent / "log"
    log.unlink(missing_ok=True)
    arguments = [x for x in optimizer_arguments(golden) if "--device" not in x and x != "--no-save"]
    done = run("ztc-run", plan, DATA, f"--steps={steps}", f"--log-json={log}", *arguments, "--device=cpu", "--threads=1", *([f"--ranks={ranks}"] if ranks > 1 else []), *more)
    return read_log(log)[1], done.stdout


def maxima_of(folder):
    return json.loads((folder / "trainer.json").read_text())["fp8_maxima"]


def scale_maxima(folder, factor):
    """Multiplies the absolute maxima of a checkpoint, those for which `factor` gives None are gone; changes the checksum."""
    state = json.loads((folder / "trainer.json").read_text())
    state["fp8_maxima"] = {name: m * factor(name) for name, m in state["fp8_maxima"].items() if factor(name) is not None}
    (folder / "trainer.json").write_text(json.dumps(state))
    text, manifest = (folder / "trainer.json").read_bytes(), json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["name"] == "trainer.json":
            entry |= {"size": len(text), "sha256": [hashlib.sha256(text).hexdigest()]}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def texts(plan):
    return run("ztc", "inspect", plan, "--text").stdout.splitlines()


with scratch() as work:
    # q, k, v and gate, up are merged, as PyTorch's fused layers are; kept apart they have cotangents of their own.
    exact = read_safetensors(FOLDER / "golden.safetensors")
    for kind in KINDS:
        merged = [] if kind.endswith("-fused") else ["--disable-pass=ztc-merge-products"]
        plan = compile_plan(work, kind, f"--fp8-gradients={kind.split('-')[0]}", *merged)
        mine, steps = train(work, plan)
        if not steps:
            continue
        close(f"{kind} beside fp32", mine, steps, exact, golden, limits_of(kind, "own_differences"))
        close(f"{kind} beside PyTorch's fp8", mine, steps, read_safetensors(FOLDER / f"{kind}-delayed.safetensors"), delayed[kind], limits_of(kind, "other_attention"))
        # The maxima that a checkpoint has, by the names of the layers.
        part(plan, f"--save={work / kind}", "--stop-after=1", steps=golden["steps"], ranks=1)
        found, want, limit = maxima_of(work / kind / "step-00000001"), delayed[kind]["maxima"], 2 * delayed[kind]["other_attention"]["maxima"]
        off = max((abs(found.get(name, 0) - m) / m, name) for name, m in want.items())
        check(f"{kind}: maxima of the first step, each by its name", set(found) == set(want) and off[0] <= limit, (off, limit, sorted(set(found) ^ set(want))[:4]))
    # The maxima that a step is given are what it is scaled by: an eighth of them cuts what is larger.
    for kind in ("e5m2-fused", "e4m3-fused"):
        plan, want = work / f"{kind}.bin", delayed[f"{kind}-cut"]
        part(plan, f"--save={work / kind}", "--overwrite", f"--stop-after={delayed['cut_step']}", steps=golden["steps"], ranks=1)
        scale_maxima(work / kind / f"step-{delayed['cut_step']:08}", lambda name: delayed["cut"])
        steps, _ = part(plan, f"--resume={work / kind}", "--no-save", f"--dump-gradients={work / 'gradients'}", steps=golden["steps"], ranks=1)
        limits = limits_of(f"{kind}-cut", "other_attention")
        close(f"{kind}, cut", read_safetensors(work / "gradients"), steps, read_safetensors(FOLDER / f"{kind}-cut-delayed.safetensors"), want, limits)
        whole = [x[delayed["cut_step"]:] for x in (want["losses"], delayed[kind]["losses"])]
        check(f"{kind}: the cut is seen", max(abs(a - b) for a, b in zip(*whole)) > 3 * limits[KEYS.index("losses")], whole)

    # What writes a matrix writes its codes; nothing of this changes a bit.
    one = numbers(train(work, compile_plan(work, "one"), "--threads=1", steps=4)[1])
    check("threads: the same bits", numbers(train(work, work / "one.bin", "--threads=2", steps=4)[1]) == one and one)
    apart = compile_plan(work, "apart", "--disable-pass=ztc-fuse-codes")
    check("codes by the kernels that write, and by kernels of their own: the same bits", numbers(train(work, apart, "--threads=1", steps=4)[1]) == one and one, one)
    lines = texts(work / "one.bin")
    own = [x for x in lines if "known scale" in x]
    noted = [x for x in lines if "note amax" in x]
    layers = json.loads((FOLDER / "config.json").read_text())["num_hidden_layers"]
    check("a library writes attention's result, and heads are written side by side: 2 of 8 matrices of a block", (len(own), len(noted)) == (2 * layers, 6 * layers), (len(own), len(noted)))
    check("weights have scales of their own", sum(" given amax" in x for x in lines) >= 4 * layers)

    base = numbers(train(work, compile_plan(work, "base"), "--ranks=2", "--threads=1", steps=4)[1])
    for zero in (1, 2, 3):
        found = numbers(train(work, compile_plan(work, f"zero{zero}", f"--zero={zero}"), "--ranks=2", "--threads=1", "--poison", steps=4)[1])
        check(f"stage {zero}: the bits of stage 0 on two ranks", found == base and found, (found, base))
    for level in ("cheap", "layer"):
        found = numbers(train(work, compile_plan(work, level, f"--recompute={level}", "--zero=3"), "--ranks=2", "--threads=1", "--poison", steps=4)[1])
        check(f"recomputation {level}: the same bits", found == base and found, (found, base))
    # Of several micro-steps stages 2 and 3 round each one's gradient, 0 and 1 their sum.
    ways = {zero: compile_plan(work, f"three{zero}", "--batch=1", f"--zero={zero}") for zero in range(4)}
    runs = {zero: numbers(train(work, plan, "--ranks=3", "--accumulate=3", "--threads=1", "--poison", steps=3)[1]) for zero, plan in ways.items()}
    for one_stage, other in ((0, 1), (2, 3)):
        check(f"three ranks and micro-steps: stages {one_stage} and {other} have the same bits", runs[one_stage] == runs[other] and runs[one_stage], runs)
    kept = compile_plan(work, "kept", "--batch=1", "--keep-fp8-weights=all")
    found = [numbers(train(work, plan, "--accumulate=2", "--threads=1", steps=3)[1]) for plan in (ways[0], kept)]
    check("kept codes of weights: the same bits", found[0] == found[1] and found[0], found)

    # The predicted bytes are those of a run, fewer than with scales of the matrices themselves.
    def memory_row(batch, scaling):
        return json.loads(run("ztc", "memory", FOLDER, f"--batch={batch}", f"--seq={golden['seq']}", "--precision=fp8", f"--fp8-scaling={scaling}", "--threads=1", "--json").stdout)["rows"][0]

    rows = [memory_row(16, scaling)["peak_bytes"] for scaling in ("delayed", "dynamic")]
    check("fewer bytes than with dynamic scaling", rows[0] < rows[1], rows)
    train(work, work / "one.bin", "--threads=1", steps=1)
    row, head = memory_row(golden["batch"], "delayed"), read_log(work / "log")[0]
    check("predicted = allocated", row["peak_bytes"] == head["allocated_bytes"] == head["predicted_bytes"], (row["peak_bytes"], head["allocated_bytes"]))

    # A resumed run knows the maxima by the names of their matrices: it repeats the undisturbed one, at another stage too.
    def resumable(plan, *more, ranks=2):
        steps, said = part(plan, *more, steps=6, ranks=ranks)
        return numbers(steps), [line for line in said.splitlines() if "absolute maxima" in line]

    def resumed(plan, folder="saved", *more, ranks=2):
        return resumable(plan, f"--resume={work / folder}", "--no-save", *more, ranks=ranks)

    def edited(name, factor):
        shutil.copytree(work / "saved", work / name)
        scale_maxima(work / name / "step-00000003", factor)
        return name

    merged, unmerged = work / "base.bin", compile_plan(work, "unmerged", "--disable-pass=ztc-merge-products")
    whole, _ = resumable(merged, "--no-save")
    resumable(merged, f"--save={work / 'saved'}", "--stop-after=3")
    maxima = maxima_of(work / "saved/step-00000003")
    check("a checkpoint has the maximum of each matrix", len(maxima) == 14 * layers and all(x > 0 for x in maxima.values()), maxima)
    check("q, k, v and gate, up share theirs", len(set(maxima.values())) <= 8 * layers, maxima)
    for name, plan in (("the same stage", merged), ("stage 3", work / "zero3.bin"), ("with recomputation", work / "layer.bin")):
        found, said = resumed(plan)
        check(f"resumed, {name}: the bits of the undisturbed run", found == whole[3:] and found and not said, (found, whole, said))
    # One rank adds two micro-steps where two ranks have one each: the sums of gradients are rounded otherwise, what the first step computes is not.
    found, said = resumed(merged, ranks=1)
    check("resumed on one rank: the loss of the undisturbed run", len(found) == 3 and abs(found[0][0] - whole[3][0]) < 1e-6 and not said, (found, whole, said))
    # A plan that multiplies apart what was multiplied as one takes the maximum of the whole for each part; of parts that differ the whole has the largest.
    parts = edited("parts", lambda name: 0.5 if any(x in name for x in ("k_proj", "v_proj", "up_proj")) else 1)
    found, said = resumed(merged, parts)
    check("resumed from maxima of the parts: the largest is that of the whole", found == whole[3:] and not said, (found, whole, said))
    apart = [resumed(unmerged, folder) for folder in ("saved", parts)]
    check("resumed by a plan of the parts: each has its own", apart[0][0] != apart[1][0] and not apart[0][1] + apart[1][1], apart)
    # What the checkpoint does not know is found as in a first step, beside what it knows: the forward part has the bits of the undisturbed run.
    found, said = resumed(merged, edited("inputs", lambda name: None if "cotangent" in name else 1))
    anew = len([x for x in lines if "known scale" in x or "note amax" in x]) // 2
    check("resumed without maxima of cotangents: a line says how many are found anew", len(said) == 1 and f"{anew} of {2 * anew} matrices" in said[0], (said, anew))
    check("resumed without maxima of cotangents: the loss of the undisturbed run", len(found) == 3 and found[0][0] == whole[3][0], (found, whole))
    policy = work / "policy.json"
    policy.write_text(json.dumps({"bf16": ["layers.0"]}))
    part_plan = compile_plan(work, "part", f"--precision-policy={policy}")
    second = edited("second", lambda name: 1 if "layers.1" in name else None)
    runs = [resumed(part_plan, folder) for folder in ("saved", second)]
    check("resumed with fewer matrices in fp8: they have theirs", runs[0] == runs[1] and not runs[0][1] and len(runs[0][0]) == 3, runs)
    run("ztc", "compile", FOLDER, f"--batch={golden['batch']}", f"--seq={golden['seq']}", "--precision=bf16", "-o", work / "bf16.bin")
    resumable(work / "bf16.bin", f"--save={work / 'bf16'}", "--stop-after=3")
    found, said = resumed(merged, "bf16")
    check("resumed from a run in bf16: all scales are found anew", len(found) == 3 and len(said) == 1 and f"{2 * anew} of {2 * anew} matrices" in said[0], (found, said))

    # Evaluation changes no maximum and has the bits of bf16.
    held = f"--eval-data={FOLDER / 'data.safetensors'}"
    check("evaluation between steps changes no bit", resumable(work / "base.bin", held, "--eval-every=2", "--no-save")[0] == whole)
    losses = []
    for plan in (work / "one.bin", work / "bf16.bin"):
        log = work / "eval.log"
        log.unlink(missing_ok=True)
        run("ztc-run", plan, "--eval-only", held, "--device=cpu", f"--log-json={log}")
        losses.append([json.loads(x).get("eval_loss") for x in log.read_text().splitlines() if "eval_loss" in x])
    check("evaluation has the bits of bf16", losses[0] == losses[1] and losses[0], losses)

    # Low-rank adapters: layers that are frozen have no gradient, and codes in one order alone.
    found = numbers(train(work, compile_plan(work, "lora", "--lora=r=16,alpha=32,targets=all-linear"), "--threads=1", steps=3)[1])
    check("adapters: the first loss is that of the model alone", found and abs(found[0][0] - one[0][0]) < 1e-3, (found, one))

    # A GPU of the stand-ins.
    both = compile_plan(work, "simt", "--target=x86-64-v3,simt", "--batch=1")
    want, host = train(work, both, "--threads=1", "--accumulate=2", steps=3)
    mine, gpu = train(work, both, "--gpus=1", "--accumulate=2", steps=3, env=STAND_INS)
    if host and gpu:
        near = 2 * max(golden[way]["other_attention"]["gradient"] for way in ("e5m2", "e5m2-fused"))
        check("simt: loss", abs(gpu[0]["loss"] - host[0]["loss"]) <= 4e-3, (gpu[0]["loss"], host[0]["loss"]))
        check("simt: worst gradient", worst(mine, want)[0] <= near, worst(mine, want))
        apart = compile_plan(work, "simt-apart", "--target=x86-64-v3,simt", "--batch=1", "--disable-pass=ztc-fuse-codes")
        again = numbers(train(work, apart, "--gpus=1", "--accumulate=2", steps=3, env=STAND_INS)[1])
        check("simt: codes by kernels of their own, the same bits", again == numbers(gpu), (again, numbers(gpu)))
    shards = [numbers(train(work, compile_plan(work, f"shards{zero}", "--target=x86-64-v3,simt", "--batch=1", f"--zero={zero}"), "--gpus=2", steps=2, env=STAND_INS)[1]) for zero in (0, 3)]
    check("simt: stages 0 and 3 on two have the same bits", shards[0] == shards[1] and shards[0], shards)

    done = compile_plan(work, "verified", "--verify", expect=0)
    said = done.stdout + done.stderr
    check("--verify: passes keep what they should, and so does a run", "so do two updates of a run" in said, said)
    check("--verify: kernels that write codes too, at their real sizes", "at their real sizes, agree" in said and "its real size" not in said, said)

    # Refused.
    done = compile_plan(work, "refused", "--update=in-backward", expect=None)
    check("updates in the backward", done.returncode and "--fp8-scaling=delayed beside --update=in-backward" in done.stderr, done.stderr)
    done = run("ztc", "compile", FOLDER, f"--seq={golden['seq']}", "--precision=bf16", "--fp8-scaling=delayed", "-o", work / "refused.bin", expect=2)
    check("without fp8", "--fp8-scaling is an option of --precision=fp8" in done.stderr, done.stderr)
finish()
