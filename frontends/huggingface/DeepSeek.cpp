// DeepSeek-V2 and V3, and what is made like them: latent attention, experts in groups beside shared ones. dots.llm1 has
// the experts, MiniCPM3 the attention.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void setDeepSeekExperts(Config &config, Decoder &decoder, const DeepSeekExperts &d, Experts experts,
                        const std::vector<bool> &dense) {
  experts.precision = Experts::Precision::Product;
  experts.sharesAreRounded = false;
  std::optional<int64_t> count = config.optionalInteger(d.countKey, d.count, 0);
  experts.count = count.value_or(0);
  experts.perToken = config.optionalInteger("num_experts_per_tok", d.perToken).value_or(d.perToken);
  experts.normalised = config.flag("norm_topk_prob", d.normalised);
  experts.scale = config.number("routed_scaling_factor", d.scale);
  experts.groups = config.optionalInteger("n_group", d.groups).value_or(1);
  experts.chosenGroups = config.optionalInteger("topk_group", d.chosenGroups).value_or(1);
  int64_t width = config.integer("moe_intermediate_size", d.width);
  experts.sharedWidth = width * config.optionalInteger(d.sharedKey, d.shared, 0).value_or(0);
  int64_t first = config.integer("first_k_dense_replace", d.firstDense, 0);
  if (experts.router == Experts::Router::SigmoidThenTop)
    experts.groupSummands = 2;
  config.harmless({"ep_size", "moe_layer_freq", "scoring_func", "aux_loss_alpha", "seq_aux"});
  readRouterLoss(config, decoder);
  if (experts.count && (experts.count % experts.groups || experts.chosenGroups > experts.groups ||
                        experts.perToken > experts.count / experts.groups * experts.chosenGroups))
    config.fail(std::to_string(experts.count) + " experts in " + std::to_string(experts.groups) + " groups, " +
                std::to_string(experts.chosenGroups) + " of them chosen for " + std::to_string(experts.perToken) +
                " experts a token, do not fit each other");
  setExperts(config, decoder, experts, width,
             [&](int64_t layer) { return dense.empty() ? layer < first : bool(dense[layer]); });
}

void setLatent(Config &config, Decoder &decoder, const Latent &defaults) {
  Latent latent = defaults;
  latent.queryRank = config.optionalInteger("q_lora_rank", defaults.queryRank).value_or(0);
  latent.keyRank = config.integer("kv_lora_rank", defaults.keyRank);
  latent.plainWidth = config.integer("qk_nope_head_dim", defaults.plainWidth);
  latent.turningWidth = config.integer("qk_rope_head_dim", defaults.turningWidth);
  latent.valueWidth = config.integer("v_head_dim", defaults.valueWidth);
  config.harmless({"qk_head_dim", "head_dim"});
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  double scale = 1 / std::sqrt(double(latent.plainWidth + latent.turningWidth));
  for (Layer &layer : decoder.layers) {
    Attention &attention = layer.attention;
    attention.latent = latent;
    attention.keyHeads = attention.heads;
    attention.headWidth = latent.turningWidth;      // of what turns
    attention.headNorm = Norm{NormKind::Rms, 1e-6}; // not the configuration's epsilon
    attention.scale = scale;
  }
}

/// The same, and its rotary embedding.
static void readLatent(Config &config, Decoder &decoder, const Latent &defaults, bool isInterleaved,
                       bool readsQueryScale = false) {
  setLatent(config, decoder, defaults);
  const Latent latent = *decoder.layers.front().attention.latent;
  RopeContext context = ropeContext(decoder, 10000);
  context.readsQueryScale = readsQueryScale;
  if (readsQueryScale) { // Mistral 4 says which part of a whole head turns
    context.headWidth = latent.plainWidth + latent.turningWidth;
    context.partialFactor = double(latent.turningWidth) / double(context.headWidth);
  }
  Rope rope = readRope(config, context);
  if (config.status().isOk() && rope.width != latent.turningWidth)
    config.fail("the rotary embedding turns " + std::to_string(rope.width) + " dimensions of a head, " +
                config.describe("qk_rope_head_dim"));
  rope.isInterleaved = isInterleaved;
  for (Layer &layer : decoder.layers) {
    layer.attention.scale *= rope.scoreScale;
    layer.attention.queryScaleBeta = rope.queryScaleBeta;
    layer.attention.queryScaleFrom = rope.queryScaleFrom;
  }
  decoder.ropes = {rope};
}

