// Mamba and Falcon Mamba: selective scans alone; Jamba: beside attention and mixtures.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// The rank of the steps: a number, or "auto".
static int64_t stepRank(Config &config, const char *key, int64_t hidden) {
  const int64_t usual = (hidden + 15) / 16;
  if (!config.isText(key))
    return config.integer(key, usual);
  if (config.text(key, "") != "auto")
    config.fail(config.describe(key) + "; it is a number or \"auto\"");
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

Layer readStateSpaces(Config &config, Decoder &decoder, int64_t vocabulary, int64_t hidden, bool isTied) {
  readBase(config, decoder);
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.1;
  decoder.vocabulary = config.integer("vocab_size", vocabulary);
  decoder.hidden = config.integer("hidden_size", hidden);
  decoder.isTied = config.flag("tie_word_embeddings", isTied);
  decoder.norm.epsilon = config.number("layer_norm_epsilon", 1e-5);
  decoder.base = "backbone.";
  decoder.embedding = "embeddings";
  decoder.finalNorm = "norm_f";
  decoder.names.attentionNorm = "norm";
  decoder.names.stateSpace = "mixer";
  Layer layer;
  layer.halves = Layer::Halves::First;
  layer.rope = -1;
  return layer;
}

void fillMamba(Config &config, Decoder &decoder) {
  Layer layer = readStateSpaces(config, decoder, 50280, 768, true);
  SelectiveScan &scan = layer.scan.emplace();
  scan.channels = config.integer("expand", 2) * decoder.hidden;
  scan.stateWidth = config.integer("state_size", 16);
  scan.taps = config.integer("conv_kernel", 4);
  scan.rank = stepRank(config, "time_step_rank", decoder.hidden);
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
}

/// With norms of steps, B and C.
void fillFalconMamba(Config &config, Decoder &decoder) {
  fillMamba(config, decoder);
  const double epsilon = config.number("mixer_rms_eps", 1e-6);
  for (Layer &layer : decoder.layers)
    layer.scan->epsilon = epsilon;
}

/// Which layers are at `offset` in each period.
static std::function<bool(int64_t)> periodic(Config &config, const char *periodKey, int64_t period,
                                             const char *offsetKey, int64_t offset) {
  period = config.integer(periodKey, period);
  offset = config.integer(offsetKey, offset, 0);
  if (offset >= period)
    config.fail(std::string(offsetKey) + " is " + std::to_string(offset) + ", which " + periodKey + " " +
                std::to_string(period) + " does not reach");
  return [=](int64_t layer) { return layer % period == offset; };
}

void fillJamba(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 65536, .width = 14336, .keyHeads = 8, .positions = 262144};
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  SelectiveScan scan;
  scan.normsHaveWeights = true;
  scan.channels = config.integer("mamba_expand", 2) * decoder.hidden;
  scan.stateWidth = config.integer("mamba_d_state", 16);
  scan.taps = config.integer("mamba_d_conv", 4);
  scan.rank = stepRank(config, "mamba_dt_rank", decoder.hidden);
  scan.bias = config.flag("mamba_proj_bias", false);
  scan.convolutionBias = config.flag("mamba_conv_bias", true);
  scan.activation = decoder.layers.front().feedForward.activation;
  scan.epsilon = decoder.norm.epsilon;
  config.harmless({"use_mamba_kernels", "use_mambapy", "use_associative_scan", "layer_types", "layers_block_type",
                   "layers_num_experts", "num_logits_to_keep"});
  const auto attends = periodic(config, "attn_layer_period", 8, "attn_layer_offset", 4),
             isMixture = periodic(config, "expert_layer_period", 2, "expert_layer_offset", 1);
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    decoder.layers[i].rope = -1;
    if (!attends(int64_t(i)))
      decoder.layers[i].scan = scan;
  }
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 16);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  readRouterLoss(config, decoder);
  if (experts.count > 1)
    setExperts(config, decoder, experts, decoder.layers.front().feedForward.width,
               [&](int64_t layer) { return !isMixture(layer); });
  decoder.fresh = {{"A_log", FreshValues::Kind::LogCount, {}}};
  decoder.finalNorm = "final_layernorm";
  decoder.names.feedForward = "feed_forward";
  decoder.names.feedForwardNorm = "pre_ff_layernorm";
  decoder.names.router = "router";
}

} // namespace ztc::huggingface
