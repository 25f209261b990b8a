#include "runtime/Format/AdapterNames.h"
#include <algorithm>
#include <charconv>
#include <utility>

namespace ztc {

namespace {

/// How transformers 5 and older checkpoints call the parts of a multi-modal model.
struct Renamed {
  std::string_view module, stored;
};
constexpr Renamed kLanguageModel[] = {{"model.language_model.", "language_model.model."},
                                      {"lm_head.", "language_model.lm_head."},
                                      {"model.language_model.", "model."}};

void addRenamed(std::vector<std::string> &names, const std::string &name, std::string_view from, std::string_view to) {
  if (name.starts_with(from) && !name.starts_with(to))
    names.push_back(std::string(to) + name.substr(from.size()));
}

/// How checkpoints of Mixtral and its like call a router, and how transformers 5 does.
constexpr std::string_view kStoredRouter = ".block_sparse_moe.gate", kRouters[] = {".mlp.gate", ".mlp.router"};

/// How checkpoints of one family call a module, and how transformers does, which has the family since version 5.
struct FamilyName {
  std::string_view modelType, stored, module;
};
constexpr FamilyName kFamilyNames[] = {{"hy_v3", ".mlp.shared_mlp", ".mlp.shared_experts"},
                                       {"hy_v3", ".mlp.router.gate", ".mlp.gate"},
                                       {"laguna", ".mlp.shared_expert", ".mlp.shared_experts"},
                                       {"step3p7", ".share_expert", ".mlp.shared_experts"},
                                       {"mistral_large4", ".attention.wq", ".self_attn.q_proj"},
                                       {"mistral_large4", ".attention.wkv_a_with_mqa", ".self_attn.kv_a_proj_with_mqa"},
                                       {"mistral_large4", ".attention.wkv_b", ".self_attn.kv_b_proj"},
                                       {"mistral_large4", ".attention.wo", ".self_attn.o_proj"},
                                       {"mistral_large4", ".feed_forward.w1", ".mlp.gate_proj"},
                                       {"mistral_large4", ".feed_forward.w2", ".mlp.down_proj"},
                                       {"mistral_large4", ".feed_forward.w3", ".mlp.up_proj"},
                                       {"mistral_large4", ".shared_experts.w1", ".mlp.shared_experts.gate_proj"},
                                       {"mistral_large4", ".shared_experts.w2", ".mlp.shared_experts.down_proj"},
                                       {"mistral_large4", ".shared_experts.w3", ".mlp.shared_experts.up_proj"},
                                       {"lfm3", ".self_attn.gate_proj", ".self_attn.g_proj"},
                                       {"kimi_linear", ".self_attn.f_a_proj", ".self_attn.forget_gate.f_a_proj"},
                                       {"kimi_linear", ".self_attn.f_b_proj", ".self_attn.forget_gate.f_b_proj"},
                                       {"kimi_linear", ".block_sparse_moe", ".mlp"}};

/// The same of the first parts of the names of all layers.
constexpr FamilyName kFamilyBases[] = {{"nemotron_h", "backbone.", "model."},
                                       {"mistral_large4", "layers.", "model.language_model.layers."}};

/// A name with `from`, which is whole parts of names, replaced; empty where it is not in it.
std::string replaced(std::string_view name, std::string_view from, std::string_view to) {
  const size_t at = name.rfind(from), end = at + from.size();
  if (at == std::string_view::npos || (end < name.size() && name[end] != '.'))
    return {};
  return std::string(name.substr(0, at)) + std::string(to) + std::string(name.substr(end));
}

/// `name` with one of its family's names in place of the other; as it is where the family has none in it.
std::string inFamily(const std::string &name, std::string_view modelType, std::string_view FamilyName::*from,
                     std::string_view FamilyName::*to) {
  std::string result = name;
  for (const FamilyName &family : kFamilyNames)
    if (std::string renamed = replaced(name, family.*from, family.*to);
        family.modelType == modelType && !renamed.empty()) {
      result = std::move(renamed);
      break;
    }
  for (const FamilyName &family : kFamilyBases)
    if (family.modelType == modelType && result.starts_with(family.*from))
      return std::string(family.*to) + result.substr((family.*from).size());
  return result;
}

/// A name that one of its family's has been put in, with the family's other first part.
void addBases(std::vector<std::string> &names, const std::string &name, std::string_view modelType,
              std::string_view FamilyName::*from, std::string_view FamilyName::*to) {
  for (const FamilyName &base : kFamilyBases)
    if (base.modelType == modelType)
      addRenamed(names, name, base.*from, base.*to);
}

} // namespace

std::vector<std::string> checkpointNames(const std::string &name) {
  std::vector<std::string> names{name, name.substr(name.find('.') + 1)};
  for (const Renamed &renamed : kLanguageModel)
    if (name.starts_with(renamed.module))
      names.push_back(std::string(renamed.stored) + name.substr(renamed.module.size()));
  for (const std::string_view router : kRouters)
    if (const std::string renamed = replaced(name, router, kStoredRouter); !renamed.empty())
      names.push_back(renamed);
  for (const FamilyName &family : kFamilyNames)
    if (const std::string renamed = replaced(name, family.module, family.stored); !renamed.empty()) {
      names.push_back(renamed);
      addBases(names, renamed, family.modelType, &FamilyName::module, &FamilyName::stored);
    }
  for (const FamilyName &family : kFamilyBases)
    addRenamed(names, name, family.module, family.stored);
  return names;
}

std::string moduleOfFamily(const std::string &stored, std::string_view modelType) {
  return inFamily(stored, modelType, &FamilyName::stored, &FamilyName::module);
}

std::string storedOfFamily(const std::string &module, std::string_view modelType) {
  return inFamily(module, modelType, &FamilyName::module, &FamilyName::stored);
}

std::vector<std::string> familyNames(std::string_view stored) {
  std::vector<std::string> names;
  for (const FamilyName &family : kFamilyNames)
    if (std::string renamed = replaced(stored, family.stored, family.module); !renamed.empty()) {
      names.push_back(renamed);
      addBases(names, renamed, family.modelType, &FamilyName::stored, &FamilyName::module);
    }
  for (const FamilyName &family : kFamilyBases)
    addRenamed(names, std::string(stored), family.stored, family.module);
  return names;
}

bool takesExpertsAsLinear(std::string_view modelType) {
  // transformers' conversion_mapping.py: types with the patterns of Mixtral and of Qwen2-MoE, without the latter
  // itself.
  static constexpr std::string_view kTypes[] = {"afmoe",          "cohere2_moe",
                                                "deepseek_v2",    "deepseek_v3",
                                                "dots1",          "ernie4_5_moe",
                                                "exaone_moe",     "flex_olmo",
                                                "glm4_moe",       "glm4_moe_lite",
                                                "hunyuan_v1_moe", "mellum",
                                                "minimax",        "minimax_m2",
                                                "mixtral",        "olmoe",
                                                "qwen3_moe",      "qwen3_next",
                                                "solar_open",     "glm4v_moe",
                                                "qwen3_omni_moe", "qwen3_omni_moe_thinker"};
  return std::ranges::find(kTypes, modelType) != std::end(kTypes);
}

bool refusesAdapter(std::string_view module, std::string_view modelType) {
  static constexpr std::string_view kTypes[] = {"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"};
  return module.ends_with(".out_proj") && std::ranges::find(kTypes, modelType) != std::end(kTypes);
}

std::vector<std::string> routerNames(std::string_view stored) {
  std::vector<std::string> names;
  for (const std::string_view router : kRouters)
    if (std::string renamed = replaced(stored, kStoredRouter, router); !renamed.empty())
      names.push_back(std::move(renamed));
  return names;
}

std::string moduleOfTransformers5(const std::string &module, std::string_view modelType) {
  const std::vector<std::string> names = routerNames(module);
  return names.empty() ? module : modelType == "phimoe" ? names.back() : names.front();
}

std::vector<std::string> languageModelNames(const std::string &stored) {
  std::vector<std::string> names{stored};
  for (const Renamed &renamed : kLanguageModel)
    addRenamed(names, stored, renamed.stored, renamed.module);
  return names;
}

std::optional<ExpertPart> expertPartOf(std::string_view module) {
  struct Own {
    std::string_view name;
    const char *parameter;
    bool isHalf, isSecond;
  };
  static constexpr Own kOwn[] = {{"gate_proj", "gate_up_proj", true, false}, {"w1", "gate_up_proj", true, false},
                                 {"up_proj", "gate_up_proj", true, true},    {"w3", "gate_up_proj", true, true},
                                 {"down_proj", "down_proj", false, false},   {"w2", "down_proj", false, false}};
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = module.rfind(kExperts), digits = at + kExperts.size();
  if (at == std::string_view::npos)
    return std::nullopt;
  int64_t expert = 0;
  const char *end = module.data() + module.size();
  const auto [stop, error] = std::from_chars(module.data() + digits, end, expert);
  if (error != std::errc() || expert < 0 || stop == end || *stop != '.')
    return std::nullopt;
  const std::string_view name(stop + 1, size_t(end - stop - 1));
  const auto own = std::ranges::find(kOwn, name, &Own::name);
  if (own == std::end(kOwn))
    return std::nullopt;
  std::string path(module.substr(0, digits - 1));
  // As transformers 5 calls them.
  if (const size_t block = path.rfind(".block_sparse_moe."); block != std::string::npos)
    path.replace(block, std::string_view(".block_sparse_moe.").size(), ".mlp.");
  return ExpertPart{path + "." + own->parameter, expert, own->isHalf, own->isSecond};
}

std::vector<std::string> stacksOfTensor(std::string_view tensor) {
  for (std::string_view own : {".experts.gate_up_proj", ".experts.down_proj"})
    if (tensor.ends_with(own))
      return {std::string(tensor)};
  constexpr std::pair<std::string_view, std::string_view> kGranite[] = {
      {".input_linear.weight", ".experts.gate_up_proj"}, {".output_linear.weight", ".experts.down_proj"}};
  for (const auto &[stored, renamed] : kGranite)
    if (tensor.ends_with(stored))
      return {std::string(tensor.substr(0, tensor.size() - stored.size())) + std::string(renamed), std::string(tensor)};
  return {};
}

bool hasInputsFirst(std::string_view modelType) {
  return modelType == "gpt_oss" || modelType.starts_with("qwen3_vl_moe");
}

bool swapsStacks(std::string_view modelType) {
  return modelType.starts_with("llama4");
}

bool isBesideFactors(std::string_view name) {
  return name.ends_with(".base_layer.weight") || name.ends_with(".base_layer.bias");
}

} // namespace ztc
