// JSON from files that anybody may have written.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ztc {

/// How deep arrays and objects may lie in one another: nlohmann::json copies and prints them recursively.
inline constexpr int kDeepestJson = 64;

/// True where brackets lie deeper than kDeepestJson; those inside strings do not count.
inline bool isJsonTooDeep(std::string_view text) {
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inString) {
      i += c == '\\';
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// A text in which Python has written Infinity, -Infinity or NaN, which JSON lacks: each becomes what transformers
/// writes since its version 5, {"__float__": "Infinity"}.
std::string withPythonsNumbers(std::string_view text);

/// The way back, for a file that Python's own writer made: its reader has no other form.
std::string withBareNumbers(std::string_view text);

/// The value of a text, Python's numbers included, without exceptions; a discarded value, which is not an object, array
/// or number, where it is none or lies too deep.
template <typename Json = nlohmann::json> Json parseJson(std::string_view text) {
  if (isJsonTooDeep(text))
    return Json(nlohmann::detail::value_t::discarded);
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json::parse(withPythonsNumbers(text), nullptr, /*allow_exceptions=*/false) : value;
}

} // namespace ztc
