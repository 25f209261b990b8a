#!/usr/bin/env python3
"""bf16 and fp16: a killed run goes on to the bit, on one and two ranks; fp16 skips steps that overflow; checkpoints serve every precision."""
import math
import shutil
import signal

from support import BIN, GOLDEN, Running, check, compile_golden, finish, read_log, run, scratch, tensor_files, wait_until

data = GOLDEN / "grouped" / "data.safetensors"


def killed_run_goes_on(work, name, compile_arguments, ranks, run_arguments):
    """30 steps at once, and 30 steps with a SIGKILL after the first checkpoint."""
    folder = work / f"{name}-{ranks}"
    folder.mkdir()
    plan = compile_golden(folder, "grouped", *compile_arguments, batch=2 // ranks)
    common = [plan, f"--data={data}", "--steps=30", "--lr=2e-3", "--warmup=2", "--device=cpu", f"--ranks={ranks}", "--threads=1",
              "--shuffle", "--seed=3", *run_arguments]
    run("ztc-run", *common, f"--save={folder / 'whole'}", f"--log-json={folder / 'whole.log'}", f"--export={folder / 'export'}")
    with Running([BIN / "ztc-run", *common, f"--save={folder / 'part'}", "--save-every=4"]) as child:
        wait_until(lambda: (folder / "part" / "step-00000004").exists() or child.process.poll() is not None, 60)
        child.process.send_signal(signal.SIGKILL)
        child.finish(30)
    # What came after the first checkpoint goes, too: the kill may have come late.
    for later in sorted((folder / "part").glob("step-*"))[1:]:
        shutil.rmtree(later)
    run("ztc-run", *common, f"--resume={folder / 'part'}", f"--save={folder / 'resumed'}", f"--log-json={folder / 'resumed.log'}",
        f"--export={folder / 'export2'}")
    whole, resumed = read_log(folder / "whole.log")[1], read_log(folder / "resumed.log")[1]
    key = lambda steps: [(s["step"], s["loss"], s["grad_norm"], s["lr"], s["skipped"], s.get("loss_scale")) for s in steps]
    check(f"{name}, {ranks} ranks: the log of the run that was not killed", key(whole)[4:] == key(resumed) and len(resumed) == 26)
    last = "step-00000030"
    check(f"{name}, {ranks} ranks: its masters and moments, to the bit", tensor_files(folder / "whole" / last) == tensor_files(folder / "resumed" / last) != {})
    check(f"{name}, {ranks} ranks: the same export", tensor_files(folder / "export") == tensor_files(folder / "export2") != {})
    return folder


with scratch() as work:
    bf16 = killed_run_goes_on(work, "bf16", ["--precision=bf16"], 1, [])
    killed_run_goes_on(work, "bf16-moments", ["--precision=bf16", "--optimizer-state=bf16", "--zero=2"], 2, [])
    # 2^26: the first steps overflow, before and after the checkpoint of step 4.
    fp16 = killed_run_goes_on(work, "fp16", ["--precision=fp16"], 1, [f"--loss-scale={2 ** 26}"])
    two = killed_run_goes_on(work, "fp16", ["--precision=fp16", "--zero=3"], 2, [f"--loss-scale={2 ** 26}"])

    # A step that overflows is skipped: it consumes its rows, and neither schedule nor optimizer see it.
    for folder in (fp16, two):
        head, steps = read_log(folder / "whole.log")
        skips = [s["skipped"] for s in steps]
        count = skips.index(False)
        check("the first steps are skipped, the last ones are not", 4 < count < 20 and not any(skips[-5:]), skips)
        check("their losses are finite, their norms are not", all(s["loss"] is not None and (s["grad_norm"] is None) == s["skipped"] for s in steps))
        check("the scale halves", [s["loss_scale"] for s in steps] == [2.0 ** (26 - sum(skips[:i])) for i in range(30)] and head["loss_scale"] == 2 ** 26)
        check("the rate does not move on", len({s["lr"] for s in steps[:count + 1]}) == 1 and steps[count + 1]["lr"] > steps[count]["lr"])
    check("the log names precision and the path of products", read_log(fp16 / "whole.log")[0]["precision"] == "fp16"
          and "f16 products in f32 panels" in read_log(fp16 / "whole.log")[0]["versions"]["device"], read_log(fp16 / "whole.log")[0]["versions"])

    # Twenty in a row end the run; what it had is kept.
    plan = fp16 / "grouped.bin"
    done = run("ztc-run", plan, f"--data={data}", "--steps=50", "--device=cpu", f"--loss-scale={2 ** 70}", f"--save={work / 'overflow'}", expect=1)
    check("twenty skips in a row end the run with a sentence", "20 steps in a row" in done.stderr and "bf16" in done.stderr, done.stderr[-400:])
    check("the weights are saved", [p.name for p in (work / "overflow").iterdir()] == ["step-00000020"])

    # Checkpoints hold fp32 masters: they go on in another precision, which is named.
    done = run("ztc-run", bf16 / "grouped.bin", f"--data={data}", "--steps=32", "--device=cpu", f"--resume={fp16 / 'whole'}", "--no-save",
               f"--log-json={work / 'other.log'}")
    check("a resume in another precision names it", "precision bf16, it was fp16" in done.stdout, done.stdout[-600:])
    check("and the form of the moments", "optimizer state bf16, it was fp32" in run(
        "ztc-run", work / "bf16-moments-2" / "grouped.bin", f"--data={data}", "--steps=31", "--device=cpu", "--ranks=2",
        f"--resume={fp16 / 'whole'}", "--no-save").stdout)
    before, after = read_log(fp16 / "whole.log")[1][-1], read_log(work / "other.log")[1]
    check("and goes on where the other was", len(after) == 2 and abs(after[0]["loss"] - before["loss"]) < 0.5, (before["loss"], after[0]["loss"]))

    for precision in ("fp32", "bf16"):
        other = compile_golden(work, "grouped", f"--precision={precision}")
        done = run("ztc-run", other, "--device=cpu", "--steps=1", "--loss-scale=1024")
        check(f"--loss-scale in {precision} is a note", "note: --loss-scale has no effect" in done.stderr, done.stderr)

    # Evaluation in the plan's type, and text from a model of two bytes.
    run("ztc-run", bf16 / "grouped.bin", f"--data={data}", "--steps=2", "--device=cpu", f"--eval-data={data}", f"--export={work / 'model'}",
        f"--log-json={work / 'eval.log'}")
    evaluated = [line for line in (work / "eval.log").read_text().splitlines() if '"eval_loss"' in line]
    check("evaluation in bf16", len(evaluated) == 1 and "null" not in evaluated[0], evaluated)
    header = (work / "model" / "model.safetensors").read_bytes()[8:4096]
    check("an export has the type of the weights, whatever is computed in", b'"F32"' in header and b'"BF16"' not in header)
    done = run("ztc-run", bf16 / "grouped.bin", "--device=cpu", "--generate=5", "--prompt=!", f"--weights={work / 'model'}")
    check("text from bf16 weights", len(done.stdout) >= 6 and done.stdout.startswith("!"), repr(done.stdout))
    norms = [s["grad_norm"] for s in read_log(bf16 / "whole.log")[1]]
    check("norms are finite numbers", all(math.isfinite(n) for n in norms))

finish()
