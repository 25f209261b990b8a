#include "runtime/Ranks/RestartOrder.h"
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

namespace ztc {

uint64_t fewerRanks(uint64_t world, uint64_t globalBatch, uint64_t batch) {
  for (uint64_t fewer = world; fewer-- > 1;)
    if (batch > 0 && globalBatch % (fewer * batch) == 0)
      return fewer;
  return 0;
}

std::vector<std::string> withOption(std::vector<std::string> arguments, const std::string &option,
                                    const std::string &value) {
  for (size_t i = 1; i < arguments.size();) {
    const bool isAlone = arguments[i] == option;
    if (!isAlone && !arguments[i].starts_with(option + "=")) {
      ++i;
      continue;
    }
    const auto at = arguments.begin() + int64_t(i);
    const bool hasValue = isAlone && i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    arguments.erase(at, at + (hasValue ? 2 : 1));
  }
  // In front: after an option of several values it could be taken for one of them.
  if (!arguments.empty())
    arguments.insert(arguments.begin() + 1, option + "=" + value);
  return arguments;
}

std::string commandLine(const std::vector<std::string> &arguments) {
  std::string text;
  for (const std::string &argument : arguments) {
    const bool isPlain = !argument.empty() && std::ranges::all_of(argument, [](unsigned char c) {
      return std::isalnum(c) || std::string_view("-_=./:,+@%").find(char(c)) != std::string_view::npos;
    });
    std::string word = argument;
    if (!isPlain) {
      word = "'";
      for (const char c : argument)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
      word += "'";
    }
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::string devicesWithout(const std::string &visible, uint64_t count, uint64_t lost) {
  std::vector<std::string> devices;
  for (size_t begin = 0; begin < visible.size();) {
    const size_t end = std::min(visible.find(',', begin), visible.size());
    devices.push_back(visible.substr(begin, end - begin));
    begin = end + 1;
  }
  if (visible.empty())
    for (uint64_t i = 0; i < count; ++i)
      devices.push_back(std::to_string(i));
  if (lost < devices.size())
    devices.erase(devices.begin() + int64_t(lost));
  return fmt::format("{}", fmt::join(devices, ","));
}

} // namespace ztc
