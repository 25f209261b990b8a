#!/usr/bin/env bash
# Runs every long test of this folder; each says what it needs. The virtual environment is shared and kept in build/long-venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/long-venv
if [ ! -e "$venv/complete" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q numpy safetensors ml_dtypes onnx onnxruntime
  touch "$venv/complete"
fi
export PATH="$PWD/$venv/bin:$PATH" ZTC_BIN=${ZTC_BIN:-$PWD/build/bin}
failed=()
for script in tests/long/*.sh; do
  [ "$script" = tests/long/run.sh ] && continue
  echo "== $script"
  "$script" || { [ $? = 77 ] || failed+=("$script"); }
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
