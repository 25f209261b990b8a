// Mistral Large 4: latent attention beside an indexer, whose frequencies and scales of queries are learned, with
// latents that layers share; Mistral 4's mixture. Names are those of its checkpoints.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Layers that turn a part of their heads; the others have that part among what stands still.
static void readPlainLayers(Config &config, Decoder &decoder) {
  const int64_t every = config.integer("no_rope_layer_interval", 4);
  const std::optional<std::vector<int64_t>> turns = config.integers("no_rope_layers");
  if (turns && turns->size() < decoder.layers.size())
    return config.fail(config.describe("no_rope_layers") + ", for " + std::to_string(decoder.layers.size()) +
                       " layers");
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    if (turns ? (*turns)[i] != 0 : (int64_t(i) + 1) % every != 0)
      continue;
    Layer &layer = decoder.layers[i];
    layer.rope = -1;
    layer.attention.latent->plainWidth += layer.attention.latent->turningWidth;
    layer.attention.latent->turningWidth = 0;
  }
}

/// Layers that have the latents of another one. transformers keeps the last ones of each kind that others share, of
/// layers that turn and of those that do not.
static void readSources(Config &config, Decoder &decoder) {
  const std::optional<std::vector<int64_t>> given = config.integers("kv_source_layers");
  if (!given)
    return;
  const std::vector<int64_t> &sources = *given;
  const int64_t layers = int64_t(decoder.layers.size());
  if (int64_t(sources.size()) != layers)
    return config.fail(config.describe("kv_source_layers") + ", for " + std::to_string(layers) + " layers");
  int64_t kept[2] = {-1, -1};
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t source = sources[size_t(i)];
    const bool turns = decoder.layers[size_t(i)].rope >= 0;
    if (source == i) {
      if (std::find(sources.begin() + i + 1, sources.end(), i) != sources.end())
        kept[turns] = i;
      continue;
    }
    if (source < 0 || source > i || sources[size_t(source)] != source)
      return config.fail(config.describe("kv_source_layers") + ": layer " + std::to_string(i) +
                         " shares those of no earlier layer that has its own");
    if (kept[turns] != source)
      return config.fail(config.describe("kv_source_layers") + ": layer " + std::to_string(i) +
                         " would see another layer's in transformers, which keeps the last ones of layers that turn "
                         "and the last ones of those that do not");
    decoder.layers[size_t(i)].keysOf = int(source);
  }
}

static void setNames(Decoder &decoder) {
  decoder.base = "";
  decoder.embedding = "tok_embeddings";
  decoder.head = "output";
  BlockNames &names = decoder.names;
  names.attentionNorm = "attention_norm";
  names.feedForwardNorm = "ffn_norm";
  names.attention = "attention";
  names.query = "wq";
  names.output = "wo";
  names.latentDown = "wkv_a_with_mqa";
  names.latentNorm = "kv_a_norm";
  names.latentUp = "wkv_b";
  names.feedForward = "feed_forward";
  names.mixtureIsBlock = true;
  names.gate = names.expertGate = "w1";
  names.up = names.expertUp = "w3";
  names.down = names.expertDown = "w2";
}

void fillMistralLarge4(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"}});
  if (config.has("num_experts") && !config.isNull("num_experts"))
    config.set("n_routed_experts", config.value("num_experts"));
  readCommon(config, decoder,
             {.vocabulary = 204800,
              .hidden = 6144,
              .width = 24576,
              .layers = 72,
              .heads = 64,
              .keyHeads = 64,
              .headWidth = 64,
              .positions = 1048576,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  if (const Attention &attention = decoder.layers.front().attention; attention.heads != attention.keyHeads)
    config.fail(config.describe("num_key_value_heads") + ", and this model type has as many as num_attention_heads");
  readIndexer(config, decoder);
  config.set("q_lora_rank", nullptr); // one projection, whatever it says
  setLatent(config, decoder, {.keyRank = 512, .plainWidth = 64, .turningWidth = 64, .valueWidth = 128});
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "yarn"},
                                   {"rope_theta", 10000.0},
                                   {"factor", 2048.0},
                                   {"original_max_position_embeddings", 512},
                                   {"beta_fast", 32.0},
                                   {"beta_slow", 1.0},
                                   {"attention_factor", 1.0}});
  Rope rope = readRope(config, ropeContext(decoder, 10000));
  if (config.status().isOk() && rope.width != decoder.layers.front().attention.latent->turningWidth)
    config.fail("the rotary embedding turns " + std::to_string(rope.width) + " dimensions of a head, " +
                config.describe("qk_rope_head_dim"));
  rope.isInterleaved = true;
  rope.exponents = "lerope.alpha";
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorm = decoder.norm;
    layer.attention.scale *= rope.scoreScale;
    layer.attention.learnsQueryScale = true;
  }
  decoder.ropes = {rope};
  readPlainLayers(config, decoder);
  readSources(config, decoder);
  decoder.fresh = {{"lerope.alpha", FreshValues::Kind::Constant, {0}},
                   {"ssmax_scaling.s", FreshValues::Kind::Constant, {0}},
                   {"ssmax_scaling.b", FreshValues::Kind::Constant, {1}}};

  const int64_t first = config.integer("first_k_dense_replace", 1, 0);
  const std::vector<bool> dense = layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse",
                                               [first](int64_t layer) { return layer < first; });
  config.set("norm_topk_prob", true); // whatever it says
  setDeepSeekExperts(config, decoder, {.count = 128, .perToken = 4, .width = 6144, .shared = 1},
                     {.router = Experts::Router::SoftmaxThenTop, .normalisedFrom = 1e-20, .groupSummands = 2}, dense);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts)
      layer.feedForward.experts->precision = Experts::Precision::Weight;
  decoder.logitSoftCap = config.number("final_logit_softcapping", 30);
  if (*decoder.logitSoftCap <= 0)
    config.fail(config.describe("final_logit_softcapping") + ", which is not above 0");
  setNames(decoder);
}

} // namespace ztc::huggingface
