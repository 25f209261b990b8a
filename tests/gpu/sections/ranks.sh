#!/usr/bin/env bash
# Two ranks, on one GPU where there is no second: the losses of one; a rank that is lost; save, resume, export.
gpus=1
command -v nvidia-smi > /dev/null && gpus=$(nvidia-smi -L | wc -l)
export ZTC_SHARE_GPUS=$([ "$gpus" -gt 1 ] && echo 0 || echo 1) NCCL_DEBUG=${NCCL_DEBUG:-WARN}
where=$([ "$gpus" -gt 1 ] && echo "two GPUs" || echo "one GPU")
for precision in fp32 bf16; do
  first_limit=1e-3 later=0.25
  [ $precision = fp32 ] && first_limit=1e-4 later=1e-4
  train 45 "$results/one-$precision.jsonl" "plans/$first" $precision.bin --gpus=1 --accumulate=2 --steps=4
  for graphs in 0 1; do
    log=$results/two-$precision-graphs$graphs.jsonl
    ZTC_CUDA_GRAPHS=$graphs train 60 "$log" "plans/$first" $precision.bin --gpus=2 --steps=4 --timeout=20
    verdict "two ranks on $where, $precision, graphs $graphs" $? "$(reason "${log%.jsonl}.txt")"
    far=$(compare "$results/one-$precision.jsonl" "$log" $first_limit $later)
    verdict "two ranks, $precision, graphs $graphs: the losses of one" $? "$far"
    allocatesWhatItPredicts "$log"
    verdict "two ranks, $precision, graphs $graphs: allocated is predicted" $?
  done
done

# kill -9 of a rank once the step is a CUDA graph; started as torchrun does, so that no launcher ends the other.
log=$results/lost.jsonl
port=$((20000 + RANDOM % 10000))
rank() { # NUMBER
  (cd "plans/$first" && RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=$port \
    exec timeout -k 5 90 "$root/bin/ztc-run" fp32.bin $([ -e data.safetensors ] && echo --data=data.safetensors --no-save) $(cat options 2> /dev/null) \
    --device=cuda --steps=1000000 --timeout=20 --log-json="$log" --overwrite) > "$results/lost-$1.txt" 2>&1
}
rm -f "$log"
rank 0 & zero=$!
rank 1 & one=$!
for _ in $(seq 300); do
  [ "$(values "$log" step | wc -l)" -ge 6 ] && break
  sleep 0.2
done
victim=$(cat /proc/"$one"/task/"$one"/children 2> /dev/null)
for _ in 1 2 3; do # the subshell's timeout, its program
  next=$(cat /proc/${victim%% *}/task/${victim%% *}/children 2> /dev/null)
  [ -n "$next" ] && victim=$next
done
begin=$(date +%s.%N)
kill -9 ${victim:-$one} 2> /dev/null
wait $zero
status=$?
seconds=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
wait $one 2> /dev/null
[ $status = 1 ] && grep -q 'rank 1' "$results/lost-0.txt"
verdict "a rank that is killed ends the other" $? "after $seconds s: $(reason "$results/lost-0.txt")"

# A run that is saved after two steps and resumed is the run without interruption, bit for bit; its export is a Hugging Face folder.
if [ -e "plans/$first/data.safetensors" ]; then
  folder=$results/resume
  mkdir -p "$folder"
  common="--data=$root/plans/$first/data.safetensors --gpus=1 --steps=4 --overwrite"
  go() { limited 45 bin/ztc-run "plans/$first/bf16.bin" $common $(cat "plans/$first/options" 2> /dev/null) "$@" >> "$folder/said.txt" 2>&1; }
  go --no-save --log-json="$folder/whole.jsonl" && go --save="$folder/saved" --save-every=2 --keep=8 --stop-after=2 --log-json="$folder/part.jsonl"
  go --save="$folder/saved" --resume="$folder/saved" --log-json="$folder/rest.jsonl" --export="$folder/export"
  [ "$(values "$folder/whole.jsonl" loss | tail -n 2)" = "$(values "$folder/rest.jsonl" loss | tail -n 2)" ] && [ -n "$(values "$folder/rest.jsonl" loss)" ]
  verdict "saved and resumed: the bits of one run" $? "$(reason "$folder/said.txt")"
  ls "$folder"/export/*.safetensors > /dev/null 2>&1
  verdict "exported" $?
  rm -rf "$folder/saved" "$folder/export"
else
  leave "save and resume: the plan has no data beside it"
fi
