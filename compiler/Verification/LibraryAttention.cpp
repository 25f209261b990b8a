// Attention's kernels at the sizes of a call: a few rows of the first, the last and other heads.
//
// Random keys alone would hide much: among thousands of keys one more or less moves a result by less than its rounding.
// So the first and the last key that a chosen row sees get scores at which they make a good part of the result, and
// those next to them, which it must not see, scores at which they would be all of it.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Reference/AttentionRows.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/LibraryCases.h"
#include "runtime/Format/ScratchSizes.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <map>
#include <tuple>

using namespace mlir;

namespace ztc::verification {
namespace {

/// Multiplications that the engine may take for the blocks of one kernel.
constexpr double kMostProducts = 3e9;
/// How much more a key that is not to be seen would count than all others.
constexpr double kHidden = 8;

/// One attention, or its gradient.
struct AttentionCall {
  int64_t batch, sequence, heads, kvHeads, width, window, block;
  bool causal, packed, isGradient;
  double scale, softcap;
  Type type;
  Type f32;
  std::vector<int64_t> starts; ///< of packed rows: in each row of the batch where the document of a position starts

  static std::optional<AttentionCall> of(Operation *op) {
    auto forward = dyn_cast<graph::AttentionOp>(op);
    auto grad = dyn_cast<graph::AttentionGradOp>(op);
    if (!forward && !grad)
      return std::nullopt;
    auto query = cast<RankedTensorType>(op->getOperand(0).getType()),
         key = cast<RankedTensorType>(op->getOperand(1).getType());
    AttentionCall call;
    call.batch = query.getDimSize(0), call.sequence = query.getDimSize(1);
    call.heads = query.getDimSize(2), call.kvHeads = key.getDimSize(2), call.width = query.getDimSize(3);
    call.window = grad ? grad.getWindow() : forward.getWindow();
    call.causal = grad ? grad.getCausal() : forward.getCausal();
    call.scale = (grad ? grad.getScale() : forward.getScale()).convertToDouble();
    call.softcap = (grad ? grad.getSoftcap() : forward.getSoftcap()).convertToDouble();
    call.packed = bool(grad ? grad.getDocumentStarts() : forward.getDocumentStarts());
    call.isGradient = bool(grad);
    call.type = query.getElementType();
    call.f32 = Float32Type::get(op->getContext());
    auto chunk = op->getAttrOfType<IntegerAttr>(plan_ir::kChunk);
    call.block = std::clamp<int64_t>(chunk ? chunk.getInt() : call.sequence, 1, call.sequence);
    if (call.packed)
      for (int64_t position = 0; position < call.sequence; ++position)
        call.starts.push_back(call.startOf(position));
    return call;
  }

  /// Documents of a third of the row, of one token, of a sixth, and the rest but for the last two tokens.
  int64_t startOf(int64_t position) const {
    int64_t start = 0;
    for (int64_t next : {sequence / 3, sequence / 3 + 1, sequence / 2, sequence - 2})
      if (next <= position)
        start = std::max(start, next);
    return start;
  }
  /// Keys [first, end) that a query sees, queries that see a key.
  std::pair<int64_t, int64_t> keysOf(int64_t query) const {
    const int64_t first = std::max(packed ? starts[size_t(query)] : 0, window ? query - window + 1 : 0);
    return {first, causal ? query + 1 : sequence};
  }
  std::pair<int64_t, int64_t> queriesOf(int64_t key) const {
    int64_t end = window ? std::min(sequence, key + window) : sequence;
    if (packed)
      end = std::min<int64_t>(end, llvm::upper_bound(starts, key) - starts.begin());
    return {causal ? key : 0, end};
  }

  std::string text() const {
    std::string type;
    llvm::raw_string_ostream(type) << this->type;
    return llvm::formatv(
        "attention{0} of {1} x {2} {3} rows, {4} heads ({5} of keys) of {6}{7}{8}{9}, scaled by {10}{11}",
        isGradient ? "'s gradient" : "", batch, sequence, type, heads, kvHeads, width, causal ? ", causal" : "",
        packed ? ", packed" : "", window ? ", a window of " + std::to_string(window) : "", scale,
        softcap != 0 ? llvm::formatv(", capped at {0}", softcap).str() : "");
  }
  int64_t queryElements() const { return batch * sequence * heads * width; }
  int64_t keyElements() const { return batch * sequence * kvHeads * width; }
  int64_t element(int64_t b, int64_t position, int64_t head, int64_t ofHeads) const {
    return ((b * sequence + position) * ofHeads + head) * width;
  }
  int64_t statistic(int64_t b, int64_t head, int64_t row) const { return (b * heads + head) * sequence + row; }

