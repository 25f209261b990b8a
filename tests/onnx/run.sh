#!/usr/bin/env bash
# Prints the share of ONNX's node tests that pass, and each failure: tests/onnx/run.sh [--only=TEXT] [--jobs=N]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/cmake/get-onnx-node-tests.sh" >&2 || exit 77 # no way to PyPI
build=${ZTC_BUILD:-$root/build}
exec "$build/bin/ztc-onnx-node-tests" "${ZTC_CACHE:-$HOME/.cache/ztc}/onnx-node-tests-1.22.0/node" "$root/tests/onnx/exceptions.txt" "$@"
