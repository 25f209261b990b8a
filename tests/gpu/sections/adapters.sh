#!/usr/bin/env bash
# Low-rank adapters, on weights as they are and in four bits: tokens a second, predicted beside measured bytes, and how fast NF4 is read.
[ -n "$(plansIn adapters)" ] || leave "adapters: packed without --bench"
for plan in $(plansIn adapters); do
  log=$results/$plan.jsonl
  train 120 "$log" plans/adapters "$plan.bin" --gpus=1 --init=normal:0.02 --steps=12 --accumulate=4
  verdict "$plan" $? "$(rate "$log") tokens/s, reserve $(grep '^reserve' "$results/$plan.txt") $(reason "$results/$plan.txt")"
  allocatesWhatItPredicts "$log"
  verdict "$plan: allocated is predicted" $?
  train 120 "$results/$plan-profile.jsonl" plans/adapters "$plan.bin" --gpus=1 --init=normal:0.02 --steps=4 --accumulate=4 --profile
  verdict "$plan: its profile" $? "$(grep -m 1 -i dequantize "$results/$plan-profile.txt" | tr -s ' ')"
done
