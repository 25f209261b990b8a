// The rows of the head and the loss on a GPU. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>
#include <numeric>

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {
/// A maximum, and the sum of the exponentials of what is below it.
struct Softmax {
  Value maximum, sum;
};

/// What two threads have seen, together. The order of the two does not matter, to the bit.
Softmax join(KernelBuilder &b, Softmax x, Softmax y) {
  Value maximum = b.maximum(x.maximum, y.maximum);
  auto part = [&](Softmax of) { return b.mul(of.sum, b.exp(b.sub(of.maximum, maximum))); };
  return {maximum, b.add(part(x), part(y))};
}

/// Values combined with their neighbours until one is left.
Value foldNeighbours(BlockKernel::Values values, llvm::function_ref<Value(Value, Value)> combine) {
  for (; values.size() > 1; values.resize(values.size() / 2))
    for (size_t i = 0; i < values.size() / 2; ++i)
      values[i] = combine(values[2 * i], values[2 * i + 1]);
  return values.front();
}

/// The lanes of a vector, the same way.
Value foldLanes(KernelBuilder &b, Value vector, llvm::function_ref<Value(Value, Value)> combine) {
  int64_t lanes = lanesOf(vector.getType());
  BlockKernel::Values values;
  for (int64_t i = 0; i < lanes; ++i)
    values.push_back(lanes == 1 ? vector : vector::ExtractOp::create(b, vector, i).getResult());
  return foldNeighbours(values, combine);
}

/// A row of logits in a block.
class Row {
public:
  Row(BlockKernel &k, const LogitForm &form, int64_t lanes)
      : k(k), b(k.b), form(form), lanes(lanes), columns(k.scalar(0)), thread(k.thread()) {
    first = b.mul(thread, b.i64(lanes));
    base = b.address(k.buffer(0), b.getF32Type(), b.mul(k.block(), columns));
  }

  Value load(Value column) {
    Value address = b.address(base, b.getF32Type(), column);
    return bendLogit(b, form, b.load(address, b.getF32Type(), lanes, std::min(lanes * 4, kVectorBytes)));
  }

  /// Of the whole row; every thread gets it. The maximum is at least the lowest finite number.
  Softmax softmax() {
    Type f32 = b.getF32Type();
    BlockKernel::Values none{b.real(f32, std::numeric_limits<float>::lowest()), b.real(f32, 0.0)};
    auto maximumOf = [&](Value x, Value y) { return b.maximum(x, y); };
    auto sumOf = [&](Value x, Value y) { return b.add(x, y); };
    // One pass: the sum follows the maximum.
    auto turn = [&](int64_t pieces) {
      return [&, pieces](Value column, BlockKernel::Values &carried) {
        BlockKernel::Values values;
        for (int64_t i = 0; i < pieces; ++i)
          values.push_back(load(b.add(column, b.i64(i * step()))));
        Value maximum = b.maximum(carried[0], foldLanes(b, foldNeighbours(values, maximumOf), maximumOf));
        for (Value &value : values)
          value = b.exp(b.sub(value, b.splat(maximum, lanes)));
        Value here = foldLanes(b, foldNeighbours(values, sumOf), sumOf);
        carried[1] = b.add(b.mul(carried[1], b.exp(b.sub(carried[0], maximum))), here);
        carried[0] = maximum;
        carried[2] = b.add(column, b.i64(pieces * step()));
      };
    };
    none.push_back(first);
    Value whole = b.sub(columns, b.i64((kPieces - 1) * step()));
    auto own = k.forRange(first, whole, kPieces * step(), none, turn(kPieces));
    Value rest = own[2];
    own = k.forRange(rest, columns, step(), own, turn(1));
    Softmax seen = overWarp({own[0], own[1]}, kWarp);
    int64_t warps = k.threads() / kWarp;
    Value shared = k.shared(warps * 8), lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1));
    Value warp = arith::ShRUIOp::create(b, thread, b.i64(5));
    auto place = [&](Value number, int64_t which) {
      return b.address(shared, f32, b.add(b.mul(number, b.i64(2)), b.i64(which)));
    };
    k.ifThen(b.compare(arith::CmpIPredicate::eq, lane, b.i64(0)), [&] {
      b.store(seen.maximum, place(warp, 0));
      b.store(seen.sum, place(warp, 1));
    });
    k.barrier();
    Value other = arith::AndIOp::create(b, lane, b.i64(warps - 1));
    return overWarp({b.load(place(other, 0), f32, 1), b.load(place(other, 1), f32, 1)}, warps);
  }

  /// Pieces of a row that a thread has on their way at once.
  static constexpr int64_t kPieces = 4;

  int64_t step() const { return k.threads() * lanes; }

  BlockKernel &k;
  KernelBuilder &b;
  const LogitForm form;
  const int64_t lanes;
  Value columns, thread, first, base;

