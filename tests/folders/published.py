"""config.json of well-known models as their publishers wrote them: keys, and sizes, are those of the published files; with the number of parameters that was published
(a tied head counts once; None: not known here), and what is refused by name.
"""


def llama(*without, **more):
    """Keys of a Llama of version 4 of transformers, without those that older files lack."""
    config = dict(architectures=["LlamaForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=1, eos_token_id=2, hidden_act="silu", hidden_size=4096,
                  initializer_range=0.02, intermediate_size=14336, max_position_embeddings=4096, mlp_bias=False, model_type="llama", num_attention_heads=32,
                  num_hidden_layers=32, num_key_value_heads=8, pretraining_tp=1, rms_norm_eps=1e-05, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False,
                  torch_dtype="bfloat16", transformers_version="4.40.0", use_cache=True, vocab_size=32000)
    return {k: v for k, v in config.items() if k not in without} | more


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192, rope_type="llama3")
OLD = ("attention_bias", "attention_dropout", "mlp_bias", "rope_theta")


def qwen(*without, **more):
    config = dict(architectures=["Qwen2ForCausalLM"], attention_dropout=0.0, bos_token_id=151643, eos_token_id=151645, hidden_act="silu", hidden_size=3584,
                  initializer_range=0.02, intermediate_size=18944, max_position_embeddings=32768, max_window_layers=28, model_type="qwen2", num_attention_heads=28,
                  num_hidden_layers=28, num_key_value_heads=4, rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=False,
                  torch_dtype="bfloat16", transformers_version="4.43.1", use_cache=True, use_sliding_window=False, vocab_size=152064)
    return {k: v for k, v in config.items() if k not in without} | more


def qwen3(**more):
    return qwen(architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, head_dim=128, max_position_embeddings=40960, rope_scaling=None,
                sliding_window=None, num_attention_heads=32, num_key_value_heads=8, transformers_version="4.51.0", vocab_size=151936) | more


def gemma(**more):
    return dict(attention_bias=False, attention_dropout=0.0, bos_token_id=2, eos_token_id=1, head_dim=256, hidden_act="gelu_pytorch_tanh",
                hidden_activation="gelu_pytorch_tanh", initializer_range=0.02, max_position_embeddings=8192, pad_token_id=0, rms_norm_eps=1e-06, rope_theta=10000.0,
                torch_dtype="bfloat16", transformers_version="4.42.0.dev0", use_cache=True) | more


