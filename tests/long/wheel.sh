#!/usr/bin/env bash
# The wheel in a clean virtual environment, with nothing of this machine in its path but the environment's own programs: compiles and trains the quickstart
# model, on one rank and on two; refuses plugins with what to do instead.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/cmake/package-wheel.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/environment"
"$work/environment/bin/pip" install -q --no-index --no-deps "$root"/build/packages/*.whl
clean() { env -i PATH="$work/environment/bin" HOME="$work" "$@"; }
cd "$work"
cp -r "$root/samples/quickstart" quickstart
clean ztc compile quickstart/model.onnx --batch=8 --seq=128 --precision=fp32 -o plan.bin
cat "$root"/tests/e2e/*.py >text.txt
clean ztc-run plan.bin --device=cpu --data text.txt --tokenizer=bytes --steps 40 --lr=2e-3 --warmup=4 --export=model --hf-config=quickstart --log-json=log
python3 - log <<'END'
import json, sys
losses = [x["loss"] for x in map(json.loads, open(sys.argv[1])) if "loss" in x]
assert len(losses) == 40 and losses[-1] < losses[0] - 1, (losses[0], losses[-1])
END
ls model/model.safetensors
clean ztc-run plan.bin --ranks=2 --threads=1 --data text.txt --tokenizer=bytes --steps 2 --no-save

# Every library but the C library's comes from the wheel.
foreign=$(clean "$work/environment/bin/ztc" --version >/dev/null && LD_TRACE_LOADED_OBJECTS=1 "$work/environment/bin/ztc" | grep -oE '=> /[^ ]+' | cut -c4- |
  grep -v "^$work" | grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libutil)\.so' || true)
if [ -n "$foreign" ]; then echo "taken from the machine: $foreign"; exit 1; fi
touch plugin.so
if clean ztc compile quickstart/model.onnx --load-pass-plugin=./plugin.so -o refused.bin 2>said; then echo "a plugin was loaded"; exit 1; fi
grep 'came as a Python wheel' said
echo "passed"
