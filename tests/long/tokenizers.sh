#!/usr/bin/env bash
# A million strings of many scripts, or as many as given, through tokenizers of fifteen families: the tokens and texts of the tokenizers library; then megabytes
# per second beside it. tests/long/tokenizers.sh [COUNT [FAMILY...]]. Needs build/bin and the packages of samples/data/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build --target tokenize >/dev/null
python=$(samples/data/prepare_chat.py --setup) || exit 77
count=${1:-1000000}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" tests/e2e/text/compare.py "$count" "$work" "$@"
"$python" tests/e2e/text/speed.py "$work" "$@"
