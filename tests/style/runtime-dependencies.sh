#!/usr/bin/env bash
# Promise 3: `ldd ztc-run` shows the C and C++ runtime only.
set -euo pipefail
program=${ZTC_BIN:-build/bin}/ztc-run
[ -x "$program" ] || { echo "no $program"; exit 1; }
extra=$(ldd "$program" | awk '{print $1}' | grep -vE '^(linux-vdso|libstdc\+\+|libm|libgcc_s|libc|libpthread|libdl|librt|/lib64/ld-linux)' || true)
if [ -n "$extra" ]; then
  echo "ztc-run needs more than the C and C++ runtime:"
  echo "$extra"
  exit 1
fi
ldd "$program"
