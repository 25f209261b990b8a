#!/usr/bin/env bash
# What only a GPU can tell, section by section. Runs in the folder that tests/gpu/pack.sh packed, on a machine with an NVIDIA driver, cuBLASLt and
# NCCL; needs bash, coreutils, grep, sed, awk and tar.
#   ./day1.sh SECTION...      of alive right fast why ranks adapters fp8 savings experts hybrid, or all: in this order
# Each section has its time limit, so has each program in it, and leaves one file, results/DATE-SECTION.tar.gz.
# ZTC_STAND_INS=FOLDER runs it over the stand-ins of tests/standin, to test the scripts themselves.
set -u
cd "$(dirname "$0")" || exit 1
root=$PWD
export LD_LIBRARY_PATH=$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
order="alive right fast why ranks adapters fp8 savings experts hybrid"
declare -A limits=([alive]=420 [right]=580 [fast]=590 [why]=560 [ranks]=300 [adapters]=590 [fp8]=590 [savings]=590 [experts]=590 [hybrid]=590)

if [ "${1:-}" = --in-section ]; then # what the time limit is for
  section=$2 results=$3
  . ./lib.sh
  . "./sections/$section.sh"
  finish
fi

[ $# -gt 0 ] || { echo "usage: day1.sh SECTION...: of $order, or all" >&2; exit 2; }
[ "$*" = all ] && set -- $order
for section in "$@"; do
  [ -n "${limits[$section]:-}" ] || { echo "day1.sh: there is no section '$section'; sections are $order" >&2; exit 2; }
done
status=0
for section in "$@"; do
  name=$(date -u +%Y-%m-%dT%H%M%SZ)-$section
  results=$root/results/$name
  mkdir -p "$results" || exit 1
  timeout -k 10 "${limits[$section]}" "$BASH" ./day1.sh --in-section "$section" "$results"
  ended=$?
  [ $ended = 124 ] || [ $ended = 137 ] && echo "FAIL $section: not done after ${limits[$section]} s" | tee -a "$results/summary.txt"
  [ $ended = 0 ] || status=1
  tar -C "$root/results" -czf "$root/results/$name.tar.gz" "$name"
  echo "results/$name.tar.gz"
  [ "$section" = alive ] && [ $ended = 3 ] && exit 1 # there is no GPU to go on with
done
exit $status
