#!/usr/bin/env bash
# Where the time is: each kernel against what this GPU was measured to do, and what ncu says of those that matter.
model=$(plansIn bench | head -n 1)
if [ -z "$model" ]; then
  leave "profiles: packed without --bench"
else
  for plan in $(plansIn bench); do
    train 120 "$results/$plan.jsonl" plans/bench "$plan.bin" --gpus=1 --init=normal:0.02 --steps=6 --accumulate=8 --profile=steps
    status=$?
    if [ $status != 0 ] && grep -q 'bytes more than the' "$results/$plan.txt"; then
      leave "$plan: $(reason "$results/$plan.txt")"
    else
      cp "plans/bench/$plan.time" "$results/" 2> /dev/null
      verdict "$plan: profile" $status "see $plan.txt and, what was expected of each kind of work, $plan.time $(reason "$results/$plan.txt")"
    fi
  done
fi
ncu=$(command -v ncu || ls -d /usr/local/cuda*/bin/ncu 2> /dev/null | tail -n 1)
if [ -n "${ZTC_STAND_INS:-}" ] || [ -z "$ncu" ] || [ -z "$model" ]; then
  leave "ncu: ${ncu:+there is nothing to look at with it}${ncu:-it is not installed}"
else
  for kernel in attention swiglu swiglu_grad rms_norm rms_norm_grad cross_entropy adamw narrow rope; do
    ZTC_CUDA_GRAPHS=0 limited 60 "$ncu" --clock-control none --section SpeedOfLight --section MemoryWorkloadAnalysis --section WarpStateStats \
      --kernel-name "regex:$kernel" --launch-skip 2 --launch-count 1 \
      bin/ztc-run "plans/bench/$model.bin" --gpus=1 --init=normal:0.02 --steps=1 > "$results/ncu-$kernel.txt" 2>&1
    verdict "ncu: $kernel" $? "$(grep -m 1 'Memory Throughput' "$results/ncu-$kernel.txt" | tr -s ' ')"
  done
fi
