// Kernels over flat buckets whose length and start are known at run time.
#include "KernelHarness.h"
#include "runtime/Format/Shards.h"
#include "runtime/Format/StepParameters.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

static Bytes floats(int64_t count, unsigned seed, bool positive = false) {
  mlir::MLIRContext context;
  Tensor tensor = randomOperand(mlir::RankedTensorType::get({count}, mlir::Float32Type::get(&context)), seed);
  if (positive)
    for (double &x : tensor.reals)
      x = std::abs(x);
  return toBytes(tensor);
}
static float *data(Bytes &bytes) {
  return reinterpret_cast<float *>(bytes.data());
}

/// An update of a shard that begins at 3008; weight decay ends at element `decayed` of the bucket.
static void expectAdamwOfAShard(int64_t decayed) {
  SCOPED_TRACE(decayed);
  Group group(
      R"(func.func @adamw(%p: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %a, %b, %c = graph.optimizer_step "adamw" %p, %g keeps(%m, %v) by(%h, %s, %ok) decayed )" +
      std::to_string(decayed) + R"(
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  })");
  constexpr int64_t length = 9001, start = 47 * kShardQuantum;
  std::vector<Bytes> arguments{
      floats(length, 1), floats(length, 2), floats(length, 3), floats(length, 4, /*positive=*/true),
      Bytes(64),         Bytes(4),          Bytes(1, 1)};
  float *h = data(arguments[4]);
  auto set = [&](StepParameter parameter, float value) { h[static_cast<uint32_t>(parameter)] = value; };
  set(StepParameter::LearningRate, 1e-3f);
  set(StepParameter::DecayFactor, 0.999f);
  set(StepParameter::StepSize, 2e-3f);
  set(StepParameter::InverseSqrtCorrection2, 3.0f);
  set(StepParameter::OneMinusBeta1, 0.1f);
  set(StepParameter::Beta2, 0.95f);
  set(StepParameter::OneMinusBeta2, 0.05f);
  set(StepParameter::Epsilon, 1e-8f);
  *data(arguments[5]) = 0.5f;
  RunOptions options;
  options.length = length;
  options.start = start;
  std::vector<Bytes> results = runGroup(group.fusion(), arguments, options);
  ASSERT_EQ(results.size(), 3u);
  options.parts = 2;
  EXPECT_EQ(results, runGroup(group.fusion(), arguments, options));
  float *p = data(arguments[0]), *g = data(arguments[1]), *m = data(arguments[2]), *v = data(arguments[3]);
  for (int64_t i = 0; i < length; ++i) {
    float gradient = g[i] * 0.5f;
    float shrunk = start + i < decayed ? p[i] * 0.999f : p[i];
    float newM = m[i] + (gradient - m[i]) * 0.1f;
    float newV = v[i] * 0.95f + 0.05f * gradient * gradient;
    float newP = shrunk - 2e-3f * newM / (std::sqrt(newV) * 3.0f + 1e-8f);
    ASSERT_EQ(data(results[0])[i], newP) << i;
    ASSERT_EQ(data(results[1])[i], newM) << i;
    ASSERT_EQ(data(results[2])[i], newV) << i;
  }
  arguments[6][0] = 0; // not to proceed changes nothing
  std::vector<Bytes> kept = runGroup(group.fusion(), arguments, options);
  EXPECT_EQ(kept, (std::vector<Bytes>{arguments[0], arguments[2], arguments[3]}));
}

/// Also where the end parts lanes that are computed together.
TEST(CodegenFlat, AdamwOfAShard) {
  for (int64_t decayed : {7040, 7000, 6997})
    expectAdamwOfAShard(decayed);
}

/// The comparisons of an update in bf16 of a bucket with so many tensors, whose elements are numbered from each
/// tensor's beginning.
static size_t comparisonsOf(int64_t tensors) {
  std::string starts = "0";
  for (int64_t i = 1; i < tensors; ++i)
    starts += ", " + std::to_string(i * 4096);
  const std::string numbers = "tensor<" + std::to_string(tensors) + "xi64>";
  Group group(
      "func.func @adamw(%p: tensor<?xbf16>, %g: tensor<?xf32>, %m: tensor<?xbf16>, %v: tensor<?xbf16>, "
      "%h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>, %n: " +
      numbers +
      ") -> (tensor<?xbf16>, tensor<?xbf16>, tensor<?xbf16>) {\n"
      "%a, %b, %c = graph.optimizer_step \"adamw\" %p, %g keeps(%m, %v) by(%h, %s, %ok) decayed 0 numbered %n from [" +
      starts +
      "] : (tensor<?xbf16>, tensor<?xf32>, tensor<?xbf16>, tensor<?xbf16>, tensor<16xf32>, tensor<f32>, tensor<i1>, " +
      numbers +
      ") -> (tensor<?xbf16>, tensor<?xbf16>, tensor<?xbf16>)\n"
      "return %a, %b, %c : tensor<?xbf16>, tensor<?xbf16>, tensor<?xbf16>\n}");
  KernelModule module(kernelContext(), {/*host=*/false, /*device=*/true});
  EXPECT_TRUE(succeeded(module.addGroup(group.fusion())));
  auto images = module.emit({"sm_90a"});
  EXPECT_TRUE(succeeded(images));
  return failed(images) ? 0 : llvm::StringRef(images->front().ptx).count("setp.");
}

