// Families that differ from Llama in a line or two: Arcee, Apertus, nanochat, Seed-OSS, ERNIE 4.5, Helium, Hunyuan,
// InternLM3, CWM, EXAONE 3 and 4, IQuest-Coder, Emu3.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Doge: keys have scores of their own, which their values give, and streams are weighed at each sum.
void fillDoge(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 32768, .hidden = 1024, .width = 2048, .heads = 8};
  readLlama(config, decoder, defaults, 10000);
  if (decoder.layers.empty())
    return;
  config.require("is_moe", {false, nullptr}); // its choice of experts mixes tokens
  config.harmless(
      {"num_experts", "num_experts_per_tok", "norm_topk_prob", "output_router_logits", "router_aux_loss_coef"});
  setWindows(decoder, std::vector<bool>(decoder.layers.size(), true),
             config.optionalInteger("sliding_window", std::nullopt));
  decoder.chosenKeys = config.integer("keep_window_size", 2048);
  decoder.chosenKeysKey = "keep_window_size";
  decoder.chooserIsTrained = true;
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.valuesWeighKeys = true;
  }
  decoder.names.attentionResidual = "input_residual";
  decoder.names.feedForwardResidual = "post_attention_residual";
}

/// HRM-Text: two stacks of Llama's layers, run in cycles, with norms without weights and gates of what attention gives.
void fillHrmText(Config &config, Decoder &decoder) {
  // The number of layers that caches are made for is saved beside a stack's.
  if (config.has("num_layers_per_stack") && !config.isNull("num_layers_per_stack"))
    config.set("num_hidden_layers", config.integer("num_layers_per_stack", 16));
  readCommon(config, decoder,
             {.vocabulary = 151808, .hidden = 1536, .width = 4096, .layers = 16, .heads = 12, .headWidth = 128});
  if (decoder.layers.empty())
    return;
  config.require("attention_bias", {false, nullptr});
  config.require("mlp_bias", {false, nullptr});
  if (config.flag("prefix_lm", true))
    decoder.notes.push_back(
        "prefix_lm is true: ztc trains text, each token of which sees those before it, as transformers "
        "does where no token_type_ids are given");
  Cycles cycles;
  cycles.high = config.integer("H_cycles", 2);
  cycles.low = config.integer("L_cycles", 3);
  cycles.trained = config.integers("L_bp_cycles").value_or(std::vector<int64_t>{2});
  const int64_t runs = cycles.high * (cycles.low + 1);
  if (cycles.high > 512 || cycles.low > 512 || runs * int64_t(decoder.layers.size()) > 2048)
    return config.fail("H_cycles " + std::to_string(cycles.high) + " and L_cycles " + std::to_string(cycles.low) +
                       " run more layers than the 2048 that ztc builds at most");
  if (int64_t(cycles.trained.size()) < cycles.high)
    cycles.trained.insert(cycles.trained.begin(), cycles.high - cycles.trained.size(), 1);
  decoder.cycles = cycles;
  decoder.embeddingScale =
      config.optionalNumber("embedding_scale", std::nullopt).value_or(1 / decoder.initializerRange);
  decoder.norm.kind = NormKind::RmsPlain;
  decoder.finalNorm = "";
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  for (Layer &layer : decoder.layers) {
    layer.attention.fusion = Fusion::Blocks;
    layer.attention.gateIsFused = true;
    layer.attention.outputGate = OutputGate::Sigmoid; // of weights that are not fused
    layer.feedForward.isFused = true;
  }
  decoder.names.attention = "attn";
  decoder.names.fusedQuery = "gqkv_proj";
  decoder.renamed = {{".attn.", ".self_attn."}};
}

void fillArcee(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.hidden = 2560, .width = 18432, .positions = 4096, .epsilon = 1e-5, .activation = "relu2"});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  for (Layer &layer : decoder.layers)
    layer.feedForward.isGated = false;
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

/// The language model of Cosmos 3 Edge; its feed-forward is not gated, and no configuration ties its head.
void fillCosmos3Edge(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  Defaults defaults{.vocabulary = 131072,
                    .hidden = 2048,
                    .width = 9216,
                    .layers = 28,
                    .heads = 16,
                    .keyHeads = 8,
                    .headWidth = 128,
                    .positions = 131072,
                    .epsilon = 1e-5,
                    .activation = "relu2"};
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  config.require("tie_word_embeddings", {false});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  for (Layer &layer : decoder.layers)
    layer.feedForward.isGated = false;
  requireDefaultRope(config);
  decoder.ropes = {readRope(config, ropeContext(decoder, 1e8))};
  setCosmosNames(decoder);
}

/// An activation with two numbers of its own in each layer, and norms of queries and keys.
void fillApertus(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 131072,
                    .width = 14336,
                    .positions = 65536,
                    .epsilon = 1e-5,
                    .activation = "xielu",
                    .theta = 12000000};
  defaults.padding = 3;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.feedForward.isGated = false;
  }
  decoder.names.attentionNorm = "attention_layernorm";
  decoder.names.feedForwardNorm = "feedforward_layernorm";
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "llama3"},
                                   {"rope_theta", 12000000.0},
                                   {"factor", 8.0},
                                   {"original_max_position_embeddings", 8192},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0}});
  decoder.ropes = {readRope(config, ropeContext(decoder, 12000000))};
}

