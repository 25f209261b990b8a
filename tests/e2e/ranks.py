#!/usr/bin/env python3
"""Two ranks of one launcher: they train, they stop together, and when one breaks all end with its name."""
import array
import os
import re
import signal
import time

from support import BIN, GOLDEN, Running, check, compile_golden, finish, is_alive, rank_processes, read_log, read_safetensors, run, scratch, wait_until, write_safetensors

data = GOLDEN / "grouped" / "data.safetensors"
COLLECTIVE = r"all_gather|reduce_scatter|all_reduce"


def steps_in(log):
    return log.read_text().count('"loss"') if log.exists() else 0


with scratch() as work:
    plan = compile_golden(work, "grouped", "--zero=3", batch=1)
    common = [plan, "--device=cpu", f"--data={data}", "--lr=2e-3"]

    done = run("ztc-run", *common, "--ranks=2", "--steps=4", f"--log-json={work / 'two.log'}", f"--export={work / 'two'}")
    header, steps = read_log(work / "two.log")
    check("two ranks train", header["world"] == 2 and len(steps) == 4, header)
    check("nothing is said on stderr", done.stderr == "", done.stderr)
    check("the model is there", any((work / "two").glob("*.safetensors")))
    run("ztc-run", *common, "--steps=4", "--accumulate=2", f"--log-json={work / 'one.log'}", "--no-save")
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(steps, read_log(work / "one.log")[1]))
    check("the losses of one rank with the same global batch", worst < 2e-5, worst)

    def start(name, *extra):
        log = work / f"{name}.log"
        running = Running([BIN / "ztc-run", *common, "--ranks=2", "--steps=1000000", f"--log-json={log}", *extra])
        running.log = log
        return running

    def is_under_way(running):
        return wait_until(lambda: running.process.poll() is not None or steps_in(running.log) > 3, 60) and running.process.poll() is None

    for name, number, victim, limit, extra in (("rank 1 killed", signal.SIGKILL, 1, 10, ()), ("rank 0 killed", signal.SIGKILL, 0, 10, ()),
                                               ("rank 1 stopped", signal.SIGSTOP, 1, 15, ("--timeout=3",)), ("rank 0 stopped", signal.SIGSTOP, 0, 15, ("--timeout=3",))):
        with start(name.replace(" ", "-"), "--no-save", *extra) as running:
            if not is_under_way(running):
                running.finish(5)
                check(f"{name}: the run begins", False, running.err)
                continue
            ranks = rank_processes(running.pid, plan)
            check(f"{name}: two rank processes", len(ranks) == 2, ranks)
            begin = time.monotonic()
            os.kill(ranks[victim], number)
            status = running.finish(limit)
            check(f"{name}: exit status 1 in time", status == 1, f"{status} after {time.monotonic() - begin:.1f} s")
            check(f"{name}: no process is left", not [p for p in ranks if is_alive(p)])
            check(f"{name}: named with step and collective", re.search(rf"rank {victim} (is lost|was not heard).*step \d", running.err) and re.search(COLLECTIVE, running.err), running.err)
            check(f"{name}: said once", running.err.count("ztc-run: error:") == 1, running.err)

    for name, number, to_rank in (("SIGTERM", signal.SIGTERM, False), ("SIGINT", signal.SIGINT, False), ("SIGUSR1", signal.SIGUSR1, False), ("SIGTERM to rank 1", signal.SIGTERM, True)):
        save = work / name.replace(" ", "-")
        with start(name.replace(" ", "-"), f"--save={save}") as running:
            check(f"{name}: the run begins", is_under_way(running))
            os.kill(rank_processes(running.pid, plan)[1] if to_rank else running.pid, number)
            status = running.finish(30)
            steps = read_log(running.log)[1]
            check(f"{name}: exit status 3", status == 3, (status, running.err))
            check(f"{name}: a checkpoint of the last step", [p.name for p in save.iterdir()] == [f"step-{steps[-1]['step'] + 1:08}"], sorted(save.iterdir()))

    with start("twice", "--no-save") as running:
        check("SIGINT twice: the run begins", is_under_way(running))
        ranks = rank_processes(running.pid, plan)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)  # so that the first one cannot end it
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        running.process.send_signal(signal.SIGINT)
        check("SIGINT twice: ends at once", running.finish(5) == 1, running.err)
        check("SIGINT twice: a line says so, where ranks cannot", running.err == "ztc-run: interrupted again: ended at once\n", running.err)

    # Steps of seconds, at whose end the first SIGINT would be heard.
    many = work / "many.safetensors"
    write_safetensors(many, {name: ([shape[0] * 2500, *shape[1:]], array.array("q", values) * 2500) for name, (shape, values) in read_safetensors(data).items()})
    for name, launched, expected, arguments in (("one rank", [], -signal.SIGINT, []), ("two ranks", ["--ranks=2"], 1, []),
                                                ("without checkpoints", ["--ranks=2"], 1, ["--no-save"])):
        save, log = work / f"twice-{name.replace(' ', '-')}", work / f"twice-{name}.log"
        saving = arguments or [f"--save={save}", "--save-every=1"]
        with Running([BIN / "ztc-run", plan, "--device=cpu", "--lr=2e-3", *launched, "--steps=1000000", "--accumulate=10000", f"--data={many}", f"--log-json={log}", *saving]) as running:
            begun = wait_until(lambda: steps_in(log) == 1 and (arguments or (save / "step-00000001").exists()), 120)
            running.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            check(f"SIGINT twice, {name}: the first one waits for the step's end", begun and running.process.poll() is None, running.err)
            running.process.send_signal(signal.SIGINT)
            status = running.finish(10)
        said = "ended at once" if arguments else f"ended without another checkpoint; the last one is {save}/step-00000001"
        check(f"SIGINT twice, {name}: it says what is lost", status == expected and running.err == f"ztc-run: interrupted again: {said}\n", (status, running.err))

    with start("orphans", "--no-save") as running:
        check("the launcher killed: the run begins", is_under_way(running))
        ranks = rank_processes(running.pid, plan)
        running.process.kill()
        check("the launcher killed: no rank survives", wait_until(lambda: not [p for p in ranks if is_alive(p)], 5))

    # What cannot run is said once.
    done = run("ztc-run", work / "no.bin", "--device=cpu", "--ranks=2", expect=1)
    check("a missing plan: one line", done.stderr.count("\n") == 1, done.stderr)
    done = run("ztc-run", *common, "--ranks=2", "--steps=1", "--loss-scale=2")
    check("an option without effect in this plan: one note", done.stderr.count("note: --loss-scale has no effect") == 1, done.stderr)
    done = run("ztc-run", plan, "--device=cpu", "--ranks=2", f"--data={work / 'none.safetensors'}", "--steps=1", expect=1)
    check("missing data: one error", done.stderr.count("ztc-run: error:") == 1, done.stderr)

    # Files and connections do not take the numbers of closed standard streams.
    done = run("ztc-run", *common, "--ranks=2", "--steps=2", f"--export={work / 'closed'}", preexec_fn=lambda: (os.close(0), os.close(1)))
    check("closed standard streams", done.stderr == "" and any((work / "closed").glob("*.safetensors")), done.stderr)

    # Ranks that were not meant for one another.
    port = 20000 + os.getpid() % 10000
    def rank(index, *arguments, **more):
        environment = {**os.environ, "RANK": str(index), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}
        return Running([BIN / "ztc-run", *common, "--no-save", *arguments], env=environment)

    with rank(0, "--steps=3", "--warmup=1") as first, rank(1, "--steps=3", "--warmup=2") as second:
        statuses = first.finish(60), second.finish(60)
        text = first.err + second.err
        check("ranks with other options are refused", statuses == (1, 1), (statuses, text))
        check("the message names option and both values", re.search(r"--warmup.*2.*--warmup.*1", text) and text.count("ztc-run: error:") == 1, text)
    port += 2
    with rank(0, "--steps=3") as first, rank(1, "--steps=3", WORLD_SIZE="3") as second:
        statuses = first.finish(60), second.finish(60)
        check("ranks of other worlds are refused", statuses == (1, 1) and "rank 0 expects 2 ranks, rank 1 expects 3" in first.err, (statuses, first.err, second.err))
finish()
