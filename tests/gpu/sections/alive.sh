#!/usr/bin/env bash
# Is everything found, does it start, and how fast is the first model at all?
{
  date -u
  uname -a
  bin/ztc-run --libraries
  nvidia-smi 2> /dev/null
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE 2> /dev/null
  python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())' 2> /dev/null
} > "$results/machine.txt"
grep -E 'driver|cuBLASLt|cuDNN|NCCL|NVML|PyTorch' "$results/machine.txt" | while read -r line; do say "$line"; done

# The least that there is, step by step: an error names its step.
rm -f "$root/results/overlap"
if ! ZTC_CUDA_PDL=0 ZTC_CUDA_SYNC=1 ZTC_CUDA_GRAPHS=0 train 60 "$results/first.jsonl" "plans/$first" fp32.bin --gpus=1 --steps=2; then
  reason "$results/first.txt" >&2
  say "FAIL the first two steps: $(reason "$results/first.txt")"
  exit 3
fi
say "$(grep '^device' "$results/first.txt")"
train 60 "$results/graphs.jsonl" "plans/$first" bf16.bin --gpus=1 --steps=4
graphs=$?
verdict "$first bf16 with CUDA graphs" $graphs "$(reason "$results/graphs.txt")"
if [ $graphs != 0 ] && ZTC_CUDA_PDL=0 train 60 "$results/no-overlap.jsonl" "plans/$first" bf16.bin --gpus=1 --steps=4; then
  say "it runs where no kernel is launched while another one ends: so does all that follows (ZTC_CUDA_PDL=0)"
  touch "$root/results/overlap"
  export ZTC_CUDA_PDL=0
fi

for model in $models; do
  limited 60 bin/gpu-kernels "plans/$model/fp32.bin" > "$results/$model-kernels.txt" 2> "$results/$model-kernels.err"
  verdict "$model: generated kernels run" $? "$(tail -n 1 "$results/$model-kernels.err")"
  diff "expected/$model-kernels.txt" "$results/$model-kernels.txt" > "$results/$model-kernels.diff"
  verdict "$model: bits of the SIMT engine" $? "$(grep -c '^<' "$results/$model-kernels.diff") of $(wc -l < "expected/$model-kernels.txt") kernels differ"
done
ZTC_CUDNN=0 conformance 120 "$results/conformance.txt" \
  'GemmConformance.*:TransferConformance.*:AttentionConformance.*:LinearCrossEntropyConformance.*:EmbeddingConformance.*:RecurrenceConformance.*:SelectiveScanConformance.*:NarrowConformance.*:DequantizeConformance.*:-*ThreadsGiveTheSameBits'
verdict "conformance suite" $? "$(grep -c 'FAILED  \]' "$results/conformance.txt") failed lines, see conformance.txt"
conformance 60 "$results/conformance-cudnn.txt" 'AttentionConformance.*'
verdict "conformance suite, attention by cuDNN where it is used" $? "$(grep -c 'FAILED  \]' "$results/conformance-cudnn.txt") failed lines, see conformance-cudnn.txt"

model=$(plansIn bench | head -n 1)
if [ -n "$model" ]; then
  ZTC_CUDA_TUNE=60 train 150 "$results/$model.jsonl" plans/bench "$model.bin" --gpus=1 --steps=6 --accumulate=8 --init=normal:0.02
  verdict "$model: six steps, products measured" $? "$(values "$results/$model.jsonl" tokens_per_second | tail -n 1) tokens/s $(reason "$results/$model.txt")"
else
  leave "a model of real size: packed without --bench"
fi
