#!/usr/bin/env python3
"""`ztc plan --data` and `ztc-run --describe-data`: rows, padding, steps and hours are those of the run, of token files, padded rows and packed ones."""
import array
import json
import pathlib
import shlex
import struct
import subprocess

from support import BIN, GOLDEN, check, finish, run, scratch

folder = scratch()
work = pathlib.Path(folder.name)
model = GOLDEN / "grouped/model.onnx"
SEQ, END = 16, 1


def plan(*arguments, **more):
    return run("ztc", "plan", model, "--gpu=host", "--mem=64MiB", "--threads=1", "--gpus=1", f"--seq={SEQ}", "--precision=fp32", "--method=full", "--zero=0", "--batch=2", "--global-batch=4",
               *arguments, **more)


def write_rows(path, lengths):
    """Rows of tokens 2, 3, ..., each so long, padded with 0 and -100."""
    ids, labels = array.array("i"), array.array("i")
    for length in lengths:
        row = [2 + i % 20 for i in range(length)]
        ids.extend(row + [0] * (SEQ - length))
        labels.extend(row + [-100] * (SEQ - length))
    size = 4 * len(ids)
    head = json.dumps({name: {"dtype": "I32", "shape": [len(lengths), SEQ], "data_offsets": [start, start + size]} for name, start in (("input_ids", 0), ("labels", size))}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + ids.tobytes() + labels.tobytes())


stream = work / "tokens.bin"
array.array("H", [END if i % 11 == 10 else 2 + i % 20 for i in range(40 * SEQ + 1)]).tofile(stream.open("wb"))
rows = work / "rows.safetensors"
lengths = [4, 16, 8, 5] * 6
write_rows(rows, lengths)

# Token files: all places hold tokens, and an epoch has the steps of a run.
table = json.loads(plan(f"--data={stream}", "--epochs=2", "--json").stdout)
data = table["data"]
check("a stream has rows without padding", (data["rows"], data["padding_share"]) == (40, 0), data)
check("two epochs of 40 rows are 20 steps", data["steps"] == 20, data)
row = next(c for c in table["choices"] if c["recommended"])
check("hours are steps times seconds", abs(row["hours"] * 3600 - 20 * row["cost_model_seconds"]) < 1e-9, row)
check("the run names the data", f"--data={stream}" in row["run"] and "--epochs=2" in row["run"], row["run"])
for command in (row["compile"], row["run"] + " --no-save --log-json=log"):
    words = shlex.split(command)
    done = subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, cwd=work, timeout=240)
    check(f"{words[0]} does what the table says", done.returncode == 0, done.stderr[-500:])
lines = [json.loads(line) for line in (work / "log").read_text().splitlines()]
check("as many steps are made", sum("step_ms" in line for line in lines) == data["steps"], len(lines))

# Padded rows: the share is that of the log.
data = json.loads(plan(f"--data={rows}", "--json").stdout)["data"]
expected = 1 - sum(n if n == SEQ else n - 1 for n in lengths) / (SEQ * len(lengths))  # as a log counts: to the last target, which a row's last token is
check("padding is counted", abs(data["padding_share"] - expected) < 1e-9, (data, expected))
check("targets are those that count", data["targets"] == sum(n - 1 for n in lengths), data)
check("what packing would leave is said", data["packed_padding_share"] < expected, data)
words = shlex.split(row["run"].replace(f"--data={stream}", f"--data={rows}").replace("--epochs=2", "--epochs=1") + " --no-save --log-json=log --overwrite")
run(words[0], *words[1:], cwd=work)
steps = [json.loads(line) for line in (work / "log").read_text().splitlines() if "step_ms" in line]
unpadded = sum(s.get("tokens_without_padding", s["tokens"]) for s in steps)
check("a run's log says the same", abs(1 - unpadded / sum(s["tokens"] for s in steps) - expected) < 1e-9, unpadded)
text = plan(f"--data={rows}").stdout
check("the table says so in words", "% of their places padding" in text and "with --pack" in text and " hours" in text, text)

# Packed rows: documents of a stream by the token that ends them, and rows as documents.
packed = json.loads(run("ztc-run", f"--describe-data={SEQ},96", f"--data={rows}", "--pack").stdout)
check("packed rows hold the documents", packed["documents"] == len(lengths) and packed["rows"] < len(lengths) and packed["padding_share"] < expected, packed)
packed = json.loads(run("ztc-run", f"--describe-data={SEQ},96", f"--data={stream}", "--pack", f"--document-end={END}").stdout)
check("a stream is cut at its document ends", packed["documents"] >= 40 * SEQ // 11, packed)

for arguments, word in ((["--describe-data=16", f"--data={work / 'nowhere.bin'}"], "nowhere.bin"), (["--describe-data=16"], "--data"), (["--describe-data=x", f"--data={stream}"], "--describe-data=x"),
                        (["--describe-data=16,10", f"--data={stream}"], "vocabulary"), (["--describe-data=16,96", f"--data={stream}", "--pack"], "document")):
    done = run("ztc-run", *arguments, expect=None)
    check(f"{arguments[0]} is refused with one message", done.returncode in (1, 2) and word in done.stderr and done.stderr.count("\n") == 1, done.stderr)
done = plan(f"--data={work / 'nowhere.bin'}", expect=1)
check("data that are not there are one message", "nowhere.bin" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
finish()
