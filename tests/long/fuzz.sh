#!/usr/bin/env bash
# Each reader of files under libFuzzer with AddressSanitizer and UBSan, for ten minutes or as long as given.
#   tests/long/fuzz.sh [SECONDS [TARGET...]]      TARGET: onnx, config, plan, safetensors, tokens, tokenizer, json, wire
# Needs build/ (the default preset). What is found lies in build/fuzz/found; put it into tests/fuzz/regressions when it is repaired.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
shift || true
targets=("$@")
[ ${#targets[@]} = 0 ] && targets=(onnx config plan safetensors tokens tokenizer json wire)
cmake --build build --target ztc "${targets[@]/#/fuzz-}" >build/fuzz.log 2>&1 || { tail -30 build/fuzz.log; exit 1; }
work=build/fuzz
rm -rf "$work/seeds"
mkdir -p "$work/seeds" "$work/found"
tests/fuzz/seeds.py "$work/seeds"
# The graph of 16,000 experts, which a few bytes of config.json ask for, takes a second, and twenty here on a busy machine: a hang is longer.
# The reader gives room for what the stream of an uninstrumented library may hold.
export ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
failed=0
for target in "${targets[@]}"; do
  mkdir -p "$work/corpus-$target"
  build/bin/fuzz-$target -max_total_time="$seconds" -timeout=60 -rss_limit_mb=3000 -malloc_limit_mb=1500 -max_len=400000 -print_final_stats=1 \
    -artifact_prefix="$work/found/$target-" "$work/corpus-$target" "$work/seeds/$target" tests/fuzz/regressions/"$target" >"$work/$target.log" 2>&1 || failed=1
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log")
  found=$(grep -cE '^(SUMMARY|==[0-9]+== ERROR)' "$work/$target.log" || true)
  echo "$target: ${runs:-0} runs in $seconds s, $found findings"
  grep -E '^SUMMARY|Test unit written' "$work/$target.log" || true
done
exit $failed
