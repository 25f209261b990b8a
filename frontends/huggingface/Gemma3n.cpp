// Gemma 3n: several residual streams, layers with inputs of their own, layers that see the keys and values of an
// earlier one, sparse activations. What Gemma 4 has of it too stands here.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void shareKeys(Config &config, Decoder &decoder, int64_t otherwise) {
  int64_t shared = config.integer("num_kv_shared_layers", otherwise, 0), count = int64_t(decoder.layers.size());
  if (shared >= count)
    return config.fail(config.describe("num_kv_shared_layers") + " of " + std::to_string(count) +
                       " layers: some must have keys of their own");
  for (int64_t i = count - shared; i < count; ++i) {
    Layer &layer = decoder.layers[size_t(i)];
    for (int64_t j = 0; j < count - shared; ++j)
      if (decoder.layers[size_t(j)].isSliding == layer.isSliding)
        layer.keysOf = int(j);
    const std::string name = "layer " + std::to_string(i);
    if (layer.keysOf < 0)
      return config.fail(name + " would see the keys of an earlier layer of its type, and all before the last " +
                         std::to_string(shared) + " have another");
    const Attention &other = decoder.layers[size_t(layer.keysOf)].attention;
    if (other.headWidth != layer.attention.headWidth || other.keyHeads != layer.attention.keyHeads)
      return config.fail(name + " sees the keys of layer " + std::to_string(layer.keysOf) +
                         ", whose heads have other sizes");
  }
}

void setLayerInputs(Config &config, Decoder &decoder) {
  int64_t vocabulary = config.integer("vocab_size_per_layer_input", 262144);
  int64_t width = config.optionalInteger("hidden_size_per_layer_input", 256, 0).value_or(0);
  if (width)
    decoder.layerInputs = LayerInputs{vocabulary, width, std::sqrt(double(width))};
}

namespace {

using Json = nlohmann::json;

/// The quantile of a normal distribution: the x that a share `part` of its numbers is below.
double normalQuantile(double part) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < part ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// intermediate_size may have a number for each layer; readCommon() reads one.
std::vector<int64_t> takeWidths(Config &config) {
  if (!config.value("intermediate_size").is_array())
    return {};
  std::vector<int64_t> widths = config.integers("intermediate_size").value_or(std::vector<int64_t>());
  if (widths.empty() || *std::min_element(widths.begin(), widths.end()) < 1)
    config.fail(config.describe("intermediate_size") + ", which is not a size of each layer");
  else
    config.set("intermediate_size", widths.front());
  return widths;
}

/// The share of a layer's gate that is cut off: by default most of it in the first ten of more layers.
void setCutoffs(Config &config, Decoder &decoder) {
  const size_t count = decoder.layers.size();
  std::vector<double> pattern(count, 0);
  if (count > 10)
    std::fill_n(pattern.begin(), 10, 0.95);
  const char *key = "activation_sparsity_pattern";
  if (config.has(key) && !config.isNull(key))
    pattern = config.numbers(key);
  if (pattern.size() != count)
    return config.fail(std::string(key) + " has " + std::to_string(pattern.size()) + " entries for " +
                       std::to_string(count) + " layers");
  for (size_t i = 0; i < count; ++i) {
    if (pattern[i] >= 1)
      return config.fail(std::string(key) + " of layer " + std::to_string(i) + " is not below 1");
    if (pattern[i] > 0)
      decoder.layers[i].feedForward.cutoff = normalQuantile(pattern[i]);
  }
}

void setAltUp(Config &config, Decoder &decoder) {
  AltUp altUp{.streams = config.integer("altup_num_inputs", 4),
              .active = config.integer("altup_active_idx", 0, 0),
              .scalesCorrected = config.flag("altup_correct_scale", true),
              .residualRank = config.integer("laurel_rank", 64)};
  if (altUp.streams < 2 || altUp.streams > 64 || altUp.active >= altUp.streams)
    return config.fail("altup_num_inputs " + std::to_string(altUp.streams) + " and altup_active_idx " +
                       std::to_string(altUp.active) + " do not fit each other");
  // transformers clamps coefficients to it while it trains; those of its models are far below.
  if (std::optional<double> clip = config.optionalNumber("altup_coef_clip", 120.0); clip && *clip < 100)
    decoder.notes.push_back(config.describe("altup_coef_clip") + ": ztc does not clamp AltUp's coefficients");
  decoder.altUp = altUp;
}

} // namespace

void fillGemma3n(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 262400,
                    .hidden = 2048,
                    .width = 16384,
                    .layers = 35,
                    .heads = 8,
                    .keyHeads = 2,
                    .headWidth = 256,
                    .positions = 32768,
                    .activationKey = "hidden_activation",
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  defaults.padding = 0;
  const std::vector<int64_t> widths = takeWidths(config);
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  if (!widths.empty() && widths.size() != decoder.layers.size())
    return config.fail("intermediate_size has " + std::to_string(widths.size()) + " entries for " +
                       std::to_string(decoder.layers.size()) + " layers");
  decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  config.require("use_bidirectional_attention", {nullptr, false});
  config.harmless({"hidden_act"});
  setNormsAroundHalves(decoder);
  setWindows(decoder, slidingLayers(config, decoder, allButEvery, 5), config.integer("sliding_window", 512));
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.attention.scale = 1;
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.normsValues = true;
    if (!widths.empty())
      layer.feedForward.width = widths[i];
  }
  decoder.ropes = readRopesPerLayerType(config, decoder, 1000000, "rope_local_base_freq", 10000);
  shareKeys(config, decoder, 15);
  setCutoffs(config, decoder);
  setLayerInputs(config, decoder);
  setAltUp(config, decoder);
  if (!decoder.layerInputs)
    config.fail("hidden_size_per_layer_input is 0, of which transformers makes no model");
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", 30.0);
}

} // namespace ztc::huggingface
