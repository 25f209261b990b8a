// Products of a group's rows in bf16 and f16 by the matrix instruction mma.m16n8k16, whose sums are f32. A block has a
// tile of 128 x 128, each of its four warps 64 x 64 of it in registers. Of both factors 32 of the inner dimension at a
// time lie in shared memory, which has room for three of these stages: while one is multiplied the next two are on
// their way (cp.async), and each stage costs one barrier.
//
// A stage of a factor keeps the order of memory: 128 rows of 32 elements where the inner dimension is contiguous there,
// 32 rows of 128 where the outer one is ("crossed"), which ldmatrix transposes. Pieces of 16 bytes are permuted within
// a row, so that the eight rows that ldmatrix takes a piece of, and the pieces that eight threads write, meet all
// banks.
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/DeviceGroupedGemm.h"
#include "compiler/Codegen/MatrixInstructions.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "runtime/Format/ExpertKernels.h"
#include <array>

using namespace mlir;

namespace ztc::codegen {

namespace {

constexpr int64_t kSide = groupedTile(/*isNarrow=*/true), kStageDepth = 32, kStages = 3, kMmaDepth = 16;
/// Of a warp: rows and columns; fragments of 16 of them.
constexpr int64_t kWarpSide = 64, kFragments = kWarpSide / 16;
/// Elements of a piece of 16 bytes; pieces that a thread copies of a stage of a factor, and how far apart they lie.
constexpr int64_t kPiece = 8, kCopies = kSide * kStageDepth / kPiece / kGroupedMmaThreads;
constexpr int64_t kFactorBytes = kSide * kStageDepth * 2, kStageBytes = 2 * kFactorBytes;

class GroupedMma {
public:
  GroupedMma(BlockKernel &kernel, const GroupedGemmForm &form, const GroupedTile &tile)
      : k(kernel), b(kernel.b), form_(form), tile_(tile), element_(b.element(form.type)),
        result_(b.element(form.result)) {
    shared_ = k.shared(kStages * kStageBytes);
    thread_ = arith::TruncIOp::create(b, i32_, k.thread());
    lane_ = both(thread_, kWarp - 1);
    warpRow_ = b.mul(both(shifted(thread_, 5), 1), i32(kWarpSide));
    warpColumn_ = b.mul(shifted(thread_, 6), i32(kWarpSide));
    copies_ = {Copies(*this, tile.a, 0), Copies(*this, tile.b, kFactorBytes)};
    lefts_ = fragmentsOf(tile.a, warpRow_, 0, /*isLeft=*/true);
    rights_ = fragmentsOf(tile.b, warpColumn_, kFactorBytes, /*isLeft=*/false);
  }

  void emit() {
    for (int64_t stage = 0; stage + 1 < kStages; ++stage)
      copyStage(i32(stage * kStageDepth), i32(stage * kStageBytes));
    BlockKernel::Values carried(kSums, b.real(b.getF32Type(), 0.0));
    carried.append({i32(0), i32((kStages - 1) * kStageBytes)});
    carried = k.forRange(i32(0), tile_.inner, kStageDepth, carried, [&](Value inner, BlockKernel::Values &values) {
      Value &read = values[kSums], &write = values[kSums + 1];
      waitForStage();
      k.barrier(); // of all threads, who have also done with the stage that is written now
      copyStage(b.add(inner, i32((kStages - 1) * kStageDepth)), write);
      for (int64_t step = 0; step < kStageDepth / kMmaDepth; ++step)
        multiplyStep(read, step, MutableArrayRef<Value>(values).take_front(kSums));
      read = nextStage(read);
      write = nextStage(write);
    });
    MutableArrayRef<Value> sums = MutableArrayRef<Value>(carried).take_front(kSums);
    if (!form_.isWhole)
      storeNumbers(sums);
    else if (result_.isF32())
      storeQuarters(sums);
    else if (!tile_.adds)
      storePieces(sums);
    else
      storeOrAdd(sums);
  }

private:
  static constexpr int64_t kSums = kFragments * kFragments * 8; ///< of a thread

