// Kernels for GPUs of rows that go to groups: what they compute, on the SIMT engine, against plain loops; and what the
// assembler makes of them.
#include "KernelHarness.h"
#include "MachineCodeGates.h"
#include "Text.h"
#include "compiler/Codegen/EmitCubin.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/ExpertKernels.h"
#include <bit>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace ztc;
using namespace ztc::test;

namespace {

enum class Kind { F32, Bf16, F16 };

mlir::Type elementOf(Kind kind) {
  return kind == Kind::Bf16  ? mlir::Type(mlir::BFloat16Type::get(&kernelContext()))
         : kind == Kind::F16 ? mlir::Type(mlir::Float16Type::get(&kernelContext()))
                             : mlir::Type(mlir::Float32Type::get(&kernelContext()));
}

template <typename T> Bytes bytesOfNumbers(const std::vector<T> &values) {
  const char *begin = reinterpret_cast<const char *>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(T));
}
template <typename T> std::vector<T> numbersOf(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

float rounded(float value, Kind kind) {
  return kind == Kind::Bf16 ? fromBf16(toBf16(value)) : kind == Kind::F16 ? fromF16(toF16(value)) : value;
}
Bytes storedAs(const std::vector<float> &values, Kind kind) {
  if (kind == Kind::F32)
    return bytesOfNumbers(values);
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    bits[i] = kind == Kind::Bf16 ? toBf16(values[i]) : toF16(values[i]);
  return bytesOfNumbers(bits);
}
std::vector<float> loadedAs(const Bytes &bytes, Kind kind) {
  if (kind == Kind::F32)
    return numbersOf<float>(bytes);
  std::vector<float> values;
  for (uint16_t bits : numbersOf<uint16_t>(bytes))
    values.push_back(kind == Kind::Bf16 ? fromBf16(bits) : fromF16(bits));
  return values;
}

/// Numbers that the type holds.
std::vector<float> numbersFor(size_t count, Kind kind, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> some(-1, 1);
  std::vector<float> values(count);
  for (float &value : values)
    value = rounded(some(random), kind);
  return values;
}

/// Kernels for the engine.
struct ExpertsOnGpu {
  KernelModule module{kernelContext(), {/*host=*/false, /*device=*/true}};
  std::unique_ptr<simt::Image> image;

  bool load() {
    auto images = module.emit({"simt"});
    if (failed(images))
      return ADD_FAILURE() << module.text(), false;
    auto loaded = simt::Image::load(images->front().bytes);
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    if (loaded.isOk())
      image = std::move(*loaded);
    return loaded.isOk();
  }
  bool launch(const KernelDescription &kernel, std::vector<Bytes *> buffers, std::vector<int64_t> scalars,
              int64_t extent, simt::Order order = simt::Order::Ascending) {
    return launchOnGpu(*image, kernel, buffers, std::move(scalars), extent, order);
  }
};

struct Routed {
  std::vector<int32_t> order, places, starts;
  bool operator==(const Routed &) const = default;
};

Routed routeByLoop(const std::vector<int32_t> &choices, int32_t experts) {
  Routed routed;
  routed.places.resize(choices.size());
  for (int32_t expert = 0; expert < experts; ++expert) {
    routed.starts.push_back(int32_t(routed.order.size()));
    for (size_t p = 0; p < choices.size(); ++p)
      if (std::clamp(choices[p], 0, experts - 1) == expert) {
        routed.places[p] = int32_t(routed.order.size());
        routed.order.push_back(int32_t(p));
      }
  }
  routed.starts.push_back(int32_t(routed.order.size()));
  return routed;
}

Routed routeOnGpu(ExpertsOnGpu &gpu, const std::vector<KernelDescription> &kernels, const std::vector<int32_t> &choices,
                  int32_t experts, simt::Order direction) {
  const auto count = int64_t(choices.size()),
             blocks = (count + int64_t(kGpuRouteChoices) - 1) / int64_t(kGpuRouteChoices);
  const int64_t bits = std::bit_width(uint32_t(experts - 1));
  const std::vector<int64_t> scalars{count, experts, bits};
  Bytes given = bytesOfNumbers(choices), order(choices.size() * 4, 0x55), places = order,
        starts((experts + 1) * 4, 0x55);
  if ((blocks > 1 && !gpu.launch(kernels[0], {&given, &order}, scalars, blocks, direction)) ||
      !gpu.launch(kernels[1], {&given, &order, &places, &starts}, scalars, blocks, direction) ||
      !gpu.launch(kernels[2], {&places, &order}, {}, count, direction))
    return {};
  return {numbersOf<int32_t>(order), numbersOf<int32_t>(places), numbersOf<int32_t>(starts)};
}

/// Groups of rows: how many each has.
struct GroupedCase {
  std::vector<int32_t> counts;
  int64_t n, k;
  Kind type = Kind::Bf16, result = Kind::Bf16;
  bool transposeB = false, outer = false, adds = false;

  int64_t rows() const { return std::accumulate(counts.begin(), counts.end(), int64_t(0)); }
  int64_t groups() const { return int64_t(counts.size()); }
  std::vector<int32_t> starts() const {
    std::vector<int32_t> starts{0};
    for (int32_t count : counts)
      starts.push_back(starts.back() + count);
    return starts;
  }
  GroupedGemmForm form() const {
    return {elementOf(type), elementOf(result), transposeB, outer, n % 8 == 0 && k % 8 == 0};
  }
  uint64_t tile() const { return groupedTile(type != Kind::F32); }
};

/// In double precision, unrounded.
std::vector<double> groupedByLoop(const GroupedCase &c, const std::vector<float> &a, const std::vector<float> &b,
                                  const std::vector<float> &before) {
  const std::vector<int32_t> starts = c.starts();
  std::vector<double> result(c.outer ? c.groups() * c.k * c.n : c.rows() * c.n);
  for (int64_t e = 0; e < c.groups(); ++e)
    for (int64_t r = starts[e]; r < starts[e + 1]; ++r)
      for (int64_t k = 0; k < c.k; ++k)
        for (int64_t n = 0; n < c.n; ++n)
          if (c.outer)
            result[(e * c.k + k) * c.n + n] += double(a[r * c.k + k]) * b[r * c.n + n];
          else
            result[r * c.n + n] +=
                double(a[r * c.k + k]) * (c.transposeB ? b[(e * c.n + n) * c.k + k] : b[(e * c.k + k) * c.n + n]);
  for (size_t i = 0; c.adds && i < result.size(); ++i)
    result[i] += before[i];
  return result;
}

Bytes groupedOnGpu(ExpertsOnGpu &gpu, const KernelDescription &kernel, const GroupedCase &c,
                   const std::vector<float> &a, const std::vector<float> &b, const std::vector<float> &before,
                   simt::Order order = simt::Order::Ascending) {
  Bytes left = storedAs(a, c.type), right = storedAs(b, c.type), starts = bytesOfNumbers(c.starts()),
        result = storedAs(before, c.result);
  std::vector<int64_t> scalars{c.rows(), c.n, c.k, c.groups()};
  if (c.outer)
    scalars.push_back(c.adds);
  const uint64_t blocks = groupedBlocks(c.outer, c.rows(), c.n, c.k, c.groups(), c.tile());
  if (!gpu.launch(kernel, {&left, &right, &starts, &result}, scalars, int64_t(blocks), order))
    return {};
  return result;
}

void expectGrouped(const GroupedCase &c) {
  SCOPED_TRACE(testing::Message() << c.groups() << " groups of " << c.rows() << " rows, n " << c.n << " k " << c.k
                                  << " type " << int(c.type) << " to " << int(c.result)
                                  << (c.transposeB ? " transposed" : "") << (c.outer ? " outer" : "")
                                  << (c.adds ? " adds" : ""));
  ExpertsOnGpu gpu;
  const KernelDescription kernel = gpu.module.addGpuGroupedGemm(c.form());
  ASSERT_TRUE(gpu.load());
  const std::vector<float> a = numbersFor(c.rows() * c.k, c.type, 1),
                           b = numbersFor(c.outer ? c.rows() * c.n : c.groups() * c.k * c.n, c.type, 2);
  const size_t results = c.outer ? c.groups() * c.k * c.n : c.rows() * c.n;
  // What is not added to may be anything.
  const std::vector<float> before = c.adds ? numbersFor(results, c.result, 3) : std::vector<float>(results, NAN);
  const Bytes stored = groupedOnGpu(gpu, kernel, c, a, b, before);
  EXPECT_EQ(stored, groupedOnGpu(gpu, kernel, c, a, b, before, simt::Order::Descending))
      << "results depend on the order of threads";
  const std::vector<float> result = loadedAs(stored, c.result);
  const std::vector<double> expected = groupedByLoop(c, a, b, before);
  ASSERT_EQ(result.size(), expected.size());
  const double rounding = c.result == Kind::Bf16 ? 0x1p-8 : c.result == Kind::F16 ? 0x1p-11 : 0;
  const double terms = std::sqrt(double(c.outer ? c.rows() : c.k)) + 1;
  size_t wrong = 0;
  for (size_t i = 0; i < result.size(); ++i)
    if (!(std::abs(result[i] - expected[i]) <= rounding * std::abs(expected[i]) + 1e-6 * terms) && ++wrong <= 3)
      ADD_FAILURE() << "element " << i << ": " << result[i] << ", not " << expected[i];
  EXPECT_EQ(wrong, 0u);
}

} // namespace