def phi3(**more):
    return dict(architectures=["Phi3ForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=1, embd_pdrop=0.0, eos_token_id=32000, hidden_act="silu",
                hidden_size=3072, initializer_range=0.02, intermediate_size=8192, max_position_embeddings=4096, model_type="phi3", num_attention_heads=32,
                num_hidden_layers=32, num_key_value_heads=32, original_max_position_embeddings=4096, pad_token_id=32000, resid_pdrop=0.0, rms_norm_eps=1e-05,
                rope_scaling=None, rope_theta=10000.0, sliding_window=2047, tie_word_embeddings=False, torch_dtype="bfloat16", transformers_version="4.40.2",
                use_cache=True, vocab_size=32064) | more


PHI3_CODE = {"AutoConfig": "configuration_phi3.Phi3Config", "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}
GRANITE = dict(architectures=["GraniteForCausalLM"], model_type="granite", attention_multiplier=0.015625, embedding_multiplier=12.0, residual_multiplier=0.22,
               logits_scaling=8.0)
GPT2 = dict(activation_function="gelu_new", attn_pdrop=0.1, bos_token_id=50256, embd_pdrop=0.1, eos_token_id=50256, initializer_range=0.02, layer_norm_epsilon=1e-05,
            summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True)
SLIDE4 = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
DEEPSEEK = dict(attention_bias=False, attention_dropout=0.0, aux_loss_alpha=0.001, ep_size=1, hidden_act="silu", initializer_range=0.02, kv_lora_rank=512,
                moe_layer_freq=1, pretraining_tp=1, qk_nope_head_dim=128, qk_rope_head_dim=64, rms_norm_eps=1e-06, rope_theta=10000, seq_aux=True,
                tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, v_head_dim=128)

# name: (config, parameters)
PUBLISHED = {
    "Llama-2-7b": (llama(*OLD, intermediate_size=11008, num_key_value_heads=32, torch_dtype="float16"), 6738415616),
    "Llama-3.1-8B": (llama(bos_token_id=128000, eos_token_id=[128001, 128008, 128009], max_position_embeddings=131072, rope_scaling=LLAMA3, rope_theta=500000.0,
                           vocab_size=128256), 8030261248),
    "Llama-3.2-1B": (llama(head_dim=64, hidden_size=2048, intermediate_size=8192, max_position_embeddings=131072, num_hidden_layers=16, rope_theta=500000.0,
                           rope_scaling=LLAMA3 | dict(factor=32.0), tie_word_embeddings=True, vocab_size=128256), 1235814400),
    "TinyLlama-1.1B": (llama(*OLD, hidden_size=2048, intermediate_size=5632, max_position_embeddings=2048, num_hidden_layers=22, num_key_value_heads=4), 1100048384),
    "Yi-6B": (llama(*OLD, intermediate_size=11008, num_key_value_heads=4, rope_theta=5000000.0, vocab_size=64000, pad_token_id=0), 6061035520),
    "SmolLM2-135M": (llama(bos_token_id=0, eos_token_id=0, hidden_size=576, intermediate_size=1536, is_llama_config=True, max_position_embeddings=8192, num_attention_heads=9,
                           num_hidden_layers=30, num_key_value_heads=3, rope_interleaved=False, rope_theta=100000, tie_word_embeddings=True, vocab_size=49152,
                           initializer_range=0.041666666666666664), 134515008),
    "SmolLM3-3B": (llama("mlp_bias", "head_dim", architectures=["SmolLM3ForCausalLM"], model_type="smollm3", bos_token_id=128000, eos_token_id=128012, hidden_size=2048,
                         intermediate_size=11008, layer_types=["full_attention"] * 36, max_position_embeddings=65536, max_window_layers=28, mlp_bias=False,
                         no_rope_layer_interval=4, no_rope_layers=[1, 1, 1, 0] * 9, num_attention_heads=16, num_hidden_layers=36, num_key_value_heads=4, pad_token_id=128004,
                         pretraining_tp=2, rms_norm_eps=1e-06, rope_theta=5000000.0, sliding_window=None, tie_word_embeddings=True, use_sliding_window=False,
                         vocab_size=128256), 3075098624),
    "Qwen2.5-0.5B": (qwen(hidden_size=896, intermediate_size=4864, max_window_layers=24, num_attention_heads=14, num_hidden_layers=24, num_key_value_heads=2,
                          sliding_window=32768, tie_word_embeddings=True, vocab_size=151936, use_mrope=False), 494032768),
    "Qwen2.5-7B": (qwen(), 7615616512),
    "Qwen3-0.6B": (qwen3(hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_hidden_layers=28, tie_word_embeddings=True), 596049920),
    "Qwen3-8B": (qwen3(hidden_size=4096, intermediate_size=12288, max_window_layers=36, num_hidden_layers=36), 8190735360),
    "Qwen3-30B-A3B": (qwen3(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", decoder_sparse_step=1, hidden_size=2048, intermediate_size=6144,
                            max_window_layers=48, mlp_only_layers=[], moe_intermediate_size=768, norm_topk_prob=True, num_experts=128, num_experts_per_tok=8,
                            num_hidden_layers=48, num_key_value_heads=4, output_router_logits=False, router_aux_loss_coef=0.001), 30532122624),
    "gemma-2-9b": (gemma(architectures=["Gemma2ForCausalLM"], model_type="gemma2", attn_logit_softcapping=50.0, cache_implementation="hybrid", final_logit_softcapping=30.0,
                         hidden_size=3584, intermediate_size=14336, num_attention_heads=16, num_hidden_layers=42, num_key_value_heads=8, query_pre_attn_scalar=256,
                         sliding_window=4096, sliding_window_size=4096, vocab_size=256000), 9241705984),
    "gemma-3-1b": (gemma(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", attn_logit_softcapping=None, cache_implementation="hybrid", eos_token_id=[1, 106],
                         final_logit_softcapping=None, hidden_size=1152, intermediate_size=6912, max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=26,
                         num_key_value_heads=1, query_pre_attn_scalar=256, rope_local_base_freq=10000, rope_scaling=None, rope_theta=1000000, sliding_window=512,
                         sliding_window_pattern=6, vocab_size=262144), 999885952),
    "gemma-3-4b": (dict(architectures=["Gemma3ForConditionalGeneration"], boi_token_index=255999, eoi_token_index=256000, eos_token_id=[1, 106], image_token_index=262144,
                        initializer_range=0.02, mm_tokens_per_image=256, model_type="gemma3", torch_dtype="bfloat16", transformers_version="4.50.0.dev0",
                        text_config=dict(hidden_size=2560, intermediate_size=10240, model_type="gemma3_text", num_hidden_layers=34, sliding_window=1024,
                                         rope_scaling=dict(factor=8.0, rope_type="linear")),
                        vision_config=dict(hidden_size=1152, image_size=896, intermediate_size=4304, model_type="siglip_vision_model", num_attention_heads=16,
                                           num_hidden_layers=27, patch_size=14, vision_use_head=False)), 3880263168),
    "Mistral-7B-v0.1": (llama(*[k for k in OLD if k != "rope_theta"], "pretraining_tp", "rope_scaling", architectures=["MistralForCausalLM"], model_type="mistral",
                              max_position_embeddings=32768, sliding_window=4096), 7241732096),
    "Mistral-7B-v0.3": (llama("attention_bias", "mlp_bias", "pretraining_tp", "rope_scaling", architectures=["MistralForCausalLM"], model_type="mistral",
                              max_position_embeddings=32768, rope_theta=1000000.0, sliding_window=None, vocab_size=32768), 7248023552),
    "Mistral-Nemo": (llama("attention_bias", "mlp_bias", "pretraining_tp", "rope_scaling", architectures=["MistralForCausalLM"], model_type="mistral", head_dim=128,
                           hidden_size=5120, max_position_embeddings=131072, num_hidden_layers=40, rope_theta=1000000.0, sliding_window=None,
                           vocab_size=131072), 12247782400),
    "Mixtral-8x7B": (llama("attention_bias", "mlp_bias", "pretraining_tp", "rope_scaling", architectures=["MixtralForCausalLM"], model_type="mixtral",
                           max_position_embeddings=32768, num_experts_per_tok=2, num_local_experts=8, output_router_logits=False, rope_theta=1000000.0,
                           router_aux_loss_coef=0.02, sliding_window=None), 46702792704),
    "Phi-3-mini-4k": (phi3(auto_map=PHI3_CODE), 3821079552),
    "Phi-3-mini-128k": (phi3(auto_map=PHI3_CODE, max_position_embeddings=131072, sliding_window=262144, rope_scaling=dict(
        long_factor=[1.0 + i for i in range(48)], short_factor=[1.05 + 0.02 * i for i in range(48)], type="longrope")), 3821079552),
    "phi-4": (phi3(bos_token_id=100257, eos_token_id=100265, hidden_size=5120, intermediate_size=17920, max_position_embeddings=16384, num_attention_heads=40,
                   num_hidden_layers=40, num_key_value_heads=10, original_max_position_embeddings=16384, pad_token_id=100349, rope_theta=250000, sliding_window=None,
                   vocab_size=100352), 14659507200),
    "Phi-4-mini": (phi3(auto_map=PHI3_CODE, bos_token_id=199999, eos_token_id=199999, full_attn_mod=1, interpolate_factor=1, lm_head_bias=False, max_position_embeddings=131072,
                        mlp_bias=False, num_attention_heads=24, num_key_value_heads=8, pad_token_id=199999, partial_rotary_factor=0.75, sliding_window=262144,
                        tie_word_embeddings=True, vocab_size=200064, rope_scaling=dict(long_factor=[1.0 + i for i in range(48)], short_factor=[1.0] * 48, type="longrope")),
                   3836021760),
    "OLMo-2-7B": (llama("mlp_bias", "pretraining_tp", architectures=["Olmo2ForCausalLM"], model_type="olmo2", bos_token_id=None, eos_token_id=100257, intermediate_size=11008,
                        num_key_value_heads=32, pad_token_id=100277, rms_norm_eps=1e-06, rope_theta=500000, vocab_size=100352), 7298617344),
    "Olmo-3-7B": (llama("mlp_bias", "pretraining_tp", architectures=["Olmo3ForCausalLM"], model_type="olmo3", bos_token_id=None, eos_token_id=100257, intermediate_size=11008,
                        layer_types=SLIDE4 * 8, max_position_embeddings=65536, num_key_value_heads=32, pad_token_id=100277, rms_norm_eps=1e-06, sliding_window=4096,
                        rope_scaling=dict(attention_factor=1.2079441541679836, beta_fast=32, beta_slow=1, factor=8.0, original_max_position_embeddings=8192, rope_type="yarn"),
                        rope_theta=500000, vocab_size=100278), 7298011136),
    "granite-3.1-2b": (llama(**GRANITE, attention_dropout=0.1, bos_token_id=0, eos_token_id=0, hidden_size=2048, intermediate_size=8192, max_position_embeddings=131072,
                             num_hidden_layers=40, pad_token_id=0, rope_theta=5000000.0, tie_word_embeddings=True, vocab_size=49155), 2533531648),
    "gpt-oss-20b": (dict(architectures=["GptOssForCausalLM"], attention_bias=True, attention_dropout=0.0, eos_token_id=200002, experts_per_token=4, head_dim=64,
                         hidden_act="silu", hidden_size=2880, initial_context_length=4096, initializer_range=0.02, intermediate_size=2880,
                         layer_types=["sliding_attention", "full_attention"] * 12, max_position_embeddings=131072, model_type="gpt_oss", num_attention_heads=64,
                         num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=8, num_local_experts=32, output_router_logits=False, pad_token_id=199999,
                         rms_norm_eps=1e-05, rope_scaling=dict(beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=4096, rope_type="yarn",
                                                               truncate=False),
                         rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0, tie_word_embeddings=False, transformers_version="4.55.0.dev0",
                         use_cache=True, vocab_size=201088), 20914757184),
    "DeepSeek-V2-Lite": (DEEPSEEK | dict(architectures=["DeepseekV2ForCausalLM"], auto_map={"AutoModelForCausalLM": "modeling_deepseek.DeepseekV2ForCausalLM"},
                                         bos_token_id=100000, eos_token_id=100001, first_k_dense_replace=1, hidden_size=2048, intermediate_size=10944,
                                         max_position_embeddings=163840, model_type="deepseek_v2", moe_intermediate_size=1408, n_group=1, n_routed_experts=64,
                                         n_shared_experts=2, norm_topk_prob=False, num_attention_heads=16, num_experts_per_tok=6, num_hidden_layers=27,
                                         num_key_value_heads=16, q_lora_rank=None, rope_scaling=dict(beta_fast=32, beta_slow=1, factor=40, mscale=0.707, mscale_all_dim=0.707,
                                                                                                     original_max_position_embeddings=4096, type="yarn"),
                                         routed_scaling_factor=1.0, scoring_func="softmax", topk_group=1, topk_method="greedy", vocab_size=102400), 15706484224),
    "Nemotron-Mini-4B": (dict(architectures=["NemotronForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=2, eos_token_id=3, head_dim=128,
                              hidden_act="relu2", hidden_size=3072, initializer_range=0.0134, intermediate_size=9216, max_position_embeddings=4096, mlp_bias=False,
                              model_type="nemotron", norm_eps=1e-05, num_attention_heads=24, num_hidden_layers=32, num_key_value_heads=8, partial_rotary_factor=0.5,
                              rope_theta=10000, tie_word_embeddings=False, torch_dtype="bfloat16", use_cache=True, vocab_size=256000), 4190509056),
    "StarCoder2-3B": (dict(architectures=["Starcoder2ForCausalLM"], activation_function="gelu", attention_dropout=0.1, attention_softmax_in_fp32=True, bos_token_id=0,
                           embedding_dropout=0.1, eos_token_id=0, hidden_act="gelu_pytorch_tanh", hidden_size=3072, initializer_range=0.018042, intermediate_size=12288,
                           layer_norm_epsilon=1e-05, max_position_embeddings=16384, mlp_type="default", model_type="starcoder2", norm_epsilon=1e-05,
                           norm_type="layer_norm", num_attention_heads=24, num_hidden_layers=30, num_key_value_heads=2, residual_dropout=0.1,
                           rope_theta=999999.4420358813, scale_attention_softmax_in_fp32=True, scale_attn_weights=True, sliding_window=4096, torch_dtype="bfloat16",
                           transformers_version="4.37.0.dev0", use_bias=True, use_cache=True, vocab_size=49152), 3030371328),
    "falcon-7b": (dict(alibi=False, apply_residual_connection_post_layernorm=False, architectures=["FalconForCausalLM"], attention_dropout=0.0,
                       auto_map={"AutoConfig": "configuration_falcon.FalconConfig"}, bias=False, bos_token_id=11, eos_token_id=11, hidden_dropout=0.0, hidden_size=4544,
                       initializer_range=0.02, layer_norm_epsilon=1e-05, model_type="falcon", multi_query=True, new_decoder_architecture=False, num_attention_heads=71,
                       num_hidden_layers=32, parallel_attn=True, torch_dtype="bfloat16", use_cache=True, vocab_size=65024), 6921720704),
    "falcon-rw-1b": (dict(alibi=True, apply_residual_connection_post_layernorm=False, architectures=["FalconForCausalLM"], attention_dropout=0.0, bias=True, bos_token_id=1,
                          eos_token_id=2, hidden_dropout=0.0, hidden_size=2048, initializer_range=0.02, layer_norm_epsilon=1e-05, model_type="falcon", multi_query=False,
                          new_decoder_architecture=False, num_attention_heads=32, num_hidden_layers=24, parallel_attn=False, torch_dtype="bfloat16", vocab_size=50304), 1311625216),
    "gpt2": (GPT2 | dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_ctx=1024, n_embd=768, n_head=12, n_layer=12, n_positions=1024, resid_pdrop=0.1, vocab_size=50257,
                         task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}}), 124439808),
    "gpt-j-6b": (GPT2 | dict(architectures=["GPTJForCausalLM"], attn_pdrop=0.0, embd_pdrop=0.0, gradient_checkpointing=False, model_type="gptj", n_embd=4096, n_head=16,
                             n_inner=None, n_layer=28, n_positions=2048, resid_pdrop=0.0, rotary=True, rotary_dim=64, scale_attn_weights=True,
                             tie_word_embeddings=False, tokenizer_class="GPT2Tokenizer", use_cache=True, vocab_size=50400), 6050882784),
    "gpt-neo-125m": (dict(activation_function="gelu_new", architectures=["GPTNeoForCausalLM"], attention_dropout=0, attention_layers=["global", "local"] * 6,
                          attention_types=[[["global", "local"], 6]], bos_token_id=50256, embed_dropout=0, eos_token_id=50256, gradient_checkpointing=False, hidden_size=768,
                          initializer_range=0.02, intermediate_size=None, layer_norm_epsilon=1e-05, max_position_embeddings=2048, model_type="gpt_neo", num_heads=12,
                          num_layers=12, resid_dropout=0, summary_activation=None, summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index",
                          summary_use_proj=True, use_cache=True, vocab_size=50257, window_size=256), 125198592),
    "codegen-350M": (GPT2 | dict(architectures=["CodeGenForCausalLM"], attn_pdrop=0.0, embd_pdrop=0.0, gradient_checkpointing=False, model_type="codegen", n_ctx=2048, n_embd=1024,
                                 n_head=16, n_inner=None, n_layer=20, n_positions=2048, resid_pdrop=0.0, rotary_dim=32, scale_attn_weights=True, tie_word_embeddings=False,
                                 tokenizer_class="GPT2Tokenizer", use_cache=True, vocab_size=51200), 356712448),
    "pythia-1b": (dict(architectures=["GPTNeoXForCausalLM"], bos_token_id=0, eos_token_id=0, hidden_act="gelu", hidden_size=2048, initializer_range=0.02,
                       intermediate_size=8192, layer_norm_eps=1e-05, max_position_embeddings=2048, model_type="gpt_neox", num_attention_heads=8, num_hidden_layers=16,
                       rotary_emb_base=10000, rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16", use_cache=True, use_parallel_residual=True,
                       vocab_size=50304), 1011781632),
    "stablelm-2-1_6b": (dict(architectures=["StableLmForCausalLM"], attention_dropout=0.0, bos_token_id=100257, eos_token_id=100257, hidden_act="silu", hidden_dropout=0.0,
                             hidden_size=2048, initializer_range=0.02, intermediate_size=5632, layer_norm_eps=1e-05, max_position_embeddings=4096, model_type="stablelm",
                             num_attention_heads=32, num_hidden_layers=24, num_key_value_heads=32, partial_rotary_factor=0.25, rope_scaling=None, rope_theta=10000,
                             tie_word_embeddings=False, torch_dtype="float16", use_cache=True, use_qkv_bias=True, vocab_size=100352), 1644515328),
    "command-r-v01": (dict(architectures=["CohereForCausalLM"], attention_bias=False, attention_dropout=0.0, bos_token_id=5, eos_token_id=255001, hidden_act="silu",
                           hidden_size=8192, initializer_range=0.02, intermediate_size=22528, layer_norm_eps=1e-05, logit_scale=0.0625, max_position_embeddings=8192,
                           model_max_length=131072, model_type="cohere", num_attention_heads=64, num_hidden_layers=40, num_key_value_heads=64, pad_token_id=0,
                           pretraining_tp=1, rope_theta=8000000.0, torch_dtype="float16", use_cache=True, use_qk_norm=False, vocab_size=256000), 34980831232),
    "opt-350m": (dict(_remove_final_layer_norm=False, activation_dropout=0.0, activation_function="relu", architectures=["OPTForCausalLM"], attention_dropout=0.0,
                      bos_token_id=2, do_layer_norm_before=False, dropout=0.1, eos_token_id=2, ffn_dim=4096, hidden_size=1024, init_std=0.02, layerdrop=0.0,
                      max_position_embeddings=2048, model_type="opt", num_attention_heads=16, num_hidden_layers=24, pad_token_id=1, prefix="</s>", torch_dtype="float16",
                      use_cache=True, vocab_size=50272, word_embed_proj_dim=512), 331196416),
    "bloom-560m": (dict(apply_residual_connection_post_layernorm=False, architectures=["BloomForCausalLM"], attention_dropout=0.0, attention_softmax_in_fp32=True,
                        bias_dropout_fusion=True, bos_token_id=1, eos_token_id=2, hidden_dropout=0.0, initializer_range=0.02, layer_norm_epsilon=1e-05,
                        masked_softmax_fusion=True, model_type="bloom", n_embed=1024, n_inner=None, n_layer=24, num_attention_heads=16, offset_alibi=100, pad_token_id=3,
                        pretraining_tp=1, seq_length=2048, skip_bias_add=True, skip_bias_add_qkv=False, unk_token_id=0, use_cache=True, vocab_size=250880), 559214592),
    "mpt-7b": (dict(architectures=["MPTForCausalLM"], attn_config=dict(alibi=True, alibi_bias_max=8, attn_impl="torch", attn_pdrop=0, attn_type="multihead_attention",
                                                                       attn_uses_sequence_id=False, clip_qkv=None, prefix_lm=False, qk_ln=False, softmax_scale=None),
                    auto_map={"AutoConfig": "configuration_mpt.MPTConfig"}, d_model=4096, emb_pdrop=0, embedding_fraction=1.0, expansion_ratio=4, init_config=dict(
                        emb_init_std=None, fan_mode="fan_in", init_nonlinearity="relu", name="kaiming_normal_"), init_device="cpu", learned_pos_emb=True, logit_scale=None,
                    max_seq_len=2048, model_type="mpt", n_heads=32, n_layers=32, no_bias=True, norm_type="low_precision_layernorm", resid_pdrop=0,
                    tokenizer_name="EleutherAI/gpt-neox-20b", torch_dtype="bfloat16", use_cache=False, verbose=0, vocab_size=50432), 6649286656),
    "phi-2": (dict(architectures=["PhiForCausalLM"], attention_dropout=0.0, bos_token_id=50256, embd_pdrop=0.0, eos_token_id=50256, hidden_act="gelu_new", hidden_size=2560,
                   initializer_range=0.02, intermediate_size=10240, layer_norm_eps=1e-05, max_position_embeddings=2048, model_type="phi", num_attention_heads=32,
                   num_hidden_layers=32, num_key_value_heads=None, partial_rotary_factor=0.4, qk_layernorm=False, resid_pdrop=0.1, rope_scaling=None, rope_theta=10000.0,
                   tie_word_embeddings=False, torch_dtype="float16", use_cache=True, vocab_size=51200), 2779683840),
    "OLMoE-1B-7B": (llama("mlp_bias", "pretraining_tp", architectures=["OlmoeForCausalLM"], model_type="olmoe", clip_qkv=None, eos_token_id=50279, hidden_size=2048,
                          intermediate_size=1024, norm_topk_prob=False, num_attention_heads=16, num_experts=64, num_experts_per_tok=8, num_hidden_layers=16,
                          num_key_value_heads=16, output_router_logits=False, pad_token_id=1, router_aux_loss_coef=0.01, vocab_size=50304), 6919161856),
    "Qwen1.5-MoE-A2.7B": (qwen(architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", decoder_sparse_step=1, hidden_size=2048, intermediate_size=5632,
                               max_position_embeddings=8192, max_window_layers=21, moe_intermediate_size=1408, norm_topk_prob=False, num_attention_heads=16, num_experts=60,
                               num_experts_per_tok=4, num_hidden_layers=24, num_key_value_heads=16, output_router_logits=False, router_aux_loss_coef=0.001,
                               shared_expert_intermediate_size=5632, sliding_window=32768, vocab_size=151936), 14315784192),
    "Apertus-8B": (llama("mlp_bias", "pretraining_tp", architectures=["ApertusForCausalLM"], model_type="apertus", eos_token_id=68, hidden_act="xielu", intermediate_size=21504,
                         max_position_embeddings=65536, mlp_bias=False, pad_token_id=3, post_norm=False, qk_norm=True, rope_scaling=LLAMA3, rope_theta=12000000,
                         vocab_size=131072), 8053338176),
}

