#!/usr/bin/env bash
# 500 steps on real text in fp32, bf16, bf16 with bf16 states, without masters, and fp16: the losses end within 1 % of fp32's. Needs build/bin and Debian's
# fortunes; some fifteen minutes on two cores.
exec python3 "$(dirname "$0")/precision_loss.py" "$@"
