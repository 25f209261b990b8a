"""The shape of stories110M (12 layers, width 768, 32000 words, 2 x 512 tokens): what the process takes beside the arena, over training,
evaluation, checkpoints, export and gradients; the arena is what `ztc memory` says."""
import array
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from llama_text import llama_text
from support import BIN, check, finish, read_log, run, scratch, write_safetensors

BATCH, SEQ, VOCABULARY = 2, 512, 32000
LIMIT = 160 * 2**20


def peak_of(command):
    """Exit status and resident high-water mark of a program."""
    pid = os.posix_spawn(str(command[0]), [str(x) for x in command], os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def rows(path, count, seed):
    numbers = random.Random(seed)
    shape = [count, SEQ]
    values = array.array("q", [numbers.randrange(VOCABULARY) for _ in range(count * SEQ)])
    write_safetensors(path, {"input_ids": (shape, values), "labels": (shape, values)})
    return path


with scratch() as work:
    text, plan = work / "stories110m.mlir", work / "plan.bin"
    text.write_text(llama_text(BATCH, SEQ, 768, 2048, 12, 12, VOCABULARY))
    run("ztc", "compile", text, "--from=import", "--precision=fp32", "-o", plan)
    data, held_out = rows(work / "data.safetensors", 12, 1), rows(work / "held-out.safetensors", 3, 2)
    common = [BIN / "ztc-run", plan, "--device=cpu", "--init=normal:0.02", f"--data={data}", "--steps=3", f"--log-json={work / 'log'}", "--overwrite"]
    for name, accumulate, more in (
            ("training alone", 1, ["--no-save"]),
            ("evaluation, checkpoints, export and gradients too", 2,
             [f"--eval-data={held_out}", "--eval-every=1", f"--save={work / 'ck'}", "--save-every=2", "--keep=1", f"--export={work / 'model'}",
              "--export-dtype=bf16", f"--dump-gradients={work / 'gradients'}"])):
        status, peak = peak_of([*common, f"--accumulate={accumulate}", *more])
        check(f"{name}: it ran", status == 0, f"exit status {status}")
        head, steps = read_log(work / "log")
        arena = head["allocated_bytes"]
        check(f"{name}: 3 steps", len(steps) == 3)
        check(f"{name}: allocated = predicted = classes", arena == head["predicted_bytes"] == sum(head["by_class"].values()), head["by_class"])
        table = json.loads(run("ztc", "memory", text, "--from=import", "--precision=fp32", f"--accumulate={accumulate}", "--json").stdout)["rows"]
        check(f"{name}: `ztc memory` says the same", table[0]["peak_bytes"] == arena, f"{table[0]['peak_bytes']} {arena}")
        check(f"{name}: the process stays within the arena and 160 MiB", arena < peak <= arena + LIMIT,
              f"arena {arena / 2**20:.0f} MiB, beside it {(peak - arena) / 2**20:.0f} MiB")
finish()
