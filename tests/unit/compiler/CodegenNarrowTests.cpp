// Kernels over bf16 and f16: computed in f32, rounded where something is stored, masters and moments bit by bit.
#include "KernelHarness.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/Shards.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StochasticRounding.h"
#include "tests/unit/compiler/Text.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace ztc;
using namespace ztc::test;

namespace {

/// Text with NARROW in place of the type.
void expectNarrowLikeReference(const std::string &text) {
  // An f32 result differs in its last bits, which may turn the rounding of a narrow one: one unit in the last place.
  expectLikeReference(replaced(text, "NARROW", "bf16"), 1.0 / 128);
  expectLikeReference(replaced(text, "NARROW", "f16"), 1.0 / 1024);
}

template <typename T> T *data(Bytes &bytes) {
  return reinterpret_cast<T *>(bytes.data());
}
template <typename T> Bytes bytesOf(const std::vector<T> &values) {
  const char *first = reinterpret_cast<const char *>(values.data());
  return Bytes(first, first + values.size() * sizeof(T));
}

} // namespace

TEST(CodegenNarrow, MacroOps) {
  expectNarrowLikeReference(
      R"(func.func @rms_norm(%x: tensor<5x53xNARROW>, %w: tensor<53xNARROW>) -> tensor<5x53xNARROW> {
    %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<5x53xNARROW>, tensor<53xNARROW>
    return %y : tensor<5x53xNARROW>
  })");
  expectNarrowLikeReference(
      R"(func.func @swiglu(%g: tensor<6x100xNARROW>, %u: tensor<6x100xNARROW>) -> tensor<6x100xNARROW> {
    %y = graph.swiglu %g, %u : tensor<6x100xNARROW>
    return %y : tensor<6x100xNARROW>
  })");
  expectNarrowLikeReference(
      R"(func.func @swiglu_grad(%g: tensor<6x100xNARROW>, %u: tensor<6x100xNARROW>, %d: tensor<6x100xNARROW>) -> (tensor<6x100xNARROW>, tensor<6x100xNARROW>) {
    %a, %b = graph.swiglu_grad %g, %u, %d : tensor<6x100xNARROW>
    return %a, %b : tensor<6x100xNARROW>, tensor<6x100xNARROW>
  })");
  expectNarrowLikeReference(
      R"(func.func @rope(%x: tensor<2x5x3x16xNARROW>, %c: tensor<5x8xf32>, %s: tensor<5x8xf32>) -> tensor<2x5x3x16xNARROW> {
    %y = graph.rope %x, %c, %s : tensor<2x5x3x16xNARROW>, tensor<5x8xf32>
    return %y : tensor<2x5x3x16xNARROW>
  })");
  expectNarrowLikeReference(R"(func.func @softmax(%x: tensor<7x130xNARROW>) -> tensor<7x130xNARROW> {
    %y = graph.softmax %x : tensor<7x130xNARROW>
    return %y : tensor<7x130xNARROW>
  })");
}

/// What an adapter of a part of joined columns adds stands among zeros.
TEST(CodegenNarrow, ColumnsAmongZeros) {
  expectNarrowLikeReference(R"(func.func @f(%x: tensor<16x40xNARROW>) -> tensor<16x80xNARROW> {
    %y = graph.pad %x, [0, 0] : tensor<16x40xNARROW> -> tensor<16x80xNARROW>
    return %y : tensor<16x80xNARROW>
  })");
  expectNarrowLikeReference(
      R"(func.func @f(%x: tensor<16x40xNARROW>, %y: tensor<16x80xNARROW>, %b: tensor<1x80xNARROW>) -> tensor<16x80xNARROW> {
    %p = graph.pad %x, [0, 8] : tensor<16x40xNARROW> -> tensor<16x80xNARROW>
    %s = graph.add %y, %p : tensor<16x80xNARROW>
    %w = graph.broadcast %b : tensor<1x80xNARROW> -> tensor<16x80xNARROW>
    %z = graph.add %s, %w : tensor<16x80xNARROW>
    return %z : tensor<16x80xNARROW>
  })");
}

