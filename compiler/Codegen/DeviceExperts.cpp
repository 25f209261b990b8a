// Choices of experts on a GPU: their order, and the sums of what comes back. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/DeviceRows.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "runtime/Format/ExpertKernels.h"
#include <numeric>

using namespace mlir;

namespace ztc {
using namespace codegen;

Value codegen::fromLane(KernelBuilder &b, Value value, Value lane) {
  Type i32 = b.getI32Type();
  return NVVM::ShflOp::create(b, i32, b.integer(i32, -1), value, lane, b.integer(i32, kWarp - 1), NVVM::ShflKind::idx,
                              UnitAttr());
}

Value codegen::sumToLane(KernelBuilder &b, Value value, Value lane) {
  Type i32 = b.getI32Type();
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    Value other = NVVM::ShflOp::create(b, i32, b.integer(i32, -1), value, b.integer(i32, distance), b.integer(i32, 0),
                                       NVVM::ShflKind::up, UnitAttr());
    Value hasOther = b.compare(arith::CmpIPredicate::uge, lane, b.integer(i32, distance));
    value = b.add(value, b.select(hasOther, other, b.integer(i32, 0)));
  }
  return value;
}

void codegen::syncWarp(KernelBuilder &b) {
  NVVM::SyncWarpOp::create(b, b.integer(b.getI32Type(), -1));
}

Value codegen::countBits(KernelBuilder &b, Value bits) {
  return LLVM::CtPopOp::create(b, bits.getType(), bits);
}

Value codegen::lowestBit(KernelBuilder &b, Value bits) {
  return LLVM::CountTrailingZerosOp::create(b, bits.getType(), bits, /*is_zero_poison=*/false);
}

namespace {

/// A stable counting sort of a block's choices. A warp has a stretch of them, of which its lanes look at 32 at a time:
/// those with the same expert are found by ballots on its bits, so that no lane adds to a counter in turn.
class RouteEmitter {
public:
  static constexpr int64_t kThreads = 256, kWarps = kThreads / kWarp;

  /// Buffers: choices first. Scalars: choices, experts, bits of an expert's number.
  explicit RouteEmitter(BlockKernel &kernel) : k(kernel), b(kernel.b) {
    thread_ = arith::TruncIOp::create(b, i32_, k.thread());
    lane_ = arith::AndIOp::create(b, thread_, i32(kWarp - 1));
    warp_ = arith::ShRUIOp::create(b, thread_, i32(5));
    counters_ = k.shared(kWarps * kExperts * 4);
    experts_ = arith::TruncIOp::create(b, i32_, k.scalar(1));
  }

  /// Afterwards the counters of a warp say how many of its choices each expert has.
  void count() {
    k.forRange(k.thread(), b.i64(kWarps * kExperts), kThreads,
               [&](Value number) { b.store(i32(0), b.address(counters_, i32_, number)); });
    k.barrier();
    forChoices([&](const Choice &choice) {
      k.ifThen(choice.isFirst, [&] {
        Value counter = counterOf(warp_, choice.expert);
        b.store(b.add(loadNumber(counter), countBits(b, choice.equals)), counter);
      });
      syncWarp(b);
    });
    k.barrier();
  }

  /// Into the block's row of counts, which has a number an expert.
  void storeCounts(Value counts) {
    Value first = b.mul(k.block(), k.scalar(1));
    k.forRange(k.thread(), k.scalar(1), kThreads, [&](Value expert) {
      Value sum = i32(0);
      for (int64_t warp = 0; warp < kWarps; ++warp)
        sum = b.add(sum, loadNumber(counterOf(i32(warp), expert)));
      b.store(sum, b.address(counts, i32_, b.add(first, expert)));
    });
  }

