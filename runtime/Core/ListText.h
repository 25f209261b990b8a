// Lists of names as messages have them.
#pragma once
#include <fmt/format.h>
#include <string>
#include <string_view>

namespace ztc {

/// "a, b, c, d, e and 3 more": the first `shown` of a range of texts.
template <typename Names> std::string listText(const Names &names, size_t shown = 5) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < shown; ++i)
    text.append(i ? ", " : "").append(std::string_view(names[i]));
  return names.size() > shown ? text + fmt::format(" and {} more", names.size() - shown) : text;
}

} // namespace ztc