  AttentionHead mask() const {
    AttentionHead head;
    head.sequence = sequence, head.width = width, head.causal = causal, head.window = window, head.scale = scale;
    head.softcap = softcap;
    head.starts = packed ? starts.data() : nullptr;
    return head;
  }
};

/// A score with which one key of `visible` is a good part of a softmax over random ones.
double edgeScore(int64_t visible) {
  return std::log(double(visible)) + 1;
}

// The host: rows of scores, between products that are the device's own.

/// A block of query rows as the host cuts them, with the columns that any of them sees.
struct AttentionBlock {
  int64_t row, rows, column, columns;
};

AttentionBlock blockOf(const AttentionCall &call, int64_t number) {
  AttentionBlock block{number * call.block, 0, 0, 0};
  block.rows = std::min(call.block, call.sequence - block.row);
  if (call.causal && call.window && block.row + 1 > call.window)
    block.column = (block.row + 1 - call.window) / 64 * 64;
  block.columns = (call.causal ? block.row + block.rows : call.sequence) - block.column;
  return block;
}

/// Rows of scores, or of their cotangents, of which the kernel is given some.
struct ScoreRows {
  unsigned buffer;
  int64_t ld;
};

/// The mask and the cap of a row of scores, whose keys are the columns; the row's query is `first` + the row.
AttentionHead scoresMask(const AttentionCall &call, const AttentionBlock &block) {
  AttentionHead head;
  head.sequence = block.columns, head.width = 1, head.causal = call.causal, head.window = call.window;
  head.softcap = call.softcap;
  return head;
}

/// What a score is of the number that stands for it in a row: capped ones arrive divided by their cap.
double scoreUnit(const AttentionCall &call) {
  return call.softcap != 0 ? call.softcap : 1;
}

std::vector<int64_t> rowScalars(const AttentionCall &call, const AttentionBlock &block, int64_t ld) {
  std::vector<int64_t> scalars{block.row - block.column, ld, block.columns, call.window};
  if (call.softcap != 0)
    scalars.push_back(int64_t(llvm::bit_cast<uint32_t>(float(call.softcap))));
  return scalars;
}

std::vector<double> rowOf(const PatternMemory &memory, Type type, int64_t first, int64_t count) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i)
    positions.push_back(first + i);
  return memory.elements(type, positions).reals;
}

/// Makes random numbers of a row of capped scores such that no probability is below what f32 holds.
void limitScores(LibraryLaunch &launch, const AttentionCall &call, const ScoreRows &scores, int64_t row) {
  constexpr double kMost = 4;
  const double factor = kMost / scoreUnit(call);
  if (call.softcap == 0 || factor >= 1)
    return;
  Tensor numbers({scores.ld}, call.f32);
  numbers.reals = rowOf(launch.memory(scores.buffer), call.f32, row * scores.ld, scores.ld);
  for (double &number : numbers.reals)
    number = roundTo(number * factor, call.f32);
  launch.memory(scores.buffer).write(row * scores.ld, numbers);
}

/// Gives the edges of what a row sees scores that count.
void plantScores(LibraryLaunch &launch, const ScoreRows &scores, const AttentionHead &head, Type f32, int64_t row,
                 int64_t query, double unit) {
  int64_t first = 0, end = head.sequence;
  while (first < end && !head.sees(query, first))
    ++first;
  while (end > first && !head.sees(query, end - 1))
    --end;
  const double score = edgeScore(end - first);
  for (auto [column, value] : {std::pair(first - 1, score + kHidden), std::pair(end, score + kHidden),
                               std::pair(first, score), std::pair(end - 1, score)})
    if (column >= 0 && column < scores.ld)
      launch.memory(scores.buffer).write(row * scores.ld + column, Tensor::scalar(value / unit, f32));
}

