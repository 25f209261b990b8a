// Rows that go to groups: their order, rows by choice, sums of choices, products of groups, against plain loops.
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include <algorithm>
#include <numeric>

namespace ztc::test {
namespace {

std::vector<int32_t> randomChoices(size_t count, int32_t experts, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int32_t> distribution(0, experts - 1);
  std::vector<int32_t> choices(count);
  for (int32_t &choice : choices)
    choice = distribution(generator);
  return choices;
}

/// What a route gives.
struct Routing {
  std::vector<int32_t> order, places, starts;
  bool operator==(const Routing &) const = default;
};

/// By a library's sort, of an expert's choices by their numbers.
Routing routingOf(const std::vector<int32_t> &choices, int32_t experts) {
  const auto expertOf = [&](int32_t p) { return std::clamp(choices[size_t(p)], 0, experts - 1); };
  Routing routing;
  routing.order.resize(choices.size());
  routing.places.resize(choices.size());
  std::iota(routing.order.begin(), routing.order.end(), 0);
  std::sort(routing.order.begin(), routing.order.end(),
            [&](int32_t a, int32_t b) { return std::pair(expertOf(a), a) < std::pair(expertOf(b), b); });
  for (size_t row = 0; row < choices.size(); ++row)
    routing.places[size_t(routing.order[row])] = int32_t(row);
  for (int32_t expert = 0; expert <= experts; ++expert)
    routing.starts.push_back(int32_t(
        std::count_if(routing.order.begin(), routing.order.end(), [&](int32_t p) { return expertOf(p) < expert; })));
  return routing;
}

void expectRoute(const std::vector<int32_t> &choices, uint64_t choicesOfToken, int32_t experts) {
  SCOPED_TRACE(testing::Message() << choices.size() << " choices of " << experts);
  for (uint32_t threads : {1u, 2u, 5u}) {
    StepRunner runner;
    const uint32_t from = runner.slot(choices), order = runner.scratch(choices.size() * 4, false),
                   places = runner.scratch(choices.size() * 4, false),
                   starts = runner.scratch((uint64_t(experts) + 1) * 4, false);
    plan::Route &route = *runner.step("route", {from, order, places, starts})->mutable_route();
    route.set_tokens(choices.size() / choicesOfToken);
    route.set_choices(choicesOfToken);
    route.set_experts(uint64_t(experts));
    runner.useGpuKernels(route, {"gpu_route_count", "gpu_route_places", "gpu_route_order"});
    runner.runOnce(threads);
    const Routing got{runner.read<int32_t>(order, choices.size()), runner.read<int32_t>(places, choices.size()),
                      runner.read<int32_t>(starts, size_t(experts) + 1)};
    EXPECT_EQ(got, routingOf(choices, experts)) << threads << " threads";
  }
}

TEST(ExpertsConformance, RouteSortsChoicesByExpert) {
  expectRoute(randomChoices(32, 4, 1), 2, 4);
  expectRoute(randomChoices(999, 17, 2), 3, 17);
  expectRoute(randomChoices(40000, 128, 3), 8, 128);
  expectRoute(randomChoices(20480, 256, 4), 8, 256);
}

TEST(ExpertsConformance, RouteOfExpertsWithoutAnyRow) {
  expectRoute(std::vector<int32_t>(64, 2), 2, 4); // all rows are one expert's
  expectRoute({7, 0, 7, 0}, 2, 8);
  expectRoute({0}, 1, 1);
  expectRoute({5, 3}, 2, 300);
}

TEST(ExpertsConformance, ChoicesThatNoExpertHasAreThoseOfTheNearest) {
  expectRoute({-1, 3, 4, 0, 1, INT32_MAX, INT32_MIN, 2}, 2, 4);
}

/// Rows of tokens for their choices.
template <typename T>
void expectDispatch(uint64_t tokens, uint64_t choices, uint64_t width, const std::string &kernel) {
  std::vector<T> x(tokens * width);
  std::iota(x.begin(), x.end(), T(1));
  const Routing routing = routingOf(randomChoices(tokens * choices, 4, 5), 4);
  for (uint32_t threads : {1u, 2u}) {
    StepRunner runner;
    const uint32_t table = runner.slot(x), order = runner.slot(routing.order),
                   result = runner.scratch(tokens * choices * width * sizeof(T), false);
    plan::Gather &gather = *runner.step("dispatch", {table, order, result})->mutable_gather();
    gather.set_rows(tokens * choices);
    gather.set_row_bytes(width * sizeof(T));
    gather.set_table_rows(tokens);
    gather.set_divisor(choices);
    runner.useGpuKernels(gather, {kernel});
    runner.runOnce(threads);
    const std::vector<T> got = runner.read<T>(result, tokens * choices * width);
    for (size_t row = 0; row < tokens * choices; ++row)
      for (size_t i = 0; i < width; ++i)
        ASSERT_EQ(got[row * width + i], x[size_t(routing.order[row]) / choices * width + i]) << row;
  }
}

TEST(ExpertsConformance, DispatchGathersTheRowOfEachChoice) {
  expectDispatch<float>(16, 2, 40, "gpu_gather_divided_16");
  expectDispatch<float>(33, 1, 7, "gpu_gather_4");
  expectDispatch<uint16_t>(50, 3, 600, "gpu_gather_divided_16");
  expectDispatch<uint16_t>(50, 8, 5, "gpu_gather_divided_2");
}

TEST(ExpertsConformance, AChoiceOfNoTokenIsAnError) {
  for (int32_t choice : {-1, 6}) { // three tokens have two choices each
    StepRunner runner;
    const uint32_t table = runner.slot(std::vector<float>(12, 1)), order = runner.slot(std::vector<int32_t>{5, choice}),
                   result = runner.scratch(32, false);
    plan::Gather &gather = *runner.step("dispatch", {table, order, result})->mutable_gather();
    gather.set_rows(2);
    gather.set_row_bytes(16);
    gather.set_table_rows(3);
    gather.set_divisor(2);
    runner.useGpuKernels(gather, {"gpu_gather_divided_16"});
    ASSERT_TRUE(runner.prepare(1).isOk());
    Status status = runner.run();
    status = status.isOk() ? runner.device().synchronize() : status;
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find("choice " + std::to_string(choice) +
                                    " at position 1 is outside the 2 choices of each of 3 tokens"),
              std::string::npos)
        << status.message();
  }
}

plan::Combine &addCombine(StepRunner &runner, uint32_t x, uint32_t places, uint32_t result, uint64_t tokens,
                          uint64_t choices, uint64_t width, plan::DataType type) {
  plan::Combine &combine = *runner.step("combine", {x, places, result})->mutable_combine();
  combine.set_rows(tokens);
  combine.set_choices(choices);
  combine.set_width(width);
  combine.set_type(type);
  const uint64_t lanes = std::gcd(width, type == plan::F32 ? 4 : 8);
  runner.useGpuKernels(combine, {"gpu_combine" + gpuSuffix(type) + "_" + std::to_string(lanes)});
  return combine;
}

void expectCombine(uint64_t tokens, uint64_t choices, uint64_t width) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16}) {
    SCOPED_TRACE(testing::Message() << tokens << "x" << choices << " rows of " << width << " "
                                    << plan::DataType_Name(type));
    std::vector<float> x = randomFloats(tokens * choices * width, 6);
    roundTo(x, type);
    const std::vector<int32_t> places = routingOf(randomChoices(tokens * choices, 5, 7), 5).places;
    std::vector<float> want(tokens * width); // in f32 and in order of the choices: bit by bit
    for (size_t p = 0; p < places.size(); ++p)
      for (size_t i = 0; i < width; ++i) {
        float &sum = want[p / choices * width + i];
        const float value = x[size_t(places[p]) * width + i];
        sum = p % choices ? sum + value : value;
      }
    roundTo(want, type);
    for (uint32_t threads : {1u, 2u}) {
      StepRunner runner;
      const uint32_t result = runner.scratch(tokens * width * (type == plan::F32 ? 4 : 2), false);
      addCombine(runner, typedSlot(runner, x, type), runner.slot(places), result, tokens, choices, width, type);
      runner.runOnce(threads);
      EXPECT_TRUE(sameBits(readTyped(runner, result, want.size(), type), want)) << threads << " threads";
    }
  }
}

