// The rows of the head and the loss on a GPU. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/MathExpand.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

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

/// A row of logits in a block. Rows are gpuLogitStride apart: a vector that begins in a row ends before the next one.
class Row {
public:
  Row(BlockKernel &k, const LogitForm &form, Type element, int64_t lanes, bool isCut)
      : k(k), b(k.b), form(form), element(element), lanes(lanes), isCut(isCut), columns(k.scalar(0)),
        thread(k.thread()) {
    first = b.mul(thread, b.i64(lanes));
    Value stride = arith::AndIOp::create(b, b.add(columns, b.i64(63)), b.i64(-64));
    base = b.address(k.buffer(0), element, b.mul(k.block(), stride));
  }

  /// The logits from `column` on; where the row ends among them, what the softmax ignores.
  Value load(Value column) {
    Value logits = bendLogit(b, form, b.load(b.address(base, element, column), element, lanes, bytes()));
    return isCut ? only(column, logits, std::numeric_limits<float>::lowest()) : logits;
  }
  void store(Value value, Value column) { b.store(value, b.address(base, element, column), element, bytes()); }
  /// Of what is at most 0. Logits that are rounded to 16 bits are worth no better one.
  Value exp(Value x) { return isNarrow(element) ? narrowExp(b, x) : b.exp(x); }
  /// `value` where there are columns, else `other`.
  Value only(Value column, Value value, double other) {
    auto type = VectorType::get({lanes}, b.getI32Type());
    Value numbers = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, ArrayRef<int32_t>(llvm::to_vector(llvm::seq<int32_t>(0, lanes)))));
    Value count = arith::TruncIOp::create(b, b.getI32Type(), b.sub(columns, column));
    Value exists = b.compare(arith::CmpIPredicate::slt, numbers, b.splat(count, lanes));
    return b.select(exists, value, b.real(value.getType(), other));
  }

  /// Of the whole row; every thread gets it. The maximum is at least the lowest finite number.
  Softmax softmax() {
    Type f32 = b.getF32Type();
    BlockKernel::Values none{b.real(f32, std::numeric_limits<float>::lowest()), b.real(f32, 0.0)};
    auto maximumOf = [&](Value x, Value y) { return b.maximum(x, y); };
    auto sumOf = [&](Value x, Value y) { return b.add(x, y); };
    // One pass: the sum follows the maximum.
    auto turn = [&](int64_t count) {
      return [&, count](Value column, BlockKernel::Values &carried) {
        BlockKernel::Values values;
        for (int64_t i = 0; i < count; ++i)
          values.push_back(load(b.add(column, b.i64(i * step()))));
        Value maximum = b.maximum(carried[0], foldLanes(b, foldNeighbours(values, maximumOf), maximumOf));
        for (Value &value : values)
          value = exp(b.sub(value, b.splat(maximum, lanes)));
        Value here = foldLanes(b, foldNeighbours(values, sumOf), sumOf);
        carried[1] = b.add(b.mul(carried[1], b.exp(b.sub(carried[0], maximum))), here);
        carried[0] = maximum;
        carried[2] = b.add(column, b.i64(count * step()));
      };
    };
    none.push_back(first);
    Value whole = b.sub(columns, b.i64((pieces() - 1) * step()));
    auto own = k.forRange(first, whole, pieces() * step(), none, turn(pieces()));
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

  /// Vectors of a row that a thread has on their way at once: 16 numbers.
  int64_t pieces() const { return 16 / lanes; }
  int64_t step() const { return k.threads() * lanes; }
  int64_t bytes() const { return lanes * storedBytes(element); }

  BlockKernel &k;
  KernelBuilder &b;
  const LogitForm form;
  const Type element;
  const int64_t lanes;
  const bool isCut; ///< the last vector of a row is not whole
  Value columns, thread, first, base;

private:
  Softmax overWarp(Softmax own, int64_t count) {
    for (int64_t mask = 1; mask < count; mask *= 2)
      own = join(b, own, {k.exchange(own.maximum, mask), k.exchange(own.sum, mask)});
    return own;
  }
};
} // namespace

