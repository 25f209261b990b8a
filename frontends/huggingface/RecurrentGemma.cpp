// RecurrentGemma: gated linear recurrences in most layers, attention within a window in the others.
#include "frontends/huggingface/Families.h"
#include "runtime/Core/FloatTypes.h"

namespace ztc::huggingface {

/// How transformers begins. `variance` is w_init_variance_scale.
static void setFreshRecurrence(Decoder &decoder, const GatedRecurrence &recurrence, double variance) {
  using Kind = FreshValues::Kind;
  const int64_t width = recurrence.channels / recurrence.heads;
  decoder.initializerRange = std::sqrt(variance / double(recurrence.taps));
  const double in = std::sqrt(1 / double(decoder.hidden)), out = 2 / double(decoder.layers.size()),
               gate = std::sqrt(variance / double(width));
  for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "linear_x.weight", "linear_y.weight"})
    decoder.fresh.push_back({name, Kind::Normal, {in}});
  decoder.fresh.push_back({"o_proj.weight", Kind::Normal, {std::sqrt(out / double(decoder.hidden))}});
  decoder.fresh.push_back({"linear_out.weight", Kind::Normal, {std::sqrt(out / double(recurrence.channels))}});
  for (const char *name : {"input_gate_weight", "recurrent_gate_weight"})
    decoder.fresh.push_back({name, Kind::Normal, {gate}});
  for (const char *name : {"input_gate_bias", "recurrent_gate_bias"})
    decoder.fresh.push_back({name, Kind::Constant, {0}});
  decoder.fresh.push_back({"recurrent_param", Kind::Decay, {0.9 * 0.9, 0.999 * 0.999}});
}

void fillRecurrentGemma(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 256000,
                    .hidden = 2560,
                    .width = 3 * 2560,
                    .layers = 26,
                    .heads = 10,
                    .activationKey = "hidden_activation",
                    .activation = "gelu_pytorch_tanh"};
  defaults.isTied = true;
  defaults.padding = 0;
  // Whatever it says, heads share the hidden dimensions among them.
  config.set("head_dim", nullptr);
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.positionLimit = 0;
  decoder.norm.kind = NormKind::RmsPlusOne;
  decoder.embeddingScale = fromBf16(toBf16(float(std::sqrt(double(decoder.hidden)))));
  decoder.logitSoftCap = softCap(config, "logits_soft_cap", 30);
  decoder.finalNorm = "final_norm";
  BlockNames &names = decoder.names;
  names.attentionNorm = "temporal_pre_norm";
  names.feedForwardNorm = "channel_pre_norm";
  names.attention = names.stateSpace = "temporal_block";
  names.feedForward = "mlp_block";
  const bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, true, true);
  noteDropout(config, decoder, {"attention_dropout"});
  RopeContext context = ropeContext(decoder, 10000);
  context.partialFactor = 0.5;
  decoder.ropes = {readRope(config, context)};

  const Layer &first = decoder.layers.front();
  GatedRecurrence recurrence;
  recurrence.heads = first.attention.heads;
  recurrence.channels = config.optionalInteger("lru_width", std::nullopt).value_or(decoder.hidden);
  recurrence.taps = config.integer("conv1d_width", 4);
  recurrence.activation = first.feedForward.activation;
  if (recurrence.channels % recurrence.heads)
    config.fail(config.describe("lru_width") + ", which num_attention_heads " + std::to_string(recurrence.heads) +
                " do not divide");
  std::vector<std::string> types = config.texts("block_types");
  if (!config.has("block_types"))
    types = {"recurrent", "recurrent", "attention"};
  if (types.empty())
    return config.fail(config.describe("block_types") + ", which has none");
  for (const std::string &type : types)
    if (type != "recurrent" && type != "attention")
      config.fail("block_types has '" + type + "'; ztc builds recurrent and attention of this model type");
  if (first.feedForward.width < 2)
    config.fail(config.describe("intermediate_size") + ", of which gate and up have a half each");
  std::vector<bool> slides;
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.feedForward.width /= 2; // of gate and up together
    slides.push_back(types[i % types.size()] == "attention");
    if (!slides.back())
      layer.recurrence = recurrence;
  }
  setNeededWindows(config, decoder, slides, config.optionalInteger("attention_window_size", 2048),
                   "attention_window_size");
  config.harmless({"layers_block_type", "layer_types", "final_w_init_variance_scale", "embeddings_scale_by_sqrt_dim",
                   "_block_types", "hidden_act"});
  const double variance = config.number("w_init_variance_scale", 0.01);
  if (variance < 0)
    config.fail(config.describe("w_init_variance_scale") + ", which is below 0");
  if (config.status().isOk())
    setFreshRecurrence(decoder, recurrence, variance);
}

} // namespace ztc::huggingface
