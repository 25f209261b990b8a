#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/RecurrentSteps.h"
#include "passes/Autodiff/RowBatch.h"
#include "passes/Autodiff/SingleRow.h"
#include "llvm/ADT/StringMap.h"
#include <limits>

#define DEBUG_TYPE "ztc-derive-decode"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DERIVEDECODE
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// What there is of the positions before: one row each, which a step adds its own to; or the state of a linear
/// attention, or the last inputs of a convolution, which a step replaces.
enum class Kept { Rows, State, Window };

/// What rows read of all positions.
struct CachedValue {
  std::string name;
  Value value;                ///< of all positions, in the function that @decode is made of; the last state
  bool headsFirst = false;    ///< kept as (Hkv, S, D) in place of (1, S, Hkv, D)
  int64_t sequencesAlong = 0; ///< the dimension of `value` that counts the sequences, all of them; -1: there is none
  RankedTensorType type = {}; ///< of what is kept of one sequence
  Value updated = {};         ///< in @decode
  Kept kept = Kept::Rows;

  /// A state is f32 in every precision.
  bool isWide() const { return kept == Kept::State; }
};

/// Marks an op of attention: a product adds up in f32, what is computed of its sums is not rounded before probabilities
/// are.
Value wide(const graph::Expr &x) {
  x.value().getDefiningOp()->setAttr(graph::kWide, x.builder().getUnitAttr());
  return x.value();
}

/// Inserts an argument for what there was of a cache of this type.
Value insertCache(func::FuncOp function, Type type, StringRef name, bool isWide) {
  BlockArgument cache = insertArgument(function, function.getNumArguments(), type, graph::Role::Cache);
  function.setArgAttr(cache.getArgNumber(), graph::kName, StringAttr::get(function.getContext(), name));
  if (isWide)
    function.setArgAttr(cache.getArgNumber(), graph::kWide, UnitAttr::get(function.getContext()));
  return cache;
}

/// @decode in the making: a copy of @generate for one token.
class Decoder : SingleRow::Memory {
public:
  explicit Decoder(func::FuncOp decode)
      : decode(decode), tokens(decode.getArgument(0)), positions(decode.getArgument(1)), position(positions) {}

  /// Fails where there is no cache for this model; reason() says why. The ops of what is cached stay.
  LogicalResult run() {
    auto token = insertArgument(decode, 1, cast<RankedTensorType>(tokens.getType()).clone(ArrayRef<int64_t>{1, 1}),
                                graph::Role::Tokens);
    const Value last = positionIndices(decode, positions);
    if (shapeOf(positions)[0] > 1)
      position = insertArgument(decode, 2, cast<RankedTensorType>(positions.getType()).clone(ArrayRef<int64_t>{1}),
                                graph::Role::Position);
    SingleRow row(tokens, token, position, last, *this);
    Block &body = decode.getBody().front();
    if (failed(row.run(body))) {
      reason_ = row.reason();
      return failure();
    }
    Operation *terminator = body.getTerminator();
    SmallVector<NamedResult> results{{row.twin(terminator->getOperand(0)), graph::ResultKind::Logits}};
    for (const CachedValue &cached : caches)
      results.push_back({cached.updated, graph::ResultKind::Cache, cached.name, {}, cached.isWide()});
    setResults(decode, results);
    return success();
  }

  /// Erases what all positions need and one does not.
  void finish() {
    eraseDeadOps(decode.getBody().front());
    if (position != positions)
      (void)decode.eraseArgument(positions.getArgNumber());
    (void)decode.eraseArgument(tokens.getArgNumber());
  }

  ArrayRef<CachedValue> cached() const { return caches; }
  const std::string &reason() const { return reason_; }

private:
  /// The cache of a value, of this type, with `row` in its dimension `along` at the position; one for all that read it.
  Value update(CachedValue cached, const graph::Expr &row, RankedTensorType type, int64_t along) {
    auto kindOf = [](StringRef name) { return name.split('.').first; };
    for (const CachedValue &known : caches)
      if (known.value == cached.value && known.type == type && kindOf(known.name) == kindOf(cached.name))
        return known.updated;
    Value before = insertCache(decode, type, cached.name, cached.isWide());
    graph::Expr here = positionsAlong(row, type.getShape(), along) == positionLike(row, type.getShape());
    cached.type = type;
    cached.updated = graph::select(here, graph::broadcast(row, type.getShape()), row.with(before)).value();
    caches.push_back(cached);
    return cached.updated;
  }

