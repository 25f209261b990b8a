#include "runtime/Format/AdapterConfig.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/NamePattern.h"
#include "runtime/Core/Numbers.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace ztc {

using Json = nlohmann::ordered_json;

namespace {

/// Numbers and words that PEFT writes where nobody asked for anything; null, false and what is empty need no row.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): small, and made before main
const std::pair<const char *, Json> kDefaults[] = {
    {"megatron_core", "megatron.core"},
    {"qalora_group_size", 16},
    {"runtime_config", Json{{"ephemeral_gpu_offload", false}}},
};

/// Keys that say where an adapter comes from, not what it is.
constexpr const char *kPassedOver[] = {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version",
                                       "revision"};

/// Settings of ways to begin that init_lora_weights names, and that are refused there. Beside any other way PEFT reads
/// none of them (LoraConfig.__post_init__ says so in a warning), and keeps them in the file.
constexpr const char *kOfOtherStarts[] = {"corda_config", "eva_config", "loftq_config", "lora_ga_config"};

/// Why ztc does not have what some keys ask for.
const std::pair<const char *, const char *> kReasons[] = {
    {"megatron_config", "it is for the parallel layers of Megatron-LM, and ztc divides a model by --zero"},
    {"layer_replication", "it makes another model, which PEFT can save with its layers for ztc to compile"},
    {"use_qalora", "it pools the inputs of quantised modules in groups"},
    {"use_bdlora", "its factors are blocks of a diagonal"},
    {"velora_config", "it changes what backward keeps of activations"},
    {"kasa_config", "it adds terms to the loss and another factor between A and B"},
    {"monteclora_config", "it draws factors anew in each step"},
    {"arrow_config", "it chooses among several adapters"},
    {"alora_invocation_tokens", "the adapter would hold from some tokens on only"},
    {"ensure_weight_tying", "it ties adapters of a table and of the head"}};

bool isEmpty(const Json &value) {
  return value.is_null() || value == Json(false) || value == Json("") ||
         ((value.is_array() || value.is_object()) && value.empty());
}

/// What a way to begin needs that would change the model itself.
const std::pair<const char *, const char *> kOtherStarts[] = {
    {"pissa", "takes the principal part of each weight out of the model"},
    {"olora", "takes a part of each weight out of the model"},
    {"loftq", "replaces the model's weights by quantised ones"},
    {"corda", "takes a part of each weight out of the model, chosen by data"},
    {"eva", "begins with directions that are found in data"},
    {"lora_ga", "takes a part of each weight out of the model, chosen by gradients"},
    {"mica", "begins with directions of the model's weights"},
};

/// Reads an object key by key; the first thing that is wrong is kept.
class Reader {
public:
  Reader(const Json &json, std::string place) : json_(json), place_(std::move(place)) {}

