// Mixed precision in the reference interpreter: macro ops against their decompositions, a step against the f64 one.
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include "tests/unit/compiler/LlamaText.h"
#include "tests/unit/compiler/Text.h"
#include "tests/unit/compiler/ValueKeys.h"
#include <map>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

struct NarrowType {
  const char *name;
  double unit; ///< spacing of its numbers in [1, 2)
};
const NarrowType kNarrowTypes[] = {{"bf16", 1.0 / 128}, {"f16", 1.0 / 1024}};

Tensors randomArguments(func::FuncOp function, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Tensors arguments;
  for (Type type : function.getArgumentTypes()) {
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator, 5));
    for (double &value : arguments.back().reals)
      value = roundTo(value, arguments.back().elementType);
  }
  return arguments;
}

struct MacroCase {
  const char *name, *function;
};

const MacroCase kMacros[] = {
    {"rms_norm", R"(func.func @f(%x: tensor<9x40xNARROW>, %w: tensor<40xNARROW>) -> tensor<9x40xNARROW> {
       %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<9x40xNARROW>, tensor<40xNARROW> return %y : tensor<9x40xNARROW> })"},
    {"rms_norm_grad",
     R"(func.func @f(%x: tensor<9x40xNARROW>, %w: tensor<40xNARROW>, %g: tensor<9x40xNARROW>) -> (tensor<9x40xNARROW>, tensor<40xf32>) {
       %dx, %dw = graph.rms_norm_grad %x, %w, %g, 1.0e-5 : tensor<9x40xNARROW>, tensor<40xNARROW> -> tensor<40xf32>
       return %dx, %dw : tensor<9x40xNARROW>, tensor<40xf32> })"},
    {"softmax", R"(func.func @f(%x: tensor<4x3x25xNARROW>) -> tensor<4x3x25xNARROW> {
       %y = graph.softmax %x : tensor<4x3x25xNARROW> return %y : tensor<4x3x25xNARROW> })"},
    {"swiglu", R"(func.func @f(%g: tensor<13x24xNARROW>, %u: tensor<13x24xNARROW>) -> tensor<13x24xNARROW> {
       %y = graph.swiglu %g, %u : tensor<13x24xNARROW> return %y : tensor<13x24xNARROW> })"},
    {"swiglu_grad",
     R"(func.func @f(%g: tensor<13x24xNARROW>, %u: tensor<13x24xNARROW>, %d: tensor<13x24xNARROW>) -> (tensor<13x24xNARROW>, tensor<13x24xNARROW>) {
       %a, %b = graph.swiglu_grad %g, %u, %d : tensor<13x24xNARROW> return %a, %b : tensor<13x24xNARROW>, tensor<13x24xNARROW> })"},
    {"rope",
     R"(func.func @f(%x: tensor<2x9x2x8xNARROW>, %c: tensor<9x4xf32>, %s: tensor<9x4xf32>) -> tensor<2x9x2x8xNARROW> {
       %y = graph.rope %x, %c, %s : tensor<2x9x2x8xNARROW>, tensor<9x4xf32> return %y : tensor<2x9x2x8xNARROW> })"},
    {"attention",
     R"(func.func @f(%q: tensor<2x9x4x8xNARROW>, %k: tensor<2x9x2x8xNARROW>, %v: tensor<2x9x2x8xNARROW>) -> (tensor<2x9x4x8xNARROW>, tensor<2x4x9xf32>) {
       %y, %l = graph.attention %q, %k, %v, 3.0e-1 {causal} : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW> -> tensor<2x4x9xf32>
       return %y, %l : tensor<2x9x4x8xNARROW>, tensor<2x4x9xf32> })"},
    {"attention_softcap",
     R"(func.func @f(%q: tensor<2x9x4x8xNARROW>, %k: tensor<2x9x2x8xNARROW>, %v: tensor<2x9x2x8xNARROW>) -> (tensor<2x9x4x8xNARROW>, tensor<2x4x9xf32>) {
       %y, %l = graph.attention %q, %k, %v, 3.0e-1 {causal, softcap = 7.5e-1} : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW> -> tensor<2x4x9xf32>
       return %y, %l : tensor<2x9x4x8xNARROW>, tensor<2x4x9xf32> })"},
    {"attention_grad_softcap",
     R"(func.func @f(%q: tensor<2x9x4x8xNARROW>, %k: tensor<2x9x2x8xNARROW>, %v: tensor<2x9x2x8xNARROW>, %o: tensor<2x9x4x8xNARROW>,
         %l: tensor<2x4x9xf32>, %d: tensor<2x9x4x8xNARROW>) -> (tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x9x2x8xNARROW>) {
       %a, %b, %c = graph.attention_grad %q, %k, %v, %o, %l, %d, 3.0e-1 {causal, softcap = 7.5e-1} : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x4x9xf32>
       return %a, %b, %c : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x9x2x8xNARROW> })"},
    {"attention_grad",
     R"(func.func @f(%q: tensor<2x9x4x8xNARROW>, %k: tensor<2x9x2x8xNARROW>, %v: tensor<2x9x2x8xNARROW>, %o: tensor<2x9x4x8xNARROW>,
         %l: tensor<2x4x9xf32>, %d: tensor<2x9x4x8xNARROW>) -> (tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x9x2x8xNARROW>) {
       %a, %b, %c = graph.attention_grad %q, %k, %v, %o, %l, %d, 3.0e-1 {causal} : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x4x9xf32>
       return %a, %b, %c : tensor<2x9x4x8xNARROW>, tensor<2x9x2x8xNARROW>, tensor<2x9x2x8xNARROW> })"},
    {"linear_cross_entropy",
     R"(func.func @f(%h: tensor<17x8xNARROW>, %w: tensor<5x8xNARROW>, %t: tensor<17xi32>, %s: tensor<f32>)
         -> (tensor<f32>, tensor<17x8xNARROW>, tensor<5x8xf32>) {
       %y, %dh, %dw = graph.linear_cross_entropy %h, %w, %t scale %s : tensor<f32> : tensor<17x8xNARROW>, tensor<5x8xNARROW>, tensor<17xi32>
         -> tensor<f32>, tensor<17x8xNARROW> and tensor<5x8xf32>
       return %y, %dh, %dw : tensor<f32>, tensor<17x8xNARROW>, tensor<5x8xf32> })"},
};

