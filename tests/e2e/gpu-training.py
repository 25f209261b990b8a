#!/usr/bin/env python3
"""A plan is trained on the CUDA device, over the stand-ins of tests/standin: on one GPU and on two, saved and resumed,
with CUDA graphs and without; what a run tells about its GPU."""
import json
import struct

from support import BIN, BUILD, Running, check, finish, free_port, run, scratch, stand_ins

ENVIRONMENT = stand_ins(2)
SEQ, ROWS, STEPS = 8, 24, 12  # an epoch has 6 steps of 4 rows


def write_data(path):
    """Rows of token ids, labels alike."""
    tokens = struct.pack(f"<{ROWS * SEQ}q", *((i * 7 + 3) % 250 for i in range(ROWS * SEQ)))
    entry = {"dtype": "I64", "shape": [ROWS, SEQ]}
    header = json.dumps({"input_ids": {**entry, "data_offsets": [0, len(tokens)]},
                         "labels": {**entry, "data_offsets": [len(tokens), 2 * len(tokens)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + tokens + tokens)


with scratch() as work:
    plan, data = work / "toy.bin", work / "data.safetensors"
    run("toy-gpu-plan", BUILD / "lib/libztc-standin-toy.so", plan)
    write_data(data)

    texts = {}

    def train(name, *options, start=("--init=normal:0.02",), **variables):
        log = work / f"{name}.jsonl"
        done = run("ztc-run", plan, f"--data={data}", f"--steps={STEPS}", "--lr=0.05", f"--log-json={log}",
                   *start, *options, env={**ENVIRONMENT, **variables})
        check(f"{name}: the run says that there is no GPU", "NO GPU IS USED" in done.stderr)
        texts[name] = done.stdout
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        headers = [line for line in lines if "predicted_bytes" in line]
        check(f"{name}: predicted is allocated", all(h["predicted_bytes"] == h["allocated_bytes"] for h in headers) and headers)
        return [line for line in lines if "loss" in line]

    one = train("one GPU", "--gpus=1", "--accumulate=2", f"--save={work / 'one'}")
    two = train("two GPUs", "--gpus=2", f"--save={work / 'two'}")
    check("all steps are there", len(one) == len(two) == STEPS, f"{len(one)} {len(two)}")
    check("the loss of the same rows falls", one[6]["loss"] < one[0]["loss"], f"{one[0]['loss']} -> {one[6]['loss']}")
    far = [(a, b) for a, b in zip(one, two)
           for key in ("loss", "grad_norm") if abs(a[key] - b[key]) > 1e-5 * abs(a[key])]
    check("one GPU with two micro-steps and two GPUs with one: equal losses and norms", not far, far[:1] or "")

    def same_as(name, first, folder, *options, **variables):
        second = train(name, *options, f"--save={work / name}", **variables)
        figures = [[{k: x[k] for k in ("loss", "grad_norm", "sent_bytes")} for x in steps] for steps in (first, second)]
        check(f"{name}: the same losses, norms and bytes sent", figures[0] == figures[1])
        states = [{f.name: f.read_bytes() for f in sorted((work / x / "step-00000012").glob("*.safetensors"))}
                  for x in (folder, name)]
        check(f"{name}: the same bits", states[0] and states[0] == states[1])

    same_as("one GPU without graphs", one, "one", "--gpus=1", "--accumulate=2", ZTC_CUDA_GRAPHS="0")
    same_as("one GPU, step by step", one, "one", "--gpus=1", "--accumulate=2", ZTC_CUDA_SYNC="1")
    same_as("two GPUs without graphs", two, "two", "--gpus=2", ZTC_CUDA_GRAPHS="0")
    same_as("two GPUs, step by step", two, "two", "--gpus=2", ZTC_CUDA_SYNC="1")

    train("two GPUs, stopped", "--gpus=2", "--stop-after=3", f"--save={work / 'half'}")
    rest = train("one GPU goes on", "--gpus=1", f"--save={work / 'half'}", start=(f"--resume={work / 'half'}",))
    check("a run saved by two GPUs goes on with one", [x["step"] for x in rest] == list(range(3, STEPS)) and
          all(abs(a["loss"] - b["loss"]) <= 1e-5 * abs(b["loss"]) for a, b in zip(rest, two[3:])), rest[:2])

    # What a launcher has started takes the GPU of its local rank; nothing on the command line says so.
    port = free_port()

    def launched(name, **variables):
        """Both ranks as torchrun starts them. Returns their exit statuses and what they said."""
        ranks = [Running([BIN / "ztc-run", plan, f"--data={data}", f"--steps={STEPS}", "--lr=0.05", "--init=normal:0.02", "--no-save",
                          f"--log-json={work / name}.jsonl"],
                         env={**ENVIRONMENT, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **variables}) for r in range(2)]
        with ranks[0], ranks[1]:
            return [r.finish(60) for r in ranks], "".join(r.err for r in ranks)

    status, said = launched("launched")
    check("ranks of a launcher: exit status 0", status == [0, 0], said[-800:] if status != [0, 0] else "")
    steps = [json.loads(line) for line in (work / "launched.jsonl").read_text().splitlines()] if status == [0, 0] else []
    check("ranks of a launcher: the losses of --gpus=2", [x["loss"] for x in steps if "loss" in x] == [x["loss"] for x in two])
    check("ranks of a launcher: NCCL's sums are pinned", steps and "Ring Simple" in steps[0]["versions"]["communicator"], steps[:1])
    status, said = launched("one GPU for two", ZTC_STAND_IN_GPUS="1")
    check("two ranks on one GPU: refused", status == [1, 1] and "ranks 0 and 1 are on the same GPU, GPU 0000:00:00.0" in said, said[-800:])
    check("two ranks on one GPU: one error", said.count("error:") == 1, said[-800:])
    for nccl in ("22809", "23203"):
        shared = train(f"two ranks on one GPU, NCCL {nccl}", "--gpus=2", "--no-save", ZTC_STAND_IN_GPUS="1", ZTC_SHARE_GPUS="1", ZTC_STAND_IN_NCCL=nccl)
        check("two ranks share a GPU: the losses of two", [x["loss"] for x in shared] == [x["loss"] for x in two])

    # What a run tells about its GPU.
    header = json.loads((work / "one GPU.jsonl").read_text().splitlines()[0])
    check("the reserve is measured", header["library_bytes"] == 64 << 20, header["library_bytes"])
    check("clock, power and temperature are shown", "1234 MHz  321 W  45 C" in texts["one GPU"], texts["one GPU"][-600:])
    train("traced", "--gpus=2", "--no-save", f"--trace={work / 'trace.json'}", "--profile=steps")
    events = json.loads((work / "trace.json").read_text())["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = {rows[tid]: [e for e in events if e["ph"] == "X" and e["tid"] == tid] for tid in rows}
    check("the trace has a row for each stream", {"stream 0: compute", "stream 1: communication", "programs"} <= set(rows.values()), rows)
    check("the trace has the collectives of every step on theirs",
          [e["name"] for e in spans.get("stream 1: communication", ()) if "all" in e["name"]].count("reduce_scatter all") == STEPS)
    inside = [e for e in spans.get("stream 0: compute", ()) if e["name"] == "update" and
              not any(p["ts"] - 1000 <= e["ts"] and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + 1000 for p in spans["programs"])]
    check("steps lie within their programs", not inside, inside[:1])
    check("the profile has times", "reduce_scatter all" in texts["traced"] and "collectives" in texts["traced"], texts["traced"][-1500:])
finish()
