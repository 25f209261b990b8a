#!/usr/bin/env python3
"""ztc report and ztc memory --html: one page that loads nothing, with what logs and plans hold, drawn by a browser where there is one."""
import json
import re
import shutil
import subprocess

from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch

BROWSER = next((shutil.which(x) for x in ("chromium", "chromium-browser", "google-chrome", "chrome") if shutil.which(x)), None)


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])


def drawn(name, page, needs):
    """What a browser makes of the page: its elements as text."""
    if not BROWSER:
        return
    command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, timeout=240).stdout
    body = text.partition("<body")[2]
    check(f"{name}: a browser draws all of it", 'data-drawn="yes"' in body, text[-300:])
    for what, pattern in needs.items():
        check(f"{name}: {what}", re.search(pattern, body) is not None, "")


with scratch() as work:
    plan = compile_golden(work, "grouped")
    common = [plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--device=cpu", "--threads=1", "--no-save"]
    one, two, page = work / "one.jsonl", work / "two</script><b>.jsonl".replace("/", ""), work / "report.html"
    run("ztc-run", *common, "--steps=8", f"--eval-data={GOLDEN / 'grouped' / 'data.safetensors'}", "--eval-every=4", f"--log-json={one}", "--profile", "--accumulate=2")
    sets = [f"--eval-data={name}={GOLDEN / 'grouped' / 'data.safetensors'}" for name in ("books", "code")]
    run("ztc-run", *common, "--steps=6", "--lr=1e-2", *sets, f"--log-json={two}")

    run("ztc", "report", one, two, plan, "-o", page)
    text, found = page.read_text(), data_of(page)
    check("the page loads nothing", not re.search(r'(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|fetch\(', text), re.findall(r'https?://[^"\']*', text)[:3])
    runs = {x["name"]: x for x in found["runs"]}
    head, steps = read_log(one)
    check("both runs", set(runs) == {one.name, two.name}, set(runs))
    check("their curves", runs["one.jsonl"]["steps"]["loss"] == [x["loss"] for x in steps] and len(runs[two.name]["steps"]["step"]) == 6)
    check("evaluations", [x["step"] for x in runs["one.jsonl"]["evals"]] == [[4, 8]], runs["one.jsonl"]["evals"])
    check("evaluations of sets by name", [(x["name"], x["step"], len(x["loss"])) for x in runs[two.name]["evals"]] == [("books", [6], 1), ("code", [6], 1)], runs[two.name]["evals"])
    check("the summary", runs["one.jsonl"]["summary"]["steps"] == 8)
    shown = found["plans"][0]
    check("the plan's memory is that of the run, to the byte", shown["arena_bytes"] == head["allocated_bytes"], (shown["arena_bytes"], head["allocated_bytes"]))
    check("the tensors at the peak are all of it", sum(x["bytes"] for x in shown["peak"]) == shown["arena_bytes"])
    live = [sum(x) for x in shown["timeline"]["live"]]
    check("the timeline stays below the arena", 0 < max(live) <= shown["arena_bytes"], max(live))
    check("it has every program", {x["program"] for x in shown["timeline"]["programs"]} >= {"microstep", "update", "eval"})
    check("kernels with the limits of the profile", shown["kernels"] and shown["limits"]["matmul_flops_per_second"] > 0)
    measured = runs["one.jsonl"]["profile"]["kernels"]
    check("and what the profile measured of each", measured and all(x["seconds"] >= 0 and x["calls"] > 0 for x in measured) and any(x["is_product"] for x in measured), measured[:2])
    drawn("report", page, {"curves": r"<path", "both names as texts": r"two&lt;script&gt;&lt;b&gt;.jsonl", "a curve of a named set": "held-out code", "the timeline": "Memory of one rank", "the peak": "At the peak", "kernels": "at the limit", "measured kernels": r"as measured[\s\S]*of the limit"})

    memory = work / "memory.html"
    run("ztc", "memory", GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16", "--zero=0,3", "--gpus=2", f"--html={memory}")
    table = json.loads(run("ztc", "memory", GOLDEN / "grouped" / "model.onnx", "--batch=2", "--seq=16", "--zero=0,3", "--gpus=2", "--json").stdout)["rows"]
    pages = data_of(memory)["plans"]
    check("ztc memory --html: a part for each row", [x["arena_bytes"] for x in pages] == [x["peak_bytes"] for x in table], [x["arena_bytes"] for x in pages])
    check("with what goes over the wire", sum(pages[1]["sent"].values()) >= table[1]["sent_bytes"] > 0, pages[1]["sent"])
    drawn("memory", memory, {"both stages": r"ZeRO-0 on 2 ranks[\s\S]*ZeRO-3 on 2 ranks", "the last program's name, within the picture": r'text-anchor="end">transfer<'})

    # What cannot be a log.
    (work / "cut.jsonl").write_text(one.read_text()[:-40])
    done = run("ztc", "report", work / "cut.jsonl", "-o", page)
    check("a log whose run is at work", "not complete" in done.stderr, done.stderr)
    for name, content in (("text.jsonl", "hello\n"), ("other.jsonl", '{"a": 1}\n'), ("empty.jsonl", ""), ("list.jsonl", "[1]\n")):
        (work / name).write_text(content)
        done = run("ztc", "report", work / name, "-o", page, expect=1)
        check(f"{name} is refused in one line", name in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    run("ztc", "report", one, expect=2)
    done = run("ztc", "report", one, "-o", work, expect=1)
    check("a folder as output", "cannot write" in done.stderr, done.stderr)
    # A resume did some steps again.
    resumed = work / "resumed.jsonl"
    lines = one.read_text().splitlines()
    again = {**json.loads(lines[0]), "first_step": 3}
    resumed.write_text("\n".join(lines + [json.dumps(again), json.dumps({**steps[3], "loss": 1.5})]) + "\n")
    run("ztc", "report", resumed, "-o", page)
    curve = data_of(page)["runs"][0]["steps"]
    check("a resume's steps replace those that it did again", curve["step"] == [0, 1, 2, 3] and curve["loss"][3] == 1.5, curve["step"])
if not BROWSER:
    print("left out (no Chromium): what a browser draws")
finish()
