// Attention for GPUs by fused multiply-adds in f32, for every type and every head. 16 x 8 threads share a tile: thread
// (y, x) has rows y, y + 16, ..., of scores the columns x, x + 8, ..., of results 4 neighbouring ones of every 32.
// Products take their operands in pieces of 32 from shared memory.
#include "compiler/Codegen/DeviceAttention.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>
#include <numeric>

using namespace mlir;

namespace ztc::codegen {

namespace {

/// Columns of a tile of scores, and elements of a head that are in shared memory at once.
constexpr int64_t kTile = 32;
/// Floats between rows in shared memory: threads of a warp that read different rows meet different banks.
constexpr int64_t kPitch = kTile + 4;
constexpr int64_t kRowThreads = 16, kColumnThreads = 8, kVector = 4;

/// Rows of a thread: as many as the sums of its results leave registers for.
int64_t rowsOfThread(AttentionKernel kind, int64_t dim) {
  switch (kind) {
  case AttentionKernel::Delta:
    return 1;
  case AttentionKernel::KeyGrad:
    return dim <= 64 ? 4 : dim <= 128 ? 2 : 1;
  default:
    return dim <= 128 ? 4 : dim <= 256 ? 2 : 1;
  }
}

class FmaAttention : public AttentionEmitter {
public:
  FmaAttention(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form)
      : AttentionEmitter(kernel, kind, form, attentionRowsFma(kind, form)),
        perThread_(rowsOfThread(kind, form.headDim)), pieces_((form.headDim + kTile - 1) / kTile),
        vector_(std::gcd(form.headDim, kVector)) {
    y_ = arith::ShRUIOp::create(b, thread_, i32(3));
    x_ = arith::AndIOp::create(b, thread_, i32(kColumnThreads - 1));
    for (int64_t i = 0; i < perThread_; ++i)
      ownRows_.push_back(b.add(b.add(row_, y_), i32(i * kRowThreads)));
    for (Value row : ownRows_)
      edges_.push_back(documentEdge(row));
  }

  void emit() {
    if (kind_ == AttentionKernel::Delta)
      return emitDelta();
    rowPiece_ = k.shared(rows_ * kPitch * 4);
    columnPiece_ = k.shared(kTile * kPitch * 4);
    weights_ = k.shared(rows_ * kPitch * 4);
    if (kind_ == AttentionKernel::Forward)
      return emitForward();
    if (kind_ == AttentionKernel::KeyGrad)
      return emitKeyGrad();
    emitQueryGrad();
  }

private:
  VectorType vectorType() { return VectorType::get({kVector}, b.getF32Type()); }
  Value zeros() { return b.real(vectorType(), 0.0); }
  Value column(Value first, int64_t j) { return b.add(b.add(first, x_), i32(j * kColumnThreads)); }

  /// Elements [column, column + 4) of a row at `address`, zero where they are past the head's end; `inside` says
  /// whether there is such a row.
  Value loadVector(Value address, Value column, Value inside) {
    if (vector_ == kVector)
      return guarded(both(inside, less(column, i32(dim_))), zeros(), [&] {
        return b.load(b.address(address, element_, column), element_, kVector, kVector * storedBytes(element_));
      });
    Value vector = zeros();
    for (int64_t i = 0; i < kVector; ++i) {
      Value at = b.add(column, i32(i));
      Value value = guarded(both(inside, less(at, i32(dim_))), zero(),
                            [&] { return b.load(b.address(address, element_, at), element_, 1); });
      vector = vector::InsertOp::create(b, value, vector, i);
    }
    return vector;
  }

  void storeVector(Value vector, Value address, Value column, Value inside) {
    Value rounded = b.convertReal(vector, element_);
    if (vector_ == kVector) {
      k.ifThen(both(inside, less(column, i32(dim_))), [&] {
        b.store(rounded, b.address(address, element_, column), element_, kVector * storedBytes(element_));
      });
      return;
    }
    for (int64_t i = 0; i < kVector; ++i) {
      Value at = b.add(column, i32(i));
      k.ifThen(both(inside, less(at, i32(dim_))),
               [&] { b.store(vector::ExtractOp::create(b, rounded, i), b.address(address, element_, at), element_); });
    }
  }

