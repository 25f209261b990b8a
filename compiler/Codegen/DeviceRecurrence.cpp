// What chunks of linear attention are made of, on a GPU: states from chunk to chunk, inverses of a chunk's matrices.
// See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/DeviceGroupedGemm.h"
#include "runtime/Format/RecurrenceKernels.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// The scalars of both kernels of states, in this order; those of sums end with Reverse.
enum StateScalar : unsigned {
  Chunks,
  States,
  Keys,
  Columns,
  PartWidth,
  DecayStride,
  DecaySize,
  HasPast,
  Reverse,
  HasPlus,
  Positions
};

/// What both ways through the chunks share.
class StateChunks {
public:
  StateChunks(BlockKernel &kernel, Value decay, Value plus) : k(kernel), b(kernel.b), decay_(decay), plus_(plus) {}

  Value scalar(StateScalar number) { return k.scalar(number); }
  Value isSet(StateScalar number) { return b.compare(arith::CmpIPredicate::ne, scalar(number), b.i64(0)); }
  /// The row of an operand that has state `state` before the chunk that comes in place `turn`.
  Value rowOf(Value turn, Value state) {
    Value fromEnd = b.sub(b.sub(scalar(Chunks), b.i64(1)), turn);
    return b.add(b.mul(b.select(isSet(Reverse), fromEnd, turn), scalar(States)), state);
  }
  Value at(Value base, Value index) { return b.address(base, f32_, index); }
  Value load(Value base, Value index) { return b.load(at(base, index), f32_, 1); }
  void store(Value value, Value base, Value index) { b.store(value, at(base, index)); }
  Value zero() { return b.real(f32_, 0.0); }

  /// decay s + plus of element (key, column) of row `row`; `index` is the element's place in the states.
  Value next(Value s, Value row, Value key, Value column, Value index, bool alwaysAdds) {
    Value decayed = k.choose(
        isSet(DecaySize),
        [&] {
          Value part = arith::DivUIOp::create(b, column, scalar(PartWidth));
          Value place = b.add(b.add(b.mul(row, scalar(DecaySize)), b.mul(key, scalar(DecayStride))), part);
          return b.mul(s, load(decay_, place));
        },
        [&] { return s; });
    if (alwaysAdds)
      return b.add(decayed, load(plus_, index));
    return k.choose(isSet(HasPlus), [&] { return b.add(decayed, load(plus_, index)); }, [&] { return decayed; });
  }

private:
  BlockKernel &k;
  KernelBuilder &b;
  Value decay_, plus_;
  Type f32_ = b.getF32Type();
};

/// A thread has an element of a state. Buffers: plus, decay, past, before, last. The extent are elements of all states.
void emitStateSums(BlockKernel &k) {
  KernelBuilder &b = k.b;
  StateChunks chunks(k, k.buffer(1), k.buffer(0));
  Value past = k.buffer(2), before = k.buffer(3), last = k.buffer(4);
  Value element = b.add(b.mul(k.block(), b.i64(k.threads())), k.thread());
  k.ifThen(b.compare(arith::CmpIPredicate::slt, element, k.extent()), [&] {
    Value columns = chunks.scalar(Columns), size = b.mul(chunks.scalar(Keys), columns);
    Value state = arith::DivUIOp::create(b, element, size), within = arith::RemUIOp::create(b, element, size);
    Value key = arith::DivUIOp::create(b, within, columns), column = arith::RemUIOp::create(b, within, columns);
    Value first =
        k.choose(chunks.isSet(HasPast), [&] { return chunks.load(past, element); }, [&] { return chunks.zero(); });
    BlockKernel::Values carried =
        k.forRange(b.i64(0), chunks.scalar(Chunks), 1, {first}, [&](Value turn, BlockKernel::Values &values) {
          Value row = chunks.rowOf(turn, state), index = b.add(b.mul(row, size), within);
          chunks.store(values[0], before, index);
          values[0] = chunks.next(values[0], row, key, column, index, /*alwaysAdds=*/true);
        });
    chunks.store(carried[0], last, element);
  });
}

