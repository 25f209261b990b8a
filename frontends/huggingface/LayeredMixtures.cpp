// Mixtures of experts whose layers differ from one another, in windows, rotation, heads or feed-forward: Mellum,
// Laguna, MiMo-V2-Flash, Cohere 2, Flint, Kolibri 1; and Hy3, whose first layer alone is dense.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Beam: what each half of a block gives counts as much as what all halves before it gave.
void fillBeam(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 151936,
              .hidden = 5120,
              .width = 20480,
              .layers = 52,
              .heads = 48,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 8192});
  if (decoder.layers.empty())
    return;
  const int64_t layers = int64_t(decoder.layers.size());
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  const std::vector<bool> sliding =
      layersOfType(config, decoder, "layer_types", "sliding_attention", "full_attention",
                   [&](int64_t layer) { return (layer + 1) % 6 != 0 && layer + 1 != layers; });
  setNeededWindows(config, decoder, sliding, config.optionalInteger("sliding_window", 512));
  std::optional<Config> ropes = config.child("rope_parameters");
  const char *const types[] = {"full_attention", "sliding_attention"};
  for (int i = 0; i < 2; ++i) {
    std::optional<Config> own = ropes ? ropes->child(types[i]) : std::nullopt;
    const bool turns = own || (!ropes && i == 1);
    decoder.ropes.push_back(ropeOf(config, own, ropeContext(decoder, 10000), true));
    for (Layer &layer : decoder.layers)
      if (layer.isSliding == bool(i))
        layer.rope = turns ? i : -1;
  }
  if (ropes)
    config.adopt(*ropes);
  for (int64_t i = 0; i < layers; ++i) {
    Layer &layer = decoder.layers[i];
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.outputGate = OutputGate::Sigmoid;
    if (layer.rope < 0) {
      layer.attention.queryScalePower = 0.1;
      layer.attention.queryScaleFrom = 2048;
    }
    // Beside the embedded tokens, this half is number `place` of what is summed.
    auto sumOf = [](double place) { return HalfSum{1 / std::sqrt(place), std::sqrt((place - 1) / place)}; };
    layer.attentionSum = sumOf(2 * double(i + 1));
    layer.feedForwardSum = sumOf(2 * double(i + 1) + 1);
  }
  const std::vector<bool> dense =
      layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", [](int64_t layer) { return layer < 3; });
  setDeepSeekExperts(config, decoder,
                     {.count = 256,
                      .perToken = 8,
                      .width = 2560,
                      .groups = 8,
                      .chosenGroups = 4,
                      .scale = 2.5,
                      .normalised = true,
                      .countKey = "num_experts"},
                     {.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-20, .hasChoiceBias = true},
                     dense);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts)
      layer.feedForward.experts->precision = Experts::Precision::Weight;
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", 30);
  setNormsAroundHalves(decoder);
  decoder.names.outputGateBias = "gate_bias";
}

