#include "passes/Autodiff/Functions.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "llvm/ADT/DenseSet.h"
#include <cmath>
#include <optional>

using namespace mlir;

namespace ztc {

func::FuncOp findFunction(ModuleOp module, graph::Entry entry) {
  func::FuncOp function = graph::findEntry(module, entry);
  if (function && !function.isExternal())
    return function;
  module.emitError("has no function @") << graph::stringifyEntry(entry) << " with a body";
  return nullptr;
}

func::FuncOp cloneFunction(func::FuncOp function, graph::Entry entry) {
  func::FuncOp clone = function.clone();
  graph::setEntry(clone, entry);
  function->getParentOfType<ModuleOp>().push_back(clone);
  return clone;
}

BlockArgument insertArgument(func::FuncOp function, unsigned index, Type type, graph::Role role) {
  Builder builder(function.getContext());
  DictionaryAttr attributes = builder.getDictionaryAttr(graph::namedRole(builder.getContext(), role));
  // The body exists, so this cannot fail.
  (void)function.insertArgument(index, type, attributes, function.getLoc());
  return function.getArgument(index);
}

void setResults(func::FuncOp function, ArrayRef<NamedResult> results) {
  Builder builder(function.getContext());
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const NamedResult &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    SmallVector<NamedAttribute> entries{graph::namedResult(builder.getContext(), result.result)};
    if (!result.name.empty())
      entries.push_back(builder.getNamedAttr(graph::kName, builder.getStringAttr(result.name)));
    if (!result.state.empty())
      entries.push_back(builder.getNamedAttr(graph::kState, builder.getStringAttr(result.state)));
    if (result.isWide)
      entries.push_back(builder.getNamedAttr(graph::kWide, builder.getUnitAttr()));
    attributes.push_back(builder.getDictionaryAttr(entries));
  }
  function.getBody().front().getTerminator()->setOperands(values);
  function.removeResAttrsAttr(); // of a number of results that no longer fits
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
}

/// The number that all elements of `value` are, through reshapes and broadcasts.
static std::optional<double> splatNumber(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  APFloat number = splat.getSplatValue<APFloat>();
  bool losesInformation;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInformation);
  return number.convertToDouble();
}

/// `value` without the reshapes and the products with constants that it is made by; these multiply `factor`.
static Value withoutFactors(Value value, double &factor) {
  for (;;) {
    if (auto reshape = value.getDefiningOp<graph::ReshapeOp>()) {
      value = reshape.getX();
    } else if (auto product = value.getDefiningOp<graph::MulOp>()) {
      std::optional<double> a = splatNumber(product.getA()), b = splatNumber(product.getB());
      if (!a && !b)
        return value;
      factor *= b ? *b : *a;
      value = b ? product.getA() : product.getB();
    } else if (auto quotient = value.getDefiningOp<graph::DivOp>()) {
      std::optional<double> b = splatNumber(quotient.getB());
      if (!b)
        return value;
      factor /= *b;
      value = quotient.getA();
    } else {
      return value;
    }
  }
}

FailureOr<LogitsRoot> findLogits(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  if (terminator->getNumOperands() != 1)
    return function.emitOpError("returns ")
           << terminator->getNumOperands() << " values where logits alone are expected";
  LogitsRoot root;
  root.logits = terminator->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(root.logits.getType());
  if (!type || type.getRank() < 2 || !isa<FloatType>(type.getElementType()))
    return function.emitOpError("returns ") << root.logits.getType() << " where logits (B, S, V) are expected";
  double outer = 1.0, scale = 1.0, softcap = 0.0;
  Value value = withoutFactors(root.logits, outer);
  if (auto bent = value.getDefiningOp<graph::TanhOp>()) {
    softcap = outer;
    value = withoutFactors(bent.getX(), scale);
  }
  scale *= outer; // a tanh(s x) = a tanh((a s x) / a)
  auto product = value.getDefiningOp<graph::MatmulOp>();
  if (!product || product.getTransposeA() || !product.getTransposeB() || !std::isfinite(scale) || scale == 0.0)
    return root;
  auto productType = cast<RankedTensorType>(product.getY().getType());
  if (productType.getRank() == 2 && productType.getDimSize(1) == type.getShape().back()) {
    root.product = product;
    root.scale = scale;
    root.softcap = softcap;
  }
  return root;
}

Value withoutReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getX();
  return value;
}

Value reshapeTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  return graph::ReshapeOp::create(builder, loc, type.clone(shape), value);
}

Value positionIndices(func::FuncOp function, Value position) {
  llvm::DenseSet<Value> computed{position};
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value value) { return computed.contains(value); }))
      continue;
    if (auto lookup = dyn_cast<graph::EmbeddingOp>(op))
      return lookup.getIndices();
    computed.insert(op.result_begin(), op.result_end());
  }
  return {};
}

void eraseDeadOps(Block &block) {
  for (Operation *op = block.getTerminator()->getPrevNode(), *previous = nullptr; op; op = previous) {
    previous = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
  }
}

} // namespace ztc