/// The gradient of a weight is a sum of f32 products that nothing rounds.
TEST(CodegenNarrow, ColumnSumsAreF32) {
  for (const char *narrow : {"bf16", "f16"})
    expectLikeReference(
        replaced(
            R"(func.func @f(%x: tensor<75x48xNARROW>, %w: tensor<48xNARROW>, %d: tensor<75x48xNARROW>) -> (tensor<48xf32>, tensor<1x48xf32>) {
      %a, %b = graph.rms_norm_grad %x, %w, %d, 1.0e-5 : tensor<75x48xNARROW>, tensor<48xNARROW> -> tensor<48xf32>
      %c = graph.reduce_sum %d, [0] : tensor<75x48xNARROW> -> tensor<1x48xf32>
      return %b, %c : tensor<48xf32>, tensor<1x48xf32>
    })",
            "NARROW", narrow),
        4e-6);
}

/// A sum of narrow values is rounded once, whatever form it takes.
TEST(CodegenNarrow, NarrowSumsRoundOnce) {
  expectNarrowLikeReference(R"(func.func @f(%x: tensor<75x130xNARROW>) -> (tensor<75x1xNARROW>, tensor<1x130xNARROW>) {
    %a = graph.reduce_sum %x, [1] : tensor<75x130xNARROW> -> tensor<75x1xNARROW>
    %b = graph.reduce_sum %x, [0] : tensor<75x130xNARROW> -> tensor<1x130xNARROW>
    return %a, %b : tensor<75x1xNARROW>, tensor<1x130xNARROW>
  })");
}

/// Storing a value in between changes nothing: what a register holds is rounded too.
TEST(CodegenNarrow, FusedValuesAreRounded) {
  const char *chain = R"(func.func @f(%x: tensor<7x96xNARROW>, %y: tensor<7x96xNARROW>) -> (RESULTS) {
    %a = graph.mul %x, %y : tensor<7x96xNARROW>
    %b = graph.add %a, %x : tensor<7x96xNARROW>
    %c = graph.sigmoid %b : tensor<7x96xNARROW>
    %d = graph.sub %c, %y : tensor<7x96xNARROW>
    return RETURN
  })";
  for (const char *narrow : {"bf16", "f16"}) {
    std::string type = std::string("tensor<7x96x") + narrow + ">";
    std::string text = replaced(chain, "NARROW", narrow);
    Group fused(replaced(replaced(text, "RESULTS", type), "RETURN", "%d : " + type));
    Group stored(replaced(replaced(text, "RESULTS", type + ", " + type + ", " + type + ", " + type), "RETURN",
                          "%d, %a, %b, %c : " + type + ", " + type + ", " + type + ", " + type));
    std::vector<Bytes> arguments;
    for (auto [i, argument] : llvm::enumerate(fused.original().getArgumentTypes()))
      arguments.push_back(toBytes(randomOperand(llvm::cast<mlir::RankedTensorType>(argument), i + 1)));
    EXPECT_EQ(runGroup(fused.fusion(), arguments)[0], runGroup(stored.fusion(), arguments)[0]) << narrow;
  }
}

