// config.json, read key by key: what a family reads is known, the rest is held against its tables.
#pragma once
#include "runtime/Core/Status.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ztc::huggingface {

/// One JSON object of a configuration. Reads mark their key; the first value of a wrong kind is kept as the error, and
/// reads go on with the default.
class Config {
public:
  /// `place` is for messages: "FOLDER/config.json", "FOLDER/config.json: text_config".
  Config(nlohmann::json object, std::string place) : object(std::move(object)), place(std::move(place)) {}
  /// Fails with one message where the text is not a JSON object, or nested deeper than any configuration.
  static StatusOr<Config> parse(const std::string &text, const std::string &place);

  /// Whether the key is there, also with null.
  bool has(const char *key);
  bool isNull(const char *key);
  bool isText(const char *key);
  /// A whole number of [least, 2^40]; where the key is absent, `otherwise`.
  int64_t integer(const char *key, int64_t otherwise, int64_t least = 1);
  /// The same, where null has a meaning.
  std::optional<int64_t> optionalInteger(const char *key, std::optional<int64_t> otherwise, int64_t least = 1);
  double number(const char *key, double otherwise);
  std::optional<double> optionalNumber(const char *key, std::optional<double> otherwise);
  bool flag(const char *key, bool otherwise); ///< null is false, as in Python
  std::string text(const char *key, const std::string &otherwise);
  /// Empty where it is absent or null.
  std::vector<std::string> texts(const char *key);
  std::optional<std::vector<int64_t>> integers(const char *key); ///< none where it is absent or null
  std::vector<double> numbers(const char *key);
  /// As it stands there, null where it is absent: for forms that one family alone has.
  nlohmann::json value(const char *key);
  /// The first of these keys that is there, else the first: one number under the names of several versions.
  const char *firstOf(std::initializer_list<const char *> keys);
  /// An object below this one; none where the key is absent, null or an empty object.
  std::optional<Config> child(const char *key);
  /// Where a child is absent and all of its keys have defaults: messages name this object's place.
  Config withoutKeys() const { return Config(nlohmann::json::object(), place); }

  void set(const char *key, nlohmann::json value) { object[key] = std::move(value); }
  /// The key is known and changes nothing that ztc computes.
  void harmless(std::initializer_list<const char *> keys);
  /// The key is read by the model, and ztc supports these values of it only.
  void require(const char *key, std::initializer_list<nlohmann::json> allowed);
  void fail(const std::string &message);
  /// "FOLDER/config.json: KEY is VALUE, ": how messages about a value begin.
  std::string describe(const char *key) const;

  const Status &status() const { return error; }
  /// Takes over what a child found out.
  void adopt(const Config &child);
  /// Keys that nobody has asked for.
  std::vector<std::string> unknownKeys() const;

private:
  const nlohmann::json *find(const char *key);
  void failKind(const char *key, const char *wanted);
  nlohmann::json object;
  std::string place;
  std::set<std::string, std::less<>> known;
  Status error;
};

} // namespace ztc::huggingface
