#!/usr/bin/env python3
"""Output folders: one run at a time, nothing empty after a failed run, and a disk that fills up while a run goes on."""
import contextlib
import json
import os
import signal
import struct
import subprocess

from event_files import events
from support import BIN, GOLDEN, Running, check, compile_golden, finish, run, scratch, small_disk, wait_until

DATA = f"--data={GOLDEN / 'grouped' / 'data.safetensors'}"


def endless(plan, screen, *arguments):
    """A run that goes on until it is stopped; what it prints goes to a file."""
    return Running(["sh", "-c", 'screen=$1; shift; exec "$@" >"$screen" 2>&1', "sh", screen, BIN / "ztc-run", plan, DATA, "--device=cpu", "--steps=1000000",
                    "--threads=1", *arguments])


def checkpoints(folder):
    return sorted(p.name for p in folder.glob("step-*"))


def errors(text):
    return [x for x in text.splitlines() if "error:" in x]


with scratch() as work:
    plan = compile_golden(work, "grouped")
    short = [plan, DATA, "--device=cpu", "--steps=2"]

    # Two runs, one folder.
    folder = work / "ck"
    with endless(plan, work / "screen", f"--save={folder}", "--save-every=5", "--keep=1") as first:
        check("the first run saves", wait_until(lambda: checkpoints(folder), 60))
        second = run("ztc-run", *short, f"--save={work / '.' / 'ck'}", expect=1)
        said = errors(second.stderr)
        check("the second one gets one message", len(said) == 1 and "another run is writing into" in said[0] and "ck" in said[0], second.stderr[-300:])
        run("ztc-run", *short, f"--save={work / 'other'}")
        os.kill(first.pid, signal.SIGTERM)
        check("the first run is not disturbed", first.finish(60) == 3, (work / "screen").read_text()[-300:])
    run("ztc-run", plan, DATA, "--device=cpu", "--steps=1000000", f"--stop-after={int(checkpoints(folder)[-1][5:]) + 1}", f"--resume={folder}", f"--save={folder}")
    check("after its end the folder is free again", len(checkpoints(folder)) == 2, checkpoints(folder))

    # A run that fails before its first step.
    before = sorted(work.iterdir())
    run("ztc-run", *short, f"--weights={work / 'nothing'}", f"--save={work / 'a' / 'b'}", f"--export={work / 'model'}", f"--log-json={work / 'log'}", expect=1)
    check("a failed run leaves no empty folder and no empty log", sorted(work.iterdir()) == before, sorted(work.iterdir()))

# A disk that fills up. The run goes on, and saves again once there is room.
with scratch() as work, contextlib.ExitStack() as stack:
    small, filler = work / "small", work / "small" / "filler"
    if small_disk(stack, small, "4m", "a disk that fills up"):
        plan, folder, screen = compile_golden(work, "grouped"), small / "ck", work / "screen"

        def fill():
            with open(filler, "ab", buffering=0) as out, contextlib.suppress(OSError):
                while True:
                    out.write(bytes(4096))

        with endless(plan, screen, f"--save={folder}", "--save-every=20", "--keep=1") as child:
            check("a first checkpoint", wait_until(lambda: checkpoints(folder), 60))
            missed = lambda: screen.read_text().count("was not saved")
            def fail_once():
                fill()
                return missed()
            check("the full disk is said", wait_until(fail_once, 60), screen.read_text()[-500:])
            line = next((x for x in screen.read_text().splitlines() if "was not saved" in x), "")
            check("what, where and what follows", all(x in line for x in ("warning: checkpoint of step", str(folder), "space", "goes on")), line)
            check("the run goes on with a whole checkpoint", child.process.poll() is None and len(checkpoints(folder)) == 1, checkpoints(folder))
            old = checkpoints(folder)
            filler.unlink()
            check("it saves again where there is room", wait_until(lambda: checkpoints(folder) not in ([], old), 60))
            count = missed()
            check("full again", wait_until(lambda: (fill(), missed() > count)[1], 60))
            os.kill(child.pid, signal.SIGTERM)
            status = child.finish(60)
            said = errors(screen.read_text())
            check("a last checkpoint that has no room: exit status 1, one message", status == 1 and len(said) == 1 and "was not saved" in said[0], (status, said))
            check("it names the whole one", len(checkpoints(folder)) == 1 and checkpoints(folder)[0] in said[0], (said, checkpoints(folder)))
            check("nothing half-written is left", sorted(p.name for p in folder.iterdir()) == checkpoints(folder), sorted(folder.iterdir()))
            rescued = checkpoints(work / "grouped-out-rescued") or list(work.glob("*-rescued"))
            check("what it learned since then is elsewhere", "nothing is lost" in said[0] and len(rescued) == 1, (said, sorted(work.iterdir())))
        filler.unlink()
        step = int(checkpoints(folder)[0][5:])
        run("ztc-run", plan, DATA, "--device=cpu", "--steps=1000000", f"--stop-after={step + 1}", f"--resume={folder}", f"--save={folder}")
        check("the run goes on from it", checkpoints(folder)[-1] == f"step-{step + 1:08}", checkpoints(folder))

