#!/usr/bin/env bash
# A kind of step is a message, an op, a file of runtime/Format/Steps and a function of each device; nothing else lists the kinds.
set -euo pipefail
cd "$(dirname "$0")/../.."
status=0
fail() {
  echo "$*"
  status=1
}
kinds=$(sed -n '/oneof kind {/,/}/p' runtime/Format/plan.proto | grep -o '[A-Z][A-Za-z0-9]* [a-z0-9_]* = [0-9]*;')
[ -n "$kinds" ] || fail "plan.proto has no kinds of steps"
while read -r message field _; do
  grep -q "define$message()" "runtime/Format/Steps/$message.cpp" || fail "runtime/Format/Steps/$message.cpp does not define $message"
  grep -q "Plan_Step<\"$field\"" compiler/Dialect/Plan/PlanSteps.td || fail "PlanSteps.td has no plan.$field"
  grep -q "register${message}Step(DialectRegistry" "compiler/Conversion/Steps/$message.cpp" || fail "compiler/Conversion/Steps/$message.cpp does not register $message"
  grep -rq "prepareHost$message(const HostPrepare" runtime/Device/host || fail "runtime/Device/host has no prepareHost$message"
  grep -rq "prepareCuda$message(const CudaPrepare" runtime/Device/cuda || fail "runtime/Device/cuda has no prepareCuda$message"
done <<<"$kinds"
# A new kind of step is six files and their tests: these kinds are known to no seventh.
while read -r message field; do
  files=$(grep -rlE "\bplan::$message\b|\b(mutable|has)_$field\(\)|[. >(]$field\(\)|\bplan_ir::${message}Op\b|\bPlan_${message}Op\b|\bdefine$message\b|\bregister${message}Step\b|\bprepare(Host|Cuda)$message\b|\bmessage $message " \
    --include=*.cpp --include=*.h --include=*.td --include=*.proto --include=*.py --include=*.cmake compiler runtime passes frontends | sort)
  expected="compiler/Conversion/Steps/$message.cpp compiler/Dialect/Plan/PlanSteps.td runtime/Device/cuda/ runtime/Device/host/ runtime/Format/Steps/$message.cpp runtime/Format/plan.proto"
  [ "$(sed 's|\(runtime/Device/[a-z]*/\).*|\1|' <<<"$files" | tr '\n' ' ')" = "$expected " ] || fail "$message is known to other files than its six:" $files
done <<'KINDS'
Gather gather
ScatterAdd scatter_add
Copy copy
Narrow narrow
Transfer transfer
LinearCrossEntropy linear_cross_entropy
KINDS
# A list of cases by kind belongs to a definition.
if grep -rnE 'case (plan::)?Step::k[A-Z][A-Za-z]*:' --include=*.cpp --include=*.h runtime compiler passes; then
  fail "the kinds of steps are listed there too: ask definitionOf(step), or give StepDefinition a function"
fi
exit $status