  static graph::Expr positionsAlong(const graph::Expr &place, ArrayRef<int64_t> shape, int64_t dimension) {
    auto type = RankedTensorType::get(shape, place.builder().getI32Type());
    return place.with(graph::IotaOp::create(place.builder(), place.loc(), type, dimension));
  }
  graph::Expr positionLike(const graph::Expr &place, ArrayRef<int64_t> shape) const {
    return graph::broadcast(graph::reshape(place.with(position), SmallVector<int64_t>(shape.size(), 1)), shape);
  }
  std::string nextName(StringRef what) { return (what + "." + Twine(numbers[what]++)).str(); }

  Value keep(Value value, StringRef what, SingleRow &rows, OpBuilder &builder) override {
    const RowShape shape = rows.rowsOf(value);
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> sizes(type.getShape());
    const int64_t sequences = shapeOf(positions)[0];
    int64_t along = -1, sequencesAlong = sequences == 1 ? 0 : -1;
    for (auto [i, count] : llvm::enumerate(shape)) {
      sizes[i] /= count.sequences;
      if (sequences > 1 && count.sequences == sequences)
        sequencesAlong = int64_t(i);
      if (count.positions > 1)
        along = along < 0 && count.positions == sizes[i] ? int64_t(i) : int64_t(sizes.size());
    }
    if (along < 0 || along == int64_t(sizes.size()))
      return rows.setReason("what rows look at counts positions in no dimension of its own"), Value();
    graph::Expr row(builder, value.getLoc(), rows.twin(value));
    return update({nextName(what), value, false, sequencesAlong}, row, type.clone(sizes), along);
  }

  Value attend(Operation *op, SingleRow &rows, OpBuilder &builder) override {
    if (auto attention = dyn_cast<graph::LinearAttentionOp>(op))
      return attendByState(attention, rows, builder);
    if (auto convolution = dyn_cast<graph::CausalConvolutionOp>(op))
      return convolve(convolution, rows, builder);
    return attendToRows(cast<graph::AttentionOp>(op), rows, builder);
  }