/// Every conversion of an f32 bit pattern to a narrow type and back, as runtime/Core/FloatTypes.h makes it.
TEST(CodegenNarrow, ConversionsAreThoseOfTheRuntime) {
  std::vector<float> values{0.0f,     -0.0f,   1.0f,   INFINITY, -INFINITY, 65519.996f,
                            65520.0f, 3.4e38f, 1e-40f, 5.9e-8f,  2.9e-8f};
  std::mt19937 generator(3);
  while (values.size() < 4000) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(generator())));
  }
  for (const char *narrow : {"bf16", "f16"}) {
    Group group(replaced(R"(func.func @f(%x: tensor<4000xf32>) -> (tensor<4000xNARROW>, tensor<4000xf32>) {
      %a = graph.cast %x : tensor<4000xf32> -> tensor<4000xNARROW>
      %b = graph.cast %a : tensor<4000xNARROW> -> tensor<4000xf32>
      return %a, %b : tensor<4000xNARROW>, tensor<4000xf32>
    })",
                         "NARROW", narrow));
    std::vector<Bytes> results = runGroup(group.fusion(), {bytesOf(values)});
    bool brain = narrow[0] == 'b';
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = brain ? toBf16(values[i]) : toF16(values[i]);
      ASSERT_EQ(data<uint16_t>(results[0])[i], bits) << narrow << " " << values[i];
      float back = brain ? fromBf16(bits) : fromF16(bits);
      ASSERT_EQ(data<uint32_t>(results[1])[i], std::bit_cast<uint32_t>(back)) << narrow << " " << values[i];
    }
  }
}

TEST(CodegenNarrow, MastersJoinAndSplitWithoutLoss) {
  std::vector<float> masters{0.0f, -0.0f, 1.0f, -1.0f, 1e-42f, std::numeric_limits<float>::max(), INFINITY};
  std::mt19937 generator(7);
  while (masters.size() < 1037)
    masters.push_back(std::bit_cast<float>(static_cast<uint32_t>(generator())));
  Group group(R"(func.func @f(%x: tensor<?xf32>) -> (tensor<?xbf16>, tensor<?xi16>, tensor<?xf32>) {
    %p, %r = graph.split_master %x : tensor<?xf32> -> tensor<?xbf16>, tensor<?xi16>
    %y = graph.join_master %p, %r : tensor<?xbf16>, tensor<?xi16> -> tensor<?xf32>
    return %p, %r, %y : tensor<?xbf16>, tensor<?xi16>, tensor<?xf32>
  })");
  RunOptions options;
  options.length = static_cast<int64_t>(masters.size());
  std::vector<Bytes> results = runGroup(group.fusion(), {bytesOf(masters)}, options);
  EXPECT_EQ(results[2], bytesOf(masters));
  for (size_t i = 0; i < masters.size(); ++i) {
    SplitMaster split = splitMaster(masters[i]);
    ASSERT_EQ(data<uint16_t>(results[0])[i], split.parameter) << masters[i];
    ASSERT_EQ(data<int16_t>(results[1])[i], split.remainder) << masters[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(joinMaster(split.parameter, split.remainder)),
              std::bit_cast<uint32_t>(masters[i]));
  }
}

/// A shard of a bucket rounds as the whole bucket does.
TEST(CodegenNarrow, StochasticRoundingIsThatOfTheHeaderInEveryShard) {
  Group group(R"(func.func @f(%x: tensor<?xf32>, %h: tensor<2xf32>) -> tensor<?xbf16> {
    %i = graph.iota 0 : tensor<?xi64>
    %a = graph.slice %h, [0] : tensor<2xf32> -> tensor<1xf32>
    %b = graph.slice %h, [1] : tensor<2xf32> -> tensor<1xf32>
    %s = graph.broadcast %a : tensor<1xf32> -> tensor<?xf32>
    %t = graph.broadcast %b : tensor<1xf32> -> tensor<?xf32>
    %y = graph.stochastic_round %x, %i, %s, %t stream 1 : tensor<?xf32>, tensor<?xi64>, tensor<?xf32> -> tensor<?xbf16>
    return %y : tensor<?xbf16>
  })");
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, std::bit_cast<float>(0x7f800001u), 1e-41f};
  std::mt19937 generator(11);
  std::normal_distribution<float> normal;
  while (values.size() < 6000)
    values.push_back(normal(generator));
  const float seed = randomField(0xdeadbeef), step = randomField(17);
  std::vector<float> fields{seed, step};
  RunOptions options;
  options.length = 6000;
  options.start = (int64_t(1) << 33) + 5;
  std::vector<Bytes> whole = runGroup(group.fusion(), {bytesOf(values), bytesOf(fields)}, options);
  double bias = 0;
  for (int64_t i = 0; i < options.length; ++i) {
    uint16_t expected =
        roundStochastically(values[i], roundingBits(roundingKey(seed, step, 1), uint64_t(options.start + i)));
    ASSERT_EQ(data<uint16_t>(whole[0])[i], expected) << i << " " << values[i];
    if (i >= 6)
      bias += (fromBf16(expected) - values[i]) / std::exp2(std::floor(std::log2(std::abs(values[i]))) - 7);
  }
  EXPECT_LT(std::abs(bias / 6000), 0.03) << "in units of the last place; the error of one rounding has deviation 0.4";
  // The second half as a shard of its own.
  std::vector<float> half(values.begin() + 3000, values.end());
  options.length = 3000;
  options.start += 3000;
  std::vector<Bytes> shard = runGroup(group.fusion(), {bytesOf(half), bytesOf(fields)}, options);
  EXPECT_TRUE(std::equal(shard[0].begin(), shard[0].end(), whole[0].begin() + 6000));
}

