#!/usr/bin/env bash
# Unpacks what of cuDNN plans attention, once per machine, into ${ZTC_CACHE:-~/.cache/ztc}/cudnn-VERSION, from its PyPI
# wheel. Only tests/e2e/cudnn-graphs.py needs it, which asks it without a GPU; 9.25 is the first whose deterministic
# gradient has a workspace that is linear in the sequence.
set -euo pipefail
version=9.28.0.42
sha256=7358353c75bb121a58e5f7712fe6d588883dc1df8ba00f428237e44e97543c4d
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once cudnn "$version" "fetching cuDNN $version (once, 517 MB)"
fetch_wheel "$sha256" --no-cache-dir "nvidia-cudnn-cu13==$version"
python3 - "$wheel" "$prefix/lib" <<'END'
import os, sys, zipfile
wanted = [f"libcudnn{part}.so.9" for part in
          ("", "_graph", "_heuristic", "_engines_precompiled", "_engines_runtime_compiled", "_engines_tensor_ir")]
os.makedirs(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if os.path.basename(name) in wanted or name.endswith("License.txt"):
            with wheel.open(name) as source, open(os.path.join(sys.argv[2], os.path.basename(name)), "wb") as target:
                while piece := source.read(1 << 24):
                    target.write(piece)
END
end_once
