// Attention for GPUs in bf16 and f16 by the matrix instruction mma.m16n8k16, whose sums are f32. Each of a block's four
// warps has 16 of its 64 rows. What stands in registers: a warp's rows of the tensors that stay, as left factors, and
// the sums of its results; scores become left factors of the next product where they are. Tiles of the other tensors
// pass through shared memory, from which ldmatrix takes right factors, straight or transposed.
//
// Lane l of a fragment of sums (16 x 8) has rows l / 4 (numbers 0 and 1) and l / 4 + 8 (2 and 3), columns 2 (l % 4) and
// the next. Two neighbouring ones, rounded and packed, are a left factor (16 x 16).
#include "compiler/Codegen/DeviceAttention.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Codegen/MatrixInstructions.h"
#include <limits>

using namespace mlir;

namespace ztc::codegen {

namespace {

constexpr int64_t kWarpRows = 16, kRows = kWarpRows * AttentionEmitter::kThreads / 32;
/// Bytes of an element; elements of the widest load; a step of a product's inner dimension.
constexpr int64_t kBytes = 2, kWarpVector = 8, kDepth = 16;

class MmaAttention : public AttentionEmitter {
public:
  MmaAttention(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form)
      : AttentionEmitter(kernel, kind, form, kRows),
        // An odd number of 16-byte pieces: the eight rows of a matrix meet different banks.
        pitch_(form.headDim + kWarpVector), steps_(form.headDim / kDepth),
        // The sums of two results leave no registers for the rows that stay.
        inRegisters_(kind != AttentionKernel::KeyGrad || form.headDim <= 96),
        columns_(!inRegisters_                                            ? 16
                 : kind == AttentionKernel::Forward || form.headDim <= 64 ? 64
                                                                          : 32) {
    // Told of two blocks, the assembler takes the third one's registers too. The gradients would spill for it.
    if (kind == AttentionKernel::Forward && form.headDim <= 64)
      k.blocksTogether = 3;
    tile_ = k.shared(2 * columns_ * pitch_ * kBytes);
    lane_ = arith::AndIOp::create(b, thread_, i32(31));
    warpRow_ = b.mul(arith::ShRUIOp::create(b, thread_, i32(5)), i32(kWarpRows));
    Value group = arith::ShRUIOp::create(b, lane_, i32(2));
    pair_ = b.mul(arith::AndIOp::create(b, lane_, i32(3)), i32(2));
    for (int64_t half = 0; half < 2; ++half)
      ownRows_.push_back(b.add(b.add(row_, warpRow_), b.add(group, i32(8 * half))));
    for (Value row : ownRows_)
      edges_.push_back(documentEdge(row));
    // Which row and which half of a row of four matrices this lane points at: matrices side by side first, or one below
    // the other first.
    Value low = arith::AndIOp::create(b, lane_, i32(7)), middle = bit(3), high = bit(4);
    besideFirst_ = position(b.add(low, high), middle);
    belowFirst_ = position(b.add(low, middle), high);
  }

  void emit() {
    if (kind_ == AttentionKernel::Forward)
      return emitForward();
    if (kind_ == AttentionKernel::KeyGrad)
      return emitKeyGrad();
    emitQueryGrad();
  }

private:
  /// Left factors of a warp's rows: four registers a step of 16 elements.
  using Fragments = SmallVector<std::array<Value, 4>>;

  /// 8 where bit `number` (3 or 4) of the lane is set, else 0.
  Value bit(int64_t number) {
    return arith::AndIOp::create(b, arith::ShRUIOp::create(b, lane_, i32(number - 3)), i32(8));
  }
  Value position(Value row, Value column) { return b.add(b.mul(row, i32(pitch_)), column); }

