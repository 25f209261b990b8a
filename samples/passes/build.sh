#!/usr/bin/env bash
# Builds the sample plugins, outside of ztc's own build.
#   samples/passes/build.sh [PACKAGE [OUTPUT_FOLDER]]      PACKAGE: the folder of ZtcConfig.cmake; default: that of build/
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
package=${1:-$root/build/lib/cmake/Ztc}
output=${2:-$root/build/samples-passes}
cmake -S "$here" -B "$output" -G Ninja -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_C_COMPILER=clang-22 -DCMAKE_BUILD_TYPE=Release -DZtc_DIR="$package" >/dev/null
cmake --build "$output" >/dev/null
echo "$output/LayerCosts.so" "$output/KernelCounts.so"