  Value sharedVector(Value buffer, Value row, Value column) {
    return b.load(b.address(buffer, b.getF32Type(), b.add(b.mul(row, i32(kPitch)), column)), b.getF32Type(), kVector,
                  16);
  }

  /// Elements [piece, piece + 32) of rows `first`, ... of a tensor, as f32.
  void loadPiece(Value buffer, const Tensor &tensor, Value first, int64_t rows, Value piece) {
    Value left = b.sub(seq_, first), start = rowOf(tensor, first);
    Value stride = rowStride(tensor), offset = b.mul(x_, i32(kVector)), column = b.add(piece, offset);
    for (int64_t i = 0; i < rows / kRowThreads; ++i) {
      Value row = b.add(y_, i32(i * kRowThreads));
      Value vector = loadVector(b.address(start, element_, b.mul(row, stride)), column, less(row, left));
      b.store(vector, b.address(buffer, b.getF32Type(), b.add(b.mul(row, i32(kPitch)), offset)), 16);
    }
  }

  /// Products of the block's rows of one tensor with the rows of another from `first` on: scores[row][j].
  Values products(const Tensor &rows, const Tensor &columns, Value first) {
    constexpr int64_t across = kTile / kColumnThreads;
    Values sums(perThread_ * across, zero());
    return k.forRange(i32(0), i32(dim_), kTile, sums, [&](Value piece, Values &outer) {
      k.barrier();
      loadPiece(rowPiece_, rows, row_, rows_, piece);
      loadPiece(columnPiece_, columns, first, kTile, piece);
      k.barrier();
      outer = k.forRangeRolled(i32(0), i32(std::min(kTile, (dim_ + kVector - 1) / kVector * kVector)), kVector, outer,
                               [&](Value at, Values &inner) {
                                 Values left, right;
                                 for (int64_t i = 0; i < perThread_; ++i)
                                   left.push_back(sharedVector(rowPiece_, b.add(y_, i32(i * kRowThreads)), at));
                                 for (int64_t j = 0; j < across; ++j)
                                   right.push_back(sharedVector(columnPiece_, b.add(x_, i32(j * kColumnThreads)), at));
                                 for (int64_t k = 0; k < kVector; ++k)
                                   for (int64_t i = 0; i < perThread_; ++i)
                                     for (int64_t j = 0; j < across; ++j)
                                       inner[i * across + j] =
                                           b.fma(vector::ExtractOp::create(b, left[i], k),
                                                 vector::ExtractOp::create(b, right[j], k), inner[i * across + j]);
                               });
    });
  }

  /// What `products` numbers: calls `body` with the thread's row, its column and the place in the list.
  void forScores(llvm::function_ref<void(int64_t row, int64_t column, int64_t index)> body) {
    constexpr int64_t across = kTile / kColumnThreads;
    for (int64_t i = 0; i < perThread_; ++i)
      for (int64_t j = 0; j < across; ++j)
        body(i, j, i * across + j);
  }

  /// Factors of the next product, rounded to the tensors' type: into shared memory.
  void storeWeights(const Values &weights) {
    forScores([&](int64_t i, int64_t j, int64_t index) {
      Value row = b.add(y_, i32(i * kRowThreads)), column = b.add(x_, i32(j * kColumnThreads));
      b.store(b.convertReal(weights[index], element_),
              b.address(weights_, b.getF32Type(), b.add(b.mul(row, i32(kPitch)), column)));
    });
  }