LibraryLaunch softmaxLaunch(const AttentionCall &call, const AttentionBlock &block) {
  LibraryLaunch launch;
  const ScoreRows scores{0, int64_t(scratchRowElements(uint64_t(call.sequence)))};
  launch.random("scores", call.f32, block.rows * scores.ld, 1);
  launch.poison("lse", uint64_t(block.rows) * 4);
  const int64_t first = block.row - block.column;
  launch.scalars = rowScalars(call, block, scores.ld);
  launch.extent = block.rows, launch.units = fewOf(block.rows);
  if (!launch.refused.empty())
    return launch;
  AttentionHead head = scoresMask(call, block);
  const double unit = scoreUnit(call);
  head.q = {&unit, 0};
  for (int64_t row : launch.units) {
    limitScores(launch, call, scores, row);
    plantScores(launch, scores, head, call.f32, row, first + row, unit);
    const std::vector<double> keys = rowOf(launch.memory(0), call.f32, row * scores.ld, block.columns);
    head.k = {keys.data(), 1};
    const AttentionRow expected = attentionRow(head, first + row);
    for (int64_t column = 0; column < int64_t(llvm::alignTo(uint64_t(block.columns), 16)); ++column)
      launch.expect(0, call.f32, row * scores.ld + column, column < block.columns ? expected.p[size_t(column)] : 0,
                    libraryTolerance(call.type), column < block.columns && call.type.isF16() ? 1e-7 : 0);
    launch.expect(1, call.f32, row, expected.lse, libraryTolerance(call.f32));
  }
  return launch;
}

LibraryLaunch softmaxGradLaunch(const AttentionCall &call, const AttentionBlock &block) {
  LibraryLaunch launch;
  const ScoreRows scores{0, int64_t(scratchRowElements(uint64_t(call.sequence)))};
  launch.random("scores", call.f32, block.rows * scores.ld, 1);
  launch.random("dp", call.f32, block.rows * scores.ld, 2);
  launch.random("lse", call.f32, block.rows, 3);
  launch.random("delta", call.f32, block.rows, 4);
  const int64_t first = block.row - block.column;
  launch.scalars = rowScalars(call, block, scores.ld);
  launch.extent = block.rows, launch.units = fewOf(block.rows);
  if (!launch.refused.empty())
    return launch;
  AttentionHead head = scoresMask(call, block);
  head.scale = call.scale;
  const double one = 1, inverse = scoreUnit(call) / call.scale; // scores arrive scaled
  head.q = {&inverse, 0}, head.dout = {&one, 0};
  for (int64_t row : launch.units) {
    limitScores(launch, call, scores, row);
    const std::vector<double> keys = rowOf(launch.memory(0), call.f32, row * scores.ld, block.columns),
                              dps = rowOf(launch.memory(1), call.f32, row * scores.ld, block.columns);
    head.k = {keys.data(), 1}, head.v = {dps.data(), 1};
    const double lse = rowOf(launch.memory(2), call.f32, row, 1)[0],
                 delta = rowOf(launch.memory(3), call.f32, row, 1)[0];
    for (int64_t column = 0; column < int64_t(llvm::alignTo(uint64_t(block.columns), 16)); ++column) {
      PairGradient pair{};
      if (column < block.columns && head.sees(first + row, column))
        pair = pairGradient(head, first + row, column, lse, delta);
      const double relative = libraryTolerance(call.type);
      // Probabilities of capped scores spread further: a cotangent may be among the smallest numbers of f16.
      const double smallest = call.softcap != 0 && call.type.isF16() ? 1e-7 : 0;
      launch.expect(0, call.f32, row * scores.ld + column, pair.p, relative, smallest);
      launch.expect(1, call.f32, row * scores.ld + column, pair.ds, relative,
                    std::abs(pair.p * call.scale) * 1e-5 + smallest);
    }
  }
  return launch;
}

