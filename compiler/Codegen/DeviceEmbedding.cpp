// Rows of a table by index on a GPU: the embedding and its gradient. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/DeviceRows.h"
#include <numeric>

using namespace mlir;

namespace ztc {
using namespace codegen;

std::pair<Value, Value> codegen::loadIndex(BlockKernel &k, Value indices, Value position, Value rows) {
  KernelBuilder &b = k.b;
  Value narrow = b.load(b.address(indices, b.getI32Type(), position), b.getI32Type(), 1);
  Value index = arith::ExtUIOp::create(b, b.getI64Type(), narrow);
  return {index, b.compare(arith::CmpIPredicate::ult, index, rows)};
}

// Any thread may write the word, and the host reads it: in one piece, the last one stays.
void codegen::noteFault(BlockKernel &k, Value fault, Value position, Value index) {
  KernelBuilder &b = k.b;
  Value high = arith::ShLIOp::create(b, b.add(position, b.i64(1)), b.i64(32));
  LLVM::StoreOp::create(b, arith::OrIOp::create(b, high, index), fault, /*alignment=*/8, /*isVolatile=*/false,
                        /*isNonTemporal=*/false, /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic);
}

// A warp copies a row, 16 bytes a lane where rows are multiples of that.
KernelDescription KernelModule::addGpuGather(int64_t rowBytes, bool divided) {
  constexpr int64_t threads = 128, warps = threads / kWarp;
  int64_t bytes = std::gcd(rowBytes, kVectorBytes);
  std::string name = (divided ? "gpu_gather_divided_" : "gpu_gather_") + std::to_string(bytes);
  return deviceService(*state_, name, {false, false, true, true}, divided ? 3 : 2, threads, warps, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Type element = b.getIntegerType(std::min<int64_t>(bytes, 4) * 8);
    int64_t lanes = std::max<int64_t>(bytes / 4, 1);
    Value table = k.buffer(0), indices = k.buffer(1), result = k.buffer(2), fault = k.buffer(3);
    Value pieces = k.scalar(0), rows = k.scalar(1), thread = k.thread();
    Value lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1));
    Value row = b.add(b.mul(k.block(), b.i64(warps)), arith::ShRUIOp::create(b, thread, b.i64(5)));
    k.ifThen(b.compare(arith::CmpIPredicate::slt, row, k.extent()), [&] {
      auto [index, good] = loadIndex(k, indices, row, rows);
      Value own = index;
      if (divided) { // of 32 bits: a warp's one division
        Type i32 = b.getI32Type();
        own = arith::ExtUIOp::create(b, b.getI64Type(),
                                     arith::DivUIOp::create(b, arith::TruncIOp::create(b, i32, index),
                                                            arith::TruncIOp::create(b, i32, k.scalar(2))));
        good = b.compare(arith::CmpIPredicate::ult, own, rows);
      }
      Value from = b.mul(own, pieces), to = b.mul(row, pieces), end = b.select(good, pieces, b.i64(0));
      k.forRange(lane, end, kWarp, [&](Value piece) {
        auto at = [&](Value base, Value first) {
          return b.address(base, element, b.mul(b.add(first, piece), b.i64(lanes)));
        };
        b.store(b.load(at(table, from), element, lanes, bytes), at(result, to), bytes);
      });
      Value isWrong = b.compare(arith::CmpIPredicate::uge, own, rows);
      k.ifThen(isWrong, [&] { noteFault(k, fault, row, index); });
    });
  });
}