/// Of dense layers and of shared experts; routed ones have none.
static void readFeedForwardBias(Config &config, Decoder &decoder) {
  bool bias = config.flag("mlp_bias", false);
  for (Layer &layer : decoder.layers)
    layer.feedForward.bias = bias;
}

void fillDeepSeekV3(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 129280,
              .hidden = 7168,
              .width = 18432,
              .layers = 61,
              .heads = 128,
              .keyHeads = 128,
              .positions = 4096});
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers", "topk_method"});
  readLatent(config, decoder,
             {.queryRank = 1536, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128},
             config.flag("rope_interleave", true));
  setDeepSeekExperts(config, decoder,
                     {.count = 256,
                      .perToken = 8,
                      .width = 2048,
                      .shared = 1,
                      .firstDense = 3,
                      .groups = 8,
                      .chosenGroups = 4,
                      .scale = 2.5,
                      .normalised = true});
}

int64_t denseLayers(Config &config, const Decoder &decoder, int64_t otherwise) {
  std::vector<std::string> types = config.texts("mlp_layer_types");
  int64_t dense = 0, first = config.integer("first_k_dense_replace", otherwise, 0);
  if (types.empty())
    return first;
  while (dense < int64_t(types.size()) && types[dense] == "dense")
    ++dense;
  if (types.size() != decoder.layers.size() ||
      std::count(types.begin(), types.end(), "sparse") != int64_t(types.size()) - dense)
    config.fail("mlp_layer_types is not a number of dense layers and then sparse ones, one entry for each layer");
  return dense;
}

/// DeepSeek-V3's attention in a dense model.
void fillYoutu(Config &config, Decoder &decoder) {
  Defaults defaults{
      .vocabulary = 128256, .hidden = 2048, .width = 6144, .heads = 16, .keyHeads = 16, .positions = 131072};
  defaults.isTied = true;
  readCommon(config, decoder, defaults);
  config.harmless({"embedding_initializer_range"}); // fresh embeddings are as wide as the other weights
  if (config.isNull("initializer_range") || !config.has("initializer_range"))
    decoder.initializerRange = 2 / std::sqrt(5 * double(decoder.hidden));
  if (!decoder.layers.empty())
    readLatent(config, decoder,
               {.queryRank = 1536, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128},
               config.flag("rope_interleave", true));
}

/// DeepSeek-V3 with a list of which layers are dense.
void fillGlm4MoeLite(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 154880,
              .hidden = 2048,
              .width = 10240,
              .layers = 47,
              .heads = 20,
              .keyHeads = 20,
              .positions = 202752,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers", "topk_method"});
  readLatent(config, decoder,
             {.queryRank = 768, .keyRank = 512, .plainWidth = 192, .turningWidth = 64, .valueWidth = 256},
             config.flag("rope_interleave", true));
  config.set("first_k_dense_replace", 1); // what transformers 5 does not read
  config.set("first_k_dense_replace", denseLayers(config, decoder, 1));
  setDeepSeekExperts(
      config, decoder,
      {.count = 64, .perToken = 4, .width = 1536, .shared = 1, .firstDense = 1, .scale = 1.8, .normalised = true});
}

void readIndexer(Config &config, Decoder &decoder, int64_t otherwise) {
  // Which layers choose, and by what: nothing where all is chosen.
  config.harmless({"layer_types", "index_n_heads", "index_head_dim", "indexer_types", "index_topk_pattern",
                   "index_topk_freq", "index_skip_topk_offset"});
  decoder.chosenKeys = config.integer("index_topk", otherwise);
  decoder.chosenKeysKey = "index_topk";
}

