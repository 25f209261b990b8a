"""Tiny configurations of make.py's folders: FOLDERS are stored, MORE are made by the long test alone; SEEDS where the first draw of weights does not do."""
import math

import multimodal_configurations
from configuration_parts import LITTLE, VISION, base, changed, named, rope, version4
from multimodal_configurations import GLM_VISION, OF_PARTS

LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
THREE = ["sliding_attention", "full_attention", "sliding_attention"]
EXPERTS = dict(num_experts_per_tok=2, experts="eager")

# name: (model type, options, other writings of config.json)
FOLDERS = {
    "llama-heads": ("llama", base(head_dim=12, attention_bias=True, mlp_bias=True), {"4": version4()}),
    "llama3-defaults": ("llama", base(rope_parameters=LLAMA3, num_key_value_heads=4, dtype="bfloat16"), {
        "4": version4(), "type": version4("type"),
        "absent": lambda c: changed(c, ["tie_word_embeddings", "head_dim", "num_key_value_heads", "attention_bias", "mlp_bias", "hidden_act", "rms_norm_eps"]),
        "null": lambda c: changed(c, head_dim=None, num_key_value_heads=None)}),
    "llama-linear": ("llama", base(rope_parameters=rope("linear", factor=2.5), tie_word_embeddings=True), {"4": version4("type")}),
    "llama-dynamic": ("llama", base(rope_parameters=rope("dynamic", factor=2.0), max_position_embeddings=12), {"4": version4("type")}),
    "llama-yarn": ("llama", base(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=0.8)), {"4": version4()}),
    "llama-yarn-scales": ("llama", base(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=1.2,
                                                             beta_fast=16.0, beta_slow=2.0, truncate=False)), {"4": version4("type")}),
    "mistral": ("mistral", base(sliding_window=6, head_dim=12), {"4": version4()}),
    "qwen2": ("qwen2", base(use_sliding_window=True, sliding_window=5, max_window_layers=1), {
        "4": version4(), "no-types": lambda c: changed(c, ["layer_types"]), "head": lambda c: changed(c, ["layer_types"], head_dim=10)}),
    "qwen2-unused-window": ("qwen2", base(use_sliding_window=False, sliding_window=5, max_window_layers=1, tie_word_embeddings=True), {
        "4": lambda c: version4()(changed(c, ["layer_types"], sliding_window=5))}),
    "qwen3": ("qwen3", base(head_dim=14, attention_bias=True, use_sliding_window=True, sliding_window=5, layer_types=THREE[:2]), {"4": version4()}),
    "gemma": ("gemma", base(head_dim=16, tie_word_embeddings=True, num_key_value_heads=1, pad_token_id=0), {
        "old": lambda c: changed(version4()(c), ["tie_word_embeddings"], hidden_act="gelu"),
        "both": lambda c: version4()(changed(c, hidden_act="gelu", hidden_activation=None))}),
    "gemma2": ("gemma2", base(head_dim=16, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
                              final_logit_softcapping=3.0, attention="eager"), {
        "4": version4(), "no-types": lambda c: changed(c, ["layer_types", "tie_word_embeddings"], hidden_act="gelu_pytorch_tanh", cache_implementation="hybrid")}),
    "gemma3": ("gemma3_text", base(head_dim=16, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=5, query_pre_attn_scalar=20, layer_types=THREE,
                                   rope_parameters=dict(full_attention=rope("linear", factor=3.0, rope_theta=90000.0), sliding_attention=rope("default", rope_theta=5000.0))), {
        "4": lambda c: changed(c, ["rope_parameters", "layer_types", "_sliding_window_pattern"], rope_theta=90000.0, rope_local_base_freq=5000.0,
                               rope_scaling=dict(rope_type="linear", factor=3.0), layer_types=THREE, attn_logit_softcapping=4.0)}),
    "gemma3-pattern": ("gemma3_text", base(head_dim=16, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=5, sliding_window_pattern=2), {
        "4": lambda c: changed(c, ["rope_parameters", "layer_types", "_sliding_window_pattern"], sliding_window_pattern=2)}),
    "phi3-short": ("phi3", base(original_max_position_embeddings=32, rope_parameters=rope(
        "longrope", short_factor=[1.0 + 0.1 * i for i in range(5)], long_factor=[1.0 + 0.7 * i for i in range(5)]), sliding_window=9), {
        "4": version4("type"), "su": lambda c: changed(version4("type")(c), rope_scaling=changed(version4("type")(c)["rope_scaling"], type="su"))}),
    "phi3-long": ("phi3", base(original_max_position_embeddings=16, num_attention_heads=2, rope_parameters=rope(
        "longrope", partial_rotary_factor=0.6, short_factor=[1.0 + 0.1 * i for i in range(6)], long_factor=[1.0 + 0.7 * i for i in range(6)])), {"4": version4("type")}),
    "smollm3": ("smollm3", base(num_hidden_layers=3, no_rope_layers=[1, 0, 1], tie_word_embeddings=True), {"4": version4()}),
    "smollm3-window": ("smollm3", base(num_hidden_layers=2, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=5), {
        "no-types": lambda c: changed(c, ["layer_types", "no_rope_layers"])}),
    "olmo2": ("olmo2", base(attention_bias=True), {"4": version4()}),
    "olmo3": ("olmo3", base(num_hidden_layers=3, sliding_window=5, layer_types=THREE, rope_parameters=dict(
        full_attention=rope("yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=500000.0), sliding_attention=rope("default", rope_theta=500000.0))), {
        "4": lambda c: changed(c, ["rope_parameters"], rope_theta=500000.0, rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16))}),
    "granite": ("granite", base(embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.7, attention_multiplier=0.3, tie_word_embeddings=True), {"4": version4()}),
    "qwen3-moe": ("qwen3_moe", base(head_dim=12, num_experts=4, moe_intermediate_size=20, norm_topk_prob=False, mlp_only_layers=[0], **EXPERTS), {"4": version4()}),
    "mixtral": ("mixtral", base(num_local_experts=4, sliding_window=6, intermediate_size=28, **EXPERTS), {"4": version4()}),
    "qwen2-moe": ("qwen2_moe", base(num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=24, use_sliding_window=True,
                                    sliding_window=5, max_window_layers=2, mlp_only_layers=[1], **EXPERTS), {"no-types": lambda c: changed(c, ["layer_types"])}),
    "gpt2": ("gpt2", dict(n_embd=40, n_layer=2, n_head=4, vocab_size=97, n_positions=64, initializer_range=0.12, bos_token_id=None, eos_token_id=None, resid_pdrop=0.0,
                          embd_pdrop=0.0, attn_pdrop=0.0, scale_attn_by_inverse_layer_idx=True), {"absent": lambda c: changed(c, ["tie_word_embeddings", "n_inner"], n_ctx=64)}),
    "gpt-oss": ("gpt_oss", base(head_dim=12, num_local_experts=3, sliding_window=5, intermediate_size=24, attention="eager", rope_parameters=rope(
        "yarn", rope_theta=150000.0, factor=4.0, truncate=False, original_max_position_embeddings=16), **EXPERTS), {"4": version4()}),
}

DEEPSEEK = dict(q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=10, moe_intermediate_size=20, num_experts_per_tok=2,
                n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, experts="eager")
