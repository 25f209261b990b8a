#!/usr/bin/env bash
# All ranks on this machine, from the next whole checkpoint on if there is one: start it again after whatever happened.
#   samples/launch/one-node.sh PLAN DATA RANKS FOLDER
set -euo pipefail
plan=$1 data=$2 ranks=$3 folder=$4
resume=()
compgen -G "$folder/step-*" >/dev/null && resume=(--resume "$folder")
exec ztc-run "$plan" --device=cpu --ranks "$ranks" --data "$data" --steps 2000 --save "$folder" --save-every 100 --keep 2 "${resume[@]}"
