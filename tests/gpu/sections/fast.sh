#!/usr/bin/env bash
# How fast: tokens a second of each plan that this GPU's memory takes, with cuDNN, in a fixed order and in any, and without, beside PyTorch.
[ -n "$(plansIn bench)" ] || leave "all of it: packed without --bench"
for model in $(plansIn bench); do
  for cudnn in 1 0; do
    log=$results/$model-cudnn$cudnn.jsonl
    ZTC_CUDNN=$cudnn train 100 "$log" plans/bench "$model.bin" --gpus=1 --init=normal:0.02 --steps=25 --accumulate=8
    status=$?
    if [ $status != 0 ] && grep -q 'bytes more than the' "${log%.jsonl}.txt"; then
      leave "$model: $(reason "${log%.jsonl}.txt")"
      break
    fi
    verdict "$model, ZTC_CUDNN=$cudnn" $status \
      "$(rate "$log") tokens/s; $(tr '\r' '\n' < "${log%.jsonl}.txt" | grep -o 'MFU.*C' | tail -n 1) $(reason "${log%.jsonl}.txt")"
  done
  [ -e "$results/$model-cudnn1.jsonl" ] && [ $status = 0 ] || continue
  measured=$(ways "$results/$model-cudnn1.jsonl")
  [ -z "$measured" ] || say "$model: attention, milliseconds by way:$measured"
  train 100 "$results/$model-any-order.jsonl" plans/bench "$model.bin" --gpus=1 --init=normal:0.02 --steps=25 --accumulate=8 --deterministic=no
  verdict "$model, --deterministic=no" $? "$(rate "$results/$model-any-order.jsonl") tokens/s $(reason "$results/$model-any-order.txt")"
  ZTC_CUDA_PDL=0 train 100 "$results/$model-no-overlap.jsonl" plans/bench "$model.bin" --gpus=1 --init=normal:0.02 --steps=10 --accumulate=8
  verdict "$model, ZTC_CUDA_PDL=0" $? "$(rate "$results/$model-no-overlap.jsonl") tokens/s $(reason "$results/$model-no-overlap.txt")"
  # Its own run: taking times waits after each program.
  train 100 "$results/$model-profile.jsonl" plans/bench "$model.bin" --gpus=1 --init=normal:0.02 --steps=6 --accumulate=8 --profile
  verdict "$model: its profile" $? "see $model-profile.txt $(reason "$results/$model-profile.txt")"
done
if hasTorch; then
  for config in plans/bench/*.json; do
    case $config in *1b*) shape="--batch=4 --seq=2048" ;; *) shape="--batch=1 --seq=8192" ;; esac
    for mode in "" --compile; do
      limited 150 python3 torch_gpu.py "$config" $shape $mode 2> "$results/torch.err" | tee -a "$results/summary.txt"
    done
  done
else
  leave "PyTorch: python3 has no torch and transformers that see a GPU"
fi
