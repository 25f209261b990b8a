// Kernels that move rows or change types at the sizes of a plan: embeddings and their gradient, gradients that are
// rounded, weights in fewer bits. There are such kernels for GPUs alone.
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/WeightFormats.h"
#include "compiler/Reference/Interpreter.h"
#include "compiler/Verification/LibraryCases.h"
#include "llvm/Support/FormatVariadic.h"
#include <memory>
#include <numeric>

using namespace mlir;

namespace ztc::verification {
namespace {

std::string nameOf(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

std::vector<double> numbersOf(const PatternMemory &memory, Type type, int64_t first, int64_t count) {
  std::vector<int64_t> positions(size_t(count), 0);
  std::iota(positions.begin(), positions.end(), first);
  return memory.elements(type, positions).reals;
}

/// Rows of a table by index, or rows that are added to it.
struct TableRows {
  int64_t rows, width, tableRows;
  Type type; ///< of the table; of the gradient that of what is added
  Type f32, i32;

  /// The index of each row: of the chosen ones the table's first and last row, one row twice, and one of its own.
  Tensor indices(const std::set<int64_t> &chosen) const {
    Tensor all({rows}, i32);
    for (int64_t row = 0; row < rows; ++row)
      all.integers[size_t(row)] = tableRows > 4 ? 3 + row % (tableRows - 4) : row % tableRows;
    const int64_t some[] = {0, tableRows - 1, 0, std::min<int64_t>(2, tableRows - 1)};
    for (auto [number, row] : llvm::enumerate(chosen))
      all.integers[size_t(row)] = some[number % 4];
    return all;
  }
};

/// Rows that the blocks which have a few of them take.
std::set<int64_t> rowsOf(const std::set<int64_t> &blocks, int64_t each, int64_t rows) {
  std::set<int64_t> all;
  for (int64_t block : blocks)
    for (int64_t row = block * each; row < std::min((block + 1) * each, rows); ++row)
      all.insert(row);
  return all;
}

LibraryLaunch gatherLaunch(const TableRows &call, int64_t rowsOfBlock) {
  LibraryLaunch launch;
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(call.rows), uint64_t(rowsOfBlock)))),
  launch.extent = call.rows;
  const std::set<int64_t> few = fewOf(call.rows), rows = rowsOf(launch.units, rowsOfBlock, call.rows);
  const Tensor indices = call.indices(few);
  launch.random("table", call.type, call.tableRows * call.width, 1);
  launch.given("indices", indices);
  launch.poison("the result", storedBytes(call.type, call.rows * call.width));
  launch.given("the word of faults", Tensor({1}, IntegerType::get(call.type.getContext(), 64)));
  const int64_t rowBytes = int64_t(storedBytes(call.type, call.width));
  launch.scalars = {rowBytes / std::gcd(rowBytes, int64_t(16)), call.tableRows};
  if (!launch.refused.empty())
    return launch;
  for (int64_t row : rows) {
    const int64_t from = indices.integers[size_t(row)] * call.width;
    for (auto [column, number] : llvm::enumerate(numbersOf(launch.memory(0), call.type, from, call.width)))
      launch.expect(2, call.type, row * call.width + int64_t(column), number, 0);
  }
  launch.expect(3, IntegerType::get(call.type.getContext(), 64), 0, 0, 0);
  return launch;
}

/// The block of the first row with an index adds all rows with that index.
LibraryLaunch scatterLaunch(const TableRows &call) {
  LibraryLaunch launch;
  launch.units = fewOf(call.rows), launch.extent = call.rows;
  const Tensor indices = call.indices(launch.units);
  launch.given("indices", indices);
  launch.random("dy", call.type, call.rows * call.width, 2);
  launch.random("dtable", call.f32, call.tableRows * call.width, 3);
  launch.given("the word of faults", Tensor({1}, IntegerType::get(call.type.getContext(), 64)));
  launch.scalars = {call.width, call.tableRows};
  if (!launch.refused.empty())
    return launch;
  std::set<int64_t> seen;
  for (int64_t own : launch.units) {
    const int64_t index = indices.integers[size_t(own)];
    if (!seen.insert(index).second || llvm::find(indices.integers, index) - indices.integers.begin() != own)
      continue;
    std::vector<double> sums = numbersOf(launch.memory(2), call.f32, index * call.width, call.width);
    int64_t terms = 1;
    for (int64_t row = own; row < call.rows; ++row)
      if (indices.integers[size_t(row)] == index) {
        ++terms;
        for (auto [sum, number] :
             llvm::zip_equal(sums, numbersOf(launch.memory(1), call.type, row * call.width, call.width)))
          sum += number;
      }
    for (auto [column, sum] : llvm::enumerate(sums))
      launch.expect(2, call.f32, index * call.width + int64_t(column), sum, 1e-6, 2e-7 * double(terms));
  }
  launch.expect(3, IntegerType::get(call.type.getContext(), 64), 0, 0, 0);
  return launch;
}

