#!/usr/bin/env python3
"""Models of many families beside PyTorch: tokens per second of training on random tokens, one table row for each family and precision.

    tests/bench/families.py [FAMILY...] --python PYTHON [--batch 4 --seq 256 --steps 8 --threads 2 --compile]

PYTHON has torch and transformers. Six layers of width 384 and 8192 tokens, 12 to 37 million parameters. PyTorch is eager, or with --compile the faster of eager and compiled;
in bf16 it trains by autocast (f32 parameters, products in bf16), as ztc keeps f32 masters. A quiet machine, please: programs run one after another.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import read_log, run, scratch  # noqa: E402

SIZES = {"vocab_size": 8192, "hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
         "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GPT = {"vocab_size": 8192, "bos_token_id": 1, "eos_token_id": 2}
NO_DROPOUT = {key: 0.0 for key in ("resid_pdrop", "embd_pdrop", "emb_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout", "dropout")}
HEAD = {"head_dim": 64}
WINDOW = HEAD | {"sliding_window": 256, "query_pre_attn_scalar": 64}
PAIR = ["linear_attention", "full_attention"]
FAMILIES = {
    "llama": ("LlamaForCausalLM", SIZES),
    "qwen3": ("Qwen3ForCausalLM", SIZES | HEAD | {"tie_word_embeddings": True}),
    "phi3": ("Phi3ForCausalLM", SIZES),
    "gemma2": ("Gemma2ForCausalLM", SIZES | WINDOW),
    "gemma3_text": ("Gemma3ForCausalLM", SIZES | WINDOW),
    "gemma3n_text": ("Gemma3nForCausalLM", SIZES | HEAD | {
        "vocab_size_per_layer_input": 8192, "hidden_size_per_layer_input": 64, "num_kv_shared_layers": 2, "laurel_rank": 32, "sliding_window": 256,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "intermediate_size": [1024] * 6,
        "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0, 0.0, 0.0]}),
    "gpt2": ("GPT2LMHeadModel", GPT | {"n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 2048}),
    "gpt_neox": ("GPTNeoXForCausalLM", SIZES),
    "opt": ("OPTForCausalLM", GPT | {"hidden_size": 384, "ffn_dim": 1536, "num_hidden_layers": 6, "num_attention_heads": 6, "max_position_embeddings": 2048,
                                     "word_embed_proj_dim": 384, "pad_token_id": 1}),
    "bloom": ("BloomForCausalLM", GPT | {"hidden_size": 384, "n_layer": 6, "n_head": 6}),
    "falcon": ("FalconForCausalLM", GPT | {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6}),
    "mpt": ("MptForCausalLM", GPT | {"d_model": 384, "n_heads": 6, "n_layers": 6, "max_seq_len": 2048}),
    "phi": ("PhiForCausalLM", SIZES | {"num_key_value_heads": 6}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", SIZES | {
        "num_key_value_heads": 6, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 16,
        "num_experts_per_tok": 4, "n_shared_experts": 1, "moe_intermediate_size": 256, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", SIZES | HEAD | {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "norm_topk_prob": True}),
    "gpt_oss": ("GptOssForCausalLM", SIZES | HEAD | {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 128, "intermediate_size": 384,
                                                     "layer_types": ["sliding_attention", "full_attention"] * 3, "rope_scaling": None}),
    "llama4_text": ("Llama4ForCausalLM", SIZES | HEAD | {"intermediate_size_mlp": 1024, "intermediate_size": 512, "num_local_experts": 8, "num_experts_per_tok": 1,
                                                         "interleave_moe_layer_step": 2, "attention_chunk_size": 256}),
    "minimax": ("MiniMaxForCausalLM", SIZES | HEAD | {"num_local_experts": 8, "num_experts_per_tok": 2, "layer_types": PAIR * 3, "block_size": 64, "intermediate_size": 384}),
    "lfm2": ("Lfm2ForCausalLM", SIZES | {"layer_types": ["conv", "conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False}),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", SIZES | HEAD | {
        "num_key_value_heads": 1, "intermediate_size": 2048, "lru_width": 384, "attention_window_size": 256, "block_types": ["recurrent", "recurrent", "attention"]}),
}


def by_ztc(folder, work, precision, o):
    """Tokens per second, the median over steps without the first two."""
    plan, log = work / "plan.bin", work / "log"
    run("ztc", "compile", folder, "-o", plan, "--target=host", f"--batch={o.batch}", f"--seq={o.seq}", f"--precision={precision}", timeout=600)
    run("ztc-run", plan, f"--steps={o.steps}", f"--threads={o.threads}", "--device=cpu", f"--log-json={log}", "--overwrite", timeout=3600)
    return o.batch * o.seq / statistics.median(step["step_ms"] / 1e3 for step in read_log(log)[1][2:])


def by_torch(folder, precision, o):
    """The same of PyTorch, the faster of its ways."""
    rates = []
    for compiled in ([], ["--compile"])[:1 + o.compile]:
        done = subprocess.run([o.python, pathlib.Path(__file__).with_name("torch_side.py"), "train", folder, f"--batch={o.batch}", f"--seq={o.seq}", f"--steps={o.steps}",
                               f"--threads={o.threads}", "--mode", {"fp32": "fp32", "bf16": "autocast"}[precision], *compiled], capture_output=True, text=True, timeout=3600)
        if done.returncode == 0:
            rates.append(json.loads(done.stdout.splitlines()[-1])["tokens_per_second"])
        else:
            print(f"PyTorch{' compiled' if compiled else ''}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
    return max(rates, default=float("nan"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY", help=", ".join(FAMILIES))
    for name, default in (("batch", 4), ("seq", 256), ("steps", 8), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--python", required=True)
    parser.add_argument("--compile", action="store_true")
    o = parser.parse_args()
    if unknown := [family for family in o.families if family not in FAMILIES]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    if o.steps < 3:
        parser.error("--steps: the first two are not counted, give 3 or more")
    print("| family | precision | ztc, tokens/s | PyTorch | ratio |\n|---|---|---|---|---|")
    with scratch() as work:
        for family in o.families:
            architecture, keys = FAMILIES[family]
            folder = work / family
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(NO_DROPOUT | keys | {"model_type": family, "architectures": [architecture]}))
            for precision in ("fp32", "bf16"):
                ours, theirs = by_ztc(folder, work, precision, o), by_torch(folder, precision, o)
                print(f"| {family} | {precision} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
