#!/usr/bin/env bash
# Adapters that ztc-run exports are loaded by PEFT, with the same loss. Needs PyTorch, transformers and PEFT (a virtual environment of its own in build/,
# some minutes and 1 GB the first time).
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/peft-venv
if [ -z "${ZTC_PEFT_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r tests/golden/requirements.txt
    touch "$venv/complete"
  fi
  ZTC_PEFT_PYTHON=$venv/bin/python
fi
exec "$ZTC_PEFT_PYTHON" tests/long/export_peft.py "$@"
