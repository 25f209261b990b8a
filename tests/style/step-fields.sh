#!/usr/bin/env bash
# A step is defined once: a field of its record that no attribute sets, and a record without a message, stop the build by name.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/lib/llvm-22/bin/llvm-tblgen --dump-json -I . -I /usr/lib/llvm-22/include compiler/Dialect/Plan/PlanOps.td -o "$work/plan.json"
compiler/Target/step_fields.py "$work/plan.json" runtime/Format/plan.proto "$work/StepFields.inc"
grep -q 'record.set_row_bytes(value)' "$work/StepFields.inc"

# expect TEXT: the script refuses $work/plan.proto with these words.
expect() {
  if compiler/Target/step_fields.py "$work/plan.json" "$work/plan.proto" "$work/none.inc" 2>"$work/error.txt"; then
    echo "accepted: $1" && exit 1
  fi
  grep -q "$1" "$work/error.txt"
}
sed 's/^message Copy {/message Copy { uint64 forgotten = 9;/' runtime/Format/plan.proto >"$work/plan.proto"
expect "field forgotten of plan.proto's Copy is set by no attribute of plan.copy"
sed 's/^message Fill {/message Filled {/' runtime/Format/plan.proto >"$work/plan.proto"
expect "plan.proto has no message Fill"
