// Kernels of rows that go to groups at the sizes of a plan: the order of choices, rows by choice, their sums, products
// of groups. There are such kernels for GPUs alone.
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Reference/Tensor.h"
#include "compiler/Verification/LibraryCases.h"
#include "runtime/Format/ExpertKernels.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <bit>
#include <numeric>

using namespace mlir;

namespace ztc::verification {
namespace {

/// Integers of 32 bits as a tensor.
Tensor integersOf(MLIRContext *context, const std::vector<int64_t> &values) {
  Tensor tensor({int64_t(values.size())}, IntegerType::get(context, 32));
  llvm::copy(values, tensor.integers.begin());
  return tensor;
}

/// Choices, some of which no expert has, of which one expert has none, and what they come to.
struct RoutedChoices {
  MLIRContext *context;
  int64_t count, experts;
  std::vector<int64_t> choices, owners, places, starts;

  RoutedChoices(MLIRContext *context, int64_t count, int64_t experts)
      : context(context), count(count), experts(experts), places(size_t(count)) {
    std::vector<std::vector<int64_t>> own((size_t(experts)));
    for (int64_t p = 0; p < count; ++p) {
      const int64_t choice = (p * 7 + p / 5) % (experts + 2) - 1;
      choices.push_back(choice == experts / 2 ? experts - 1 : choice);
      owners.push_back(std::clamp<int64_t>(choices.back(), 0, experts - 1));
      own[size_t(owners.back())].push_back(p);
    }
    int64_t row = 0;
    for (const std::vector<int64_t> &of : own) {
      starts.push_back(row);
      for (int64_t p : of)
        places[size_t(p)] = row++;
    }
    starts.push_back(row);
  }

  int64_t blocks() const { return int64_t(llvm::divideCeil(uint64_t(count), kGpuRouteChoices)); }
  int64_t firstOf(int64_t block) const { return std::min(block * int64_t(kGpuRouteChoices), count); }
  std::vector<int64_t> countsOf(int64_t block) const {
    std::vector<int64_t> counts(size_t(experts), 0);
    for (int64_t p = firstOf(block); p < firstOf(block + 1); ++p)
      ++counts[size_t(owners[size_t(p)])];
    return counts;
  }
  std::vector<int64_t> scalars() const { return {count, experts, int64_t(std::bit_width(uint64_t(experts - 1)))}; }
  Tensor tensor(const std::vector<int64_t> &values) const { return integersOf(context, values); }
  uint64_t bytes() const { return uint64_t(count) * 4; }
  Type i32() const { return IntegerType::get(context, 32); }
};

LibraryLaunch countLaunch(const RoutedChoices &routed) {
  LibraryLaunch launch;
  launch.units = fewOf(routed.blocks()), launch.extent = routed.blocks();
  launch.scalars = routed.scalars();
  launch.given("choices", routed.tensor(routed.choices));
  // One block counts for itself: it may have more experts than choices, and is not launched.
  launch.poison("counts", std::max(routed.bytes(), uint64_t(routed.blocks() * routed.experts) * 4));
  for (int64_t block : launch.units)
    for (auto [expert, number] : llvm::enumerate(routed.countsOf(block)))
      launch.expect(1, routed.i32(), block * routed.experts + int64_t(expert), double(number), 0);
  return launch;
}

LibraryLaunch placesLaunch(const RoutedChoices &routed) {
  LibraryLaunch launch;
  launch.units = fewOf(routed.blocks()), launch.extent = routed.blocks();
  launch.scalars = routed.scalars();
  launch.given("choices", routed.tensor(routed.choices));
  std::vector<int64_t> counts;
  for (int64_t block = 0; block < routed.blocks(); ++block)
    llvm::append_range(counts, routed.countsOf(block));
  launch.given("counts", routed.tensor(counts));
  launch.poison("places", routed.bytes());
  launch.poison("starts", uint64_t(routed.experts + 1) * 4);
  for (int64_t block : launch.units)
    for (int64_t p = routed.firstOf(block); p < routed.firstOf(block + 1); ++p)
      launch.expect(2, routed.i32(), p, double(routed.places[size_t(p)]), 0);
  for (auto [expert, start] : llvm::enumerate(routed.starts))
    launch.expect(3, routed.i32(), int64_t(expert), double(start), 0);
  return launch;
}

LibraryLaunch orderLaunch(const RoutedChoices &routed, int64_t choicesOfBlock) {
  LibraryLaunch launch;
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(routed.count), uint64_t(choicesOfBlock))));
  launch.extent = routed.count;
  launch.given("places", routed.tensor(routed.places));
  launch.poison("order", routed.bytes());
  for (int64_t block : launch.units)
    for (int64_t p = block * choicesOfBlock; p < std::min((block + 1) * choicesOfBlock, routed.count); ++p)
      launch.expect(1, routed.i32(), routed.places[size_t(p)], double(p), 0);
  return launch;
}

