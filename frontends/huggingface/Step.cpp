// Step 3.5: Laguna's attention, with heads of queries by type of layer, and a mixture whose gates have limits by layer.
#include "frontends/huggingface/Families.h"
#include <sstream>

namespace ztc::huggingface {

/// Without the entries of layers that predict further tokens, which checkpoints have after the others.
static void dropLast(Config &config, std::initializer_list<const char *> keys, size_t layers, size_t more) {
  for (const char *key : keys)
    if (nlohmann::json list = config.value(key); more && list.is_array() && list.size() == layers + more) {
      list.erase(list.begin() + std::ptrdiff_t(layers), list.end());
      config.set(key, std::move(list));
    }
}

/// A number for each layer from the list `key`; null and 0: none.
static std::vector<double> limitsOf(Config &config, const char *key, size_t layers) {
  const nlohmann::json list = config.value(key);
  std::vector<double> limits(layers, 0);
  if (list.is_null() || (list.is_array() && list.empty()))
    return limits;
  if (!list.is_array() || list.size() < layers) {
    config.fail(config.describe(key) + ", for " + std::to_string(layers) + " layers");
    return limits;
  }
  for (size_t i = 0; i < layers; ++i) {
    if (list[i].is_null())
      continue;
    if (!list[i].is_number() || list[i].get<double>() < 0)
      config.fail(config.describe(key) + ", which is not a list of limits above 0");
    else
      limits[i] = list[i].get<double>();
  }
  return limits;
}

/// Mixtures by moe_layers_enum, numbers in a list or a text; without it all layers but the first three.
static std::function<bool(int64_t)> isDenseByNumbers(Config &config) {
  if (!config.has("moe_layers_enum") || config.isNull("moe_layers_enum"))
    return [](int64_t layer) { return layer < 3; };
  std::set<int64_t> mixtures;
  if (config.isText("moe_layers_enum")) {
    std::istringstream text(config.text("moe_layers_enum", ""));
    for (std::string number; std::getline(text, number, ',');) {
      std::istringstream one(number);
      int64_t layer;
      if (one >> layer)
        mixtures.insert(layer);
      else if (number.find_first_not_of(" \t\n") != std::string::npos)
        config.fail(config.describe("moe_layers_enum") + ", which are not numbers of layers");
    }
  } else {
    const std::vector<int64_t> numbers = config.integers("moe_layers_enum").value_or(std::vector<int64_t>());
    mixtures.insert(numbers.begin(), numbers.end());
  }
  return [mixtures](int64_t layer) { return !mixtures.count(layer); };
}

/// Heads of queries: per_layer_config says those of each layer that differs, else one number is that of all layers
/// with a window.
static void readHeads(Config &config, Decoder &decoder, const std::optional<nlohmann::json> &each) {
  std::optional<Config> old = config.child("attention_other_setting");
  const int64_t all = decoder.layers.front().attention.heads,
                other = old ? old->integer("num_attention_heads", all) : all,
                sliding = config.optionalInteger("num_sliding_attention_heads", std::nullopt).value_or(other);
  if (old) {
    old->harmless({"attention_type", "num_attention_groups", "head_dim", "true_head_dim"});
    config.adopt(*old);
  }
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    Attention &attention = decoder.layers[i].attention;
    if (!each) {
      attention.heads = decoder.layers[i].isSliding ? sliding : all;
    } else if (const std::string index = std::to_string(i); each->is_object() && each->contains(index)) {
      Config own((*each)[index], config.describe("per_layer_config"));
      attention.heads = own.integer("num_attention_heads", all);
      for (const std::string &key : own.unknownKeys())
        own.fail("layer " + index + " has a " + key + " of its own, which ztc does not build");
      config.adopt(own);
    }
    if (attention.heads % attention.keyHeads)
      config.fail("layer " + std::to_string(i) + " has " + std::to_string(attention.heads) +
                  " heads of queries, but num_key_value_heads is " + std::to_string(attention.keyHeads));
  }
}

/// rope_parameters of each type of layer; else rope_theta and partial_rotary_factors of the first layer of the type,
/// and for full attention rope_scaling.
static void readRopes(Config &config, Decoder &decoder) {
  const nlohmann::json given = config.value("rope_parameters"), scaling = config.value("rope_scaling"),
                       bases = config.value("rope_theta"), parts = config.value("partial_rotary_factors");
  const char *const types[] = {"full_attention", "sliding_attention"};
  std::optional<size_t> first[2];
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const int type = decoder.layers[i].isSliding;
    decoder.layers[i].rope = type;
    if (!first[type])
      first[type] = i;
  }
  bool isByType = given.is_object();
  for (int type = 0; type < 2 && isByType; ++type)
    isByType = !first[type] || (given.contains(types[type]) && given[types[type]].is_object());
  for (int type = 0; type < 2; ++type) {
    nlohmann::json own = nlohmann::json::object();
    if (first[type] && isByType) {
      own = given[types[type]];
    } else if (first[type]) {
      auto entry = [&](const nlohmann::json &list, const char *key) -> nlohmann::json {
        if (!list.is_array())
          return list;
        if (list.size() > *first[type])
          return list[*first[type]];
        config.fail(config.describe(key) + ", for " + std::to_string(decoder.layers.size()) + " layers");
        return nullptr;
      };
      own["rope_type"] = "default";
      if (nlohmann::json base = entry(bases, "rope_theta"); !base.is_null())
        own["rope_theta"] = base;
      if (!parts.is_null() && !(parts.is_array() && parts.empty()))
        own["partial_rotary_factor"] = entry(parts, "partial_rotary_factors");
      if (type == 0 && scaling.is_object())
        own.update(scaling);
    }
    decoder.ropes.push_back(ropeOf(config, Config(own, config.describe("rope_parameters")), ropeContext(decoder, 10000),
                                   /*isNested=*/true));
  }
}

