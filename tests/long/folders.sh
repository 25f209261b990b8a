#!/usr/bin/env bash
# Hugging Face folders of every model type that ztc builds, made by transformers here and now, against PyTorch; and every key of their configurations.
# Needs PyPI and 6 GB of disk; an hour. FAMILIES="gemma3 mixtral" takes a part of it.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/families-venv
if [ -z "${ZTC_TORCH_PYTHON:-}" ]; then
  if [ ! -e "$venv/complete" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q -r tests/golden/requirements.txt
    touch "$venv/complete"
  fi
  ZTC_TORCH_PYTHON=$venv/bin/python
fi
# shellcheck disable=SC2086
"$ZTC_TORCH_PYTHON" tests/long/folders.py ${FAMILIES:-}
[ -n "${FAMILIES:-}" ] || exec "$ZTC_TORCH_PYTHON" tests/long/folder_keys.py