/// Norms without parameters, one more of embedded tokens, and a rotation the other way round.
void fillNanoChat(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 50304, .hidden = 768, .width = 8192, .layers = 12, .heads = 6, .activation = "relu2"};
  defaults.padding = 1;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = NormKind::RmsPlain;
  decoder.embeddingNorm = "";
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.normsAfterRotation = true;
    layer.feedForward.isGated = false;
  }
  decoder.names.up = "fc1";
  decoder.names.down = "fc2";
  decoder.logitSoftCap = softCap(config, "final_logit_softcapping", 15.0);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  for (std::vector<float> *frequencies : {&decoder.ropes.front().frequencies, &decoder.ropes.front().longFrequencies})
    for (float &frequency : *frequencies)
      frequency = -frequency;
  if (decoder.ropes.front().dynamicFactor != 0)
    config.fail("nanochat with the dynamic rotary embedding is not built");
}

void fillSeedOss(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 155136,
                    .width = 27648,
                    .layers = 64,
                    .heads = 80,
                    .keyHeads = 8,
                    .headWidth = 128,
                    .positions = 524288};
  defaults.padding = 1;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setBiases(decoder, config.flag("attention_bias", true), config.flag("attention_out_bias", false),
            config.flag("mlp_bias", false));
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

bool readErnie45(Config &config, Decoder &decoder, Defaults sizes) {
  sizes.vocabulary = 103424;
  sizes.positions = 131072;
  sizes.epsilon = 1e-5;
  sizes.isTied = true;
  sizes.padding = 0;
  readCommon(config, decoder, sizes);
  if (decoder.layers.empty())
    return false;
  bool bias = config.flag("use_bias", false);
  setBiases(decoder, bias, bias, bias);
  decoder.ropes = {readRope(config, ropeContext(decoder, 500000))};
  decoder.ropes.front().isInterleaved = true;
  return bias;
}

void fillErnie45(Config &config, Decoder &decoder) {
  readErnie45(config, decoder,
              {.hidden = 1024, .width = 3072, .layers = 18, .heads = 16, .keyHeads = 2, .headWidth = 128});
}

/// The language model of PaddleOCR-VL: ERNIE 4.5 whose heads turn by halves. Files of it may have its keys at the top.
void fillPaddleOcr(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  config.harmless({"vision_config", "text_config", "image_token_id", "video_token_id", "vision_start_token_id",
                   "vision_end_token_id"});
  fillErnie45(config, decoder);
  for (Rope &rope : decoder.ropes)
    rope.isInterleaved = false;
}

void fillHelium(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 48000,
                    .hidden = 2560,
                    .width = 7040,
                    .layers = 24,
                    .heads = 20,
                    .keyHeads = 20,
                    .headWidth = 128,
                    .positions = 4096,
                    .epsilon = 1e-8,
                    .theta = 100000};
  defaults.padding = 3;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  setBiases(decoder, config.flag("attention_bias", false), false, config.flag("mlp_bias", false));
  decoder.ropes = {readRope(config, ropeContext(decoder, 100000))};
  decoder.ropes.front().isInterleaved = true;
}

/// Its norms of queries and keys come after the rotation.
static void readHunyuan(Config &config, Decoder &decoder, bool sees) {
  Defaults defaults{.vocabulary = 290943, .epsilon = 1e-5};
  defaults.padding = 0;
  defaults.isTied = sees;
  readCommon(config, decoder, defaults);
  config.harmless(
      {"eod_token_id", "pad_id", "im_start_id", "im_end_id", "text_start_id", "text_end_id", "org_vocab_size"});
  if (decoder.layers.empty())
    return;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, false);
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.normsAfterRotation = true;
  }
  decoder.names.queryNorm = "query_layernorm";
  decoder.names.keyNorm = "key_layernorm";
  RopeContext context = ropeContext(decoder, 10000);
  context.readsAlpha = true;
  context.xdropeIsDynamic = sees;
  decoder.ropes = {readRope(config, context)};
}

void fillHunyuan(Config &config, Decoder &decoder) {
  readHunyuan(config, decoder, false);
}

/// The language model of HunYuan-VL, of HunyuanOCR too. Files of it may have its keys at the top.
void fillHunyuanVl(Config &config, Decoder &decoder) {
  requireWholeHeads(config);
  config.harmless({"vision_config", "text_config", "image_token_id", "im_newline_id"});
  readAliases(config,
              {{"attention_head_dim", "head_dim"}, {"org_vocab_size", "vocab_size"}, {"pad_id", "pad_token_id"}});
  readHunyuan(config, decoder, true);
}