/// Elements that a thread rounds, or makes of a weight's bytes.
constexpr int64_t kPiece = 8;

LibraryLaunch narrowLaunch(int64_t elements, Type from, Type to, int64_t piecesOfBlock) {
  LibraryLaunch launch;
  launch.extent = elements / kPiece;
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(launch.extent), uint64_t(piecesOfBlock))));
  launch.random("the gradient", from, elements, 1);
  launch.poison("the result", storedBytes(to, elements));
  if (!launch.refused.empty())
    return launch;
  for (int64_t piece : rowsOf(launch.units, piecesOfBlock, launch.extent))
    for (auto [index, number] : llvm::enumerate(numbersOf(launch.memory(0), from, piece * kPiece, kPiece)))
      launch.expect(1, to, piece * kPiece + int64_t(index), roundTo(number, to), 0);
  return launch;
}

LibraryLaunch dequantizeLaunch(const QuantizedLayout &layout, Type type, int64_t piecesOfBlock) {
  LibraryLaunch launch;
  const Type f32 = Float32Type::get(type.getContext());
  const bool isInt8 = layout.format == plan::INT8, isMxfp4 = layout.format == plan::MXFP4,
             isSingle = layout.format == plan::NF4_SINGLE || isMxfp4;
  const auto inRow = int64_t(llvm::divideCeil(layout.columns, uint64_t(kPiece)));
  launch.extent =
      isInt8 ? int64_t(layout.rows) * inRow : int64_t(llvm::divideCeil(layout.elements(), uint64_t(kPiece)));
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(launch.extent), uint64_t(piecesOfBlock))));
  launch.random("the bytes", f32, int64_t(llvm::divideCeil(layout.bytes, uint64_t(4))), 1);
  launch.poison("the matrix", storedBytes(type, int64_t(layout.elements())));
  if (isInt8)
    launch.scalars = {int64_t(layout.columns), inRow, int64_t(layout.scales)};
  else if (isSingle)
    launch.scalars = {int64_t(layout.elements()), int64_t(layout.scales), int64_t(layout.map)};
  else
    launch.scalars = {int64_t(layout.elements()), int64_t(layout.scales), int64_t(layout.nestedScales),
                      int64_t(layout.nestedMap),  int64_t(layout.map),    int64_t(layout.mean)};
  if (layout.hasScalesByRow())
    launch.scalars.push_back(int64_t(layout.columns));
  if (!launch.refused.empty())
    return launch;
  // Scales are random as the codes are; maps and the mean are those of any weight.
  PatternMemory &bytes = launch.memory(0);
  auto put = [&](uint64_t at, std::span<const float> numbers) {
    Tensor values({int64_t(numbers.size())}, f32);
    llvm::copy(numbers, values.reals.begin());
    bytes.write(int64_t(at / 4), values);
  };
  if (!isInt8)
    put(layout.map, isMxfp4 ? e2m1Map() : nf4Map());
  if (isMxfp4) // exponents of moderate numbers, four to a word
    put(layout.scales,
        std::vector<float>((layout.map - layout.scales) / sizeof(float), std::bit_cast<float>(0x7e7d7f80u)));
  if (!isInt8 && !isSingle) {
    const float mean = 0.0625f;
    put(layout.nestedMap, dynamicMap()), put(layout.mean, {&mean, 1});
  }
  for (int64_t piece : rowsOf(launch.units, piecesOfBlock, launch.extent)) {
    const int64_t first = isInt8 ? piece / inRow * int64_t(layout.columns) + piece % inRow * kPiece : piece * kPiece,
                  end = isInt8 ? (piece / inRow + 1) * int64_t(layout.columns) : int64_t(layout.elements());
    // What the interpreter's rule calls begins at whole blocks.
    const auto skipped = size_t(uint64_t(first) % kNf4Block);
    std::vector<float> numbers(skipped + size_t(std::min(kPiece, end - first)));
    dequantize(reinterpret_cast<const std::byte *>(bytes.data()), layout, uint64_t(first) - skipped, numbers.size(),
               numbers.data());
    for (size_t i = skipped; i < numbers.size(); ++i)
      launch.expect(1, type, first + int64_t(i - skipped), roundTo(numbers[i], type), 0);
  }
  return launch;
}