FOLDERS |= {
    "deepseek-v3": ("deepseek_v3", base(num_key_value_heads=4, n_group=2, topk_group=1, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.8), **DEEPSEEK), {"4": version4()}),
    "cohere2": ("cohere2", base(logit_scale=0.3, tie_word_embeddings=True, num_hidden_layers=3, sliding_window=6, layer_types=THREE, pad_token_id=0), {
        "pattern": lambda c: changed(c, ["layer_types", "tie_word_embeddings"], sliding_window_pattern=2)}),
    "glm4": ("glm4", base(head_dim=12, attention_bias=True), {"4": version4()}),
    "glm-odd": ("glm", base(head_dim=12, tie_word_embeddings=True, rope_parameters=rope(
        "longrope", partial_rotary_factor=0.25, original_max_position_embeddings=16, short_factor=[1.0, 1.1], long_factor=[1.0, 1.7], factor=1.5)), {"4": version4("type")}),
    "hunyuan": ("hunyuan_v1_dense", base(head_dim=12, rope_parameters=rope("dynamic", alpha=100.0, factor=1.0)), {"4": version4("type")}),
    "gpt-neox": ("gpt_neox", {k: v for k, v in base().items() if k != "num_key_value_heads"} | dict(rope_parameters=rope(
        "default", partial_rotary_factor=0.4)), {"4": lambda c: changed(c, ["rope_parameters"], rotary_pct=0.4, rotary_emb_base=10000)}),
    "apertus": ("apertus", base(rope_parameters=LLAMA3), {"4": version4()}),
    "nanochat": ("nanochat", base(final_logit_softcapping=3.0), {"4": version4()}),
    "ernie4_5-moe": ("ernie4_5_moe", base(use_bias=True, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=1, moe_intermediate_size=20,
                                          experts="eager"), {"4": version4()}),
    "granite-shared": ("granitemoeshared", base(num_local_experts=4, shared_intermediate_size=24, embedding_multiplier=2.0, logits_scaling=1.5, residual_multiplier=0.7,
                                                attention_multiplier=0.3, **EXPERTS), {"4": version4()}),
    "gpt-neo": ("gpt_neo", dict(hidden_size=40, num_layers=3, num_heads=4, attention_types=[[["global", "local"], 1], [["local"], 1]], window_size=5, vocab_size=97,
                                max_position_embeddings=64, initializer_range=0.12, bos_token_id=None, eos_token_id=None), {}),
    "codegen": ("codegen", dict(n_embd=48, n_layer=2, n_head=8, rotary_dim=4, vocab_size=97, n_positions=64, initializer_range=0.12, bos_token_id=None, eos_token_id=None), {}),
    "mpt": ("mpt", dict(d_model=42, n_layers=2, n_heads=6, max_seq_len=64, vocab_size=97, initializer_range=0.12, attn_config=dict(clip_qkv=0.9, softmax_scale=0.5)), {
        "old": lambda c: changed(c, attn_config=changed(c["attn_config"], attn_impl="triton"), expansion_ratio=4, init_config={"name": "kaiming_normal_"})}),
    "xglm": ("xglm", dict(d_model=40, ffn_dim=56, num_layers=2, attention_heads=4, vocab_size=97, max_position_embeddings=64, init_std=0.12, dropout=0.0, attention_dropout=0.0,
                          pad_token_id=0, bos_token_id=None, eos_token_id=None), {}),
    "falcon-alibi": ("falcon", dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=6, alibi=True, multi_query=False, parallel_attn=False, bias=True, vocab_size=97,
                                    initializer_range=0.12, bos_token_id=None, eos_token_id=None), {}),
    "opt-behind": ("opt", dict(hidden_size=40, ffn_dim=56, num_hidden_layers=2, num_attention_heads=4, vocab_size=97, max_position_embeddings=64, init_std=0.12, dropout=0.0,
                               word_embed_proj_dim=28, do_layer_norm_before=False, pad_token_id=0, bos_token_id=None, eos_token_id=None), {}),
    "bloom": ("bloom", dict(hidden_size=42, n_layer=2, n_head=6, vocab_size=97, initializer_range=0.12, hidden_dropout=0.0, attention_dropout=0.0, pad_token_id=None,
                            bos_token_id=None, eos_token_id=None), {}),
}

FOLDERS |= {
    "llama4": ("llama4_text", base(head_dim=12, num_hidden_layers=3, num_local_experts=3, intermediate_size=20, intermediate_size_mlp=32, moe_layers=[0, 2],
                                   num_experts_per_tok=1, no_rope_layers=[1, 0, 1], attention_chunk_size=7, floor_scale=4, attn_scale=0.3, experts="eager",
                                   rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=1.0, original_max_position_embeddings=16)), {
        "4": version4(), "no-types": lambda c: changed(c, ["layer_types"], attn_temperature_tuning=4)}),
    "phimoe": ("phimoe", base(num_local_experts=3, intermediate_size=24, lm_head_bias=True, attention_bias=True, router_jitter_noise=0.05,
                              original_max_position_embeddings=32, rope_parameters=rope(
        "longrope", short_factor=[1.0 + 0.1 * i for i in range(5)], long_factor=[1.0 + 0.7 * i for i in range(5)], short_mscale=1.2, long_mscale=1.2,
        original_max_position_embeddings=32), **EXPERTS), {"4": version4("type")}),
    "exaone-moe": ("exaone_moe", base(head_dim=12, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, sliding_window=5, sliding_window_pattern=2,
                                      **EXPERTS), {"4": version4(), "no-types": lambda c: changed(c, ["layer_types", "mlp_layer_types"])}),
    "afmoe": ("afmoe", base(head_dim=12, num_hidden_layers=3, num_experts=3, moe_intermediate_size=20, num_shared_experts=1, sliding_window=5,
                            global_attn_every_n_layers=2, route_scale=1.7, mup_enabled=True, **EXPERTS), {
        "4": version4(), "no-types": lambda c: changed(c, ["layer_types"])}),
    "hyperclovax": ("hyperclovax", base(embedding_multiplier=3.0, logits_scaling=0.4, residual_multiplier=0.7, head_dim=12), {"4": version4()}),
}

