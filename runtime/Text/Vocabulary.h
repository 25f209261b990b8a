// Tokens by text and by id.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ztc {

class Vocabulary {
public:
  /// Of {"token": id, ...}.
  static StatusOr<Vocabulary> read(const JsonFields &fields);

  /// The last of several that say the same text or id stays.
  void add(std::string text, int32_t id);
  std::optional<int32_t> find(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string_view> text(int32_t id) const {
    const auto found = texts_.find(id);
    return found == texts_.end() ? std::nullopt : std::optional<std::string_view>(*found->second);
  }
  size_t size() const { return ids_.size(); }
  const auto &all() const { return ids_; }

private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<int32_t, const std::string *> texts_; ///< into ids_, whose keys stay where they are
};

/// "<0x0A>" for 10.
std::string byteTokenText(uint8_t byte);

} // namespace ztc