  /// The counters become, of each warp and expert, the row of its first choice. Block 0 writes where experts begin.
  void findRows(Value counts, Value starts) {
    Value isAlone = b.compare(arith::CmpIPredicate::sle, k.extent(), b.i64(1));
    Value otherBlocks = b.select(isAlone, b.i64(0), k.extent());
    Value first = b.mul(thread_, i32(kOwn)), sum = i32(0);
    SmallVector<Value> own, totals, before;
    for (int64_t i = 0; i < kOwn; ++i) {
      own.push_back(b.add(first, i32(i)));
      Value here = i32(0);
      for (int64_t warp = 0; warp < kWarps; ++warp)
        here = b.add(here, loadNumber(counterOf(i32(warp), own[i])));
      // Experts that there are not have no block to look at, and nothing here.
      Value end = b.select(b.compare(arith::CmpIPredicate::slt, own[i], experts_), otherBlocks, b.i64(0));
      Value expert = arith::ExtUIOp::create(b, b.getI64Type(), own[i]);
      auto sums = k.forRange(b.i64(0), end, 1, {i32(0), i32(0)}, [&](Value block, BlockKernel::Values &carried) {
        Value number = loadNumber(b.address(counts, i32_, b.add(b.mul(block, k.scalar(1)), expert)));
        Value isBefore = b.compare(arith::CmpIPredicate::slt, block, k.block());
        carried[0] = b.add(carried[0], number);
        carried[1] = b.add(carried[1], b.select(isBefore, number, i32(0)));
      });
      totals.push_back(b.select(isAlone, here, sums[0]));
      before.push_back(sums[1]);
      sum = b.add(sum, totals[i]);
    }
    Value row = b.sub(sumToThread(sum), sum);
    for (int64_t i = 0; i < kOwn; ++i) {
      k.ifThen(b.compare(arith::CmpIPredicate::slt, own[i], experts_), [&] {
        Value isBlock0 = b.compare(arith::CmpIPredicate::eq, k.block(), b.i64(0));
        k.ifThen(isBlock0, [&] { b.store(row, b.address(starts, i32_, own[i])); });
        Value next = b.add(row, before[i]);
        for (int64_t warp = 0; warp < kWarps; ++warp) {
          Value counter = counterOf(i32(warp), own[i]), number = loadNumber(counter);
          b.store(next, counter);
          next = b.add(next, number);
        }
      });
      row = b.add(row, totals[i]);
    }
    Value isFirst = arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::eq, k.block(), b.i64(0)),
                                          b.compare(arith::CmpIPredicate::eq, thread_, i32(0)));
    k.ifThen(isFirst,
             [&] { b.store(arith::TruncIOp::create(b, i32_, k.scalar(0)), b.address(starts, i32_, experts_)); });
    k.barrier();
  }

  void storePlaces(Value places) {
    forChoices([&](const Choice &choice) {
      Value counter = counterOf(warp_, choice.expert), row = loadNumber(counter);
      Value earlier = b.sub(arith::ShLIOp::create(b, i32(1), lane_), i32(1));
      k.ifThen(choice.exists, [&] {
        Value place = b.add(row, countBits(b, arith::AndIOp::create(b, choice.equals, earlier)));
        b.store(place, b.address(places, i32_, choice.number));
      });
      syncWarp(b);
      k.ifThen(choice.isFirst, [&] { b.store(b.add(row, countBits(b, choice.equals)), counter); });
      syncWarp(b);
    });
  }

private:
  static constexpr int64_t kExperts = kMaxGpuExperts, kOwn = kExperts / kThreads;

  struct Choice {
    Value number, exists; ///< i64; lanes past the last choice have none
    Value expert;         ///< i32
    Value equals;         ///< i32: a bit for each lane whose choice has this expert
    Value isFirst;        ///< the first of these lanes
  };

  Value i32(int64_t value) { return b.integer(i32_, value); }
  Value loadNumber(Value address) { return b.load(address, i32_, 1); }
  Value counterOf(Value warp, Value expert) {
    if (!expert.getType().isInteger(32))
      expert = arith::TruncIOp::create(b, i32_, expert);
    return b.address(counters_, i32_, b.add(b.mul(warp, i32(kExperts)), expert));
  }

  void forChoices(llvm::function_ref<void(const Choice &)> body) {
    constexpr int64_t perWarp = kGpuRouteChoices / kWarps;
    Value first = b.add(b.mul(k.block(), b.i64(kGpuRouteChoices)),
                        arith::ExtUIOp::create(b, b.getI64Type(), b.add(b.mul(warp_, i32(perWarp)), lane_)));
    k.forRange(b.i64(0), b.i64(perWarp), kWarp, [&](Value turn) {
      Choice choice;
      choice.number = b.add(first, turn);
      choice.exists = b.compare(arith::CmpIPredicate::slt, choice.number, k.scalar(0));
      Value chosen = k.choose(
          choice.exists, [&] { return loadNumber(b.address(k.buffer(0), i32_, choice.number)); },
          [&] { return i32(0); });
      choice.expert = b.maximum(b.minimum(chosen, b.sub(experts_, i32(1))), i32(0));
      Value bits = arith::TruncIOp::create(b, i32_, k.scalar(2));
      choice.equals =
          k.forRange(i32(0), bits, 1, {k.ballot(choice.exists)}, [&](Value bit, BlockKernel::Values &carried) {
            Value isSet = arith::TruncIOp::create(b, b.getI1Type(), arith::ShRUIOp::create(b, choice.expert, bit));
            Value with = k.ballot(isSet), without = arith::XOrIOp::create(b, with, i32(-1));
            carried[0] = arith::AndIOp::create(b, carried[0], b.select(isSet, with, without));
          })[0];
      choice.isFirst = arith::AndIOp::create(b, choice.exists,
                                             b.compare(arith::CmpIPredicate::eq, lowestBit(b, choice.equals), lane_));
      body(choice);
    });
  }

  /// The sum of an i32 over this thread and those before it.
  Value sumToThread(Value value) {
    Value words = k.shared(kWarps * 4), sum = sumToLane(b, value, lane_);
    k.ifThen(b.compare(arith::CmpIPredicate::eq, lane_, i32(kWarp - 1)),
             [&] { b.store(sum, b.address(words, i32_, warp_)); });
    k.barrier();
    for (int64_t warp = 0; warp + 1 < kWarps; ++warp) {
      Value isEarlier = b.compare(arith::CmpIPredicate::sgt, warp_, i32(warp));
      sum = b.add(sum, b.select(isEarlier, loadNumber(b.address(words, i32_, i32(warp))), i32(0)));
    }
    return sum;
  }

  BlockKernel &k;
  KernelBuilder &b;
  Type i32_ = b.getI32Type();
  Value thread_, lane_, warp_, counters_, experts_;
};

} // namespace

