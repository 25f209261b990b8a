#!/usr/bin/env python3
"""Algorithms of matrix products on the CUDA device, and who computes attention, over the stand-ins of tests/standin: measured once, cached, shared by ranks, kept
with checkpoints. The stand-in's algorithms add in different orders, so that the wrong one shows in the bits."""
import json
import shutil

from support import BUILD, GOLDEN, check, compile_golden, finish, read_log, run, scratch, stand_ins, tensors

ENVIRONMENT = stand_ins(2)
ENVIRONMENT.pop("ZTC_CUDA_TUNE", None)
FORWARD, BACKWARD = "0", "2"  # the stand-in's fast algorithm


def attention(work):
    """cuDNN where own kernels are not faster; the choice goes the way of the others."""
    plan = compile_golden(work, "grouped", "--target=simt", "--precision=bf16", batch=1)
    cache, patient = work / "attention-cache", {"ZTC_STAND_IN_CUDNN_MILLISECONDS": "300", "ZTC_CUDA_TUNE": "100"}

    def train(name, *options, expect=0, folder=cache, **variables):
        log = work / f"{name}.jsonl"
        done = run("ztc-run", plan, f"--data={GOLDEN / 'grouped/data.safetensors'}", "--steps=3", "--lr=2e-3", "--gpus=1", f"--log-json={log}", f"--save={work / name}", *options,
                   env={**ENVIRONMENT, "XDG_CACHE_HOME": str(folder), **variables}, expect=expect)
        if expect:
            return done
        head, steps = read_log(log)
        saved = {f.name: f.read_bytes() for step in sorted((work / name).glob("step-*"))[-1:] for f in step.glob("*.safetensors")}
        return done.stdout, head["algorithms"], [x["loss"] for x in steps], saved

    fresh = "--init=normal:0.02"
    said, proposed, losses, saved = train("attention-proposed", fresh, ZTC_CUDA_TUNE="0")
    check("cuDNN's attention is what is taken unmeasured", "attention by cuDNN 9.26.0, attention gradient by cuDNN 9.26.0 with scores in memory" in said and proposed["calls"] > proposed["measured"] == 0, said[:900])
    said, chosen, own_losses, own = train("attention-measured", fresh, **patient)
    check("own kernels that are faster compute it, and the header says by how much", said.count(" times as fast as cuDNN's here)") == 2 and "attention by own kernels (" in said, said[:900])
    check("both forms are counted", f"library {chosen['calls'] - 2} matrix products, 2 of attention: 2 measured" in said and chosen["measured"] == 2, said[:900])
    ways = sorted(sorted(times) for times in chosen["attention_ms"].values())
    check("the log has the time of each way", ways == [["cuDNN", "cuDNN with scores in memory", "own kernels"], ["cuDNN", "own kernels"]] and
          all(ms > 0 for times in chosen["attention_ms"].values() for ms in times.values()), chosen)
    said, _, without_losses, without = train("attention-none", fresh, folder=work / "other-cache", ZTC_CUDNN="0", ZTC_CUDA_TUNE="100")
    check("with the bits of own kernels", (own_losses, own) == (without_losses, without) and own != saved)
    check("the library's name is part of what choices are good for", any("cuDNN-9.26.0" in f.name for f in (cache / "ztc").iterdir()), list((cache / "ztc").iterdir()))
    said, again, *rest = train("attention-cached", fresh)
    check("the next run takes what was measured", again["cached"] == 2 and rest == [own_losses, own] and "measured to be faster than cuDNN's" in said, said[:900])
    # Of its two gradients the one whose workspace is linear, as if it had been faster here.
    choices = next(f for f in (cache / "ztc").iterdir() if f.suffix == ".json")
    known = choices.read_text()
    choices.write_text(known.replace("own kernels", "cuDNN"))
    said, linear, *_ = train("attention-linear", fresh)
    check("cuDNN's other gradient, where that was measured to be faster", linear["cached"] == 2 and "attention and its gradient by cuDNN 9.26.0\n" in said, said[:900])
    choices.write_text(known)
    train("attention-half", fresh, "--stop-after=1")
    shutil.rmtree(cache)
    shutil.copytree(work / "attention-half", work / "attention-resumed")
    said, resumed, _, rest = train("attention-resumed", f"--resume={work / 'attention-resumed'}", ZTC_CUDA_TUNE="0")
    check("so does a resumed run, of its checkpoint", resumed["resumed"] == chosen["calls"] and rest == own, said[:900])

    said, _, _, free = train("attention-free", fresh, "--deterministic=no", ZTC_CUDA_TUNE="0")
    check("--deterministic=no: the header names the implementation of the gradient", "attention gradient by cuDNN 9.26.0, not deterministic" in said, said[:900])
    check("and what is given up", "a run that is repeated, resumed or spread over other ranks does not have the same bits" in said, said[:1200])
    done = train("attention-word", fresh, "--deterministic=maybe", expect=2)
    check("another word is refused", "--deterministic" in done.stderr, done.stderr)
    done = run("ztc-run", compile_golden(work, "grouped", "--target=host"), "--steps=1", "--device=cpu", "--deterministic=no", fresh)
    check("on a processor it changes nothing, and says so", "--deterministic=no has no effect on CPU ranks" in done.stderr, done.stderr)


