// Mamba and Falcon Mamba: selective scans alone.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// The rank of the steps: a number, or "auto".
static int64_t stepRank(Config &config, int64_t hidden) {
  const int64_t usual = (hidden + 15) / 16;
  if (!config.isText("time_step_rank"))
    return config.integer("time_step_rank", usual);
  if (config.text("time_step_rank", "") != "auto")
    config.fail(config.describe("time_step_rank") + "; it is a number or \"auto\"");
  return usual;
}

/// How transformers begins (init_mamba_weights).
static void setFreshScan(Config &config, Decoder &decoder, const SelectiveScan &scan, int64_t layers) {
  using Kind = FreshValues::Kind;
  const std::string scheme = config.text("time_step_init_scheme", "random");
  const double bound = config.number("time_step_scale", 1) / std::sqrt(double(scan.rank));
  if (scheme != "random" && scheme != "constant")
    config.fail(config.describe("time_step_init_scheme") + "; it is random or constant");
  FreshValues steps = freshSteps(config, {"time_step_min", "time_step_max", "time_step_floor"});
  steps.name = "dt_proj.bias";
  const bool isScaled = config.flag("rescale_prenorm_residual", false);
  decoder.fresh = {{"A_log", Kind::LogCount, {}},
                   scheme == "random" ? FreshValues{"dt_proj.weight", Kind::Uniform, {-bound, bound}}
                                      : FreshValues{"dt_proj.weight", Kind::Constant, {bound}},
                   steps,
                   freshUniform("conv1d.weight", scan.taps),
                   freshUniform("out_proj.weight", scan.channels, isScaled ? std::sqrt(double(layers)) : 1)};
}

void fillMamba(Config &config, Decoder &decoder) {
  readBase(config, decoder);
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.1;
  decoder.vocabulary = config.integer("vocab_size", 50280);
  decoder.hidden = config.integer("hidden_size", 768);
  decoder.isTied = config.flag("tie_word_embeddings", true);
  decoder.norm.epsilon = config.number("layer_norm_epsilon", 1e-5);
  Layer layer;
  layer.halves = Layer::Halves::First;
  layer.rope = -1;
  SelectiveScan &scan = layer.scan.emplace();
  scan.channels = config.integer("expand", 2) * decoder.hidden;
  scan.stateWidth = config.integer("state_size", 16);
  scan.taps = config.integer("conv_kernel", 4);
  scan.rank = stepRank(config, decoder.hidden);
  scan.bias = config.flag("use_bias", false);
  scan.convolutionBias = config.flag("use_conv_bias", true);
  scan.activation = activationOf(config, "hidden_act", config.text("hidden_act", "silu"));
  config.harmless({"residual_in_fp32", "use_mambapy", "use_falcon_mambapy", "use_associative_scan", "layer_types",
                   "intermediate_size"});
  const int64_t layers = layerCount(config, "num_hidden_layers", 32);
  setFreshScan(config, decoder, scan, layers);
  if (!config.status().isOk())
    return;
  decoder.layers.assign(layers, layer);
  decoder.base = "backbone.";
  decoder.embedding = "embeddings";
  decoder.finalNorm = "norm_f";
  decoder.names.attentionNorm = "norm";
  decoder.names.stateSpace = "mixer";
}

/// With norms of steps, B and C.
void fillFalconMamba(Config &config, Decoder &decoder) {
  fillMamba(config, decoder);
  const double epsilon = config.number("mixer_rms_eps", 1e-6);
  for (Layer &layer : decoder.layers)
    layer.scan->epsilon = epsilon;
}

} // namespace ztc::huggingface
