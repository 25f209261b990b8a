// Mistral, and Mixtral's experts.
#include "frontends/huggingface/Families.h"
#include <tuple>

namespace ztc::huggingface {

static void setWindow(Decoder &decoder, std::optional<int64_t> window) {
  for (Layer &layer : decoder.layers)
    layer.window = window.value_or(0);
}

void fillMistral(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.width = 14336, .keyHeads = 8, .positions = 131072});
  if (decoder.layers.empty())
    return;
  setWindow(decoder, config.optionalInteger("sliding_window", 4096));
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillMinistral(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.width = 14336, .keyHeads = 8, .positions = 131072});
  if (decoder.layers.empty())
    return;
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  bool hasWindow = window.has_value();
  std::vector<bool> sliding =
      slidingLayers(config, decoder, [](int64_t, int64_t isSliding) { return isSliding != 0; }, hasWindow);
  setWindows(decoder, sliding, window);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

/// Yarn by default, and queries that grow beyond the length that the model was first made for.
void fillMinistral3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 131072,
                    .width = 14336,
                    .layers = 34,
                    .keyHeads = 8,
                    .headWidth = 128,
                    .positions = 262144,
                    .epsilon = 1e-5};
  defaults.padding = 11;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setWindow(decoder, config.optionalInteger("sliding_window", std::nullopt));
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "yarn"},
                                   {"rope_theta", 1000000.0},
                                   {"factor", 16.0},
                                   {"original_max_position_embeddings", 16384},
                                   {"beta_fast", 32.0},
                                   {"beta_slow", 1.0},
                                   {"mscale_all_dim", 1.0},
                                   {"mscale", 1.0},
                                   {"llama_4_scaling_beta", 0.1}});
  RopeContext context = ropeContext(decoder, 1000000);
  context.readsQueryScale = true;
  decoder.ropes = {readRope(config, context)};
  for (Layer &layer : decoder.layers) {
    layer.attention.queryScaleBeta = decoder.ropes.front().queryScaleBeta;
    layer.attention.queryScaleFrom = decoder.ropes.front().queryScaleFrom;
  }
}

void fillMixtral(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.width = 14336, .keyHeads = 8, .positions = 131072, .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  setWindow(decoder, config.optionalInteger("sliding_window", std::nullopt));
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
  Experts experts{.sharesAreRounded = false};
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 8);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  experts.normalised = true;
  readRouterLoss(config, decoder);
  readRouterNoise(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  decoder.names.feedForward = "block_sparse_moe";
  decoder.renamed = {{".block_sparse_moe.", ".mlp."}};
  decoder.names.expertGate = "w1";
  decoder.names.expertUp = "w3";
  decoder.names.expertDown = "w2";
}

/// Mixtral with lightning attention in some layers; each half of a block adds to what it read, both times a factor.
void fillMiniMax(Config &config, Decoder &decoder) {
  fillMixtral(config, decoder);
  if (decoder.layers.empty())
    return;
  const auto factors = [&](const char *residual, const char *result) {
    return HalfSum{.result = config.number(result, 1), .residual = config.number(residual, 1)};
  };
  const HalfSum full = factors("full_attn_alpha_factor", "full_attn_beta_factor"),
                linear = factors("linear_attn_alpha_factor", "linear_attn_beta_factor"),
                feedForward = factors("mlp_alpha_factor", "mlp_beta_factor");
  const std::vector<bool> isLinear = layersOfType(config, decoder, "layer_types", "linear_attention", "full_attention",
                                                  [](int64_t layer) { return layer % 2 == 1; });
  config.harmless({"block_size"}); // of a loop that computes the same
  decoder.addsToNormed = true;
  const double count = double(decoder.layers.size());
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.attentionSum = isLinear[i] ? linear : full;
    layer.feedForwardSum = feedForward;
    if (!isLinear[i])
      continue;
    const Attention &attention = layer.attention;
    LightningAttention &lightning = layer.lightning.emplace();
    lightning.heads = attention.heads;
    lightning.width = attention.headWidth;
    lightning.activation = layer.feedForward.activation;
    // ALiBi's slopes of a power of two, less in later layers.
    const double factor = 1 - double(i) / (count - 1 + 1e-5) + 1e-5;
    for (int64_t head = 1; head <= attention.heads; ++head)
      lightning.slopes.push_back(std::exp2(-8.0 * double(head) / double(attention.heads)) * factor);
  }
}

} // namespace ztc::huggingface
