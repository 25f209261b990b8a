#include "runtime/Text/JsonFields.h"
#include "runtime/Text/Unicode.h"
#include <fmt/format.h>
#include <limits>

namespace ztc {

StatusOr<JsonFields> JsonFields::of(const nlohmann::json &json, std::string place) {
  if (!json.is_object())
    return invalidArgument(fmt::format("{} is not an object", place));
  return JsonFields(json, std::move(place));
}

Status JsonFields::error(std::string_view what) const {
  return invalidArgument(fmt::format("{}: {}", place_, what));
}

const nlohmann::json *JsonFields::find(const char *name) const {
  const auto found = json_->find(name);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

StatusOr<std::string> JsonFields::text(const char *name) const {
  const nlohmann::json *found = find(name);
  if (!found)
    return error(fmt::format("'{}' is missing", name));
  if (!found->is_string())
    return error(fmt::format("'{}' is not a text", name));
  return *found->get_ptr<const std::string *>();
}

StatusOr<std::string> JsonFields::textOr(const char *name, std::string_view otherwise) const {
  return find(name) ? text(name) : StatusOr<std::string>(std::string(otherwise));
}

StatusOr<bool> JsonFields::flag(const char *name) const {
  const nlohmann::json *found = find(name);
  if (!found)
    return error(fmt::format("'{}' is missing", name));
  if (!found->is_boolean())
    return error(fmt::format("'{}' is neither true nor false", name));
  return *found->get_ptr<const bool *>();
}

StatusOr<bool> JsonFields::flag(const char *name, bool otherwise) const {
  return find(name) ? flag(name) : StatusOr<bool>(otherwise);
}

StatusOr<uint64_t> JsonFields::number(const char *name) const {
  const nlohmann::json *found = find(name);
  if (!found || !found->is_number_unsigned())
    return error(fmt::format("'{}' is not a whole number", name));
  return *found->get_ptr<const uint64_t *>();
}

StatusOr<char32_t> JsonFields::character(const char *name) const {
  ZTC_ASSIGN_OR_RETURN(const std::string found, text(name));
  size_t end = 0;
  const char32_t first = found.empty() ? 0 : nextCharacter(found, end);
  if (found.empty() || end != found.size())
    return error(fmt::format("'{}' is not one character", name));
  return first;
}

StatusOr<JsonFields> JsonFields::object(const char *name) const {
  const nlohmann::json *found = find(name);
  if (!found)
    return error(fmt::format("'{}' is missing", name));
  return of(*found, fmt::format("{}.{}", place_, name));
}

StatusOr<const nlohmann::json *> JsonFields::array(const char *name) const {
  const nlohmann::json *found = find(name);
  if (!found || !found->is_array())
    return error(fmt::format("'{}' is not an array", name));
  return found;
}

std::optional<int32_t> tokenIdOf(const nlohmann::json &json) {
  constexpr uint64_t kLargest = std::numeric_limits<int32_t>::max() - 1;
  if (!json.is_number_unsigned() || *json.get_ptr<const uint64_t *>() > kLargest)
    return std::nullopt;
  return static_cast<int32_t>(*json.get_ptr<const uint64_t *>());
}

} // namespace ztc