  /// One step from the state that the positions before have left.
  Value attendByState(graph::LinearAttentionOp attention, SingleRow &rows, OpBuilder &builder) {
    const ArrayRef<int64_t> shape = shapeOf(attention.getQ());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount(), RowCount()};
    if (attention.getPast() || attention.getDocumentStarts() || !attention.getState().use_empty())
      return rows.setReason("graph.linear_attention begins with a past or hands on its last state"), Value();
    RowOperands row;
    for (auto [from, to] : {std::pair(attention.getQ(), &row.q),
                            {attention.getK(), &row.k},
                            {attention.getV(), &row.v},
                            {attention.getDecay(), &row.decay},
                            {attention.getBeta(), &row.beta}})
      if (from) {
        *to = rows.operandFor(attention, from, expected);
        if (!*to)
          return {};
      }
    CachedValue cached{nextName("states"), attention.getState()};
    cached.type = RankedTensorType::get(shapeOf(attention.getState()).drop_front(), builder.getF32Type());
    cached.kept = Kept::State;
    Value before = insertCache(decode, cached.type, cached.name, cached.isWide());
    const RecurrentStep step = stepOf(builder, attention, row, before);
    // The condition is true of one text; of several it is false of those that rest, whose states stay.
    graph::Expr state(builder, attention.getLoc(), step.state), here = positionLike(state, cached.type.getShape());
    state = graph::select(here >= graph::zeroLike(here), state, state.with(before));
    cached.updated = wide(state);
    caches.push_back(cached);
    return step.result;
  }

  /// The sum over a position and the last few before it.
  Value convolve(graph::CausalConvolutionOp convolution, SingleRow &rows, OpBuilder &builder) {
    const ArrayRef<int64_t> shape = shapeOf(convolution.getX());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount()};
    if (convolution.getPast() || convolution.getDocumentStarts() || rows.rowsOf(convolution.getX()) != expected ||
        rows.dependsOnTokens(convolution.getWeight()) ||
        (convolution.getBias() && rows.dependsOnTokens(convolution.getBias())))
      return rows.setReason("graph.causal_convolution begins with a past, or its weights depend on tokens"), Value();
    graph::Expr row(builder, convolution.getLoc(), rows.twin(convolution.getX()));
    const int64_t taps = shapeOf(convolution.getWeight())[1];
    CachedValue cached{nextName("windows"), convolution.getX()};
    cached.type = row.type().clone(ArrayRef<int64_t>{taps, shape[2]});
    cached.kept = Kept::Window;
    graph::Expr window = row.with(insertCache(decode, cached.type, cached.name, cached.isWide()));
    graph::Expr here = rowOfWindow(positionLike(row, cached.type.getShape()), taps);
    row = graph::broadcast(graph::reshape(row, {1, shape[2]}), cached.type.getShape());
    window = graph::select(positionsAlong(row, cached.type.getShape(), 0) == here, row, window);
    cached.updated = window.value();
    caches.push_back(cached);
    return convolved(builder, convolution, cached.updated, position);
  }

  /// Attention of one query row to all positions up to its own. Query heads of a group are the rows of one product.
  Value attendToRows(graph::AttentionOp attention, SingleRow &rows, OpBuilder &builder) {
    const auto shape = cast<RankedTensorType>(attention.getQ().getType()).getShape();
    const int64_t positions = shape[1];
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, positions}, RowCount(), RowCount()};
    if (!attention.getCausal() && positions > 1)
      return rows.setReason("graph.attention sees later positions"), Value();
    for (Value operand : {attention.getQ(), attention.getK(), attention.getV()})
      if (rows.rowsOf(operand) != expected)
        return rows.setReason("graph.attention reads what no token has a part in"), Value();
    graph::Expr q(builder, attention.getLoc(), rows.twin(attention.getQ()));
    auto updated = [&](StringRef what, Value value) {
      graph::Expr row = q.with(rows.twin(value));
      auto type = row.type().clone(ArrayRef<int64_t>{row.dim(2), positions, row.dim(3)});
      row = graph::reshape(row, {row.dim(2), 1, row.dim(3)});
      return q.with(update({nextName(what), value, true, 0}, row, type, 1));
    };
    graph::Expr k = updated("keys", attention.getK()), v = updated("values", attention.getV());
    const int64_t heads = k.dim(0), group = q.dim(2) / heads, width = q.dim(3);
    graph::Expr scores = graph::matmul(graph::reshape(q, {heads, group, width}), k, false, true);
    wide(scores);
    if (double scale = attention.getScale().convertToDouble(); scale != 1.0) {
      scores = scores * scale;
      wide(scores);
    }
    if (double cap = attention.getSoftcap().convertToDouble(); cap != 0.0) {
      scores = scores / cap;
      wide(scores);
      scores = graph::tanh(scores);
      wide(scores);
      scores = scores * cap;
      wide(scores);
    }
    graph::Expr there = positionsAlong(q, scores.type().getShape(), 2);
    graph::Expr here = positionLike(q, scores.type().getShape());
    graph::Expr visible = there <= here;
    if (auto window = int64_t(attention.getWindow()))
      visible = visible & (here - there < graph::constantLike(here, double(window)));
    scores = graph::select(visible, scores, graph::constantLike(scores, -std::numeric_limits<double>::infinity()));
    wide(scores);
    graph::Expr weights = scores.with(graph::SoftmaxOp::create(builder, q.loc(), scores.type(), scores.value()));
    wide(weights);
    return graph::reshape(graph::matmul(weights, v), q.type().getShape()).value();
  }

  func::FuncOp decode;
  BlockArgument tokens, positions, position; ///< of all sequences, and of the one
  llvm::StringMap<unsigned> numbers;
  SmallVector<CachedValue> caches;
  std::string reason_;
};

