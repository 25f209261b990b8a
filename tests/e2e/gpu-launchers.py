#!/usr/bin/env python3
"""Two ranks with shards on two GPUs (stand-ins of tests/standin), started as torchrun, Slurm and Open MPI start them: each takes the GPU of its local
rank among those that it sees. The launchers' variables are given by hand; launchers that are installed start them too."""
import os
import shutil
import signal
import time

from support import BIN, BUILD, GOLDEN, Running, check, compile_golden, descendants, finish, free_port, read_log, run, scratch, stand_ins, wait_until

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_", "CUDA_VISIBLE"))}
ENVIRONMENT = stand_ins(2, CLEAN)
STEPS = 3


def variables(launcher, rank):
    """What the launcher tells rank `rank` of two on this host."""
    run_id, port = f"{launcher}-{os.getpid()}", free_ports[launcher]
    return {"torchrun": {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                         "TORCHELASTIC_RUN_ID": run_id, "TORCHELASTIC_RESTART_COUNT": 0},
            "Slurm": {"SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": 0,
                      "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": port, "SLURM_STEP_NODELIST": "localhost"},
            "Open MPI": {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": 2,
                         "PMIX_NAMESPACE": f"{run_id}-{port}"}}[launcher]


free_ports = {name: free_port() for name in ("torchrun", "Slurm", "Open MPI")}
with scratch() as work:
    plan = compile_golden(work, "grouped", "--zero=3", "--target=simt", batch=1)
    options = [f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", f"--steps={STEPS}", "--lr=2e-3", "--no-save"]
    want = work / "want.log"
    run("ztc-run", plan, "--gpus=2", *options, f"--log-json={want}", env=ENVIRONMENT)
    losses = [x["loss"] for x in read_log(want)[1]]
    check("--gpus=2: all steps are there", len(losses) == STEPS, losses)

    def trained(name, log, status, said):
        check(f"{name}: exit status 0", status in (0, [0, 0]), (status, said[-1500:]))
        header, steps = read_log(log) if log.exists() and log.stat().st_size else ({}, [])
        check(f"{name}: two ranks on GPUs train shards to the same losses",
              (header.get("world"), header.get("device"), header.get("zero")) == (2, "cuda", 3) and [x["loss"] for x in steps] == losses, (header, steps))

    def launch(name, launcher, more, told=None, plan=plan):
        """Both ranks; `more` gives each its other variables."""
        log = work / f"{name.replace(' ', '-')}.log"
        ranks = [Running([BIN / "ztc-run", plan, *options, f"--log-json={log}"],
                         env={**ENVIRONMENT, **{k: str(v) for k, v in {**variables(launcher, r), **more(r)}.items()}}) for r in range(2)]
        with ranks[0], ranks[1]:
            status, said = [r.finish(60) for r in ranks], "".join(r.err for r in ranks)
        if told:
            check(f"{name}: refused", status == [1, 1] and told in said, (status, said[-1500:]))
        else:
            trained(name, log, status, said)

    for launcher in free_ports:
        launch(f"{launcher}, every rank sees both GPUs", launcher, lambda rank: {})
        launch(f"{launcher}, every rank sees its own GPU", launcher, lambda rank: {"CUDA_VISIBLE_DEVICES": rank})
    # Ranks go ahead of their GPUs together or not at all.
    launch("Slurm, one rank waits for every step", "Slurm", lambda rank: {"ZTC_CUDA_SYNC": rank})
    # Collectives are parts of graphs on all ranks, or on none.
    launch("torchrun, one rank without CUDA graphs", "torchrun", lambda rank: {"ZTC_CUDA_GRAPHS": rank})
    # Two slices of a GPU have its bus, but are not one GPU.
    launch("Slurm, each rank on a slice of one GPU", "Slurm", lambda rank: {"ZTC_STAND_IN_MIG": 1})
    if (BUILD / "lib/libztc-cudnn.so").exists():
        # Their gradients would not be rounded alike.
        narrow = work / "narrow"
        narrow.mkdir()
        narrow = compile_golden(narrow, "grouped", "--precision=bf16", "--zero=3", "--target=simt", batch=1)
        launch("Slurm, one rank without cuDNN", "Slurm", lambda rank: {"ZTC_CUDNN": 1 - rank}, plan=narrow,
               told="rank 1: this rank has on its device attention and its gradient by own kernels (ZTC_CUDNN is 0), rank 0 has on its device attention by cuDNN "
                    "9.26.0, attention gradient by cuDNN 9.26.0 with scores in memory: all ranks need the same")
        launch("torchrun, one rank with another cuDNN", "torchrun", lambda rank: {"ZTC_STAND_IN_CUDNN": 92600 + 100 * rank},
               plan=narrow, told="rank 1: this rank has on its device attention by cuDNN 9.27.0, attention gradient by cuDNN 9.27.0 with scores in memory, rank 0 has on its "
                                 "device attention by cuDNN 9.26.0")
    launch("Slurm, both see the second GPU alone", "Slurm", lambda rank: {"CUDA_VISIBLE_DEVICES": 1}, told="ranks 0 and 1 are on the same GPU, GPU 0000:01:00.0")

    # A rank that is lost, or hangs, once the step is a CUDA graph: ncclCommAbort waits for graphs, nobody may wait for it.
    lasting = [f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=100000", "--lr=2e-3", "--no-save"]
    for launcher in free_ports:
        for name, sent in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
            free_ports[launcher] = free_port()
            log = work / f"{launcher.replace(' ', '-')}-{name}.log"
            ranks = [Running([BIN / "ztc-run", plan, *lasting, "--timeout=5", f"--log-json={log}"],
                             env={**ENVIRONMENT, **{k: str(v) for k, v in variables(launcher, r).items()}}) for r in range(2)]
            with ranks[0], ranks[1]:
                under_way = wait_until(lambda: log.exists() and log.read_text().count('"step"') >= 6, 60)
                os.kill(ranks[1].pid, sent)
                begin = time.monotonic()
                status = ranks[0].finish(40)
                seconds = time.monotonic() - begin
                os.kill(ranks[1].pid, signal.SIGKILL)
            check(f"{launcher}, a rank {name} after step 5: the other ends with a word", under_way and status == 1 and seconds < 20 and "rank 1" in ranks[0].err,
                  (under_way, status, round(seconds, 1), ranks[0].err[-600:]))

    # The same under ztc-run's own launcher, which has ranks for children.
    for name, sent in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        log = work / f"launcher-{name}.log"
        with Running([BIN / "ztc-run", plan, *lasting, "--gpus=2", "--timeout=5", f"--log-json={log}"], env=ENVIRONMENT) as launcher:
            under_way = wait_until(lambda: log.exists() and log.read_text().count('"step"') >= 6, 60)
            ranks = sorted(descendants(launcher.pid))
            os.kill(ranks[-1], sent)
            begin = time.monotonic()
            status = launcher.finish(40)
            seconds = time.monotonic() - begin
        check(f"--gpus=2, a rank {name} after step 5: all end with a word", under_way and status == 1 and seconds < 20 and "rank " in launcher.err,
              (under_way, status, round(seconds, 1), launcher.err[-600:]))

    installed = {"mpirun": ["--allow-run-as-root", "--oversubscribe", "-np", "2"],
                 "torchrun": ["--no-python", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]}
    for name, arguments in installed.items():
        if not shutil.which(name):
            print(f"left out: {name} is not installed")
            continue
        log = work / f"{name}.log"
        with Running([name, *arguments, BIN / "ztc-run", plan, *options, f"--log-json={log}"], env=ENVIRONMENT) as running:
            status = running.finish(120)
        trained(name, log, status, running.err)
finish()
