#include "frontends/huggingface/SmallForm.h"
#include "runtime/Core/Json.h"
#include <algorithm>
#include <cstdlib>
#include <set>

using nlohmann::json;

namespace ztc::huggingface {
namespace {

constexpr int64_t kHeads = 4, kHeadSize = 16, kHidden = kHeads * kHeadSize, kInner = 32, kRank = 16, kRotary = 8,
                  kExperts = 4, kVocabulary = 96, kSmallLayers = 8, kWideHead = 2 * kHeadSize;

constexpr const char *kLayerCounts[] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
/// Every so many layers one is of another kind.
constexpr const char *kPeriods[] = {"sliding_window_pattern",    "global_attn_every_n_layers", "no_rope_layer_interval",
                                    "interleave_moe_layer_step", "decoder_sparse_step",        "moe_layer_interval",
                                    "full_attention_interval"};
/// Numbers of the layers that attend, where others do not.
constexpr const char *kAttendingLayers[] = {"attn_layer_indices", "full_attn_idxs"};
/// So many of the first layers are of another kind than the rest.
constexpr const char *kFirstLayers[] = {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"};
constexpr const char *kHeadCounts[] = {"num_attention_heads", "n_head", "n_heads", "num_heads"};

/// Keys of one size each.
struct Size {
  const char *key;
  int64_t size;
};
constexpr Size kSizes[] = {
    {"hidden_size", kHidden},
    {"n_embd", kHidden},
    {"n_embed", kHidden},
    {"d_model", kHidden},
    {"word_embed_proj_dim", kHidden},
    {"head_dim", kHeadSize},
    {"v_head_dim", kHeadSize},
    {"qk_nope_head_dim", kHeadSize},
    {"qk_rope_head_dim", kRotary},
    {"rotary_dim", kRotary},
    {"q_lora_rank", kRank},
    {"kv_lora_rank", kRank},
    {"intermediate_size", kInner},
    {"intermediate_size_mlp", kInner},
    {"n_inner", kInner},
    {"ffn_dim", kInner},
    {"ffn_hidden_size", kInner},
    {"dff", kInner},
    {"moe_intermediate_size", kInner},
    {"shared_intermediate_size", kInner},
    {"shared_expert_intermediate_size", kInner},
    {"num_experts", kExperts},
    {"num_local_experts", kExperts},
    {"n_routed_experts", kExperts},
    {"moe_num_experts", kExperts},
    {"num_experts_per_tok", 2},
    {"moe_top_k", 2},
    {"moe_k", 2},
    {"moe_topk", 2},
    {"top_k_experts", 2},
    {"global_head_dim", kWideHead},
    {"laurel_rank", kRank},
    {"hidden_size_per_layer_input", kRank},
    {"vocab_size_per_layer_input", kVocabulary},
    {"block_ff_dim", kInner},
    {"block_multiple_of", kRotary},
    {"linear_key_head_dim", kHeadSize},
    {"linear_head_dim", kHeadSize},
    {"linear_num_heads", 2},
    {"num_experts_per_token", 2},
    {"linear_value_head_dim", kHeadSize},
    {"moe_shared_expert_intermediate_size", kInner},
    {"mamba_n_heads", kHeads},
    {"mamba_num_heads", kHeads},
    {"mamba_head_dim", kHeadSize},
    {"mamba_d_ssm", kHidden},
    {"mamba_d_state", kRank},
    {"ssm_state_size", kRank},
    {"state_size", kRank},
    {"mamba_n_groups", 2},
    {"n_groups", 2},
    {"n_group", 1},
    {"topk_group", 1},
    {"vocab_size", kVocabulary},
};

bool isNumber(const json &object, const char *key) {
  return object.contains(key) && object[key].is_number_integer();
}

/// Kimi Linear's lists of layers, which are counted from 1.
constexpr const char *kLinear = "linear_attn_config", *kLists[] = {"full_attn_layers", "kda_layers"};

/// How many layers show every kind.
int64_t layersOf(const json &config, int64_t given) {
  int64_t layers = 2;
  if (config.contains(kLinear) && config[kLinear].is_object())
    for (const char *list : kLists)
      if (config[kLinear].contains(list) && config[kLinear][list].is_array() && !config[kLinear][list].empty() &&
          config[kLinear][list][0].is_number_integer())
        layers = std::max(layers, config[kLinear][list][0].get<int64_t>());
  for (const char *key : kPeriods)
    if (isNumber(config, key))
      layers = std::max(layers, config[key].get<int64_t>());
  for (const char *key : kFirstLayers)
    if (isNumber(config, key) && config[key].get<int64_t>() > 0)
      layers = std::max<int64_t>(layers, 3);
  for (const auto &[key, value] : config.items()) {
    if (!value.is_array() || int64_t(value.size()) != given)
      continue;
    std::set<json> seen;
    int64_t last = 0;
    for (int64_t i = 0; i < given; ++i)
      if (seen.insert(value[size_t(i)]).second)
        last = i + 1;
    if (seen.size() < 8) // kinds, not numbers of each layer's own
      layers = std::max(layers, last);
  }
  return std::min({layers, given, kSmallLayers});
}

/// Token numbers that the small vocabulary has.
void foldTokens(json &value) {
  if (value.is_number_integer())
    value = value.get<int64_t>() % kVocabulary;
  else if (value.is_array())
    for (json &one : value)
      foldTokens(one);
}

/// Rows of tables that the small vocabulary has, each once.
void foldRows(json &rows) {
  if (rows.is_object())
    for (json &table : rows)
      foldRows(table);
  if (!rows.is_array())
    return;
  foldTokens(rows);
  const std::set<json> once(rows.begin(), rows.end());
  rows = json(once);
}

/// Lists with an entry for each pair of a head's rotated elements.
void shortenFactors(json &rope, int64_t headSize) {
  if (!rope.is_object())
    return;
  for (auto &[key, value] : rope.items())
    if (value.is_object())
      shortenFactors(value, headSize);
    else if (!key.ends_with("_section") && value.is_array() && headSize > kHeadSize && value.size() > 1 &&
             value[0].is_number()) // else short enough
      value.erase(value.begin() + std::max<int64_t>(1, int64_t(value.size()) * kHeadSize / headSize), value.end());
}

/// Sizes of single layers, of those that stay. The last layer of such a model is like the last of the large one.
void shrinkLayerSizes(json &config, int64_t given, int64_t layers) {
  if (!config.contains("per_layer_config") || !config["per_layer_config"].is_object())
    return;
  json kept = json::object();
  for (auto &[key, sizes] : config["per_layer_config"].items()) {
    const int64_t layer = std::strtoll(key.c_str(), nullptr, 10);
    if (isNumber(sizes, "head_dim"))
      sizes["head_dim"] = std::min(sizes["head_dim"].get<int64_t>(), kWideHead);
    if (isNumber(sizes, "num_key_value_heads"))
      sizes["num_key_value_heads"] = 1;
    if (layer < layers - 1 || layer == given - 1)
      kept[std::to_string(std::min(layer, layers - 1))] = sizes;
  }
  config["per_layer_config"] = kept;
}

/// Nemotron-H says how many layers there are by what each of them is.
void countLayers(json &config) {
  if (config.contains("hybrid_override_pattern") && config["hybrid_override_pattern"].is_string()) {
    std::string once;
    for (char kind : config["hybrid_override_pattern"].get<std::string>())
      if (once.find(kind) == std::string::npos)
        once += kind;
    config["hybrid_override_pattern"] = once;
  }
  if (config.contains("layers_block_type") && config["layers_block_type"].is_array())
    config["num_hidden_layers"] = config["layers_block_type"].size();
}

/// What Kimi Linear says of its recurrent layers, of the layers that stay.
void shrinkLinear(json &config, int64_t layers) {
  if (!config.contains(kLinear) || !config[kLinear].is_object())
    return;
  json &linear = config[kLinear];
  for (const char *list : kLists) {
    if (!linear.contains(list) || !linear[list].is_array())
      continue;
    json kept = json::array();
    for (const json &layer : linear[list])
      if (layer.is_number_integer() && layer.get<int64_t>() <= layers)
        kept.push_back(layer);
    linear[list] = kept;
  }
  if (isNumber(linear, "head_dim"))
    linear["head_dim"] = kHeadSize;
  if (isNumber(linear, "num_heads"))
    linear["num_heads"] = 2;
}

/// Of recurrent layers: heads of values are as many as those of keys or twice as many, and heads of state space models
/// have all of their width.
void shrinkHeadsOfStates(json &config) {
  if (isNumber(config, "linear_num_key_heads") && isNumber(config, "linear_num_value_heads")) {
    const int64_t keys = config["linear_num_key_heads"].get<int64_t>(),
                  values = config["linear_num_value_heads"].get<int64_t>();
    config["linear_num_key_heads"] = 2;
    config["linear_num_value_heads"] = keys < values ? 4 : 2;
  }
  auto number = [&](const char *key, int64_t otherwise) {
    return isNumber(config, key) ? config[key].get<int64_t>() : otherwise;
  };
  if (isNumber(config, "mamba_d_head"))
    config["mamba_d_head"] = number("mamba_d_ssm", number("mamba_expand", 2) * number("hidden_size", kHidden)) /
                             std::max<int64_t>(1, number("mamba_n_heads", kHeads));
  if (isNumber(config, "state_size") && isNumber(config, "num_heads"))
    config["head_dim"] = number("expand", 2) * number("hidden_size", kHidden) / number("num_heads", kHeads);
}

void shrink(json &config) {
  countLayers(config);
  for (const char *key : kLayerCounts) {
    if (!isNumber(config, key) || config[key].get<int64_t>() < 1)
      continue;
    const int64_t given = config[key].get<int64_t>();
    int64_t layers = layersOf(config, given);
    if (config.contains("attention_types") && config["attention_types"].is_array())
      for (json &entry : config["attention_types"]) // [[["global", "local"], 12]]
        if (entry.is_array() && entry.size() == 2 && entry[0].is_array()) {
          entry[1] = 1;
          layers = int64_t(entry[0].size());
        }
    if (isNumber(config, "num_kv_shared_layers") && config["num_kv_shared_layers"].get<int64_t>() > 0) {
      layers = std::min(layers + 1, given); // each kind before the one that shares
      config["num_kv_shared_layers"] = 1;
    }
    shrinkLayerSizes(config, given, layers);
    shrinkLinear(config, layers);
    for (const char *attending : kAttendingLayers)
      if (config.contains(attending) && config[attending].is_array() && !config[attending].empty())
        config[attending] = json::array({layers - 1});
    for (auto &[name, value] : config.items())
      if (value.is_array() && int64_t(value.size()) == given && given > layers)
        value.erase(value.begin() + layers, value.end());
    for (const char *first : kFirstLayers)
      if (isNumber(config, first))
        config[first] = std::min<int64_t>(config[first].get<int64_t>(), 1);
    if (isNumber(config, "moe_layer_end_index"))
      config["moe_layer_end_index"] = layers - 1;
    if (isNumber(config, "max_window_layers"))
      config["max_window_layers"] = std::min<int64_t>(config["max_window_layers"].get<int64_t>(), layers / 2);
    config[key] = layers;
  }
  int64_t heads = 0, hidden = 0;
  for (const char *key : kHeadCounts)
    if (isNumber(config, key))
      heads = config[key].get<int64_t>();
  for (const char *key : {"hidden_size", "n_embd", "n_embed", "d_model"})
    if (isNumber(config, key))
      hidden = config[key].get<int64_t>();
  const int64_t headSize = isNumber(config, "head_dim") ? config["head_dim"].get<int64_t>()
                           : heads                      ? hidden / heads
                                                        : 0;
  for (const char *rope : {"rope_scaling", "rope_parameters"})
    if (config.contains(rope))
      shortenFactors(config[rope], headSize);
  std::vector<json *> parts{&config}; // DBRX has some of its sizes in parts of their own
  for (const char *key : {"attn_config", "ffn_config"})
    if (config.contains(key) && config[key].is_object())
      parts.push_back(&config[key]);
  for (json *part : parts)
    for (const char *key : {"num_key_value_heads", "kv_n_heads"}) {
      if (!isNumber(*part, key))
        continue;
      const int64_t kept = (*part)[key].get<int64_t>(), few = std::min(heads, kHeads);
      (*part)[key] = kept == heads ? few : kept == 1 ? 1 : std::max<int64_t>(1, few / 2);
    }
  for (const char *key : kHeadCounts)
    if (isNumber(config, key))
      config[key] = std::min(heads, kHeads);
  for (json *part : parts)
    for (const Size &size : kSizes)
      if (isNumber(*part, size.key))
        (*part)[size.key] = std::min((*part)[size.key].get<int64_t>(), size.size);
  shrinkHeadsOfStates(config);
  for (const char *key : {"intermediate_size", "moe_intermediate_size"})
    if (config.contains(key) && config[key].is_array())
      for (json &width : config[key])
        width = kInner;
  if (isNumber(config, "num_global_key_value_heads"))
    config["num_global_key_value_heads"] = 1;
  if (!isNumber(config, "vocab_size")) // every family's own default is large
    config["vocab_size"] = kVocabulary;
  if (isNumber(config, "qk_rope_head_dim") && isNumber(config, "head_dim"))
    config["head_dim"] = kRotary;
  for (auto &[key, value] : config.items())
    if (key.ends_with("_token_id"))
      foldTokens(value);
}

/// Where a configuration of several modalities has that of its language model.
json &textConfig(json &config) {
  for (const char *part : {"thinker_config", "text_config", "llm_config"})
    if (config.contains(part) && config[part].is_object())
      return textConfig(config[part]);
  return config;
}

/// Of numbers of layers those that a model of so many has; its first, where it has none of them.
void keepLayers(json &numbers, int64_t layers) {
  if (numbers.is_number_integer())
    numbers = json::array({numbers});
  if (!numbers.is_array() || numbers.empty())
    return;
  json kept = json::array();
  for (const json &number : numbers)
    if (number.is_number_integer() && number.get<int64_t>() < layers)
      kept.push_back(number);
  numbers = kept.empty() ? json::array({0}) : kept;
}

/// "model.layers.17.mlp.up_proj" becomes "mlp.up_proj", once.
void nameInEveryLayer(json &names) {
  std::set<std::string> short_;
  for (const json &entry : names) {
    if (!entry.is_string())
      return;
    const std::string name = entry.get<std::string>();
    size_t begin = 0;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      const size_t end = name.find('.', dot + 1);
      if (end != std::string::npos && end > dot + 1 && name.find_first_not_of("0123456789", dot + 1) == end)
        begin = end + 1;
    }
    short_.insert(name.substr(begin));
  }
  names = short_;
}

} // namespace

std::string smallForm(const std::string &text) {
  json config = json::parse(withPythonsNumbers(text), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return text;
  for (json *part : {&config, &textConfig(config)})
    part->erase("quantization_config");
  shrink(textConfig(config));
  return config.dump(1);
}

std::string smallAdapter(const std::string &text, const std::string &small) {
  json adapter = json::parse(text, nullptr, /*allow_exceptions=*/false),
       model = json::parse(small, nullptr, /*allow_exceptions=*/false);
  if (!adapter.is_object() || !model.is_object())
    return text;
  int64_t layers = kSmallLayers;
  for (const char *key : kLayerCounts)
    if (isNumber(textConfig(model), key))
      layers = textConfig(model)[key].get<int64_t>();
  if (adapter.value("init_lora_weights", json()) == json(false))
    adapter["init_lora_weights"] = true;
  if (adapter.contains("layers_to_transform"))
    keepLayers(adapter["layers_to_transform"], layers);
  for (const char *key : {"target_modules", "exclude_modules", "target_parameters"})
    if (adapter.contains(key) && adapter[key].is_array())
      nameInEveryLayer(adapter[key]);
  if (adapter.contains("trainable_token_indices"))
    foldRows(adapter["trainable_token_indices"]);
  return adapter.dump(1);
}

} // namespace ztc::huggingface
