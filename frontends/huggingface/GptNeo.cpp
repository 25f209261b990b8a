// Decoders of 2021 to 2023 with names of their own: GPT-Neo, CodeGen, MPT, XGLM, BioGPT; and CTRL.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// GPT-Neo's attention_types: [[["global", "local"], 12]] stands for twelve times both.
static std::vector<bool> localLayers(Config &config, size_t layers) {
  nlohmann::json types = config.value("attention_types");
  if (types.is_null())
    types = nlohmann::json::array({{{"global", "local"}, 12}});
  bool fits = types.is_array();
  std::vector<bool> result;
  for (const nlohmann::json &entry : fits ? types : nlohmann::json::array()) {
    fits &= entry.is_array() && entry.size() == 2 && entry[0].is_array() && entry[1].is_number_integer() &&
            entry[1].get<int64_t>() >= 0;
    for (int64_t i = 0; fits && i < entry[1].get<int64_t>() && result.size() <= layers; ++i)
      for (const nlohmann::json &type : entry[0]) {
        fits &= type == "local" || type == "global";
        result.push_back(type == "local");
      }
  }
  if (!fits || result.size() != layers)
    config.fail(config.describe("attention_types") + ", which does not name \"global\" or \"local\" for each of " +
                std::to_string(layers) + " layers");
  result.resize(layers);
  return result;
}

