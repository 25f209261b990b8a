#include "frontends/huggingface/Config.h"
#include "runtime/Core/Json.h"
#include <algorithm>
#include <cmath>

namespace ztc::huggingface {

using Json = nlohmann::json;

static constexpr int kDeepest = 64;
static constexpr double kLargest = double(int64_t(1) << 40);

/// The value for a message, at most a line of it.
static std::string shown(const Json &value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

StatusOr<Config> Config::parse(const std::string &text, const std::string &place) {
  bool isDeep = false;
  auto guard = [&](int depth, Json::parse_event_t, Json &) {
    isDeep |= depth > kDeepest;
    return !isDeep;
  };
  Json json = Json::parse(withPythonsNumbers(text), guard, /*allow_exceptions=*/false);
  if (isDeep)
    return dataLoss(place + ": is nested deeper than " + std::to_string(kDeepest) +
                    " levels, which is not a configuration");
  if (!json.is_object())
    return dataLoss(place + ": is not a JSON object, or a truncated one");
  return Config(std::move(json), place);
}

const Json *Config::find(const char *key) {
  known.insert(key);
  auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool Config::has(const char *key) {
  return find(key) != nullptr;
}

bool Config::isNull(const char *key) {
  const Json *value = find(key);
  return value && value->is_null();
}

bool Config::isText(const char *key) {
  const Json *value = find(key);
  return value && value->is_string();
}

void Config::fail(const std::string &message) {
  if (error.isOk())
    error = failedPrecondition(place + ": " + message);
}

std::string Config::describe(const char *key) const {
  auto found = object.find(key);
  return std::string(key) + " is " + (found == object.end() ? "absent" : shown(*found));
}

void Config::failKind(const char *key, const char *wanted) {
  fail(describe(key) + ", which is not " + wanted);
}

/// A JSON number that is whole, also where it is written 4096.0.
static std::optional<int64_t> wholeNumber(const Json &value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(kLargest))
    return std::nullopt;
  if (value.is_number_integer())
    return value.get<int64_t>();
  if (!value.is_number_float())
    return std::nullopt;
  double number = value.get<double>();
  return std::abs(number) <= kLargest && number == std::floor(number) ? std::optional<int64_t>(int64_t(number))
                                                                      : std::nullopt;
}

int64_t Config::integer(const char *key, int64_t otherwise, int64_t least) {
  if (isNull(key))
    failKind(key, "a whole number");
  return optionalInteger(key, otherwise, least).value_or(otherwise);
}

std::optional<int64_t> Config::optionalInteger(const char *key, std::optional<int64_t> otherwise, int64_t least) {
  const Json *value = find(key);
  if (!value)
    return otherwise;
  if (value->is_null())
    return std::nullopt;
  std::optional<int64_t> number = wholeNumber(*value);
  if (number && *number >= least && double(*number) <= kLargest)
    return number;
  std::string wanted = "a whole number of at least " + std::to_string(least);
  failKind(key, wanted.c_str());
  return otherwise;
}

double Config::number(const char *key, double otherwise) {
  if (isNull(key))
    failKind(key, "a number");
  return optionalNumber(key, otherwise).value_or(otherwise);
}

std::optional<double> Config::optionalNumber(const char *key, std::optional<double> otherwise) {
  const Json *value = find(key);
  if (!value)
    return otherwise;
  if (value->is_null())
    return std::nullopt;
  if (value->is_number() && std::isfinite(value->get<double>()))
    return value->get<double>();
  failKind(key, "a finite number");
  return otherwise;
}

bool Config::flag(const char *key, bool otherwise) {
  const Json *value = find(key);
  if (!value)
    return otherwise;
  if (value->is_null())
    return false;
  if (!value->is_boolean())
    failKind(key, "true or false");
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Config::text(const char *key, const std::string &otherwise) {
  const Json *value = find(key);
  if (!value)
    return otherwise;
  if (!value->is_string())
    failKind(key, "a text");
  return value->is_string() ? value->get<std::string>() : otherwise;
}

std::vector<std::string> Config::texts(const char *key) {
  const Json *value = find(key);
  std::vector<std::string> result;
  if (!value || value->is_null())
    return result;
  bool fits = value->is_array();
  for (const Json &entry : fits ? *value : Json::array()) {
    fits &= entry.is_string();
    if (entry.is_string())
      result.push_back(entry.get<std::string>());
  }
  if (!fits)
    failKind(key, "a list of texts");
  return result;
}

std::optional<std::vector<int64_t>> Config::integers(const char *key) {
  const Json *value = find(key);
  if (!value || value->is_null())
    return std::nullopt;
  std::vector<int64_t> result;
  bool fits = value->is_array();
  for (const Json &entry : fits ? *value : Json::array()) {
    std::optional<int64_t> number = entry.is_boolean() ? int64_t(entry.get<bool>()) : wholeNumber(entry);
    fits &= number.has_value();
    result.push_back(number.value_or(0));
  }
  if (!fits)
    failKind(key, "a list of whole numbers");
  return result;
}

std::vector<double> Config::numbers(const char *key) {
  const Json *value = find(key);
  std::vector<double> result;
  bool fits = value && value->is_array();
  for (const Json &entry : fits ? *value : Json::array()) {
    fits &= entry.is_number();
    result.push_back(entry.is_number() ? entry.get<double>() : 1);
  }
  if (!fits)
    failKind(key, "a list of numbers");
  return result;
}

nlohmann::json Config::value(const char *key) {
  const Json *value = find(key);
  return value ? *value : Json();
}

const char *Config::firstOf(std::initializer_list<const char *> keys) {
  const char *first = nullptr;
  for (const char *key : keys)
    if (has(key) && !first)
      first = key;
  return first ? first : *keys.begin();
}

std::optional<Config> Config::child(const char *key) {
  const Json *value = find(key);
  if (!value || value->is_null() || (value->is_object() && value->empty()))
    return std::nullopt;
  if (value->is_object())
    return Config(*value, place + ": " + key);
  failKind(key, "an object");
  return std::nullopt;
}

void Config::harmless(std::initializer_list<const char *> keys) {
  known.insert(keys.begin(), keys.end());
}

void Config::require(const char *key, std::initializer_list<Json> allowed) {
  const Json *value = find(key);
  if (!value || std::find(allowed.begin(), allowed.end(), *value) != allowed.end())
    return;
  std::string list;
  for (const Json &entry : allowed)
    list += (list.empty() ? "" : " or ") + shown(entry);
  fail(describe(key) + "; ztc supports " + list + " only");
}

void Config::adopt(const Config &child) {
  if (error.isOk())
    error = child.error;
}

std::vector<std::string> Config::unknownKeys() const {
  std::vector<std::string> keys;
  for (const auto &entry : object.items())
    if (!known.count(entry.key()))
      keys.push_back(entry.key());
  return keys;
}

} // namespace ztc::huggingface
