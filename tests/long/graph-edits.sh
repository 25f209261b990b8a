#!/usr/bin/env bash
# Nothing is built from config.json: a changed epsilon, a removed norm, a swapped rotary half in a copied ONNX file
# changes the loss as onnxruntime says it should. Needs onnx, onnxruntime and numpy (tests/long/run.sh installs them).
set -euo pipefail
cd "$(dirname "$0")"
exec python3 graph_edits.py
