// What somebody may have meant who typed a name that there is not.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// The name that fewest letters (inserted, left out, exchanged; neighbours that changed places count once) tell apart
/// from `word`, or that begins with it; empty where none is near: at most a third of the letters may differ.
std::string nearestName(std::string_view word, const std::vector<std::string> &names);

} // namespace ztc