LibraryLaunch rowDotLaunch(const AttentionCall &call, const AttentionBlock &block) {
  LibraryLaunch launch;
  const int64_t stride = isStoredNarrow(call.type) ? call.width : call.heads * call.width;
  launch.random("dout", call.f32, block.rows * stride, 1);
  launch.random("out", call.f32, block.rows * stride, 2);
  launch.poison("delta", uint64_t(block.rows) * 4);
  launch.scalars = {stride, stride, call.width};
  launch.extent = block.rows, launch.units = fewOf(block.rows);
  if (!launch.refused.empty())
    return launch;
  AttentionHead head;
  head.width = call.width;
  for (int64_t row : launch.units) {
    const std::vector<double> dout = rowOf(launch.memory(0), call.f32, row * stride, call.width),
                              out = rowOf(launch.memory(1), call.f32, row * stride, call.width);
    head.dout = {dout.data(), 0};
    launch.expect(2, call.f32, row, attentionDelta(head, 0, out.data()), 1e-6, 1e-6 * double(call.width));
  }
  return launch;
}

// GPUs: whole rows of results.

/// Rows [first, end) of one head that a block of a kernel has.
struct HeadBlock {
  int64_t batch, head, first, end;
};

/// A kernel of attention: what it reads and writes, and what its blocks are.
enum class Kernel { Forward, Delta, KeyGrad, QueryGrad };

class GpuLaunch {
public:
  GpuLaunch(const AttentionCall &call, Kernel kernel, int64_t rows) : call(call), kernel(kernel), rows(rows) {}

  LibraryLaunch make() {
    addBuffers();
    const int64_t perHead = int64_t(llvm::divideCeil(uint64_t(call.sequence), uint64_t(rows)));
    launch.scalars = {call.sequence, call.heads, call.kvHeads, call.window,
                      int64_t(llvm::bit_cast<uint32_t>(float(call.scale)))};
    if (call.softcap != 0 && kernel != Kernel::Delta)
      launch.scalars.push_back(int64_t(llvm::bit_cast<uint32_t>(float(call.softcap))));
    const int64_t pairs = call.batch * ownHeads();
    launch.extent = pairs * perHead * rows;
    if (!launch.refused.empty())
      return std::move(launch);
    double products = 0;
    for (auto [rowBlock, pair] : {std::pair(int64_t(0), int64_t(0)), std::pair(perHead - 1, pairs - 1),
                                  std::pair(perHead / 2, pairs / 2), std::pair(perHead / 3, int64_t(1))}) {
      const int64_t unit = (kernel == Kernel::KeyGrad ? rowBlock : perHead - 1 - rowBlock) * pairs + pair % pairs;
      HeadBlock block{pair % pairs / ownHeads(), pair % pairs % ownHeads(), rowBlock * rows, 0};
      block.end = std::min(block.first + rows, call.sequence);
      if (launch.units.count(unit))
        continue;
      if (products += productsOf(block); products > kMostProducts) {
        launch.leftOut = llvm::formatv("rows {0} to {1} of a head take the engine too long", block.first, block.end);
        continue;
      }
      launch.units.insert(unit);
      blocks.push_back(block);
    }
    for (const HeadBlock &block : blocks)
      for (int64_t row : rowsOf(block))
        plant(block, row);
    for (const HeadBlock &block : blocks) {
      for (int64_t row : rowsOf(block))
        expectRow(block, row);
      heads.clear();
    }
    return std::move(launch);
  }

private:
  /// Of the four kernels' buffers those that this one has.
  struct Buffers {
    unsigned q = 0, k = 0, v = 0, dout = 0, out = 0, lse = 0, delta = 0, dq = 0, dk = 0, dv = 0;
  };

  int64_t ownHeads() const { return kernel == Kernel::KeyGrad ? call.kvHeads : call.heads; }
  int64_t group() const { return call.heads / call.kvHeads; }
  /// Eight of a block, so that each kind of rows that a thread has is among them: of 64 every ninth.
  static std::set<int64_t> rowsOf(const HeadBlock &block) {
    std::set<int64_t> rows;
    for (int64_t i = 0; i < 8; ++i)
      rows.insert(block.first + i * (block.end - 1 - block.first) / 7);
    return rows;
  }

