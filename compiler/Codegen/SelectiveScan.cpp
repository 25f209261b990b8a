// The host's kernels of a selective scan, a vector of channels at a time: see runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/KernelState.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "runtime/Format/ScanSizes.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {
using Values = SmallVector<Value>;
static_assert(kScanLanes == uint64_t(kChunk) && kScanGroup == uint64_t(kVirtualLanes));

/// The kernel over units [begin, end). Tensors are f32 and lie without gaps.
class ScanKernel {
public:
  ScanKernel(KernelModule::State &state, StringRef name, bool packed)
      : b(state.builder()), packed(packed), function_(state.createKernel(b, name)), positions(scalar(0)),
        channels(scalar(1)), states(scalar(2)), chunk(scalar(3)), batch(scalar(4)), chunks(divideUp(positions, chunk)) {
  }

  Value buffer(unsigned number) {
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    Value address = LLVM::GEPOp::create(b, pointer, pointer, function_.getArgument(0),
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(number)});
    return LLVM::LoadOp::create(b, pointer, address, 8);
  }

  void forUnits(llvm::function_ref<void(Value unit)> body) {
    auto loop = scf::ForOp::create(b, function_.getArgument(2), function_.getArgument(3), b.i64(1));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar());
    KernelModule::State::finishKernel(b, function_);
  }
  void forEach(Value count, llvm::function_ref<void(Value index)> body) {
    b.forRange(b.i64(0), count, 1, {}, [&](Value index, Values &) { body(index); });
  }
  /// From the last down to the first of `count`.
  void forEachBack(Value count, llvm::function_ref<void(Value index)> body) {
    forEach(count, [&](Value turn) { body(b.sub(b.sub(count, b.i64(1)), turn)); });
  }

  Value at(Value base, Value index) { return b.address(base, b.getF32Type(), index); }
  Value load(Value base, Value index) { return b.load(at(base, index), b.getF32Type(), kChunk); }
  void store(Value value, Value base, Value index) { b.store(value, at(base, index)); }
  /// A number in all lanes.
  Value loadSplat(Value base, Value index) { return b.splat(b.load(at(base, index), b.getF32Type(), 1), kChunk); }
  Value zeros() { return b.real(VectorType::get({kChunk}, b.getF32Type()), 0.0); }
  Value sum(Value lanes) {
    return b.foldLanes({lanes, zeros(), zeros(), zeros()}, [&](Value x, Value y) { return b.add(x, y); });
  }
  Value divideUp(Value a, Value by) { return arith::DivUIOp::create(b, b.sub(b.add(a, by), b.i64(1)), by); }
  /// Number `inner` of row `outer` of rows of `width`.
  Value index(Value outer, Value width, Value inner) { return b.add(b.mul(outer, width), inner); }
  /// The positions of chunk `number`.
  Value lengthOf(Value number) { return b.minimum(chunk, b.sub(positions, b.mul(number, chunk))); }

  /// The decay of a state over a step of `delta`, 0 where `isStart`.
  Value decay(Value delta, Value rate, Value isStart) {
    Value factor = b.exp(b.mul(delta, rate));
    return isStart ? b.select(isStart, zeros(), factor) : factor;
  }
  /// Whether a document starts at position `t` of row `row`; null where rows hold one.
  Value startsAt(Value starts, Value row, Value t) {
    if (!packed)
      return {};
    Value start = b.load(b.address(starts, b.getI32Type(), index(row, positions, t)), b.getI32Type(), 1);
    return b.compare(arith::CmpIPredicate::eq, arith::ExtSIOp::create(b, b.getI64Type(), start), t);
  }

  KernelBuilder b;
  const bool packed;

private:
  Value scalar(unsigned number) {
    return b.load(b.address(function_.getArgument(1), b.getI64Type(), b.i64(number)), b.getI64Type(), 1);
  }
  func::FuncOp function_;

public:
  Value positions, channels, states, chunk, batch, chunks;
};

/// Registers a kernel by its name; writes it on first use.
KernelDescription scanService(KernelModule::State &state, StringRef wanted, bool packed, ArrayRef<bool> written,
                              llvm::function_ref<void(ScanKernel &)> emit) {
  const std::string name = (wanted + (packed ? "_packed" : "")).str();
  SmallVector<bool> buffers(written);
  if (packed)
    buffers.push_back(false);
  auto [d, isNew] = state.describeService(name, name, buffers);
  if (!isNew || !state.hostModule)
    return d;
  ScanKernel kernel(state, d.name, packed);
  emit(kernel);
  return d;
}

} // namespace

