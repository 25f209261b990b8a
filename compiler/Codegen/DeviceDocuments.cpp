// Where the documents of packed rows lie, for a library that takes each for a sequence of its own. See
// runtime/Format/ServiceKernels.md; the table is DocumentTable of runtime/Format/CudnnAttention.h.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

constexpr int64_t kThreads = 256, kWarps = kThreads / kWarp;

/// A block per row.
class DocumentTableKernel {
public:
  explicit DocumentTableKernel(BlockKernel &k)
      : k(k), b(k.b), i32(k.b.getI32Type()), seq(k.scalar(0)), most(k.scalar(1)), thread(k.thread()) {
    Value four = b.i64(4);
    stride = b.mul(b.add(arith::DivUIOp::create(b, most, four), b.i64(1)), four);
    table = b.mul(b.mul(k.block(), stride), four);
    lane = arith::AndIOp::create(b, thread, b.i64(kWarp - 1));
    warp = arith::ShRUIOp::create(b, thread, b.i64(5));
    counts = k.shared(kWarps * 4);
  }

  void emit() {
    Value count = noteStarts();
    // Those that are not there begin where the row ends.
    forEach(b.add(most, b.i64(1)), [&](Value document) {
      k.ifThen(b.compare(arith::CmpIPredicate::sge, document, count), [&] { noteStart(document, seq); });
    });
    k.barrier();
    forEach(most, [&](Value document) {
      Value end = b.load(place(3, b.add(document, b.i64(1))), i32, 1), begin = b.load(place(3, document), i32, 1);
      b.store(b.sub(end, begin), place(0, document));
    });
  }

private:
  void forEach(Value count, llvm::function_ref<void(Value)> body) {
    k.forRange(thread, count, kThreads, [&](Value number) { body(number); });
  }
  /// Where number `document` of one of the four arrays stands.
  Value place(int64_t array, Value document) {
    Value first = b.add(table, b.mul(stride, b.i64(array)));
    return b.address(k.buffer(1), i32, b.add(first, document));
  }
  Value narrow(Value number) { return arith::TruncIOp::create(b, i32, number); }

  void noteStart(Value document, Value position) {
    b.store(narrow(b.mul(position, k.scalar(2))), place(1, document));
    b.store(narrow(b.mul(position, k.scalar(3))), place(2, document));
    b.store(narrow(position), place(3, document));
  }

  /// Notes the first `most` documents, and returns how many there are.
  Value noteStarts() {
    Value turns = arith::DivUIOp::create(b, b.add(seq, b.i64(kThreads - 1)), b.i64(kThreads));
    return k.forRange(b.i64(0), turns, 1, {b.i64(0)}, [&](Value turn, BlockKernel::Values &before) {
      Value position = b.add(b.mul(turn, b.i64(kThreads)), thread);
      Value begins = k.choose(
          b.compare(arith::CmpIPredicate::slt, position, seq),
          [&]() -> Value {
            Value at = b.add(b.mul(k.block(), seq), position);
            return b.compare(arith::CmpIPredicate::eq, b.load(b.address(k.buffer(0), i32, at), i32, 1),
                             narrow(position));
          },
          [&] { return b.integer(b.getI1Type(), 0); });
      Value bits = k.ballot(begins), one = b.integer(i32, 1);
      Value lower = b.sub(arith::ShLIOp::create(b, one, narrow(lane)), one);
      k.ifThen(b.compare(arith::CmpIPredicate::eq, lane, b.i64(0)),
               [&] { b.store(ones(bits), b.address(counts, i32, warp)); });
      k.barrier();
      Value document = b.add(before[0], wide(ones(arith::AndIOp::create(b, bits, lower)))), all = before[0];
      for (int64_t i = 0; i < kWarps; ++i) {
        Value ofWarp = wide(b.load(b.address(counts, i32, b.i64(i)), i32, 1));
        Value isEarlier = b.compare(arith::CmpIPredicate::slt, b.i64(i), warp);
        document = b.add(document, b.select(isEarlier, ofWarp, b.i64(0)));
        all = b.add(all, ofWarp);
      }
      k.barrier(); // the counts are free again
      Value fits = b.compare(arith::CmpIPredicate::slt, document, most);
      k.ifThen(arith::AndIOp::create(b, begins, fits), [&] { noteStart(document, position); });
      before[0] = all;
    })[0];
  }

  Value ones(Value bits) { return LLVM::CtPopOp::create(b, i32, bits); }
  Value wide(Value number) { return arith::ExtUIOp::create(b, b.getI64Type(), number); }

  BlockKernel &k;
  KernelBuilder &b;
  const Type i32;
  Value seq, most, thread, stride, table, lane, warp, counts;
};

} // namespace

KernelDescription KernelModule::addGpuDocumentTable() {
  return deviceService(*state_, "gpu_document_table", {false, true}, /*scalars=*/4, kThreads, /*unitsPerBlock=*/1,
                       [](BlockKernel &k) { DocumentTableKernel(k).emit(); });
}

} // namespace ztc
