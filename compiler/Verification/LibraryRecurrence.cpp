// Kernels of linear attention's chunks at the sizes of a plan: columns of states through two chunks, inverses of whole
// matrices. There are such kernels for GPUs alone.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/LibraryCases.h"
#include "runtime/Format/RecurrenceKernels.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace ztc::verification {
namespace {

int64_t sizeOf(Value value, unsigned dimension) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dimension);
}

/// A call of graph.state_passing.
struct StatesCall {
  int64_t chunks, rows, keys, values, positions, decayKeys, decayParts;
  bool plus, past, reverse;
  Type f32;

  static StatesCall of(graph::StatePassingOp op) {
    return {int64_t(op.getChunks()),
            sizeOf(op.getLast(), 0),
            sizeOf(op.getLast(), 1),
            sizeOf(op.getLast(), 2),
            op.getTo() ? sizeOf(op.getTo(), 1) : 0,
            op.getDecay() ? sizeOf(op.getDecay(), 1) : 0,
            op.getDecay() ? sizeOf(op.getDecay(), 2) : 0,
            op.getPlus() != nullptr,
            op.getPast() != nullptr,
            op.getReverse(),
            Float32Type::get(op.getContext())};
  }

  std::string text() const {
    return llvm::formatv("{0} states of {1} x {2}{3} through {4} chunks{5}{6}{7}{8}", rows, keys, values,
                         positions ? llvm::formatv(" by {0} positions", positions).str() : "", chunks,
                         reverse ? " in reverse" : "", plus ? ", sums" : "", past ? ", a past" : "",
                         decayKeys ? llvm::formatv(", decays {0} x {1}", decayKeys, decayParts).str() : "");
  }
};

/// The operands of a launch, and the way of columns through them. Random states grow from one chunk to the next: two
/// chunks are enough to pass by all that a kernel does.
class StatesLaunch {
public:
  explicit StatesLaunch(const StatesCall &call) : c(call), turns(std::min<int64_t>(c.chunks, 2)) {}

  LibraryLaunch make(int64_t unitsPerBlock) {
    addBuffers();
    const int64_t width = c.decayParts ? c.values / c.decayParts : 0;
    launch.scalars = {
        turns,  c.rows,   c.keys, c.values, width, c.decayKeys > 1 ? c.decayParts : 0, c.decayKeys * c.decayParts,
        c.past, c.reverse};
    if (c.positions) {
      launch.scalars.insert(launch.scalars.end(), {c.plus, c.positions});
      launch.extent = c.rows * int64_t(llvm::divideCeil(uint64_t(c.values), kStateColumns));
      launch.units = {0, launch.extent - 1};
    } else {
      launch.extent = c.rows * c.keys * c.values;
      launch.units = {0, (launch.extent - 1) / unitsPerBlock};
    }
    if (!launch.refused.empty())
      return std::move(launch);
    for (int64_t unit : launch.units)
      if (c.positions) {
        const int64_t first = unit / c.rows * int64_t(kStateColumns);
        for (int64_t column : {first, std::min(first + int64_t(kStateColumns), c.values) - 1})
          expectColumn(unit % c.rows, column, {0, c.keys - 1});
      } else {
        for (int64_t element : {unit * unitsPerBlock, std::min((unit + 1) * unitsPerBlock, launch.extent) - 1})
          expectColumn(element / (c.keys * c.values), element % c.values, {element / c.values % c.keys});
      }
    return std::move(launch);
  }

private:
  enum Buffer { To, From, Update, Plus, Decay, Past, Before, Last, X, kBuffers };

  void addBuffers() {
    const int64_t all = c.chunks * c.rows;
    auto random = [&](Buffer which, const char *name, int64_t elements) {
      numbers[which] = launch.random(name, c.f32, elements, unsigned(which) + 1);
    };
    auto result = [&](Buffer which, const char *name, int64_t elements) {
      numbers[which] = launch.poison(name, uint64_t(elements) * 4);
    };
    if (c.positions) {
      random(To, "to", all * c.positions * c.keys);
      random(From, "from", all * c.positions * c.keys);
      random(Update, "update", all * c.positions * c.values);
    }
    // An operand that the call does not have gets a placeholder, which the kernel does not read.
    random(Plus, "plus", c.plus ? all * c.keys * c.values : 1);
    random(Decay, "decay", c.decayKeys ? all * c.decayKeys * c.decayParts : 1);
    random(Past, "past", c.past ? c.rows * c.keys * c.values : 1);
    result(Before, "before", all * c.keys * c.values);
    result(Last, "last", c.rows * c.keys * c.values);
    if (c.positions)
      result(X, "x", all * c.positions * c.values);
  }

  std::vector<double> read(Buffer buffer, int64_t first, int64_t stride, int64_t count) {
    std::vector<int64_t> positions(size_t(count), 0);
    for (int64_t i = 0; i < count; ++i)
      positions[size_t(i)] = first + i * stride;
    const Tensor values = launch.memory(numbers[buffer]).elements(c.f32, positions);
    return {values.reals.begin(), values.reals.end()};
  }
  void expect(Buffer buffer, int64_t element, const TermSum &sum) {
    launch.expect(numbers[buffer], c.f32, element, sum.value, 0, kTermTolerance * sum.magnitude);
  }