  void addBuffers() {
    const int64_t queries = call.queryElements(), keys = call.keyElements(),
                  statistics = call.batch * call.heads * call.sequence;
    auto result = [&](StringRef name, int64_t elements) {
      return launch.poison(name, storedBytes(call.type, elements));
    };
    if (kernel == Kernel::Delta) {
      at.dout = launch.random("dout", call.type, queries, 4);
      at.out = launch.random("out", call.type, queries, 5);
      at.delta = launch.poison("delta", storedBytes(call.f32, statistics));
      return;
    }
    at.q = launch.random("q", call.type, queries, 1);
    at.k = launch.random("k", call.type, keys, 2);
    at.v = launch.random("v", call.type, keys, 3);
    if (kernel == Kernel::Forward) {
      at.out = result("out", queries);
      at.lse = launch.poison("lse", storedBytes(call.f32, statistics));
    } else {
      at.dout = launch.random("dout", call.type, queries, 4);
      at.lse = launch.random("lse", call.f32, statistics, 6);
      at.delta = launch.random("delta", call.f32, statistics, 7);
      if (kernel == Kernel::KeyGrad) {
        at.dk = result("dk", keys);
        at.dv = result("dv", keys);
      } else {
        at.dq = result("dq", queries);
      }
    }
    if (!call.packed)
      return;
    Tensor starts({call.batch * call.sequence}, IntegerType::get(call.type.getContext(), 32));
    for (size_t i = 0; i < starts.integers.size(); ++i)
      starts.integers[i] = call.starts[i % call.starts.size()];
    launch.given("document_starts", starts);
  }

  /// Multiplications of a block, one or two more for each product that is made again.
  double productsOf(const HeadBlock &block) const {
    if (kernel == Kernel::Delta)
      return 0;
    const bool ofKeys = kernel == Kernel::KeyGrad;
    const auto first = ofKeys ? call.queriesOf(block.first) : call.keysOf(block.first),
               last = ofKeys ? call.queriesOf(block.end - 1) : call.keysOf(block.end - 1);
    const double columns = double(std::max(first.second, last.second) - std::min(first.first, last.first));
    const int64_t times = kernel == Kernel::Forward ? 2 : ofKeys ? 4 * group() : 3;
    return columns * double(rows * call.width * times);
  }

  /// Makes row `to` of a tensor a multiple of row `from` of another one, so that their score is `score`.
  void plantRow(unsigned from, int64_t fromElement, unsigned to, int64_t toElement, double score) {
    Tensor row({call.width}, call.type);
    row.reals = verification::rowOf(launch.memory(from), call.type, fromElement, call.width);
    double square = 0;
    for (double x : row.reals)
      square += x * x;
    const double factor = score / (call.scale * square);
    if (!(std::abs(factor) < 16)) // nothing to be a multiple of
      return;
    for (double &x : row.reals)
      x = roundTo(x * factor, call.type);
    launch.memory(to).write(toElement, row);
  }

  void plant(const HeadBlock &block, int64_t row) {
    if (kernel == Kernel::Delta)
      return;
    const bool ofKeys = kernel == Kernel::KeyGrad;
    const auto [first, end] = ofKeys ? call.queriesOf(row) : call.keysOf(row);
    // A gradient's p are not divided by their sum, which grows as its root.
    const double score = kernel == Kernel::Forward ? edgeScore(end - first) : 1.4 + std::log(double(end - first)) / 2;
    const double hidden = kernel == Kernel::Forward ? score + kHidden : score + 3;
    for (auto [other, value] :
         {std::pair(first - 1, hidden), std::pair(end, hidden), std::pair(first, score), std::pair(end - 1, score)}) {
      if (other < 0 || other >= call.sequence)
        continue;
      if (ofKeys)
        plantRow(at.k, call.element(block.batch, row, block.head, call.kvHeads), at.q,
                 call.element(block.batch, other, block.head * group(), call.heads), value);
      else
        plantRow(at.q, call.element(block.batch, row, block.head, call.heads), at.k,
                 call.element(block.batch, other, block.head / group(), call.kvHeads), value);
    }
  }

