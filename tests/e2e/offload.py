#!/usr/bin/env python3
"""States, masters and parameters below the device, in the host's memory and on a disk: the bits of the run that has them on it, at every stage, on 1, 2 and 3 ranks,
by both engines; predicted = reserved in every space; little memory; nothing left behind, killed or not; what does not fit is refused before the first step."""
import hashlib
import json
import os
import re
import resource
import signal
import subprocess

from support import BIN, Running, check, finish, read_log, run, scratch, wait_until, write_tiny_llama

PIECES = "--pass-option=ztc-stream-update.piece-elements=262144"  # the smallest: several a bucket
BESIDE = 160 << 20  # program text, stacks and staging: what a process has beside its arena, at most


def write_llama(folder, hidden=256, layers=2, vocabulary=2048, intermediate=704):
    return write_tiny_llama(folder, vocabulary, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2)


def files(folder):
    """Everything of a checkpoint but what names the run, as hashes: a child begins with the peak that this process has had, and bytes held here would count."""
    hashes = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def bits(plan, work, *options, ranks=1, steps=3, disk=None, env=None):
    """Losses, norms and checkpoint of a short run; the log's header, and its summary."""
    save = work / "checkpoint"
    run("ztc-run", plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", f"--steps={steps}", "--lr=1e-3", "--device=cpu", "--threads=1", f"--ranks={ranks}",
        f"--save={save}", "--overwrite", f"--log-json={work / 'log'}", *([f"--disk={disk}"] if disk else []), *options, env=env)
    head, lines = read_log(work / "log")
    summary = [json.loads(x) for x in (work / "log").read_text().splitlines() if '"summary"' in x]
    return [(s["loss"], s["grad_norm"]) for s in lines], files(save / f"step-{steps:08}"), head, summary[-1] if summary else {}


def compiled(model, name, *options):
    plan = model.parent / f"{name}.bin"
    done = run("ztc", "compile", model, "--batch=1", "--seq=32", "--target=host", "-o", plan, *options)
    return plan, done.stdout


