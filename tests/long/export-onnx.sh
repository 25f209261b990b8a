#!/usr/bin/env bash
# A trained model back in its ONNX file: onnxruntime computes the loss that ztc-run reports. Needs onnxruntime and numpy: python3's, or a virtual
# environment of its own in build/.
#   tests/long/export-onnx.sh [MODEL.onnx...]: the goldens by default, and the exports of ZTC_FIXTURES
set -euo pipefail
cd "$(dirname "$0")/../.."
python=python3 venv=build/onnxruntime-venv
if ! python3 -c 'import numpy, onnxruntime' 2>/dev/null; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q onnxruntime numpy
    touch "$venv/complete"
  fi
  python=$venv/bin/python
fi
exec "$python" tests/long/export_onnx.py "$@"
