#!/usr/bin/env python3
"""Muon beside AdamW against PyTorch (tests/golden/muon.py): losses, norms, the first momentum and final weights; every ZeRO stage gives the same bits on 1, 2, 3 and
4 ranks, whichever rank makes a matrix orthogonal, and so does a run that is resumed on another number of ranks; states in fewer bits, weights without masters,
states and weights below the device; what cannot be together is one message."""
import json
import math
import re

from support import GOLDEN, check, check_curves, compile_golden, finish, read_log, read_safetensors, repeated_rows, run, scratch, tensors, values_of

goldens = json.loads((GOLDEN / "muon/muon.json").read_text())
DATA = GOLDEN / "grouped/data.safetensors"
# The momentum of the first step is in f32 on both sides: as gradients (tests/golden/README.md).
MOMENTUM = 5e-5


def arguments(case, *more, data=DATA, clip=goldens["clip"]):
    return [f"--lr={goldens['lr']}", f"--weight-decay={goldens['weight_decay']}", f"--clip={clip}", f"--warmup={goldens['warmup']}",
            f"--min-lr-ratio={goldens['min_lr_ratio']}", f"--beta1={goldens['betas'][0]}", f"--beta2={goldens['betas'][1]}", f"--momentum={case['momentum']}",
            f"--data={data}", f"--steps={goldens['steps']}", "--device=cpu", "--threads=1", "--overwrite", *more]


def distance(mine, want, spared=0):
    """Relative, in L2; without the `spared` elements that are off the most."""
    squares = sorted((a - b) ** 2 for a, b in zip(mine, want))
    return math.sqrt(sum(squares[:len(squares) - spared]) / sum(x * x for x in want))


KINDS = ("model", "momentum_buffer", "exp_avg", "exp_avg_sq")


def compiled(work, name, *options):
    folder = work / name
    folder.mkdir()
    return compile_golden(folder, "grouped", "--optimizer=muon", *options)


