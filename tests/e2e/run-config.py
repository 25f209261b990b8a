#!/usr/bin/env python3
"""Options from a file: every option can stand there, the command line wins, unknown names are errors. Text generation."""
from support import GOLDEN, check, compile_golden, finish, read_log, run, scratch

with scratch() as work:
    plan = compile_golden(work, "grouped")
    config = work / "run.toml"
    config.write_text(f'data = ["{GOLDEN / "grouped" / "data.safetensors"}"]\nsteps = 3\nlr = 0.01\nschedule = "constant"\nno-save = true\ndevice = "cpu"\n')
    run("ztc-run", plan, f"--config={config}", f"--log-json={work / 'log'}")
    check("the file is read", [s["lr"] for s in read_log(work / "log")[1]] == [0.01] * 3)
    run("ztc-run", plan, f"--config={config}", "--lr=0.02", "--steps=2", f"--log-json={work / 'log'}", "--overwrite")
    check("the command line wins", [s["lr"] for s in read_log(work / "log")[1]] == [0.02] * 2)
    config.write_text("no-such-option = 1\n")
    done = run("ztc-run", plan, f"--config={config}", expect=2)
    check("an unknown name is an error", "no-such-option" in done.stderr, done.stderr)
    data = GOLDEN / "grouped" / "data.safetensors"
    SAME = {"sections.toml": f'''# sections group options
[data]
data = ["{data}"]
shuffle = true
[training]
steps = 3
lr = 1e-2
schedule = "constant"
[training.optimizer]
weight_decay = 0.0   # underscores as in Python
[results]
no-save = true
device = "cpu"
''', "run.yaml": f'''# the same as YAML
data:
  data: {data}
  shuffle: yes
training: {{steps: 3, lr: 1e-2, schedule: constant}}
weight_decay: 0
no_save: true
device: cpu
seed:            # nothing: left out
''', "list.yml": f'''data:
  - {data}
shuffle: true
steps: 3
lr: 0.01
schedule: constant
weight-decay: 0.0
no-save: on
device: "cpu"
'''}
    losses = {}
    for name, text in SAME.items():
        (work / name).write_text(text)
        run("ztc-run", plan, f"--config={work / name}", f"--log-json={work / name}.log")
        losses[name] = [(s["lr"], s["loss"]) for s in read_log(f"{work / name}.log")[1]]
    run("ztc-run", plan, f"--data={data}", "--shuffle", "--steps=3", "--lr=0.01", "--schedule=constant", "--weight-decay=0", "--no-save", "--device=cpu", f"--log-json={work / 'same.log'}")
    wanted = [(s["lr"], s["loss"]) for s in read_log(work / "same.log")[1]]
    for name in SAME:
        check(f"{name}: the options of a command line", losses[name] == wanted, losses[name])
    for name, text, needs in (
            ("an option that there is not", "[train]\nstps = 3\n", ["--stps", "did you mean --steps"]),
            ("another program's name", "learning_rate: 1e-4\n", ["did you mean --lr"]),
            ("an option of ztc compile", "model:\n  batch: 8\n", ["ztc compile", "--batch"]),
            ("broken TOML", "steps = 3\nlr = \n", ["line 2", "TOML"]),
            ("broken YAML", "steps: 3\n  lr: [1\n", ["line", "YAML"]),
            ("an option that stands twice", "[a]\nsteps = 3\n[b]\nsteps = 4\n", ["steps", "twice"]),
            ("a value that is a list of tables", "steps: [{a: 1}]\n", ["steps", "is not a number"]),
            ("a value that is not a number", "steps: soon\n", ["--steps", "soon"])):
        config.write_text(text)
        done = run("ztc-run", plan, f"--config={config}", expect=2)
        check(f"--config: {name}", all(x in done.stderr for x in needs) and "INI" not in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    done = run("ztc-run", plan, f"--config={work / 'nothing.toml'}", expect=2)
    check("--config: a file that there is not", "nothing.toml" in done.stderr, done.stderr)
    for arguments in (["--help"], ["--version"]):
        check(f"{arguments[0]} exits with 0", "ztc-run" in run("ztc-run", *arguments).stdout)
    done = run("ztc-run", plan, "--device=cpu", "--generate=20", "--prompt=!", expect=0)
    check("text is generated", len(done.stdout) > 0)
finish()
