// Phi-3 and Phi-4, also the multi-modal one: fused projections, longrope.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void fillPhi3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 32064, .hidden = 3072, .width = 8192, .positions = 4096, .epsilon = 1e-5};
  defaults.padding = 32000;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.require("attention_bias", {false, nullptr});
  std::optional<int64_t> window = config.optionalInteger("sliding_window", std::nullopt);
  for (Layer &layer : decoder.layers) {
    layer.attention.fusion = Fusion::Blocks;
    layer.feedForward.isFused = true;
    layer.window = window.value_or(0);
  }
  RopeContext context = ropeContext(decoder, 10000);
  context.original = config.integer("original_max_position_embeddings", 4096);
  context.yarnIsLongrope = true;
  decoder.ropes = {readRope(config, context)};
}

/// Phi-4's language model of text, images and speech: its configuration has the others' beside its own keys.
void fillPhi4Multimodal(Config &config, Decoder &decoder) {
  config.harmless({"vision_config", "audio_config"});
  for (const auto &[key, value] : {std::pair("vocab_size", 200064), std::pair("max_position_embeddings", 131072),
                                   std::pair("num_key_value_heads", 8), std::pair("pad_token_id", 199999)})
    if (!config.has(key))
      config.set(key, value);
  fillPhi3(config, decoder);
  decoder.notes.push_back("model_type phi4_multimodal: its language model alone is trained, on text");
}

} // namespace ztc::huggingface