  Status status() const { return status_; }
  void fail(const std::string &key, const std::string &what) {
    if (status_.isOk())
      status_ = invalidArgument(fmt::format("{}: {}: {}", place_, key, what));
  }
  /// The value of a key, which is thereby known; null where it is missing or empty.
  const Json *find(const std::string &key) {
    known_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() || isEmpty(*found) ? nullptr : &*found;
  }
  void read(const std::string &key, int64_t &target) {
    if (const Json *value = find(key)) {
      if (!value->is_number_integer())
        return fail(key, fmt::format("expected a whole number, found {}", value->dump()));
      target = value->get<int64_t>();
    }
  }
  void read(const std::string &key, double &target) {
    if (const Json *value = find(key)) {
      if (!value->is_number())
        return fail(key, fmt::format("expected a number, found {}", value->dump()));
      target = value->get<double>();
    }
  }
  void read(const std::string &key, bool &target) {
    if (const Json *value = find(key)) {
      if (!value->is_boolean())
        return fail(key, fmt::format("expected true or false, found {}", value->dump()));
      target = value->get<bool>();
    }
  }
  void read(const std::string &key, std::vector<std::string> &target) {
    const Json *value = find(key);
    if (value && !takeStrings(*value, target))
      fail(key, fmt::format("expected a list of names, found {}", value->dump()));
  }
  void read(const std::string &key, ModuleNames &target) {
    const Json *value = find(key);
    if (!value)
      return;
    if (value->is_string()) {
      target.expression = value->get<std::string>();
      checkPattern(key, target.expression);
    } else if (!takeStrings(*value, target.list)) {
      fail(key, fmt::format("expected a list of names or a regular expression, found {}", value->dump()));
    }
  }
  template <typename Number>
  void readPattern(const std::string &key, std::vector<std::pair<std::string, Number>> &target) {
    const Json *value = find(key);
    if (!value)
      return;
    if (!value->is_object())
      return fail(key, fmt::format("expected an object of names and numbers, found {}", value->dump()));
    for (const auto &[name, number] : value->items()) {
      if (!number.is_number() || (std::is_integral_v<Number> && !number.is_number_integer()))
        return fail(key, fmt::format("'{}' has {} where a number is expected", name, number.dump()));
      target.emplace_back(name, number.template get<Number>());
      checkPattern(key, name);
    }
  }
  void checkPattern(const std::string &key, const std::string &pattern) {
    if (const auto parsed = NamePattern::parse(pattern); !parsed.isOk())
      fail(key, parsed.status().message());
  }
  /// What is left must ask for nothing.
  void finish() {
    for (const char *key : kPassedOver)
      known_.insert(key);
    for (const auto &[key, value] : json_.items()) {
      if (known_.contains(key) || isEmpty(value))
        continue;
      const std::string name = key;
      const auto usual = std::ranges::find_if(kDefaults, [&](const auto &row) { return name == row.first; });
      if (usual == std::end(kDefaults) || usual->second != value)
        fail(key, fmt::format("{} asks for what ztc does not have{}: leave it at PEFT's default",
                              value.dump().substr(0, 80), reasonOf(name)));
    }
  }

private:
  static std::string reasonOf(const std::string &key) {
    const auto reason = std::ranges::find_if(kReasons, [&](const auto &row) { return key == row.first; });
    return reason == std::end(kReasons) ? "" : fmt::format(" ({})", reason->second);
  }
  static bool takeStrings(const Json &value, std::vector<std::string> &target) {
    if (!value.is_array())
      return false;
    for (const Json &entry : value) {
      if (!entry.is_string())
        return false;
      target.push_back(entry.get<std::string>());
    }
    return true;
  }

  const Json &json_;
  std::string place_;
  std::set<std::string> known_;
  Status status_;
};

void readLayers(Reader &reader, AdapterConfig &config) {
  if (const Json *value = reader.find("layers_to_transform")) {
    std::vector<int64_t> layers;
    const auto add = [&](const Json &number) {
      if (number.is_number_integer())
        layers.push_back(number.get<int64_t>());
      else
        reader.fail("layers_to_transform", fmt::format("expected numbers of layers, found {}", number.dump()));
    };
    if (value->is_array())
      std::ranges::for_each(*value, add);
    else
      add(*value);
    config.layers = std::move(layers);
  }
  if (const Json *value = reader.find("layers_pattern"); value && value->is_string())
    config.layersPatterns = {value->get<std::string>()};
  else
    reader.read("layers_pattern", config.layersPatterns);
  for (const std::string &pattern : config.layersPatterns)
    reader.checkPattern("layers_pattern", pattern);
  // As in PEFT, which expands no expression; all-linear stands for a list.
  if (!config.targets.expression.empty() && (config.layers || !config.layersPatterns.empty()))
    reader.fail(
        config.layers ? "layers_to_transform" : "layers_pattern",
        fmt::format("cannot choose among the modules of a regular expression, and target_modules is one ('{}'): "
                    "write the layers into it, or give a list of names or all-linear",
                    config.targets.expression));
  else if (!config.layers && !config.layersPatterns.empty())
    reader.fail("layers_pattern", "says where the numbers of layers stand that layers_to_transform lists, and there is "
                                  "no layers_to_transform: give it too, or leave this out");
}

/// Numbers of tokens, each once.
bool takeRows(const Json &value, std::vector<int64_t> &rows) {
  if (!value.is_array() || value.empty() || value.size() > kMostTokenRows)
    return false;
  for (const Json &row : value) {
    if (!row.is_number_integer() || row.get<int64_t>() < 0 || std::ranges::find(rows, row.get<int64_t>()) != rows.end())
      return false;
    rows.push_back(row.get<int64_t>());
  }
  return true;
}

void readTokenRows(Reader &reader, AdapterConfig &config) {
  const Json *value = reader.find("trainable_token_indices");
  if (!value)
    return;
  const auto add = [&](const std::string &module, const Json &rows) {
    config.tokenRows.push_back({module, {}});
    if (!takeRows(rows, config.tokenRows.back().rows))
      reader.fail("trainable_token_indices",
                  fmt::format("expected a list of 1 to {} numbers of tokens, each once, or an object of such lists by "
                              "the names of tables, found {}; to train more rows name the table in modules_to_save",
                              kMostTokenRows, value->dump().substr(0, 80)));
  };
  if (!value->is_object())
    return add("", *value);
  for (const auto &[module, rows] : value->items())
    add(module, rows);
}

void readStart(Reader &reader, const Json &json, AdapterConfig &config) {
  for (const char *key : kOfOtherStarts)
    if (const Json *settings = reader.find(key); settings && !settings->is_object())
      reader.fail(key, fmt::format("expected an object of settings, found {}", settings->dump().substr(0, 80)));
  reader.find("init_lora_weights");
  const auto value = json.find("init_lora_weights");
  if (value == json.end() || value->is_null() || *value == Json(true))
    return;
  if (*value == Json(false)) {
    config.start = AdapterStart::Given;
    return;
  }
  const std::string name = value->is_string() ? value->get<std::string>() : value->dump();
  if (name == "gaussian") {
    config.start = AdapterStart::Gaussian;
    return;
  }
  if (name == "orthogonal") {
    config.start = AdapterStart::Orthogonal;
    return;
  }
  for (const auto &[start, reason] : kOtherStarts)
    if (name.starts_with(start))
      return reader.fail(
          "init_lora_weights",
          fmt::format("'{}' {}: let PEFT make that model and its adapter, save both, and set true here", name, reason));
  reader.fail("init_lora_weights", fmt::format("true, false, gaussian and orthogonal are known, found {}", name));
}

void readTargets(Reader &reader, AdapterConfig &config) {
  reader.read("target_modules", config.targets);
  std::string lower = config.targets.expression;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "all-linear") {
    config.isAllLinear = true;
    config.targets = {};
  }
  reader.read("exclude_modules", config.excluded);
  reader.read("modules_to_save", config.modulesToSave);
  reader.read("target_parameters", config.parameters);
  for (const std::string &name : config.modulesToSave)
    reader.checkPattern("modules_to_save", name);
}

