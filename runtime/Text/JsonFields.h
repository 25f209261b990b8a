// The fields of a JSON object, with messages for those that are missing or of another type.
#pragma once
#include "runtime/Core/Json.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Status.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// InvalidArgument says which field of what ("normalizer.Replace: 'content' is not a text"). The JSON value outlives
/// it.
class JsonFields {
public:
  static StatusOr<JsonFields> of(const nlohmann::json &json, std::string place);
  const std::string &place() const { return place_; }
  Status error(std::string_view what) const;

  /// Null where the field is missing or null.
  const nlohmann::json *find(const char *name) const;
  StatusOr<std::string> text(const char *name) const;
  /// Empty where it is missing or null.
  StatusOr<std::string> textOr(const char *name, std::string_view otherwise) const;
  StatusOr<bool> flag(const char *name, bool otherwise) const;
  StatusOr<bool> flag(const char *name) const;
  StatusOr<uint64_t> number(const char *name) const;
  /// A text of one character.
  StatusOr<char32_t> character(const char *name) const;
  StatusOr<JsonFields> object(const char *name) const;
  /// An array, maybe empty.
  StatusOr<const nlohmann::json *> array(const char *name) const;

private:
  JsonFields(const nlohmann::json &json, std::string place) : json_(&json), place_(std::move(place)) {}
  const nlohmann::json *json_;
  std::string place_;
};

/// "the type 'X' is not known (A, B, C)".
template <typename Readers> std::string unknownType(const std::string &type, const Readers &readers) {
  std::string names;
  for (const auto &[name, reader] : readers)
    names += (names.empty() ? "" : ", ") + name;
  return "the type '" + printable(type, 60) + "' is not known (known are " + names + ")";
}

/// Reads an object by its `type`: the reader of that name gets its fields. InvalidArgument names the types that are
/// known.
template <typename Result, typename Readers>
StatusOr<Result> readByType(const nlohmann::json &json, const std::string &place, const Readers &readers) {
  ZTC_ASSIGN_OR_RETURN(const JsonFields unnamed, JsonFields::of(json, place));
  ZTC_ASSIGN_OR_RETURN(const std::string type, unnamed.text("type"));
  const auto reader = readers.find(type);
  if (reader == readers.end())
    return unnamed.error(unknownType(type, readers));
  ZTC_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::of(json, place + "." + type));
  return reader->second(fields);
}

/// A token id; nothing where the value is none.
std::optional<int32_t> tokenIdOf(const nlohmann::json &json);

} // namespace ztc
