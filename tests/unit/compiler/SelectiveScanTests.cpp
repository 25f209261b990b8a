// Selective scans: which linear attention is one, its derivative, and its kernels for processors and GPUs, against the
// interpreter.
#include "GradientCheck.h"
#include "KernelHarness.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/Scan.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

struct ScanCase {
  const char *name;
  int64_t B, T, D, N;
  bool packed = false;
};

std::string typeText(std::initializer_list<int64_t> shape, const char *element = "f32") {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

/// Linear attention as folders build it: @f of c, b, v, delta, rate, and document_starts where packed.
std::string attentionText(const ScanCase &c, bool repeatsKeys = true, bool wantsState = false) {
  const std::string shared = typeText({c.B, c.T, c.N}), one = typeText({c.B, c.T, 1, 1, c.N}),
                    all = typeText({c.B, c.T, 1, c.D, c.N}), rows = typeText({c.B, c.T, c.D, c.N}),
                    v = typeText({c.B, c.T, c.D, 1}), delta = typeText({c.B, c.T, c.D}), rate = typeText({c.D, c.N}),
                    state = typeText({c.B, c.D, c.N, 1}), starts = typeText({c.B, c.T}, "i32");
  std::string text =
      "func.func @f(%c: " + shared + ", %b: " + shared + ", %v: " + v + ", %delta: " + delta + ", %rate: " + rate;
  if (!repeatsKeys)
    text += ", %k: " + rows;
  if (c.packed)
    text += ", %starts: " + starts;
  text += ") -> (" + v + (wantsState ? ", " + state : "") + ") {\n";
  for (const std::string &name : {std::string("c"), std::string("b")}) {
    text += "  %" + name + "1 = graph.reshape %" + name + " : " + shared + " -> " + one + "\n";
    text += "  %" + name + "2 = graph.broadcast %" + name + "1 : " + one + " -> " + all + "\n";
    text += "  %" + name + "3 = graph.reshape %" + name + "2 : " + all + " -> " + rows + "\n";
  }
  text += "  %d1 = graph.reshape %delta : " + delta + " -> " + v + "\n";
  text += "  %d2 = graph.broadcast %d1 : " + v + " -> " + rows + "\n";
  text += "  %r2 = graph.broadcast %rate : " + rate + " -> " + rows + "\n";
  text += "  %g = graph.mul %d2, %r2 : " + rows + "\n";
  text += "  %y, %s = graph.linear_attention %c3, " + std::string(repeatsKeys ? "%b3" : "%k") +
          ", %v, 0.3 decay %g : " + rows + (c.packed ? " within %starts : " + starts : "") +
          " {chunk = 4 : i64} : " + rows + ", " + rows + ", " + v + " -> " + v + ", " + state + "\n";
  return text + "  return %y" + (wantsState ? ", %s" : "") + " : " + v + (wantsState ? ", " + state : "") + "\n}";
}

/// Of the first row one document begins within a chunk and one at the edge of one; the other rows are one each.
void fillStarts(Tensor &starts, int64_t T) {
  for (size_t i = 0; i < starts.integers.size(); ++i) {
    const int64_t t = int64_t(i) % T;
    starts.integers[i] = int64_t(i) >= T ? 0 : t >= 32 ? 32 : t >= 3 ? 3 : 0;
  }
}

/// Steps are positive, rates negative.
Tensors scanArguments(func::FuncOp function, const ScanCase &c, unsigned delta, unsigned rate) {
  std::mt19937_64 generator(7);
  Tensors arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator));
  for (double &x : arguments[delta].reals)
    x = std::abs(x);
  for (double &x : arguments[rate].reals)
    x = -std::abs(x);
  if (c.packed)
    fillStarts(arguments.back(), c.T);
  for (Tensor &argument : arguments) // as kernels get them
    for (double &x : argument.reals)
      x = double(float(x));
  return arguments;
}