with scratch() as work:
    if (BUILD / "lib/libztc-cudnn.so").exists():
        attention(work)
    plan = compile_golden(work, "grouped", "--target=simt", batch=1)
    cache = work / "cache"
    environment = {**ENVIRONMENT, "XDG_CACHE_HOME": str(cache)}

    def train(name, *options, start=("--init=normal:0.02",), expect=0, **variables):
        """(what the run said, the log's algorithms, its steps, the tensors it saved)."""
        log, folder = work / f"{name}.jsonl", work / name
        done = run("ztc-run", plan, f"--data={GOLDEN / 'grouped/data.safetensors'}", "--steps=3", "--lr=2e-3", f"--log-json={log}",
                   f"--save={folder}", *start, *options, env={**environment, **variables}, expect=expect)
        if expect:
            return done
        head, steps = read_log(log)
        saved = {f.name: f.read_bytes() for step in sorted(folder.glob("step-*"))[-1:] for f in step.glob("*.safetensors")}
        return done.stdout, head["algorithms"], [x["loss"] for x in steps], saved

    one = ("--gpus=1", "--accumulate=2")
    said, chosen, losses, saved = train("measured", *one, ZTC_STAND_IN_ALGORITHMS=BACKWARD)
    calls = chosen["calls"]
    check("each product is measured", chosen["measured"] == calls > 5 and chosen["unmeasured"] == 0, chosen)
    check("progress is shown", f"measuring algorithms of matrix products: 0 of {calls}" in said, said)
    check("the header says how many", f"library {calls} matrix products: {calls} measured in " in said, said)
    files = list((cache / "ztc").iterdir())
    check("the cache has one file", len(files) == 1 and "cuBLASLt-13.1.0" in files[0].name, files)

    # Another algorithm would win now.
    said, again, *rest = train("cached", *one, ZTC_STAND_IN_ALGORITHMS=FORWARD)
    check("the next run takes what was measured", again["cached"] == calls and again["measured"] == 0, again)
    check("the same choices and bits", again["sha256"] == chosen["sha256"] and rest == [losses, saved])

    _, off, _, forward = train("off", *one, ZTC_STAND_IN_ALGORITHMS=BACKWARD, ZTC_CUDA_TUNE="0")
    check("ZTC_CUDA_TUNE=0: nothing is measured, no cache is used", off["measured"] == off["cached"] == 0, off)
    check("the library's first choice has other bits", forward != saved)
    _, short, _, hurried = train("short", *one, ZTC_STAND_IN_ALGORITHMS=BACKWARD, ZTC_CUDA_TUNE="1e-6", XDG_CACHE_HOME=str(work / "none"))
    check("time is bounded", short["measured"] == 0 and short["unmeasured"] == calls and hurried == forward, short)
    refused = train("refused", *one, expect=2, ZTC_CUDA_TUNE="soon")
    check("another value of ZTC_CUDA_TUNE is refused", "ZTC_CUDA_TUNE is 'soon'" in refused.stderr, refused.stderr)

    # The checkpoint is enough: the cache is gone, another algorithm would win, the library is no longer the same.
    train("half", *one, "--stop-after=1", ZTC_STAND_IN_ALGORITHMS=BACKWARD)
    state = json.loads((work / "half/step-00000001/trainer.json").read_text())
    check("the checkpoint has the choices", len(state["algorithms"]["algorithms"]) == calls)

    def resume(name, **variables):
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(work / "half", work / name)
        return train(name, *one, start=(f"--resume={work / name}",), **variables)

    said, resumed, _, tensors = resume("resumed", ZTC_STAND_IN_ALGORITHMS=FORWARD)
    check("a resumed run takes the checkpoint's", resumed["resumed"] == calls and resumed["measured"] == 0, resumed)
    check("bit for bit, without the cache", tensors == saved and "bits may differ" not in said, said)
    said, other, _, tensors = resume("other", ZTC_STAND_IN_ALGORITHMS=FORWARD, ZTC_STAND_IN_CUBLASLT="130200", ZTC_CUDA_TUNE="100")
    check("another library's are not taken", other["resumed"] == 0 and other["measured"] == calls and tensors != saved, other)
    check("and it says so", "the checkpoint's for cuBLASLt 13.1.0" in said and "bits may differ" in said, said)

    # Of two ranks the first one chooses: with algorithms of their own they would not come to these losses.
    files[0].parent.mkdir(parents=True, exist_ok=True)
    files[0].write_text("{")
    said, shared, two, tensors = train("two", "--gpus=2", ZTC_STAND_IN_ALGORITHMS=BACKWARD)
    check("a broken cache is ignored, in one line", said.count("the cache of tuned algorithms is ignored") == 1 and shared["measured"] > 5, said)
    check("two ranks: losses of one within rounding", all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(two, losses)), (two, losses))
    check("two ranks: the same bits from the cache", train("two-again", "--gpus=2", ZTC_STAND_IN_ALGORITHMS=FORWARD)[2:] == (two, tensors))
finish()
