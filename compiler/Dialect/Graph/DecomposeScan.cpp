// Linear attention whose heads are channels, as the selective scan that it is.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Dialect/Graph/WideOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace ztc::graph;

namespace {

ArrayRef<int64_t> sizesOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// The one head (B, T, N) that stands for all heads of `value` (B, T, H, N); nothing where they differ.
std::optional<Expr> oneHead(const Expr &place, Value value) {
  const ArrayRef<int64_t> sizes = sizesOf(value);
  const SmallVector<int64_t> all{sizes[0], sizes[1], sizes[3]};
  Value whole = value;
  while (auto reshaped = whole.getDefiningOp<ReshapeOp>())
    whole = reshaped.getX();
  DenseElementsAttr same;
  if (matchPattern(whole, m_Constant(&same)) && same.isSplat()) {
    auto type = cast<RankedTensorType>(value.getType()).clone(all);
    return place.with(ConstantOp::create(place.builder(), place.loc(), same.resizeSplat(type)));
  }
  const Value shared = sharedHeads(value);
  return shared && sizesOf(shared)[2] == 1 ? std::optional(reshape(place.with(shared), all)) : std::nullopt;
}

/// A decay (B, T, H, K) as the product of a number of each position and head (B, T, H, 1) and one of each head and row
/// (H, K), which is 1 where there is one row.
struct Rates {
  Value delta, rate;
};

Value repeatedOf(Value value) {
  auto repeat = value.getDefiningOp<BroadcastOp>();
  return repeat ? repeat.getX() : Value();
}

/// The condition (B, T, 1, 1) by which positions of `value` (B, T, H, K) count, others being 0, with the value itself;
/// no condition where all count.
std::pair<Value, Value> countedOf(Value value) {
  auto select = value.getDefiningOp<SelectOp>();
  const Value condition = select ? repeatedOf(select.getCondition()) : Value();
  if (!condition || !matchPattern(select.getB(), m_AnyZeroFloat()))
    return {Value(), value};
  const ArrayRef<int64_t> all = sizesOf(value);
  const bool isOfPositions = sizesOf(condition) == ArrayRef<int64_t>{all[0], all[1], 1, 1};
  return isOfPositions ? std::pair(condition, Value(select.getA())) : std::pair(Value(), value);
}

/// Emits what it takes to see `decay` so.
std::optional<Rates> ratesOf(const Expr &place, Value decay) {
  const SmallVector<int64_t> all(sizesOf(decay));
  if (all[3] == 1)
    return Rates{decay, constantLike(slice(place.with(decay), {0, 0, 0, 0}, {1, 1, all[2], 1}), 1.0).value()};
  const auto [condition, counted] = countedOf(decay);
  auto product = counted.getDefiningOp<MulOp>();
  if (!product)
    return std::nullopt;
  auto isRate = [&](Value value) {
    const ArrayRef<int64_t> sizes = sizesOf(value);
    return sizes.size() >= 2 && sizes.take_back(2) == ArrayRef(all).take_back(2) &&
           llvm::all_of(sizes.drop_back(2), [](int64_t size) { return size == 1; });
  };
  auto isDelta = [&](Value value) { return sizesOf(value) == ArrayRef<int64_t>{all[0], all[1], all[2], 1}; };
  Value left = repeatedOf(product.getA()), right = repeatedOf(product.getB());
  if (!left || !right)
    return std::nullopt;
  if (isRate(left))
    std::swap(left, right);
  if (!isDelta(left) || !isRate(right))
    return std::nullopt;
  Expr delta = place.with(left);
  if (condition) // what does not count does not decay
    delta = select(broadcastLike(place.with(condition), delta), delta, zeroLike(delta));
  return Rates{delta.value(), right};
}

/// Whether the last state is handed on where no derivative of it can be asked for: by what generates text.
bool isGenerated(LinearAttentionOp op) {
  auto function = op->getParentOfType<func::FuncOp>();
  return function && function->hasAttr(kEntry) && !isEntry(function, Entry::Microstep) && !op.getDocumentStarts();
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
  const bool handsOn = !op.getState().use_empty();
  if (op.getDelta() || op.getPast() || !op.getDecay() || (handsOn && !isGenerated(op)) || sizes[3] != 1 ||
      sizesOf(op.getQ())[2] != D || sizesOf(op.getDecay())[3] != N)
    return std::nullopt;
  const WideOps wide(builder);
  Expr v(builder, op.getLoc(), op.getV());
  const std::optional<Expr> query = oneHead(v, op.getQ()), key = oneHead(v, op.getK());
  if (!query || !key || !fitsScan(D, N, {op.getV(), query->value(), key->value(), op.getDecay()}))
    return std::nullopt;
  const std::optional<Rates> rates = ratesOf(v, op.getDecay());
  if (!rates)
    return std::nullopt;
  Expr c = *query;
  if (const double scale = op.getScale().convertToDouble(); scale != 1.0)
    c = c * scale;
  // The state after the last position is that before a chunk which follows: positions up to its first do not change it.
  const auto chunks = int64_t(ztc::scanChunks(uint64_t(T), ztc::kScanChunk));
  const int64_t all = handsOn ? chunks * int64_t(ztc::kScanChunk) + 1 : T;
  auto padded = [&](const Expr &x) {
    const Type type = x.type().clone({B, all, x.dim(2)});
    return all == T ? x.value()
                    : PadOp::create(x.builder(), x.loc(), type, x.value(), ArrayRef<int64_t>{0, 0, 0}).getY();
  };
  auto ofChannels = [&](Value value) { return padded(reshape(v.with(value), {B, T, D})); };
  const int64_t kept = handsOn ? chunks + 1 : chunks;
  auto scan = SelectiveScanOp::create(builder, op.getLoc(), v.type().clone({B, all, D}),
                                      v.type().clone({B, kept, N, D}), ofChannels(op.getV()), ofChannels(rates->delta),
                                      transpose(reshape(v.with(rates->rate), {D, N}), {1, 0}).value(), padded(*key),
                                      padded(c), op.getDocumentStarts(), int64_t(ztc::kScanChunk));
  Expr y = v.with(scan.getY());
  if (all != T)
    y = slice(y, {0, 0, 0}, {B, T, D});
  SmallVector<Value> results{reshape(y, {B, T, D, 1}).value(), Value()};
  if (handsOn) {
    Expr last = slice(v.with(scan.getStates()), {0, chunks, 0, 0}, {B, 1, N, D});
    results[1] = reshape(transpose(reshape(last, {B, N, D}), {0, 2, 1}), {B, D, N, 1}).value();
  }
  return results;
}
