#include "compiler/Codegen/DeviceEmitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/bit.h"
#include <numeric>

using namespace mlir;

namespace ztc::codegen {

DeviceEmitter::DeviceEmitter(KernelBuilder &builder, ColumnPlans &plans, func::FuncOp kernel, int64_t vector)
    : KernelEmitter(builder, plans), kernel_(kernel), vector_(vector) {}

int64_t DeviceEmitter::rowLanes(int64_t size) {
  int64_t whole = llvm::bit_ceil(static_cast<uint64_t>(size));
  return std::clamp(whole / 2, std::min<int64_t>(whole, 128), int64_t(4096));
}

LoopKey DeviceEmitter::keyOf(int64_t size) {
  return &plans_.sizes[size];
}

int64_t DeviceEmitter::width(int64_t size) {
  LoopKey key = keyOf(size);
  if (plans_.scalar.contains(key))
    return 1;
  int64_t common = std::gcd(size, vector_);
  for (int64_t split : plans_.splits[key])
    common = std::gcd(common, split);
  return common;
}

int64_t DeviceEmitter::teamOf(int64_t size) {
  int64_t longest = 0, begin = 0;
  std::set<int64_t> ends = plans_.splits[keyOf(size)];
  ends.insert(size);
  for (int64_t end : ends) {
    longest = std::max(longest, end - begin);
    begin = end;
  }
  int64_t chunk = width(size), busy = llvm::bit_ceil(static_cast<uint64_t>(llvm::divideCeil(longest, chunk)));
  return std::min({busy, std::max<int64_t>(rowLanes(size) / chunk, 1), kMaxBlockThreads});
}

Value DeviceEmitter::thread() {
  if (!thread_)
    thread_ = at(0).threadNumber();
  return thread_;
}

Value DeviceEmitter::block() {
  if (!block_)
    block_ = at(0).blockNumber();
  return block_;
}

Value DeviceEmitter::member(int64_t threads) {
  Value &value = members_[threads];
  if (!value) {
    Value number = thread();
    KernelBuilder &b = at(0);
    value = threads == blockThreads_ ? number : arith::AndIOp::create(b, number, b.i64(threads - 1)).getResult();
  }
  return value;
}

// One symbol for all turns, which differ by a constant: an element of an earlier turn is found again.
IndexExpr DeviceEmitter::column(int64_t size, int64_t begin, int64_t count) {
  int64_t chunk = width(size);
  bool whole = count == team_ * chunk;
  const IndexSymbol *&known = columns_[{size, team_, whole ? 0 : count}];
  if (known)
    return IndexExpr(known) + begin;
  Value first = member(team_);
  KernelBuilder &b = at(0);
  IndexSymbol facts;
  facts.value = b.mul(first, b.i64(chunk));
  if (!whole)
    facts.guard = b.compare(arith::CmpIPredicate::slt, facts.value, b.i64(count));
  facts.maximum = count - chunk;
  facts.divisor = chunk;
  facts.level = columnLevel_;
  facts.columnLoop = keyOf(size);
  facts.sharedBy = 1;
  known = symbol(facts);
  return IndexExpr(known) + begin;
}

LogicalResult DeviceEmitter::forColumns(unsigned level, int64_t size, LoopKey, int64_t stride, Carried &carried,
                                        ColumnBody body) {
  LoopKey key = keyOf(size);
  int64_t chunk = width(size), span = team_ * chunk, perLoop = std::max<int64_t>(stride / span, 1);
  std::set<int64_t> ends = plans_.splits[key];
  ends.insert(size);
  int64_t outer = bases_[key], begin = 0;
  auto restore = llvm::scope_exit([&] { bases_[key] = outer; });
  auto single = [&](int64_t count) {
    bases_[key] = begin;
    return body({withLanes(column(size, begin, count), chunk, key), chunk, begin, level}, carried);
  };
  for (int64_t end : ends) {
    int64_t turns = (end - begin) / span;
    if (!unrolled_ && turns > kUnrolledTurns && begin % (perLoop * span) == 0) {
      int64_t last = begin + turns / perLoop * perLoop * span;
      Value number = member(team_);
      Value share = at(0).mul(number, at(0).i64(chunk));
      KernelBuilder &b = at(level);
      if (failed(forLoop(level, b.i64(begin), b.i64(last), perLoop * span, IndexSymbol(), carried,
                         [&](const IndexSymbol *turn, unsigned inner, Carried &values) -> LogicalResult {
                           IndexSymbol facts;
                           facts.value = at(inner).add(turn->value, share);
                           facts.minimum = begin;
                           facts.maximum = last - (perLoop - 1) * span - chunk;
                           facts.divisor = std::gcd(begin, chunk);
                           facts.level = inner;
                           facts.columnLoop = key;
                           facts.sharedBy = 1;
                           IndexExpr first(symbol(facts));
                           for (int64_t i = 0; i < perLoop; ++i) {
                             bases_[key] = i * span;
                             if (failed(body({withLanes(first + i * span, chunk, key), chunk, begin + i * span, inner},
                                             values)))
                               return failure();
                           }
                           return success();
                         })))
        return failure();
      begin = last;
    }
    for (; end - begin >= span; begin += span)
      if (failed(single(span)))
        return failure();
    if (begin < end && failed(single(end - begin)))
      return failure();
    begin = end;
  }
  return success();
}

int64_t DeviceEmitter::chunkCount(int64_t size) {
  int64_t span = team_ * width(size), count = 0, begin = 0;
  std::set<int64_t> ends = plans_.splits[keyOf(size)];
  ends.insert(size);
  for (int64_t end : ends) {
    count += llvm::divideCeil(end - begin, span);
    begin = end;
  }
  return count;
}

int64_t DeviceEmitter::alignmentOf(const IndexExpr &index, Type element) {
  // Operands begin at multiples of 16 bytes: slots at multiples of more, parameters at multiples of 16 elements.
  int64_t divisor = index.divisor();
  return divisor == 0 ? kVectorBytes : std::gcd(divisor * storedBytes(element), kVectorBytes);
}

Value DeviceEmitter::exchange(Value value, int64_t mask, bool sum, unsigned level) {
  KernelBuilder &b = at(level);
  return combine(b, value, b.exchange(value, mask), sum);
}

Value DeviceEmitter::foldTeam(Value value, int64_t threads, bool sum, unsigned level) {
  for (int64_t mask = 1; mask < std::min(threads, kWarp); mask *= 2)
    value = exchange(value, mask, sum, level);
  if (threads <= kWarp)
    return value;
  int64_t warps = threads / kWarp, bytes = blockThreads_ / kWarp * 4;
  Type element = value.getType();
  Value number = thread();
  barrier(level);
  KernelBuilder &b = at(level);
  Value lane = arith::AndIOp::create(b, number, b.i64(kWarp - 1)), warp = arith::ShRUIOp::create(b, number, b.i64(5));
  Value pointer = sharedAddress(bytes, element, warp, level);
  {
    OpBuilder::InsertionGuard back(b);
    auto first = scf::IfOp::create(b, b.compare(arith::CmpIPredicate::eq, lane, b.i64(0)), /*withElseRegion=*/false);
    b.setInsertionPointToStart(first.thenBlock());
    b.store(value, pointer);
  }
  barrier(level);
  at(level);
  Value begin = arith::AndIOp::create(b, warp, b.i64(-warps));
  Value own = b.add(begin, arith::AndIOp::create(b, lane, b.i64(warps - 1)));
  Value from = sharedAddress(bytes, element, own, level);
  value = at(level).load(from, element, 1);
  for (int64_t mask = 1; mask < warps; mask *= 2)
    value = exchange(value, mask, sum, level);
  return value;
}

void DeviceEmitter::barrier(unsigned level) {
  at(level).barrier();
}

Value DeviceEmitter::shared(int64_t bytes, unsigned level) {
  sharedBytes_ = std::max(sharedBytes_, bytes);
  KernelBuilder &b = at(level);
  return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), kSharedSpace),
                                   (kernel_.getName() + "_shared").str());
}

