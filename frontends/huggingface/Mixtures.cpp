// Mixtures of experts beside well-known attention: ERNIE 4.5, Hunyuan, MiniMax-M2, Phi-3.5-MoE, K-EXAONE, AFMoE,
// Aria, DBRX.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Its bias is a matrix, which begins with zeros all the same.
static void setErnieChoiceBias(Decoder &decoder) {
  decoder.names.choiceBias = "moe_statics.e_score_correction_bias";
  decoder.fresh = {{"e_score_correction_bias", FreshValues::Kind::Constant, {0}}};
}

/// A softmax of all experts, chosen by it and a bias; some layers are dense.
void fillErnie45Moe(Config &config, Decoder &decoder) {
  decoder.headBias =
      readErnie45(config, decoder, {.hidden = 2560, .width = 12288, .layers = 28, .heads = 20, .keyHeads = 4});
  if (decoder.layers.empty())
    return;
  config.harmless({"moe_capacity", "moe_gate", "moe_use_aux_free", "num_nextn_predict_layers"});
  Experts experts;
  experts.count = config.integer(config.firstOf({"moe_num_experts", "num_experts"}), 64);
  experts.perToken = config.integer(config.firstOf({"moe_k", "num_experts_per_tok"}), 6);
  experts.normalised = true;
  experts.normalisedLeast = config.number("moe_norm_min", 1e-12);
  experts.hasChoiceBias = true;
  experts.choiceBiasRows = 1;
  experts.precision = Experts::Precision::Weight;
  int64_t width = config.integer("moe_intermediate_size", 1536), first = config.integer("moe_layer_start_index", 1, 0),
          last = config.integer("moe_layer_end_index", -1, -1), every = config.integer("moe_layer_interval", 1);
  experts.sharedWidth = width * config.integer("moe_num_shared_experts", 2, 0);
  if (last < 0)
    last = int64_t(decoder.layers.size()) - 1;
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width,
             [&](int64_t layer) { return layer < first || layer > last || (layer + 1) % every != 0; });
  setErnieChoiceBias(decoder);
  decoder.renamed = {{".mlp.moe_statics.", ".mlp.gate.moe_statics."}};
}

/// The language model of ERNIE 4.5 VL, whose tokens of text see the first half of its experts. Parts of its rotary
/// embedding alternate, which changes nothing of text where they are alike.
void fillErnie45VlMoe(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  requireDefaultRope(config);
  Defaults sizes{.hidden = 2560, .width = 12288, .layers = 28, .heads = 20, .keyHeads = 4};
  config.set("pad_token_id", config.has("pad_token_id") ? config.value("pad_token_id") : nlohmann::json());
  readErnie45(config, decoder, sizes);
  for (const char *key : {"rope_parameters", "rope_scaling"})
    if (std::optional<Config> parameters = config.child(key)) {
      std::vector<int64_t> sections = parameters->integers("mrope_section").value_or(std::vector<int64_t>{1, 1, 1});
      if (sections.size() != 3 || sections[0] != sections[1])
        config.fail(parameters->describe("mrope_section") + ", and ztc builds three, the first two alike");
    }
  if (decoder.layers.empty())
    return;
  Experts experts;
  experts.count = config.integer(config.firstOf({"moe_num_experts", "num_experts"}), 64);
  experts.perToken = config.integer(config.firstOf({"moe_k", "num_experts_per_tok"}), 6);
  experts.normalised = true;
  experts.normalisedLeast = config.number("moe_norm_min", 1e-12);
  experts.hasChoiceBias = experts.routerIsTransposed = true;
  experts.choiceBiasRows = 2;
  experts.precision = Experts::Precision::Weight;
  const std::vector<int64_t> widths =
      config.integers("moe_intermediate_size").value_or(std::vector<int64_t>{1536, 512});
  if (widths.size() != 2 || widths[0] < 1)
    return config.fail(config.describe("moe_intermediate_size") + ", which is not a width of text and one of images");
  experts.sharedWidth = widths[0] * config.integer("moe_num_shared_experts", 2, 0);
  readRouterLoss(config, decoder);
  const std::vector<bool> dense =
      layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", [](int64_t layer) { return layer == 0; });
  setExperts(config, decoder, experts, widths[0], dense);
  setErnieChoiceBias(decoder);
  decoder.renamed = {{".mlp.moe_statics.", ".mlp.text_moe.gate.moe_statics."},
                     {".mlp.gate.", ".mlp.text_moe.gate."},
                     {".mlp.experts.", ".mlp.text_moe.experts."}};
}

