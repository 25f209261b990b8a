#!/usr/bin/env python3
"""Every key of every model type that ztc builds from a folder: what changes nothing in ztc's graph must not be read by transformers' model either.

Each key of a tiny configuration gets another value. `ztc compile --to=import` then gives another graph (the key is used), an error (it must have its default), or
the same graph: then neither the model type's modeling code nor its attributes' other names may read the key. Needs transformers; no weights are made.
"""
import inspect
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / place) for place in ("folders", "golden", "e2e")]
import make  # noqa: E402
from configurations import MORE  # noqa: E402
import transformers  # noqa: E402
from family_configs import FAMILIES  # noqa: E402
from support import ROOT, check, finish, run, scratch  # noqa: E402

# Read by modeling code and without a part in the loss of text: dropout (ztc says that it trains without), caches, the loss of routers (said too), what only
# initialises, what chooses between implementations of the same sums, tasks other than language modelling (GPT-2's summary_*).
HARMLESS = re.compile(r"dropout|pdrop|use_cache|summary_|output_|return_dict|initializer|init_std|router_aux|^_|implementation|pretraining_tp|chunk_size|problem_type|num_labels|"
                      r"jitter|token_id|layerdrop|reorder_and_upcast|softmax_in_fp32|slow_but_exact|is_decoder|cross_attention|dtype|tie_|architectures|transformers_version")
