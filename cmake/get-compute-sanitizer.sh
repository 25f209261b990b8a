#!/usr/bin/env bash
# Unpacks NVIDIA's compute-sanitizer once per machine, into ${ZTC_CACHE:-~/.cache/ztc}/compute-sanitizer-VERSION, from its PyPI wheel:
# tests/gpu/pack.sh puts it into its package, for machines that have a driver and no toolkit.
set -euo pipefail
version=13.5.25
sha256=5df2efbdf605a812c6bac07600dd3d801cb9d334a30376113a6f1e2bc0679f54
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once compute-sanitizer "$version" "fetching compute-sanitizer $version (once, 18 MB)"
fetch_wheel "$sha256" "nvidia-cuda-sanitizer-api==$version"
python3 - "$wheel" "$prefix" <<'END'
import os, sys, zipfile
os.makedirs(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        folder, file = os.path.split(name)
        # The programs, and what others' licences ask to be handed on; no headers, no 32-bit programs.
        place = (file if folder.endswith("/compute-sanitizer") or name.endswith("/licenses/License.txt")
                 else "CopyrightAndLicenses.html" if name.endswith("/CopyrightAndLicenses/index.html") else None)
        if place:
            with open(os.path.join(sys.argv[2], place), "wb") as target:
                target.write(wheel.read(name))
            os.chmod(os.path.join(sys.argv[2], place), 0o644 if place.endswith((".txt", ".html")) else 0o755)
END
end_once
