// Macro ops against their decomposition: the op itself, and its own gradient against that of the decomposition.
#include "compiler/Dialect/Graph/Optimizers.h"
#include "runtime/Format/StepParameters.h"
#include "tests/unit/compiler/GradientCheck.h"
#include <gmock/gmock.h>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

struct MacroCase {
  const char *name;
  const char *function;
  bool differentiable = true; ///< has a gradient rule of its own
};

const MacroCase kMacros[] = {
    {"rms_norm", R"(func.func @f(%x: tensor<3x8xf64>, %w: tensor<8xf64>) -> tensor<3x8xf64> {
       %y = graph.rms_norm %x, %w, 1.0e-5 : tensor<3x8xf64>, tensor<8xf64> return %y : tensor<3x8xf64> })"},
    {"rms_norm_4d", R"(func.func @f(%x: tensor<2x3x2x4xf64>, %w: tensor<4xf64>) -> tensor<2x3x2x4xf64> {
       %y = graph.rms_norm %x, %w, 1.0e-2 : tensor<2x3x2x4xf64>, tensor<4xf64> return %y : tensor<2x3x2x4xf64> })"},
    {"rms_norm_grad",
     R"(func.func @f(%x: tensor<3x8xf64>, %w: tensor<8xf64>, %g: tensor<3x8xf64>) -> (tensor<3x8xf64>, tensor<8xf64>) {
       %dx, %dw = graph.rms_norm_grad %x, %w, %g, 1.0e-5 : tensor<3x8xf64>, tensor<8xf64> return %dx, %dw : tensor<3x8xf64>, tensor<8xf64> })",
     false},
    {"rms_norm_grad_4d",
     R"(func.func @f(%x: tensor<2x3x2x4xf64>, %w: tensor<4xf64>, %g: tensor<2x3x2x4xf64>) -> (tensor<2x3x2x4xf64>, tensor<4xf64>) {
       %dx, %dw = graph.rms_norm_grad %x, %w, %g, 1.0e-5 : tensor<2x3x2x4xf64>, tensor<4xf64> return %dx, %dw : tensor<2x3x2x4xf64>, tensor<4xf64> })",
     false},
    {"fp8_scales",
     R"(func.func @f(%m: tensor<12xf32>, %l: tensor<3xf32>) -> tensor<12xf32> {
       %s = graph.fp8_scales %m largest %l : tensor<12xf32>, tensor<3xf32> return %s : tensor<12xf32> })",
     false},
    {"softmax", R"(func.func @f(%x: tensor<2x3x5xf64>) -> tensor<2x3x5xf64> {
       %y = graph.softmax %x : tensor<2x3x5xf64> return %y : tensor<2x3x5xf64> })"},
    {"swiglu", R"(func.func @f(%g: tensor<3x4xf64>, %u: tensor<3x4xf64>) -> tensor<3x4xf64> {
       %y = graph.swiglu %g, %u : tensor<3x4xf64> return %y : tensor<3x4xf64> })"},
    {"swiglu_grad",
     R"(func.func @f(%g: tensor<3x4xf64>, %u: tensor<3x4xf64>, %d: tensor<3x4xf64>) -> (tensor<3x4xf64>, tensor<3x4xf64>) {
       %a, %b = graph.swiglu_grad %g, %u, %d : tensor<3x4xf64> return %a, %b : tensor<3x4xf64>, tensor<3x4xf64> })",
     false},
    {"row_amax", R"(func.func @f(%x: tensor<3x8xf64>) -> tensor<3x1xf64> {
       %y = graph.row_amax %x : tensor<3x8xf64> -> tensor<3x1xf64> return %y : tensor<3x1xf64> })",
     false},
    {"rope", R"(func.func @f(%x: tensor<2x3x2x4xf64>) -> tensor<2x3x2x4xf64> {
       %c = graph.constant dense<[[0.9, 0.5], [0.1, -0.3], [0.7, 0.2]]> : tensor<3x2xf64>
       %s = graph.constant dense<[[0.2, 0.6], [0.8, 0.4], [-0.5, 0.3]]> : tensor<3x2xf64>
       %y = graph.rope %x, %c, %s : tensor<2x3x2x4xf64>, tensor<3x2xf64> return %y : tensor<2x3x2x4xf64> })"},
    {"rope_inverse", R"(func.func @f(%x: tensor<2x3x2x4xf64>) -> tensor<2x3x2x4xf64> {
       %c = graph.constant dense<[[0.9, 0.5], [0.1, -0.3], [0.7, 0.2]]> : tensor<3x2xf64>
       %s = graph.constant dense<[[0.2, 0.6], [0.8, 0.4], [-0.5, 0.3]]> : tensor<3x2xf64>
       %y = graph.rope %x, %c, %s {inverse} : tensor<2x3x2x4xf64>, tensor<3x2xf64> return %y : tensor<2x3x2x4xf64> })"},
    {"attention",
     R"(func.func @f(%q: tensor<2x5x2x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>) -> tensor<2x5x2x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 : tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64> return %y : tensor<2x5x2x4xf64> })"},
    {"attention_causal_grouped",
     R"(func.func @f(%q: tensor<2x5x4x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>) -> tensor<2x5x4x4xf64> {
       %y = graph.attention %q, %k, %v, 3.0e-1 {causal} : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64> return %y : tensor<2x5x4x4xf64> })"},
    {"attention_window",
     R"(func.func @f(%q: tensor<1x6x3x4xf64>, %k: tensor<1x6x1x4xf64>, %v: tensor<1x6x1x4xf64>) -> tensor<1x6x3x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 {causal, window = 3 : i64} : tensor<1x6x3x4xf64>, tensor<1x6x1x4xf64> return %y : tensor<1x6x3x4xf64> })"},
    {"attention_softcap",
     R"(func.func @f(%q: tensor<1x6x4x4xf64>, %k: tensor<1x6x2x4xf64>, %v: tensor<1x6x2x4xf64>) -> tensor<1x6x4x4xf64> {
       %y = graph.attention %q, %k, %v, 5.0e-1 {causal, window = 3 : i64, softcap = 7.5e-1} : tensor<1x6x4x4xf64>, tensor<1x6x2x4xf64> return %y : tensor<1x6x4x4xf64> })"},
    {"attention_grad_softcap",
     R"(func.func @f(%q: tensor<2x5x4x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>, %o: tensor<2x5x4x4xf64>,
         %l: tensor<2x4x5xf32>, %d: tensor<2x5x4x4xf64>) -> (tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64>) {
       %a, %b, %c = graph.attention_grad %q, %k, %v, %o, %l, %d, 3.0e-1 {causal, softcap = 7.5e-1} : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x4x5xf32>
       return %a, %b, %c : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64> })",
     false},
    {"attention_with_statistics",
     R"(func.func @f(%q: tensor<2x5x4x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>)
         -> (tensor<2x5x4x4xf64>, tensor<2x4x5xf32>) {
       %y, %l = graph.attention %q, %k, %v, 3.0e-1 {causal} : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64> -> tensor<2x4x5xf32>
       return %y, %l : tensor<2x5x4x4xf64>, tensor<2x4x5xf32> })",
     false},
    {"attention_grad",
     R"(func.func @f(%q: tensor<2x5x4x4xf64>, %k: tensor<2x5x2x4xf64>, %v: tensor<2x5x2x4xf64>, %o: tensor<2x5x4x4xf64>,
         %l: tensor<2x4x5xf32>, %d: tensor<2x5x4x4xf64>) -> (tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64>) {
       %a, %b, %c = graph.attention_grad %q, %k, %v, %o, %l, %d, 3.0e-1 {causal} : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x4x5xf32>
       return %a, %b, %c : tensor<2x5x4x4xf64>, tensor<2x5x2x4xf64>, tensor<2x5x2x4xf64> })",
     false},
    {"linear_attention",
     R"(func.func @f(%q: tensor<2x7x4x3xf64>, %k: tensor<2x7x2x3xf64>, %v: tensor<2x7x2x5xf64>) -> (tensor<2x7x4x5xf64>, tensor<2x2x3x5xf64>) {
       %y, %s = graph.linear_attention %q, %k, %v, 3.0e-1 {chunk = 4 : i64} : tensor<2x7x4x3xf64>, tensor<2x7x2x3xf64>, tensor<2x7x2x5xf64>
         -> tensor<2x7x4x5xf64>, tensor<2x2x3x5xf64>
       return %y, %s : tensor<2x7x4x5xf64>, tensor<2x2x3x5xf64> })",
     false},
    {"causal_filter",
     R"(func.func @f(%x: tensor<2x7x3xf64>, %w: tensor<4x3xf64>, %b: tensor<3xf64>, %s: tensor<2x7xi32>) -> tensor<2x7x3xf64> {
       %y = graph.causal_filter %x by %w : tensor<4x3xf64> bias %b : tensor<3xf64> within %s : tensor<2x7xi32> : tensor<2x7x3xf64> return %y : tensor<2x7x3xf64> })"},
    {"causal_filter_grad",
     R"(func.func @f(%x: tensor<2x7x3xf64>, %w: tensor<2x3xf64>, %g: tensor<2x7x3xf64>) -> (tensor<2x7x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
       %dx, %s:3 = graph.causal_filter_grad %x by %w : tensor<2x3xf64> cotangent %g {bias} : tensor<2x7x3xf64> -> tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
       return %dx, %s#0, %s#1, %s#2 : tensor<2x7x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64> })",
     false},
    {"causal_convolution",
     R"(func.func @f(%x: tensor<2x7x3xf64>, %w: tensor<3x4xf64>, %b: tensor<3xf64>) -> tensor<2x7x3xf64> {
       %y = graph.causal_convolution %x, %w bias %b : tensor<3xf64> : tensor<2x7x3xf64>, tensor<3x4xf64> return %y : tensor<2x7x3xf64> })",
     false},
    {"cross_entropy",
     R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>) -> tensor<f64> {
       %y = graph.cross_entropy %l, %t : tensor<7x5xf64>, tensor<7xi32> -> tensor<f64> return %y : tensor<f64> })",
     true},
    {"cross_entropy_groups",
     R"(func.func @f(%l: tensor<6x5xf64>, %t: tensor<6xi32>) -> tensor<3xf64> {
       %y = graph.cross_entropy %l, %t : tensor<6x5xf64>, tensor<6xi32> -> tensor<3xf64> return %y : tensor<3xf64> })",
     false},
    {"linear_cross_entropy_groups",
     R"(func.func @f(%h: tensor<6x3xf64>, %w: tensor<5x3xf64>, %t: tensor<6xi32>) -> tensor<2xf64> {
       %y = graph.linear_cross_entropy %h, %w, %t : tensor<6x3xf64>, tensor<5x3xf64>, tensor<6xi32> -> tensor<2xf64> return %y : tensor<2xf64> })",
     false},
    {"cross_entropy_grad",
     R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>, %s: tensor<f64>) -> tensor<7x5xf64> {
       %y = graph.cross_entropy_grad %l, %t, %s : tensor<7x5xf64>, tensor<7xi32>, tensor<f64> return %y : tensor<7x5xf64> })",
     false},
    {"linear_cross_entropy_bent",
     R"(func.func @f(%h: tensor<7x3xf64>, %w: tensor<5x3xf64>, %t: tensor<7xi32>, %s: tensor<f64>)
         -> (tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64>) {
       %y, %dh, %dw = graph.linear_cross_entropy %h, %w, %t scale %s : tensor<f64> {logit_scale = 0.75, softcap = 1.5}
         : tensor<7x3xf64>, tensor<5x3xf64>, tensor<7xi32> -> tensor<f64>, tensor<7x3xf64> and tensor<5x3xf64>
       return %y, %dh, %dw : tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64> })",
     false},
    {"linear_cross_entropy",
     R"(func.func @f(%h: tensor<7x3xf64>, %w: tensor<5x3xf64>, %t: tensor<7xi32>) -> tensor<f64> {
       %y = graph.linear_cross_entropy %h, %w, %t : tensor<7x3xf64>, tensor<5x3xf64>, tensor<7xi32> -> tensor<f64> return %y : tensor<f64> })",
     false},
    {"linear_cross_entropy_training",
     R"(func.func @f(%h: tensor<7x3xf64>, %w: tensor<5x3xf64>, %t: tensor<7xi32>, %s: tensor<f64>)
         -> (tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64>) {
       %y, %dh, %dw = graph.linear_cross_entropy %h, %w, %t scale %s : tensor<f64> : tensor<7x3xf64>, tensor<5x3xf64>, tensor<7xi32>
         -> tensor<f64>, tensor<7x3xf64> and tensor<5x3xf64>
       return %y, %dh, %dw : tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64> })",
     false},
    {"adamw",
     R"(func.func @f(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %v: tensor<7xf32>, %h: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>)
         -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>) {
       %a, %b, %c = graph.optimizer_step "adamw" %p, %g keeps(%m, %v) by(%h, %s, %go) decayed 4
      : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>)
       return %a, %b, %c : tensor<7xf32>, tensor<7xf32>, tensor<7xf32> })",
     false},
    {"cross_entropy_weighted",
     R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>, %c: tensor<7xf64>) -> tensor<f64> {
       %y = graph.cross_entropy %l, %t weights %c : tensor<7xf64> : tensor<7x5xf64>, tensor<7xi32> -> tensor<f64> return %y : tensor<f64> })",
     true},
    {"cross_entropy_grad_weighted",
     R"(func.func @f(%l: tensor<7x5xf64>, %t: tensor<7xi32>, %s: tensor<f64>, %c: tensor<7xf64>) -> tensor<7x5xf64> {
       %y = graph.cross_entropy_grad %l, %t, %s weights %c : tensor<7xf64> : tensor<7x5xf64>, tensor<7xi32>, tensor<f64> return %y : tensor<7x5xf64> })",
     false},
    {"linear_cross_entropy_weighted",
     R"(func.func @f(%h: tensor<6x3xf64>, %w: tensor<5x3xf64>, %t: tensor<6xi32>, %c: tensor<6xf64>) -> tensor<2xf64> {
       %y = graph.linear_cross_entropy %h, %w, %t weights %c : tensor<6xf64> : tensor<6x3xf64>, tensor<5x3xf64>, tensor<6xi32> -> tensor<2xf64>
       return %y : tensor<2xf64> })",
     false},
    {"linear_cross_entropy_bent_weighted",
     R"(func.func @f(%h: tensor<7x3xf64>, %w: tensor<5x3xf64>, %t: tensor<7xi32>, %s: tensor<f64>, %c: tensor<7xf64>)
         -> (tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64>) {
       %y, %dh, %dw = graph.linear_cross_entropy %h, %w, %t scale %s : tensor<f64> weights %c : tensor<7xf64> {logit_scale = 0.75, softcap = 1.5}
         : tensor<7x3xf64>, tensor<5x3xf64>, tensor<7xi32> -> tensor<f64>, tensor<7x3xf64> and tensor<5x3xf64>
       return %y, %dh, %dw : tensor<f64>, tensor<7x3xf64>, tensor<5x3xf64> })",
     false},
    {"lion",
     R"(func.func @f(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>)
         -> (tensor<7xf32>, tensor<7xf32>) {
       %a, %b = graph.optimizer_step "lion" %p, %g keeps(%m) by(%h, %s, %go) decayed 4
           : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>)
       return %a, %b : tensor<7xf32>, tensor<7xf32> })",
     false},
    {"sgd",
     R"(func.func @f(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>)
         -> (tensor<7xf32>, tensor<7xf32>) {
       %a, %b = graph.optimizer_step "sgd" %p, %g keeps(%m) by(%h, %s, %go) decayed 4
           : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>)
       return %a, %b : tensor<7xf32>, tensor<7xf32> })",
     false},
    {"momentum_direction",
     R"(func.func @f(%g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) -> (tensor<7xbf16>, tensor<7xf32>) {
       %a, %b = graph.momentum_direction %g keeps(%m) by(%h, %s, %go)
           : (tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xbf16>, tensor<7xf32>)
       return %a, %b : tensor<7xbf16>, tensor<7xf32> })",
     false},
};

