#include "runtime/Core/NearestName.h"
#include <algorithm>
#include <cctype>

namespace ztc {

/// Letters without what people write in different ways.
static std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '-' && c != '_')
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Optimal string alignment (Damerau 1964, restricted): three rows of the table are enough.
static size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearestName(std::string_view word, const std::vector<std::string> &names) {
  const std::string given = plain(word);
  std::string best;
  size_t least = std::max<size_t>(1, given.size() / 3) + 1;
  for (const std::string &name : names) {
    const std::string known = plain(name);
    const bool isBeginning = given.size() >= 3 && known.starts_with(given);
    const size_t letters = isBeginning ? 1 : distance(given, known);
    if (letters < least) {
      least = letters;
      best = name;
    }
  }
  return best;
}

} // namespace ztc
