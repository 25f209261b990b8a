// Llama, and what differs from it in a few lines: SmolLM3 (layers without rotation), Granite (four multipliers).
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

static void readBiases(Config &config, Decoder &decoder, bool hasFeedForwardBias) {
  bool attention = config.flag("attention_bias", false),
       feedForward = hasFeedForwardBias && config.flag("mlp_bias", false);
  setBiases(decoder, attention, attention, feedForward);
}

void readLlama(Config &config, Decoder &decoder, const Defaults &defaults, double theta) {
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  readBiases(config, decoder, true);
  decoder.ropes = {readRope(config, ropeContext(decoder, theta))};
}

void fillLlama(Config &config, Decoder &decoder) {
  readLlama(config, decoder, {}, 10000);
}

/// Llama with attention that is a difference (arXiv:2410.05258).
void fillDiffLlama(Config &config, Decoder &decoder) {
  Defaults defaults{.hidden = 2048, .width = 8192, .layers = 16, .epsilon = 1e-5};
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.harmless({"lambda_std_dev"}); // only initialises
  readBiases(config, decoder, false);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  if (decoder.layers.front().attention.keyHeads % 2)
    config.fail(config.describe("num_key_value_heads") + ", and differential attention needs an even number");
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    decoder.layers[i].attention.differenceStart = 0.8 - 0.6 * std::exp(-0.3 * double(i)); // section 2.1 there
}

void fillSmolLm3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 128256, .hidden = 2048, .layers = 36, .heads = 16, .keyHeads = 4, .positions = 32768};
  defaults.isTied = true;
  defaults.padding = 128004;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  readBiases(config, decoder, true);
  decoder.ropes = {readRope(config, ropeContext(decoder, 2000000))};
  int64_t interval = config.integer("no_rope_layer_interval", 4);
  std::optional<std::vector<int64_t>> rotates = config.integers("no_rope_layers"); // 1: the layer rotates
  if (rotates && rotates->size() < decoder.layers.size())
    config.fail("no_rope_layers has " + std::to_string(rotates->size()) + " entries for " +
                std::to_string(decoder.layers.size()) + " layers");
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    if (rotates ? i < rotates->size() && !(*rotates)[i] : (i + 1) % interval == 0)
      decoder.layers[i].rope = -1;
  bool useWindow = config.flag("use_sliding_window", false);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", std::nullopt);
  bool hasTypes = !config.texts("layer_types").empty();
  std::vector<bool> sliding = slidingLayers(config, decoder, [](int64_t, int64_t) { return false; }, 0);
  if (!hasTypes)
    for (size_t i = 0; i < decoder.layers.size(); ++i)
      sliding[i] = useWindow && window && decoder.layers[i].rope < 0;
  setNeededWindows(config, decoder, sliding, window); // where layer_types asks for it, use_sliding_window is not read
}

static void readGranite(Config &config, Decoder &decoder, const Defaults &defaults) {
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  readBiases(config, decoder, true);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.embeddingScale = config.number("embedding_multiplier", 1);
  decoder.residualScale = config.number("residual_multiplier", 1);
  decoder.logitDivisor = config.number("logits_scaling", 1);
  double scale = config.number("attention_multiplier", 1);
  if (decoder.logitDivisor == 0)
    config.fail("logits_scaling is 0");
  for (Layer &layer : decoder.layers)
    layer.attention.scale = scale;
}

void fillGranite(Config &config, Decoder &decoder) {
  readGranite(config, decoder, {});
}

/// The language model of Granite Docling.
void fillGraniteDocling(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  Defaults defaults{.vocabulary = 133800,
                    .hidden = 1024,
                    .width = 2048,
                    .layers = 28,
                    .heads = 16,
                    .keyHeads = 4,
                    .positions = 32768,
                    .epsilon = 1e-5};
  defaults.isTied = true;
  defaults.padding = 100256;
  for (const auto &[key, value] : {std::pair{"embedding_multiplier", 12.0},
                                   {"logits_scaling", 4.0},
                                   {"residual_multiplier", 0.263},
                                   {"attention_multiplier", 0.015625}})
    if (!config.has(key))
      config.set(key, value);
  readGranite(config, decoder, defaults);
}

