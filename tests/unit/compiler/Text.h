// IR text with something in place of a word, and the text of one kernel.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>

namespace ztc::test {

/// `text` with every `from` replaced by `to`.
inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// A kernel's entry and body in a module's PTX; empty where it has no such kernel.
inline llvm::StringRef kernelText(llvm::StringRef ptx, llvm::StringRef kernel) {
  llvm::StringRef text = ptx.substr(ptx.find((".entry " + kernel + "(").str()));
  return text.take_front(text.find("\n}"));
}

} // namespace ztc::test
