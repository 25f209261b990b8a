#!/usr/bin/env python3
"""Packed rows: loss and gradients are those of the documents in rows of their own, for each way in which a model knows positions; the same tokens at every W; a
resumed run goes on where it was; boundaries, long documents and padding are said."""
import array
import json
import math
import random
import struct

from support import BUILD, GOLDEN, ROOT, check, finish, read_log, read_safetensors, run, scratch, stand_ins, write_safetensors, write_tiny_llama

SEQ = 32
# Places of each document: best fit makes three full rows of S of them. A document has a token more, its last target.
LENGTHS = [20, 12, 7, 25, 9, 16, 7]
ROWS = sum(LENGTHS) // SEQ
FOLDERS = {"llama3-defaults": "angles", "gpt2": "learned positions", "mistral": "a window", "gemma2": "capped scores and windows", "gemma3": "windows and two tables of angles", "phi3-long": "long angles",
           "llama-yarn": "scaled angles", "qwen3-moe": "experts", "granite": "factors", "gpt-neox": "a part of each head turned", "codegen": "neighbours turned", "smollm3": "layers without angles", "lfm2": "short convolutions",
           "qwen3-5": "the gated delta rule", "glm4v": "angles of parts", "granite-hybrid": "state space models", "minimax": "lightning attention", "falcon-h1": "state space models beside attention", "mamba": "selective scans", "recurrent-gemma": "gated recurrences",
           "step3p7": "heads by type of layer", "muse-spark": "residual gates"}
EXPORTS = {"recurrent": "states and short convolutions"}  # of golden/families: graphs of 61 tokens
REFUSED = ("bloom", "mpt", "deepseek-v3", "llama4")  # distances added to scores, latent attention, chunks


def documents(vocabulary, lengths=LENGTHS, seed=1):
    """Tokens of each document, and labels of which the first few do not count."""
    rng = random.Random(seed)
    rows = [[rng.randrange(1, vocabulary) for _ in range(n + 1)] for n in lengths]
    return [(tokens, [-100 if i < 3 and len(tokens) > 5 else t for i, t in enumerate(tokens)]) for tokens in rows]


def write_rows(path, rows, width=SEQ):
    """Rows of one document each, padded; a document of S places and a token more loses nothing but its last place."""
    pad = lambda values, with_: (values + [with_] * width)[:width]
    write_safetensors(path, {"input_ids": ([len(rows), width], array.array("q", [x for tokens, _ in rows for x in pad(tokens, 0)])),
                             "labels": ([len(rows), width], array.array("q", [x for _, labels in rows for x in pad(labels, -100)]))})


def train(plan, data, work, name, *arguments, steps=1, expect=0):
    log = work / f"{name}.log"
    done = run("ztc-run", plan, f"--data={data}", f"--steps={steps}", "--device=cpu", "--no-save", f"--log-json={log}", "--overwrite", "--init=normal:0.1", "--lr=1e-3",
               *arguments, expect=expect)
    return (*read_log(log), done) if done.returncode == 0 else (None, None, done)


def worst_gradient(a, b):
    """The largest difference, relative to the gradient's norm or a thousandth of the largest norm."""
    norms = {name: math.sqrt(sum(x * x for x in values)) for name, (_, values) in b.items()}
    largest = max(norms.values())
    return max((math.sqrt(sum((x - y) ** 2 for x, y in zip(a[n][1], b[n][1]))) / max(norms[n], 1e-3 * largest), n) for n in b)


def compile_folder(folder, plan, *arguments, batch=1, precision="fp32", expect=0):
    return run("ztc", "compile", folder / "model.onnx" if folder.parent.name == "families" else folder, "-o", plan, "--target=host", f"--batch={batch}", f"--seq={SEQ}", f"--precision={precision}", *arguments, expect=expect)


def find_vocabulary(model):
    if not (model / "config.json").exists():
        return 61
    config = json.loads((model / "config.json").read_text())
    return config.get("vocab_size") or config["text_config"]["vocab_size"]