Tensors randomArguments(func::FuncOp function, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Tensors arguments;
  for (Type type : function.getArgumentTypes())
    arguments.push_back(randomTensor(cast<RankedTensorType>(type), generator, 5));
  // The second moment of adamw (argument 3) and its parameters are not negative; a target of cross entropy is not
  // counted.
  if (function.getNumArguments() == 7)
    for (unsigned index : {3, 4})
      for (double &x : arguments[index].reals)
        x = std::abs(x);
  for (Tensor &argument : arguments)
    if (argument.rank() == 1 && argument.elementType.isInteger(32))
      argument.integers[2] = -100;
    else if (argument.elementType.isInteger(1))
      argument.integers[0] = seed % 2;
  return arguments;
}

void expectEqualResults(func::FuncOp a, func::FuncOp b, uint64_t seed) {
  Tensors arguments = randomArguments(a, seed);
  auto first = interpret(a, arguments), second = interpret(b, arguments);
  ASSERT_TRUE(succeeded(first) && succeeded(second));
  ASSERT_EQ(first->size(), second->size());
  for (auto [index, x, y] : llvm::enumerate(*first, *second)) {
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_LT(relativeError(x, y), 1e-12) << "result " << index;
    EXPECT_GT(maxAbs(x), 0) << "result " << index << " is all zero";
  }
}

