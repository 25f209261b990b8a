// GPT-2: learned positions, LayerNorm with biases, matrices stored (in, out).
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void fillGpt2(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.positions = "wpe";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.inputsTransposed = true;
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
  attention.queryBias = attention.outputBias = attention.isFused = true;
  attention.scale = config.flag("scale_attn_weights", true) ? 1 / std::sqrt(double(attention.headWidth)) : 1;
  if (attention.headWidth * attention.heads != decoder.hidden)
    config.fail("n_embd " + std::to_string(decoder.hidden) + " is not a multiple of n_head " +
                std::to_string(attention.heads));
  layer.feedForward.width = config.optionalInteger("n_inner", std::nullopt).value_or(4 * decoder.hidden);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", "gelu_new"));
  layer.feedForward.isGated = false;
  layer.feedForward.bias = true;
  layer.rope = -1;
  bool byDepth = config.flag("scale_attn_by_inverse_layer_idx", false);
  int64_t layers = layerCount(config, "n_layer", 12);
  for (int64_t i = 0; i < layers && config.status().isOk(); ++i) {
    decoder.layers.push_back(layer);
    if (byDepth)
      decoder.layers.back().attention.scale /= double(i + 1);
  }
}

} // namespace ztc::huggingface
