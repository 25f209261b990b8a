#!/usr/bin/env bash
# TensorBoard's own reader opens the event files of --tensorboard. Needs its package (a virtual environment of its own in build/).
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/tensorboard-venv
if [ -z "${ZTC_TENSORBOARD_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q tensorboard
    touch "$venv/complete"
  fi
  ZTC_TENSORBOARD_PYTHON=$venv/bin/python
fi
exec "$ZTC_TENSORBOARD_PYTHON" tests/long/tensorboard_reader.py
