"""Trains two steps, puts the weights back with `ztc export`, and holds onnxruntime's loss of the new file against the one that ztc-run reports."""
import array
import json
import os
import pathlib
import sys

import numpy
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import GOLDEN, check, finish, read_log, read_safetensors, run, scratch, write_safetensors  # noqa: E402

LIMIT = 2e-5  # of a mean loss in fp32


def array_of(tensors, name):
    shape, values = tensors[name]
    return numpy.array(values, dtype=numpy.int64).reshape(shape)


def inputs_of(session, ids, config):
    """What the graph asks for beside the tokens: a mask of ones, positions, a past of length 0."""
    batch, seq = ids.shape
    heads = config.get("num_attention_heads") or config.get("n_head") or 1
    key_heads, width = config.get("num_key_value_heads") or heads, config.get("head_dim") or (config.get("hidden_size") or config.get("n_embd") or heads) // heads
    feed = {}
    for entry in session.get_inputs():
        kind = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(bool)": numpy.bool_, "tensor(float)": numpy.float32}[entry.type]
        shape = [d if isinstance(d, int) else None for d in entry.shape]
        if entry.name in ("input_ids", "tokens", "idx") or (len(feed) == 0 and len(shape) == 2 and kind in (numpy.int64, numpy.int32)):
            feed[entry.name] = ids.astype(kind)
        elif "past" in entry.name:
            feed[entry.name] = numpy.zeros([batch, shape[1] or key_heads, 0, shape[3] or width], kind)
        elif "position" in entry.name:
            feed[entry.name] = numpy.broadcast_to(numpy.arange(seq), (batch, seq)).astype(kind)
        elif "label" in entry.name:
            feed[entry.name] = ids.astype(kind)
        elif len(shape) == 4:
            feed[entry.name] = numpy.broadcast_to(numpy.where(numpy.tril(numpy.ones((seq, seq))) > 0, 0, -1e9), (batch, 1, seq, seq)).astype(kind)
        else:
            feed[entry.name] = numpy.ones((batch, seq), kind)
    return feed


def onnxruntime_loss(model, ids, labels, config):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    logits = next((o for o in session.run(names, inputs_of(session, ids, config)) if getattr(o, "ndim", 0) == 3 and o.shape[:2] == ids.shape), None).astype(numpy.float64)
    logits, targets = logits[:, :-1], labels[:, 1:]
    logits = logits - logits.max(-1, keepdims=True)
    log_probabilities = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
    counted = targets != -100
    chosen = numpy.take_along_axis(log_probabilities, numpy.where(counted, targets, 0)[..., None], -1)[..., 0]
    return float(-(chosen * counted).sum() / counted.sum())


def hold(model, tensors, work):
    name = f"{model.parent.name}/{model.stem}"
    ids, labels = array_of(tensors, "input_ids"), array_of(tensors, "labels")
    if ids.ndim == 3:
        ids, labels = ids[0], labels[0]
    batch, seq = ids.shape
    tokens = lambda values: ([1, batch, seq], array.array("q", values.reshape(-1).tolist()))
    data, plan, trained, out = work / "data.safetensors", work / "plan.bin", work / "trained", work / "out" / "trained.onnx"
    write_safetensors(data, {"input_ids": tokens(ids), "labels": tokens(labels)})
    weights = model.parent / "model.safetensors"
    done = run("ztc", "compile", model, f"--batch={batch}", f"--seq={seq}", "--precision=fp32", "--target=host", "-o", plan, *([f"--weights={weights}"] if weights.exists() else []), expect=None)
    if done.returncode:
        return check(f"{name}: compiles", False, done.stderr[-300:])
    run("ztc-run", plan, f"--data={data}", "--steps=2", "--lr=1e-2", "--device=cpu", f"--export={trained}", "--export-dtype=fp32")
    run("ztc-run", plan, f"--data={data}", "--steps=1", "--lr=0", "--weight-decay=0", "--device=cpu", "--no-save", f"--weights={trained}", f"--log-json={work / 'log'}", "--overwrite")
    out.parent.mkdir()
    done = run("ztc", "export", model, f"--weights={trained}", "-o", out, expect=None)
    if done.returncode:
        return check(f"{name}: is exported", False, done.stderr[-400:])
    want = read_log(work / "log")[1][0]["loss"]
    described = model.parent / "config.json"
    config = json.loads(described.read_text()) if described.exists() else {}
    before, after = onnxruntime_loss(model, ids, labels, config), onnxruntime_loss(out, ids, labels, config)
    check(f"{name}: onnxruntime's loss of the trained file is ztc's", abs(after - want) <= LIMIT and abs(before - want) > 100 * LIMIT, (before, after, want))


models = [pathlib.Path(p) for p in sys.argv[1:]] or sorted([*GOLDEN.glob("*/model.onnx"), *(GOLDEN / "families").glob("*/model.onnx")])
if not sys.argv[1:] and os.environ.get("ZTC_FIXTURES"):
    models += sorted(pathlib.Path(os.environ["ZTC_FIXTURES"]).glob("*-tiny*/*.onnx"))
for model in models:
    golden = model.parent / ("data.safetensors" if (model.parent / "data.safetensors").exists() else "golden.safetensors")
    with scratch() as work:
        hold(model, read_safetensors(golden), work)
finish()