int64_t scansIn(func::FuncOp function) {
  int64_t count = 0;
  function.walk([&](graph::SelectiveScanOp) { ++count; });
  return count;
}

const ScanCase kScans[] = {{"one_position", 1, 1, 16, 2},  {"one_chunk", 2, 7, 16, 6},
                           {"whole_chunks", 1, 64, 16, 4}, {"chunks", 2, 70, 48, 5},
                           {"two_groups", 1, 40, 80, 3},   {"documents", 2, 70, 16, 4, true},
                           {"large_states", 1, 9, 16, 64}, {"one_number", 2, 70, 80, 1}};

class SelectiveScan : public testing::TestWithParam<ScanCase> {};

std::string scanName(const testing::TestParamInfo<ScanCase> &info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Sizes, SelectiveScan, testing::ValuesIn(kScans), scanName);

/// What linear attention gives, and along a random direction of each operand the derivative by differences of that.
TEST_P(SelectiveScan, IsLinearAttentionOfChannels) {
  const ScanCase &c = GetParam();
  GraphContext context;
  auto module = context.parse(attentionText(c)), scan = context.parse(attentionText(c));
  ASSERT_TRUE(module && scan);
  auto recurrence = module->lookupSymbol<func::FuncOp>("f"), written = scan->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(decomposeInPlace(written)));
  EXPECT_EQ(scansIn(written), 1);
  const Tensors arguments = scanArguments(recurrence, c, 3, 4);
  auto expected = interpret(recurrence, arguments), found = interpret(written, arguments);
  ASSERT_TRUE(succeeded(expected) && succeeded(found));
  EXPECT_LT(relativeError((*found)[0], (*expected)[0]), 1e-12);

  std::mt19937_64 generator(3);
  Tensors all(arguments);
  const Tensor weights = randomTensor((*expected)[0].type(), generator);
  all.push_back(weights);
  ASSERT_TRUE(succeeded(differentiateInPlace(written)));
  auto gradients = interpret(written, all);
  ASSERT_TRUE(succeeded(gradients));
  size_t next = 1;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    if (!argument.isReal())
      continue;
    const Tensor direction = randomTensor(argument.type(), generator);
    expectDirectional(recurrence, arguments, index, direction, weights, (*gradients)[next++]);
  }
}

/// What generates text hands on the last state.
TEST_P(SelectiveScan, HandsOnTheLastState) {
  const ScanCase &c = GetParam();
  if (c.packed)
    return; // rows of several documents are not what text is generated from
  GraphContext context;
  const std::string text = attentionText(c, /*repeatsKeys=*/true, /*wantsState=*/true);
  auto module = context.parse(text), scan = context.parse(text);
  ASSERT_TRUE(module && scan);
  auto recurrence = module->lookupSymbol<func::FuncOp>("f"), written = scan->lookupSymbol<func::FuncOp>("f");
  graph::setEntry(written, graph::Entry::Generate);
  ASSERT_TRUE(succeeded(decomposeInPlace(written)));
  EXPECT_EQ(scansIn(written), 1);
  const Tensors arguments = scanArguments(recurrence, c, 3, 4);
  auto expected = interpret(recurrence, arguments), found = interpret(written, arguments);
  ASSERT_TRUE(succeeded(expected) && succeeded(found));
  for (unsigned i : {0, 1})
    EXPECT_LT(relativeError((*found)[i], (*expected)[i]), 1e-12) << "result " << i;
}