TEST(CodegenExperts, ChoicesInOrder) {
  ExpertsOnGpu gpu;
  const std::vector<KernelDescription> kernels = gpu.module.addGpuRoute();
  ASSERT_TRUE(gpu.load());
  std::mt19937 random(1);
  for (auto [count, experts] :
       {std::pair(1, 1), {32, 4}, {33, 1}, {100, 128}, {4096, 8}, {4097, 300}, {9000, 1024}, {12288, 5}, {3, 1000}}) {
    SCOPED_TRACE(testing::Message() << count << " choices of " << experts);
    // Some experts get nothing, some much; choices that no expert has count as the nearest one.
    std::geometric_distribution<int32_t> skewed(2.0 / (experts + 2));
    std::vector<int32_t> choices(count);
    for (int32_t &choice : choices)
      choice = skewed(random) * 3 % (experts + 3) - 1;
    const Routed expected = routeByLoop(choices, experts);
    EXPECT_EQ(routeOnGpu(gpu, kernels, choices, experts, simt::Order::Ascending), expected);
    EXPECT_EQ(routeOnGpu(gpu, kernels, choices, experts, simt::Order::Descending), expected);
  }
}

TEST(CodegenExperts, RowsOfTokensForTheirChoices) {
  const std::vector<int32_t> order{5, 0, 7, 2, 8, 1, 3, 6, 4, 9, 11}; // of three tokens; the last choice is none's
  const int64_t divisor = 3, tokens = 3;
  for (int64_t rowBytes : {2048, 62}) {
    ExpertsOnGpu gpu;
    const KernelDescription kernel = gpu.module.addGpuGather(rowBytes, /*divided=*/true);
    ASSERT_TRUE(gpu.load());
    Bytes table(tokens * rowBytes), indices = bytesOfNumbers(order), result(order.size() * rowBytes, 9), fault(8, 0);
    std::iota(table.begin(), table.end(), 0);
    ASSERT_TRUE(gpu.launch(kernel, {&table, &indices, &result, &fault},
                           {rowBytes / std::gcd(rowBytes, int64_t(16)), tokens, divisor}, int64_t(order.size())));
    for (size_t row = 0; row < order.size(); ++row) {
      const Bytes own(result.begin() + row * rowBytes, result.begin() + (row + 1) * rowBytes);
      const int64_t token = order[row] / divisor;
      EXPECT_EQ(own, token < tokens ? Bytes(table.begin() + token * rowBytes, table.begin() + (token + 1) * rowBytes)
                                    : Bytes(rowBytes, 9))
          << row;
    }
    const uint64_t noted = numbersOf<uint64_t>(fault)[0], position = noted >> 32;
    EXPECT_GE(position, 1u);
    EXPECT_EQ(order[position - 1], int32_t(noted)) << "the index itself is noted";
    EXPECT_GE(order[position - 1], tokens * divisor);
  }
}

