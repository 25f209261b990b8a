#!/usr/bin/env python3
"""Configurations that ztc must not build: one message that says what, where and what to do; never a crash, never other numbers. And what is only said."""
import json
import os
import re
import shutil
import time

from support import ROOT, check, run, finish, scratch

HOME = ROOT / "tests/folders"


def attempt(work, model, change, weights=True, command=("check",)):
    """`ztc check`, or `command`, on a copy of a folder with another config.json; `change` gives its text or its object."""
    folder = work / "model"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if weights:
        shutil.copy(HOME / model / "model.safetensors", folder)
    config = json.loads((HOME / model / "config.json").read_text())
    changed = change(config)
    (folder / "config.json").write_text(changed if isinstance(changed, str) else json.dumps(changed))
    return run("ztc", *command, folder, "--batch=1", "--seq=8", expect=None)


def but(**more):
    return lambda config: config | more


def within(**more):
    """The same of the language model's part."""
    return lambda config: config | {"text_config": config["text_config"] | more}


ROPE = {"rope_type": "default", "rope_theta": 10000.0}
REFUSED = [
    ("no object", "llama-heads", lambda c: "[1, 2]", "is not a JSON object"),
    ("truncated", "llama-heads", lambda c: json.dumps(c)[:-20], "is not a JSON object, or a truncated one"),
    ("deeply nested", "llama-heads", lambda c: '{"a":' * 200000 + "1" + "}" * 200000, "nested deeper"),
    ("deeply nested list", "llama-heads", lambda c: '{"model_type": "llama", "a": ' + "[" * 500000 + "]" * 500000 + "}", "nested deeper"),
    ("not UTF-8 and empty", "llama-heads", lambda c: "", "is not a JSON object"),
    ("no model type", "llama-heads", lambda c: {k: v for k, v in c.items() if k != "model_type"}, "has no model_type"),
    ("model type of a wrong kind", "llama-heads", but(model_type=3), "model_type is 3, which is not a text"),
    ("unknown model type", "llama-heads", but(model_type="mine"), "'mine' is not one that ztc builds; export the model to ONNX instead (`ztc check --help` lists"),
    ("an encoder", "llama-heads", but(model_type="bert"), "'bert' is an encoder, whose tokens see those after them"),
    ("a decoder beside an encoder", "llama-heads", but(model_type="bart"), "'bart' has a decoder that attends to what an encoder gives"),
    ("keys that are chosen", "llama-heads", but(model_type="deepseek_v4"), "'deepseek_v4' chooses the keys that a query sees"),
    ("rows in which keys are chosen", "glm5", but(index_topk=5), "index_topk is 5: in longer rows each query chooses the keys that it sees, which ztc does not build; give --seq=5 or less"),
    ("no key that is chosen", "glm5", but(index_topk=0), "index_topk is 0, which is not a whole number of at least 1"),
    ("blocks of keys that are chosen", "minimax-m3", but(index_topk_blocks=1), "index_topk_blocks times index_block_size is 4: in longer rows each query chooses"),
    ("differential attention of an odd number of heads", "diffllama", but(num_attention_heads=3, num_key_value_heads=3), "num_key_value_heads is 3, and differential attention needs an even number"),
    ("LongCat's queries of another width", "longcat-flash", but(qk_head_dim=20), "qk_head_dim is 20, and qk_nope_head_dim and qk_rope_head_dim make 14"),
    ("cycles without end", "hrm-text", but(H_cycles=600), "H_cycles 600 and L_cycles 2 run more layers than the 2048 that ztc builds at most"),
    ("HRM-Text's biases", "hrm-text", but(attention_bias=True), "attention_bias is true; ztc supports false or null only"),
    ("Doge's mixture", "doge", but(is_moe=True), "is_moe is true; ztc supports false or null only"),
    ("keys that Doge leaves out", "doge", but(keep_window_size=6), "keep_window_size is 6: in longer rows each query chooses"),
    ("a limit of gates of no size", "hy-v4", but(swiglu_limit=0), "swiglu_limit is 0, which is not above 0"),
    ("dots3-note's layers of one type with other sizes", "dots3-note", lambda c: c | {"per_layer_config": c["per_layer_config"] | {"3": {"num_attention_heads": 4}}},
     "per_layer_config of layer 3 differs from that of other layers of its type"),
    ("dots3-note's layers of an unknown type", "dots3-note", but(layer_types=["linear_attention"] * 4), "layer_types has 'linear_attention'; ztc builds indexed_attention"),
    ("Step 3.5's gates by element", "step3p7", within(gating="per-element"), 'gating is "per-element"; ztc supports true or "per-head" only'),
    ("Step 3.5 in both directions", "step3p7", within(use_bidirectional_attention=True), "use_bidirectional_attention is true"),
    ("Step 3.5's layer whose heads have another width", "step3p7", within(per_layer_config={"1": {"num_attention_heads": 6, "head_dim": 4}}), "layer 1 has a head_dim of its own"),
    ("Step 3.5's heads that keys do not divide", "step3p7", within(per_layer_config={"1": {"num_attention_heads": 5}}), "layer 1 has 5 heads of queries, but num_key_value_heads is 2"),
    ("Step 3.5's limits that are too few", "step3p7", within(swiglu_limits=[1.0]), "swiglu_limits is [1.0], for 4 layers"),
    ("Step 3.5's limits below 0", "step3p7", within(swiglu_limits_shared=[1.0, -1.0, 0, 0]), "swiglu_limits_shared is [1.0,-1.0,0,0], which is not a list of limits"),
    ("Step 3.5's mixtures that are not numbers", "step3p7", within(mlp_layer_types=None, moe_layers_enum="1,x"), 'moe_layers_enum is "1,x", which are not numbers of layers'),
    ("Step 3.5's window of no size", "step3p7", within(sliding_window=None), "layer_types has 'sliding_attention', and"),
    ("Muse's angles of other layers", "muse-glimmer", within(layer_rope_theta=[0]), "layer_rope_theta is [0], for 3 layers"),
    ("Muse's heads of which a part turns", "muse-glimmer", within(rope_parameters=ROPE | {"partial_rotary_factor": 0.5}), "rope_parameters turns a part of each head"),
    ("Muse's cap of no size", "muse-glimmer", within(final_logit_softcapping=0), "final_logit_softcapping is 0, which is not above 0"),
    ("Muse Spark's tied head", "muse-spark", within(tie_word_embeddings=True), "tie_word_embeddings is true; ztc supports false or null only"),
    ("Muse Spark's gates at a temperature of 0", "muse-spark", within(residual_gate_temperature=0), "residual_gate_temperature is 0, by which gates are divided"),
    ("Mistral Large 4's rows in which keys are chosen", "mistral-large4", within(index_topk=5), "index_topk is 5: in longer rows each query chooses"),
    ("Mistral Large 4's latents of a layer that turns in one that does not", "mistral-large4", within(kv_source_layers=[0, 0, 2, 3, 4]), "layer 1 would see another layer's in transformers"),
    ("Mistral Large 4's latents of a later layer", "mistral-large4", within(kv_source_layers=[2, 1, 2, 3, 4]), "layer 0 shares those of no earlier layer that has its own"),
    ("Mistral Large 4's latents of other layers", "mistral-large4", within(kv_source_layers=[0]), "kv_source_layers is [0], for 5 layers"),
    ("Mistral Large 4's layers that turn, too few", "mistral-large4", within(no_rope_layers=[0]), "no_rope_layers is [0], for 5 layers"),
    ("Mistral Large 4's heads that share keys", "mistral-large4", within(num_key_value_heads=2), "num_key_value_heads is 2, and this model type has as many as num_attention_heads"),
    ("DeepSeek-OCR-2 without types of layers", "deepseek-ocr2", within(mlp_layer_types=None), "mlp_layer_types is absent or null, where transformers fails"),
    ("DeepSeek-OCR-2's groups of no number", "deepseek-ocr2", within(n_group=None), "topk_method is 'group_limited_greedy', which needs n_group and topk_group"),
    ("Unlimited-OCR without a window", "unlimited-ocr", within(sliding_window=None), "sliding_window is null, which is not a whole number"),
    ("a second table of tokens", "llama-heads", but(model_type="molmo2"), "'molmo2' has tokens in a second table, which its head does not predict"),
    ("A.X-K2's gates without what they read", "axk2", but(q_lora_rank=None), "q_lora_rank is null, and the gates of this model type read it"),
    ("a head without all tokens", "apertus", but(model_type="apertus1p5_text", output_vocab_size=50), "output_vocab_size is 50, but vocab_size is 97"),
    ("DBRX's shares by another norm", "llama-heads", lambda c: {"model_type": "dbrx", "ffn_config": {"moe_normalize_expert_weights": 2.0}}, "moe_normalize_expert_weights is 2.0; ztc supports 1 or null only"),
    ("CTRL's last norm", "ctrl", but(layer_norm_epsilon=1e-5), "layer_norm_epsilon is 1e-05; ztc supports 1e-06 only"),
    ("A.X-K1's dense layers among the others", "llama-heads", lambda c: {"model_type": "axk1", "moe_layer_freq": 2}, "moe_layer_freq is 2"),
    ("IQuest-Coder with clamped heads", "llama-heads", but(model_type="iquestcoder", clip_qkv=3.0), "clip_qkv is 3.0"),
    ("code of its own", "llama-heads", but(model_type="mine", auto_map={"AutoModelForCausalLM": "m.M"}), "needs code of its own (auto_map)"),
    *((f"hybrid {name}", "llama-heads", but(model_type=name), f"'{name}' has recurrent or convolutional layers")
      for name in ("qwen4_exp", "xlstm", "zaya", "zamba", "plamo2", "rwkv", "bailing_hybrid")),
    ("a prompt that is seen in both directions", "llama-heads", but(model_type="paligemma"), "attends in both directions within a prompt"),
    ("quantised weights", "llama-heads", but(quantization_config={"quant_method": "vptq"}), "quantised by 'vptq'"),
    ("weights in fp4", "llama-heads", but(quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}), "bnb_4bit_quant_type is 'fp4'"),
    ("a classifier", "llama-heads", but(architectures=["LlamaForSequenceClassification"]), "trains language models"),
    ("hidden_size as text", "llama-heads", but(hidden_size="40"), 'hidden_size is "40", which is not a whole number'),
    ("hidden_size as list", "llama-heads", but(hidden_size=[40]), "hidden_size is [40], which is not a whole number"),
    ("hidden_size null", "llama-heads", but(hidden_size=None), "hidden_size is null, which is not a whole number"),
    ("hidden_size negative", "llama-heads", but(hidden_size=-4), "hidden_size is -4, which is not a whole number of at least 1"),
    ("hidden_size of a fraction", "llama-heads", but(hidden_size=40.5), "hidden_size is 40.5"),
    ("huge vocab_size", "llama-heads", but(vocab_size=2**63), "vocab_size is 9223372036854775808"),
    ("layers without end", "llama-heads", but(num_hidden_layers=2**39), "ztc builds 2048 at most"),
    ("heads that do not divide", "llama-heads", but(num_key_value_heads=3), "do not fit each other"),
    ("flag as text", "llama-heads", but(attention_bias="no"), 'attention_bias is "no", which is not true or false'),
    ("epsilon as text", "llama-heads", but(rms_norm_eps="1e-6"), "rms_norm_eps is"),
    ("epsilon below zero", "llama-heads", but(rms_norm_eps=-1), "rms_norm_eps is -1, which is below 0"),
    ("heads without end", "llama-heads", but(head_dim=2**31), "heads of 2147483648 turn in 2147483648 dimensions; ztc builds 65536 at most"),
    ("unknown activation", "llama-heads", but(hidden_act="prelu"), "hidden_act is 'prelu', an activation that ztc does not build"),
    ("unknown rotary embedding", "llama-heads", but(rope_parameters=ROPE | {"rope_type": "spiral"}), "rotary embedding 'spiral'"),
    ("linear without factor", "llama-heads", but(rope_parameters=ROPE | {"rope_type": "linear"}), "needs factor above 0"),
    ("rope_parameters as text", "llama-heads", but(rope_parameters="default"), 'rope_parameters is "default", which is not an object'),
    ("rope_theta 0", "llama-heads", but(rope_parameters=ROPE | {"rope_theta": 0}), "give no rotation"),
    ("a kind per layer type in Llama", "llama-heads", but(rope_parameters={"full_attention": ROPE}), "which this model type does not read"),
    ("longrope's factors", "phi3-short", lambda c: c | {"rope_parameters": c["rope_parameters"] | {"long_factor": [1.0]}}, "longrope needs short_factor and long_factor, 5 numbers"),
    ("yarn over an odd number of dimensions", "glm4", but(rope_parameters=ROPE | {"rope_type": "yarn", "factor": 2.0, "partial_rotary_factor": 0.25}),
     "yarn needs an even number of dimensions that turn, and partial_rotary_factor makes 3 of heads of 12"),
    ("encoder and decoder", "llama-heads", but(is_encoder_decoder=True), "is_encoder_decoder is true; ztc supports false or null only"),
    ("bidirectional Gemma", "gemma3", but(use_bidirectional_attention=True), "use_bidirectional_attention is true"),
    ("Gemma 4 in both directions", "gemma4", but(use_bidirectional_attention="all"), 'use_bidirectional_attention is "all"'),
    ("Gemma 4 without keys", "gemma4", but(num_kv_shared_layers=4), "num_kv_shared_layers is 4 of 4 layers: some must have keys of their own"),
    ("a layer that shares keys of a type before which there is none", "gemma4", but(layer_types=["full_attention"] * 2 + ["sliding_attention", "full_attention"]),
     "layer 2 would see the keys of an earlier layer of its type"),
    ("keys of heads of another width", "gemma4", but(per_layer_config={"3": {"head_dim": 16}}), "layer 3 sees the keys of layer 1, whose heads have other sizes"),
    ("a size that all layers have alike", "gemma4", but(per_layer_config={"1": {"hidden_size": 16}}), "per_layer_config of layer 1 has hidden_size"),
    ("sizes of a layer that is not there", "gemma4", but(per_layer_config={"04": {"head_dim": 16}}), "per_layer_config of layer 04: there are 4 layers"),
    ("sizes of layers as a list", "gemma4", but(per_layer_config=[]), "per_layer_config is not an object"),
    ("experts without numbers", "gemma4", but(enable_moe_block=True), "num_experts is null"),
    ("proportional angles of no pair", "gemma4", lambda c: c | {"rope_parameters": c["rope_parameters"] | {"full_attention": ROPE | {"rope_type": "proportional", "partial_rotary_factor": 0.1}}},
     "of heads of 16 give no rotation"),
    ("Gemma 3n's streams that are too few", "gemma3n", but(altup_active_idx=3), "altup_num_inputs 3 and altup_active_idx 3 do not fit each other"),
    ("sparsities of other layers", "gemma3n", but(activation_sparsity_pattern=[0.5]), "activation_sparsity_pattern has 1 entries for 4 layers"),
    ("a layer all of whose gate is cut off", "gemma3n", but(activation_sparsity_pattern=[0.5, 1.0, 0.0, 0.0]), "activation_sparsity_pattern of layer 1 is not below 1"),
    ("widths of other layers", "gemma3n", but(intermediate_size=[40, 36]), "intermediate_size has 2 entries for 4 layers"),
    ("widths that are none", "gemma3n", but(intermediate_size=[40, 0, 40, 40]), "which is not a size of each layer"),
    ("streams without inputs of layers", "gemma3n", but(hidden_size_per_layer_input=0), "hidden_size_per_layer_input is 0"),
    ("LFM2's layers of another type", "lfm2", but(layer_types=["conv", "sliding_attention", "conv"]), "layer_types has 'sliding_attention'; ztc builds full_attention and conv"),
    ("LFM2's mixture without types of layers", "lfm2-moe", but(layer_types=None), "layer_types is null; this model type needs one for each layer"),
    ("LFM2's convolution of another width", "lfm2", but(conv_L_cache=4), "model.layers.0.conv.conv.weight has shape (24, 1, 3), config.json asks for (24, 1, 4)"),
    ("LFM2's feed-forwards of no width", "lfm2", but(block_ffn_dim_multiplier=0.0), "block_ffn_dim_multiplier makes feed-forwards of 0"),
    ("LFM3's layers of another type", "lfm3", but(layer_types=["conv", "linear_attention", "conv"]), "layer_types has 'linear_attention' for layer 1; ztc builds conv, sliding_attention"),
    ("LFM3's layers that are too few", "lfm3", but(layer_types=["conv", "conv", "conv", "conv"]), "layer_types has 4 entries for 3 layers"),
    ("LFM3's window of no size", "lfm3", but(sliding_window=None), "sliding_window is null"),
    ("heads of values that heads of keys do not share evenly", "qwen3-next", but(linear_num_value_heads=3), "linear_num_value_heads 3 is not a multiple of linear_num_key_heads 2"),
    ("Kimi Linear's layer that is of no kind", "kimi-linear", lambda c: {k: v for k, v in c.items() if k != "layer_types"} | {
        "linear_attn_config": {"full_attn_layers": [3], "kda_layers": [1]}}, "linear_attn_config: layer 2 must be in one of full_attn_layers and kda_layers"),
    ("a state space model whose heads have another width", "granite-hybrid", but(mamba_d_head=10), "4 heads of 10 in 2 groups do not fit a state space model of width 48"),
    ("heads that groups do not share evenly", "granite-hybrid", but(mamba_n_groups=3), "4 heads of 12 in 3 groups do not fit"),
    ("limits of steps out of order", "granite-hybrid-dense", but(time_step_limit=[0.5, 0.1]), "time_step_limit is [0.5,0.1], which are not two numbers from 0 on in order"),
    ("one limit of steps", "mamba2", but(time_step_limit=[0.5]), "time_step_limit is [0.5], which are not two numbers"),
    ("Falcon-H1's multipliers that are too few", "falcon-h1", but(ssm_multipliers=[1.0, 2.0]), "ssm_multipliers is [1.0,2.0]; there are 5 of them"),
    ("Nemotron-H's layers of an unknown kind", "nemotron-h", lambda c: {k: v for k, v in c.items() if k != "layers_block_type"} | {"hybrid_override_pattern": "M+"},
     "layer 1 is '+'; ztc builds mamba, attention, mlp and moe"),
    ("RecurrentGemma's layers of an unknown type", "recurrent-gemma", but(block_types=["recurrent", "sliding"]), "block_types has 'sliding'; ztc builds recurrent and attention"),
    ("RecurrentGemma's channels that heads do not share", "recurrent-gemma", but(lru_width=50), "lru_width is 50, which num_attention_heads 4 do not divide"),
    ("RecurrentGemma's layers of no type", "recurrent-gemma", but(block_types=[]), "block_types is [], which has none"),
    ("RecurrentGemma's feed-forward of no width", "recurrent-gemma", but(intermediate_size=1), "intermediate_size is 1, of which gate and up have a half each"),
    ("RecurrentGemma without a window", "recurrent-gemma", but(attention_window_size=None), "attention_window_size is null"),
    ("Jamba's attention beyond its period", "jamba", but(attn_layer_offset=3), "attn_layer_offset is 3, which attn_layer_period 3 does not reach"),
    ("Mamba's rank as a word", "mamba", but(time_step_rank="half"), 'time_step_rank is "half"; it is a number or "auto"'),
    ("Mamba's steps of an unknown kind", "mamba", but(time_step_init_scheme="zeros"), 'time_step_init_scheme is "zeros"; it is random or constant'),
    ("Zamba2's blocks that transformers does not tie", "zamba2", but(tie_word_embeddings=False), "tie_word_embeddings is false; ztc supports true only"),
    ("Zamba2's adapters of shared keys", "zamba2", but(num_key_value_heads=2), "num_key_value_heads is 2; use_shared_attention_adapter needs as many as heads"),
    ("Zamba2's heads of uneven width", "zamba2", but(num_attention_heads=5), "num_attention_heads 5 do not share twice the hidden_size 24 evenly"),
    ("Zamba2's layers of another number", "zamba2", but(num_hidden_layers=7), "num_hidden_layers is 7, but layers_block_type has 5 entries"),
    ("Zamba2's layers of an unknown kind", "zamba2", but(num_hidden_layers=1, layers_block_type=["full_attention"]), "layer 0 is 'full_attention'; ztc builds linear_attention and hybrid"),
    ("Nemotron-H's experts of a narrower width", "nemotron-h", but(moe_latent_size=8), "backbone.layers.1.mixer.fc1_latent_proj.weight (8, 24) is missing"),
    ("layer types that ztc lacks", "qwen3", but(layer_types=["chunked_attention", "full_attention"]), "layer_types has 'chunked_attention'"),
    ("too few layer types", "qwen3", but(layer_types=["full_attention"]), "layer_types has 1 entries for 2 layers"),
    ("a window that Qwen3 does not use in a layer that has one", "qwen3", but(use_sliding_window=False), "layer_types has 'sliding_attention', and use_sliding_window is false"),
    ("a window that Qwen2-MoE does not use in a layer that has one", "qwen2-moe", but(use_sliding_window=False), "and use_sliding_window is false, where transformers fails"),
    ("SmolLM3's layer with a window of no size", "smollm3-types", but(sliding_window=None), "layer_types has 'sliding_attention', and sliding_window is null"),
    ("GLM-4.1V's heads of another width", "glm4v", within(head_dim=12), "head_dim is 12, and the heads of this model type share hidden_size"),
    ("a head that Cosmos 3 Edge does not tie", "cosmos3-edge", but(tie_word_embeddings=True), "tie_word_embeddings is true; ztc supports false only"),
    ("scaled angles of Cosmos 3 Edge", "cosmos3-edge", within(rope_parameters=ROPE | {"rope_type": "linear", "factor": 2.0}), "rotary embedding 'linear'; this model type has default only"),
    ("scaled angles of ERNIE 4.5 VL", "ernie4_5-vl", within(rope_parameters=None, rope_scaling={"type": "yarn", "factor": 2.0}), "rotary embedding 'yarn'; this model type has default only"),
    ("ERNIE 4.5 VL's parts of angles that do not alternate", "ernie4_5-vl", within(rope_parameters=ROPE | {"mrope_section": [1, 2, 3]}),
     "mrope_section is [1,2,3], and ztc builds three, the first two alike"),
    ("ERNIE 4.5 VL's experts of one width", "ernie4_5-vl", within(moe_intermediate_size=[20]), "moe_intermediate_size is [20], which is not a width of text and one of images"),
    ("ERNIE 4.5 VL's layers of an unknown kind", "ernie4_5-vl", within(mlp_layer_types=["sparse", "dense", "moe"]), "mlp_layer_types has 'moe'; ztc builds sparse and dense"),
    *((f"a part of a head that turns in {name}", name, within(rope_parameters=ROPE | {"partial_rotary_factor": 0.5}), "partial_rotary_factor is 0.5; ztc supports 1 or null only")
      for name in ("qwen2_5-omni", "qwen3-omni", "ernie4_5-vl", "hunyuan-vl", "granite-docling", "cosmos3-edge")),
    ("HunYuan-VL's angles in plain Hunyuan", "hunyuan", but(rope_parameters=ROPE | {"rope_type": "xdrope"}), "rotary embedding 'xdrope'"),
    ("a language model that speaks", "qwen2_5-omni", lambda c: {"model_type": "qwen2_5_omni", "thinker_config": c | {"model_type": "mine"}}, "'mine' is not one that ztc builds"),
    ("scaled logits in a multi-modal folder", "llava-vision", lambda c: c | {"text_config": c["text_config"] | {"model_type": "granite", "logits_scaling": 2.0}},
     "scales or caps its logits, which transformers' class of 'llava'"),
    ("ALiBi of another steepness", "llama-heads", lambda c: {"model_type": "mpt", "attn_config": {"alibi_bias_max": 4}}, "alibi_bias_max is 4; ztc supports 8 only"),
    ("GPT-Neo's layers of an unknown type", "llama-heads", lambda c: {"model_type": "gpt_neo", "attention_types": [[["far"], 24]]}, "attention_types is"),
    ("GPT-Neo's layers that are too few", "llama-heads", lambda c: {"model_type": "gpt_neo", "attention_types": [[["local"], 1 << 62]]}, "for each of 24 layers"),
    ("CodeGen's heads that do not part", "llama-heads", lambda c: {"model_type": "codegen", "n_head": 2, "n_embd": 128}, "n_head 2 is not a multiple of 4"),
    ("Hunyuan's layers with other numbers of experts", "llama-heads", lambda c: {"model_type": "hunyuan_v1_moe", "num_experts": [4, 8]}, "num_experts is [4,8]"),
    ("Llama 4's layers of an unknown type", "llama4", but(layer_types=["sliding_attention"] * 3), "builds full_attention and chunked_attention of this model type"),
    ("Falcon's heads that share keys in its old form", "llama-heads",
     lambda c: {"model_type": "falcon", "multi_query": False, "num_kv_heads": 4}, "each of 71 heads has keys of its own"),
    ("Phi-3.5-MoE with other magnitudes of long rows", "phimoe",
     lambda c: c | {"rope_parameters": c["rope_parameters"] | {"long_mscale": 1.3}}, "short_mscale and long_mscale differ"),
    ("experts that do not divide into groups", "llama-heads", lambda c: {"model_type": "deepseek_v3", "n_group": 7}, "do not fit each other"),
    ("an unknown choice of experts", "llama-heads", lambda c: {"model_type": "deepseek_v2", "topk_method": "noaux_tc"}, "topk_method is"),
    ("more experts than there are", "mixtral", but(num_experts_per_tok=9), "9 experts per token of 4"),
    ("weights of another size", "llama-heads", but(intermediate_size=60), "has shape (56, 40), config.json asks for (60, 40)"),
    ("weights of fewer layers", "llama-heads", but(num_hidden_layers=3), "model.layers.2.input_layernorm.weight (40) is missing"),
    ("an untied head that is not there", "llama-linear", but(tie_word_embeddings=False), "lm_head.weight (97, 40) is missing"),
]
SAID = [
    ("a key that transformers does not read", but(frobnicate=[1]), "does not read frobnicate"),
    ("dropout", but(attention_dropout=0.1), "ztc trains without dropout"),
    ("a tied head that is stored with other numbers", but(tie_word_embeddings=True), "lm_head.weight is stored with other numbers: both are trained"),
]

