// What lies in the memory spaces below the device's.
#pragma once
#include "mlir/Support/LLVM.h"
#include <string>

namespace ztc {

/// Of each kind of slot the buckets whose slots lie below: the first `host` of those that have such a slot in
/// page-locked memory, the next `disk` in a file, in the order of the module's buckets.
struct OffloadChoice {
  struct Share {
    unsigned host = 0, disk = 0;
    bool operator==(const Share &) const = default;
  };
  Share states;     ///< of the optimizer, all of a bucket together
  Share masters;    ///< what narrow parameters lack
  Share parameters; ///< where they are gathered before each use (ZeRO-3), frozen ones first

  bool isEmpty() const { return *this == OffloadChoice(); }
  bool operator==(const OffloadChoice &) const = default;
  /// As one word: "states=2+30/masters=0+12/parameters=0+0", host and disk; "none" where it is empty.
  std::string text() const;
  /// Reads such a word; fails where it is none.
  static mlir::FailureOr<OffloadChoice> parse(llvm::StringRef text);
};

} // namespace ztc