void readBias(Reader &reader, AdapterConfig &config) {
  const Json *value = reader.find("bias");
  if (!value)
    return;
  const std::string name = value->is_string() ? value->get<std::string>() : value->dump();
  if (name == "all")
    config.bias = AdapterBias::All;
  else if (name == "lora_only")
    config.bias = AdapterBias::OfTargets;
  else if (name != "none")
    reader.fail("bias", fmt::format("none, all and lora_only are known, found {}", name));
}

void checkValues(Reader &reader, const AdapterConfig &config) {
  const auto checkRank = [&](const char *key, int64_t rank) {
    if (rank < 1 || rank > (int64_t(1) << 20))
      reader.fail(key, fmt::format("a rank is 1 or more, found {}", rank));
    if (config.start == AdapterStart::Orthogonal && rank % 2)
      reader.fail(key, fmt::format("init_lora_weights=orthogonal needs an even rank, found {}", rank));
  };
  checkRank("r", config.rank);
  for (const auto &entry : config.rankPattern)
    checkRank("rank_pattern", entry.second);
  if (!std::isfinite(config.alpha))
    reader.fail("lora_alpha", "is not finite");
  const std::pair<bool, const char *> notOfStacks[]{
      {config.dropout > 0, "lora_dropout"}, {config.hasBias, "lora_bias"}, {config.hasMagnitude, "use_dora"}};
  for (const auto &[isAsked, key] : notOfStacks)
    if (isAsked && !config.parameters.empty())
      reader.fail("target_parameters", fmt::format("stacks of experts have no {}, as in PEFT", key));
  if (config.hasBias && config.hasMagnitude)
    reader.fail("use_dora", "DoRA has no lora_bias, as in PEFT: leave one of them out");
  if (!(config.dropout >= 0 && config.dropout < 1))
    reader.fail("lora_dropout", fmt::format("a share of 0 to less than 1, found {}", config.dropout));
}

/// "r", "alpha", ... of --lora as keys of the file.
constexpr std::pair<const char *, const char *> kShortKeys[] = {
    {"r", "r"},
    {"alpha", "lora_alpha"},
    {"targets", "target_modules"},
    {"rslora", "use_rslora"},
    {"bias", "bias"},
    {"init", "init_lora_weights"},
    {"exclude", "exclude_modules"},
    {"save", "modules_to_save"},
    {"dropout", "lora_dropout"},
    {"dora", "use_dora"},
};

bool isOneOf(const std::vector<std::string> &list, std::string_view module) {
  return std::ranges::any_of(list, [&](const std::string &entry) {
    return module == entry ||
           (module.size() > entry.size() && module.ends_with(entry) && module[module.size() - entry.size() - 1] == '.');
  });
}