# What makes a default configuration whole, and few enough layers and experts.
SMALL = {"num_hidden_layers": 2, "n_layer": 2, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2,
         "n_group": 1, "topk_group": 1, "layer_types": None, "mlp_layer_types": None, "layer_rope_theta": None, "kv_source_layers": None, "num_attention_heads_per_layer": None,
         "per_layer_config": None, "activation_sparsity_pattern": None, "num_kv_shared_layers": 0}
# text_config has it all in version 5, and the tables of these are tests of their own (gemma3-vision, qwen2-vl)
WHOLE = ("qwen2_vl", "qwen2_5_vl")
# and what a default of so many layers lacks without which transformers makes no model either
LACKED = {"deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]}, "qwen3_omni_moe_text": {"num_attention_heads": 32}, "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
          "zamba2": {"layers_block_type": ["linear_attention", "hybrid"]}}


def known_keys(work, version):
    defaults = json.loads((HOME / f"defaults-{version}.json").read_text())
    for name, config in defaults.items():
        if name in WHOLE:
            continue
        begin = time.monotonic()
        widths = {k: v[:2] for k, v in config.items() if k == "intermediate_size" and isinstance(v, list)}
        done = attempt(work, "llama-heads", lambda _: config | {k: v for k, v in SMALL.items() if k in config} | widths | LACKED.get(name, {}), weights=False,
                       command=("compile", "--to=import", "-o", os.devnull))
        seconds, said = time.monotonic() - begin, done.stdout + done.stderr
        check(f"defaults of {name}, version {version}: every key is known", done.returncode == 0 and "does not read" not in said,
              said[-300:] if done.returncode else [x for x in said.splitlines() if "does not read" in x])
        check(f"defaults of {name}, version {version}: in seconds", seconds < 60, seconds)
    if version == 5:
        table = (ROOT / "frontends/huggingface/Families.cpp").read_text()
        check("every model type has its defaults here", set(re.findall(r'{"([a-z0-9_-]+)", fill', table)) == set(defaults), sorted(defaults))


