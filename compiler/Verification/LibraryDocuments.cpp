// Where the documents of packed rows lie: the table that cuDNN is given.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/LibraryCases.h"
#include "runtime/Format/CudnnAttention.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ztc::verification {
namespace {

struct TableCall {
  int64_t batch, sequence, queryWidth, keyWidth; ///< widths: elements of a position, all heads
  Type i32;
};

/// Where each row's documents begin, of growing length and none alike in two rows; the last has one position.
std::vector<int64_t> startsOf(int64_t row, int64_t sequence, int64_t most) {
  std::vector<int64_t> starts;
  for (int64_t next = 0, length = 1 + row % 3; next < sequence && int64_t(starts.size()) + 1 < most; next += length++)
    starts.push_back(next);
  if (starts.back() < sequence - 1)
    starts.push_back(sequence - 1);
  return starts;
}

LibraryLaunch tableLaunch(const TableCall &call) {
  LibraryLaunch launch;
  const DocumentTable table{cudnnMostDocuments(uint64_t(call.sequence))};
  const auto most = int64_t(table.documents);
  Tensor starts({call.batch * call.sequence}, call.i32);
  std::vector<std::vector<int64_t>> rows;
  for (int64_t row = 0; row < call.batch; ++row) {
    rows.push_back(startsOf(row, call.sequence, most));
    for (int64_t position = 0, document = -1; position < call.sequence; ++position) {
      document += document + 1 < int64_t(rows.back().size()) && rows.back()[size_t(document) + 1] == position;
      starts.integers[size_t(row * call.sequence + position)] = rows.back()[size_t(document)];
    }
  }
  launch.given("document_starts", starts);
  const unsigned made = launch.poison("table", table.bytes(uint64_t(call.batch)));
  launch.scalars = {call.sequence, most, call.queryWidth, call.keyWidth};
  launch.extent = call.batch;
  for (auto [row, begins] : llvm::enumerate(rows)) {
    launch.units.insert(int64_t(row));
    const auto expect = [&](uint64_t array, int64_t document, int64_t value) {
      launch.expect(made, call.i32, int64_t(row * table.numbersOfRow() + array) + document, double(value), 0);
    };
    const auto beginOf = [&](int64_t document) {
      return document < int64_t(begins.size()) ? begins[size_t(document)] : call.sequence;
    };
    for (int64_t document = 0; document <= most; ++document) {
      if (document < most)
        expect(table.lengths(), document, beginOf(document + 1) - beginOf(document));
      expect(table.queryOffsets(), document, beginOf(document) * call.queryWidth);
      expect(table.keyOffsets(), document, beginOf(document) * call.keyWidth);
      expect(table.lseOffsets(), document, beginOf(document));
    }
  }
  return launch;
}

} // namespace

std::vector<LibraryCase> documentCases(Operation *op, DictionaryAttr kernels) {
  const bool isGradient = isa<graph::AttentionGradOp>(op);
  if (!isGradient && !isa<graph::AttentionOp>(op))
    return {};
  const std::string kernel = gpuKernelOf(kernels, isGradient ? 3 : 1);
  if (kernel.empty())
    return {};
  auto query = cast<RankedTensorType>(op->getOperand(0).getType()),
       key = cast<RankedTensorType>(op->getOperand(1).getType());
  const TableCall call{query.getDimSize(0), query.getDimSize(1), query.getDimSize(2) * query.getDimSize(3),
                       key.getDimSize(2) * key.getDimSize(3), IntegerType::get(op->getContext(), 32)};
  return {{kernel, llvm::formatv("documents of {0} rows of {1}", call.batch, call.sequence), true,
           [call](const KernelVersion &) { return tableLaunch(call); }}};
}

} // namespace ztc::verification
