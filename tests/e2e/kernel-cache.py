#!/usr/bin/env python3
"""Kernels' machine code that is kept between compilations: the same plans, byte for byte, as without; what is damaged is made again; two compilations at once."""
import contextlib
import os
import pathlib
import shutil

from support import BIN, GOLDEN, Running, check, finish, run, scratch

model = GOLDEN / "grouped" / "model.onnx"
TARGETS = ["x86-64-v3,x86-64-v4", "simt"] + (["sm_90a"] if shutil.which("ptxas") or pathlib.Path("/usr/local/cuda/bin/ptxas").exists() else [])

with scratch() as work:
    cache = work / "kernels"

    def compiled(name, *options, expect=0, **environment):
        plan = work / f"{name}.bin"
        said = run("ztc", "compile", model, "--batch=2", "--seq=16", *options, "-o", plan, expect=expect, env={**os.environ, **environment})
        return plan.read_bytes() if plan.exists() else b"", said.stderr

    def entries():
        return {path: path.stat().st_mtime_ns for path in cache.glob("llvmcache-*")}

    for target in TARGETS:
        shutil.rmtree(cache, ignore_errors=True)
        plain, _ = compiled("plain", f"--target={target}", "--kernel-cache=none")
        first, _ = compiled("first", f"--target={target}", f"--kernel-cache={cache}")
        made = entries()
        again, _ = compiled("again", f"--target={target}", f"--kernel-cache={cache}")
        check(f"{target}: the same plan without, when it is made and when it is taken", plain and plain == first == again)
        check(f"{target}: the second compilation makes nothing", made and entries() == made, len(made))
        for number, path in enumerate(sorted(made)):  # cut short, changed, empty
            text = path.read_bytes()
            path.write_bytes([text[:len(text) // 2], text[:-1] + bytes([text[-1] ^ 1]), b""][number % 3])
        mended, _ = compiled("mended", f"--target={target}", f"--kernel-cache={cache}")
        check(f"{target}: what is damaged is made again", mended == plain and all(path.stat().st_size > 32 for path in made))

    # A dump shows kernels whole, whether or not they are known.
    shutil.rmtree(cache)
    dumps = {}
    for name in ("unknown", "known"):
        plan, _ = compiled(name, "--target=x86-64-v3,simt", f"--kernel-cache={cache}", f"--dump-phases={work / name}")
        lowered = next((work / name).glob("*.5-lowered.mlir")).read_text()
        dumps[name] = plan, lowered.split("\n", 1)[1]
    check("a dump of lowered kernels shows their bodies, known or not", dumps["known"] == dumps["unknown"] and "llvm.return" in dumps["known"][1])

    # The same kernels for ztc check, which makes a whole plan and keeps none.
    shutil.rmtree(cache)
    run("ztc", "check", model, "--batch=2", "--seq=16", env={**os.environ, "ZTC_KERNEL_CACHE": str(cache)})
    made = entries()
    compiled("checked", "--target=host", f"--kernel-cache={cache}")
    check("ztc check leaves its kernels for ztc compile", made and entries() == made, len(made))

    # What the plan makes of its own, and what is left to make after one at another stage: kernels that both have are made once.
    shutil.rmtree(cache)
    plain, _ = compiled("plain", "--target=x86-64-v3", f"--kernel-cache={cache}")
    own = set(path.name for path in entries())
    shutil.rmtree(cache)
    compiled("zero", "--target=x86-64-v3", "--zero=2", f"--kernel-cache={cache}")
    others = entries()
    mixed, _ = compiled("mixed", "--target=x86-64-v3", f"--kernel-cache={cache}")
    made = {path.name for path in entries()} - {path.name for path in others}
    check("a plan at another stage gives the same bytes", mixed == plain)
    check("and takes the kernels that are the same", made < own and len(made) < len(own) / 2 and all(entries()[path] == time for path, time in others.items()), (len(made), len(own)))

    shutil.rmtree(cache)
    with contextlib.ExitStack() as ends:
        both = [ends.enter_context(Running([BIN / "ztc", "compile", model, "--batch=2", "--seq=16", "--target=x86-64-v3", f"--kernel-cache={cache}", "-o", work / f"{n}.bin"]))
                for n in range(2)]
        check("two at once end well", [one.finish(240) for one in both] == [0, 0], [one.err for one in both])
    check("with the same plan", (work / "0.bin").read_bytes() == (work / "1.bin").read_bytes() == (work / "plain.bin").read_bytes())

    home = work / "home"
    compiled("default", "--target=x86-64-v3", ZTC_KERNEL_CACHE="", XDG_CACHE_HOME=str(home))
    check("the default is below XDG_CACHE_HOME", any((home / "ztc/kernels").glob("llvmcache-*")))
    check("only its owner may read it", (home / "ztc/kernels").stat().st_mode & 0o077 == 0)
    plan, _ = compiled("no-home", "--target=x86-64-v3", ZTC_KERNEL_CACHE="", XDG_CACHE_HOME="/proc/none")
    check("where that cannot be written to a plan is made without", plan == (work / "plain.bin").read_bytes())
    for words, environment in ((["--kernel-cache=/proc/none"], {}), ([], {"ZTC_KERNEL_CACHE": "/proc/none"})):
        _, said = compiled("refused", "--target=x86-64-v3", *words, expect=2, **environment)
        check("a folder that was named and cannot be made is an error", "/proc/none" in said and len(said.splitlines()) == 1 and not (work / "refused.bin").exists(), said)
finish()