  /// Rows [first, end) of a head of one of the tensors, which stay as they are.
  HeadRows headOf(unsigned buffer, int64_t batch, int64_t head, int64_t ofHeads, int64_t first, int64_t end) {
    const int64_t stride = call.width;
    auto [found, isNew] = heads.try_emplace({buffer, batch, head});
    Rows &rows = found->second;
    if (isNew || first < rows.first || end > rows.end) {
      if (!isNew)
        first = std::min(first, rows.first), end = std::max(end, rows.end);
      rows = {first, end, {}};
      for (int64_t row = first; row < end; ++row)
        llvm::append_range(rows.numbers, verification::rowOf(launch.buffers[buffer].memory, call.type,
                                                             call.element(batch, row, head, ofHeads), call.width));
    }
    return {rows.numbers.data(), stride, rows.first};
  }

  /// A row of a result as it is added up.
  struct Sums {
    std::vector<double> numbers, squares, cancelled;
    explicit Sums(int64_t width) : numbers(size_t(width), 0), squares(size_t(width), 0), cancelled(size_t(width), 0) {}
    /// `cancels`: what the weight is a difference of, where it may be far smaller.
    void add(double weight, const double *row, double cancels = 0) {
      for (size_t d = 0; d < numbers.size(); ++d) {
        numbers[d] += weight * row[d];
        squares[d] += weight * row[d] * weight * row[d];
        cancelled[d] += cancels * row[d] * cancels * row[d];
      }
    }
  };

  /// What p * (dp - delta) * scale is a difference of: both are sums of f32 in every precision.
  double cancelsIn(const PairGradient &pair, double delta) const {
    return pair.p * std::max(std::abs(pair.dp), std::abs(delta)) * call.scale;
  }

  /// The numbers of a row may be off by a part of the largest: weights are rounded each for itself, so that the root of
  /// the squares counts where terms cancel. What weights are differences of is off by a part of itself.
  void expectNumbers(unsigned buffer, int64_t element, const Sums &sums) {
    // What a score of f32 is off by grows with it.
    const double growth = call.type.isF32() ? std::max(1.0, std::abs(call.scale) * std::sqrt(double(call.width))) : 1;
    double largest = 0, cancelled = 0;
    for (auto [number, square, lost] : llvm::zip_equal(sums.numbers, sums.squares, sums.cancelled)) {
      largest = std::max({largest, std::abs(number), std::sqrt(square)});
      cancelled = std::max(cancelled, std::sqrt(lost));
    }
    for (auto [index, number] : llvm::enumerate(sums.numbers))
      launch.expect(buffer, call.type, element + int64_t(index), number, 0,
                    growth * (largest * libraryTolerance(call.type) + cancelled * libraryTolerance(call.f32)));
  }

  void expectRow(const HeadBlock &block, int64_t row) {
    if (kernel == Kernel::Delta)
      return expectDelta(block, row);
    if (kernel == Kernel::KeyGrad)
      return expectKey(block, row);
    const int64_t kvHead = block.head / group(), own = call.element(block.batch, row, block.head, call.heads);
    const auto [first, end] = call.keysOf(row);
    AttentionHead head = call.mask();
    head.q = headOf(at.q, block.batch, block.head, call.heads, row, row + 1);
    head.k = headOf(at.k, block.batch, kvHead, call.kvHeads, first, end);
    head.v = headOf(at.v, block.batch, kvHead, call.kvHeads, first, end);
    Sums sums(call.width);
    if (kernel == Kernel::Forward) {
      const AttentionRow expected = attentionRow(head, row);
      for (int64_t j = first; j < end; ++j)
        sums.add(expected.p[size_t(j)], head.v[j]);
      expectNumbers(at.out, own, sums);
      launch.expect(at.lse, call.f32, call.statistic(block.batch, block.head, row), expected.lse,
                    libraryTolerance(call.f32));
      return;
    }
    head.dout = headOf(at.dout, block.batch, block.head, call.heads, row, row + 1);
    const auto [lse, delta] = statisticsOf(block.batch, block.head, row);
    for (int64_t j = first; j < end; ++j) {
      const PairGradient pair = pairGradient(head, row, j, lse, delta);
      sums.add(pair.ds, head.k[j], cancelsIn(pair, delta));
    }
    expectNumbers(at.dq, own, sums);
  }