with scratch() as work:
    for name, model, change, message in REFUSED:
        done = attempt(work, model, change)
        text = done.stdout + done.stderr
        check(f"refused: {name}", done.returncode == 1 and message in text, "" if message in text else (done.returncode, text[-300:]))
    for name, change, message in SAID:
        done = attempt(work, "llama-heads", change)
        check(f"said: {name}", done.returncode == 0 and message in done.stdout + done.stderr, "" if done.returncode == 0 else done.stderr[-300:])
    done = attempt(work, "llama-heads", lambda c: c, weights=False)
    check("said once: fresh weights", done.returncode == 0 and done.stdout.count("weights are fresh") == 1 and "without weights" not in done.stdout, (done.stdout + done.stderr)[-300:] if done.returncode else "")
    done = attempt(work, "llava-vision", lambda c: c)
    check("said: a multi-modal model", done.returncode == 0 and "its language model (llama) is trained on text" in done.stdout, (done.stdout + done.stderr)[-300:] if done.returncode else "")
    done = attempt(work, "mpt-scale", lambda c: c)
    is_said = "logit_scale is 0.3: transformers passes over it" in done.stdout
    check("said: a scale that transformers passes over", done.returncode == 0 and is_said, "" if is_said else (done.stdout + done.stderr)[-300:])
    # Configurations of real size, as transformers writes its defaults: every key is known, and it takes seconds.
    for version in (5, 4):
        known_keys(work, version)
    solar = json.loads((HOME / "defaults-5.json").read_text())["solar_open"]
    done = attempt(work, "llama-heads", lambda _: solar | {k: v for k, v in SMALL.items() if k in solar} | {"attention_bias": True}, weights=False, command=("check", "--json"))
    biases = {p["name"].split(".")[-2] for p in json.loads(done.stdout or "{}").get("parameters", []) if p["name"].endswith("_proj.bias")}
    check("attention_bias of Solar Open is of queries, keys and values", biases == {"q_proj", "k_proj", "v_proj"}, sorted(biases) or done.stderr[-300:])
    glm = json.loads((HOME / "defaults-5.json").read_text())["glm4_moe"]
    glm = {k: v for k, v in glm.items() if k != "n_shared_experts"} | {k: v for k, v in SMALL.items() if k in glm}
    done = attempt(work, "llama-heads", lambda _: glm, weights=False, command=("check", "--json"))
    check("GLM 4.5 has a shared expert where no key says it", "model.layers.1.mlp.shared_experts.up_proj.weight" in done.stdout, done.stderr[-300:])
    for name, text, ties in (("paddleocr_vl", {}, True), ("paddleocr_vl", {"tie_word_embeddings": False}, False), ("glm4v", {}, False), ("glm4v", {"tie_word_embeddings": True}, True),
                             ("glm46v", {"tie_word_embeddings": True}, False), ("hunyuan_vl", None, True)):
        config = {"model_type": name, "tie_word_embeddings": False} | ({"num_hidden_layers": 1} if text is None else {"text_config": {"num_hidden_layers": 1} | text})
        done = attempt(work, "llama-heads", lambda _: config, weights=False, command=("compile", "--to=import", "-o", work / "import.mlir"))
        check(f"{name}: the head is {'tied' if ties else 'not tied'} with {text} below false", ('"lm_head.weight"' not in (work / "import.mlir").read_text()) == ties, done.stderr[-300:])
    done = attempt(work, "nemotron-h", lambda c: {"model_type": "nemotron_h_omni", "llm_config": c})
    check("Nemotron-H Omni's older name of its language model's part", done.returncode == 0 and "its language model (nemotron_h) is trained" in done.stdout, done.stderr[-300:])
    listed = run("ztc", "check", "--help").stdout
    check("the help lists what is built", all(name in listed for name in ("llama", "kolibri1")), listed[-300:])
    empty = work / "empty"
    empty.mkdir()
    done = run("ztc", "check", empty, expect=1)
    check("refused: a folder without config.json", "config.json" in done.stderr, done.stderr[-200:])
finish()
