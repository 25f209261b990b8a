// Runs groups through the code generator on this machine, and through the reference interpreter.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Reference/TensorBytes.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/Core/LoadedImage.h"
#include "tests/standin/Simt.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::test {

using KernelFunction = void (*)(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end);

/// The context of the kernels of tests.
mlir::MLIRContext &kernelContext();

/// A step as `kernelContext` has it, without locations; null, with a test failure, where it cannot be read back.
mlir::OwningOpRef<mlir::ModuleOp> inKernelContext(mlir::ModuleOp step);

/// An image as a loaded library.
class LoadedKernels {
public:
  explicit LoadedKernels(const KernelImage &image);
  /// Null, with a test failure, where there is no such symbol.
  KernelFunction find(const std::string &name) const;

private:
  std::optional<LoadedImage> image_;
};

/// A function in `kernelContext` whose body becomes one group: macro ops are decomposed, the group takes all arguments
/// and gives all results.
class Group {
public:
  /// `text` holds one func.func.
  explicit Group(const std::string &text);
  /// Macro ops stay, so that they are an oracle of their own.
  mlir::func::FuncOp original() { return original_; }
  graph::FusionOp fusion() { return fusion_; }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp original_;
  graph::FusionOp fusion_;
};

/// What a buffer holds before or after a kernel.
using Bytes = std::vector<char>;

struct RunOptions {
  int parts = 1;      ///< pieces that the parallel range is cut into, run from the last to the first
  bool add = false;   ///< run the variant that adds; results start at 1
  int64_t length = 0; ///< of dynamic dimensions
  int64_t start = 0;  ///< global start of a flat kernel
};

/// Results of a group on these arguments; empty after a test failure.
std::vector<Bytes> runGroup(graph::FusionOp group, llvm::ArrayRef<Bytes> arguments, const RunOptions &options = {});

/// The same on the SIMT engine, by the kernels for GPUs. Blocks and threads take their turns in ascending and in
/// descending order, which must give equal bits; an access outside of the buffers, or at no multiple of its size, is a
/// failure. `parts` is of no meaning.
std::vector<Bytes> runGroupOnGpu(graph::FusionOp group, llvm::ArrayRef<Bytes> arguments,
                                 const RunOptions &options = {});

/// Launches a kernel for GPUs on the SIMT engine; `buffers` are all that it may touch. False after a test failure.
/// `moved`, where given: the bytes of each buffer that threads read and wrote, as often as they did.
bool launchOnGpu(const simt::Image &image, const KernelDescription &kernel, llvm::ArrayRef<Bytes *> buffers,
                 std::vector<int64_t> scalars, int64_t extent, simt::Order order,
                 std::vector<uint64_t> *moved = nullptr);

/// Compiles the group, runs it on random arguments in one and in three pieces (which must agree to the bit) and
/// compares with the interpreter, and so what the SIMT engine makes of its kernels for GPUs: |difference| <= tolerance
/// * (1 + |expected|).
void expectLikeReference(const std::string &text, double tolerance = 2e-6);

} // namespace ztc::test