  /// sums[piece][row] += weights * rows of the tensor from `first` on.
  void addProducts(const Values &weights, const Tensor &tensor, Value first, MutableArrayRef<Value> sums) {
    k.barrier();
    storeWeights(weights);
    for (int64_t piece = 0; piece < pieces_; ++piece) {
      if (piece > 0)
        k.barrier();
      loadPiece(columnPiece_, tensor, first, kTile, i32(piece * kTile));
      k.barrier();
      MutableArrayRef<Value> own = sums.slice(piece * perThread_, perThread_);
      Values added =
          k.forRangeRolled(i32(0), i32(kTile), kVector, Values(own.begin(), own.end()), [&](Value at, Values &inner) {
            Values left, right;
            for (int64_t i = 0; i < perThread_; ++i)
              left.push_back(sharedVector(weights_, b.add(y_, i32(i * kRowThreads)), at));
            for (int64_t k = 0; k < kVector; ++k)
              right.push_back(sharedVector(columnPiece_, b.add(at, i32(k)), b.mul(x_, i32(kVector))));
            for (int64_t k = 0; k < kVector; ++k)
              for (int64_t i = 0; i < perThread_; ++i)
                inner[i] = b.fma(b.splat(vector::ExtractOp::create(b, left[i], k), kVector), right[k], inner[i]);
          });
      llvm::copy(added, own.begin());
    }
  }

  Values noSums() { return Values(pieces_ * perThread_, zeros()); }

  void storeSums(ArrayRef<Value> sums, const Tensor &tensor) {
    for (int64_t i = 0; i < perThread_; ++i) {
      Value address = rowOf(tensor, ownRows_[i]);
      for (int64_t piece = 0; piece < pieces_; ++piece)
        storeVector(sums[piece * perThread_ + i], address, b.add(b.mul(x_, i32(kVector)), i32(piece * kTile)),
                    less(ownRows_[i], seq_));
    }
  }

  // The running maximum begins at the lowest number, not at minus infinity, so that differences of two are numbers.
  void emitForward() {
    constexpr double lowest = std::numeric_limits<float>::lowest();
    Values carried = noSums();
    size_t statisticsAt = carried.size();
    for (int64_t i = 0; i < perThread_; ++i)
      carried.push_back(b.real(b.getF32Type(), lowest));
    carried.append(perThread_, zero());
    carried = forTiles(kTile, carried, [&](Value first, bool hasMask, Values &values) {
      MutableArrayRef<Value> all(values), sums = all.take_front(statisticsAt),
                                          maxima = all.slice(statisticsAt, perThread_),
                                          totals = all.take_back(perThread_);
      Values scores = products(queries(0), keys(1), first), visible(scores.size());
      Values best(perThread_, b.real(b.getF32Type(), lowest));
      forScores([&](int64_t i, int64_t j, int64_t index) {
        if (hasMask)
          visible[index] = sees(ownRows_[i], column(first, j), edges_[i]);
        scores[index] = score(scores[index]);
        best[i] = b.maximum(best[i], masked(visible[index], scores[index], b.real(b.getF32Type(), lowest)));
      });
      for (int64_t i = 0; i < perThread_; ++i) {
        Value maximum = b.maximum(maxima[i], acrossLanes(best[i], kColumnThreads, /*sum=*/false));
        Value shrunk = b.exp(b.sub(maxima[i], maximum));
        maxima[i] = maximum;
        totals[i] = b.mul(totals[i], shrunk);
        for (int64_t piece = 0; piece < pieces_; ++piece)
          sums[piece * perThread_ + i] = b.mul(sums[piece * perThread_ + i], b.splat(shrunk, kVector));
      }
      forScores([&](int64_t i, int64_t, int64_t index) {
        scores[index] = masked(visible[index], b.exp(b.sub(scores[index], maxima[i])), zero());
        totals[i] = b.add(totals[i], scores[index]);
      });
      addProducts(scores, keys(2), first, sums);
    });
    Values sums(carried.begin(), carried.begin() + statisticsAt);
    for (int64_t i = 0; i < perThread_; ++i) {
      Value total = acrossLanes(carried[statisticsAt + perThread_ + i], kColumnThreads, /*sum=*/true);
      for (int64_t piece = 0; piece < pieces_; ++piece)
        sums[piece * perThread_ + i] = b.div(sums[piece * perThread_ + i], b.splat(total, kVector));
      storeStatistic(b.add(carried[statisticsAt + i], b.log(total)), statistics(4, head_), ownRows_[i],
                     b.compare(arith::CmpIPredicate::eq, x_, i32(0)));
    }
    storeSums(sums, queries(3));
  }