  std::pair<double, double> statisticsOf(int64_t batch, int64_t head, int64_t row) const {
    auto one = [&](unsigned buffer) {
      return verification::rowOf(launch.buffers[buffer].memory, call.f32, call.statistic(batch, head, row), 1)[0];
    };
    return {one(at.lse), one(at.delta)};
  }

  void expectDelta(const HeadBlock &block, int64_t row) {
    AttentionHead head = call.mask();
    head.dout = headOf(at.dout, block.batch, block.head, call.heads, row, row + 1);
    const HeadRows out = headOf(at.out, block.batch, block.head, call.heads, row, row + 1);
    launch.expect(at.delta, call.f32, call.statistic(block.batch, block.head, row), attentionDelta(head, row, out[row]),
                  1e-6, 1e-6 * double(call.width));
  }

  void expectKey(const HeadBlock &block, int64_t row) {
    const auto [first, end] = call.queriesOf(row);
    AttentionHead head = call.mask();
    head.k = headOf(at.k, block.batch, block.head, call.kvHeads, row, row + 1);
    head.v = headOf(at.v, block.batch, block.head, call.kvHeads, row, row + 1);
    Sums dk(call.width), dv(call.width);
    for (int64_t query = block.head * group(); query < (block.head + 1) * group(); ++query) {
      head.q = headOf(at.q, block.batch, query, call.heads, first, end);
      head.dout = headOf(at.dout, block.batch, query, call.heads, first, end);
      for (int64_t i = first; i < end; ++i) {
        const auto [lse, delta] = statisticsOf(block.batch, query, i);
        const PairGradient pair = pairGradient(head, i, row, lse, delta);
        dk.add(pair.ds, head.q[i], cancelsIn(pair, delta));
        dv.add(pair.p, head.dout[i]);
      }
    }
    const int64_t own = call.element(block.batch, row, block.head, call.kvHeads);
    expectNumbers(at.dk, own, dk);
    expectNumbers(at.dv, own, dv);
  }

  /// Numbers of a head's rows, without gaps.
  struct Rows {
    int64_t first = 0, end = 0;
    std::vector<double> numbers;
  };

  const AttentionCall &call;
  const Kernel kernel;
  const int64_t rows; ///< of a block
  LibraryLaunch launch;
  Buffers at;
  std::vector<HeadBlock> blocks;
  std::map<std::tuple<unsigned, int64_t, int64_t>, Rows> heads; ///< by buffer, row of the batch and head
};

} // namespace

std::vector<LibraryCase> attentionCases(Operation *op, DictionaryAttr kernels) {
  std::vector<LibraryCase> cases;
  std::optional<AttentionCall> known = AttentionCall::of(op);
  if (!known)
    return cases;
  const auto call = std::make_shared<const AttentionCall>(std::move(*known));
  using HostLaunch = LibraryLaunch (*)(const AttentionCall &, const AttentionBlock &);
  auto addHost = [&](StringRef field, HostLaunch make) {
    const std::string kernel = serviceKernelOf(kernels, field);
    for (int64_t number : fewOf(int64_t(llvm::divideCeil(uint64_t(call->sequence), uint64_t(call->block))))) {
      const AttentionBlock block = blockOf(*call, number);
      if (!kernel.empty())
        cases.push_back({kernel, llvm::formatv("{0}, rows {1} to {2}", call->text(), block.row, block.row + block.rows),
                         false, [call, block, make](const KernelVersion &) { return make(*call, block); }});
    }
  };
  addHost("softmax_kernel", softmaxLaunch);
  addHost("softmax_grad_kernel", softmaxGradLaunch);
  addHost("row_dot_kernel", rowDotLaunch);
  const std::vector<Kernel> onGpus =
      call->isGradient ? std::vector{Kernel::Delta, Kernel::KeyGrad, Kernel::QueryGrad} : std::vector{Kernel::Forward};
  for (auto [index, kind] : llvm::enumerate(onGpus))
    if (const std::string kernel = gpuKernelOf(kernels, unsigned(index)); !kernel.empty())
      cases.push_back({kernel, call->text(), true, [call, kind = kind](const KernelVersion &version) {
                         return GpuLaunch(*call, kind, int64_t(version.unitsPerBlock)).make();
                       }});
  return cases;
}

} // namespace ztc::verification
