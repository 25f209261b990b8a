// Regular expressions over names of modules, as Python's `re` reads them in the files of its libraries.
#pragma once
#include "runtime/Core/Status.h"
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// A regular expression that is held against a whole name. It takes what Python's and ECMAScript's have in common, in
/// time that grows with the length of the name and not faster: groups, classes, \d, \w, \s, \b, lookahead, lazy and
/// greedy repetition.
class NamePattern {
public:
  /// InvalidArgument where the text is not such an expression.
  static StatusOr<NamePattern> parse(const std::string &text);
  /// Whether all of `name` is one match; without a match of the first group `group` is left empty.
  bool matches(std::string_view name, std::string *group = nullptr) const;

private:
  struct Compiled;
  explicit NamePattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

} // namespace ztc
