// Lists of names as messages have them.
#pragma once
#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <string>

namespace ztc {

/// "a, b, c, d, e and 3 more".
inline std::string listText(std::span<const std::string> names) {
  constexpr size_t kShown = 5;
  const std::string text = fmt::format("{}", fmt::join(names.first(std::min(names.size(), kShown)), ", "));
  return names.size() > kShown ? text + fmt::format(" and {} more", names.size() - kShown) : text;
}

} // namespace ztc
