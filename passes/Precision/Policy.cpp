#include "passes/Precision/Policy.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace ztc {

Type narrowTypeOf(StoragePrecision precision, MLIRContext *context) {
  switch (precision) {
  case StoragePrecision::Fp32:
    return {};
  case StoragePrecision::Bf16:
  case StoragePrecision::Fp8:
    return BFloat16Type::get(context);
  case StoragePrecision::Fp16:
    return Float16Type::get(context);
  }
  llvm_unreachable("every precision is above");
}

/// One element of each row that was taken apart: what rotary positions do with a head's pairs. Of a vector it is one
/// number in all.
static bool isTakenApart(Value value) {
  auto slice = value.getDefiningOp<graph::SliceOp>();
  if (!slice)
    return false;
  auto row = cast<RankedTensorType>(slice.getX().getType());
  return row.getRank() > 1 && row.getShape().back() != 1;
}

bool isStatistic(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() == 0)
    return true;
  if (type.getShape().back() != 1)
    return false;
  SmallVector<Value> open{value};
  DenseSet<Value> seen{value};
  while (!open.empty()) {
    Value current = open.pop_back_val();
    if (isTakenApart(current))
      return false;
    Operation *op = current.getDefiningOp();
    if (!op || !(op->hasTrait<OpTrait::Elementwise>() ||
                 isa<graph::CastOp, graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::ConcatOp>(op)))
      continue;
    for (Value operand : op->getOperands()) {
      auto of = dyn_cast<RankedTensorType>(operand.getType());
      if (of && of.getRank() && of.getShape().back() == 1 && seen.insert(operand).second)
        open.push_back(operand);
    }
  }
  return true;
}

FailureOr<PrecisionOverrides> PrecisionOverrides::parse(Location loc, ArrayRef<std::string> patterns) {
  PrecisionOverrides overrides;
  for (const std::string &text : patterns) {
    Pattern pattern{text, llvm::Regex(text)};
    std::string why;
    if (!pattern.expression.isValid(why))
      return emitError(loc, "the precision policy's pattern '") << text << "' is not a regular expression: " << why;
    overrides.patterns.push_back(std::move(pattern));
  }
  return overrides;
}

DenseSet<Value> dataOnlyValues(Block &block) {
  DenseSet<Value> known;
  auto isReal = [](Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); };
  for (Operation &op : block.without_terminator()) {
    bool readsData = false, readsOthers = false;
    for (Value operand : op.getOperands()) {
      bool isData = !isReal(operand) || known.contains(operand);
      readsData |= isData;
      readsOthers |= !isData && !isa_and_nonnull<graph::ConstantOp>(operand.getDefiningOp());
    }
    if (!readsData || readsOthers)
      continue;
    for (Value result : op.getResults())
      if (isReal(result))
        known.insert(result);
  }
  return known;
}

DenseSet<Value> parameterVectors(func::FuncOp function) {
  DenseSet<Value> known;
  auto isVector = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && isa<FloatType>(type.getElementType()) && type.getRank() == 1;
  };
  auto isParameter = [&](Value value) {
    while (isa_and_nonnull<graph::CastOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && graph::roleOf(function, argument.getArgNumber()) == graph::Role::Parameter;
  };
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (!op.hasTrait<OpTrait::Elementwise>() || !llvm::all_of(op.getOperands(), isVector))
      continue;
    bool readsParameter = false, readsOthers = false;
    for (Value operand : op.getOperands()) {
      bool isOurs = isParameter(operand) || known.contains(operand);
      readsParameter |= isOurs;
      readsOthers |= !isOurs && !isa_and_nonnull<graph::ConstantOp>(operand.getDefiningOp());
    }
    if (readsParameter && !readsOthers && isVector(op.getResult(0)))
      known.insert(op.getResult(0));
  }
  return known;
}

PrecisionOverrides PrecisionOverrides::of(ModuleOp module) {
  PrecisionOverrides overrides;
  if (auto patterns = module->getAttrOfType<ArrayAttr>(kKeptFp32))
    for (StringAttr text : patterns.getAsRange<StringAttr>())
      overrides.patterns.push_back({text.str(), llvm::Regex(text.getValue())});
  return overrides;
}

bool PrecisionOverrides::matches(StringRef name) {
  bool any = false;
  for (Pattern &pattern : patterns)
    if (pattern.expression.match(name))
      any = pattern.used = true;
  return any;
}

bool PrecisionOverrides::hasParameter(func::FuncOp function, unsigned index) {
  bool any = function.getArgAttr(index, graph::kWide) != nullptr;
  any |= matches(graph::argString(function, index, graph::kName));
  if (auto tied = function.getArgAttrOfType<ArrayAttr>(index, graph::kTied))
    for (StringAttr name : tied.getAsRange<StringAttr>())
      any |= matches(name.getValue());
  return any;
}

bool PrecisionOverrides::keepsParameter(func::FuncOp function, unsigned index) {
  auto type = cast<RankedTensorType>(function.getArgument(index).getType());
  const bool isVector = llvm::count_if(type.getShape(), [](int64_t size) { return size != 1; }) < 2;
  return hasParameter(function, index) || (isVector && graph::isFrozen(function, index));
}

bool PrecisionOverrides::hasLocation(Location loc) {
  if (patterns.empty())
    return false;
  std::string scope = scopeOf(loc);
  return !scope.empty() && matches(scope);
}

bool PrecisionOverrides::hasOp(Operation *op) {
  bool any = hasLocation(op->getLoc());
  auto function = op->getParentOfType<func::FuncOp>();
  for (Value operand : op->getOperands()) {
    while (isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp>(
        operand.getDefiningOp()))
      operand = operand.getDefiningOp()->getOperand(0);
    auto argument = dyn_cast<BlockArgument>(operand);
    if (argument && graph::roleOf(function, argument.getArgNumber()) == graph::Role::Parameter)
      any |= hasParameter(function, argument.getArgNumber());
  }
  return any;
}

LogicalResult PrecisionOverrides::expectAllUsed(Location loc) const {
  for (const Pattern &pattern : patterns)
    if (!pattern.used)
      return emitError(loc, "the precision policy's pattern '")
             << pattern.text << "' matches no parameter and no layer";
  return success();
}

} // namespace ztc
