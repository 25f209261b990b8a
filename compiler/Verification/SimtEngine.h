// The engine that runs kernels for GPUs on a processor, opened where ztc is installed (tests/standin/SimtCalls.cpp).
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>

namespace ztc::verification {

/// How one kernel is launched. `words` are its parameters; the first are addresses of memory of `sizes` bytes, all that
/// it may touch.
struct SimtLaunch {
  std::string kernel;
  uint32_t blocks = 1, threads = 1;
  llvm::ArrayRef<uint64_t> words, sizes;
  bool descending = false; ///< the order in which blocks and threads take their turns; no kernel may depend on it
  /// Only blocks [first, first + count) of the grid run; all for a count of 0.
  uint64_t first = 0, count = 0;
};

/// An image for the target simt on the engine. One kernel runs at a time in a process.
class SimtImage {
public:
  /// Opens the engine, once per process, and loads the image. Fails with what is missing.
  static llvm::Expected<SimtImage> load(llvm::StringRef bytes);
  /// Fails with what the engine says: an access that is not allowed, threads that wait for what never comes.
  llvm::Error run(const SimtLaunch &launch) const;

private:
  explicit SimtImage(std::shared_ptr<void> handle) : handle(std::move(handle)) {}
  std::shared_ptr<void> handle;
};

} // namespace ztc::verification