class NarrowDecomposition : public testing::TestWithParam<MacroCase> {};

/// Op and decomposition round at the same points. The op's inner numbers are f64, the decomposition's f32: now and then
/// a number lies so close to the middle between two narrow ones that they part there, and one unit is all it changes.
TEST_P(NarrowDecomposition, RoundsWhereTheOpDoes) {
  for (const NarrowType &type : kNarrowTypes) {
    GraphContext context;
    std::string text = replaced(GetParam().function, "NARROW", type.name);
    auto module = context.parse(text), decomposed = context.parse(text);
    ASSERT_TRUE(module && decomposed);
    auto f = module->lookupSymbol<func::FuncOp>("f"), g = decomposed->lookupSymbol<func::FuncOp>("f");
    ASSERT_TRUE(succeeded(decomposeInPlace(g)));
    InterpreterOptions rounded;
    rounded.precision = Precision::F32;
    int64_t count = 0, apart = 0;
    for (uint64_t seed : {1, 2, 3}) {
      Tensors arguments = randomArguments(f, seed);
      auto first = interpret(f, arguments, rounded), second = interpret(g, arguments, rounded);
      auto exact = interpret(f, arguments);
      ASSERT_TRUE(succeeded(first) && succeeded(second) && succeeded(exact));
      for (auto [index, x, y, real] : llvm::enumerate(*first, *second, *exact)) {
        EXPECT_EQ(x.elementType, y.elementType);
        double largest = maxAbs(x);
        EXPECT_LT(relativeError(x, real), 2 * type.unit) << type.name << " result " << index;
        for (int64_t i = 0; i < x.count(); ++i) {
          ++count;
          apart += x.elementType.isF32() ? 0 : x.reals[i] != y.reals[i];
          ASSERT_NEAR(x.reals[i], y.reals[i], type.unit * (std::abs(x.reals[i]) + 0.02 * largest))
              << type.name << " result " << index << " element " << i;
        }
      }
    }
    EXPECT_LT(apart, count / 50) << type.name;
  }
}

