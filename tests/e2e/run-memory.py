#!/usr/bin/env python3
"""Memory: allocated = predicted, no large allocation after the first step, resident memory that stays."""
import os
import pathlib
import re
import shutil
import subprocess

from support import BIN, GOLDEN, Running, check, compile_golden, finish, read_log, run, scratch, wait_until

# Counts allocations above 64 KiB from the moment that the log has its second line: the first step is done.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
static const size_t limit = 65536;
static long counting = 0, seen = 0;
static size_t largest = 0;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
static void note(size_t bytes) { if (counting && bytes > limit) { ++seen; if (bytes > largest) largest = bytes; } }
void *malloc(size_t n) { note(n); return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { note(n * m); return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { note(n); return __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { note(n); return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { note(n); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { note(n); *p = __libc_memalign(a, n); return *p ? 0 : 12; }
ssize_t write(int fd, const void *data, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  if (n > 9 && memcmp(data, "{\"step\":", 8) == 0) counting = 1;
  if (n > 8 && memmem(data, n, "\"step\": 99,", 11)) counting = 0;
  return real(fd, data, n);
}
__attribute__((destructor)) static void say(void) {
  const char *path = getenv("SHIM_OUT");
  FILE *f = path ? fopen(path, "w") : 0;
  if (f) { fprintf(f, "%ld %zu\n", seen, largest); fclose(f); }
}
"""


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


with scratch() as work:
    plan = compile_golden(work, "grouped")
    data = [f"--data={GOLDEN / 'grouped' / 'data.safetensors'}", "--device=cpu"]
    for m in (1, 2):
        run("ztc-run", plan, *data, "--steps=2", "--no-save", "--overwrite", f"--accumulate={m}", f"--log-json={work / 'log'}")
        head, _ = read_log(work / "log")
        check(f"M={m}: allocated = predicted = classes", head["allocated_bytes"] == head["predicted_bytes"] == sum(head["by_class"].values()), head["by_class"])

    compiler = shutil.which("cc") or shutil.which("clang-22")
    if not compiler:
        print("left out (no C compiler): allocations after the first step")
    else:
        (work / "shim.c").write_text(SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", work / "shim.so", work / "shim.c", "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(work / "shim.so"), "SHIM_OUT": str(work / "shim.txt")}
        for precision in ("fp32", "bf16", "fp16"):
            (work / precision).mkdir()
            narrow = compile_golden(work / precision, "grouped", f"--precision={precision}")
            run("ztc-run", narrow, *data, "--steps=100", f"--save={work / precision / 'ck'}", "--save-every=10", "--keep=1", f"--eval-data={GOLDEN / 'grouped' / 'data.safetensors'}",
                "--eval-every=7", "--accumulate=2", "--overwrite", f"--log-json={work / 'log'}", env=environment)
            seen, largest = (work / "shim.txt").read_text().split()
            check(f"{precision}: no allocation above 64 KiB after the first step", seen == "0", f"{seen} of up to {largest} bytes")

    # Resident memory between step 50 and step 150 and beyond, read from outside.
    log = work / "long"
    with Running([BIN / "ztc-run", plan, *data, "--steps=1000000", "--no-save", f"--log-json={log}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        def wait_for(step):
            seen = wait_until(lambda: child.process.poll() is not None or log.exists() and f'"step": {step},' in log.read_text(), 60)
            return resident(child.pid) if seen and child.process.poll() is None else None
        first, later = wait_for(50), wait_for(200)
        check("resident memory grows less than 1 MiB", first and later and later - first < 2**20, f"{first} {later}")
finish()
