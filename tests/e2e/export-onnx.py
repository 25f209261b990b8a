#!/usr/bin/env python3
"""`ztc export`: trained weights stand in the graph that they were trained from, in its names, types and orientation, and it computes what the training had learned.

For every golden model: two steps, the export back into the ONNX file, and the new file compiled again. Its first loss and every tensor are those of the
run, bit for bit. ZTC_FIXTURES adds the exports of the larger set.

export-onnx.py [REGEX]: of the models no more than those whose "model/export" matches.
"""
import array
import os
import pathlib
import re
import shutil
import sys

from support import GOLDEN, check, finish, read_log, read_safetensors, run, scratch, tensors, write_safetensors

only = sys.argv[1] if len(sys.argv) > 1 else ""
STILL = ["--lr=0", "--weight-decay=0", "--device=cpu", "--schedule=constant"]


def first_loss(plan, data, work, *arguments):
    done = run("ztc-run", plan, f"--data={data}", "--steps=1", f"--log-json={work / 'log'}", "--overwrite", *STILL, *arguments, expect=None)
    return read_log(work / "log")[1][0]["loss"] if done.returncode == 0 else done.stderr[-300:]


def train(work, model, data, batch, seq, weights):
    """A folder with the weights after two steps, or the reason why there is none."""
    plan = work / "plan.bin"
    given = [f"--weights={weights}"] if weights else []
    done = run("ztc", "compile", model, f"--batch={batch}", f"--seq={seq}", "--precision=fp32", "--target=host", "-o", plan, *given, expect=None)
    if done.returncode:
        return done.stderr[-300:]
    done = run("ztc-run", plan, f"--data={data}", "--steps=2", "--lr=1e-2", "--device=cpu", f"--export={work / 'trained'}", "--export-dtype=fp32", expect=None)
    return done.stderr[-300:] if done.returncode else work / "trained"


def round_trip(name, work, model, data, batch, seq, weights, *arguments):
    work.mkdir()
    trained = train(work, model, data, batch, seq, weights)
    if not isinstance(trained, pathlib.Path):
        return check(f"{name}: trains", False, trained)
    # Weights that no other process has seen: the file's own folder holds none.
    out = work / "out" / "model.onnx"
    out.parent.mkdir()
    if (model.parent / "config.json").exists():
        shutil.copy(model.parent / "config.json", out.parent)
    done = run("ztc", "export", model, f"--weights={trained}", "-o", out, f"--batch={batch}", f"--seq={seq}", *arguments, expect=None)
    if done.returncode:
        return check(f"{name}: is exported", False, done.stderr[-500:])
    plan = work / "again.bin"
    done = run("ztc", "compile", out, f"--batch={batch}", f"--seq={seq}", "--precision=fp32", "--target=host", "-o", plan, *([f"--weights={trained}"] if weights else []), expect=None)
    if done.returncode:
        return check(f"{name}: the new file compiles", False, done.stderr[-500:])
    if weights:  # held against the graph's values: all of them must be those
        verdict = run("ztc", "check", out, f"--batch={batch}", f"--seq={seq}", "--precision=fp32", "--target=host", f"--weights={trained}").stdout
        agree = re.search(r"the same checkpoint: (\d+) of (\d+) tensors", verdict)
        check(f"{name}: every tensor of the graph is the trained one", agree and agree[1] == agree[2], verdict[-300:] if not agree else agree[0])
    losses = first_loss(work / "plan.bin", data, work, f"--weights={trained}", f"--export={work / 'a'}", "--export-dtype=fp32"), first_loss(plan, data, work, f"--export={work / 'b'}", "--export-dtype=fp32")
    check(f"{name}: the loss of the trained weights, bit for bit", isinstance(losses[0], float) and losses[0] == losses[1], losses)
    check(f"{name}: every tensor", tensors(work / "a", "model") == tensors(work / "b", "model") != {})
    return out


