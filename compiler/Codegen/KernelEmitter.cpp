#include "compiler/Codegen/KernelEmitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;

namespace ztc::codegen {

KernelEmitter::KernelEmitter(KernelBuilder &builder, ColumnPlans &plans) : builder_(builder), plans_(plans) {
  levels_.push_back({builder.saveInsertionPoint(), {}, {}});
}

KernelBuilder &KernelEmitter::at(unsigned level) {
  builder_.restoreInsertionPoint(levels_[level].point);
  return builder_;
}

const IndexSymbol *KernelEmitter::symbol(IndexSymbol facts) {
  facts.id = symbols_.size();
  symbols_.push_back(facts);
  return &symbols_.back();
}

void KernelEmitter::restartScalar(LoopKey key) {
  plans_.scalar.insert(key);
  restart_ = true;
}

Element KernelEmitter::fail(Operation *op, const Twine &message) {
  op->emitOpError(message);
  return {};
}

Type KernelEmitter::element(Type type) {
  return builder_.element(type);
}

Element KernelEmitter::emit(Value value, ArrayRef<IndexExpr> wanted) {
  // A dimension of size 1 has index 0: equal elements get equal keys, and broadcasts become uniform.
  Access access(wanted);
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  for (auto [index, size] : llvm::zip_equal(access, shape))
    if (size == 1)
      index = IndexExpr();
  Key key{static_cast<int64_t>(reinterpret_cast<intptr_t>(value.getAsOpaquePointer()))};
  for (const IndexExpr &index : access)
    index.appendKey(key);
  unsigned level = levelOf(access);
  if (auto known = levels_[level].values.find(key); known != levels_[level].values.end())
    return known->second;
  Element result;
  if (auto meaning = overrides_.find(value); meaning != overrides_.end())
    result = meaning->second(access);
  else if (Value pointer = pointers_.lookup(value))
    result = load(pointer, element(value.getType()), linearize(access, shape));
  else
    result = emitOp(value.getDefiningOp(), value, access);
  if (result)
    levels_[level].values.emplace(std::move(key), result);
  return result;
}

LogicalResult KernelEmitter::forLoop(unsigned level, Value lower, Value upper, int64_t step, IndexSymbol facts,
                                     Carried &carried, LoopBody body) {
  // Loops that are open below `level` wait: the new one goes before them in the same block.
  std::vector<Level> waiting(std::make_move_iterator(levels_.begin() + level + 1),
                             std::make_move_iterator(levels_.end()));
  levels_.resize(level + 1);
  KernelBuilder &b = at(level);
  auto loop = scf::ForOp::create(b, lower, upper, b.i64(step), ValueRange(carried));
  levels_[level].point = OpBuilder::InsertPoint(loop->getBlock(), loop->getIterator());
  Block *block = loop.getBody();
  levels_.push_back(
      {OpBuilder::InsertPoint(block, carried.empty() ? block->getTerminator()->getIterator() : block->end()), {}, {}});
  facts.value = loop.getInductionVar();
  facts.level = level + 1;
  SmallVector<Value> inner(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  if (failed(body(symbol(facts), level + 1, inner)))
    return failure();
  if (!carried.empty())
    scf::YieldOp::create(at(level + 1), inner);
  levels_.resize(level + 1);
  levels_[level].point = OpBuilder::InsertPoint(loop->getBlock(), std::next(loop->getIterator()));
  levels_.insert(levels_.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  llvm::copy(loop.getResults(), carried.begin());
  return success();
}

LogicalResult KernelEmitter::forLoop(unsigned level, int64_t size, Carried &carried, LoopBody body) {
  KernelBuilder &b = at(level);
  IndexSymbol facts;
  facts.maximum = size - 1;
  return forLoop(level, b.i64(0), b.i64(size), 1, facts, carried, body);
}

LogicalResult KernelEmitter::either(unsigned level, Value condition, Carried &carried, BranchBody then,
                                    BranchBody otherwise) {
  std::vector<Level> waiting(std::make_move_iterator(levels_.begin() + level + 1),
                             std::make_move_iterator(levels_.end()));
  levels_.resize(level + 1);
  auto op = scf::IfOp::create(at(level), ValueRange(carried).getTypes(), condition, /*withElseRegion=*/true);
  levels_[level].point = OpBuilder::InsertPoint(op->getBlock(), op->getIterator());
  for (auto [block, body] : {std::pair(op.thenBlock(), then), std::pair(op.elseBlock(), otherwise)}) {
    levels_.push_back(
        {OpBuilder::InsertPoint(block, carried.empty() ? block->getTerminator()->getIterator() : block->end()),
         {},
         {}});
    SmallVector<Value> inner(carried.begin(), carried.end());
    if (failed(body(level + 1, inner)))
      return failure();
    if (!carried.empty())
      scf::YieldOp::create(at(level + 1), inner);
    levels_.resize(level + 1);
  }
  levels_[level].point = OpBuilder::InsertPoint(op->getBlock(), std::next(op->getIterator()));
  levels_.insert(levels_.end(), std::make_move_iterator(waiting.begin()), std::make_move_iterator(waiting.end()));
  llvm::copy(op.getResults(), carried.begin());
  return success();
}

IndexExpr KernelEmitter::withLanes(const IndexExpr &column, int64_t lanes, LoopKey key) {
  if (lanes == 1)
    return column;
  const IndexSymbol *&lane = lanes_[{key, lanes}];
  if (!lane) {
    IndexSymbol facts;
    facts.maximum = lanes - 1;
    facts.columnLoop = key;
    lane = symbol(facts);
  }
  return column + IndexExpr(lane);
}

LogicalResult KernelEmitter::forColumns(unsigned level, int64_t size, LoopKey key, int64_t stride, Carried &carried,
                                        ColumnBody body) {
  auto loopOver = [&](int64_t begin, int64_t end, int64_t step) {
    KernelBuilder &b = at(level);
    IndexSymbol facts;
    facts.minimum = begin;
    facts.maximum = end - step;
    facts.divisor = std::gcd(begin, step);
    facts.columnLoop = key;
    int64_t lanes = step == 1 ? 1 : kChunk;
    return forLoop(level, b.i64(begin), b.i64(end), step, facts, carried,
                   [&](const IndexSymbol *column, unsigned inner, Carried &values) {
                     for (int64_t offset = 0; offset < step; offset += lanes)
                       if (failed(body({withLanes(IndexExpr(column) + offset, lanes, key), lanes,
                                        (begin + offset) % kVirtualLanes, inner},
                                       values)))
                         return failure();
                     return success();
                   });
  };
  if (plans_.scalar.contains(key))
    return loopOver(0, size, 1);
  auto single = [&](int64_t begin, int64_t lanes) {
    // A symbol, though its value is known: edges inside the chunk must be traceable to this loop.
    IndexSymbol facts;
    facts.value = at(0).i64(begin);
    facts.minimum = facts.maximum = facts.divisor = begin;
    facts.columnLoop = key;
    return body({withLanes(IndexExpr(symbol(facts)), lanes, key), lanes, begin % kVirtualLanes, level}, carried);
  };
  int64_t column = 0;
  std::set<int64_t> ends = plans_.splits[key];
  ends.insert(size);
  for (int64_t end : ends) {
    while (column < end) {
      int64_t turns = column % stride == 0 ? (end - column) / stride : 0;
      if (turns > 1) {
        if (failed(loopOver(column, column + turns * stride, stride)))
          return failure();
        column += turns * stride;
        continue;
      }
      int64_t lanes = kChunk;
      while (column % lanes != 0 || lanes > end - column)
        lanes /= 2;
      if (failed(single(column, lanes)))
        return failure();
      column += lanes;
    }
  }
  return success();
}

Value KernelEmitter::materialize(const IndexExpr &index) {
  KernelBuilder &b = at(index.level());
  Value sum;
  for (const IndexExpr::Term &term : index.terms()) {
    if (term.symbol->isLane())
      continue;
    Value value = term.coefficient == 1 ? term.symbol->value : b.mul(term.symbol->value, b.i64(term.coefficient));
    sum = sum ? b.add(sum, value) : value;
  }
  if (!sum)
    return b.i64(index.constant());
  return index.constant() == 0 ? sum : b.add(sum, b.i64(index.constant()));
}

IndexGuard KernelEmitter::guardOf(const IndexExpr &index, unsigned level) {
  IndexGuard guard;
  for (const IndexExpr::Term &term : index.terms()) {
    if (!term.symbol->guard || term.symbol->guard == guard.inside)
      continue;
    if (term.symbol->bound)
      guard.column = term.symbol->value, guard.bound = term.symbol->bound;
    KernelBuilder &b = at(level);
    guard.inside =
        guard.inside ? arith::AndIOp::create(b, guard.inside, term.symbol->guard).getResult() : term.symbol->guard;
  }
  return guard;
}

/// What is true of the lanes in front of the bound, one by one.
static void forExistingLanes(KernelBuilder &b, const IndexGuard &guard, int64_t lanes,
                             llvm::function_ref<void(int64_t lane, Value exists)> body) {
  for (int64_t i = 0; i < lanes; ++i)
    body(i, b.compare(arith::CmpIPredicate::slt, b.add(guard.column, b.i64(i)), guard.bound));
}

static Value zeroOf(KernelBuilder &b, Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type)) ? b.real(type, 0.0) : b.integer(type, 0);
}

/// `condition ? then() : otherwise()`, evaluating one of them only.
static Value branch(KernelBuilder &b, Type type, Value condition, llvm::function_ref<Value()> then,
                    llvm::function_ref<Value()> otherwise) {
  auto op = scf::IfOp::create(b, TypeRange(type), condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard back(b);
  b.setInsertionPointToEnd(op.thenBlock());
  scf::YieldOp::create(b, then());
  b.setInsertionPointToEnd(op.elseBlock());
  scf::YieldOp::create(b, otherwise());
  return op.getResult(0);
}

Value KernelEmitter::loadAt(unsigned level, const IndexGuard &guard, Value pointer, Type element, int64_t lanes,
                            int64_t alignment) {
  KernelBuilder &b = at(level);
  auto whole = [&]() -> Value { return b.load(pointer, element, lanes, alignment); };
  if (!guard.inside)
    return whole();
  Type held = registerType(element), type = KernelBuilder::shaped(lanes, held);
  return branch(b, type, guard.inside, whole, [&]() -> Value {
    if (!guard.bound || lanes == 1)
      return zeroOf(b, type);
    SmallVector<Value> elements;
    forExistingLanes(b, guard, lanes, [&](int64_t lane, Value exists) {
      elements.push_back(branch(
          b, held, exists, [&] { return b.load(b.address(pointer, element, b.i64(lane)), element, 1); },
          [&] { return zeroOf(b, held); }));
    });
    return vector::FromElementsOp::create(b, type, elements);
  });
}

Element KernelEmitter::load(Value base, Type element, const IndexExpr &index) {
  unsigned level = index.level();
  int64_t coefficient = 0;
  const IndexSymbol *lane = index.lane(&coefficient);
  IndexGuard guard = guardOf(index, level);
  if (!lane || coefficient == 1) {
    Value position = materialize(index);
    KernelBuilder &b = at(level);
    return {loadAt(level, guard, b.address(base, element, position), element, lane ? lane->maximum + 1 : 1,
                   alignmentOf(index.withoutLane(), element)),
            level};
  }
  // Lanes apart, as after a transpose: one scalar each.
  SmallVector<Value> scalars;
  for (int64_t i = 0; i <= lane->maximum; ++i) {
    Value position = materialize(index.withoutLane() + i * coefficient);
    KernelBuilder &b = at(level);
    scalars.push_back(loadAt(level, guard, b.address(base, element, position), element, 1, storedBytes(element)));
  }
  Type held = KernelBuilder::shaped(scalars.size(), registerType(element));
  return {vector::FromElementsOp::create(at(level), held, scalars), level};
}

void KernelEmitter::store(Value value, Value base, Type element, const IndexExpr &index, unsigned level, bool add) {
  Value position = materialize(index);
  IndexGuard guard = guardOf(index, level);
  KernelBuilder &b = at(level);
  Value pointer = b.address(base, element, position);
  int64_t lanes = lanesOf(value.getType()), alignment = alignmentOf(index, element);
  auto put = [&](Value part, Value where, int64_t count, int64_t aligned) {
    if (add) {
      part = combine(b, b.load(where, element, count, aligned), part, /*sum=*/true);
      if (isNarrow(element))
        part = b.convertReal(part, element);
    }
    b.store(part, where, element, aligned);
  };
  auto when = [&](Value condition, llvm::function_ref<void()> then) {
    OpBuilder::InsertionGuard back(b);
    if (condition)
      b.setInsertionPointToStart(scf::IfOp::create(b, condition, /*withElseRegion=*/false).thenBlock());
    then();
  };
  when(storeGuard_, [&] {
    when(guard.inside, [&] { put(value, pointer, lanes, alignment); });
    if (!guard.bound || lanes == 1)
      return;
    Value partly = arith::XOrIOp::create(b, guard.inside, b.integer(b.getI1Type(), 1));
    when(partly, [&] {
      forExistingLanes(b, guard, lanes, [&](int64_t lane, Value exists) {
        when(exists, [&] {
          put(vector::ExtractOp::create(b, value, lane), b.address(pointer, element, b.i64(lane)), 1,
              storedBytes(element));
        });
      });
    });
  });
}

IndexSymbol KernelEmitter::derived(const IndexExpr &index, unsigned level) {
  IndexSymbol facts;
  facts.level = level;
  facts.guard = guardOf(index, level).inside;
  for (const IndexExpr::Term &term : index.terms())
    if (term.symbol->sharedBy && (!facts.sharedBy || term.symbol->sharedBy < facts.sharedBy))
      facts.sharedBy = term.symbol->sharedBy;
  return facts;
}

std::optional<std::pair<IndexExpr, IndexExpr>> KernelEmitter::divide(const IndexExpr &index, int64_t divisor) {
  if (divisor <= 1) // a dimension of size 0 has no elements: the loop around never runs
    return std::pair{index, IndexExpr()};
  IndexExpr quotient(index.constant() / divisor), rest(index.constant() % divisor);
  for (const IndexExpr::Term &term : index.terms()) {
    quotient = quotient + IndexExpr(term.symbol) * (term.coefficient / divisor);
    rest = rest + IndexExpr(term.symbol) * (term.coefficient % divisor);
  }
  if (rest.minimum() >= 0 && rest.maximum() < divisor)
    return std::pair{quotient, rest};
  int64_t coefficient = 0;
  const IndexSymbol *lane = rest.lane(&coefficient);
  IndexExpr base = rest.withoutLane();
  int64_t common = std::gcd(base.divisor(), divisor);
  bool bounded = lane && guardOf(base, base.level()).bound;
  if (lane && (coefficient * lane->maximum >= common || bounded)) {
    restartScalar(lane->columnLoop);
    return std::nullopt;
  }
  unsigned level = base.level();
  Key key{divisor};
  base.appendKey(key);
  auto [known, isNew] = levels_[level].divisions.try_emplace(std::move(key));
  if (isNew) {
    Value value = materialize(base);
    KernelBuilder &b = at(level);
    IndexSymbol whole = derived(base, level), part = whole;
    whole.value = arith::DivUIOp::create(b, value, b.i64(divisor));
    whole.maximum = base.maximum() / divisor;
    part.value = arith::RemUIOp::create(b, value, b.i64(divisor));
    part.maximum = std::min(base.maximum(), divisor - common);
    part.divisor = common;
    known->second = {IndexExpr(symbol(whole)), IndexExpr(symbol(part))};
  }
  quotient = quotient + known->second.first;
  rest = known->second.second;
  if (lane)
    rest = rest + IndexExpr(lane) * coefficient;
  return std::pair{quotient, rest};
}

std::optional<Access> KernelEmitter::delinearize(const IndexExpr &linear, ArrayRef<int64_t> shape) {
  Access access(shape.size(), IndexExpr());
  IndexExpr rest = linear;
  int64_t first = 0; // the outermost dimension that is not of size 1 takes what is left, undivided
  while (first + 1 < static_cast<int64_t>(shape.size()) && shape[first] == 1)
    ++first;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i > first; --i) {
    auto parts = divide(rest, shape[i]);
    if (!parts)
      return std::nullopt;
    access[i] = parts->second;
    rest = parts->first;
  }
  if (!shape.empty())
    access[first] = rest;
  return access;
}

std::optional<Access> KernelEmitter::accessOf(ArrayRef<int64_t> shape, const IndexExpr &row, const IndexExpr &column) {
  if (shape.empty())
    return Access{};
  auto access = delinearize(row, shape.drop_back());
  if (access)
    access->push_back(column);
  return access;
}

std::optional<SmallVector<Value>> KernelEmitter::emitChunk(ArrayRef<Value> values, const IndexExpr &row,
                                                           const ColumnChunk &chunk) {
  SmallVector<Value> emitted;
  for (Value value : values) {
    auto access = accessOf(cast<RankedTensorType>(value.getType()).getShape(), row, chunk.column);
    Element element = access ? emit(value, *access) : Element();
    if (!element)
      return std::nullopt;
    emitted.push_back(widen(element.value, chunk.lanes, chunk.level));
  }
  return emitted;
}

Value KernelEmitter::widen(Value value, int64_t lanes, unsigned level) {
  return lanesOf(value.getType()) == lanes ? value : at(level).splat(value, lanes);
}

Value KernelEmitter::squareOf(const Element &x, const ColumnChunk &chunk) {
  KernelBuilder &b = at(chunk.level);
  Value wide = b.convertReal(widen(x.value, chunk.lanes, chunk.level), b.getF32Type());
  return b.mul(wide, wide);
}

Value KernelEmitter::stack(Type element, int64_t count) {
  KernelBuilder &b = at(0);
  return LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), element, b.i64(count), /*alignment=*/64);
}

} // namespace ztc::codegen
