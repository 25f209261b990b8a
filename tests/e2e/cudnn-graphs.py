#!/usr/bin/env python3
"""A real cuDNN, asked without a GPU, has an engine for the attention of our models on H100 and H200, forward and gradient, in bf16 and fp16, within the
workspace that plans reserve. What is asked: GPUs described by gpus/*.json, graphs finalized, an engine chosen and its workspace; not asked, because that
takes a driver: that its code loads and computes."""
import os
import pathlib
import re
import subprocess
import sys

from support import BIN, check, finish, scratch

HERE = pathlib.Path(__file__).parent
PROPERTIES = [HERE / "gpus" / f"{name}.json" for name in ("h100", "h200")]
CACHE = pathlib.Path(os.environ.get("ZTC_CACHE", pathlib.Path.home() / ".cache/ztc"))
TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))


def find(what, *candidates):
    for candidate in candidates:
        if candidate.exists():
            return candidate
    print(f"cannot run here: {what}")
    sys.exit(77)


def ask(work, library):
    """The answers of one cuDNN. It opens libcuda.so.1: the toolkit's stub for linking is enough to be asked."""
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{work}:{library.parent}:{TOOLKIT / 'lib64'}"}
    return subprocess.run([BIN / "cudnn-graphs", library, *PROPERTIES], env=environment, capture_output=True, text=True, timeout=200)


find("this build has no libztc-cudnn.so", BIN.parent / "lib/libztc-cudnn.so")
stub = find("no stub of libcuda (CUDA toolkit)", TOOLKIT / "lib64/stubs/libcuda.so")
packaged = sorted(CACHE.glob("cudnn-9.*/lib/libcudnn.so.9"))
library = find("no libcudnn: neither cmake/get-cudnn.sh's nor the CUDA toolkit's", *packaged[-1:], TOOLKIT / "lib64/libcudnn.so.9")
with scratch() as work:
    (work / "libcuda.so.1").symlink_to(stub)
    done = ask(work, library)
    print(done.stdout)
    version = int((re.search(r"cuDNN (\d+)", done.stdout) or [0, "0"])[1])
    check(f"cuDNN {version} answers", version > 0 and done.returncode < 3, done.stderr[-2000:])
    if version >= 92500:
        check("every form is accepted", done.returncode == 0, re.findall(r".*(?:REFUSED|TOO MUCH).*", done.stdout))
    else:
        # Its deterministic gradient keeps the cotangents of all scores: own kernels run instead.
        print(f"cuDNN {version} has no deterministic gradient within the reserve: the gradients are not checked (cmake/get-cudnn.sh)")
        check("every forward form is accepted", done.returncode in (0, 2), re.findall(r".*forward.*(?:REFUSED|TOO MUCH).*", done.stdout))
finish()
