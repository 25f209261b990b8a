#!/usr/bin/env bash
# Packs what tests/gpu/day1.sh needs on a machine with a GPU: programs, plans, data, and what the same plans do
# without one. Needs a build folder with the compiler; the result needs neither LLVM nor a network.
#   tests/gpu/pack.sh [--build=BUILD] [--models=NAMES] [--bench] [--targets=NAMES] [--no-sanitizer] OUT.tar.xz
# The plans share most of their kernels: xz packs them into a fourth of what gzip (OUT.tar.gz) makes of them.
# NAMES: folders of tests/golden, all of them where it is left out.
# --bench adds plans of real size, for GPUs of --targets alone (sm_90a), from the config.json of the models that ZTC_FIXTURES names.
# NVIDIA's compute-sanitizer, 12 MB with its licences, comes along as sanitizer/ unless --no-sanitizer is given or it cannot be fetched.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build models="grouped tied head-norms" bench=0 targets=sm_80,sm_90a,sm_100a,sm_120a sanitizer=1 out= large=
for argument in "$@"; do
  case $argument in
    --build=*) build=${argument#*=} ;;
    --models=*) models=${argument#*=} ;;
    --bench) bench=1 ;;
    --targets=*) targets=${argument#*=} large=$targets ;;
    --no-sanitizer) sanitizer=0 ;;
    -*) echo "pack.sh: unknown option $argument" >&2; exit 2 ;;
    *) out=$argument ;;
  esac
done
[ -n "$out" ] || { echo "usage: tests/gpu/pack.sh [--build=BUILD] [--models=NAMES] [--bench] [--targets=NAMES] [--no-sanitizer] OUT.tar.xz" >&2; exit 2; }
most=$((50 << 20))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
folder=$stage/ztc-gpu
mkdir -p "$folder"/{bin,lib,plans,expected}

for program in ztc-run ztc-runtime-tests gpu-kernels; do
  strip -o "$folder/bin/$program" "$build/bin/$program"
done
cp "$build/lib/libztc-simt.so" "$folder/lib/"
if [ -e "$build/lib/libztc-cudnn.so" ]; then
  strip -o "$folder/lib/libztc-cudnn.so" "$build/lib/libztc-cudnn.so"
else
  echo "pack.sh: this build has no libztc-cudnn.so: attention will be our own kernels'" >&2
fi
cp -r "$root"/tests/gpu/{day1.sh,lib.sh,sections,parity.py,torch_gpu.py,README.md} "$folder/"

if [ $sanitizer = 1 ]; then
  fetched=
  "$root/cmake/get-compute-sanitizer.sh" >&2 && fetched=$(ls -d "${ZTC_CACHE:-$HOME/.cache/ztc}"/compute-sanitizer-*/ | tail -n 1)
  if [ -n "$fetched" ]; then
    cp -r "$fetched" "$folder/sanitizer"
  else
    echo "pack.sh: compute-sanitizer cannot be fetched: day1.sh will want the machine's own" >&2
  fi
fi

