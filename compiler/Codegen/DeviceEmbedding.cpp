// Rows of a table by index on a GPU: the embedding and its gradient. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include <numeric>

using namespace mlir;

namespace ztc {
using namespace codegen;

/// An index of a row, i32 in memory; a position whose index is not below `rows` is noted in the word at `fault`, as
/// (position + 1) * 2^32 + the index. Returns the index (i64) and whether it is good.
static std::pair<Value, Value> loadIndex(BlockKernel &k, Value indices, Value position, Value rows) {
  KernelBuilder &b = k.b;
  Value narrow = b.load(b.address(indices, b.getI32Type(), position), b.getI32Type(), 1);
  Value index = arith::ExtUIOp::create(b, b.getI64Type(), narrow);
  return {index, b.compare(arith::CmpIPredicate::ult, index, rows)};
}

static void noteFault(BlockKernel &k, Value fault, Value position, Value index) {
  KernelBuilder &b = k.b;
  Value high = arith::ShLIOp::create(b, b.add(position, b.i64(1)), b.i64(32));
  b.store(arith::OrIOp::create(b, high, index), fault);
}

// A warp copies a row, 16 bytes a lane where rows are multiples of that.
KernelDescription KernelModule::addGpuGather(int64_t rowBytes) {
  constexpr int64_t threads = 128, warps = threads / kWarp;
  int64_t bytes = std::gcd(rowBytes, kVectorBytes);
  return deviceService(*state_, "gpu_gather_" + std::to_string(bytes), {false, false, true, true}, 2, threads, warps,
                       [&](BlockKernel &k) {
                         KernelBuilder &b = k.b;
                         Type element = b.getIntegerType(std::min<int64_t>(bytes, 4) * 8);
                         int64_t lanes = std::max<int64_t>(bytes / 4, 1);
                         Value table = k.buffer(0), indices = k.buffer(1), result = k.buffer(2), fault = k.buffer(3);
                         Value pieces = k.scalar(0), rows = k.scalar(1), thread = k.thread();
                         Value lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1));
                         Value row = b.add(b.mul(k.block(), b.i64(warps)), arith::ShRUIOp::create(b, thread, b.i64(5)));
                         k.ifThen(b.compare(arith::CmpIPredicate::slt, row, k.extent()), [&] {
                           auto [index, good] = loadIndex(k, indices, row, rows);
                           Value from = b.mul(index, pieces), to = b.mul(row, pieces),
                                 end = b.select(good, pieces, b.i64(0));
                           k.forRange(lane, end, kWarp, [&](Value piece) {
                             auto at = [&](Value base, Value first) {
                               return b.address(base, element, b.mul(b.add(first, piece), b.i64(lanes)));
                             };
                             b.store(b.load(at(table, from), element, lanes, bytes), at(result, to), bytes);
                           });
                           Value isWrong = b.compare(arith::CmpIPredicate::uge, index, rows);
                           k.ifThen(isWrong, [&] { noteFault(k, fault, row, index); });
                         });
                       });
}

} // namespace ztc
