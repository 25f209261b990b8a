#!/usr/bin/env bash
# Unpacks the headers of NVIDIA's cudnn-frontend once per machine, into ${ZTC_CACHE:-~/.cache/ztc}/cudnn-frontend-VERSION,
# from its PyPI wheel: runtime/Device/cuda/cudnn is built from them.
set -euo pipefail
version=1.32.0
sha256=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once cudnn-frontend "$version" "fetching cudnn-frontend $version (once, 12 MB)"
# One version of Python and one platform, whatever this machine has: only the headers are wanted.
fetch_wheel "$sha256" --python-version 3.11 --implementation cp \
  --platform manylinux_2_28_x86_64 "nvidia-cudnn-frontend==$version"
python3 - "$wheel" "$prefix" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [n for n in wheel.namelist() if n.startswith("include/") or "/licenses/" in n])
END
end_once