/// As folders build gated recurrences: queries and keys are ones, decays are whatever they are.
TEST(SelectiveScanForm, OneNumberOfAChannel) {
  constexpr char kText[] = R"(
func.func @f(%v: tensor<2x40x16x1xf32>, %g: tensor<2x40x16x1xf32>) -> tensor<2x40x16x1xf32> {
  %one = graph.constant dense<1.0> : tensor<2x40x16xf32>
  %ones = graph.reshape %one : tensor<2x40x16xf32> -> tensor<2x40x16x1xf32>
  %y, %s = graph.linear_attention %ones, %ones, %v, 1.0 decay %g : tensor<2x40x16x1xf32> {chunk = 16 : i64}
    : tensor<2x40x16x1xf32>, tensor<2x40x16x1xf32>, tensor<2x40x16x1xf32> -> tensor<2x40x16x1xf32>, tensor<2x16x1x1xf32>
  return %y : tensor<2x40x16x1xf32>
})";
  GraphContext context;
  auto module = context.parse(kText), scan = context.parse(kText);
  ASSERT_TRUE(module && scan);
  auto recurrence = module->lookupSymbol<func::FuncOp>("f"), written = scan->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(decomposeInPlace(written)));
  EXPECT_EQ(scansIn(written), 1);
  const Tensors arguments = scanArguments(recurrence, {"", 2, 40, 16, 1}, 0, 1);
  auto expected = interpret(recurrence, arguments), found = interpret(written, arguments);
  ASSERT_TRUE(succeeded(expected) && succeeded(found));
  EXPECT_LT(relativeError((*found)[0], (*expected)[0]), 1e-12);
}

/// Where the chunked form stays.
TEST(SelectiveScanForm, OthersAreWrittenOutInChunks) {
  GraphContext context;
  auto scans = [&](const std::string &text) {
    auto module = context.parse(text);
    auto function = module->lookupSymbol<func::FuncOp>("f");
    EXPECT_TRUE(succeeded(decomposeInPlace(function)));
    return scansIn(function);
  };
  const ScanCase fits{"fits", 1, 6, 16, 4};
  EXPECT_EQ(scans(attentionText(fits)), 1);
  EXPECT_EQ(scans(attentionText(fits, /*repeatsKeys=*/false)), 0);
  EXPECT_EQ(scans(attentionText(fits, /*repeatsKeys=*/true, /*wantsState=*/true)), 0);
  EXPECT_EQ(scans(attentionText({"channels", 1, 6, 24, 4})), 0);
  EXPECT_EQ(scans(attentionText({"states", 1, 6, 16, 65})), 0);
}

/// @f of the operands of the scan, or of its gradient.
std::string scanText(const ScanCase &c, bool grad) {
  const int64_t chunks = (c.T + 31) / 32, groups = (c.D + 63) / 64;
  const std::string v = typeText({c.B, c.T, c.D}), rate = typeText({c.N, c.D}), shared = typeText({c.B, c.T, c.N}),
                    states = typeText({c.B, chunks, c.N, c.D}), drate = typeText({c.B, c.N, c.D}),
                    parts = typeText({groups, c.B, c.T, c.N}), starts = typeText({c.B, c.T}, "i32");
  std::string types = v + ", " + v + ", " + rate + ", " + shared + ", " + shared,
              arguments = "%v: " + v + ", %delta: " + v + ", %rate: " + rate + ", %b: " + shared + ", %c: " + shared,
              names = "%v, %delta, %rate, %b, %c", results = v + ", " + states;
  if (grad) {
    types += ", " + states + ", " + v;
    arguments += ", %states: " + states + ", %dy: " + v;
    names += ", %states, %dy";
    results = v + ", " + v + ", " + drate + ", " + parts + ", " + parts;
  }
  if (c.packed) {
    arguments += ", %starts: " + starts;
    names += " within %starts : " + starts;
  }
  const std::string count = grad ? "5" : "2", op = grad ? "graph.selective_scan_grad " : "graph.selective_scan ";
  std::string returned = "%r#0, %r#1";
  if (grad)
    returned += ", %r#2, %r#3, %r#4";
  return "func.func @f(" + arguments + ") -> (" + results + ") {\n  %r:" + count + " = " + op + names +
         " {chunk = 32 : i64} : " + types + " -> " + results + "\n  return " + returned + " : " + results + "\n}";
}

Bytes bytesOfTensor(const Tensor &tensor) {
  Bytes bytes;
  auto append = [&](auto value) {
    const char *begin = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof value);
  };
  for (double x : tensor.reals)
    append(float(x));
  for (int64_t x : tensor.integers)
    append(int32_t(x));
  return bytes;
}