/// MiniMax-M3: MiniMax-M2's experts with gpt-oss' gates, Gemma's norms, and blocks of keys that are chosen.
void fillMiniMaxM3(Config &config, Decoder &decoder) {
  config.harmless({"hidden_act", "rotary_dim", "router_jitter_noise"}); // transformers passes over them
  config.set("hidden_act", "silu");
  Defaults defaults{.vocabulary = 200064,
                    .hidden = 6144,
                    .width = 3072,
                    .layers = 60,
                    .heads = 64,
                    .keyHeads = 4,
                    .headWidth = 128,
                    .positions = 524288};
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::RmsPlusOne;
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  decoder.ropes = {readRope(config, ropeContext(decoder, 5000000))};

  // Flat keys, or those of checkpoints.
  std::optional<Config> old = config.child("sparse_attention_config");
  auto blocks = [&](const char *key, const char *oldKey, int64_t otherwise) {
    return old && old->has(oldKey) ? old->integer(oldKey, otherwise) : config.integer(key, otherwise);
  };
  const int64_t most =
      blocks("index_topk_blocks", "sparse_topk_blocks", 16) * blocks("index_block_size", "sparse_block_size", 128);
  auto flagsOf = [](Config &owner, const char *key) { return owner.integers(key).value_or(std::vector<int64_t>()); };
  const std::vector<int64_t> chooses = old ? flagsOf(*old, "sparse_attention_freq") : std::vector<int64_t>(),
                             isMixture = flagsOf(config, "moe_layer_freq");
  auto isIn = [](const std::vector<int64_t> &flags, int64_t layer, bool otherwise) {
    return flags.empty() ? otherwise : layer < int64_t(flags.size()) && flags[layer] != 0;
  };
  const std::vector<bool> choosing = layersOfType(config, decoder, "layer_types", "minimax_m3_sparse", "full_attention",
                                                  [&](int64_t layer) { return isIn(chooses, layer, false); });
  config.harmless({"index_n_heads", "index_head_dim", "index_local_blocks"}); // nothing where all is chosen
  if (std::find(choosing.begin(), choosing.end(), true) != choosing.end()) {
    decoder.chosenKeys = most;
    decoder.chosenKeysKey = "index_topk_blocks times index_block_size";
  }
  if (old) {
    old->harmless({"sparse_num_index_heads", "sparse_index_dim", "sparse_local_block"});
    config.adopt(*old);
  }

  const int64_t dense = config.integer("dense_intermediate_size", 12288),
                width = config.integer("intermediate_size", 3072);
  for (Layer &layer : decoder.layers) {
    layer.feedForward.width = dense;
    layer.feedForward.isFused = true; // checkpoints have gate and up apart
  }
  readClampedGlu(config, decoder);
  Experts experts{.router = Experts::Router::SigmoidThenTop,
                  .normalised = true,
                  .hasChoiceBias = true,
                  .scale = config.number("routed_scaling_factor", 2),
                  .sharesAreRounded = false};
  experts.count = config.integer("num_local_experts", 128);
  experts.perToken = config.integer("num_experts_per_tok", 4);
  experts.sharedWidth = config.integer("shared_intermediate_size", 3072);
  readRouterLoss(config, decoder);
  const std::vector<bool> isDense = layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse",
                                                 [&](int64_t layer) { return !isIn(isMixture, layer, true); });
  setExperts(config, decoder, experts, width, [&](int64_t layer) { return bool(isDense[layer]); });
  BlockNames &names = decoder.names;
  names.mixture = "block_sparse_moe";
  names.choiceBias = "e_score_correction_bias";
  names.expertGate = "w1";
  names.expertUp = "w3";
  names.expertDown = "w2";
  decoder.renamed = {{".block_sparse_moe.", ".mlp."},
                     {".mlp.e_score_correction_bias.", ".mlp.gate.e_score_correction_bias."}};
}

using Precision = Experts::Precision;

/// Which layers are dense: by mlp_layer_types, else the first ones.
static std::vector<bool> denseByList(Config &config, const Decoder &decoder, int64_t first) {
  return layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse",
                      [first](int64_t layer) { return layer < first; });
}

static void setExpertsByList(Config &config, Decoder &decoder, const Experts &experts, int64_t width, int64_t first) {
  std::vector<bool> dense = denseByList(config, decoder, first);
  setExperts(config, decoder, experts, width, [&](int64_t layer) { return dense[layer]; });
}

/// One kind of rotary embedding for each type of layer, which version 5 alone has: without the key, or without a part
/// of the width that turns, these hold.
struct LayerTypeRope {
  const char *layerType;
  double theta, part;
};
static void setRopesByDefault(Config &config, std::initializer_list<LayerTypeRope> kinds) {
  nlohmann::json ropes = config.value("rope_parameters");
  if (ropes.is_null())
    for (const LayerTypeRope &kind : kinds)
      ropes[kind.layerType] = {{"rope_type", "default"}, {"rope_theta", kind.theta}};
  for (const LayerTypeRope &kind : kinds)
    if (ropes.is_object() && ropes.contains(kind.layerType) && ropes[kind.layerType].is_object() &&
        !ropes[kind.layerType].contains("partial_rotary_factor"))
      ropes[kind.layerType]["partial_rotary_factor"] = kind.part;
  config.set("rope_parameters", std::move(ropes));
}

static void readLayerTypes(Config &config, Decoder &decoder, bool (*isSliding)(int64_t, int64_t), int64_t interval,
                           int64_t window) {
  std::optional<int64_t> given = config.optionalInteger("sliding_window", window);
  setWindows(decoder, slidingLayers(config, decoder, isSliding, interval), given);
}

