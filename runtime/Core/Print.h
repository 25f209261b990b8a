// Output for people. What nobody takes, because a terminal is closed or a disk full, ends no run: fmt::print throws
// there.
#pragma once
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace ztc {

template <typename... Arguments>
void print(std::FILE *to, fmt::format_string<Arguments...> text, Arguments &&...arguments) {
  const std::string line = fmt::format(text, std::forward<Arguments>(arguments)...);
  (void)!std::fwrite(line.data(), 1, line.size(), to);
}

/// `text` as a terminal may show it: control characters but for line ends and tabs, the codes 0x80 to 0x9f and bytes
/// that are no UTF-8 as \\x.., and only the beginning of what is longer than `most` bytes. Names in files may hold
/// anything.
std::string printable(std::string_view text, size_t most = 20000);

} // namespace ztc