TEST(ExpertsConformance, CombineAddsTheRowsOfChoicesInOrder) {
  expectCombine(16, 2, 40);
  expectCombine(33, 1, 7);
  expectCombine(20, 8, 1100);
  expectCombine(5, 3, 2049);
}

TEST(ExpertsConformance, APlaceOutsideOfTheRowsIsAnError) {
  for (int32_t place : {-1, 4}) {
    StepRunner runner;
    const uint32_t x = runner.slot(std::vector<float>(16, 1)), result = runner.scratch(32, false);
    addCombine(runner, x, runner.slot(std::vector<int32_t>{0, 1, 2, place}), result, 2, 2, 4, plan::F32);
    ASSERT_TRUE(runner.prepare(1).isOk());
    Status status = runner.run();
    status = status.isOk() ? runner.device().synchronize() : status;
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find("place " + std::to_string(place) + " of choice 3 is outside the 4 rows"),
              std::string::npos)
        << status.message();
  }
}

struct GroupedCase {
  std::vector<int32_t> starts;
  uint64_t n, k;
  bool transposeB = false, outer = false;
  plan::Accumulate accumulate = plan::OVERWRITE;
  plan::DataType typeA = plan::F32, typeC = plan::F32;

  uint64_t rows() const { return uint64_t(starts.back()); }
  uint64_t groups() const { return starts.size() - 1; }
};

