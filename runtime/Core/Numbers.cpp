#include "runtime/Core/Numbers.h"
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace ztc {

StatusOr<std::string> wholeNumber(std::string_view text) {
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end)
    return invalidArgument(fmt::format("'{}' is too large", text));
  if (text.empty() || error != std::errc() || stop != end)
    return invalidArgument(fmt::format("'{}' is not a whole number from 0", text));
  return std::to_string(value);
}

Status checkReal(std::string_view text) {
  double value = 0;
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  const char *end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || stop != end || (error != std::errc() && error != std::errc::result_out_of_range))
    return invalidArgument(fmt::format("'{}' is not a number", text));
  if (error == std::errc::result_out_of_range || !std::isfinite(value))
    return invalidArgument(fmt::format("'{}' is not a finite number", text));
  return Status::ok();
}

StatusOr<double> parseDuration(std::string_view text) {
  double value = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, size_t(end - stop));
  const double seconds = unit == "s" || unit == "sec"   ? 1
                         : unit == "m" || unit == "min" ? 60
                         : unit == "h"                  ? 3600
                         : unit == "d"                  ? 86400
                                                        : 0;
  if (error == std::errc() && unit.empty())
    return invalidArgument(fmt::format("'{0}' has no unit: {0}s, {0}m or {0}h", text));
  if (error != std::errc() || seconds == 0 || !std::isfinite(value * seconds) || value <= 0)
    return invalidArgument(fmt::format("'{}' is not a time such as 90s, 30m or 2h", text));
  return value * seconds;
}

} // namespace ztc
