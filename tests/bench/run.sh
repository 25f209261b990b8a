#!/usr/bin/env bash
# ztc beside PyTorch (eager and compiled) on the same models, batches and threads, interleaved. Needs about 6 GB for PyTorch, and a quiet
# machine for figures worth keeping.
#   tests/bench/run.sh [--bf16] [rounds] [model...]       models: llama-mini stories15m stories110m (all three where none is named)
# --bf16: bf16 beside PyTorch's two ways to train in bf16; on a processor without instructions for bf16 PyTorch takes minutes a step.
# ZTC_BIN: ztc's programs (build/bin); ZTC_TORCH_PYTHON: a Python that has torch and transformers (else a virtual environment is made).
set -euo pipefail
cd "$(dirname "$0")/../.."
precision=fp32
if [ "${1:-}" = --bf16 ]; then
  precision=bf16
  shift
fi
export ZTC_BIN=${ZTC_BIN:-build/bin} CUDA_VISIBLE_DEVICES=
out=build/bench
mkdir -p "$out"
python=${ZTC_TORCH_PYTHON:-$out/venv/bin/python}
if [ ! -x "$python" ]; then
  python3 -m venv "$out/venv"
  "$out/venv/bin/pip" install -q torch transformers onnx onnxscript
fi
exec python3 tests/bench/compare.py --python "$python" --out "$out" --precision "$precision" --rounds "${1:-3}" "${@:2}"
