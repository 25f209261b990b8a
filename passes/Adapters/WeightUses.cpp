#include "passes/Adapters/WeightUses.h"
#include "passes/Autodiff/Functions.h"
#include <algorithm>

using namespace mlir;

namespace ztc::adapters {
namespace {

/// A value that holds a weight: where the weight's first and second dimension lie in it.
struct View {
  Value value;
  bool isTransposed; ///< the weight's first dimension is the value's second
  Window dimensions[2];

  /// That of the value's `axis`.
  Window &along(int64_t axis) { return dimensions[isTransposed ? 1 - axis : axis]; }
};

class UseFinder {
public:
  /// False where a use cannot be told as a product.
  bool follow(View view) {
    return llvm::all_of(view.value.getUses(), [&](OpOperand &use) { return followUse(view, use); });
  }
  SmallVector<WeightProduct> products;

private:
  bool followUse(View view, OpOperand &use) {
    Operation *op = use.getOwner();
    if (isLookup(use))
      return true;
    if (op->getNumResults() != 1 || cast<RankedTensorType>(op->getResult(0).getType()).getRank() != 2)
      return false;
    view.value = op->getResult(0);
    auto type = cast<RankedTensorType>(view.value.getType());
    if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
      if (!std::is_sorted(transpose.getPermutation().begin(), transpose.getPermutation().end()))
        view.isTransposed = !view.isTransposed;
      return follow(view);
    }
    if (auto slice = dyn_cast<graph::SliceOp>(op)) {
      for (int64_t axis = 0; axis < 2; ++axis)
        if (!narrow(view.along(axis), slice.getOffsets()[axis], type.getDimSize(axis)))
          return true; // nothing of the weight is in it
      return follow(view);
    }
    if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
      Window &joined = view.along(concat.getAxis());
      for (Value before : concat.getInputs().take_front(use.getOperandNumber()))
        joined.offset += cast<RankedTensorType>(before.getType()).getDimSize(concat.getAxis());
      joined.total = type.getDimSize(concat.getAxis());
      return follow(view);
    }
    if (auto product = dyn_cast<graph::MatmulOp>(op))
      return take(view, product, use);
    return false;
  }

  static bool narrow(Window &window, int64_t begin, int64_t size) {
    int64_t low = std::max(window.offset, begin), high = std::min(window.offset + window.count, begin + size);
    window = {window.begin + low - window.offset, high - low, low - begin, size};
    return window.count > 0;
  }

  bool take(View &view, graph::MatmulOp product, OpOperand &use) {
    if (use.getOperandNumber() != 1)
      return false;
    const int64_t outputAxis = product.getTransposeB() ? 0 : 1;
    if (!view.along(1 - outputAxis).isWhole())
      return false;
    products.push_back({product, view.isTransposed ? outputAxis == 1 : outputAxis == 0, view.along(outputAxis)});
    return true;
  }
};

} // namespace

bool isLookup(OpOperand &use) {
  return isa<graph::EmbeddingOp>(use.getOwner()) && use.getOperandNumber() == 0;
}

/// Whether a value is computed from parameters and constants: no token has a part in it.
static bool isFixed(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return cast<BlockArgument>(value).getArgNumber() > 0; // the first one is the tokens
  return llvm::all_of(op->getOperands(), isFixed);
}

bool isFactor(Value weight) {
  return llvm::any_of(weight.getUses(), [](OpOperand &use) {
    Operation *op = use.getOwner();
    if (isa<graph::MatmulOp>(op))
      return use.getOperandNumber() == 1;
    return op->getNumResults() == 1 && llvm::all_of(op->getOperands(), isFixed) && isFactor(op->getResult(0));
  });
}

BlockArgument headWeight(func::FuncOp forward) {
  FailureOr<LogitsRoot> logits = findLogits(forward);
  if (failed(logits))
    return {};
  Value value = logits->product ? logits->product.getB() : logits->logits;
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() == 0)
      return {};
    auto product = dyn_cast<graph::MatmulOp>(op);
    value = product ? product.getB() : op->getOperand(0);
  }
  return dyn_cast<BlockArgument>(value);
}

std::optional<SmallVector<WeightProduct>> productsOf(Value weight) {
  auto type = cast<RankedTensorType>(weight.getType());
  if (type.getRank() != 2)
    return std::nullopt;
  View view{weight, false, {}};
  for (int64_t axis = 0; axis < 2; ++axis)
    view.dimensions[axis] = {0, type.getDimSize(axis), 0, type.getDimSize(axis)};
  UseFinder finder;
  if (!finder.follow(view) || finder.products.empty())
    return std::nullopt;
  // One weight, one orientation.
  for (const WeightProduct &found : finder.products)
    if (found.isOutputFirst != finder.products.front().isOutputFirst)
      return std::nullopt;
  return finder.products;
}

} // namespace ztc::adapters
