// The fp8 codes of a matrix on a GPU. See runtime/Format/ServiceKernels.md; the arithmetic is that of
// runtime/Core/Fp8.h, bit for bit.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "runtime/Core/Fp8.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// `kQuantizeFp8Lanes`: elements that a thread reads at once when it looks for the largest.
constexpr int64_t kQuantizeFp8Threads = 256, kQuantizeFp8Lanes = 8;
constexpr auto kTile = int64_t(kFp8Tile);

/// Which codes are made of a matrix.
struct Orders {
  Fp8Format format;
  bool byRows, byColumns;
};

class Fp8Kernel {
public:
  Fp8Kernel(BlockKernel &k, Type element)
      : k(k), b(k.b), i32(k.b.getI32Type()), f32(k.b.getF32Type()), element(element) {}

  /// The largest magnitude of every `parts`-th stretch of the matrix, as bits: those of numbers that are not negative
  /// order as the numbers do, NaN after all others.
  void emitMaxima() {
    Value pieces = k.scalar(0), parts = k.scalar(1),
          first = b.add(b.mul(k.block(), b.i64(kQuantizeFp8Threads)), k.thread());
    Value stride = b.mul(parts, b.i64(kQuantizeFp8Threads));
    Value turns = arith::DivUIOp::create(b, b.add(pieces, b.sub(stride, b.i64(1))), stride);
    auto vector = VectorType::get({kQuantizeFp8Lanes}, i32);
    Value none = b.integer(vector, 0), magnitude = b.integer(vector, 0x7fffffff);
    auto found = k.forRange(b.i64(0), turns, 1, {none}, [&](Value turn, BlockKernel::Values &largest) {
      Value piece = b.add(first, b.mul(turn, stride));
      Value seen = k.choose(
          b.compare(arith::CmpIPredicate::slt, piece, pieces),
          [&]() -> Value {
            Value at = b.address(k.buffer(0), element, b.mul(piece, b.i64(kQuantizeFp8Lanes)));
            Value bits = b.bitcast(b.load(at, element, kQuantizeFp8Lanes, kVectorBytes), i32);
            return arith::AndIOp::create(b, bits, magnitude);
          },
          [&] { return none; });
      largest[0] = b.maximum(largest[0], seen);
    });
    Value largest = lane(found[0], 0);
    for (int64_t i = 1; i < kQuantizeFp8Lanes; ++i)
      largest = b.maximum(largest, lane(found[0], i));
    largest = overBlock(largest);
    k.ifThen(isFirst(k.thread()), [&] { b.store(largest, b.address(k.buffer(1), i32, k.block())); });
  }

  /// A thread takes kTile rows of one column: neighbours read neighbours, and write a vector each of the transposed
  /// matrix.
  void emitCodes(Orders orders) {
    Value scale = scaleOf(orders.format, k.scalar(2)), unit = firstUnit();
    k.ifThen(b.compare(arith::CmpIPredicate::slt, unit, k.extent()),
             [&] { encodeTile(unit, scale, orders, /*findsLargest=*/false); });
  }

  /// The same with a scale that is known; the largest magnitude of what a block takes becomes its part of the maxima.
  void emitCodesOfKnownScale(Orders orders) {
    Value scale = b.load(b.address(k.buffer(1), f32, b.i64(1)), f32, 1), unit = firstUnit();
    Value largest = k.choose(
        b.compare(arith::CmpIPredicate::slt, unit, k.extent()),
        [&] { return encodeTile(unit, scale, orders, /*findsLargest=*/true); }, [&] { return b.integer(i32, 0); });
    largest = overBlock(largest);
    k.ifThen(isFirst(k.thread()), [&] { b.store(largest, b.address(k.buffer(2), i32, k.block())); });
  }

