#!/usr/bin/env bash
# Random graphs by the whole compiler against the interpreter: tests/long/random-graphs.sh [FIRST [COUNT]]
cd "$(dirname "$0")/../.." || exit 1
ZTC_RANDOM_GRAPHS="${1:-1000}:${2:-300}" exec "${ZTC_BIN:-build/bin}/ztc-compiler-tests" --gtest_filter='RandomGraph.*' --gtest_brief=1
