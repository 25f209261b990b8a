#!/usr/bin/env bash
# Exports of some eighty families against PyTorch: makes the models (an hour or two) and trains each export. Needs PyPI and 6 GB of disk.
# FAMILIES="gemma2 phi" EXPORTS=plain,mask take a part of it.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/families-venv
if [ ! -e "$venv/complete" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q -r tests/golden/requirements.txt
  touch "$venv/complete"
fi
exports=${EXPORTS:-plain,dynamic,mask,torchscript,labels,cache,eager,noopt,op23,op24}
# shellcheck disable=SC2086
"$venv/bin/python" tests/golden/families.py --out=build/families --exports="$exports" ${FAMILIES:-}
# shellcheck disable=SC2086
exec "$venv/bin/python" tests/long/families.py build/families ${FAMILIES:-} --exports="$exports" --full