// A block per position. The block of the first position with an index adds that row and all later ones with the same
// index, in order; the others have nothing to do. Which positions those are, a block finds out a window at a time, of
// which a thread looks at 8 positions: every block looks at all of them.
KernelDescription KernelModule::addGpuScatterAdd(int64_t width, Type dyType) {
  constexpr int64_t threads = 128, warps = threads / kWarp, window = 8 * threads;
  int64_t bytes = storedBytes(dyType), lanes = std::gcd(width, kVectorBytes / bytes);
  std::string name = ("gpu_scatter_add" + typeSuffix(dyType) + "_" + Twine(lanes)).str();
  return deviceService(*state_, name, {false, false, true, true}, 2, threads, 1, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Type i32 = b.getI32Type(), f32 = b.getF32Type(), element = b.element(dyType);
    Value indices = k.buffer(0), dy = k.buffer(1), dtable = k.buffer(2), fault = k.buffer(3);
    Value columns = k.scalar(0), rows = k.scalar(1), position = k.block(), thread = k.thread(), words = k.shared(16);
    Value lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1)), warp = arith::ShRUIOp::create(b, thread, b.i64(5));
    auto [index, good] = loadIndex(k, indices, position, rows);
    /// One bit per thread whose condition holds, in one word per warp.
    auto collect = [&](Value condition) {
      Value word = k.ballot(condition);
      k.ifThen(b.compare(arith::CmpIPredicate::eq, lane, b.i64(0)),
               [&] { b.store(word, b.address(words, i32, warp)); });
      k.barrier();
      BlockKernel::Values all;
      for (int64_t i = 0; i < warps; ++i)
        all.push_back(b.load(b.address(words, i32, b.i64(i)), i32, 1));
      return all;
    };
    /// Whether this thread's position of those from `first` on, below `end`, has the block's index.
    auto isSame = [&](Value first, Value end) -> Value {
      Value own = b.add(first, thread);
      Value other = loadIndex(k, indices, b.minimum(own, b.sub(end, b.i64(1))), rows).first;
      return arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::slt, own, end),
                                   b.compare(arith::CmpIPredicate::eq, other, index));
    };
    /// Whether one of this thread's positions of the window that begins at `first` has it.
    auto isSameInWindow = [&](Value first, Value end) {
      Value any = isSame(first, end);
      for (int64_t turn = threads; turn < window; turn += threads)
        any = arith::OrIOp::create(b, any, isSame(b.add(first, b.i64(turn)), end));
      return any;
    };
    auto anyOf = [&](Value condition) -> Value {
      Value any = b.integer(i32, 0);
      for (Value word : collect(condition))
        any = arith::OrIOp::create(b, any, word);
      k.barrier(); // the words are free again
      return b.compare(arith::CmpIPredicate::ne, any, b.integer(i32, 0));
    };
    Value no = b.integer(b.getI1Type(), 0);
    Value isLater = anyOf(k.forRange(b.i64(0), position, window, {no}, [&](Value first, BlockKernel::Values &carried) {
      carried[0] = arith::OrIOp::create(b, carried[0], isSameInWindow(first, position));
    })[0]);
    k.ifThen(arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::uge, index, rows),
                                   b.compare(arith::CmpIPredicate::eq, thread, b.i64(0))),
             [&] { noteFault(k, fault, position, index); });
    Value isFirst = arith::XOrIOp::create(b, isLater, b.integer(b.getI1Type(), 1));
    k.ifThen(arith::AndIOp::create(b, good, isFirst), [&] {
      Value row = b.mul(index, columns);
      auto addRow = [&](Value from) {
        Value source = b.mul(from, columns);
        k.forRange(b.mul(thread, b.i64(lanes)), columns, threads * lanes, [&](Value column) {
          int64_t alignment = std::min<int64_t>(lanes * 4, kVectorBytes);
          Value to = b.address(dtable, f32, b.add(row, column));
          Value value = b.load(b.address(dy, element, b.add(source, column)), element, lanes, lanes * bytes);
          b.store(b.add(b.load(to, f32, lanes, alignment), value), to, alignment);
        });
      };
      auto addRowsFrom = [&](Value first) {
        for (auto [number, word] : llvm::enumerate(collect(isSame(first, k.extent()))))
          k.ifThen(b.compare(arith::CmpIPredicate::ne, word, b.integer(i32, 0)), [&, word = word, number = number] {
            k.forRange(b.i64(0), b.i64(kWarp), 1, [&](Value bit) {
              Value shifted = arith::ShRUIOp::create(b, word, arith::TruncIOp::create(b, i32, bit));
              k.ifThen(arith::TruncIOp::create(b, b.getI1Type(), shifted),
                       [&] { addRow(b.add(b.add(first, b.i64(number * kWarp)), bit)); });
            });
          });
        k.barrier(); // the words are free again
      };
      k.forRange(position, k.extent(), window, [&](Value begin) {
        k.ifThen(anyOf(isSameInWindow(begin, k.extent())),
                 [&] { k.forRange(begin, b.minimum(b.add(begin, b.i64(window)), k.extent()), threads, addRowsFrom); });
      });
    });
  });
}

// A thread rounds eight elements. All of a block's threads load before one stores: what one block reads may be where it
// writes.
KernelDescription KernelModule::addGpuNarrow(Type to) {
  constexpr int64_t threads = 256, lanes = 8;
  return deviceService(
      *state_, ("gpu_narrow" + typeSuffix(to)).str(), {false, true}, 0, threads, threads, [&](BlockKernel &k) {
        KernelBuilder &b = k.b;
        Type f32 = b.getF32Type(), element = b.element(to);
        Value unit = b.add(b.mul(k.block(), b.i64(threads)), k.thread()), first = b.mul(unit, b.i64(lanes));
        Value exists = b.compare(arith::CmpIPredicate::slt, unit, k.extent());
        Value value = k.choose(
            exists, [&] { return b.load(b.address(k.buffer(0), f32, first), f32, lanes, kVectorBytes); },
            [&] { return b.real(VectorType::get({lanes}, f32), 0.0); });
        k.barrier();
        k.ifThen(exists, [&] {
          b.store(b.convertReal(value, element), b.address(k.buffer(1), element, first), element, kVectorBytes);
        });
      });
}

} // namespace ztc
