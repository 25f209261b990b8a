#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Remarks.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ProductSums.h"
#include "runtime/Core/Gelu.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-fuse-activations"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FUSEACTIVATIONS
#include "passes/Precision/Passes.h.inc"

namespace {

/// What `value` is before casts and reshapes.
Value bareValue(Value value) {
  while (isa_and_nonnull<graph::CastOp, graph::ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// The number that all elements of `value` are.
std::optional<double> numberOf(Value value) {
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APFloat>().convertToDouble();
}

/// A product of elements: numbers, multiplied, and what else.
struct Factors {
  double number = 1;
  SmallVector<Value, 4> others; ///< bare

  explicit Factors(Value value) { collect(value); }
  bool isNumber(float wanted) const { return float(number) == wanted; }

private:
  void collect(Value value) {
    value = bareValue(value);
    if (std::optional<double> found = numberOf(value)) {
      number *= *found;
    } else if (auto product = value.getDefiningOp<graph::MulOp>()) {
      collect(product.getA());
      collect(product.getB());
    } else {
      others.push_back(value);
    }
  }
};

/// The operand of the sum `value`, bare, whose other operand satisfies `isOther`; null if there is none.
Value summandBeside(Value value, llvm::function_ref<bool(Value)> isOther) {
  auto sum = value.getDefiningOp<graph::AddOp>();
  for (unsigned i = 0; sum && i < 2; ++i)
    if (isOther(bareValue(sum->getOperand(1 - i))))
      return bareValue(sum->getOperand(i));
  return {};
}

/// Whether `value` is 0.044715 x^3.
bool isCubicTerm(Value value, Value x) {
  const Factors factors(value);
  if (!factors.isNumber(kGeluCubic))
    return false;
  if (factors.others.size() == 1) {
    auto power = factors.others[0].getDefiningOp<graph::PowerOp>();
    return power && power.getExponent().convertToDouble() == 3 && bareValue(power.getX()) == x;
  }
  return factors.others.size() == 3 && llvm::all_of(factors.others, [&](Value factor) { return factor == x; });
}

/// x, bare, where `value` is 0.5 x (1 + tanh(0.79788456 (x + 0.044715 x^3))) with `tanh`; else null.
Value operandOfGelu(Value value, graph::TanhOp tanh) {
  const Factors outer(value), inner(tanh.getX());
  if (outer.number != 0.5 || outer.others.size() != 2 || !inner.isNumber(kGeluScale) || inner.others.size() != 1)
    return {};
  for (unsigned i = 0; i < 2; ++i) {
    const Value x = outer.others[1 - i];
    const auto isOne = [](Value term) { return numberOf(term) == 1.0; };
    const auto isX = [&](Value term) { return term == x; };
    if (summandBeside(outer.others[i], isOne) != tanh.getResult())
      continue;
    const Value cubic = summandBeside(inner.others[0], isX);
    return cubic && isCubicTerm(cubic, x) ? x : Value();
  }
  return {};
}

class ActivationFuser {
public:
  explicit ActivationFuser(func::FuncOp function) : function(function), lossOp(endOfForward(function)) {}

  void run() {
    SmallVector<graph::TanhOp> tanhs(function.getBody().front().getOps<graph::TanhOp>());
    const unsigned count = llvm::count_if(tanhs, [&](graph::TanhOp tanh) { return isForward(tanh) && fuse(tanh); });
    if (count)
      remark::passed(function.getLoc(),
                     remark::RemarkOpts::name("activations").category(DEBUG_TYPE).function(function.getName()))
          << std::to_string(count) << " products give GELU of their sums";
  }

private:
  bool isForward(Operation *op) const { return !lossOp || op->isBeforeInBlock(lossOp); }

  /// The narrow result of the GELU that `tanh` belongs to, and its operand; nulls where it belongs to none.
  std::pair<Value, Value> findGelu(graph::TanhOp tanh) const {
    for (Value value = tanh.getResult();;) {
      Operation *next = nullptr;
      for (Operation *user : value.getUsers())
        if (isForward(user)) {
          if (next && next != user)
            return {};
          next = user;
        }
      if (!isa_and_nonnull<graph::CastOp, graph::ReshapeOp, graph::AddOp, graph::MulOp>(next))
        return {};
      value = next->getResult(0);
      if (!graph::isNarrow(value.getType()))
        continue;
      if (Value x = operandOfGelu(value, tanh))
        return {value, x};
    }
  }

  /// Whether the forward part reads `value`, in whatever shape, in library calls alone.
  bool isReadByCalls(Value value) const {
    return llvm::all_of(value.getUsers(), [&](Operation *user) {
      return !isForward(user) || isLibraryCall(user) ||
             (isa<graph::ReshapeOp>(user) && isReadByCalls(user->getResult(0)));
    });
  }

  /// The ops from `sum` to `result`, which is the last one, in the order of the block.
  static SmallVector<Operation *> opsBetween(Value sum, Value result) {
    llvm::SetVector<Operation *> found;
    found.insert(result.getDefiningOp());
    for (unsigned i = 0; i < found.size(); ++i)
      for (Value operand : found[i]->getOperands())
        if (Operation *op = operand.getDefiningOp(); op && operand != sum && !isa<graph::ConstantOp>(op))
          found.insert(op);
    SmallVector<Operation *> ops = found.takeVector();
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return ops;
  }

  bool fuse(graph::TanhOp tanh) {
    const auto [result, sum] = findGelu(tanh);
    auto product = sum ? sum.getDefiningOp<graph::MatmulBiasOp>() : graph::MatmulBiasOp();
    if (!product || product->getBlock() != tanh->getBlock() ||
        graph::tensorOf(sum).getDimSize(1) % 8 != 0 || // what a library wants
        getElementTypeOrSelf(result) != getElementTypeOrSelf(sum) || !isReadByCalls(result))
      return false;
    const SmallVector<Operation *> ops = opsBetween(sum, result);
    const auto isInside = [&](Operation *user) { return llvm::is_contained(ops, user) || !isForward(user); };
    for (Operation *op : ArrayRef(ops).drop_back())
      if (!llvm::all_of(op->getUsers(), isInside))
        return false;
    replace(product, result, ops);
    return true;
  }

  void replace(graph::MatmulBiasOp product, Value result, ArrayRef<Operation *> ops) {
    OpBuilder builder(product);
    const auto create = [&](Type sums) {
      auto fused = graph::MatmulGeluOp::create(builder, product.getLoc(), product.getY().getType(), sums,
                                               product.getA(), product.getB(), product.getBias(),
                                               product.getTransposeAAttr(), product.getTransposeBAttr());
      fused->setDiscardableAttrs(product->getDiscardableAttrDictionary());
      return fused;
    };
    graph::MatmulGeluOp fused = create(product.getY().getType());
    Value y = fused.getY();
    if (y.getType() != result.getType())
      y = graph::ReshapeOp::create(builder, result.getLoc(), result.getType(), y);
    result.replaceAllUsesWith(y);
    product.getY().replaceAllUsesWith(fused.getSums());
    SmallVector<Operation *> left; // what the backward part reads, and nothing else
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty())
        op->erase();
      else
        left.push_back(op);
    moveToReaders(left);
    if (fused.getSums().use_empty()) {
      builder.setInsertionPoint(fused);
      graph::MatmulGeluOp alone = create(Type());
      fused.getY().replaceAllUsesWith(alone.getY());
      fused.erase();
    }
    product.erase();
  }

  /// Moves ops, each before what it reads, in front of the first op that reads what they give: then they are of the
  /// backward part.
  static void moveToReaders(ArrayRef<Operation *> ops) {
    Operation *first = nullptr;
    for (Operation *op : ops)
      for (Operation *user : op->getUsers())
        if (!llvm::is_contained(ops, user) && (!first || user->isBeforeInBlock(first)))
          first = user;
    for (Operation *op : llvm::reverse(ops))
      op->moveBefore(first);
  }

  func::FuncOp function;
  Operation *lossOp; ///< of @microstep, after which backward begins
};

struct FuseActivations : impl::FuseActivationsBase<FuseActivations> {
  using FuseActivationsBase::FuseActivationsBase;

  void runOnOperation() override {
    if (!enabled)
      return markAllAnalysesPreserved();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!graph::isEntry(function, graph::Entry::Update))
        ActivationFuser(function).run();
  }
};
} // namespace
} // namespace ztc
