// Muse Glimmer and Muse Spark: norms around each half of a block as Gemma 2 has them, embedded tokens with a norm,
// queries and keys with norms that have no weights, and gates of what attention gives.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Layers that turn their heads, by layer_rope_theta; which base stands there has no part in it.
static void readTurningLayers(Config &config, Decoder &decoder) {
  const int64_t layers = int64_t(decoder.layers.size());
  const bool isGiven = config.has("layer_rope_theta") && !config.isNull("layer_rope_theta");
  const std::vector<double> bases = isGiven ? config.numbers("layer_rope_theta") : std::vector<double>();
  if (isGiven && int64_t(bases.size()) != layers)
    return config.fail(config.describe("layer_rope_theta") + ", for " + std::to_string(layers) + " layers");
  for (int64_t i = 0; i < layers; ++i) {
    const bool turns = isGiven ? bases[size_t(i)] != 0 : (layers - 1 - i) % 4 != 0;
    decoder.layers[size_t(i)].rope = turns ? 0 : -1;
  }
}

/// What both have in common; `theta`: the base of a rotary embedding that no key describes.
static void readMuse(Config &config, Decoder &decoder, const Defaults &defaults, double queryScale, double logitScale,
                     double theta) {
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  const int64_t layers = int64_t(decoder.layers.size());
  const bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  const std::vector<bool> sliding = layersOfType(config, decoder, "layer_types", "sliding_attention", "full_attention",
                                                 [layers](int64_t layer) { return (layers - 1 - layer) % 4 != 0; });
  setNeededWindows(config, decoder, sliding, config.optionalInteger("sliding_window", 2048));
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "default"}, {"rope_theta", theta}});
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  if (config.status().isOk() && decoder.ropes.front().width != decoder.layers.front().attention.headWidth)
    config.fail("rope_parameters turns a part of each head, which this model type does not");
  readTurningLayers(config, decoder);

  const Norm plain{NormKind::RmsPlain, decoder.norm.epsilon};
  const double factor = config.number("qk_scale_factor", queryScale);
  for (Layer &layer : decoder.layers) {
    Attention &attention = layer.attention;
    attention.headNorms = HeadNorms::PerHead;
    attention.headNorm = plain;
    attention.scale *= factor;
    attention.outputGate = OutputGate::Sigmoid;
  }
  decoder.embeddingNorm = decoder.embedding;
  decoder.embeddingNormKind = plain;
  decoder.finalNormKind = decoder.norm;
  decoder.norm.kind = NormKind::RmsPlusOne;
  decoder.logitScale = config.number("output_multiplier", logitScale);
  decoder.logitSoftCap = config.number("final_logit_softcapping", 20);
  if (*decoder.logitSoftCap <= 0)
    config.fail(config.describe("final_logit_softcapping") + ", which is not above 0");
  setNormsAroundHalves(decoder);
  BlockNames &names = decoder.names;
  names.queryNorm = names.keyNorm = "qk_norm";
}

void fillMuseGlimmer(Config &config, Decoder &decoder) {
  readMuse(config, decoder,
           {.vocabulary = 202048,
            .hidden = 6656,
            .width = 19968,
            .layers = 52,
            .keyHeads = 2,
            .headWidth = 128,
            .positions = 131072,
            .epsilon = 1e-5,
            .activationKey = "hidden_activation"},
           3.87, 0.19611613513818404, 10000);
  const double epsilon = config.number("post_norm_eps", 1e-8);
  decoder.afterAttentionKind = decoder.afterFeedForwardKind = Norm{NormKind::RmsPlusOne, epsilon};
  decoder.shiftedNormsBeginWithOne = true;
}

/// Residual gates, a norm of what each head sees, and experts that are narrower than the model, each with a norm.
void fillMuseSpark(Config &config, Decoder &decoder) {
  config.require("tie_word_embeddings", {false, nullptr}); // transformers' class never ties them
  readMuse(config, decoder,
           {.vocabulary = 202048,
            .hidden = 8192,
            .width = 16384,
            .layers = 62,
            .heads = 128,
            .keyHeads = 16,
            .headWidth = 64,
            .positions = 1048576,
            .epsilon = 1e-5},
           5.4730064863875, 0.1767766952966369, 500000);
  if (decoder.layers.empty())
    return;
  const double epsilon = config.number("post_norm_eps", 1e-8);
  decoder.afterAttentionKind = Norm{NormKind::RmsPlain, epsilon};
  decoder.afterFeedForwardKind = Norm{NormKind::RmsOfScaled, epsilon};
  ResidualGates gates{.temperature = config.number("residual_gate_temperature", 0.3)};
  if (gates.temperature == 0)
    config.fail(config.describe("residual_gate_temperature") + ", by which gates are divided");
  for (const std::string &name : {gates.attention, gates.feedForward})
    decoder.fresh.push_back({name + ".gate", FreshValues::Kind::Normal, {decoder.initializerRange}});
  decoder.residualGates = gates;
  for (Layer &layer : decoder.layers)
    layer.attention.resultNorm = Norm{NormKind::RmsPlain, decoder.norm.epsilon};

  Experts experts{.router = Experts::Router::SigmoidThenTop,
                  .normalised = true,
                  .normalisedFrom = 1e-15,
                  .hasChoiceBias = true,
                  .scale = config.number("routed_scaling_factor", 1),
                  .productScale = decoder.logitScale,
                  .narrowWidth = config.integer("moe_hidden_size", 4096),
                  .narrowNorm = decoder.norm,
                  .resultNorm = Norm{NormKind::RmsOfScaled, epsilon},
                  .precision = Experts::Precision::Weight,
                  .sharesAreRounded = false};
  experts.count = config.integer("num_local_experts", 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  readRouterLoss(config, decoder);
  const std::vector<bool> dense =
      layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", [](int64_t) { return false; });
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 4096), dense);
  BlockNames &names = decoder.names;
  names.narrow = "pre_expert_proj";
  names.narrowNorm = "pre_expert_norm";
  names.resultNorm = "experts.post_expert_norm";
  names.widen = "post_expert_proj";
  names.expertsAreStacked = true;
}

} // namespace ztc::huggingface