  Value i32(int64_t value) { return b.integer(i32_, value); }
  Value wide(Value number) { return arith::ExtUIOp::create(b, b.getI64Type(), number); }
  Value both(Value x, int64_t bits) { return arith::AndIOp::create(b, x, i32(bits)); }
  Value either(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
  Value shifted(Value x, int64_t bits) { return arith::ShRUIOp::create(b, x, i32(bits)); }
  Value less(Value x, Value y) { return b.compare(arith::CmpIPredicate::slt, x, y); }
  Value sharedAt(Value offset) { return b.address(shared_, b.getI8Type(), offset); }

  /// What a thread copies of a factor: kCopies pieces of 16 bytes of every stage, each so many rows below the one
  /// before.
  struct Copies {
    Copies() = default;
    Copies(GroupedMma &of, const GroupedFactor &factor, int64_t first) {
      KernelBuilder &b = of.b;
      const int64_t across = (factor.isCrossed ? kSide : kStageDepth) / kPiece; // threads of a row
      apart = kGroupedMmaThreads / across;
      row = of.shifted(of.thread_, llvm::Log2_64(across));
      Value piece = of.both(of.thread_, across - 1);
      column = b.mul(piece, of.i32(kPiece));
      Value swap = factor.isCrossed ? of.both(row, 7) : of.both(of.shifted(row, 1), 3);
      offset = b.add(b.add(b.mul(row, of.i32(across * kPiece * 2)), b.mul(of.either(piece, swap), of.i32(kPiece * 2))),
                     of.i32(first));
      start = b.address(factor.start, of.element_, b.add(b.mul(of.wide(row), factor.stride), of.wide(column)));
      step = b.mul(factor.stride, b.i64(apart));
      this->factor = &factor;
    }
    const GroupedFactor *factor = nullptr;
    int64_t apart = 0; ///< rows between two pieces
    Value row, column; ///< i32, of the first piece
    Value offset;      ///< i32: its bytes in a stage
    Value start;       ///< its element of the first stage
    Value step;        ///< i64: elements between two pieces in memory
  };

  /// The stage whose inner dimension begins at `inner`, into shared memory at `stage`.
  void copyStage(Value inner, Value stage) {
    for (const Copies &copies : copies_)
      copy(copies, inner, stage);
    if (form_.isWhole)
      NVVM::CpAsyncCommitGroupOp::create(b);
  }

  void copy(const Copies &copies, Value inner, Value stage) {
    const GroupedFactor &factor = *copies.factor;
    // Rows that there are below the first piece's, none where its columns are none.
    Value rowsLeft = factor.isCrossed ? b.sub(factor.innerLeft, inner) : factor.outerLeft;
    Value columnsLeft = factor.isCrossed ? factor.outerLeft : b.sub(factor.innerLeft, inner);
    rowsLeft = b.sub(rowsLeft, copies.row);
    columnsLeft = b.sub(columnsLeft, copies.column);
    Value along = factor.isCrossed ? b.mul(wide(inner), factor.stride) : wide(inner);
    Value from = b.address(copies.start, element_, along), to = sharedAt(b.add(stage, copies.offset));
    if (form_.isWhole) {
      rowsLeft = b.select(less(i32(0), columnsLeft), rowsLeft, i32(0));
      for (int64_t i = 0; i < kCopies; ++i) {
        Value exists = less(i32(i * copies.apart), rowsLeft);
        NVVM::CpAsyncOp::create(b, b.address(to, b.getI8Type(), i32(i * kGroupedMmaThreads * kPiece * 2)),
                                b.address(from, element_, b.mul(copies.step, b.i64(i))), kPiece * 2,
                                NVVM::LoadCacheModifierKind::CG, b.select(exists, i32(kPiece * 2), i32(0)));
      }
      return;
    }
    k.forRangeRolled(i32(0), i32(kCopies), 1, {from}, [&](Value turn, BlockKernel::Values &carried) {
      Value exists = less(b.mul(turn, i32(copies.apart)), rowsLeft);
      Value left = b.select(exists, columnsLeft, i32(0)),
            bits = b.integer(VectorType::get({kPiece}, b.getI16Type()), 0);
      for (int64_t i = 0; i < kPiece; ++i) {
        Value number = k.choose(
            less(i32(i), left),
            [&] { return b.load(b.address(carried[0], b.getI16Type(), i32(i)), b.getI16Type(), 1); },
            [&] { return b.integer(b.getI16Type(), 0); });
        bits = LLVM::InsertElementOp::create(b, bits, number, i32(i));
      }
      b.store(bits, b.address(to, b.getI8Type(), b.mul(turn, i32(kGroupedMmaThreads * kPiece * 2))), kPiece * 2);
      carried[0] = b.address(carried[0], element_, copies.step);
    });
  }

  /// The first of the stages on their way is there: for this thread's copies.
  void waitForStage() {
    if (form_.isWhole)
      NVVM::CpAsyncWaitGroupOp::create(b, kStages - 2);
  }

  Value nextStage(Value stage) {
    Value next = b.add(stage, i32(kStageBytes));
    return b.select(b.compare(arith::CmpIPredicate::eq, next, i32(kStages * kStageBytes)), i32(0), next);
  }

  /// Where this lane points to have fragments of 16 (outer) x 16 (inner) loaded, in bytes of a stage.
  struct FragmentPlaces {
    bool isCrossed = false;
    /// Of each step where the inner dimension is contiguous, of each fragment where the outer one is.
    SmallVector<Value> offsets;
    int64_t fragmentBytes = 0, stepBytes = 0; ///< what is to be added for the other one

    /// From `shared` on; what is the same in all lanes is added last, which takes no instruction.
    Value at(KernelBuilder &b, Value shared, Value stage, int64_t fragment, int64_t step) const {
      Value own = b.address(shared, b.getI8Type(), b.add(stage, offsets[isCrossed ? fragment : step]));
      int64_t more = isCrossed ? step * stepBytes : fragment * fragmentBytes;
      return b.address(own, b.getI8Type(), b.integer(b.getI32Type(), more));
    }
  };
  /// The matrices of 8 x 8 that a left factor's registers want are below each other first, those of a right one beside
  /// each other: lanes 8 to 15 point at the second.
  FragmentPlaces fragmentsOf(const GroupedFactor &factor, Value warp, int64_t first, bool isLeft) {
    Value own = both(lane_, 7), second = both(shifted(lane_, 3), 1), third = shifted(lane_, 4);
    Value outer = isLeft ? second : third, inner = isLeft ? third : second;
    FragmentPlaces places{factor.isCrossed, {}, 16 * kStageDepth * 2, kMmaDepth * kSide * 2};
    if (factor.isCrossed) {
      Value row = b.add(own, b.mul(inner, i32(8)));
      for (int64_t fragment = 0; fragment < kFragments; ++fragment) {
        Value piece = b.add(shifted(warp, 3), either(b.add(outer, i32(2 * fragment)), own));
        places.offsets.push_back(b.add(b.add(b.mul(row, i32(kSide * 2)), b.mul(piece, i32(kPiece * 2))), i32(first)));
      }
    } else {
      Value row = b.add(b.add(warp, own), b.mul(outer, i32(8)));
      for (int64_t step = 0; step < kStageDepth / kMmaDepth; ++step) {
        Value piece = either(b.add(inner, i32(2 * step)), shifted(own, 1));
        places.offsets.push_back(
            b.add(b.add(b.mul(row, i32(kStageDepth * 2)), b.mul(piece, i32(kPiece * 2))), i32(first)));
      }
    }
    return places;
  }

  std::array<Value, 4> loadFragment(const FragmentPlaces &places, Value stage, int64_t fragment, int64_t step) {
    return loadMatrices(b, places.at(b, shared_, stage, fragment, step), places.isCrossed);
  }

  void multiplyStep(Value stage, int64_t step, MutableArrayRef<Value> sums) {
    std::array<std::array<Value, 4>, kFragments> lefts, rights;
    for (int64_t i = 0; i < kFragments; ++i) {
      lefts[i] = loadFragment(lefts_, stage, i, step);
      rights[i] = loadFragment(rights_, stage, i, step);
    }
    for (int64_t row = 0; row < kFragments; ++row)
      for (int64_t column = 0; column < 2 * kFragments; ++column) {
        const std::array<Value, 4> &right = rights[column / 2];
        multiplyMatrices(b, element_, sums.slice((row * 2 * kFragments + column) * 4, 4), lefts[row],
                         right[column % 2 * 2], right[column % 2 * 2 + 1]);
      }
  }

  /// Rows of a warp's sums that a lane has numbers of: in halves of fragments. `body` gets the row of the tile, the
  /// index of its first two sums and how far the next column's are (8 columns further, 4 sums).
  void forRows(llvm::function_ref<void(Value row, int64_t first)> body) {
    Value own = b.add(warpRow_, shifted(lane_, 2));
    for (int64_t fragment = 0; fragment < kFragments; ++fragment)
      for (int64_t half = 0; half < 2; ++half)
        body(b.add(own, i32(fragment * 16 + half * 8)), fragment * 2 * kFragments * 4 + half * 2);
  }
  Value resultAt(Value row, Value column) {
    return b.address(tile_.c, result_, b.add(b.mul(wide(row), tile_.stride), wide(column)));
  }
  Value isInside(Value row, Value column) {
    return arith::AndIOp::create(b, less(row, tile_.rowsLeft), less(column, tile_.columnsLeft));
  }
  /// A vector of `values`.
  Value vectorOf(ArrayRef<Value> values) {
    Value vector = LLVM::PoisonOp::create(b, VectorType::get({int64_t(values.size())}, values[0].getType()));
    for (auto [index, value] : llvm::enumerate(values))
      vector = LLVM::InsertElementOp::create(b, vector, value, i32(index));
    return vector;
  }
  /// Lanes whose numbers differ in `bit` swap the second of a pair for the other's first: each then has two neighbours
  /// of one column of fragments, the lane with the bit of the second.
  void swap(Value &first, Value &second, int64_t bit) {
    Value isSecond = b.compare(arith::CmpIPredicate::ne, both(lane_, bit), i32(0));
    Value given = b.exchange(b.select(isSecond, first, second), bit);
    Value kept = b.select(isSecond, second, first);
    first = b.select(isSecond, given, kept);
    second = b.select(isSecond, kept, given);
  }

  /// Of four lanes, which have a number of each of four columns of fragments: then each has all four of one column.
  void swapFour(std::array<Value, 4> &numbers) {
    swap(numbers[0], numbers[1], 1);
    swap(numbers[2], numbers[3], 1);
    swap(numbers[0], numbers[2], 2);
    swap(numbers[1], numbers[3], 2);
  }

  /// Results of 16 bits: four lanes have a row's 8 columns in pairs, of four columns of fragments; then each has all 8
  /// of one.
  void storePieces(ArrayRef<Value> sums) {
    Value piece = b.add(warpColumn_, b.mul(both(lane_, 3), i32(kPiece)));
    forRows([&](Value row, int64_t first) {
      for (int64_t group = 0; group < 2 * kFragments; group += 4) {
        std::array<Value, 4> pairs;
        for (int64_t i = 0; i < 4; ++i)
          pairs[i] = packPair(b, result_, sums[first + (group + i) * 4], sums[first + (group + i) * 4 + 1]);
        swapFour(pairs);
        Value column = b.add(piece, i32(group * 8));
        k.ifThen(isInside(row, column), [&] { b.store(vectorOf(pairs), resultAt(row, column), kPiece * 2); });
      }
    });
  }

  /// Results of 16 bits to which something may be added before they are rounded: gradients of weights are f32 where
  /// micro-steps add up, so that this is seldom.
  void storeOrAdd(ArrayRef<Value> sums) {
    Value isNew = b.compare(arith::CmpIPredicate::eq, tile_.adds, b.integer(b.getI1Type(), 0));
    k.ifThen(isNew, [&] { storePieces(sums); });
    k.ifThen(tile_.adds, [&] { addPieces(sums); });
  }

  /// As storePieces(), of sums that are not rounded yet.
  void addPieces(ArrayRef<Value> sums) {
    Value piece = b.add(warpColumn_, b.mul(both(lane_, 3), i32(kPiece)));
    forRows([&](Value row, int64_t first) {
      for (int64_t group = 0; group < 2 * kFragments; group += 4) {
        std::array<std::array<Value, 4>, 2> halves; // of pairs
        for (auto [half, numbers] : llvm::enumerate(halves)) {
          for (int64_t i = 0; i < 4; ++i)
            numbers[i] = sums[first + (group + i) * 4 + int64_t(half)];
          swapFour(numbers);
        }
        SmallVector<Value> inOrder;
        for (auto [even, odd] : llvm::zip(halves[0], halves[1]))
          inOrder.append({even, odd});
        Value column = b.add(piece, i32(group * 8)), sum = vectorOf(inOrder);
        k.ifThen(isInside(row, column), [&] { storeSum(sum, resultAt(row, column), kPiece * 2); });
      }
    });
  }

  /// Results of f32: two lanes have 4 columns in pairs, of two columns of fragments; then each has all 4 of one.
  void storeQuarters(ArrayRef<Value> sums) {
    Value quarter = b.add(b.add(warpColumn_, b.mul(both(lane_, 1), i32(8))), b.mul(both(lane_, 2), i32(2)));
    forRows([&](Value row, int64_t first) {
      for (int64_t group = 0; group < 2 * kFragments; group += 2) {
        std::array<Value, 4> numbers;
        for (int64_t i = 0; i < 4; ++i)
          numbers[i] = sums[first + (group + i / 2) * 4 + i % 2];
        swap(numbers[0], numbers[2], 1);
        swap(numbers[1], numbers[3], 1);
        Value column = b.add(quarter, i32(group * 8)), sum = vectorOf(numbers);
        k.ifThen(isInside(row, column), [&] { storeSum(sum, resultAt(row, column), kVectorBytes); });
      }
    });
  }

  /// One by one: a row may begin anywhere.
  void storeNumbers(ArrayRef<Value> sums) {
    Value pair = b.add(warpColumn_, b.mul(both(lane_, 3), i32(2)));
    forRows([&](Value row, int64_t first) {
      for (int64_t i = 0; i < 4 * kFragments; ++i) {
        Value column = b.add(pair, i32(i / 2 * 8 + i % 2)), sum = sums[first + i / 2 * 4 + i % 2];
        k.ifThen(isInside(row, column), [&] { storeSum(sum, resultAt(row, column), storedBytes(result_)); });
      }
    });
  }

  /// Rounded once, with what is added.
  void storeSum(Value sum, Value to, int64_t alignment) {
    if (tile_.adds) {
      auto more = [&] { return b.add(b.load(to, result_, lanesOf(sum.getType()), alignment), sum); };
      sum = k.choose(tile_.adds, more, [&] { return sum; });
    }
    b.store(b.convertReal(sum, result_), to, result_, alignment);
  }

  BlockKernel &k;
  KernelBuilder &b;
  const GroupedGemmForm &form_;
  const GroupedTile &tile_;
  const Type element_, result_;
  Type i32_ = b.getI32Type();
  Value shared_, thread_, lane_, warpRow_, warpColumn_;
  std::array<Copies, 2> copies_;
  FragmentPlaces lefts_, rights_;
};

} // namespace

void emitGroupedMma(BlockKernel &kernel, const GroupedGemmForm &form) {
  emitGroupedTile(kernel, form, kSide, [&](const GroupedTile &tile) { GroupedMma(kernel, form, tile).emit(); });
}

} // namespace ztc::codegen
