// Weights that are stored in fewer bits, as numbers on a GPU. See runtime/Format/ServiceKernels.md.
#include "compiler/Codegen/BlockKernel.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Dialect/Graph/WeightFormats.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// Elements that a thread writes: of bf16 and f16 those of its widest access.
constexpr int64_t kDequantizeThreads = 256, kDequantizeLanes = 8;

/// Parts of a weight's bytes.
struct WeightBytes {
  KernelBuilder &b;
  Value base;

  Value byteAt(Value index) const { return b.address(base, b.getI8Type(), index); }
  Value code(Value part, Value index) const {
    Value byte = b.load(byteAt(b.add(part, index)), b.getI8Type(), 1);
    return arith::ExtUIOp::create(b, b.getI64Type(), byte);
  }
  Value real(Value part, Value index) const {
    return b.load(b.address(byteAt(part), b.getF32Type(), index), b.getF32Type(), 1);
  }
};

/// Stores `numbers`, elements from `first` on, those below `end`.
void storeRow(BlockKernel &k, ArrayRef<Value> numbers, Value to, Type element, Value first, Value end) {
  KernelBuilder &b = k.b;
  for (auto [index, number] : llvm::enumerate(numbers)) {
    Value at = b.add(first, b.i64(index));
    k.ifThen(b.compare(arith::CmpIPredicate::slt, at, end),
             [&, number = number] { b.store(b.convertReal(number, element), b.address(to, element, at), element); });
  }
}

/// The same of a piece that is there in full and begins at a multiple of its own size.
void storePiece(BlockKernel &k, ArrayRef<Value> numbers, Value to, Type element, Value first) {
  KernelBuilder &b = k.b;
  Value whole = LLVM::PoisonOp::create(b, VectorType::get({kDequantizeLanes}, b.getF32Type()));
  for (auto [index, number] : llvm::enumerate(numbers))
    whole = LLVM::InsertElementOp::create(b, whole, number, b.integer(b.getI32Type(), index));
  b.store(b.convertReal(whole, element), b.address(to, element, first), element, kVectorBytes);
}

/// The scalars of the kernel of a matrix in 4 bits: how many there are without `columns`, and which one is the map's.
struct MapScalars {
  int64_t count, map;
};

MapScalars mapScalars(graph::WeightFormat format) {
  return format == graph::WeightFormat::Nf4 ? MapScalars{6, 4} : MapScalars{3, 2};
}

/// The f32 scale of a block.
Value blockScale(BlockKernel &k, const WeightBytes &weight, Value block, graph::WeightFormat format) {
  KernelBuilder &b = k.b;
  Value scales = k.scalar(1);
  if (format == graph::WeightFormat::Nf4Single)
    return weight.real(scales, block);
  if (format == graph::WeightFormat::Mxfp4) { // the exponent of an f32
    Value exponent = arith::TruncIOp::create(b, b.getI32Type(), weight.code(scales, block));
    Value bits = arith::ShLIOp::create(b, exponent, b.integer(b.getI32Type(), 23));
    return arith::BitcastOp::create(b, b.getF32Type(), bits);
  }
  Value nestedScales = k.scalar(2), nestedMap = k.scalar(3), mean = k.scalar(5);
  Value nested = arith::ShRUIOp::create(b, block, b.i64(llvm::Log2_64(kNestedBlock)));
  return b.add(b.mul(weight.real(nestedMap, weight.code(scales, block)), weight.real(nestedScales, nested)),
               weight.real(mean, b.i64(0)));
}