/// A scan at its operands, by the interpreter and by kernels.
struct ScanRun {
  const ScanCase c;
  const bool grad;
  OwningOpRef<ModuleOp> module;
  Tensors arguments, expected;

  ScanRun(const ScanCase &c, bool grad) : c(c), grad(grad) {
    GraphContext graph;
    module = parseSourceString<ModuleOp>(scanText(c, grad), ParserConfig(&kernelContext()));
    auto function = module->lookupSymbol<func::FuncOp>("f");
    arguments = scanArguments(function, c, 1, 2);
    auto results = interpret(function, arguments);
    EXPECT_TRUE(succeeded(results));
    expected = std::move(*results);
  }

  /// Buffers of a kernel: operands, results of nonsense, scratch, document_starts.
  std::vector<Bytes> buffers(uint64_t scratchBytes) const {
    std::vector<Bytes> all;
    for (const Tensor &argument : llvm::ArrayRef(arguments).drop_back(c.packed))
      all.push_back(bytesOfTensor(argument));
    for (const Tensor &result : expected)
      all.emplace_back(result.reals.size() * 4, char(0xff));
    if (grad)
      all.emplace_back(scratchBytes, char(0xff));
    if (c.packed)
      all.push_back(bytesOfTensor(arguments.back()));
    return all;
  }
  void compare(const std::vector<Bytes> &all, const char *where) const {
    for (auto [index, result] : llvm::enumerate(expected)) {
      const Bytes &bytes = all[arguments.size() - c.packed + index];
      Tensor found(result.shape, result.elementType);
      for (size_t i = 0; i < result.reals.size(); ++i) {
        float value;
        std::memcpy(&value, bytes.data() + i * 4, 4);
        found.reals[i] = value;
      }
      EXPECT_LT(relativeError(found, result), 2e-6) << where << ", result " << index;
    }
  }
};

TEST_P(SelectiveScan, KernelsOfProcessors) {
  const ScanCase &c = GetParam();
  for (bool grad : {false, true}) {
    const ScanRun run(c, grad);
    KernelModule kernels(kernelContext(), {/*host=*/true, /*device=*/false});
    const KernelDescription kernel = grad ? kernels.addSelectiveScanGrad(c.packed) : kernels.addSelectiveScan(c.packed);
    auto images = kernels.emit({"x86-64-v3", "x86-64-v4"});
    ASSERT_TRUE(succeeded(images));
    const int64_t units = c.B * (grad ? (c.D + 63) / 64 : c.D / 16);
    std::vector<std::vector<Bytes>> found;
    for (const KernelImage &image : *images)
      for (int64_t parts : {int64_t(1), units}) {
        if (image.target == "x86-64-v4" && !__builtin_cpu_supports("x86-64-v4"))
          continue;
        const LoadedKernels loaded(image);
        const KernelFunction function = loaded.find(kernel.name);
        ASSERT_TRUE(function);
        std::vector<Bytes> all = run.buffers(scanScratchBytes(32, uint64_t(c.N)));
        std::vector<void *> pointers;
        for (Bytes &bytes : all)
          pointers.push_back(bytes.data());
        const int64_t scalars[] = {c.T, c.D, c.N, 32, c.B};
        for (int64_t part = parts - 1; part >= 0; --part)
          function(pointers.data(), scalars, units * part / parts, units * (part + 1) / parts);
        run.compare(all, image.target.c_str());
        if (grad)
          all.erase(all.begin() + 12); // scratch
        found.push_back(std::move(all));
      }
    for (const std::vector<Bytes> &other : found)
      EXPECT_EQ(other, found.front()) << "the same bits for both instruction sets and any cut";
  }
}

