#!/usr/bin/env bash
# Writes the reference of dialects and passes from their definitions: Ops.md beside each dialect's .td, Passes.md beside each Passes.td.
#   compiler/make-reference.sh [ROOT]      ROOT: where to write instead of the repository, for the test that they are current
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:-.}
tblgen=/usr/lib/llvm-22/bin/mlir-tblgen
includes=(-I . -I /usr/lib/llvm-22/include)
for pair in Graph:graph Dist:dist Plan:plan; do
  folder=compiler/Dialect/${pair%:*}
  mkdir -p "$output/$folder"
  "$tblgen" -gen-dialect-doc -dialect="${pair#*:}" "${includes[@]}" "$folder/${pair%:*}Ops.td" | sed 's/[[:space:]]*$//' >"$output/$folder/Ops.md"
done
for definitions in passes/*/Passes.td compiler/Conversion/Passes.td; do
  folder=$(dirname "$definitions")
  mkdir -p "$output/$folder"
  text=$("$tblgen" -gen-pass-doc "${includes[@]}" "$definitions")
  printf '%s\n# Passes of `%s`\n%s\n' "${text%%$'\n'*}" "$folder" "${text#*$'\n'}" | sed 's/[[:space:]]*$//' >"$output/$folder/Passes.md"
done