with scratch() as work:
    model = write_llama(work / "model")
    (work / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 400)
    disk = work / "disk"
    disk.mkdir()
    below = ["--host-mem=6MiB", f"--disk={disk}", PIECES]  # some of both

    # Every stage on 1, 2 and 3 ranks: the bits of the plan without.
    for precision, stages in (("fp32", (0, 3)), ("bf16", (0, 1, 2, 3))):
        expected = {}
        for zero in stages:
            plain, _ = compiled(model, f"plain-{precision}-{zero}", f"--precision={precision}", f"--zero={zero}")
            plan, said = compiled(model, f"below-{precision}-{zero}", f"--precision={precision}", f"--zero={zero}", *below)
            check(f"{precision}, ZeRO-{zero}: the compiler says what lies where", re.search(r"^host .*optimizer", said, re.M) and re.search(r"^disk .*optimizer", said, re.M), said)
            check(f"{precision}, ZeRO-{zero}: parameters are below", "parameters" in said.split("disk ")[-1].split("a step")[0], said)
            for ranks in (1, 2, 3) if zero in (1, 3) else (1,):
                if ranks not in expected:
                    expected[ranks] = bits(plain, work, ranks=ranks)[:2]
                losses, saved, head, summary = bits(plan, work, ranks=ranks)
                check(f"{precision}, ZeRO-{zero}, {ranks} ranks: the same bits", (losses, saved) == expected[ranks] and len(saved) >= 3)
                spaces = head["spaces"]
                check("predicted = reserved in every space", all(s["predicted_bytes"] == s["allocated_bytes"] > 0 for s in spaces.values()), spaces)
                check("the log says what was moved and written", summary["disk_read_bytes"] > 0 < summary["disk_written_bytes"] and summary["host_in_bytes"] > 0, summary)
                check("nothing is left", not list(disk.iterdir()))

    # Everything that changes how states are kept or when they are needed, on the disk alone; one plan of both engines and of a tiny window.
    everything = [f"--disk={disk}", PIECES]
    for name, options, more in (("8-bit states", ["--optimizer-state=int8"], []), ("bf16 states without masters", ["--optimizer-state=bf16", "--master=none"], []),
                                ("lion", ["--optimizer=lion"], []), ("sgd", ["--optimizer=sgd"], []), ("fp16", ["--precision=fp16"], []),
                                ("recomputation and accumulation", ["--recompute=layer"], ["--accumulate=3"]), ("frozen embeddings", ["--freeze=embed_tokens"], []),
                                ("a low-rank adapter", ["--lora=r=4,alpha=8,targets=all-linear"], [])):
        for zero in (1, 3):
            slug = f"{name.replace(' ', '-')}-{zero}"
            plain, _ = compiled(model, f"plain-{slug}", f"--zero={zero}", *options)
            plan, _ = compiled(model, f"below-{slug}", f"--zero={zero}", *options, *everything)
            check(f"{name}, ZeRO-{zero}: the same bits", bits(plan, work, *more, ranks=2)[:2] == bits(plain, work, *more, ranks=2)[:2])
    plain, plan = model.parent / "plain-bf16-3.bin", model.parent / "below-bf16-3.bin"
    first = bits(plain, work)
    for engine in ("threads", "io_uring"):
        found = bits(plan, work, env={**os.environ, "ZTC_DISK_ENGINE": engine})
        if not found[0]:
            print(f"left out: {engine} is not allowed here")
            continue
        check(f"{engine}: the same bits, and the header says who moves", found[:2] == first[:2] and engine in found[2]["spaces"]["disk"]["engine"], found[2].get("spaces"))
    check("--poison: no step reads what has not arrived", bits(plan, work, "--poison")[:2] == first[:2])
    other = work / "elsewhere"
    other.mkdir()
    check("--disk names another folder", bits(plan, work, disk=other)[2]["spaces"]["disk"]["file"].startswith(str(other)) and not list(other.iterdir()))

    # A resumed run goes on with the bits; so does one with the plan that has everything on the device.
    straight = bits(plain, work, steps=4)[1]
    for then in (plan, plain):
        train = [f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=4", "--lr=1e-3", "--device=cpu", "--threads=1", f"--save={work / 'parts'}"]
        run("ztc-run", plan, *train, "--overwrite", "--stop-after=2")
        run("ztc-run", then, *train, f"--resume={work / 'parts'}")
        check(f"resumed with {then.name}: the same bits", files(work / "parts/step-00000004") == straight)

    # Killed: its file is there until the next run of that folder, which goes on from the checkpoint. Ended by a signal: it is gone.
    long = [plan, f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--device=cpu", "--threads=1"]
    for number in (signal.SIGKILL, signal.SIGTERM):
        with Running([BIN / "ztc-run", *long, "--steps=100000", f"--save={work / number.name}", "--save-every=5"]) as child:
            saved = wait_until(lambda: list((work / number.name).glob("step-*")), 120)
            held = list(disk.iterdir())
            whole = [p.stat().st_blocks * 512 >= p.stat().st_size > 0 for p in held]
            os.kill(child.pid, number)
            child.finish(60)
        check(f"{number.name}: one file, named by the run and reserved in full", saved and whole == [True] and re.match(r"ztc-offload-[0-9a-zA-Z-]+-rank0$", held[0].name), held)
        check(f"{number.name}: the file is {'left' if number == signal.SIGKILL else 'gone'}", bool(list(disk.iterdir())) == (number == signal.SIGKILL))
        run("ztc-run", *long, "--steps=100000", f"--resume={work / number.name}", "--stop-after=1", f"--save={work / 'rest'}", "--overwrite")
        check("the next run removes it", not list(disk.iterdir()), list(disk.iterdir()))

    # What does not fit is refused before the first step, with the bytes.
    done = run("ztc-run", plan, "--steps=1", "--device=cpu", expect=None, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    check("a file that cannot be reserved ends the run before the first step", done.returncode == 1 and "--disk" in done.stderr and "step 0" not in done.stdout and not list(disk.iterdir()), done.stderr)
    done = run("ztc-run", plan, "--steps=1", "--device=cpu", f"--disk={work / 'nowhere'}", expect=1)
    check("a folder that is not there is named", "nowhere" in done.stderr, done.stderr)
    done = run("ztc", "compile", model, "--disk-mem=1GiB", "-o", work / "no.bin", expect=2)
    check("--disk-mem wants --disk", "--disk=DIR" in done.stderr, done.stderr)

    # As little as a budget asks for, and what is missing where all does not do.
    rows = json.loads(run("ztc", "memory", model, "--batch=1", "--seq=32", "--target=host", "--threads=1", "--json").stdout)["rows"]
    peak = rows[0]["peak_bytes"]
    seen = []
    for share in (0.9, 0.8, 0.7):
        plan_, said = compiled(model, f"budget-{share}", "--gpus=1", "--threads=1", f"--mem={int(peak * share)}", f"--disk={disk}", PIECES, "--recompute=none")
        row = json.loads(run("ztc", "inspect", plan_, "--json", "--threads=1").stdout)
        seen.append(row["spaces"]["disk"]["bytes"])
        check(f"--mem of {share:.0%} is kept with {seen[-1]} bytes on the disk", row["peak_bytes"] <= peak * share, row["peak_bytes"])
        check("the same bits", bits(plan_, work)[:2] == bits(model.parent / "plain-bf16-0.bin", work)[:2])
    check("a smaller budget moves more", seen == sorted(seen) and seen[0] < seen[-1], seen)
    done = run("ztc", "compile", model, "--batch=1", "--seq=32", "--target=host", "--gpus=1", "--threads=1", "--mem=1MiB", f"--disk={disk}", "-o", work / "no.bin", expect=1)
    check("what does not fit says by how many bytes", re.search(r"\d+ bytes more than --mem", done.stderr), done.stderr[-500:])

    # A model whose parameters and states do not fit: the process stays within its arena and what a process has beside it.
    large = write_llama(work / "large", hidden=512, layers=8, vocabulary=16384, intermediate=2048)
    whole, _ = compiled(large, "whole", "--precision=fp32")
    small, _ = compiled(large, "small", "--precision=fp32", "--zero=3", f"--disk={disk}", PIECES)
    results = {}
    for plan_ in (whole, small):
        command = [BIN / "ztc-run", plan_, f"--data={work / 'text.txt'}", "--tokenizer=bytes", "--steps=3", "--lr=1e-3", "--device=cpu", "--threads=1", f"--log-json={work / 'large.log'}",
                   f"--save={work / 'large.save'}", "--overwrite"]
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, status, spent = os.wait4(child.pid, 0)
        check(f"{plan_.name} trains", status == 0, child.stderr.read()[-500:])
        head, lines = read_log(work / "large.log")
        results[plan_.name] = (head["allocated_bytes"], spent.ru_maxrss * 1024, [s["loss"] for s in lines], files(work / "large.save/step-00000003"), lines[-1]["step_ms"])
    (arena, resident, *numbers, slow), (whole_arena, _, *expected, fast) = results["small.bin"], results["whole.bin"]
    print(f"arena {arena >> 20} MiB of {whole_arena >> 20}, resident {resident >> 20} MiB, a step {slow:.0f} ms beside {fast:.0f}")
    check("the same bits", numbers == expected)
    check("it needs less than parameters and states", arena < whole_arena / 2, (arena, whole_arena))
    check("resident within arena + 160 MiB", resident <= arena + BESIDE, (resident, arena))
    text = run("ztc-run", "--measure-links", f"--disk={disk}", env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")}).stdout
    check("--measure-links says the rates", re.search(r"disk +[0-9.]+ GB/s read, [0-9.]+ GB/s written", text), text)
finish()
