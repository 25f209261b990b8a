#!/usr/bin/env python3
"""Several ranks: one plan on 1x4, 2x2 and 4x1, each ZeRO stage, resumes on other ranks, saves, exports, dumps, evaluations, text."""
import json

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch, tensor_files, values_of

data = GOLDEN / "grouped" / "data.safetensors"


def losses(log):
    return [s["loss"] for s in read_log(log)[1]]


def differences(one, two):
    """The largest difference of two lists of losses."""
    return max((abs(x - y) for x, y in zip(one, two)), default=float("nan"))


def distance(one, two):
    worst = 0.0
    for name, (shape, values) in one.items():
        other = two[name][1]
        norm = sum(x * x for x in values) ** 0.5
        worst = max(worst, sum((x - y) ** 2 for x, y in zip(values, other)) ** 0.5 / max(norm, 1e-30))
    return worst


with scratch() as work:
    common = [f"--data={data}", "--steps=6", "--lr=2e-3", "--warmup=2", "--device=cpu", "--seed=3"]
    plans = {zero: compile_golden(work, "grouped", f"--zero={zero}", batch=1).rename(work / f"zero{zero}.bin") for zero in (0, 1, 2, 3)}

    # One global batch of four rows, on any ranks.
    for zero in (0, 3):
        for world, accumulate in ((1, 4), (2, 2), (4, 1)):
            name = f"z{zero}w{world}"
            run("ztc-run", plans[zero], *common, f"--ranks={world}", "--threads=1", f"--accumulate={accumulate}", f"--log-json={work / name}.log",
                f"--export={work / name}", f"--eval-data={data}", "--shuffle")
            head, steps = read_log(work / f"{name}.log")
            check(f"{name}: the header's world, tokens of the global batch", head["world"] == world and steps[0]["tokens"] == 4 * 16)
            check(f"{name}: bytes on the wire", (steps[0]["sent_bytes"] > 0) == (world > 1), steps[0]["sent_bytes"])
            base = losses(work / f"z{zero}w1.log")
            check(f"{name}: losses of one rank", differences(base, losses(work / f"{name}.log")) < 2e-5, differences(base, losses(work / f"{name}.log")))
            check(f"{name}: weights of one rank", distance(values_of(work / f"z{zero}w1"), values_of(work / name)) < 1e-4)
            evals = [json.loads(x)["eval_loss"] for x in (work / f"{name}.log").read_text().splitlines() if '"eval"' in x]
            if world == 1:
                first = evals
            check(f"{name}: held-out loss of one rank", len(evals) == 1 and abs(evals[0] - first[0]) < 2e-5, evals)

    # Stages do not change a bit, and dumps are summed over ranks.
    for zero in (0, 1, 2, 3):
        run("ztc-run", plans[zero], *common, "--ranks=3", "--threads=1", f"--log-json={work / f'equal{zero}'}.log", f"--export={work / f'equal{zero}'}",
            f"--dump-gradients={work / f'gradients{zero}'}")
        key = lambda z: [(s["loss"], s["grad_norm"]) for s in read_log(work / f"equal{z}.log")[1]]
        check(f"ZeRO-{zero} on 3 ranks: losses and norms of ZeRO-0", key(zero) == key(0) and len(key(0)) == 6)
        check(f"ZeRO-{zero} on 3 ranks: weights of ZeRO-0", tensor_files(work / f"equal{zero}") == tensor_files(work / "equal0") and tensor_files(work / "equal0"))
        check(f"ZeRO-{zero} on 3 ranks: gradients of ZeRO-0", (work / f"gradients{zero}").read_bytes() == (work / "gradients0").read_bytes())

    # Checkpoints know no ranks.
    for zero, other in ((3, 0), (1, 3)):
        run("ztc-run", plans[zero], *common, "--ranks=2", "--threads=1", "--accumulate=2", "--shuffle", "--overwrite", f"--export={work / 'whole'}", f"--log-json={work / 'whole.log'}")
        run("ztc-run", plans[zero], *common, "--ranks=2", "--threads=1", "--accumulate=2", "--shuffle", "--stop-after=2", f"--save={work / f'ck{zero}'}")
        for ranks in (2, 1, 4):
            log, out = work / f"resume{zero}{ranks}.log", work / f"resume{zero}{ranks}"
            run("ztc-run", plans[zero if ranks == 2 else other], *common, f"--ranks={ranks}", "--threads=1", f"--resume={work / f'ck{zero}'}", f"--log-json={log}", f"--export={out}")
            if ranks == 2:
                check(f"ZeRO-{zero}, 2 -> 2: the bits of the run that never stopped", losses(log) == losses(work / "whole.log")[2:] and tensor_files(out) == tensor_files(work / "whole"))
            else:
                check(f"ZeRO-{zero} on 2 -> ZeRO-{other} on {ranks}: the same losses", differences(losses(log), losses(work / "whole.log")[2:]) < 2e-5 and len(losses(log)) == 4)
                check(f"2 -> {ranks}: what differs is in the log", "world" in json.dumps(read_log(log)[0].get("differs")))
            again = work / f"again{zero}{ranks}"
            run("ztc-run", plans[zero if ranks == 2 else other], *common, f"--ranks={ranks}", "--threads=1", f"--resume={work / f'ck{zero}'}", "--stop-after=2", f"--save={again}")
            check(f"loaded and saved by {ranks} ranks: the same files", tensor_files(again / "step-00000002") == tensor_files(work / f"ck{zero}" / "step-00000002"))
    done = run("ztc-run", plans[0], *common, "--ranks=3", "--threads=1", f"--resume={work / 'ck3'}", "--no-save", expect=1)
    check("3 ranks cannot keep a global batch of 4 rows", "global batches of 4 rows" in done.stderr, done.stderr[-300:])
    done = run("ztc-run", plans[0], *common, "--ranks=2", "--threads=1", "--accumulate=1", f"--resume={work / 'ck3'}", "--no-save", expect=1)
    check("--accumulate that changes it is an error", "leave --accumulate out" in done.stderr, done.stderr[-300:])

finish()
