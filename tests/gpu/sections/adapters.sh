#!/usr/bin/env bash
# Low-rank adapters, on weights as they are and in four and eight bits: tokens a second, predicted beside measured bytes and seconds, and how fast NF4 is read.
[ -n "$(plansIn adapters)" ] || leave "adapters: packed without --bench"
for plan in $(plansIn adapters); do
  measurePlan adapters "$plan" dequantize
done
