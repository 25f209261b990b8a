// Base64 (RFC 4648).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// The bytes of a text in base64, padded or not; nothing where it is none.
std::optional<std::string> decodeBase64(std::string_view text);

} // namespace ztc
