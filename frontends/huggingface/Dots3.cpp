// dots3-note: DeepSeek V3.2's attention with gates and one more norm; some layers have a window and sizes of their own.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

/// Sizes of the layers with a window, from the first of them in per_layer_config, or under the names of checkpoints.
static Config slidingSizes(Config &config, const nlohmann::json &each, const std::vector<bool> &sliding) {
  nlohmann::json sizes = nlohmann::json::object();
  for (const char *key : {"num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank", "head_dim",
                          "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    const std::string old = std::string("swa_") + key;
    if (config.has(old.c_str()))
      sizes[key] = config.value(old.c_str());
  }
  const nlohmann::json *first = nullptr;
  for (size_t i = 0; i < sliding.size(); ++i) {
    const std::string index = std::to_string(i);
    if (!each.is_object() || !each.contains(index))
      continue;
    if (!sliding[i] || (first && *first != each[index]))
      config.fail("per_layer_config of layer " + index + " differs from that of other layers of its type");
    first = &each[index];
  }
  if (first && first->is_object())
    sizes = *first;
  return Config(sizes, config.describe("per_layer_config"));
}

static Rope ropeOfType(Config &config, const nlohmann::json &parameters, const char *type, int64_t width,
                       double theta) {
  nlohmann::json own = parameters.is_object() ? parameters.value(type, parameters) : nlohmann::json::object();
  if (!own.is_object())
    own = nlohmann::json::object();
  own["partial_rotary_factor"] = 1.0; // of the part that turns, whatever it says
  RopeContext context;
  context.headWidth = width;
  context.theta = theta;
  Rope rope = ropeOf(config, Config(own, config.describe("rope_parameters")), context, true);
  rope.isInterleaved = true;
  return rope;
}

void fillDots3(Config &config, Decoder &decoder) {
  readAliases(config, {{"num_local_experts", "n_routed_experts"},
                       {"sliding_window_size", "sliding_window"},
                       {"moe_shared_expert_intermediate_size", "shared_experts_intermediate_size"}});
  const bool hasEach = config.has("per_layer_config");
  const nlohmann::json each = config.value("per_layer_config"), ropes = config.value("rope_parameters");
  config.set("per_layer_config", nullptr);
  config.require("rope_scaling", {nullptr});
  Defaults defaults{.vocabulary = 152064,
                    .hidden = 5120,
                    .width = 13824,
                    .layers = 46,
                    .heads = 128,
                    .keyHeads = 128,
                    .headWidth = 256,
                    .positions = 524288,
                    .epsilon = 1e-5};
  defaults.padding = 151659;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  config.harmless({"num_nextn_predict_layers", "topk_method", "mlp_bias"});

  // Which layers choose keys, have a window, or neither.
  std::vector<std::string> types = config.texts("layer_types");
  const bool usesWindow = config.flag("use_sliding_window", true);
  const bool chooses = config.has("use_dsa") && !config.isNull("use_dsa") ? config.flag("use_dsa", true) : !hasEach;
  const bool mayChoose = chooses || !config.has("use_dsa") || config.isNull("use_dsa");
  std::vector<bool> sliding;
  bool choosesAny = false;
  if (!types.empty() && types.size() != decoder.layers.size())
    config.fail("layer_types has " + std::to_string(types.size()) + " entries for " +
                std::to_string(decoder.layers.size()) + " layers");
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const bool isFull = !usesWindow || i < 2 || i % 4 == 1;
    const std::string type = i < types.size() ? types[i] : isFull ? "indexed_attention" : "sliding_attention";
    if (type != "indexed_attention" && type != "full_attention" && type != "sliding_attention")
      config.fail("layer_types has '" + type + "'; ztc builds indexed_attention, full_attention and sliding_attention");
    sliding.push_back(type == "sliding_attention");
    choosesAny |= (type == "indexed_attention" && mayChoose) || (type == "full_attention" && chooses);
  }
  readIndexer(config, decoder);
  if (!choosesAny)
    decoder.chosenKeys = 0;
  setNeededWindows(config, decoder, sliding, config.optionalInteger("sliding_window", 512));

  setLatent(config, decoder,
            {.queryRank = 1024, .keyRank = 512, .plainWidth = 128, .turningWidth = 64, .valueWidth = 128});
  Config sizes = slidingSizes(config, each, sliding);
  // per_layer_config has what differs from the others; checkpoints without one have defaults of their own.
  auto size = [&](const char *key, int64_t otherwise, int64_t own) {
    return sizes.integer(key, hasEach ? config.integer(key, otherwise) : own);
  };
  const int64_t heads = size("num_attention_heads", 128, 64);
  sizes.harmless({"num_key_value_heads"});
  Latent other;
  other.queryRank = size("q_lora_rank", 1024, 1024);
  other.keyRank = size("kv_lora_rank", 512, 1024);
  other.plainWidth = size("qk_nope_head_dim", 128, 192);
  other.turningWidth = size("qk_rope_head_dim", 64, sizes.integer("head_dim", 256) - other.plainWidth);
  other.valueWidth = size("v_head_dim", 128, 128);
  sizes.harmless({"head_dim"});
  config.adopt(sizes);
  if (other.turningWidth < 1)
    config.fail("the layers with a window have no dimensions that turn");
  for (Layer &layer : decoder.layers) {
    Attention &attention = layer.attention;
    if (layer.isSliding) {
      attention.latent = other;
      attention.heads = attention.keyHeads = heads;
      attention.headWidth = other.turningWidth;
      attention.scale = 1 / std::sqrt(double(other.plainWidth + other.turningWidth));
      layer.rope = 1;
    }
    Latent &latent = *attention.latent;
    if (!latent.queryRank)
      return config.fail("q_lora_rank is null, and this model type needs one");
    latent.queryScale = std::sqrt(double(decoder.hidden) / double(latent.queryRank));
    latent.keyScale = std::sqrt(double(decoder.hidden) / double(latent.keyRank));
    latent.normsTurningKey = true;
    attention.headNorm = decoder.norm;
    attention.outputGate = OutputGate::SigmoidPerHead;
  }
  config.harmless({"rope_parameters"});
  const double theta = config.number("rope_theta", 8e7), near = config.number("swa_rope_theta", 5e4);
  const char *const full =
      ropes.is_object() && ropes.contains("full_attention") ? "full_attention" : "indexed_attention";
  decoder.ropes = {ropeOfType(config, ropes, full, config.integer("qk_rope_head_dim", 64), theta),
                   ropeOfType(config, ropes, "sliding_attention", other.turningWidth, near)};

  const int64_t first = config.integer("first_k_dense_replace", 1, 0);
  const nlohmann::json frequency = config.value("moe_layer_freq");
  const std::vector<int64_t> flags = frequency.is_array()
                                         ? config.integers("moe_layer_freq").value_or(std::vector<int64_t>())
                                         : std::vector<int64_t>();
  const int64_t every = frequency.is_array() ? 1 : config.integer("moe_layer_freq", 1);
  const std::vector<bool> dense =
      layersOfType(config, decoder, "mlp_layer_types", "dense", "sparse", [&](int64_t layer) {
        return layer < first || layer % every != 0 || (layer < int64_t(flags.size()) && !flags[layer]);
      });
  const int64_t shared =
      config.integer("shared_experts_intermediate_size", 1536) * config.integer("n_shared_experts", 1);
  setDeepSeekExperts(config, decoder, {.count = 256, .perToken = 8, .width = 1536, .shared = 1, .normalised = true},
                     {.router = Experts::Router::SigmoidThenTop, .normalisedFrom = 1e-20, .hasChoiceBias = true},
                     dense);
  for (Layer &layer : decoder.layers)
    if (layer.feedForward.experts)
      layer.feedForward.experts->sharedWidth = shared;
  decoder.names.outputGate = "g_proj";
}

} // namespace ztc::huggingface