  /// One column of state `state`, of which the numbers of `keys` are looked at.
  void expectColumn(int64_t state, int64_t column, const std::set<int64_t> &keys) {
    const int64_t K = c.keys, V = c.values, C = c.positions;
    std::vector<TermSum> s(static_cast<size_t>(K));
    if (c.past)
      for (auto [k, x] : llvm::enumerate(read(Past, state * K * V + column, V, K)))
        s[k].add(x);
    for (int64_t turn = 0; turn < turns; ++turn) {
      const int64_t row = (c.reverse ? turns - 1 - turn : turn) * c.rows + state;
      for (int64_t k : keys)
        expect(Before, (row * K + k) * V + column, s[size_t(k)]);
      std::vector<TermSum> next = decayed(s, row, column);
      if (c.plus)
        for (auto [k, x] : llvm::enumerate(read(Plus, row * K * V + column, V, K)))
          next[k].add(x);
      if (C) {
        const std::vector<double> to = read(To, row * C * K, 1, C * K), from = read(From, row * C * K, 1, C * K),
                                  update = read(Update, row * C * V + column, V, C);
        for (int64_t position = 0; position < C; ++position) {
          TermSum x;
          x.add(update[size_t(position)]);
          for (int64_t k = 0; k < K; ++k)
            x.add(s[size_t(k)], from[size_t(position * K + k)]);
          if (position == 0 || position == C - 1)
            expect(X, (row * C + position) * V + column, x);
          for (int64_t k = 0; k < K; ++k)
            next[size_t(k)].add(x, to[size_t(position * K + k)]);
        }
      }
      s = next;
    }
    for (int64_t k : keys)
      expect(Last, (state * K + k) * V + column, s[size_t(k)]);
  }

  std::vector<TermSum> decayed(const std::vector<TermSum> &s, int64_t row, int64_t column) {
    if (!c.decayKeys)
      return s;
    const int64_t part = column / (c.values / c.decayParts);
    const std::vector<double> factors = read(Decay, row * c.decayKeys * c.decayParts + part, c.decayParts, c.decayKeys);
    std::vector<TermSum> result(s.size());
    for (size_t k = 0; k < s.size(); ++k)
      result[k].add(s[k], factors[c.decayKeys > 1 ? k : 0]);
    return result;
  }

  const StatesCall c;
  const int64_t turns;
  unsigned numbers[kBuffers] = {};
  LibraryLaunch launch;
};

/// Inverses of matrices of which the first and the last are looked at. Their elements are small, as products of keys
/// with a step of the delta rule are.
LibraryLaunch inverseLaunch(Type f32, int64_t count, int64_t size) {
  LibraryLaunch launch;
  launch.units = {0, count - 1};
  launch.extent = count;
  launch.scalars = {size};
  const unsigned a = launch.random("a", f32, count * size * size, 1);
  const unsigned y = launch.poison("y", uint64_t(count * size * size) * 4);
  if (!launch.refused.empty())
    return launch;
  for (int64_t matrix : launch.units) {
    Tensor small({size * size}, f32);
    for (auto [i, x] : llvm::enumerate(small.reals))
      x = double(float(std::sin(double(i + 1)) / double(size)));
    launch.memory(a).write(matrix * size * size, small);
    std::vector<TermSum> rows(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i)
      for (int64_t column = 0; column <= i; ++column) {
        TermSum &element = rows[size_t(i * size + column)];
        if (i == column)
          element.add(1);
        for (int64_t j = column; j < i; ++j)
          element.add(rows[size_t(j * size + column)], -small.reals[size_t(i * size + j)]);
      }
    for (int64_t i : {int64_t(0), size / 2, size - 1})
      for (int64_t column : {int64_t(0), size / 3, size - 1}) {
        const int64_t place = i * size + column;
        launch.expect(y, f32, matrix * size * size + place, rows[size_t(place)].value, 0,
                      kTermTolerance * rows[size_t(place)].magnitude);
      }
  }
  return launch;
}

} // namespace

std::vector<LibraryCase> recurrenceCases(Operation *op, DictionaryAttr kernels) {
  const std::string kernel = gpuKernelOf(kernels, 0);
  if (kernel.empty())
    return {};
  if (auto states = dyn_cast<graph::StatePassingOp>(op)) {
    const StatesCall call = StatesCall::of(states);
    return {{kernel, call.text(), true,
             [call](const KernelVersion &version) { return StatesLaunch(call).make(int64_t(version.unitsPerBlock)); }}};
  }
  if (auto inverse = dyn_cast<graph::UnitLowerInverseOp>(op)) {
    const int64_t count = sizeOf(inverse.getA(), 0), size = sizeOf(inverse.getA(), 1);
    Type f32 = Float32Type::get(op->getContext());
    return {{kernel, llvm::formatv("{0} inverses of {1} rows", count, size).str(), true,
             [=](const KernelVersion &) { return inverseLaunch(f32, count, size); }}};
  }
  return {};
}

} // namespace ztc::verification