// A block per row. Cotangents take the places of logits, in their type: each thread writes the vectors that it has
// read, as if no logit were the target's, whose cotangent one thread then writes. Both forms take the same columns a
// thread: the loss has the same bits.
KernelDescription KernelModule::addGpuCrossEntropyRows(bool training, Type type, int64_t vocabulary,
                                                       const LogitForm &form) {
  // So many that a multiprocessor has one block: the rows that a GPU works on at once stay in its L2 cache.
  constexpr int64_t threads = 1024;
  const int64_t lanes = isNarrow(type) ? 8 : 4;
  const bool isCut = vocabulary % lanes != 0;
  StringRef name = training ? "gpu_cross_entropy_rows" : "gpu_cross_entropy_rows_loss";
  std::string full = (name + (form.weighted ? "_weighted" : "") + typeSuffix(type) + "_" + Twine(lanes) +
                      (isCut ? "_cut" : "") + formSuffix(form))
                         .str();
  SmallVector<bool> written =
      training ? SmallVector<bool>{true, false, false, true} : SmallVector<bool>{false, false, true};
  if (form.weighted)
    written.push_back(false);
  return deviceService(*state_, full, written, 1, threads, 1, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Type f32 = b.getF32Type(), i32 = b.getI32Type(), element = b.element(type);
    Row row(k, form, element, lanes, isCut);
    Value losses = k.buffer(training ? 3 : 2), zero = b.real(f32, 0.0);
    Value target = b.load(b.address(k.buffer(1), i32, k.block()), i32, 1);
    target = arith::ExtSIOp::create(b, b.getI64Type(), target);
    auto storeLoss = [&](Value loss) {
      k.ifThen(b.compare(arith::CmpIPredicate::eq, row.thread, b.i64(0)),
               [&] { b.store(loss, b.address(losses, f32, k.block())); });
    };
    // Unsigned: a negative target is far past the last column.
    Value counts = b.compare(arith::CmpIPredicate::ult, target, row.columns);
    auto ignored = [&] {
      storeLoss(zero);
      if (training)
        k.forRange(row.first, row.columns, row.step(), [&](Value column) { row.store(b.splat(zero, lanes), column); });
    };
    auto counted = [&] {
      Value wanted = bendLogit(b, form, b.load(b.address(row.base, element, target), element, 1));
      Softmax softmax = row.softmax();
      Value loss = b.sub(b.add(softmax.maximum, b.log(softmax.sum)), wanted), weight;
      if (form.weighted) {
        weight = b.load(b.address(k.buffer(training ? 4 : 3), f32, k.block()), f32, 1);
        loss = b.mul(loss, weight);
      }
      storeLoss(loss);
      if (!training)
        return;
      Value scale = b.load(k.buffer(2), f32, 1);
      if (weight)
        scale = b.mul(scale, weight);
      Value inverse = b.div(b.real(f32, 1.0), softmax.sum);
      /// Of one logit or several, none of which is the target's or, with `hit`, all.
      auto cotangent = [&](Value logits, bool hit) {
        auto all = [&](Value value) { return b.splat(value, lanesOf(logits.getType())); };
        Value p = b.mul(row.exp(b.sub(logits, all(softmax.maximum))), all(inverse));
        Value result = b.mul(hit ? b.sub(p, b.real(p.getType(), 1.0)) : p, all(scale));
        return form.isPlain() ? result : b.mul(result, slopeAtLogit(b, form, logits));
      };
      auto turn = [&](int64_t count) {
        return [&, count](Value column, BlockKernel::Values &) {
          BlockKernel::Values columns, logits;
          for (int64_t i = 0; i < count; ++i) {
            columns.push_back(b.add(column, b.i64(i * row.step())));
            logits.push_back(row.load(columns[i]));
          }
          for (int64_t i = 0; i < count; ++i) {
            Value value = cotangent(logits[i], /*hit=*/false);
            if (!form.isPlain() && isCut)
              value = row.only(columns[i], value, 0.0);
            row.store(b.convertReal(value, element), columns[i]);
          }
        };
      };
      // From the row's end to its beginning: what was read last is what the L2 cache still has.
      const int64_t stride = row.pieces() * row.step();
      Value whole = b.sub(row.columns, b.i64((row.pieces() - 1) * row.step()));
      Value turns =
          arith::ShRSIOp::create(b, b.add(b.sub(whole, row.first), b.i64(stride - 1)), b.i64(llvm::Log2_64(stride)));
      turns = arith::MaxSIOp::create(b, turns, b.i64(0));
      Value rest = b.add(row.first, b.mul(turns, b.i64(stride)));
      k.forRange(rest, row.columns, row.step(), {}, turn(1));
      k.forRange(b.i64(0), turns, 1, [&](Value number) {
        Value last = b.sub(b.sub(turns, number), b.i64(1));
        BlockKernel::Values none;
        turn(row.pieces())(b.add(row.first, b.mul(last, b.i64(stride))), none);
      });
      k.barrier();
      k.ifThen(b.compare(arith::CmpIPredicate::eq, row.thread, b.i64(0)), [&] {
        // Two of the same: there is one instruction for a pair, more for one alone.
        Value pair = b.convertReal(b.splat(cotangent(wanted, /*hit=*/true), 2), element);
        b.store(vector::ExtractOp::create(b, pair, 0), b.address(row.base, element, target), element);
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
