#!/usr/bin/env bash
# The sample plugin builds outside the tree's own targets and is loaded by ztc-opt and by ztc compile.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${ZTC_BIN:-$root/build/bin}
build=${ZTC_BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/samples/passes/build.sh" "$build/lib/cmake/Ztc" "$work"
model=$root/tests/golden/grouped/model.onnx

"$bin/ztc" compile "$model" --batch=2 --seq=16 --load-pass-plugin="$work/LayerCosts.so" -o "$work/plan.bin" >"$work/compile.txt"
grep -q '@microstep' "$work/compile.txt"
grep -Eq 'layer 1 +[0-9]+ FLOPs +[0-9]+ bytes' "$work/compile.txt"

"$bin/ztc" compile "$model" --batch=2 --seq=16 --to=backward -o "$work/step.mlir"
"$bin/ztc-opt" --load-pass-plugin="$work/LayerCosts.so" --pass-pipeline='builtin.module(layer-costs)' "$work/step.mlir" >"$work/opt.txt"
diff <(grep -A3 '@microstep' "$work/compile.txt" | grep FLOPs) <(grep -A3 '^@microstep' "$work/opt.txt" | grep FLOPs)

if "$bin/ztc" compile "$model" --load-pass-plugin="$work/none.so" -o "$work/none.bin" 2>"$work/error.txt"; then exit 1; fi
grep -q "cannot load the pass plugin" "$work/error.txt"
cat "$work/compile.txt"
