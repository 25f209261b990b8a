#!/usr/bin/env bash
# 500 steps on real text with optimizer states in 8 bits and without masters: the losses end within 1 % of fp32's. Needs build/bin and Debian's fortunes; some ten
# minutes on one core.
exec python3 "$(dirname "$0")/small_states.py" "$@"
