#!/usr/bin/env python3
"""Two network namespaces as two hosts: `--nodes`, `--rendezvous`; bytes on the wire as the kernel counts them; a rank of the other host killed; the host gone;
GPUs (stand-ins) on both, also as Slurm and torchrun start them. Needs root."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from support import BIN, GOLDEN, ROOT, Running, check, compile_golden, finish, is_alive, rank_processes, read_log, run, scratch, stand_ins, wait_until

data = GOLDEN / "grouped" / "data.safetensors"
names = [f"ztc-{os.getpid()}-{i}" for i in range(2)]
addresses = ["10.213.7.1", "10.213.7.2"]


def ip(*words, needed=True):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode and needed:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def make_hosts():
    for name in names:
        ip("netns", "add", name)
    ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
    for name, address in zip(names, addresses):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")


def on_host(node, *command, **more):
    return Running(["ip", "netns", "exec", names[node], *command], **more)


def start(node, plan, *arguments, ranks=1, trial=False):
    rows = [] if trial else [f"--data={data}"]
    return on_host(node, BIN / "ztc-run", plan, "--device=cpu", *rows, f"--ranks={ranks}", "--nodes=2", f"--node-rank={node}",
                   f"--rendezvous={addresses[0]}:29400", *arguments)


def sent_by(name):
    """Bytes that the host's interface has sent, as the kernel counts them: headers and the control channel included."""
    statistics = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "eth0"], check=True, capture_output=True, text=True).stdout
    return json.loads(statistics)[0]["stats64"]["tx"]["bytes"]


def traffic(work):
    """What the log calls sent is what leaves the machine: a trial run of the quickstart's model, large enough for headers not to matter."""
    for zero, accumulate in ((0, 1), (2, 2), (3, 1), (3, 2)):
        folder = work / f"traffic-{zero}-{accumulate}"
        folder.mkdir()
        plan, log = folder / "quickstart.bin", folder / "log"
        run("ztc", "compile", ROOT / "samples/quickstart/model.onnx", "--batch=1", "--seq=16", "--precision=fp32", f"--zero={zero}", "-o", plan)
        options = ["--steps=40", f"--accumulate={accumulate}"]
        before = [sent_by(name) for name in names]
        with start(0, plan, *options, f"--log-json={log}", trial=True) as first, start(1, plan, *options, trial=True) as second:
            statuses = first.finish(120), second.finish(120)
        check(f"ZeRO-{zero}, M={accumulate}: both hosts end with 0", statuses == (0, 0), (statuses, first.err, second.err))
        counted = sum(step["sent_bytes"] for step in read_log(log)[1])
        for host, (name, start_bytes) in enumerate(zip(names, before)):
            seen = sent_by(name) - start_bytes
            check(f"ZeRO-{zero}, M={accumulate}: host {host} sends what the log says within 3 %", counted and abs(seen / counted - 1) < 0.03, (seen, counted, seen / max(1, counted)))


def gpus(work):
    """Shards on a GPU of each host, of those that tests/standin has; each host sees its own."""
    plan = compile_golden(work, "grouped", "--zero=3", "--target=simt", batch=1)
    build = pathlib.Path(os.environ.get("ZTC_BUILD", BIN.parent))
    environment = stand_ins(2)
    options = [f"--data={data}", "--steps=3", "--lr=2e-3", "--no-save"]
    want = work / "gpus.log"
    run("ztc-run", plan, "--gpus=2", *options, f"--log-json={want}", env=environment)
    losses = [x["loss"] for x in read_log(want)[1]]
    launches = {
        "--nodes": lambda node: (["--gpus=1", "--nodes=2", f"--node-rank={node}", f"--rendezvous={addresses[0]}:29401"], {}),
        "Slurm": lambda node: ([], {"SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": node, "SLURM_LOCALID": 0, "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_NODEID": node,
                                    "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0, "SLURM_STEP_NODELIST": ",".join(addresses)}),
        "torchrun": lambda node: ([], {"RANK": node, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": addresses[0], "MASTER_PORT": 29402}),
    }
    for name, of in launches.items():
        log = work / f"gpus-{name}.log"
        arguments, variables = zip(*(of(node) for node in range(2)))
        hosts = [on_host(node, BIN / "ztc-run", plan, *options, *arguments[node], f"--log-json={log}",
                         env={**environment, "CUDA_VISIBLE_DEVICES": str(node), **{k: str(v) for k, v in variables[node].items()}}) for node in range(2)]
        with hosts[0], hosts[1]:
            statuses = [host.finish(60) for host in hosts]
        check(f"a GPU on each of two hosts, {name}: both end with 0", statuses == [0, 0], (statuses, hosts[0].err[-1000:], hosts[1].err[-1000:]))
        header, steps = read_log(log) if statuses == [0, 0] else ({}, [])
        check(f"a GPU on each of two hosts, {name}: the losses of two GPUs", header.get("device") == "cuda" and [x["loss"] for x in steps] == losses, (header, steps))


def test(work):
    traffic(work)
    gpus(work)
    plan = compile_golden(work, "grouped", "--zero=3", batch=1)
    log = work / "whole.log"
    with start(0, plan, "--steps=3", "--no-save", f"--log-json={log}", ranks=2) as first, start(1, plan, "--steps=3", "--no-save", ranks=2) as second:
        statuses = first.finish(120), second.finish(120)
        check("two hosts with two ranks each: both end with 0", statuses == (0, 0), (statuses, first.err, second.err))
        header, steps = read_log(log)
        check("four ranks, three steps", header["world"] == 4 and len(steps) == 3, header)

    for name, victim in (("the other host's rank", 1), ("rank 0", 0)):
        log = work / f"killed-{victim}.log"
        with start(0, plan, "--steps=1000000", "--no-save", f"--log-json={log}") as first, start(1, plan, "--steps=1000000", "--no-save") as second:
            ran = wait_until(lambda: log.exists() and log.read_text().count('"loss"') > 3, 60)
            check(f"{name} killed: the run begins", ran)
            ranks = rank_processes(first.pid, plan)[-1:] + rank_processes(second.pid, plan)[-1:]
            os.kill(ranks[victim], signal.SIGKILL)
            statuses = first.finish(10), second.finish(10)
            text = first.err + second.err
            check(f"{name} killed: both hosts end with 1", statuses == (1, 1), (statuses, text))
            check(f"{name} killed: it is named", re.search(rf"rank {victim} is lost.*step \d", text), text)
            check(f"{name} killed: no process is left", not [p for p in ranks if is_alive(p)])

    log = work / "cut.log"
    options = ["--steps=1000000", "--no-save", "--timeout=3"]
    with start(0, plan, *options, f"--log-json={log}") as first, start(1, plan, *options) as second:
        ran = wait_until(lambda: log.exists() and log.read_text().count('"loss"') > 3, 60)
        check("the cable pulled: the run begins", ran)
        ip("-n", names[0], "link", "set", "eth0", "down")
        statuses = first.finish(20), second.finish(20)
        text = first.err + second.err
        check("the cable pulled: both hosts end with 1", statuses == (1, 1), (statuses, text))
        check("the cable pulled: each names the rank that it does not hear", "rank 1 was not heard" in first.err and "rank 0 was not heard" in second.err, text)


try:
    try:
        make_hosts()
    except OSError as error:
        print(f"skip: no network namespaces here ({error})")
        sys.exit(77)
    with scratch() as work:
        test(work)
finally:
    for name in names:
        ip("netns", "del", name, needed=False)
finish()
