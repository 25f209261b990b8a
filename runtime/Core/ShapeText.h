// A tensor's shape as messages have it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace ztc {

/// "(2, 3)".
inline std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

} // namespace ztc
