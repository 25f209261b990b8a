"""LoRA beside weights in 4 bits against LoRA beside the same weights in bf16: the quickstart's model, trained on half of Debian's fortunes by bytes, learns the other half by
an adapter in 500 steps. The losses end within 1 % of one another."""
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fortunes import split_text
from support import ROOT, check, finish, read_log, run, scratch

STEPS, LIMIT, BATCH = 500, 0.01, ["--batch=8", "--seq=128", "--target=host"]
model = ROOT / "samples/quickstart/model.onnx"

with scratch() as work:
    train, held_out = split_text(work)
    text = train.read_bytes()
    first, second = work / "first.txt", work / "second.txt"
    first.write_bytes(text[:len(text) // 2])
    second.write_bytes(text[len(text) // 2:])
    plan, log, base = work / "plan.bin", work / "log.jsonl", work / "base"

    def trained(data, rate, *options):
        run("ztc-run", plan, "--device=cpu", "--data", data, "--tokenizer=bytes", "--shuffle", f"--steps={STEPS}", f"--lr={rate}", "--warmup=40", "--eval-data", held_out,
            f"--eval-every={STEPS}", f"--log-json={log}", "--overwrite", *options, timeout=3600)
        return read_log(log)

    run("ztc", "compile", model, *BATCH, "--precision=bf16", "-o", plan)
    _, steps = trained(first, "2e-3", "--init=normal:0.02", f"--export={base}")
    before = statistics.mean(x["loss"] for x in steps[-20:])
    reference = None
    for name, options in (("bf16", []), ("nf4", ["--quantize=nf4"])):
        run("ztc", "compile", model, f"--weights={base}", *BATCH, "--precision=bf16", "--lora=r=16,alpha=32,targets=all-linear", *options, "-o", plan)
        head, steps = trained(second, "1e-3", "--no-save")
        begin, last = statistics.mean(x["loss"] for x in steps[:20]), statistics.mean(x["loss"] for x in steps[-20:])
        reference = reference or last
        check(f"LoRA beside weights in {name}: the last losses within 1 % of those beside bf16", abs(last / reference - 1) <= LIMIT and last < begin,
              f"{begin:.4f} -> {last:.4f} ({100 * (last / reference - 1):+.2f} %), the base ended at {before:.4f}; parameters {head['by_class']['parameters']} bytes")
finish()
