// Numbers on the command line as people write them.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <string_view>

namespace ztc {

/// A whole number from 0 as the library behind the command line reads it: decimal whatever zeros stand before it (that
/// takes 0100 for 64). InvalidArgument where the text is empty, has a sign or is beyond 64 bits.
StatusOr<std::string> wholeNumber(std::string_view text);
/// Ok for a finite number. An empty text, which that library takes for 0, is InvalidArgument.
Status checkReal(std::string_view text);
/// Reads "90s", "30m", "2h", "1.5d": seconds, more than 0. InvalidArgument on anything else; a unit is needed.
StatusOr<double> parseDuration(std::string_view text);

} // namespace ztc
