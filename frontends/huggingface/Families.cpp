#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Folder.h"
#include <algorithm>

namespace ztc::huggingface {

static constexpr Family kFamilies[] = {
    {"llama", fillLlama},
    {"qwen3", fillQwen3},
    {"qwen2", fillQwen2},
    {"gemma3_text", fillGemma3},
    {"gemma3n_text", fillGemma3n},
    {"gemma4_text", fillGemma4},
    {"gemma4_unified_text", fillGemma4Unified},
    {"mistral", fillMistral},
    {"phi3", fillPhi3},
    {"smollm3", fillSmolLm3},
    {"olmo2", fillOlmo2},
    {"olmo3", fillOlmo3},
    {"granite", fillGranite},
    {"gemma", fillGemma},
    {"gemma2", fillGemma2},
    {"ministral", fillMinistral},
    {"qwen2_vl_text", fillQwen2Vl},
    {"qwen2_5_vl_text", fillQwen2Vl},
    {"qwen2_vl", fillQwen2Vl},
    {"qwen2_5_vl", fillQwen2Vl},
    {"qwen3_vl_text", fillQwen3Vl},
    {"qwen3_moe", fillQwen3Moe},
    {"mixtral", fillMixtral},
    {"gpt2", fillGpt2},
    {"gpt_oss", fillGptOss},
    {"stablelm", fillStableLm},
    {"starcoder2", fillStarCoder2},
    {"nemotron", fillNemotron},
    {"olmo", fillOlmo},
    {"phi", fillPhi},
    {"cohere", fillCohere},
    {"cohere2", fillCohere2},
    {"glm", fillGlm},
    {"glm4", fillGlm4},
    {"glm4_moe", fillGlm4Moe},
    {"deepseek_v3", fillDeepSeekV3},
    {"deepseek_v2", fillDeepSeekV2},
    {"dots1", fillDots1},
    {"minicpm3", fillMiniCpm3},
    {"arcee", fillArcee},
    {"seed_oss", fillSeedOss},
    {"ernie4_5", fillErnie45},
    {"helium", fillHelium},
    {"hunyuan_v1_dense", fillHunyuan},
    {"internlm3", fillInternLm3},
    {"cwm", fillCwm},
    {"exaone4", fillExaone4},
    {"gpt_neox", fillGptNeox},
    {"gptj", fillGptJ},
    {"falcon", fillFalcon},
    {"bloom", fillBloom},
    {"opt", fillOpt},
    {"olmoe", fillOlmoE},
    {"qwen2_moe", fillQwen2Moe},
    {"granitemoe", fillGraniteMoe},
    {"gpt_bigcode", fillGptBigCode},
    {"ministral3", fillMinistral3},
    {"apertus", fillApertus},
    {"nanochat", fillNanoChat},
    {"ernie4_5_moe", fillErnie45Moe},
    {"hunyuan_v1_moe", fillHunyuanMoe},
    {"granitemoeshared", fillGraniteMoeShared},
    {"minimax_m2", fillMiniMaxM2},
    {"glm4_moe_lite", fillGlm4MoeLite},
    {"flex_olmo", fillFlexOlmo},
    {"qwen3_vl_moe_text", fillQwen3VlMoe},
    {"vaultgemma", fillVaultGemma},
    {"jais2", fillJais2},
    {"mpt", fillMpt},
    {"persimmon", fillPersimmon},
    {"gpt_neo", fillGptNeo},
    {"codegen", fillCodeGen},
    {"xglm", fillXglm},
    {"biogpt", fillBioGpt},
    {"llama4_text", fillLlama4},
    {"phimoe", fillPhiMoe},
    {"exaone_moe", fillExaoneMoe},
    {"afmoe", fillAfMoe},
    {"solar_open", fillSolarOpen},
    {"youtu", fillYoutu},
    {"hyperclovax", fillHyperClovaX},
    {"granite_swa", fillGraniteSwa},
    {"granitemoe_swa", fillGraniteMoeSwa},
    {"mellum", fillMellum},
    {"laguna", fillLaguna},
    {"mimo_v2_flash", fillMimoV2Flash},
    {"hy_v3", fillHyV3},
    {"cohere2_moe", fillCohere2Moe},
    {"mistral4", fillMistral4},
    {"gpt_neox_japanese", fillGptNeoxJapanese},
    {"exaone", fillExaone},
    {"iquestcoder", fillIQuestCoder},
    {"emu3_text_model", fillEmu3},
    {"apertus1p5_text", fillApertus15},
    {"phi4_multimodal", fillPhi4Multimodal},
    {"sarvam_moe", fillSarvamMoe},
    {"sarvam_mla", fillSarvamMla},
    {"axk1", fillAxk1},
    {"aria_text", fillAriaText},
    {"dbrx", fillDbrx},
    {"openai-gpt", fillOpenAiGpt},
    {"ctrl", fillCtrl},
    {"modernbert-decoder", fillModernBert},
    {"cohere_compass_text", fillCohereCompass},
    {"flint", fillFlint},
    {"kolibri1", fillKolibri},
};

/// Layers that carry a state from token to token: gated DeltaNet, Mamba, convolutions, linear attention.
static constexpr const char *kHybrids[] = {
    "qwen3_next",
    "qwen3_5",
    "qwen3_5_text",
    "qwen3_5_moe",
    "qwen3_5_moe_text",
    "jamba",
    "bamba",
    "falcon_h1",
    "granitemoehybrid",
    "zamba",
    "zamba2",
    "mamba",
    "mamba2",
    "falcon_mamba",
    "nemotron_h",
    "lfm2",
    "lfm2_moe",
    "minimax",
    "recurrent_gemma",
    "rwkv",
    "kimi_linear",
    "olmo_hybrid",
    "plamo2",
    "xlstm",
    "bailing_hybrid",
    "lara_mini",
    "lfm3",
    "qwen4_exp",
    "qwen4_exp_text",
    "zaya",
    "inkling_text",
    "inkling2_text",
    "inkling2_loop_text",
    "inkling_mm_model",
    "inkling2",
    "inkling2_loop",
};

/// Tokens see those after them.
static constexpr const char *kEncoders[] = {
    "bert",
    "roberta",
    "camembert",
    "xlm-roberta",
    "xlm-roberta-xl",
    "electra",
    "modernbert",
    "deberta",
    "deberta-v2",
    "albert",
    "distilbert",
    "mpnet",
    "ernie",
    "rembert",
    "big_bird",
    "roformer",
    "roc_bert",
    "xmod",
    "megatron-bert",
    "xlm",
    "data2vec-text",
    "bert-generation",
    "roberta-prelayernorm",
    "eurobert",
};

/// A decoder that reads an encoder's states.
static constexpr const char *kWithEncoders[] = {
    "t5",      "mt5",      "umt5",       "longt5",           "bart",       "mbart",
    "marian",  "pegasus",  "pegasus_x",  "plbart",           "mvp",        "led",
    "whisper", "trocr",    "blenderbot", "blenderbot-small", "prophetnet", "bigbird_pegasus",
    "m2m_100", "nllb-moe", "musicgen",   "musicgen_melody",  "t5gemma",    "t5gemma2",
    "mllama",
};

/// Others that people try.
struct Refused {
  const char *modelType, *why;
};
static constexpr Refused kRefused[] = {
    {"paligemma", "attends in both directions within a prompt, which ztc does not build"},
    {"gemma4_assistant", "reads the keys and values of another model, which ztc does not build"},
    {"gemma4_unified_assistant", "reads the keys and values of another model, which ztc does not build"},
    {"bitnet", "has weights of three values with scales of their own, which ztc does not build"},
    {"longcat_flash", "has experts that hand a token on as it is, beside two attentions a layer, which ztc does not "
                      "build"},
    {"deepseek_v32", "chooses the keys that a query sees, which ztc does not build"},
    {"glm_moe_dsa", "chooses the keys that a query sees, which ztc does not build"},
    {"minimax_m3_vl", "chooses the keys that a query sees, which ztc does not build"},
    {"minimax_m3_vl_text", "chooses the keys that a query sees, which ztc does not build"},
    {"jetmoe", "has experts in its attention, which ztc does not build"},
    {"csm", "predicts audio with two decoders, which ztc does not build"},
    {"moshi", "predicts audio with two decoders, which ztc does not build"},
    {"doge", "has attention with a learned dynamic mask, which ztc does not build"},
    {"diffllama", "subtracts one attention from another, which ztc does not build"},
    {"axk2", "chooses the keys that a query sees, which ztc does not build"},
    {"hy_v4", "chooses the keys that a query sees, which ztc does not build"},
    {"dots3_note", "chooses the keys that a query sees, which ztc does not build"},
    {"dots3_note_text", "chooses the keys that a query sees, which ztc does not build"},
    {"deepseek_v4", "chooses the keys that a query sees, which ztc does not build"},
    {"hrm_text", "runs its layers several times over, which ztc does not build"},
    {"dory", "runs its layers several times over, which ztc does not build"},
    {"beam", "scales each residual by its depth, which ztc does not build"},
    {"blt", "joins bytes to patches of other lengths each time, which ztc does not build"},
    {"xlnet", "predicts tokens in orders that are drawn, which ztc does not build"},
    {"reformer", "attends by hashes, which ztc does not build"},
    {"cpmant", "attends with learned distances within a prompt, which ztc does not build"},
};

/// Layers and experts are nodes of the graph: beyond this a configuration is damaged.
static constexpr int64_t kMostLayers = 2048, kMostExperts = 4096;

static constexpr Wrapper kWrappers[] = {
    {"gemma3", "gemma3_text", true},
    {"llama4", "llama4_text", false},
    {"mistral3", "mistral", true},
    {"llava", "llama", false},
    {"llava_next", "llama", false},
    {"llava_onevision", "qwen2", false},
    {"vipllava", "llama", false},
    {"idefics3", "llama", false},
    {"smolvlm", "llama", false},
    {"internvl", "qwen2", true},
    {"qwen2_vl", "qwen2_vl_text", false},
    {"qwen2_5_vl", "qwen2_5_vl_text", false},
    {"qwen3_vl", "qwen3_vl_text", false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", false},
    {"aya_vision", "cohere2", true},
    {"cohere2_vision", "cohere2", true},
    {"deepseek_vl", "llama", true},
    {"deepseek_vl_hybrid", "llama", true},
    {"exaone4_5", "exaone4", false},
    {"fast_vlm", "qwen2", false},
    {"got_ocr2", "qwen2", true},
    {"pp_chart2table", "qwen2", true},
    {"idefics2", "mistral", false},
    {"janus", "llama", true},
    {"kimi_k25", "deepseek_v3", true},
    {"lighton_ocr", "qwen3", true},
    {"llava_next_video", "llama", false},
    {"ovis2", "qwen2", true},
    {"perception_lm", "llama", false},
    {"qianfan_ocr", "qwen3", false},
    {"shieldgemma2", "gemma3_text", true},
    {"video_llama_3", "qwen2", false},
    {"video_llava", "llama", false},
    {"hyperclovax_vision_v2", "hyperclovax", true, true},
    {"aria", "aria_text", false},
    {"emu3", "emu3_text_model", false},
    {"apertus1p5", "apertus1p5_text", false},
    {"cohere_compass", "cohere_compass_text", false},
    {"gemma3n", "gemma3n_text", true, true},
    {"gemma4", "gemma4_text", true, true},
    {"gemma4_unified", "gemma4_unified_text", true, true},
};

const Wrapper *findWrapper(const std::string &modelType) {
  for (const Wrapper &wrapper : kWrappers)
    if (modelType == wrapper.modelType)
      return &wrapper;
  return nullptr;
}

const Family *findFamily(const std::string &modelType) {
  for (const Family &family : kFamilies)
    if (modelType == family.modelType)
      return &family;
  return nullptr;
}

std::string familyNames() {
  std::string names;
  for (const Family &family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.modelType);
  return names;
}

std::string whyRefused(const std::string &modelType) {
  for (const char *hybrid : kHybrids)
    if (modelType == hybrid)
      return "has recurrent or convolutional layers (a hybrid or state-space model), which ztc does not build";
  for (const char *encoder : kEncoders)
    if (modelType == encoder)
      return "is an encoder, whose tokens see those after them, which ztc does not build";
  for (const char *decoder : kWithEncoders)
    if (modelType == decoder)
      return "has a decoder that attends to what an encoder gives, which ztc does not build";
  for (const Refused &refused : kRefused)
    if (modelType == refused.modelType)
      return refused.why;
  return "";
}

void readAliases(Config &config, std::initializer_list<std::pair<const char *, const char *>> aliases) {
  for (const auto &[other, own] : aliases)
    if (config.has(other) && !config.has(own))
      config.set(own, config.value(other));
}

/// Keys of transformers' base class and of generation; none of them reaches the mathematics of training.
void readBase(Config &config, Decoder &decoder) {
  config.harmless({"architectures",
                   "model_type",
                   "bos_token_id",
                   "eos_token_id",
                   "pad_token_id",
                   "sep_token_id",
                   "decoder_start_token_id",
                   "use_cache",
                   "transformers_version",
                   "torch_dtype",
                   "dtype",
                   "_name_or_path",
                   "name_or_path",
                   "output_hidden_states",
                   "output_attentions",
                   "return_dict",
                   "return_dict_in_generate",
                   "chunk_size_feed_forward",
                   "id2label",
                   "label2id",
                   "num_labels",
                   "problem_type",
                   "finetuning_task",
                   "task_specific_params",
                   "tokenizer_class",
                   "temperature",
                   "top_k",
                   "top_p",
                   "typical_p",
                   "max_length",
                   "min_length",
                   "do_sample",
                   "num_beams",
                   "num_beam_groups",
                   "diversity_penalty",
                   "repetition_penalty",
                   "length_penalty",
                   "no_repeat_ngram_size",
                   "encoder_no_repeat_ngram_size",
                   "bad_words_ids",
                   "num_return_sequences",
                   "output_scores",
                   "forced_bos_token_id",
                   "forced_eos_token_id",
                   "remove_invalid_values",
                   "exponential_decay_length_penalty",
                   "suppress_tokens",
                   "begin_suppress_tokens",
                   "early_stopping",
                   "prefix",
                   "torchscript",
                   "tf_legacy_loss",
                   "use_bfloat16",
                   "gradient_checkpointing",
                   "tie_last_hidden_states",
                   "_attn_implementation",
                   "attn_implementation",
                   "experts_implementation",
                   "_attn_implementation_autoset",
                   "cache_implementation",
                   "auto_map",
                   "quantization_config",
                   "pretraining_tp",
                   "is_decoder",
                   "tie_encoder_decoder",
                   "cross_attention_hidden_size",
                   "unsloth_fixed",
                   "unsloth_version",
                   "use_flash_attn",
                   "attention_window_size"});
  config.require("is_encoder_decoder", {false, nullptr});
  config.require("add_cross_attention", {false, nullptr});
  config.require("pruned_heads", {nlohmann::json::object(), nullptr});
  config.require("per_layer_config", {nullptr, nlohmann::json::object()});
  noteDropout(config, decoder,
              {"attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout", "attn_dropout",
               "resid_dropout", "embed_dropout", "residual_dropout", "embedding_dropout"});
  decoder.initializerRange = config.optionalNumber("initializer_range", 0.02).value_or(0.02);
  if (decoder.initializerRange < 0)
    config.fail(config.describe("initializer_range") + ", which is below 0");
}

int64_t layerCount(Config &config, const char *key, int64_t otherwise) {
  int64_t layers = config.integer(key, otherwise);
  if (layers > kMostLayers)
    config.fail(config.describe(key) + "; ztc builds " + std::to_string(kMostLayers) + " at most");
  return layers;
}

void readCommon(Config &config, Decoder &decoder, const Defaults &d) {
  readBase(config, decoder);
  decoder.vocabulary = config.integer("vocab_size", d.vocabulary);
  decoder.hidden = config.integer("hidden_size", d.hidden);
  decoder.positionLimit = config.integer("max_position_embeddings", d.positions);
  decoder.isTied = config.flag("tie_word_embeddings", d.isTied);
  decoder.padding = config.optionalInteger("pad_token_id", d.padding, INT64_C(-1) << 40);
  decoder.norm.epsilon = config.number(d.epsilonKey, d.epsilon);
  if (decoder.norm.epsilon < 0)
    config.fail(config.describe(d.epsilonKey) + ", which is below 0");
  Layer layer;
  Attention &attention = layer.attention;
  attention.heads = config.integer("num_attention_heads", d.heads);
  std::optional<int64_t> keyHeads =
      config.optionalInteger("num_key_value_heads", d.keyHeads ? std::optional(d.keyHeads) : std::nullopt);
  attention.keyHeads = keyHeads.value_or(attention.heads);
  std::optional<int64_t> width =
      config.optionalInteger("head_dim", d.headWidth ? std::optional(d.headWidth) : std::nullopt);
  attention.headWidth = width.value_or(decoder.hidden / attention.heads);
  attention.scale = 1 / std::sqrt(double(attention.headWidth));
  layer.feedForward.width = config.integer("intermediate_size", d.width);
  layer.feedForward.activation = activationOf(config, d.activationKey, config.text(d.activationKey, d.activation));
  int64_t layers = layerCount(config, "num_hidden_layers", d.layers);
  if (attention.heads % attention.keyHeads || attention.headWidth < 1)
    config.fail("num_attention_heads " + std::to_string(attention.heads) + ", num_key_value_heads " +
                std::to_string(attention.keyHeads) + " and heads of " + std::to_string(attention.headWidth) +
                " do not fit each other");
  if (config.status().isOk())
    decoder.layers.assign(layers, layer);
}

RopeContext ropeContext(const Decoder &decoder, double theta) {
  RopeContext context;
  context.headWidth = decoder.layers.empty() ? 0 : decoder.layers.front().attention.headWidth;
  context.positions = decoder.positionLimit;
  context.theta = theta;
  return context;
}

std::vector<bool> layersOfType(Config &config, const Decoder &decoder, const char *key, const std::string &type,
                               const std::string &other, const std::function<bool(int64_t)> &isOtherwise) {
  const std::vector<std::string> types = config.texts(key);
  std::vector<bool> result;
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    result.push_back(types.empty() ? isOtherwise(int64_t(i)) : i < types.size() && types[i] == type);
  for (const std::string &each : types)
    if (each != type && each != other)
      config.fail(std::string(key) + " has '" + each + "'; ztc builds " + other + " and " + type +
                  " of this model type");
  if (!types.empty() && types.size() != decoder.layers.size())
    config.fail(std::string(key) + " has " + std::to_string(types.size()) + " entries for " +
                std::to_string(decoder.layers.size()) + " layers");
  return result;
}

std::vector<bool> slidingLayers(Config &config, const Decoder &decoder, bool (*isSliding)(int64_t, int64_t),
                                int64_t interval) {
  return layersOfType(config, decoder, "layer_types", "sliding_attention", "full_attention",
                      [&](int64_t layer) { return isSliding(layer, interval); });
}

std::vector<Rope> readRopesPerLayerType(Config &config, Decoder &decoder, double fullTheta, const char *slidingKey,
                                        double slidingTheta) {
  std::optional<Config> all = config.child("rope_parameters"), scaling = config.child("rope_scaling");
  std::optional<Config> full = all ? all->child("full_attention") : std::nullopt,
                        sliding = all ? all->child("sliding_attention") : std::nullopt;
  // transformers reads a kind per layer type only, and version 4's keys where there is none.
  if (all && !full && !sliding)
    config.fail("rope_parameters has neither full_attention nor sliding_attention");
  if (all)
    config.adopt(*all);
  if (scaling)
    full = scaling;
  RopeContext context = ropeContext(decoder, config.optionalNumber("rope_theta", fullTheta).value_or(fullTheta));
  RopeContext local = context;
  for (const Layer &layer : decoder.layers) // where their heads differ
    (layer.isSliding ? local : context).headWidth = layer.attention.headWidth;
  context.partialFactor = local.partialFactor = config.optionalNumber("partial_rotary_factor", 1.0).value_or(1);
  // Version 5 gives it the default also where rope_theta is there.
  local.theta = slidingKey ? config.optionalNumber(slidingKey, slidingTheta).value_or(slidingTheta) : slidingTheta;
  std::vector<Rope> ropes{ropeOf(config, full, context, true), ropeOf(config, sliding, local, true)};
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    decoder.layers[i].rope = decoder.layers[i].isSliding ? 1 : 0;
  return ropes;
}

void setBiases(Decoder &decoder, bool query, bool output, bool feedForward) {
  for (Layer &layer : decoder.layers) {
    layer.attention.queryBias = query;
    layer.attention.outputBias = output;
    layer.feedForward.bias = feedForward;
  }
}

void setWindows(Decoder &decoder, const std::vector<bool> &sliding, std::optional<int64_t> window) {
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    decoder.layers[i].isSliding = sliding[i];
    decoder.layers[i].window = sliding[i] ? window.value_or(0) : 0;
  }
}

void setNeededWindows(Config &config, Decoder &decoder, const std::vector<bool> &sliding, std::optional<int64_t> window,
                      const char *key) {
  setWindows(decoder, sliding, window);
  if (!window.value_or(0) && std::find(sliding.begin(), sliding.end(), true) != sliding.end())
    config.fail("layer_types has 'sliding_attention', and " + config.describe(key) +
                ", where transformers fails: write 'full_attention' for layers without a window");
}

void makeParallel(Decoder &decoder) {
  decoder.isParallel = true;
  decoder.names.feedForwardNorm = "";
}

void noteDropout(Config &config, Decoder &decoder, std::initializer_list<const char *> keys) {
  for (const char *key : keys)
    if (config.optionalNumber(key, 0.0).value_or(0) != 0)
      decoder.notes.push_back(config.describe(key) + ": ztc trains without dropout");
}

void setBartNames(BlockNames &names) {
  names.attentionNorm = "self_attn_layer_norm";
  names.feedForwardNorm = "final_layer_norm";
  names.output = "out_proj";
  names.feedForward = "";
  names.up = "fc1";
  names.down = "fc2";
}

std::vector<double> alibiSlopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads)
    power *= 2;
  std::vector<double> result;
  for (int64_t i = 1; i <= power; ++i)
    result.push_back(std::pow(2, -8.0 * double(i) / double(power)));
  for (int64_t i = 1; int64_t(result.size()) < heads; i += 2)
    result.push_back(std::pow(2, -4.0 * double(i) / double(power)));
  return result;
}

