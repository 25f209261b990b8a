#!/usr/bin/env bash
# What only a GPU can tell. Runs in the folder that tests/gpu/pack.sh packed, on a machine with an NVIDIA driver, cuBLASLt
# and NCCL; needs bash, coreutils, grep, sed and awk. Results go into results/DATE/.
#   ./run.sh [--no-sanitizer]
# ZTC_STAND_INS=FOLDER runs it over the stand-ins of tests/standin, to test the script itself.
set -u
cd "$(dirname "$0")" || exit 1
export LD_LIBRARY_PATH=$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
sanitize=1
[ "${1:-}" = --no-sanitizer ] && sanitize=0
failures=0 leftOut=0
models=$(for folder in plans/*/; do basename "$folder"; done | grep -v '^bench$')
first=${models%%$'\n'*}

results=$PWD/results/$(date -u +%Y-%m-%dT%H%M%SZ)
mkdir -p "$results" || exit 1
say() { echo "$*" | tee -a "$results/summary.txt"; }
verdict() { # NAME STATUS [DETAIL]
  if [ "$2" = 0 ]; then
    say "ok   $1${3:+: $3}"
  else
    say "FAIL $1${3:+: $3}"
    failures=$((failures + 1))
  fi
}
leave() { say "left out: $*"; leftOut=$((leftOut + 1)); }

# The greatest difference between two logs' losses and norms, relative; "nan" where they are not comparable.
difference() {
  for log in "$1" "$2"; do
    { grep -o '"loss":[^,}]*' "$log"; grep -o '"grad_norm":[^,}]*' "$log"; } 2> /dev/null | sed 's/.*://' > "$results/figures-$$"
    mv "$results/figures-$$" "$results/figures-$([ "$log" = "$1" ] && echo 1 || echo 2)"
  done
  if [ -s "$results/figures-1" ] && [ "$(wc -l < "$results/figures-1")" = "$(wc -l < "$results/figures-2")" ] &&
    ! grep -q null "$results"/figures-?; then
    awk 'NR == FNR { first[FNR] = $1; next }
         { d = first[FNR] - $1; d = d < 0 ? -d : d; m = first[FNR] < 0 ? -first[FNR] : first[FNR]; d = m > 0 ? d / m : d; if (d > most) most = d }
         END { print most + 0 }' "$results/figures-1" "$results/figures-2"
  else
    echo nan
  fi
  rm -f "$results"/figures-?
}
within() { [ "$1" != nan ] && awk -v d="$1" -v most="$2" 'BEGIN { exit !(d <= most) }'; }

train() { # LOG MODEL PRECISION OPTIONS...
  local log=$1 model=$2 precision=$3
  shift 3
  rm -f "$log"
  # A model's folder may have more options for ztc-run.
  (cd "plans/$model" && "$OLDPWD/bin/ztc-run" "$precision.bin" --data=data.safetensors --steps=10 --no-save --log-json="$log" --overwrite \
    $(cat options 2> /dev/null) "$@") > "${log%.jsonl}.txt" 2>&1
}
allocatesWhatItPredicts() {
  local predicted allocated
  predicted=$(grep -o '"predicted_bytes":[0-9]*' "$1" | sed 's/.*://')
  allocated=$(grep -o '"allocated_bytes":[0-9]*' "$1" | sed 's/.*://')
  [ -n "$predicted" ] && [ "$predicted" = "$allocated" ]
}

# Is there a GPU at all?
if ! train "$results/first.jsonl" "$first" fp32 --gpus=1 --accumulate=2; then
  grep 'error:' "$results/first.txt" >&2 || tail -n 5 "$results/first.txt" >&2
  exit 1
fi
{
  date -u
  uname -a
  nvidia-smi 2> /dev/null
  nvidia-smi -q -d CLOCK,POWER,TEMPERATURE 2> /dev/null
  grep -o '"device":"[^"]*"' "$results/first.jsonl"
} > "$results/machine.txt"
say "$(grep '^device' "$results/first.txt")"

# 1. Every kind of step, against references on the host; attention by own kernels, then by cuDNN where it is used.
ZTC_CUDNN=0 ZTC_TEST_DEVICE=cuda ZTC_SERVICE_KERNELS=$PWD/service-kernels.plan bin/ztc-runtime-tests --gtest_brief=1 \
  --gtest_filter='GemmConformance.*:TransferConformance.*:AttentionConformance.*:LinearCrossEntropyConformance.*:EmbeddingConformance.*:NarrowConformance.*:-*ThreadsGiveTheSameBits' \
  > "$results/conformance.txt" 2>&1
verdict "conformance suite" $? "$(grep -c 'FAILED  \]' "$results/conformance.txt") failed lines, see conformance.txt"
ZTC_TEST_DEVICE=cuda ZTC_SERVICE_KERNELS=$PWD/service-kernels.plan bin/ztc-runtime-tests --gtest_brief=1 \
  --gtest_filter='AttentionConformance.*' > "$results/conformance-cudnn.txt" 2>&1
verdict "conformance suite, attention by cuDNN where it is used" $? \
  "$(grep -c 'FAILED  \]' "$results/conformance-cudnn.txt") failed lines, see conformance-cudnn.txt"

# 2. Generated kernels: the bits of the SIMT engine.
for model in $models; do
  bin/gpu-kernels "plans/$model/fp32.bin" > "$results/$model-kernels.txt" 2> "$results/$model-kernels.err"
  verdict "$model: generated kernels run" $? "$(tail -n 1 "$results/$model-kernels.err")"
  diff "expected/$model-kernels.txt" "$results/$model-kernels.txt" > "$results/$model-kernels.diff"
  verdict "$model: bits of the SIMT engine" $? "$(grep -c '^<' "$results/$model-kernels.diff") of $(wc -l < "expected/$model-kernels.txt") kernels differ"
done

# 3. Ten steps beside the processor's, each precision; the arena is the predicted one; graphs change no bit.
for model in $models; do
  for precision in fp32 bf16 fp16; do
    most=1e-4
    [ $precision = fp32 ] || most=2e-2
    log=$results/$model-$precision.jsonl
    train "$log" $model $precision --gpus=1 --accumulate=2
    verdict "$model $precision: trains" $? "$(grep -h 'error:' "${log%.jsonl}.txt")"
    far=$(difference "expected/$model-$precision.jsonl" "$log")
    within "$far" $most
    verdict "$model $precision: losses and norms of the processor" $? "largest relative difference $far, allowed $most"
    allocatesWhatItPredicts "$log"
    verdict "$model $precision: allocated is predicted" $?
    ZTC_CUDA_GRAPHS=0 train "${log%.jsonl}-no-graphs.jsonl" $model $precision --gpus=1 --accumulate=2
    far=$(difference "$log" "${log%.jsonl}-no-graphs.jsonl")
    within "$far" 0
    verdict "$model $precision: the same without graphs" $? "largest relative difference $far"
    train "${log%.jsonl}-again.jsonl" $model $precision --gpus=1 --accumulate=2
    far=$(difference "$log" "${log%.jsonl}-again.jsonl")
    within "$far" 0
    verdict "$model $precision: the same twice" $? "largest relative difference $far"
  done
done

# 4. ZeRO-3 on two ranks; on one GPU where there is no second.
gpus=1
command -v nvidia-smi > /dev/null && gpus=$(nvidia-smi -L | wc -l)
for precision in fp32 bf16; do
  log=$results/two-ranks-$precision.jsonl
  ZTC_SHARE_GPUS=$([ "$gpus" -gt 1 ] && echo 0 || echo 1) train "$log" "$first" $precision --gpus=2
  verdict "two ranks on $([ "$gpus" -gt 1 ] && echo two GPUs || echo one GPU), $precision" $? "$(grep -h 'error:' "${log%.jsonl}.txt")"
  far=$(difference "$results/$first-$precision.jsonl" "$log")
  most=1e-4
  [ $precision = fp32 ] || most=2e-2
  within "$far" $most
  verdict "two ranks, $precision: the losses of one" $? "largest relative difference $far, allowed $most"
  allocatesWhatItPredicts "$log"
  verdict "two ranks, $precision: allocated is predicted" $?
done

# 5. compute-sanitizer: the machine's own, which suits its driver, or the package's.
sanitizer=$(command -v compute-sanitizer || true)
[ -z "$sanitizer" ] && [ -x sanitizer/compute-sanitizer ] && sanitizer=$PWD/sanitizer/compute-sanitizer
if [ $sanitize = 0 ]; then
  leave "compute-sanitizer (--no-sanitizer)"
elif [ -z "$sanitizer" ]; then
  leave "compute-sanitizer: it is neither in PATH (it comes with the CUDA toolkit) nor in the package"
else
  say "compute-sanitizer: $sanitizer"
  for tool in memcheck racecheck synccheck; do
    (cd "plans/$first" && ZTC_CUDA_GRAPHS=0 "$sanitizer" --tool=$tool --error-exitcode=9 --target-processes=all \
      "$OLDPWD/bin/ztc-run" bf16.bin --data=data.safetensors --steps=2 --no-save --gpus=1) > "$results/$tool.txt" 2>&1
    verdict "compute-sanitizer $tool" $? "$(grep 'ERROR SUMMARY' "$results/$tool.txt")"
  done
fi

say "$failures failures, $leftOut left out; see $results"
[ $failures = 0 ]