INSTANTIATE_TEST_SUITE_P(AllMacroOps, NarrowDecomposition, testing::ValuesIn(kMacros),
                         [](const auto &info) { return std::string(info.param.name); });

/// Values by role or result kind (of a state its name), and name.
using Named = std::map<std::string, Tensor>;

/// A model after phase `precision`.
struct Model {
  GraphContext context;
  OwningOpRef<ModuleOp> module;
  bool complete = false;

  explicit Model(const PrecisionOptions &options, bool tied = false, bool bias = false) {
    module = context.parse(llamaText(tied, bias));
    PassManager pm(&context.context);
    populateAutodiffPipeline(pm);
    populatePrecisionPipeline(pm, options);
    pm.addPass(createVerifyPrecision());
    complete = succeeded(pm.run(*module));
  }

  Named run(StringRef name, const Named &inputs, Precision precision) {
    auto function = module->lookupSymbol<func::FuncOp>(name);
    Tensors arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
      Tensor value = inputs.at(argumentKey(function, i));
      value.elementType = type.getElementType();
      if (precision != Precision::F64)
        for (double &real : value.reals)
          real = roundTo(real, value.elementType);
      arguments.push_back(value);
    }
    InterpreterOptions options;
    options.precision = precision;
    auto results = interpret(function, arguments, options);
    EXPECT_TRUE(succeeded(results));
    Named named;
    for (unsigned i = 0; succeeded(results) && i < function.getNumResults(); ++i)
      named[resultKey(function, i)] = (*results)[i];
    return named;
  }

  Named randomInputs(StringRef name) {
    auto function = module->lookupSymbol<func::FuncOp>(name);
    std::mt19937_64 generator(17);
    Named inputs;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      Tensor value = randomTensor(cast<RankedTensorType>(function.getArgumentTypes()[i]), generator, 4);
      StringRef role = graph::argumentKind(function, i);
      for (double &real : value.reals)
        real = role == "step" ? 0.01 : role == "exp_avg_sq" ? real * real : 0.3 * real;
      inputs[argumentKey(function, i)] = value;
    }
    return inputs;
  }
};

/// The whole micro-step in a narrow type is near the mathematics of the graph: no gradient lost its way.
TEST(NarrowStep, IsNearTheExactOne) {
  for (auto [tied, bias] : {std::pair(false, false), {true, false}, {false, true}})
    for (auto [precision, bound] : {std::pair(StoragePrecision::Bf16, 0.06), std::pair(StoragePrecision::Fp16, 0.01)}) {
      Model exact({}, tied, bias), narrow({precision}, tied, bias);
      ASSERT_TRUE(exact.complete && narrow.complete);
      Named inputs = exact.randomInputs("microstep");
      Named expected = exact.run("microstep", inputs, Precision::F64);
      Named actual = narrow.run("microstep", inputs, Precision::F32);
      ASSERT_EQ(expected.size(), actual.size());
      for (const auto &[key, value] : expected) {
        EXPECT_TRUE(actual.at(key).elementType.isF32()) << key;
        EXPECT_LT(relativeError(actual.at(key), value), bound) << wordOf(precision) << " " << key;
      }
    }
}

