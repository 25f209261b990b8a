#!/usr/bin/env bash
# A model of 110 million parameters in training stays within its arena and 160 MiB. Needs build/bin, 4 GB of memory and of disk.
exec python3 "$(dirname "$0")/memory.py" "$@"