  /// `count` rows of a tensor from `first` on into shared memory, there from row `at` on; zeros past its end.
  void loadTile(const Tensor &tensor, Value first, int64_t count, Value memory, int64_t at) {
    const int64_t perRow = dim_ / kWarpVector, total = count * perRow;
    Value left = b.sub(seq_, first), start = rowOf(tensor, first), stride = rowStride(tensor);
    auto type = VectorType::get({4}, b.getI32Type());
    for (int64_t turn = 0; turn * kThreads < total; ++turn) {
      Value number = b.add(thread_, i32(turn * kThreads));
      Value row = arith::DivUIOp::create(b, number, i32(perRow));
      Value column = b.mul(arith::RemUIOp::create(b, number, i32(perRow)), i32(kWarpVector));
      auto move = [&] {
        Value vector = guarded(less(row, left), b.integer(type, 0), [&] {
          Value from = b.address(b.address(start, element_, b.mul(row, stride)), element_, column);
          return b.load(from, b.getI32Type(), 4, kWarpVector * kBytes);
        });
        b.store(vector, b.address(memory, element_, b.add(position(row, column), i32(at * pitch_))),
                kWarpVector * kBytes);
      };
      if ((turn + 1) * kThreads <= total)
        move();
      else
        k.ifThen(less(number, i32(total)), move);
    }
  }

  Value tileAddress(Value lanes, int64_t row, int64_t step) {
    return b.address(tile_, element_, b.add(lanes, i32(row * pitch_ + step * kDepth)));
  }
  /// Right factors for rows [row, row + 16) of the tile as columns of the product, elements [16 step, ...) of heads.
  std::array<Value, 4> straight(int64_t row, int64_t step) {
    return loadMatrices(b, tileAddress(besideFirst_, row, step), /*transposed=*/false);
  }
  /// Right factors for rows [row, row + 16) of the tile as inner dimension, elements [16 step, ...) as columns.
  std::array<Value, 4> transposed(int64_t row, int64_t step) {
    return loadMatrices(b, tileAddress(belowFirst_, row, step), /*transposed=*/true);
  }

  /// The block's rows of a tensor as left factors: in registers, by way of the tile, or in shared memory of their own.
  struct Rows {
    Fragments fragments; ///< empty: not in registers
    Value first;         ///< address of what this lane points at
  };
  Rows loadRows(const Tensor &tensor) {
    Value memory = inRegisters_ ? tile_ : k.shared(kRows * pitch_ * kBytes);
    k.barrier();
    loadTile(tensor, row_, kRows, memory, 0);
    k.barrier();
    Rows rows;
    rows.first = b.address(memory, element_, b.add(belowFirst_, b.mul(warpRow_, i32(pitch_))));
    for (int64_t step = 0; inRegisters_ && step < steps_; ++step)
      rows.fragments.push_back(leftFactor(rows, step));
    return rows;
  }
  std::array<Value, 4> leftFactor(const Rows &rows, int64_t step) {
    if (size_t(step) < rows.fragments.size())
      return rows.fragments[step];
    return loadMatrices(b, b.address(rows.first, element_, i32(step * kDepth)), /*transposed=*/false);
  }

  /// sums += left * right, where `right` is half of what four matrices give.
  void multiply(MutableArrayRef<Value> sums, const std::array<Value, 4> &left, Value right0, Value right1) {
    multiplyMatrices(b, element_, sums, left, right0, right1);
  }

  /// Scores of the warp's rows with `count` rows of the tile from `row` on: four numbers for every 8 of these.
  Values products(const Rows &rows, int64_t row, int64_t count) {
    Values sums(count / 2, zero());
    MutableArrayRef<Value> all(sums);
    for (int64_t at = 0; at < count; at += kDepth)
      for (int64_t step = 0; step < steps_; ++step) {
        std::array<Value, 4> left = leftFactor(rows, step), right = straight(row + at, step);
        multiply(all.slice(at / 2, 4), left, right[0], right[1]);
        multiply(all.slice(at / 2 + 4, 4), left, right[2], right[3]);
      }
    return sums;
  }

  /// sums += weights * rows of the tile from `row` on, by 16 of these.
  void addProducts(const std::array<Value, 4> &weights, int64_t row, MutableArrayRef<Value> sums) {
    for (int64_t step = 0; step < steps_; ++step) {
      std::array<Value, 4> right = transposed(row, step);
      multiply(sums.slice(step * 8, 4), weights, right[0], right[1]);
      multiply(sums.slice(step * 8 + 4, 4), weights, right[2], right[3]);
    }
  }