PER_TYPE = dict(full_attention=rope("default", rope_theta=5000.0, partial_rotary_factor=0.5), sliding_attention=rope("default", partial_rotary_factor=1.0))
FOLDERS |= {
    "granite-swa": ("granite_swa", base(num_hidden_layers=3, sliding_window=5, layer_types=THREE, layer_rope_theta=[10000.0, 0, 500.0], embedding_multiplier=2.0,
                                        logits_scaling=1.5, residual_multiplier=0.7, attention_multiplier=0.3, tie_word_embeddings=True), {
        "no-ties": lambda c: changed(c, ["tie_word_embeddings"])}),
    "granite-moe-swa": ("granitemoe_swa", base(num_local_experts=4, num_hidden_layers=3, sliding_window=5, layer_types=THREE, **EXPERTS), {
        "no-thetas": lambda c: changed(c, layer_rope_theta=None)}),
    "mellum": ("mellum", base(head_dim=12, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, sliding_window=5, layer_types=THREE,
                              mlp_layer_types=["sparse", "dense", "sparse"], rope_parameters=dict(
                                  full_attention=LLAMA3, sliding_attention=rope("default", rope_theta=500.0)), **EXPERTS), {
        "keys": lambda c: changed(c, ["num_experts"], num_local_experts=4)}),
    "laguna": ("laguna", base(head_dim=12, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=24, sliding_window=5,
                              layer_types=THREE, num_attention_heads_per_layer=[4, 6, 2], moe_routed_scaling_factor=1.7, moe_router_logit_softcapping=2.0,
                              rope_parameters=PER_TYPE, **EXPERTS), {"text": lambda c: changed(c, gating="per-head")}),
    "laguna-elements": ("laguna", base(head_dim=12, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=24, gating="per-element", **EXPERTS), {
        "no-ropes": lambda c: changed(c, ["layer_types", "mlp_layer_types"], rope_parameters=None)}),
    "mimo-v2-flash": ("mimo_v2_flash", base(head_dim=12, v_head_dim=8, num_hidden_layers=3, n_routed_experts=4, moe_intermediate_size=20, sliding_window=5, num_key_value_heads=1,
                                            layer_types=["full_attention", *THREE[:2]], rope_parameters=PER_TYPE, attention_value_scale=0.6, attention_bias=True,
                                            attention="eager", **EXPERTS), {
        "null": lambda c: changed(c, ["mlp_layer_types"], routed_scaling_factor=None, sliding_window_size=4)}),
    "hy-v3": ("hy_v3", base(head_dim=12, num_experts=4, moe_intermediate_size=20, router_scaling_factor=1.6, mlp_bias=True, **EXPERTS), {
        "no-types": lambda c: changed(c, ["mlp_layer_types"])}),
    "cohere2-moe": ("cohere2_moe", base(head_dim=12, logit_scale=0.3, num_hidden_layers=3, num_experts=4, sliding_window=5, num_shared_experts=1, tie_word_embeddings=True,
                                        layer_types=["full_attention", *THREE[:2]], mlp_layer_types=["dense", "sparse", "sparse"], prefix_dense_intermediate_size=30, **EXPERTS), {
        "ties": lambda c: changed(c, ["tie_word_embeddings"])}),
    "cohere2-moe-sigmoid": ("cohere2_moe", base(head_dim=12, logit_scale=0.3, num_experts=4, expert_selection_fn="sigmoid", num_shared_experts=1, rms_norm_eps=1e-5,
                                                shared_expert_combination_strategy="sum", sliding_window_pattern=2, sliding_window=5, **EXPERTS), {
        "no-types": lambda c: changed(c, ["layer_types", "mlp_layer_types"])}),
    "mistral4": ("mistral4", base(num_key_value_heads=4, n_group=2, topk_group=1, norm_topk_prob=True, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=8, mscale=1.0, mscale_all_dim=0.8, llama_4_scaling_beta=0.3), **DEEPSEEK), {
        "no-part": lambda c: changed(c, rope_parameters=changed(c["rope_parameters"], ["partial_rotary_factor"]))}),
    "gpt-neox-japanese": ("gpt_neox_japanese", {k: v for k, v in base().items() if k not in ("num_key_value_heads", "intermediate_size")} | dict(
        intermediate_multiple_size=2, attention_dropout=0.0, hidden_dropout=0.0, rope_parameters=rope("default", partial_rotary_factor=0.4)), {
        "4": lambda c: changed(c, ["rope_parameters"], rotary_pct=0.4, rotary_emb_base=10000)}),
}

TINY = dict(hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=41)
TWO = base(**TINY) | dict(num_hidden_layers=2, num_key_value_heads=2)
FOLDERS |= {
    "llama-quick-gelu": ("llama", base(**TINY, hidden_act="quick_gelu"), {}),
    "arcee-mish": ("arcee", base(**TINY, hidden_act="mish", mlp_bias=True), {}),
    "phi-tanh": ("phi", base(**TINY, hidden_act="tanh"), {}),
    "starcoder2-leaky-relu": ("starcoder2", base(**TINY, hidden_act="leaky_relu"), {}),
    "deepseek-v2-biases": ("deepseek_v2", TWO | dict(mlp_bias=True) | DEEPSEEK, {"4": version4()}),
    "minicpm3-biases": ("minicpm3", TWO | dict(mlp_bias=True, attention_bias=True, **{
        k: DEEPSEEK[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}), {}),
    # the mask is of layer_types; use_sliding_window only makes these where they are absent
    "smollm3-types": ("smollm3", base(**TINY) | dict(num_hidden_layers=2, sliding_window=5, layer_types=THREE[:2]), {
        "used": lambda c: changed(c, use_sliding_window=True)}),
    "bloom-normed": ("bloom", dict(hidden_size=16, n_layer=2, n_head=2, vocab_size=41, initializer_range=0.12, hidden_dropout=0.0, attention_dropout=0.0, pad_token_id=None,
                                   bos_token_id=None, eos_token_id=None, apply_residual_connection_post_layernorm=True), {}),
    "mpt-scale": ("mpt", dict(d_model=16, n_layers=1, n_heads=2, max_seq_len=64, vocab_size=41, initializer_range=0.12, logit_scale=0.3), {
        "text": lambda c: changed(c, logit_scale="inv_sqrt_d_model"), "none": lambda c: changed(c, logit_scale=None)}),
}


NO_SPECIAL = dict(bos_token_id=None, eos_token_id=None, initializer_range=0.12)
FOLDERS |= {
    "exaone": ("exaone", base(**LITTLE, head_dim=10, tie_word_embeddings=True, rope_parameters=LLAMA3), {
        "old": lambda c: named(num_layers="num_hidden_layers", layer_norm_epsilon="rms_norm_eps", activation_function="hidden_act")(version4()(c))}),
    "sarvam-moe": ("sarvam_moe", base(**LITTLE, head_dim=8, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True, **EXPERTS,
                                      moe_intermediate_size=20), {
        "old": named(num_experts="n_routed_experts", num_shared_experts="n_shared_experts", use_qkv_bias="attention_bias")}),
    "axk1": ("axk1", base(**LITTLE) | dict(num_key_value_heads=4, n_group=2, topk_group=1, **{k: v for k, v in DEEPSEEK.items() if k != "first_k_dense_replace"}), {
        "4": lambda c: changed(version4()(c), ["mlp_layer_types"], first_k_dense_replace=1, moe_layer_freq=1)}),
    "aria": ("aria_text", base(**LITTLE, moe_num_experts=4, moe_topk=2, moe_num_shared_experts=2, mlp_bias=True, experts="eager"), {"4": version4()}),
    "dbrx": ("dbrx", dict(d_model=24, n_heads=4, n_layers=2, max_seq_len=64, vocab_size=61, attn_config=dict(clip_qkv=0.9, kv_n_heads=2, rope_theta=5000.0),
                          ffn_config=dict(ffn_hidden_size=20, moe_num_experts=4, moe_top_k=2), **NO_SPECIAL), {}),
    "openai-gpt": ("openai-gpt", dict(n_embd=24, n_layer=2, n_head=4, vocab_size=61, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **NO_SPECIAL), {}),
    "ctrl": ("ctrl", dict(n_embd=24, n_layer=2, n_head=4, dff=40, vocab_size=61, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, **NO_SPECIAL), {
        "keys": named(hidden_size="n_embd", num_hidden_layers="n_layer", num_attention_heads="n_head", max_position_embeddings="n_positions")}),
    "modernbert-decoder": ("modernbert-decoder", {k: v for k, v in base(**LITTLE).items() if not k.endswith("_token_id") and k not in ("num_key_value_heads", "tie_word_embeddings")} | dict(
        num_hidden_layers=3, local_attention=10, norm_bias=True, pad_token_id=0), {
        "no-types": lambda c: changed(c, ["layer_types", "rope_parameters"], global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=10000.0)}),
    "cohere-compass": ("cohere_compass_text", base(**LITTLE, num_hidden_layers=3, logit_scale=0.3, sliding_window=6, layer_types=THREE, pad_token_id=0, tie_word_embeddings=True,
                                                   rope_parameters=dict(full_attention=None, sliding_attention=rope("default", mrope_section=[1, 1, 1]))) , {}),
    "flint": ("flint", base(**LITTLE, head_dim=8, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=12, mlp_only_layers=[0],
                            sliding_window=5, layer_types=["full_attention", *THREE[:2]], attention="eager", **EXPERTS), {}),
    "kolibri1": ("kolibri1", {k: v for k, v in base(**LITTLE).items() if k != "intermediate_size"} | dict(
        head_dim=8, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=12, sliding_window=5, layer_types=THREE, **EXPERTS), {}),
}

# Keys that a query chooses: all of them within index_topk
CHOOSING = {k: v for k, v in DEEPSEEK.items() if k != "first_k_dense_replace"} | dict(num_key_value_heads=4, index_topk=32, index_n_heads=2, index_head_dim=10)
FOLDERS |= {
    "deepseek-v32": ("deepseek_v32", base(**LITTLE) | CHOOSING | dict(n_group=2, topk_group=1, first_k_dense_replace=1, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.8)), {
        "4": lambda c: changed(version4()(c), ["mlp_layer_types", "layer_types"], num_experts=4, n_routed_experts=256)}),
    "glm5": ("glm_moe_dsa", base(**LITTLE) | CHOOSING | dict(num_hidden_layers=3, first_k_dense_replace=1, attention_bias=True, index_topk=20,
                                                              indexer_types=["full", "shared", "full"]), {
        "4": lambda c: changed(version4()(c), ["mlp_layer_types", "layer_types", "indexer_types"], index_topk_freq=2)}),
    "axk2": ("axk2", base(**LITTLE) | CHOOSING | dict(num_hidden_layers=3, n_group=2, topk_group=1, gated_norm_rank=6, mlp_layer_types=["sparse", "dense", "sparse"]), {
        "old": lambda c: changed(c, ["mlp_layer_types", "layer_types"], first_k_dense_replace=0, moe_layer_freq=2)}),
}

