#include "passes/Autodiff/DenseExperts.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Mixture.h"

using namespace mlir;

namespace ztc {
namespace {

using graph::tensorOf;

class DenseSearch {
public:
  explicit DenseSearch(func::FuncOp function) : function(function), analysis(function) {
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (graph::roleOf(function, index) != graph::Role::Parameter)
        fromData.insert(function.getArgument(index));
  }

  SmallVector<DenseExperts> run() {
    SmallVector<DenseExperts> found;
    for (Operation &op : function.getBody().front()) {
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return fromData.contains(operand); }))
        fromData.insert_range(op.getResults());
      if (op.getNumResults() != 1)
        continue;
      if (llvm::all_of(op.getOperands(), [&](Value operand) { return constants.contains(operand); }))
        constants.insert(op.getResult(0));
      noteShares(op);
      if (StringRef reason = reasonOf(op); !reason.empty())
        found.push_back({&op, reason.str()});
    }
    return found;
  }

private:
  /// Numbers that a top-k decides, as many as it searched at most: shares, masks, places.
  void noteShares(Operation &op) {
    const Value result = op.getResult(0);
    if (int64_t count = analysis.searchedNumbers(result)) {
      mostOf[result] = count * tensorOf(result).getNumElements();
      return;
    }
    int64_t most = 0;
    for (Value operand : op.getOperands())
      most = std::max(most, mostOf.lookup(operand));
    auto isSmall = [&](Value operand) {
      auto broadcast = operand.getDefiningOp<graph::BroadcastOp>();
      auto type = dyn_cast<RankedTensorType>((broadcast ? broadcast.getX() : operand).getType());
      return mostOf.contains(operand) || constants.contains(operand) ||
             (type && type.hasStaticShape() && type.getNumElements() <= most);
    };
    if (most && !isa<graph::EmbeddingOp>(op) && llvm::all_of(op.getOperands(), isSmall))
      mostOf[result] = most;
  }

  /// Whether products with weights compute it, element by element since then; more than the shares are.
  bool isOfProducts(Value value, int64_t most) {
    if (!isa<RankedTensorType>(value.getType()) || tensorOf(value).getNumElements() <= most)
      return false;
    if (auto known = products.find(value); known != products.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    products[value] = false;
    bool result = false;
    if (auto product = dyn_cast_or_null<graph::MatmulOp>(op))
      result = !fromData.contains(product.getA()) || !fromData.contains(product.getB());
    else if (op && (isByElement(op) || isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::ConcatOp>(op)))
      result = llvm::any_of(op->getOperands(), [&](Value operand) { return isOfProducts(operand, most); });
    return products[value] = result;
  }

  /// Whether it is a product's rows times shares, or where a mask is true.
  bool isWeighed(Value value) {
    Operation *op = withoutReshapes(value).getDefiningOp();
    if (!op || !isa<graph::MulOp, graph::SelectOp>(op))
      return false;
    int64_t most = 0;
    for (Value operand : op->getOperands())
      most = std::max(most, mostOf.lookup(operand));
    return most && llvm::any_of(op->getOperands(), [&](Value operand) {
             return !mostOf.contains(operand) && isOfProducts(operand, most);
           });
  }

  unsigned weighedIn(Value value) {
    if (auto sum = value.getDefiningOp<graph::AddOp>())
      return value.hasOneUse() ? weighedIn(sum.getA()) + weighedIn(sum.getB()) : 0;
    if (auto select = value.getDefiningOp<graph::SelectOp>(); select && value.hasOneUse())
      return unsigned(isWeighed(value)) + weighedIn(select.getA()) + weighedIn(select.getB());
    return isWeighed(value);
  }

  StringRef reasonOf(Operation &op) {
    if (isa<graph::AddOp, graph::SelectOp>(op)) {
      const bool isPart = op.hasOneUse() && op.user_begin()->getName() == op.getName();
      unsigned weighed = isa<graph::SelectOp>(op) && isWeighed(op.getResult(0));
      for (Value operand : op.getOperands())
        weighed += isPart ? 0 : weighedIn(operand);
      return !isPart && weighed > 1 ? "nothing says that a share is 0 where an expert was not chosen" : "";
    }
    if (auto lookup = dyn_cast<graph::EmbeddingOp>(op)) {
      const int64_t most = mostOf.lookup(lookup.getIndices());
      return most && isOfProducts(lookup.getTable(), most)
                 ? "the results of the chosen ones are looked up among those of all"
                 : "";
    }
    if (auto product = dyn_cast<graph::MatmulOp>(op))
      for (auto [shares, rows] : {std::pair(product.getA(), product.getB()), std::pair(product.getB(), product.getA())})
        if (const int64_t most = mostOf.lookup(shares); most && !mostOf.contains(rows) && isOfProducts(rows, most))
          return "the results of all experts, as one tensor, are multiplied with shares that nothing says to be 0";
    if (auto sum = dyn_cast<graph::ReduceSumOp>(op))
      return isWeighed(sum.getX())
                 ? "the results of all experts, as one tensor, are multiplied with shares that nothing says to be 0"
                 : "";
    return "";
  }

  func::FuncOp function;
  const ExpertZeroAnalysis analysis;
  llvm::DenseSet<Value> fromData, constants;
  llvm::DenseMap<Value, int64_t> mostOf; ///< of what a top-k decides: how many numbers it searched
  llvm::DenseMap<Value, bool> products;
};

} // namespace

SmallVector<DenseExperts> findDenseExperts(func::FuncOp function) {
  return DenseSearch(function).run();
}

} // namespace ztc
