// Emission of scatters. Where the places are known, each place looks its updates up, so the derivative is a lookup's;
// else updates are added into a table of zeros.
#include "frontends/onnx/EmitPlaces.h"

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

/// Of more updates of one place, one after the other, a node is refused.
constexpr size_t kMostRounds = 64;

Expr combined(StringRef reduction, const Expr &a, const Expr &b) {
  if (reduction == "mul")
    return a * b;
  if (reduction == "max")
    return a.with(graph::MaximumOp::create(a.builder(), a.loc(), a.value(), b.value()));
  if (reduction == "min")
    return a.with(graph::MinimumOp::create(a.builder(), a.loc(), a.value(), b.value()));
  return reduction == "add" ? a + b : b;
}

/// Round r gives each place the r-th of its updates.
LogicalResult scatterKnown(Emitter &e, const Places &places, mlir::Value base, mlir::Value updates, StringRef reduction,
                           mlir::Value &result) {
  std::vector<SmallVector<int64_t, 1>> ofPlace(places.rows);
  size_t rounds = 0;
  for (auto [update, place] : llvm::enumerate(*places.known)) {
    if (reduction == "none")
      ofPlace[place].clear(); // the last one stays
    ofPlace[place].push_back(int64_t(update));
    rounds = std::max(rounds, ofPlace[place].size());
  }
  if (rounds > kMostRounds)
    return e.fail("writes one place " + llvm::Twine(rounds) + " times");
  auto flags = RankedTensorType::get({places.rows, 1}, e.builder.getI1Type());
  for (size_t round = 0; round < rounds; ++round) {
    SmallVector<int64_t> from(places.rows, 0);
    SmallVector<bool> has(places.rows, false);
    bool all = true;
    for (int64_t place = 0; place < places.rows; ++place) {
      has[place] = round < ofPlace[place].size();
      all &= has[place];
      if (has[place])
        from[place] = ofPlace[place][round];
      else if (place) // any update will do: the next one keeps runs regular
        from[place] = std::min(from[place - 1] + 1, places.count - 1);
    }
    Expr old = e.expr(base), update = e.expr(takeAlong(e.builder, e.loc, updates, 0, from));
    Expr next = combined(reduction, old, update);
    if (!all) {
      mlir::Value mask = graph::ConstantOp::create(e.builder, e.loc, flags, DenseElementsAttr::get(flags, has));
      next = select(e.expr(broadcastTo(e.builder, e.loc, mask, shapeOf(base))), next, old);
    }
    base = next.value();
  }
  result = base;
  return success();
}

/// The sums of updates by place, (rows, width).
Expr addedUp(Emitter &e, const Places &places, mlir::Value updates) {
  Type f32 = e.builder.getF32Type();
  mlir::Value real = castElements(e.builder, e.loc, updates, f32);
  auto type = RankedTensorType::get({places.rows, shapeOf(updates)[1]}, f32);
  mlir::Value sums = graph::EmbeddingGradOp::create(e.builder, e.loc, type, places.value, real);
  return e.expr(castElements(e.builder, e.loc, sums, typeOf(updates).getElementType()));
}

/// `base` (rows, width), and the updates at their places, which differ.
Expr written(Emitter &e, const Places &places, const Expr &base, mlir::Value updates) {
  mlir::Value ones = splat(e.builder, e.loc, RankedTensorType::get({places.count, 1}, e.builder.getF32Type()), 1);
  Expr sums = addedUp(e, places, updates), hits = addedUp(e, places, ones), isHit = hits > zeroLike(hits);
  return select(broadcastLike(isHit, base), sums, base);
}

/// Without a reduction ONNX wants places to differ.
LogicalResult scatterData(Emitter &e, const Places &places, mlir::Value base, mlir::Value updates, StringRef reduction,
                          mlir::Value &result) {
  if (reduction != "none" && reduction != "add")
    return e.fail("scatters by computed indices with reduction '" + reduction + "', which ztc does not emit");
  Expr old = e.expr(base);
  result = (reduction == "add" ? old + addedUp(e, places, updates) : written(e, places, old, updates)).value();
  return success();
}

LogicalResult scatter(Emitter &e, const Places &places) {
  mlir::Value x = e.operand(0), updates = x ? e.operand(2) : nullptr;
  if (!updates)
    return failure();
  if (typeOf(updates).getNumElements() != places.count * places.width)
    return e.fail("updates do not fit the indices");
  if (places.count == 0 || places.width == 0) {
    e.define(0, x);
    return success();
  }
  std::string reduction = e.node->text("reduction", "none");
  mlir::Value base = reshapeTo(e.builder, e.loc, x, {places.rows, places.width}), y;
  updates = reshapeTo(e.builder, e.loc, updates, {places.count, places.width});
  if (failed(places.known ? scatterKnown(e, places, base, updates, reduction, y)
                          : scatterData(e, places, base, updates, reduction, y)))
    return failure();
  e.define(0, reshapeTo(e.builder, e.loc, y, e.outputShape()));
  return success();
}

LogicalResult scatterElements(Emitter &e) {
  std::optional<Places> places = elementPlaces(e, e.node->integer("axis", 0));
  return places ? scatter(e, *places) : failure();
}

LogicalResult scatterND(Emitter &e) {
  std::optional<Places> places = tuplePlaces(e, 0);
  return places ? scatter(e, *places) : failure();
}

} // namespace

Expr placedAmongZeros(Emitter &e, const Expr &indices, const Expr &values, int64_t size) {
  const int64_t tokens = indices.dim(0);
  Places places;
  places.rows = tokens * size;
  places.count = tokens * indices.dim(1);
  Expr row = indices.with(iotaOf(e.builder, e.loc, indices.type().getShape(), 0));
  places.value = reshape(row * double(size) + indices, {places.count}).value();
  mlir::Value zeros = splat(e.builder, e.loc, RankedTensorType::get({places.rows, 1}, values.elementType()), 0);
  return reshape(written(e, places, e.expr(zeros), reshape(values, {places.count, 1}).value()), {tokens, size});
}

void addScatterEmission(llvm::StringMap<EmitFunction> &t) {
  t["ScatterElements"] = scatterElements;
  t["Scatter"] = scatterElements;
  t["ScatterND"] = scatterND;
}

} // namespace ztc::importer