/// DeepSeek-V3's attention and experts beside an indexer, with a list of which layers are dense.
static void readChoosing(Config &config, Decoder &decoder, const Defaults &defaults, const Latent &latent,
                         const DeepSeekExperts &sizes,
                         const Experts &experts = {.router = Experts::Router::SigmoidThenTop,
                                                   .normalisedFrom = 1e-20,
                                                   .hasChoiceBias = true}) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"}});
  if (decoder.modelType != "axk2" && config.has("num_experts") && !config.isNull("num_experts"))
    config.set("n_routed_experts", config.value("num_experts"));
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers", "topk_method", "mlp_bias"});
  readIndexer(config, decoder);
  readLatent(config, decoder, latent, /*isInterleaved=*/decoder.modelType != "hy_v4");
  const int64_t first = config.integer("first_k_dense_replace", sizes.firstDense, 0),
                every = decoder.modelType == "axk2" ? config.integer("moe_layer_freq", 1) : 1;
  const std::vector<bool> dense = layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse",
                                               [&](int64_t layer) { return layer < first || layer % every != 0; });
  setDeepSeekExperts(config, decoder, sizes, experts, dense);
}

void fillDeepSeekV32(Config &config, Decoder &decoder) {
  readChoosing(config, decoder,
               {.vocabulary = 129280,
                .hidden = 7168,
                .width = 18432,
                .layers = 61,
                .heads = 128,
                .keyHeads = 128,
                .positions = 163840},
               {.queryRank = 1536, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128},
               {.count = 256,
                .perToken = 8,
                .shared = 1,
                .firstDense = 3,
                .groups = 8,
                .chosenGroups = 4,
                .scale = 2.5,
                .normalised = true});
}

/// GLM 5: layers may take over what an earlier one has chosen.
void fillGlmMoeDsa(Config &config, Decoder &decoder) {
  readChoosing(config, decoder,
               {.vocabulary = 154880,
                .hidden = 6144,
                .width = 12288,
                .layers = 78,
                .heads = 64,
                .keyHeads = 64,
                .positions = 202752,
                .epsilon = 1e-5},
               {.queryRank = 2048, .keyRank = 512, .plainWidth = 192, .turningWidth = 64, .valueWidth = 256},
               {.count = 256, .perToken = 8, .shared = 1, .firstDense = 3, .scale = 2.5, .normalised = true});
}

void fillDeepSeekV2(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.vocabulary = 102400});
  if (decoder.layers.empty())
    return;
  readLatent(config, decoder,
             {.queryRank = 1536, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128}, true);
  readFeedForwardBias(config, decoder);
  std::string method = config.text("topk_method", "greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    config.fail(config.describe("topk_method") + "; ztc supports \"greedy\" and \"group_limited_greedy\" only");
  // transformers reads norm_topk_prob for this model type and never uses it.
  Experts experts;
  experts.router = Experts::Router::SoftmaxThenTop;
  setDeepSeekExperts(config, decoder, {.count = 64, .perToken = 6, .width = 1407, .shared = 2}, experts);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts) {
      layer.feedForward.experts->normalised = false;
      if (method == "greedy")
        layer.feedForward.experts->groups = 1;
    }
}

/// DeepSeek-V2's mixture after Llama's attention: the language models of DeepSeek-OCR-2 and Unlimited-OCR.
static void readOcr(Config &config, Decoder &decoder, const Defaults &defaults, const DeepSeekExperts &sizes,
                    const std::function<bool(int64_t)> &isDense) {
  readAliases(config, {{"num_experts", "n_routed_experts"}});
  config.harmless({"head_dim"}); // transformers makes it of the hidden size
  config.set("head_dim", nullptr);
  readLlama(config, decoder, defaults, 10000);
  if (decoder.layers.empty())
    return;
  if (config.status().isOk() && decoder.ropes.front().width != decoder.layers.front().attention.headWidth)
    config.fail("rope_parameters turns a part of each head, which this model type does not");
  const std::string method = config.text("topk_method", "greedy");
  config.require("topk_method", {"greedy", "group_limited_greedy"});
  if (method != "greedy" &&
      (!config.optionalInteger("n_group", sizes.groups) || !config.optionalInteger("topk_group", sizes.chosenGroups)))
    config.fail("topk_method is 'group_limited_greedy', which needs n_group and topk_group");
  const std::vector<bool> dense = layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", isDense);
  setDeepSeekExperts(config, decoder, sizes, {.router = Experts::Router::SoftmaxThenTop}, dense);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts) {
      layer.feedForward.experts->normalised = false;
      if (method == "greedy")
        layer.feedForward.experts->groups = 1;
    }
}

