#!/usr/bin/env python3
"""tests/gpu: its script finds what it should over the stand-ins; the package starts in a root that holds nothing but what its programs
name, and says there that there is no GPU."""
import array
import os
import pathlib
import re
import shutil
import subprocess

from support import BIN, ROOT, check, finish, run, scratch, write_safetensors

TOOLS = "bash awk basename cat cut date diff dirname grep mkdir mv rm sed sort tail tee tr uname wc".split()


def libraries(file, folder):
    """What ldd names, with the package's own libraries first."""
    said = subprocess.run(["ldd", file], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(folder)}).stdout
    check(f"{file.name}: all its libraries are there", "not found" not in said, said if "not found" in said else "")
    return [pathlib.Path(p) for p in re.findall(r"(/\S+) \(0x", said)]


with scratch() as work:
    # The script, over the stand-ins, with the toy plan in place of all others and of the suite's program something that says ok.
    build, folder = BIN.parent, work / "script"
    toy = folder / "plans/toy"
    for part in ("bin", "lib", "plans/toy", "expected"):
        (folder / part).mkdir(parents=True)
    for program in ("ztc-run", "gpu-kernels"):
        (folder / "bin" / program).symlink_to(BIN / program)
    (folder / "bin/ztc-runtime-tests").symlink_to(shutil.which("true"))
    shutil.copy(ROOT / "tests/gpu/run.sh", folder)
    tokens = array.array("q", ((i * 7 + 3) % 250 for i in range(24 * 8)))
    write_safetensors(toy / "data.safetensors", {"input_ids": ([24, 8], tokens), "labels": ([24, 8], tokens)})
    for precision in ("fp32", "bf16", "fp16"):
        run("toy-gpu-plan", build / "lib/libztc-standin-toy.so", toy / f"{precision}.bin")
    (toy / "options").write_text("--init=normal:0.02")
    environment = {**os.environ, "ZTC_STAND_INS": str(build / "lib/standin"), "ZTC_STAND_IN_GPUS": "1"}
    for precision in ("fp32", "bf16", "fp16"):
        run("ztc-run", toy / f"{precision}.bin", f"--data={toy / 'data.safetensors'}", "--steps=10", "--no-save", "--gpus=1", "--accumulate=2", "--init=normal:0.02",
            f"--log-json={folder / f'expected/toy-{precision}.jsonl'}", env=environment)
    (folder / "expected/toy-kernels.txt").write_text(run("gpu-kernels", toy / "fp32.bin", env=environment).stdout)

    def script():
        done = subprocess.run([folder / "run.sh", "--no-sanitizer"], capture_output=True, text=True, timeout=120, env=environment)
        return done.returncode, done.stdout + done.stderr

    status, said = script()
    check("the script: all is well over the stand-ins", status == 0 and "0 failures, 1 left out" in said, said[-1500:])
    check("the script: two ranks share the one GPU", "ok   two ranks on one GPU, fp32" in said, said[-1500:])
    for name, text in (("toy-kernels.txt", "microstep toy_microstep: 0\n"), ("toy-bf16.jsonl", "nothing")):
        (folder / "expected" / name).write_text(text)
    status, said = script()
    failed = [line for line in said.splitlines() if line.startswith("FAIL")]
    check("the script: other bits and other losses are failures", status == 1 and [line.split(":")[0] for line in failed] == ["FAIL toy", "FAIL toy bf16"], said[-1500:])

    if not all((BIN / name).exists() for name in ("ztc", "ztc-runtime-tests", "ztc-service-kernels")):
        print("skip the package: a build folder with the compiler and the tests is needed")
        finish()
    packed = subprocess.run([ROOT / "tests/gpu/pack.sh", f"--build={BIN.parent}", "--models=tied", work / "ztc-gpu.tar.gz"],
                            capture_output=True, text=True, timeout=900)
    check("packs", packed.returncode == 0, packed.stdout[-200:] + packed.stderr[-1500:])
    if packed.returncode:
        finish()
    root = work / "root"
    (root / "tmp").mkdir(parents=True)
    shutil.unpack_archive(work / "ztc-gpu.tar.gz", root)
    folder = root / "ztc-gpu"
    programs = sorted((folder / "bin").iterdir())
    sanitizer = folder / "sanitizer/compute-sanitizer"
    if sanitizer.exists():
        libraries(sanitizer, folder / "sanitizer")
        said = subprocess.run([sanitizer, "--version"], capture_output=True, text=True).stdout
        check("compute-sanitizer starts, its licences beside it", "Compute Sanitizer" in said and (sanitizer.parent / "License.txt").exists(), said)
    else:
        print("skip compute-sanitizer: it was not fetched")
    check("the programs are there", [p.name for p in programs] == ["gpu-kernels", "ztc-run", "ztc-runtime-tests"], programs)
    needed = {lib for p in programs for lib in libraries(p, folder / "lib")}
    check("nothing of LLVM or CUDA is needed", not [n for n in needed if re.search("LLVM|MLIR|Ztc|cuda|nccl|onnx", n.name)], needed)
    if os.geteuid():
        print("skip: chroot needs root")
        finish()
    for tool in TOOLS:
        found = pathlib.Path(shutil.which(tool)).resolve()
        needed |= set(libraries(found, folder / "lib"))
        (root / "bin").mkdir(exist_ok=True)
        shutil.copy(found, root / "bin" / tool)
    (root / "usr").mkdir()
    (root / "usr/bin").symlink_to("../bin")
    for file in needed:
        if folder in file.parents:
            continue
        place = root / str(file).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.resolve(), place)
    (root / "dev").mkdir()
    (root / "dev/null").touch()
    done = subprocess.run([shutil.which("chroot", path=os.environ["PATH"] + ":/usr/sbin"), root, "/bin/bash", "/ztc-gpu/run.sh"], capture_output=True, text=True, timeout=120,
                          env={"PATH": "/bin"})
    check("there, it ends with status 1", done.returncode == 1, (done.returncode, done.stdout[-800:], done.stderr[-800:]))
    check("it says that there is no GPU", "no GPU can be used: the NVIDIA driver cannot be loaded" in done.stderr and done.stderr.count("error:") == 1,
          done.stderr[-800:])
finish()
