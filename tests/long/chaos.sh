#!/usr/bin/env bash
# A run through chaos: kills, stops, a full disk, a cut network, slow ranks. Needs build/bin only.
#   tests/long/chaos.sh [ROUNDS [SEED]]
exec python3 "$(dirname "$0")/../e2e/chaos.py" "${1:-1000}" "${2:-1}"
