#!/usr/bin/env python3
"""Chats -> prepare_chat.py -> ztc compile -> ztc-run --export -> AutoTokenizer and AutoModel: the same tokens, the same loss.

export_transformers.py [NAME...]
"""
import json
import os
import pathlib
import subprocess
import sys

os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent / "e2e/chat")]
import tokenizers_and_templates as styles  # noqa: E402
import torch  # noqa: E402
from support import ROOT, check, finish, read_safetensors, run, scratch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer  # noqa: E402

SEQ = 64
SIZES = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
             vocab_size=448, initializer_range=0.1)
GEMMA = SIZES | dict(head_dim=16, sliding_window=24, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"], tie_word_embeddings=True, eos_token_id=2)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
MODELS = {  # name: (model type, its options)
    "llama": ("llama", SIZES | dict(tie_word_embeddings=False, eos_token_id=2)),
    "qwen3": ("qwen3", SIZES | dict(head_dim=16, tie_word_embeddings=True, eos_token_id=2)),
    "gemma3": ("gemma3_text", GEMMA),
    "qwen3-moe": ("qwen3_moe", SIZES | dict(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True, eos_token_id=2)),
    "gemma4": ("gemma4_text", SIZES | dict(head_dim=16, global_head_dim=32, sliding_window=24, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2,
                                           num_kv_shared_layers=2, hidden_size_per_layer_input=8, vocab_size_per_layer_input=448, tie_word_embeddings=True, eos_token_id=2)),
    "gemma3-vision": ("gemma3", dict(mm_tokens_per_image=4, vision_config=VISION, text_config=GEMMA, eos_token_id=2)),
}
CHAT = [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": "I am fine."},
        {"role": "user", "content": "What is two plus two?"}, {"role": "assistant", "content": "Two plus two is four."}]


def auto_class(kind):
    return AutoModelForImageTextToText if "vision_config" in MODELS[kind][1] else AutoModelForCausalLM


def make_model(folder, kind, precision):
    """A random model with tokenizer and template, as people have it in a folder; its weights have the type that it is trained in."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    styles.save(folder, styles.byte_level(tokens), {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}, styles.CHATML)
    torch.manual_seed(1)
    model_type, options = MODELS[kind]
    model = auto_class(kind).from_config(AutoConfig.for_model(model_type, **options), dtype=torch.float32).eval()
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2, "do_sample": False}))
    return model


def loss_of(model, file):
    """Mean over the counted targets of all rows."""
    tensors = read_safetensors(file)
    shape, ids = tensors["input_ids"]
    ids, labels = (torch.tensor(list(x)).view(-1, shape[-1]).long() for x in (ids, tensors["labels"][1]))
    with torch.no_grad():
        logits = model(input_ids=ids).logits[:, :-1].double()
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100).item()


def story(work, kind, precision, tolerance, from_graph):
    folder, out, data = work / kind, work / f"{kind}-out", work / f"{kind}.safetensors"
    model = make_model(folder, kind, precision)
    chats = work / "chats.jsonl"
    chats.write_text("".join(json.dumps({"messages": CHAT[:n]}) + "\n" for n in (2, 4) * 8))
    subprocess.run([sys.executable, ROOT / "samples/data/prepare_chat.py", chats, "--tokenizer", folder, f"--seq={SEQ}", "-o", data], check=True,
                   stdout=subprocess.DEVNULL)
    source = folder
    if from_graph:
        source = work / f"{kind}.onnx"
        model.config.use_cache = False  # keys and values are not outputs
        torch.onnx.export(model, (torch.zeros(2, SEQ, dtype=torch.long),), str(source), dynamo=True, dynamic_shapes=({0: "batch", 1: "sequence"},), verbose=False)
        model.config.use_cache = True
    plan = work / "plan.bin"
    run("ztc", "compile", source, *(["--weights", folder] if from_graph else []), "--batch=4", f"--seq={SEQ}", f"--precision={precision}", "--target=host", "-o", plan)
    run("ztc-run", plan, "--device=cpu", "--data", data, "--steps=20", "--lr=1e-3", "--eval-data", data, "--export", out, f"--log-json={work / 'log'}", "--overwrite")
    evaluated = [json.loads(x) for x in (work / "log").read_text().splitlines() if '"eval_loss"' in x][-1]["eval_loss"]
    loaded, tokenizer = auto_class(kind).from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    check(f"{kind}: loads in the type of its weights", {p.dtype for p in loaded.parameters()} == {p.dtype for p in model.parameters()})
    again = loss_of(loaded.float(), data)
    check(f"{kind}: the loss that ztc-run evaluated", abs(again - evaluated) < tolerance and evaluated < loss_of(model.float(), data) - 0.1, (again, evaluated))
    tokens = lambda t: t.apply_chat_template(CHAT, return_dict=True)["input_ids"]
    check(f"{kind}: the tokenizer with its template", tokens(tokenizer) == tokens(AutoTokenizer.from_pretrained(folder)))
    check(f"{kind}: the same config but for the type", {k: v for k, v in loaded.config.to_dict().items() if "dtype" not in k and k != "_name_or_path"}
          == {k: v for k, v in model.config.to_dict().items() if "dtype" not in k and k != "_name_or_path"})


with scratch() as work:
    for kind, precision, tolerance, from_graph in (("llama", "fp32", 1e-4, True), ("qwen3", "bf16", 2e-2, False), ("gemma3", "bf16", 2e-2, False), ("gemma4", "fp32", 1e-4, False),
                                                   ("qwen3-moe", "fp32", 1e-4, False), ("gemma3-vision", "fp32", 1e-4, False)):
        if kind in (sys.argv[1:] or MODELS):
            story(work, kind, precision, tolerance, from_graph)
finish()