# Attention of other kinds
FOLDERS |= {
    "diffllama": ("diffllama", base(**LITTLE, head_dim=8, attention_bias=True), {"4": version4()}),
    "jetmoe": ("jetmoe", {k: v for k, v in base(**LITTLE).items() if k != "num_attention_heads"} | dict(
        kv_channels=8, num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-3), {"4": version4()}),
    "longcat-flash": ("longcat_flash", {k: v for k, v in base(**LITTLE).items() if k not in ("num_hidden_layers", "intermediate_size", "num_key_value_heads")} | dict(
        num_layers=1, head_dim=6, ffn_hidden_size=32, expert_ffn_hidden_size=20, n_routed_experts=4, zero_expert_num=2, moe_topk=2, experts="eager",
        **{k: DEEPSEEK[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}), {"4": version4()}),
    "beam": ("beam", base(**LITTLE, num_hidden_layers=3, head_dim=8, sliding_window=6, layer_types=THREE, mlp_layer_types=["dense", "sparse", "sparse"], num_experts=4, n_group=2,
                          topk_group=1, moe_intermediate_size=20, final_logit_softcapping=5.0, **EXPERTS), {
        "no-ropes": lambda c: changed(c, ["rope_parameters"])}),
    "minimax-m3": ("minimax_m3_vl_text", base(**LITTLE, num_hidden_layers=3, head_dim=12, rope_parameters=rope("default", partial_rotary_factor=0.5), dense_intermediate_size=28, shared_intermediate_size=16, num_local_experts=4,
                                              swiglu_alpha=1.3, swiglu_limit=1.5, mlp_layer_types=["dense", "sparse", "sparse"], index_n_heads=2, index_head_dim=8,
                                              index_block_size=4, index_topk_blocks=6, layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"], **EXPERTS), {
        "old": lambda c: changed(c, ["mlp_layer_types", "layer_types", "index_block_size", "index_topk_blocks", "index_n_heads", "index_head_dim"], moe_layer_freq=[0, 1, 1],
                                 hidden_act="swigluoai", sparse_attention_config=dict(sparse_num_index_heads=2, sparse_index_dim=8, sparse_block_size=4, sparse_topk_blocks=6,
                                                                                      sparse_attention_freq=[0, 1, 1]))}),
    "doge": ("doge", base(**LITTLE, attention_bias=True, mlp_bias=True, keep_window_size=24, hidden_dropout=0.0), {"4": version4()}),
    "hy-v4": ("hy_v4", {k: v for k, v in (base(**LITTLE) | CHOOSING).items() if k != "num_key_value_heads"} | dict(
        num_hidden_layers=3, hc_mult=3, hc_magnitude=1.5, swiglu_limit=0.8, mlp_layer_types=["dense", "sparse", "sparse"], indexer_types=["full", "full", "shared"], attention="eager"), {
        "4": version4()}),
    "dots3-note": ("dots3_note_text", base(**LITTLE) | CHOOSING | dict(
        num_hidden_layers=4, head_dim=14, n_group=2, topk_group=1, shared_experts_intermediate_size=16, sliding_window=6, swa_num_attention_heads=2, swa_num_key_value_heads=2,
        swa_q_lora_rank=12, swa_kv_lora_rank=14, swa_head_dim=12, swa_qk_nope_head_dim=8, swa_v_head_dim=6,
        layer_types=["indexed_attention", "sliding_attention", "indexed_attention", "sliding_attention"]), {
        "old": lambda c: changed(c, ["per_layer_config", "rope_parameters", "mlp_layer_types", "shared_experts_intermediate_size", "sliding_window"], first_k_dense_replace=1,
                                 moe_layer_freq=[0, 1, 1, 1], moe_shared_expert_intermediate_size=16, sliding_window_size=6, use_dsa=True, swa_num_attention_heads=2,
                                 swa_num_key_value_heads=2, swa_q_lora_rank=12, swa_kv_lora_rank=14, swa_head_dim=12, swa_qk_nope_head_dim=8, swa_v_head_dim=6,
                                 layer_types=["full_attention", "sliding_attention"] * 2)}),
    "hrm-text": ("hrm_text", {k: v for k, v in base(**LITTLE).items() if k != "num_key_value_heads"} | dict(head_dim=8, num_hidden_layers=2, H_cycles=2, L_cycles=2, L_bp_cycles=[1],
                                                                                                          embedding_scale=3.0), {}),
}

FOLDERS |= {
    "gemma3-vision": ("gemma3", dict(mm_tokens_per_image=4, vision_config=VISION, text_config=base(
        head_dim=12, sliding_window=5, query_pre_attn_scalar=14, tie_word_embeddings=True, layer_types=THREE[:2])), {}),
    "llava-vision": ("llava", dict(image_seq_length=4, vision_config=VISION | dict(model_type="clip_vision_model", projection_dim=16),
                                   text_config=base(model_type="llama", attention_bias=True)), {}),
    "qwen2-vl": ("qwen2_vl", dict(vision_config=dict(depth=1, embed_dim=16, hidden_size=40, num_heads=2, mlp_ratio=2), text_config=base(rope_parameters=rope(
        "default", mrope_section=[1, 2, 2]))), {}),
    "qwen2_5-vl": ("qwen2_5_vl", dict(vision_config=dict(depth=1, hidden_size=16, out_hidden_size=40, num_heads=2, intermediate_size=24), text_config=base(
        rope_parameters=rope("default", mrope_section=[1, 2, 2]), use_sliding_window=True, sliding_window=6, max_window_layers=1)), {}),
    "mistral3-vision": ("mistral3", dict(vision_config=VISION | dict(model_type="pixtral", head_dim=8), text_config=base(
        model_type="mistral", head_dim=12, sliding_window=7)), {}),
}

G4 = dict(head_dim=8, tie_word_embeddings=True, sliding_window=5, num_key_value_heads=2)
NARROW = dict(hidden_size=32, intermediate_size=40, vocab_size=67)
FOUR = ["sliding_attention", "full_attention"] * 2


def global_sizes(**more):
    """Sizes of full attention as Gemma 4's first files have them."""
    return lambda c: changed(c, ["per_layer_config"], **more)


FOLDERS |= {
    "gemma4": ("gemma4_text", base(**NARROW, **G4, num_hidden_layers=4, layer_types=FOUR, pad_token_id=0, global_head_dim=16, num_kv_shared_layers=2, use_double_wide_mlp=True,
                                   vocab_size_per_layer_input=71, hidden_size_per_layer_input=6), {
        "old": lambda c: global_sizes(global_head_dim=16, num_global_key_value_heads=1, num_experts=None)(changed(c, ["rope_parameters", "tie_word_embeddings"]))}),
    "gemma4-experts": ("gemma4_text", base(**NARROW, **G4, num_hidden_layers=3, layer_types=THREE, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True,
                                           hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=12, experts="eager",
                                           final_logit_softcapping=3.0, attention_bias=True, rope_parameters=dict(
                                               full_attention=rope("proportional", partial_rotary_factor=0.5, factor=2.0), sliding_attention=rope("default", rope_theta=5000.0))), {
        "old": global_sizes(global_head_dim=16, num_global_key_value_heads=1)}),
    "gemma4-vision": ("gemma4", dict(vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
                                                        patch_size=4, position_embedding_size=16), text_config=base(
        **NARROW, **G4, layer_types=FOUR[:2], pad_token_id=0, global_head_dim=16, vocab_size_per_layer_input=67, hidden_size_per_layer_input=6,
        final_logit_softcapping=3.0, use_bidirectional_attention="vision")), {}),
}
G3N = NARROW | dict(head_dim=8, tie_word_embeddings=True, sliding_window=5, vocab_size_per_layer_input=61, hidden_size_per_layer_input=6, altup_num_inputs=3, laurel_rank=5,
                    rope_parameters=dict(full_attention=rope("default", rope_theta=90000.0), sliding_attention=rope("default", rope_theta=5000.0)))
