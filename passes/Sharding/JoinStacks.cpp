#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Sharding/Passes.h"

#define DEBUG_TYPE "ztc-join-stacks"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_JOINSTACKS
#include "passes/Sharding/Passes.h.inc"

namespace {

using graph::tensorOf;

/// The bucket's view that begins where `inputs`, views of matrices of one bucket, do, and holds all of them; null where
/// one of them does not begin where the one before ends.
dist::ViewOp firstOfRun(ValueRange inputs) {
  dist::ViewOp first;
  int64_t end = 0;
  for (Value input : inputs) {
    auto view = input.getDefiningOp<dist::ViewOp>();
    if (!view || (first && (view.getBucket() != first.getBucket() || int64_t(view.getOffset()) != end)))
      return {};
    first = first ? first : view;
    end = int64_t(view.getOffset()) + tensorOf(view).getNumElements();
  }
  return first;
}

/// Concatenations of neighbours in a bucket are views of it.
void joinWeights(Block &block) {
  for (auto concat : llvm::make_early_inc_range(block.getOps<graph::ConcatOp>())) {
    if (concat.getAxis() != 0 || concat.getInputs().size() < 2)
      continue;
    dist::ViewOp first = firstOfRun(concat.getInputs());
    if (!first)
      continue;
    OpBuilder builder(first);
    Value whole =
        dist::ViewOp::create(builder, concat.getLoc(), concat.getType(), first.getBucket(), first.getOffsetAttr());
    concat.replaceAllUsesWith(whole);
    concat.erase();
  }
}

/// A part of a bucket of gradients to which rows of a larger gradient are added.
struct JoinedRows {
  graph::AccumulateOp sum;
  dist::ViewOp place;
  graph::SliceOp rows;

  static std::optional<JoinedRows> of(Value value) {
    auto sum = value.getDefiningOp<graph::AccumulateOp>();
    if (!sum || !sum->hasOneUse())
      return std::nullopt;
    auto place = sum.getAccumulator().getDefiningOp<dist::ViewOp>();
    auto rows = sum.getX().getDefiningOp<graph::SliceOp>();
    if (!place || !rows || llvm::any_of(rows.getOffsets().drop_front(), [](int64_t offset) { return offset != 0; }) ||
        tensorOf(rows).getShape().drop_front() != tensorOf(rows.getX()).getShape().drop_front())
      return std::nullopt;
    return JoinedRows{sum, place, rows};
  }
  int64_t end() { return int64_t(place.getOffset()) + tensorOf(place).getNumElements(); }
  int64_t lastRow() { return rows.getOffsets().front() + tensorOf(rows).getDimSize(0); }
  bool isFollowedBy(JoinedRows next) {
    return next.rows.getX() == rows.getX() && next.rows.getOffsets().front() == lastRow() &&
           next.place.getBucket() == place.getBucket() && int64_t(next.place.getOffset()) == end() &&
           next.sum.getFirstWrites() == sum.getFirstWrites();
  }
};

/// Gradients that are the rows of one, in order, and lie side by side are added in one place.
void joinGradients(dist::PackOp pack) {
  SmallVector<Value> parts;
  SmallVector<int64_t> offsets;
  const ValueRange old = pack.getParts();
  bool changed = false;
  for (unsigned i = 0; i < old.size();) {
    std::optional<JoinedRows> first = JoinedRows::of(old[i]), last = first;
    unsigned next = i + 1;
    if (first && first->rows.getOffsets().front() == 0)
      for (; next < old.size(); ++next) {
        std::optional<JoinedRows> part = JoinedRows::of(old[next]);
        if (!part || !last->isFollowedBy(*part))
          break;
        last = part;
      }
    offsets.push_back(pack.getOffsets()[i]);
    if (next == i + 1 || last->lastRow() != tensorOf(first->rows.getX()).getDimSize(0)) {
      parts.push_back(old[i++]);
      continue;
    }
    Value whole = first->rows.getX();
    OpBuilder builder(first->sum);
    auto type = RankedTensorType::get(tensorOf(whole).getShape(), tensorOf(first->place).getElementType());
    Location loc = whole.getLoc();
    Value place = dist::ViewOp::create(builder, loc, type, first->place.getBucket(), first->place.getOffsetAttr());
    parts.push_back(graph::AccumulateOp::create(builder, loc, place, whole, first->sum.getFirstWritesAttr()));
    changed = true;
    i = next;
  }
  if (!changed)
    return;
  OpBuilder builder(pack);
  auto joined =
      dist::PackOp::create(builder, pack.getLoc(), pack.getType(), parts, builder.getDenseI64ArrayAttr(offsets));
  pack.replaceAllUsesWith(joined.getOperation());
  pack.erase();
}

struct JoinStacks : impl::JoinStacksBase<JoinStacks> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      joinWeights(block);
      for (auto pack : llvm::make_early_inc_range(block.getOps<dist::PackOp>()))
        joinGradients(pack);
      eraseDeadOps(block);
    }
  }
};
} // namespace
} // namespace ztc
