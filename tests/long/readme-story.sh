#!/usr/bin/env bash
# The README's commands of "Fine-tune a Hugging Face model on chats", typed as they stand there, on a tiny model. Needs PyTorch and transformers (a virtual
# environment of its own in build/, some minutes and 1 GB the first time).
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/transformers-venv
if [ -z "${ZTC_TORCH_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 -r samples/data/requirements.txt
    touch "$venv/complete"
  fi
  ZTC_TORCH_PYTHON=$venv/bin/python
fi
exec "$ZTC_TORCH_PYTHON" tests/long/readme_story.py "$@"
