// gpt-oss: attention sinks, a clamped SwiGLU with biases, experts that are chosen before the softmax.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void fillGptOss(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 201088,
                    .hidden = 2880,
                    .width = 2880,
                    .layers = 36,
                    .heads = 64,
                    .keyHeads = 8,
                    .headWidth = 64,
                    .positions = 131072,
                    .epsilon = 1e-5};
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", true);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 128);
  std::vector<bool> sliding = slidingLayers(config, decoder, [](int64_t layer, int64_t) { return layer % 2 == 0; }, 0);
  setBiases(decoder, bias, bias);
  setWindows(decoder, sliding, window);
  for (Layer &layer : decoder.layers)
    layer.attention.hasSinks = true;
  bool hasRope = config.child("rope_parameters") || config.child("rope_scaling");
  if (hasRope) {
    decoder.ropes = {readRope(config, ropeContext(decoder, 150000))};
  } else {
    config.harmless({"rope_parameters", "rope_scaling", "initial_context_length"});
    Config yarn({{"rope_type", "yarn"},
                 {"factor", 32.0},
                 {"beta_fast", 32.0},
                 {"beta_slow", 1.0},
                 {"truncate", false},
                 {"original_max_position_embeddings", 4096}},
                "");
    RopeContext context = ropeContext(decoder, config.number("rope_theta", 150000));
    decoder.ropes = {ropeOf(config, yarn, context, false)};
  }
  config.harmless({"experts_per_token", "initial_context_length"});
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 128);
  experts.perToken = config.integer("num_experts_per_tok", 4);
  experts.router = Experts::Router::TopThenSoftmax;
  experts.precision = Experts::Precision::Narrow;
  experts.routerBias = true;
  experts.gateAlternates = true;
  readClampedGlu(config, decoder);
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  decoder.names.router = "router";
}

} // namespace ztc::huggingface
