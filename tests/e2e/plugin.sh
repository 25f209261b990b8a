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

# A hook within phase codegen sees the kernels of all targets; the dumps of the phase are what it saw, and each pass of the phase runs by itself.
"$bin/ztc" compile "$model" --batch=2 --seq=16 --target=x86-64-v3,simt --load-pass-plugin="$work/KernelCounts.so" --dump-phases="$work/dump" -o "$work/kernels.bin" >"$work/kernels.txt"
grep -Eq '^host +\S*rms_norm\S* +[0-9]+ arithmetic' "$work/kernels.txt"
grep -Eq '^gpu +gpu_attention_32\S* .* [1-9][0-9]* barriers' "$work/kernels.txt" || grep -Eq '^gpu +gpu_attention\S* .* [1-9][0-9]* barriers' "$work/kernels.txt"
grep -q 'kernel.func @rms_norm' "$work/dump/09-codegen.1-forms.mlir"
grep -q 'vector<16xf32>' "$work/dump/09-codegen.2-host.mlir"
grep -q 'nvvm.barrier0' "$work/dump/09-codegen.3-gpu.mlir"
grep -q 'math.exp' "$work/dump/09-codegen.3-gpu.mlir"
if grep -q 'math.exp' "$work/dump/09-codegen.4-expanded.mlir"; then exit 1; fi
grep -q 'llvm.func @' "$work/dump/09-codegen.5-lowered.mlir"
"$bin/ztc" compile "$model" --batch=2 --seq=16 --target=sm_90a --dump-phases="$work/gpu" -o "$work/gpu.bin"
if [ -e "$work/gpu/09-codegen.2-host.mlir" ]; then exit 1; fi
diff <(grep 'kernel.func' "$work/dump/09-codegen.1-forms.mlir") <(grep 'kernel.func' "$work/gpu/09-codegen.1-forms.mlir")
"$bin/ztc-opt" "$work/dump/08-assign.mlir" --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3,simt" --ztc-map-to-host --ztc-map-to-gpu -o "$work/mapped.mlir"
"$bin/ztc-opt" "$work/mapped.mlir" --load-pass-plugin="$work/KernelCounts.so" --pass-pipeline='builtin.module(kernel-counts)' | grep -E '^(host|gpu) ' >"$work/again.txt"
diff <(grep -E '^(host|gpu) ' "$work/kernels.txt") "$work/again.txt"
"$bin/ztc-opt" "$work/mapped.mlir" --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels=targets=x86-64-v3,simt --ztc-verify-codegen -o /dev/null

if "$bin/ztc" compile "$model" --load-pass-plugin="$work/none.so" -o "$work/none.bin" 2>"$work/error.txt"; then exit 1; fi
grep -q "cannot load the pass plugin" "$work/error.txt"
cat "$work/compile.txt"
