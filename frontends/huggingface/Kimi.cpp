// Kimi Linear: the gated delta rule with a decay for each row of the state in three layers of four, latent attention
// without positions in the fourth, DeepSeek-V3's experts.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Which layers attend: by layer_types, else by linear_attn_config, which counts layers from 1.
static std::vector<bool> kimiAttendingLayers(Config &config, const Decoder &decoder, std::optional<Config> &linear) {
  const std::optional<std::vector<int64_t>> full = linear ? linear->integers("full_attn_layers") : std::nullopt,
                                            other = linear ? linear->integers("kda_layers") : std::nullopt;
  const auto isIn = [](const std::vector<int64_t> &list, int64_t layer) {
    return std::find(list.begin(), list.end(), layer + 1) != list.end();
  };
  const bool isListed = full && other && config.texts("layer_types").empty();
  for (int64_t i = 0; isListed && i < int64_t(decoder.layers.size()); ++i)
    if (isIn(*full, i) == isIn(*other, i))
      config.fail("linear_attn_config: layer " + std::to_string(i + 1) +
                  " must be in one of full_attn_layers and kda_layers");
  return layersOfType(config, decoder, "layer_types", "full_attention", "linear_attention",
                      [&](int64_t layer) { return isListed ? isIn(*full, layer) : layer && layer % 4 == 0; });
}

static DeltaNet readKimiDelta(Config &config, std::optional<Config> &linear, const Decoder &decoder) {
  const auto size = [&](const char *key, const char *inner, int64_t otherwise) {
    const int64_t own = config.integer(key, otherwise);
    return linear && linear->has(inner) ? linear->integer(inner, own) : own;
  };
  DeltaNet delta{.projections = DeltaNet::Projections::Apart, .decaysByRow = true, .gateIsSigmoid = true};
  delta.keyHeads = delta.valueHeads = size("linear_num_heads", "num_heads", 32);
  delta.keyWidth = delta.valueWidth = size("linear_head_dim", "head_dim", 128);
  delta.taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", 4);
  delta.activation = decoder.layers.front().feedForward.activation;
  delta.epsilon = decoder.norm.epsilon;
  return delta;
}

void fillKimiLinear(Config &config, Decoder &decoder) {
  readAliases(config, {{"model_max_length", "max_position_embeddings"},
                       {"moe_renormalize", "norm_topk_prob"},
                       {"num_expert_group", "n_group"},
                       {"num_local_experts", "num_experts"},
                       {"num_experts_per_token", "num_experts_per_tok"},
                       {"num_shared_experts", "n_shared_experts"}});
  config.harmless({"head_dim", "qk_head_dim"}); // transformers makes both of the parts
  config.set("head_dim", config.integer("qk_rope_head_dim", 64));
  Defaults defaults{
      .vocabulary = 163840, .hidden = 2304, .width = 9216, .layers = 27, .positions = 1048576, .epsilon = 1e-5};
  defaults.padding = 163839;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setLatent(config, decoder, {.keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128});
  std::optional<Config> linear = config.child("linear_attn_config");
  const std::vector<bool> attends = kimiAttendingLayers(config, decoder, linear);
  const DeltaNet delta = readKimiDelta(config, linear, decoder);
  if (linear)
    config.adopt(*linear);
  decoder.fresh = {{"A_log", FreshValues::Kind::LogUniform, {1, 16}},
                   {"dt_bias", FreshValues::Kind::Step, {0.001, 0.1, 0.0001}}};
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    decoder.layers[i].rope = -1;
    if (!attends[i])
      decoder.layers[i].deltaNet = delta;
  }
  config.harmless({"rope_parameters", "rope_theta", "rope_scaling"}); // nothing turns
  const int64_t first = config.integer("first_k_dense_replace", 1, 0);
  const std::vector<bool> dense = layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse",
                                               [first](int64_t layer) { return layer < first; });
  setDeepSeekExperts(config, decoder,
                     {.count = 256,
                      .perToken = 8,
                      .width = 1024,
                      .shared = 1,
                      .scale = 2.446,
                      .normalised = true,
                      .countKey = "num_experts"},
                     {.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-20, .hasChoiceBias = true},
                     dense);
  BlockNames &names = decoder.names;
  names.deltaNet = "self_attn";
  names.expertGate = "w1";
  names.expertUp = "w3";
  names.expertDown = "w2";
  decoder.renamed = {{".mlp.", ".block_sparse_moe."}};
}

} // namespace ztc::huggingface