bool matches(const std::string &pattern, std::string_view name, std::string *group = nullptr) {
  const StatusOr<NamePattern> parsed = NamePattern::parse(pattern);
  return parsed.isOk() && parsed->matches(name, group);
}

bool isNamed(const ModuleNames &names, std::string_view module) {
  return names.expression.empty() ? isOneOf(names.list, module) : matches(names.expression, module);
}

template <typename Number>
Number valueOf(const std::vector<std::pair<std::string, Number>> &patterns, std::string_view module, Number otherwise) {
  for (const auto &[pattern, value] : patterns)
    if (matches("(?:.*\\.)?(?:" + pattern + ")", module))
      return value;
  return otherwise;
}

/// What patterns of ranks and alphas are held against.
std::string patternName(const AdapterConfig &config, std::string_view module) {
  return std::string(module) + (config.targetsWeightOf(module) ? ".weight" : "");
}

} // namespace

double AdapterConfig::scaleOf(std::string_view module) const {
  const double over = static_cast<double>(rankOf(module));
  const std::string name = patternName(*this, module);
  return valueOf(alphaPattern, name, alpha) / (dividesByRoot ? std::sqrt(over) : over);
}

int64_t AdapterConfig::rankOf(std::string_view module) const {
  return valueOf(rankPattern, patternName(*this, module), rank);
}

bool isNamedOrIn(std::string_view module, std::string_view name) {
  // Any end of a name, not after a dot alone: `norm` stands for input_layernorm too.
  while (!module.ends_with(name)) {
    const size_t dot = module.rfind('.');
    if (dot == std::string_view::npos)
      return false;
    module = module.substr(0, dot);
  }
  return true;
}

bool AdapterConfig::saves(std::string_view module) const {
  return std::ranges::any_of(modulesToSave, [&](const std::string &name) { return isNamedOrIn(module, name); });
}

bool AdapterConfig::excludesModule(std::string_view module) const {
  if (!excluded.isEmpty() && isNamed(excluded, module))
    return true;
  return std::ranges::any_of(
      modulesToSave, [&](const std::string &name) { return matches("(?:.*\\.)?(?:" + name + ")(?:\\..*)?", module); });
}

bool AdapterConfig::targetsModule(std::string_view module) const {
  if (!targets.expression.empty())
    return matches(targets.expression, module);
  return isOneOf(targets.list, module) &&
         (isInLayers(module) || std::ranges::find(targets.list, module) != targets.list.end());
}

bool AdapterConfig::isInLayers(std::string_view module) const {
  if (!layers)
    return true;
  std::string number;
  if (layersPatterns.empty()) {
    if (!matches(".*?\\.[^.]*\\.(\\d+)\\..*", module, &number))
      return false;
  } else if (std::ranges::none_of(layersPatterns, [&](const std::string &pattern) {
               return matches("(?:|.*?\\.)(?:" + pattern + ")\\.(\\d+)\\..*", module, &number);
             })) {
    return false;
  }
  int64_t layer = -1;
  std::from_chars(number.data(), number.data() + number.size(), layer);
  return std::ranges::find(*layers, layer) != layers->end();
}

bool AdapterConfig::targetsParameter(std::string_view parameter) const {
  return isOneOf(parameters, parameter);
}

bool AdapterConfig::targetsWeightOf(std::string_view module) const {
  return targetsParameter(std::string(module) + ".weight");
}

std::string AdapterConfig::stackName(std::string_view stack) const {
  std::string module(stack.substr(0, stack.rfind('.')));
  const bool isInner = stack.ends_with(".gate_up_proj") && targetsParameter(module + ".down_proj");
  return isInner ? module + ".base_layer" : module;
}

const TokenRows *AdapterConfig::rowsOf(std::string_view module) const {
  const auto found =
      std::ranges::find_if(tokenRows, [&](const TokenRows &table) { return module.ends_with(table.module); });
  return found == tokenRows.end() ? nullptr : &*found;
}

