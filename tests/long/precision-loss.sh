#!/usr/bin/env bash
# 500 steps on real text in fp32, bf16, with states in bf16 and int8, without masters, and fp16: the losses end within 1 % of fp32's. Needs build/bin and Debian's
# fortunes; some twenty-five minutes on two cores.
exec python3 "$(dirname "$0")/precision_loss.py" "$@"