/// Starts of groups with so many rows.
std::vector<int32_t> startsOf(const std::vector<int32_t> &rows) {
  std::vector<int32_t> starts{0};
  for (int32_t count : rows)
    starts.push_back(starts.back() + count);
  return starts;
}

/// Operands, and the result in double.
struct GroupedReference {
  explicit GroupedReference(const GroupedCase &c, uint32_t microstep = 0);
  GroupedCase c;
  uint32_t microstep;
  std::vector<float> a, b, before;
  std::vector<double> want;
};

GroupedReference::GroupedReference(const GroupedCase &given, uint32_t microstep) : c(given), microstep(microstep) {
  const uint64_t matrices = c.groups() * c.k * c.n;
  a = randomFloats(c.rows() * c.k, 1);
  b = randomFloats(c.outer ? c.rows() * c.n : matrices, 2);
  before = randomFloats(c.outer ? matrices : c.rows() * c.n, 3);
  roundTo(a, c.typeA);
  roundTo(b, c.typeA);
  roundTo(before, c.typeC);
  const bool adds = c.accumulate == plan::ADD || (c.accumulate == plan::ADD_UNLESS_FIRST && microstep > 0);
  want.assign(before.begin(), before.end());
  if (!adds)
    std::fill(want.begin(), want.end(), 0);
  for (uint64_t e = 0; e < c.groups(); ++e)
    for (auto r = uint64_t(c.starts[e]); r < uint64_t(c.starts[e + 1]); ++r)
      for (uint64_t l = 0; l < c.k; ++l)
        for (uint64_t j = 0; j < c.n; ++j) {
          const uint64_t matrix = e * c.k * c.n;
          if (c.outer)
            want[matrix + l * c.n + j] += double(a[r * c.k + l]) * b[r * c.n + j];
          else
            want[r * c.n + j] += double(a[r * c.k + l]) * b[matrix + (c.transposeB ? j * c.k + l : l * c.n + j)];
        }
}

