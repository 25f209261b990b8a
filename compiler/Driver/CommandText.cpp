#include "compiler/Driver/CommandText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::StringRef;

namespace ztc::driver {

std::string shellWord(const std::string &text) {
  const bool isPlain =
      llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || StringRef("/._-=,+:%").contains(c); });
  if (isPlain && !text.empty())
    return text;
  // Within single quotes nothing has a meaning but the quote itself, which stands outside of them.
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string decimal(double value) {
  return StringRef(llvm::formatv("{0:F4}", value).str()).rtrim('0').rtrim('.').str();
}

} // namespace ztc::driver