FOLDERS |= {
    "gemma3n": ("gemma3n_text", base(**G3N | dict(intermediate_size=[40, 36, 40, 36]), num_hidden_layers=4, layer_types=FOUR, pad_token_id=0, num_kv_shared_layers=2, altup_active_idx=1,
                                     activation_sparsity_pattern=[0.7, 0.0, 0.4, 0.0], final_logit_softcapping=3.0), {
        "4": lambda c: changed(c, ["rope_parameters", "tie_word_embeddings"], rope_theta=90000.0, rope_local_base_freq=5000.0, rope_scaling=None)}),
}

# Convolutions and recurrent linear attention beside attention
CONVOLVES = ["conv", "full_attention", "conv"]
RECURS = ["linear_attention", "linear_attention", "full_attention"]
DELTA = dict(head_dim=12, num_hidden_layers=3, layer_types=RECURS, linear_key_head_dim=12, linear_value_head_dim=10, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_conv_kernel_dim=4, rms_norm_eps=0.02)  # of 1e-6 a result about 0 is a direction that a rounding turns
QWEN35_VISION = dict(depth=1, hidden_size=16, out_hidden_size=24, num_heads=2, intermediate_size=24, num_position_embeddings=16)
FOLDERS |= {
    "lfm2": ("lfm2", base(**LITTLE | dict(intermediate_size=60), num_hidden_layers=3, layer_types=CONVOLVES, conv_bias=True, block_multiple_of=8, block_ffn_dim_multiplier=0.7,
                          tie_word_embeddings=True, pad_token_id=0), {
        "old": lambda c: changed(version4()(c), ["layer_types", "tie_word_embeddings", "intermediate_size"], full_attn_idxs=[1], block_ff_dim=60, tie_embedding=True,
                                 block_use_swiglu=True)}),
    "lfm2-moe": ("lfm2_moe", base(**LITTLE, num_hidden_layers=3, layer_types=CONVOLVES, num_experts=4, moe_intermediate_size=20, num_dense_layers=1, conv_L_cache=4,
                                  routed_scaling_factor=1.3, **EXPERTS), {"4": version4()}),
    "lfm3": ("lfm3", base(**LITTLE, num_hidden_layers=3, layer_types=["conv", "full_attention", "sliding_attention"], head_dim=8, sliding_window=6, pad_token_id=0,
                          tie_word_embeddings=True), {"no-ropes": lambda c: changed(c, rope_parameters=None)}),
    "lfm3-plain": ("lfm3", base(**LITTLE, layer_types=CONVOLVES[:2], head_dim=8, use_sandwich_norm=False, use_attention_gate=False, attention_bias=True, conv_bias=True), {}),
    "lfm2-vl": ("lfm2_vl", dict(projector_hidden_size=16, vision_config=VISION | dict(model_type="siglip2_vision_model", num_patches=16), text_config=base(
        **LITTLE, model_type="lfm2", layer_types=CONVOLVES[:2], block_auto_adjust_ff_dim=False, pad_token_id=0)), {}),
    "qwen3-next": ("qwen3_next", base(**LITTLE, **DELTA, num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=12, mlp_only_layers=[1], **EXPERTS), {
        "4": lambda c: changed(version4()(c), ["layer_types"], full_attention_interval=3)}),
    "qwen3-5": ("qwen3_5_text", base(**LITTLE, **DELTA, tie_word_embeddings=True, attention_bias=True, rope_parameters=rope(
        "default", mrope_section=[1, 1, 1], mrope_interleaved=True, partial_rotary_factor=0.5)), {
        "no-types": lambda c: changed(c, ["layer_types"], full_attention_interval=3, attn_output_gate=True)}),
    "qwen3-5-moe": ("qwen3_5_moe", dict(vision_config=QWEN35_VISION, experts="eager", text_config=base(
        **LITTLE, **DELTA | dict(num_hidden_layers=2, layer_types=RECURS[1:]), num_experts=4, moe_intermediate_size=20, shared_expert_intermediate_size=12, num_experts_per_tok=2)), {}),
}

