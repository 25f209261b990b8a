#!/usr/bin/env bash
# The reference that is generated from the definitions of dialects and passes is current.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/compiler/make-reference.sh" "$work"
cd "$work"
status=0
while read -r file; do
  diff -u "$root/$file" "$file" | head -20 || true
  cmp -s "$root/$file" "$file" || { echo "$file is not current: run compiler/make-reference.sh"; status=1; }
done < <(find . -name '*.md' | cut -c3-)
exit $status
