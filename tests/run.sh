#!/usr/bin/env bash
# Builds ztc and runs its tests; does all its own set-up on a fresh Debian 12.
#   tests/run.sh          the tests (ctest's summary comes last)
#   tests/run.sh --all    also the long ones; those that need PyTorch make a virtual environment of their own
# Fixtures from real exporters are used where ZTC_FIXTURES names their folder; otherwise the tests that need them are named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
all=0
[ "${1:-}" = --all ] && all=1
cmake/setup.sh
# What tests alone need is fetched while the compiler builds.
(
  cmake/get-cudnn.sh || echo "setup: without cuDNN; a test asks the CUDA toolkit's, or says that there is none"
  cmake/get-nvdisasm.sh || echo "setup: without nvdisasm; the gates on GPU machine code take the CUDA toolkit's, or say that there is none"
  cmake/get-compute-sanitizer.sh || echo "setup: without compute-sanitizer; the package for a GPU machine is tested without it"
  samples/data/prepare_chat.py --setup >/dev/null || echo "setup: without transformers' tokenizers; the test of samples/data is left out"
  cmake/get-onnx-node-tests.sh || echo "setup: without ONNX's node tests; onnx-node-tests is left out"
) &
fetches=$!
# Neighbours compiled together: a third of the time where everything is built once. Who edits configures it himself: cmake --preset default.
[ -f build/build.ninja ] || cmake --preset default -DCMAKE_UNITY_BUILD=ON
cmake --build build
wait "$fetches"
if [ -z "${ZTC_FIXTURES:-}" ] && [ -d ../shared/fixtures/open ]; then
  ZTC_FIXTURES=$(cd ../shared/fixtures/open && pwd)
fi
if [ -n "${ZTC_FIXTURES:-}" ]; then
  export ZTC_FIXTURES
else
  echo "left out (ZTC_FIXTURES is not set): the tests of unit-compiler, lit and e2e that read exported models"
fi
if [ $all = 1 ]; then
  tests/long/run.sh
else
  echo "left out (tests/run.sh --all runs them):"
  for script in tests/long/*.sh; do [ "$script" = tests/long/run.sh ] || echo "  $(basename "$script" .sh)"; done
fi
ctest --test-dir build -j "$(nproc)" --output-on-failure --timeout 600
