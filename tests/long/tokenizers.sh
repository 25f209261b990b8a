#!/usr/bin/env bash
# A million strings of many scripts, or as many as given, through tokenizers of fifteen families: the tokens and texts of the tokenizers library; then megabytes
# per second beside it. tests/long/tokenizers.sh [--in=FOLDER] [COUNT [FAMILY...]]. It says after each 50,000 strings how far it is; with a FOLDER, what it found stays
# there, and the same command goes on from it. A million strings take some seven minutes for each family. Needs build/bin and the packages of
# samples/data/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=
if [[ ${1:-} == --in=* ]]; then
  work=${1#--in=}
  mkdir -p "$work"
  shift
fi
cmake --build build --target tokenize >/dev/null
python=$(samples/data/prepare_chat.py --setup) || exit 77
count=${1:-1000000}
shift || true
if [[ -z $work ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
"$python" tests/e2e/text/compare.py "$count" "$work" "$@"
"$python" tests/e2e/text/speed.py "$work" "$@"