  Value packed(Value first, Value second) { return packPair(b, element_, first, second); }
  /// The left factor that two fragments of sums make.
  std::array<Value, 4> factor(ArrayRef<Value> sums) {
    return {packed(sums[0], sums[1]), packed(sums[2], sums[3]), packed(sums[4], sums[5]), packed(sums[6], sums[7])};
  }

  /// The number of column `index` % 2 of fragment `index` / 4 of products from `first` on.
  Value column(Value first, int64_t index) { return b.add(b.add(first, pair_), i32(index / 4 * 8 + index % 2)); }
  Value ownRow(int64_t index) { return ownRows_[index / 2 % 2]; }
  Value ownEdge(int64_t index) { return edges_[index / 2 % 2]; }

  Values noSums() { return Values(steps_ * 8, zero()); }

  void storeSums(ArrayRef<Value> sums, const Tensor &tensor) {
    for (int64_t half = 0; half < 2; ++half)
      k.ifThen(less(ownRows_[half], seq_), [&] {
        Value address = b.address(rowOf(tensor, ownRows_[half]), element_, pair_);
        for (int64_t fragment = 0; fragment < 2 * steps_; ++fragment)
          b.store(packed(sums[fragment * 4 + half * 2], sums[fragment * 4 + half * 2 + 1]),
                  b.address(address, element_, i32(fragment * 8)), 2 * kBytes);
      });
  }

  // The running maximum begins at the lowest number, not at minus infinity, so that differences of two are numbers.
  void emitForward() {
    constexpr double lowest = std::numeric_limits<float>::lowest();
    Rows q = loadRows(queries(0));
    Values carried = noSums();
    size_t statisticsAt = carried.size();
    carried.append(2, b.real(b.getF32Type(), lowest));
    carried.append(2, zero());
    carried = forTiles(columns_, carried, [&](Value first, bool hasMask, Values &values) {
      MutableArrayRef<Value> all(values), sums = all.take_front(statisticsAt), maxima = all.slice(statisticsAt, 2),
                                          totals = all.take_back(2);
      k.barrier();
      loadTile(keys(1), first, columns_, tile_, 0);
      loadTile(keys(2), first, columns_, tile_, columns_);
      k.barrier();
      Values scores = products(q, 0, columns_), visible(scores.size()), best(2, b.real(b.getF32Type(), lowest)),
             shrunk(2);
      for (auto [index, score] : llvm::enumerate(scores)) {
        if (hasMask)
          visible[index] = sees(ownRow(index), column(first, index), ownEdge(index));
        score = AttentionEmitter::score(score);
        Value &most = best[index / 2 % 2];
        most = b.maximum(most, masked(visible[index], score, b.real(b.getF32Type(), lowest)));
      }
      for (int64_t half = 0; half < 2; ++half) {
        Value maximum = b.maximum(maxima[half], acrossLanes(best[half], 4, /*sum=*/false));
        shrunk[half] = narrowExp(b, b.sub(maxima[half], maximum));
        maxima[half] = maximum;
        totals[half] = b.mul(totals[half], shrunk[half]);
      }
      for (auto [index, sum] : llvm::enumerate(sums))
        sum = b.mul(sum, shrunk[index / 2 % 2]);
      for (auto [index, score] : llvm::enumerate(scores)) {
        score = masked(visible[index], narrowExp(b, b.sub(score, maxima[index / 2 % 2])), zero());
        Value &total = totals[index / 2 % 2];
        total = b.add(total, score);
      }
      for (int64_t at = 0; at < columns_; at += kDepth)
        addProducts(factor(ArrayRef(scores).slice(at / 2, 8)), columns_ + at, sums);
    });
    for (int64_t half = 0; half < 2; ++half) {
      Value total = acrossLanes(carried[statisticsAt + 2 + half], 4, /*sum=*/true);
      Value inverse = b.div(b.real(b.getF32Type(), 1.0), total); // a division would take ten instructions an element
      for (size_t index = 0; index < statisticsAt; ++index)
        if (index / 2 % 2 == size_t(half))
          carried[index] = b.mul(carried[index], inverse);
      storeStatistic(b.add(carried[statisticsAt + half], b.log(total)), statistics(4, head_), ownRows_[half],
                     b.compare(arith::CmpIPredicate::eq, pair_, i32(0)));
    }
    storeSums(ArrayRef(carried).take_front(statisticsAt), queries(3));
  }

