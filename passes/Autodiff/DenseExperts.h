// What looks like a mixture of experts in a form that is not understood: all experts compute every token.
#pragma once
#include "passes/Autodiff/ExpertZeros.h"

namespace ztc {

/// An op that weighs the results of several products by what a top-k chose.
struct DenseExperts {
  mlir::Operation *op;
  std::string reason; ///< what of it is not understood
};

/// Those of a function, in order.
llvm::SmallVector<DenseExperts> findDenseExperts(mlir::func::FuncOp function);

} // namespace ztc