private:
  Softmax overWarp(Softmax own, int64_t count) {
    for (int64_t mask = 1; mask < count; mask *= 2)
      own = join(b, own, {k.exchange(own.maximum, mask), k.exchange(own.sum, mask)});
    return own;
  }
};
} // namespace

// A block per row. The cotangents of a narrow type stand at the beginning of the bytes of their row, where every piece
// has been read before it is written over; a thread makes 16 bytes of them from twice as many logits. The softmax takes
// the same columns a thread for every type: the loss has the same bits.
KernelDescription KernelModule::addGpuCrossEntropyRows(bool training, Type type, int64_t vocabulary,
                                                       const LogitForm &form) {
  constexpr int64_t threads = 512;
  const bool narrow = training && isNarrow(type);
  const int64_t read = std::gcd(vocabulary, int64_t(4)), lanes = narrow ? std::gcd(vocabulary, int64_t(8)) : read;
  StringRef name = training ? "gpu_cross_entropy_rows" : "gpu_cross_entropy_rows_loss";
  std::string full = (name + (narrow ? typeSuffix(type) : "") + "_" + Twine(lanes) + formSuffix(form)).str();
  SmallVector<bool> written =
      training ? SmallVector<bool>{true, false, false, true} : SmallVector<bool>{false, false, true};
  return deviceService(*state_, full, written, 1, threads, 1, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Row row(k, form, lanes);
    Type f32 = b.getF32Type(), i32 = b.getI32Type();
    Type element = narrow ? b.element(type) : Type(f32);
    Value losses = k.buffer(training ? 3 : 2), zero = b.real(f32, 0.0);
    Value target = b.load(b.address(k.buffer(1), i32, k.block()), i32, 1);
    target = arith::ExtSIOp::create(b, b.getI64Type(), target);
    auto storeLoss = [&](Value loss) {
      k.ifThen(b.compare(arith::CmpIPredicate::eq, row.thread, b.i64(0)),
               [&] { b.store(loss, b.address(losses, f32, k.block())); });
    };
    auto store = [&](Value value, Value column) {
      b.store(value, b.address(row.base, element, column), element, lanes * storedBytes(element));
    };
    // Unsigned: a negative target is far past the last column.
    Value counts = b.compare(arith::CmpIPredicate::ult, target, row.columns);
    auto ignored = [&] {
      storeLoss(zero);
      if (training)
        k.forRange(row.first, row.columns, row.step(), [&](Value column) { store(b.splat(zero, lanes), column); });
    };
    auto counted = [&] {
      Value wanted = bendLogit(b, form, b.load(b.address(row.base, f32, target), f32, 1));
      Softmax softmax = Row(k, form, read).softmax();
      storeLoss(b.sub(b.add(softmax.maximum, b.log(softmax.sum)), wanted));
      if (!training)
        return;
      Value scale = b.load(k.buffer(2), f32, 1), inverse = b.div(b.real(f32, 1.0), softmax.sum);
      SmallVector<int64_t> steps = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
      auto i64s = KernelBuilder::shaped(lanes, b.getI64Type());
      Value numbers =
          lanes == 1
              ? b.i64(0)
              : arith::ConstantOp::create(b, DenseElementsAttr::get(cast<VectorType>(i64s), ArrayRef<int64_t>(steps)))
                    .getResult();
      auto gradient = [&](Value logits, Value column) {
        Value p = b.mul(b.exp(b.sub(logits, b.splat(softmax.maximum, lanes))), b.splat(inverse, lanes));
        Value isHit = b.compare(arith::CmpIPredicate::eq, numbers, b.splat(b.sub(target, column), lanes));
        Value hit = b.select(isHit, b.real(p.getType(), 1.0), b.real(p.getType(), 0.0));
        Value cotangent = b.mul(b.sub(p, hit), b.splat(scale, lanes));
        if (!form.isPlain())
          cotangent = b.mul(cotangent, slopeAtLogit(b, form, logits));
        store(b.convertReal(cotangent, element), column);
      };
      if (!narrow) {
        k.forRange(row.first, row.columns, row.step(), [&](Value column) { gradient(row.load(column), column); });
        return;
      }
      const int64_t pieces = Row::kPieces * read / lanes; // the softmax' bytes on the way
      k.forRange(b.i64(0), row.columns, pieces * row.step(), [&](Value begin) {
        BlockKernel::Values columns, exists, logits;
        for (int64_t i = 0; i < pieces; ++i) {
          columns.push_back(b.add(b.add(begin, row.first), b.i64(i * row.step())));
          exists.push_back(b.compare(arith::CmpIPredicate::slt, columns[i], row.columns));
          logits.push_back(
              k.choose(exists[i], [&] { return row.load(columns[i]); }, [&] { return b.splat(zero, lanes); }));
        }
        k.barrier();
        for (int64_t i = 0; i < pieces; ++i)
          k.ifThen(exists[i], [&] { gradient(logits[i], columns[i]); });
      });
    };
    k.ifElse(counts, counted, ignored);
  });
}

