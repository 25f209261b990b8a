// What lies in the memory spaces below the device's.
#pragma once
#include "mlir/Support/LLVM.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace ztc {

/// What a block keeps for its backward stays on the device where it is smaller than one part in so many of the largest.
inline constexpr uint64_t kSmallestKeptShare = 16;

/// An update of what lies below goes piece by piece: elements of a piece, where a model has so many parameters.
inline uint64_t updatePieceElements(uint64_t parameters) {
  constexpr uint64_t kSmallestPiece = uint64_t(1) << 22, kMostPieces = 256;
  return std::max(kSmallestPiece, llvm::PowerOf2Ceil(parameters / kMostPieces));
}

/// What a tensor that blocks keep for their backward is called, the same in each block, by the name of its slot:
/// "gate_proj.matmul" of "microstep.layer3.gate_proj.matmul". Only letters, digits, '.', '_' and '-' are in it.
std::string keptTensorName(llvm::StringRef slotName);

/// Of each kind of slot the buckets whose slots lie below: the first `host` of those that have such a slot in
/// page-locked memory, the next `disk` in a file, in the order of the module's buckets.
struct OffloadChoice {
  struct Share {
    unsigned host = 0, disk = 0;
    bool operator==(const Share &) const = default;
  };
  Share states;      ///< of the optimizer, all of a bucket together
  Share masters;     ///< what narrow parameters lack
  Share parameters;  ///< which come before each use, to be gathered (ZeRO-3) or as they are; frozen ones first
  Share gradients;   ///< from a micro-step to the next, and to the update
  Share activations; ///< of blocks, the first ones first: what waits for the backward
  /// The same tensor by tensor, by keptTensorName(): of the blocks that keep it for their backward the first ones. What
  /// has an entry here is not what `activations` is about.
  std::map<std::string, Share> tensors;
  /// Buckets whose states lie in the host's memory are updated there, by its cores: gradients go down, parameters come
  /// up. Else their states stream through the device.
  bool updatesOnHost = false;

  /// Whether nothing lies below.
  bool isEmpty() const {
    OffloadChoice nothing;
    nothing.updatesOnHost = updatesOnHost;
    return *this == nothing;
  }
  bool operator==(const OffloadChoice &) const = default;
  /// As one word: "states=2+30/masters=0+12/parameters=0+0/gradients=0+0/activations=0+0", host and disk, with
  /// "/activations.gate_proj.matmul=8+0" for an entry of `tensors` and "/update=host" where updatesOnHost; "none" where
  /// it is empty.
  std::string text() const;
  /// Reads such a word; fails where it is none.
  static mlir::FailureOr<OffloadChoice> parse(llvm::StringRef text);
};

} // namespace ztc