# A disk that fills up under a log and an event file: what it does not take waits, and is written once there is room.
with scratch() as work, contextlib.ExitStack() as stack:
    disk = work / "disk"
    if small_disk(stack, disk, "4m", "a log on a disk that fills up"):
        plan, screen, log, folder = compile_golden(work, "grouped"), work / "screen", disk / "log", disk / "events"

        def whole_lines():
            """The steps of the log so far, whose every line is whole."""
            text = log.read_text()
            return [json.loads(x).get("step") for x in text.splitlines()][1:] if text.endswith("\n") else None

        def points(path):
            return [(step, value) for step, tag, value in events(path) if tag == "train/loss"]

        with endless(plan, screen, "--no-save", f"--log-json={log}", f"--tensorboard={folder}", "--log-every=20") as child:
            check("a log and events", wait_until(lambda: log.exists() and len(whole_lines() or []) > 3, 60))
            with open(disk / "filler", "ab", buffering=0) as out, contextlib.suppress(OSError):
                while True:
                    out.write(bytes(4096))
            waits = wait_until(lambda: screen.read_text().count(" waits: ") == 2, 60)
            (events_file,) = folder.iterdir()
            said = [x for x in screen.read_text().splitlines() if " waits: " in x]
            check("each says once that it waits", waits and all(x.startswith("ztc-run: warning: ") and "No space left" in x for x in said) and str(log) in said[0] + said[1]
                  and str(events_file) in said[0] + said[1], said)

            def whole():
                """Both files where they end with whole records: each try to write takes a part of one, which is cut again at once."""
                try:
                    return whole_lines(), points(events_file)
                except (struct.error, ValueError, IndexError):
                    return None, None
            before = [x for x in (whole() for _ in range(50)) if all(x)]
            wait_until(lambda: False, 0.5)
            after = [x for x in (whole() for _ in range(50)) if all(x)]
            check("lines and events at their ends are whole", before and after and all(x == before[0] for x in before + after), (len(before), len(after)))
            (disk / "filler").unlink()
            check("with room they are written", wait_until(lambda: screen.read_text().count("is whole again") == 2, 60), screen.read_text()[-500:])
            os.kill(child.pid, signal.SIGTERM)
            check("the run ends as ever", child.finish(60) == 3, screen.read_text()[-500:])
        found = [json.loads(x) for x in log.read_text().splitlines()]
        steps = [(x["step"], struct.unpack("<f", struct.pack("<f", x["loss"]))[0]) for x in found if "loss" in x]
        check("no step is missing in the log", len(steps) > 5 and [step for step, _ in steps[:-1]] == list(range(19, 20 * len(steps) - 1, 20)), steps[:3] + steps[-3:])
        check("the events are the log's", points(events_file) == steps, (len(points(events_file)), len(steps)))

# A disk that refuses every write for a while, as a network disk whose server is away: not space, but EROFS.
with scratch() as work, contextlib.ExitStack() as stack:
    disk = work / "disk"
    if small_disk(stack, disk, "8m", "a disk that is read-only for a while"):
        remount = lambda how: subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)
        plan, folder, screen = compile_golden(work, "grouped"), disk / "ck", work / "screen"
        with endless(plan, screen, f"--save={folder}", "--save-every=50", "--keep=1") as child:
            check("a checkpoint before it", wait_until(lambda: checkpoints(folder), 60))
            wait_until(lambda: subprocess.run(["mount", "-o", "remount,ro", str(disk)], capture_output=True).returncode == 0, 30)  # busy while a file is written
            missed = wait_until(lambda: next((x for x in screen.read_text().splitlines() if "was not saved" in x), ""), 60)
            check("a read-only disk costs that save only", "Read-only file system" in missed and "the run goes on and tries again" in missed, missed or screen.read_text()[-500:])
            old = checkpoints(folder)
            remount("rw")
            check("it saves again where it may write", wait_until(lambda: checkpoints(folder) not in ([], old), 60), checkpoints(folder))
            os.kill(child.pid, signal.SIGTERM)
            check("and ends as it should", child.finish(60) == 3, screen.read_text()[-500:])

