#!/usr/bin/env bash
# From a fresh clone on Debian 12 to a trained model: builds ztc, compiles a Llama that PyTorch exported, trains it on real text
# on this machine's CPU, evaluates it on text it has not seen, exports it for Hugging Face and lets it write a few lines.
# A second run starts training in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-800}
out=build/quickstart
say() { printf '\n\033[1m%s\033[0m\n' "== $*"; }

say "set-up: packages and the ONNX library"
cmake/setup.sh

say "building ztc (the first time takes some minutes)"
[ -f build/build.ninja ] || cmake --preset default -DCMAKE_UNITY_BUILD=ON >/dev/null # tests/run.sh says why
cmake --build build --target ztc ztc-run | tail -n 1
mkdir -p "$out"

# Debian's fortune cookies, the last tenth held out.
text=$out/fortunes.txt
find -L /usr/share/games/fortunes -maxdepth 1 -type f ! -name '*.dat' | sort | xargs cat >"$text"
size=$(wc -c <"$text")
head -c $((size * 9 / 10)) "$text" >"$out/train.txt"
tail -c $((size / 10)) "$text" >"$out/held-out.txt"

say "compiling samples/quickstart/model.onnx into $out/plan.bin"
build/bin/ztc compile samples/quickstart/model.onnx --batch=8 --seq=128 --precision=fp32 -o "$out/plan.bin"

say "training on $((size / 1000)) KB of text, $steps steps"
build/bin/ztc-run "$out/plan.bin" --device=cpu --data "$out/train.txt" --tokenizer=bytes --shuffle --steps "$steps" \
  --lr=2e-3 --warmup=40 --eval-data "$out/held-out.txt" --eval-every $((steps / 4)) \
  --export "$out/model" --hf-config samples/quickstart --log-json "$out/log.jsonl" --overwrite

say "the trained model writes"
build/bin/ztc-run "$out/plan.bin" --device=cpu --weights "$out/model" --generate 200 --prompt "The " \
  --temperature 0.7 --top-p 0.95 --seed 1
echo
say "done: $out/model loads with transformers.AutoModelForCausalLM.from_pretrained"
