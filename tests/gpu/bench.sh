#!/usr/bin/env bash
# How fast a GPU trains the plans that `tests/gpu/pack.sh --bench` packed. Tokens a second, MFU, and each kernel's GB/s and
# TFLOP/s against what this GPU was measured to do; beside PyTorch where python3 has it. Results go into results/DATE/.
#   ./bench.sh [MODEL...]
set -u
cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
results=$PWD/results/bench-$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$results" || exit 1
ls plans/bench/*.bin > /dev/null 2>&1 || { echo "bench.sh: no plans: pack with tests/gpu/pack.sh --bench" >&2; exit 1; }
{
  date -u
  nvidia-smi 2> /dev/null
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE 2> /dev/null
} > "$results/machine.txt"

median() { sort -n | awk '{ value[NR] = $1 } END { print NR ? value[int((NR + 1) / 2)] : "nan" }'; }
rate() { grep -o '"tokens_per_second":[^,}]*' "$1" | sed 's/.*://' | tail -n +6 | median; }

models=${*:-$(cd plans/bench && ls *.bin | sed 's/\.bin$//')}
status=0
for model in $models; do
  log=$results/$model.jsonl
  if ! bin/ztc-run "plans/bench/$model.bin" --gpus=1 --init=normal:0.02 --steps=25 --accumulate=8 --log-json="$log" --overwrite > "$results/$model.txt" 2>&1; then
    grep 'error:' "$results/$model.txt" >&2
    status=1
    continue
  fi
  echo "$model: $(rate "$log") tokens/s; $(tr '\r' '\n' < "$results/$model.txt" | grep -o 'MFU.*C' | tail -n 1)" | tee -a "$results/summary.txt"
  # Its own run: taking times waits behind each program.
  bin/ztc-run "plans/bench/$model.bin" --gpus=1 --init=normal:0.02 --steps=6 --accumulate=8 --profile > "$results/$model-profile.txt" 2>&1 || status=1
done
if python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2> /dev/null; then
  for config in plans/bench/*.json; do
    case $config in *1b*) shape="--batch=4 --seq=2048" ;; *) shape="--batch=1 --seq=8192" ;; esac
    for mode in "" --compile; do
      python3 torch_gpu.py "$config" $shape $mode 2> "$results/torch.err" | tee -a "$results/summary.txt"
    done
  done
else
  echo "left out: PyTorch (python3 has no torch and transformers that see a GPU)" | tee -a "$results/summary.txt"
fi
exit $status