  /// A block transposes a square of codes by way of shared memory: warps read and write 128 bytes that lie together.
  /// What lies past the matrix's end is taken from its last rows and columns, and not written.
  void emitTransposed() {
    constexpr int64_t side = kFp8TransposedSide, words = side / 4, stride = words + 1, turns = side / kQuads / kWarps;
    Value rows = k.scalar(0), columns = k.scalar(1), lane = inWarp(), warp = warpNumber(),
          shared = k.shared(side * stride * 4);
    Value across = arith::DivUIOp::create(b, b.add(columns, b.i64(side - 1)), b.i64(side));
    Value tileRow = arith::DivUIOp::create(b, k.block(), across);
    Value firstRow = b.mul(tileRow, b.i64(side)),
          firstColumn = b.mul(b.sub(k.block(), b.mul(tileRow, across)), b.i64(side));
    // A lane takes four columns of four rows at a time: all loads first.
    Value column = b.minimum(b.add(firstColumn, b.mul(lane, b.i64(kQuads))), b.sub(columns, b.i64(kQuads)));
    SmallVector<Value> loaded;
    for (int64_t turn = 0; turn < turns; ++turn) {
      Value row = b.add(firstRow, b.mul(b.add(warp, b.i64(turn * kWarps)), b.i64(kQuads)));
      Value place = b.add(b.mul(b.minimum(row, b.sub(rows, b.i64(kQuads))), columns), column);
      for (int64_t r = 0; r < kQuads; ++r, place = b.add(place, columns))
        loaded.push_back(b.load(b.address(k.buffer(0), b.getI8Type(), place), i32, 1, /*alignment=*/4));
    }
    // Where a column's words are, each of four rows: lanes write words that are 4 * stride apart, and read neighbours.
    auto wordOf = [&](Value columnInTile, Value quad) {
      return b.address(shared, i32, b.add(b.mul(columnInTile, b.i64(stride)), quad));
    };
    for (int64_t turn = 0; turn < turns; ++turn)
      for (auto [c, word] : llvm::enumerate(transposed(ArrayRef(loaded).slice(turn * kQuads, kQuads))))
        b.store(word, wordOf(b.add(b.mul(lane, b.i64(kQuads)), b.i64(c)), b.add(warp, b.i64(turn * kWarps))));
    k.barrier();
    // Eight lanes write the 128 rows of a column, a warp four columns.
    constexpr int64_t vectors = side / kTile, together = kWarp / vectors;
    Value vector = arith::AndIOp::create(b, lane, b.i64(vectors - 1));
    Value own = b.add(b.mul(warp, b.i64(together)), arith::DivUIOp::create(b, lane, b.i64(vectors)));
    Value row = b.add(firstRow, b.mul(vector, b.i64(kTile)));
    for (int64_t turn = 0; turn < side; turn += together * kWarps) {
      Value inTile = b.add(own, b.i64(turn)), target = b.add(firstColumn, inTile);
      Value whole = LLVM::PoisonOp::create(b, VectorType::get({kTile / 4}, i32));
      for (int64_t word = 0; word < kTile / 4; ++word)
        whole = LLVM::InsertElementOp::create(
            b, whole, b.load(wordOf(inTile, b.add(b.mul(vector, b.i64(kTile / 4)), b.i64(word))), i32, 1),
            b.integer(i32, word));
      Value exists = arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::slt, row, rows),
                                           b.compare(arith::CmpIPredicate::slt, target, columns));
      k.ifThen(exists, [&] {
        b.store(whole, b.address(k.buffer(1), b.getI8Type(), b.add(b.mul(target, rows), row)), kVectorBytes);
      });
    }
  }

  /// The same, and the first block finds the largest of numbers.
  void emitTransposedWithLargest() {
    emitTransposed();
    noteLargest(2, k.scalar(2), k.scalar(3), isFirst(k.block()));
  }

  /// One block: the largest of numbers.
  void emitLargest() { noteLargest(0, k.scalar(0), k.scalar(1), Value()); }