// Of whole blocks of elements and of the last one, in vectors.
TEST(CodegenFlat, ThreadsAskOnceWhichTensorTheirElementsAreOf) {
  const size_t few = comparisonsOf(2), many = comparisonsOf(10);
  EXPECT_GT(many, few);
  EXPECT_LE(many - few, 2u * 8);
}

TEST(CodegenFlat, SumOfSquares) {
  Group group(R"(func.func @norm(%x: tensor<?xf32>) -> tensor<f32> {
    %y = graph.sum_squares %x : tensor<?xf32> -> tensor<f32>
    return %y : tensor<f32>
  })");
  for (int64_t length : {1, 63, 64, 4096, 4097, 12345}) {
    Bytes x = floats(length, 7);
    RunOptions options;
    options.length = length;
    std::vector<Bytes> result = runGroup(group.fusion(), {x}, options);
    ASSERT_EQ(result.size(), 1u);
    double expected = 0;
    for (int64_t i = 0; i < length; ++i)
      expected += double(data(x)[i]) * data(x)[i];
    EXPECT_NEAR(data(result[0])[0], expected, 2e-6 * expected) << length;
    // The order that compiler/Codegen/README.md promises: 64 lanes and a halving tree per block of 4096, blocks in
    // order and in f64.
    double total = 0;
    for (int64_t block = 0; block < length; block += 4096) {
      float lanes[64] = {};
      for (int64_t i = block; i < std::min(length, block + 4096); ++i)
        lanes[i % 64] += data(x)[i] * data(x)[i];
      for (int half = 32; half >= 1; half /= 2)
        for (int i = 0; i < half; ++i)
          lanes[i] += lanes[i + half];
      total += lanes[0];
    }
    EXPECT_EQ(data(result[0])[0], float(total)) << length;
  }
}

// A sum of its 2000 blocks in f32 is off by 1.5e-5.
TEST(CodegenFlat, SumOfSquaresOfManyBlocks) {
  Group group(R"(func.func @norm(%x: tensor<?xf32>) -> tensor<f32> {
    %y = graph.sum_squares %x : tensor<?xf32> -> tensor<f32>
    return %y : tensor<f32>
  })");
  RunOptions options;
  options.length = 2000 * 4096;
  Bytes x(options.length * sizeof(float));
  std::fill_n(data(x), options.length, 1.1f);
  std::vector<Bytes> result = runGroup(group.fusion(), {x}, options);
  ASSERT_EQ(result.size(), 1u);
  const double expected = double(options.length) * 1.1f * 1.1f;
  EXPECT_NEAR(data(result[0])[0], expected, 2e-6 * expected);
}

TEST(CodegenFlat, StaticVectorsAreFlatToo) {
  expectLikeReference(
      R"(func.func @axpy(%x: tensor<5000xf32>, %y: tensor<5000xf32>, %a: tensor<f32>) -> tensor<5000xf32> {
    %b = graph.broadcast %a : tensor<f32> -> tensor<5000xf32>
    %p = graph.mul %x, %b : tensor<5000xf32>
    %z = graph.add %p, %y : tensor<5000xf32>
    return %z : tensor<5000xf32>
  })");
}

TEST(CodegenFlat, AKnownLengthHasAKnownWorkspace) {
  Group group(R"(func.func @norm(%x: tensor<9000xf32>) -> tensor<f32> {
    %y = graph.sum_squares %x : tensor<9000xf32> -> tensor<f32>
    return %y : tensor<f32>
  })");
  KernelModule module(kernelContext());
  auto lowered = module.addGroup(group.fusion());
  ASSERT_TRUE(succeeded(lowered));
  EXPECT_EQ(lowered->workspaceBytes, 3u * 4u); // three blocks of 4096
  EXPECT_EQ(lowered->workspaceBytesPerFlatBlock, 0u);
  EXPECT_EQ(lowered->kernels[0].extent, 3u);
  EXPECT_EQ(lowered->kernels[0].scalars, (std::vector<int64_t>{9000, 0}));
}