OLMO = ["linear_attention", "full_attention"]
FOLDERS |= {
    "olmo-hybrid": ("olmo_hybrid", base(**LITTLE, layer_types=OLMO, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, rope_parameters=dict(
        rope_type="default", rope_theta=None)), {"no-theta": lambda c: changed(c, ["rope_parameters"], rope_theta=None)}),
    "olmo-hybrid-turning": ("olmo_hybrid", base(**LITTLE, layer_types=OLMO, linear_allow_neg_eigval=False), {
        "no-types": lambda c: changed(c, ["layer_types", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"])}),
}

FOLDERS |= {
    "kimi-linear": ("kimi_linear", base(**LITTLE, num_hidden_layers=3, layer_types=["linear_attention", "linear_attention", "full_attention"], num_local_experts=4, n_shared_experts=1,
                                        moe_intermediate_size=20, num_experts_per_tok=2, experts="eager", num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6,
                                        qk_rope_head_dim=4, v_head_dim=8, linear_num_heads=2, linear_head_dim=12, rms_norm_eps=0.02), {
        "old": lambda c: changed(named(num_experts="num_local_experts", num_experts_per_token="num_experts_per_tok", moe_renormalize="norm_topk_prob", num_shared_experts="n_shared_experts",
                                       model_max_length="max_position_embeddings")(c), ["layer_types", "mlp_layer_types", "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"],
                                 first_k_dense_replace=1, linear_attn_config=dict(full_attn_layers=[3], kda_layers=[1, 2], head_dim=12, num_heads=2, short_conv_kernel_size=4))}),
}

# Mamba 2 beside attention
SPACE = dict(mamba_n_heads=4, mamba_d_head=12, mamba_n_groups=2, mamba_d_state=6, mamba_d_conv=4, mamba_expand=2)
STATES = ["linear_attention", "full_attention", "linear_attention"]
FOLDERS |= {
    "granite-hybrid": ("granitemoehybrid", base(**LITTLE, **SPACE, num_hidden_layers=3, layer_types=STATES, num_local_experts=3, shared_intermediate_size=28, embedding_multiplier=2.0,
                                                logits_scaling=1.5, residual_multiplier=0.7, attention_multiplier=0.3, tie_word_embeddings=True, **EXPERTS), {
        "4": lambda c: changed(c, ["rope_parameters"], time_step_limit=[0.0, math.inf], layer_types=["mamba", "attention", "mamba"], position_embedding_type="nope", rope_theta=10000)}),
    "granite-hybrid-dense": ("granitemoehybrid", base(**LITTLE, **SPACE | dict(mamba_n_groups=1), layer_types=STATES[:2], num_local_experts=0, shared_intermediate_size=28,
                                                      position_embedding_type="rope", mamba_proj_bias=True, time_step_limit=[0.05, 0.4], attention_bias=True), {}),
    "bamba": ("bamba", base(**LITTLE, **SPACE, num_hidden_layers=3, attn_layer_indices=[1], mamba_conv_bias=False), {
        "4": lambda c: changed(version4()(c), ["time_step_limit", "layer_types"])}),
    "falcon-h1": ("falcon_h1", base(**LITTLE, **SPACE | dict(mamba_d_ssm=32, mamba_d_head=8, mamba_n_groups=1), head_dim=8, mamba_rms_norm=False, key_multiplier=0.7, lm_head_multiplier=0.6, embedding_multiplier=2.5,
                                    mlp_multipliers=[0.8, 0.6], attention_in_multiplier=0.9, attention_out_multiplier=0.7, ssm_in_multiplier=1.3, ssm_out_multiplier=0.8,
                                    ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7]), {"4": lambda c: changed(version4()(c), ["time_step_limit", "layer_types"])}),
    "nemotron-h": ("nemotron_h", {k: v for k, v in base(**LITTLE).items() if k != "num_hidden_layers"} | dict(
        layers_block_type=["linear_attention", "moe", "full_attention", "mlp"], head_dim=8, mamba_num_heads=4, mamba_head_dim=10, n_groups=2, ssm_state_size=6, n_routed_experts=4,
        moe_intermediate_size=20, moe_shared_expert_intermediate_size=12, routed_scaling_factor=1.3, mlp_bias=False, time_step_min=0.05, **EXPERTS), {
        "letters": lambda c: changed(c, ["layers_block_type", "layer_types", "num_hidden_layers"], hybrid_override_pattern="ME*-"),
        "old": lambda c: changed(c, ["n_groups", "conv_kernel", "time_step_min", "use_conv_bias"], mamba_n_groups=2, mamba_d_conv=4, mamba_dt_min=0.05, mamba_conv_bias=True,
                                 layers_block_type=["mamba", "moe", "attention", "mlp"])}),
    "mamba2": ("mamba2", dict(hidden_size=24, num_hidden_layers=2, vocab_size=61, num_heads=4, head_dim=12, n_groups=2, state_size=6, initializer_range=0.12, bos_token_id=None,
                              eos_token_id=None, pad_token_id=None, tie_word_embeddings=True, time_step_limit=[0.02, 0.5]), {
        "old": lambda c: changed(c, time_step_limit=[0.02, 0.5], time_step_rank="auto")}),
    "falcon-h1-norms": ("falcon_h1", base(**LITTLE, **SPACE, mamba_rms_norm=True, mamba_d_ssm=48, mamba_norm_before_gate=False, projectors_bias=True, mlp_bias=True, attention_bias=True,
                                          tie_word_embeddings=True), {}),
}

# Blocks that layers share in turn: the third use is of the first block again
SHARED = {k: v for k, v in base(**LITTLE, num_key_value_heads=4).items() if k != "num_hidden_layers"} | dict(
    num_hidden_layers=5, layers_block_type=["linear_attention", "hybrid", "hybrid", "linear_attention", "hybrid"], mamba_d_state=6, n_mamba_heads=4, mamba_ngroups=2, num_mem_blocks=2, adapter_rank=3)
FOLDERS |= {
    "zamba2": ("zamba2", SHARED | dict(use_shared_attention_adapter=True, use_mem_rope=True, tie_word_embeddings=True, time_step_min=0.05), {
        "4": lambda c: changed(version4()(c), ["layer_types"], layers_block_type=["mamba", "hybrid", "hybrid", "mamba", "hybrid"], hybrid_layer_ids=[1, 2, 4])}),
    "zamba2-plain": ("zamba2", SHARED | dict(tie_word_embeddings=True, num_key_value_heads=2, add_bias_linear=True, num_mem_blocks=1, intermediate_size=None, hidden_act="silu"), {}),
}

SCAN = dict(hidden_size=24, num_hidden_layers=2, vocab_size=61, state_size=6, initializer_range=0.12, bos_token_id=None, eos_token_id=None, pad_token_id=None)
FOLDERS |= {
    "mamba": ("mamba", SCAN | dict(time_step_rank=5, use_bias=True), {}),
    "falcon-mamba": ("falcon_mamba", SCAN | dict(tie_word_embeddings=False, mixer_rms_eps=0.01, use_conv_bias=False), {
        "auto": lambda c: changed(c, time_step_rank="auto")}),
}

# Whose gates multiply each head of channels by a matrix, and whose decays are near 1
FOLDERS |= {
    "recurrent-gemma": ("recurrent_gemma", base(hidden_size=32, num_hidden_layers=3, num_key_value_heads=1, vocab_size=61, lru_width=48, block_types=["recurrent", "attention"],
                                                attention_window_size=6, conv1d_width=3, logits_soft_cap=3.0, w_init_variance_scale=0.3), {
        "4": lambda c: changed(c, ["rope_parameters"], rope_theta=10000.0, partial_rotary_factor=0.5, head_dim=99, embeddings_scale_by_sqrt_dim=True)}),
    "recurrent-gemma-tied": ("recurrent_gemma", base(hidden_size=32, num_attention_heads=2, num_key_value_heads=None, vocab_size=61, tie_word_embeddings=True, attention_bias=True,
                                                     attention_window_size=64, w_init_variance_scale=0.2, hidden_activation="silu"), {}),
}

FOLDERS |= {
    "jamba": ("jamba", base(**LITTLE, num_hidden_layers=3, attn_layer_period=3, attn_layer_offset=1, num_experts=3, mamba_d_state=6, mamba_dt_rank=5, use_mamba_kernels=False, **EXPERTS), {
        "4": lambda c: changed(c, ["layer_types"], num_logits_to_keep=1, calc_logits_for_entire_prompt=False)}),
}

# Decays of its blocks of 7 tokens are stored: the last block of a row is shorter
FOLDERS |= {
    "minimax": ("minimax", base(**LITTLE, num_hidden_layers=3, layer_types=["full_attention", "linear_attention", "linear_attention"], block_size=7, num_local_experts=3, full_attn_alpha_factor=1.4,
                                full_attn_beta_factor=0.8, linear_attn_alpha_factor=1.2, linear_attn_beta_factor=0.9, mlp_alpha_factor=1.3, mlp_beta_factor=0.7, **EXPERTS), {
        "types": lambda c: changed(c, sliding_window=None)}),
    "nemotron-h-narrow": ("nemotron_h", {k: v for k, v in base(**LITTLE).items() if k != "num_hidden_layers"} | dict(
        layers_block_type=["linear_attention", "moe", "full_attention", "moe"], head_dim=8, mamba_num_heads=4, mamba_head_dim=10, n_groups=2, ssm_state_size=6, n_routed_experts=4,
        moe_intermediate_size=20, moe_shared_expert_intermediate_size=12, moe_latent_size=14, mlp_bias=True, time_step_min=0.05, **EXPERTS), {}),
}

FOLDERS |= multimodal_configurations.FOLDERS

# Made by the long test alone: what differs from the others in names and defaults
MOE = dict(moe_intermediate_size=20, num_experts_per_tok=2, experts="eager")
QWEN3_VISION = dict(depth=1, hidden_size=16, out_hidden_size=40, num_heads=2, intermediate_size=24, num_position_embeddings=16, deepstack_visual_indexes=[0])
MORE = {
    **{f"llama-{name.replace('_', '-')}": ("llama", base(**TINY, hidden_act=name), {}) for name in (
        "gelu_10", "relu6", "hardswish", "sigmoid", "laplace", "sqrtsoftplus", "linear", "gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh", "gelu_python")},
    "persimmon-plain": ("persimmon", {k: v for k, v in base(qk_layernorm=False, num_attention_heads=2).items() if k != "num_key_value_heads"}, {}),
    "hunyuan-moe": ("hunyuan_v1_moe", base(head_dim=12, num_experts=4, moe_topk=2, experts="eager"), {}),
    "minimax-m2": ("minimax_m2", base(head_dim=12, num_local_experts=4, num_experts_per_tok=2, rotary_dim=6, experts="eager"), {}),
    "glm4-moe-lite": ("glm4_moe_lite", base(num_key_value_heads=4, n_group=1, topk_group=1, mlp_layer_types=["dense", "sparse"], **{
        k: v for k, v in DEEPSEEK.items() if k != "first_k_dense_replace"}), {}),
    "flex-olmo": ("flex_olmo", base(num_experts=4, num_experts_per_tok=2, experts="eager"), {}),
    "vaultgemma": ("vaultgemma", base(head_dim=10, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=5.0,
                                      final_logit_softcapping=3.0, attention="eager"), {}),
    "jais2": ("jais2", base(), {}),
    "glm-odd-dynamic": ("glm", base(head_dim=12, max_position_embeddings=12, rope_parameters=rope("dynamic", partial_rotary_factor=0.25, factor=2.0)), {}),
    "solar-open": ("solar_open", base(attention_bias=True, head_dim=12, n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1, **MOE), {}),
    "youtu": ("youtu", base(num_key_value_heads=4, **{k: DEEPSEEK[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}), {}),
    "exaone4-pattern": ("exaone4", base(num_hidden_layers=3, sliding_window=5, sliding_window_pattern=2), {}),
    "dots1-window": ("dots1", base(head_dim=12, num_hidden_layers=3, sliding_window=5, max_window_layers=1, n_routed_experts=4, n_shared_experts=1,
                                   first_k_dense_replace=1, **MOE), {}),
    "deepseek-v2-groups": ("deepseek_v2", base(num_key_value_heads=4, n_group=2, topk_group=1, topk_method="group_limited_greedy", **DEEPSEEK), {}),
    "llama4-vision": ("llama4", dict(vision_config=VISION | dict(vision_output_dim=16, projector_input_dim=16, projector_output_dim=16, pixel_shuffle_ratio=0.5),
                                     text_config=base(head_dim=12, num_local_experts=3, intermediate_size=20, intermediate_size_mlp=32, num_experts_per_tok=1,
                                                      attention_chunk_size=7), experts="eager"), {}),
    "llava-next-vision": ("llava_next", dict(vision_config=VISION | dict(model_type="clip_vision_model", projection_dim=16), text_config=base(model_type="mistral", head_dim=12)), {}),
    "idefics3-vision": ("idefics3", dict(vision_config=VISION, text_config=base(model_type="llama", pad_token_id=0)), {}),
    "smolvlm-vision": ("smolvlm", dict(vision_config=VISION, text_config=base(model_type="llama", pad_token_id=0)), {}),
    "internvl-vision": ("internvl", dict(vision_config=VISION | dict(image_size=[28, 28], patch_size=[14, 14]), text_config=base(model_type="qwen2")), {}),
    "idefics2-vision": ("idefics2", dict(vision_config=VISION, perceiver_config=dict(hidden_size=16, resampler_n_latents=2, resampler_depth=1, resampler_n_heads=2,
                                         resampler_head_dim=8, num_key_value_heads=1), text_config=base(model_type="mistral", head_dim=12)), {}),
    "deepseek-vl": ("deepseek_vl", dict(vision_config=VISION, text_config=base(model_type="llama")), {}),
    "lighton-ocr": ("lighton_ocr", dict(vision_config=VISION | dict(model_type="pixtral", head_dim=8), text_config=base(model_type="qwen3", head_dim=12)), {}),
    "llava-next-video": ("llava_next_video", dict(vision_config=VISION | dict(model_type="clip_vision_model", projection_dim=16), text_config=base(model_type="llama")), {}),
    "video-llama3": ("video_llama_3", dict(vision_config=VISION, text_config=base(model_type="qwen2")), {}),
    "hyperclovax-vision": ("hyperclovax_vision_v2", dict(vision_config=VISION, text_config=base(model_type="hyperclovax", logits_scaling=0.4, head_dim=12)), {}),
    "iquestcoder": ("iquestcoder", base(head_dim=12), {}),
    "apertus1p5": ("apertus1p5_text", base(rope_parameters=LLAMA3), {}),
    "sarvam-mla": ("sarvam_mla", base(num_key_value_heads=4, **DEEPSEEK | dict(q_lora_rank=None), rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.8)), {}),
    "axk1-no-bias": ("axk1", base(num_key_value_heads=4, n_group=1, topk_group=1, **{k: v for k, v in DEEPSEEK.items() if k != "first_k_dense_replace"}), {}),
    "phi4-multimodal": ("phi4_multimodal", base(vision_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, crop_size=28, patch_size=14,
                                                                  image_size=28),
                                                audio_config=dict(hidden_size=16, intermediate_size=24, num_blocks=1, num_attention_heads=2, ext_pw_out_channel=16, nemo_conv_channels=16)), {}),
    "emu3-vision": ("emu3", dict(vq_config=dict(base_channels=32, channel_multiplier=[1], num_res_blocks=1, attn_resolutions=[], hidden_size=16, embed_dim=4,
                                               num_attention_heads=1, codebook_size=8), vocabulary_map={"<image>": 1},
                                 text_config={k: v for k, v in base(attention_dropout=0.0).items() if not k.endswith("_token_id")} | dict(pad_token_id=0)), {}),
    "aria-vision": ("aria", dict(vision_config=VISION | dict(model_type="idefics3_vision"), projector_patch_to_query_dict={4: 2}, experts="eager",
                                 text_config=base(model_type="aria_text", moe_num_experts=4, moe_topk=2, moe_num_shared_experts=1)), {}),
    "minimax-m3-vision": ("minimax_m3_vl", dict(projector_hidden_size=16, experts="eager", vision_config=dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14), text_config=base(
        **LITTLE, head_dim=12, dense_intermediate_size=28, shared_intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, mlp_layer_types=["dense", "sparse"],
        index_n_heads=2, index_head_dim=8, index_block_size=4, index_topk_blocks=6, layer_types=["full_attention", "minimax_m3_sparse"])), {}),
    "dots3-note-vision": ("dots3_note", dict(experts="eager", vision_config=dict(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, moe_intermediate_size=12, num_local_experts=2, num_experts_per_tok=1,
        mlp_layer_types=["dense"], adapter_in_dim=16, adapter_out_dim=24), audio_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                                                                                       downsample_hidden_size=8, adapter_input_size=16, adapter_out_dim=24),
        text_config=base(**LITTLE) | {k: v for k, v in CHOOSING.items() if k != "experts"} | dict(
            head_dim=14, shared_experts_intermediate_size=16, layer_types=["indexed_attention"] * 2)), {}),
    "qwen3-vl": ("qwen3_vl", dict(vision_config=QWEN3_VISION, text_config=base(head_dim=12)), {}),
    "qwen3-vl-tied": ("qwen3_vl", dict(tie_word_embeddings=True, vision_config=QWEN3_VISION, text_config=base(head_dim=12)), {}),
    "qwen3-vl-moe": ("qwen3_vl_moe", dict(vision_config=QWEN3_VISION, experts="eager", text_config=base(
        head_dim=12, num_experts=4, moe_intermediate_size=24, num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[0])), {}),
    "glm-ocr": ("glm_ocr", dict(vision_config=GLM_VISION, text_config=base(**LITTLE, head_dim=14, rope_parameters=rope("default", mrope_section=[2, 2, 3]))), {}),
    "glm46v-moe": ("glm46v", dict(vision_config=GLM_VISION | dict(model_type="glm4v_moe_vision"), experts="eager", text_config=base(
        **LITTLE, model_type="glm4v_moe_text", head_dim=12, rope_parameters=OF_PARTS, n_routed_experts=4, moe_intermediate_size=20, num_experts_per_tok=2)), {}),
    "glmga": ("glmga", dict(tie_word_embeddings=True, vision_config=GLM_VISION, text_config=base(**LITTLE, rope_parameters=rope("default", mrope_section=[1, 1, 1]))), {}),
    **{name.replace("_", "-"): (name, dict(insert_layer_id=0, vision_config=VISION | dict(insert_layer_id=0, image_size=28, patch_size=14), text_config=base(
        **LITTLE, **DELTA, model_type="qwen3_5_text", rope_parameters=OF_PARTS)), {}) for name in ("minicpm_ocr", "minicpmv4_6", "minicpmv4_7")},
    "nemotron-h-omni": ("nemotron_h_omni", dict(projector_hidden_size=16, vision_hidden_size=16, experts="eager", vision_config=dict(
        model_type="radio", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=32, max_img_size=32, mlp_ratio=1.5, video_temporal_patch_size=2),
        text_config={k: v for k, v in base(**LITTLE).items() if k != "num_hidden_layers"} | dict(
            model_type="nemotron_h", layers_block_type=["linear_attention", "moe", "full_attention", "mlp"], head_dim=8, mamba_num_heads=4, mamba_head_dim=10, n_groups=2,
            ssm_state_size=6, n_routed_experts=4, moe_intermediate_size=20, moe_shared_expert_intermediate_size=12, time_step_min=0.05, num_experts_per_tok=2)), {}),
    "paddleocr-vl": ("paddleocr_vl", dict(vision_config=VISION, tie_word_embeddings=True, text_config=base(
        **LITTLE | dict(tie_word_embeddings=True), head_dim=12, use_bias=True, rope_parameters=rope("default", mrope_section=[2, 2, 2]))), {}),
    "granite4-vision": ("granite4_vision", dict(vision_config=VISION | dict(model_type="clip_vision_model", hidden_size=64, projection_dim=16), downsample_rate="1/2", deepstack_layer_map=[[0, 0]],
                                                text_config=base(**LITTLE, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.7, attention_multiplier=0.3)), {}),
    "cosmos3-omni": ("cosmos3_omni", dict(vision_config=QWEN3_VISION, text_config=base(head_dim=12, model_type="qwen3_vl_text")), {}),
}


# Where two experts of the first draw are nearer to one another than a rounding to bf16: which one a token gets would be chance. CTRL's ReLU and Apertus' numbers
# have such a draw too.
SEEDS = {"beam": 8, "jetmoe": 4, "mixtral": 18, "exaone-moe": 27, "granite-moe-swa": 52, "kolibri1": 3, "ctrl": 1, "apertus1p5": 2, "lfm3": 1, "olmo-hybrid-turning": 1, "recurrent-gemma": 3, "step3p7": 1, "muse-spark": 52}
