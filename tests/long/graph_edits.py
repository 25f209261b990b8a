"""Edits a model's graph in three ways; ztc's loss must follow onnxruntime's each time."""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import GOLDEN, check, finish, read_log, read_safetensors, run, scratch

SHAPE = (2, 16)


def producers(graph):
    return {out: node for node in graph.node for out in node.output}


def replace_uses(graph, old, new, keep=()):
    for node in graph.node:
        if node.name not in keep:
            for i, name in enumerate(node.input):
                if name == old:
                    node.input[i] = new


def norm_roots(graph):
    """(x, sqrt node, last multiplication) of each RMS norm, found through its ReduceMean."""
    made, users = producers(graph), {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for mean in (n for n in graph.node if n.op_type == "ReduceMean"):
        power = made[mean.input[0]]
        add = users[mean.output[0]][0]
        root = users[add.output[0]][0]
        reciprocal = users[root.output[0]][0]
        scaled = users[reciprocal.output[0]][0]
        weighted = users[scaled.output[0]][0]
        yield power.input[0], add, weighted


def edit_epsilon(model):
    graph = model.graph
    constants = {i.name: i for i in graph.initializer}
    _, add, _ = list(norm_roots(graph))[1]
    name = next(x for x in add.input if x in constants)
    changed = numpy_helper.from_array(np.full_like(numpy_helper.to_array(constants[name]), 0.05), "edited_epsilon")
    graph.initializer.append(changed)
    for i, x in enumerate(add.input):
        if x == name:
            add.input[i] = "edited_epsilon"


def remove_norm(model):
    x, _, last = list(norm_roots(model.graph))[2]
    replace_uses(model.graph, last.output[0], x)


def swap_rotary(model):
    """rotate_half as concat(x2, -x1) instead of concat(-x2, x1), in the first layer's query."""
    made = producers(model.graph)
    for concat in (n for n in model.graph.node if n.op_type == "Concat" and len(n.input) == 2):
        first = made.get(concat.input[0])
        if first is not None and first.op_type == "Neg":
            second = concat.input[1]
            concat.input[0], first.input[0], concat.input[1] = first.input[0], second, first.output[0]
            # the negation now reads the other half, which may be made later: keep the order topological
            nodes = list(model.graph.node)
            nodes.remove(first)
            nodes.insert(nodes.index(concat), first)
            del model.graph.node[:]
            model.graph.node.extend(nodes)
            return
    raise SystemExit("no rotate_half in the graph")


def reference_loss(path, ids, labels):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    logits = session.run(None, {session.get_inputs()[0].name: ids})[0].astype(np.float64)[:, :-1]
    targets = labels[:, 1:]
    shifted = logits - logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(-1))
    keep = targets != -100
    picked = np.take_along_axis(shifted, np.where(keep, targets, 0)[..., None], -1)[..., 0]
    return ((log_sum - picked) * keep).sum() / keep.sum()


for name in ("grouped", "tied"):
    tensors = read_safetensors(GOLDEN / name / "data.safetensors")
    ids, labels = (np.array(tensors[k][1], np.int64).reshape(tensors[k][0])[0] for k in ("input_ids", "labels"))
    seen = {}
    for what, edit in (("unchanged", lambda m: None), ("epsilon", edit_epsilon), ("norm", remove_norm), ("rotary", swap_rotary)):
        with scratch() as work:
            model = onnx.load(GOLDEN / name / "model.onnx")
            edit(model)
            path = work / "model.onnx"
            onnx.save(model, path)
            want = reference_loss(path, ids, labels)
            plan = work / "plan.bin"
            if run("ztc", "compile", path, f"--batch={SHAPE[0]}", f"--seq={SHAPE[1]}", "--precision=fp32", "-o", plan).returncode:
                continue
            run("ztc-run", plan, "--device=cpu", f"--data={GOLDEN / name / 'data.safetensors'}", "--steps=1", "--no-save", f"--log-json={work / 'log'}", "--overwrite")
            mine = read_log(work / "log")[1][0]["loss"]
            check(f"{name}, {what}: loss as onnxruntime's", abs(mine - want) < 1e-5, f"{mine} {want}")
            seen[what] = want
    check(f"{name}: every edit changes the loss", len({round(v, 4) for v in seen.values()}) == 4, seen)
finish()