/// Rows of tokens for choices, or sums of choices' rows for tokens.
struct ChoicesRows {
  int64_t tokens, choices, width;
  Type type;

  int64_t rows() const { return tokens * choices; }
  /// A row of each choice, and the other way round: neighbours lie far apart.
  int64_t other(int64_t row) const { return rows() - 1 - row; }
  Tensor others() const {
    std::vector<int64_t> values(size_t(rows()), 0);
    for (int64_t row = 0; row < rows(); ++row)
      values[size_t(row)] = other(row);
    return integersOf(type.getContext(), values);
  }
  Tensor noFault() const { return Tensor({1}, IntegerType::get(type.getContext(), 64)); }
  /// A few numbers of a row.
  std::vector<double> numbers(const PatternMemory &memory, int64_t row) const {
    std::vector<int64_t> positions(size_t(width), 0);
    std::iota(positions.begin(), positions.end(), row * width);
    return memory.elements(type, positions).reals;
  }
  int64_t pieces(int64_t unit) const { return width / std::gcd(width, unit); }
};

LibraryLaunch dispatchLaunch(const ChoicesRows &call, int64_t rowsOfBlock) {
  LibraryLaunch launch;
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(call.rows()), uint64_t(rowsOfBlock))));
  launch.extent = call.rows();
  const int64_t elementBytes = int64_t(storedBytes(call.type, 1));
  launch.scalars = {call.width * elementBytes / std::gcd(call.width * elementBytes, int64_t(16)), call.tokens};
  if (call.choices > 1)
    launch.scalars.push_back(call.choices);
  launch.random("the tokens", call.type, call.tokens * call.width, 1);
  launch.given("order", call.others());
  launch.poison("the result", storedBytes(call.type, call.rows() * call.width));
  launch.given("the word of faults", call.noFault());
  if (!launch.refused.empty())
    return launch;
  for (int64_t block : launch.units)
    for (int64_t row = block * rowsOfBlock; row < std::min((block + 1) * rowsOfBlock, call.rows()); ++row)
      for (auto [column, number] : llvm::enumerate(call.numbers(launch.memory(0), call.other(row) / call.choices)))
        launch.expect(2, call.type, row * call.width + int64_t(column), number, 0);
  launch.expect(3, IntegerType::get(call.type.getContext(), 64), 0, 0, 0);
  return launch;
}

LibraryLaunch combineLaunch(const ChoicesRows &call, int64_t tokensOfBlock) {
  LibraryLaunch launch;
  launch.units = fewOf(int64_t(llvm::divideCeil(uint64_t(call.tokens), uint64_t(tokensOfBlock))));
  launch.extent = call.tokens;
  launch.scalars = {call.pieces(16 / int64_t(storedBytes(call.type, 1))), call.choices, call.rows()};
  launch.random("the rows", call.type, call.rows() * call.width, 1);
  launch.given("places", call.others());
  launch.poison("the result", storedBytes(call.type, call.tokens * call.width));
  launch.given("the word of faults", call.noFault());
  if (!launch.refused.empty())
    return launch;
  for (int64_t block : launch.units)
    for (int64_t token = block * tokensOfBlock; token < std::min((block + 1) * tokensOfBlock, call.tokens); ++token) {
      std::vector<double> sums(size_t(call.width), 0), magnitudes = sums;
      for (int64_t choice = 0; choice < call.choices; ++choice)
        for (auto [column, number] :
             llvm::enumerate(call.numbers(launch.memory(0), call.other(token * call.choices + choice))))
          sums[column] += number, magnitudes[column] += std::abs(number);
      for (auto [column, sum] : llvm::enumerate(sums))
        launch.expect(2, call.type, token * call.width + int64_t(column), sum, libraryTolerance(call.type),
                      1e-6 * magnitudes[column]);
    }
  launch.expect(3, IntegerType::get(call.type.getContext(), 64), 0, 0, 0);
  return launch;
}