static bool isNever(int64_t, int64_t) {
  return false;
}

/// Qwen3's attention and experts, layer by layer.
void fillMellum(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 98304,
              .hidden = 2304,
              .width = 7168,
              .layers = 28,
              .keyHeads = 4,
              .headWidth = 128,
              .positions = 131072});
  if (decoder.layers.empty())
    return;
  config.harmless({"num_mtp_layers", "num_nextn_predict_layers", "mtp_layer_types", "mtp_mlp_layer_types"});
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  readLayerTypes(config, decoder, isNever, 0, 1024);
  setRopesByDefault(config, {{"full_attention", 500000, 1}, {"sliding_attention", 10000, 1}});
  decoder.ropes = readRopesPerLayerType(config, decoder, 500000, nullptr, 10000);
  for (const Rope &rope : decoder.ropes)
    if (config.status().isOk() && rope.width != decoder.layers.front().attention.headWidth)
      config.fail("rope_parameters turns a part of each head, which this model type does not");
  Experts experts;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 64);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.normalised = config.flag("norm_topk_prob", true);
  readRouterLoss(config, decoder);
  setExpertsByList(config, decoder, experts, config.integer("moe_intermediate_size", 896), 0);
}

/// Heads of queries by layer, a gate after attention that is not bounded, a soft-cap in the router.
void fillLaguna(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 100352,
              .hidden = 2048,
              .width = 8192,
              .layers = 40,
              .heads = 48,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 131072});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  readLayerTypes(config, decoder, isNever, 0, 512);
  setRopesByDefault(config, {{"full_attention", 500000, 0.5}, {"sliding_attention", 10000, 1}});
  decoder.ropes = readRopesPerLayerType(config, decoder, 500000, nullptr, 10000);
  std::optional<std::vector<int64_t>> heads = config.integers("num_attention_heads_per_layer");
  if (heads && heads->size() != decoder.layers.size())
    config.fail(config.describe("num_attention_heads_per_layer") + ", for " + std::to_string(decoder.layers.size()) +
                " layers");
  bool isPerHead = config.isText("gating") ? config.text("gating", "") == "per-head" : config.flag("gating", true);
  for (size_t i = 0; i < decoder.layers.size() && config.status().isOk(); ++i) {
    Attention &attention = decoder.layers[i].attention;
    attention.headNorms = HeadNorms::PerHead;
    attention.outputGate = isPerHead ? OutputGate::SoftplusPerHead : OutputGate::Softplus;
    if (heads)
      attention.heads = (*heads)[i];
    if (attention.heads < 1 || attention.heads % attention.keyHeads)
      config.fail(config.describe("num_attention_heads_per_layer") + ", but num_key_value_heads is " +
                  std::to_string(attention.keyHeads));
  }
  config.require("moe_apply_router_weight_on_input", {false});
  Experts experts{.router = Experts::Router::SigmoidThenTop, .normalised = true, .hasChoiceBias = true};
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.scale = config.number("moe_routed_scaling_factor", 1);
  experts.routerSoftCap = std::max(config.number("moe_router_logit_softcapping", 0), 0.0);
  experts.sharedWidth = config.integer("shared_expert_intermediate_size", 512);
  readRouterLoss(config, decoder);
  setExpertsByList(config, decoder, experts, config.integer("moe_intermediate_size", 512), 1);
  BlockNames &names = decoder.names;
  names.outputGate = "g_proj";
  names.sharedExpert = "shared_expert";
  names.choiceBias = "experts.e_score_correction_bias";
  decoder.renamed = {{".mlp.shared_expert.", ".mlp.shared_experts."},
                     {".mlp.experts.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"}};
}

