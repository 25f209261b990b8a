#!/usr/bin/env bash
# Unpacks NVIDIA's disassembler once per machine, into ${ZTC_CACHE:-~/.cache/ztc}/nvdisasm-VERSION, from its PyPI wheel: the gates on
# the machine code of GPU kernels (tests/unit/compiler/MachineCodeGates.cpp) read it. A toolkit may lack it.
set -euo pipefail
version=13.5.37
sha256=d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once nvdisasm "$version" "fetching nvdisasm $version (once, 5 MB)"
fetch_wheel "$sha256" "nvidia-cuda-nvdisasm==$version"
python3 - "$wheel" "$prefix/bin" <<'END'
import os, sys, zipfile
os.makedirs(sys.argv[2])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in wheel.namelist():
        if name.endswith(("/bin/nvdisasm", "/License.txt")):
            with open(os.path.join(sys.argv[2], os.path.basename(name)), "wb") as target:
                target.write(wheel.read(name))
os.chmod(os.path.join(sys.argv[2], "nvdisasm"), 0o755)
END
end_once
