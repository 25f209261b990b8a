#!/usr/bin/env bash
# The gates on the machine code of all kernels for GPUs (tests/unit/compiler/GeneratedCodeTests.cpp) over every model, precision and
# variant, and attention over heads of all sizes: registers and spills where the CUDA toolkit is. A quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
ZTC_GENERATED_CODE=all exec "${ZTC_BIN:-build/bin}/ztc-compiler-tests" --gtest_brief=1 --gtest_filter='GeneratedCode.*'
