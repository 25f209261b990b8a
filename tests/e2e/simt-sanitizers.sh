#!/usr/bin/env bash
# The SIMT engine tells sanitizers about its fibers: a correct kernel is clean under both, and ThreadSanitizer reports the
# kernel that leaves a barrier out.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cxx=${CXX:-clang++-22}
command -v "$cxx" >/dev/null || { echo "no $cxx"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -g -O1 "-I$root" -DFMT_HEADER_ONLY=1)
for sanitizer in thread address; do
  # The engine itself is not instrumented for threads: see tests/standin/CMakeLists.txt.
  engine=("-fsanitize=$sanitizer")
  [ $sanitizer = thread ] && engine=(-DZTC_SIMT_TSAN)
  for source in SimtAccesses SimtBlock SimtFibers SimtIntrinsics; do
    "$cxx" "${flags[@]}" "${engine[@]}" -c "$root/tests/standin/$source.cpp" -o "$work/$source.o"
  done
  if ! "$cxx" "${flags[@]}" -fsanitize=$sanitizer "$root/tests/standin/kernels/Neighbours.cpp" "$work"/*.o -o "$work/$sanitizer" -pthread; then
    echo "$cxx cannot build with -fsanitize=$sanitizer"
    exit 77
  fi
  "$work/$sanitizer"
  echo "ok   clean under -fsanitize=$sanitizer"
done
if "$work/thread" race >"$work/report" 2>&1; then
  echo "FAIL the kernel without a barrier passes"
  exit 1
fi
grep -q "data race" "$work/report" && grep -q "neighbours(" "$work/report" || { cat "$work/report"; exit 1; }
echo "ok   the missing barrier is reported"