/// One number, or a list of one for each layer that must be alike.
static int64_t sameInLayers(Config &config, const char *key, int64_t otherwise) {
  nlohmann::json value = config.value(key);
  if (!value.is_array())
    return config.integer(key, otherwise);
  std::vector<int64_t> list = config.integers(key).value_or(std::vector<int64_t>());
  if (list.empty() || list.front() < 1 || std::count(list.begin(), list.end(), list.front()) != int64_t(list.size()))
    config.fail(config.describe(key) + "; ztc builds layers with the same number only");
  return list.empty() ? otherwise : std::max<int64_t>(list.front(), 1);
}

/// Hunyuan's attention; beside the experts one that sees every token, as wide as they are.
void fillHunyuanMoe(Config &config, Decoder &decoder) {
  fillHunyuan(config, decoder);
  if (decoder.layers.empty())
    return;
  Experts experts;
  experts.count = sameInLayers(config, config.firstOf({"num_experts", "num_local_experts"}), 1);
  experts.perToken = sameInLayers(config, config.firstOf({"moe_topk", "num_experts_per_tok"}), 1);
  experts.normalised = true;
  int64_t width = decoder.layers.front().feedForward.width;
  experts.sharedWidth = width;
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width);
  decoder.names.router = "gate.wg";
  decoder.names.sharedExpert = "shared_mlp";
}

/// DeepSeek-V3's choice of experts, without groups; norms over all heads; part of each head turns.
void fillMiniMaxM2(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 200064,
              .hidden = 3072,
              .width = 1536,
              .layers = 62,
              .heads = 48,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 196608});
  if (decoder.layers.empty())
    return;
  for (Layer &layer : decoder.layers)
    layer.attention.headNorms = HeadNorms::Whole;
  RopeContext context = ropeContext(decoder, 5000000);
  if (std::optional<int64_t> turning = config.optionalInteger("rotary_dim", std::nullopt))
    context.partialFactor = double(*turning) / double(context.headWidth);
  decoder.ropes = {readRope(config, context)};
  Experts experts{.router = Experts::Router::SigmoidThenTop, .normalised = true, .hasChoiceBias = true};
  experts.sharesAreRounded = false;
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 256);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  readRouterLoss(config, decoder);
  readRouterNoise(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  BlockNames &names = decoder.names;
  names.feedForward = "block_sparse_moe";
  names.choiceBias = "e_score_correction_bias";
  names.expertGate = "w1";
  names.expertUp = "w3";
  names.expertDown = "w2";
  decoder.renamed = {{".block_sparse_moe.", ".mlp."}};
}

/// LayerNorm, and two experts of those with near scores.
void fillPhiMoe(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 32064, .width = 6400, .keyHeads = 8, .positions = 131072, .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::Layer;
  decoder.headBias = config.flag("lm_head_bias", false);
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", std::nullopt);
  for (Layer &layer : decoder.layers)
    layer.window = window.value_or(0);
  RopeContext context = ropeContext(decoder, 1000000);
  context.readsMagnitudes = true;
  decoder.ropes = {readRope(config, context)};
  Experts experts{.router = Experts::Router::SparseMixer};
  experts.precision = Experts::Precision::Narrow;
  experts.count = config.integer(config.firstOf({"num_local_experts", "num_experts"}), 16, 2);
  experts.perToken = 2;
  experts.nearness = 2 * config.number("router_jitter_noise", 0.01);
  config.require("num_experts_per_tok", {2});
  config.harmless({"input_jitter_noise", "hidden_dropout"});
  decoder.notes.push_back("model_type phimoe: each token goes to the experts that evaluation chooses; transformers "
                          "draws near ones at random in training (SparseMixer)");
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  BlockNames &names = decoder.names;
  names.feedForward = "block_sparse_moe";
  names.expertGate = "w1";
  names.expertUp = "w3";
  names.expertDown = "w2";
  decoder.renamed = {{".block_sparse_moe.gate.", ".mlp.router."}, {".block_sparse_moe.", ".mlp."}};
}

