#!/usr/bin/env bash
# ZeRO on two CPU ranks: what ZeRO-3 costs beside ZeRO-0, interleaved, and how much of a slow network hides behind computation.
#   tests/bench/zero.sh [rounds]      needs a build with bench-overlap and the models of tests/bench/run.sh (build/bench/*.onnx)
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3}
bin=${ZTC_BIN:-build/bin}
out=build/bench
for spec in "llama-mini 4 128 30" "llama-deep 4 128 10" "stories15m 8 256 6"; do
  read -r model batch seq steps <<<"$spec"
  if [ ! -f "$out/$model.onnx" ]; then
    echo "left out: $out/$model.onnx is not there (tests/bench/run.sh makes it)"
    continue
  fi
  for zero in 0 3; do
    "$bin/ztc" compile "$out/$model.onnx" --batch="$batch" --seq="$seq" --precision=fp32 --zero="$zero" -o "$out/$model-zero$zero.bin" >/dev/null
  done
  rm -f "$out"/zero-*.jsonl
  for round in $(seq "$rounds"); do
    for zero in 0 3; do
      "$bin/ztc-run" "$out/$model-zero$zero.bin" --device=cpu --ranks=2 --threads=1 --steps="$steps" --log-json="$out/zero-$zero-$round.jsonl" --overwrite >/dev/null 2>&1
    done
    python3 - "$model" "$out" "$round" <<'PYTHON'
import json, statistics, sys
def median(zero):
    lines = [json.loads(x) for x in open(f"{sys.argv[2]}/zero-{zero}-{sys.argv[3]}.jsonl")]
    return statistics.median(x["tokens_per_second"] for x in lines[1:] if x.get("step", 0) >= 2)
none, three = median(0), median(3)
print(f"{sys.argv[1]:12} 2 ranks   ZeRO-0 {none:8.0f} tokens/s   ZeRO-3 {three:8.0f} tokens/s   ratio {three / none:.3f}")
PYTHON
  done
  "$(dirname "$bin")/bin/bench-overlap" "$out/$model-zero3.bin" 2 0.2
done
