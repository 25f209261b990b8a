// Text that parsers take apart by recursion: how deep it would lead them.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cstddef>

namespace ztc {

/// Deeper text than this is nothing that a person or a program of ours wrote, and ends a parser's stack.
inline constexpr size_t kDeepestText = 500;

/// How deep brackets of all kinds stand inside one another in JSON or IR; strings do not count.
inline size_t nestingOf(llvm::StringRef text) {
  size_t depth = 0, deepest = 0;
  bool isQuoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (isQuoted && c == '\\')
      ++i;
    else if (c == '"')
      isQuoted = !isQuoted;
    else if (!isQuoted && llvm::StringRef("([{<").contains(c))
      deepest = std::max(deepest, ++depth);
    else if (!isQuoted && depth && llvm::StringRef(")]}>").contains(c) && !(c == '>' && i && text[i - 1] == '-'))
      --depth;
  }
  return deepest;
}

} // namespace ztc
