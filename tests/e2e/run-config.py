#!/usr/bin/env python3
"""Options from a file: every option can stand there, the command line wins, unknown names are errors. Text generation."""
from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch

with scratch() as work:
    plan = compile_golden(work, "grouped")
    config = work / "run.toml"
    config.write_text(f'data = ["{GOLDEN / "grouped" / "data.safetensors"}"]\nsteps = 3\nlr = 0.01\nschedule = "constant"\nno-save = true\ndevice = "cpu"\n')
    run("ztc-run", plan, f"--config={config}", f"--log-json={work / 'log'}")
    check("the file is read", [s["lr"] for s in read_log(work / "log")[1]] == [0.01] * 3)
    run("ztc-run", plan, f"--config={config}", "--lr=0.02", "--steps=2", f"--log-json={work / 'log'}")
    check("the command line wins", [s["lr"] for s in read_log(work / "log")[1]] == [0.02] * 2)
    config.write_text("no-such-option = 1\n")
    done = run("ztc-run", plan, f"--config={config}", expect=2)
    check("an unknown name is an error", "no-such-option" in done.stderr, done.stderr)
    for arguments in (["--help"], ["--version"]):
        check(f"{arguments[0]} exits with 0", "ztc-run" in run("ztc-run", *arguments).stdout)
    done = run("ztc-run", plan, "--device=cpu", "--generate=20", "--prompt=!", expect=0)
    check("text is generated", len(done.stdout) > 0)
finish()
