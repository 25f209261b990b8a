// Selective scans on a GPU: four threads a channel, each with a quarter of its state in registers, 64 channels a block.
// See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceRows.h"
#include "runtime/Format/ScanSizes.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// What the scan and its gradient have in common: where a thread is, and its way through the states.
class DeviceScan {
public:
  using Values = BlockKernel::Values;
  static constexpr int64_t kTeam = kGpuScanTeam, kThreads = int64_t(kScanGroup) * kTeam;

  /// Buffers: v, delta, rate, b, c first; `kept`: the number of the states before chunks. Scalars: positions, channels,
  /// chunk, sequences.
  DeviceScan(BlockKernel &kernel, int64_t states, unsigned kept, std::optional<unsigned> starts)
      : k(kernel), b(kernel.b), states_(states), own_((states + kTeam - 1) / kTeam), kept_(k.buffer(kept)),
        starts_(starts ? k.buffer(*starts) : Value()), positions_(k.scalar(0)), channels_(k.scalar(1)),
        chunk_(k.scalar(2)) {
    chunks_ = divideUp(positions_, chunk_);
    Value groups = divideUp(channels_, b.i64(int64_t(kScanGroup)));
    row_ = arith::DivUIOp::create(b, k.block(), groups);
    group_ = b.sub(k.block(), b.mul(row_, groups));
    lane_ = arith::AndIOp::create(b, k.thread(), b.i64(kTeam - 1));
    Value wanted =
        b.add(b.mul(group_, b.i64(int64_t(kScanGroup))), arith::DivUIOp::create(b, k.thread(), b.i64(kTeam)));
    exists_ = b.compare(arith::CmpIPredicate::slt, wanted, channels_);
    channel_ = b.minimum(wanted, b.sub(channels_, b.i64(1)));
    for (int64_t s = 0; s < own_; ++s) {
      Value n = b.add(b.i64(s * kTeam), lane_);
      const bool isWhole = (s + 1) * kTeam <= states_;
      isState_.push_back(isWhole ? Value() : b.compare(arith::CmpIPredicate::slt, n, b.i64(states_)));
      state_.push_back(isWhole ? n : b.minimum(n, b.i64(states_ - 1)));
      rate_.push_back(number(k.buffer(2), index(state_[s], channels_, channel_)));
    }
  }

protected:
  /// What a position reads; of a thread without a channel v is 0.
  struct Position {
    Value own, v, delta, isStart;
    SmallVector<Value> keys, queries;
  };

  Value divideUp(Value a, Value by) { return arith::DivUIOp::create(b, b.sub(b.add(a, by), b.i64(1)), by); }
  Value index(Value outer, Value width, Value inner) { return b.add(b.mul(outer, width), inner); }
  Value at(Value base, Value place) { return b.address(base, b.getF32Type(), place); }
  Value number(Value base, Value place) { return b.load(at(base, place), b.getF32Type(), 1); }
  Value zero() { return b.real(b.getF32Type(), 0.0); }
  Value ifState(int64_t s, Value value) { return isState_[s] ? b.select(isState_[s], value, zero()) : value; }
  Value positionOf(Value t) { return index(row_, positions_, t); }
  /// Where number `s` of the thread's states lies among (rows, N, channels).
  Value stateOf(Value row, int64_t s) {
    return index(b.add(b.mul(row, b.i64(states_)), state_[s]), channels_, channel_);
  }
  /// The positions of chunk `number`.
  Value lengthOf(Value number) { return b.minimum(chunk_, b.sub(positions_, b.mul(number, chunk_))); }

