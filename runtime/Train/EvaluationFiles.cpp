#include "runtime/Train/EvaluationFiles.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

/// The length of the name in NAME=FILE; 0 where there is none.
static size_t lengthOfName(const std::string &value) {
  const auto isOfName = [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' ||
           c == '-';
  };
  const auto end = std::ranges::find_if_not(value, isOfName);
  return end != value.end() && *end == '=' ? size_t(end - value.begin()) : 0;
}

std::vector<EvaluationFiles> evaluationFiles(const std::vector<std::string> &values) {
  std::vector<EvaluationFiles> sets;
  for (const std::string &value : values) {
    const size_t length = lengthOfName(value);
    const std::string name = value.substr(0, length);
    auto set = std::ranges::find(sets, name, &EvaluationFiles::name);
    if (set == sets.end())
      set = sets.insert(sets.end(), {.name = name, .files = {}});
    set->files.push_back(length == 0 ? value : value.substr(length + 1));
  }
  return sets;
}

StatusOr<size_t> watchedEvaluation(const std::vector<EvaluationFiles> &sets, const std::string &name) {
  if (name.empty())
    return size_t(0);
  const auto found = std::ranges::find(sets, name, &EvaluationFiles::name);
  if (found != sets.end())
    return size_t(found - sets.begin());
  std::string known;
  for (const EvaluationFiles &set : sets)
    if (!set.name.empty())
      known += (known.empty() ? "" : ", ") + set.name;
  return invalidArgument(
      fmt::format("--keep-best={}: no --eval-data has this name{}", name,
                  known.empty() ? ": give it as --eval-data NAME=FILE" : fmt::format(" (known are {})", known)));
}

} // namespace ztc