// A unit is a vector of channels of a sequence. Its states lie in the first cache: N vectors are more than there are
// registers.
KernelDescription KernelModule::addSelectiveScan(bool packed) {
  return scanService(
      *state_, "selective_scan", packed, {false, false, false, false, false, true, true}, [&](ScanKernel &k) {
        KernelBuilder &b = k.b;
        Value v = k.buffer(0), delta = k.buffer(1), rate = k.buffer(2), key = k.buffer(3), query = k.buffer(4),
              y = k.buffer(5), kept = k.buffer(6), starts = packed ? k.buffer(7) : Value();
        Value state = LLVM::AllocaOp::create(b, LLVM::LLVMPointerType::get(b.getContext()), b.getF32Type(),
                                             b.i64(int64_t(kMaxScanStates) * kChunk), /*alignment=*/64);
        Value vectors = arith::DivUIOp::create(b, k.channels, b.i64(kChunk)), lanes = b.i64(kChunk);
        k.forUnits([&](Value unit) {
          Value row = arith::DivUIOp::create(b, unit, vectors);
          Value channel = b.mul(b.sub(unit, b.mul(row, vectors)), lanes);
          k.forEach(k.states, [&](Value n) { k.store(k.zeros(), state, b.mul(n, lanes)); });
          k.forEach(k.chunks, [&](Value number) {
            Value before = b.mul(k.index(row, k.chunks, number), k.states);
            k.forEach(k.states, [&](Value n) {
              k.store(k.load(state, b.mul(n, lanes)), kept, k.index(b.add(before, n), k.channels, channel));
            });
            k.forEach(k.lengthOf(number), [&](Value i) {
              Value t = k.index(number, k.chunk, i), position = k.index(row, k.positions, t);
              Value own = k.index(position, k.channels, channel), shared = b.mul(position, k.states);
              Value step = k.load(delta, own), value = k.load(v, own), isStart = k.startsAt(starts, row, t);
              Values sum = b.forRange(b.i64(0), k.states, 1, {k.zeros()}, [&](Value n, Values &carried) {
                Value place = b.mul(n, lanes);
                Value factor = k.decay(step, k.load(rate, k.index(n, k.channels, channel)), isStart);
                Value added = b.mul(value, k.loadSplat(key, b.add(shared, n)));
                Value next = b.add(b.mul(factor, k.load(state, place)), added);
                k.store(next, state, place);
                carried[0] = b.add(carried[0], b.mul(next, k.loadSplat(query, b.add(shared, n))));
              });
              k.store(sum[0], y, own);
            });
          });
        });
      });
}

namespace {

/// The gradient: a unit is a group of channels of a sequence. From the last chunk to the first each vector of channels
/// computes the chunk's states again, then goes back through its positions.
class ScanGradient {
public:
  /// Buffers: v, delta, rate, b, c, states, dy, dv, ddelta, drate, db, dc, scratch, and where packed document_starts.
  explicit ScanGradient(ScanKernel &kernel)
      : k(kernel), b(kernel.b), lanes_(b.i64(kChunk)), v_(k.buffer(0)), delta_(k.buffer(1)), rate_(k.buffer(2)),
        key_(k.buffer(3)), query_(k.buffer(4)), kept_(k.buffer(5)), dy_(k.buffer(6)), dv_(k.buffer(7)),
        ddelta_(k.buffer(8)), drate_(k.buffer(9)), dkey_(k.buffer(10)), dquery_(k.buffer(11)),
        starts_(k.packed ? k.buffer(13) : Value()) {
    Value perPosition = b.mul(k.states, lanes_), perChunk = b.mul(perPosition, k.chunk);
    states_ = k.buffer(12);
    decays_ = k.at(states_, b.add(perChunk, perPosition));
    keySums_ = k.at(decays_, perChunk);
    querySums_ = k.at(keySums_, perChunk);
    cotangents_ = k.at(querySums_, perChunk);
  }

  void run() {
    Value groups = k.divideUp(k.channels, b.i64(kVirtualLanes));
    k.forUnits([&](Value unit) {
      row_ = arith::DivUIOp::create(b, unit, groups);
      group_ = b.sub(unit, b.mul(row_, groups));
      Value first = b.mul(group_, b.i64(kVirtualLanes));
      end_ = b.minimum(b.add(first, b.i64(kVirtualLanes)), k.channels);
      forVectors(first, [&](Value channel) {
        k.forEach(k.states, [&](Value n) {
          k.store(k.zeros(), drate_, rateOf(n, channel));
          k.store(k.zeros(), cotangents_, cotangentOf(n, channel));
        });
      });
      k.forEachBack(k.chunks, [&](Value number) {
        number_ = number;
        Value length = k.lengthOf(number);
        for (Value sums : {keySums_, querySums_})
          k.forEach(b.mul(length, k.states), [&](Value place) { k.store(k.zeros(), sums, b.mul(place, lanes_)); });
        forVectors(first, [&](Value channel) {
          computeStates(channel, length);
          k.forEachBack(length, [&](Value i) { goBack(channel, i); });
        });
        storeSums(length);
      });
    });
  }

private:
  void forVectors(Value first, llvm::function_ref<void(Value channel)> body) {
    b.forRange(first, end_, kChunk, {}, [&](Value channel, Values &) { body(channel); });
  }
  Value rateOf(Value n, Value channel) { return k.index(b.add(b.mul(row_, k.states), n), k.channels, channel); }
  Value cotangentOf(Value n, Value channel) {
    Value within = b.sub(channel, b.mul(group_, b.i64(kVirtualLanes)));
    return k.index(n, b.i64(kVirtualLanes), within);
  }
  /// Of position `i` of the chunk, state `n`: a vector of the scratch.
  Value placeOf(Value i, Value n) { return b.mul(k.index(i, k.states, n), lanes_); }
  Value positionOf(Value i) { return k.index(row_, k.positions, k.index(number_, k.chunk, i)); }

