// Regular expressions of tokenizer.json: written for Oniguruma (Ruby's syntax), run by PCRE2.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// A part of a text, from byte to byte.
struct TextMatch {
  size_t begin = 0;
  size_t end = 0;
  bool matches = false;
};

/// A compiled pattern. Thread-safe; copies share it.
class Pattern {
public:
  /// InvalidArgument, with the pattern and what is wrong with it, where it is none.
  static StatusOr<Pattern> compile(std::string_view oniguruma);
  /// A pattern that matches `text` and nothing else.
  static StatusOr<Pattern> literal(std::string_view text);

  /// Cuts a valid text into parts that match and parts between them; together they are all of it. `text` must not be
  /// empty. InvalidArgument where the pattern would try too long.
  Status split(std::string_view text, std::vector<TextMatch> &parts) const;

private:
  struct Code;
  std::shared_ptr<const Code> code_;
  std::string literal_; ///< where it is one, and not empty
};

/// The field `pattern` of a normalizer, pre-tokenizer or decoder: {"String": ...} or {"Regex": ...}.
StatusOr<Pattern> readPattern(const JsonFields &fields);

/// The pattern in PCRE2's syntax: characters and classes that mean something else there, quantifiers, nested classes
/// and their intersections are rewritten. For options UTF, UCP and MULTILINE.
StatusOr<std::string> translatePattern(std::string_view oniguruma);

} // namespace ztc