/// A block has kStateColumns columns of a state. They lie where the results are: what a thread has written, the block's
/// others read after a barrier. Buffers: to, from, update, plus, decay, past, before, last, x.
class StateProducts {
public:
  explicit StateProducts(BlockKernel &kernel) : k(kernel), b(kernel.b), chunks(k, k.buffer(4), k.buffer(3)) {
    K = chunks.scalar(Keys), V = chunks.scalar(Columns), C = chunks.scalar(Positions);
    state = arith::RemUIOp::create(b, k.block(), chunks.scalar(States));
    column = b.mul(arith::DivUIOp::create(b, k.block(), chunks.scalar(States)), b.i64(kSide));
    columnsLeft = b.sub(V, column);
  }

  void emit() {
    Value past = k.buffer(5), states = k.buffer(6), last = k.buffer(7);
    Value first = b.add(b.mul(chunks.rowOf(b.i64(0), state), b.mul(K, V)), column);
    forElements(K, [&](Value line, Value along) {
      Value within = b.add(b.mul(line, V), along);
      Value place = b.add(b.add(b.mul(b.mul(state, K), V), column), within);
      Value begin =
          k.choose(chunks.isSet(HasPast), [&] { return chunks.load(past, place); }, [&] { return chunks.zero(); });
      chunks.store(begin, states, b.add(first, within));
    });
    k.barrier();
    k.forRange(b.i64(0), chunks.scalar(Chunks), 1, [&](Value turn) {
      Value row = chunks.rowOf(turn, state), now = element(states, row, K, V);
      Value isLast = b.compare(arith::CmpIPredicate::eq, b.add(turn, b.i64(1)), chunks.scalar(Chunks));
      Value next = b.select(isLast, element(last, state, K, V),
                            element(states, chunks.rowOf(b.add(turn, b.i64(1)), state), K, V));
      Value x = element(k.buffer(8), row, C, V), update = element(k.buffer(2), row, C, V);
      forElements(K, [&](Value line, Value along) {
        Value within = b.add(b.mul(line, V), along);
        Value index = b.add(b.add(b.mul(b.mul(row, K), V), column), within);
        Value s = chunks.load(now, within);
        chunks.store(chunks.next(s, row, line, b.add(column, along), index, /*alwaysAdds=*/false), next, within);
      });
      forElements(C, [&](Value line, Value along) {
        Value within = b.add(b.mul(line, V), along);
        chunks.store(chunks.load(update, within), x, within);
      });
      k.barrier();
      Value from = start(k.buffer(1), row), to = start(k.buffer(0), row);
      forTiles(C, [&](Value line, Value left) {
        multiply({chunks.at(from, b.mul(line, K)), K, left, narrow(K), false}, now, K, x, line);
      });
      k.barrier();
      forTiles(K, [&](Value line, Value left) {
        multiply({chunks.at(to, line), K, left, narrow(C), true}, x, C, next, line);
      });
      k.barrier();
    });
  }

private:
  static constexpr int64_t kSide = int64_t(kStateColumns);

  Value narrow(Value number) { return arith::TruncIOp::create(b, b.getI32Type(), number); }
  /// The block's first element of row `row` of an operand whose rows are (lines, V).
  Value element(Value base, Value row, Value lines, Value width) {
    return chunks.at(base, b.add(b.mul(b.mul(row, lines), width), column));
  }
  /// The first element of row `row` of (positions, keys).
  Value start(Value base, Value row) { return chunks.at(base, b.mul(b.mul(row, C), K)); }

  /// The block's columns of `lines` lines, a thread's neighbour beside it.
  void forElements(Value lines, llvm::function_ref<void(Value, Value)> body) {
    k.forRange(k.thread(), b.mul(lines, b.i64(kSide)), k.threads(), [&](Value number) {
      Value line = arith::DivUIOp::create(b, number, b.i64(kSide)),
            along = arith::RemUIOp::create(b, number, b.i64(kSide));
      k.ifThen(b.compare(arith::CmpIPredicate::slt, along, columnsLeft), [&] { body(line, along); });
    });
  }