void fillDeepSeekOcr2(Config &config, Decoder &decoder) {
  for (const char *key : {"mlp_layer_types", "num_experts_per_tok"})
    if (!config.has(key) || config.isNull(key))
      config.fail(std::string(key) + " is absent or null, where transformers fails");
  readOcr(config, decoder, {.vocabulary = 102400}, {.count = 64, .width = 1407, .shared = 2},
          [](int64_t) { return false; });
}

void fillUnlimitedOcr(Config &config, Decoder &decoder) {
  const int64_t first = config.integer("first_k_dense_replace", 1, 0), window = config.integer("sliding_window", 128);
  readOcr(config, decoder,
          {.vocabulary = 129280,
           .hidden = 1280,
           .width = 6848,
           .layers = 12,
           .heads = 10,
           .keyHeads = 10,
           .positions = 32768},
          {.count = 64, .perToken = 6, .width = 896, .shared = 2}, [first](int64_t layer) { return layer < first; });
  // A row is a prompt, whose tokens see all tokens before them.
  const std::vector<bool> hasWindow = layersOfType(config, decoder, "layer_types", "reference_sliding_attention",
                                                   "full_attention", [](int64_t) { return true; });
  if (std::find(hasWindow.begin(), hasWindow.end(), true) != hasWindow.end())
    decoder.notes.push_back("transformers' generated text sees its prompt and the last " + std::to_string(window) +
                            " tokens; ztc's sees all tokens before it, as in training");
}

/// DeepSeek-V3's attention, queries that grow as Ministral 3's do, and shares by a softmax.
void fillMistral4(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 131072, .width = 12288, .layers = 36, .keyHeads = 32, .positions = 1048576};
  defaults.padding = 11;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "yarn"},
                                   {"rope_theta", 10000.0},
                                   {"factor", 128.0},
                                   {"original_max_position_embeddings", 8192},
                                   {"beta_fast", 32.0},
                                   {"beta_slow", 1.0},
                                   {"mscale_all_dim", 1.0},
                                   {"mscale", 1.0},
                                   {"llama_4_scaling_beta", 0.1}});
  readLatent(config, decoder,
             {.queryRank = 1024, .keyRank = 256, .plainWidth = 64, .turningWidth = 64, .valueWidth = 128},
             config.flag("rope_interleave", true), /*readsQueryScale=*/true);
  Experts experts{.router = Experts::Router::SoftmaxThenTop, .normalisedFrom = 1e-20, .groupSummands = 2};
  setDeepSeekExperts(config, decoder, {.count = 128, .perToken = 4, .width = 2048, .shared = 1, .normalised = true},
                     experts);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts)
      layer.feedForward.experts->precision = Experts::Precision::Narrow;
}

void fillDots1(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.vocabulary = 152064, .hidden = 4608, .width = 10944, .layers = 62, .positions = 2048});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  int64_t first = config.optionalInteger("max_window_layers", 62, 0).value_or(62);
  std::vector<bool> sliding =
      slidingLayers(config, decoder, [](int64_t layer, int64_t from) { return layer >= from; }, first);
  setWindows(decoder, sliding, window);
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::PerHead;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  setDeepSeekExperts(config, decoder, {.width = 1408});
}

void fillMiniCpm3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 73448,
                    .hidden = 2560,
                    .width = 6400,
                    .layers = 62,
                    .heads = 40,
                    .keyHeads = 40,
                    .positions = 32768,
                    .epsilon = 1e-5};
  defaults.isTied = true;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  readLatent(config, decoder,
             {.queryRank = 768, .keyRank = 256, .plainWidth = 64, .turningWidth = 32, .valueWidth = 64}, false);
  readFeedForwardBias(config, decoder);
  double depth = std::sqrt(double(decoder.layers.size()));
  decoder.embeddingScale = config.number("scale_emb", 12);
  decoder.residualScale = config.optionalNumber("scale_depth", 1.4).value_or(depth) / depth;
  decoder.logitDivisor =
      double(decoder.hidden) / double(config.optionalInteger("dim_model_base", 256).value_or(decoder.hidden));
}