TEST(CodegenExperts, SumsOfChoicesRows) {
  const int64_t tokens = 9;
  for (Kind kind : {Kind::F32, Kind::Bf16, Kind::F16})
    for (int64_t width : {1, 7, 20, 40, 1000})
      for (int64_t choices : {1, 2, 6, 8}) {
        SCOPED_TRACE(testing::Message() << "type " << int(kind) << ", width " << width << ", choices " << choices);
        ExpertsOnGpu gpu;
        const KernelDescription kernel = gpu.module.addGpuCombine(width, elementOf(kind));
        ASSERT_TRUE(gpu.load());
        const int64_t rows = tokens * choices, lanes = std::gcd(width, int64_t(kind == Kind::F32 ? 4 : 8));
        std::vector<int32_t> places(rows);
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin(), places.end(), std::mt19937(5));
        const std::vector<float> x = numbersFor(rows * width, kind, 6);
        std::vector<float> expected(tokens * width);
        for (int64_t p = 0; p < rows; ++p)
          for (int64_t c = 0; c < width; ++c)
            expected[p / choices * width + c] += x[places[p] * width + c];
        Bytes given = storedAs(x, kind), indices = bytesOfNumbers(places),
              result = storedAs(std::vector<float>(tokens * width, NAN), kind), fault(8, 0);
        const std::vector<int64_t> scalars{width / lanes, choices, rows};
        ASSERT_TRUE(gpu.launch(kernel, {&given, &indices, &result, &fault}, scalars, tokens));
        EXPECT_EQ(result, storedAs(expected, kind));
        EXPECT_EQ(fault, Bytes(8, 0));
        places[1] = int32_t(rows);
        indices = bytesOfNumbers(places);
        ASSERT_TRUE(gpu.launch(kernel, {&given, &indices, &result, &fault}, scalars, tokens));
        EXPECT_EQ(numbersOf<uint64_t>(fault)[0], uint64_t(2) << 32 | uint64_t(rows));
      }
}

