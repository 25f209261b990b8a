#!/usr/bin/env python3
"""samples/data/prepare_chat.py as it is called; then the cases of chat/cases.py, with the packages that the script installs for itself."""
import json
import os
import subprocess
import sys

from support import ROOT, check, finish, scratch

SCRIPT = ROOT / "samples/data/prepare_chat.py"
setup = subprocess.run([sys.executable, str(SCRIPT), "--setup"], capture_output=True, text=True)
if setup.returncode != 0:
    print("left out: the packages of samples/data/requirements.txt cannot be had here")
    sys.exit(77)
python = setup.stdout.strip()
with scratch() as work:
    (work / "rows.jsonl").write_text(json.dumps({"text": "Hello"}) + "\n")
    command = [sys.executable, str(SCRIPT), str(work / "rows.jsonl"), "--tokenizer", str(work), "-o", str(work / "out.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    check("it finds its packages; a folder without a tokenizer is one message", done.returncode == 1 and "cannot load it" in done.stderr
          and "Traceback" not in done.stderr, done.stderr)
    done = subprocess.run([sys.executable, str(SCRIPT), str(work / "rows.jsonl")], capture_output=True, text=True)
    check("what is missing on the command line is said, with status 2", done.returncode == 2 and "--tokenizer" in done.stderr, done.stderr)
cases = subprocess.run([python, str(ROOT / "tests/e2e/chat/cases.py")])
check("the cases", cases.returncode == 0)
finish()
