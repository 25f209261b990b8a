// Mamba 2: Granite 4, Bamba and Falcon-H1 (attention in some layers, or beside the state space model in all),
// Nemotron-H (one of four parts in each layer), Zamba2 (blocks that layers share), Mamba 2 itself.
#include "frontends/huggingface/Families.h"
#include <cmath>
#include <limits>

namespace ztc::huggingface {
namespace {

using Json = nlohmann::json;
using Halves = Layer::Halves;

/// A number, or what stands for an infinite one.
std::optional<double> limitOf(const Json &value) {
  if (value.is_number())
    return value.get<double>();
  const bool isNamed = value.is_object() && value.contains("__float__") && value["__float__"].is_string();
  if (isNamed && value["__float__"] == "Infinity")
    return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

/// time_step_limit, two numbers that steps are clamped to.
void readStepLimit(Config &config, StateSpace &space) {
  const Json limits = config.value("time_step_limit");
  if (limits.is_null())
    return;
  const std::optional<double> least = limits.is_array() && limits.size() == 2 ? limitOf(limits[0]) : std::nullopt,
                              most = least ? limitOf(limits[1]) : std::nullopt;
  if (!most || *least < 0 || *most < *least || std::isinf(*least))
    return config.fail(config.describe("time_step_limit") + ", which are not two numbers from 0 on in order");
  space.leastStep = *least;
  if (!std::isinf(*most))
    space.mostStep = most;
}

/// Heads have `inner` elements together and share `groups` of B and C.
void checkStateSpace(Config &config, const StateSpace &space, int64_t inner) {
  if (space.heads * space.headWidth != inner || space.heads % space.groups || inner % space.normGroups)
    config.fail(std::to_string(space.heads) + " heads of " + std::to_string(space.headWidth) + " in " +
                std::to_string(space.groups) + " groups do not fit a state space model of width " +
                std::to_string(inner));
}

/// Keys that Granite 4, Bamba and Falcon-H1 have in common. `inner`: the width of all heads, 0: mamba_expand times the
/// hidden size.
StateSpace readStateSpace(Config &config, const Decoder &decoder, int64_t inner = 0) {
  StateSpace space;
  const int64_t expanded = config.integer("mamba_expand", 2) * decoder.hidden;
  inner = inner ? inner : expanded;
  space.heads = config.integer("mamba_n_heads", 128);
  space.headWidth = inner / space.heads;
  if (!config.isText("mamba_d_head")) // "auto"
    space.headWidth = config.optionalInteger("mamba_d_head", space.headWidth).value_or(space.headWidth);
  space.groups = space.normGroups = config.integer("mamba_n_groups", 1);
  space.stateWidth = config.integer("mamba_d_state", 256);
  space.taps = config.integer("mamba_d_conv", 4);
  space.convolutionBias = config.flag("mamba_conv_bias", true);
  space.bias = space.outputBias = config.flag("mamba_proj_bias", false);
  space.epsilon = decoder.norm.epsilon;
  space.activation = decoder.layers.front().feedForward.activation;
  readStepLimit(config, space);
  config.harmless({"mamba_chunk_size", "num_logits_to_keep"});
  checkStateSpace(config, space, inner);
  return space;
}

constexpr FreshValues::Kind kLogCount = FreshValues::Kind::LogCount, kConstant = FreshValues::Kind::Constant;

/// Which layers attend; the names of version 4 are other ones.
std::vector<bool> attendingLayers(Config &config, const Decoder &decoder, const std::function<bool(int64_t)> &attends) {
  readAliases(config, {{"layers_block_type", "layer_types"}});
  Json types = config.value("layer_types");
  if (types.is_array())
    for (Json &type : types)
      type = type == "mamba" ? Json("linear_attention") : type == "attention" ? Json("full_attention") : type;
  config.set("layer_types", types);
  return layersOfType(config, decoder, "layer_types", "full_attention", "linear_attention", attends);
}

/// Norms, feed-forward and last norm by the names that Bamba and Falcon-H1 have for them.
void setBambaNames(Decoder &decoder) {
  decoder.finalNorm = "final_layernorm";
  decoder.names.feedForward = "feed_forward";
  decoder.names.feedForwardNorm = "pre_ff_layernorm";
}

Defaults bambaDefaults(int64_t positions) {
  Defaults defaults{.vocabulary = 128000, .width = 14336, .keyHeads = 8, .positions = positions, .epsilon = 1e-5};
  defaults.padding = 0;
  return defaults;
}

/// One multiplier for each of so many parts.
std::vector<double> multipliers(Config &config, const char *key, size_t parts) {
  std::vector<double> numbers = config.numbers(key);
  if (!numbers.empty() && numbers.size() != parts)
    config.fail(config.describe(key) + "; there are " + std::to_string(parts) + " of them");
  return numbers;
}

} // namespace

FreshValues freshSteps(Config &config, const std::array<const char *, 3> &keys) {
  static constexpr double kDefaults[] = {0.001, 0.1, 0.0001};
  FreshValues steps{"dt_bias", FreshValues::Kind::Step, {}};
  for (size_t i = 0; i < keys.size(); ++i) {
    steps.numbers.push_back(config.number(keys[i], kDefaults[i]));
    if (steps.numbers.back() <= 0)
      config.fail(config.describe(keys[i]) + "; steps are above 0");
  }
  return steps;
}

FreshValues freshUniform(const char *name, int64_t in, double divisor) {
  const double bound = 1 / std::sqrt(double(in)) / divisor;
  return {name, FreshValues::Kind::Uniform, {-bound, bound}};
}

/// Granite's multipliers and mixture of experts; a configuration without experts has the shared feed-forward alone.
void fillGraniteMoeHybrid(Config &config, Decoder &decoder) {
  const bool rotates = config.isText("position_embedding_type") && config.text("position_embedding_type", "") == "rope",
             isDense = config.optionalInteger("num_local_experts", 8, 0).value_or(0) == 0;
  config.set("position_embedding_type", "rope"); // which Granite's mixtures without state space models must have
  if (isDense) {
    fillGranite(config, decoder);
    config.harmless({"num_experts_per_tok", "router_aux_loss_coef", "output_router_logits"});
  } else {
    fillGraniteMoeShared(config, decoder);
  }
  if (decoder.layers.empty())
    return;
  const int64_t width = config.integer("shared_intermediate_size", 1024);
  BlockNames &names = decoder.names;
  if (isDense) {
    names.feedForward = "shared_mlp";
    names.fusedGate = "input_linear";
    names.down = "output_linear";
  }
  decoder.fresh = {{"A_log", kLogCount, {}}, {"dt_bias", kConstant, {1}}};
  const StateSpace space = readStateSpace(config, decoder);
  const std::vector<bool> attends = attendingLayers(config, decoder, [](int64_t) { return false; });
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Layer &layer = decoder.layers[i];
    if (!attends[i])
      layer.stateSpace = space;
    if (!rotates)
      layer.rope = -1;
    layer.feedForward.isFused = true;
    if (layer.feedForward.experts)
      layer.feedForward.experts->sharedWidth = width;
    else
      layer.feedForward.width = width;
    layer.feedForward.bias = false;
  }
}

void fillBamba(Config &config, Decoder &decoder) {
  readCommon(config, decoder, bambaDefaults(262144));
  if (decoder.layers.empty())
    return;
  const bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  config.set("partial_rotary_factor", 0.5); // whatever the key says
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  if (config.optionalNumber("z_loss_coefficient", 0.0).value_or(0) != 0)
    decoder.notes.push_back(config.describe("z_loss_coefficient") + ": ztc does not train this loss of the logits");
  decoder.fresh = {{"A_log", kLogCount, {}}, {"dt_bias", kConstant, {1}}};
  const StateSpace space = readStateSpace(config, decoder);
  const std::vector<int64_t> attends = config.integers("attn_layer_indices").value_or(std::vector<int64_t>());
  config.harmless({"layer_types", "layers_block_type"}); // transformers makes them of attn_layer_indices
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    if (std::find(attends.begin(), attends.end(), int64_t(i)) == attends.end())
      decoder.layers[i].stateSpace = space;
  setBambaNames(decoder);
}

/// Attention and the state space model read the same input in each layer; multipliers nearly everywhere.
void fillFalconH1(Config &config, Decoder &decoder) {
  readCommon(config, decoder, bambaDefaults(8192));
  if (decoder.layers.empty())
    return;
  const bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  decoder.fresh = {{"A_log", kLogCount, {}}, {"dt_bias", kConstant, {1}}};
  StateSpace space = readStateSpace(config, decoder, config.optionalInteger("mamba_d_ssm", 1024).value_or(0));
  const bool hasNorm = config.flag("mamba_rms_norm", false), isAfter = config.flag("mamba_norm_before_gate", true);
  space.gate = !hasNorm  ? StateSpace::Gate::Alone
               : isAfter ? StateSpace::Gate::AfterNorm
                         : StateSpace::Gate::BeforeNorm;
  space.outputBias = config.flag("projectors_bias", false);
  space.inputScale = config.number("ssm_in_multiplier", 1);
  space.resultScale = config.number("ssm_out_multiplier", 1);
  space.scales = multipliers(config, "ssm_multipliers", 5);
  const std::vector<double> feedForward = multipliers(config, "mlp_multipliers", 2);
  config.harmless({"layer_types", "layers_block_type"}); // "hybrid", all of them
  const double keyScale = config.number("key_multiplier", 1), inputScale = config.number("attention_in_multiplier", 1),
               resultScale = config.number("attention_out_multiplier", 1);
  for (Layer &layer : decoder.layers) {
    layer.stateSpace = space;
    layer.attendsToo = true;
    layer.attention.keyScale = keyScale;
    layer.attention.inputScale = inputScale;
    layer.attention.resultScale = resultScale;
    if (feedForward.size() == 2) {
      layer.feedForward.gateScale = feedForward[0];
      layer.feedForward.resultScale = feedForward[1];
    }
  }
  decoder.embeddingScale = config.number("embedding_multiplier", 1);
  decoder.logitScale = config.number("lm_head_multiplier", 1);
  setBambaNames(decoder);
}

/// Layers of Nemotron-H: a list of names, or a text with a letter for each.
static std::vector<std::string> partsOf(Config &config) {
  readAliases(config, {{"layer_types", "layers_block_type"}});
  std::vector<std::string> parts = config.texts("layers_block_type");
  const std::string pattern =
      config.isText("hybrid_override_pattern") ? config.text("hybrid_override_pattern", "") : std::string();
  if (!parts.empty())
    return parts;
  if (pattern.empty())
    return {"linear_attention", "moe", "full_attention", "mlp"};
  for (char letter : pattern)
    parts.push_back(letter == 'M'   ? "mamba"
                    : letter == 'E' ? "moe"
                    : letter == '*' ? "attention"
                    : letter == '-' ? "mlp"
                                    : std::string(1, letter));
  return parts;
}

static StateSpace readNemotronSpace(Config &config, Decoder &decoder) {
  StateSpace space;
  space.heads = config.integer("mamba_num_heads", 128);
  space.headWidth = config.integer("mamba_head_dim", 64);
  space.groups = space.normGroups = config.integer(config.firstOf({"mamba_n_groups", "n_groups"}), 8);
  space.stateWidth = config.integer("ssm_state_size", 128);
  space.taps = config.integer(config.firstOf({"mamba_d_conv", "conv_kernel"}), 4);
  space.convolutionBias = config.flag(config.firstOf({"mamba_conv_bias", "use_conv_bias"}), true);
  space.bias = space.outputBias = config.flag("use_bias", false);
  space.activation = activationOf(config, "mamba_hidden_act", config.text("mamba_hidden_act", "silu"));
  space.leastStep = config.number(config.firstOf({"mamba_dt_min", "time_step_min"}), 0.001);
  space.epsilon = decoder.norm.epsilon;
  config.harmless({"time_step_limit", "mamba_dt_limit", "chunk_size", "mamba_chunk_size", "expand", "mamba_expand",
                   "mamba_proj_bias", "mamba_ssm_cache_dtype", "use_mamba_kernels", "residual_in_fp32"});
  checkStateSpace(config, space, space.heads * space.headWidth);
  decoder.fresh = {{"A_log", kLogCount, {}},
                   freshSteps(config, {config.firstOf({"mamba_dt_min", "time_step_min"}),
                                       config.firstOf({"mamba_dt_max", "time_step_max"}),
                                       config.firstOf({"mamba_dt_init_floor", "time_step_floor"})})};
  if (config.flag("rescale_prenorm_residual", true))
    decoder.fresh.push_back(
        freshUniform("out_proj.weight", space.heads * space.headWidth, std::sqrt(double(decoder.layers.size()))));
  return space;
}

/// Experts without gates, which DeepSeek-V3's router chooses.
static void setNemotronExperts(Config &config, Decoder &decoder, const std::vector<bool> &dense) {
  if (!config.has("moe_intermediate_size"))
    config.set("moe_intermediate_size", 7688);
  const int64_t shared = config.integer("moe_shared_expert_intermediate_size", 7688);
  setDeepSeekExperts(config, decoder, {.count = 8, .perToken = 2, .normalised = true},
                     {.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-20, .hasChoiceBias = true},
                     dense);
  const int64_t narrow = config.optionalInteger("moe_latent_size", std::nullopt).value_or(0);
  for (Layer &layer : decoder.layers)
    if (std::optional<Experts> &experts = layer.feedForward.experts) {
      experts->sharedWidth = shared;
      experts->narrowWidth = narrow;
      experts->narrowBias = layer.feedForward.bias;
    }
  config.harmless({"n_shared_experts", "moe_shared_expert_overlap"});
}

/// Each layer is one of four parts: a state space model, attention without positions, a feed-forward without a gate,
/// experts.
void fillNemotronH(Config &config, Decoder &decoder) {
  const std::vector<std::string> parts = partsOf(config);
  config.set("num_hidden_layers", parts.size());
  Defaults defaults{.vocabulary = 131072,
                    .width = 21504,
                    .keyHeads = 8,
                    .headWidth = 128,
                    .positions = 4096,
                    .epsilon = 1e-5,
                    .epsilonKey = "layer_norm_epsilon",
                    .activationKey = "mlp_hidden_act",
                    .activation = "relu2"};
  config.require("tie_word_embeddings", {false, nullptr});
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.padding = std::nullopt;
  config.harmless({"sliding_window", "num_logits_to_keep", "attention_bias", "num_nextn_predict_layers",
                   "mtp_layers_block_type", "mtp_hybrid_override_pattern"});
  setBiases(decoder, false, false, config.flag("mlp_bias", false));
  const StateSpace space = readNemotronSpace(config, decoder);
  std::vector<bool> dense;
  for (size_t i = 0; i < parts.size(); ++i) {
    Layer &layer = decoder.layers[i];
    const std::string &part = parts[i];
    const bool isSpace = part == "mamba" || part == "linear_attention",
               attends = part == "attention" || part == "full_attention";
    layer.rope = -1;
    layer.feedForward.isGated = false;
    layer.halves = isSpace || attends ? Halves::First : Halves::Second;
    if (isSpace)
      layer.stateSpace = space;
    dense.push_back(part != "moe");
    if (!isSpace && !attends && part != "moe" && part != "mlp")
      config.fail("layer " + std::to_string(i) + " is '" + part +
                  "'; ztc builds mamba, attention, mlp and moe of "
                  "this model type");
  }
  setNemotronExperts(config, decoder, dense);
  decoder.base = "backbone.";
  decoder.embedding = "embeddings";
  decoder.finalNorm = "norm_f";
  BlockNames &names = decoder.names;
  names.attentionNorm = "norm";
  names.attention = names.stateSpace = names.feedForward = "mixer";
}

/// Where no key says it.
static std::vector<std::string> zamba2Layers() {
  std::vector<std::string> types(54, "linear_attention");
  for (int layer : {6, 12, 18, 24, 30, 36, 42, 47, 51})
    types[layer] = "hybrid";
  return types;
}

static StateSpace readZamba2Space(Config &config, Decoder &decoder) {
  StateSpace space;
  const int64_t inner = int64_t(config.number("mamba_expand", 2) * double(decoder.hidden));
  space.heads = config.integer("n_mamba_heads", 8);
  space.headWidth = inner / space.heads;
  space.groups = space.normGroups = config.integer("mamba_ngroups", 1);
  space.stateWidth = config.integer("mamba_d_state", 64);
  space.taps = config.integer("mamba_d_conv", 4);
  space.bias = space.outputBias = config.flag("add_bias_linear", false);
  space.leastStep = config.number("time_step_min", 0.001);
  space.epsilon = 1e-5; // not the configuration's
  config.harmless({"use_conv_bias", "chunk_size", "use_mamba_kernels", "use_mem_eff_path", "mamba_headdim"});
  checkStateSpace(config, space, inner);
  decoder.fresh = {{"A_log", kLogCount, {}}, freshSteps(config, {"time_step_min", "time_step_max", "time_step_floor"})};
  return space;
}

/// State space models; in some layers, before them, one of a few blocks of attention and a feed-forward in turn.
void fillZamba2(Config &config, Decoder &decoder) {
  readAliases(config, {{"layer_types", "layers_block_type"}});
  std::vector<std::string> types = config.texts("layers_block_type");
  if (types.empty())
    types = zamba2Layers();
  const int64_t hidden = config.integer("hidden_size", 2560), heads = config.integer("num_attention_heads", 32);
  if (2 * hidden % heads)
    config.fail("num_attention_heads " + std::to_string(heads) + " do not share twice the hidden_size " +
                std::to_string(hidden) + " evenly");
  if (config.integer("num_hidden_layers", int64_t(types.size())) != int64_t(types.size()))
    config.fail(config.describe("num_hidden_layers") + ", but layers_block_type has " + std::to_string(types.size()) +
                " entries");
  // transformers makes these of others, whatever stands there.
  config.set("num_hidden_layers", types.size());
  config.set("head_dim", std::max<int64_t>(2 * hidden / heads, 1));
  config.harmless({"attention_head_dim", "attention_hidden_size", "kv_channels", "num_query_groups", "hybrid_layer_ids",
                   "num_logits_to_keep"});
  if (config.isNull("intermediate_size") || !config.has("intermediate_size"))
    config.set("intermediate_size", 4 * hidden);
  Defaults defaults{
      .hidden = 2560, .heads = 32, .positions = 4096, .epsilon = 1e-5, .activation = "gelu", .isTied = true};
  defaults.padding = 0;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.require("use_long_context", {false, nullptr});
  config.require("tie_word_embeddings", {true}); // else transformers 5 does not tie the blocks, as version 4 did
  const bool turns = config.flag("use_mem_rope", false),
             hasAdapters = config.flag("use_shared_attention_adapter", false);
  if (turns)
    decoder.ropes = {readRope(config, ropeContext(decoder, 10000))};
  else
    config.harmless({"rope_parameters", "rope_theta", "rope_scaling"});
  const StateSpace space = readZamba2Space(config, decoder);
  const int64_t blocks = config.integer("num_mem_blocks", 1), rank = config.integer("adapter_rank", 128);
  std::vector<int64_t> shared;
  for (size_t i = 0; i < types.size(); ++i) {
    Layer &layer = decoder.layers[i];
    layer.halves = Halves::First;
    layer.stateSpace = space;
    layer.rope = turns ? 0 : -1;
    if (types[i] != "hybrid" && types[i] != "linear_attention" && types[i] != "mamba")
      config.fail("layer " + std::to_string(i) + " is '" + types[i] +
                  "'; ztc builds linear_attention and hybrid of this model type");
    if (types[i] != "hybrid")
      continue;
    const LowRank low{rank, int64_t(shared.size())};
    shared.push_back(low.use < blocks ? int64_t(i) : shared[size_t(low.use % blocks)]);
    layer.sharedBlock = shared.back();
    layer.attention.inputWidth = 2 * hidden;
    layer.attention.scale = 1 / std::sqrt(double(layer.attention.headWidth) / 2);
    if (hasAdapters)
      layer.attention.lowRank = low;
    layer.feedForward.isFused = true;
    layer.feedForward.bias = space.bias;
    layer.feedForward.lowRank = low;
  }
  if (hasAdapters && decoder.layers.front().attention.keyHeads != heads)
    config.fail(config.describe("num_key_value_heads") + "; use_shared_attention_adapter needs as many as heads");
  setBambaNames(decoder);
}

/// State space models alone.
void fillMamba2(Config &config, Decoder &decoder) {
  Layer layer = readStateSpaces(config, decoder, 32768, 4096, false);
  StateSpace &space = layer.stateSpace.emplace();
  space.heads = config.integer("num_heads", 128);
  space.headWidth = config.integer("head_dim", 64);
  space.groups = space.normGroups = config.integer("n_groups", 8);
  space.stateWidth = config.integer("state_size", 128);
  space.taps = config.integer("conv_kernel", 4);
  space.convolutionBias = config.flag("use_conv_bias", true);
  space.bias = space.outputBias = config.flag("use_bias", false);
  space.activation = activationOf(config, "hidden_act", config.text("hidden_act", "silu"));
  space.epsilon = decoder.norm.epsilon;
  readStepLimit(config, space);
  config.harmless({"residual_in_fp32", "time_step_rank", "chunk_size", "layer_types", "rms_norm"});
  checkStateSpace(config, space, config.integer("expand", 2) * decoder.hidden);
  const int64_t layers = layerCount(config, "num_hidden_layers", 64);
  if (!config.status().isOk())
    return;
  decoder.layers.assign(layers, layer);
  const bool isScaled = config.flag("rescale_prenorm_residual", false);
  decoder.fresh = {
      {"A_log", kLogCount, {}},
      freshSteps(config, {"time_step_min", "time_step_max", "time_step_floor"}),
      freshUniform("conv1d.weight", space.taps),
      freshUniform("out_proj.weight", space.heads * space.headWidth, isScaled ? std::sqrt(double(layers)) : 1)};
}

} // namespace ztc::huggingface