/// The step, and the slot of its result.
uint32_t addGroupedGemm(StepRunner &runner, const GroupedReference &r) {
  const GroupedCase &c = r.c;
  const uint32_t slotC = typedSlot(runner, r.before, c.typeC);
  plan::Step &step = *runner.step(
      "product", {typedSlot(runner, r.a, c.typeA), typedSlot(runner, r.b, c.typeA), runner.slot(c.starts), slotC});
  if (c.typeA != plan::F32)
    step.add_operands()->set_slot(runner.scratch(
        c.outer ? matmulScratchBytes(c.k, c.n, c.rows()) : matmulScratchBytes(c.rows(), c.n, c.k), true));
  plan::GroupedGemm &gemm = *step.mutable_grouped_gemm();
  gemm.set_rows(c.rows());
  gemm.set_n(c.n);
  gemm.set_k(c.k);
  gemm.set_groups(c.groups());
  gemm.set_transpose_b(c.transposeB);
  gemm.set_outer(c.outer);
  gemm.set_accumulate(c.accumulate);
  gemm.set_type_a(c.typeA);
  gemm.set_type_c(c.typeC);
  const auto kernelFor = [&](bool isWide) {
    const std::string kind = c.outer ? "_outer" : c.transposeB ? "_transposed" : "";
    const std::string sizes = c.typeA != plan::F32 && (c.n % 8 || c.k % 8) ? "_cut" : "";
    return "gpu_grouped_gemm" + kind + gpuSuffix(c.typeA) + (c.typeA != plan::F32 && isWide ? "_f32" : "") + sizes;
  };
  if (c.outer && c.typeA != plan::F32)
    runner.useGpuKernels(gemm, {kernelFor(true), kernelFor(false)});
  else
    runner.useGpuKernels(gemm, {kernelFor(c.typeC == plan::F32)});
  return slotC;
}

std::vector<float> runGrouped(const GroupedReference &r, uint32_t threads) {
  StepRunner runner;
  const uint32_t result = addGroupedGemm(runner, r);
  Status status = runner.prepare(threads);
  EXPECT_TRUE(status.isOk()) << status.message();
  if (!status.isOk())
    return {};
  status = runner.run(r.microstep);
  EXPECT_TRUE(status.isOk()) << status.message();
  return readTyped(runner, result, r.before.size(), r.c.typeC);
}

/// Compares with the reference, and runs by one and several threads, which a GPU has none of, bit by bit.
void expectGroupedGemm(const GroupedCase &c, uint32_t microstep = 0) {
  SCOPED_TRACE(testing::Message() << c.groups() << " groups of " << c.rows() << "x" << c.n << "x" << c.k
                                  << " transpose " << c.transposeB << " outer " << c.outer << " accumulate "
                                  << c.accumulate << " " << plan::DataType_Name(c.typeA) << " to "
                                  << plan::DataType_Name(c.typeC));
  const GroupedReference reference(c, microstep);
  const std::vector<float> one = runGrouped(reference, 1);
  ASSERT_EQ(one.size(), reference.want.size());
  EXPECT_LT(relativeError(one, reference.want), 3e-6 + roundingError(c.typeC));
  for (uint32_t threads : {1u, 2u, 5u})
    if (threads == 1 || !onGpu())
      EXPECT_TRUE(sameBits(one, runGrouped(reference, threads))) << threads << " threads";
}

/// The rows of groups of many kinds: none, few, one tile, several, all in one.
std::vector<std::vector<int32_t>> manyGroups() {
  return {startsOf({7, 0, 3, 22}), startsOf({0, 64, 0}), startsOf({32}), startsOf({0, 0, 1, 4, 5, 12, 0, 131, 300, 0})};
}

/// All types of `c`, as rows times matrices, or as sums of outer products.
void expectAllTypes(GroupedCase c) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16})
    for (plan::DataType result : {type, plan::F32}) {
      c.typeA = type;
      c.typeC = result;
      expectGroupedGemm(c);
      if (type == plan::F32)
        break;
    }
}

TEST(ExpertsConformance, RowsTimesTheMatrixOfTheirGroup) {
  for (bool transposeB : {false, true})
    for (const std::vector<int32_t> &starts : manyGroups()) {
      expectAllTypes({.starts = starts, .n = 20, .k = 40, .transposeB = transposeB});
      expectAllTypes({.starts = starts, .n = 128, .k = 64, .transposeB = transposeB});
    }
}

