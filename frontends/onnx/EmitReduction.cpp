// Emission of reductions over axes.
#include "frontends/onnx/Emitter.h"
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

enum class Reduction { Sum, Mean, Max, Min, Product, L1, L2, LogSum, LogSumExp, SumSquare };

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Expr maximumOver(const Expr &x, ArrayRef<int64_t> axes) {
  return x.with(graph::ReduceMaxOp::create(x.builder(), x.loc(), x.value(), axes));
}

/// Halves are multiplied until one element is left: no division, so zeros have their derivatives.
Expr productOver(Expr x, ArrayRef<int64_t> axes) {
  for (int64_t axis : axes)
    while (x.dim(axis) > 1) {
      int64_t size = x.dim(axis), half = size / 2;
      SmallVector<int64_t> offsets(x.rank(), 0), sizes(x.type().getShape());
      sizes[axis] = half;
      Expr first = slice(x, offsets, sizes);
      offsets[axis] = half;
      Expr product = first * slice(x, offsets, sizes);
      if (size % 2) {
        offsets[axis] = size - 1;
        sizes[axis] = 1;
        product = graph::concat({product, slice(x, offsets, sizes)}, axis);
      }
      x = product;
    }
  return x;
}

/// max + log(sum(exp(x - max))); a row of -inf stays -inf.
Expr logSumExpOver(const Expr &x, ArrayRef<int64_t> axes) {
  Expr most = maximumOver(x, axes);
  Expr shift = select(most > constantLike(most, -kInfinity), most, zeroLike(most));
  shift = select(shift < constantLike(most, kInfinity), shift, zeroLike(most));
  return shift + log(reduceSum(exp(x - broadcastLike(shift, x)), axes));
}

Expr reduced(Reduction kind, const Expr &x, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= x.dim(axis);
  bool real = isa<FloatType>(x.elementType());
  switch (kind) {
  case Reduction::Sum:
    return reduceSum(x, axes);
  case Reduction::Mean:
    return reduceSum(x, axes) / double(count);
  case Reduction::Max:
    return maximumOver(x, axes);
  case Reduction::Min:
    return real ? -maximumOver(-x, axes) : -1.0 - maximumOver(-1.0 - x, axes); // ~x: the least integer too
  case Reduction::Product:
    return productOver(x, axes);
  case Reduction::L1:
    return reduceSum(real ? x.with(graph::AbsOp::create(x.builder(), x.loc(), x.value()))
                          : select(x < zeroLike(x), zeroLike(x) - x, x),
                     axes);
  case Reduction::L2:
    return sqrt(reduceSum(x * x, axes));
  case Reduction::LogSum:
    return log(reduceSum(x, axes));
  case Reduction::LogSumExp:
    return logSumExpOver(x, axes);
  case Reduction::SumSquare:
    return reduceSum(x * x, axes);
  }
  return x;
}

/// What a reduction of nothing gives.
double identityOf(Reduction kind) {
  switch (kind) {
  case Reduction::Mean:
    return std::numeric_limits<double>::quiet_NaN();
  case Reduction::Max:
  case Reduction::LogSum:
  case Reduction::LogSumExp:
    return -kInfinity;
  case Reduction::Min:
    return kInfinity;
  case Reduction::Product:
    return 1;
  default:
    return 0;
  }
}

template <Reduction kind> LogicalResult reduce(Emitter &e) {
  mlir::Value operand = e.operand(0);
  if (!operand)
    return failure();
  Type element = typeOf(operand).getElementType();
  int64_t rank = typeOf(operand).getRank();
  SmallVector<int64_t> axes = e.integers(1, "axes");
  if (axes.empty()) {
    if (!e.node->integer("noop_with_empty_axes", 0))
      axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    else if (kind == Reduction::Sum || kind == Reduction::Mean || kind == Reduction::Max || kind == Reduction::Min ||
             kind == Reduction::Product) {
      e.define(0, operand);
      return success();
    }
  }
  for (int64_t &axis : axes)
    axis += axis < 0 ? rank : 0;
  llvm::sort(axes);
  if (typeOf(operand).getNumElements() == 0) {
    e.define(0, splat(e.builder, e.loc, RankedTensorType::get(e.outputShape(), element), identityOf(kind)));
    return success();
  }
  Type work = element.isInteger(1) ? Type(e.builder.getI32Type()) : element;
  Expr y = reduced(kind, castTo(e.expr(operand), work), axes);
  e.define(0, reshapeTo(e.builder, e.loc, castTo(y, element).value(), e.outputShape()));
  return success();
}

} // namespace

void addReductionEmission(llvm::StringMap<EmitFunction> &t) {
  t["ReduceSum"] = reduce<Reduction::Sum>;
  t["ReduceMean"] = reduce<Reduction::Mean>;
  t["ReduceMax"] = reduce<Reduction::Max>;
  t["ReduceMin"] = reduce<Reduction::Min>;
  t["ReduceProd"] = reduce<Reduction::Product>;
  t["ReduceL1"] = reduce<Reduction::L1>;
  t["ReduceL2"] = reduce<Reduction::L2>;
  t["ReduceLogSum"] = reduce<Reduction::LogSum>;
  t["ReduceLogSumExp"] = reduce<Reduction::LogSumExp>;
  t["ReduceSumSquare"] = reduce<Reduction::SumSquare>;
}

} // namespace ztc::importer
