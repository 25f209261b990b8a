// How commands that ztc prints are written.
#pragma once
#include <string>

namespace ztc::driver {

/// `text` as one word of a shell: as it is, or in quotes, whatever is in it.
std::string shellWord(const std::string &text);
/// At most four digits after the point, without zeros at the end: "0.03", "3".
std::string decimal(double value);

} // namespace ztc::driver
