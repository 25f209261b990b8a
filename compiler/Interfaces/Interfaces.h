// Op interfaces: Differentiable, Decomposable, Cost, LibraryCall, Optimizer, Precision, StorageAlias.
#pragma once
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include <optional>

namespace ztc {

/// What a derivative rule sees of the differentiation that runs (see DifferentiableOpInterface::buildVjp).
class VjpContext {
public:
  virtual ~VjpContext() = default;
  /// The op's forward operand or result as the backward code may read it (a recomputed clone, say).
  virtual mlir::Value operand(unsigned index) = 0;
  virtual mlir::Value result(unsigned index) = 0;
  /// The cotangent of a result, of the result's type; null where it is structurally zero.
  virtual mlir::Value cotangent(unsigned resultIndex) = 0;
  /// True where a cotangent of this operand is needed.
  virtual bool wants(unsigned operandIndex) = 0;
  /// Adds a contribution, of the operand's type, to the operand's cotangent. Contributions are summed in call order.
  virtual void accumulate(unsigned operandIndex, mlir::Value contribution) = 0;
};

/// How a float value is stored under a mixed-precision policy.
enum class Storage : uint8_t {
  Narrow, ///< in the policy's narrow type (f32 where the policy excepts the layer)
  Wide,   ///< in f32
  Free,   ///< operands only: in the type that it comes in
  Asked,  ///< results only: in f32 where the value ends as a parameter's gradient, else narrow
};

/// The row of one op in the policy table. Arithmetic and accumulation are f32 in every op; products of a library take
/// narrow factors and accumulate in f32.
struct PrecisionRule {
  llvm::SmallVector<Storage, 8> operands, results; ///< one each; ignored for what is not a float
};

/// One buffer that a library call needs while it runs.
struct WorkspacePart {
  llvm::StringRef name;                  ///< of its slot: panels, scores, logits
  bool isPerThread;                      ///< of one worker thread of a host; else of all of them
  uint64_t bytes;                        ///< on a host
  std::optional<uint64_t> gpuBytes = {}; ///< on a GPU, where it needs another number
};

/// What bounds the workspace of a step.
struct WorkspaceLimits {
  uint64_t attentionBlock; ///< most query rows of a block of attention
  uint64_t lossBytes;      ///< bytes of logits that the loss works on at a time; 0: as many as suit the model
  uint64_t parameters;     ///< elements of all parameters together: what suits the model is measured by them
};

/// What a library call needs beside operands and results, in the order of its step's operands.
struct Workspace {
  llvm::SmallVector<WorkspacePart, 2> parts;
  std::optional<int64_t> rows = {}; ///< how many rows it works on at a time, where that is a choice
};

/// An op's result as a part of another value's storage.
struct Alias {
  mlir::Value source;
  int64_t offsetBytes = 0; ///< where the result starts in the source
  bool ownShard = false;   ///< the result is the rank's shard of the source, a whole bucket
};

/// Bytes of one element of a tensor or scalar type (i1 counts one).
int64_t elementBytes(mlir::Type type);

/// Bytes of the distinct operands and the results of `op`; 0 for values that are not static tensors.
int64_t operandAndResultBytes(mlir::Operation *op);

/// Bytes of a static ranked tensor type (i1 counts one byte an element).
int64_t tensorBytes(mlir::Type type);

} // namespace ztc

#include "compiler/Interfaces/Cost.h.inc"
#include "compiler/Interfaces/Decomposable.h.inc"
#include "compiler/Interfaces/Differentiable.h.inc"
#include "compiler/Interfaces/LibraryCall.h.inc"
#include "compiler/Interfaces/Optimizer.h.inc"
#include "compiler/Interfaces/Precision.h.inc"
#include "compiler/Interfaces/StorageAlias.h.inc"