EXEMPT = {  # (model type, key): why
    ("gemma3_text", "attn_logit_softcapping"): "kept as an attribute, and never read again",
    ("deepseek_v2", "norm_topk_prob"): "deleted from the router",
    ("smollm3", "sliding_window"): "use_sliding_window is false in this configuration",
    ("smollm3", "use_sliding_window"): "sliding_window is null in this configuration",
    ("qwen3_moe", "decoder_sparse_step"): "mlp_only_layers decides the one layer that it would change in this configuration",
    ("qwen3_vl_moe_text", "decoder_sparse_step"): "mlp_only_layers decides the one layer that it would change in this configuration",
    ("qwen2_vl_text", "use_sliding_window"): "max_window_layers is more than there are in this configuration",
    ("gpt_bigcode", "num_key_value_heads"): "decided by multi_query",
    ("llama4_text", "max_position_embeddings"): "the size of a cache that nothing reads; the rotary embedding of this configuration reaches further",
    ("phimoe", "original_max_position_embeddings"): "taken from rope_parameters where it is there",
    ("lfm2", "block_multiple_of"): "twice as much rounds the width of this configuration up to the same",
    ("bamba", "z_loss_coefficient"): "a loss of the logits, which ztc says that it does not train",
    ("falcon_h1", "mamba_expand"): "mamba_d_ssm is there",
    ("falcon_h1", "mamba_norm_before_gate"): "mamba_rms_norm is false in this configuration",
    ("nemotron_h", "use_mamba_kernels"): "another implementation of the same",
    ("mamba2", "time_step_rank"): "of Mamba 1: only initialises, and nothing of this model type",
    ("mamba2", "residual_in_fp32"): "a precision: sums are f32 until they are stored",
    ("minimax", "block_size"): "another order of the same sums",
    ("diffllama", "lambda_std_dev"): "only initialises",
    ("jetmoe", "aux_loss_coef"): "of the loss that balances routers, which ztc says that it does not train",
    ("jetmoe", "num_attention_heads"): "set to num_key_value_heads * num_experts_per_tok",
    ("hy_v4", "num_key_value_heads"): "set to num_attention_heads",
    ("hrm_text", "prefix_lm"): "of token_type_ids, which text is trained without",
    ("dots3_note_text", "mlp_bias"): "of the vision tower's configuration",
    ("hy_v4", "learnable_sink_init"): "only initialises",
    ("doge", "max_position_embeddings"): "keep_window_size limits rows before it does in this configuration",
    ("step3p5", "num_nextn_predict_layers"): "of layers that predict further tokens, which the model leaves out",
    ("unlimited_ocr_text", "n_group"): "topk_method is greedy",
    ("solar_open", "intermediate_size"): "every layer is a mixture, and the shared experts' width is theirs",
} | {(kind, "num_logits_to_keep"): "which positions generation reads" for kind in ("bamba", "falcon_h1", "nemotron_h")
} | {(kind, key): "another implementation of the same, or sums of f32 until they are stored" for kind in ("mamba", "falcon_mamba") for key in (
    "residual_in_fp32", "use_mambapy", "use_associative_scan")
} | {("jamba", key): "another implementation of the same" for key in ("use_mamba_kernels", "use_mambapy", "use_associative_scan")
} | {(kind, "intermediate_size"): "transformers makes it of expand, whatever stands there" for kind in ("mamba", "falcon_mamba")
} | {("zamba2", key): "transformers makes it of others, whatever stands there" for key in ("attention_hidden_size", "attention_head_dim", "mamba_headdim")
} | {("zamba2", key): "nothing reads it, or another implementation of the same" for key in ("use_conv_bias", "use_mamba_kernels", "num_logits_to_keep")
} | {(kind, "head_dim"): "set to qk_rope_head_dim" for kind in ("deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "youtu", "deepseek_v32", "glm_moe_dsa", "axk2", "hy_v4", "dots3_note_text", "longcat_flash", "mistral_large4_text")
} | {(kind, "head_dim"): "made of hidden_size" for kind in ("deepseek_ocr2_text", "unlimited_ocr_text")
} | {("doge", key): "is_moe is false" for key in ("num_experts", "num_experts_per_tok", "norm_topk_prob")
} | {("minimax_m3_vl_text", key): "of the indexer, which chooses every block" for key in ("index_n_heads", "index_head_dim", "index_local_blocks")
} | {(kind, key): why for kind in ("deepseek_v32", "glm_moe_dsa", "axk2", "hy_v4", "dots3_note_text", "mistral_large4_text") for key, why in (
    ("index_n_heads", "of the indexer, which chooses every key"), ("index_head_dim", "of the indexer, which chooses every key"),
    ("max_position_embeddings", "index_topk limits rows before it does in this configuration"))
}


# Multi-modal folders whose language model has no folder of its own
MODELS_OF_TEXT = {"step3p7": "step3p5"} | {kind: f"{kind}_text" for kind in ("muse_glimmer", "muse_spark", "mistral_large4", "deepseek_ocr2", "unlimited_ocr")}


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if value < 2 else value * 2
    return value * 1.5 + 0.1 if isinstance(value, float) else None


def readers(config):
    """The text of the modeling code, without comments."""
    module = inspect.getmodule(type(config)).__name__.replace("configuration_", "modeling_")
    return re.sub(r"#.*", "", inspect.getsource(__import__(module, fromlist=["_"])))


def has_modeling_code(options, kind):
    """Some model types share another's code, and have none under their own name."""
    options = {k: v for k, v in options.items() if k not in ("experts", "attention")}
    try:
        return bool(readers(transformers.AutoConfig.for_model(kind, **options)))
    except ModuleNotFoundError:
        print(f"     {kind}: transformers has no modeling code of this name", flush=True)
        return False


# A saved configuration holds lists that others were made of: sliding_window_pattern is read where they are absent.
DERIVED = "layer_types", "mlp_layer_types", "no_rope_layers", "moe_layers"


def has_effect(folder, config, key, value):
    usual = graph_of(folder, config)
    return usual is not None and graph_of(folder, config | {key: value}) != usual


def graph_of(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    done = run("ztc", "compile", folder, "--to=import", "--batch=1", "--seq=12", "--precision=fp32", expect=None)
    return done.stdout if done.returncode == 0 else None


def examine(kind, options, folder):
    options = {k: v for k, v in options.items() if k not in ("experts", "attention")}
    config = transformers.AutoConfig.for_model(kind, **options)
    own, source = config.to_dict(), readers(config)
    usual = graph_of(folder, own)
    check(f"{kind}: the configuration itself", usual is not None)
    if usual is None:
        return
    unread, without = [], {key: value for key, value in own.items() if key not in DERIVED}
    for key, value in own.items():
        changed = other(value)
        if changed is None or HARMLESS.search(key) or (kind, key) in EXEMPT:
            continue
        names = [key, *(alias for alias, name in config.attribute_map.items() if name == key)]
        if graph_of(folder, own | {key: changed}) == usual and any(re.search(rf"config\.{name}\b|config, \"{name}\"", source) for name in names) \
                and not has_effect(folder, without, key, changed):
            unread.append(key)
    check(f"{kind}: no key that transformers' model reads is without effect", not unread, unread)


def main():
    table = (ROOT / "frontends/huggingface/Families.cpp").read_text()
    kinds = re.findall(r'{"([a-z0-9_]+)", fill', table)
    known = {kind: options for kind, options, _ in reversed(list((make.FOLDERS | MORE).values())) if "text_config" not in options}
    # Of a multi-modal model the part that its language model reads.
    parts = dict(re.findall(r'{"([a-z0-9_]+)", "([a-z0-9_]+)", (?:true|false)', table))
    known = {options["text_config"].get("model_type", parts.get(kind)): {key: value for key, value in options["text_config"].items() if key != "model_type"}
             for kind, options, _ in (make.FOLDERS | MORE).values() if "text_config" in options} | known
    known = {kind: options for kind, options in FAMILIES.values()} | known
    for kind, options, _ in (make.FOLDERS | MORE).values():
        if "text_config" in options and kind in MODELS_OF_TEXT:
            known[MODELS_OF_TEXT[kind]] = options["text_config"]
    for kind in kinds:
        if kind in known and (len(sys.argv) < 2 or kind in sys.argv[1:]) and has_modeling_code(known[kind], kind):
            with scratch() as folder:
                examine(kind, known[kind], folder)
    finish()


main()
