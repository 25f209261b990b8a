"""Tiny configurations of transformers' families. Sizes are odd on purpose: heads of 12, a vocabulary of 101, three layers where layers alternate."""


def base(**more):
    """What most configurations of transformers read."""
    return dict(hidden_size=48, intermediate_size=84, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=101,
                max_position_embeddings=64, initializer_range=0.08, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
                pad_token_id=None) | more


def old(**more):
    """The same without key/value heads."""
    options = base(**more)
    del options["num_key_value_heads"]
    return options


ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
NO_DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
GPT = dict(n_embd=48, n_layer=2, n_head=4, vocab_size=101, n_positions=64, initializer_range=0.08, bos_token_id=None, eos_token_id=None,
           pad_token_id=None)

LINEAR_FIRST = ["linear_attention", "full_attention"]
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=12)

# name: (model type of transformers, options)
FAMILIES = {
    "llama": ("llama", base(num_hidden_layers=3)),
    "llama-biases": ("llama", base(attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "llama-linear": ("llama", base(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0))),
    "llama-dynamic": ("llama", base(rope_parameters=dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0))),
    "llama-yarn": ("llama", base(rope_parameters=dict(rope_type="yarn", factor=4.0, rope_theta=10000.0, original_max_position_embeddings=16))),
    "llama3": ("llama", base(rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                  original_max_position_embeddings=16))),
    "mistral": ("mistral", base(sliding_window=7, head_dim=10)),
    "mistral-full": ("mistral", base(sliding_window=None)),
    "ministral3": ("ministral3", base(head_dim=12)),
    "qwen2": ("qwen2", base(tie_word_embeddings=True)),
    "qwen2-window": ("qwen2", base(use_sliding_window=True, sliding_window=6, max_window_layers=1)),
    "qwen3": ("qwen3", base(head_dim=14)),
    "gemma": ("gemma", base(head_dim=16, tie_word_embeddings=True, num_key_value_heads=1)),
    "gemma2": ("gemma2", base(head_dim=16, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=6, query_pre_attn_scalar=20,
                              attn_logit_softcapping=5.0, final_logit_softcapping=3.0, layer_types=ALTERNATING, attention="eager")),
    "gemma3": ("gemma3_text", base(head_dim=16, num_hidden_layers=3, tie_word_embeddings=True, sliding_window=6, query_pre_attn_scalar=20,
                                   layer_types=ALTERNATING)),
    "phi": ("phi", base(partial_rotary_factor=0.5, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0)),
    "phi3": ("phi3", base(partial_rotary_factor=1.0, resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=9)),
    "phi3-longrope": ("phi3", base(resid_pdrop=0.0, embd_pdrop=0.0, original_max_position_embeddings=32, rope_parameters=dict(
        rope_type="longrope", rope_theta=10000.0, short_factor=[1.0 + 0.1 * i for i in range(6)], long_factor=[1.0 + 0.7 * i for i in range(6)],
        original_max_position_embeddings=32))),
    "gpt2": ("gpt2", GPT | NO_DROPOUT),
    "gpt2-untied": ("gpt2", GPT | NO_DROPOUT | dict(tie_word_embeddings=False, scale_attn_by_inverse_layer_idx=True)),
    "gpt_neo": ("gpt_neo", dict(hidden_size=48, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=6, vocab_size=101,
                                max_position_embeddings=64, initializer_range=0.08, bos_token_id=None, eos_token_id=None, resid_dropout=0.0,
                                embed_dropout=0.0, attention_dropout=0.0)),
    "gpt_neox": ("gpt_neox", old(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "gpt_neox-serial": ("gpt_neox", old(use_parallel_residual=False, hidden_act="relu")),
    "gptj": ("gptj", GPT | NO_DROPOUT | dict(rotary_dim=6, tie_word_embeddings=False)),
    "opt": ("opt", dict(hidden_size=48, ffn_dim=84, num_hidden_layers=2, num_attention_heads=4, vocab_size=101, max_position_embeddings=64,
                        init_std=0.08, dropout=0.0, attention_dropout=0.0, word_embed_proj_dim=48, pad_token_id=1, bos_token_id=None, eos_token_id=None)),
    "opt-post": ("opt", dict(hidden_size=48, ffn_dim=84, num_hidden_layers=2, num_attention_heads=4, vocab_size=101, max_position_embeddings=64,
                             init_std=0.08, dropout=0.0, attention_dropout=0.0, word_embed_proj_dim=36, do_layer_norm_before=False, pad_token_id=None,
                             bos_token_id=None, eos_token_id=None)),
    "bloom": ("bloom", dict(hidden_size=48, n_layer=2, n_head=4, vocab_size=101, initializer_range=0.08, hidden_dropout=0.0, attention_dropout=0.0,
                            pad_token_id=None, bos_token_id=None, eos_token_id=None)),
    "mpt": ("mpt", dict(d_model=48, n_layers=2, n_heads=4, expansion_ratio=2, max_seq_len=64, vocab_size=101, initializer_range=0.08)),
    "falcon": ("falcon", dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=101, initializer_range=0.08, bos_token_id=None,
                              eos_token_id=None, hidden_dropout=0.0, attention_dropout=0.0)),
    "falcon-new": ("falcon", dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2, new_decoder_architecture=True,
                                  vocab_size=101, initializer_range=0.08, bos_token_id=None, eos_token_id=None, bias=True)),
    "falcon-alibi": ("falcon", dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, alibi=True, multi_query=False, parallel_attn=False,
                                    bias=True, vocab_size=101, initializer_range=0.08, bos_token_id=None, eos_token_id=None)),
    "stablelm": ("stablelm", base(partial_rotary_factor=0.5, use_qkv_bias=True, hidden_dropout=0.0, attention_dropout=0.0)),
    "stablelm-norms": ("stablelm", base(partial_rotary_factor=0.5, qk_layernorm=True, use_parallel_residual=True)),
    "starcoder2": ("starcoder2", base(sliding_window=7, tie_word_embeddings=True, residual_dropout=0.0, embedding_dropout=0.0)),
    "codegen": ("codegen", GPT | NO_DROPOUT | dict(rotary_dim=6, tie_word_embeddings=False)),
    "gpt_bigcode": ("gpt_bigcode", GPT | NO_DROPOUT | dict(multi_query=True)),
    "olmo": ("olmo", base(clip_qkv=0.5)),
    "olmo2": ("olmo2", base()),
    "olmo3": ("olmo3", base(num_hidden_layers=3, sliding_window=6, layer_types=ALTERNATING)),
    "granite": ("granite", base(embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.7, attention_multiplier=0.3)),
    "cohere": ("cohere", base(logit_scale=0.3, tie_word_embeddings=True)),
    "cohere-norms": ("cohere", base(logit_scale=0.3, use_qk_norm=True, tie_word_embeddings=True)),
    "cohere2": ("cohere2", base(num_hidden_layers=3, sliding_window=6, layer_types=ALTERNATING, tie_word_embeddings=True)),
    "smollm3": ("smollm3", base(num_hidden_layers=3, no_rope_layers=[1, 1, 0])),
    "persimmon": ("persimmon", old(hidden_dropout=0.0, attention_dropout=0.0)),
    "nemotron": ("nemotron", base(head_dim=12, attention_dropout=0.0)),
    "exaone4": ("exaone4", base(num_hidden_layers=3, sliding_window=6, layer_types=ALTERNATING)),
    "glm": ("glm", base(head_dim=12, partial_rotary_factor=0.5)),
    "glm4": ("glm4", base(head_dim=12, partial_rotary_factor=0.5)),
    "helium": ("helium", base(head_dim=12)),
    "arcee": ("arcee", base()),
    "seed_oss": ("seed_oss", base(head_dim=10, attention_bias=True, attention_out_bias=False, attention_dropout=0.0, residual_dropout=0.0)),
    "ernie4_5": ("ernie4_5", base(head_dim=12, use_bias=True)),
    "hunyuan": ("hunyuan_v1_dense", base(head_dim=12)),
    "apertus": ("apertus", base()),
    "xglm": ("xglm", dict(d_model=48, ffn_dim=84, num_layers=2, attention_heads=4, vocab_size=101, max_position_embeddings=64, init_std=0.08, dropout=0.0,
                          attention_dropout=0.0, activation_dropout=0.0, pad_token_id=1, bos_token_id=None, eos_token_id=None)),
    "biogpt": ("biogpt", dict(hidden_size=48, intermediate_size=84, num_hidden_layers=2, num_attention_heads=4, vocab_size=101, max_position_embeddings=64,
                              initializer_range=0.08, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, activation_dropout=0.0, layerdrop=0.0,
                              pad_token_id=1, bos_token_id=None, eos_token_id=None)),
    "ctrl": ("ctrl", dict(n_embd=48, n_layer=2, n_head=4, dff=84, vocab_size=101, n_positions=64, initializer_range=0.08, resid_pdrop=0.0, embd_pdrop=0.0)),
    "openai-gpt": ("openai-gpt", dict(n_embd=48, n_layer=2, n_head=4, vocab_size=101, n_positions=64, initializer_range=0.08, **NO_DROPOUT)),
    "internlm3": ("internlm3", base(head_dim=12, qkv_bias=True, bias=True)),
    "minicpm3": ("minicpm3", base(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=10, scale_emb=3, scale_depth=1.4,
                                  dim_model_base=24)),
    # mixtures of experts
    "mixtral": ("mixtral", base(num_local_experts=4, num_experts_per_tok=2)),
    "mixtral-batched": ("mixtral", base(num_local_experts=4, num_experts_per_tok=2, experts="batched_mm")),
    "mixtral-grouped": ("mixtral", base(num_local_experts=4, num_experts_per_tok=2, experts="grouped_mm")),
    "qwen2_moe": ("qwen2_moe", base(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=36, shared_expert_intermediate_size=40,
                                    experts="batched_mm")),
    "qwen3_moe": ("qwen3_moe", base(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=36, norm_topk_prob=True, experts="batched_mm")),
    "olmoe": ("olmoe", base(num_experts=4, num_experts_per_tok=2, experts="batched_mm")),
    "granitemoe": ("granitemoe", base(num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=2.0, logits_scaling=1.5, residual_multiplier=0.7,
                                      attention_multiplier=0.3)),
    "gpt_oss": ("gpt_oss", base(head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=6, attention="eager", experts="batched_mm")),
    "deepseek_v2": ("deepseek_v2", base(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=10,
                                        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=36, first_k_dense_replace=1,
                                        n_group=1, topk_group=1, topk_method="greedy", experts="batched_mm")),
    "deepseek_v3": ("deepseek_v3", base(num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=10,
                                        n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=36, first_k_dense_replace=1,
                                        n_group=2, topk_group=1, experts="batched_mm")),
    "dots1": ("dots1", base(head_dim=12, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=36, first_k_dense_replace=1,
                            n_group=1, topk_group=1, experts="batched_mm")),
    "ernie4_5_moe": ("ernie4_5_moe", base(moe_num_experts=4, moe_k=2, moe_intermediate_size=36, moe_num_shared_experts=1, moe_layer_start_index=1,
                                          experts="batched_mm")),
    "glm4_moe": ("glm4_moe", base(head_dim=12, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=36,
                                  first_k_dense_replace=1, n_group=1, topk_group=1, experts="batched_mm")),
    # short convolutions and recurrent layers beside attention, or instead of it
    "lfm2": ("lfm2", base(block_ff_dim=84, block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention"])),
    "qwen3_next": ("qwen3_next", base(head_dim=12, layer_types=LINEAR_FIRST, experts="batched_mm", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=36,
                                      shared_expert_intermediate_size=40, **DELTA)),
    "qwen3_5": ("qwen3_5_text", base(head_dim=12, layer_types=LINEAR_FIRST, **DELTA)),
    "olmo_hybrid": ("olmo_hybrid", base(layer_types=LINEAR_FIRST, linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=10)),
    "granitemoehybrid": ("granitemoehybrid", base(layer_types=["mamba", "attention"], mamba_n_heads=8, mamba_d_head=12, mamba_d_state=10, num_local_experts=0,
                                                  shared_intermediate_size=40, embedding_multiplier=2.0)),
    "falcon_h1": ("falcon_h1", base(head_dim=12, mamba_n_heads=8, mamba_d_head=12, mamba_d_ssm=96, mamba_d_state=10)),
    "bamba": ("bamba", base(attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=12, mamba_d_state=10)),
    "nemotron_h": ("nemotron_h", base(head_dim=12, num_hidden_layers=3, layers_block_type=["mamba", "attention", "mlp"], mamba_num_heads=8, mamba_head_dim=12,
                                      ssm_state_size=10, n_groups=2)),
    "mamba2": ("mamba2", dict(hidden_size=48, num_hidden_layers=2, vocab_size=101, num_heads=8, head_dim=12, state_size=10, n_groups=2, expand=2)),
    "mamba": ("mamba", dict(hidden_size=48, num_hidden_layers=2, vocab_size=101, state_size=6)),
    "minimax": ("minimax", base(head_dim=12, layer_types=LINEAR_FIRST, num_local_experts=4, num_experts_per_tok=2, experts="batched_mm", block_size=8)),
    "recurrent_gemma": ("recurrent_gemma", base(num_key_value_heads=1, head_dim=12, block_types=["recurrent", "attention"], attention_window_size=6, lru_width=48)),
}

SMALLER = {"hidden_size": 24, "n_embd": 24, "d_model": 24, "word_embed_proj_dim": 24, "intermediate_size": 40, "ffn_dim": 40, "dff": 40, "block_ff_dim": 40, "vocab_size": 61, "head_dim": 6,
           "moe_intermediate_size": 20, "shared_expert_intermediate_size": 20, "query_pre_attn_scalar": 9}


def smaller(options):
    """The same family with fewer parameters: heads of 6."""
    return {k: SMALLER.get(k, v) for k, v in options.items()}


# What tests/e2e/families.py trains: name -> the export that is stored
STORED = {
    "gpt2": "torchscript",          # Gemm, LayerNorm, a tied head that the exporter copies
    "gpt_neox": "torchscript",      # one projection for q|k|v, interleaved per head; partial rotary; parallel residual; embed_out
    "gptj": "torchscript",          # interleaved rotary by strided slices
    "opt": "noopt",                 # learned positions with an offset, ReLU, a padding row
    "bloom": "torchscript",         # ALiBi
    "mpt": "op18",                  # ALiBi added to a mask that says what is hidden
    "falcon-new": "torchscript",    # two norms beside each other, grouped keys and values in one projection
    "gemma2": "op18",               # 1 + w, soft-caps, alternating windows, norms after the sub-layer
    "nemotron": "torchscript",      # LayerNorm with 1 + w, squared ReLU
    "granite": "op18",              # multipliers
    "cohere2": "op18",              # LayerNorm without bias, a scale of the logits, layers without positions
    "phi3": "torchscript",          # q|k|v and gate|up in one projection
    "openai-gpt": "torchscript",    # a mask that is neither causal nor a window, norms after the sub-layer
    "mixtral-batched": "torchscript",
    "deepseek_v3": "op18",          # latent attention, grouped experts with a bias on the router
    "nanogpt": "torchscript",       # a LayerNorm whose bias the exporter makes up
    "mingpt": "op18",               # nn.Sequential, a registered mask, positions as a parameter
    "llama2c": "op18",              # neighbours are a pair
    "mha-after": "op18",            # nn.MultiheadAttention
    "relative-bias": "noopt",       # a learned bias per distance, scalars that learn, a soft-cap of the logits
    "apertus": "op18",              # xIELU: a number that the exporter computed from a parameter and one half
    "gates": "op18",                # parameters that the exporter folded under exp, sigmoid, tanh, softplus and softmax
    "token-shift": "torchscript",   # 1 - w folded beside w
    "shared": "op18",               # one layer that runs three times, its matrices turned for each
    "dictionaries": "torchscript",  # modules that are called twice or have one name in two ModuleDicts
    "groups": "op18",               # GroupNorm, whose ones and zeros of groups are no parameters; a buffer that the checkpoint has too
    "recurrent": "op18",            # onnxruntime's operators of states and short convolutions
    "gpt_oss": "plain",             # attention sinks, experts with biases, a clamped SwiGLU
    "opt-post": "past",             # keys and values of earlier tokens as inputs, norms after the sub-layer
    "lfm2": "plain",                # short convolutions, whose weights the exporter folded
    "nemotron_h": "wrapped",        # recurrent layers; the checkpoint's backbone is model in the graph, below a wrapper
    "fresh-decays": "plain",        # equal functions of equal parameters of two layers, which the exporter made one
    "fresh-decays-torchscript": "torchscript-static", # equal parameters, which the exporter made one
    "starcoder2": "torchscript@slim", # what a simplifier leaves
    "picked-rows": "torchscript",   # experts compute the rows that a mask picks
    "experts-in-one": "op18",      # all experts as one tensor
    "compared-choices": "op18",     # experts' shares are 0 where they were not chosen, in four ways
}