/// Elements of a value on one rank; 0 where its type does not say.
int64_t elementsOf(Operation *op, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.hasStaticShape())
    return type.getNumElements();
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
  const FailureOr<FlatRange> range = Interpreter({}).flatRange(op, type);
  return failed(range) ? 0 : range->length;
}

} // namespace

std::vector<LibraryCase> transferCases(Operation *op, DictionaryAttr kernels) {
  std::vector<LibraryCase> cases;
  const std::string kernel = gpuKernelOf(kernels, 0);
  if (kernel.empty())
    return cases;
  const Type f32 = Float32Type::get(op->getContext()), i32 = IntegerType::get(op->getContext(), 32);
  auto add = [&](std::string call, std::function<LibraryLaunch(const KernelVersion &)> make) {
    cases.push_back({kernel, std::move(call), true, std::move(make)});
  };
  if (auto embedding = dyn_cast<graph::EmbeddingOp>(op)) {
    auto table = cast<RankedTensorType>(embedding.getTable().getType());
    const TableRows rows{elementsOf(op, embedding.getIndices()),
                         table.getDimSize(1),
                         table.getDimSize(0),
                         table.getElementType(),
                         f32,
                         i32};
    add(llvm::formatv("{0} rows of {1} x {2}, {3}", rows.rows, rows.tableRows, rows.width, nameOf(rows.type)),
        [rows](const KernelVersion &version) { return gatherLaunch(rows, int64_t(version.unitsPerBlock)); });
  } else if (auto grad = dyn_cast<graph::EmbeddingGradOp>(op)) {
    auto table = cast<RankedTensorType>(grad.getDtable().getType());
    const TableRows rows{elementsOf(op, grad.getIndices()),
                         table.getDimSize(1),
                         table.getDimSize(0),
                         getElementTypeOrSelf(grad.getDy().getType()),
                         f32,
                         i32};
    add(llvm::formatv("{0} {1} rows added to {2} x {3}", rows.rows, nameOf(rows.type), rows.tableRows, rows.width),
        [rows](const KernelVersion &) { return scatterLaunch(rows); });
  } else if (isa<graph::CastOp>(op) && isWireCast(op)) {
    const int64_t elements = elementsOf(op, op->getOperand(0));
    const Type from = getElementTypeOrSelf(op->getOperand(0).getType()),
               to = getElementTypeOrSelf(op->getResult(0).getType());
    add(llvm::formatv("{0} numbers from {1} to {2}", elements, nameOf(from), nameOf(to)),
        [=](const KernelVersion &version) { return narrowLaunch(elements, from, to, int64_t(version.unitsPerBlock)); });
  } else if (auto source = dyn_cast<graph::DequantizeOp>(op)) {
    auto matrix = cast<RankedTensorType>(source.getY().getType());
    const std::optional<QuantizedLayout> layout = quantizedLayout(
        graph::planFormat(source.getFormat()), uint64_t(matrix.getDimSize(0)), uint64_t(matrix.getDimSize(1)));
    if (layout)
      add(llvm::formatv("{0} x {1} numbers of {2}, as {3}", layout->rows, layout->columns,
                        weightFormatName(layout->format), nameOf(matrix.getElementType())),
          [layout = *layout, type = matrix.getElementType()](const KernelVersion &version) {
            return dequantizeLaunch(layout, type, int64_t(version.unitsPerBlock));
          });
  }
  return cases;
}

} // namespace ztc::verification