/// A product of groups: the second one has no row, the others about as many as they would on average.
struct GroupsProduct {
  int64_t rows, n, k, groups;
  bool transposeB, outer;
  Type type, result;

  int64_t side() const { return int64_t(groupedTile(!type.isF32())); }
  std::vector<int64_t> starts() const {
    std::vector<int64_t> starts{0};
    for (int64_t group = 1; group < groups; ++group)
      starts.push_back(group == 2 ? starts.back() : rows * group / groups);
    starts.push_back(rows);
    return starts;
  }
  std::string text() const {
    return llvm::formatv("{0} groups of {1} rows, {2} x {3}{4}{5}, {6} to {7}", groups, rows, k, n,
                         transposeB ? ", transposed" : "", outer ? ", outer" : "", type, result);
  }
  /// The number at (row, column) of the product, and the sum of its terms' magnitudes: of `outer` of group `group`.
  std::pair<double, double> number(const LibraryLaunch &launch, int64_t group, int64_t row, int64_t column) const {
    const std::vector<int64_t> all = starts();
    const int64_t first = outer ? all[size_t(group)] : 0, count = outer ? all[size_t(group) + 1] - first : k;
    std::vector<int64_t> left, right;
    for (int64_t inner = 0; inner < count; ++inner) {
      left.push_back(outer ? (first + inner) * k + row : row * k + inner);
      right.push_back(outer        ? (first + inner) * n + column
                      : transposeB ? (group * n + column) * k + inner
                                   : (group * k + inner) * n + column);
    }
    if (!count)
      return {0, 0};
    const std::vector<double> a = launch.buffers[0].memory.elements(type, left).reals,
                              b = launch.buffers[1].memory.elements(type, right).reals;
    double sum = 0, magnitude = 0;
    for (size_t i = 0; i < a.size(); ++i)
      sum += a[i] * b[i], magnitude += std::abs(a[i] * b[i]);
    return {sum, magnitude};
  }
};

/// The first, a middle and the last of [first, end).
std::set<int64_t> someOf(int64_t first, int64_t end) {
  return {first, (first + end) / 2, end - 1};
}

LibraryLaunch productLaunch(const GroupsProduct &call) {
  LibraryLaunch launch;
  const int64_t side = call.side(), columns = int64_t(llvm::divideCeil(uint64_t(call.n), uint64_t(side)));
  launch.extent = int64_t(groupedBlocks(call.outer, uint64_t(call.rows), uint64_t(call.n), uint64_t(call.k),
                                        uint64_t(call.groups), uint64_t(side)));
  launch.units = fewOf(launch.extent);
  launch.scalars = {call.rows, call.n, call.k, call.groups};
  if (call.outer)
    launch.scalars.push_back(0);
  launch.random("the rows", call.type, call.rows * call.k, 1);
  launch.random(call.outer ? "the other rows" : "the matrices", call.type,
                call.outer ? call.rows * call.n : call.groups * call.k * call.n, 2);
  const std::vector<int64_t> starts = call.starts();
  launch.given("starts", integersOf(call.type.getContext(), starts));
  launch.poison("the result",
                storedBytes(call.result, call.outer ? call.groups * call.k * call.n : call.rows * call.n));
  if (!launch.refused.empty())
    return launch;
  for (int64_t block : launch.units) {
    int64_t group = 0, row = 0, rowEnd = 0, column = 0;
    if (call.outer) {
      const int64_t perGroup = int64_t(llvm::divideCeil(uint64_t(call.k), uint64_t(side))) * columns;
      group = block / perGroup;
      row = block % perGroup / columns * side;
      rowEnd = std::min(row + side, call.k);
      column = block % columns * side;
    } else {
      const GroupedPlace place =
          groupedPlace(uint64_t(block), uint64_t(call.rows), uint64_t(call.n), uint64_t(call.groups), uint64_t(side));
      int64_t tile = int64_t(place.tile);
      auto tilesOf = [&](int64_t of) {
        return int64_t(llvm::divideCeil(uint64_t(starts[size_t(of) + 1] - starts[size_t(of)]), uint64_t(side)));
      };
      for (; group < call.groups && tile >= tilesOf(group); ++group)
        tile -= tilesOf(group);
      if (group == call.groups)
        continue; // a block without a tile
      row = starts[size_t(group)] + tile * side;
      rowEnd = std::min(row + side, starts[size_t(group) + 1]);
      column = int64_t(place.column) * side;
    }
    for (int64_t r : someOf(row, rowEnd))
      for (int64_t c : someOf(column, std::min(column + side, call.n))) {
        const auto [value, magnitude] = call.number(launch, group, r, c);
        launch.expect(3, call.result, ((call.outer ? group * call.k : 0) + r) * call.n + c, value,
                      libraryTolerance(call.result), 1e-6 * magnitude);
      }
  }
  return launch;
}

