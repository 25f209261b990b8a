#!/usr/bin/env bash
# ztc beside PyTorch on the same model, batch and threads, interleaved: tokens per second and their ratio. Needs about 6 GB for PyTorch.
#   tests/bench/run.sh [rounds]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
bin=${ZTC_BIN:-build/bin}
out=build/bench
mkdir -p "$out"
python=${ZTC_TORCH_PYTHON:-$out/venv/bin/python}
if [ ! -x "$python" ]; then
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install -q torch transformers onnx onnxscript
fi
export CUDA_VISIBLE_DEVICES=
for spec in "llama-mini 4 128 30" "stories15m 8 256 8"; do
  read -r model batch seq steps <<<"$spec"
  [ -f "$out/$model.onnx" ] || "$python" tests/bench/torch_side.py export "$model" "$out/$model.onnx" --seq "$seq" >/dev/null 2>&1
  "$bin/ztc" compile "$out/$model.onnx" --batch="$batch" --seq="$seq" -o "$out/$model.bin" | sed -n 2p
  for round in $(seq "$rounds"); do
    theirs=$("$python" tests/bench/torch_side.py train "$model" --batch "$batch" --seq "$seq" --threads 2 2>/dev/null)
    "$bin/ztc-run" "$out/$model.bin" --device=cpu --threads=2 --steps="$steps" --log-json="$out/log.jsonl" >/dev/null 2>&1
    python3 - "$model" "$out/log.jsonl" "$theirs" <<'PYTHON'
import json, statistics, sys
lines = [json.loads(x) for x in open(sys.argv[2])]
theirs = json.loads(sys.argv[3])
ours = statistics.median(x["tokens_per_second"] for x in lines[1:] if x.get("step", 0) >= 2)
print(f"{sys.argv[1]:12} ztc {ours:8.0f} tokens/s   PyTorch {theirs['tokens_per_second']:8.0f} tokens/s   ratio {ours / theirs['tokens_per_second']:.2f}"
      f"   arena {lines[0]['allocated_bytes'] / 2**20:.0f} MiB   PyTorch {theirs['peak_bytes_without_import'] / 2**20:.0f} MiB beyond its import")
PYTHON
    rm -f "$out/log.jsonl"
  done
done
