// std::regex reports by exceptions: they end in this file.
#include "runtime/Core/NamePattern.h"
#include <regex>

namespace ztc {

struct NamePattern::Compiled {
  std::regex expression;
};

StatusOr<NamePattern> NamePattern::parse(const std::string &text) {
  try {
    // Python names groups `(?P<name>`; nothing here asks for a name.
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
      const size_t end = text.compare(i, 4, "(?P<") == 0 ? text.find('>', i) : std::string::npos;
      plain += text[i];
      if (end != std::string::npos)
        i = end;
    }
    return NamePattern(std::make_shared<const Compiled>(
        Compiled{std::regex(plain, std::regex::ECMAScript | std::regex_constants::__polynomial)}));
  } catch (const std::regex_error &) {
    return invalidArgument("'" + text + "' is not a regular expression that ztc reads");
  }
}

bool NamePattern::matches(std::string_view name, std::string *group) const {
  std::cmatch found;
  if (!std::regex_match(name.data(), name.data() + name.size(), found, compiled_->expression))
    return false;
  if (group)
    *group = found.size() > 1 ? found[1].str() : std::string();
  return true;
}

} // namespace ztc