std::optional<double> softCap(Config &config, const char *key, std::optional<double> otherwise) {
  std::optional<double> cap = config.optionalNumber(key, otherwise);
  return cap && *cap ? cap : std::nullopt;
}

void setExperts(Config &config, Decoder &decoder, const Experts &experts, int64_t width,
                const std::function<bool(int64_t)> &isDense) {
  if (!experts.count)
    return;
  if (experts.perToken > experts.count)
    config.fail(std::to_string(experts.perToken) + " experts per token of " + std::to_string(experts.count));
  if (experts.count > kMostExperts)
    config.fail(std::to_string(experts.count) + " experts; ztc builds " + std::to_string(kMostExperts) + " at most");
  for (size_t i = 0; i < decoder.layers.size() && config.status().isOk(); ++i) {
    FeedForward &feedForward = decoder.layers[i].feedForward;
    if (isDense(int64_t(i)))
      continue;
    if (feedForward.activation == Activation::Xielu)
      config.fail("experts with the activation 'xielu' are not built");
    feedForward.experts = experts;
    feedForward.width = width;
  }
}

void readRouterNoise(Config &config, Decoder &decoder) {
  if (config.optionalNumber("router_jitter_noise", 0.0).value_or(0) != 0)
    decoder.notes.push_back(config.describe("router_jitter_noise") + ": ztc trains without this noise");
}

void readRouterLoss(Config &config, Decoder &decoder) {
  config.harmless({"router_aux_loss_coef"});
  if (config.flag("output_router_logits", false))
    decoder.notes.push_back("output_router_logits is true: ztc does not train the loss that balances the router");
}

} // namespace ztc::huggingface