  Position read(Value t) {
    Position p;
    Value position = positionOf(t), shared = b.mul(position, b.i64(states_));
    p.own = index(position, channels_, channel_);
    p.v = b.select(exists_, number(k.buffer(0), p.own), zero());
    p.delta = number(k.buffer(1), p.own);
    for (int64_t s = 0; s < own_; ++s) {
      p.keys.push_back(number(k.buffer(3), b.add(shared, state_[s])));
      p.queries.push_back(number(k.buffer(4), b.add(shared, state_[s])));
    }
    if (starts_) {
      Value start = b.load(b.address(starts_, b.getI32Type(), position), b.getI32Type(), 1);
      p.isStart = b.compare(arith::CmpIPredicate::eq, arith::ExtSIOp::create(b, b.getI64Type(), start), t);
    }
    return p;
  }
  Value decay(const Position &p, int64_t s) {
    Value factor = b.exp(b.mul(p.delta, rate_[s]));
    return p.isStart ? b.select(p.isStart, zero(), factor) : factor;
  }
  Value next(const Position &p, int64_t s, Value factor, Value state) {
    return b.add(b.mul(factor, state), b.mul(p.v, p.keys[s]));
  }
  /// The sum over a channel's threads.
  Value sumOfTeam(Value value) {
    for (int64_t mask = 1; mask < kTeam; mask *= 2)
      value = b.add(value, k.exchange(value, mask));
    return value;
  }
  /// One thread of the channel writes.
  void storeOfTeam(Value value, Value base, Value place) {
    Value first = b.compare(arith::CmpIPredicate::eq, lane_, b.i64(0));
    k.ifThen(arith::AndIOp::create(b, exists_, first), [&] { b.store(value, at(base, place)); });
  }
  void storeState(Value value, int64_t s, Value base, Value place) {
    Value is = isState_[s] ? Value(arith::AndIOp::create(b, exists_, isState_[s])) : exists_;
    k.ifThen(is, [&] { b.store(value, at(base, place)); });
  }
  /// What position after position of [0, count) makes of `carried`; what several of them read is on its way before the
  /// first is computed.
  Values forPositions(Value first, Value count, Values carried,
                      llvm::function_ref<void(const Position &, Value i, Values &)> body) {
    const int64_t together = own_ <= 4 ? 4 : 1;
    Value whole = b.i64(0);
    if (together > 1) {
      whole = arith::AndIOp::create(b, count, b.i64(-together));
      carried = k.forRange(b.i64(0), whole, together, carried, [&](Value i, Values &values) {
        SmallVector<Position> read;
        for (int64_t j = 0; j < together; ++j)
          read.push_back(this->read(b.add(first, b.add(i, b.i64(j)))));
        for (int64_t j = 0; j < together; ++j)
          body(read[j], b.add(i, b.i64(j)), values);
      });
    }
    return k.forRange(whole, count, 1, carried,
                      [&](Value i, Values &values) { body(read(b.add(first, i)), i, values); });
  }

  BlockKernel &k;
  KernelBuilder &b;
  const int64_t states_, own_; ///< own_: of a thread
  Value kept_, starts_, positions_, channels_, chunk_, chunks_;
  Value row_, group_, lane_, channel_, exists_; ///< channel_: of a thread without one the last
  Values isState_, state_, rate_;               ///< for each own state; isState_: null where it is
};

class DeviceScanForward : DeviceScan {
public:
  DeviceScanForward(BlockKernel &kernel, int64_t states, bool packed)
      : DeviceScan(kernel, states, 6, packed ? std::optional<unsigned>(7) : std::nullopt) {}

  void run() {
    k.forRange(b.i64(0), chunks_, 1, Values(own_, zero()), [&](Value number, Values &state) {
      for (int64_t s = 0; s < own_; ++s)
        storeState(state[s], s, kept_, stateOf(index(row_, chunks_, number), s));
      state =
          forPositions(b.mul(number, chunk_), lengthOf(number), state, [&](const Position &p, Value, Values &carried) {
            Value sum;
            for (int64_t s = 0; s < own_; ++s) {
              carried[s] = next(p, s, decay(p, s), carried[s]);
              Value term = ifState(s, b.mul(carried[s], p.queries[s]));
              sum = sum ? b.add(sum, term) : term;
            }
            storeOfTeam(sumOfTeam(sum), k.buffer(5), p.own);
          });
    });
  }
};

/// From the last chunk to the first: its states again, into scratch, then back through its positions, a turn of eight
/// at a time. Sums over channels join in shared memory at a turn's end.
class DeviceScanGradient : DeviceScan {
public:
  DeviceScanGradient(BlockKernel &kernel, int64_t states, bool packed)
      : DeviceScan(kernel, states, 5, packed ? std::optional<unsigned>(13) : std::nullopt),
        shared_(k.shared(kTurn * 2 * kWarps * kTeam * own_ * 4)) {}

  void run() {
    Values carried = k.forRange(b.i64(0), chunks_, 1, Values(2 * own_, zero()), [&](Value turn, Values &values) {
      Value number = b.sub(b.sub(chunks_, b.i64(1)), turn);
      computeStates(number);
      Value length = lengthOf(number), turns = divideUp(length, b.i64(kTurn));
      values = k.forRange(b.i64(0), turns, 1, values, [&](Value inner, Values &own) {
        Value low = b.mul(b.sub(b.sub(turns, b.i64(1)), inner), b.i64(kTurn));
        Value high = b.minimum(length, b.add(low, b.i64(kTurn)));
        own = k.forRange(b.i64(0), b.sub(high, low), 1, own,
                         [&](Value step, Values &at) { goBack(number, b.sub(b.sub(high, b.i64(1)), step), low, at); });
        k.barrier();
        storeSums(b.add(b.mul(number, chunk_), low), b.sub(high, low));
        k.barrier();
      });
    });
    for (int64_t s = 0; s < own_; ++s)
      storeState(carried[own_ + s], s, k.buffer(9), stateOf(row_, s));
  }

private:
  static constexpr int64_t kTurn = int64_t(kScanTurn), kWarps = kThreads / kWarp;

  /// Of position `i` of a chunk: threads side by side lie side by side, those without a channel too.
  Value scratchOf(Value i, int64_t s) {
    Value position = index(k.block(), chunk_, i);
    return at(k.buffer(12), index(b.add(b.mul(position, b.i64(own_)), b.i64(s)), b.i64(kThreads), k.thread()));
  }