def untouched(work):
    """The weights that a file already has give the same file, byte for byte."""
    model, plan = GOLDEN / "grouped" / "model.onnx", work / "same.bin"
    run("ztc", "compile", model, "--batch=2", "--seq=16", "--precision=fp32", "--target=host", "-o", plan)
    run("ztc-run", plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=1", f"--export={work / 'same'}", "--export-dtype=fp32", *STILL)
    run("ztc", "export", model, f"--weights={work / 'same'}", "-o", work / "same.onnx")
    check("weights that did not change give the same file", (work / "same.onnx").read_bytes() == model.read_bytes())


def refusals(work, trained):
    model, out = GOLDEN / "grouped" / "model.onnx", work / "refused.onnx"
    lacking, narrow, steps = work / "lacking", work / "narrow", work / "steps"
    for folder in (lacking, narrow, steps / "step-00000004"):
        folder.mkdir(parents=True)
    tensors = read_safetensors(next(trained.glob("*.safetensors")))
    name = next(n for n in tensors if n.endswith("q_proj.weight"))
    write_safetensors(lacking / "model.safetensors", {n: t for n, t in tensors.items() if n != name})
    write_safetensors(narrow / "model.safetensors", tensors | {name: ([1, len(tensors[name][1])], tensors[name][1])})
    (work / "there.onnx").write_text("of somebody else")
    for label, arguments, words in (
            ("a tensor is missing", [model, f"--weights={lacking}", "-o", out], [name]),
            ("a tensor of another shape", [model, f"--weights={narrow}", "-o", out], [name]),
            ("no weights", [model, f"--weights={work / 'nowhere'}", "-o", out], ["nowhere"]),
            ("a folder of checkpoints", [model, f"--weights={steps}", "-o", out], ["step-00000004"]),
            ("a file that is there", [model, f"--weights={trained}", "-o", work / "there.onnx"], ["--overwrite"]),
            ("the model itself", [model, f"--weights={trained}", "-o", model], ["the model itself"]),
            ("a folder that is not there", [model, f"--weights={trained}", "-o", work / "no" / "out.onnx"], ["does not exist", "create it or choose another path"]),
            ("no ONNX file", [trained / "config.json", f"--weights={trained}", "-o", out], ["config.json"]),
            ("a folder as model", [GOLDEN.parent / "folders" / "mistral", f"--weights={trained}", "-o", out], ["is a folder, not an ONNX file"])):
        done = run("ztc", "export", *arguments, expect=None)
        check(f"refused: {label}", done.returncode in (1, 2) and all(w in done.stderr for w in words) and "Traceback" not in done.stderr, done.stderr.strip()[-200:])
        check(f"refused: {label}: nothing is there", not list(work.glob("refused.onnx*")) and (work / "there.onnx").read_text() == "of somebody else")
    done = run("ztc", "export", model, "-o", out, expect=None)
    check("without --weights: usage", done.returncode == 2 and "--weights" in done.stderr, done.stderr[-200:])


def external(work, trained):
    """A file that would be too large has its weights beside it."""
    out = work / "large.onnx"
    done = run("ztc", "export", GOLDEN / "grouped" / "model.onnx", f"--weights={trained}", "-o", out, "--external-data=4KiB")
    data = work / "large.onnx.data"
    small = work / "small.onnx"
    run("ztc", "export", GOLDEN / "grouped" / "model.onnx", f"--weights={trained}", "-o", small)
    check("large: weights stand in a second file", data.exists() and data.stat().st_size > out.stat().st_size // 2, done.stdout)
    check("small: they do not", not (work / "small.onnx.data").exists() and small.stat().st_size > out.stat().st_size)
    plans = []
    for model in (out, small):
        plans.append(work / f"{model.stem}.bin")
        run("ztc", "compile", model, "--batch=2", "--seq=16", "--precision=fp32", "--target=host", "-o", plans[-1])
    losses = [first_loss(plan, GOLDEN / "grouped" / "data.safetensors", work) for plan in plans]
    check("large and small compute the same", isinstance(losses[0], float) and losses[0] == losses[1], losses)
    again = work / "moved.onnx"  # from a file with external weights
    run("ztc", "export", out, f"--weights={trained}", "-o", again)
    check("what was external stays so, under the new name", (work / "moved.onnx.data").read_bytes() == data.read_bytes())


def checkpoint(work):
    """A step of --save is taken as an export is."""
    model, plan = GOLDEN / "grouped" / "model.onnx", work / "steps.bin"
    run("ztc", "compile", model, "--batch=2", "--seq=16", "--precision=fp32", "--target=host", "-o", plan)
    run("ztc-run", plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=2", "--device=cpu", f"--save={work / 'ck'}", f"--export={work / 'ex'}")
    run("ztc", "export", model, f"--weights={work / 'ck' / 'step-00000002'}", "-o", work / "of-step.onnx")
    run("ztc", "export", model, f"--weights={work / 'ex'}", "-o", work / "of-export.onnx")
    check("a checkpoint gives what the export gives", (work / "of-step.onnx").read_bytes() == (work / "of-export.onnx").read_bytes())


def frozen(work):
    """A tensor that nothing in the graph stands for is named with --freeze, here as in ztc compile."""
    golden, weights, plan = GOLDEN / "families" / "token-shift", work / "frozen.safetensors", work / "frozen.bin"
    write_safetensors(weights, read_safetensors(golden / "model.safetensors") | {"layers.0.gate": ([1], array.array("f", [0.5]))})
    shape, _ = read_safetensors(golden / "data.safetensors")["input_ids"]
    sized = [golden / "model.onnx", f"--batch={shape[1]}", f"--seq={shape[2]}"]
    arguments = [*sized, f"--weights={weights}"]
    done = run("ztc", "compile", *arguments, "--precision=fp32", "--target=host", "-o", plan, expect=None)
    check("a tensor that would not be trained is refused", done.returncode == 1 and "layers.0.gate" in done.stderr, done.stderr[-200:])
    run("ztc", "compile", *arguments, "--precision=fp32", "--target=host", "--freeze=gate$", "-o", plan)
    run("ztc-run", plan, f"--data={golden / 'data.safetensors'}", "--steps=1", "--device=cpu", f"--export={work / 'thawed'}", "--export-dtype=fp32")
    done = run("ztc", "export", *sized, f"--weights={work / 'thawed'}", "--freeze=gate$", "-o", work / "frozen.onnx", expect=None)
    check("it is named for the export too", done.returncode == 0, done.stderr[-200:])


def lengths(work):
    """Without --seq and a config.json, a table of positions gives the row length: for a plan, for the file that gets its weights, and for one that is asked for more."""
    model, weights, plan = GOLDEN / "families" / "mingpt" / "model.onnx", GOLDEN / "families" / "mingpt" / "model.safetensors", work / "long.bin"
    done = run("ztc", "compile", model, f"--weights={weights}", "--precision=fp32", "--target=host", "-o", plan)
    check("length: as many tokens as the table has rows", "micro-batch 1 x 64" in done.stdout and "taken as 1 and 64" in done.stderr, done.stdout + done.stderr)
    rows = array.array("q", [i * i * 7 % 61 for i in range(64)])
    write_safetensors(work / "long.safetensors", {key: ([1, 1, 64], rows) for key in ("input_ids", "labels")})
    run("ztc-run", plan, f"--data={work / 'long.safetensors'}", "--steps=1", "--device=cpu", f"--export={work / 'long'}", "--export-dtype=fp32")
    done = run("ztc", "export", model, f"--weights={work / 'long'}", "-o", work / "long.onnx", expect=None)
    check("length: the export needs none", done.returncode == 0 and (work / "long.onnx").exists(), done.stderr[-300:])
    for command in ("compile", "check", "memory", "export"):
        done = run("ztc", command, model, f"--weights={weights}", "--seq=65", *(["-o", work / "too-long"] if command in ("compile", "export") else []), expect=1)
        check(f"length: {command} says what the table allows", "--seq=64 at most, not 65: the table 'pos_emb' has 64 rows" in done.stdout + done.stderr and "--base" not in done.stderr, done.stdout + done.stderr)


with scratch() as work:
    for model in sorted([*GOLDEN.glob("*/model.onnx"), *(GOLDEN / "families").glob("*/model.onnx")]):
        data, weights = model.parent / "data.safetensors", model.parent / "model.safetensors"
        if not re.search(only, f"{model.parent.name}/{model.stem}"):
            continue
        shape, _ = read_safetensors(data)["input_ids"]
        round_trip(model.parent.name, work / model.parent.name, model, data, shape[1], shape[2], weights if weights.exists() else None)
    if re.search(only, "grouped/model"):
        untouched(work)
        trained = work / "grouped" / "trained"
        refusals(work, trained)
        external(work, trained)
        checkpoint(work)
        frozen(work)
        lengths(work)
    fixtures = os.environ.get("ZTC_FIXTURES")
    for model in sorted(pathlib.Path(fixtures).glob("*-tiny*/*.onnx")) if fixtures else []:
        name = f"{model.parent.name}/{model.stem}"
        if not re.search(only or os.environ.get("ZTC_FIXTURES_ONLY", ""), name):
            continue
        golden = read_safetensors(model.parent / "golden.safetensors")
        shape, _ = golden["input_ids"]
        data = work / f"{name.replace('/', '-')}.safetensors"
        write_safetensors(data, {k: ([1, *shape], golden[k][1]) for k in ("input_ids", "labels")})
        weights = model.parent / "model.safetensors"
        round_trip(name, work / name.replace("/", "-"), model, data, shape[0], shape[1], weights if weights.exists() else None)
finish()