void fillStep35(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"},
                       {"moe_num_experts", "n_routed_experts"},
                       {"num_attention_groups", "num_key_value_heads"},
                       {"moe_top_k", "num_experts_per_tok"},
                       {"share_expert_dims", "share_expert_dim"}});
  std::optional<nlohmann::json> each;
  if (config.has("per_layer_config"))
    each = config.value("per_layer_config");
  config.set("per_layer_config", nullptr);
  config.harmless({"hidden_act"}); // transformers passes over it
  config.set("hidden_act", "silu");
  Defaults defaults{.vocabulary = 128815,
                    .width = 11264,
                    .layers = 45,
                    .heads = 64,
                    .keyHeads = 8,
                    .headWidth = 128,
                    .positions = 128000,
                    .epsilon = 1e-5};
  defaults.padding = 1;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  const size_t layers = decoder.layers.size();
  decoder.norm.kind = NormKind::RmsPlusOne;
  config.harmless({"num_mtp_layers", "mtp_layer_types", "mtp_mlp_layer_types"});
  dropLast(config,
           {"layer_types", "mlp_layer_types", "swiglu_limits", "swiglu_limits_shared", "rope_theta",
            "partial_rotary_factors"},
           layers, size_t(config.integer("num_nextn_predict_layers", 0, 0)));
  const bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  const std::vector<bool> sliding = slidingLayers(config, decoder, [](int64_t, int64_t) { return false; }, 0);
  setNeededWindows(config, decoder, sliding, config.optionalInteger("sliding_window", std::nullopt));
  config.require("use_bidirectional_attention", {false, nullptr});
  config.require("gating", {true, "per-head"});
  readHeads(config, decoder, each);
  readRopes(config, decoder);
  const double width = double(decoder.layers.front().attention.headWidth),
               scalar = config.optionalNumber("query_pre_attn_scalar", width).value_or(width);
  if (scalar <= 0)
    config.fail(config.describe("query_pre_attn_scalar") + ", which is not above 0");
  for (Layer &layer : decoder.layers) {
    layer.attention.headNorms = HeadNorms::PerHead;
    layer.attention.outputGate = OutputGate::SigmoidPerHead;
    layer.attention.scale = 1 / std::sqrt(scalar);
  }

  Experts experts{.router = Experts::Router::SigmoidThenTop,
                  .normalised = true,
                  .hasChoiceBias = true,
                  .scale = config.number("moe_router_scaling_factor", 1),
                  .sharedWidth = config.integer("share_expert_dim", 1280),
                  .sharesAreRounded = false};
  experts.count = config.integer("n_routed_experts", 288);
  experts.perToken = config.integer("num_experts_per_tok", 8);
  readRouterLoss(config, decoder);
  const std::vector<bool> dense =
      layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", isDenseByNumbers(config));
  setExperts(config, decoder, experts, config.integer("moe_intermediate_size", 1280), dense);
  const std::vector<double> limits = limitsOf(config, "swiglu_limits", layers),
                            sharedLimits = limitsOf(config, "swiglu_limits_shared", layers);
  for (size_t i = 0; i < layers; ++i) {
    FeedForward &feedForward = decoder.layers[i].feedForward;
    feedForward.activatedLimit = feedForward.experts ? limits[i] : sharedLimits[i];
    if (feedForward.experts)
      feedForward.experts->sharedLimit = sharedLimits[i];
  }
  BlockNames &names = decoder.names;
  names.outputGate = "g_proj";
  names.mixture = "moe";
  names.experts = "";
  names.expertsAreThreeStacks = true;
  names.choiceBias = "router_bias";
  names.sharedExpert = "share_expert";
  names.sharedIsBeside = true;
  decoder.renamed = {{".share_expert.", ".mlp.shared_experts."},
                     {".moe.router_bias.", ".mlp.gate.e_score_correction_bias."},
                     {".moe.experts.", ".mlp.experts."},
                     {".moe.gate.", ".mlp.gate."}};
}

} // namespace ztc::huggingface
