// How a graph uses a weight: the products that read it, also where it is joined with other weights or read in part.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"

namespace ztc::adapters {

/// Of one dimension of a weight: its elements [begin, begin + count) lie at `offset` of a value's dimension of `total`.
struct Window {
  int64_t begin, count, offset, total;
  bool isWhole() const { return begin == 0 && offset == 0 && count == total; }
};

/// A product x op(v) of two matrices where v holds a weight, or a part of it.
struct WeightProduct {
  graph::MatmulOp product;
  bool isOutputFirst; ///< the weight is (outputs, inputs), as in torch.nn.Linear
  Window outputs;     ///< which columns of the product the weight makes
};

/// Whether `use` is a table's, of a lookup of rows: a tensor that head and embedding share is two modules.
bool isLookup(mlir::OpOperand &use);

/// Whether some product has `weight`, or what is computed from it and other parameters alone, as its second factor:
/// then the module is linear. A table of positions, which is added to data, is not.
bool isFactor(mlir::Value weight);

/// The parameter of a forward function that makes its logits; null where that cannot be told.
mlir::BlockArgument headWeight(mlir::func::FuncOp forward);

/// All uses of `weight`, a matrix, but for lookups, as products; nothing where one of them is anything else.
std::optional<llvm::SmallVector<WeightProduct>> productsOf(mlir::Value weight);

} // namespace ztc::adapters
