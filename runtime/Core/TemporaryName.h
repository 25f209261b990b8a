// What a file is called until it replaces another one.
#pragma once
#include <fmt/format.h>
#include <string>
#include <unistd.h>

namespace ztc {

/// The file beside `path` that replaceFile() fills in this process; `path` as replaceablePath() gives it.
inline std::string temporaryName(const std::string &path) {
  return fmt::format("{}.tmp-{}", path, ::getpid());
}

} // namespace ztc
