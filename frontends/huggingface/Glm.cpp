// GLM 4 to 4.5: half of each head turns by pairs of neighbours, gate and up in one projection, norms around both
// halves.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Norms of what each half of a block gives, beside those of what it reads.
static void setNormsOfResults(Decoder &decoder) {
  decoder.names.afterAttentionNorm = "post_self_attn_layernorm";
  decoder.names.afterFeedForwardNorm = "post_mlp_layernorm";
}

static RopeContext halfContext(const Decoder &decoder) {
  RopeContext context = ropeContext(decoder, 10000);
  context.partialFactor = 0.5;
  return context;
}

void fillGlm(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 151552,
                    .width = 13696,
                    .layers = 40,
                    .keyHeads = 2,
                    .headWidth = 128,
                    .positions = 131072,
                    .epsilon = 1.5625e-7};
  defaults.padding = 151329;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", true);
  setBiases(decoder, bias, false);
  for (Layer &layer : decoder.layers)
    layer.feedForward.isFused = true;
  decoder.ropes = {readRope(config, halfContext(decoder))};
  decoder.ropes.front().isInterleaved = true;
}

void fillGlm4(Config &config, Decoder &decoder) {
  fillGlm(config, decoder);
  setNormsOfResults(decoder);
}

/// GLM 4 with a rotary embedding whose parts are alike for text; as much of a head turns as partial_rotary_factor says.
static void readGlm4v(Config &config, Decoder &decoder, const Defaults &defaults, bool hasBias) {
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setBiases(decoder, hasBias, false);
  for (Layer &layer : decoder.layers)
    layer.feedForward.isFused = true;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.ropes.front().isInterleaved = true;
  setNormsOfResults(decoder);
}

/// The language model of GLM-4.1V. transformers gives its heads the hidden dimensions, whatever head_dim says.
void fillGlm4v(Config &config, Decoder &decoder) {
  readGlm4v(config, decoder,
            {.vocabulary = 151552, .width = 13696, .layers = 40, .keyHeads = 2, .positions = 32768, .epsilon = 1e-5},
            true);
  if (!decoder.layers.empty() && config.has("head_dim") &&
      decoder.layers.front().attention.headWidth != decoder.hidden / decoder.layers.front().attention.heads)
    config.fail(config.describe("head_dim") + ", and the heads of this model type share hidden_size");
}

/// The language model of GLM-OCR.
void fillGlmOcr(Config &config, Decoder &decoder) {
  readGlm4v(config, decoder,
            {.vocabulary = 59392,
             .hidden = 1024,
             .width = 4096,
             .layers = 16,
             .heads = 16,
             .keyHeads = 8,
             .positions = 131072,
             .epsilon = 1e-5},
            false);
}

/// GLM 4.5: half of each head turns, by halves; a mixture behind dense layers.
static void readGlm4Moe(Config &config, Decoder &decoder, const Defaults &defaults, bool hasBias) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"}});
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setBiases(decoder, config.flag("attention_bias", hasBias), false);
  decoder.ropes = {readRope(config, halfContext(decoder))};
  setDeepSeekExperts(config, decoder,
                     {.count = 128, .perToken = 8, .width = 1408, .shared = 1, .firstDense = 1, .normalised = true});
}

void fillGlm4Moe(Config &config, Decoder &decoder) {
  readGlm4Moe(config, decoder,
              {.vocabulary = 151552,
               .width = 10944,
               .layers = 46,
               .heads = 96,
               .keyHeads = 8,
               .positions = 131072,
               .epsilon = 1e-5},
              false);
  config.harmless({"num_nextn_predict_layers", "num_mtp_layers"});
  bool hasHeadNorms = config.flag("use_qk_norm", false);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = hasHeadNorms ? HeadNorms::PerHead : HeadNorms::None;
}

/// The language model of GLM-4.5V.
void fillGlm4vMoe(Config &config, Decoder &decoder) {
  config.harmless({"num_nextn_predict_layers"});
  readGlm4Moe(config, decoder,
              {.vocabulary = 151424,
               .width = 10944,
               .layers = 46,
               .heads = 96,
               .keyHeads = 8,
               .positions = 65536,
               .epsilon = 1e-5},
              true);
}

/// GLM 4.5's experts in every layer; all of each head turns.
void fillSolarOpen(Config &config, Decoder &decoder) {
  config.harmless({"intermediate_size", "first_k_dense_replace"}); // nothing is dense, whatever they say
  config.set("intermediate_size", 1);
  config.set("first_k_dense_replace", 0);
  readCommon(config, decoder,
             {.vocabulary = 196608,
              .layers = 48,
              .heads = 64,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 131072,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, config.flag("attention_bias", false), false);
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
  setDeepSeekExperts(config, decoder, {.count = 128, .perToken = 8, .width = 1280, .shared = 1, .normalised = true});
}

/// GLM 4.5's experts with one projection for queries, keys and values; all of each head turns.
void fillSarvamMoe(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_experts", "n_routed_experts"},
                       {"num_local_experts", "n_routed_experts"},
                       {"num_shared_experts", "n_shared_experts"},
                       {"use_qkv_bias", "attention_bias"}});
  config.harmless({"num_mtp_layers", "num_nextn_predict_layers"});
  Defaults defaults{.vocabulary = 262144,
                    .width = 8192,
                    .layers = 19,
                    .heads = 64,
                    .keyHeads = 4,
                    .headWidth = 64,
                    .positions = 131072};
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.006;
  bool bias = config.flag("attention_bias", false), hasHeadNorms = config.flag("use_qk_norm", true);
  setBiases(decoder, bias, false);
  for (Layer &layer : decoder.layers) {
    layer.attention.fusion = Fusion::Blocks;
    layer.attention.headNorms = hasHeadNorms ? HeadNorms::PerHead : HeadNorms::None;
  }
  decoder.ropes = {readRope(config, ropeContext(decoder, 8000000))};
  setDeepSeekExperts(
      config, decoder,
      {.count = 128, .perToken = 6, .width = 1024, .shared = 1, .firstDense = 1, .scale = 2.5, .normalised = true});
  decoder.embedding = "word_embeddings";
  BlockNames &names = decoder.names;
  names.attention = "attention";
  names.fusedQuery = "query_key_value";
  names.output = "dense";
  names.queryNorm = "query_layernorm";
  names.keyNorm = "key_layernorm";
  names.choiceBias = "gate.expert_bias";
  decoder.renamed = {{"model.word_embeddings.", "model.embed_tokens."},
                     {".attention.", ".self_attn."},
                     {".dense.", ".o_proj."},
                     {".query_layernorm.", ".q_norm."},
                     {".key_layernorm.", ".k_norm."},
                     {".expert_bias.", ".e_score_correction_bias."}};
}

} // namespace ztc::huggingface
