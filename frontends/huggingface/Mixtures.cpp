// Mixtures of experts beside well-known attention: ERNIE 4.5, Hunyuan, MiniMax-M2.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// A softmax of all experts, chosen by it and a bias; some layers are dense.
void fillErnie45Moe(Config &config, Decoder &decoder) {
  decoder.headBias =
      readErnie45(config, decoder, {.hidden = 2560, .width = 12288, .layers = 28, .heads = 20, .keyHeads = 4});
  if (decoder.layers.empty())
    return;
  config.harmless({"moe_capacity", "moe_gate", "moe_use_aux_free", "num_nextn_predict_layers"});
  Experts experts;
  experts.count = config.integer(config.firstOf({"moe_num_experts", "num_experts"}), 64);
  experts.perToken = config.integer(config.firstOf({"moe_k", "num_experts_per_tok"}), 6);
  experts.normalised = true;
  experts.normalisedLeast = config.number("moe_norm_min", 1e-12);
  experts.hasChoiceBias = experts.choiceBiasIsRow = true;
  int64_t width = config.integer("moe_intermediate_size", 1536), first = config.integer("moe_layer_start_index", 1, 0),
          last = config.integer("moe_layer_end_index", -1, -1), every = config.integer("moe_layer_interval", 1);
  experts.sharedWidth = width * config.integer("moe_num_shared_experts", 2, 0);
  if (last < 0)
    last = int64_t(decoder.layers.size()) - 1;
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width,
             [&](int64_t layer) { return layer < first || layer > last || (layer + 1) % every != 0; });
  decoder.names.choiceBias = "moe_statics.e_score_correction_bias";
  decoder.renamed = {{".mlp.moe_statics.", ".mlp.gate.moe_statics."}};
}

/// One number, or a list of one for each layer that must be alike.
static int64_t sameInLayers(Config &config, const char *key, int64_t otherwise) {
  nlohmann::json value = config.value(key);
  if (!value.is_array())
    return config.integer(key, otherwise);
  std::vector<int64_t> list = config.integers(key).value_or(std::vector<int64_t>());
  if (list.empty() || list.front() < 1 || std::count(list.begin(), list.end(), list.front()) != int64_t(list.size()))
    config.fail(config.describe(key) + "; ztc builds layers with the same number only");
  return list.empty() ? otherwise : std::max<int64_t>(list.front(), 1);
}

/// Hunyuan's attention; beside the experts one that sees every token, as wide as they are.
void fillHunyuanMoe(Config &config, Decoder &decoder) {
  fillHunyuan(config, decoder);
  if (decoder.layers.empty())
    return;
  Experts experts;
  experts.count = sameInLayers(config, config.firstOf({"num_experts", "num_local_experts"}), 1);
  experts.perToken = sameInLayers(config, config.firstOf({"moe_topk", "num_experts_per_tok"}), 1);
  experts.normalised = true;
  int64_t width = decoder.layers.front().feedForward.width;
  experts.sharedWidth = width;
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width);
  decoder.names.router = "gate.wg";
  decoder.names.sharedExpert = "shared_mlp";
}

/// DeepSeek-V3's choice of experts, without groups; norms over all heads; part of each head turns.
void fillMiniMaxM2(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 200064,
              .hidden = 3072,
              .width = 1536,
              .layers = 62,
              .heads = 48,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 196608});
  if (decoder.layers.empty())
    return;
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::Whole;
  RopeContext context = ropeContext(decoder, 5000000);
  if (std::optional<int64_t> turning = config.optionalInteger("rotary_dim", std::nullopt))
    context.partialFactor = double(*turning) / double(context.headWidth);
  decoder.ropes = {readRope(config, context)};
  Experts experts{.router = Experts::Router::SigmoidThenTop, .normalised = true, .hasChoiceBias = true};
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  readRouterLoss(config, decoder);
  readRouterNoise(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  BlockNames &names = decoder.names;
  names.feedForward = "block_sparse_moe";
  names.choiceBias = "e_score_correction_bias";
  names.expertGate = "w1";
  names.expertUp = "w3";
  names.expertDown = "w2";
  decoder.renamed = {{".block_sparse_moe.", ".mlp."}};
}

} // namespace ztc::huggingface
