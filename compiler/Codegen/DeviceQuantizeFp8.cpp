// The fp8 codes of a matrix on a GPU. See runtime/Format/ServiceKernels.md; the arithmetic is that of
// runtime/Core/Fp8.h, bit for bit.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "runtime/Core/Fp8.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// `kQuantizeFp8Lanes`: elements that a thread reads at once where it reads rows alone.
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
    Value none = b.integer(vector, 0);
    auto found = k.forRange(b.i64(0), turns, 1, {none}, [&](Value turn, BlockKernel::Values &largest) {
      Value piece = b.add(first, b.mul(turn, stride));
      Value seen = k.choose(
          b.compare(arith::CmpIPredicate::slt, piece, pieces),
          [&]() -> Value {
            Value at = b.address(k.buffer(0), element, b.mul(piece, b.i64(kQuantizeFp8Lanes)));
            return magnitudes(b.load(at, element, kQuantizeFp8Lanes, kVectorBytes));
          },
          [&] { return none; });
      largest[0] = b.maximum(largest[0], seen);
    });
    storeLargest(overLanes(found[0]), 1);
  }

  /// The scale is that of the maxima's largest.
  void emitCodes(Orders orders) { encodeAll(scaleOf(orders.format, k.scalar(2)), orders, /*findsLargest=*/false); }

  /// The same with a scale that is known; the largest magnitude of what a block takes becomes its part of the maxima.
  void emitCodesOfKnownScale(Orders orders) {
    Value scale = b.load(b.address(k.buffer(1), f32, b.i64(1)), f32, 1);
    storeLargest(encodeAll(scale, orders, /*findsLargest=*/true), 2);
  }

  /// A block transposes a square of codes.
  void emitTransposed() {
    const Square square = squareOfBlock(kFp8TransposedSide);
    // All loads first.
    SmallVector<SmallVector<Value>> turns;
    for (int64_t turn = 0; turn < square.turns(); ++turn) {
      SmallVector<Value> &words = turns.emplace_back();
      for (Value place : placesOf(square, turn))
        words.push_back(b.load(b.address(k.buffer(0), b.getI8Type(), place), i32, 1, /*alignment=*/4));
    }
    for (auto [turn, words] : llvm::enumerate(turns))
      keepTransposed(square, int64_t(turn), words);
    storeTransposed(square, 1);
  }

  /// The same, and the first block finds the largest of numbers.
  void emitTransposedWithLargest() {
    emitTransposed();
    noteLargest(2, k.scalar(2), k.scalar(3), isFirst(k.block()));
  }

  /// One block: the largest of numbers.
  void emitLargest() { noteLargest(0, k.scalar(0), k.scalar(1), Value()); }