with scratch() as work:
    for adjust, case in goldens["cases"].items():
        plan = compiled(work, adjust, f"--adjust-lr-fn={adjust}")
        run("ztc-run", plan, *arguments(case, f"--save={work / adjust / 'ck'}", "--save-every=1", "--keep=100", f"--log-json={work / 'log'}"))
        steps, own = read_log(work / "log")[1], case["own_differences"]
        # Twice what PyTorch's numbers are off its own where sums of the orthogonalization have another order.
        check_curves(adjust, steps, case, ("loss", "losses", 2 * own["losses"], False), ("grad_norm", "gradient_norms", 2 * own["gradient_norms"], True))
        first, last = (work / adjust / f"ck/step-{step:08}" for step in (1, goldens["steps"]))
        weights, momenta = values_of(last), values_of(first, "momentum_buffer")
        for name, (_, want) in read_safetensors(GOLDEN / f"muon/{adjust}.safetensors").items():
            isMomentum, name = name.startswith("momentum."), name.removeprefix("momentum.")
            # AdamW moves an element whose gradient is about zero by the whole rate, to either side.
            error = distance((momenta if isMomentum else weights)[name][1], want, len(want) // 1000 if "embed" in name else 0)
            check(f"{adjust}: {'first momentum' if isMomentum else 'final'} {name}", error <= (MOMENTUM if isMomentum else 2 * own["weights"]), error)
        kept = {kind: set(values_of(last, kind)) for kind in KINDS}
        matrices = {name for name in kept["model"] if ".layers." in name and name.endswith("_proj.weight")}
        check(f"{adjust}: matrices of blocks have a momentum, the rest AdamW's states",
              kept["momentum_buffer"] == matrices and kept["exp_avg"] == kept["exp_avg_sq"] == kept["model"] - matrices and len(matrices) == 14, kept)
    case = goldens["cases"]["match_rms_adamw"]

    # On the same rows all bits are the same, at every stage and on any number of ranks; without clipping: a norm is summed shard by shard.
    plans = {zero: compiled(work, f"zero-{zero}", f"--zero={zero}") for zero in range(4)}
    bits = {}
    for world in (1, 2, 3, 4):
        rows = dict(data=repeated_rows(DATA, work, world), clip=0)
        for zero, plan in plans.items():
            folder = work / f"ck-{zero}-{world}"
            run("ztc-run", plan, *arguments(case, **rows), f"--ranks={world}", f"--save={folder}", "--save-every=4", "--poison")
            bits[zero, world] = [tensors(folder / f"step-{goldens['steps']:08}", kind) for kind in KINDS]
    for key, mine in bits.items():
        check(f"zero {key[0]} on {key[1]} ranks: the bits of one rank", mine == bits[0, 1] and len(mine[1]) == 14)
    resumed = work / "resumed"
    run("ztc-run", plans[3], *arguments(case, data=repeated_rows(DATA, work, 4), clip=0), "--ranks=4", f"--save={resumed}", "--save-every=4", "--stop-after=4")
    run("ztc-run", plans[1], *arguments(case, data=repeated_rows(DATA, work, 4), clip=0), "--ranks=2", f"--save={resumed}", "--save-every=4", f"--resume={resumed}")
    check("stopped at zero 3 on 4 ranks, resumed at zero 1 on 2: the same bits",
          [tensors(resumed / f"step-{goldens['steps']:08}", kind) for kind in KINDS] == bits[0, 1])

    # Momenta, the others' states and weights below the device; updated there or in pieces on it: a direction is one bucket's, whole where it is made orthogonal.
    disk = work / "disk"
    disk.mkdir()
    for zero, world in ((0, 1), (0, 2), (1, 2), (2, 2), (3, 1), (3, 3)):
        for name, options in {"both": ["--host-mem=64KiB", f"--disk={disk}"], "on the host": ["--host-mem=1GiB", "--offload-update=host"]}.items():
            plan = compiled(work, f"{name}-{zero}-{world}".replace(" ", "-"), f"--zero={zero}", *options)
            folder, log = work / f"ck-{name}-{zero}-{world}", work / "log-below"
            run("ztc-run", plan, *arguments(case, data=repeated_rows(DATA, work, world), clip=0), f"--ranks={world}", f"--save={folder}", "--poison", f"--log-json={log}")
            check(f"below, {name}, zero {zero} on {world} ranks: the bits of one rank", [tensors(folder / f"step-{goldens['steps']:08}", kind) for kind in KINDS] == bits[0, 1])
            spaces = json.loads(log.read_text().splitlines()[0])["spaces"]
            moved = {space: s["predicted_bytes"] for space, s in spaces.items() if s["predicted_bytes"] == s["allocated_bytes"] > 0}
            check("predicted = reserved", set(moved) == ({"host", "disk"} if name == "both" else {"host"}), spaces)
        text = run("ztc", "inspect", plan, "--text").stdout
        check(f"zero {zero}: momenta are the host's", re.search(r"momentum_direction.* piece 0", text) and "on the host" in text, text[:2000])

    # In fewer bits.
    for name, options in {"bf16": ["--precision=bf16"], "bf16-states": ["--precision=bf16", "--master=none", "--optimizer-state=bf16"],
                          "int8-states": ["--optimizer-state=int8", "--pass-option=ztc-store-masters.block-from=1024"], "fp16": ["--precision=fp16"]}.items():
        seen = []
        for zero, world in ((0, 1), (0, 2), (1, 2), (3, 1), (3, 3)):
            plan = compiled(work, f"{name}-{zero}-{world}", *options, f"--zero={zero}")
            folder = work / f"ck-{name}-{zero}-{world}"
            run("ztc-run", plan, *arguments(case, data=repeated_rows(DATA, work, world), clip=0), f"--ranks={world}", f"--save={folder}", "--poison")
            seen.append([tensors(folder / f"step-{goldens['steps']:08}", kind) for kind in KINDS])
        check(f"{name}: the same bits at stages 0, 1 and 3 on 1, 2 and 3 ranks", all(one == seen[0] for one in seen[1:]) and len(seen[0][1]) >= 14)

    text = run("ztc", "inspect", work / "bf16-3-3/grouped.bin", "--text").stdout
    check("ztc inspect names the owner's steps", "the matrix' owner" in text and "momentum_buffer" in text, text[:1500])
    for options in (["--precision=fp32"], ["--precision=bf16"]):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--batch=2", "--seq=16", "--target=host", "--verify", "--optimizer=muon", *options, "-o",
                   work / "verified.bin", expect=None)
        check(f"--verify holds muon {' '.join(options)}", said.returncode == 0 and "not checked" not in said.stderr, said.stderr[-1500:])
    for options, words in ((["--update=in-backward"], "--update=in-backward"), (["--freeze=layers"], "nothing that muon updates")):
        said = run("ztc", "compile", GOLDEN / "grouped/model.onnx", "--optimizer=muon", *options, "-o", work / "no.bin", expect=None)
        check(f"muon with {options[0]} is refused", said.returncode in (1, 2) and words in said.stderr and not (work / "no.bin").exists(), said.stderr[-500:])
    said = run("ztc-run", plans[0], "--steps=1", "--nesterov", "--threads=1").stderr
    check("--nesterov is said to have no effect", "--nesterov has no effect" in said and "--optimizer=muon" in said, said)
finish()