Value DeviceEmitter::sharedAddress(int64_t bytes, Type element, Value index, unsigned level) {
  Value base = shared(bytes, level);
  return at(level).address(base, element, index);
}

void DeviceEmitter::finish() {
  if (!sharedBytes_)
    return;
  KernelBuilder &b = builder_;
  b.setInsertionPoint(kernel_);
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes_);
  LLVM::GlobalOp::create(b, type, /*isConstant=*/false, LLVM::Linkage::Internal, (kernel_.getName() + "_shared").str(),
                         Attribute(), /*alignment=*/kVectorBytes, kSharedSpace);
}

Value DeviceEmitter::foldNeighbours(SmallVector<Value> values, bool sum, unsigned level) {
  while (values.size() > 1) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < values.size(); i += 2)
      pairs.push_back(combine(at(level), values[i], values[i + 1], sum));
    values = std::move(pairs);
  }
  return values.front();
}

SmallVector<Value> DeviceEmitter::lanesAsScalars(Value value, unsigned level) {
  KernelBuilder &b = at(level);
  SmallVector<Value> scalars;
  int64_t lanes = lanesOf(value.getType());
  for (int64_t i = 0; i < lanes; ++i)
    scalars.push_back(lanes == 1 ? value : vector::ExtractOp::create(b, value, i).getResult());
  return scalars;
}

