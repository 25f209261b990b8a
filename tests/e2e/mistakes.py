#!/usr/bin/env python3
"""What people type by mistake gets an answer that says what to do: files that are something else, commands and options that there are not."""
import array
import re

from support import GOLDEN, check, compile_golden, finish, run, scratch, write_safetensors

MODEL = GOLDEN / "grouped" / "model.onnx"


def answered(name, program, *arguments, expect, needs, without=()):
    """One line that begins with the program's name and says each of `needs`."""
    done = run(program, *arguments, expect=expect)
    lines = [x for x in done.stderr.splitlines() if x.strip()]
    good = len(lines) == 1 and lines[0].startswith(program + ":") and all(re.search(x, lines[0]) for x in needs)
    check(name, good and not any(x in done.stderr for x in without), done.stderr[-600:])


with scratch() as work:
    plan = compile_golden(work, "grouped")
    data = work / "chats.jsonl"
    data.write_text('{"messages": []}\n')
    for command in ("compile", "memory", "check"):
        more = ["-o", work / "out.bin"] if command == "compile" else []
        answered(f"a plan given to ztc {command}", "ztc", command, plan, *more, expect=1, needs=["is a plan", "ztc inspect", "ztc-run"])
    answered("chats given to ztc-run", "ztc-run", plan, f"--data={data}", "--steps=1", "--device=cpu", expect=1, needs=["prepare_chat.py", "chat template"],
             without=["--tokenizer=bytes"])
    answered("a table given to ztc-run", "ztc-run", plan, f"--data={work / 'rows.parquet'}", "--steps=1", "--device=cpu", expect=1, needs=["prepare_chat.py|no such file"])

    answered("a command that there is not", "ztc", "foo", expect=2, needs=["unknown command 'foo'", "compile, memory, plan, check"])
    answered("a command with a wrong letter", "ztc", "complie", MODEL, expect=2, needs=["did you mean compile"])
    answered("a file without a command", "ztc", "model.onnx", expect=2, needs=["ztc compile model.onnx"])
    answered("an option with a wrong letter", "ztc", "compile", MODEL, "--zeroo=3", "-o", work / "x", expect=2, needs=["no option --zeroo", "did you mean --zero"])
    answered("an option of ztc-run given to ztc", "ztc", "compile", MODEL, "--steps=3", "-o", work / "x", expect=2, needs=["--steps", "ztc-run has it"])
    answered("a word too many", "ztc", "compile", MODEL, "other.onnx", "-o", work / "x", expect=2, needs=["'other.onnx' is one word too many"])
    answered("a size without a unit", "ztc", "compile", MODEL, "--mem=40", "-o", work / "x", expect=2, needs=["--mem", "no unit", "40GiB"])

    answered("an option of ztc-run with a wrong letter", "ztc-run", plan, "--dat", data, expect=2, needs=["no option --dat", "did you mean --data"])
    answered("an option of ztc given to ztc-run", "ztc-run", plan, "--batch=8", expect=2, needs=["--batch", "ztc compile"])
    answered("another program's name of an option", "ztc-run", plan, "--learning_rate", "1e-4", expect=2, needs=["did you mean --lr"])
    answered("another program's name of an option of ztc", "ztc-run", plan, "--per_device_train_batch_size=2", expect=2, needs=["ztc compile", "--batch"])
    answered("a share of warm-up over all", "ztc-run", plan, f"--data={data}", "--steps=10", "--warmup=130%", expect=2, needs=["--warmup", "0% to 100%"])
    answered("a share given as steps", "ztc-run", plan, f"--data={data}", "--steps=10", "--warmup=0.03", expect=2, needs=["--warmup", "counts steps"])
    answered("weights that are not there", "ztc-run", plan, f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--steps=1", "--device=cpu",
             f"--weights={work / 'nothing'}", expect=1, needs=["--weights", "nothing"])
    answered("two plans", "ztc-run", plan, plan, expect=2, needs=["one word too many"])
    rows = work / "rows.safetensors"
    write_safetensors(rows, {"input_ids": ([2, 16], array.array("q", [1] * 32))})
    answered("data without labels", "ztc-run", plan, f"--data={rows}", "--steps=1", "--device=cpu", expect=1, needs=["labels"])
    # Token files of 32 bits, which were read as 16.
    small = work / "small.bin"
    array.array("I", [i % 90 for i in range(400)]).tofile(small.open("wb"))
    answered("32-bit tokens without a header", "ztc-run", plan, f"--data={small}", "--steps=1", "--device=cpu", "--no-save", expect=1, needs=["32 bits", "--token-bytes=4"])
    done = run("ztc-run", plan, f"--data={small}", "--token-bytes=4", "--steps=1", "--device=cpu", "--no-save")
    check("--token-bytes=4 reads them", "data    24 rows" in done.stdout, done.stdout[:600])
    answered("--token-bytes=3", "ztc-run", plan, f"--data={small}", "--token-bytes=3", "--steps=1", "--device=cpu", expect=2, needs=["--token-bytes: 2 or 4"])
    wild = work / "wild.bin"
    array.array("H", [5] * 300 + [4000] + [5] * 99).tofile(wild.open("wb"))
    done = run("ztc-run", plan, f"--data={wild}", "--steps=1", "--device=cpu", "--no-save", expect=1)
    check("a token beyond the vocabulary is found before the first step", "4000" in done.stderr and "step 0/" not in done.stdout, done.stderr)

    done = run("ztc-run", plan, "--device=cpu", "--no-save")
    check("--no-save in a trial is not a mistake", done.returncode == 0)

    # What the compiler would see too late, or not at all.
    ir = work / "model.mlir"
    run("ztc", "compile", MODEL, "--batch=2", "--seq=16", "--to=backward", "-o", ir)
    answered("an option of a phase that is over", "ztc", "compile", ir, "--from=backward", "--freeze=embed", "-o", work / "x", expect=2, needs=["--freeze", "after phase backward"])
    answered("a folder as output", "ztc", "compile", MODEL, "-o", work, expect=1, needs=["cannot write", "is a folder"])
    answered("an output in a folder that there is not", "ztc", "compile", MODEL, "-o", work / "none" / "plan.bin", expect=1, needs=["does not exist", "create it or choose another path"])
    done = run("ztc", "memory", MODEL, "--batch=2", "--seq=16", "--target=sm_90a", "--threads=4")
    check("threads of a GPU are a note", "note: --threads has no effect" in done.stderr and "on a host" not in done.stdout, done.stderr)
    done = run("ztc", "memory", MODEL, "--batch=2", "--seq=16", "--gpus=8")
    check("memory without a GPU and without --target", "on a host" not in done.stdout or "--target=sm_90a" in done.stderr, done.stderr)
    answered("a report without a log", "ztc", "report", data, "-o", work / "x.html", expect=1, needs=["chats.jsonl"])
finish()
