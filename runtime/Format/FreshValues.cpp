#include "runtime/Format/FreshValues.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace ztc {
namespace {

using Kind = FreshValues::Kind;

struct KindInfo {
  Kind kind;
  std::string_view word;
  size_t numbers;
};
constexpr KindInfo kKinds[] = {{Kind::Constant, "constant", 1},  {Kind::Uniform, "uniform", 2},
                               {Kind::LogCount, "log-count", 0}, {Kind::LogUniform, "log-uniform", 2},
                               {Kind::Step, "step", 3},          {Kind::Normal, "normal", 1},
                               {Kind::Decay, "decay", 2}};

/// What a logarithm is taken of is above 0, or may be 0 at the end of a range.
bool suits(const FreshValues &values) {
  auto suits = [&](double number) {
    switch (values.kind) {
    case Kind::Step:
      return number > 0;
    case Kind::LogUniform:
    case Kind::Normal:
      return number >= 0;
    case Kind::Decay:
      return number > 0 && number < 1;
    default:
      return true;
    }
  };
  return std::all_of(values.numbers.begin(), values.numbers.end(),
                     [&](double number) { return std::isfinite(number) && suits(number); });
}

StatusOr<FreshValues> parseOne(std::string_view text) {
  const Status failed = dataLoss(
      fmt::format("the plan's {}: '{}' is not NAME=KIND(NUMBERS); compile the plan again", kFreshValues, text));
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return failed;
  FreshValues values;
  values.name = text.substr(0, equals);
  std::string_view form = text.substr(equals + 1), inside;
  if (const size_t open = form.find('('); open != std::string_view::npos) {
    if (!form.ends_with(')'))
      return failed;
    inside = form.substr(open + 1, form.size() - open - 2);
    form = form.substr(0, open);
  }
  while (!inside.empty()) {
    double number = 0;
    const auto [stop, error] = std::from_chars(inside.data(), inside.data() + inside.size(), number);
    if (error != std::errc())
      return failed;
    values.numbers.push_back(number);
    inside.remove_prefix(size_t(stop - inside.data()));
    if (!inside.empty() && inside.front() != ',')
      return failed;
    inside.remove_prefix(inside.empty() ? 0 : 1);
  }
  for (const KindInfo &info : kKinds)
    if (info.word == form && info.numbers == values.numbers.size()) {
      values.kind = info.kind;
      return suits(values) ? StatusOr<FreshValues>(std::move(values)) : failed;
    }
  return failed;
}

} // namespace

bool endsWithParts(std::string_view name, std::string_view end) {
  return name.ends_with(end) && (name.size() == end.size() || name[name.size() - end.size() - 1] == '.');
}

std::string printFreshValues(const std::vector<FreshValues> &values) {
  std::string text;
  for (const FreshValues &one : values) {
    text += (text.empty() ? "" : ";") + one.name + "=";
    for (const KindInfo &info : kKinds)
      if (info.kind == one.kind)
        text += info.word;
    for (size_t i = 0; i < one.numbers.size(); ++i)
      text += fmt::format("{}{}", i ? "," : "(", one.numbers[i]);
    text += one.numbers.empty() ? "" : ")";
  }
  return text;
}

StatusOr<std::vector<FreshValues>> parseFreshValues(std::string_view text) {
  std::vector<FreshValues> values;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    ZTC_ASSIGN_OR_RETURN(FreshValues one, parseOne(text.substr(0, end)));
    values.push_back(std::move(one));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

} // namespace ztc
