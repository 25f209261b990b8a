// Kernels whose states are in blocks of 8-bit codes: against bitsandbytes on the same gradients, on processors and on
// the engine that runs kernels for GPUs, in shards of any length.
#include "KernelHarness.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/StepParameters.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

namespace {

template <typename T> Bytes bytesFrom(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

const SafetensorsFile &golden() {
  static const auto *file = new SafetensorsFile(std::move(*SafetensorsFile::open(
      (std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/block_states.safetensors")
          .string())));
  return *file;
}

template <typename T> std::vector<T> goldenValues(const std::string &name) {
  const SafetensorsTensor *tensor = golden().find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<T> values(tensor ? tensor->bytes / sizeof(T) : 0);
  if (tensor)
    std::memcpy(values.data(), golden().data(*tensor).data(), tensor->bytes);
  return values;
}

/// The records of a state of `elements` zeros, as a fresh arena holds them.
Bytes emptyState(int64_t elements) {
  return Bytes(size_t(elements + int64_t(kStateBlock) - 1) / kStateBlock * kStateBlockBytes, 0);
}

/// An optimizer's step over a shard of open length.
std::string stepText(const std::string &optimizer, const std::vector<bool> &signs, const std::string &element) {
  std::string arguments, values, types, names;
  for (size_t i = 0; i < signs.size(); ++i) {
    const std::string type = std::string("tensor<?x!graph.block8<") + (signs[i] ? "signed" : "unsigned") + ">>";
    const std::string name = "%s" + std::to_string(i);
    arguments += ", " + name + ": " + type;
    values += (i ? ", " : "") + name;
    types += ", " + type;
    names += ", %r" + std::to_string(i);
  }
  const std::string parameter = "tensor<?x" + element + ">";
  if (element == "bf16")
    arguments += ", %m: tensor<?xi16>", values += ", %m", types += ", tensor<?xi16>", names += ", %rm";
  const std::string all = parameter + types;
  return "func.func @step(%p: " + parameter + ", %g: " + parameter + arguments +
         ", %h: tensor<20xf32>, %c: tensor<f32>, %ok: tensor<i1>) -> (" + all + ") {\n" + "  %np" + names +
         (names.empty() ? "" : "") + " = graph.optimizer_step \"" + optimizer + "\" %p, %g keeps(" + values +
         ") by(%h, %c, %ok) decayed 0\n    : (" + parameter + ", " + parameter + types +
         ", tensor<20xf32>, tensor<f32>, tensor<i1>) -> (" + all + ")\n  return %np" + names + " : " + all + "\n}";
}

struct BlockCase {
  std::string optimizer;
  std::vector<std::string> states;
  std::vector<bool> signs;
};

Bytes stepParameters(int step) {
  constexpr double kRate = 1e-3, kBeta1 = 0.9;
  std::vector<float> h(kStepParameterCount);
  auto set = [&](StepParameter parameter, double value) { h[size_t(parameter)] = float(value); };
  const double beta2 = 0.95;
  set(StepParameter::LearningRate, kRate);
  set(StepParameter::DecayFactor, 1);
  set(StepParameter::StepSize, kRate / (1 - std::pow(kBeta1, step)));
  set(StepParameter::InverseSqrtCorrection2, 1 / std::sqrt(1 - std::pow(beta2, step)));
  set(StepParameter::Beta1, kBeta1);
  set(StepParameter::OneMinusBeta1, 1 - kBeta1);
  set(StepParameter::Beta2, beta2);
  set(StepParameter::OneMinusBeta2, 1 - beta2);
  set(StepParameter::Epsilon, 1e-8);
  set(StepParameter::Momentum, 0.9);
  return bytesFrom(h);
}

class CodegenBlocks : public testing::TestWithParam<BlockCase> {};

} // namespace

/// Sums in f32 are in another order here than there: a number on the edge between two codes may get the other one, and
/// a magnitude may be a unit in the last place off.
TEST_P(CodegenBlocks, CodesAreThoseOfBitsandbytesOnTheSameGradients) {
  const BlockCase &test = GetParam();
  Group group(stepText(test.optimizer, test.signs, "f32"));
  ASSERT_TRUE(group.fusion());
  const std::vector<float> gradients = goldenValues<float>("gradients");
  std::vector<float> parameter = goldenValues<float>("parameter");
  const auto elements = int64_t(parameter.size());
  const size_t states = test.states.size();
  std::vector<Bytes> kept(states, emptyState(elements));
  Bytes p = bytesFrom(parameter);
  RunOptions options;
  options.length = elements;
  options.parts = 1;
  for (int step = 1; size_t(step) * size_t(elements) <= gradients.size(); ++step) {
    const auto begin = gradients.begin() + (step - 1) * elements;
    std::vector<Bytes> arguments{p, bytesFrom(std::vector<float>(begin, begin + elements))};
    arguments.insert(arguments.end(), kept.begin(), kept.end());
    arguments.insert(arguments.end(), {stepParameters(step), bytesFrom(std::vector<float>{1.0f}), Bytes(1, 1)});
    const std::vector<Bytes> results = runGroup(group.fusion(), arguments, options);
    ASSERT_EQ(results.size(), 1 + states);
    p = results[0];
    for (size_t i = 0; i < states; ++i)
      kept[i] = results[1 + i];
  }
  const std::vector<float> want = goldenValues<float>(test.optimizer + ".parameter");
  for (int64_t i = 0; i < elements; ++i)
    ASSERT_NEAR(reinterpret_cast<const float *>(p.data())[i], want[size_t(i)], 2e-5) << i;
  for (size_t s = 0; s < states; ++s) {
    const std::string name = test.optimizer + "." + test.states[s];
    const std::vector<uint8_t> codes = goldenValues<uint8_t>(name + ".codes");
    const std::vector<float> magnitudes = goldenValues<float>(name + ".absmax");
    int others = 0;
    for (int64_t i = 0; i < elements; ++i) {
      const size_t record = size_t(i) / kStateBlock * kStateBlockBytes;
      const auto code = static_cast<uint8_t>(kept[s][record + size_t(i) % kStateBlock]);
      others += code != codes[size_t(i)];
      ASSERT_LE(std::abs(int(code) - int(codes[size_t(i)])), 1) << name << " " << i;
      float magnitude = 0;
      std::memcpy(&magnitude, kept[s].data() + record + kStateBlock, sizeof magnitude);
      ASSERT_NEAR(magnitude, magnitudes[size_t(i) / kStateBlock], 1e-6 * magnitude) << name << " " << i;
    }
    EXPECT_LE(others, elements / 500) << name;
    RecordProperty("other_codes_" + test.states[s], others);
  }
}

/// The same bits however the range is cut, on the engine too; an update that does not proceed changes nothing.
TEST_P(CodegenBlocks, AnyCutOfAShardGivesTheSameBits) {
  const BlockCase &test = GetParam();
  for (const std::string element : {"f32", "bf16"}) {
    Group group(stepText(test.optimizer, test.signs, element));
    ASSERT_TRUE(group.fusion());
    for (const int64_t length : {256, 300, 4096, 9001}) {
      std::vector<Bytes> arguments;
      std::vector<mlir::Type> types(group.original().getArgumentTypes().begin(),
                                    group.original().getArgumentTypes().end());
      for (auto [number, type] : llvm::enumerate(types)) {
        auto tensor = mlir::cast<mlir::RankedTensorType>(type);
        if (!tensor.hasStaticShape())
          tensor = mlir::RankedTensorType::get({length}, tensor.getElementType());
        arguments.push_back(toBytes(randomOperand(tensor, unsigned(number) + 1)));
      }
      const size_t hyper = arguments.size() - 3;
      arguments[hyper] = stepParameters(2);
      arguments.back() = Bytes(1, 1);
      RunOptions options;
      options.length = length;
      const std::vector<Bytes> whole = runGroup(group.fusion(), arguments, options);
      ASSERT_EQ(whole.size(), types.size() - 4);
      options.parts = 3;
      EXPECT_EQ(runGroup(group.fusion(), arguments, options), whole) << element << " " << length;
      // Past the end of the last block the engine's threads store nothing.
      const std::vector<Bytes> onGpu = runGroupOnGpu(group.fusion(), arguments, options);
      ASSERT_EQ(onGpu.size(), whole.size());
      for (size_t result = 0; result < whole.size(); ++result) {
        const size_t argument = result ? result + 1 : 0;
        const auto tensor = mlir::cast<mlir::RankedTensorType>(types[argument]);
        const auto type = mlir::RankedTensorType::get({length}, tensor.getElementType());
        const Tensor host = fromBytes(whole[result], type), gpu = fromBytes(onGpu[result], type);
        EXPECT_EQ(host.reals, gpu.reals) << element << " " << length << " result " << result;
        EXPECT_EQ(host.integers, gpu.integers) << element << " " << length << " result " << result;
      }
      arguments.back() = Bytes(1, 0);
      const std::vector<Bytes> unchanged = runGroup(group.fusion(), arguments, options);
      for (size_t result = 0; result < unchanged.size(); ++result)
        EXPECT_EQ(unchanged[result].size(), arguments[result ? result + 1 : 0].size());
      EXPECT_EQ(unchanged[0], arguments[0]);
      for (size_t state = 0; state < test.states.size(); ++state) {
        const auto type = mlir::RankedTensorType::get(
            {length}, mlir::cast<mlir::RankedTensorType>(types[2 + state]).getElementType());
        EXPECT_EQ(fromBytes(unchanged[1 + state], type).reals, fromBytes(arguments[2 + state], type).reals);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodegenBlocks,
                         testing::Values(BlockCase{"adamw", {"exp_avg", "exp_avg_sq"}, {true, false}},
                                         BlockCase{"lion", {"exp_avg"}, {true}},
                                         BlockCase{"sgd", {"momentum_buffer"}, {true}}),
                         [](const auto &info) { return info.param.optimizer; });

/// In whole blocks: what lies past the last element of one is nobody's, and is not stored alike.
TEST(CodegenBlockOps, LikeTheInterpreter) {
  expectLikeReference(
      R"(func.func @round(%x: tensor<5120xf32>, %old: tensor<5120x!graph.block8<signed>>, %ok: tensor<i1>)
      -> (tensor<5120x!graph.block8<signed>>, tensor<5120xf32>) {
    %go = graph.broadcast %ok : tensor<i1> -> tensor<5120xi1>
    %d = graph.decode_blocks %old : tensor<5120x!graph.block8<signed>> -> tensor<5120xf32>
    %s = graph.add %x, %d : tensor<5120xf32>
    %y = graph.encode_blocks %s over %old if %go : tensor<5120xf32>, tensor<5120xi1> -> tensor<5120x!graph.block8<signed>>
    return %y, %s : tensor<5120x!graph.block8<signed>>, tensor<5120xf32>
  })");
}
