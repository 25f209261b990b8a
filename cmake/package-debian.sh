#!/usr/bin/env bash
# Makes build/packages/ztc-run_*.deb and ztc_*.deb from what is built.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build --target ztc ztc-opt ztc-run ztc-reduce ztc-lsp-server ztc-simt ztc-standin-cuda ztc-standin-cublaslt ztc-standin-nccl ztc-standin-nvml >/dev/null
rm -rf build/packages
(cd build && cpack >packages.log) || { tail -30 build/packages.log; exit 1; }
rm -rf build/packages/_CPack_Packages
ls build/packages/*.deb
