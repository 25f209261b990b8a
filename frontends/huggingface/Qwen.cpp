// Qwen 2 and 3: biases of queries, keys and values without a key (2), norms per head (3), experts.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Layers with windows where layer_types does not say it: those from max_window_layers on, or the first, third and so
/// on of those before it (Qwen2-MoE).
static bool isFromOn(int64_t layer, int64_t first) {
  return layer >= first;
}
static bool isEverySecondBefore(int64_t layer, int64_t end) {
  return layer % 2 == 0 && layer < end;
}

/// Without use_sliding_window transformers has no window, and fails where layer_types asks for one all the same.
static void readWindows(Config &config, Decoder &decoder, int64_t mostByDefault = 28,
                        bool (*isSliding)(int64_t, int64_t) = isFromOn, int64_t windowByDefault = 4096) {
  bool useWindow = config.flag("use_sliding_window", false);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", windowByDefault, 0);
  int64_t most = config.optionalInteger("max_window_layers", mostByDefault, 0).value_or(mostByDefault);
  bool hasTypes = !config.texts("layer_types").empty();
  std::vector<bool> sliding = slidingLayers(config, decoder, isSliding, most);
  if (!hasTypes && (!useWindow || !window))
    return;
  if (useWindow)
    setNeededWindows(config, decoder, sliding, window);
  else
    setNeededWindows(config, decoder, sliding, std::nullopt, "use_sliding_window");
}

void fillQwen2(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.vocabulary = 151936, .width = 22016, .keyHeads = 32, .positions = 32768});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, true, false);
  readWindows(config, decoder);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

/// The language model of Qwen2-VL and Qwen2.5-VL: of text alone the parts of its rotary embedding are alike.
void fillQwen2Vl(Config &config, Decoder &decoder) {
  config.harmless({"vision_config", "text_config", "image_token_id", "video_token_id", "vision_start_token_id",
                   "vision_end_token_id", "vision_token_id"});
  readCommon(config, decoder,
             {.vocabulary = 152064,
              .hidden = 8192,
              .width = 29568,
              .layers = 80,
              .heads = 64,
              .keyHeads = 8,
              .positions = 32768,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, true, false);
  readWindows(config, decoder, 80);
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
}

/// The language model that Qwen2.5-Omni thinks with.
void fillQwen25Omni(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  readCommon(config, decoder,
             {.vocabulary = 152064,
              .hidden = 3584,
              .width = 18944,
              .layers = 28,
              .heads = 28,
              .keyHeads = 4,
              .positions = 32768,
              .isTied = true});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, true, false);
  readWindows(config, decoder, 28, isFromOn, 32768);
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
}

static void fillQwen3Attention(Config &config, Decoder &decoder, double theta = 10000) {
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  decoder.ropes = {readRope(config, ropeContext(decoder, theta))};
}

void fillQwen3(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936, .width = 22016, .keyHeads = 32, .headWidth = 128, .positions = 32768});
  if (decoder.layers.empty())
    return;
  fillQwen3Attention(config, decoder);
  readWindows(config, decoder);
}

void fillQwen3Vl(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936, .width = 22016, .keyHeads = 32, .headWidth = 128, .positions = 128000});
  if (!decoder.layers.empty())
    fillQwen3Attention(config, decoder, 500000);
  setCosmosNames(decoder);
}

/// Experts in every `decoder_sparse_step`-th layer but those of `mlp_only_layers`.
static void readExperts(Config &config, Decoder &decoder, Experts experts, int64_t widthByDefault,
                        bool normalisedByDefault = false) {
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), experts.count, 0);
  experts.perToken = config.integer("num_experts_per_tok", experts.perToken);
  if (!experts.normalised)
    experts.normalised = config.flag("norm_topk_prob", normalisedByDefault);
  int64_t width = config.integer("moe_intermediate_size", widthByDefault),
          step = config.integer("decoder_sparse_step", 1);
  std::vector<int64_t> dense = config.integers("mlp_only_layers").value_or(std::vector<int64_t>());
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width, [&](int64_t layer) {
    return std::find(dense.begin(), dense.end(), layer) != dense.end() || (layer + 1) % step != 0;
  });
}

void fillQwen3Moe(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936, .hidden = 2048, .width = 6144, .layers = 24, .keyHeads = 4, .positions = 32768});
  if (decoder.layers.empty())
    return;
  fillQwen3Attention(config, decoder);
  config.harmless({"max_window_layers"});
  bool useWindow = config.flag("use_sliding_window", false);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096, 0);
  for (Layer &layer : decoder.layers)
    layer.window = useWindow ? window.value_or(0) : 0;
  readExperts(config, decoder, {.count = 128, .perToken = 8}, 768);
}

/// The language model of Qwen3-VL's mixture of experts, whose shares always sum to one.
void fillQwen3VlMoe(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936,
              .hidden = 2048,
              .width = 5632,
              .layers = 24,
              .heads = 16,
              .keyHeads = 16,
              .positions = 128000,
              .isTied = true});
  if (decoder.layers.empty())
    return;
  fillQwen3Attention(config, decoder, 500000);
  config.harmless({"norm_topk_prob", "sliding_window"}); // transformers sets both itself
  readExperts(config, decoder, {.count = 60, .perToken = 4, .normalised = true}, 1408);
  decoder.names.expertsAreStacked = decoder.names.expertsAreTransposed = true;
}

/// The language model that Qwen3-Omni thinks with.
void fillQwen3OmniMoe(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  readCommon(config, decoder,
             {.vocabulary = 3584,
              .hidden = 2048,
              .width = 18944,
              .layers = 28,
              .heads = 28,
              .keyHeads = 4,
              .positions = 32768});
  if (decoder.layers.empty())
    return;
  fillQwen3Attention(config, decoder, 1000000);
  config.harmless({"sliding_window"}); // transformers reads no window of it
  readExperts(config, decoder, {.count = 128, .perToken = 8}, 768, true);
}

/// Qwen2's attention; beside the experts one that sees every token, behind a gate.
void fillQwen2Moe(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936,
              .hidden = 2048,
              .width = 5632,
              .layers = 24,
              .heads = 16,
              .keyHeads = 16,
              .positions = 32768});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, config.flag("qkv_bias", true), false);
  readWindows(config, decoder, 28, isEverySecondBefore);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  Experts experts{.count = 60, .perToken = 4};
  experts.sharedWidth = config.integer("shared_expert_intermediate_size", 5632);
  experts.sharedHasGate = true;
  decoder.names.sharedExpert = "shared_expert";
  readExperts(config, decoder, experts, 1408);
}

} // namespace ztc::huggingface