TEST_P(SelectiveScan, KernelsOfGpus) {
  const ScanCase &c = GetParam();
  for (bool grad : {false, true}) {
    const ScanRun run(c, grad);
    KernelModule kernels(kernelContext(), {/*host=*/false, /*device=*/true});
    const KernelDescription kernel = kernels.addGpuSelectiveScan(grad, c.N, c.packed);
    auto images = kernels.emit({"simt"});
    ASSERT_TRUE(succeeded(images));
    auto image = simt::Image::load(images->front().bytes);
    ASSERT_TRUE(image.isOk()) << image.status().message();
    std::vector<std::vector<Bytes>> found;
    for (simt::Order order : {simt::Order::Ascending, simt::Order::Descending}) {
      std::vector<Bytes> all = run.buffers(gpuScanScratchBytes(uint64_t(c.B), uint64_t(c.D), 32, uint64_t(c.N)));
      std::vector<Bytes *> pointers;
      for (Bytes &bytes : all)
        pointers.push_back(&bytes);
      ASSERT_TRUE(launchOnGpu(**image, kernel, pointers, {c.T, c.D, 32, c.B}, c.B * ((c.D + 63) / 64), order));
      run.compare(all, "simt");
      found.push_back(std::move(all));
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

/// What each buffer's threads read and write, each thread for itself: four share a channel.
TEST(SelectiveScanCode, BytesOfGpus) {
  const ScanCase c{"bytes", 2, 70, 64, 8};
  const auto places = uint64_t(c.B * c.T), values = places * uint64_t(c.D) * 4, shared = places * uint64_t(c.N) * 4,
             numbers = values * uint64_t(c.N), rates = uint64_t(c.N * c.D) * 4, kept = rates * uint64_t(c.B) * 3;
  const std::vector<uint64_t> forward{4 * values, 4 * values, rates * uint64_t(c.B), numbers, numbers, values, kept},
      backward{8 * values, 8 * values, rates * uint64_t(c.B), 2 * numbers, numbers, kept,       4 * values,
               values,     values,     rates * uint64_t(c.B), shared,      shared,  2 * numbers};
  for (bool grad : {false, true}) {
    const ScanRun run(c, grad);
    KernelModule kernels(kernelContext(), {/*host=*/false, /*device=*/true});
    const KernelDescription kernel = kernels.addGpuSelectiveScan(grad, c.N, /*packed=*/false);
    auto images = kernels.emit({"simt"});
    ASSERT_TRUE(succeeded(images));
    auto image = simt::Image::load(images->front().bytes);
    ASSERT_TRUE(image.isOk());
    std::vector<Bytes> all = run.buffers(gpuScanScratchBytes(uint64_t(c.B), uint64_t(c.D), 32, uint64_t(c.N)));
    std::vector<Bytes *> pointers;
    for (Bytes &bytes : all)
      pointers.push_back(&bytes);
    std::vector<uint64_t> moved;
    ASSERT_TRUE(launchOnGpu(**image, kernel, pointers, {c.T, c.D, 32, c.B}, c.B, simt::Order::Ascending, &moved));
    EXPECT_EQ(moved, grad ? backward : forward);
  }
}

/// No local memory, whatever the states' size: neither in PTX nor, where an assembler is, in what it makes of that.
TEST(SelectiveScanCode, OfGpus) {
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  for (bool grad : {false, true})
    for (int64_t states : {4, 16, 64})
      for (bool packed : {false, true})
        module.addGpuSelectiveScan(grad, states, packed);
  auto images = module.emit({"sm_80", "sm_90a"});
  ASSERT_TRUE(succeeded(images));
  for (const KernelImage &image : *images) {
    for (const char *bad : {".local", "atom.", "\tred.", "call.uni", "div.full", "div.approx", ".ftz"})
      EXPECT_FALSE(llvm::StringRef(image.ptx).contains(bad)) << bad;
    for (const auto &[kernel, resources] : image.resources)
      EXPECT_EQ(resources.localBytes, 0u)
          << kernel << " for " << image.target << ", " << resources.registers << " registers";
  }
}

} // namespace