private:
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

  static constexpr int64_t kWarps = kQuantizeFp8Threads / kWarp, kQuad = 4;

  Value inWarp() { return arith::AndIOp::create(b, k.thread(), b.i64(kWarp - 1)); }
  Value warpNumber() { return arith::ShRUIOp::create(b, k.thread(), b.i64(5)); }

  /// A block's square of a matrix with 8-bit codes, which it transposes by way of shared memory, so that neighbouring
  /// threads read and write what lies together. A thread has four columns of four rows at a time. What lies past the
  /// matrix's end is read from its last rows and columns, and not written.
  struct Square {
    int64_t side;
    Value rows, columns, firstRow, firstColumn, shared;

    int64_t quadsAcross() const { return side / kQuad; }
    int64_t quadsDown() const { return kQuantizeFp8Threads / quadsAcross(); } ///< of a turn
    int64_t turns() const { return quadsAcross() / quadsDown(); }
    /// Words from one column to the next: an odd number, which spreads them over the banks.
    int64_t stride() const { return quadsAcross() + 1; }
  };

  Square squareOfBlock(int64_t side) {
    Value rows = k.scalar(0), columns = k.scalar(1);
    Value across = arith::DivUIOp::create(b, b.add(columns, b.i64(side - 1)), b.i64(side));
    Value down = arith::DivUIOp::create(b, k.block(), across);
    Square square{
        side,   rows, columns, b.mul(down, b.i64(side)), b.mul(b.sub(k.block(), b.mul(down, across)), b.i64(side)),
        Value()};
    square.shared = k.shared(side * square.stride() * 4);
    return square;
  }

  /// The numbers, in the square, of this thread's four columns and four rows, in fours.
  Value quadColumn(const Square &square) {
    return arith::AndIOp::create(b, k.thread(), b.i64(square.quadsAcross() - 1));
  }
  Value quadRow(const Square &square, int64_t turn) {
    return b.add(arith::DivUIOp::create(b, k.thread(), b.i64(square.quadsAcross())), b.i64(turn * square.quadsDown()));
  }

  /// The first of the thread's four columns, and rows, in the matrix or past its end.
  Value firstColumnOf(const Square &square) {
    return b.add(square.firstColumn, b.mul(quadColumn(square), b.i64(kQuad)));
  }
  Value firstRowOf(const Square &square, int64_t turn) {
    return b.add(square.firstRow, b.mul(quadRow(square, turn), b.i64(kQuad)));
  }

  Value isInside(const Square &square, Value row, Value column) {
    return arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::slt, row, square.rows),
                                 b.compare(arith::CmpIPredicate::slt, column, square.columns));
  }

  /// Where in the matrix each of the four rows of a turn begins.
  SmallVector<Value> placesOf(const Square &square, int64_t turn) {
    Value row = firstRowOf(square, turn), column = firstColumnOf(square);
    row = b.minimum(row, b.sub(square.rows, b.i64(kQuad)));
    column = b.minimum(column, b.sub(square.columns, b.i64(kQuad)));
    SmallVector<Value> places{b.add(b.mul(row, square.columns), column)};
    while (places.size() < size_t(kQuad))
      places.push_back(b.add(places.back(), square.columns));
    return places;
  }

  /// Where a word of shared memory lies: codes of four rows of a column.
  Value wordOf(const Square &square, Value column, Value quad) {
    return b.address(square.shared, i32, b.add(b.mul(column, b.i64(square.stride())), quad));
  }

  /// Puts a turn's codes, a word for each row, into shared memory, a word for each column.
  void keepTransposed(const Square &square, int64_t turn, ArrayRef<Value> words) {
    Value column = b.mul(quadColumn(square), b.i64(kQuad)), quad = quadRow(square, turn);
    for (auto [c, word] : llvm::enumerate(transposed(words)))
      b.store(word, wordOf(square, b.add(column, b.i64(int64_t(c))), quad));
  }

  /// Writes the square of shared memory to a buffer, a vector of each column a thread: neighbours write one column.
  void storeTransposed(const Square &square, unsigned buffer) {
    k.barrier();
    const int64_t vectors = square.side / kTile, together = kQuantizeFp8Threads / vectors;
    Value vector = arith::AndIOp::create(b, k.thread(), b.i64(vectors - 1));
    Value own = arith::DivUIOp::create(b, k.thread(), b.i64(vectors));
    Value row = b.add(square.firstRow, b.mul(vector, b.i64(kTile)));
    for (int64_t turn = 0; turn < square.side; turn += together) {
      Value inSquare = b.add(own, b.i64(turn)), column = b.add(square.firstColumn, inSquare);
      SmallVector<Value> words;
      for (int64_t word = 0; word < kTile / 4; ++word)
        words.push_back(b.load(wordOf(square, inSquare, b.add(b.mul(vector, b.i64(kTile / 4)), b.i64(word))), i32, 1));
      k.ifThen(isInside(square, row, column),
               [&] { storeVector(words, buffer, b.add(b.mul(column, square.rows), row)); });
    }
  }

  /// Makes the codes of a block's part of the matrix; where asked for, gives the bits of the largest magnitude that a
  /// thread has seen.
  Value encodeAll(Value scale, Orders orders, bool findsLargest) {
    return orders.byColumns ? encodeSquare(scale, orders, findsLargest)
                            : encodeRows(scale, orders.format, findsLargest);
  }

  /// kTile codes of neighbours a thread.
  Value encodeRows(Value scale, Fp8Format format, bool findsLargest) {
    Value unit = b.add(b.mul(k.block(), b.i64(kQuantizeFp8Threads)), k.thread());
    Value none = b.integer(i32, 0), first = b.mul(unit, b.i64(kTile));
    return k.choose(
        b.compare(arith::CmpIPredicate::slt, unit, k.extent()),
        [&] {
          SmallVector<Value> numbers, words;
          for (int64_t i = 0; i < kTile; i += kQuantizeFp8Lanes)
            numbers.push_back(b.load(b.address(k.buffer(0), element, b.add(first, b.i64(i))), element,
                                     kQuantizeFp8Lanes, kVectorBytes));
          for (Value eight : numbers)
            for (int64_t i = 0; i < kQuantizeFp8Lanes; i += kQuad)
              words.push_back(encodeQuad(eight, i, scale, format));
          storeVector(words, 3, first);
          return findsLargest ? largestOf(numbers) : none;
        },
        [&] { return none; });
  }

  Value encodeSquare(Value scale, Orders orders, bool findsLargest) {
    const Square square = squareOfBlock(kFp8EncodedSide);
    Value largest;
    for (int64_t turn = 0; turn < square.turns(); ++turn) {
      const SmallVector<Value> places = placesOf(square, turn);
      SmallVector<Value> numbers, words;
      for (Value place : places)
        numbers.push_back(b.load(b.address(k.buffer(0), element, place), element, kQuad, quadBytes()));
      for (Value row : numbers)
        words.push_back(encodeQuad(row, 0, scale, orders.format));
      if (orders.byRows)
        k.ifThen(isInside(square, firstRowOf(square, turn), firstColumnOf(square)), [&] {
          for (auto [place, word] : llvm::zip_equal(places, words))
            b.store(word, b.address(k.buffer(3), b.getI8Type(), place), /*alignment=*/4);
        });
      keepTransposed(square, turn, words);
      if (findsLargest)
        largest = largest ? b.maximum(largest, largestOf(numbers)) : largestOf(numbers);
    }
    storeTransposed(square, orders.byRows ? 4 : 3);
    return largest;
  }

  /// A word with the codes of four lanes from `first` on.
  Value encodeQuad(Value numbers, int64_t first, Value scale, Fp8Format format) {
    SmallVector<Value> scaled;
    for (int64_t i = 0; i < kQuad; ++i)
      scaled.push_back(b.mul(lane(numbers, first + i), scale));
    Value low = arith::ExtUIOp::create(b, i32, encode(scaled[0], scaled[1], format));
    Value high = arith::ExtUIOp::create(b, i32, encode(scaled[2], scaled[3], format));
    return arith::OrIOp::create(b, low, shiftLeft(high, 16));
  }

  /// The magnitudes of numbers, as bits.
  Value magnitudes(Value numbers) {
    Value bits = b.bitcast(numbers, i32);
    return arith::AndIOp::create(b, bits, b.integer(bits.getType(), 0x7fffffff));
  }
  Value overLanes(Value vector) {
    Value largest = lane(vector, 0);
    for (int64_t i = 1; i < cast<VectorType>(vector.getType()).getNumElements(); ++i)
      largest = b.maximum(largest, lane(vector, i));
    return largest;
  }
  Value largestOf(ArrayRef<Value> vectors) {
    Value largest = magnitudes(vectors.front());
    for (Value vector : vectors.drop_front())
      largest = b.maximum(largest, magnitudes(vector));
    return overLanes(largest);
  }

  /// The largest of a block's threads is its element of a buffer.
  void storeLargest(Value own, unsigned buffer) {
    Value largest = overBlock(own);
    k.ifThen(isFirst(k.thread()), [&] { b.store(largest, b.address(k.buffer(buffer), i32, k.block())); });
  }

  int64_t quadBytes() const { return kQuad * element.getIntOrFloatBitWidth() / 8; }

  /// Four words as a vector of codes that begins at an element of a buffer.
  void storeVector(ArrayRef<Value> words, unsigned buffer, Value index) {
    Value whole = LLVM::PoisonOp::create(b, VectorType::get({int64_t(words.size())}, i32));
    for (auto [place, word] : llvm::enumerate(words))
      whole = LLVM::InsertElementOp::create(b, whole, word, b.integer(i32, int64_t(place)));
    b.store(whole, b.address(k.buffer(buffer), b.getI8Type(), index), kVectorBytes);
  }

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

/// Units are kTile codes of a row, or squares.
static int64_t unitsPerBlock(Orders orders) {
  return orders.byColumns ? 1 : kQuantizeFp8Threads;
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
                       unitsPerBlock(orders),
                       [&](BlockKernel &k) { Fp8Kernel(k, k.b.element(from)).emitCodes(orders); });
}

KernelDescription KernelModule::addGpuEncodeFp8(bool isE4m3, bool byRows, bool byColumns, Type from) {
  const Orders orders{isE4m3 ? Fp8Format::E4m3 : Fp8Format::E5m2, byRows, byColumns};
  SmallVector<bool> written{false, false, true, true};
  if (byRows && byColumns)
    written.push_back(true);
  return deviceService(*state_, "gpu_encode_" + nameOf(orders, from), written, 2, kQuantizeFp8Threads,
                       unitsPerBlock(orders),
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