/// Lets a copy of @decode go on with `rows` texts, a token each. One whose position is -1 rests: it computes what
/// nobody reads, at position 0, and its caches stay. Fails where texts cannot be told apart; `reason` says why.
LogicalResult widen(func::FuncOp function, int64_t rows, std::string &reason) {
  RowBatch batch(function.getContext(), rows);
  BlockArgument token = function.getArgument(0), position = function.getArgument(1);
  auto typeOf = [](Value value, ArrayRef<int64_t> shape) {
    return cast<RankedTensorType>(value.getType()).clone(shape);
  };
  BlockArgument tokens = insertArgument(function, 1, typeOf(token, {rows, 1}), graph::Role::Tokens);
  BlockArgument positions = insertArgument(function, 3, typeOf(position, {rows}), graph::Role::Position);
  Block &body = function.getBody().front();
  OpBuilder builder(&body, body.begin());
  graph::Expr place = graph::reshape(graph::Expr(builder, function.getLoc(), positions), {rows, 1});
  graph::Expr active = place >= graph::zeroLike(place);
  batch.setTwin(position, graph::select(active, place, graph::zeroLike(place)).value());
  batch.setTwin(token, graph::reshape(place.with(tokens), {rows, 1, 1}).value());
  SmallVector<BlockArgument> old{token, position};
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::Cache)) {
    BlockArgument cache = function.getArgument(index);
    SmallVector<int64_t> shape{rows};
    llvm::append_range(shape, shapeOf(cache));
    batch.setTwin(cache,
                  insertCache(function, typeOf(cache, shape), graph::argString(function, index, graph::kName).str(),
                              function.getArgAttr(index, graph::kWide) != nullptr));
    batch.guard(cache, active.value());
    old.push_back(cache);
  }
  if (failed(batch.run(body))) {
    reason = batch.reason();
    return failure();
  }
  Operation *terminator = body.getTerminator();
  builder.setInsertionPoint(terminator);
  std::vector<std::pair<std::string, bool>> names;
  for (unsigned i = 1; i < function.getNumResults(); ++i)
    names.push_back({function.getResultAttrOfType<StringAttr>(i, graph::kName).str(),
                     function.getResultAttr(i, graph::kWide) != nullptr});
  Value logits = terminator->getOperand(0);
  const int64_t vocabulary = shapeOf(logits).back();
  SmallVector<NamedResult> results{
      {reshapeTo(builder, logits.getLoc(), batch.twin(logits), {rows, vocabulary}), graph::ResultKind::Logits}};
  for (auto [name, cache] : llvm::zip_equal(names, terminator->getOperands().drop_front()))
    results.push_back({batch.twin(cache), graph::ResultKind::Cache, name.first, {}, name.second});
  setResults(function, results);
  eraseDeadOps(body);
  for (BlockArgument argument : old)
    (void)function.eraseArgument(argument.getArgNumber());
  return success();
}

/// What a step replaces, after the position (B) of each sequence: (B, shape of one...).
graph::Expr keptAfter(const graph::Expr &value, const CachedValue &entry, Value positions) {
  if (entry.kept == Kept::State)
    return value.with(stateAfter(value.value().getDefiningOp<graph::LinearAttentionOp>(), positions));
  return value.with(windowAfter(value.builder(), value.value(), entry.type.getDimSize(0), positions));
}

/// What is kept of all sequences, (rows, shape of one...), after the position of each.
graph::Expr keptOfAll(const graph::Expr &value, const CachedValue &entry, Value positions) {
  const int64_t rows = shapeOf(positions)[0];
  if (entry.kept != Kept::Rows)
    return keptAfter(value, entry, positions);
  graph::Expr all = value;
  SmallVector<int64_t> order, sizes{rows};
  llvm::append_range(sizes, entry.type.getShape());
  if (entry.headsFirst)
    return graph::reshape(graph::transpose(all, {0, 2, 1, 3}), sizes);
  const int64_t along = entry.sequencesAlong;
  SmallVector<int64_t> split(all.type().getShape());
  split[along] /= rows;
  split.insert(split.begin() + along, rows);
  all = graph::reshape(all, split);
  order.push_back(along);
  for (int64_t i = 0; i < all.rank(); ++i)
    if (i != along)
      order.push_back(i);
  return graph::reshape(along ? graph::transpose(all, order) : all, sizes);
}

