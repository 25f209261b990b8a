// Decoders of 2021 to 2023: GPT-NeoX, Persimmon, GPT-J, Falcon, BLOOM, OPT.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void fillOld(Config &config, Decoder &decoder, const Layer &given, const char *layersKey, int64_t layers) {
  Layer layer = given;
  Attention &attention = layer.attention;
  if (attention.headWidth * attention.heads != decoder.hidden || attention.heads % attention.keyHeads)
    config.fail("hidden size " + std::to_string(decoder.hidden) + ", " + std::to_string(attention.heads) +
                " heads and " + std::to_string(attention.keyHeads) + " of keys do not fit each other");
  attention.scale = 1 / std::sqrt(double(attention.headWidth));
  layer.feedForward.isGated = false;
  int64_t count = layerCount(config, layersKey, layers);
  if (config.status().isOk())
    decoder.layers.assign(count, layer);
}

void setHeads(Decoder &decoder, Layer &layer, int64_t heads, int64_t keyHeads) {
  layer.attention.heads = heads;
  layer.attention.keyHeads = keyHeads;
  layer.attention.headWidth = decoder.hidden / heads;
}

/// Names of matrices that Megatron gave, and GPT-NeoX, Falcon and BLOOM kept.
static void setMegatronNames(BlockNames &names) {
  names.fusedQuery = "query_key_value";
  names.output = "dense";
  names.up = "dense_h_to_4h";
  names.down = "dense_4h_to_h";
}

/// Where the two model types differ.
struct NeoxDefaults {
  const char *base;
  int64_t vocabulary, heads, layers;
  bool isTied;
  double rotaryPart;
};

/// `layer` has its biases and width; what of the configuration it needs has been read.
static void fillNeox(Config &config, Decoder &decoder, Layer layer, const NeoxDefaults &defaults) {
  decoder.base = defaults.base;
  decoder.embedding = "embed_in";
  decoder.finalNorm = "final_layer_norm";
  decoder.head = "embed_out";
  decoder.vocabulary = config.integer("vocab_size", defaults.vocabulary);
  decoder.positionLimit = config.integer("max_position_embeddings", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", defaults.isTied);
  decoder.norm = {NormKind::Layer, config.number("layer_norm_eps", 1e-5)};
  int64_t heads = config.integer("num_attention_heads", defaults.heads);
  setHeads(decoder, layer, heads, heads);
  layer.attention.fusion = Fusion::Groups;
  layer.feedForward.activation = activationOf(config, "hidden_act", config.text("hidden_act", "gelu"));
  fillOld(config, decoder, layer, "num_hidden_layers", defaults.layers);
  if (decoder.layers.empty())
    return;
  decoder.names.attention = "attention";
  setMegatronNames(decoder.names);
  RopeContext context = ropeContext(decoder, config.number("rotary_emb_base", 10000));
  context.partialFactor = config.number("rotary_pct", defaults.rotaryPart);
  decoder.ropes = {readRope(config, context)};
}

void fillGptNeox(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  config.harmless({"classifier_dropout", "rope_pct"});
  decoder.hidden = config.integer("hidden_size", 6144);
  Layer layer;
  layer.attention.queryBias = layer.attention.outputBias = config.flag("attention_bias", true);
  layer.feedForward.width = config.integer("intermediate_size", 24576);
  layer.feedForward.bias = true;
  fillNeox(config, decoder, layer,
           {.base = "gpt_neox.", .vocabulary = 50432, .heads = 64, .layers = 44, .isTied = false, .rotaryPart = 0.25});
  decoder.isParallel = config.flag("use_parallel_residual", true);
}

/// One half of a block after the other, and no biases but one, of the last layer's attention.
void fillGptNeoxJapanese(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.hidden = config.integer("hidden_size", 2560);
  Layer layer;
  layer.feedForward.width = decoder.hidden * config.integer("intermediate_multiple_size", 4);
  fillNeox(
      config, decoder, layer,
      {.base = "gpt_neox_japanese.", .vocabulary = 32000, .heads = 32, .layers = 32, .isTied = true, .rotaryPart = 1});
  decoder.names.outputBias = "dense_bias";
  if (!decoder.layers.empty())
    decoder.layers.back().attention.outputBias = true;
}

/// GPT-NeoX's projections, norms of queries and keys, one half of a block after the other.
void fillPersimmon(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 262144,
              .width = 16384,
              .layers = 36,
              .heads = 64,
              .positions = 16384,
              .epsilon = 1e-5,
              .epsilonKey = "layer_norm_eps",
              .activation = "relu2"});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  setBiases(decoder, true, true, true);
  bool hasHeadNorms = config.flag("qk_layernorm", true);
  for (Layer &layer : decoder.layers) {
    layer.attention.fusion = Fusion::Groups;
    layer.attention.headNorms = hasHeadNorms ? HeadNorms::PerHead : HeadNorms::None;
    layer.feedForward.isGated = false;
  }
  decoder.finalNorm = "final_layernorm";
  setMegatronNames(decoder.names);
  decoder.names.queryNorm = "q_layernorm";
  decoder.names.keyNorm = "k_layernorm";
  RopeContext context = ropeContext(decoder, 10000);
  context.partialFactor = 0.5;
  decoder.ropes = {readRope(config, context)};
}

