// The kernels of a step where they run on this machine: images for its processor, and for the engine of GPUs' kernels.
#pragma once
#include "compiler/Verification/SimtEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/Core/LoadedImage.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::verification {

/// An image that can be run here: one of the two.
struct RunnableImage {
  std::string target, symbol;
  std::optional<LoadedImage> host;
  std::optional<SimtImage> simt;
};

/// A kernel as plan.kernel declares it for an image.
struct KernelVersion {
  uint64_t unitsPerBlock = 1, blockThreads = 1; ///< of the engine
  std::string outside;                          ///< kind of the machine code that was not generated; empty: it was
};

/// A launch with the memory that it works on.
struct KernelRun {
  std::string kernel;
  std::vector<char *> buffers;
  std::vector<uint64_t> sizes; ///< of the buffers, in bytes
  std::vector<int64_t> scalars;
  int64_t extent = 0;
};

class KernelImages {
public:
  /// Opens the images of `module`, which has been through phase `codegen`. What cannot be opened is one of `gaps`.
  KernelImages(mlir::ModuleOp module, std::vector<std::string> &gaps);

  llvm::ArrayRef<RunnableImage> all() const { return images; }
  bool hasHost() const;
  /// None where the image does not hold the kernel.
  std::optional<KernelVersion> versionOf(const RunnableImage &image, llvm::StringRef kernel) const;
  /// Units [begin, end) on this processor; false where the image has no such kernel.
  static bool runOnHost(const RunnableImage &image, const KernelRun &run, int64_t begin, int64_t end);
  /// Blocks [first, first + count) on the engine.
  static llvm::Error runOnEngine(const RunnableImage &image, const KernelVersion &version, const KernelRun &run,
                                 uint64_t first, uint64_t count, bool descending);

private:
  void open(const std::string &target, const std::string &symbol, llvm::StringRef bytes,
            std::vector<std::string> &gaps);

  mlir::ModuleOp module;
  std::vector<RunnableImage> images;
};

/// Where kernels of `module` are machine code from outside that cannot run here (PTX, cubins): "kernel add for sm_90a:
/// ...", each once.
std::vector<std::string> outsideGaps(mlir::ModuleOp module);

} // namespace ztc::verification