private:
  Value firstUnit() { return b.add(b.mul(k.block(), b.i64(kQuantizeFp8Threads)), k.thread()); }

  /// The largest of `count` elements of a buffer that are not negative goes to the next buffer, an f32, joined to what
  /// stands there where `adds` is not 0. `when` (i1), if there is one, is equal in all threads of the block: other
  /// blocks do nothing.
  void noteLargest(unsigned from, Value count, Value adds, Value when) {
    Value turns = arith::DivUIOp::create(b, b.add(count, b.i64(kQuantizeFp8Threads - 1)), b.i64(kQuantizeFp8Threads));
    if (when)
      turns = b.select(when, turns, b.i64(0));
    auto found = k.forRange(b.i64(0), turns, 1, {b.integer(i32, 0)}, [&](Value turn, BlockKernel::Values &largest) {
      Value index = b.add(b.mul(turn, b.i64(kQuantizeFp8Threads)), k.thread());
      Value seen = k.choose(
          b.compare(arith::CmpIPredicate::slt, index, count),
          [&] {
            return b.bitcast(b.convertReal(b.load(b.address(k.buffer(from), element, index), element, 1), f32), i32);
          },
          [&] { return b.integer(i32, 0); });
      largest[0] = b.maximum(largest[0], seen);
    });
    Value largest = overBlock(found[0]), isWriter = isFirst(k.thread());
    if (when)
      isWriter = arith::AndIOp::create(b, isWriter, when);
    k.ifThen(isWriter, [&] {
      Value place = b.address(k.buffer(from + 1), i32, b.i64(0));
      Value before = k.choose(isFirst(adds), [&] { return b.integer(i32, 0); }, [&] { return b.load(place, i32, 1); });
      b.store(b.maximum(largest, before), place);
    });
  }

  /// Makes the codes of a tile; where asked for, gives the bits of its largest magnitude.
  Value encodeTile(Value unit, Value scale, Orders orders, bool findsLargest) {
    const auto [format, byRows, byColumns] = orders;
    Value rows = k.scalar(0), columns = k.scalar(1);
    Value band = arith::DivUIOp::create(b, unit, columns), column = b.sub(unit, b.mul(band, columns));
    Value row = b.mul(band, b.i64(kTile));
    SmallVector<Value> words(kTile / 4), numbers, places{b.add(b.mul(row, columns), column)};
    for (int64_t r = 1; r < kTile; ++r)
      places.push_back(b.add(places.back(), columns));
    for (Value place : places)
      numbers.push_back(b.load(b.address(k.buffer(0), element, place), element, 1));
    for (int64_t r = 0; r < kTile; r += 2) {
      Value pair = encode(b.mul(numbers[r], scale), b.mul(numbers[r + 1], scale), format);
      if (byRows) {
        store(pair, 3, places[r]);
        Value upper = arith::ShRUIOp::create(b, pair, b.integer(b.getI16Type(), 8));
        store(upper, 3, places[r + 1]);
      }
      Value wide = arith::ExtUIOp::create(b, i32, pair);
      words[r / 4] = r % 4 ? arith::OrIOp::create(b, words[r / 4], shiftLeft(wide, 16)).getResult() : wide;
    }
    if (byColumns) {
      Value whole = LLVM::PoisonOp::create(b, VectorType::get({kTile / 4}, i32));
      for (auto [index, word] : llvm::enumerate(words))
        whole = LLVM::InsertElementOp::create(b, whole, word, b.integer(i32, index));
      b.store(whole, b.address(k.buffer(byRows ? 4 : 3), b.getI8Type(), b.add(b.mul(column, rows), row)), kVectorBytes);
    }
    Value largest;
    for (Value number : findsLargest ? numbers : SmallVector<Value>()) {
      Value magnitude = arith::AndIOp::create(b, b.bitcast(number, i32), b.integer(i32, 0x7fffffff));
      largest = largest ? b.maximum(largest, magnitude) : magnitude;
    }
    return largest;
  }

  static constexpr int64_t kWarps = kQuantizeFp8Threads / kWarp, kQuads = 4;

  Value inWarp() { return arith::AndIOp::create(b, k.thread(), b.i64(kWarp - 1)); }
  Value warpNumber() { return arith::ShRUIOp::create(b, k.thread(), b.i64(5)); }
  /// Of four words of four bytes each, the first bytes, the second ones and so on.
  SmallVector<Value> transposed(ArrayRef<Value> w) {
    auto only = [&](Value x, uint32_t mask) -> Value {
      return arith::AndIOp::create(b, x, b.integer(i32, int32_t(mask)));
    };
    auto down = [&](Value x, int64_t bits) -> Value { return arith::ShRUIOp::create(b, x, b.integer(i32, bits)); };
    auto both = [&](Value x, Value y) -> Value { return arith::OrIOp::create(b, x, y); };
    /// Bytes 0 and 2 of both words, side by side; bytes 1 and 3.
    auto even = [&](Value x, Value y) { return both(only(x, 0x00ff00ff), shiftLeft(only(y, 0x00ff00ff), 8)); };
    auto odd = [&](Value x, Value y) { return both(only(down(x, 8), 0x00ff00ff), only(y, 0xff00ff00)); };
    auto low = [&](Value x, Value y) { return both(only(x, 0x0000ffff), shiftLeft(y, 16)); };
    auto high = [&](Value x, Value y) { return both(down(x, 16), only(y, 0xffff0000)); };
    Value even01 = even(w[0], w[1]), odd01 = odd(w[0], w[1]), even23 = even(w[2], w[3]), odd23 = odd(w[2], w[3]);
    return {low(even01, even23), low(odd01, odd23), high(even01, even23), high(odd01, odd23)};
  }

  Value lane(Value vector, int64_t index) { return LLVM::ExtractElementOp::create(b, vector, b.integer(i32, index)); }
  Value isFirst(Value number) { return b.compare(arith::CmpIPredicate::eq, number, b.i64(0)); }
  Value shiftLeft(Value x, int64_t bits) { return arith::ShLIOp::create(b, x, b.integer(i32, bits)); }
  /// The lower byte of `code`, an i16, as element `index` of a buffer.
  void store(Value code, unsigned buffer, Value index) {
    b.store(arith::TruncIOp::create(b, b.getI8Type(), code), b.address(k.buffer(buffer), b.getI8Type(), index));
  }

  /// The maximum of all threads' numbers, i32, in every thread.
  Value overBlock(Value own) {
    for (int64_t mask = 1; mask < kWarp; mask *= 2)
      own = b.maximum(own, k.exchange(own, mask));
    Value shared = k.shared(kWarps * 4), lane = inWarp(), warp = warpNumber();
    k.ifThen(isFirst(lane), [&] { b.store(own, b.address(shared, i32, warp)); });
    k.barrier();
    Value all = b.load(b.address(shared, i32, arith::AndIOp::create(b, lane, b.i64(kWarps - 1))), i32, 1);
    for (int64_t mask = 1; mask < kWarps; mask *= 2)
      all = b.maximum(all, k.exchange(all, mask));
    return all;
  }

  /// What fp8Scale says of the largest of all parts; the first block writes it. Each block finds it for itself:
  /// kFp8Partials numbers are in the cache.
  Value scaleOf(Fp8Format format, Value parts) {
    Value largest = b.integer(i32, 0);
    for (int64_t first = 0; first < int64_t(kFp8Partials); first += kQuantizeFp8Threads) {
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
      b.store(b.div(b.real(f32, 1), scale), b.address(k.buffer(1), f32, b.i64(0)));
      b.store(scale, b.address(k.buffer(1), f32, b.i64(1)));
    });
    return scale;
  }

  /// The codes of two f32: i16, the first in the lower byte.
  Value encode(Value first, Value second, Fp8Format format) {
    Type codes =
        format == Fp8Format::E4m3 ? Type(Float8E4M3FNType::get(b.getContext())) : Float8E5M2Type::get(b.getContext());
    return b.fp8Pair(first, second, codes);
  }

  BlockKernel &k;
  KernelBuilder &b;
  const Type i32, f32, element;
};

} // namespace

