#!/usr/bin/env bash
# A trained model back in its ONNX file: onnxruntime computes the loss that ztc-run reports. Needs onnxruntime and numpy (a virtual environment of its
# own in build/, or the one whose python ZTC_ONNXRUNTIME_PYTHON names).
#   tests/long/export-onnx.sh [MODEL.onnx...]: the goldens by default, and the exports of ZTC_FIXTURES
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/onnxruntime-venv
if [ -z "${ZTC_ONNXRUNTIME_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q onnxruntime numpy
    touch "$venv/complete"
  fi
  ZTC_ONNXRUNTIME_PYTHON=$venv/bin/python
fi
exec "$ZTC_ONNXRUNTIME_PYTHON" tests/long/export_onnx.py "$@"