/// GPT-2 with three projections, scores without a scale, and windows in every second layer.
void fillGptNeo(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.positions = "wpe";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.vocabulary = config.integer("vocab_size", 50257);
  decoder.hidden = config.integer("hidden_size", 2048);
  decoder.positionLimit = config.integer("max_position_embeddings", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm = {NormKind::Layer, config.number("layer_norm_epsilon", 1e-5)};
  // attention_layers is what transformers makes of attention_types, and writes without reading it.
  config.harmless({"attention_layers", "classifier_dropout", "gradient_checkpointing", "summary_type",
                   "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"});
  Layer layer;
  int64_t heads = config.integer(config.firstOf({"num_heads", "num_attention_heads"}), 16);
  setHeads(decoder, layer, heads, heads);
  layer.attention.outputBias = layer.feedForward.bias = true;
  layer.feedForward.width = config.optionalInteger("intermediate_size", std::nullopt).value_or(4 * decoder.hidden);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", "gelu_new"));
  layer.rope = -1;
  fillOld(config, decoder, layer, config.firstOf({"num_layers", "num_hidden_layers"}), 24);
  if (decoder.layers.empty())
    return;
  setWindows(decoder, localLayers(config, decoder.layers.size()), config.integer("window_size", 256));
  for (Layer &each : decoder.layers)
    each.attention.scale = 1;
  BlockNames &names = decoder.names;
  names.attentionNorm = "ln_1";
  names.feedForwardNorm = "ln_2";
  names.attention = "attn.attention";
  names.output = "out_proj";
  names.up = "c_fc";
  names.down = "c_proj";
}

/// GPT-J with one projection for queries, values and keys, in four parts.
void fillCodeGen(Config &config, Decoder &decoder) {
  fillGptJ(config, decoder);
  for (Layer &layer : decoder.layers)
    layer.attention.fusion = Fusion::Shards;
  if (!decoder.layers.empty() && decoder.layers.front().attention.heads % kShards)
    config.fail("n_head " + std::to_string(decoder.layers.front().attention.heads) + " is not a multiple of " +
                std::to_string(kShards));
}

/// ALiBi, nothing with a bias.
void fillMpt(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.layersName = "blocks";
  decoder.finalNorm = "norm_f";
  decoder.vocabulary = config.integer("vocab_size", 50368);
  decoder.hidden = config.integer(config.firstOf({"d_model", "hidden_size"}), 2048);
  decoder.positionLimit = config.integer("max_seq_len", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm = {NormKind::LayerNoBias, config.number("layer_norm_epsilon", 1e-5)};
  // expansion_ratio is 4 in transformers whatever stands there; ALiBi makes learned_pos_emb void.
  config.harmless({"expansion_ratio", "learned_pos_emb", "init_device", "norm_type", "init_config", "verbose",
                   "tokenizer_name", "emb_pdrop"});
  config.require("no_bias", {true});
  // MosaicML's own program multiplies logits by it; transformers, whose loss an export is to give, does not.
  if (config.has("logit_scale") && !config.isNull("logit_scale"))
    decoder.notes.push_back(config.describe("logit_scale") + ": transformers passes over it, and so does ztc");
  config.require("embedding_fraction", {1});
  Config attention = config.child("attn_config").value_or(config.withoutKeys());
  attention.require("alibi", {true});
  attention.require("alibi_bias_max", {8});
  attention.require("qk_ln", {false, nullptr});
  attention.require("prefix_lm", {false, nullptr});
  attention.require("attn_type", {"multihead_attention"});
  noteDropout(attention, decoder, {"attn_pdrop"});
  Layer layer;
  int64_t heads = config.integer(config.firstOf({"n_heads", "num_attention_heads"}), 16);
  setHeads(decoder, layer, heads, heads);
  layer.attention.fusion = Fusion::Blocks;
  layer.attention.clip = attention.optionalNumber("clip_qkv", std::nullopt).value_or(0);
  layer.attention.slopes = alibiSlopes(heads);
  layer.feedForward.width = 4 * decoder.hidden;
  layer.feedForward.activation = Activation::Gelu;
  layer.rope = -1;
  fillOld(config, decoder, layer, config.firstOf({"n_layers", "num_hidden_layers"}), 24);
  std::optional<double> scale = attention.optionalNumber("softmax_scale", std::nullopt);
  for (Layer &each : decoder.layers)
    each.attention.scale = scale.value_or(each.attention.scale);
  config.adopt(attention);
  BlockNames &names = decoder.names;
  names.attentionNorm = "norm_1";
  names.feedForwardNorm = "norm_2";
  names.attention = "attn";
  names.fusedQuery = "Wqkv";
  names.output = "out_proj";
  names.feedForward = "ffn";
}

/// Of XGLM and BioGPT, whose blocks are OPT's: embedded tokens are scaled, and their padding row is.
static void fillScaled(Config &config, Decoder &decoder) {
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.padding = config.optionalInteger("pad_token_id", 1, INT64_C(-1) << 40);
  decoder.norm = {NormKind::Layer, 1e-5};
  decoder.finalNorm = "layer_norm";
  decoder.positionOffset = 2;
  if (config.flag("scale_embedding", true))
    decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  noteDropout(config, decoder,
              {"dropout", "layerdrop", "activation_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"});
  setBartNames(decoder.names);
}

/// Sines and cosines instead of learned positions.
void fillXglm(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.positionsAreWaves = true;
  decoder.vocabulary = config.integer("vocab_size", 256008);
  decoder.hidden = config.integer(config.firstOf({"d_model", "hidden_size"}), 1024);
  decoder.positionLimit = config.integer("max_position_embeddings", 2048);
  decoder.initializerRange = config.number("init_std", 0.02);
  fillScaled(config, decoder);
  if (decoder.hidden % 2 || decoder.hidden < 4)
    config.fail(config.describe("d_model") + ", which is not an even number of at least 4");
  Layer layer;
  int64_t heads = config.integer(config.firstOf({"attention_heads", "num_attention_heads"}), 16);
  setHeads(decoder, layer, heads, heads);
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = true;
  layer.feedForward.width = config.integer("ffn_dim", 4096);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", "gelu"));
  layer.rope = -1;
  fillOld(config, decoder, layer, config.firstOf({"num_layers", "num_hidden_layers"}), 24);
}

void fillBioGpt(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "biogpt.";
  decoder.head = "output_projection";
  decoder.positions = "embed_positions";
  decoder.vocabulary = config.integer("vocab_size", 42384);
  decoder.hidden = config.integer("hidden_size", 1024);
  decoder.positionLimit = config.integer("max_position_embeddings", 1024);
  config.harmless({"layer_norm_eps"}); // transformers reads it and never uses it
  fillScaled(config, decoder);
  Layer layer;
  int64_t heads = config.integer("num_attention_heads", 16);
  setHeads(decoder, layer, heads, heads);
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = true;
  layer.feedForward.width = config.integer("intermediate_size", 4096);
  layer.feedForward.activation = activationOf(config, "hidden_act", config.text("hidden_act", "gelu"));
  layer.rope = -1;
  fillOld(config, decoder, layer, "num_hidden_layers", 24);
}

/// Sines and cosines, of which the longest is one step short of XGLM's; epsilons of the blocks' norms are 1e-6.
void fillCtrl(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "w";
  decoder.layersName = "h";
  decoder.finalNorm = "layernorm";
  decoder.positionsAreWaves = decoder.wavesEndBefore = true;
  decoder.headBias = true;
  decoder.vocabulary = config.integer("vocab_size", 246534);
  decoder.hidden = config.integer(config.firstOf({"n_embd", "hidden_size"}), 1280);
  decoder.positionLimit = config.integer(config.firstOf({"n_positions", "max_position_embeddings"}), 256);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  decoder.norm = {NormKind::Layer, 1e-6};
  config.require("layer_norm_epsilon", {1e-6}); // of the last norm alone
  config.harmless({"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
                   "summary_first_dropout"});
  if (decoder.hidden % 2)
    config.fail(config.describe("n_embd") + ", which is not an even number");
  Layer layer;
  int64_t heads = config.integer(config.firstOf({"n_head", "num_attention_heads"}), 16);
  setHeads(decoder, layer, heads, heads);
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = true;
  layer.feedForward.width = config.integer("dff", 8192);
  layer.feedForward.activation = Activation::Relu;
  layer.rope = -1;
  fillOld(config, decoder, layer, config.firstOf({"n_layer", "num_hidden_layers"}), 48);
  BlockNames &names = decoder.names;
  names.attentionNorm = "layernorm1";
  names.feedForwardNorm = "layernorm2";
  names.attention = "multi_head_attention";
  names.query = "Wq";
  names.key = "Wk";
  names.value = "Wv";
  names.output = "dense";
  names.feedForward = "ffn";
  names.up = "0";
  names.down = "2";
}

} // namespace ztc::huggingface
