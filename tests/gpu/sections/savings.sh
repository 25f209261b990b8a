#!/usr/bin/env bash
# What saves memory or padding: optimizer states in 8 bits, several documents in a row, states in the host's memory. Predicted beside measured bytes and seconds.
[ -n "$(plansIn savings)" ] || leave "savings: packed without --bench"
for plan in $(plansIn savings); do
  measurePlan savings "$plan" 'adamw|attention|move'
done