StatusOr<AdapterConfig> parseAdapterConfig(std::string_view text, const std::string &place) {
  const Json json = parseJson<Json>(text);
  if (!json.is_object())
    return invalidArgument(fmt::format("{}: is not a JSON object", place));
  AdapterConfig config;
  config.text = std::string(text);
  Reader reader(json, place);
  if (const Json *type = reader.find("peft_type"); !type || *type != Json("LORA"))
    reader.fail("peft_type", fmt::format("only LORA is known, found {}", type ? type->dump() : "nothing"));
  if (const Json *task = reader.find("task_type"); task && *task != Json("CAUSAL_LM"))
    reader.fail("task_type", fmt::format("ztc trains language models (CAUSAL_LM), found {}", task->dump()));
  reader.read("r", config.rank);
  config.alpha = 8;
  reader.read("lora_alpha", config.alpha);
  reader.readPattern("rank_pattern", config.rankPattern);
  reader.readPattern("alpha_pattern", config.alphaPattern);
  reader.read("use_rslora", config.dividesByRoot);
  reader.read("lora_bias", config.hasBias);
  reader.read("lora_dropout", config.dropout);
  reader.read("use_dora", config.hasMagnitude);
  bool stored = false;
  reader.read("fan_in_fan_out", stored); // the product says how a weight lies
  readTargets(reader, config);
  readTokenRows(reader, config);
  readLayers(reader, config);
  readBias(reader, config);
  readStart(reader, json, config);
  reader.finish();
  checkValues(reader, config);
  if (config.targets.isEmpty() && !config.isAllLinear && config.modulesToSave.empty() && config.tokenRows.empty() &&
      config.parameters.empty())
    reader.fail("target_modules", "names no module: give a list, a regular expression or all-linear");
  ZTC_RETURN_IF_ERROR(reader.status());
  return config;
}

StatusOr<std::string> adapterConfigText(std::string_view words) {
  Json json{{"peft_type", "LORA"},
            {"task_type", "CAUSAL_LM"},
            {"base_model_name_or_path", nullptr},
            {"r", 8},
            {"lora_alpha", 8},
            {"target_modules", "all-linear"},
            {"lora_dropout", 0.0},
            {"bias", "none"},
            {"init_lora_weights", true}};
  const auto fail = [&](const std::string &what) {
    return invalidArgument(fmt::format("--lora={}: {}; expected r=16,alpha=32,targets=all-linear (or names joined by "
                                       "+), and of dropout, rslora, dora, bias, init, exclude, save what is wanted",
                                       words, what));
  };
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(',', at), words.size());
    const std::string_view word = words.substr(at, end - at);
    at = end + 1;
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto known = std::ranges::find_if(kShortKeys, [&](const auto &row) { return name == row.first; });
    if (equals == std::string_view::npos || known == std::end(kShortKeys))
      return fail(fmt::format("'{}' is not known", word));
    const std::string value(word.substr(equals + 1)), key = known->second;
    const bool isList = key == "target_modules" || key == "exclude_modules" || key == "modules_to_save";
    if (value.empty())
      return fail(fmt::format("'{}' has no value", name));
    if (isList && value != "all-linear") {
      Json list = Json::array();
      for (size_t from = 0; from <= value.size();) {
        const size_t to = std::min(value.find('+', from), value.size());
        list.push_back(value.substr(from, to - from));
        from = to + 1;
      }
      json[key] = list;
    } else if (const Json parsed = parseJson<Json>(value); parsed.is_number() || parsed.is_boolean()) {
      json[key] = parsed;
    } else {
      json[key] = value;
    }
  }
  return json.dump(2);
}

std::string writtenAdapterConfig(const AdapterConfig &config, const std::vector<std::string> &targets,
                                 const std::string &base, bool fanInFanOut) {
  Json json = parseJson<Json>(config.text);
  json["fan_in_fan_out"] = fanInFanOut;
  if (config.isAllLinear)
    json["target_modules"] = targets;
  if (!base.empty())
    json["base_model_name_or_path"] = base;
  json["inference_mode"] = true;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string differenceOfAdapters(const std::string &compiled, const std::string &given) {
  const Json mine = parseJson<Json>(compiled), other = parseJson<Json>(given);
  if (!mine.is_object() || !other.is_object())
    return "one of the configurations is not a JSON object";
  for (const char *key : {"r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "use_dora", "lora_bias",
                          "target_parameters", "trainable_token_indices"}) {
    const auto valueIn = [&, name = std::string(key)](const Json &json) {
      const auto found = json.find(name);
      const bool missing = found == json.end() || isEmpty(*found);
      if (!missing)
        return found->is_number() ? Json(found->get<double>()) : *found;
      return name == "r" || name == "lora_alpha" ? Json(8.0) : Json();
    };
    const Json a = valueIn(mine), b = valueIn(other);
    if (a != b)
      return fmt::format("{} is {}, the plan was compiled with {}", key, b.dump(), a.dump());
  }
  return {};
}

} // namespace ztc
