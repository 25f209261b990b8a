// The fp8 codes of a matrix on a GPU. See runtime/Format/ServiceKernels.md; the arithmetic is that of
// runtime/Core/Fp8.h, bit for bit.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "runtime/Core/Fp8.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// `kLanes`: elements that a thread reads at once when it looks for the largest.
constexpr int64_t kThreads = 256, kLanes = 8;
constexpr auto kTile = int64_t(kFp8Tile);

class Fp8Kernel {
public:
  Fp8Kernel(BlockKernel &k, Type element)
      : k(k), b(k.b), i32(k.b.getI32Type()), f32(k.b.getF32Type()), element(element) {}

  /// The largest magnitude of every `parts`-th stretch of the matrix, as bits: those of numbers that are not negative
  /// order as the numbers do, NaN after all others.
  void emitMaxima() {
    Value pieces = k.scalar(0), parts = k.scalar(1), first = b.add(b.mul(k.block(), b.i64(kThreads)), k.thread());
    Value stride = b.mul(parts, b.i64(kThreads));
    Value turns = arith::DivUIOp::create(b, b.add(pieces, b.sub(stride, b.i64(1))), stride);
    auto vector = VectorType::get({kLanes}, i32);
    Value none = b.integer(vector, 0), magnitude = b.integer(vector, 0x7fffffff);
    auto found = k.forRange(b.i64(0), turns, 1, {none}, [&](Value turn, BlockKernel::Values &largest) {
      Value piece = b.add(first, b.mul(turn, stride));
      Value seen = k.choose(
          b.compare(arith::CmpIPredicate::slt, piece, pieces),
          [&]() -> Value {
            Value at = b.address(k.buffer(0), element, b.mul(piece, b.i64(kLanes)));
            Value bits = b.bitcast(b.load(at, element, kLanes, kVectorBytes), i32);
            return arith::AndIOp::create(b, bits, magnitude);
          },
          [&] { return none; });
      largest[0] = b.maximum(largest[0], seen);
    });
    Value largest = lane(found[0], 0);
    for (int64_t i = 1; i < kLanes; ++i)
      largest = b.maximum(largest, lane(found[0], i));
    largest = overBlock(largest);
    k.ifThen(isFirst(k.thread()), [&] { b.store(largest, b.address(k.buffer(1), i32, k.block())); });
  }

  /// A thread takes kTile rows of one column: neighbours read neighbours, and write a vector each of the transposed
  /// matrix.
  void emitCodes(Fp8Format format, bool byRows, bool byColumns) {
    Value rows = k.scalar(0), columns = k.scalar(1), parts = k.scalar(2);
    Value scale = scaleOf(format, parts);
    Value unit = b.add(b.mul(k.block(), b.i64(kThreads)), k.thread());
    k.ifThen(b.compare(arith::CmpIPredicate::slt, unit, k.extent()), [&] {
      Value band = arith::DivUIOp::create(b, unit, columns), column = b.sub(unit, b.mul(band, columns));
      Value row = b.mul(band, b.i64(kTile));
      SmallVector<Value> words(kTile / 4, b.integer(i32, 0));
      SmallVector<Value> numbers;
      for (int64_t r = 0; r < kTile; ++r)
        numbers.push_back(b.load(b.address(k.buffer(0), element, at(row, r, columns, column)), element, 1));
      for (int64_t r = 0; r < kTile; ++r) {
        Value code = encode(b.mul(numbers[r], scale), format);
        if (byRows)
          b.store(arith::TruncIOp::create(b, b.getI8Type(), code),
                  b.address(k.buffer(3), b.getI8Type(), at(row, r, columns, column)));
        words[r / 4] = arith::OrIOp::create(b, words[r / 4], shiftLeft(code, 8 * (r % 4)));
      }
      if (!byColumns)
        return;
      Value whole = LLVM::PoisonOp::create(b, VectorType::get({kTile / 4}, i32));
      for (auto [index, word] : llvm::enumerate(words))
        whole = LLVM::InsertElementOp::create(b, whole, word, b.integer(i32, index));
      b.store(whole, b.address(k.buffer(byRows ? 4 : 3), b.getI8Type(), b.add(b.mul(column, rows), row)), kVectorBytes);
    });
  }

private:
  static constexpr int64_t kWarps = kThreads / kWarp;

  Value lane(Value vector, int64_t index) { return LLVM::ExtractElementOp::create(b, vector, b.integer(i32, index)); }
  Value isFirst(Value number) { return b.compare(arith::CmpIPredicate::eq, number, b.i64(0)); }
  Value shiftLeft(Value x, int64_t bits) {
    return bits ? arith::ShLIOp::create(b, x, b.integer(i32, bits)).getResult() : x;
  }
  Value shiftRight(Value x, int64_t bits) { return arith::ShRUIOp::create(b, x, b.integer(i32, bits)); }
  Value masked(Value x, int64_t mask) { return arith::AndIOp::create(b, x, b.integer(i32, mask)); }
  Value at(Value row, int64_t r, Value columns, Value column) {
    return b.add(b.mul(b.add(row, b.i64(r)), columns), column);
  }

