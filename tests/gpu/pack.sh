#!/usr/bin/env bash
# Packs what tests/gpu/run.sh and bench.sh need on a machine with a GPU: programs, plans, data, and what the same plans do
# without one. Needs a build folder with the compiler; the result needs neither LLVM nor a network.
#   tests/gpu/pack.sh [--build=BUILD] [--models=NAMES] [--bench] [--no-sanitizer] OUT.tar.gz
# NAMES: folders of tests/golden, all of them where it is left out.
# --bench adds the plans of bench.sh, from the models that ZTC_FIXTURES names.
# NVIDIA's compute-sanitizer, 12 MB with its licences, comes along as sanitizer/ unless --no-sanitizer is given or it cannot be fetched.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build models="grouped tied head-norms" bench=0 sanitizer=1 out=
for argument in "$@"; do
  case $argument in
    --build=*) build=${argument#*=} ;;
    --models=*) models=${argument#*=} ;;
    --bench) bench=1 ;;
    --no-sanitizer) sanitizer=0 ;;
    -*) echo "pack.sh: unknown option $argument" >&2; exit 2 ;;
    *) out=$argument ;;
  esac
done
[ -n "$out" ] || { echo "usage: tests/gpu/pack.sh [--build=BUILD] [--models=NAMES] [--bench] [--no-sanitizer] OUT.tar.gz" >&2; exit 2; }
most=$((50 << 20))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
folder=$stage/ztc-gpu
mkdir -p "$folder"/{bin,lib,plans,expected}

for program in ztc-run ztc-runtime-tests gpu-kernels; do
  strip -o "$folder/bin/$program" "$build/bin/$program"
done
cp "$build/lib/libztc-simt.so" "$folder/lib/"
if [ -e "$build/lib/libztc-cudnn.so" ]; then
  strip -o "$folder/lib/libztc-cudnn.so" "$build/lib/libztc-cudnn.so"
else
  echo "pack.sh: this build has no libztc-cudnn.so: attention will be our own kernels'" >&2
fi
cp "$root"/tests/gpu/{run.sh,bench.sh,torch_gpu.py,README.md} "$folder/"

if [ $sanitizer = 1 ]; then
  fetched=
  "$root/cmake/get-compute-sanitizer.sh" >&2 && fetched=$(ls -d "${ZTC_CACHE:-$HOME/.cache/ztc}"/compute-sanitizer-*/ | tail -n 1)
  if [ -n "$fetched" ]; then
    cp -r "$fetched" "$folder/sanitizer"
  else
    echo "pack.sh: compute-sanitizer cannot be fetched: run.sh will want the machine's own" >&2
  fi
fi

"$build/bin/ztc-service-kernels" "$folder/service-kernels.plan" sm_80 sm_90a sm_100a

compile() { # MODEL OUT OPTIONS...: the folder of the plan has its weights
  local model=$1 plan=$2
  shift 2
  "$build/bin/ztc" compile "$model" --target=host,simt,sm_80,sm_90a,sm_100a -o "$plan" "$@" > "$stage/compile.log" 2>&1 ||
    { cat "$stage/compile.log" >&2; exit 1; }
}
for model in $models; do
  mkdir -p "$folder/plans/$model"
  cp "$root/tests/golden/$model"/{model.onnx*,data.safetensors} "$folder/plans/$model/"
  for precision in fp32 bf16 fp16; do
    compile "$folder/plans/$model/model.onnx" "$folder/plans/$model/$precision.bin" --zero=3 --batch=2 --seq=16 --precision=$precision
    (cd "$folder/plans/$model" && "$build/bin/ztc-run" $precision.bin --device=cpu --ranks=1 --threads=1 --data=data.safetensors --steps=10 \
      --accumulate=2 --no-save --log-json="$folder/expected/$model-$precision.jsonl" > "$stage/run.log" 2>&1) || { cat "$stage/run.log" >&2; exit 1; }
  done
  ZTC_STAND_INS=$build/lib/standin "$build/bin/gpu-kernels" "$folder/plans/$model/fp32.bin" > "$folder/expected/$model-kernels.txt" 2> "$stage/run.log" ||
    { cat "$stage/run.log" >&2; exit 1; }
done
if [ $bench = 1 ]; then
  [ -n "${ZTC_FIXTURES:-}" ] || { echo "pack.sh: --bench needs ZTC_FIXTURES" >&2; exit 1; }
  mkdir -p "$folder/plans/bench"
  for entry in llama-3.2-1b:4:2048 llama-3-8b:1:8192; do
    IFS=: read -r name batch seq <<< "$entry"
    cp "$ZTC_FIXTURES/$name/config.json" "$folder/plans/bench/$name.json"
    compile "$ZTC_FIXTURES/$name/dynamo-op18.onnx" "$folder/plans/bench/$name.bin" --batch=$batch --seq=$seq --precision=bf16 --mem=130GiB --gpus=1 --accumulate=8
    compile "$ZTC_FIXTURES/$name/dynamo-op18.onnx" "$folder/plans/bench/$name-bf16-moments.bin" --batch=$batch --seq=$seq --precision=bf16 \
      --optimizer-state=bf16 --mem=130GiB --gpus=1 --accumulate=8
  done
fi
tar -C "$stage" -czf "$out" ztc-gpu
bytes=$(stat -c %s "$out")
if [ "$bytes" -gt $most ]; then
  echo "pack.sh: $out has $bytes bytes, at most $most are wanted" >&2
  exit 1
fi
echo "$out: $bytes bytes"
