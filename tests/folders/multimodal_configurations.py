"""Tiny configurations of multi-modal folders, as configurations.py has those of language models."""
from configuration_parts import LITTLE, VISION, base, changed, named, rope, version4

# Language models of folders that see and hear: of text alone the parts of a rotary embedding are alike
OF_PARTS = rope("default", mrope_section=[1, 1, 1], partial_rotary_factor=0.5)
GLM_VISION = dict(depth=1, hidden_size=16, out_hidden_size=24, num_heads=2, intermediate_size=24, image_size=28)
OMNI_AUDIO = dict(num_mel_bins=8, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=16, d_model=16, max_source_positions=20, n_window=4, output_dim=24)
OMNI_VISION = dict(depth=1, hidden_size=16, out_hidden_size=24, num_heads=2, intermediate_size=24)


def thinking(kind):
    """A folder of the model that thinks, as the one that speaks too has it."""
    return lambda c: dict(model_type=kind, enable_audio_output=True, thinker_config={k: v for k, v in c.items() if k not in ("transformers_version", "dtype")})


FOLDERS = {
    "glm4v": ("glm4v", dict(vision_config=GLM_VISION, text_config=base(**LITTLE | dict(hidden_size=40), rope_parameters=rope(
        "default", mrope_section=[1, 1, 2], partial_rotary_factor=0.8))), {
        "4": lambda c: changed(c, text_config=version4()(c["text_config"]))}),
    "glm4v-moe": ("glm4v_moe", dict(vision_config=GLM_VISION, experts="eager", text_config=base(
        **LITTLE, head_dim=12, attention_bias=True, rope_parameters=OF_PARTS, n_routed_experts=6, n_group=3, topk_group=2, first_k_dense_replace=1, moe_intermediate_size=20,
        num_experts_per_tok=2, routed_scaling_factor=1.3)), {
        "4": lambda c: changed(c, text_config=named(num_local_experts="n_routed_experts")(changed(version4()(c["text_config"]), ["partial_rotary_factor"])))}),
    "qwen2_5-omni": ("qwen2_5_omni_thinker", dict(vision_config=OMNI_VISION, audio_config=OMNI_AUDIO, text_config=base(
        **LITTLE, head_dim=12, rope_parameters=rope("default", mrope_section=[1, 2, 3]), use_sliding_window=True, sliding_window=6, max_window_layers=1)), {
        "speaks": thinking("qwen2_5_omni")}),
    "qwen3-omni": ("qwen3_omni_moe_thinker", dict(vision_config=OMNI_VISION | dict(num_position_embeddings=16, deepstack_visual_indexes=[0]), experts="eager",
                                                  audio_config=OMNI_AUDIO | dict(downsample_hidden_size=8), text_config=base(
        **LITTLE, head_dim=12, num_hidden_layers=3, num_experts=4, moe_intermediate_size=20, num_experts_per_tok=2, mlp_only_layers=[1], rope_parameters=rope(
            "default", mrope_section=[2, 2, 2], interleaved=True))), {
        "speaks": thinking("qwen3_omni_moe")}),
}

FOLDERS |= {
    "ernie4_5-vl": ("ernie4_5_vl_moe", dict(vision_config=dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=24, text_hidden_size=24), experts="eager", text_config=base(
        **LITTLE | dict(num_hidden_layers=3), head_dim=12, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_intermediate_size=[20, 8], use_bias=True,
        mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=True, rope_parameters=rope("default", mrope_section=[2, 2, 2])), tie_word_embeddings=True), {
        "names": lambda c: changed(c, text_config=named(num_experts="moe_num_experts", num_experts_per_tok="moe_k")(c["text_config"]))}),
    "hunyuan-vl": ("hunyuan_vl", dict(vision_config=dict(hidden_size=16, intermediate_size=24, num_attention_heads=2, num_hidden_layers=1, out_hidden_size=24, max_image_size=32), text_config=base(
        **LITTLE, head_dim=12, attention_bias=True, rope_parameters=rope("dynamic", alpha=100.0, factor=1.0, mrope_section=[1, 2, 1, 2])), tie_word_embeddings=True), {
        "flat": lambda c: changed({k: v for k, v in version4()(c["text_config"]).items() if k not in ("model_type", "rope_scaling")}, model_type="hunyuan_vl", pad_id=None,
                                  vision_config=c["vision_config"], rope_scaling=dict(type="xdrope", alpha=100.0, factor=1.0, xdrope_section=[1, 2, 1, 2]), tie_word_embeddings=True)}),
    "granite-docling": ("granite_docling", dict(vision_config=VISION | dict(out_hidden_size=24, scale_factor=2, deepstack_visual_indexes=[0], use_fine_route=False), text_config={
        k: v for k, v in base(**LITTLE).items() if k != "tie_word_embeddings"}), {
        "multipliers": lambda c: changed(c, text_config=changed(c["text_config"], ["embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"]))}),
    "cosmos3-edge": ("cosmos3_edge", dict(projector_hidden_size=16, vision_config=VISION | dict(num_patches=16), text_config={k: v for k, v in base(
        **LITTLE, head_dim=12, mlp_bias=True, rope_parameters=rope("default", rope_theta=90000.0, mrope_section=[2, 2, 2])).items()}), {}),
}