Element DeviceEmitter::reduceLast(Operation *op, bool sum, ArrayRef<int64_t> outerAxes, const Access &access) {
  auto source = cast<RankedTensorType>(op->getOperand(0).getType());
  Type stored = element(source);
  if (const IndexSymbol *lane = laneOf(access)) {
    restartScalar(lane->columnLoop); // the columns of the reduction need the lanes
    return {};
  }
  if (!stored)
    return fail(op, "has an element type that kernels do not know");
  if (registerType(stored).getIntOrFloatBitWidth() != 32) {
    // Threads exchange 32 bits: of other integers, indices and counts, each thread goes over the row itself.
    SmallVector<int64_t> axes(outerAxes);
    axes.push_back(source.getRank() - 1);
    return reduceOuter(op, sum, axes, access);
  }
  int64_t sharedBy = rowTeam_;
  for (const IndexExpr &index : access)
    for (const IndexExpr::Term &term : index.terms())
      if (term.symbol->sharedBy)
        sharedBy = std::min(sharedBy, term.symbol->sharedBy);
  int64_t size = source.getShape().back(), chunk = width(size);
  int64_t threads = std::min(sharedBy, teamOf(size));
  // Each segment of the row must begin at the same lanes.
  for (int64_t split : plans_.splits[keyOf(size)])
    while (threads > 1 && split % (threads * chunk) != 0)
      threads /= 2;
  if (threads > 1 || rowLanes(size) / chunk <= kUnrolledTurns)
    return reduceByTeam(op, sum, outerAxes, access, threads);
  return reduceByThread(op, sum, outerAxes, access);
}