int64_t dimension(Value value, unsigned index) {
  return cast<RankedTensorType>(value.getType()).getDimSize(index);
}

template <typename Op> GroupsProduct productOf(Op op, Value a, int64_t n, bool transposeB, bool outer) {
  return {dimension(a, 0),
          n,
          dimension(a, 1),
          dimension(op.getStarts(), 0) - 1,
          transposeB,
          outer,
          getElementTypeOrSelf(a.getType()),
          getElementTypeOrSelf(op.getY().getType())};
}

} // namespace

std::vector<LibraryCase> expertCases(Operation *op, DictionaryAttr kernels) {
  std::vector<LibraryCase> cases;
  auto add = [&](unsigned index, std::string call, std::function<LibraryLaunch(const KernelVersion &)> make) {
    if (std::string kernel = gpuKernelOf(kernels, index); !kernel.empty())
      cases.push_back({std::move(kernel), std::move(call), true, std::move(make)});
  };
  auto rowsOf = [&](Value x, Value places) {
    return ChoicesRows{dimension(places, 0), dimension(places, 1), dimension(x, 1), getElementTypeOrSelf(x.getType())};
  };
  auto textOf = [&](const ChoicesRows &rows) {
    return llvm::formatv("{0} x {1} rows of {2}, {3}", rows.tokens, rows.choices, rows.width, rows.type).str();
  };
  auto addProduct = [&](const GroupsProduct &call, unsigned index = 0) {
    add(index, call.text(), [call](const KernelVersion &) { return productLaunch(call); });
  };
  if (auto route = dyn_cast<graph::RouteOp>(op)) {
    const int64_t count = dimension(route.getOrder(), 0), experts = dimension(route.getStarts(), 0) - 1;
    const std::string call = llvm::formatv("{0} choices of {1} experts", count, experts);
    MLIRContext *context = op->getContext();
    add(0, call, [=](const KernelVersion &) { return countLaunch({context, count, experts}); });
    add(1, call, [=](const KernelVersion &) { return placesLaunch({context, count, experts}); });
    add(2, call, [=](const KernelVersion &version) {
      return orderLaunch({context, count, experts}, int64_t(version.unitsPerBlock));
    });
  } else if (auto dispatch = dyn_cast<graph::DispatchOp>(op)) {
    const ChoicesRows rows = rowsOf(dispatch.getX(), dispatch.getPlaces());
    add(0, textOf(rows),
        [rows](const KernelVersion &version) { return dispatchLaunch(rows, int64_t(version.unitsPerBlock)); });
  } else if (auto combine = dyn_cast<graph::CombineOp>(op)) {
    const ChoicesRows rows = rowsOf(combine.getX(), combine.getPlaces());
    add(0, textOf(rows),
        [rows](const KernelVersion &version) { return combineLaunch(rows, int64_t(version.unitsPerBlock)); });
  } else if (auto product = dyn_cast<graph::GroupedMatmulOp>(op)) {
    addProduct(productOf(product, product.getX(), dimension(product.getY(), 1), product.getTransposeB(), false));
  } else if (auto outer = dyn_cast<graph::GroupedOuterOp>(op)) {
    GroupsProduct call = productOf(outer, outer.getA(), dimension(outer.getB(), 1), false, true);
    call.result = Float32Type::get(op->getContext());
    addProduct(call);
    call.result = call.type; // of narrow factors, in a step of the optimizer with one micro-step
    addProduct(call, 1);
  }
  return cases;
}

} // namespace ztc::verification
