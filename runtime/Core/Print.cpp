#include "runtime/Core/Print.h"

namespace ztc {

/// Bytes of the UTF-8 sequence at the front, 0 where there is none.
static size_t sequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      return 0;
  return length;
}

std::string printable(std::string_view text, size_t most) {
  std::string result;
  size_t at = 0;
  while (at < text.size() && result.size() < most) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = sequenceLength(text.substr(at));
    const bool isControl = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ||
                           (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (length == 0 || isControl)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += text.substr(at, length);
    at += length == 0 || isControl ? 1 : length;
  }
  if (at < text.size())
    result += fmt::format("... ({} bytes more)", text.size() - at);
  return result;
}

} // namespace ztc
