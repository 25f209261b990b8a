#!/usr/bin/env bash
# e2e-gpu-package with the kernels of every family of GPUs that tests/gpu/pack.sh packs by itself; the test of every day has those of sm_90a.
set -euo pipefail
cd "$(dirname "$0")/../.."
ZTC_PACKAGE_TARGETS="" ZTC_BUILD=$PWD/build exec python3 tests/e2e/gpu-package.py
