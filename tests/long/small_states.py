"""The quickstart's model (4 layers, width 128) on Debian's fortunes by bytes, 500 steps of 8 x 128 tokens from the same random weights: what training with states in
8 bits and without masters ends at, beside fp32 states and masters. Evaluation is printed: with so small a model a change of the precision alone moves it by 1 %."""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fortunes import split_text
from support import ROOT, check, finish, read_log, run, scratch

STEPS, LIMIT = 500, 0.01
INT8, BF16, WITHOUT = "--optimizer-state=int8", "--precision=bf16", "--master=none"
# Of an optimizer: its rate, and its runs, the reference first.
OPTIMIZERS = {"adamw": ("2e-3", {"fp32": ["--precision=fp32"], "fp32, states in int8": ["--precision=fp32", INT8], "bf16": [BF16], "bf16 without masters": [BF16, WITHOUT],
                                 "bf16, states in int8": [BF16, INT8], "bf16 without masters, states in int8": [BF16, WITHOUT, INT8]}),
              "lion": ("2e-4", {"fp32": ["--precision=fp32"], "fp32, states in int8": ["--precision=fp32", INT8]})}

with scratch() as work:
    train, held_out = split_text(work)
    for optimizer, (rate, runs) in OPTIMIZERS.items():
        reference = None
        for name, options in runs.items():
            plan, log = work / "plan.bin", work / "log.jsonl"
            run("ztc", "compile", ROOT / "samples/quickstart/model.onnx", "--batch=8", "--seq=128", "--target=host", f"--optimizer={optimizer}", *options, "-o", plan)
            run("ztc-run", plan, "--device=cpu", "--init=normal:0.02", "--data", train, "--tokenizer=bytes", "--shuffle", f"--steps={STEPS}", f"--lr={rate}", "--warmup=40",
                "--eval-data", held_out, f"--eval-every={STEPS}", "--no-save", f"--log-json={log}", "--overwrite", timeout=3600)
            head, steps = read_log(log)
            held = [x["eval_loss"] for x in map(json.loads, log.read_text().splitlines()) if x.get("event") == "eval"][-1]
            last = statistics.mean(x["loss"] for x in steps[-20:])
            reference = reference or (last, held)
            check(f"{optimizer}, {name}: the last losses within 1 % of fp32's", abs(last / reference[0] - 1) <= LIMIT,
                  f"{last:.4f} ({100 * (last / reference[0] - 1):+.2f} %), held out {held:.4f} ({100 * (held / reference[1] - 1):+.2f} %), states and masters "
                  f"{head['by_class']['optimizer']} bytes")
finish()