// Blocks count, and leave the counts where the order will be; each adds up those of blocks before its own. The order
// is then written over them.
std::vector<KernelDescription> KernelModule::addGpuRoute() {
  constexpr int64_t threads = RouteEmitter::kThreads;
  return {deviceService(*state_, "gpu_route_count", {false, true}, 3, threads, 1,
                        [&](BlockKernel &k) {
                          RouteEmitter route(k);
                          route.count();
                          route.storeCounts(k.buffer(1));
                        }),
          deviceService(*state_, "gpu_route_places", {false, false, true, true}, 3, threads, 1,
                        [&](BlockKernel &k) {
                          RouteEmitter route(k);
                          route.count();
                          route.findRows(k.buffer(1), k.buffer(3));
                          route.storePlaces(k.buffer(2));
                        }),
          deviceService(*state_, "gpu_route_order", {false, true}, 0, threads, threads, [&](BlockKernel &k) {
            KernelBuilder &b = k.b;
            Type i32 = b.getI32Type();
            Value choice = b.add(b.mul(k.block(), b.i64(threads)), k.thread());
            k.ifThen(b.compare(arith::CmpIPredicate::slt, choice, k.extent()), [&] {
              Value row = b.load(b.address(k.buffer(0), i32, choice), i32, 1);
              b.store(arith::TruncIOp::create(b, i32, choice), b.address(k.buffer(1), i32, row));
            });
          })};
}

// A warp adds up the rows of a token, 16 bytes a lane where rows are multiples of that; four rows are on their way at a
// time. In place of a row that there is not, which ends the run, the first one is read: no load waits for a branch.
KernelDescription KernelModule::addGpuCombine(int64_t width, Type type) {
  constexpr int64_t threads = 128, warps = threads / kWarp, together = 4;
  int64_t bytes = storedBytes(type), lanes = std::gcd(width, kVectorBytes / bytes);
  std::string name = ("gpu_combine" + typeSuffix(type) + "_" + Twine(lanes)).str();
  return deviceService(*state_, name, {false, false, true, true}, 3, threads, warps, [&](BlockKernel &k) {
    KernelBuilder &b = k.b;
    Type element = b.element(type);
    Value x = k.buffer(0), places = k.buffer(1), result = k.buffer(2), fault = k.buffer(3);
    Value pieces = k.scalar(0), choices = k.scalar(1), rows = k.scalar(2), thread = k.thread();
    Value lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1));
    Value token = b.add(b.mul(k.block(), b.i64(warps)), arith::ShRUIOp::create(b, thread, b.i64(5)));
    k.ifThen(b.compare(arith::CmpIPredicate::slt, token, k.extent()), [&] {
      Value first = b.mul(token, choices), zero = b.real(KernelBuilder::shaped(lanes, b.getF32Type()), 0.0);
      k.forRange(lane, choices, kWarp, [&](Value choice) {
        auto [row, good] = loadIndex(k, places, b.add(first, choice), rows);
        Value isWrong = arith::XOrIOp::create(b, good, b.integer(b.getI1Type(), 1));
        k.ifThen(isWrong, [&, row = row] { noteFault(k, fault, b.add(first, choice), row); });
      });
      auto at = [&](Value base, Value row, Value piece) {
        return b.address(base, element, b.mul(b.add(b.mul(row, pieces), piece), b.i64(lanes)));
      };
      auto rowOf = [&](Value choice, Value piece) {
        auto [row, good] = loadIndex(k, places, b.add(first, choice), rows);
        return b.load(at(x, b.select(good, row, b.i64(0)), piece), element, lanes, lanes * bytes);
      };
      k.forRange(lane, pieces, kWarp, [&](Value piece) {
        Value whole = b.sub(choices, arith::AndIOp::create(b, choices, b.i64(together - 1)));
        BlockKernel::Values sum = k.forRange(b.i64(0), whole, together, {zero}, [&](Value choice, auto &carried) {
          SmallVector<Value> loaded;
          for (int64_t i = 0; i < together; ++i)
            loaded.push_back(rowOf(b.add(choice, b.i64(i)), piece));
          for (Value row : loaded)
            carried[0] = b.add(carried[0], row);
        });
        sum = k.forRange(whole, choices, 1, sum,
                         [&](Value choice, auto &carried) { carried[0] = b.add(carried[0], rowOf(choice, piece)); });
        b.store(b.convertReal(sum[0], element), at(result, token, piece), element, lanes * bytes);
      });
    });
  });
}

} // namespace ztc
