#!/usr/bin/env python3
"""Text with a key/value cache is the text without one, and text of several prompts at a time that of one after the other: greedy and sampled, in fp32 and bf16,
beyond the window, of models with windows, experts, learned positions, keys that two layers read, differences of attentions, experts of queries, layers in cycles, and states and short convolutions."""
import json
import os
import sys

from support import GOLDEN, ROOT, check, finish, run, scratch

FOLDERS = ROOT / "tests/folders"
CACHED = ("gpt2", "qwen3", "llama-heads", "gemma3", "mistral", "mixtral", "gemma2", "gpt-oss", "gemma4", "gemma3n", "recurrent", "lfm2", "qwen3-next", "nemotron-h", "falcon-h1", "mamba", "diffllama", "jetmoe", "hrm-text", "recurrent-gemma", "hunyuan-vl", "ernie4_5-vl", "step3p7", "muse-spark", "mistral-large4")
EXPORTS = {"recurrent": [GOLDEN / "families/recurrent/model.onnx", f"--weights={GOLDEN / 'families/recurrent/model.safetensors'}"]}
# Of other lengths each, more than there are rows: one begins where another has ended.
PROMPTS = b"\x05\x11\x07\n\x21\n\x30\x02\x19\x0b\x0c\x01\x2f\x1c\x13\x08\x04\n\x22\x06\n\x11\x12\x13\x14\x15\x16\x17\x18\n\x09\x07\x08\n"
# batch, options
PLANS = {"one text, no cache": (1, []), "one text, a cache": (1, ["--generate"]), "three texts, no cache": (3, []), "three texts, a cache": (3, ["--generate"])}
SAMPLINGS = {"greedy": [], "sampled": ["--temperature=1", "--seed=3"], "hot": ["--temperature=3", "--seed=4"]}

# A bias or a residual that a product adds, and GELU that it gives, looked for in a row as in the whole text.
FUSED = [f"--pass-option=ztc-fuse-{what}.enabled=true" for what in ("biases", "residuals", "activations")]

names = sys.argv[1:] or os.environ.get("ZTC_FOLDERS", "").split() or CACHED
for name in names:
    with scratch() as work:
        (work / "prompts.txt").write_bytes(PROMPTS)
        for precision, more in (("fp32", []), ("bf16", []), *((("bf16", FUSED),) if name in ("llama-heads", "gpt2") else ())):
            texts = {}
            for kind, (batch, options) in PLANS.items():
                plan = work / f"{precision}-{kind.replace(' ', '-')}.bin"
                run("ztc", "compile", *EXPORTS.get(name, [FOLDERS / name]), "-o", plan, "--target=host", f"--batch={batch}", "--seq=32", f"--precision={precision}", *options, *more)
                programs = set(json.loads(run("ztc", "inspect", plan, "--json").stdout)["programs"])
                expected = {"decode", "decode_rows"} if options and batch > 1 else {"decode"} if options else set()
                check(f"{name}: {precision}: {kind}: its programs", programs & {"decode", "decode_rows"} == expected, programs)
                for way, sampling in SAMPLINGS.items():
                    done = run("ztc-run", plan, "--device=cpu", "--prompts", work / "prompts.txt", "--generate=50", *sampling)
                    texts[kind, way] = [json.loads(line)["tokens"] for line in done.stdout.splitlines()]
                    texts[kind, way] += [json.loads(line)["text"] for line in done.stdout.splitlines()]
                # Alone, the first of the file: the others do not change it.
                alone = run("ztc-run", plan, "--device=cpu", "--prompt", "\x05\x11\x07", "--generate=50", "--temperature=3", "--seed=4").stdout
                texts[kind, "alone"] = alone
            for kind in PLANS:
                for way in (*SAMPLINGS, "alone"):
                    like = "one text, no cache"
                    check(f"{name}: {precision}{' fused' if more else ''}: {kind}, {way}: the text of {like}", texts[kind, way] == texts[like, way] and texts[kind, way],
                          "" if texts[kind, way] == texts[like, way] else (texts[kind, way], texts[like, way]))
finish()