/// Layers with a window have twice the heads of keys, and sinks; heads of values are narrower.
void fillMimoV2Flash(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 152576,
              .width = 16384,
              .layers = 48,
              .heads = 64,
              .keyHeads = 4,
              .headWidth = 192,
              .positions = 131072,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  if (std::optional<int64_t> size = config.optionalInteger("sliding_window_size", std::nullopt))
    config.set("sliding_window", *size + 1);
  readLayerTypes(
      config, decoder, [](int64_t layer, int64_t every) { return layer != 0 && (layer + 1) % every != 0; }, 6, 129);
  setRopesByDefault(config, {{"full_attention", 5000000, 0.334}, {"sliding_attention", 10000, 0.334}});
  decoder.ropes = readRopesPerLayerType(config, decoder, 5000000, nullptr, 10000);
  setBiases(decoder, config.flag("attention_bias", false), false);
  int64_t valueWidth = config.integer("v_head_dim", 128);
  double valueScale = config.optionalNumber("attention_value_scale", 0.707).value_or(1);
  for (Layer &layer : decoder.layers) {
    Attention &attention = layer.attention;
    attention.valueWidth = valueWidth;
    attention.valueScale = valueScale;
    attention.hasSinks = layer.isSliding;
    if (layer.isSliding)
      attention.keyHeads *= 2;
    if (attention.heads % attention.keyHeads)
      config.fail(config.describe("num_key_value_heads") +
                  ", and twice as many in layers with windows, do not divide " +
                  config.describe("num_attention_heads"));
  }
  if (config.isNull("routed_scaling_factor"))
    config.set("routed_scaling_factor", 1);
  DeepSeekExperts defaults{.count = 256, .perToken = 8, .width = 2048, .normalised = true};
  std::vector<bool> dense = denseByList(config, decoder, 1);
  setDeepSeekExperts(config, decoder, defaults,
                     {.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-20, .hasChoiceBias = true},
                     dense);
  decoder.renamed = {{".self_attn.sinks", ".self_attn.attention_sink_bias"}};
}

/// DeepSeek-V3's choice of experts without groups, after Qwen3's attention.
void fillHyV3(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 120832,
              .width = 13312,
              .layers = 80,
              .heads = 64,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 131072,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.006;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  decoder.ropes = {readRope(config, ropeContext(decoder, 11158840))};
  config.harmless({"enable_moe_fp32_combine"}); // a sum is f32 here until it is stored
  Experts experts{
      .router = Experts::Router::SigmoidThenTop, .normalised = true, .normalisedFrom = 1e-20, .hasChoiceBias = true};
  experts.precision = Precision::Product;
  experts.sharesAreRounded = false;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 192);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  experts.scale = config.number("router_scaling_factor", 2.826);
  int64_t width = config.integer("moe_intermediate_size", 1536);
  experts.sharedWidth = width * config.integer("num_shared_experts", 1);
  readRouterLoss(config, decoder);
  setExpertsByList(config, decoder, experts, width, 1);
  BlockNames &names = decoder.names;
  names.router = "router.gate";
  names.choiceBias = "expert_bias";
  names.sharedExpert = "shared_mlp";
  decoder.renamed = {{".mlp.router.gate.", ".mlp.gate."},
                     {".mlp.expert_bias", ".mlp.e_score_correction_bias"},
                     {".mlp.shared_mlp.", ".mlp.shared_experts."}};
}

/// Cohere 2 with experts, after dense layers that turn all positions where their pattern is 1.
void fillCohere2Moe(Config &config, Decoder &decoder) {
  readCohere(config, decoder, /*headWidth=*/128);
  if (decoder.layers.empty())
    return;
  if (std::optional<double> epsilon = config.optionalNumber("rms_norm_eps", std::nullopt))
    decoder.norm = {NormKind::Rms, *epsilon};

  int64_t first = config.integer("first_k_dense_replace", 0, 0);
  int64_t prefixPattern = config.integer("prefix_dense_sliding_window_pattern", 1),
          pattern = config.integer("sliding_window_pattern", 4);
  if (config.texts("layer_types").empty()) {
    std::vector<std::string> types;
    for (int64_t i = 0; i < int64_t(decoder.layers.size()); ++i) {
      bool isSliding = i < first ? (i + 1) % prefixPattern != 0 : (i - first + 1) % pattern != 0;
      types.push_back(isSliding ? "sliding_attention" : "full_attention");
    }
    config.set("layer_types", types);
  }
  readLayerTypes(config, decoder, isNever, 0, 4096);
  std::vector<bool> dense = denseByList(config, decoder, first);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.ropes.front().isInterleaved = true;
  int64_t width = decoder.layers.front().feedForward.width;
  int64_t denseWidth = config.optionalInteger("prefix_dense_intermediate_size", width).value_or(width);
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.rope = (layer.isSliding && layer.window) || (dense[i] && prefixPattern == 1) ? 0 : -1;
    layer.feedForward.width = denseWidth;
  }

  std::string choice = config.text("expert_selection_fn", "softmax"),
              sum = config.text("shared_expert_combination_strategy", "average");
  config.require("expert_selection_fn", {"softmax", "sigmoid"});
  config.require("shared_expert_combination_strategy", {"average", "sum"});
  Experts experts{.router = choice == "sigmoid" ? Experts::Router::TopThenSigmoid : Experts::Router::TopThenSoftmax};
  experts.precision = choice == "sigmoid" ? Precision::Narrow : Precision::Scores;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 8);
  experts.perToken = config.integer("num_experts_per_tok", 2);
  experts.normalised = config.flag("norm_topk_prob", true) && choice == "sigmoid";
  experts.sharedWidth = width * config.integer("num_shared_experts", 0, 0);
  experts.sharedIsAveraged = sum == "average";
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width, [&](int64_t layer) { return dense[layer]; });
}

