#!/usr/bin/env bash
# The Debian packages in roots that hold nothing else: ztc-run in one with the C and C++ runtime alone (no LLVM, no shell) trains and exports; ztc in one with
# the packages that it depends on compiles, and builds the sample plugin from its CMake package.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/cmake/package-debian.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -x "$root"/build/packages/ztc-run_*.deb "$work/run"
dpkg-deb -x "$root"/build/packages/ztc_*.deb "$work/compiler"
dpkg-deb -x "$root"/build/packages/ztc-run_*.deb "$work/compiler"
dpkg-deb -f "$root"/build/packages/ztc_*.deb Depends | grep -q 'libmlir-22'

# The compiler, with the machine's libraries; nothing of the build folder.
model=$root/tests/golden/grouped
"$work/compiler/usr/bin/ztc" compile "$model/model.onnx" --batch=2 --seq=16 -o "$work/plan.bin"
if ldd "$work/compiler/usr/bin/ztc" | grep -q "$root"; then echo "ztc reads the build folder"; exit 1; fi
cp -r "$root/samples/passes" "$work/sample"
"$work/sample/build.sh" "$work/compiler/usr/lib/cmake/Ztc" "$work/sample/out"
"$work/compiler/usr/bin/ztc" compile "$model/model.onnx" --batch=2 --seq=16 --load-pass-plugin="$work/sample/out/LayerCosts.so" -o "$work/again.bin" | grep 'layer 1'

"$work/compiler/usr/bin/ztc" compile "$model/model.onnx" --batch=2 --seq=16 --patterns="$work/sample/PlainSwiglu.pdll" --remarks=apply-patterns -o "$work/again.bin" 2>&1 |
  grep 'rewrites by'

# The program alone, with what it is linked with.
for library in $(ldd "$work/run/usr/bin/ztc-run" | grep -oE '/[^ :]+\.so[^ :]*' | sort -u); do
  mkdir -p "$work/run$(dirname "$library")"
  cp -L "$library" "$work/run$library"
done
if ls "$work"/run/usr/lib | grep -qi llvm; then echo "LLVM is in the root of ztc-run"; exit 1; fi
cp "$work/plan.bin" "$model/data.safetensors" "$work/run/"
mkdir -p "$work/run$model" "$work/run/tmp"
cp "$model"/model.onnx* "$work/run$model/" # weights are read where the compiler found them
unshare -r chroot "$work/run" /usr/bin/ztc-run /plan.bin --device=cpu --data=/data.safetensors --steps=4 --export=/exported
ls "$work/run/exported/model.safetensors"
echo "passed"
