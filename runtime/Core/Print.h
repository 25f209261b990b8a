// Output for people. What nobody takes, because a terminal is closed or a disk full, ends no run: fmt::print throws
// there.
#pragma once
#include <cstddef>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace ztc {

/// Writes to `to` and flushes it. Does not wait for a reader while there is an OutputInBackground.
void printText(std::FILE *to, std::string_view text);

template <typename... Arguments>
void print(std::FILE *to, fmt::format_string<Arguments...> text, Arguments &&...arguments) {
  printText(to, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// The errno of the first write to stdout that failed, once the background output has ended; 0: none failed. A pipe or
/// terminal that was closed does not count.
int standardOutputError();

/// Bytes printed to `to` that nobody has taken yet: a line that the next one replaces is better left out then.
size_t unreadBytes(std::FILE *to);

/// While it lives print() to stdout and stderr never waits: threads write, as much as nobody takes stays in memory, and
/// what is more is left out, which is said where it happened. Its end waits a few seconds for a reader. There is one
/// at a time; it is made when no other process will be forked.
class OutputInBackground {
public:
  OutputInBackground();
  ~OutputInBackground();
  OutputInBackground(const OutputInBackground &) = delete;
  OutputInBackground &operator=(const OutputInBackground &) = delete;
};

/// `text` as a terminal may show it: control characters but for line ends and tabs, the codes 0x80 to 0x9f and bytes
/// that are no UTF-8 as \\x.., and only the beginning of what is longer than `most` bytes. Names in files may hold
/// anything.
std::string printable(std::string_view text, size_t most = 20000);

} // namespace ztc