/// Masks of dropout: a draw for each row of the global batch and column, so many as were asked for.
TEST(CodegenNarrow, RandomBitsAreThoseOfTheHeader) {
  Group group(R"(func.func @f(%first: tensor<1xi64>, %h: tensor<2xf32>) -> tensor<48x200xi32> {
    %r = graph.iota 0 : tensor<48x200xi64>
    %c = graph.iota 1 : tensor<48x200xi64>
    %n = graph.broadcast %first : tensor<1xi64> -> tensor<48x200xi64>
    %a = graph.slice %h, [0] : tensor<2xf32> -> tensor<1xf32>
    %b = graph.slice %h, [1] : tensor<2xf32> -> tensor<1xf32>
    %s = graph.broadcast %a : tensor<1xf32> -> tensor<48x200xf32>
    %t = graph.broadcast %b : tensor<1xf32> -> tensor<48x200xf32>
    %y = graph.random_bits %r, %c, %n, %s, %t columns 200 stream 9 : tensor<48x200xi64>, tensor<48x200xf32> -> tensor<48x200xi32>
    return %y : tensor<48x200xi32>
  })");
  const int64_t first = (int64_t(1) << 34) + 7;
  const std::vector<float> fields{randomField(0xdeadbeef), randomField(17)};
  std::vector<Bytes> drawn = runGroup(group.fusion(), {bytesOf(std::vector<int64_t>{first}), bytesOf(fields)});
  const uint32_t key = roundingKey(fields[0], fields[1], 9);
  int64_t below = 0;
  for (int64_t i = 0; i < 48 * 200; ++i) {
    const auto bits = data<int32_t>(drawn[0])[i];
    ASSERT_EQ(bits, int32_t(maskBits(key, uint64_t(first * 200 + i)))) << i;
    below += bits < int32_t(0.1 * 0x1p31);
  }
  EXPECT_NEAR(double(below) / (48 * 200), 0.1, 0.015);
}

namespace {
/// AdamW of a shard that begins at element 3008, decay up to element 7000, in plain f32 arithmetic.
struct NarrowUpdate {
  static constexpr int64_t length = 5003, start = 47 * kShardQuantum;
  std::vector<float> masters, gradients, m, v, hyper = std::vector<float>(16);

  NarrowUpdate() {
    std::mt19937 generator(5);
    std::normal_distribution<float> normal(0.0f, 0.1f);
    for (int64_t i = 0; i < length; ++i) {
      masters.push_back(normal(generator));
      gradients.push_back(normal(generator));
      m.push_back(normal(generator));
      v.push_back(std::abs(normal(generator)));
    }
    auto set = [&](StepParameter parameter, float value) { hyper[static_cast<uint32_t>(parameter)] = value; };
    set(StepParameter::DecayFactor, 0.999f);
    set(StepParameter::StepSize, 2e-3f);
    set(StepParameter::InverseSqrtCorrection2, 3.0f);
    set(StepParameter::OneMinusBeta1, 0.1f);
    set(StepParameter::Beta2, 0.95f);
    set(StepParameter::OneMinusBeta2, 0.05f);
    set(StepParameter::Epsilon, 1e-8f);
    set(StepParameter::RandomSeed, randomField(99));
    set(StepParameter::RandomStep, randomField(3));
  }

