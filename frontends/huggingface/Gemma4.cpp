// Gemma 4: layers with inputs of their own, layers that see the keys and values of an earlier one, full attention with
// wider heads, experts beside the dense feed-forward, a stored number that each block's result is multiplied by.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {
namespace {

using Json = nlohmann::json;

/// What gemma4_unified_text has otherwise.
struct Sizes {
  int64_t positions, window;
};

/// transformers makes the last layer full_attention, whatever its type says.
std::vector<bool> slidingLayersOf(Config &config, Decoder &decoder) {
  std::vector<bool> sliding = slidingLayers(config, decoder, allButEvery, 6);
  if (!sliding.empty() && sliding.back()) {
    sliding.back() = false;
    decoder.notes.push_back("the last layer has full_attention, as transformers makes it");
  }
  return sliding;
}

/// Sizes that single layers have otherwise: per_layer_config, or what the first files have of layers with full
/// attention. `sizes`: its value.
void setLayerSizes(Config &config, Decoder &decoder, const Json &sizes, bool isGiven, bool keysAreValues) {
  int64_t fullWidth = config.integer("global_head_dim", 512);
  std::optional<int64_t> fullHeads = config.optionalInteger("num_global_key_value_heads", std::nullopt);
  for (Layer &layer : decoder.layers)
    if (!isGiven && !layer.isSliding) {
      layer.attention.headWidth = fullWidth;
      if (fullHeads && keysAreValues)
        layer.attention.keyHeads = *fullHeads;
    }
  if (!sizes.is_object() && !sizes.is_null())
    return config.fail("per_layer_config is not an object");
  for (const auto &[key, entry] : sizes.items()) {
    const std::string where = "per_layer_config of layer " + key;
    const bool isNumber = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!isNumber || std::stoul(key) >= decoder.layers.size())
      return config.fail(where + ": there are " + std::to_string(decoder.layers.size()) + " layers");
    Attention &attention = decoder.layers[std::stoul(key)].attention;
    for (const auto &[name, size] : entry.items()) {
      int64_t *own = name == "head_dim"              ? &attention.headWidth
                     : name == "num_key_value_heads" ? &attention.keyHeads
                                                     : nullptr;
      if (!own)
        return config.fail(where + " has " + name + "; ztc builds head_dim and num_key_value_heads");
      if (!size.is_number_integer() || size.get<int64_t>() < 1 || size.get<int64_t>() > 65536)
        return config.fail(where + ": " + name + " is not a size");
      *own = size.get<int64_t>();
    }
  }
}

/// Beside the dense feed-forward, which is the expert that sees every token.
void setExpertsBeside(Config &config, Decoder &decoder) {
  if (!config.flag("enable_moe_block", false))
    return config.harmless({"num_experts", "top_k_experts", "moe_intermediate_size"});
  Experts experts{.count = config.integer("num_experts", 0),
                  .perToken = config.integer("top_k_experts", 0),
                  .normalised = true,
                  .sharesAreRounded = false};
  int64_t width = config.integer("moe_intermediate_size", 0);
  if (!experts.count || !experts.perToken || !width)
    return config.fail("enable_moe_block is true: num_experts, top_k_experts and moe_intermediate_size must be there");
  BlockNames &names = decoder.names;
  names.sharedExpert = names.feedForward;
  names.feedForward = "";
  names.sharedIsBeside = names.expertsAreStacked = true;
  names.router = "router.proj";
  names.routerScale = "router.scale";
  names.expertScale = "router.per_expert_scale";
  names.expertsNorm = "pre_feedforward_layernorm_2";
  names.afterExpertsNorm = "post_feedforward_layernorm_2";
  names.afterSharedNorm = "post_feedforward_layernorm_1";
  const std::vector<Layer> dense = decoder.layers;
  setExperts(config, decoder, experts, width);
  for (size_t i = 0; i < dense.size(); ++i)
    if (auto &mixture = decoder.layers[i].feedForward.experts)
      mixture->sharedWidth = dense[i].feedForward.width;
}

void fillAny(Config &config, Decoder &decoder, const Sizes &sizes) {
  Defaults defaults{.vocabulary = 262144,
                    .hidden = 2304,
                    .width = 9216,
                    .layers = 30,
                    .heads = 8,
                    .keyHeads = 4,
                    .headWidth = 256,
                    .positions = sizes.positions,
                    .activationKey = "hidden_activation",
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  defaults.padding = 0;
  const bool hasOwnSizes = config.has("per_layer_config");
  const Json own = config.value("per_layer_config");
  config.set("per_layer_config", nullptr); // which other model types must not have
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  bool bias = config.flag("attention_bias", false), keysAreValues = config.flag("attention_k_eq_v", false);
  setBiases(decoder, bias, bias);
  config.require("use_bidirectional_attention", {nullptr, "vision"}); // within images, of which text has none
  config.harmless({"hidden_act"});
  setNormsAroundHalves(decoder);
  decoder.names.scale = "layer_scalar";
  setWindows(decoder, slidingLayersOf(config, decoder), config.integer("sliding_window", sizes.window));
  setLayerSizes(config, decoder, own, hasOwnSizes, keysAreValues);
  for (Layer &layer : decoder.layers) {
    Attention &attention = layer.attention;
    if (attention.heads % attention.keyHeads)
      return config.fail(std::to_string(attention.heads) + " heads do not share " + std::to_string(attention.keyHeads) +
                         " of keys evenly");
    attention.scale = 1;
    attention.headNorms = HeadNorms::PerHead;
    attention.normsValues = true;
    attention.valuesAreKeys = keysAreValues && !layer.isSliding;
  }
  if (config.isNull("rope_parameters") || !config.has("rope_parameters"))
    config.set("rope_parameters",
               {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
                {"full_attention",
                 {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1000000.0}}}});
  decoder.ropes = readRopesPerLayerType(config, decoder, 10000, nullptr, 10000);
  shareKeys(config, decoder, 0);
  if (config.flag("use_double_wide_mlp", false))
    for (Layer &layer : decoder.layers)
      layer.feedForward.width *= layer.keysOf < 0 ? 1 : 2;
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", std::nullopt);
}

} // namespace

void fillGemma4(Config &config, Decoder &decoder) {
  fillAny(config, decoder, {.positions = 131072, .window = 512});
  if (decoder.layers.empty())
    return;
  setLayerInputs(config, decoder);
  setExpertsBeside(config, decoder);
}

void fillGemma4Unified(Config &config, Decoder &decoder) {
  fillAny(config, decoder, {.positions = 262144, .window = 1024});
}

} // namespace ztc::huggingface
