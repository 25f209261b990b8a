#include "runtime/Core/Json.h"
#include <algorithm>
#include <iterator>

namespace ztc {

static constexpr std::string_view kNames[] = {"-Infinity", "Infinity", "NaN"};

std::string withPythonsNumbers(std::string_view text) {
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

std::string withBareNumbers(std::string_view text) {
  static constexpr std::string_view kKey = "\"__float__\"", kBlanks = " \t\r\n";
  std::string result;
  for (size_t done = 0;;) {
    const size_t key = text.find(kKey, done), open = key == text.npos ? key : text.find_last_not_of(kBlanks, key - 1);
    if (key == text.npos || open == text.npos)
      return result.append(text.substr(done));
    const size_t colon = text.find_first_not_of(kBlanks, key + kKey.size()),
                 quote = colon == text.npos ? colon : text.find_first_not_of(kBlanks, colon + 1);
    const std::string_view rest = quote == text.npos ? std::string_view() : text.substr(quote);
    const auto *name = std::find_if(std::begin(kNames), std::end(kNames), [&](std::string_view each) {
      return rest.size() > each.size() + 1 && rest[0] == '"' && rest.substr(1).starts_with(each) &&
             rest[each.size() + 1] == '"';
    });
    const size_t close =
        name == std::end(kNames) ? text.npos : text.find_first_not_of(kBlanks, quote + name->size() + 2);
    if (text[open] != '{' || close == text.npos || text[close] != '}' || text[colon] != ':') {
      result.append(text.substr(done, key + kKey.size() - done));
      done = key + kKey.size();
      continue;
    }
    result.append(text.substr(done, open - done)).append(*name);
    done = close + 1;
  }
}

} // namespace ztc
