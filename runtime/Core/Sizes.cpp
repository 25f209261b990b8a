#include "runtime/Core/Sizes.h"
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace ztc {

/// Fewer bytes than that need their unit: "b" for bytes.
static constexpr double kSmallestWithoutUnit = 1e6;

static std::optional<double> unitFactor(std::string unit) {
  for (char &c : unit)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.empty() || unit == "b")
    return 1.0;
  const size_t power = std::string_view("kmgt").find(unit[0]);
  if (power == std::string_view::npos)
    return std::nullopt;
  const std::string rest = unit.substr(1);
  if (rest.empty() || rest == "ib" || rest == "i")
    return std::pow(1024.0, static_cast<double>(power + 1));
  if (rest == "b")
    return std::pow(1000.0, static_cast<double>(power + 1));
  return std::nullopt;
}

StatusOr<uint64_t> parseSize(std::string_view text) {
  const auto bad = [&](const char *why) {
    return invalidArgument(fmt::format("'{}' is not a size: {}; write for example 78GiB, 512MiB or 1e9", text, why));
  };
  std::string_view number = text;
  while (!number.empty() && number.front() == ' ')
    number.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0)
    return bad("it does not begin with a number that is not negative");
  std::string unit(end, number.data() + number.size());
  std::erase(unit, ' ');
  const std::optional<double> factor = unitFactor(unit);
  if (!factor)
    return bad("unknown unit");
  // 1e9 and 123456789 are bytes; nobody means 40 of them.
  if (unit.empty() && value > 0 && value < kSmallestWithoutUnit)
    return invalidArgument(fmt::format("'{}' has no unit: write {}GiB or {}MiB", text, number, number));
  const double bytes = value * *factor;
  if (bytes >= 9.2e18)
    return bad("too large");
  // Whole numbers stay exact beyond the 53 bits of a double.
  uint64_t whole = 0;
  const auto [wholeEnd, wholeError] = std::from_chars(number.data(), end, whole);
  if (wholeError == std::errc() && wholeEnd == end)
    return whole * static_cast<uint64_t>(*factor);
  return static_cast<uint64_t>(std::llround(bytes));
}

std::string formatSize(uint64_t bytes) {
  static constexpr std::array<const char *, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.5 would print as 1024 of the smaller unit.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

} // namespace ztc