TEST(CodegenExperts, ProductsOfGroups) {
  for (Kind kind : {Kind::Bf16, Kind::F16})
    for (bool transposeB : {false, true})
      expectGrouped({{0, 5, 130, 0, 1, 128, 0}, 200, 72, kind, kind, transposeB});
  expectGrouped({{3, 20}, 8, 8, Kind::Bf16, Kind::F32});
  expectGrouped({{7, 0, 12, 13}, 40, 24, Kind::Bf16, Kind::F32, true});
  expectGrouped({{0, 0, 12, 13}, 40, 136, Kind::F16, Kind::F32});
}

TEST(CodegenExperts, ProductsOfOddSizes) {
  for (bool transposeB : {false, true}) {
    expectGrouped({{5, 0, 131}, 20, 40, Kind::Bf16, Kind::Bf16, transposeB});
    expectGrouped({{5, 0, 11}, 131, 35, Kind::F16, Kind::F32, transposeB});
    expectGrouped({{1, 1}, 1, 1, Kind::F16, Kind::F16, transposeB});
  }
}

TEST(CodegenExperts, ProductsOfF32) {
  for (bool transposeB : {false, true}) {
    expectGrouped({{0, 5, 70, 0, 1, 64, 0}, 72, 40, Kind::F32, Kind::F32, transposeB});
    expectGrouped({{7, 9}, 67, 35, Kind::F32, Kind::F32, transposeB});
  }
}

TEST(CodegenExperts, SumsOfOuterProducts) {
  for (bool adds : {false, true}) {
    expectGrouped({{0, 5, 70, 0, 33}, 136, 144, Kind::Bf16, Kind::F32, false, true, adds});
    expectGrouped({{40, 0}, 24, 8, Kind::F16, Kind::F32, false, true, adds});
    expectGrouped({{5, 0, 33}, 20, 35, Kind::Bf16, Kind::F32, false, true, adds});
    expectGrouped({{5, 0, 70}, 67, 35, Kind::F32, Kind::F32, false, true, adds});
  }
  for (bool adds : {false, true}) {
    expectGrouped({{0, 50, 3}, 40, 24, Kind::F16, Kind::F16, false, true, adds});
    expectGrouped({{0, 5, 3}, 20, 40, Kind::Bf16, Kind::Bf16, false, true, adds});
    expectGrouped({{0, 5, 3}, 21, 7, Kind::Bf16, Kind::Bf16, false, true, adds});
  }
}

// As many groups as a lane's share of the search does not hold, most of them empty.
TEST(CodegenExperts, ManyGroups) {
  GroupedCase c{std::vector<int32_t>(300, 0), 16, 16};
  for (size_t group : {1, 4, 5, 127, 128, 255, 256, 299})
    c.counts[group] = int32_t(group % 3 + 1);
  expectGrouped(c);
}

// A row's numbers are the same wherever it lies, and whatever else is in its group.
TEST(CodegenExperts, ARowsBitsAreItsOwn) {
  for (Kind kind : {Kind::F32, Kind::Bf16}) {
    const int64_t n = 40, k = 72;
    const std::vector<float> w = numbersFor(k * n, kind, 2), x = numbersFor(150 * k, kind, 1);
    auto of = [&](std::vector<int32_t> counts, const std::vector<float> &a) {
      GroupedCase c{std::move(counts), n, k, kind, Kind::F32};
      ExpertsOnGpu gpu;
      const KernelDescription kernel = gpu.module.addGpuGroupedGemm(c.form());
      EXPECT_TRUE(gpu.load());
      std::vector<float> b;
      for (int64_t group = 0; group < c.groups(); ++group)
        b.insert(b.end(), w.begin(), w.end());
      return loadedAs(groupedOnGpu(gpu, kernel, c, a, b, std::vector<float>(c.rows() * n)), Kind::F32);
    };
    const std::vector<float> together = of({150}, x), apart = of({3, 0, 130, 17}, x),
                             alone = of({1}, {x.begin() + 140 * k, x.begin() + 141 * k});
    EXPECT_EQ(together, apart);
    EXPECT_EQ(std::vector<float>(together.begin() + 140 * n, together.begin() + 141 * n), alone);
  }
}