  void computeStates(Value number) {
    Values state;
    for (int64_t s = 0; s < own_; ++s)
      state.push_back(this->number(kept_, stateOf(index(row_, chunks_, number), s)));
    forPositions(b.mul(number, chunk_), lengthOf(number), state, [&](const Position &p, Value i, Values &carried) {
      for (int64_t s = 0; s < own_; ++s) {
        b.store(carried[s], scratchOf(i, s));
        carried[s] = next(p, s, decay(p, s), carried[s]);
      }
    });
  }

  /// `carried`: of each own state the cotangent that the position after gives, then the sum of what goes to its rate.
  void goBack(Value number, Value i, Value low, Values &carried) {
    const Position p = read(b.add(b.mul(number, chunk_), i));
    Value dy = b.select(exists_, this->number(k.buffer(6), p.own), zero()), dv = zero(), ddelta = zero();
    Value row = b.mul(b.sub(i, low), b.i64(2));
    for (int64_t s = 0; s < own_; ++s) {
      Value before = b.load(scratchOf(i, s), b.getF32Type(), 1), factor = decay(p, s);
      Value g = b.add(carried[s], b.mul(dy, p.queries[s])), passed = b.mul(g, factor), exponent = b.mul(passed, before);
      dv = b.add(dv, ifState(s, b.mul(g, p.keys[s])));
      ddelta = b.add(ddelta, ifState(s, b.mul(exponent, rate_[s])));
      carried[s] = passed;
      carried[own_ + s] = b.add(carried[own_ + s], b.mul(exponent, p.delta));
      noteSum(b.mul(g, p.v), row, s);
      noteSum(b.mul(dy, next(p, s, factor, before)), b.add(row, b.i64(1)), s);
    }
    storeOfTeam(sumOfTeam(dv), k.buffer(7), p.own);
    storeOfTeam(sumOfTeam(ddelta), k.buffer(8), p.own);
  }

  /// The sum over a warp's channels, into shared memory (rows, warps, states).
  void noteSum(Value value, Value row, int64_t s) {
    for (int64_t mask = kTeam; mask < kWarp; mask *= 2)
      value = b.add(value, k.exchange(value, mask));
    Value lane = arith::AndIOp::create(b, k.thread(), b.i64(kWarp - 1)),
          warp = arith::DivUIOp::create(b, k.thread(), b.i64(kWarp));
    Value place = index(index(row, b.i64(kWarps), warp), b.i64(kTeam * own_), b.add(b.i64(s * kTeam), lane));
    k.ifThen(b.compare(arith::CmpIPredicate::slt, lane, b.i64(kTeam)), [&] { b.store(value, at(shared_, place)); });
  }

  /// The sums over warps, of `count` positions from `first` on.
  void storeSums(Value first, Value count) {
    const int64_t width = kTeam * own_;
    Value rows = index(group_, k.scalar(3), row_);
    k.forRange(k.thread(), b.mul(count, b.i64(2 * width)), kThreads, [&](Value item) {
      Value row = arith::DivUIOp::create(b, item, b.i64(width)), n = b.sub(item, b.mul(row, b.i64(width)));
      Value sum;
      for (int64_t warp = 0; warp < kWarps; ++warp) {
        Value part = number(shared_, b.add(b.mul(row, b.i64(kWarps * width)), b.add(b.i64(warp * width), n)));
        sum = sum ? b.add(sum, part) : part;
      }
      Value t = b.add(first, arith::ShRUIOp::create(b, row, b.i64(1)));
      Value place = index(index(rows, positions_, t), b.i64(states_), n);
      Value ofKey = b.compare(arith::CmpIPredicate::eq, arith::AndIOp::create(b, row, b.i64(1)), b.i64(0));
      k.ifThen(b.compare(arith::CmpIPredicate::slt, n, b.i64(states_)), [&] {
        k.ifElse(ofKey, [&] { b.store(sum, at(k.buffer(10), place)); }, [&] { b.store(sum, at(k.buffer(11), place)); });
      });
    });
  }

  Value shared_;
};

} // namespace

KernelDescription KernelModule::addGpuSelectiveScan(bool grad, int64_t states, bool packed) {
  const std::string name =
      ("gpu_selective_scan" + Twine(grad ? "_grad_" : "_") + Twine(states) + (packed ? "_packed" : "")).str();
  SmallVector<bool> written(grad ? 13 : 7, false);
  for (size_t i = grad ? 7 : 5; i < written.size(); ++i)
    written[i] = true;
  if (packed)
    written.push_back(false);
  return deviceService(*state_, name, written, 4, DeviceScan::kThreads, 1, [&](BlockKernel &k) {
    k.blocksTogether = grad && states > 32 ? 1 : 2; // the gradient of longer states takes more than 128 registers
    if (grad)
      DeviceScanGradient(k, states, packed).run();
    else
      DeviceScanForward(k, states, packed).run();
  });
}

} // namespace ztc
