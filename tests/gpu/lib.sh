#!/usr/bin/env bash
# What the sections share: verdicts, runs with a time limit, and how far two runs are from each other. Sourced by day1.sh, which sets $root and $results.
failures=0 leftOut=0
[ -e "$root/results/overlap" ] && export ZTC_CUDA_PDL=0 # section alive found that nothing runs with it
models=$(for folder in plans/*/; do basename "$folder"; done | grep -vxE 'bench|parity|adapters|fp8|savings|experts|hybrid')
first=${models%%$'\n'*}

say() { echo "$*" | tee -a "$results/summary.txt"; }
verdict() { # NAME STATUS [DETAIL]
  if [ "$2" = 0 ]; then
    say "ok   $1${3:+: $3}"
  else
    [ "$2" = 124 ] && set -- "$1" 124 "${3:+$3; }it ran out of its time"
    say "FAIL $1${3:+: $3}"
    failures=$((failures + 1))
  fi
}
leave() { say "left out: $*"; leftOut=$((leftOut + 1)); }
finish() {
  say "$section: $failures failures, $leftOut left out"
  [ $failures = 0 ]
  exit
}
limited() { # SECONDS COMMAND...; ZTC_DAY1_SECONDS says less
  local seconds=$1
  shift
  [ "${ZTC_DAY1_SECONDS:-$seconds}" -lt "$seconds" ] && seconds=$ZTC_DAY1_SECONDS
  timeout -k 5 "$seconds" "$@"
}

# What a JSON log says of a key, a line each; of a run that failed, why.
values() { grep -o "\"$2\":[^,}]*" "$1" 2> /dev/null | sed 's/.*://'; } # LOG KEY
ways() { # LOG: milliseconds of each way to compute attention, where they were measured
  grep -o '"attention_ms":{\("[^"]*":{[^}]*},\?\)*}' "$1" 2> /dev/null | sed 's/"attention_ms"://; s/[{}"]/ /g'
}
reason() { grep -h 'error:' "$1" 2> /dev/null | tail -n 1; }

train() { # SECONDS LOG FOLDER PLAN OPTIONS...: the data and further options lie beside the plan, where it has any
  local seconds=$1 log=$2 folder=$3 plan=$4
  shift 4
  rm -f "$log"
  (cd "$folder" && limited "$seconds" "$root/bin/ztc-run" "$plan" $([ -e data.safetensors ] && echo --data=data.safetensors --no-save) \
    --log-json="$log" --overwrite $(cat options 2> /dev/null) "$@") > "${log%.jsonl}.txt" 2>&1
}

# Whether two logs' losses and norms are within limits, relative: of the first step, and of the others; prints the largest difference of each.
compare() { # LOG LOG FIRST OTHERS
  local key at=0
  for log in "$1" "$2"; do
    at=$((at + 1))
    for key in loss grad_norm; do values "$log" $key | awk '{ print NR, $1 }'; done > "$results/.figures-$at"
  done
  awk -v first="$3" -v others="$4" '
    NR == FNR { step[FNR] = $1; value[FNR] = $2; count = FNR; next }
    { if ($1 != step[FNR] || $2 == "null" || value[FNR] == "null") { bad = 1; next }
      d = $2 - value[FNR]; d = d < 0 ? -d : d; m = value[FNR] < 0 ? -value[FNR] : value[FNR]; d = m > 0 ? d / m : d
      if ($1 == 1) { if (d > atFirst) atFirst = d } else if (d > later) later = d
      compared = FNR }
    END { if (bad || !compared || compared != count) { print "the logs cannot be compared"; exit 1 }
          printf "first step %g of %g, later ones %g of %g\n", atFirst, first, later, others
          exit !(atFirst <= first && later <= others) }' "$results/.figures-1" "$results/.figures-2"
  local status=$?
  rm -f "$results"/.figures-?
  return $status
}
allocatesWhatItPredicts() {
  local predicted
  predicted=$(values "$1" predicted_bytes)
  [ -n "$predicted" ] && [ "$predicted" = "$(values "$1" allocated_bytes)" ]
}
# What the cost model said of a step when the plan was packed, and what it took; bytes of it are held by allocatesWhatItPredicts.
predictedAndMeasured() { # LOG FOLDER PLAN
  echo "$(values "$1" predicted_bytes) bytes; a step: $(cat "plans/$2/$3.seconds" 2> /dev/null || echo nothing) s predicted," \
    "$(values "$1" step_ms | tail -n +4 | median | awk '{ print $1 / 1000 }') s measured"
}
median() { sort -n | awk '{ value[NR] = $1 } END { print NR ? value[int((NR + 1) / 2)] : "nan" }'; }
# Trains a plan, holds its bytes, prints seconds; then the lines of a profile that PATTERN finds.
measurePlan() { # FOLDER PLAN PATTERN OPTIONS...
  local folder=$1 plan=$2 pattern=$3 log=$results/$2.jsonl status
  shift 3
  train 120 "$log" "plans/$folder" "$plan.bin" --gpus=1 --init=normal:0.02 --steps=12 --accumulate=4 "$@"
  status=$?
  if [ $status != 0 ] && grep -q 'bytes more than the' "${log%.jsonl}.txt"; then
    leave "$plan: $(reason "${log%.jsonl}.txt")"
    return
  fi
  verdict "$plan" $status "$(rate "$log") tokens/s, $(predictedAndMeasured "$log" "$folder" "$plan"), reserve $(grep '^reserve' "${log%.jsonl}.txt") $(reason "${log%.jsonl}.txt")"
  allocatesWhatItPredicts "$log"
  verdict "$plan: allocated is predicted" $?
  train 120 "$results/$plan-profile.jsonl" "plans/$folder" "$plan.bin" --gpus=1 --init=normal:0.02 --steps=4 --accumulate=4 --profile "$@"
  verdict "$plan: its profile" $? "$(grep -m 3 -iE "$pattern" "$results/$plan-profile.txt" | tr -s ' ' | tr '\n' ';')"
}
rate() { values "$1" tokens_per_second | tail -n +6 | median; } # LOG: without the first steps
conformance() { # SECONDS FILE FILTER
  ZTC_TEST_DEVICE=cuda ZTC_SERVICE_KERNELS=$root/service-kernels.plan limited "$1" bin/ztc-runtime-tests --gtest_brief=1 --gtest_filter="$3" > "$2" 2>&1
}
# Loss, norm and every gradient of a plan's first step beside PyTorch's; CUDNN is what ZTC_CUDNN says.
besidePyTorch() { # NAME CUDNN PLAN CONFIG OPTIONS...
  local name=$1 cudnn=$2
  shift 2
  ZTC_CUDNN=$cudnn limited 120 python3 parity.py "$@" --device="${ZTC_PARITY_DEVICE:-cuda}" > "$results/parity-$name-cudnn$cudnn.txt" 2> "$results/parity-$name-cudnn$cudnn.err"
  verdict "parity: $name, ZTC_CUDNN=$cudnn" $? "$(tail -n 1 "$results/parity-$name-cudnn$cudnn.txt")"
}
# Of the plans in a folder: every gradient of those in FOLDER/parity beside PyTorch's; tokens a second of the others, predicted beside measured, PyTorch's beside them.
measureShapes() { # FOLDER PATTERN
  local folder=$1 plan
  [ -n "$(plansIn "$folder")" ] || leave "$folder: packed without --bench"
  if [ -z "$(plansIn "$folder/parity")" ] || noTorch; then
    leave "parity of $folder: python3 has no torch and transformers that see a GPU, or they were packed without --bench"
  else
    for plan in $(plansIn "$folder/parity"); do
      besidePyTorch "$plan" 1 "plans/$folder/parity/$plan.bin" "plans/$folder/parity/${plan%-*}.json" $(< "plans/$folder/parity/$plan.options")
    done
  fi
  for plan in $(plansIn "$folder"); do
    measurePlan "$folder" "$plan" "$2"
    if hasTorch && [ -e "plans/$folder/$plan.json" ]; then
      limited 150 python3 torch_gpu.py "plans/$folder/$plan.json" $(< "plans/$folder/$plan.options") 2> "$results/torch.err" | tee -a "$results/summary.txt"
    fi
  done
}
noTorch() { ! hasTorch && [ -z "${ZTC_PARITY_DEVICE:-}" ]; }
hasTorch() { python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2> /dev/null; }
plansIn() { ls plans/"$1"/*.bin 2> /dev/null | sed 's|.*/||; s|\.bin$||'; } # FOLDER
