// The arithmetic of @update, for whole parameters or for flat buckets.
#pragma once
#include "compiler/Dialect/Graph/Rates.h"
#include "mlir/IR/Builders.h"
#include <string>

namespace ztc {

/// A tensor of an entry: its checkpoint name, and where it begins there.
struct UpdatedTensor {
  std::string name;
  int64_t start = 0; ///< in elements of the whole bucket
};

/// A parameter of an entry that is updated by Muon: a matrix, or a stack of matrices.
struct UpdatedMatrix {
  std::string name;
  int64_t start = 0; ///< in elements of the whole bucket
  llvm::SmallVector<int64_t> shape;
  double changeFactor = 1; ///< graph::kChangeFactor
};

/// A parameter (or a bucket of them, or a shard of one) with its gradient and the optimizer's states, all of one shape.
struct UpdateEntry {
  mlir::Value parameter, gradient;
  llvm::SmallVector<mlir::Value> states; ///< in the order of the optimizer's rule
  mlir::Value master;                    ///< beside a bf16 or f16 parameter, see graph.optimizer_step; null: none
  int64_t decayed = 0;                   ///< weight decay applies to elements with a (global) index below this
  std::vector<UpdatedTensor> tensors;    ///< by start, the first at 0
  graph::RateFactors rates = {};         ///< of the learning rate
  std::vector<UpdatedMatrix> matrices =
      {}; ///< all that the entry is made of, by start; empty where it follows another rule
};

/// An entry's values afterwards, each of its old type.
struct UpdatedEntry {
  mlir::Value parameter;
  llvm::SmallVector<mlir::Value> states;
  mlir::Value master; ///< null where the entry has none
};

struct UpdateValues {
  llvm::SmallVector<UpdatedEntry> entries;
  mlir::Value gradientNorm; ///< scalar f32, before clipping
  mlir::Value finite;       ///< scalar i1; where false, nothing changed
};

/// Emits clipping and the update of all entries by the optimizer of the module (optimizerOf, of an entry of matrices or
/// of others); `step` is the vector of
/// runtime/Format/StepParameters.h. Squares are summed per entry, then over entries in their order. Values of rank 1
/// are used as they are, others through a 1-D reshape. In a module of precision fp16 gradients are those of the loss
/// times the loss scale: the norm and the update divide by it. In a module that updates in the backward
/// (UpdateTime.h) each entry is clipped by its own norm, times the scale that is known before, and is left as it is
/// where that norm is not finite; what an entry needs is computed right before its update.
UpdateValues buildUpdateBody(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value step,
                             llvm::ArrayRef<UpdateEntry> entries);

} // namespace ztc