TEST(ExpertsConformance, ProductsOfGroupsOfOddSizes) {
  for (bool transposeB : {false, true}) {
    expectAllTypes({.starts = startsOf({3, 0, 70, 29}), .n = 301, .k = 33, .transposeB = transposeB});
    expectAllTypes({.starts = startsOf({300, 1, 17}), .n = 67, .k = 1101, .transposeB = transposeB});
    expectAllTypes({.starts = startsOf({5, 6}), .n = 1, .k = 77, .transposeB = transposeB});
    expectAllTypes({.starts = startsOf({13, 0, 2}), .n = 9, .k = 1, .transposeB = transposeB});
  }
}

TEST(ExpertsConformance, SumsOfOuterProducts) {
  for (const std::vector<int32_t> &starts : manyGroups())
    for (plan::Accumulate accumulate : {plan::OVERWRITE, plan::ADD}) {
      expectAllTypes({.starts = starts, .n = 40, .k = 20, .outer = true, .accumulate = accumulate});
      expectAllTypes({.starts = starts, .n = 64, .k = 128, .outer = true, .accumulate = accumulate});
    }
  expectAllTypes({.starts = startsOf({3, 0, 1101, 29}), .n = 301, .k = 33, .outer = true});
  expectAllTypes({.starts = startsOf({5, 0, 0, 6}), .n = 1, .k = 270, .outer = true, .accumulate = plan::ADD});
}

TEST(ExpertsConformance, SumsOfOuterProductsOfTheFirstMicrostepOverwrite) {
  for (uint32_t microstep : {0u, 1u})
    for (plan::DataType type : {plan::F32, plan::BF16})
      expectGroupedGemm({.starts = startsOf({9, 0, 40}),
                         .n = 24,
                         .k = 16,
                         .outer = true,
                         .accumulate = plan::ADD_UNLESS_FIRST,
                         .typeA = type},
                        microstep);
}

/// Decoding computes a token alone, training with many others.
TEST(ExpertsConformance, ARowsResultIsTheSameWhateverOtherRowsItsGroupHas) {
  for (plan::DataType type : {plan::F32, plan::BF16, plan::F16})
    for (bool transposeB : {false, true}) {
      const GroupedReference all(
          {.starts = {0, 300}, .n = 72, .k = 700, .transposeB = transposeB, .typeA = type, .typeC = type});
      const std::vector<float> together = runGrouped(all, 2);
      for (uint64_t rows : {1u, 2u, 4u, 5u, 11u, 12u, 13u, 100u}) {
        GroupedReference few = all;
        few.c.starts = {0, int32_t(rows)};
        few.a.resize(rows * all.c.k);
        few.before.resize(rows * all.c.n);
        const std::span<const float> first(together.data(), rows * all.c.n);
        EXPECT_TRUE(sameBits(runGrouped(few, 1), first)) << rows << " rows of " << plan::DataType_Name(type);
      }
    }
}

// A GPU would wait for the host to look at them: there starts are what a route before has written.
TEST(ExpertsConformance, StartsThatDoNotFitAreAnError) {
  if (onGpu())
    GTEST_SKIP() << "a GPU does not look at where groups begin";
  const std::pair<std::vector<int32_t>, const char *> cases[] = {
      {{1, 4, 8}, "groups of a grouped product start at row 1, expected 0"},
      {{0, 9, 8}, "group 1 of a grouped product ends at row 8, before its start 9"},
      {{0, 4, 7}, "groups of a grouped product end at row 7, expected 8"},
      {{0, 4, 9}, "groups of a grouped product end at row 9, expected 8"},
  };
  for (bool outer : {false, true})
    for (const auto &[starts, expected] : cases) {
      GroupedReference reference({.starts = {0, 4, 8}, .n = 5, .k = 3, .outer = outer});
      reference.c.starts = starts;
      StepRunner runner;
      addGroupedGemm(runner, reference);
      runner.plan().mutable_programs(0)->mutable_steps(0)->mutable_grouped_gemm()->set_rows(8);
      ASSERT_TRUE(runner.prepare(1).isOk());
      Status status = runner.run();
      status = status.isOk() ? runner.device().synchronize() : status;
      EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
      EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
    }
}

} // namespace
} // namespace ztc::test
