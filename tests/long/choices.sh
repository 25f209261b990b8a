#!/usr/bin/env bash
# --eval-choices beside lm-evaluation-harness: the same log-probabilities, acc and acc_norm, for tokenizers of three families. Needs build/bin, PyTorch and lm_eval (a
# virtual environment of its own in build/, some minutes the first time; ZTC_TORCH_PYTHON names another Python that has them).
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/choices-venv
if [ -z "${ZTC_TORCH_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q torch==2.15.0 accelerate lm_eval==0.4.13 -r samples/data/requirements.txt
    touch "$venv/complete"
  fi
  ZTC_TORCH_PYTHON=$venv/bin/python
fi
exec "$ZTC_TORCH_PYTHON" tests/long/choices.py "$@"