  void forTiles(Value lines, llvm::function_ref<void(Value, Value)> body) {
    k.forRange(b.i64(0), lines, kSide, [&](Value line) { body(line, narrow(b.sub(lines, line))); });
  }

  /// Lines from `line` on of c (.., V) += a times `lines` lines of b (lines, V).
  void multiply(const GroupedFactor &a, Value right, Value lines, Value c, Value line) {
    GroupedTile tile;
    tile.a = a;
    tile.b = {right, V, narrow(columnsLeft), narrow(lines), true};
    tile.c = chunks.at(c, b.mul(line, V));
    tile.stride = V;
    tile.rowsLeft = a.outerLeft;
    tile.columnsLeft = narrow(columnsLeft);
    tile.inner = narrow(lines);
    tile.adds = b.integer(b.getI1Type(), 1);
    emitFmaTile(k, tile);
  }

  BlockKernel &k;
  KernelBuilder &b;
  StateChunks chunks;
  Value K, V, C, state, column, columnsLeft;
};

/// A thread has a column of the inverse: rows from above. Buffers: a, y. Scalars: rows of a matrix. The extent are
/// matrices.
void emitUnitLowerInverse(BlockKernel &k) {
  KernelBuilder &b = k.b;
  constexpr int64_t kSide = int64_t(kMaxUnitLowerRows);
  Type f32 = b.getF32Type();
  Value n = k.scalar(0), size = b.mul(n, n), first = b.mul(k.block(), size);
  Value a = k.shared(kSide * kSide * 4), y = k.shared(kSide * kSide * 4);
  k.forRange(k.thread(), size, k.threads(), [&](Value number) {
    b.store(b.load(b.address(k.buffer(0), f32, b.add(first, number)), f32, 1), b.address(a, f32, number));
  });
  k.barrier();
  Value column = k.thread();
  k.ifThen(b.compare(arith::CmpIPredicate::slt, column, n), [&] {
    k.forRange(b.i64(0), n, 1, [&](Value row) {
      Value isDiagonal = b.compare(arith::CmpIPredicate::eq, row, column);
      Value begin = b.select(isDiagonal, b.real(f32, 1.0), b.real(f32, 0.0));
      // Of rows above the column's the inverse has zeros.
      BlockKernel::Values sum = k.forRange(column, row, 1, {begin}, [&](Value other, BlockKernel::Values &carried) {
        Value factor = b.load(b.address(a, f32, b.add(b.mul(row, n), other)), f32, 1);
        Value term = b.load(b.address(y, f32, b.add(b.mul(other, n), column)), f32, 1);
        carried[0] = b.sub(carried[0], b.mul(factor, term));
      });
      Value place = b.add(b.mul(row, n), column);
      b.store(sum[0], b.address(y, f32, place));
      b.store(sum[0], b.address(k.buffer(1), f32, b.add(first, place)));
    });
  });
}

} // namespace

KernelDescription KernelModule::addGpuStatePassing(bool hasProducts) {
  if (!hasProducts)
    return deviceService(*state_, "gpu_state_passing_sums", {false, false, false, true, true}, HasPlus, 256, 256,
                         emitStateSums);
  return deviceService(*state_, "gpu_state_passing_products",
                       {false, false, false, false, false, false, true, true, true}, Positions + 1, kGroupedFmaThreads,
                       1, [](BlockKernel &k) { StateProducts(k).emit(); });
}

KernelDescription KernelModule::addGpuUnitLowerInverse() {
  return deviceService(*state_, "gpu_unit_lower_inverse", {false, true}, 1, int64_t(kMaxUnitLowerRows), 1,
                       emitUnitLowerInverse);
}

} // namespace ztc