  // Buffers: q, k, v, dout, lse, delta, dk, dv. The heads of a group one after the other.
  void emitKeyGrad() {
    Rows keyRows = loadRows(keys(1)), valueRows = loadRows(keys(2));
    Values carried = noSums();
    const size_t half = carried.size();
    carried.append(noSums());
    carried = k.forRange(i32(0), group_, 1, carried, [&](Value member, Values &outer) {
      Value head = b.add(head_, member), lses = statistics(4, head), deltas = statistics(5, head);
      outer = forTiles(columns_, outer, [&](Value first, bool hasMask, Values &values) {
        MutableArrayRef<Value> all(values), keySums = all.take_front(half), valueSums = all.drop_front(half);
        k.barrier();
        loadTile(queries(0, head), first, columns_, tile_, 0);
        loadTile(queries(3, head), first, columns_, tile_, columns_);
        k.barrier();
        for (int64_t at = 0; at < columns_; at += kDepth) {
          Value query = b.add(first, i32(at));
          Values scores = products(keyRows, at, kDepth), cotangents = products(valueRows, columns_ + at, kDepth),
                 lse(4), delta(4);
          for (int64_t i = 0; i < 4; ++i) {
            Value own = column(query, i / 2 * 4 + i % 2);
            lse[i] = statistic(lses, own);
            delta[i] = statistic(deltas, own);
          }
          for (size_t index = 0; index < scores.size(); ++index) {
            size_t which = index / 4 * 2 + index % 2;
            Value visible = hasMask ? sees(column(query, index), ownRow(index), ownEdge(index)) : Value();
            emitSoftmaxGrad(scores[index], cotangents[index], visible, lse[which], delta[which]);
          }
          addProducts(factor(scores), columns_ + at, valueSums);
          addProducts(factor(cotangents), at, keySums);
        }
      });
    });
    storeSums(ArrayRef(carried).take_front(half), keys(6));
    storeSums(ArrayRef(carried).drop_front(half), keys(7));
  }

  // Buffers: q, k, v, dout, lse, delta, dq.
  void emitQueryGrad() {
    Rows q = loadRows(queries(0)), dout = loadRows(queries(3));
    Values lse, delta;
    for (Value row : ownRows_) {
      lse.push_back(statistic(statistics(4, head_), row));
      delta.push_back(statistic(statistics(5, head_), row));
    }
    Values sums = forTiles(columns_, noSums(), [&](Value first, bool hasMask, Values &values) {
      k.barrier();
      loadTile(keys(1), first, columns_, tile_, 0);
      loadTile(keys(2), first, columns_, tile_, columns_);
      k.barrier();
      for (int64_t at = 0; at < columns_; at += kDepth) {
        Value key = b.add(first, i32(at));
        Values scores = products(q, at, kDepth), cotangents = products(dout, columns_ + at, kDepth);
        for (size_t index = 0; index < scores.size(); ++index) {
          Value visible = hasMask ? sees(ownRow(index), column(key, index), ownEdge(index)) : Value();
          emitSoftmaxGrad(scores[index], cotangents[index], visible, lse[index / 2 % 2], delta[index / 2 % 2]);
        }
        addProducts(factor(cotangents), at, values);
      }
    });
    storeSums(sums, queries(6));
  }

  const int64_t pitch_, steps_;
  const bool inRegisters_; ///< the rows that stay
  const int64_t columns_;  ///< of a tile
  Value lane_, warpRow_, pair_, besideFirst_, belowFirst_;
  Values ownRows_, edges_;
  Value tile_; ///< rows of two tensors
};
} // namespace

int64_t attentionRowsMma(AttentionKernel kind, const AttentionForm &form) {
  bool fits = !form.type.isF32() && form.headDim % kDepth == 0 && form.headDim <= 128;
  return fits && kind != AttentionKernel::Delta ? kRows : 0;
}

void emitAttentionMma(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form) {
  MmaAttention(kernel, kind, form).emit();
}

} // namespace ztc::codegen