# A disk that is full when the run ends: another place takes the model, and without one the run waits for room.
with scratch() as work, contextlib.ExitStack() as stack:
    disk = work / "disk"
    if small_disk(stack, disk, "8m", "a disk that is full at the end"):
        plan, long = compile_golden(work, "grouped"), ["--device=cpu", "--threads=1", "--steps=4000", DATA]
        want = work / "want"
        run("ztc-run", plan, *long, f"--export={want}")
        want = (want / "model.safetensors").read_bytes()

        def filled_while_running(plan, screen, *arguments, **more):
            """A run that has begun, on a disk that has filled up since."""
            running = Running(["sh", "-c", 'screen=$1; shift; exec "$@" >"$screen" 2>&1', "sh", screen, BIN / "ztc-run", plan, *long, *arguments], **more)
            wait_until(lambda: screen.exists() and "step " in screen.read_text(), 60)
            with open(disk / "filler", "ab", buffering=0) as out, contextlib.suppress(OSError):
                while True:
                    out.write(bytes(4096))
            return running

        # In the order: an export alone, checkpoints alone.
        with filled_while_running(plan, work / "screen", f"--export={disk / 'model'}") as child:
            status = child.finish(120)
            said = errors((work / "screen").read_text())
            rescued = [*work.glob("*-rescued/model.safetensors")]
            check("an export that has no room: exit status 1, one message that says where it is",
                  status == 1 and len(said) == 1 and all(x in said[0] for x in (str(disk), "space", "nothing is lost", "-rescued")), (status, said))
            check("the model is whole in the plan's folder", len(rescued) == 1 and rescued[0].read_bytes() == want, rescued)
            check("nothing half-written is left", [p.name for p in disk.iterdir()] == ["filler"], list(disk.iterdir()))
        (disk / "filler").unlink()
        with filled_while_running(plan, work / "screen2", f"--save={disk / 'ck'}") as child:
            status = child.finish(120)
            rescued = [*work.glob("*-rescued-2/step-*")]
            check("a checkpoint that has no room is elsewhere", status == 1 and [p.name for p in rescued] == ["step-00004000"], (status, rescued, (work / "screen2").read_text()[-500:]))
            run("ztc-run", plan, "--device=cpu", "--threads=1", "--steps=4000", DATA, f"--resume={rescued[0].parent}", f"--export={work / 'resumed'}")
            check("and holds the same model", (work / "resumed/model.safetensors").read_bytes() == want)
        (disk / "filler").unlink()
        # The plan, the working folder and the temporary one are on the full disk too.
        inside = disk / "plan.bin"
        inside.write_bytes(plan.read_bytes())
        screen = work / "screen3"
        with filled_while_running(inside, screen, f"--export={disk / 'model'}", cwd=disk, env={**os.environ, "TMPDIR": str(disk)}) as child:
            check("it waits, and says so", wait_until(lambda: "waits and tries again" in screen.read_text(), 120) and child.process.poll() is None, screen.read_text()[-500:])
            (disk / "filler").unlink()
            status = child.finish(60)
            check("with room it goes where it was meant for", status == 0 and (disk / "model/model.safetensors").read_bytes() == want, (status, screen.read_text()[-500:]))

# A standard output that takes nothing: text that was asked for is an error, what a run says beside its work a warning; a reader that has gone wants no more.
with scratch() as work:
    plan = compile_golden(work, "grouped")
    text = [("text", [plan, "--device=cpu", "--generate=4", "--prompt=1 2 3"]), ("an evaluation", [plan, "--device=cpu", "--eval-only", f"--eval-data={GOLDEN / 'grouped' / 'data.safetensors'}"]),
            ("a description of data", ["--describe-data=16,256", DATA]), ("help", ["--help"])]
    trained = [plan, DATA, "--device=cpu", "--steps=2", f"--save={work / 'ck'}"]
    for name, command in [*text, ("a run", trained)]:
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(BIN / "ztc-run"), *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True)
        status, said = (0, "warning: standard output has not taken all") if command is trained else (1, "error: cannot write to standard output")
        check(f"{name} into a full standard output", done.returncode == status and done.stderr.count("\n") == 1 and said in done.stderr and "No space left" in done.stderr,
              (done.returncode, done.stderr))
    check("the run is saved all the same", checkpoints(work / "ck") == ["step-00000002"], checkpoints(work / "ck"))
    for name, command in text:
        done = subprocess.run(["sh", "-c", '"$@" | true', "sh", str(BIN / "ztc-run"), *map(str, command)], capture_output=True, text=True)
        check(f"{name} for a reader that has gone", done.stderr == "", done.stderr)
finish()