class DecompositionTest : public testing::TestWithParam<MacroCase> {};
class DecompositionGradientTest : public testing::TestWithParam<MacroCase> {};

TEST_P(DecompositionTest, EqualsTheOp) {
  GraphContext context;
  auto module = context.parse(GetParam().function), decomposed = context.parse(GetParam().function);
  ASSERT_TRUE(module && decomposed);
  auto f = module->lookupSymbol<func::FuncOp>("f"), g = decomposed->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(decomposeInPlace(g)));
  for (uint64_t seed : {1, 2, 3})
    expectEqualResults(f, g, seed);
}

TEST_P(DecompositionGradientTest, IsThatOfTheDecomposition) {
  GraphContext context;
  auto module = context.parse(GetParam().function), decomposed = context.parse(GetParam().function);
  ASSERT_TRUE(module && decomposed);
  auto f = module->lookupSymbol<func::FuncOp>("f"), g = decomposed->lookupSymbol<func::FuncOp>("f");
  ASSERT_TRUE(succeeded(differentiateInPlace(f)));
  ASSERT_TRUE(succeeded(decomposeInPlace(g)));
  ASSERT_TRUE(succeeded(differentiateInPlace(g)));
  for (uint64_t seed : {1, 2, 3})
    expectEqualResults(f, g, seed);
}