// One block. Thread t adds rows t, t + 256, ... in double precision, then halves of the threads join.
KernelDescription KernelModule::addGpuLossSum() {
  constexpr int64_t threads = 256;
  return deviceService(*state_, "gpu_loss_sum", {false, true}, 2, threads, 1, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Type f32 = b.getF32Type(), f64 = b.getF64Type();
    Value losses = k.buffer(0), loss = k.buffer(1), count = k.scalar(0), adds = k.scalar(1), thread = k.thread();
    Value own = k.forRange(thread, count, threads, {b.real(f64, 0.0)}, [&](Value row, BlockKernel::Values &carried) {
      carried[0] = b.add(carried[0], b.convertReal(b.load(b.address(losses, f32, row), f32, 1), f64));
    })[0];
    Value shared = k.shared(threads * 8);
    auto at = [&](Value number) { return b.address(shared, f64, number); };
    b.store(own, at(thread));
    for (int64_t half = threads / 2; half >= 1; half /= 2) {
      k.barrier();
      k.ifThen(b.compare(arith::CmpIPredicate::slt, thread, b.i64(half)), [&] {
        Value other = b.load(at(b.add(thread, b.i64(half))), f64, 1);
        b.store(b.add(b.load(at(thread), f64, 1), other), at(thread));
      });
    }
    k.ifThen(b.compare(arith::CmpIPredicate::eq, thread, b.i64(0)), [&] {
      Value total = b.load(at(b.i64(0)), f64, 1);
      Value before = k.choose(
          b.compare(arith::CmpIPredicate::ne, adds, b.i64(0)), [&] { return b.convertReal(b.load(loss, f32, 1), f64); },
          [&] { return b.real(f64, 0.0); });
      b.store(b.convertReal(b.add(before, total), f32), loss);
    });
  });
}

} // namespace ztc