/// Sinks in every layer; those without a window have no rotation.
void fillFlint(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 150144,
              .hidden = 2048,
              .width = 6144,
              .layers = 49,
              .keyHeads = 4,
              .headWidth = 128,
              .positions = 262144});
  if (decoder.layers.empty())
    return;
  const int64_t last = int64_t(decoder.layers.size()) - 1;
  readLayerTypes(
      config, decoder, [](int64_t layer, int64_t end) { return layer >= 2 && layer % 4 != 1 && layer != end; }, last,
      513);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.hasSinks = true;
    layer.rope = layer.window ? 0 : -1;
  }
  Experts experts{.router = Experts::Router::SigmoidThenTop};
  experts.precision = Precision::Weight;
  experts.sharesAreRounded = false;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 256);
  experts.perToken = config.integer("num_experts_per_tok", 6);
  experts.normalised = config.flag("norm_topk_prob", true);
  experts.sharedWidth = config.integer("shared_expert_intermediate_size", 1024);
  std::vector<int64_t> dense = config.integers("mlp_only_layers").value_or(std::vector<int64_t>{0, 1});
  config.require("decoder_sparse_step", {1});
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 512),
             [&](int64_t layer) { return std::find(dense.begin(), dense.end(), layer) != dense.end(); });
  decoder.names.sharedExpert = "shared_expert";
  decoder.renamed = {{".self_attn.sinks", ".self_attn.softmax_offset"}};
}

/// EXAONE 4's attention between norms of inputs and of results; experts are chosen by what the router says and a bias.
void fillKolibri(Config &config, Decoder &decoder) {
  config.set("intermediate_size", 1); // no layer is dense
  config.set("sliding_window_pattern", 5);
  if (!config.has("sliding_window"))
    config.set("sliding_window", 513);
  readCommon(config, decoder,
             {.vocabulary = 128000,
              .hidden = 2560,
              .layers = 50,
              .heads = 48,
              .keyHeads = 4,
              .headWidth = 128,
              .positions = 262144});
  if (decoder.layers.empty())
    return;
  setExaoneAttention(config, decoder);
  Experts experts{.router = Experts::Router::TopThenSigmoid, .hasChoiceBias = true};
  experts.precision = Precision::Product;
  experts.sharesAreRounded = false;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 384);
  experts.perToken = config.integer("num_experts_per_tok", 6);
  experts.normalised = config.flag("norm_topk_prob", false);
  experts.sharedWidth = config.integer("shared_expert_intermediate_size", 512);
  config.harmless({"output_router_logits"});
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 512));
  BlockNames &names = decoder.names;
  names.afterAttentionNorm = "post_attn_norm";
  names.afterFeedForwardNorm = "post_ffn_norm";
  decoder.renamed = {{".mlp.gate.e_score_correction_bias", ".moe.router.expert_bias"},
                     {".post_attn_norm.", ".post_self_attn_layernorm."},
                     {".post_ffn_norm.", ".post_mlp_layernorm."}};
}

} // namespace ztc::huggingface