  struct Result {
    float master, m, v;
  };
  Result update(int64_t i, float gradient, float oldM, float oldV) const {
    float g = gradient * 0.5f;
    float decayed = start + i < 7000 ? masters[i] * 0.999f : masters[i];
    float newM = oldM + (g - oldM) * 0.1f, newV = oldV * 0.95f + 0.05f * g * g;
    return {decayed - 2e-3f * newM / (std::sqrt(newV) * 3.0f + 1e-8f), newM, newV};
  }
};
} // namespace

TEST(CodegenNarrow, AdamwOfABf16ParameterWithItsRemainder) {
  Group group(
      R"(func.func @adamw(%p: tensor<?xbf16>, %g: tensor<?xbf16>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>, %r: tensor<?xi16>)
      -> (tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>) {
    %a, %b, %c, %d = graph.optimizer_step "adamw" %p, %g keeps(%m, %v, %r) by(%h, %s, %ok) decayed 7000
      : (tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>)
    return %a, %b, %c, %d : tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>
  })");
  NarrowUpdate u;
  std::vector<uint16_t> parameters, gradients;
  std::vector<int16_t> remainders;
  for (int64_t i = 0; i < u.length; ++i) {
    parameters.push_back(splitMaster(u.masters[i]).parameter);
    remainders.push_back(splitMaster(u.masters[i]).remainder);
    gradients.push_back(toBf16(u.gradients[i]));
  }
  std::vector<Bytes> arguments{bytesOf(parameters), bytesOf(gradients), bytesOf(u.m),
                               bytesOf(u.v),        bytesOf(u.hyper),   bytesOf(std::vector<float>{0.5f}),
                               Bytes(1, 1),         bytesOf(remainders)};
  RunOptions options;
  options.length = u.length;
  options.start = u.start;
  std::vector<Bytes> results = runGroup(group.fusion(), arguments, options);
  for (int64_t i = 0; i < u.length; ++i) {
    NarrowUpdate::Result expected = u.update(i, fromBf16(gradients[i]), u.m[i], u.v[i]);
    SplitMaster split = splitMaster(expected.master);
    ASSERT_EQ(data<uint16_t>(results[0])[i], split.parameter) << i;
    ASSERT_EQ(data<float>(results[1])[i], expected.m) << i;
    ASSERT_EQ(data<float>(results[2])[i], expected.v) << i;
    ASSERT_EQ(data<int16_t>(results[3])[i], split.remainder) << i;
  }
  arguments[6][0] = 0; // not to proceed changes nothing
  EXPECT_EQ(runGroup(group.fusion(), arguments, options),
            (std::vector<Bytes>{arguments[0], arguments[2], arguments[3], arguments[7]}));
}

