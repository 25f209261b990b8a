// What several families share: keys of every configuration, types of layers, windows, biases, experts.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Layers and experts are nodes of the graph: beyond this a configuration is damaged.
static constexpr int64_t kMostLayers = 2048, kMostExperts = 4096;

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

void setCosmosNames(Decoder &decoder) {
  decoder.renamed = {{".q_proj.", ".to_q."},   {".k_proj.", ".to_k."},   {".v_proj.", ".to_v."},
                     {".o_proj.", ".to_out."}, {".q_norm.", ".norm_q."}, {".k_norm.", ".norm_k."},
                     {".up_proj.", ".fc1."},   {".down_proj.", ".fc2."}};
}

static std::optional<Config> ropeParameters(Config &config) {
  std::optional<Config> older = config.child("rope_scaling");
  return older ? older : config.child("rope_parameters");
}

void requireWholeHeads(Config &config) {
  config.require("partial_rotary_factor", {1, nullptr});
  if (std::optional<Config> parameters = ropeParameters(config)) {
    parameters->require("partial_rotary_factor", {1, nullptr});
    config.adopt(*parameters);
  }
}

void requireDefaultRope(Config &config) {
  std::optional<Config> parameters = ropeParameters(config);
  if (!parameters)
    return;
  const std::string type = parameters->text("rope_type", parameters->text("type", "default"));
  if (type != "default")
    config.fail("rotary embedding '" + type + "'; this model type has default only");
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
                const std::vector<bool> &dense) {
  setExperts(config, decoder, experts, width, [&](int64_t layer) { return bool(dense[size_t(layer)]); });
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

void readClampedGlu(Config &config, Decoder &decoder) {
  const ClampedGlu clamped{.limit = config.number("swiglu_limit", 7), .alpha = config.number("swiglu_alpha", 1.702)};
  if (clamped.limit <= 0)
    config.fail(config.describe("swiglu_limit") + ", which is not above 0");
  for (Layer &layer : decoder.layers)
    layer.feedForward.clamped = clamped;
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