  void computeStates(Value channel, Value length) {
    Value before = b.mul(k.index(row_, k.chunks, number_), k.states);
    k.forEach(k.states, [&](Value n) {
      k.store(k.load(kept_, k.index(b.add(before, n), k.channels, channel)), states_, b.mul(n, lanes_));
    });
    k.forEach(length, [&](Value i) {
      Value position = positionOf(i), own = k.index(position, k.channels, channel), shared = b.mul(position, k.states);
      Value step = k.load(delta_, own), value = k.load(v_, own),
            isStart = k.startsAt(starts_, row_, k.index(number_, k.chunk, i));
      k.forEach(k.states, [&](Value n) {
        Value place = placeOf(i, n);
        Value factor = k.decay(step, k.load(rate_, k.index(n, k.channels, channel)), isStart);
        Value added = b.mul(value, k.loadSplat(key_, b.add(shared, n)));
        k.store(factor, decays_, place);
        k.store(b.add(b.mul(factor, k.load(states_, place)), added), states_, b.add(place, b.mul(k.states, lanes_)));
      });
    });
  }

  void goBack(Value channel, Value i) {
    Value position = positionOf(i), own = k.index(position, k.channels, channel), shared = b.mul(position, k.states);
    Value step = k.load(delta_, own), value = k.load(v_, own), dy = k.load(dy_, own);
    Values sums = b.forRange(b.i64(0), k.states, 1, {k.zeros(), k.zeros()}, [&](Value n, Values &carried) {
      Value place = placeOf(i, n), rate = k.load(rate_, k.index(n, k.channels, channel));
      Value factor = k.load(decays_, place), before = k.load(states_, place),
            after = k.load(states_, b.add(place, b.mul(k.states, lanes_)));
      Value held = cotangentOf(n, channel);
      Value g = b.add(k.load(cotangents_, held), b.mul(dy, k.loadSplat(query_, b.add(shared, n))));
      add(querySums_, place, b.mul(dy, after));
      add(keySums_, place, b.mul(g, value));
      Value passed = b.mul(g, factor), exponent = b.mul(passed, before);
      carried[0] = b.add(carried[0], b.mul(g, k.loadSplat(key_, b.add(shared, n))));
      carried[1] = b.add(carried[1], b.mul(exponent, rate));
      add(drate_, rateOf(n, channel), b.mul(exponent, step));
      k.store(passed, cotangents_, held);
    });
    k.store(sums[0], dv_, own);
    k.store(sums[1], ddelta_, own);
  }
  void add(Value base, Value index, Value value) { k.store(b.add(k.load(base, index), value), base, index); }

  void storeSums(Value length) {
    Value rows = b.add(b.mul(group_, k.batch), row_);
    for (auto [sums, result] : {std::pair(keySums_, dkey_), std::pair(querySums_, dquery_)})
      k.forEach(b.mul(length, k.states), [&, sums = sums, result = result](Value place) {
        Value first = k.index(rows, k.positions, b.mul(number_, k.chunk));
        b.store(k.sum(k.load(sums, b.mul(place, lanes_))), k.at(result, b.add(b.mul(first, k.states), place)));
      });
  }

  ScanKernel &k;
  KernelBuilder &b;
  Value lanes_, v_, delta_, rate_, key_, query_, kept_, dy_, dv_, ddelta_, drate_, dkey_, dquery_, starts_;
  Value states_;     ///< (chunk + 1, N, 16): before the chunk, and after each of its positions
  Value decays_;     ///< (chunk, N, 16)
  Value keySums_;    ///< (chunk, N, 16): of db, before the lanes are added up
  Value querySums_;  ///< the same of dc
  Value cotangents_; ///< (N, 64): of the states, as the position after gives them
  Value row_, group_, number_, end_;
};

} // namespace

KernelDescription KernelModule::addSelectiveScanGrad(bool packed) {
  return scanService(*state_, "selective_scan_grad", packed,
                     {false, false, false, false, false, false, false, true, true, true, true, true, true},
                     [&](ScanKernel &k) { ScanGradient(k).run(); });
}

} // namespace ztc