void fillGptJ(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.vocabulary = config.integer("vocab_size", 50400);
  decoder.hidden = config.integer("n_embd", 4096);
  decoder.positionLimit = config.integer("n_positions", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", false);
  decoder.headBias = true;
  decoder.norm = {NormKind::Layer, config.number("layer_norm_epsilon", 1e-5)};
  config.harmless({"n_ctx", "rotary", "scale_attn_weights", "summary_type", "summary_use_proj", "summary_activation",
                   "summary_proj_to_labels", "summary_first_dropout", "gradient_checkpointing"});
  Layer layer;
  int64_t heads = config.integer("n_head", 16);
  setHeads(decoder, layer, heads, heads);
  layer.feedForward.width = config.optionalInteger("n_inner", std::nullopt).value_or(4 * decoder.hidden);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", "gelu_new"));
  layer.feedForward.bias = true;
  fillOld(config, decoder, layer, "n_layer", 28);
  if (decoder.layers.empty())
    return;
  BlockNames &names = decoder.names;
  names.attentionNorm = "ln_1";
  names.feedForwardNorm = "";
  names.attention = "attn";
  names.output = "out_proj";
  names.up = "fc_in";
  names.down = "fc_out";
  decoder.isParallel = true;
  int64_t width = layer.attention.headWidth;
  int64_t turning = config.optionalInteger("rotary_dim", 64).value_or(width);
  RopeContext context = ropeContext(decoder, 10000);
  context.headWidth = turning;
  Config none = config.withoutKeys();
  decoder.ropes = {readRope(none, context)};
  config.adopt(none);
  decoder.ropes.front().isInterleaved = true;
  if (turning > width)
    config.fail(config.describe("rotary_dim") + ", heads have " + std::to_string(width) + " dimensions");
}

void fillFalcon(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "word_embeddings";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.vocabulary = config.integer("vocab_size", 65024);
  decoder.hidden = config.integer(config.has("n_embed") ? "n_embed" : "hidden_size", 4544);
  decoder.positionLimit = config.integer("max_position_embeddings", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm = {NormKind::Layer, config.number("layer_norm_epsilon", 1e-5)};
  config.harmless({"apply_residual_connection_post_layernorm", "n_head_kv"});
  bool hasAlibi = config.flag("alibi", false);
  Layer layer;
  int64_t heads = config.integer("num_attention_heads", 71);
  bool isNew = config.flag("new_decoder_architecture", false), sharesKeys = config.flag("multi_query", true);
  int64_t keyHeads = config.optionalInteger("num_kv_heads", std::nullopt).value_or(heads);
  if (!isNew && !sharesKeys && keyHeads != heads)
    config.fail(config.describe("num_kv_heads") + ", but without new_decoder_architecture and multi_query each of " +
                std::to_string(heads) + " heads has keys of its own");
  setHeads(decoder, layer, heads, isNew ? keyHeads : sharesKeys ? 1 : heads);
  layer.attention.fusion = !isNew && sharesKeys ? Fusion::Blocks : Fusion::Groups;
  bool bias = config.flag("bias", false);
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = bias;
  layer.feedForward.width = config.optionalInteger("ffn_hidden_size", std::nullopt).value_or(4 * decoder.hidden);
  layer.feedForward.activation = activationOf(config, "activation", config.text("activation", "gelu"));
  if (hasAlibi) {
    layer.attention.slopes = alibiSlopes(heads);
    layer.attention.slopesAreRounded = true;
    layer.rope = -1;
  }
  fillOld(config, decoder, layer, "num_hidden_layers", 32);
  if (decoder.layers.empty())
    return;
  BlockNames &names = decoder.names;
  names.attention = "self_attention";
  setMegatronNames(names);
  bool isParallel = config.flag("parallel_attn", true);
  int64_t norms = config.optionalInteger("num_ln_in_parallel_attn", std::nullopt).value_or(isNew ? 2 : 1);
  decoder.isParallel = isNew || isParallel;
  if (isParallel && norms == 2 && isNew) {
    names.attentionNorm = "ln_attn";
    names.feedForwardNorm = "ln_mlp";
  } else if (isParallel) {
    names.feedForwardNorm = "";
  } else if (isNew) {
    config.fail("new_decoder_architecture without parallel_attn is not built");
  }
  if (!hasAlibi)
    decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  else
    config.harmless({"rope_parameters", "rope_theta", "rope_scaling"});
}

void fillBloom(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "transformer.";
  decoder.embedding = "word_embeddings";
  decoder.embeddingNorm = "word_embeddings_layernorm";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  decoder.vocabulary = config.integer("vocab_size", 250880);
  const char *hiddenKey = config.has("n_embed") && !config.isNull("n_embed") ? "n_embed" : "hidden_size";
  decoder.hidden = config.integer(hiddenKey, 64);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm = {NormKind::Layer, config.number("layer_norm_epsilon", 1e-5)};
  config.harmless({"hidden_size", "n_embed", "slow_but_exact", "seq_length", "unk_token_id",
                   "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add",
                   "skip_bias_add_qkv", "offset_alibi", "n_inner"});
  decoder.addsToNormed = config.flag("apply_residual_connection_post_layernorm", false);
  Layer layer;
  const char *headsKey = config.has("num_attention_heads") ? "num_attention_heads" : "n_head";
  int64_t heads = config.integer(headsKey, 8);
  setHeads(decoder, layer, heads, heads);
  layer.attention.fusion = Fusion::Groups;
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = true;
  layer.attention.slopes = alibiSlopes(heads);
  layer.feedForward.width = 4 * decoder.hidden;
  layer.feedForward.activation = Activation::GeluTanh;
  layer.rope = -1;
  fillOld(config, decoder, layer, config.has("num_hidden_layers") ? "num_hidden_layers" : "n_layer", 2);
  BlockNames &names = decoder.names;
  names.attention = "self_attention";
  setMegatronNames(names);
}

void fillOpt(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  decoder.base = "model.decoder.";
  decoder.positions = "embed_positions";
  decoder.positionOffset = 2;
  decoder.finalNorm = "final_layer_norm";
  decoder.vocabulary = config.integer("vocab_size", 50272);
  decoder.hidden = config.integer("hidden_size", 768);
  decoder.positionLimit = config.integer("max_position_embeddings", 2048);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.padding = config.optionalInteger("pad_token_id", 1, INT64_C(-1) << 40);
  decoder.norm = {NormKind::Layer, 1e-5};
  decoder.initializerRange = config.number("init_std", 0.02);
  // The model of 350 million parameters alone has its norms after the sums, and narrower embedded tokens.
  decoder.normsAfterSum = !config.flag("do_layer_norm_before", true);
  if (config.flag("_remove_final_layer_norm", false) || decoder.normsAfterSum)
    decoder.finalNorm = "";
  int64_t width = config.optionalInteger("word_embed_proj_dim", std::nullopt).value_or(decoder.hidden);
  decoder.embeddingWidth = width == decoder.hidden ? 0 : width;
  config.require("layer_norm_elementwise_affine", {true});
  config.harmless({"prefix", "classifier_dropout"});
  noteDropout(config, decoder, {"dropout", "layerdrop", "activation_dropout"});
  Layer layer;
  int64_t heads = config.integer("num_attention_heads", 12);
  setHeads(decoder, layer, heads, heads);
  layer.attention.queryBias = layer.attention.outputBias = layer.feedForward.bias = config.flag("enable_bias", true);
  layer.feedForward.width = config.integer("ffn_dim", 3072);
  layer.feedForward.activation =
      activationOf(config, "activation_function", config.text("activation_function", "relu"));
  layer.rope = -1;
  fillOld(config, decoder, layer, "num_hidden_layers", 12);
  setBartNames(decoder.names);
}

} // namespace ztc::huggingface
