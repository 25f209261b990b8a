#!/usr/bin/env bash
# Is what it computes right: beside the processor, PyTorch at real shapes, itself, and compute-sanitizer?
export ZTC_CUDA_TUNE=${ZTC_CUDA_TUNE:-120} # the first run measures all products, so that later ones take the same algorithms
for model in $models; do
  for precision in fp32 bf16 fp16; do
    log=$results/$model-$precision.jsonl options="--gpus=1 --accumulate=2 --steps=10"
    # Where sums are rounded to 16 bits the first update turns signs of what is near zero: later steps may drift, the first may not.
    first_limit=1e-3 later=0.25
    [ $precision = fp32 ] && first_limit=1e-4 later=1e-4
    [ $precision = bf16 ] && first_limit=2e-3 # half a unit of its last place is 2e-3
    train 60 "$results/$model-$precision-tuning.jsonl" "plans/$model" $precision.bin $options
    train 45 "$log" "plans/$model" $precision.bin $options
    verdict "$model $precision: trains" $? "$(reason "${log%.jsonl}.txt")"
    far=$(compare "expected/$model-$precision.jsonl" "$log" $first_limit $later)
    verdict "$model $precision: losses and norms of the processor" $? "$far"
    allocatesWhatItPredicts "$log"
    verdict "$model $precision: allocated is predicted" $?
    ZTC_CUDA_GRAPHS=0 train 45 "${log%.jsonl}-no-graphs.jsonl" "plans/$model" $precision.bin $options
    far=$(compare "$log" "${log%.jsonl}-no-graphs.jsonl" 0 0)
    verdict "$model $precision: the same without graphs" $? "$far"
    train 45 "${log%.jsonl}-again.jsonl" "plans/$model" $precision.bin $options
    far=$(compare "$log" "${log%.jsonl}-again.jsonl" 0 0)
    verdict "$model $precision: the same twice" $? "$far"
  done
done

# Loss and every gradient at real shapes, by cuDNN and by own kernels. PyTorch writes the weights.
if [ -z "$(plansIn parity)" ]; then
  leave "parity at real shapes: packed without --bench"
elif noTorch; then
  leave "parity at real shapes: python3 has no torch and transformers that see a GPU"
else
  for plan in $(plansIn parity); do
    for cudnn in 1 0; do
      besidePyTorch "$plan" $cudnn "plans/parity/$plan.bin" "plans/parity/${plan%-*}.json" $(cat "plans/parity/$plan.options")
    done
  done
fi

# compute-sanitizer: the machine's own, which suits its driver, or the package's.
sanitizer=$(command -v compute-sanitizer || true)
[ -z "$sanitizer" ] && [ -x sanitizer/compute-sanitizer ] && sanitizer=$root/sanitizer/compute-sanitizer
if [ -n "${ZTC_STAND_INS:-}" ]; then
  leave "compute-sanitizer: stand-ins are no GPU"
elif [ -z "$sanitizer" ]; then
  leave "compute-sanitizer: it is neither in PATH (it comes with the CUDA toolkit) nor in the package"
else
  say "compute-sanitizer: $sanitizer"
  # racecheck knows nothing of the barriers that cuDNN's kernels wait at: it sees own kernels alone.
  for tool in memcheck racecheck synccheck; do
    (cd "plans/$first" && ZTC_CUDNN=$([ $tool = racecheck ] && echo 0 || echo 1) ZTC_CUDA_GRAPHS=0 limited 120 "$sanitizer" --tool=$tool --error-exitcode=9 --target-processes=all \
      "$root/bin/ztc-run" bf16.bin --data=data.safetensors --steps=1 --no-save --gpus=1) > "$results/$tool.txt" 2>&1
    verdict "compute-sanitizer $tool" $? "$(grep 'ERROR SUMMARY' "$results/$tool.txt")"
  done
fi