  /// The maximum of all threads' numbers, i32, in every thread.
  Value overBlock(Value own) {
    for (int64_t mask = 1; mask < kWarp; mask *= 2)
      own = b.maximum(own, k.exchange(own, mask));
    Value shared = k.shared(kWarps * 4), inWarp = arith::AndIOp::create(b, k.thread(), b.i64(kWarp - 1));
    Value warp = arith::ShRUIOp::create(b, k.thread(), b.i64(5));
    k.ifThen(isFirst(inWarp), [&] { b.store(own, b.address(shared, i32, warp)); });
    k.barrier();
    Value all = b.load(b.address(shared, i32, arith::AndIOp::create(b, inWarp, b.i64(kWarps - 1))), i32, 1);
    for (int64_t mask = 1; mask < kWarps; mask *= 2)
      all = b.maximum(all, k.exchange(all, mask));
    return all;
  }

  /// What fp8Scale says of the largest of all parts; the first block writes it. Each block finds it for itself:
  /// kFp8Partials numbers are in the cache.
  Value scaleOf(Fp8Format format, Value parts) {
    Value largest = b.integer(i32, 0);
    for (int64_t first = 0; first < int64_t(kFp8Partials); first += kThreads) {
      Value part = b.add(k.thread(), b.i64(first));
      Value seen = k.choose(
          b.compare(arith::CmpIPredicate::slt, part, parts),
          [&] { return b.load(b.address(k.buffer(2), i32, part), i32, 1); }, [&] { return b.integer(i32, 0); });
      largest = b.maximum(largest, seen);
    }
    Value magnitude = b.bitcast(overBlock(largest), f32);
    Value isTiny = b.compare(arith::CmpFPredicate::OLT, magnitude, b.real(f32, kSmallestFp8Range));
    Value scale =
        b.select(isTiny, b.real(f32, fp8Scale(0, format).scale), b.div(b.real(f32, largestFp8(format)), magnitude));
    k.ifThen(isFirst(b.add(k.block(), k.thread())), [&] {
      b.store(scale, b.address(k.buffer(1), f32, b.i64(0)));
      b.store(b.div(b.real(f32, 1), scale), b.address(k.buffer(1), f32, b.i64(1)));
    });
    return scale;
  }

  /// toFp8 of an f32: i32, the code in the lowest byte.
  Value encode(Value number, Fp8Format format) {
    const bool isE4m3 = format == Fp8Format::E4m3;
    const int64_t dropped = isE4m3 ? 20 : 21, rebias = int64_t(isE4m3 ? 127 - 7 : 127 - 15) << 23;
    const float anchor = isE4m3 ? 0x1p14f : 0x1p7f;
    Value bits = b.bitcast(number, i32), magnitude = masked(bits, 0x7fffffff);
    Value limited = b.minimum(magnitude, bitsOf(largestFp8(format)));
    Value odd = masked(shiftRight(limited, dropped), 1);
    Value rounded =
        shiftRight(b.add(b.add(limited, b.integer(i32, (int64_t(1) << (dropped - 1)) - 1 - rebias)), odd), dropped);
    Value small = b.sub(b.bitcast(b.add(b.bitcast(limited, f32), b.real(f32, anchor)), i32), bitsOf(anchor));
    Value isSmall = b.compare(arith::CmpIPredicate::slt, limited, bitsOf(isE4m3 ? 0x1p-6f : 0x1p-14f));
    Value isNan = b.compare(arith::CmpIPredicate::sgt, magnitude, b.integer(i32, 0x7f800000));
    Value code = b.select(isNan, b.integer(i32, 0x7f), b.select(isSmall, small, rounded));
    return arith::OrIOp::create(b, code, masked(shiftRight(bits, 24), 0x80));
  }
  Value bitsOf(float number) { return b.integer(i32, std::bit_cast<int32_t>(number)); }

  BlockKernel &k;
  KernelBuilder &b;
  const Type i32, f32, element;
};

} // namespace

KernelDescription KernelModule::addGpuFp8Maxima(Type from) {
  return deviceService(*state_, ("gpu_fp8_maxima" + typeSuffix(from)).str(), {false, true}, 2, kThreads,
                       /*unitsPerBlock=*/1, [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(from)).emitMaxima(); });
}

KernelDescription KernelModule::addGpuQuantizeFp8(bool isE4m3, bool byRows, bool byColumns, Type from) {
  const StringRef order = !byRows ? "columns" : byColumns ? "both" : "rows";
  const std::string name = (Twine("gpu_quantize_") + (isE4m3 ? "e4m3_" : "e5m2_") + order + typeSuffix(from)).str();
  SmallVector<bool> written{false, true, false, true};
  if (byRows && byColumns)
    written.push_back(true);
  return deviceService(*state_, name, written, 3, kThreads, kThreads, [&](BlockKernel &k) {
    Fp8Kernel(k, k.b.element(from)).emitCodes(isE4m3 ? Fp8Format::E4m3 : Fp8Format::E5m2, byRows, byColumns);
  });
}

} // namespace ztc