# name: (config, what the message says)
REFUSED = {
    "DeepSeek-V3": (DEEPSEEK | dict(architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", num_hidden_layers=61, quantization_config=dict(
        activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", weight_block_size=[128, 128])), "quantised by 'fp8'"),
    "gpt-oss-20b as it is published": (dict(model_type="gpt_oss", quantization_config=dict(modules_to_not_convert=["model.layers.*.self_attn"], quant_method="mxfp4")),
                                       "quantised by 'mxfp4'"),
    "Llama-2-7B-GPTQ": (llama(quantization_config=dict(bits=4, group_size=128, quant_method="gptq")), "quantised by 'gptq'"),
    "Mistral-7B-AWQ": (llama(model_type="mistral", quantization_config=dict(bits=4, quant_method="awq", version="gemm")), "quantised by 'awq'"),
    "internlm2-7b": (dict(architectures=["InternLM2ForCausalLM"], auto_map={"AutoConfig": "configuration_internlm2.InternLM2Config"}, model_type="internlm2"),
                     "model_type 'internlm2' needs code of its own (auto_map)"),
    "Baichuan2-7B": (dict(architectures=["BaichuanForCausalLM"], auto_map={"AutoConfig": "configuration_baichuan.BaichuanConfig"}, model_type="baichuan"),
                     "model_type 'baichuan' needs code of its own (auto_map)"),
    "EXAONE-3.5-7.8B": (dict(architectures=["ExaoneForCausalLM"], auto_map={"AutoConfig": "configuration_exaone.ExaoneConfig"}, model_type="exaone"),
                        "model_type 'exaone' needs code of its own (auto_map)"),
    "chatglm3-6b": (dict(architectures=["ChatGLMModel"], auto_map={"AutoConfig": "configuration_chatglm.ChatGLMConfig"}, model_type="chatglm"),
                    "model_type 'chatglm' needs code of its own (auto_map)"),
    "Qwen3-Next-80B-A3B": (dict(architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next"), "'qwen3_next' has recurrent or convolutional layers"),
    "LFM2-1.2B": (dict(architectures=["Lfm2ForCausalLM"], model_type="lfm2"), "'lfm2' has recurrent or convolutional layers"),
    "MiniMax-Text-01": (dict(architectures=["MiniMaxForCausalLM"], model_type="minimax"), "'minimax' has recurrent or convolutional layers"),
    "Llama-4-Scout": (dict(architectures=["Llama4ForConditionalGeneration"], model_type="llama4", text_config=dict(model_type="llama4_text")), "'llama4'"),
    "Phi-3.5-MoE": (dict(architectures=["PhiMoEForCausalLM"], model_type="phimoe"), "'phimoe' draws its experts at random"),
    "gemma-3n-E4B": (dict(architectures=["Gemma3nForConditionalGeneration"], model_type="gemma3n", text_config=dict(model_type="gemma3n_text")), "'gemma3n'"),
    "paligemma-3b": (dict(architectures=["PaliGemmaForConditionalGeneration"], model_type="paligemma", text_config=dict(model_type="gemma")), "'paligemma' attends in both directions"),
    "bert-base": (dict(architectures=["BertForMaskedLM"], model_type="bert"), "'bert' is none that ztc builds"),
    "t5-small": (dict(architectures=["T5ForConditionalGeneration"], is_encoder_decoder=True, model_type="t5"), "'t5' is none that ztc builds"),
}