/// Windows in three layers of four, sinks in all, and a base of the rotary embedding for each layer; 0: it has none.
static void setGraniteWindows(Config &config, Decoder &decoder) {
  if (decoder.layers.empty())
    return;
  std::vector<bool> sliding =
      slidingLayers(config, decoder, [](int64_t layer, int64_t every) { return layer % every != 0; }, 4);
  setWindows(decoder, sliding, config.optionalInteger("sliding_window", 128));
  for (Layer &layer : decoder.layers)
    layer.attention.hasSinks = true;
  if (!config.has("layer_rope_theta") || config.isNull("layer_rope_theta"))
    return;
  std::vector<double> bases = config.numbers("layer_rope_theta"), known;
  if (bases.size() != decoder.layers.size())
    return config.fail(config.describe("layer_rope_theta") + ", for " + std::to_string(decoder.layers.size()) +
                       " layers");
  decoder.ropes.clear();
  for (size_t i = 0; i < bases.size() && config.status().isOk(); ++i) {
    auto place = std::find(known.begin(), known.end(), bases[i]);
    decoder.layers[i].rope = bases[i] == 0 ? -1 : int(place - known.begin());
    if (bases[i] == 0 || place != known.end())
      continue;
    known.push_back(bases[i]);
    std::optional<Config> parameters = config.child("rope_parameters");
    Config own = parameters ? *parameters : config.child("rope_scaling").value_or(config.withoutKeys());
    own.set("rope_theta", bases[i]);
    decoder.ropes.push_back(ropeOf(config, own, ropeContext(decoder, bases[i]), false));
  }
}

void fillGraniteSwa(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 100352,
                    .hidden = 2560,
                    .width = 8192,
                    .layers = 24,
                    .heads = 20,
                    .keyHeads = 4,
                    .positions = 8192,
                    .epsilon = 1e-5};
  defaults.isTied = true;
  readGranite(config, decoder, defaults);
  setGraniteWindows(config, decoder);
}

/// Granite with norms of results too; its logits are multiplied where Granite's are divided.
void fillHyperClovaX(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {});
  if (decoder.layers.empty())
    return;
  readBiases(config, decoder, true);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.embeddingScale = config.number("embedding_multiplier", 1);
  decoder.residualScale = config.number("residual_multiplier", 1);
  decoder.logitScale = config.number("logits_scaling", 1);
  double usual = decoder.layers.front().attention.scale;
  double scale = config.optionalNumber("attention_multiplier", std::nullopt).value_or(usual);
  for (Layer &layer : decoder.layers)
    layer.attention.scale = scale;
  if (config.flag("use_post_norm", true)) {
    decoder.names.afterAttentionNorm = "post_norm1";
    decoder.names.afterFeedForwardNorm = "post_norm2";
  }
}

void fillGraniteMoe(Config &config, Decoder &decoder) {
  fillGranite(config, decoder);
  config.require("position_embedding_type", {"rope"}); // what version 4 wrote; "nope" is GraniteMoeHybrid's
  if (decoder.layers.empty())
    return;
  for (Layer &layer : decoder.layers)
    layer.feedForward.bias = false; // mlp_bias is Granite's alone
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 8);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  experts.router = Experts::Router::TopThenSoftmax;
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  decoder.names.feedForward = "block_sparse_moe";
  decoder.names.router = "router.layer";
  decoder.names.expertsGateUp = "input_linear.weight";
  decoder.names.expertsDown = "output_linear.weight";
  decoder.names.expertsAreStacked = true;
  decoder.renamed = {{".router.layer.", ".router."},
                     {".input_linear.weight", ".experts.gate_up_proj"},
                     {".output_linear.weight", ".experts.down_proj"}};
}

/// A mixture beside a feed-forward that every token goes through; a width of 0: none.
void fillGraniteMoeShared(Config &config, Decoder &decoder) {
  fillGraniteMoe(config, decoder);
  int64_t width = config.integer("shared_intermediate_size", 0, 0);
  for (Layer &layer : decoder.layers) {
    layer.feedForward.isFused = true; // of the shared one: those of the mixture have a form of their own
    if (layer.feedForward.experts)
      layer.feedForward.experts->sharedWidth = width;
  }
  BlockNames &names = decoder.names;
  names.sharedIsBeside = true;
  names.sharedExpert = "shared_mlp";
  names.fusedGate = "input_linear";
  names.down = "output_linear";
}

void fillGraniteMoeSwa(Config &config, Decoder &decoder) {
  fillGraniteMoeShared(config, decoder);
  setGraniteWindows(config, decoder);
}

} // namespace ztc::huggingface