/// EXAONE 4's attention after norms of inputs, DeepSeek-V3's experts.
void fillExaoneMoe(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 102400, .width = 16384, .keyHeads = 32, .epsilon = 1e-5};
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers"});
  setExaoneAttention(config, decoder);
  config.set("first_k_dense_replace", denseLayers(config, decoder, 1));
  setDeepSeekExperts(config, decoder,
                     {.count = 64,
                      .perToken = 8,
                      .width = 1024,
                      .shared = 1,
                      .scale = 2.5,
                      .normalised = true,
                      .countKey = "num_experts",
                      .sharedKey = "num_shared_experts"});
  decoder.names.choiceBias = "e_score_correction_bias";
  decoder.renamed = {{".mlp.e_score_correction_bias", ".mlp.gate.e_score_correction_bias"}};
}

/// Norms around both halves of a block, a gate after attention, no rotation where all keys are seen.
void fillAfMoe(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 200192,
              .hidden = 2048,
              .width = 6144,
              .heads = 16,
              .headWidth = 128,
              .positions = 16384,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 1024);
  int64_t every = config.integer("global_attn_every_n_layers", 4);
  setWindows(decoder, slidingLayers(config, decoder, allButEvery, every), window);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.outputGate = OutputGate::Sigmoid;
    layer.rope = layer.isSliding ? 0 : -1;
  }
  if (config.flag("mup_enabled", false))
    decoder.embeddingScale = std::sqrt(double(decoder.hidden));
  Experts experts{
      .router = Experts::Router::SigmoidThenTop, .normalised = true, .normalisedFrom = 1e-20, .hasChoiceBias = true};
  experts.sharesAreRounded = false;
  experts.count = config.integer(config.firstOf({"num_experts", "num_local_experts"}), 64);
  experts.perToken = config.integer("num_experts_per_tok", 6);
  experts.scale = config.number("route_scale", 1);
  int64_t width = config.integer("moe_intermediate_size", 1408), dense = config.integer("num_dense_layers", 1, 0);
  experts.sharedWidth = width * config.integer("num_shared_experts", 2, 0);
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, width, [&](int64_t layer) { return layer < dense; });
  BlockNames &names = decoder.names;
  names.afterAttentionNorm = "post_attention_layernorm";
  names.feedForwardNorm = "pre_mlp_layernorm";
  names.afterFeedForwardNorm = "post_mlp_layernorm";
  names.router = "router.gate";
  names.choiceBias = "expert_bias";
}

/// Llama's attention; routed experts in two tensors, beside shared ones.
void fillAriaText(Config &config, Decoder &decoder) {
  Defaults defaults{.width = 4096};
  defaults.padding = 2;
  config.require("hidden_act", {"silu", "swish"}); // of shared experts; of routed ones it is silu whatever stands there
  readLlama(config, decoder, defaults, 10000);
  if (decoder.layers.empty())
    return;
  Experts experts{.router = Experts::Router::TopThenSoftmax};
  experts.precision = Experts::Precision::Narrow;
  experts.count = config.integer("moe_num_experts", 8);
  experts.perToken = config.integer("moe_topk", 2);
  int64_t width = decoder.layers.front().feedForward.width;
  experts.sharedWidth = width * config.integer("moe_num_shared_experts", 2);
  setExperts(config, decoder, experts, width);
  BlockNames &names = decoder.names;
  names.router = "router";
  names.expertsGateUp = "experts.fc1.weight";
  names.expertsDown = "experts.fc2.weight";
  names.expertsAreStacked = names.expertsAreTransposed = true;
  decoder.renamed = {{".experts.fc1.weight", ".experts.gate_up_proj"}, {".experts.fc2.weight", ".experts.down_proj"}};
}