  /// delta = sum of dout * out, a row.
  void emitDelta() {
    Value inside = less(ownRows_[0], seq_), sum = zero();
    Value left = rowOf(queries(0), ownRows_[0]), right = rowOf(queries(1), ownRows_[0]);
    const int64_t together = std::min<int64_t>(pieces_, 4);
    sum = k.forRangeRolled(i32(0), i32(dim_), together * kTile, {sum}, [&](Value first, Values &carried) {
      for (int64_t piece = 0; piece < together; ++piece) {
        Value column = b.add(b.add(first, b.mul(x_, i32(kVector))), i32(piece * kTile));
        Value products = b.mul(loadVector(left, column, inside), loadVector(right, column, inside));
        for (int64_t k = 0; k < kVector; ++k)
          carried[0] = b.add(carried[0], vector::ExtractOp::create(b, products, k));
      }
    })[0];
    sum = acrossLanes(sum, kColumnThreads, /*sum=*/true);
    storeStatistic(sum, statistics(2, head_), ownRows_[0], b.compare(arith::CmpIPredicate::eq, x_, i32(0)));
  }

  // Buffers: q, k, v, dout, lse, delta, dk, dv. The heads of a group one after the other.
  void emitKeyGrad() {
    Values carried = noSums(), keySums = carried;
    carried.append(keySums);
    carried = k.forRange(i32(0), group_, 1, carried, [&](Value member, Values &outer) {
      Value head = b.add(head_, member), lses = statistics(4, head), deltas = statistics(5, head);
      outer = forTiles(kTile, outer, [&](Value first, bool hasMask, Values &values) {
        Values scores = products(keys(1), queries(0, head), first);
        Values cotangents = products(keys(2), queries(3, head), first);
        constexpr int64_t across = kTile / kColumnThreads;
        Values lse, delta;
        for (int64_t j = 0; j < across; ++j) {
          lse.push_back(statistic(lses, column(first, j)));
          delta.push_back(statistic(deltas, column(first, j)));
        }
        forScores([&](int64_t i, int64_t j, int64_t index) {
          Value visible = hasMask ? sees(column(first, j), ownRows_[i], edges_[i]) : Value();
          emitSoftmaxGrad(scores[index], cotangents[index], visible, lse[j], delta[j]);
        });
        MutableArrayRef<Value> all(values);
        addProducts(scores, queries(3, head), first, all.drop_front(values.size() / 2));
        addProducts(cotangents, queries(0, head), first, all.take_front(values.size() / 2));
      });
    });
    storeSums(ArrayRef(carried).take_front(carried.size() / 2), keys(6));
    storeSums(ArrayRef(carried).drop_front(carried.size() / 2), keys(7));
  }

  // Buffers: q, k, v, dout, lse, delta, dq.
  void emitQueryGrad() {
    Values lse, delta;
    for (Value row : ownRows_) {
      lse.push_back(statistic(statistics(4, head_), row));
      delta.push_back(statistic(statistics(5, head_), row));
    }
    Values sums = forTiles(kTile, noSums(), [&](Value first, bool hasMask, Values &values) {
      Values scores = products(queries(0), keys(1), first);
      Values cotangents = products(queries(3), keys(2), first);
      forScores([&](int64_t i, int64_t j, int64_t index) {
        Value visible = hasMask ? sees(ownRows_[i], column(first, j), edges_[i]) : Value();
        emitSoftmaxGrad(scores[index], cotangents[index], visible, lse[i], delta[i]);
      });
      addProducts(cotangents, keys(1), first, values);
    });
    storeSums(sums, queries(6));
  }

  const int64_t perThread_, pieces_, vector_;
  Value x_, y_;
  Values ownRows_, edges_;
  Value rowPiece_, columnPiece_, weights_;
};
} // namespace

int64_t attentionRowsFma(AttentionKernel kind, const AttentionForm &form) {
  return kRowThreads * rowsOfThread(kind, form.headDim);
}

void emitAttentionFma(BlockKernel &kernel, AttentionKernel kind, const AttentionForm &form) {
  FmaAttention(kernel, kind, form).emit();
}

} // namespace ztc::codegen
