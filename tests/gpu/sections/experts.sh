#!/usr/bin/env bash
# Mixtures of experts: routes and grouped products under the conformance suite, every gradient beside PyTorch's, tokens a second, predicted beside measured.
conformance 120 "$results/conformance.txt" 'ExpertsConformance.*'
verdict "conformance of routes and grouped products" $? "$(tail -n 1 "$results/conformance.txt")"
[ -n "$(plansIn experts)" ] || leave "experts: packed without --bench"
if [ -z "$(plansIn experts/parity)" ] || noTorch; then
  leave "parity of experts: python3 has no torch and transformers that see a GPU, or they were packed without --bench"
else
  for precision in $(plansIn experts/parity); do
    besidePyTorch "experts-$precision" 1 "plans/experts/parity/$precision.bin" plans/experts/parity.json --batch=1 --seq=2048 --precision="$precision"
  done
fi
for plan in $(plansIn experts); do
  measurePlan experts "$plan" 'routing|products'
  if hasTorch && [ -e "plans/experts/$plan.json" ]; then
    limited 150 python3 torch_gpu.py "plans/experts/$plan.json" --batch=4 --seq=4096 --accumulate=4 2> "$results/torch.err" | tee -a "$results/summary.txt"
  fi
done
