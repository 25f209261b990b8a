#!/usr/bin/env python3
"""Tokens and texts of ztc beside those of the tokenizers library, for tokenizers of fifteen families: a few thousand strings here, as many as wanted in
tests/long/tokenizers.sh. Runs with the packages that samples/data/prepare_chat.py installs for itself."""
import subprocess
import sys

from support import ROOT, check, finish, scratch

setup = subprocess.run([sys.executable, str(ROOT / "samples/data/prepare_chat.py"), "--setup"], capture_output=True, text=True)
if setup.returncode != 0:
    print("left out: the packages of samples/data/requirements.txt cannot be had here")
    sys.exit(77)
with scratch() as work:
    done = subprocess.run([setup.stdout.strip(), ROOT / "tests/e2e/text/compare.py", "2000", work], capture_output=True, text=True)
    print(done.stdout)
    check("tokens and texts are those of the tokenizers library", done.returncode == 0 and done.stdout.count(", 0 differ") == 15, done.stderr[-2000:])
finish()