void fillInternLm3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 128512,
                    .width = 10240,
                    .layers = 48,
                    .keyHeads = 2,
                    .headWidth = 128,
                    .positions = 32768,
                    .epsilon = 1e-5};
  defaults.padding = 2;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  // Its own code's names of the two.
  bool query = config.flag(config.has("qkv_bias") ? "qkv_bias" : "attention_bias", false),
       others = config.flag(config.has("bias") ? "bias" : "mlp_bias", false);
  setBiases(decoder, query, config.has("bias") ? others : query, others);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
}

void fillCwm(Config &config, Decoder &decoder) {
  readCommon(config, decoder,
             {.vocabulary = 128256,
              .hidden = 6144,
              .width = 21504,
              .layers = 64,
              .heads = 48,
              .keyHeads = 8,
              .headWidth = 128,
              .positions = 131072,
              .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  setBiases(decoder, false, false, config.flag("mlp_bias", false));
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 8192, 0);
  setWindows(
      decoder,
      slidingLayers(config, decoder, [](int64_t layer, int64_t every) { return layer % every != 0; }, 4), window);
  if (!config.child("rope_parameters") && !config.child("rope_scaling"))
    config.set("rope_parameters", {{"rope_type", "llama3"},
                                   {"rope_theta", 1000000.0},
                                   {"factor", 16.0},
                                   {"high_freq_factor", 4.0},
                                   {"low_freq_factor", 1.0},
                                   {"original_max_position_embeddings", 8192}});
  decoder.ropes = {readRope(config, ropeContext(decoder, 1000000))};
}

void setExaoneAttention(Config &config, Decoder &decoder) {
  std::optional<int64_t> window = config.optionalInteger("sliding_window", 4096);
  int64_t every = 0;
  if (!config.isNull("sliding_window_pattern") && window) {
    // The first releases wrote the pattern of four layers as letters.
    bool isText = config.isText("sliding_window_pattern");
    every = isText ? int64_t(config.text("sliding_window_pattern", "LLLG").size())
                   : config.integer("sliding_window_pattern", 4, 0);
  }
  setWindows(decoder,
             slidingLayers(
                 config, decoder, [](int64_t layer, int64_t n) { return n > 0 && (layer + 1) % n != 0; }, every),
             window);
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.rope = !window || layer.isSliding ? 0 : -1;
  }
}

/// Norms of results.
void fillExaone4(Config &config, Decoder &decoder) {
  readCommon(config, decoder, {.vocabulary = 102400, .width = 16384, .keyHeads = 32, .epsilon = 1e-5});
  if (decoder.layers.empty())
    return;
  decoder.names.attentionNorm = decoder.names.feedForwardNorm = "";
  decoder.names.afterAttentionNorm = "post_attention_layernorm";
  decoder.names.afterFeedForwardNorm = "post_feedforward_layernorm";
  setExaoneAttention(config, decoder);
}

/// EXAONE 3 and 3.5: Llama's blocks under GPT-2's names.
void fillExaone(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_layers", "num_hidden_layers"},
                       {"layer_norm_epsilon", "rms_norm_eps"},
                       {"activation_function", "hidden_act"}});
  Defaults defaults{.vocabulary = 102400, .width = 14336, .keyHeads = 8, .positions = 4096, .epsilon = 1e-5};
  defaults.padding = 0;
  readLlama(config, decoder, defaults, 500000);
  decoder.base = "transformer.";
  decoder.embedding = "wte";
  decoder.layersName = "h";
  decoder.finalNorm = "ln_f";
  BlockNames &names = decoder.names;
  names.attentionNorm = "ln_1";
  names.feedForwardNorm = "ln_2";
  names.attention = "attn.attention";
  names.output = "out_proj";
  names.gate = "c_fc_0";
  names.up = "c_fc_1";
  names.down = "c_proj";
}

void fillIQuestCoder(Config &config, Decoder &decoder) {
  config.require("clip_qkv", {nullptr});
  config.require("use_sliding_window", {false, nullptr});
  readLlama(config, decoder,
            {.vocabulary = 76800,
             .hidden = 5120,
             .width = 27648,
             .layers = 80,
             .heads = 40,
             .keyHeads = 8,
             .headWidth = 128,
             .positions = 131072,
             .epsilon = 1e-5},
            10000);
}

/// The language model of Emu3, whose vocabulary has the codes of images.
void fillEmu3(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 184622, .width = 14336, .keyHeads = 8, .positions = 9216, .epsilon = 1e-5};
  defaults.padding = 151643;
  readLlama(config, decoder, defaults, 1000000);
}

/// Apertus with the codes of images and sounds in its vocabulary; a head without their rows is not built.
void fillApertus15(Config &config, Decoder &decoder) {
  if (!config.has("vocab_size"))
    config.set("vocab_size", 266752);
  fillApertus(config, decoder);
  std::optional<int64_t> rows = config.optionalInteger("output_vocab_size", std::nullopt);
  if (rows && *rows != decoder.vocabulary)
    config.fail(config.describe("output_vocab_size") + ", but vocab_size is " + std::to_string(decoder.vocabulary) +
                ": ztc builds heads with a row for each token only");
}

} // namespace ztc::huggingface