"$build/bin/ztc-service-kernels" "$folder/service-kernels.plan" ${targets//,/ }

compile() { # TARGETS MODEL OUT OPTIONS...: the folder of the plan has its weights
  local for=$1 model=$2 plan=$3
  shift 3
  "$build/bin/ztc" compile "$model" --target="$for" -o "$plan" "$@" > "$stage/compile.log" 2>&1 || { cat "$stage/compile.log" >&2; exit 1; }
}
for model in $models; do
  mkdir -p "$folder/plans/$model"
  cp "$root/tests/golden/$model"/{model.onnx*,data.safetensors} "$folder/plans/$model/"
  for precision in fp32 bf16 fp16; do
    compile host,simt,$targets "$folder/plans/$model/model.onnx" "$folder/plans/$model/$precision.bin" --zero=3 --batch=2 --seq=16 --precision=$precision
    (cd "$folder/plans/$model" && "$build/bin/ztc-run" $precision.bin --device=cpu --ranks=1 --threads=1 --data=data.safetensors --steps=10 \
      --accumulate=2 --no-save --log-json="$folder/expected/$model-$precision.jsonl" > "$stage/run.log" 2>&1) || { cat "$stage/run.log" >&2; exit 1; }
  done
  ZTC_STAND_INS=$build/lib/standin "$build/bin/gpu-kernels" "$folder/plans/$model/fp32.bin" > "$folder/expected/$model-kernels.txt" 2> "$stage/run.log" ||
    { cat "$stage/run.log" >&2; exit 1; }
done
# The same, and what the cost model says of a step beside it, in seconds.
compileAndPredict() { # MODEL OUT OPTIONS...
  local model=$1 plan=$2
  shift 2
  compile "$large" "$model" "$plan" "$@"
  "$build/bin/ztc" memory "$model" --target="$large" --json "$@" > "$stage/memory.json" 2> "$stage/compile.log" || { cat "$stage/compile.log" >&2; exit 1; }
  grep -o -m 1 '"cost_model_seconds": *[0-9.e+-]*' "$stage/memory.json" | head -n 1 | sed 's/.*: *//' > "${plan%.bin}.seconds"
}
# A model's config.json with another number of layers, in a folder of its own.
cut() { # MODEL LAYERS
  local made=$stage/$1-$2layers
  mkdir -p "$made"
  sed "s/\"num_hidden_layers\": *[0-9]*/\"num_hidden_layers\": $2/" "$ZTC_FIXTURES/$1/config.json" > "$made/config.json"
  echo "$made"
}
# Plans whose gradients are held beside PyTorch's, and one for speed, of a folder with a config.json.
beside() { # SECTION NAME MODEL BATCH SEQ: a section of its own, or . for `right`
  mkdir -p "$folder/plans/$1/parity"
  cp "$3/config.json" "$folder/plans/$1/parity/$2.json"
  for precision in fp32 bf16; do
    compile "$large" "$3" "$folder/plans/$1/parity/$2-$precision.bin" --batch="$4" --seq="$5" --precision=$precision --gpus=1
    echo "--batch=$4 --seq=$5 --precision=$precision" > "$folder/plans/$1/parity/$2-$precision.options"
  done
}
paced() { # SECTION NAME MODEL BATCH SEQ OPTIONS...
  local section=$1 name=$2 model=$3 batch=$4 seq=$5
  shift 5
  cp "$model/config.json" "$folder/plans/$section/$name.json"
  compileAndPredict "$model" "$folder/plans/$section/$name.bin" --batch="$batch" --seq="$seq" --precision=bf16 --gpus=1 --mem=78GiB --accumulate=4 "$@"
  echo "--batch=$batch --seq=$seq --accumulate=4" > "$folder/plans/$section/$name.options"
}
# Qwen3-30B-A3B's published shape with other numbers of layers and experts.
mixture() { # LAYERS EXPERTS
  local made=$stage/qwen3-moe-$1layers-$2experts
  mkdir -p "$made"
  cat > "$made/config.json" << END
{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": $1,
 "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": $2,
 "num_experts_per_tok": 8, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "hidden_act": "silu", "initializer_range": 0.02,
 "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "max_position_embeddings": 40960, "attention_bias": false, "tie_word_embeddings": false}
END
  echo "$made"
}
# Qwen 3.5 0.8B's published shape with four layers, one of them of attention.
deltaNet() {
  local made=$stage/qwen3-5-4layers
  mkdir -p "$made"
  cat > "$made/config.json" << END
{"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4,
 "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
 "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "hidden_act": "silu",
 "initializer_range": 0.02, "rms_norm_eps": 1e-06, "max_position_embeddings": 262144, "attention_bias": false, "tie_word_embeddings": true,
 "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10], "partial_rotary_factor": 0.25, "rope_theta": 10000000.0, "rope_type": "default"}}
END
  echo "$made"
}
# Mamba 130M's published shape, and Mamba 2's, with other numbers of layers.
stateSpace() { # TYPE LAYERS
  local made=$stage/$1-$2layers more
  mkdir -p "$made"
  case $1 in
    mamba) more='"state_size": 16, "intermediate_size": 1536, "time_step_rank": 48' ;;
    mamba2) more='"state_size": 128, "num_heads": 24, "head_dim": 64, "n_groups": 1, "time_step_rank": 48' ;;
  esac
  cat > "$made/config.json" << END
{"architectures": ["${1^}ForCausalLM"], "model_type": "$1", "vocab_size": 50280, "hidden_size": 768, "num_hidden_layers": $2, "expand": 2, "conv_kernel": 4,
 "hidden_act": "silu", "initializer_range": 0.1, "layer_norm_epsilon": 1e-05, "residual_in_fp32": true, "use_bias": false, "use_conv_bias": true,
 "tie_word_embeddings": true, $more}
END
  echo "$made"
}
if [ $bench = 1 ]; then
  [ -n "${ZTC_FIXTURES:-}" ] || { echo "pack.sh: --bench needs ZTC_FIXTURES" >&2; exit 1; }
  large=${large:-sm_90a}
  mkdir -p "$folder"/plans/{bench,parity,adapters,fp8,savings,experts,hybrid}
  common="--precision=bf16 --gpus=1"
  # 8B is whole for 141 GB, and cut to 12 layers for 80 GB.
  for entry in llama-3.2-1b:16:4:2048:78 llama-3-8b:12:1:8192:78 llama-3-8b:32:1:8192:138; do
    IFS=: read -r name layers batch seq memory <<< "$entry"
    model=$(cut "$name" "$layers")
    cp "$model/config.json" "$folder/plans/bench/$name-$layers-layers.json"
    plan=$folder/plans/bench/$name-$layers-layers
    compile "$large" "$model" "$plan.bin" --batch=$batch --seq=$seq $common --mem=${memory}GiB --accumulate=8
    # By kinds of work, as a profile counts them.
    "$build/bin/ztc" inspect "$plan.bin" --time --accumulate=8 --gpu=$([ $memory -gt 80 ] && echo H200-141GB || echo H100-80GB) > "$plan.time"
    [[ $large =~ sm_8[06] ]] || # these have no products in fp8
      compileAndPredict "$model" "$folder/plans/fp8/$name-$layers-layers.bin" --batch=$batch --seq=$seq --precision=fp8 --gpus=1 --mem=${memory}GiB --accumulate=4
  done
  # Real heads, head lengths and rows; two layers, so that PyTorch in fp32 fits beside.
  for entry in llama-3.2-1b:1:2048 llama-3-8b:1:8192; do
    IFS=: read -r name batch seq <<< "$entry"
    beside . "$name" "$(cut "$name" 2)" "$batch" "$seq"
  done
  for quantize in "" nf4 int8; do
    compileAndPredict "$ZTC_FIXTURES/llama-3-8b" "$folder/plans/adapters/llama-3-8b-lora${quantize:+-$quantize}.bin" --batch=1 --seq=2048 $common --mem=78GiB \
      --lora=r=16,alpha=32,targets=all-linear ${quantize:+--quantize=$quantize} --accumulate=4
  done
  # A mixture of experts: two layers with half of the experts beside PyTorch, whose gradients are written to files three times; four layers for speed.
  beside experts qwen3-moe "$(mixture 2 64)" 1 2048
  paced experts qwen3-moe-4-layers "$(mixture 4 128)" 4 4096 --optimizer-state=bf16
  # Linear attention and state spaces. PyTorch's Mamba goes from position to position: short rows beside it.
  beside hybrid qwen3-5 "$(deltaNet)" 1 1024
  paced hybrid qwen3-5-4-layers "$(deltaNet)" 8 4096
  for type in mamba mamba2; do
    beside hybrid $type "$(stateSpace $type 4)" 1 256
    paced hybrid $type-130m "$(stateSpace $type 24)" 8 2048
  done
  one=$(cut llama-3.2-1b 16)
  compileAndPredict "$one" "$folder/plans/savings/1b-int8-states.bin" --batch=4 --seq=2048 $common --mem=78GiB --optimizer-state=int8 --accumulate=4
  compileAndPredict "$one" "$folder/plans/savings/1b-packed.bin" --batch=4 --seq=2048 $common --mem=78GiB --pack --accumulate=4
  compileAndPredict "$one" "$folder/plans/savings/1b-host-memory.bin" --batch=4 --seq=2048 $common --mem=40GiB --host-mem=64GiB --accumulate=4
fi
XZ_OPT=--lzma2=preset=6,dict=96MiB tar -C "$stage" -caf "$out" ztc-gpu
bytes=$(stat -c %s "$out")
if [ "$bytes" -gt $most ]; then
  echo "pack.sh: $out has $bytes bytes, at most $most are wanted" >&2
  exit 1
fi
echo "$out: $bytes bytes"
