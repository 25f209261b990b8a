// Qwen3-Next and Qwen 3.5: the gated delta rule in three layers of four, attention with a gate in the fourth; norms
// with 1 + w.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {
namespace {

/// "linear_attention" or "full_attention" for each layer; every full_attention_interval-th is the latter.
void setDeltaNets(Config &config, Decoder &decoder, DeltaNet::Projections projections) {
  const int64_t interval = config.integer("full_attention_interval", 4);
  const std::vector<bool> isLinear = layersOfType(config, decoder, "layer_types", "linear_attention", "full_attention",
                                                  [interval](int64_t layer) { return allButEvery(layer, interval); });
  DeltaNet delta{.keyHeads = config.integer("linear_num_key_heads", 16),
                 .valueHeads = config.integer("linear_num_value_heads", 32),
                 .keyWidth = config.integer("linear_key_head_dim", 128),
                 .valueWidth = config.integer("linear_value_head_dim", 128),
                 .taps = config.integer("linear_conv_kernel_dim", 4),
                 .projections = projections};
  checkDeltaNet(config, delta);
  delta.activation = decoder.layers.front().feedForward.activation;
  delta.epsilon = decoder.norm.epsilon;
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    if (isLinear[i])
      decoder.layers[i].deltaNet = delta;
  decoder.fresh = {{"A_log", FreshValues::Kind::LogUniform, {0.01, 16}}, {"dt_bias", FreshValues::Kind::Constant, {1}}};
}

void readQwen3Next(Config &config, Decoder &decoder, Defaults defaults, DeltaNet::Projections projections) {
  defaults.headWidth = 256;
  defaults.positions = 32768;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::RmsPlusOne;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.outputGate = OutputGate::SigmoidOfQueries;
  }
  setDeltaNets(config, decoder, projections);
  RopeContext context = ropeContext(decoder, 10000);
  context.partialFactor = 0.25;
  decoder.ropes = {readRope(config, context)};
}

/// Experts beside one that sees every token, by a gate.
Experts readMixture(Config &config, Decoder &decoder, int64_t count, int64_t perToken) {
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), count, 0);
  experts.perToken = config.integer("num_experts_per_tok", perToken);
  experts.sharedWidth = config.integer("shared_expert_intermediate_size", 512);
  experts.sharedHasGate = true;
  decoder.names.sharedExpert = "shared_expert";
  readRouterLoss(config, decoder);
  return experts;
}

} // namespace

void checkDeltaNet(Config &config, const DeltaNet &delta) {
  if (delta.valueHeads % delta.keyHeads)
    config.fail("linear_num_value_heads " + std::to_string(delta.valueHeads) +
                " is not a multiple of linear_num_key_heads " + std::to_string(delta.keyHeads));
}

void fillQwen3Next(Config &config, Decoder &decoder) {
  readQwen3Next(config, decoder,
                {.vocabulary = 151936, .hidden = 2048, .width = 5632, .layers = 48, .heads = 16, .keyHeads = 2},
                DeltaNet::Projections::HeadBlocks);
  if (decoder.layers.empty())
    return;
  Experts experts = readMixture(config, decoder, 512, 10);
  experts.normalised = config.flag("norm_topk_prob", true);
  const int64_t step = config.integer("decoder_sparse_step", 1);
  const std::vector<int64_t> dense = config.integers("mlp_only_layers").value_or(std::vector<int64_t>());
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 512), [&](int64_t layer) {
    return std::find(dense.begin(), dense.end(), layer) != dense.end() || (layer + 1) % step != 0;
  });
}

void fillQwen35(Config &config, Decoder &decoder) {
  readQwen3Next(config, decoder, {.vocabulary = 248320, .width = 12288, .heads = 16, .keyHeads = 4},
                DeltaNet::Projections::Kinds);
}

/// Experts in every layer, whose shares sum to one.
void fillQwen35Moe(Config &config, Decoder &decoder) {
  config.set("intermediate_size", 1); // no layer is dense
  readQwen3Next(config, decoder, {.vocabulary = 248320, .hidden = 2048, .layers = 40, .heads = 16, .keyHeads = 2},
                DeltaNet::Projections::Kinds);
  if (decoder.layers.empty())
    return;
  Experts experts = readMixture(config, decoder, 256, 8);
  experts.normalised = true;
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 512));
}

} // namespace ztc::huggingface