TEST(CodegenExperts, MachineCode) {
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  std::vector<KernelDescription> kernels = module.addGpuRoute();
  kernels.push_back(module.addGpuGather(4096, /*divided=*/true));
  for (Kind kind : {Kind::F32, Kind::Bf16, Kind::F16}) {
    for (int64_t width : {1, 2048})
      kernels.push_back(module.addGpuCombine(width, elementOf(kind)));
    for (Kind result : {kind, Kind::F32})
      for (auto [transposeB, outer] : {std::pair(false, false), {true, false}, {false, true}})
        for (bool isWhole : {true, false})
          kernels.push_back(module.addGpuGroupedGemm({elementOf(kind), elementOf(result), transposeB, outer, isWhole}));
  }
  auto images = module.emit({"sm_80", "sm_90a", "sm_120a"});
  ASSERT_TRUE(succeeded(images));
  llvm::StringRef ptx = images->front().ptx;
  for (const char *bad : {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", ".ftz"})
    EXPECT_FALSE(ptx.contains(bad)) << bad;
  for (const KernelDescription &kernel : kernels) {
    llvm::StringRef body = kernelText(ptx, kernel.name), name = kernel.name;
    ASSERT_FALSE(body.empty()) << kernel.name;
    const bool isProduct = name.contains("grouped_gemm"), isNarrow = name.contains("f16"),
               isWhole = isNarrow && !name.contains("cut");
    EXPECT_EQ(body.count("mma.sync.aligned.m16n8k16") > 0, isProduct && isNarrow) << kernel.name;
    EXPECT_EQ(body.contains("cp.async.cg.shared.global"), isProduct && isWhole) << kernel.name;
    if (isProduct && isWhole) {
      EXPECT_FALSE(body.contains("st.global.b16") || body.contains("st.global.b32")) << kernel.name;
      EXPECT_TRUE(body.contains("st.global.v4")) << kernel.name;
    }
    if (name.starts_with("gpu_combine") && !name.ends_with("_1"))
      EXPECT_TRUE(body.contains("ld.global.v4")) << kernel.name;
  }
  if (codegen::findPtxas().empty())
    GTEST_SKIP() << "no ptxas on this machine: registers and spills were not looked at";
  for (const KernelImage &image : *images)
    for (const KernelDescription &kernel : kernels) {
      auto found = image.resources.find(kernel.name);
      ASSERT_NE(found, image.resources.end()) << kernel.name;
      EXPECT_EQ(found->second.localBytes, 0u) << kernel.name << " on " << image.target;
      // A thread's registers come in eights; a block's shared memory has 1 KiB of the system's, of 100 KiB on the
      // smallest.
      const uint64_t registers = llvm::alignTo(found->second.registers, 8), shared = kernel.device.sharedBytes;
      const uint64_t blocks =
          std::min<uint64_t>(65536 / (registers * kernel.device.blockThreads), (100 << 10) / (shared + (1 << 10)));
      EXPECT_GE(blocks, 2u) << kernel.name << " on " << image.target << ": " << registers << " registers, " << shared
                            << " bytes of shared memory";
      EXPECT_LE(shared, 48u << 10) << kernel.name;
    }
  std::map<std::string, MachineCodeForm> forms;
  for (const KernelDescription &kernel : kernels) {
    llvm::StringRef name = kernel.name;
    // Those of odd sizes copy in loops of their own.
    const bool byMatrices = name.contains("grouped_gemm") && name.contains("f16") && !name.ends_with("_cut");
    const bool isWide = (byMatrices && !name.contains("added")) || name.contains("gather") ||
                        (name.starts_with("gpu_combine") && !name.ends_with("_1"));
    forms[kernel.name] = {kernel.form, isWide, isWide, byMatrices};
  }
  for (const KernelImage &image : *images)
    if (!checkMachineCode(image, forms))
      GTEST_SKIP() << "no nvdisasm on this machine: the machine code was not looked at (cmake/get-nvdisasm.sh)";
}
