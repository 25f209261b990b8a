// A kernel for a GPU's block of threads, written out by hand: what the library calls of a GPU are made of.
#pragma once
#include "compiler/Codegen/KernelState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace ztc::codegen {

/// A function under construction, over a one-dimensional grid of blocks of `threads` threads. Its parameters are a
/// pointer to global memory per buffer, scalars and the extent (i64). Positions and counts are i64.
class BlockKernel {
public:
  using Values = llvm::SmallVector<mlir::Value>;

  BlockKernel(KernelModule::State &state, llvm::StringRef name, unsigned buffers, unsigned scalars, int64_t threads)
      : b(state.builder()), buffers_(buffers), scalars_(scalars), threads_(threads),
        function_(state.createDeviceKernel(b, name, buffers, scalars)) {}

  mlir::Value buffer(unsigned number) { return function_.getArgument(number); }
  mlir::Value scalar(unsigned number) { return function_.getArgument(buffers_ + number); }
  mlir::Value extent() { return scalar(scalars_); }
  int64_t threads() const { return threads_; }
  mlir::Value thread() { return b.threadNumber(); }
  mlir::Value block() { return b.blockNumber(); }
  void barrier() { b.barrier(); }
  mlir::Value ballot(mlir::Value condition) { return b.ballot(condition); }
  mlir::Value exchange(mlir::Value value, int64_t mask) { return b.exchange(value, mask); }

  /// The address of `bytes` of shared memory, aligned to 16.
  mlir::Value shared(int64_t bytes);

  /// A loop over i64 or i32 with carried values, which it returns. What stands in it may be a barrier only if all
  /// threads make equally many turns.
  Values forRange(mlir::Value begin, mlir::Value end, int64_t step, Values carried,
                  llvm::function_ref<void(mlir::Value, Values &)> body) {
    return b.forRange(begin, end, step, std::move(carried), body);
  }
  /// The same loop, of at least one carried value; nobody unrolls it. For one whose loads, all made at once, would take
  /// all registers.
  Values forRangeRolled(mlir::Value begin, mlir::Value end, int64_t step, Values carried,
                        llvm::function_ref<void(mlir::Value, Values &)> body);
  void forRange(mlir::Value begin, mlir::Value end, int64_t step, llvm::function_ref<void(mlir::Value)> body) {
    forRange(begin, end, step, {}, [&](mlir::Value index, Values &) { body(index); });
  }
  void ifThen(mlir::Value condition, llvm::function_ref<void()> then);
  void ifElse(mlir::Value condition, llvm::function_ref<void()> then, llvm::function_ref<void()> otherwise);
  /// One of two values, computed in a branch of its own.
  mlir::Value choose(mlir::Value condition, llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);

  /// Closes the function.
  DeviceLaunch finish(int64_t unitsPerBlock);

  KernelBuilder b;
  int64_t blocksTogether = 0; ///< as DeviceLaunch has it

private:
  const unsigned buffers_, scalars_;
  const int64_t threads_;
  mlir::func::FuncOp function_;
  int64_t sharedBytes_ = 0;
};

/// A kernel for GPUs by its name; emits it on first use. The extent is the caller's. Without kernels for GPUs in the
/// module there is a name and nothing else.
KernelDescription deviceService(KernelModule::State &state, llvm::StringRef name, llvm::ArrayRef<bool> written,
                                unsigned scalars, int64_t threads, int64_t unitsPerBlock,
                                llvm::function_ref<void(BlockKernel &)> emit);

} // namespace ztc::codegen