/// MPT's names, rotary embeddings, and experts one below the other in each matrix.
void fillDbrx(Config &config, Decoder &decoder) {
  readAliases(config, {{"d_model", "hidden_size"},
                       {"n_heads", "num_attention_heads"},
                       {"n_layers", "num_hidden_layers"},
                       {"max_seq_len", "max_position_embeddings"}});
  Config attention = config.child("attn_config").value_or(config.withoutKeys()),
         feedForward = config.child("ffn_config").value_or(config.withoutKeys());
  config.set("num_key_value_heads", attention.integer("kv_n_heads", 1));
  config.set("intermediate_size", feedForward.integer("ffn_hidden_size", 3584));
  config.set("norm_eps", 1e-5);
  Config activation = feedForward.child("ffn_act_fn").value_or(config.withoutKeys());
  config.set("hidden_act", activation.text("name", "silu"));
  config.require("tie_word_embeddings", {false, nullptr});
  readCommon(config, decoder, {.hidden = 2048, .layers = 24, .heads = 16, .epsilonKey = "norm_eps"});
  noteDropout(config, decoder, {"emb_pdrop"});
  noteDropout(attention, decoder, {"attn_pdrop"});
  if (attention.has("rope_theta") && !config.has("rope_theta"))
    decoder.notes.push_back(attention.describe("rope_theta") +
                            " in attn_config: transformers reads rope_parameters alone, and so does ztc");
  if (feedForward.optionalNumber("moe_jitter_eps", 0.0).value_or(0) != 0)
    decoder.notes.push_back(feedForward.describe("moe_jitter_eps") + ": ztc trains without this noise");
  feedForward.require("moe_normalize_expert_weights", {1, nullptr});
  Experts experts;
  experts.precision = Experts::Precision::Narrow;
  experts.count = feedForward.integer("moe_num_experts", 4);
  experts.perToken = feedForward.integer("moe_top_k", 1);
  experts.normalised = !feedForward.isNull("moe_normalize_expert_weights");
  double clip = attention.optionalNumber("clip_qkv", std::nullopt).value_or(0);
  for (const Config *part : {&attention, &feedForward, &activation})
    config.adopt(*part);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::LayerNoBias;
  for (Layer &layer : decoder.layers) {
    layer.attention.fusion = Fusion::Blocks;
    layer.attention.clip = clip;
  }
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  readRouterLoss(config, decoder);
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.layersName = "blocks";
  decoder.finalNorm = "norm_f";
  BlockNames &names = decoder.names;
  names.attentionNorm = "norm_attn_norm.norm_1";
  names.feedForwardNorm = "norm_attn_norm.norm_2";
  names.attention = "norm_attn_norm.attn";
  names.fusedQuery = "Wqkv";
  names.output = "out_proj";
  names.feedForward = "ffn";
  names.router = "router.layer";
  names.expertGate = "mlp.w1";
  names.expertUp = "mlp.v1";
  names.expertDown = "mlp.w2";
  names.expertsAreRows = true;
}

/// JetMoE: mixtures in both halves of a block, each with a bias of its sum.
void fillJetMoe(Config &config, Decoder &decoder) {
  readAliases(config, {{"head_dim", "kv_channels"}});
  const int64_t keyHeads = config.integer("num_key_value_heads", 16),
                perToken = config.integer("num_experts_per_tok", 2), count = config.integer("num_local_experts", 8);
  config.set("head_dim", config.integer("kv_channels", 128));
  config.harmless({"num_attention_heads"}); // whatever it says, as many as a token's experts have
  config.set("num_attention_heads", keyHeads * perToken);
  Defaults defaults{.hidden = 2048, .width = 5632, .layers = 12, .keyHeads = 16, .positions = 4096};
  defaults.activationKey = "activation_function";
  defaults.isTied = true;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  if (!config.has("initializer_range"))
    decoder.initializerRange = 0.01;
  config.harmless({"aux_loss_coef"});
  readRouterLoss(config, decoder);
  decoder.finalNormKind = decoder.norm;
  decoder.norm.epsilon = 1e-6; // of all others, whatever the configuration says
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  for (Layer &layer : decoder.layers)
    layer.attention.experts = AttentionExperts{.count = count, .perToken = perToken};
  Experts experts{.count = count, .perToken = perToken, .router = Experts::Router::TopThenSoftmax};
  setExperts(config, decoder, experts, decoder.layers.front().feedForward.width);
  BlockNames &names = decoder.names;
  names.attention = "self_attention";
  names.router = "router.layer";
  names.expertsGateUp = "input_linear.weight";
  names.expertsDown = "output_linear.weight";
  names.expertsAreStacked = true;
  names.mixtureBias = "bias";
}

} // namespace ztc::huggingface
