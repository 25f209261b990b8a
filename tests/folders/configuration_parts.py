"""What the tiny configurations of this folder share: sizes, and ways in which other versions write them."""
import copy
import math


def base(**more):
    return dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=97,
                max_position_embeddings=64, initializer_range=0.12, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
                pad_token_id=None) | more


def changed(config, without=(), **more):
    config = copy.deepcopy(config)
    for key in without:
        config.pop(key, None)
    return config | more


def version4(scaling=None, **more):
    """rope_parameters as version 4 writes them."""
    def change(config):
        parameters = dict(config["rope_parameters"])
        own = {k: v for k, v in parameters.items() if k not in ("rope_theta", "partial_rotary_factor")}
        own = None if own.get("rope_type", "default") == "default" else own
        if own and scaling:
            own[scaling] = own.pop("rope_type")
        extra = {k: parameters[k] for k in ("partial_rotary_factor",) if k in parameters}
        return changed(config, ["rope_parameters", "dtype"], rope_theta=parameters["rope_theta"], rope_scaling=own, torch_dtype="float32",
                       transformers_version="4.45.0", **extra, **more)
    return change


def rope(kind, **more):
    return dict(rope_type=kind, rope_theta=10000.0) | more


def named(**names):
    """Keys by their other names: other=own."""
    return lambda config: {k: v for k, v in config.items() if k not in names.values()} | {other: config[own] for other, own in names.items() if own in config}


LITTLE = dict(hidden_size=24, intermediate_size=32, vocab_size=61)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