/// A matrix in 4 bits. `byRow`: scales are found by row and column, and rows are multiples of a thread's elements.
void emitMapped(BlockKernel &k, Type element, bool byRow, graph::WeightFormat format) {
  KernelBuilder &b = k.b;
  WeightBytes weight{b, k.buffer(0)};
  const MapScalars places = mapScalars(format);
  const unsigned blockBits = llvm::Log2_64(QuantizedLayout{.format = graph::planFormat(format)}.block());
  Value elements = k.scalar(0), map = k.scalar(places.map);
  Value unit = b.add(b.mul(k.block(), b.i64(kDequantizeThreads)), k.thread()),
        first = b.mul(unit, b.i64(kDequantizeLanes));
  auto shifted = [&](Value x, int64_t bits) -> Value { return arith::ShRUIOp::create(b, x, b.i64(bits)); };
  k.ifThen(b.compare(arith::CmpIPredicate::slt, unit, k.extent()), [&] {
    Value block = shifted(first, blockBits);
    if (byRow) {
      Value columns = k.scalar(places.count), row = arith::DivUIOp::create(b, first, columns);
      block = b.add(b.mul(row, shifted(columns, blockBits)), shifted(b.sub(first, b.mul(row, columns)), blockBits));
    }
    Value scale = blockScale(k, weight, block, format);
    // Codes fill whole pieces: what follows them begins at a multiple of 16 bytes.
    Value word = b.load(weight.byteAt(shifted(first, 1)), b.getI32Type(), 1, 4);
    Value codes = arith::ExtUIOp::create(b, b.getI64Type(), word);
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < kDequantizeLanes; ++i) {
      Value code = arith::AndIOp::create(b, shifted(codes, 8 * (i / 2) + (i % 2 ? 0 : 4)), b.i64(15));
      numbers.push_back(b.mul(weight.real(map, code), scale));
    }
    k.ifElse(
        b.compare(arith::CmpIPredicate::sle, b.add(first, b.i64(kDequantizeLanes)), elements),
        [&] { storePiece(k, numbers, k.buffer(1), element, first); },
        [&] { storeRow(k, numbers, k.buffer(1), element, first, elements); });
  });
}

void emitInt8(BlockKernel &k, Type element) {
  KernelBuilder &b = k.b;
  WeightBytes weight{b, k.buffer(0)};
  Value columns = k.scalar(0), unitsInRow = k.scalar(1), scales = k.scalar(2);
  Value unit = b.add(b.mul(k.block(), b.i64(kDequantizeThreads)), k.thread());
  k.ifThen(b.compare(arith::CmpIPredicate::slt, unit, k.extent()), [&] {
    Value row = arith::DivUIOp::create(b, unit, unitsInRow);
    Value column = b.mul(b.sub(unit, b.mul(row, unitsInRow)), b.i64(kDequantizeLanes));
    Value first = b.add(b.mul(row, columns), column), end = b.add(b.mul(row, columns), columns);
    Value scale = weight.real(scales, row), one = b.real(b.getF32Type(), kInt8Unit);
    for (int64_t i = 0; i < kDequantizeLanes; ++i) {
      Value at = b.add(first, b.i64(i));
      k.ifThen(b.compare(arith::CmpIPredicate::slt, at, end), [&] {
        Value code = b.load(weight.byteAt(at), b.getI8Type(), 1);
        Value number = arith::SIToFPOp::create(b, b.getF32Type(), code);
        b.store(b.convertReal(b.mul(b.mul(number, scale), one), element), b.address(k.buffer(1), element, at), element);
      });
    }
  });
}

} // namespace

KernelDescription KernelModule::addGpuDequantize(graph::WeightFormat format, int64_t columns, Type to) {
  const bool isMapped = format != graph::WeightFormat::Int8;
  const bool byRow =
      QuantizedLayout{.format = graph::planFormat(format), .columns = uint64_t(columns)}.hasScalesByRow();
  return deviceService(
      *state_,
      ("gpu_dequantize_" + graph::stringifyWeightFormat(format) + (byRow ? "_rows" : "") + typeSuffix(to)).str(),
      {false, true}, isMapped ? mapScalars(format).count + byRow : 3, kDequantizeThreads, kDequantizeThreads,
      [&](BlockKernel &k) {
        Type element = k.b.element(to);
        if (isMapped)
          emitMapped(k, element, byRow, format);
        else
          emitInt8(k, element);
      });
}

} // namespace ztc