struct DeriveDecode : impl::DeriveDecodeBase<DeriveDecode> {
  void runOnOperation() override {
    func::FuncOp generate = findFunction(getOperation(), graph::Entry::Generate);
    if (!generate)
      return signalPassFailure();
    IRMapping copies;
    func::FuncOp decode = cast<func::FuncOp>(generate->clone(copies));
    graph::setEntry(decode, graph::Entry::Decode);
    getOperation().push_back(decode);
    Decoder decoder(decode);
    if (failed(decoder.run()) || decoder.cached().empty()) {
      decode.erase();
      StringRef reason = decoder.reason().empty() ? StringRef("nothing reads other positions") : decoder.reason();
      getOperation()->setAttr(graph::kNoCache, StringAttr::get(&getContext(), reason));
      remark::missed(generate.getLoc(), remark::RemarkOpts::name("cache").category(DEBUG_TYPE))
          << "generation has no cache: " << reason;
      return;
    }
    DenseMap<Value, Value> originals;
    for (auto [original, copy] : copies.getValueMap())
      originals[copy] = original;
    SmallVector<CachedValue> cached(decoder.cached());
    for (CachedValue &entry : cached)
      entry.value = originals.lookup(entry.value);
    decoder.finish();
    const int64_t rows = shapeOf(generate.getArgument(1))[0];
    if (rows > 1 && deriveRows(decode, rows, cached))
      returnCachesOfAll(generate, rows, cached);
    else
      returnCaches(generate, cached);
  }

  /// Makes @decode_rows of @decode, where it can.
  static bool deriveRows(func::FuncOp decode, int64_t rows, ArrayRef<CachedValue> cached) {
    std::string reason = "what rows look at counts sequences in several dimensions";
    if (llvm::all_of(cached, [](const CachedValue &entry) { return entry.sequencesAlong >= 0; })) {
      func::FuncOp many = cloneFunction(decode, graph::Entry::DecodeRows);
      if (succeeded(widen(many, rows, reason)))
        return true;
      many.erase();
    }
    remark::missed(decode.getLoc(), remark::RemarkOpts::name("rows").category(DEBUG_TYPE))
        << "generation with a cache takes one text at a time: " << reason;
    return false;
  }

  /// Lets @generate return what @decode_rows keeps: of each sequence that does not rest; of the others what there was.
  static void returnCachesOfAll(func::FuncOp generate, int64_t rows, ArrayRef<CachedValue> cached) {
    SmallVector<NamedResult> results{
        {generate.getBody().front().getTerminator()->getOperand(0), graph::ResultKind::Logits}};
    for (const CachedValue &entry : cached) {
      OpBuilder builder(generate.getContext());
      builder.setInsertionPointAfterValue(entry.value);
      graph::Expr all =
          keptOfAll(graph::Expr(builder, entry.updated.getLoc(), entry.value), entry, generate.getArgument(1));
      graph::Expr before = all.with(insertCache(generate, all.type(), entry.name, entry.isWide()));
      graph::Expr position = all.with(generate.getArgument(1));
      SmallVector<int64_t> column(all.rank(), 1);
      column[0] = rows;
      graph::Expr active = graph::reshape(position >= graph::zeroLike(position), column);
      all = graph::select(graph::broadcast(active, all.type().getShape()), all, before);
      if (entry.isWide())
        wide(all);
      results.push_back({all.value(), graph::ResultKind::Cache, entry.name, {}, entry.isWide()});
    }
    setResults(generate, results);
  }

  /// Lets @generate return what @decode keeps, of the first sequence.
  static void returnCaches(func::FuncOp generate, ArrayRef<CachedValue> cached) {
    SmallVector<NamedResult> results{
        {generate.getBody().front().getTerminator()->getOperand(0), graph::ResultKind::Logits}};
    for (const CachedValue &entry : cached) {
      Value value = entry.value;
      OpBuilder builder(generate.getContext());
      builder.setInsertionPointAfterValue(value);
      graph::Expr all(builder, value.getLoc(), value);
      SmallVector<int64_t> sizes(entry.type.getShape());
      if (entry.kept != Kept::Rows) {
        all = keptAfter(all, entry, generate.getArgument(1));
        sizes.insert(sizes.begin(), 1);
      }
      if (entry.headsFirst)
        sizes = {1, sizes[1], sizes[0], sizes[2]};
      if (ArrayRef(sizes) != all.type().getShape())
        all = graph::slice(all, SmallVector<int64_t>(sizes.size(), 0), sizes);
      if (entry.headsFirst)
        all = graph::reshape(graph::transpose(all, {0, 2, 1, 3}), {sizes[2], sizes[1], sizes[3]});
      all = graph::reshape(all, entry.type.getShape());
      results.push_back({all.value(), graph::ResultKind::Cache, entry.name, {}, entry.isWide()});
    }
    setResults(generate, results);
  }
};
} // namespace
} // namespace ztc
