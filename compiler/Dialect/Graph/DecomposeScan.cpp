// Linear attention whose heads are channels, as the selective scan that it is.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Dialect/Graph/WideOps.h"

using namespace mlir;
using namespace ztc::graph;

namespace {

ArrayRef<int64_t> sizesOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// The one head of (B, T, 1, 1, N) numbers that stands for all `heads` of `value` (B, T, H, N); null where they differ.
Value oneHead(Value value) {
  auto outer = value.getDefiningOp<ReshapeOp>();
  auto repeat = outer ? outer.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!repeat)
    return {};
  const ArrayRef<int64_t> joined = sizesOf(value);
  const int64_t B = joined[0], T = joined[1], H = joined[2], N = joined[3];
  const bool repeats =
      sizesOf(repeat.getX()) == ArrayRef<int64_t>{B, T, 1, 1, N} && sizesOf(repeat) == ArrayRef<int64_t>{B, T, 1, H, N};
  return repeats ? repeat.getX() : Value();
}

/// A decay (B, T, H, K) as the product of a number of each position and head (B, T, H, 1) and one of each head and row
/// (H, K).
struct Rates {
  Value delta, rate;
};

std::optional<Rates> ratesOf(Value decay) {
  const SmallVector<int64_t> all(sizesOf(decay));
  auto product = decay.getDefiningOp<MulOp>();
  if (!product)
    return std::nullopt;
  auto repeated = [](Value value) {
    auto repeat = value.getDefiningOp<BroadcastOp>();
    return repeat ? repeat.getX() : Value();
  };
  auto isRate = [&](Value value) {
    const ArrayRef<int64_t> sizes = sizesOf(value);
    return sizes.size() >= 2 && sizes.take_back(2) == ArrayRef(all).take_back(2) &&
           llvm::all_of(sizes.drop_back(2), [](int64_t size) { return size == 1; });
  };
  auto isDelta = [&](Value value) { return sizesOf(value) == ArrayRef<int64_t>{all[0], all[1], all[2], 1}; };
  Value left = repeated(product.getA()), right = repeated(product.getB());
  if (!left || !right)
    return std::nullopt;
  if (isRate(left))
    std::swap(left, right);
  return isDelta(left) && isRate(right) ? std::optional<Rates>({left, right}) : std::nullopt;
}

/// What a selective scan takes: whole vectors of channels, states that fit a thread's registers, f32.
bool fitsScan(int64_t channels, int64_t states, ArrayRef<Value> values) {
  return channels % int64_t(ztc::kScanLanes) == 0 && states <= int64_t(ztc::kMaxScanStates) &&
         llvm::all_of(values, [](Value value) { return getElementTypeOrSelf(value.getType()).isF32(); });
}

} // namespace

std::optional<SmallVector<Value>> ztc::graph::asSelectiveScan(LinearAttentionOp op, OpBuilder &builder) {
  const ArrayRef<int64_t> sizes = sizesOf(op.getV());
  const int64_t B = sizes[0], T = sizes[1], D = sizes[2], N = sizesOf(op.getQ())[3];
  if (op.getDelta() || op.getPast() || !op.getDecay() || !op.getState().use_empty() || sizes[3] != 1 ||
      sizesOf(op.getQ())[2] != D || sizesOf(op.getDecay())[3] != N)
    return std::nullopt;
  const Value query = oneHead(op.getQ()), key = oneHead(op.getK());
  const std::optional<Rates> rates = ratesOf(op.getDecay());
  if (!query || !key || !rates || !fitsScan(D, N, {op.getV(), query, key, rates->delta, rates->rate}))
    return std::nullopt;
  const WideOps wide(builder);
  Expr v(builder, op.getLoc(), op.getV());
  Expr c = reshape(v.with(query), {B, T, N});
  if (const double scale = op.getScale().convertToDouble(); scale != 1.0)
    c = c * scale;
  const Type states = v.type().clone({B, int64_t(ztc::scanChunks(uint64_t(T), ztc::kScanChunk)), N, D});
  auto flat = [&](Value value) { return reshape(v.with(value), {B, T, D}).value(); };
  auto scan = SelectiveScanOp::create(
      builder, op.getLoc(), v.type().clone({B, T, D}), states, flat(op.getV()), flat(rates->delta),
      transpose(reshape(v.with(rates->rate), {D, N}), {1, 0}).value(), reshape(v.with(key), {B, T, N}).value(),
      c.value(), op.getDocumentStarts(), int64_t(ztc::kScanChunk));
  return SmallVector<Value>{reshape(v.with(scan.getY()), {B, T, D, 1}).value(), Value()};
}
