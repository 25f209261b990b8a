// Which algorithms of a library the calls of a plan take. They add in different orders, so that the choices are part of
// what bits depend on: ranks share them, checkpoints keep them, a cache remembers them.
//
//   {"key": "cuBLASLt 13.1.0 on NVIDIA H200, sm_90, 132 multiprocessors", "algorithms": {"64x192x64 NT ...":
//   "0a00..."}}
#pragma once
#include "runtime/Core/Status.h"
#include <map>
#include <string>
#include <string_view>

namespace ztc {

struct AlgorithmChoices {
  /// What they are for: a version of a library and a device. For others they mean nothing. Empty: there are none.
  std::string key;
  std::map<std::string, std::string> algorithms; ///< by the call's signature; the library's own bytes, hexadecimal

  bool operator==(const AlgorithmChoices &) const = default;
};

/// One line.
std::string printAlgorithmChoices(const AlgorithmChoices &choices);
/// DataLoss that names `path` where the text is none.
StatusOr<AlgorithmChoices> parseAlgorithmChoices(std::string_view json, const std::string &path);

} // namespace ztc