TEST(CodegenNarrow, AdamwOfAnF16ParameterWithBf16Moments) {
  Group group(
      R"(func.func @adamw(%p: tensor<?xf16>, %g: tensor<?xf16>, %m: tensor<?xbf16>, %v: tensor<?xbf16>, %h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>, %r: tensor<?xf32>)
      -> (tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>) {
    %a, %b, %c, %d = graph.optimizer_step "adamw" %p, %g keeps(%m, %v, %r) by(%h, %s, %ok) decayed 7000
      : (tensor<?xf16>, tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>)
    return %a, %b, %c, %d : tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>
  })");
  NarrowUpdate u;
  std::vector<uint16_t> parameters, gradients, m, v;
  for (int64_t i = 0; i < u.length; ++i) {
    parameters.push_back(toF16(u.masters[i]));
    gradients.push_back(toF16(u.gradients[i]));
    m.push_back(toBf16(u.m[i]));
    v.push_back(toBf16(u.v[i]));
  }
  std::vector<Bytes> arguments{bytesOf(parameters), bytesOf(gradients), bytesOf(m),
                               bytesOf(v),          bytesOf(u.hyper),   bytesOf(std::vector<float>{0.5f}),
                               Bytes(1, 1),         bytesOf(u.masters)};
  RunOptions options;
  options.length = u.length;
  options.start = u.start;
  std::vector<Bytes> results = runGroup(group.fusion(), arguments, options);
  auto state = [&](float value, uint32_t stream, int64_t i) {
    uint32_t key = roundingKey(randomField(99), randomField(3), stream);
    return roundStochastically(value, roundingBits(key, static_cast<uint64_t>(u.start + i)));
  };
  for (int64_t i = 0; i < u.length; ++i) {
    NarrowUpdate::Result expected = u.update(i, fromF16(gradients[i]), fromBf16(m[i]), fromBf16(v[i]));
    ASSERT_EQ(data<uint16_t>(results[0])[i], toF16(expected.master)) << i;
    ASSERT_EQ(data<uint16_t>(results[1])[i], state(expected.m, 0, i)) << i;
    ASSERT_EQ(data<uint16_t>(results[2])[i], state(expected.v, 1, i)) << i;
    ASSERT_EQ(data<float>(results[3])[i], expected.master) << i;
  }
}

/// Rounding draws from the numbers of elements: those of two tensors, of which the second begins inside of the shard.
TEST(CodegenNarrow, AdamwOfABf16ParameterWithoutAMaster) {
  Group group(
      R"(func.func @adamw(%p: tensor<?xbf16>, %g: tensor<?xbf16>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<16xf32>, %s: tensor<f32>, %ok: tensor<i1>, %n: tensor<2xi64>)
      -> (tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>) {
    %a, %b, %c = graph.optimizer_step "adamw" %p, %g keeps(%m, %v) by(%h, %s, %ok) decayed 7000 numbered %n from [0, 6016]
      : (tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>, tensor<2xi64>) -> (tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>)
    return %a, %b, %c : tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>
  })");
  NarrowUpdate u;
  std::vector<uint16_t> parameters, gradients;
  for (int64_t i = 0; i < u.length; ++i) {
    parameters.push_back(toBf16(u.masters[i]));
    gradients.push_back(toBf16(u.gradients[i]));
    u.masters[i] = fromBf16(parameters.back());
  }
  const std::vector<uint64_t> numbers{firstElementNumber(0x123456789abcdef0),
                                      firstElementNumber(0xfedcba9876543210) - 6016};
  std::vector<Bytes> arguments{bytesOf(parameters), bytesOf(gradients), bytesOf(u.m),
                               bytesOf(u.v),        bytesOf(u.hyper),   bytesOf(std::vector<float>{0.5f}),
                               Bytes(1, 1),         bytesOf(numbers)};
  RunOptions options;
  options.length = u.length;
  options.start = u.start;
  ASSERT_LT(u.start, 6016);
  ASSERT_GT(u.start + u.length, 6016);
  std::vector<Bytes> results = runGroup(group.fusion(), arguments, options);
  const uint32_t key = roundingKey(randomField(99), randomField(3), kParameterStream);
  for (int64_t i = 0; i < u.length; ++i) {
    NarrowUpdate::Result expected = u.update(i, fromBf16(gradients[i]), u.m[i], u.v[i]);
    const auto place = static_cast<uint64_t>(u.start + i);
    const uint32_t bits = roundingBits(key, numbers[place < 6016 ? 0 : 1] + place);
    ASSERT_EQ(data<uint16_t>(results[0])[i], roundStochastically(expected.master, bits)) << i;
    ASSERT_EQ(data<float>(results[1])[i], expected.m) << i;
    ASSERT_EQ(data<float>(results[2])[i], expected.v) << i;
  }
  arguments[6][0] = 0; // not to proceed changes nothing
  EXPECT_EQ(runGroup(group.fusion(), arguments, options),
            (std::vector<Bytes>{arguments[0], arguments[2], arguments[3]}));
}