Element DeviceEmitter::reduceByTeam(Operation *op, bool sum, ArrayRef<int64_t> outerAxes, Access access,
                                    int64_t threads) {
  Value source = op->getOperand(0);
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  Type stored = element(op->getResult(0).getType()), wide = registerType(element(source.getType()));
  unsigned level = levelOf(access);
  int64_t size = shape.back(), chunk = width(size), span = threads * chunk, lanes = rowLanes(size);
  Value neutral = identity(at(level), KernelBuilder::shaped(chunk, wide), sum);
  SmallVector<Value> sets(lanes / span, neutral);
  auto restore = llvm::scope_exit([this, team = team_, outer = columnLevel_, known = columns_] {
    team_ = team;
    if (columnLevel_ == outer)
      return;
    columnLevel_ = outer;
    columns_ = known;
  });
  setTeam(threads);
  if (level < columnLevel_)
    setColumnLevel(level); // what no row changes is summed outside of the loop over rows
  auto columns = [&](unsigned inner, Carried &outside) {
    return forColumns(inner, size, op, lanes, outside, [&](const ColumnChunk &chunk, Carried &values) -> LogicalResult {
      access.back() = chunk.column;
      Element element = emit(source, access);
      if (!element)
        return failure();
      Value value = widen(element.value, chunk.lanes, chunk.level);
      IndexGuard guard = guardOf(chunk.column, chunk.level);
      Value &set = values[chunk.phase % lanes / span];
      KernelBuilder &b = at(chunk.level);
      Value joined = combine(b, set, value, sum);
      set = guard.inside ? b.select(guard.inside, joined, set) : joined;
      return success();
    });
  };
  if (failed(overAxes(level, outerAxes, shape, access, sets, columns)))
    return {};
  SmallVector<Value> folded;
  for (Value set : sets)
    folded.push_back(foldTeam(foldNeighbours(lanesAsScalars(set, level), sum, level), threads, sum, level));
  Value total = foldNeighbours(folded, sum, level);
  return {at(level).convertReal(total, stored), level};
}

// One thread visits lane after lane. The sums of lanes are folded as they come, as a binary counter carries: partial[j]
// holds the fold of 2^j neighbours that waits for the next 2^j.
Element DeviceEmitter::reduceByThread(Operation *op, bool sum, ArrayRef<int64_t> outerAxes, Access access) {
  Value source = op->getOperand(0);
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  Type stored = element(op->getResult(0).getType()), wide = registerType(element(source.getType()));
  unsigned level = levelOf(access);
  int64_t size = shape.back(), lanes = rowLanes(size);
  Value neutral = identity(at(level), wide, sum);
  SmallVector<Value> partial(llvm::Log2_64(lanes) + 1, neutral); // the last: the whole row
  LogicalResult done =
      forLoop(level, lanes, partial, [&](const IndexSymbol *lane, unsigned inner, Carried &counter) -> LogicalResult {
        SmallVector<Value> total{neutral};
        auto columns = [&](unsigned depth, Carried &outside) {
          IndexSymbol facts;
          facts.maximum = size - 1;
          facts.columnLoop = keyOf(size);
          facts.sharedBy = 1;
          Value end = at(depth).i64(size);
          return forLoop(depth, lane->value, end, lanes, facts, outside,
                         [&](const IndexSymbol *column, unsigned innermost, Carried &values) -> LogicalResult {
                           access.back() = IndexExpr(column);
                           Element value = emit(source, access);
                           if (!value)
                             return failure();
                           KernelBuilder &b = at(innermost);
                           values[0] = combine(b, values[0], value.value, sum);
                           return success();
                         });
        };
        if (failed(overAxes(inner, outerAxes, shape, access, total, columns)))
          return failure();
        KernelBuilder &b = at(inner);
        Value carry = total[0], carrying = b.integer(b.getI1Type(), 1);
        for (size_t j = 0; j + 1 < counter.size(); ++j) {
          Value masked = arith::AndIOp::create(b, lane->value, b.i64(int64_t(1) << j));
          Value set = b.compare(arith::CmpIPredicate::ne, masked, b.i64(0));
          Value clear = arith::XOrIOp::create(b, set, b.integer(b.getI1Type(), 1));
          Value rests = arith::AndIOp::create(b, carrying, clear);
          Value joined = combine(b, counter[j], carry, sum);
          counter[j] = b.select(rests, carry, counter[j]);
          carrying = arith::AndIOp::create(b, carrying, set);
          carry = b.select(carrying, joined, carry);
        }
        counter.back() = b.select(carrying, carry, counter.back());
        return success();
      });
  if (failed(done))
    return {};
  return {at(level).convertReal(partial.back(), stored), level};
}

} // namespace ztc::codegen