std::string caseName(const testing::TestParamInfo<MacroCase> &info) {
  return info.param.name;
}

std::vector<MacroCase> differentiableMacros() {
  std::vector<MacroCase> cases;
  llvm::copy_if(kMacros, std::back_inserter(cases), [](const MacroCase &macro) { return macro.differentiable; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllMacroOps, DecompositionTest, testing::ValuesIn(kMacros), caseName);
INSTANTIATE_TEST_SUITE_P(AllMacroOps, DecompositionGradientTest, testing::ValuesIn(differentiableMacros()), caseName);

TEST(DecompositionTable, CoversEveryMacroOp) {
  GraphContext context;
  std::string text;
  for (const MacroCase &macro : kMacros)
    text += macro.function;
  for (RegisteredOperationName op : context.context.getRegisteredOperations())
    if (op.hasInterface<DecomposableOpInterface>())
      EXPECT_NE(text.find(op.getStringRef().str() + " "), std::string::npos) << op.getStringRef().str();
}

TEST(DecompositionTable, WritesMacroOpsInPrimitiveOnes) {
  for (const MacroCase &macro : kMacros) {
    GraphContext context;
    auto module = context.parse(macro.function);
    ASSERT_TRUE(module);
    auto f = module->lookupSymbol<func::FuncOp>("f");
    for (int round : {1, 2}) // linear_cross_entropy is a product and a cross_entropy, which is a macro op itself
      ASSERT_TRUE(succeeded(decomposeInPlace(f))) << "round " << round;
    f.walk([&](Operation *op) {
      EXPECT_FALSE(isa<DecomposableOpInterface>(op)) << macro.name << ": " << op->getName().getStringRef().str();
    });
  }
}

/// What a state is called is what its files in checkpoints are called.
TEST(Optimizers, NamesOfStatesAreThoseOfFiles) {
  auto refusal = [](std::string name, SmallVector<graph::OptimizerState> states) {
    testing::internal::CaptureStderr();
    auto keep = [](const graph::OptimizerTerms &terms) {
      return graph::OptimizerUpdate{terms.states, terms.parameter};
    };
    EXPECT_TRUE(failed(graph::registerOptimizer({std::move(name), std::move(states), 0, keep})));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(refusal("one", {"Momentum"}), testing::HasSubstr("a state has the name 'Momentum'; expected lower-case"));
  EXPECT_THAT(refusal("one", {""}), testing::HasSubstr("expected lower-case letters, digits and _"));
  EXPECT_THAT(refusal("one", {"master"}), testing::HasSubstr("'master', which another value of a parameter has"));
  EXPECT_THAT(refusal("one", {"sum", "sum"}), testing::HasSubstr("two states have the name 'sum'"));
  EXPECT_THAT(refusal("sgd", {"sum"}), testing::HasSubstr("there is one of that name"));
  EXPECT_EQ(graph::findOptimizer("one"), nullptr);
  EXPECT_FALSE(graph::findOptimizer("adamw")->state("exp_avg_sq")->isSigned);
  EXPECT_EQ(graph::findOptimizer("adamw")->state("sum"), nullptr);
  EXPECT_TRUE(graph::findState("momentum_buffer")->isSigned);
}

/// A shard's length follows from the world size: the decomposition makes no constant of that length.
TEST(DecompositionTable, AdamwTakesATensorOfUnknownLength) {
  GraphContext context;
  auto module = context.parse(
      R"(func.func @f(%p: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<16xf32>,
                                              %s: tensor<f32>, %go: tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %a, %b, %c = graph.optimizer_step "adamw" %p, %g keeps(%m, %v) by(%h, %s, %go) decayed 4
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
    return %a, %b, %c : tensor<?xf32>, tensor<?xf32>, tensor<?xf32> })");
  ASSERT_TRUE(module);
  ASSERT_TRUE(succeeded(decomposeInPlace(module->lookupSymbol<func::FuncOp>("f"))));
  EXPECT_TRUE(succeeded(verify(*module)));
}

/// The training form of linear_cross_entropy is not an op that the reverse walk enters: its cotangents against finite
/// differences.
void expectTrainingForm(StringRef name) {
  GraphContext context;
  const MacroCase *macro = llvm::find_if(kMacros, [&](const MacroCase &entry) { return entry.name == name; });
  ASSERT_NE(macro, std::end(kMacros));
  auto module = context.parse(macro->function);
  ASSERT_TRUE(module);
  auto f = module->lookupSymbol<func::FuncOp>("f");
  for (uint64_t seed : {1, 2, 3}) {
    Tensors arguments = randomArguments(f, seed);
    std::mt19937_64 generator(seed + 100);
    auto results = interpret(f, arguments);
    ASSERT_TRUE(succeeded(results));
    for (unsigned index : {0, 1}) {
      Tensor direction = randomTensor(arguments[index].type(), generator);
      const double h = 6e-6;
      double loss[2];
      for (int side : {0, 1}) {
        Tensors moved = arguments;
        for (size_t i = 0; i < direction.reals.size(); ++i)
          moved[index].reals[i] += (side ? h : -h) * direction.reals[i];
        loss[side] = (*interpret(f, moved))[0].reals[0];
      }
      double numeric = arguments[3].reals[0] * (loss[1] - loss[0]) / (2 * h);
      EXPECT_NEAR(dot((*results)[1 + index], direction), numeric, 1e-6 * std::max(1.0, std::abs(numeric)));
    }
  }
}

TEST(LinearCrossEntropy, TrainingFormAgreesWithFiniteDifferences) {
  expectTrainingForm("linear_cross_entropy_training");
  expectTrainingForm("linear_cross_entropy_bent");
  expectTrainingForm("linear_cross_entropy_bent_weighted");
}

} // namespace