# Limits of gates by layer, stacks of gate and up apart; embedded tokens with a norm, residual gates, narrow experts with norms
MUSE_VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, pos_emb_height=4, pos_emb_width=4)
MUSE = dict(**LITTLE, head_dim=8, sliding_window=5, final_logit_softcapping=3.0, qk_scale_factor=1.6, output_multiplier=0.7)
FOLDERS |= {
    "step3p7": ("step3p7", dict(experts="eager", vision_config=VISION | dict(mlp_ratio=1.5), text_config=base(
        **LITTLE, head_dim=8, pad_token_id=0, num_hidden_layers=4, layer_types=["full_attention", "sliding_attention"] * 2, mlp_layer_types=["dense", "sparse", "sparse", "dense"], num_sliding_attention_heads=6,
        sliding_window=5, moe_intermediate_size=20, share_expert_dim=12, n_routed_experts=4, num_experts_per_tok=2, moe_router_scaling_factor=1.6, query_pre_attn_scalar=5,
        swiglu_limits=[None, 0.3, 0, None], swiglu_limits_shared=[0.2, 0.0, 0.25, None], rope_parameters=dict(
            full_attention=rope("llama3", rope_theta=5000.0, partial_rotary_factor=0.5, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
            sliding_attention=rope("default")))), {
        "old": lambda c: changed(c, text_config=changed(
            c["text_config"], ["rope_parameters", "per_layer_config", "mlp_layer_types", "num_sliding_attention_heads", "n_routed_experts", "num_experts_per_tok", "share_expert_dim",
                               "num_key_value_heads"],
            num_nextn_predict_layers=1, layer_types=["full_attention", "sliding_attention"] * 2 + ["sliding_attention"], moe_layers_enum="1,2,4", swiglu_limits=[0.0, 0.3, 0.0, 0.0, 7],
            swiglu_limits_shared=[0.2, 0.0, 0.25, 0.0, 16], rope_theta=[5000.0, 10000.0] * 2 + [1.0], partial_rotary_factors=[0.5, 1.0] * 2 + [1.0], moe_num_experts=4, moe_top_k=2,
            share_expert_dims=12, num_attention_groups=2, hidden_act="swigluoai", attention_other_setting=dict(num_attention_heads=6, num_attention_groups=2, head_dim=8),
            rope_scaling=dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)))}),
    "muse-glimmer": ("muse_glimmer", dict(vision_config=MUSE_VISION, out_hidden_size=64, projector_hidden_size=16, text_config=base(
        **MUSE, num_hidden_layers=3, post_norm_eps=1e-3, pad_token_id=0, layer_rope_theta=[10000.0, 0, 10000.0])), {}),
    "muse-spark": ("muse_spark", dict(experts="eager", vision_config=MUSE_VISION, out_hidden_size=64, projector_hidden_size=16, audio_config=dict(
        patch_sizes=[4, 4], hidden_sizes=[8, 8], depths=[1, 1], num_hidden_layers=2, out_hidden_size=24), text_config=base(
        **MUSE, num_hidden_layers=2, moe_hidden_size=14, moe_intermediate_size=20, num_local_experts=4, num_experts_per_tok=2, routed_scaling_factor=1.4, post_norm_eps=1e-3,
        residual_gate_temperature=0.2, mlp_layer_types=["dense", "sparse"])), {
        "no-types": lambda c: changed(c, text_config=changed(c["text_config"], ["layer_types", "layer_rope_theta"]))}),
}

# Latents that layers share, layers that do not turn, frequencies that are stored
LARGE4 = dict(**LITTLE, num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=6, v_head_dim=10, moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2,
              index_topk=32, index_n_heads=2, index_head_dim=10)
FOLDERS |= {
    "mistral-large4": ("mistral_large4", dict(experts="eager", vision_config=VISION | dict(model_type="pixtral", head_dim=8), text_config=base(
        **LARGE4, num_hidden_layers=5, no_rope_layers=[1, 0, 1, 0, 1], kv_source_layers=[0, 1, 0, 3, 4], indexer_types=["full", "full", "shared", "full", "shared"], n_group=2, topk_group=1,
        routed_scaling_factor=1.4, final_logit_softcapping=3.0, attention_bias=True, mlp_layer_types=["dense", "sparse", "dense", "dense", "sparse"], rope_parameters=rope(
            "yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.0, mscale_all_dim=0.8))), {
        "names": lambda c: changed(c, text_config=changed(c["text_config"], ["n_routed_experts"], num_experts=4, n_routed_experts=9, norm_topk_prob=False))}),
}

# DeepSeek V2's mixture after Llama's attention; of Unlimited-OCR a row sees all of itself, whatever its window
SAM = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=16, output_channels=8, mlp_dim=12, window_size=2, global_attn_indexes=[],
           downsample_channels=[8, 16])
OCR_EXPERTS = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=20, routed_scaling_factor=1.7)
FOLDERS |= {
    "deepseek-ocr2": ("deepseek_ocr2", dict(experts="eager", vision_config=dict(sam_config=SAM, encoder_config=VISION | dict(num_key_value_heads=2)), text_config=base(
        **LITTLE, **OCR_EXPERTS, num_hidden_layers=3, n_shared_experts=2, n_group=2, topk_group=1, topk_method="group_limited_greedy", mlp_bias=True, attention_bias=True,
        mlp_layer_types=["dense", "sparse", "sparse"])), {
        "num-experts": lambda c: changed(c, text_config=changed(c["text_config"], ["n_routed_experts", "head_dim"], num_experts=4))}),
    "unlimited-ocr": ("unlimited_ocr", dict(experts="eager", vision_config=dict(sam_config=SAM, encoder_config=VISION), text_config=base(
        **LITTLE, **OCR_EXPERTS, n_shared_experts=1, sliding_window=3, mlp_layer_types=["dense", "sparse"])), {
        "old": lambda c: changed(c, ["text_config"], sliding_window=3, language_config=changed(
            c["text_config"], ["layer_types", "mlp_layer_types", "sliding_window"], model_type="deepseek_v2", first_k_dense_replace=1, use_mla=False))}),
}
