// GPT-2, and the first GPT: learned positions, LayerNorm with biases, matrices stored (in, out).
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

static void fillBoth(Config &config, Decoder &decoder, const char *activationName) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.positions = "wpe";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.vocabulary = config.integer("vocab_size", 50257);
  decoder.positionLimit = config.integer("n_positions", 1024);
  decoder.hidden = config.integer("n_embd", 768);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm = {NormKind::Layer, config.number("layer_norm_epsilon", 1e-5)};
  config.harmless({"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                   "summary_first_dropout", "reorder_and_upcast_attn"});
  for (const char *key : {"hidden_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers"})
    if (config.has(key))
      config.fail(config.describe(key) + "; a gpt2 configuration says it by n_embd, n_positions, n_head, n_layer");
  BlockNames &names = decoder.names;
  names.attentionNorm = "ln_1";
  names.feedForwardNorm = "ln_2";
  names.attention = "attn";
  names.fusedQuery = "c_attn";
  names.output = "c_proj";
  names.up = "c_fc";
  names.down = "c_proj";
  Layer layer;
  Attention &attention = layer.attention;
  attention.heads = attention.keyHeads = config.integer("n_head", 12);
  attention.headWidth = decoder.hidden / attention.heads;
  attention.queryBias = attention.outputBias = true;
  attention.fusion = Fusion::Blocks;
  attention.scale = config.flag("scale_attn_weights", true) ? 1 / std::sqrt(double(attention.headWidth)) : 1;
  if (attention.headWidth * attention.heads != decoder.hidden)
    config.fail("n_embd " + std::to_string(decoder.hidden) + " is not a multiple of n_head " +
                std::to_string(attention.heads));
  layer.feedForward.width = config.optionalInteger("n_inner", std::nullopt).value_or(4 * decoder.hidden);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", activationName));
  layer.feedForward.isGated = false;
  layer.feedForward.bias = true;
  layer.rope = -1;
  int64_t layers = layerCount(config, "n_layer", 12);
  if (config.status().isOk())
    decoder.layers.assign(layers, layer);
}

void fillGpt2(Config &config, Decoder &decoder) {
  fillBoth(config, decoder, "gelu_new");
  decoder.inputsTransposed = true;
  if (config.flag("scale_attn_by_inverse_layer_idx", false))
    for (size_t i = 0; i < decoder.layers.size(); ++i)
      decoder.layers[i].attention.scale /= double(i + 1);
}

/// StarCoder's first generation: GPT-2 with one head of keys and values, matrices stored as everywhere else.
void fillGptBigCode(Config &config, Decoder &decoder) {
  fillBoth(config, decoder, "gelu_pytorch_tanh");
  config.harmless({"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner", "max_batch_size",
                   "max_sequence_length", "pre_allocate_kv_cache", "validate_runner_input", "pad_key_length",
                   "num_key_value_heads"});
  bool sharesKeys = config.flag("multi_query", true);
  for (Layer &layer : decoder.layers) {
    layer.attention.keyHeads = sharesKeys ? 1 : layer.attention.heads;
    layer.attention.fusion = sharesKeys ? Fusion::Blocks : Fusion::Groups;
  }
}

/// The first GPT: each norm is of a sum, and none is before the head.
void fillOpenAiGpt(Config &config, Decoder &decoder) {
  config.set("n_inner", nullptr); // 4 n_embd, whatever stands there
  if (config.has("afn"))
    config.set("activation_function", config.value("afn") == "gelu" ? "gelu_new" : config.value("afn"));
  config.require("afn", {"gelu", "relu", "silu", "swish"});
  for (const auto &[key, value] : {std::pair("vocab_size", 40478), std::pair("n_positions", 512)})
    if (!config.has(key))
      config.set(key, value);
  fillBoth(config, decoder, "gelu_new");
  decoder.inputsTransposed = decoder.normsAfterSum = true;
  decoder.embedding = "tokens_embed";
  decoder.positions = "positions_embed";
  decoder.finalNorm = "";
}

} // namespace ztc::huggingface