KernelDescription KernelModule::addGpuFp8Maxima(Type from) {
  return deviceService(*state_, ("gpu_fp8_maxima" + typeSuffix(from)).str(), {false, true}, 2, kQuantizeFp8Threads,
                       /*unitsPerBlock=*/1, [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(from)).emitMaxima(); });
}

/// What a kernel's name says of codes, after "gpu_quantize_" or the like.
static std::string nameOf(Orders orders, Type from) {
  const StringRef order = !orders.byRows ? "columns" : orders.byColumns ? "both" : "rows";
  return (Twine(orders.format == Fp8Format::E4m3 ? "e4m3_" : "e5m2_") + order + typeSuffix(from)).str();
}

KernelDescription KernelModule::addGpuQuantizeFp8(bool isE4m3, bool byRows, bool byColumns, Type from) {
  if (from.isInteger(8))
    return deviceService(*state_, "gpu_transpose_codes", {false, true}, 2, kQuantizeFp8Threads, /*unitsPerBlock=*/1,
                         [&](BlockKernel &k) { Fp8Kernel(k, from).emitTransposed(); });
  const Orders orders{isE4m3 ? Fp8Format::E4m3 : Fp8Format::E5m2, byRows, byColumns};
  SmallVector<bool> written{false, true, false, true};
  if (byRows && byColumns)
    written.push_back(true);
  return deviceService(*state_, "gpu_quantize_" + nameOf(orders, from), written, 3, kQuantizeFp8Threads,
                       kQuantizeFp8Threads, [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(from)).emitCodes(orders); });
}

KernelDescription KernelModule::addGpuEncodeFp8(bool isE4m3, bool byRows, bool byColumns, Type from) {
  const Orders orders{isE4m3 ? Fp8Format::E4m3 : Fp8Format::E5m2, byRows, byColumns};
  SmallVector<bool> written{false, false, true, true};
  if (byRows && byColumns)
    written.push_back(true);
  return deviceService(*state_, "gpu_encode_" + nameOf(orders, from), written, 2, kQuantizeFp8Threads,
                       kQuantizeFp8Threads,
                       [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(from)).emitCodesOfKnownScale(orders); });
}

KernelDescription KernelModule::addGpuFp8Largest() {
  return deviceService(*state_, "gpu_fp8_largest", {false, true}, 2, kQuantizeFp8Threads, /*unitsPerBlock=*/1,
                       [&](BlockKernel &k) { Fp8Kernel(k, k.b.getF32Type()).emitLargest(); });
}

KernelDescription KernelModule::addGpuNoteCodes(Type maxima) {
  return deviceService(*state_, ("gpu_note_codes" + typeSuffix(maxima)).str(), {false, true, false, true}, 4,
                       kQuantizeFp8Threads, /*unitsPerBlock=*/1,
                       [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(maxima)).emitTransposedWithLargest(); });
}

} // namespace ztc