void fillSarvamMla(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_experts", "n_routed_experts"},
                       {"num_local_experts", "n_routed_experts"},
                       {"num_shared_experts", "n_shared_experts"}});
  config.harmless({"num_mtp_layers", "num_nextn_predict_layers", "q_head_dim"});
  // The name of its own program for YaRN.
  nlohmann::json scaling = config.value("rope_scaling");
  for (const char *key : {"type", "rope_type"})
    if (scaling.is_object() && scaling.value(key, nlohmann::json()) == "deepseek_yarn")
      scaling[key] = "yarn";
  config.set("rope_scaling", scaling);
  if (scaling.is_null())
    config.harmless({"rope_scaling"});
  readCommon(config, decoder, {.vocabulary = 262144, .width = 16384, .heads = 64, .positions = 4096});
  if (decoder.layers.empty())
    return;
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.006;
  readLatent(config, decoder, {.keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128},
             config.flag("rope_interleave", true));
  setDeepSeekExperts(config, decoder,
                     {.count = 128, .perToken = 8, .shared = 1, .firstDense = 1, .scale = 2.5, .normalised = true});
}

/// Two blocks of DeepSeek-V3 are a layer, with a mixture beside both; some of its experts hand on what they read.
void fillLongCat(Config &config, Decoder &decoder) {
  int64_t layers = config.integer("num_layers", config.integer("num_hidden_layers", 56) / 2);
  config.set("num_hidden_layers", layers);
  config.set("intermediate_size", config.integer("ffn_hidden_size", 12288));
  readCommon(config, decoder,
             {.vocabulary = 131072, .hidden = 6144, .layers = 28, .heads = 64, .positions = 131072, .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  config.harmless({"router_bias"}); // transformers passes over it
  config.set("q_lora_rank", config.integer("q_lora_rank", 1536));
  config.set("kv_lora_rank", config.integer("kv_lora_rank", 512));
  const double hidden = double(decoder.hidden), queryRank = double(config.integer("q_lora_rank", 1536)),
               keyRank = double(config.integer("kv_lora_rank", 512));
  readLatent(config, decoder,
             {.plainWidth = 128,
              .turningWidth = 64,
              .valueWidth = 128,
              .queryScale = std::sqrt(hidden / queryRank),
              .keyScale = std::sqrt(hidden / keyRank)},
             true);
  const Latent &latent = *decoder.layers.front().attention.latent;
  const int64_t width = latent.plainWidth + latent.turningWidth;
  if (config.optionalInteger("qk_head_dim", width).value_or(width) != width)
    config.fail(config.describe("qk_head_dim") + ", and qk_nope_head_dim and qk_rope_head_dim make " +
                std::to_string(width));
  Experts experts{.count = config.integer("n_routed_experts", 512),
                  .perToken = config.integer("moe_topk", 12),
                  .hasChoiceBias = true,
                  .scale = config.number("routed_scaling_factor", 6),
                  .precision = Experts::Precision::Product,
                  .sharesAreRounded = false};
  experts.identities = config.optionalInteger("zero_expert_num", 256, 0).value_or(0);
  readRouterLoss(config, decoder);
  Decoder mixtures = decoder;
  setExperts(config, mixtures, experts, config.integer("expert_ffn_hidden_size", 2048));
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    decoder.layers[i].shortcut = mixtures.layers[i].feedForward;
  BlockNames &names = decoder.names;
  names.feedForward = "mlps";
  names.mixture = "mlp";
  names.router = "router.classifier";
  names.choiceBias = "router.e_score_correction_bias";
}

/// Hy 4: DeepSeek V3.2's attention with sinks and gates, between hyper-connections.
void fillHyV4(Config &config, Decoder &decoder) {
  config.harmless({"num_key_value_heads", "learnable_sink_init"}); // as many as heads; only initialises
  config.set("num_key_value_heads", config.integer("num_attention_heads", 32));
  Defaults defaults{
      .vocabulary = 120832, .hidden = 2816, .width = 6912, .layers = 34, .positions = 262144, .epsilon = 1e-5};
  defaults.padding = 120002;
  readChoosing(
      config, decoder, defaults,
      {.queryRank = 1536, .keyRank = 512, .plainWidth = 192, .turningWidth = 64, .valueWidth = 256},
      {.count = 256, .perToken = 8, .width = 768, .shared = 1, .firstDense = 1, .scale = 2.827, .normalised = true});
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.006;
  const double limit = config.number("swiglu_limit", 10);
  if (limit <= 0)
    config.fail(config.describe("swiglu_limit") + ", which is not above 0");
  for (Layer &layer : decoder.layers) {
    layer.attention.hasSinks = true;
    layer.attention.outputGate = OutputGate::Sigmoid;
    if (layer.feedForward.experts)
      layer.feedForward.experts->gateLimit = limit;
  }
  decoder.connections = Connections{.streams = config.integer("hc_mult", 4),
                                    .magnitude = config.number("hc_magnitude", 2),
                                    .epsilon = config.number("hc_eps", 1e-6)};
  decoder.headIsWide = true;
  decoder.renamed = {{".gate_proj.", ".linear_gate."},
                     {".sinks.", ".learnable_sink_param."},
                     {".hc_pre.hc_attn_layer.hc_", ".attn_hc."},
                     {".hc_pre.hc_mlp_layer.hc_", ".ffn_hc."},
                     {".hc_pre.hc_head.hc_head_", ".hc_head.hc_"}};
}

/// A.X-K2: DeepSeek V3.2's attention with gates of its results and of norms.
void fillAxk2(Config &config, Decoder &decoder) {
  readChoosing(
      config, decoder, {.vocabulary = 163840, .hidden = 2048, .width = 5120, .layers = 48, .positions = 131072},
      {.queryRank = 384,
       .keyRank = 128,
       .plainWidth = 64,
       .turningWidth = 32,
       .valueWidth = 64,
       .queriesHaveGates = true},
      {.count = 128, .perToken = 8, .width = 512, .shared = 1, .firstDense = 1, .scale = 2.5, .normalised = true},
      {.router = Experts::Router::SigmoidThenTop,
       .normalisedFrom = 1e-20,
       .hasChoiceBias = true,
       .outsideIsZero = true});
  const int64_t rank = config.integer("gated_norm_rank", 16);
  for (Layer &layer : decoder.layers) {
    layer.attentionNormGate = rank;
    layer.feedForwardNormGate = layer.feedForward.experts ? rank : 0;
  }
  if (config.optionalInteger("q_lora_rank", 384).value_or(0) == 0)
    config.fail(config.describe("q_lora_rank") + ", and the gates of this model type read it");
  decoder.renamed = {{".W_down.", ".mlp.fc1."}, {".W_up.", ".mlp.fc2."}, {".q_b_proj.", ".q_gate_proj."}};
}

/// A.X-K1: DeepSeek-V3 with a norm of what the experts say; its weights may lack the bias of their choice.
void fillAxk1(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"}});
  readCommon(config, decoder,
             {.vocabulary = 163840,
              .hidden = 7168,
              .width = 18432,
              .layers = 61,
              .heads = 64,
              .keyHeads = 64,
              .positions = 32768});
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers", "topk_method"});
  config.require("moe_layer_freq", {1, nullptr});
  readLatent(config, decoder,
             {.queryRank = 1536, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128},
             config.flag("rope_interleave", true));
  config.set("first_k_dense_replace", denseLayers(config, decoder, 1));
  Experts experts{.router = Experts::Router::SigmoidThenTop,
                  .normalisedFrom = 1e-20,
                  .hasChoiceBias = true,
                  .choiceBiasMayLack = true};
  setDeepSeekExperts(
      config, decoder,
      {.count = 192, .perToken = 8, .shared = 1, .groups = 8, .chosenGroups = 4, .scale = 2.5, .normalised = true},
      experts);
  decoder.names.afterMixtureNorm = "post_mlp_layernorm";
  decoder.renamed = {{".post_mlp_layernorm.", ".mlp.post_mlp_layernorm."}};
}

} // namespace ztc::huggingface
