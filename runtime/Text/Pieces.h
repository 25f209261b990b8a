// A text on its way to tokens: a buffer and the parts of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

inline constexpr int32_t kNoToken = -1;

/// A part of a text, never empty.
struct Piece {
  size_t begin = 0;
  size_t end = 0;
  int32_t token = kNoToken; ///< an added token that was found: nothing changes it any more
  bool atStart = false;     ///< it begins where the whole text began
};

/// The pieces in order; they need not touch.
struct Pieces {
  std::string text;
  std::vector<Piece> pieces;
  std::string_view of(const Piece &piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

} // namespace ztc
