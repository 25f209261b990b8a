#!/usr/bin/env bash
# Products in fp8: codes and scales to the bit, products within their limits, and tokens a second beside the same model in bf16.
conformance 120 "$results/conformance.txt" 'Fp8Conformance.*'
verdict "conformance of codes and products" $? "$(tail -n 1 "$results/conformance.txt")"
[ -n "$(plansIn fp8)" ] || leave "fp8: packed without --bench"
for plan in $(plansIn fp8); do
  measurePlan fp8 "$plan" 'quantize|products'
  [ -e "plans/bench/$plan.bin" ] && [ -e "$results/$plan.jsonl" ] || continue
  narrow=$results/$plan-bf16.jsonl
  train 120 "$narrow" plans/bench "$plan.bin" --gpus=1 --init=normal:0.02 --steps=12 --accumulate=4
  verdict "$plan in bf16, for comparison" $? "$(rate "$narrow") tokens/s; fp8 is $(rate "$results/$plan.jsonl") tokens/s, \
$(awk -v a="$(rate "$results/$plan.jsonl")" -v b="$(rate "$narrow")" 'BEGIN { print ((b > 0) ? a / b : "nan") }') times it"
done
