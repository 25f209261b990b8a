// --config: options from a TOML or YAML file.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <vector>

namespace ztc {

/// One option of the file.
struct ConfigEntry {
  std::string name;                ///< with dashes, without the two before it
  std::vector<std::string> values; ///< several where the file has a list
};

/// The options of a TOML or YAML text. Sections group them and mean nothing else; keys may have underscores for dashes.
/// A key without a value (YAML's null) is left out. InvalidArgument where the text is neither, where a key stands in it
/// twice, or where a value is not a number, text, truth value or list of these.
StatusOr<std::vector<ConfigEntry>> readConfig(const std::string &text);

} // namespace ztc
