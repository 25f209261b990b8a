// IR text with something in place of a word.
#pragma once
#include <string>

namespace ztc::test {

/// `text` with every `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

} // namespace ztc::test