def parity(name, what, work, *arguments, limit=1e-6, precision="fp32", rows=1):
    """One step over all documents, packed and each in a row of its own."""
    folder, packed, alone = ROOT / "tests/folders" / name, work / f"{name}.packed.bin", work / f"{name}.bin"
    if name in EXPORTS:
        folder, arguments = GOLDEN / "families" / name, [f"--weights={GOLDEN / 'families' / name / 'model.safetensors'}", *arguments]
    rows_file = work / f"{name}.safetensors"
    write_rows(rows_file, documents(find_vocabulary(folder)))
    if compile_folder(folder, packed, "--pack", *arguments, batch=rows, precision=precision).returncode or compile_folder(folder, alone, *arguments, precision=precision).returncode:
        return
    results = {}
    for plan, accumulate, key in ((packed, ROWS // rows, "packed"), (alone, len(LENGTHS), "alone")):
        head, steps, done = train(plan, rows_file, work, f"{name}.{key}", f"--accumulate={accumulate}", f"--dump-gradients={work / key}")
        if done.returncode:
            return
        results[key] = (head, steps[0], read_safetensors(work / key))
    (head, a, packed_gradients), (_, b, gradients) = results["packed"], results["alone"]
    title = f"{name} ({what}) {' '.join(a for a in arguments if not a.startswith('--weights'))}{precision if precision != 'fp32' else ''}".strip()
    check(f"{title}: rows are full", head["packing"]["padding_share"] == 0 and head["rows"] == ROWS, head.get("packing"))
    check(f"{title}: the same targets count", a["targets"] == b["targets"], (a["targets"], b["targets"]))
    check(f"{title}: loss", abs(a["loss"] - b["loss"]) <= limit * abs(b["loss"]), abs(a["loss"] - b["loss"]))
    worst = worst_gradient(packed_gradients, gradients)
    check(f"{title}: gradients", worst[0] <= limit * (1 if precision == "fp32" else 20), worst)


def refused(name, work):
    folder = ROOT / "tests/folders" / name
    done = compile_folder(folder, work / "refused.bin", "--pack", expect=None)
    check(f"{name}: is refused with the reason", done.returncode == 1 and "rows cannot hold several documents" in done.stderr, done.stderr[-300:])


def ranks_and_resume(work):
    """The same tokens in the same global batches at every number of ranks; a resumed run has the bits of the whole one."""
    folder, data = work / "llama", work / "many.safetensors"
    write_tiny_llama(folder, 128)
    rng = random.Random(4)
    write_rows(data, documents(128, [rng.randrange(1, SEQ) for _ in range(60)]))
    plans = {}
    for stage in (0, 3):
        plans[stage] = work / f"llama{stage}.bin"
        compile_folder(folder, plans[stage], "--pack", f"--zero={stage}", *(["--recompute=layer"] if stage == 3 else []))
    runs = {}
    for key, plan, arguments in (("one rank", plans[0], ["--accumulate=2"]), ("two ranks", plans[0], ["--ranks=2"]), ("two ranks, stage 3", plans[3], ["--ranks=2"])):
        _, steps, done = train(plan, data, work, "ranks", "--shuffle", "--seed=7", *arguments, steps=12)
        runs[key] = [(s["loss"], s["targets"]) for s in steps or []]
    for key in ("two ranks", "two ranks, stage 3"):
        same = len(runs[key]) == 12 and all(a[1] == b[1] and abs(a[0] - b[0]) <= 2e-6 * abs(b[0]) for a, b in zip(runs[key], runs["one rank"]))
        check(f"{key}: the same documents in each step", same, list(zip(runs[key], runs["one rank"]))[:3])
    common = ["--shuffle", "--seed=7", "--device=cpu", "--init=normal:0.1", "--lr=1e-3", "--accumulate=2", f"--data={data}", "--steps=12"]
    run("ztc-run", plans[0], *common, f"--save={work / 'saved'}", "--stop-after=5")
    run("ztc-run", plans[0], *common[:3], *common[4:], f"--resume={work / 'saved'}", f"--save={work / 'saved'}", f"--log-json={work / 'rest.log'}", "--overwrite")
    rest = [(s["loss"], s["targets"]) for s in read_log(work / "rest.log")[1]]
    check("a resumed run goes on with the next documents", rest == runs["one rank"][5:], (rest[:2], runs["one rank"][5:7]))
    _, threads, _ = train(plans[0], data, work, "threads", "--shuffle", "--seed=7", "--accumulate=2", "--threads=3", steps=12)
    check("bits do not depend on threads", [(s["loss"], s["targets"]) for s in threads] == runs["one rank"])
    _, steps, done = train(plans[0], data, work, "evaluated", f"--eval-data={data}", "--eval-every=1")
    check("held-out data is packed, too", done.returncode == 0 and "held-out loss" in done.stdout, done.stdout[-300:])


def boundaries(work):
    """Where documents end in files of each kind, and what is said of long and of missing ones."""
    folder, plan = work / "small", work / "small.bin"
    write_tiny_llama(folder, 128)
    compile_folder(folder, plan, "--pack")
    rng = random.Random(2)
    stream = work / "stream.bin"
    lengths = [5, 40, 31, 70, 12]
    tokens = [t for n in lengths for t in [rng.randrange(1, 120) for _ in range(n)] + [127]]
    stream.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    _, _, done = train(plan, stream, work, "bare", expect=1)
    check("a stream without boundaries is an error that says what to do", "--document-end=ID" in done.stderr, done.stderr[-300:])
    head, _, done = train(plan, stream, work, "cut", "--document-end=127")
    packing = (head or {}).get("packing", {})
    check("long documents are cut, counted and said", packing.get("cut") == 2 and packing.get("tokens") == sum(lengths) and "2 longer than a row were cut" in done.stdout, packing)
    head, steps, done = train(plan, stream, work, "drop", "--document-end=127", "--long=drop")
    packing = (head or {}).get("packing", {})
    check("or dropped", packing.get("dropped") == 2 and packing.get("tokens") == 48 and "2 longer than a row were dropped" in done.stdout, packing)
    check("tokens without padding are counted", steps and steps[0].get("tokens_without_padding", steps[0]["tokens"]) in (32, 17), steps)
    _, _, done = train(plan, stream, work, "drop", "--document-end=127", "--long=drop", steps=2)
    check("and the summary says the share of padding", "23.4 % of them padding" in done.stdout, done.stdout[-200:])
    run("ztc", "compile", folder, "-o", work / "plain.bin", "--target=host", f"--seq={SEQ}", "--batch=1", "--precision=fp32")
    _, _, done = train(work / "plain.bin", stream, work, "plain", "--pack", expect=1)
    check("--pack insists on a plan of packed rows", "compile it again with --pack" in done.stderr, done.stderr[-200:])
    _, _, done = train(work / "plain.bin", stream, work, "plain", "--long=drop")
    check("--long without such a plan is a note", "--long has no effect" in done.stderr, done.stderr[-200:])
    done = run("ztc", "compile", folder, "-o", work / "v.bin", "--target=host", f"--seq={SEQ}", "--batch=1", "--pack", "--verify", expect=None)
    check("--verify holds each pass", done.returncode == 0, done.stderr[-500:])


def on_gpu(name, work):
    """Our own kernels, over the stand-ins: what cuDNN does not take."""
    folder, plan, data = ROOT / "tests/folders" / name, work / f"{name}.gpu.bin", work / f"{name}.gpu.safetensors"
    write_rows(data, documents(find_vocabulary(folder)))
    run("ztc", "compile", folder, "-o", plan, "--target=host,simt", "--batch=3", f"--seq={SEQ}", "--precision=fp32", "--pack")
    _, cpu, _ = train(plan, data, work, f"{name}.cpu", f"--dump-gradients={work / 'cpu'}")
    log, environment = work / f"{name}.gpu.log", stand_ins(1)
    done = run("ztc-run", plan, f"--data={data}", "--steps=1", "--device=cuda", "--no-save", f"--log-json={log}", "--init=normal:0.1", "--lr=1e-3", f"--dump-gradients={work / 'gpu'}", env=environment)
    if done.returncode:
        return
    loss = read_log(log)[1][0]["loss"]
    worst = worst_gradient(read_safetensors(work / "gpu"), read_safetensors(work / "cpu"))
    check(f"{name}: kernels for GPUs give the processor's loss and gradients", abs(loss - cpu[0]["loss"]) <= 1e-6 * loss and worst[0] <= 5e-6, (loss, cpu[0]["loss"], worst))
    check(f"{name}: the header says why they are our own", f"by own kernels (cuDNN {'is called for scores without a softcap' if name == 'gemma2' else 'has no attention in f32'})" in done.stdout, done.stdout[:600])


def train_on_gpus(plan, data, work, name, *arguments, count=1, env=None):
    log = work / f"{name}.log"
    done = run("ztc-run", plan, f"--data={data}", "--steps=4", f"--gpus={count}", "--no-save", f"--log-json={log}", "--overwrite", "--init=normal:0.1", "--lr=1e-3", "--shuffle", "--seed=7",
               *arguments, env={**stand_ins(count), **(env or {})})
    return (read_log(log)[1] if done.returncode == 0 else []), done.stdout


def by_cudnn(work):
    """In 16 bits each document is a sequence of cuDNN's, row by row."""
    folder, data, held_out, short = work / "llama", work / "many.safetensors", work / "held-out.safetensors", work / "short.safetensors"
    rng = random.Random(5)
    write_rows(held_out, documents(128, [rng.randrange(1, SEQ) for _ in range(7)], seed=2))
    write_rows(short, documents(128, [1] * 200))
    for arguments in ([], ["--recompute=layer", "--zero=3"]):
        plan, title = work / "cudnn.bin", " ".join(["packed rows by cuDNN", *arguments])
        run("ztc", "compile", folder, "-o", plan, "--target=simt", "--batch=2", f"--seq={SEQ}", "--precision=bf16", "--pack", *arguments)
        own, said = train_on_gpus(plan, data, work, "own", "--accumulate=2", env={"ZTC_CUDNN": "0"})
        check(f"{title}: none without it", "by own kernels (ZTC_CUDNN is 0)" in said, said[:600])
        steps, said = train_on_gpus(plan, data, work, "cudnn", "--accumulate=2")
        check(f"{title}: the header says so", "attention and its gradient by cuDNN 9.26.0" in said, said[:600])
        check(f"{title}: own kernels' losses", len(steps) == 4 and all(abs(a["loss"] - b["loss"]) <= 1e-3 * b["loss"] and abs(a["grad_norm"] - b["grad_norm"]) <= 5e-3 * b["grad_norm"] for a, b in zip(steps, own)),
              list(zip(steps, own))[:2])
        again, _ = train_on_gpus(plan, data, work, "again", "--accumulate=2", env={"ZTC_CUDA_GRAPHS": "0"})
        key = lambda steps: [(s["loss"], s["grad_norm"], s["targets"]) for s in steps]
        check(f"{title}: the same bits step by step", key(again) == key(steps), key(again)[:2])
        two, _ = train_on_gpus(plan, data, work, "two", count=2)
        check(f"{title}: two ranks compute the same", len(two) == 4 and all(abs(a["loss"] - b["loss"]) <= 1e-3 * b["loss"] for a, b in zip(two, steps)), list(zip(two, steps))[:2])
        # The last batch of an evaluation is filled with rows that are not there.
        held, said = train_on_gpus(plan, data, work, "held", "--accumulate=2", f"--eval-data={held_out}", "--eval-every=2")
        check(f"{title}: beside held-out data, the same bits", key(held) == key(steps) and "held-out loss" in said, said[-400:])
    _, said = train_on_gpus(plan, short, work, "short")
    check("more documents than a plan reserves for: own kernels, and why", "attention gradient by own kernels (a row has up to 32 documents, the plan reserves for 16)" in said, said[:600])


def main():
    with scratch() as work:
        for name, what in FOLDERS.items():
            parity(name, what, work)
        for name, what in EXPORTS.items():
            parity(name, what, work)
            parity(name, what, work, "--recompute=layer", rows=3)
        parity("llama3-defaults", "angles", work, rows=3)
        parity("gpt2", "learned positions", work, rows=3)
        parity("mistral", "a window", work, "--recompute=layer")
        parity("llama3-defaults", "angles", work, precision="bf16", limit=2e-3)
        parity("gemma2", "capped scores and windows", work, "--recompute=layer", precision="bf16", limit=2e-3)
        parity("llama3-defaults", "angles", work, "--lora=r=4,alpha=8,targets=all-linear", "--quantize=nf4", "--generate")
        for name in REFUSED:
            refused(name, work)
        boundaries(work)
        ranks_and_resume(work)
        for name in ("mistral", "gemma2"):
            on_gpu(name, work)
        if (BUILD / "lib/libztc-cudnn.so").exists():
            by_cudnn(work)
    finish()


main()
