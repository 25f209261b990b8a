#include "runtime/Core/Json.h"
#include <algorithm>
#include <iterator>

namespace ztc {

std::string withPythonsNumbers(std::string_view text) {
  static constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};
  std::string result;
  bool isInText = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto *name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](std::string_view each) { return !isInText && rest.starts_with(each); });
    if (name != std::end(kNames)) {
      result.append("{\"__float__\": \"").append(*name).append("\"}");
      i += name->size();
      continue;
    }
    if (isInText && text[i] == '\\' && i + 1 < text.size())
      result += text[i++];
    else if (text[i] == '"')
      isInText = !isInText;
    result += text[i++];
  }
  return result;
}

} // namespace ztc
