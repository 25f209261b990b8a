#!/usr/bin/env python3
"""What a machine does not give (threads, memory, a loopback interface) and what is asked of a model that it cannot do is said in one message; a model has its folder's name."""
import os
import resource
import shutil
import subprocess

from support import BIN, GOLDEN, check, compile_golden, finish, run, scratch


def one_error(name, done, *needs):
    said = [x for x in done.stderr.splitlines() if x.strip()]
    check(name, done.returncode == 1 and len(said) == 1 and said[0].startswith("ztc-run: error:") and all(x in said[0] for x in needs), (done.returncode, done.stderr[-500:]))


with scratch() as work:
    plan = compile_golden(work, "grouped")
    short = [plan, "--device=cpu", "--steps=1", "--no-save"]

    # Threads that the system does not start: their stacks do not fit into the addresses that are left.
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))
    done = subprocess.run([BIN / "ztc-run", *short, "--threads=200"], capture_output=True, text=True, preexec_fn=limited)
    one_error("more threads than there is room for", done, "threads", "--threads", "ulimit")
    check("a micro-batch count that no memory holds", run("ztc-run", plan, "--device=cpu", "--steps=1", "--accumulate=268435456", expect=None).returncode in (1, 2))

    # A host without a loopback interface says so at once, not after the time-out.
    if os.geteuid() == 0 and shutil.which("unshare") and subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0:
        done = subprocess.run(["unshare", "-n", BIN / "ztc-run", *short, "--ranks=2", "--timeout=100"], capture_output=True, text=True, timeout=60)
        check("a loopback interface that is down", done.returncode == 1 and "loopback" in done.stderr and "ip link set lo up" in done.stderr, done.stderr[-400:])
    else:
        print("left out (not root, or no network of its own): a loopback interface that is down")

    # Text of a model whose tokens are those of a tokenizer.
    wide = work / "wide"
    wide.mkdir()
    (wide / "config.json").write_text('{"model_type": "llama", "vocab_size": 1000, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, '
                                      '"num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false}')
    run("ztc", "compile", wide, "--batch=1", "--seq=16", "-o", work / "wide.bin")
    one_error("text of a model without its tokenizer", run("ztc-run", work / "wide.bin", "--device=cpu", "--generate=4", "--prompt=Hello", expect=1), "1000 tokens", "--tokenizer")
    (work / "prompts.txt").write_text("Hello\n")
    one_error("texts of a model without its tokenizer", run("ztc-run", work / "wide.bin", "--device=cpu", "--generate=4", f"--prompts={work / 'prompts.txt'}", expect=1), "1000 tokens", "--tokenizer")

    # Names: a folder's, where files have names like model.onnx; and how inputs are bound.
    done = run("ztc", "inspect", plan)
    check("a model has its folder's name", "plan of grouped" in done.stdout, done.stdout[:200])
    shutil.copy(GOLDEN / "grouped/model.onnx", work / "llama.onnx")
    run("ztc", "compile", work / "llama.onnx", "--batch=1", "--seq=8", "-o", work / "llama.bin")
    check("a file without a folder of its own has its own name", "plan of llama," in run("ztc", "inspect", work / "llama.bin").stdout)
    said = run("ztc", "check", GOLDEN / "grouped/model.onnx").stdout
    check("ztc check says how inputs are bound", ": tokens = rows of the data" in said and ": logits = trained" in said, said[:800])
finish()
