#!/usr/bin/env bash
# Each numbered clause of a verify pass is broken by a test at least once.
set -euo pipefail
cd "$(dirname "$0")/../.."
clauses=$(grep -rhoE '"[A-Z]+[0-9]+("|: )' passes/Verify/*.cpp | grep -oE '[A-Z]+[0-9]+' | sort -u)
[ -n "$clauses" ] || { echo "passes/Verify has no clauses"; exit 1; }
status=0
for clause in $clauses; do
  grep -rqE "(expected-error|CHECK)[^\"]*\{\{[^}]*\b$clause\b|\b$clause: " tests/lit tests/unit/compiler || { echo "no test breaks clause $clause"; status=1; }
done
exit $status
