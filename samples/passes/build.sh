#!/usr/bin/env bash
# Builds the sample plugin outside ztc's own build: headers from the source tree, symbols from libZtc.so at load time.
#   samples/passes/build.sh [BUILD_FOLDER] [OUTPUT.so]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${1:-$root/build}
output=${2:-$build/LayerCosts.so}
clang++-22 -std=c++20 -O1 -fPIC -shared -fno-exceptions -Wno-unused-parameter -I"$root" -I"$build" -I"$(llvm-config-22 --includedir)" \
  "$here/LayerCosts.cpp" -o "$output" -L"$build/lib" -lZtc -L"$(llvm-config-22 --libdir)" -lMLIR -lLLVM -Wl,-rpath,"$build/lib"
echo "$output"