/// An update of narrow parameters through their masters is that of f32 parameters whose gradients are rounded.
TEST(NarrowStep, UpdateKeepsTheMastersBits) {
  Model wide({}), narrow({StoragePrecision::Bf16});
  ASSERT_TRUE(wide.complete && narrow.complete);
  Named inputs = wide.randomInputs("update"), stored = inputs;
  Type bf16 = BFloat16Type::get(&narrow.context.context), i16 = IntegerType::get(&narrow.context.context, 16);
  for (auto &[key, value] : inputs) {
    for (double &real : value.reals)
      real = static_cast<float>(real);
    if (key.starts_with("gradient "))
      for (double &real : value.reals)
        real = roundTo(real, bf16);
    stored[key] = value;
    if (!key.starts_with("parameter "))
      continue;
    Tensor master(value.shape, i16);
    for (int64_t i = 0; i < value.count(); ++i) {
      SplitMaster split = splitMaster(static_cast<float>(value.reals[i]));
      stored[key].reals[i] = fromBf16(split.parameter);
      master.integers[i] = split.remainder;
    }
    stored["master " + key.substr(10)] = master;
  }
  Named expected = wide.run("update", inputs, Precision::F32), actual = narrow.run("update", stored, Precision::F32);
  for (const auto &[key, value] : expected) {
    if (!key.starts_with("parameter ")) {
      EXPECT_EQ(actual.at(key).reals, value.reals) << key;
      continue;
    }
    const Tensor &parameter = actual.at(key), &master = actual.at("master " + key.substr(10));
    for (int64_t i = 0; i < value.count(); ++i)
      ASSERT_EQ(joinMaster(toBf16(static_cast<float>(parameter.reals[i])), static_cast<int16_t>(master.integers[i])),
                static_cast<float>(value.reals[i]))
          << key << " " << i;
  }
}

/// Scaled gradients give the same update: the scale is a power of two.
TEST(NarrowStep, UpdateDividesByTheLossScale) {
  Model model({StoragePrecision::Fp16});
  ASSERT_TRUE(model.complete);
  Named inputs = model.randomInputs("update");
  for (auto &[key, value] : inputs)
    for (double &real : value.reals)
      real = roundTo(real, value.elementType);
  Named scaled = inputs;
  Tensor &step = inputs.at("step"), &scaledStep = scaled.at("step");
  step.reals[static_cast<size_t>(StepParameter::InverseLossScale)] = 1;
  scaledStep.reals[static_cast<size_t>(StepParameter::InverseLossScale)] = 1.0 / 64;
  for (auto &[key, value] : scaled)
    if (key.starts_with("gradient "))
      for (double &real : value.reals)
        real *= 64;
  Named expected = model.run("update", inputs, Precision::F32), actual = model.run("update", scaled, Precision::F32);
  for (const auto &[key, value] : expected)
    EXPECT_EQ(actual.at(key).reals, value.reals) << key;
}

/// A layer that the policy keeps is f32 throughout; the others are not.
TEST(NarrowStep, KeptLayersAreF32) {
  PrecisionOptions options{StoragePrecision::Bf16};
  options.keep = {"^w[gud]0$", "norm"};
  Model model(options);
  ASSERT_TRUE(model.complete);
  auto function = model.module->lookupSymbol<func::FuncOp>("microstep");
  unsigned wide = 0, narrow = 0;
  for (unsigned i : graph::argumentsWithRole(function, graph::Role::Parameter)) {
    bool kept = llvm::is_contained({"wg0", "wu0", "wd0", "norm"}, graph::argString(function, i, graph::kName));
    EXPECT_EQ(getElementTypeOrSelf(function.getArgumentTypes()[i]).isF32(), kept);
    ++(kept ? wide : narrow);
  }
  EXPECT_EQ(wide, 4u);
  EXPECT_EQ(narrow, 17u);
}

TEST(NarrowStep, APatternWithoutMatchIsAnError) {
  PrecisionOptions options{StoragePrecision::Bf16};
  options.keep = {"wg0", "wg7"};
  EXPECT_FALSE(Model(options).complete);
}

} // namespace
